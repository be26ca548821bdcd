"""The one folder in which the library keeps files of its own: downloaded data, and compiled programs."""

from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder for lessbits: on Linux `$XDG_CACHE_HOME/lessbits` or `~/.cache/lessbits`."""
    from platformdirs import user_cache_path  # here: `lessbits --help` has no use for it

    folder = user_cache_path("lessbits", appauthor=False)
    # The XDG specification says that a relative path is to be ignored; platformdirs 4.10 and older follow it.
    return folder if folder.is_absolute() else Path.home() / ".cache" / "lessbits"
