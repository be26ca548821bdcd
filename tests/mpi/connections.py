"""TCP connections between two processes, and their reset from outside, while both processes live."""

import contextlib
import ctypes
import os
import socket
from pathlib import Path

import pytest

# One machine, yet no shared memory: every message goes through TCP.
TCP = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_GETFD = 438  # the system call, which has this number on all machines
UNSPECIFIED = bytes(16)  # an address of the family AF_UNSPEC


@contextlib.contextmanager
def connections(number):
    """Yield the TCP sockets of a process that are connected, each with the ports of its two ends."""
    with contextlib.ExitStack() as stack:
        process, found = os.pidfd_open(number), []
        stack.callback(os.close, process)
        for entry in Path(f"/proc/{number}/fd").iterdir():
            try:
                if not os.readlink(entry).startswith("socket:"):
                    continue
                each = stack.enter_context(socket.socket(fileno=_copy(process, int(entry.name))))
                if each.family == socket.AF_INET:
                    found.append((each, each.getsockname()[1], each.getpeername()[1]))
            except PermissionError:
                pytest.skip("the sockets of other processes cannot be reached")
            except OSError:  # it was closed meanwhile, or is not connected
                continue
        yield found


def _copy(process, descriptor):
    copy = LIBC.syscall(PIDFD_GETFD, process, descriptor, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return copy


def reset(one, other):
    """Reset the connections between two processes, and return how many there were.

    To connect a socket to no address sends RST to the other end, and both ends find ECONNRESET.
    """
    with connections(one) as ours, connections(other) as theirs:
        ports = {(far, near) for _, near, far in theirs}
        hit = [each for each, near, far in ours if (near, far) in ports]
        for each in hit:
            assert LIBC.connect(each.fileno(), UNSPECIFIED, len(UNSPECIFIED)) == 0, os.strerror(ctypes.get_errno())
        return len(hit)
