"""What methods share whose nodes are all at one point: they sum gradients, and take one step."""

from typing import ClassVar

from lessbits.errors import InputError
from lessbits.methods.base import Method, MethodRequest, StepSize
from lessbits.methods.gradients import Gradients
from lessbits.networks.network import Network
from lessbits.problems.base import Problem
from lessbits.quantizers import KEYED
from lessbits.quantizers.base import Compressor, Quantizer

PAIRS = 20  # pairs of steps and gradient changes that are stored
FINENESSES = (1, 2, 3, 5, 10, 30, 100, 300, 1000, 10_000, 100_000, 300_000, 1_000_000, 1_500_000)  # that a search tries


class SharedPoint(Method):
    """Base class of methods that sum the gradients at a point of all nodes, in messages that nodes pass on."""

    quantizer: Compressor
    step_sizes = (StepSize("eta", "η", "step size of the gradient"),)
    options: ClassVar[tuple[str, ...]] = ("B", "C", "D")
    compresses = True
    default_quantizer = "grid:10"
    likely_quantizers = ("grid:10", "grid:4", "grid:2")  # they share one program
    mixes = False  # it sums, and does not mix
    guarded = True

    @classmethod
    def suggest(cls, request: MethodRequest) -> dict[str, float]:
        """Return η = 1/L, or less if gradients are noisy. It is used for the first step and after a failed one."""
        return {"eta": {"B": 1, "C": 1 / 2, "D": 1 / 6}[request.gradients.option] / request.smoothness}

    @staticmethod
    def pairs_for(gradients: Gradients) -> int:
        """Return how many pairs are stored: none for noisy gradients, which do not show the curvature."""
        return PAIRS if gradients.option == "B" else 0

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer: by default a link carries one message at a time."""
        return (self.quantizer,)

    def check(self, problem: Problem, network: Network) -> None:
        """Raise InputError for payloads that only a direct receiver can decode, and for noise above the signal."""
        super().check(problem, network)
        if isinstance(self.quantizer, KEYED):
            raise InputError(
                f"{self.name} was given {self.quantizer.name}, which only the first to receive a message can decode, "
                "but nodes pass messages on: choose grid:10 or dit-8"
            )
        longest = max(self.message_lengths(problem.dim))
        omega = self.quantizer.omega(longest) if isinstance(self.quantizer, Quantizer) else 0
        if omega >= 1:
            raise InputError(
                f"{self.name} was given {self.quantizer.name}, whose noise is larger than what is sent "
                f"(ω = {omega:.3g}): choose grid:10, or scaled-{self.quantizer.name}"
            )

    def passes(self, problem: Problem) -> float:
        """Return the share of samples per iteration: one gradient per round."""
        return self.gradients.passes(problem) / self.round_length

    @classmethod
    def quantizers_to_try(cls, dim: int) -> list[str]:
        """Return grids from coarse to fine."""
        return [f"grid:{fineness}" for fineness in FINENESSES]
