"""What the competitors of the paper have in common."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.errors import InputError
from lessbits.methods.base import Method, Start
from lessbits.methods.gradients import Gradients
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Quantizer
from lessbits.quantizers.exact import Exact


class Baseline(Method):
    """A method with a gradient oracle, and step sizes of its own.

    Gossip methods mix with M = I - W, where W is the network's Laplacian: M is symmetric with rows that sum to one, and
    Mv = v - Wv, where Wv is the disagreement that messages give.
    """

    gradients: Gradients

    compresses: ClassVar[bool] = False  # whether it takes a quantizer
    usual_quantizer: ClassVar[str] = "dit-4"  # where it does, and none is named
    options: ClassVar[tuple[str, ...]] = ("B", "C", "D")  # the gradients it takes
    mixes: ClassVar[bool] = True  # whether it needs M to be a contraction
    guarded: ClassVar[bool] = False  # whether it notices too large steps itself, so that none need be tried first

    @classmethod
    @abstractmethod
    def suggest(
        cls, problem: Problem, network: Network, compressor: Compressor, gradients: Gradients, practical: bool
    ) -> dict[str, float]:
        """Return a value for each step size: what its reference proves, or larger ones that are `practical`."""

    @classmethod
    def facts(cls, problem: Problem, network: Network, gradients: Gradients) -> dict[str, Any]:
        """Return what else the method must know of the problem and the network, by field."""
        return {}

    @classmethod
    def configure(
        cls,
        problem: Problem,
        network: Network,
        compressor: Compressor,
        gradients: Gradients,
        practical: bool = False,
        **given: float,
    ) -> Self:
        """Make the method for a problem and a network; step sizes not given are suggested."""
        cls.check_gradients(problem, gradients)
        missing = set(cls.step_size_names) - given.keys()
        sizes = cls.suggest(problem, network, compressor, gradients, practical) if missing else {}
        facts = cls.facts(problem, network, gradients)
        known = {"quantizer": compressor, "gradients": gradients, **facts, **sizes, **given}
        names = [entry.name for entry in fields(cls) if entry.name in known]  # type: ignore[arg-type]
        return cls(**{name: known[name] for name in names})

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """One vector as it is, unless the method says otherwise."""
        return (Exact(),)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse step sizes that are no numbers, gradients that do not fit, and weights that do not mix."""
        self.check_gradients(problem, self.gradients)
        # Below 1 the weighted degrees alone show λ_max < 2, and no eigenvalue need be found.
        if self.mixes and network.weighted_degree.max() >= 1 and network.lambda_max >= 2 - 1e-9:
            raise InputError(
                f"{self.name} mixes with I - W, which needs λ_max(W) below 2, but {network.weighting} weights make it "
                f"{network.lambda_max:.4g}: take metropolis weights"
            )
        self.check_step_sizes()

    @classmethod
    def check_gradients(cls, problem: Problem, gradients: Gradients) -> None:
        """Refuse options that the method does not have, and batches that do not fit."""
        if gradients.option not in cls.options:
            raise InputError(
                f"option {gradients.option} was asked of {cls.name}, which has only {', '.join(cls.options)}"
            )
        gradients.check(problem)

    def check_step_sizes(self, names: Iterable[str] | None = None) -> None:
        """Every step size must be a finite number above zero; some may be zero."""
        for name in self.step_size_names if names is None else names:
            size = float(getattr(self, name))
            if not np.isfinite(size) or size < 0 or (size == 0 and name not in self.from_zero):
                least = "at least" if name in self.from_zero else "above"
                raise InputError(f"{name} is {size:g}, but it must be a finite number {least} 0")

    def check_unbiased(self, compressor: Compressor) -> None:
        """Refuse biased compressors."""
        if not isinstance(compressor, Quantizer):
            raise InputError(f"{self.name} was given {compressor.name}, which is biased: choose one such as dit-4")

    def passes(self, problem: Problem) -> float:
        """As the gradients do."""
        return self.gradients.passes(problem)

    def suspect(self, problem: Problem) -> str:
        """Gradient descent alone diverges above η = 2/L; below that it is the first step size named."""
        too_large = "eta" in self.step_size_names and self.gradients.too_large(float(getattr(self, "eta", 0)), problem)
        return "eta" if too_large else self.step_size_names[0]


def start_at(problem: Problem, nodes: jax.Array, start: Start) -> jax.Array:
    """Return x⁰: what was given, or the problem's own start."""
    return problem.start() if start.x is None else jnp.asarray(start.x, jnp.result_type(float))[nodes]


def decayed(step_size: Any, decay: Any, iteration: jax.Array, power: float = 1.0) -> jax.Array:
    """Return the step size of an iteration k, s/(1 + decay·k)^power."""
    return step_size / (1 + decay * iteration) ** power


def spectral_gap(network: Network) -> float:
    """1 - σ, with σ the second largest modulus of an eigenvalue of M = I - W."""
    return 1 - max(abs(1 - network.lambda_min), abs(1 - network.lambda_max))
