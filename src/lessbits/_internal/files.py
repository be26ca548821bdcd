"""Output files: the one place that writes them.

A file is written beside its place, synced to the disk, and renamed, and then its folder is synced. So after a power
cut, a crash or a full disk, either the old or the new file is whole. A device, a pipe or /dev/stdout is written to, and
never replaced. The file that a symbolic link points to is replaced, and the link stays.
"""

import csv
import errno
import io
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from lessbits.errors import FolderError, MissingFolderError

PARTIAL = ".partial"  # the end of the name that a file has until it is whole
MOST_LINKS = 40  # symbolic links that point to each other in a row, as in Linux


def write_whole(path: str | PathLike[str], content: str | bytes) -> None:
    """Write a file completely or not at all. An OSError names it or its folder, and the old one is still there."""
    data = content.encode() if isinstance(content, str) else content
    try:
        place = _follow(path)
        kind = None if isinstance(place, int) else _kind(place)
        if isinstance(place, int):
            _write_and_close(os.dup(place), data)
        elif kind is None or stat.S_ISREG(kind):
            _write_beside(place, data, kind)
        else:  # a folder refuses it
            _write_and_close(os.open(place, os.O_WRONLY | getattr(os, "O_NOCTTY", 0)), data)
    except OSError as error:
        if not (folder := Path(path).parent).exists():
            raise MissingFolderError(f"there is no folder {folder}: make it first") from error
        if isinstance(error, IsADirectoryError):
            raise FolderError(f"{path} is a folder, but a file is written there: name one in it") from error
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a table, with all columns that any of them has."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, stream.getvalue())


def put_in_place(partial: Path, place: Path) -> None:
    """Sync a file that is complete, give it its name, and sync the folder."""
    descriptor = os.open(partial, os.O_RDWR if os.name == "nt" else os.O_RDONLY)  # Windows syncs what it may write
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(partial, place)
    _sync_folder(place.parent)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, so that they are there after a power cut too."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            os.mkdir(place)
        _sync_folder(place.parent)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(folder))


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def why_not_writable(path: Path, append: bool = False) -> str | None:
    """Return why an output cannot be written, and what to do; None if it can. `append` says that it is not replaced."""
    try:
        place = _follow(path)
        kind = None if isinstance(place, int) else _kind(place)
    except OSError as error:
        return f"{error.strerror}; name another file"
    if isinstance(place, int):
        return None
    if not place.parent.is_dir():
        return f"there is no folder {path.parent}; make it first"
    if kind is not None and stat.S_ISDIR(kind):
        return "it is a folder; name a file in it"
    if kind is not None and stat.S_ISSOCK(kind):
        return "it is a socket; name a file"
    if not os.access(place.parent if kind is None else place, os.W_OK):
        return "you have no right to; name another file"
    if kind is not None and stat.S_ISREG(kind) and not append and not os.access(place.parent, os.W_OK):
        return f"you have no right to write in its folder {path.parent}, where it is first written under another name"
    return None


def keep_elsewhere(write: Callable[[Path], None]) -> Path | None:
    """Write results that could not be written where they were wanted; return their folder, or None if there is none.

    It is a new one in the user's folder for the state of programs, or else in that for temporary files.

    Args:
        write: Called with the folder, until it raises no OSError.
    """
    from platformdirs import user_state_path

    def state_folder() -> Path:
        folder = user_state_path("lessbits", appauthor=False) / "unsaved" / secrets.token_hex(4)
        make_folder(folder)
        return folder

    for find_folder in (state_folder, lambda: Path(tempfile.mkdtemp(prefix="lessbits-"))):
        try:
            folder = find_folder()
            write(folder)
        except OSError:
            continue
        return folder
    return None


def _follow(path: str | PathLike[str]) -> Path | int:
    """Return the place that a path leads to over symbolic links; a number is a descriptor of this process."""
    place = os.fspath(path)
    for _ in range(MOST_LINKS):
        place = os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
        if own := re.fullmatch(rf"/(?:dev|proc/{os.getpid()})/fd/(\d+)", place):
            return int(own[1])  # opened anew, /dev/stdout would be overwritten from its beginning
        if not os.path.islink(place):
            return Path(place)
        place = os.path.join(os.path.dirname(place), os.readlink(place))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)


def _kind(place: Path) -> int | None:
    """Return the type and the rights of what is there; None if nothing is."""
    try:
        return os.stat(place).st_mode
    except FileNotFoundError:
        return None


def _write_beside(place: Path, data: bytes, mode: int | None) -> None:
    """Write a file under another name, and rename it. The file has the rights of the one that it replaces."""
    partial = place.with_name(f"{place.name[:50]}.{secrets.token_hex(4)}{PARTIAL}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        if mode is not None and hasattr(os, "fchmod"):
            with suppress(OSError):  # of another owner
                os.fchmod(descriptor, stat.S_IMODE(mode))
        _write_and_close(descriptor, data)
        put_in_place(partial, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def _write_and_close(descriptor: int, data: bytes) -> None:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Have a new name in a folder on the disk. Some network file systems do not know how; Windows does not let us."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
