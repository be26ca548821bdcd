"""Which messages a site sent and applied in which of its iterations: enough to repeat its run in the simulator.

A site writes a line per iteration. If it is started again, it appends to the same file: a line that says whether it
began anew or from a checkpoint, and then further iterations.
"""

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from lessbits.errors import InputError, check_path

FORMAT = "lessbits-schedule-1"

At = tuple[int, int]  # epoch and round


class Turn(NamedTuple):
    """One iteration of a site, or the beginning of one of its processes.

    Attributes:
        iteration: Its number.
        resets: Neighbours whose links were set to zero before it.
        up: Neighbours whose links took part.
        sent: Epoch and round of the messages that were sent, by neighbour.
        applied: Epoch and round of the messages that were applied, by neighbour.
        restored: For a beginning, the number of the checkpoint that it went on from; -1 if it began anew. None for an
            iteration.
        checkpoint: The number of the checkpoint that was written after it; 0 for none.
    """

    iteration: int
    resets: list[str]
    up: list[str]
    sent: dict[str, At]
    applied: dict[str, At]
    restored: int | None = None
    checkpoint: int = 0


class Schedule:
    """The record of one site, while it runs.

    Args:
        site: The name of the site.
        file: The file to append to.
    """

    def __init__(self, site: str, file: Path) -> None:
        self.site, self.checkpoints = site, 0
        try:
            self.stream = file.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the schedule {file} cannot be written: {error.strerror or error}") from None

    def begin(self, restored: int) -> None:
        """Note that a process begins, from a checkpoint or, if its number is -1, anew."""
        self.checkpoints = max(restored, 0)
        self._write(format=FORMAT, site=self.site, restored=restored)

    def add(self, turn: Turn) -> None:
        """Add an iteration."""
        self._write(**{name: value for name, value in turn._asdict().items() if name not in ("restored", "checkpoint")})

    def note(
        self,
        iteration: int,
        name: Mapping[int, str],
        resets: Iterable[int],
        up: Mapping[int, At],
        sent: Iterable[int],
        applied: Iterable[int],
    ) -> None:
        """Add an iteration, whose links are given by their rows.

        Args:
            iteration: Its number.
            name: The neighbour of each link.
            resets: Links that were set to zero before it.
            up: Epoch and round of the links that took part.
            sent: Links on which a message was sent.
            applied: Links whose message was applied.
        """
        out, into = ({name[row]: up[row] for row in rows} for rows in (sent, applied))
        self.add(Turn(iteration, [name[row] for row in resets], [name[row] for row in up], out, into))

    def checkpoint(self) -> int:
        """Note that a checkpoint is about to be written, and return its number."""
        self.checkpoints += 1
        self._write(checkpoint=self.checkpoints)
        return self.checkpoints

    def _write(self, **facts: Any) -> None:
        print(json.dumps(facts, separators=(",", ":")), file=self.stream, flush=True)

    def close(self) -> None:
        """Close the file."""
        self.stream.close()


def read_schedule(file: str | PathLike[str]) -> tuple[str, list[Turn]]:
    """Return the name of a site, and its turns.

    A checkpoint is noted with the iteration before it. The last line may be cut off, if the process was killed.
    """
    path = check_path("the schedule", file)
    site, turns = "", list[Turn]()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        for line in lines:
            facts = json.loads(line)
            if "format" in facts:
                if facts["format"] != FORMAT:
                    raise InputError(f"{path} is no schedule of this version: its format is {facts['format']!r}")
                site = str(facts["site"])
                turns.append(Turn(-1, [], [], {}, {}, restored=int(facts["restored"])))
            elif "checkpoint" in facts:
                turns[-1] = turns[-1]._replace(checkpoint=int(facts["checkpoint"]))
            else:
                sent, applied = (
                    {name: (int(epoch), int(number)) for name, (epoch, number) in facts[key].items()}
                    for key in ("sent", "applied")
                )
                turns.append(Turn(int(facts["iteration"]), list(facts["resets"]), list(facts["up"]), sent, applied))
    except OSError as error:
        raise InputError(f"the schedule {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no schedule, or a damaged one: {error}") from None
    if not turns:
        raise InputError(f"{path} is an empty schedule")
    _check_one_run(path, turns)
    return site, turns


def _check_one_run(path: Path, turns: list[Turn]) -> None:
    """Raise an `InputError` if a file holds two runs.

    A site that comes back with nothing begins its links in epochs that they have not had, as its neighbours know those.
    Only if all have begun anew, the same epochs come again.
    """
    before, since = set[tuple[str, int]](), set[tuple[str, int]]()
    for turn in turns:
        if turn.restored == -1:
            before, since = before | since, set()
        since |= {(other, epoch) for at in (turn.sent, turn.applied) for other, (epoch, _) in at.items()}
        if before & since:
            raise InputError(f"{path} holds two runs, one after the other: give each run a file of its own")
