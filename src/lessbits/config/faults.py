"""The faults that settings describe: those of a file, and the shorthands for one probability or delay."""

from dataclasses import replace

from lessbits.config.settings import Settings
from lessbits.faults import Faults
from lessbits.faults.files import read_faults
from lessbits.networks import Network

SHORTHANDS = ("drop", "lose", "delay")


def faults_in(settings: Settings, network: Network) -> Faults | None:
    """Return the faults of a run; None if the settings name none. A shorthand takes the place of the file's entry."""
    given = {name: getattr(settings, name) for name in SHORTHANDS if getattr(settings, name) is not None}
    if settings.faults is None and not given:
        return None
    faults = Faults() if settings.faults is None else read_faults(settings.faults, network)
    return replace(faults, **given)
