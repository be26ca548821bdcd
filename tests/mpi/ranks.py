"""What must hold on any number of ranks: run by `test_ranks.py` under mpiexec. Rank 0 prints a line for each check."""

import sys
import tempfile
from pathlib import Path

import jax

from lessbits._internal.programs import keep_compiled

jax.config.update("jax_enable_x64", True)
keep_compiled()

import numpy as np  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

from lessbits import (  # noqa: E402
    Checkpoints,
    Consensus,
    EdgeDual,
    LeastSquares,
    Logistic,
    PrimalDual,
    load_samples,
    make_network,
    make_quantizer,
    run_mpi,
    simulate,
    split_samples,
)
from lessbits.engines.distributed.mpi import MPI, MpiTransport, all_ranks  # noqa: E402
from lessbits.engines.distributed.stepwise import run_stepwise  # noqa: E402
from lessbits.engines.options import RunOptions  # noqa: E402

NODES, DIM, ITERATIONS = 16, 20, 12
CLOCKS = ("seconds", "compute_seconds", "coding_seconds", "communication_seconds", "bytes_between_ranks")
RANK = MPI.COMM_WORLD.Get_rank()
RING, STAR = make_network("ring", NODES), make_network("star", NODES)


def method_of(quantizer, messages="independent"):
    return PrimalDual.make(make_quantizer(quantizer, DIM), 0.2, 0.7, dim=DIM, messages=messages)


CONSENSUS = (Consensus.random(NODES, DIM), RING, method_of("dit-4"))


def same(trace, other):
    """Bit for bit, but for what the clock says."""
    for name in other.columns:
        if name not in CLOCKS:
            assert trace[name].tobytes() == other[name].tobytes(), name
    assert trace.x.tobytes() == other.x.tobytes()
    assert trace.message == other.message


def check_consensus():
    trace = run_mpi(*CONSENSUS, iterations=ITERATIONS, record_every=4)
    if RANK == 0:
        same(trace, simulate(*CONSENSUS, iterations=ITERATIONS, record_every=4, encode=True))
    return trace


def check_least_squares():
    setting = LeastSquares.random(NODES, DIM, samples=24), STAR, method_of("rand-5", "broadcast")
    trace = run_mpi(*setting, iterations=ITERATIONS)
    if RANK == 0:
        same(trace, simulate(*setting, iterations=ITERATIONS))


def check_logistic():
    samples = load_samples("breast-cancer").normalized_rows()
    problem = Logistic.from_samples(samples, split_samples(samples, NODES), samples.binary_labels(), 0.1)
    method = PrimalDual.make(make_quantizer("dit-4", problem.dim), 0.1, 2.0, dim=problem.dim)
    trace = run_mpi(problem, RING, method, iterations=ITERATIONS)
    if RANK == 0:
        np.testing.assert_allclose(
            trace["error"], simulate(problem, RING, method, iterations=ITERATIONS)["error"], rtol=1e-9
        )


def check_bytes():
    with all_ranks() as world:
        trace = run_stepwise(*CONSENSUS, world, RunOptions(iterations=ITERATIONS))
        given = world.all_gather(np.array([world.given])).sum()
    assert given == trace["bytes_between_ranks"][-1]
    assert given == 0 if world.size == 1 else given > 0


def check_opposite_duals():
    """Both ends of an edge are computed at different ranks, and give opposite duals and equal memories to the bit."""
    folder = Path(next(line for line in MpiTransport().all_say(tempfile.mkdtemp() if RANK == 0 else None) if line))
    quantizer = make_quantizer("dit-4", DIM)
    setting = LeastSquares.random(NODES, DIM, samples=24), STAR, EdgeDual(0.3, 0.7, 0.4, 1.5, quantizer)
    trace = run_mpi(*setting, iterations=ITERATIONS, checkpoints=Checkpoints(folder, every=ITERATIONS))
    if RANK == 0:
        same(trace, simulate(*setting, iterations=ITERATIONS, encode=True))
        saved = load_file(next(folder.glob("*.safetensors")))
        y, mine, theirs = (
            next(array for name, array in saved.items() if name.endswith(end)) for end in (".y", ".mine", ".theirs")
        )
        assert np.abs(y).max() > 0
        assert not (y + y[STAR.reverse]).any()
        assert np.array_equal(mine, theirs[STAR.reverse])


def check_checkpoints():
    """Any number of ranks writes, the simulator goes on; the simulator writes, any number of ranks goes on."""
    folder = Path(next(line for line in MpiTransport().all_say(tempfile.mkdtemp() if RANK == 0 else None) if line))
    ours, theirs = folder / "ours", folder / "theirs"
    run_mpi(*CONSENSUS, iterations=8, record_every=4, checkpoints=Checkpoints(ours, every=4))
    if RANK == 0:
        whole = simulate(*CONSENSUS, iterations=ITERATIONS, record_every=4, encode=True)
        same(
            simulate(
                *CONSENSUS,
                iterations=ITERATIONS,
                record_every=4,
                encode=True,
                checkpoints=Checkpoints(ours, resume=True),
            ),
            whole,
        )
        simulate(*CONSENSUS, iterations=8, record_every=4, encode=True, checkpoints=Checkpoints(theirs, every=8))
    MpiTransport().wait()
    trace = run_mpi(*CONSENSUS, iterations=ITERATIONS, record_every=4, checkpoints=Checkpoints(theirs, resume=True))
    if RANK == 0:
        same(trace, whole)


def check_collectives():
    transport = MpiTransport()
    for kind in (np.int64, np.float32, np.bool_, np.uint8):
        rows = np.full((transport.rank % 3, 2), transport.rank + 1).astype(kind)  # some have none
        expected = np.concatenate([np.full((rank % 3, 2), rank + 1).astype(kind) for rank in range(transport.size)])
        assert transport.all_gather(rows).tobytes() == expected.tobytes()
    total = transport.chain(lambda before: before * 2 + transport.rank, np.ones(3))
    value = 1
    for rank in range(transport.size):
        value = value * 2 + rank
    np.testing.assert_array_equal(total, np.full(3, float(value)))
    assert transport.all_say(f"é{transport.rank}") == [f"é{rank}" for rank in range(transport.size)]
    assert transport.any(transport.rank == transport.size - 1)
    assert not transport.any(False)


def check_spare_ranks():
    """More ranks than nodes: those without one have nothing to do."""
    small = Consensus.random(2, DIM), make_network("path", 2), method_of("exact")
    trace = run_mpi(*small, iterations=5)
    if RANK == 0:
        same(trace, simulate(*small, iterations=5))
    assert (trace is None) == (RANK >= 2)


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]

if __name__ == "__main__":
    for check in CHECKS:
        if len(sys.argv) == 1 or check.__name__ in sys.argv[1:]:
            check()
            MpiTransport().wait()  # ranks that wait in MPI's own barrier would take the cores from rank 0
            if RANK == 0:
                print("held:", check.__name__, flush=True)
