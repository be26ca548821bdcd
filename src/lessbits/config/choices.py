"""Between settings and what a search chooses."""

from typing import Any

from lessbits.config.settings import STEP_SIZES, Settings
from lessbits.errors import InputError
from lessbits.tuning.estimates import Choice


def apply_choice(choice: Choice, settings: Settings, **changes: Any) -> Settings:
    """Return settings that make this choice, whatever they chose before."""
    nothing = dict.fromkeys((*STEP_SIZES, "messages", "option")) | {"corrected": False, "batch_size": 1}
    return settings.updated(**nothing | choice.changes() | changes)


def check_question(settings: Settings, reason: str) -> None:
    """Refuse what has no answer when the fewest bits are asked for: given step sizes, and a target of zero."""
    for name in STEP_SIZES:
        if getattr(settings, name) is not None:
            raise InputError(f"{name} was given, but {reason}: leave it out")
    if settings.until is not None and settings.until <= 0:
        raise InputError(
            f"until is {settings.until:g}, but no finite number of bits leads there: give a target above 0"
        )
