"""The course of a run with faults: what its program is between two events, and what happens at one."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.logging import logger
from lessbits._internal.pytrees import put
from lessbits._internal.wording import counted
from lessbits.engines.checks import sends_again
from lessbits.engines.options import RunOptions
from lessbits.engines.parts import PartsTarget, losses_of_parts
from lessbits.engines.recording.recorder import Recorder
from lessbits.engines.simulate.devices import shard_rows
from lessbits.engines.simulate.faulty import COUNTS, FaultyProgram, FaultyState, faulty
from lessbits.engines.simulate.program import Program
from lessbits.faults.conditions import Conditions, Now
from lessbits.faults.timeline import Segment, Timeline
from lessbits.methods.base import Start, State
from lessbits.networks import Network
from lessbits.problems.base import Problem


class Course:
    """The course of a run with faults.

    Args:
        program: The program of the same run without faults.
        problem: The losses of all nodes.
        network: All nodes and links that are ever there.
        options: The options of the run, checked.
        devices: How many devices share the nodes.
    """

    def __init__(
        self, program: Program, problem: Problem, network: Network, options: RunOptions, devices: int = 1
    ) -> None:
        assert options.faults is not None
        self.devices = devices
        self.problem, self.network, self.options, self.faults = problem, network, options, options.faults
        self.timeline = Timeline(options.faults, network, options.iterations)
        if self.faults.events and (last := self.faults.events[-1].at) >= options.iterations:
            late = sum(event.at >= options.iterations for event in self.faults.events)
            logger.warning(
                f"the run has {options.iterations} iterations, so that {counted(late, 'event')} of its faults, up to "
                f"iteration {last}, cannot happen"
            )
        self.conditions = Conditions.of(options.faults, network, options.seed)
        self.choice = options.metric_choice(problem)
        method = program.method.with_delays() if sends_again(options.faults, program.method) else program.method
        self.program = faulty(replace(program, method=method), self.conditions, self._target(program, 0))
        self.whole = program.target
        self.fresh: State = None
        self.copies = 0  # of iterates, sent to nodes that join since the last record

    def _target(self, program: Program, iteration: int) -> PartsTarget:
        parts = self.timeline.parts(self.timeline.at(iteration))
        return PartsTarget.between(program.target, self.choice, self.problem, parts)

    def first(self) -> dict[str, Any]:
        """Return the columns of a run with faults, before the first iteration."""
        there = float(self.timeline.at(0).present.sum())
        return {"present": there, "taking_part": there, "speaking": 1.0, "staleness": 0.0}

    def goes_on(self, program: Program, recorder: Recorder, iteration: int) -> bool:
        """Return whether the run continues after the last iteration of a segment."""
        metrics = {name: recorder.last(name) for name in program.columns}
        return iteration < self.options.iterations and not bool(program.stop.on_host().decided(metrics))

    def begins_at(self, iteration: int) -> bool:
        """Return whether something has just happened, so that the last record is of another network."""
        return 0 < iteration == self.timeline.at(iteration).first

    def enter(self, program: Program, state: FaultyState, iteration: int) -> tuple[FaultyProgram, FaultyState]:
        """Return the program from an iteration on, and the state after the events that happen there."""
        assert isinstance(program, FaultyProgram)
        segment = self.timeline.at(iteration)
        last = self.timeline.is_last(segment)
        until = self.options.until if last and self.options.until is not None else -np.inf
        target = replace(program, target=self.whole)
        stop = replace(
            program.stop,
            iterations=put(segment.end, np.int32),
            until=put(until, program.stop.until.dtype),  # type: ignore[union-attr]
        )
        changed = replace(
            program,
            stop=stop,
            conditions=self.conditions.during(segment),
            target=self._target(target, iteration),
        )
        program = shard_rows(changed, self.devices)
        assert isinstance(program, FaultyProgram)
        if iteration == segment.first:
            if self.fresh is None:
                assert self.options.start is not None
                self.fresh = _fresh(program, self.options.start)
            nodes, links = put(segment.fresh_nodes, np.bool_), put(segment.fresh_links, np.bool_)
            state = _reset(program, state, self._start(program, state, segment), nodes, links)
        return program, state

    def part_ends(self, program: Program, x: np.ndarray, iteration: int) -> list[list[Any]]:
        """Return what each part of a network that has fallen apart has computed."""
        assert isinstance(program.target, PartsTarget)
        return losses_of_parts(x, self.problem, program.target, self.network.names, iteration)

    def take_copies(self) -> int:
        """Return how many iterates were sent to nodes that joined, once."""
        taken, self.copies = self.copies, 0
        return taken

    def _start(self, program: FaultyProgram, state: FaultyState, segment: Segment) -> State:
        """Return the state that nodes and links start from: x is that of a neighbour if the faults say so.

        It is sent in the first iteration, so that a link must speak then, and the neighbour take part.
        """
        if self.faults.start == "start" or not segment.fresh_nodes.any():
            return self.fresh
        rows = np.array(self.fresh.x)
        up, awake = _speaking(program.conditions, state.burst, put(segment.first, np.int32))
        known = np.asarray(awake) & ~segment.fresh_nodes
        x = np.asarray(state.x)
        for node in np.flatnonzero(segment.fresh_nodes):
            there = self.network.neighbor[(self.network.owner == node) & np.asarray(up)]
            if len(found := there[known[there]]):
                rows[node] = x[found[0]]
                self.copies += 1
        return self.fresh._replace(x=jnp.asarray(rows))


@jax.jit
def _speaking(conditions: Conditions, burst: jax.Array, iteration: jax.Array) -> Now:
    return conditions.at(iteration, burst)[0]


@jax.jit
def _fresh(program: FaultyProgram, start: Start) -> State:
    return program.begin(start).method


@partial(jax.jit, donate_argnames=("state",))
def _reset(program: FaultyProgram, state: FaultyState, fresh: State, nodes: jax.Array, links: jax.Array) -> FaultyState:
    return program.reset(state, fresh, nodes, links)


def fault_columns(chunk: Any, iterations: np.ndarray, recorder: Recorder) -> dict[str, np.ndarray]:
    """Return what a run with faults records: nodes there, share of links that spoke, and age of messages on arrival."""
    counts = np.asarray(chunk.tally.faults)[: len(iterations)]
    if not counts.shape[1]:
        return {}
    found = dict(zip(COUNTS, counts.T.astype(float), strict=True))
    return {
        "present": found["present"] / iterations,
        "taking_part": found["awake"] / iterations,
        "speaking": found["spoken"] / iterations / recorder.links,
        "staleness": found["age"] / np.maximum(found["applied"], 1),
    }
