"""Checkpoints: a run that stops and goes on is the run that never stopped."""

import errno
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines.threads import run_on
from safetensors import safe_open
from tiers import slow_but

from lessbits import (
    Checkpoints,
    Consensus,
    Custom,
    InputError,
    Interrupted,
    LeastSquares,
    Logistic,
    PrimalDual,
    load_samples,
    make_method,
    make_network,
    make_quantizer,
    simulate,
    split_samples,
)
from lessbits.engines.identity import run_identity
from lessbits.engines.options import RunOptions

NODES, DIM = 6, 7
CLOCKS = ("seconds", "compute_seconds", "coding_seconds", "communication_seconds", "bytes_between_ranks")
RING = make_network("ring", NODES)


def method_of(option="B", theta=0.2, eta=0.5):
    return PrimalDual.make(make_quantizer("dit-3", DIM), theta, eta, dim=DIM, option=option)


def setting():
    return Consensus.random(NODES, DIM), RING, method_of()


def same(trace, other, but=()):
    for name in set(trace.columns) & set(other.columns) - {*CLOCKS, *but}:
        np.testing.assert_array_equal(trace[name], other[name], err_msg=name)
    assert len(trace) == len(other)
    assert trace.x.tobytes() == other.x.tobytes()
    assert trace.message == other.message


@pytest.mark.parametrize("option", ["B", "D"])
def test_a_simulated_run_goes_on_bit_for_bit(option, tmp_path):
    problem = LeastSquares.random(NODES, DIM, samples=9)
    method = method_of(option, 0.02, 0.02)
    whole = simulate(problem, RING, method, iterations=100, record_every=7)
    simulate(problem, RING, method, iterations=70, record_every=7, checkpoints=Checkpoints(tmp_path, every=20))
    # The first records at or after 20, 40 and 60 iterations; the last two stay.
    assert Checkpoints(tmp_path).iterations() == [42, 63]
    resumed = simulate(
        problem, RING, method, iterations=100, record_every=7, checkpoints=Checkpoints(tmp_path, resume=True)
    )
    same(resumed, whole)
    earlier = Checkpoints(tmp_path, resume=True, resume_at=42)
    same(simulate(problem, RING, method, iterations=100, record_every=7, checkpoints=earlier), whole)


def test_float32_runs_keep_what_rounding_took(in_float32, tmp_path):
    whole = simulate(*setting(), iterations=60, record_every=10)
    simulate(*setting(), iterations=30, record_every=10, checkpoints=Checkpoints(tmp_path, every=30))
    resumed = simulate(*setting(), iterations=60, record_every=10, checkpoints=Checkpoints(tmp_path, resume=True))
    assert resumed.x.dtype == np.float32
    same(resumed, whole)


@pytest.mark.optimized  # two engines are compared bit for bit
@pytest.mark.parametrize("name", slow_but(["edge"], ["choco", "edge", "tree"]))
def test_engines_and_numbers_of_ranks_read_each_others(name, tmp_path):
    problem = Consensus.random(NODES, DIM)
    method = make_method("choco", problem, RING, "dit-3", gamma=0.2)
    if name == "edge":  # whose memories have a row a link
        method = make_method("primal-dual", problem, RING, "dit-3", messages="edge")
    if name == "tree":  # whose root alone holds some arrays
        problem = LeastSquares.random(NODES, DIM, condition=30.0)
        method = make_method("tree", problem, RING, "grid:1")
    whole = simulate(problem, RING, method, iterations=60, record_every=10, encode=True)
    run_on(2, problem, RING, method, iterations=20, record_every=10, checkpoints=Checkpoints(tmp_path / "a", every=20))
    go_on = Checkpoints(tmp_path / "a", every=20, resume=True)
    run_on(3, problem, RING, method, iterations=40, record_every=10, checkpoints=go_on)
    same(
        simulate(problem, RING, method, iterations=60, record_every=10, checkpoints=go_on),
        whole,
        {"wire_bits_per_link"},
    )
    simulate(
        problem,
        RING,
        method,
        iterations=20,
        record_every=10,
        encode=True,
        checkpoints=Checkpoints(tmp_path / "b", every=20),
    )
    same(
        run_on(
            4,
            problem,
            RING,
            method,
            iterations=60,
            record_every=10,
            checkpoints=Checkpoints(tmp_path / "b", resume=True),
        )[1],
        whole,
    )


def interrupt_soon(monkeypatch, after):
    """Ask to stop when so many iterations are done."""
    from lessbits.engines.distributed.rank import Rank

    iterate = Rank.iterate

    def and_ask(rank, iteration):
        iterate(rank, iteration)
        if iteration + 1 == after:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Rank, "iterate", and_ask)
    monkeypatch.setattr("lessbits.engines.schedule.SECONDS_PER_CHUNK", 0.0)  # look up after each iteration


@pytest.mark.optimized  # two engines are compared bit for bit
@pytest.mark.parametrize("encode", [True, False])
def test_an_interrupt_between_two_records_loses_nothing(encode, monkeypatch, tmp_path):
    whole = simulate(*setting(), iterations=60, record_every=25, encode=encode)
    with monkeypatch.context() as patch:
        interrupt_soon(patch, after=33)
        with pytest.raises(Interrupted) as stop:
            simulate(*setting(), iterations=60, record_every=25, encode=True, checkpoints=Checkpoints(tmp_path))
    assert stop.value.trace.message.startswith("interrupted at iteration ")
    assert stop.value.trace["iteration"][-1] == 25
    assert Checkpoints(tmp_path).iterations() == [33]
    again = Checkpoints(tmp_path, resume=True)
    same(
        simulate(*setting(), iterations=60, record_every=25, encode=encode, checkpoints=again),
        whole,
        {"wire_bits_per_link"},
    )


