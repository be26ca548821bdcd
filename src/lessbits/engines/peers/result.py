"""What a site has at the end of its run, and what identifies the run."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from lessbits._internal.hashing import fingerprint
from lessbits.engines.peers.options import SiteOptions
from lessbits.methods.base import Method


@dataclass(frozen=True)
class SiteResult:
    """What a site has at the end of its run.

    Attributes:
        x: The solution, as this site has it.
        iterations: Iterations taken.
        converged: Whether the target was reached.
        interrupted: Whether the run was ended before, by a signal.
        estimate: The site's estimate of its squared distance to the optimum.
        sent_bytes: Bytes sent to all neighbours, with headers.
        received_bytes: Bytes received from them.
        seconds: Seconds from the first iteration to the last.
        without: The neighbours that took no part when the end was decided.
    """

    x: np.ndarray
    iterations: int
    converged: bool
    interrupted: bool
    estimate: float
    sent_bytes: int
    received_bytes: int
    seconds: float
    without: tuple[str, ...] = ()


OPTIONS = ("mode", "iterations", "until", "alone")  # of a site's, those that all share
PART_DIGITS = 4  # of the mark of each part
PARTS = ("method", "step sizes", "quantizer", "seed", "code", "clip", "precision", *OPTIONS)


def _parts(method: Method, seed: int, code: str, clip: float | None, options: SiteOptions) -> dict[str, Any]:
    """Return what the sites of a run must have in common besides the roster, by a name for people."""
    sizes = [getattr(method, name) for name in method.step_size_names]
    return {
        "method": (type(method).__name__, method.gradients, getattr(method, "local_steps", 1)),
        "step sizes": sizes,
        "quantizer": method.compressors,
        "seed": seed,
        "code": code,
        "clip": clip,
        "precision": str(jnp.result_type(float)),
        **{name: getattr(options, name) for name in OPTIONS},
    }


def run_mark(method: Method, seed: int, code: str, clip: float | None, options: SiteOptions) -> str:
    """Return hexadecimal digits for all that the sites of a run must have in common besides the roster.

    The first 16 are for all of it, and four more for each part, so that sites can say in which they differ.
    """
    parts = _parts(method, seed, code, clip, options)
    marks = [fingerprint(parts[name])[:PART_DIGITS] for name in PARTS]
    return fingerprint(method, *parts.values()) + "".join(marks)


def differing_parts(mine: str, theirs: str) -> list[str]:
    """Return the parts in which two marks of `run_mark` differ, as far as they tell."""
    start = len(mine) - PART_DIGITS * len(PARTS)
    if len(mine) != len(theirs) or start < 0:
        return []
    places = range(start, len(mine), PART_DIGITS)
    return [
        name
        for name, at in zip(PARTS, places, strict=True)
        if mine[at : at + PART_DIGITS] != theirs[at : at + PART_DIGITS]
    ]
