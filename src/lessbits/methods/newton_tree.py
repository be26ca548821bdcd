"""Newton's steps on a tree: as `tree`, and the Hessians are summed in the first round.

    all nodes       g_i = ∇f_i(x) - μx,   in the first round also H_i = ∇²f_i(x) - μI
    up the tree     m_i, as `tree`;   in the first round also T_i = C(H_i + Σ over the children c of T_c)
    the root        H = (H_root + Σ T_c)/n + μI, and x' = x - H⁻¹ĝ in the first round; later ones correct H by BFGS
    down the tree   x ← x + C(x' - x), then m_i ← m_i + T_i(x⁺ - x) at both ends

A Hessian has d(d+1)/2 numbers, so the first round is longer by far. Where the loss is quadratic, or nearly so, it saves
most of the others: least squares need one to three rounds. That is faster than `tree` where an exchange takes longer
than its bits do. Both ends of a link know T_i, and so how the sum should have changed: only what that misses is sent.
The curvature is that of the first point. Where it changes much on the way, as in logistic regression, it is no help.
"""

from dataclasses import replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.elimination import eliminate
from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Step, message_draws
from lessbits.methods.base import Start
from lessbits.methods.chunks import add_to_chunk, chunk_length, take_chunk
from lessbits.methods.outbox import Outbox
from lessbits.methods.quasi_newton import dots
from lessbits.methods.tree import Tree, TreeState
from lessbits.networks.local import LocalNetwork
from lessbits.problems.base import Problem
from lessbits.quantizers.base import Compressor

FLATTEST = 1e-6  # the least pivot, as a share of the largest curvature of a coordinate


class NewtonTreeState(NamedTuple):
    """The state of `tree`, the point of the last gradients, and upper triangles of Hessians."""

    plain: TreeState
    before: jax.Array
    own_hessian: jax.Array  # H_i
    reported_hessian: jax.Array  # T_i
    collected_hessian: jax.Array  # Σ T_c over the children

    @property
    def x(self) -> jax.Array:
        """The shared point."""
        return self.plain.x


