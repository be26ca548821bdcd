"""How much memory is free, and the refusal of what cannot fit, before the kernel ends the process without a word."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lessbits.errors import InputError, out_of_memory

GROUPS = Path("/sys/fs/cgroup")  # limits of containers and of batch systems


def check_fits(needed: float, free: float | None, what: str, advice: str) -> None:
    """Raise an `InputError` if `what` needs more bytes than are free. An unknown amount is enough for all."""
    if free is not None and needed > free:
        raise InputError(f"{what} needs about {as_gigabytes(needed)}, but {as_gigabytes(free)} are free: {advice}")


@contextmanager
def memory_in_a_line() -> Iterator[None]:
    """Raise an `InputError` in place of an error that says that the memory is full, of Python or of JAX."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # JAX's errors are RuntimeErrors
        if (line := out_of_memory(error)) is None:
            raise
        raise InputError(line) from None


def as_gigabytes(size: float) -> str:
    """Return bytes in words.

    >>> as_gigabytes(16.6e9), as_gigabytes(2.5e6)
    ('16.6 GB of memory', '2.5 MB of memory')
    """
    return f"{size / 1e9:.3g} GB of memory" if size >= 1e9 else f"{size / 1e6:.3g} MB of memory"


def free_memory() -> int | None:
    """Return the bytes that this process may still take; None if that cannot be found out."""
    known = [amount for amount in (_free_on_machine(), _free_in_group()) if amount is not None]
    return min(known) if known else None


def _free_on_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:  # not Linux: all memory of the machine, which is more than is free
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _free_in_group() -> int | None:
    """Return the bytes that the control group of this process may still take; None without a limit."""
    for folder, limit, used in (
        (GROUPS / _group_name(), "memory.max", "memory.current"),
        (GROUPS, "memory.max", "memory.current"),
        (GROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            most, taken = (int((folder / name).read_text()) for name in (limit, used))
        except (OSError, ValueError):  # no such file, or "max"
            continue
        return max(0, most - taken + _file_cache(folder))
    return None


def _group_name() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")


def _file_cache(folder: Path) -> int:
    """Return the bytes of cached files, which the kernel gives back when they are needed."""
    try:
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int(facts.get("inactive_file", 0))
    except (OSError, ValueError):
        return 0
