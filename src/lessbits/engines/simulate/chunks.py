"""Records and checkpoints of the simulator, whose compiled loop returns a chunk of records at a time."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.axes import Axis, row_axes
from lessbits.codecs.base import Codec
from lessbits.codecs.frames import CHECK_BYTES, header_bytes
from lessbits.engines.identity import run_identity
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.checkpoint_checks import check_fits
from lessbits.engines.recording.checkpoint_files import Checkpoint, Identity, name_leaves, put_leaves
from lessbits.engines.recording.recorder import COPIED, Recorder
from lessbits.engines.schedule import record_ends
from lessbits.engines.simulate.course import fault_columns
from lessbits.methods.base import Method, State
from lessbits.networks import Network
from lessbits.problems.base import Problem
from lessbits.quantizers.exact import Exact


class ChunkRecorder:
    """Adds chunks to the records, and writes checkpoints that are due."""

    def __init__(self, options: RunOptions, recorder: Recorder, codecs: Sequence[Codec]) -> None:
        self.options, self.recorder, self.codecs = options, recorder, codecs
        # Bytes of a message that do not depend on its contents.
        self.constant = np.array([header_bytes(codec) + (codec.body_bytes or 0) for codec in codecs])
        self.last = 0  # iteration of the previous chunk
        self.since: dict[str, Any] = {"work": 0, "sent": 0, "wire": 0.0, "seconds": 0.0}
        self.identity: Identity | None = None

    def resume(self, state: State, problem: Problem, network: Network, method: Method) -> tuple[State, int]:
        """Return the state and the iteration to start from: those of a checkpoint if the run is to be resumed."""
        checkpoints, options = self.options.checkpoints, self.options
        if checkpoints is None:
            return state, 0
        self.identity = run_identity(problem, lambda rows: rows, network, method, options, self.codecs)
        saved = checkpoints.read(self.identity)
        if saved is None:
            return state, 0
        axes = name_leaves(row_axes(state, Axis.NODE))
        check_fits(saved, name_leaves(state), axes, network, self.recorder.parts)
        self.recorder.restore(saved.records)
        self.last = saved.iteration
        self.since = dict(saved.since)
        # Of arrays without an axis of nodes or links, ranks may have saved one copy each.
        sizes = {name: slice(len(leaf)) for name, leaf in name_leaves(state).items()}
        own = {name: jnp.array(leaf[sizes[name]]) for name, leaf in saved.state.items()}
        return put_leaves(state, own), saved.iteration

    def record(self, chunk: Any, seconds: float) -> None:
        """Add the records of a chunk."""
        taken, end = int(chunk.records), int(chunk.iteration)
        ends = record_ends(end, taken, self.options.interval)
        work, sent = np.asarray(chunk.tally.work)[:taken], np.asarray(chunk.tally.sent)[:taken]
        varying = sum(np.asarray(part, float)[:taken] for part in chunk.tally.bytes)
        done = {
            "work": work.astype(np.int64),
            "sent": sent.astype(np.int64),
            "wire": sent * self.constant + varying,
            "seconds": np.full(taken, seconds / taken),  # the clock is read once per chunk
        }
        if COPIED in self.since:
            done[COPIED] = np.zeros(taken)
        # If the run was interrupted between two records, the checkpoint holds the work since the first of them.
        for name, before in self.since.items():
            if name in done:
                done[name][0] += before if np.ndim(before) == np.ndim(done[name][0]) else np.squeeze(before)
        self.since = {}
        metrics = {name: np.asarray(values)[:taken] for name, values in chunk.metrics.items()}
        metrics |= fault_columns(chunk, np.diff(ends, prepend=self.last), self.recorder)
        self.recorder.extend(metrics, ends, **done)

    def save_if_due(self, chunk: Any, ended: bool) -> None:
        """Write a checkpoint if one is due; `ended` says whether the run ends here, not only until an event."""
        checkpoints, end = self.options.checkpoints, int(chunk.iteration)
        if checkpoints is not None and checkpoints.due(self.last, end, ended):
            self.save(chunk)
        self.last = end

    def add_copies(self, count: int, x: Any) -> None:
        """Add iterates that were sent as they are, besides the messages of an outbox."""
        if count:
            sent = np.eye(1, len(self.codecs))[0] * count * (x.dtype.itemsize * x.shape[1] + CHECK_BYTES)
            self.since["wire"] = self.since.get("wire", 0.0) + sent
            self.since[COPIED] = self.since.get(COPIED, 0.0) + count * Exact().bits(x.shape[1])

    def at_most(self, iteration: int, records: int) -> int:
        """Return `records`, or fewer if a checkpoint is due before."""
        checkpoints, interval = self.options.checkpoints, self.options.interval
        if checkpoints is None or checkpoints.every is None:
            return records
        due = (iteration // checkpoints.every + 1) * checkpoints.every
        return max(1, min(records, -(-due // interval) - iteration // interval))

    def save(self, chunk: Any) -> None:
        """Write a checkpoint if the run has a folder for them."""
        if self.options.checkpoints is None:
            return
        assert self.identity is not None
        state = {name: np.asarray(leaf) for name, leaf in name_leaves(jax.device_get(chunk.state)).items()}
        saved = Checkpoint(int(chunk.iteration), state, self.recorder.saved(), {}, self.identity)
        self.options.checkpoints.write(saved)