@pytree
class NewtonTree(Tree):
    """Sums over a spanning tree, with the Hessians in the first round: fewest rounds where losses are nearly quadratic.

    Attributes:
        eta: Step size η of the gradient, by which pairs of steps and gradient changes are judged.
        quantizer: The compressor of messages.
        parent: The parent of each node in the tree.
        depth: The depth of each node in the tree.
        height: The height of the tree.
        convexity: The strong convexity μ of the losses, at least 0.
        gradients: The gradients to take: option B.
        pairs: How many pairs of steps and gradient changes the root stores.
        roots: How many roots this process holds: one or none.
        chunks: The number C of messages that a vector, and a Hessian, is cut into.
    """

    name = "newton-tree"
    if_diverged = "Newton's steps are for losses that are nearly quadratic, take tree"
    options: ClassVar[tuple[str, ...]] = ("B",)
    default_quantizer = "grid:100"
    note = "sums Hessians up a spanning tree, d/2 times the bits of a round: few rounds if losses are nearly quadratic."

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """The quantizer of sums and steps, and of Hessians."""
        return (self.quantizer, self.quantizer)

    def message_lengths(self, dim: int) -> tuple[int, ...]:
        """The coordinates of a chunk of a vector, and of a Hessian."""
        return chunk_length(dim, self.chunks), chunk_length(dim * (dim + 1) // 2, self.chunks)

    def busy_links(self, sent: np.ndarray) -> np.ndarray:
        """Return on how many links something was sent: Hessians go with gradients."""
        return sent[:, 0]

    @classmethod
    def may_send_fewest_bits(cls, problem: Problem) -> bool:
        """Return False: it saves time."""
        return False

    def init(self, problem: Problem, local: LocalNetwork, start: Start) -> NewtonTreeState:  # type: ignore[override]
        """Return the first state, as that of `tree`."""
        plain, dim = super().init(problem, local, start), problem.dim
        zeros = jnp.zeros((plain.x.shape[0], dim * (dim + 1) // 2), plain.x.dtype)
        plain = plain._replace(metric=jnp.zeros((self.roots, dim, dim), plain.x.dtype))
        return NewtonTreeState(plain, plain.x, zeros, zeros, zeros)

    def send(  # type: ignore[override]
        self, step: Step, state: NewtonTreeState, problem: Problem, local: LocalNetwork
    ) -> tuple[NewtonTreeState, Outbox, jax.Array]:
        """Send as `tree`; in the first sweep up also the sums of Hessians."""
        first = step.iteration == 0
        own = lax.cond(
            first, lambda _: own_hessians(state.x, problem, self.convexity), lambda kept: kept, state.own_hessian
        )
        state = lax.cond(self.phase(step) == 0, self._foresee, lambda state: state, state._replace(own_hessian=own))
        plain, (message,), work = super().send(step, state.plain, problem, local)
        work = work + jnp.where(first, problem.dim, 0).astype(work.dtype) * problem.counts
        number, _ = self.turn(self.phase(step), self.depth[local.nodes])
        chunk = take_chunk(own + state.collected_hessian, self.chunks, number)
        draw = message_draws(step, local.nodes, per_link=False)
        payload = self.quantizer.quantize(chunk, self.quantizer.measure(chunk), draw)
        up = step.iteration < self.sweep
        assert message.active is not None
        assert message.awaited is not None
        hessian = replace(message, payload=payload, active=message.active & up, awaited=message.awaited & up)
        return state._replace(plain=plain), (message, hessian), work

    def _foresee(self, state: NewtonTreeState) -> NewtonTreeState:
        """Move the sums that were sent to what they should be at the new point, as both ends of a link can."""
        plain, step = state.plain, state.plain.x - state.before
        reported = plain.reported + times(state.reported_hessian, step)
        collected = plain.collected + times(state.collected_hessian, step)
        return state._replace(plain=plain._replace(reported=reported, collected=collected), before=plain.x)

    def receive(  # type: ignore[override]
        self, step: Step, state: NewtonTreeState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> NewtonTreeState:
        """Add the Hessians that came to the sums. After the last one the root has the metric of its steps."""

        def add(state: NewtonTreeState) -> NewtonTreeState:
            return self._add_hessians(step, state, outbox, inbox, local)

        def learn(state: NewtonTreeState) -> NewtonTreeState:
            return state._replace(plain=state.plain._replace(metric=self._metric(state, local)))

        state = lax.cond(step.iteration < self.sweep, add, lambda state: state, state)
        state = lax.cond(step.iteration == self.sweep - 1, learn, lambda state: state, state)
        return state._replace(plain=super().receive(step, state.plain, outbox[:1], inbox[:1], local))

    def _add_hessians(
        self, step: Step, state: NewtonTreeState, outbox: Outbox, inbox: Outbox, local: LocalNetwork
    ) -> NewtonTreeState:
        depth, came = self.depth[local.nodes], inbox[1].active
        assert came is not None
        arrived = local.sum(
            lambda slot: jnp.where(came[slot.links][:, None], self.quantizer.decode(inbox[1].take(slot.links)), 0)
        )
        (sent, sends), (heard, _) = self.turn(self.phase(step), depth), self.turn(self.phase(step), depth + 1)
        mine = jnp.where(sends[:, None], self.quantizer.decode(outbox[1].payload), 0)
        return state._replace(
            reported_hessian=add_to_chunk(state.reported_hessian, self.chunks, sent, mine),
            collected_hessian=add_to_chunk(state.collected_hessian, self.chunks, heard, arrived),
        )

    def _metric(self, state: NewtonTreeState, local: LocalNetwork) -> jax.Array | None:
        """Return the factors of H at the root, in the process that holds it."""
        if not self.roots:
            return state.plain.metric
        root, dim = jnp.argmin(self.depth[local.nodes]), state.x.shape[1]
        matrix = whole((state.own_hessian + state.collected_hessian)[root] / self.depth.shape[0], dim)
        return factors(matrix, self.convexity)[None]


def own_hessians(x: jax.Array, problem: Problem, convexity: jax.Array | float) -> jax.Array:
    """Return the upper triangle of each node's Hessian, without μI, which all nodes know."""
    rows, columns = np.triu_indices(problem.dim)
    known = convexity * jnp.asarray(rows == columns, x.dtype)

    def of(node: jax.Array) -> jax.Array:  # one by one, so that bits do not depend on how many a process holds
        return problem.restrict(node[None]).hessian(x[node][None])[0, rows, columns] - known

    return lax.map(of, lax.iota(jnp.int32, x.shape[0]))


def times(triangles: jax.Array, vectors: jax.Array) -> jax.Array:
    """Return the products of symmetric matrices, given by upper triangles, with vectors, row by row."""

    def product(row: tuple[jax.Array, jax.Array]) -> jax.Array:
        return dots(whole(row[0], vectors.shape[1]), row[1][None])

    return lax.map(product, (triangles, vectors))


def factors(matrix: jax.Array, convexity: jax.Array | float) -> jax.Array:
    """Return the factors of a mean Hessian to which μI is added."""
    matrix = matrix + convexity * jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    return eliminate(matrix[None], jnp.maximum(convexity, FLATTEST * jnp.max(jnp.diagonal(matrix))))[0]


def whole(triangle: jax.Array, dim: int) -> jax.Array:
    """Return the symmetric matrix of an upper triangle."""
    rows, columns = np.triu_indices(dim)
    return jnp.zeros((dim, dim), triangle.dtype).at[rows, columns].set(triangle).at[columns, rows].set(triangle)
