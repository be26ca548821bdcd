"""Checks that commands make before they load JAX, so that a mistake is reported at once."""

import os
from pathlib import Path

from lessbits.errors import InputError


def check_writable(*files: Path | None) -> None:
    """Refuse output files that cannot be written, and a file that is named for two outputs."""
    given = [file for file in files if file is not None]
    for file in given:
        if not file.parent.is_dir():
            raise InputError(f"{file} cannot be written: there is no folder {file.parent}; make it first")
        if file.is_dir():
            raise InputError(f"{file} cannot be written: it is a folder; name a file in it")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise InputError(f"{file} cannot be written: you have no right to; name another file")
        if given.count(file) > 1:
            raise InputError(f"{file} is named for two outputs: give each its own file")


def check_folder(folder: Path | None) -> None:
    """Refuse a file where an output folder is needed."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, but results go into a folder: name another")
