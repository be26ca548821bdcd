"""Files are written whole or not at all, whatever happens; what is no file is written to, and never replaced."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from internal.power_cut import after_cuts, contents_of, recorded

from lessbits._internal import files
from lessbits._internal.files import keep_elsewhere, make_folder, put_in_place, why_not_writable, write_csv, write_whole


def fail_below(monkeypatch, folder, name="write"):
    """Have the disk of a folder be full: what is written there fails, after its first bytes."""
    real = getattr(os, name)

    def full(descriptor, *data):
        if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder)):
            return real(descriptor, *data)
        if data and len(data[0]) > 1:
            return real(descriptor, data[0][:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, full)


def cut_everywhere(folder, monkeypatch, write, skip=None):
    """Return what the file may be after power cuts at all points, and what it may be after a cut at the end."""
    before = contents_of(folder)
    with recorded(monkeypatch, skip) as calls:
        write()
    target = str(folder / "mine.txt")
    found = [(number, held.get(target)) for number, held in after_cuts(before, calls)]
    assert len(found) > 10
    return {content for _, content in found}, {content for number, content in found if number == len(calls)}


def test_after_a_power_cut_the_old_or_the_new_file_is_whole(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_bytes(b"old")
    anywhere, at_the_end = cut_everywhere(tmp_path, monkeypatch, lambda: write_whole(tmp_path / "mine.txt", "the new"))
    assert (anywhere, at_the_end) == ({b"old", b"the new"}, {b"the new"})
    (tmp_path / "mine.txt").unlink()
    anywhere, at_the_end = cut_everywhere(tmp_path, monkeypatch, lambda: write_whole(tmp_path / "mine.txt", "the new"))
    assert (anywhere, at_the_end) == ({None, b"the new"}, {b"the new"})


def test_the_simulated_power_cut_notices_what_was_not_synced(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_bytes(b"old")

    def write():
        write_whole(tmp_path / "mine.txt", "the new")

    anywhere, _ = cut_everywhere(tmp_path, monkeypatch, write, skip="sync")
    assert bytes(7) in anywhere
    (tmp_path / "mine.txt").write_bytes(b"old")
    _, at_the_end = cut_everywhere(tmp_path, monkeypatch, write, skip="sync folder")
    assert b"old" in at_the_end


def test_a_download_and_a_new_folder_outlast_a_power_cut(tmp_path, monkeypatch):
    (tmp_path / "part").write_bytes(b"all")
    with recorded(monkeypatch) as calls:
        put_in_place(tmp_path / "part", tmp_path / "mine.txt")
        make_folder(tmp_path / "a" / "b")
    done = [(call.what, Path(call.path).name) for call in calls]
    here = tmp_path.name
    assert done == [
        *(("sync", "part"), ("rename", "part"), ("sync folder", here)),
        *(("sync folder", here), ("sync folder", "a")),
    ]
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "mine.txt")


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_keeps_the_old_file_names_it_and_leaves_nothing_else(call, tmp_path, monkeypatch):
    file = tmp_path / "mine.txt"
    write_whole(file, b"old")
    fail_below(monkeypatch, tmp_path, call)
    with pytest.raises(OSError, match="No space left") as error:
        write_whole(file, b"new")
    assert error.value.filename == str(file)
    assert contents_of(tmp_path) == {str(file): b"old"}


def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "put_in_place", press)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "mine.txt", b"new")
    assert contents_of(tmp_path) == {}


def test_the_right_to_read_stays_and_names_may_be_long(tmp_path):
    file = tmp_path / ("é" * 120)
    write_whole(file, b"old")
    file.chmod(0o640)
    write_whole(file, b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o640)


def test_a_link_stays_and_the_file_that_it_points_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "direct").symlink_to(tmp_path / "there" / "file")
    (tmp_path / "link").symlink_to("direct")
    for content in (b"new", b"newer"):  # it points to nothing at first
        write_whole(tmp_path / "link", content)
        assert (tmp_path / "there" / "file").read_bytes() == content
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "direct").is_symlink()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match=r"(?i)symbolic links.*round"):
        write_whole(tmp_path / "round", b"")
    assert "symbolic links" in why_not_writable(tmp_path / "round")


def test_a_device_is_written_to_and_stays_one(tmp_path):
    write_whole("/dev/null", b"gone")
    with pytest.raises(OSError, match="No space left") as error:
        write_whole("/dev/full", b"all")
    assert error.value.filename == "/dev/full"
    for device in ("/dev/null", "/dev/full"):
        assert stat.S_ISCHR(os.stat(device).st_mode)
        assert why_not_writable(Path(device)) is None
    (tmp_path / "link").symlink_to("/dev/null")
    write_whole(tmp_path / "link", b"gone")
    assert (tmp_path / "link").is_symlink()


def test_a_pipe_gets_all_and_folders_and_sockets_refuse(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    came = []
    reader = threading.Thread(target=lambda: came.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    write_whole(tmp_path / "pipe", bytes(300_000))
    reader.join(timeout=600)
    assert came == [bytes(300_000)]
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        with pytest.raises(OSError, match="door"):
            write_whole(tmp_path / "door", b"")
    assert "it is a socket" in why_not_writable(tmp_path / "door")
    assert "it is a folder" in why_not_writable(tmp_path)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("to", ["file", "pipe"])
def test_standard_output_is_written_in_order(name, to, tmp_path):
    code = (
        "import sys; from lessbits._internal.files import write_whole; print('first', flush=True); "
        f"write_whole({name!r}, 'middle\\n'); print('last')"
    )
    if to == "pipe":
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    else:
        with (tmp_path / "out").open("wb") as stream:
            subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
        out = (tmp_path / "out").read_bytes()
    assert out == b"first\nmiddle\nlast\n"


def test_what_cannot_be_written_elsewhere_goes_to_temporary_files(tmp_path, monkeypatch):
    (tmp_path / "state").write_text("a file where the folder should be")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    folder = keep_elsewhere(lambda folder: write_whole(folder / "mine", b"all"))
    assert folder.parent == tmp_path / "temporary"
    assert (folder / "mine").read_bytes() == b"all"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    folder = keep_elsewhere(lambda folder: write_whole(folder / "mine", b"all"))
    assert folder.is_relative_to(tmp_path / "other" / "lessbits" / "unsaved")
    fail_below(monkeypatch, tmp_path)
    assert keep_elsewhere(lambda folder: write_whole(folder / "mine", b"all")) is None


def test_a_table_has_the_columns_of_all_rows(tmp_path):
    write_csv(tmp_path / "table.csv", [{"a": 1}, {"b": 2, "a": 3}])
    assert (tmp_path / "table.csv").read_bytes() == b"a,b\r\n1,\r\n3,2\r\n"
