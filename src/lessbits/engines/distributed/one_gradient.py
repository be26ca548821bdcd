"""Problems of which only one gradient at a time is known, and methods that need no more than that."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step, make_seed
from lessbits.errors import InputError
from lessbits.methods.base import Method, Start
from lessbits.networks import Network
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem


class OneGradient(Problem):
    """A problem of which only the gradient at the current x is known."""

    endless, has_losses = True, False

    def stochastic_gradient(self, x: jax.Array, step: Step, nodes: jax.Array, batch_size: int) -> jax.Array:
        """Return the same gradient: the caller drew the batch."""
        return self.gradient(x)

    def _unknown(self, *arguments: Any, **named: Any) -> Any:
        raise InputError("only one gradient at x is known here")

    sample_gradient = dual_gradient = losses = hessian = sample_smoothness = _unknown
    smoothness = convexity = property(_unknown)


@pytree
class SuppliedGradient(OneGradient):
    """A problem whose gradient the user supplies in each iteration."""

    vectors: jax.Array  # [local nodes, dim]
    counts: jax.Array

    @classmethod
    def zeros(cls, dim: int) -> "SuppliedGradient":
        """Return a zero gradient."""
        return cls(jnp.zeros((1, dim)), jnp.ones(1, jnp.int32))

    @property
    def dim(self) -> int:
        """Length of the gradient."""
        return self.vectors.shape[1]

    def gradient(self, x: jax.Array) -> jax.Array:
        """Return the supplied gradient, for any x."""
        return self.vectors


class _Probe(OneGradient):
    """Stores the points at which a method evaluates gradients."""

    def __init__(self, dim: int) -> None:
        self.counts, self.size = jnp.ones(1, jnp.int32), dim
        self.points: list[Any] = []

    @property
    def dim(self) -> int:
        return self.size

    def gradient(self, x: jax.Array) -> jax.Array:
        self.points.append(x)
        return jnp.zeros_like(x)


def check_one_gradient(method: Method, network: Network, dim: int) -> None:
    """Raise an `InputError` unless the method takes exactly one gradient per iteration, at its current x."""
    probe = _Probe(dim)
    points = probe.points
    local = LocalNetwork.of(network, np.array([0]))

    found: list[bool] = []

    def send(state: Any) -> Any:
        found.append(not points)  # `init` took no gradient
        sent = method.send(Step(make_seed(0), jnp.int32(0)), state, probe, local)
        # While tracing, `is` distinguishes x itself from anything computed from it.
        found.append(len(points) == 1 and points[0] is state.x)
        return sent

    try:
        state = jax.eval_shape(lambda: method.init(probe, local, Start(x=jnp.zeros((network.nodes, dim)))))
        jax.eval_shape(send, state)
    except InputError:  # the method used something that is not known here
        found.append(False)
    if not all(found):
        raise InputError(
            f"{method.name}{_option(method)} does not take exactly one gradient at x in each iteration, so it cannot "
            "be driven step by step: choose option B or C of primal-dual, dgd, qdgd, choco, extra, gradient-tracking, "
            "nids or lead"
        )


def _option(method: Method) -> str:
    gradients = getattr(method, "gradients", None)
    option = getattr(method, "option", getattr(gradients, "option", None))
    return f" with option {option}" if option else ""
