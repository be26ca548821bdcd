"""Compiled programs in the suite: kept between runs, shared by the workers of one run, and forgotten in good time.

Most of the suite's time is compiling. `keep_compiled` gives each process a folder of its own, which it shares when it
ends; workers live as long as the suite does, so they share what they have after each file.
"""

import ctypes
import os
from functools import cache, wraps
from pathlib import Path

import jax

from lessbits._internal.programs import keep_compiled
from lessbits._internal.quick_programs import QUICK

_options = {}


def set_up_programs():
    """Set JAX up as the command line does, and keep even the smallest programs: those that are forgotten come back."""
    jax.config.update("jax_enable_x64", True)
    # No array is broadcast or converted without a word.
    jax.config.update("jax_numpy_rank_promotion", "raise")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    keep_compiled()
    _take_options()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def compile_quickly(quickly):
    """Compile four times as fast, or as for users.

    JAX takes such options for one program only, so its function for them is replaced, as long as it is there.
    """
    options = QUICK if quickly and _known() else {}
    if options != _options:
        jax.clear_caches()  # what is compiled already was so in the other way
        _options.clear()
        _options.update(options)


def quick_flags():
    """Return the environment with which another process compiles quickly."""
    flags = [f"--{name}={str(value).lower()}" for name, value in QUICK.items()]
    return {"XLA_FLAGS": " ".join(flags)} if _known() else {}


@cache
def _known():
    """Return whether this version of JAX has these options."""
    try:
        jax.jit(lambda: 0, compiler_options=QUICK)()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _take_options():
    try:
        from jax._src import compiler

        original = compiler.get_compile_options
    except (ImportError, AttributeError):
        return

    @wraps(original)
    def get_compile_options(*arguments, **named):
        named["env_options_overrides"] = {**_options, **(named.get("env_options_overrides") or {})}
        return original(*arguments, **named)

    compiler.get_compile_options = get_compile_options


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
    """Forget all programs if this process takes more memory than that, and not only because it keeps what is free."""
    if resident_megabytes() > most_megabytes:
        _give_back_memory()
    if resident_megabytes() > most_megabytes:
        jax.clear_caches()
        _give_back_memory()


def _give_back_memory():
    """Give free memory back to the system: what compiling took would stay with the process."""
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
