"""Files from elsewhere are refused before they fill the memory: small ones may unpack to large ones, or claim to be."""

import bz2
import gzip
import io
import lzma
import tokenize
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lessbits._internal.memory import as_gigabytes, check_fits, free_memory
from lessbits.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

OPENERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
LOOK_EVERY = 2**24  # bytes between two looks at the free memory
SHARE = 2  # what is read may take this part of the free memory, one half: it is converted and copied afterwards
ADVICE = "take a machine with more memory, or a smaller file"


def open_bounded(path: Path) -> IO[bytes]:
    """Open a file, unpacked if its suffix says that it is packed. Reading stops before the memory is full."""
    return io.BufferedReader(_Bounded(OPENERS.get(path.suffix.lower(), open)(path, "rb"), path))


class _Bounded(io.RawIOBase):
    """A stream that raises an `InputError` when what was read has filled half of the memory that was free."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path = stream, path
        self.count, self.seen, self.free = 0, 0, free_memory()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read into a buffer, and look at the free memory now and then."""
        size = self.stream.readinto(buffer)  # type: ignore[attr-defined]
        self.count += size
        if self.count - self.seen >= LOOK_EVERY and self.free is not None:
            self.seen, left = self.count, free_memory()
            if left is not None and left < self.free / SHARE:
                raise InputError(
                    f"{str(self.path)!r} fills the memory: after {self.count / 1e9:.3g} GB of it only "
                    f"{as_gigabytes(left)} are free of {as_gigabytes(self.free)}; {ADVICE}"
                )
        return int(size)

    def close(self) -> None:
        """Close the file."""
        self.stream.close()
        super().close()


def check_file(path: Path, times: float) -> None:
    """Raise an `InputError` if a plain file, which takes `times` its size when it is read, does not fit."""
    check_unpacked(path, times * path.stat().st_size)


def check_unpacked(path: Path, size: float) -> None:
    """Raise an `InputError` if what a file unpacks to does not fit in the memory."""
    free = free_memory()
    check_fits(SHARE * size, free, f"reading {str(path)!r}", ADVICE)


def check_array(stream: IO[bytes], path: Path, stored: int) -> None:
    """Raise an `InputError` if the array of a `.npy` stream is larger than the `stored` bytes, or than the memory.

    NumPy takes memory for the size that the first line claims. The stream is left after that line.
    """
    import numpy as np

    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, kind = read(stream)
    except tokenize.TokenError:  # NumPy takes a line that is no Python for one of Python 2, and reads it by words
        raise ValueError("its first line does not describe an array") from None
    size = kind.itemsize
    for length in shape:
        size *= length
    if size > stored or any(length < 0 for length in shape):
        raise InputError(f"{str(path)!r} claims an array of {size:.3g} bytes, but holds {stored}: write it again")
    check_unpacked(path, size)


def check_archive(path: Path) -> None:
    """Raise an `InputError` if an array of a `.npz` file is larger than its part of the archive, or than the memory."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(path, sum(entry.file_size for entry in archive.infolist()))
        for entry in archive.infolist():
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as stream:
                    check_array(stream, path, entry.file_size)
