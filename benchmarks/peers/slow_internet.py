"""A slow internet on one machine: hosts in network namespaces, links of limited speed, and latency.

    sudo python benchmarks/peers/slow_internet.py [--hosts 4] [--rate 10e6] [--latency 0.05]

Each host has one TUN device, in a namespace of its own. The kernel's token bucket (`tc … tbf`) limits what the host
sends. A relay process reads the packets of all devices, holds each back for the latency, and writes it to the device
of its destination. Kernels without `netem` can do this. As a program, it measures what it has made, and says so.
"""

import argparse
import contextlib
import fcntl
import heapq
import os
import selectors
import signal
import struct
import subprocess
import sys
import time

MTU = 1500
DEVICE = "site"  # what the device of each host is called there
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
RING = 1000  # packets that the kernel holds for the relay


def run(*command, **options):
    """Run a command, and raise with what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class SlowInternet:
    """Hosts with slow uplinks; a context manager. Host i has the address 10.77.0.(i+1).

    Args:
        hosts: How many.
        rate: Bits per second that each host can send.
        latency: Seconds that each packet travels, one way.
    """

    def __init__(self, hosts, rate, latency):
        self.hosts, self.rate, self.latency = hosts, rate, latency
        self.names = [f"lb{os.getpid()}-{number}" for number in range(hosts)]
        self.relay = None

    def __enter__(self):
        previous = signal.signal(signal.SIGTERM, _interrupt)  # so that namespaces are removed then, too
        self.restore = lambda: signal.signal(signal.SIGTERM, previous)
        devices = []
        try:
            for number, name in enumerate(self.names):
                run("ip", "netns", "add", name)
                devices.append(self._make_device(number, name))
            command = [sys.executable, __file__, "--relay", str(self.latency), *(str(each) for each in devices)]
            self.relay = subprocess.Popen(command, pass_fds=devices, start_new_session=True)
        except BaseException:
            self.__exit__()
            raise
        finally:
            for device in devices:
                os.close(device)
        return self

    def _make_device(self, number, space):
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        outside = f"lb{os.getpid() % 10**6}n{number}"
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", outside.encode(), IFF_TUN | IFF_NO_PI))
        run("ip", "link", "set", outside, "netns", space, "name", DEVICE)
        inside = ("ip", "-n", space)
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "addr", "add", f"{self.address(number)}/24", "dev", DEVICE)
        run(*inside, "link", "set", DEVICE, "mtu", str(MTU), "txqueuelen", str(RING), "up")
        # A bucket of two packets, so that the rate is felt at once. What does not fit waits, and nothing is lost.
        shape = ("rate", f"{int(self.rate)}bit", "burst", str(2 * MTU), "limit", str(400 * MTU))
        run("tc", "-n", space, "qdisc", "add", "dev", DEVICE, "root", "tbf", *shape)
        return device

    def __exit__(self, *ignored):
        if self.relay:
            self.relay.kill()
            self.relay.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        self.restore()

    @staticmethod
    def address(number):
        """Return the address of a host."""
        return f"10.77.0.{number + 1}"

    def inside(self, number):
        """Return what to put before a command so that it runs at a host."""
        return ["ip", "netns", "exec", self.names[number]]

    def sent(self):
        """Return the bytes that each host has sent so far, with all headers down to IP."""
        found = []
        for name in self.names:
            lines = run("ip", "-n", name, "-s", "link", "show", DEVICE).splitlines()
            # tx_bytes of the device: what the relay has read, or may read at once
            found.append(int(lines[[line.strip().startswith("TX:") for line in lines].index(True) + 1].split()[0]))
        return found

    def __str__(self):
        speed = f"{self.rate / 1e6:g} Mbit/s" if self.rate >= 1e6 else f"{self.rate / 1e3:g} kbit/s"
        return f"{speed} up, {1000 * self.latency:g} ms one way"


def _interrupt(*ignored):
    raise KeyboardInterrupt


def _relay(devices, latency):
    """Carry packets between devices, until the parent is gone; in a process of its own."""
    parent = os.getppid()
    try:
        os.nice(-15)  # it stands for wires, which no busy processor delays
        selector = selectors.DefaultSelector()
        for device in devices:
            selector.register(device, selectors.EVENT_READ)
        waiting, count = [], 0
        while os.getppid() == parent:
            pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
            for key, _ in selector.select(pause):
                arrival = time.monotonic() + latency
                for packet in _packets(key.fd):
                    heapq.heappush(waiting, (arrival, count, packet))
                    count += 1
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                packet = heapq.heappop(waiting)[2]
                # The last byte of an IPv4 destination says which host it is; all else is noise of the kernel.
                if packet[0] >> 4 == 4 and packet[16:19] == b"\x0a\x4d\x00" and packet[19] <= len(devices):
                    _write(devices[packet[19] - 1], packet)
    finally:
        os._exit(0)


def _packets(device):
    for _ in range(64):
        try:
            yield os.read(device, MTU + 100)
        except BlockingIOError:
            return


def _write(device, packet):
    with contextlib.suppress(OSError):  # the host is gone, or has no room: IP may lose packets
        os.write(device, packet)


# ---------------------------------------------------------------------- what it has made

_SINK = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 7000)); server.settimeout(20)
peer, _ = server.accept(); peer.settimeout(60)
peer.sendall(peer.recv(1))
first, size = None, 0
while data := peer.recv(65536):
    first = first or time.monotonic(); size += len(data)
peer.sendall(b"%d" % (8 * size / (time.monotonic() - first)))
"""
_SOURCE = """
import socket, sys, time
for _ in range(50):
    try: peer = socket.create_connection((sys.argv[1], 7000), 5); break
    except ConnectionRefusedError: time.sleep(0.1)
began = time.monotonic(); peer.sendall(b"x"); peer.recv(1); trip = time.monotonic() - began
peer.settimeout(60); peer.sendall(bytes(int(sys.argv[2]))); peer.shutdown(socket.SHUT_WR)
print(trip, int(peer.recv(100)))
"""


def check(space):
    """Return the round trip between two hosts in seconds, and the bits per second that TCP got."""
    size = str(int(space.rate * 4 / 8))  # four seconds
    sink = subprocess.Popen([*space.inside(1), sys.executable, "-c", _SINK, space.address(1)])
    try:
        command = [*space.inside(0), sys.executable, "-c", _SOURCE, space.address(1), size]
        trip, speed = run(*command).split()
        sink.wait(10)
    finally:
        sink.kill()
        sink.wait()
    return float(trip), float(speed)


def main():
    if sys.argv[1:2] == ["--relay"]:
        _relay([int(each) for each in sys.argv[3:]], float(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", type=float, default=10e6)
    parser.add_argument("--latency", type=float, default=0.05)
    options = parser.parse_args()
    with SlowInternet(options.hosts, options.rate, options.latency) as space:
        trip, speed = check(space)
        print(f"{space}: round trip {1000 * trip:.1f} ms, {speed / 1e6:.4g} Mbit/s of TCP payload, sent {space.sent()}")


if __name__ == "__main__":
    main()
