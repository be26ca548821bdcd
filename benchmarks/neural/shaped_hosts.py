"""Hosts in network namespaces on one bridge, each with an uplink of limited speed. It needs root."""

import os
import subprocess

DEVICE = "site"  # what the device of each host is called there


def run(*command):
    """Run a command, and raise with what it said if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


class ShapedHosts:
    """A context manager. Host i has the address 10.78.0.(i+1), and sends at most so many Mbit/s; nothing is delayed."""

    def __init__(self, hosts, rate):
        self.hosts, self.rate = hosts, rate
        self.names = [f"ln{os.getpid()}-{number}" for number in range(hosts + 1)]  # the last one has the bridge

    def __enter__(self):
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            middle = self.names[-1]
            run("ip", "-n", middle, "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", middle, "link", "set", "bridge", "up")
            for number, name in enumerate(self.names[:-1]):
                ends = ("type", "veth", "peer", "name", f"to-{number}", "netns", middle)
                run("ip", "-n", name, "link", "add", DEVICE, *ends)
                run("ip", "-n", middle, "link", "set", f"to-{number}", "master", "bridge", "up")
                run("ip", "-n", name, "link", "set", "lo", "up")
                run("ip", "-n", name, "addr", "add", f"{self.address(number)}/24", "dev", DEVICE)
                run("ip", "-n", name, "link", "set", DEVICE, "up")
                burst = max(20_000, int(self.rate * 1e6 / 8 / 100))  # a hundredth of a second
                shape = ("rate", f"{self.rate}mbit", "burst", str(burst), "latency", "400ms")
                run("tc", "-n", name, "qdisc", "add", "dev", DEVICE, "root", "tbf", *shape)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ignored):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    @staticmethod
    def address(number):
        """Return the address of a host."""
        return f"10.78.0.{number + 1}"

    def inside(self, number):
        """Return what to put before a command so that it runs at a host."""
        return ["ip", "netns", "exec", self.names[number]]
