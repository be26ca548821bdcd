"""A lock on a folder, so that one process writes there at a time. The system takes it back when the process ends."""

import errno
import os
import socket
from pathlib import Path
from typing import IO

from lessbits._internal.logging import logger

try:
    import fcntl
except ImportError:  # Windows: there the user must see to it that one process writes
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


class FolderLock:
    """The lock on a folder, which is a file in it. It is held until `release`, or until the process ends.

    It raises an OSError if the folder cannot be written, and BlockingIOError if another has the lock, with its name.
    """

    def __init__(self, folder: Path) -> None:
        self.stream: IO[str] | None = (folder / NAME).open("a+", encoding="utf-8")
        try:
            if fcntl is not None:
                fcntl.flock(self.stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.stream.seek(0)
            owner = self.stream.read(200).strip()
            self.release()
            raise BlockingIOError(errno.EWOULDBLOCK, owner or "another process") from None
        except OSError as error:  # some network file systems
            logger.warning(f"{folder} cannot be locked ({error.strerror}): let only one run write there")
        self.stream.truncate(0)
        self.stream.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self.stream.flush()

    def release(self) -> None:
        """Let others have the lock. The file stays: to remove it while another opens it would give two locks."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None
