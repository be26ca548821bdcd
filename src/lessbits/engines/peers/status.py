"""How a running site stands: it answers on a Unix socket in its state folder, and `lessbits peer status` asks there.

Every connection gets one line of JSON, and is closed. The socket is a file that only its owner can open. Nothing that
arrives is read, so nobody can ask a site to do something.
"""

import json
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from lessbits._internal.files import remove
from lessbits._internal.plain_values import plain
from lessbits.errors import InputError, shown

LARGEST_ANSWER = 1_000_000  # bytes
LONGEST_ADDRESS = 100  # bytes of a socket's path; Linux has room for 107, other systems for 103
ANSWER_SECONDS = 2.0  # in which somebody who asks must have read the answer
PROBE_SECONDS = 1.0  # in which a process accepts a connection; even a stopped one does, as the kernel accepts for it
POLL_SECONDS = 0.5  # between two looks at whether to end, where closing a socket does not wake its thread


class StatusServer:
    """Answers who asks on the socket `path` with what `snapshot()` returns, from a thread of its own.

    A socket that a dead process left is replaced. If a process listens there, an `InputError` is raised.

    Args:
        path: The socket's file, in the state folder of the site.
        snapshot: Returns how the site stands, as values that JSON can hold. It is called from another thread.
    """

    def __init__(self, path: Path, snapshot: Callable[[], Mapping[str, Any]]) -> None:
        self.path, self.snapshot = path, snapshot
        self.closing = threading.Event()
        try:
            with _only_one(path.parent):
                _remove_if_stale(path)
                self.listener = _listen(path)
        except OSError as error:
            raise InputError(f"the status socket {path} cannot be made: {error.strerror or error}") from None
        self.own_file = _file_number(path)
        self.listener.settimeout(POLL_SECONDS)
        self.thread = threading.Thread(target=self._serve, name="lessbits-status", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End the thread, and remove the socket unless another process has put its own there."""
        if self.closing.is_set():
            return
        self.closing.set()
        with suppress(OSError):  # wakes the thread at once, on Linux
            self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        with suppress(OSError):  # the folder may be gone
            if _file_number(self.path) == self.own_file:
                remove(self.path)

    def _serve(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:  # closed; or no descriptors are left, which may pass
                self.closing.wait(POLL_SECONDS)
                continue
            with connection, suppress(OSError):  # who asked has left, or does not read
                connection.settimeout(ANSWER_SECONDS)
                connection.sendall(self._answer())

    def _answer(self) -> bytes:
        """Return the line. A snapshot that fails is told to who asked, since the site itself must go on."""
        try:
            return json.dumps(plain(dict(self.snapshot())), allow_nan=False).encode() + b"\n"
        except Exception as error:
            return json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n"


def ask_status(path: Path, timeout: float = 5.0) -> dict[str, Any]:
    """Return how the site stands whose socket this is; an `InputError` says why it cannot be known.

    Args:
        path: The socket's file, in the state folder of the site.
        timeout: Seconds to wait for the whole answer.
    """
    try:
        with _address(path) as address, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(address)
            line = _read_line(connection, path, time.monotonic() + timeout)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise InputError(f"no site runs with the state folder {path.parent}: lessbits peer run starts one") from None
    except (TimeoutError, BlockingIOError):
        raise InputError(
            f"the site in {path.parent} gave no answer in {timeout:g} s: it may be stopped or very busy; ask again"
        ) from None
    except PermissionError:
        raise InputError(f"the site in {path.parent} is another user's: only its owner can ask") from None
    except OSError as error:
        raise InputError(f"the site in {path.parent} cannot be asked: {error.strerror or error}") from None
    return _read_answer(line, path)


def _read_line(connection: socket.socket, path: Path, deadline: float) -> bytes:
    """Return what is sent until the end of the line, or of the connection."""
    parts: list[bytes] = []
    size = 0
    while not parts or b"\n" not in parts[-1]:
        if (left := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        connection.settimeout(left)
        if not (part := connection.recv(65536)):
            break
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise InputError(
                f"the answer at {path} has more than {LARGEST_ANSWER:,} bytes: it is no site of lessbits that answers"
            )
    return b"".join(parts)


def _read_answer(line: bytes, path: Path) -> dict[str, Any]:
    text, end, rest = line.partition(b"\n")
    try:
        if not end or rest:
            raise ValueError("the line is cut")
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise InputError(f"the answer at {path} is no line of JSON: it is no site of lessbits that answers") from None
    if not isinstance(found, dict):
        raise InputError(f"the answer at {path} is {shown(found)}: it is no site of lessbits that answers")
    if set(found) == {"error"}:
        raise InputError(f"the site in {path.parent} runs, but cannot say how it stands ({found['error']})")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        with _address(path) as address:
            listener.bind(address)
        os.chmod(path, 0o600)  # before `listen`, until which nobody can connect
        listener.listen(8)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_if_stale(path: Path) -> None:
    """Remove the socket of a dead process. Raise if a process listens, or if the file is something else."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise InputError(f"{path} is not a socket, but the site's status socket must be there: move it elsewhere")
    try:
        with _address(path) as address, socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PROBE_SECONDS)
            probe.connect(address)
    except ConnectionRefusedError:
        remove(path)
        return
    except FileNotFoundError:
        return
    except (TimeoutError, BlockingIOError):
        pass  # its queue is full, so it is there
    raise InputError(f"another process of this site is running: it answers at {path}; lessbits peer status asks it")


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Keep other processes from looking at and replacing the socket at the same moment."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yield a path for the socket that is short enough: a long one goes over a temporary link to its folder.

    The link is needed only while binding or connecting. The socket itself is at its long path.
    """
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory(prefix="lb-") as folder:
        link = Path(folder) / "s"
        link.symlink_to(path.parent.absolute(), target_is_directory=True)
        short = link / path.name
        if len(os.fsencode(short)) > LONGEST_ADDRESS:
            raise InputError(
                f"the path {path} is too long for a socket, and so is one in {tempfile.gettempdir()}: "
                "take a state folder with a shorter path"
            )
        yield os.fspath(short)


def _file_number(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino
