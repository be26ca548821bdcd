"""Newton's steps by all-gather: as `all-gather`, and the Hessians of all nodes go along in the first round.

    all nodes       g_i = ∇f_i(x) - μx,   in the first round also T_i = C(∇²f_i(x) - μI)
    exchange t      q_j, and in the first round T_j, of every node j at distance t
    all nodes       H = Σ_j T_j/n + μI, and x ← x - H⁻¹ĝ in the first round; later ones correct H by BFGS
                    then m_i ← m_i + T_i(x⁺ - x) at all nodes, as all know the sum of T_i

It is to `all-gather` what `newton-tree` is to `tree`: least squares need one round or two.
"""

from dataclasses import replace
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.axes import Axis
from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step
from lessbits._internal.summation import Sum
from lessbits.methods.all_gather import AllGather, AllGatherState
from lessbits.methods.base import Start
from lessbits.methods.newton_tree import NewtonTree, factors, own_hessians, times, whole
from lessbits.methods.outbox import Outbox
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor, Payload


class NewtonGatherState(NamedTuple):
    """The state of `all-gather`, the point of the last gradients, and upper triangles of Hessians."""

    plain: AllGatherState
    before: jax.Array
    own: jax.Array  # T_i
    total: jax.Array  # Σ_j T_j
    fresh: Payload
    held: Annotated[Payload, Axis.LINK]

    @property
    def x(self) -> jax.Array:
        """The shared point."""
        return self.plain.x


@pytree
class NewtonGather(AllGather):
    """Vectors of all nodes to all nodes, with Hessians in the first round: fewest exchanges for least squares.

    Attributes are those of `AllGather`.
    """

    name = "newton-gather"
    options: ClassVar[tuple[str, ...]] = ("B",)
    default_quantizer = "grid:100"
    if_diverged = NewtonTree.if_diverged
    note = "sends every Hessian to all nodes, d/2 times the bits of a round: fewest exchanges for least squares."

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of vectors, and of Hessians."""
        return (self.quantizer,) * (2 * self.slots)

    def message_lengths(self, dim: int) -> tuple[int, ...]:
        """The coordinates of vectors, and of upper triangles."""
        return (dim,) * self.slots + (dim * (dim + 1) // 2,) * self.slots

    def busy_links(self, sent: np.ndarray) -> np.ndarray:
        """Return what `all-gather` does: Hessians go with vectors."""
        return super().busy_links(sent[:, : self.slots])

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> NewtonGatherState:  # type: ignore[override]
        """Return the first state, as that of `all-gather`."""
        plain, dim = super().init(problem, local, start), problem.dim
        zeros = jnp.zeros((plain.x.shape[0], dim * (dim + 1) // 2), plain.x.dtype)
        plain = plain._replace(metric=jnp.zeros((plain.x.shape[0], dim, dim), plain.x.dtype))
        fresh = self.code(Step(jnp.zeros(2, jnp.uint32), jnp.int32(0)), zeros, local)
        return NewtonGatherState(plain, plain.x, zeros, zeros, fresh, self.nothing_held(fresh, local))

    def send(  # type: ignore[override]
        self, step: Step, state: NewtonGatherState, problem: Problem, local: LocalNetwork
    ) -> tuple[NewtonGatherState, Outbox, jax.Array]:
        """Send as `all-gather`; in the first round also Hessians."""
        first, early = step.iteration == 0, step.iteration < self.round_length

        def take(state: NewtonGatherState) -> NewtonGatherState:
            fresh = self.code(step, own_hessians(state.x, problem, self.convexity), local)
            own = self.quantizer.decode(fresh)
            return state._replace(own=own, total=own, fresh=fresh)

        state = lax.cond(first, take, lambda state: state, state)
        state = lax.cond(self.phase(step) == 0, self._foresee, lambda state: state, state)
        plain, vectors, work = super().send(step, state.plain, problem, local)
        hessians = self.passed_on(self.phase(step), state.fresh, state.held, local)
        hessians = tuple(
            replace(each, active=each.active & early, awaited=each.awaited & early)  # type: ignore[operator]
            for each in hessians
        )
        work = work + jnp.where(first, problem.dim, 0).astype(work.dtype) * problem.counts
        return state._replace(plain=plain), (*vectors, *hessians), work

    def _foresee(self, state: NewtonGatherState) -> NewtonGatherState:
        """Move what was told to what it should be at the new point, as all nodes can."""
        plain, step = state.plain, state.plain.x - state.before
        told, total = plain.told + Sum.of(times(state.own, step)), plain.total + Sum.of(times(state.total, step))
        return state._replace(plain=plain._replace(told=told, total=total), before=plain.x)

    def receive(  # type: ignore[override]
        self, step: Step, state: NewtonGatherState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> NewtonGatherState:
        """Add the Hessians that came. After the last one every node has the metric of its steps."""

        def add(state: NewtonGatherState) -> NewtonGatherState:
            arrived, held = self.arrived(inbox[self.slots :], local)
            return state._replace(total=state.total + arrived, held=held)

        def learn(state: NewtonGatherState) -> NewtonGatherState:
            return state._replace(plain=state.plain._replace(metric=self._metric(state)))

        state = lax.cond(step.iteration < self.round_length, add, lambda state: state, state)
        state = lax.cond(step.iteration == self.round_length - 1, learn, lambda state: state, state)
        return state._replace(
            plain=super().receive(step, state.plain, outbox[: self.slots], inbox[: self.slots], local)
        )

    def _metric(self, state: NewtonGatherState) -> jax.Array:
        """Return the factors of H at each node."""

        def of(triangle: jax.Array) -> jax.Array:  # one by one: the same bits, however many a process holds
            return factors(whole(triangle / self.nodes, state.x.shape[1]), self.convexity)

        return lax.map(of, state.total)
