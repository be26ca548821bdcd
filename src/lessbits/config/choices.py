"""Conversion between settings and the choices of a search."""

from typing import Any

from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.errors import InputError
from lessbits.tuning.estimates import Choice


def apply_choice(choice: Choice, settings: Settings, **changes: Any) -> Settings:
    """Return the settings with this choice in place of their own."""
    reset = dict.fromkeys((*STEP_SIZES, "messages", "option")) | {"corrected": False, "batch_size": 1}
    return settings.updated(**reset | choice.changes() | changes)


def check_scored(settings: Settings, command: str) -> None:
    """Raise an `InputError` if nothing is scored: then nothing can be ranked."""
    if settings.scoring == "off":
        raise InputError(f"scoring is off, but {command} ranks runs by their scores: take solution or loss")


def check_question(settings: Settings, reason: str) -> None:
    """Raise an `InputError` for settings that a search for the fewest bits cannot keep: step sizes, a target of 0."""
    check_scored(settings, "a search for the fewest bits")
    for name in STEP_SIZES:
        if getattr(settings, name) is not None:
            raise InputError(f"{name} was given, but {reason}: leave it out")
    if settings.until is not None and settings.until <= 0:
        raise InputError(
            f"until is {settings.until:g}, but no finite number of bits leads there: give a target above 0"
        )