def test_ctrl_c_stops_the_simulator_with_its_trace(tmp_path):
    def press(state):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as stop:
        simulate(*setting(), iterations=2**31 - 1, record_every=1000, checkpoints=Checkpoints(tmp_path), progress=press)
    trace = stop.value.trace
    assert trace["iteration"][-1] == Checkpoints(tmp_path).iterations()[-1]
    assert f"interrupted at iteration {trace['iteration'][-1]} " in trace.message


@pytest.fixture
def folder(tmp_path):
    """Two checkpoints, of iterations 20 and 40."""
    simulate(*setting(), iterations=40, record_every=10, checkpoints=Checkpoints(tmp_path, every=20))
    return tmp_path


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_offered(damage, folder):
    newest = Checkpoints(folder).path(40)
    content = bytearray(newest.read_bytes())
    if damage == "flip":
        content[-5] ^= 4
    newest.write_bytes({"cut": content[:-9], "empty": b"", "other": b"nonsense" * 9}.get(damage, content))
    with pytest.raises(InputError, match=r"damaged: .* that of iteration 20 is whole: .* --resume-at 20"):
        simulate(*setting(), iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True))
    whole = simulate(*setting(), iterations=60, record_every=10)
    offered = Checkpoints(folder, resume=True, resume_at=20)
    same(simulate(*setting(), iterations=60, record_every=10, checkpoints=offered), whole)


def test_when_none_is_whole_that_is_said(folder):
    for iteration in (20, 40):
        Checkpoints(folder).path(iteration).write_bytes(b"")
    with pytest.raises(InputError, match="no other one is whole"):
        simulate(*setting(), iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True))


def test_checkpoints_of_another_run_are_refused(folder):
    problem, network, method = setting()
    for other in (
        (Consensus.random(NODES, DIM, seed=1), network, method),
        (problem, make_network("star", NODES), method),
        (problem, network, method_of(theta=0.21)),
    ):
        with pytest.raises(InputError, match="belong to another run"):
            simulate(*other, iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True))
    for different in ({"seed": 1}, {"code": "fixed"}):
        with pytest.raises(InputError, match="belong to another run"):
            simulate(
                *setting(), iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True), **different
            )
    with pytest.raises(InputError, match="belong to another run"):
        run_on(2, *setting(), 60, record_every=5, checkpoints=Checkpoints(folder, resume=True))
    with pytest.raises(InputError, match=r"with another seed \(was 0, now 1\), record_every \(was 10, now 5\): give"):
        simulate(*setting(), iterations=60, record_every=5, seed=1, checkpoints=Checkpoints(folder, resume=True))


def test_another_loss_or_kind_of_problem_of_the_same_data_is_another_run(tmp_path):
    def marks_of(problem):
        return run_identity(problem, lambda rows: rows, RING, method_of(), RunOptions(iterations=1, record_every=1), ())

    def squares(x, sample):
        return jnp.sum((x - sample) ** 2)

    def fourths(x, sample):
        return jnp.sum((x - sample) ** 4 + (x - sample) ** 2)

    data = np.random.default_rng(0).normal(size=(NODES, 1, DIM))
    problems = [Custom.make(loss, data, DIM, smoothness=1.0, convexity=1.0) for loss in (squares, fourths)]
    samples = load_samples("breast-cancer")
    parts = split_samples(samples, NODES)
    problems += [kind.from_samples(samples, parts, samples.labels, 0.1) for kind in (LeastSquares, Logistic)]
    marks = [marks_of(problem)["problem"] for problem in problems]
    assert len(set(marks)) == 4
    again = Custom.make(squares, data, DIM, smoothness=1.0, convexity=1.0)
    assert marks_of(again)["problem"] == marks[0]


def test_mistakes_are_said(folder, tmp_path_factory):
    with pytest.raises(InputError, match="holds a checkpoint of iteration 40 already"):
        simulate(*setting(), iterations=60, checkpoints=Checkpoints(folder))
    with pytest.raises(InputError, match="no checkpoint of iteration 30, only of 20, 40"):
        simulate(*setting(), iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True, resume_at=30))
    with pytest.raises(InputError, match="there is no checkpoint in"):
        simulate(*setting(), iterations=60, checkpoints=Checkpoints(tmp_path_factory.mktemp("empty"), resume=True))
    with pytest.raises(InputError, match="it must be at least 1"):
        Checkpoints(folder, every=0)
    with pytest.raises(InputError, match="is a file"):
        Checkpoints(Checkpoints(folder).path(20))


def test_a_full_disk_is_said_and_loses_nothing(folder, monkeypatch, caplog):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        trace = simulate(
            *setting(), iterations=80, record_every=10, checkpoints=Checkpoints(folder, every=20, resume=True)
        )
    assert "iteration 60 could not be written (No space left on device): the run goes on" in caplog.text
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    same(trace, simulate(*setting(), iterations=80, record_every=10))


def test_a_checkpoint_is_a_safetensors_file_with_the_settings(tmp_path):
    checkpoints = Checkpoints(tmp_path, every=10, settings={"quantizer": "dit-3"})
    simulate(*setting(), iterations=10, checkpoints=checkpoints)
    with safe_open(checkpoints.path(10), framework="numpy") as file:
        assert '"quantizer": "dit-3"' in file.metadata()["facts"]
        assert {"state.x", "state.z", "state.memory.h", "records.metric.error"} <= set(file.keys())
    assert jax.config.jax_enable_x64
