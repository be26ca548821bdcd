"""Keeps compiled programs between runs, in the user's cache folder: most of a small run's time is compiling."""

import hashlib
import os
import platform
from pathlib import Path

MOST_BYTES = 2**30  # of all programs
SHORTEST = 0.05  # seconds of compiling below which keeping a program does not pay


def cache_folder() -> Path:
    """Return the folder for programs of this machine: a program for other processors may not run here."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        facts = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        kind = "".join(line for line in facts.splitlines() if line.startswith(("model name", "flags", "Features")))
    except OSError:
        kind = platform.processor()
    mark = hashlib.sha256(f"{platform.machine()} {kind}".encode()).hexdigest()[:12]
    return home / "lessbits" / f"compiled-{mark}"


def keep_compiled() -> None:
    """Let JAX keep what it compiles, unless the user has said where, or LESSBITS_COMPILED=off."""
    if os.environ.get("LESSBITS_COMPILED") == "off" or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    import jax

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
    except OSError:
        return  # a home that cannot be written is no reason not to run
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


def _prune(folder: Path) -> None:
    """Remove the oldest programs if there are too many: JAX's own limit would need locks, which many ranks wait for."""
    files = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder))
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= MOST_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        total -= size
