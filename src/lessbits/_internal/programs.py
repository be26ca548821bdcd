"""A cache of compiled programs in the user's cache folder, because compiling takes most of the time of a small run.

JAX writes a program directly into the folder that other processes read. A process that is killed while writing leaves
an incomplete program, which JAX reports in every later run, and ranks that start together read each other's incomplete
programs. So each process has its own folder, with hard links to all cached programs. When it ends, it links its new
programs, now complete, into the cache.

Within one process a program takes some 200 memory maps. Linux allows 65 530; beyond that XLA crashes. So a process that
has compiled many programs drops them before it compiles more.
"""

import atexit
import glob
import hashlib
import itertools
import os
import platform
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lessbits._internal.cache import cache_folder

MOST_BYTES = 2**30  # largest size of the cache
MIN_COMPILE_SECONDS = 0.05  # programs that compile in fewer seconds are not cached
SELDOM = 16  # the maps are counted once in this many calls, because counting takes up to 30 ms
_calls = itertools.count()
_unpublished: list[tuple[Path, Path]] = []  # the folder of this process, and the cache
FORGOTTEN = 86_400  # seconds after which a process on another machine counts as killed


def programs_folder() -> Path:
    """Return the cache folder for this kind of processor; programs for other processors may not run here."""
    try:
        facts = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        kind = "".join(line for line in facts.splitlines() if line.startswith(("model name", "flags", "Features")))
    except OSError:
        kind = platform.processor()
    mark = hashlib.sha256(f"{platform.machine()} {kind}".encode()).hexdigest()[:12]
    return cache_folder() / f"compiled-{mark}"


def keep_compiled() -> None:
    """Turn on JAX's compilation cache, unless the user has set its folder, or LESSBITS_COMPILED=off."""
    if os.environ.get("LESSBITS_COMPILED") == "off" or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    import jax

    folder = programs_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
        own_folder = Path(tempfile.mkdtemp(prefix=f"at-work-{os.getpid()}-", suffix=f"-{platform.node()}", dir=folder))
        _link_all(folder, own_folder)
    except OSError:
        return  # without write access or hard links, run without the cache
    _unpublished.append((own_folder, folder))
    atexit.register(publish_compiled)
    _remove_damaged(own_folder, folder)
    jax.config.update("jax_compilation_cache_dir", str(own_folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    # XLA's own caches would make the name of the folder part of the keys of programs.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def publish_compiled() -> None:
    """Add the programs that this process has compiled to the cache; at the end of the process."""
    while _unpublished:
        _publish(*_unpublished.pop())


def _remove_damaged(*folders: Path) -> None:
    """Have a program that cannot be read removed, so that it is compiled and kept again.

    JAX would warn, and leave it where it is: every later run would warn, and compile it again.
    """
    try:
        from jax._src import compilation_cache

        read = compilation_cache.get_executable_and_time
    except (ImportError, AttributeError):  # in a version of JAX that does this elsewhere
        return

    def read_or_remove(key: str, *arguments: Any, **keywords: Any) -> Any:
        try:
            return read(key, *arguments, **keywords)
        except Exception:
            for folder in folders:
                for program in folder.glob(f"{glob.escape(key)}*"):
                    program.unlink(missing_ok=True)
            return None, None

    compilation_cache.get_executable_and_time = read_or_remove  # type: ignore[assignment]


def make_room() -> None:
    """Drop this process's programs if they use more than half of the memory maps allowed."""
    if next(_calls) % SELDOM:
        return
    try:
        most = int(Path("/proc/sys/vm/max_map_count").read_text())
        with open("/proc/self/maps", "rb") as maps:
            used = sum(1 for _ in maps)
    except OSError:  # systems other than Linux have no such limit
        return
    if used > most / 2:
        import jax

        jax.clear_caches()


def _link_all(source: Path, target: Path) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_file() and not (target / entry.name).exists():
                with suppress(FileExistsError, FileNotFoundError):  # another process has linked or removed it meanwhile
                    os.link(entry.path, target / entry.name)


def _publish(own_folder: Path, folder: Path) -> None:
    """Link the programs that this process has compiled into the cache, and remove its folder."""
    try:
        _link_all(own_folder, folder)
    except OSError:
        return
    finally:
        shutil.rmtree(own_folder, ignore_errors=True)


def _has_ended(name: str, changed: float) -> bool:
    """Return whether the process of a folder seems to have ended."""
    local = re.fullmatch(rf"at-work-(\d+)-.*-{re.escape(platform.node())}", name)
    if local and Path("/proc").is_dir():
        return not Path("/proc", local[1]).exists()
    return changed < time.time() - FORGOTTEN


def _prune(folder: Path) -> None:
    """Remove folders of killed processes, and the oldest programs if the cache is too large.

    JAX's own size limit uses locks, on which many ranks would wait.
    """
    programs = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                facts = entry.stat()
            except FileNotFoundError:  # another process has removed it meanwhile
                continue
            if entry.is_dir():
                if _has_ended(entry.name, facts.st_mtime):
                    shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.is_file():
                programs.append((facts.st_mtime, facts.st_size, entry.path))
    total = sum(size for _, size, _ in programs)
    for _, size, path in sorted(programs):
        if total <= MOST_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        total -= size
