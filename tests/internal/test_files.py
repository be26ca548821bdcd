"""Files are written whole, synced before they get their name, or not at all."""

import errno
import os
from pathlib import Path

import pytest

from lessbits._internal.files import write_whole


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    happened = []
    sync, rename = os.fsync, Path.replace

    def synced(number):
        happened.append(("sync", os.fstat(number).st_size))
        sync(number)

    def renamed(path, target):
        happened.append(("rename", Path(target).name))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_whole(tmp_path / "mine.txt", "all of it")
    assert happened == [("sync", 9), ("rename", "mine.txt")]
    assert (tmp_path / "mine.txt").read_text() == "all of it"


def test_a_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "mine.txt"
    write_whole(file, b"old")

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
