"""Keeps what the simulator's chunks bring: records, and checkpoints."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits.codecs.base import Codec
from lessbits.codecs.frames import header_bytes
from lessbits.engines.recording.checkpoints import Checkpoint, Checkpoints, name_leaves, put_leaves, run_identity
from lessbits.engines.recording.recorder import Recorder
from lessbits.methods.base import Method, State
from lessbits.networks import Network
from lessbits.problems.base import Problem


class ChunkRecorder:
    """Turns chunks into records, and writes checkpoints where they are due."""

    def __init__(
        self, checkpoints: Checkpoints | None, recorder: Recorder, codecs: Sequence[Codec], record_every: int
    ) -> None:
        self.checkpoints, self.recorder, self.codecs, self.record_every = checkpoints, recorder, codecs, record_every
        # Bytes of a message that do not depend on what it says.
        self.constant = np.array([header_bytes(codec) + (codec.body_bytes or 0) for codec in codecs])
        self.last = 0  # iteration of the chunk before
        self.since: dict[str, Any] = {"work": 0, "sent": 0, "wire": 0.0, "seconds": 0.0}
        self.marks: dict[str, str] = {}

    def resume(self, state: State, problem: Problem, network: Network, method: Method, seed: int) -> tuple[State, int]:
        """Return the state and the iteration to start from: those of a checkpoint, if asked to go on from one."""
        assert self.checkpoints is not None
        self.marks = run_identity(problem, lambda rows: rows, network, method, seed, self.record_every, self.codecs)
        saved = self.checkpoints.read(self.marks)
        if saved is None:
            return state, 0
        self.recorder.restore(saved.records)
        self.last = saved.iteration
        self.since = dict(saved.since)
        return put_leaves(state, {name: jnp.array(leaf) for name, leaf in saved.state.items()}), saved.iteration

    def record(self, chunk: Any, iterations: int, seconds: float) -> None:
        """Take the records of a chunk, and write a checkpoint if one is due."""
        taken, end = int(chunk.records), int(chunk.iteration)
        # All records are `record_every` apart but the last of a run, which may be nearer.
        every = self.record_every
        ends = np.minimum((end - 1) // every * every + every * np.arange(2 - taken, 2), iterations)
        work, sent = np.asarray(chunk.spent.work)[:taken], np.asarray(chunk.spent.sent)[:taken]
        varying = sum(np.asarray(part, float)[:taken] for part in chunk.spent.bytes)
        done = {
            "work": work.astype(np.int64),
            "sent": sent.astype(np.int64),
            "wire": sent * self.constant + varying,
            "seconds": np.full(taken, seconds / taken),  # the clock is read once a chunk
        }
        # A run that was interrupted between two records brings what it had done since the first of them.
        for name, before in self.since.items():
            if name in done:
                done[name][0] += before if np.ndim(before) == np.ndim(done[name][0]) else np.squeeze(before)
        self.since = {}
        metrics = {name: np.asarray(values)[:taken] for name, values in chunk.metrics.items()}
        self.recorder.extend(metrics, ends, **done)
        if self.checkpoints is not None and self.checkpoints.due(self.last, end):
            self.save(chunk)
        self.last = end

    def at_most(self, iteration: int, records: int) -> int:
        """Return how many records may be taken before a checkpoint is due."""
        if self.checkpoints is None or self.checkpoints.every is None:
            return records
        due = (iteration // self.checkpoints.every + 1) * self.checkpoints.every
        return max(1, min(records, -(-due // self.record_every) - iteration // self.record_every))

    def save(self, chunk: Any) -> None:
        """Write a checkpoint."""
        if self.checkpoints is None:
            return
        state = {name: np.asarray(leaf) for name, leaf in name_leaves(jax.device_get(chunk.state)).items()}
        self.checkpoints.write(Checkpoint(int(chunk.iteration), state, self.recorder.saved(), {}, self.marks))
