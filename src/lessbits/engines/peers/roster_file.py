"""A roster that may change while a run goes on."""

import os
from pathlib import Path
from threading import Lock

from lessbits._internal.logging import logger
from lessbits.engines.peers.roster import FORMAT, Roster, certificate_files, read_roster, roster_from_table
from lessbits.engines.peers.toml_files import read_table
from lessbits.errors import InputError, check_path

Stamp = tuple[int, ...] | None  # what changes with a file; None if it is not there


class RosterFile:
    """A roster's file, which is read again when it or a certificate has changed.

    A roster that is broken, or that is not one of the same run, is not used: the one before stays in force, and a
    warning says so, once per change. Threads may share an object.

    Args:
        path: The TOML file. It must be right when the object is made.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = check_path("the roster", path)
        self._lock = Lock()
        # Looked at before they are read, so that a change in between is seen the next time.
        self._seen = {self.path: _stamp(self.path)}
        self._seen |= {file: _stamp(file) for file in self._certificates()}
        self._roster = read_roster(self.path)

    def current(self) -> Roster:
        """Return the roster in force. It is the same object as before if nothing has changed."""
        with self._lock:
            now = {file: _stamp(file) for file in self._seen}
            if now != self._seen:
                self._seen = now
                self._read_again()
            return self._roster

    def _certificates(self) -> list[Path]:
        return certificate_files(read_table(self.path, "roster", FORMAT), self.path)

    def _read_again(self) -> None:
        """Read the files, and keep the roster if it can follow the one in force."""
        try:
            table = read_table(self.path, "roster", FORMAT)
            # Also those that are missing: the roster is right once they are there, and its own file stays as it is.
            files = certificate_files(table, self.path)
            self._seen = {file: self._seen.get(file, _stamp(file)) for file in (self.path, *files)}
            roster = roster_from_table(table, self.path)
            self._check_follows(roster)
        except InputError as error:
            logger.warning(f"the roster has changed, but the one before stays in force: {error}")
        else:
            self._roster = roster

    def _check_follows(self, roster: Roster) -> None:
        """Raise InputError if a roster changes what must stay for the whole run."""
        if roster.digest() != self._roster.digest():
            raise InputError(
                f"{self.path} changes the run, its settings, its founders or their links, which needs a restart of all"
            )
        before, after = ([site.name for site in one.sites] for one in (self._roster, roster))
        if after[: len(before)] != before:
            raise InputError(
                f"{self.path} has removed or moved a site, so that numbers of sites change: put new sites last, and "
                "write withdrawn = true instead of removing one"
            )


def _stamp(file: Path) -> Stamp:
    try:
        found = os.stat(file)
    except (OSError, ValueError):  # not there, or a name that no file can have
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns
