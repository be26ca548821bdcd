"""Compiled programs in the suite: kept between runs, shared by the workers of one run, and forgotten in good time.

Most of the suite's time is compiling. `keep_compiled` gives each process a folder of its own, which it shares when it
ends; workers live as long as the suite does, so they share what they have after each file.
"""

import ctypes
import os
from pathlib import Path

import jax

from lessbits._internal.programs import keep_compiled


def set_up_programs():
    """Set JAX up as the command line does, and keep even the smallest programs: those that are forgotten come back."""
    jax.config.update("jax_enable_x64", True)
    keep_compiled()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def exchange_programs():
    """Give others the programs of this process, and take theirs; links, so that nobody reads half a program."""
    folder = jax.config.jax_compilation_cache_dir
    if folder and Path(folder).name.startswith("at-work-"):
        _link_missing(Path(folder), Path(folder).parent)
        _link_missing(Path(folder).parent, Path(folder))


def _link_missing(source, target):
    there = {entry.name for entry in os.scandir(target)}
    for entry in os.scandir(source):
        if entry.name not in there and entry.is_file():
            try:
                os.link(entry.path, target / entry.name)
            except (FileExistsError, FileNotFoundError):  # the other worker was quicker
                continue


def resident_megabytes():
    """Return the memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def forget_programs(most_megabytes):
    """Forget all programs if this process takes more memory than that."""
    if resident_megabytes() > most_megabytes:
        jax.clear_caches()
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)  # else what compiling took stays with the process
