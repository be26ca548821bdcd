"""The compiled part of a sweep: runs that differ only in step sizes, as lanes of one program."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lessbits._internal.pytrees import put
from lessbits.engines.simulate.program import Program
from lessbits.engines.simulate.run import RECORDS_AT_ONCE
from lessbits.methods.base import Start, State


class BatchState(NamedTuple):
    """The state of the lanes of a batch, and their records since the host last read them."""

    state: State
    iteration: jax.Array
    records: jax.Array  # how many are filled
    values: jax.Array  # of the goal, [records, lanes]
    watched: dict[str, jax.Array]  # the metrics that tell divergence, likewise
    work: jax.Array  # sample gradients
    sent: jax.Array  # messages, [records, lanes, messages of the outbox]
    bytes: jax.Array  # of bodies whose length varies, likewise
    done: jax.Array  # [lanes], whether a lane has reached the goal or diverged


def _map_lanes(function: Callable[..., Any], lanes: int) -> Callable[..., Any]:
    """Map a function over the lanes. A single lane is not batched, as a batched program is slower on a CPU."""
    if lanes > 1:
        return jax.vmap(function)

    def single(*arguments: Any) -> Any:
        result = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: leaf[None], result)

    return single


@partial(jax.jit, donate_argnames=("batch",))
def run_batch(program: Program, sizes: dict[str, jax.Array], batch: BatchState, most: jax.Array) -> BatchState:
    """Run up to `most` records of `record_every` iterations each, until all lanes or all iterations are done."""
    lanes, goal = next(iter(sizes.values())).shape[0], program.stop.goal
    assert goal is not None

    def of(own: dict[str, jax.Array]) -> Program:
        return replace(program, method=replace(program.method, **own))  # type: ignore[type-var]

    def record(batch: BatchState) -> BatchState:
        end = program.end_of_record(batch.iteration)
        state, tally = _map_lanes(lambda own, state: of(own).advance(state, batch.iteration, end), lanes)(
            sizes, batch.state
        )
        metrics = _map_lanes(program.score, lanes)(state)
        at = batch.records
        return BatchState(
            state,
            end,
            at + 1,
            batch.values.at[at].set(metrics[goal]),
            {name: rows.at[at].set(metrics[name]) for name, rows in batch.watched.items()},
            batch.work.at[at].set(tally.work[:, 0]),
            batch.sent.at[at].set(tally.sent),
            batch.bytes.at[at].set(tally.bytes.value),
            batch.done | program.stop.decided(metrics),
        )

    batch = batch._replace(records=jnp.int32(0))

    def unfinished(now: BatchState) -> jax.Array:
        return (now.records < most) & program.has_next_record(now.iteration) & ~jnp.all(now.done)

    return lax.while_loop(unfinished, record, batch)


@jax.jit
def start_batch(program: Program, sizes: dict[str, jax.Array]) -> tuple[State, dict[str, jax.Array]]:
    """Return the first state of every lane, and its metrics."""
    lanes = next(iter(sizes.values())).shape[0]

    def begin(own: dict[str, jax.Array]) -> tuple[State, dict[str, jax.Array]]:
        state = replace(program.method, **own).init(program.problem, program.local, Start())  # type: ignore[type-var]
        # Copies, as the batch is donated: its memory must not be the problem's.
        return jax.tree.map(jnp.copy, state), program.score(state)

    return _map_lanes(begin, lanes)(sizes)


def empty_batch(state: State, iteration: jax.Array, lanes: int, program: Program) -> BatchState:
    """Return a batch without records."""
    kind, messages = jnp.result_type(float), len(program.method.compressors)

    def empty(kind: Any, *shape: int) -> jax.Array:
        return put(np.zeros((RECORDS_AT_ONCE, lanes, *shape)), kind)

    return BatchState(
        state,
        iteration,
        put(0, np.int32),
        values=empty(kind),
        watched={name: empty(kind) for name in program.stop.ceilings},
        work=empty(jnp.int32),
        sent=empty(jnp.int32, messages),
        bytes=empty(jnp.float32, messages),
        done=put(np.zeros(lanes), np.bool_),
    )
