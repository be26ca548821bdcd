"""What a site has at the end of its run, and what identifies the run."""

from dataclasses import dataclass

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


def run_mark(method: Method, seed: int, code: str, clip: float | None, options: SiteOptions) -> str:
    """Return 16 hexadecimal digits for all that the sites of a run must have in common besides the roster."""
    kind = str(jnp.result_type(float))
    return fingerprint(method, seed, code, clip, kind, options.mode, options.iterations, options.until, options.alone)
