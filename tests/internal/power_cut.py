"""A disk that loses power: it drops what was not synced, in every way that a file system may.

`recorded` keeps the calls that `lessbits._internal.files` makes to the system. `after_cuts` replays the first of them,
and yields what the disk may hold if the power fails then. Data of a file that was not synced may be missing, cut off or
zeros. Of the names in a folder that were changed since it was synced, any may be as before; a rename is done or not.
"""

import itertools
import os
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lessbits._internal import files


class Call(NamedTuple):
    what: str  # create, write, sync, sync folder, rename, remove
    path: str
    content: bytes = b""
    target: str = ""


class _System:
    """The module os, as `files` sees it; `skip` names a kind of call that is forgotten."""

    def __init__(self, calls, skip):
        self.calls, self.skip, self.paths = calls, skip, {}

    def __getattr__(self, name):
        return getattr(os, name)

    def open(self, path, flags, mode=0o777):
        descriptor = os.open(path, flags, mode)
        self.paths[descriptor] = str(path)
        if flags & os.O_CREAT:
            self.calls.append(Call("create", str(path)))
        return descriptor

    def write(self, descriptor, data):
        taken = os.write(descriptor, data[: max(1, len(data) // 2)])  # as the system may do: not all at once
        self.calls.append(Call("write", self.paths[descriptor], bytes(data[:taken])))
        return taken

    def fsync(self, descriptor):
        path = self.paths[descriptor]
        what = "sync folder" if os.path.isdir(path) else "sync"
        if what != self.skip:
            os.fsync(descriptor)
            self.calls.append(Call(what, path))

    def replace(self, path, target):
        os.replace(path, target)
        self.calls.append(Call("rename", str(path), target=str(target)))

    def unlink(self, path):
        os.unlink(path)
        self.calls.append(Call("remove", str(path)))


@contextmanager
def recorded(monkeypatch, skip=None):
    """Give the list of calls, which grows while files are written."""
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", _System(calls, skip))
        yield calls


class _File:
    """What is on the disk of a file, and what was written since."""

    def __init__(self, content=b"", synced=True):
        self.now, self.durable, self.synced = content, content, synced

    def outcomes(self):
        if self.synced:
            return [self.durable]
        half = self.now[: len(self.now) // 2]
        return list({self.durable, b"", half, bytes(len(self.now)), self.now})


def after_cuts(before, calls):
    """Yield (number of calls made, what the folder may hold), where `before` is what it held, by path."""
    for number in range(len(calls) + 1):
        names = {path: _File(content) for path, content in before.items()}  # as processes see them
        durable, pending = dict(names), []  # as the disk has them, and changes that may get there
        for call in calls[:number]:
            if call.what == "create":
                names[call.path] = _File(synced=False)
                pending.append((None, call.path, names[call.path]))
            elif call.what == "write":
                names[call.path].now += call.content
                names[call.path].synced = False
            elif call.what == "sync":
                names[call.path].durable, names[call.path].synced = names[call.path].now, True
            elif call.what == "rename":
                names[call.target] = names.pop(call.path)
                pending.append((call.path, call.target, names[call.target]))
            elif call.what == "remove":
                names.pop(call.path, None)
                pending.append((call.path, None, None))
            elif call.what == "sync folder":
                durable, pending = dict(names), []
        for arrived in itertools.product([False, True], repeat=len(pending)):
            held = dict(durable)
            for old, new, file in itertools.compress(pending, arrived):
                held.pop(old, None)
                if new is not None:
                    held[new] = file
            for contents in itertools.product(*(file.outcomes() for file in held.values())):
                yield number, dict(zip(held, contents, strict=True))


def contents_of(folder):
    """Return the files of a folder, by path."""
    return {str(path): path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
