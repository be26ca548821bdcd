"""The cache folder of the library, for downloaded data and compiled programs."""

from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder for lessbits: on Linux `$XDG_CACHE_HOME/lessbits` or `~/.cache/lessbits`."""
    from platformdirs import user_cache_path  # here, because `lessbits --help` does not need it

    folder = user_cache_path("lessbits", appauthor=False)
    # The XDG specification says to ignore a relative path, but platformdirs 4.10 and older use it.
    return folder if folder.is_absolute() else Path.home() / ".cache" / "lessbits"
