"""Checks that commands make before they load JAX, so that a mistake is reported at once."""

import os
from collections.abc import Iterable
from pathlib import Path

from lessbits._internal.files import why_not_writable
from lessbits.errors import InputError


def check_not_read(written: Iterable[Path | None], read: Iterable[str | Path | None]) -> None:
    """Refuse outputs that would replace a file that the command reads. Bare words, such as ring, are no files."""
    sources = [Path(os.path.expanduser(place)) for place in read if place is not None]
    # os.path returns False for names that no file can have.
    found = [source for source in sources if (source.suffix or len(source.parts) > 1) and os.path.isfile(source)]
    places = {os.path.realpath(source) for source in found}
    for file in written:
        if file is not None and file.is_file() and os.path.realpath(file) in places:
            raise InputError(f"{file} is read, and cannot be an output too: name another file")


def check_writable(*files: Path | None, appended: Path | None = None) -> None:
    """Refuse output files that cannot be written, and a file that is named for two outputs."""
    given = [file for file in (*files, appended) if file is not None]
    places = [os.path.realpath(file) for file in given]
    for file in given:
        if (reason := why_not_writable(file, append=file is appended)) is not None:
            raise InputError(f"{file} cannot be written: {reason}")
        if places.count(os.path.realpath(file)) > 1 and (file.is_file() or not file.exists()):  # a device takes several
            raise InputError(f"{file} is named for two outputs: give each its own file")


def check_scored(scoring: str, **asked: object) -> None:
    """Refuse what needs scores, or gathers the nodes' numbers, if scoring is off; the engine would, but much later."""
    given = [name for name, value in asked.items() if value is not None]
    if scoring == "off" and given:
        raise InputError(f"{given[0]} was given, but scoring is off, and nothing is gathered: leave one of them out")


def check_folder(folder: Path | None) -> None:
    """Refuse a file where an output folder is needed, and a folder that cannot be made or written."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, but results go into a folder: name another")
    above = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not above.is_dir():
        raise InputError(f"{folder} cannot be written: {above} is a file; name another folder")
    if not os.access(above, os.W_OK):
        raise InputError(f"{folder} cannot be written: you have no right to write to {above}; name another folder")
