"""Keeps compiled programs between runs, in the user's cache folder: most of a small run's time is compiling.

JAX writes a program where others read it. A process that is killed meanwhile leaves half a program, which JAX complains
about for ever after, and ranks that start together read each other's unfinished ones. So each process works in a folder
of its own, with hard links to all programs that are kept, and gives its new ones, whole, when it ends.

Within one process a program takes some 200 memory maps, of which Linux grants 65 530; beyond them XLA crashes. So a
process that has compiled very much forgets its programs before it compiles more.
"""

import atexit
import hashlib
import itertools
import os
import platform
import re
import shutil
import tempfile
import time
from pathlib import Path

from lessbits._internal.cache import cache_folder

MOST_BYTES = 2**30  # of all programs
SHORTEST = 0.05  # seconds of compiling below which keeping a program does not pay
SELDOM = 16  # calls to which one looks at the maps, which takes up to 30 ms
_calls = itertools.count()
FORGOTTEN = 86_400  # seconds after which a folder of another machine's process is one that was killed


def programs_folder() -> Path:
    """Return the folder for programs of this machine: a program for other processors may not run here."""
    try:
        facts = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        kind = "".join(line for line in facts.splitlines() if line.startswith(("model name", "flags", "Features")))
    except OSError:
        kind = platform.processor()
    mark = hashlib.sha256(f"{platform.machine()} {kind}".encode()).hexdigest()[:12]
    return cache_folder() / f"compiled-{mark}"


def keep_compiled() -> None:
    """Let JAX keep what it compiles, unless the user has said where, or LESSBITS_COMPILED=off."""
    if os.environ.get("LESSBITS_COMPILED") == "off" or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    import jax

    folder = programs_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
        own = Path(tempfile.mkdtemp(prefix=f"at-work-{os.getpid()}-", suffix=f"-{platform.node()}", dir=folder))
        _link_all(folder, own)
    except OSError:
        return  # a home that cannot be written, or knows no links, is no reason not to run
    atexit.register(_give, own, folder)
    jax.config.update("jax_compilation_cache_dir", str(own))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    # XLA's own caches would put the folder's name into the keys of programs.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def make_room() -> None:
    """Forget this process's programs if they take more than half of the memory maps that it may have."""
    if next(_calls) % SELDOM:
        return
    try:
        most = int(Path("/proc/sys/vm/max_map_count").read_text())
        with open("/proc/self/maps", "rb") as maps:
            taken = sum(1 for _ in maps)
    except OSError:  # other systems have no such limit
        return
    if taken > most / 2:
        import jax

        jax.clear_caches()


def _link_all(source: Path, target: Path) -> None:
    for entry in os.scandir(source):
        if entry.is_file() and not (target / entry.name).exists():
            try:
                os.link(entry.path, target / entry.name)
            except (FileExistsError, FileNotFoundError):  # another process was quicker, or has removed it
                continue


def _give(own: Path, folder: Path) -> None:
    """Keep the programs that this process has compiled."""
    try:
        _link_all(own, folder)
    except OSError:
        return
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _killed(name: str, changed: float) -> bool:
    """Whether the process of a folder is no more, as far as can be told."""
    local = re.fullmatch(rf"at-work-(\d+)-.*-{re.escape(platform.node())}", name)
    if local and Path("/proc").is_dir():
        return not Path("/proc", local[1]).exists()
    return changed < time.time() - FORGOTTEN


def _prune(folder: Path) -> None:
    """Remove folders of processes that were killed, and the oldest programs if there are too many.

    JAX's own limit would need locks, which many ranks wait for.
    """
    programs = []
    for entry in os.scandir(folder):
        facts = entry.stat()
        if entry.is_dir():
            if _killed(entry.name, facts.st_mtime):
                shutil.rmtree(entry.path, ignore_errors=True)
        elif entry.is_file():
            programs.append((facts.st_mtime, facts.st_size, entry.path))
    total = sum(size for _, size, _ in programs)
    for _, size, path in sorted(programs):
        if total <= MOST_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        total -= size
