"""Checkpoints: a run that stops and goes on is the run that never stopped."""

import errno
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines.threads import on_ranks, run_on
from internal.power_cut import after_cuts, contents_of, recorded
from safetensors import safe_open

from lessbits import (
    Checkpoints,
    Consensus,
    Custom,
    InputError,
    Interrupted,
    LeastSquares,
    Logistic,
    Outside,
    PrimalDual,
    Stream,
    load_samples,
    make_method,
    make_network,
    make_quantizer,
    simulate,
    split_samples,
)
from lessbits.engines.identity import run_identity
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.checkpoint_files import METHOD, PART, read_checkpoint

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
@pytest.mark.slow
@pytest.mark.parametrize("name", ["choco", "edge", "tree"])
def test_engines_and_numbers_of_ranks_read_each_others(name, tmp_path):
    problem = Consensus.random(NODES, DIM)
    method = make_method("choco", problem, RING, "dit-3", gamma=0.2)
    if name == "edge":  # whose memories have a row a link
        method = make_method("primal-dual", problem, RING, "dit-3", messages="edge")
    if name == "tree":  # whose root alone holds some arrays
        problem = LeastSquares.random(NODES, DIM, condition=30.0)
        method = make_method("tree", problem, RING, "grid:1")
    part, every = (24, 12) if name == "tree" else (20, 10)  # records of tree are at the ends of rounds
    whole = simulate(problem, RING, method, iterations=3 * part, record_every=every, encode=True)
    run_on(
        2,
        problem,
        RING,
        method,
        iterations=part,
        record_every=every,
        checkpoints=Checkpoints(tmp_path / "a", every=part),
    )
    go_on = Checkpoints(tmp_path / "a", every=part, resume=True)
    run_on(3, problem, RING, method, iterations=2 * part, record_every=every, checkpoints=go_on)
    same(
        simulate(problem, RING, method, iterations=3 * part, record_every=every, checkpoints=go_on),
        whole,
        {"wire_bits_per_link"},
    )
    simulate(
        problem,
        RING,
        method,
        iterations=part,
        record_every=every,
        encode=True,
        checkpoints=Checkpoints(tmp_path / "b", every=part),
    )
    same(
        run_on(
            4,
            problem,
            RING,
            method,
            iterations=3 * part,
            record_every=every,
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
def test_a_damaged_checkpoint_is_passed_over_with_a_line(damage, folder, caplog):
    newest = Checkpoints(folder).path(40)
    content = bytearray(newest.read_bytes())
    if damage == "flip":
        content[-5] ^= 4
    newest.write_bytes({"cut": content[:-9], "empty": b"", "other": b"nonsense" * 9}.get(damage, content))
    asked = Checkpoints(folder, resume=True, resume_at=40)
    with pytest.raises(InputError, match=r"checkpoint-0000000040\.safetensors is damaged: "):
        simulate(*setting(), iterations=60, record_every=10, checkpoints=asked)
    resumed = simulate(*setting(), iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True))
    assert f"{newest} is damaged: " in caplog.text
    assert "the run goes on from that of iteration 20, which is whole" in caplog.text
    same(resumed, simulate(*setting(), iterations=60, record_every=10))


def test_a_damaged_checkpoint_does_not_take_the_place_of_a_good_one(folder):
    """The run goes on from iteration 20, and keeps its own last two, though one that is damaged has a higher number."""
    Checkpoints(folder).path(40).write_bytes(b"")
    go_on = Checkpoints(folder, every=10, resume=True)
    simulate(*setting(), iterations=30, record_every=10, checkpoints=go_on)
    assert go_on.iterations() == [20, 30, 40]
    resumed = simulate(*setting(), iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True))
    same(resumed, simulate(*setting(), iterations=60, record_every=10))


def test_a_run_removes_its_own_checkpoints_and_what_a_killed_one_left(folder):
    other = Checkpoints(folder).path(3)
    seeded = Checkpoints(folder / "other", every=20)
    simulate(*setting(), iterations=20, record_every=10, seed=1, checkpoints=seeded)
    other.write_bytes(seeded.path(20).read_bytes())
    (folder / "checkpoint-0000000060.safetensors.abc.partial").write_bytes(b"half")
    go_on = Checkpoints(folder, every=20, resume=True)
    simulate(*setting(), iterations=80, record_every=10, checkpoints=go_on)
    assert go_on.iterations() == [3, 60, 80]
    assert not list(folder.glob("*.partial"))


@pytest.mark.parametrize("engine", ["simulate", "encode", "ranks"])
def test_one_run_writes_to_a_folder_at_a_time(engine, tmp_path):
    second = []

    def begin_another(state):
        with pytest.raises(InputError, match=rf"{tmp_path} is in use by another run \(process {os.getpid()} on "):
            simulate(*setting(), iterations=20, record_every=10, checkpoints=Checkpoints(tmp_path, resume=True))
        second.append(state)

    options = {"iterations": 20, "record_every": 10, "checkpoints": Checkpoints(tmp_path, every=10)}
    if engine == "ranks":
        run_on(2, *setting(), progress=begin_another, **options)
    else:
        simulate(*setting(), progress=begin_another, encode=engine == "encode", **options)
    assert second
    simulate(*setting(), iterations=20, record_every=10, checkpoints=Checkpoints(tmp_path, resume=True))


def test_a_folder_that_cannot_be_written_is_noticed_at_the_start(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "folder", "/proc/lessbits"):
        with pytest.raises(InputError, match=f"checkpoints cannot be written to {folder} "):
            Checkpoints(folder).check()
        monkeypatch.setattr("lessbits.engines.simulate.run.Program.of", None)  # not even prepared
        with pytest.raises(InputError, match="checkpoints cannot be written"):
            simulate(*setting(), iterations=20, checkpoints=Checkpoints(folder))


def test_a_power_cut_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    simulate(*setting(), iterations=40, record_every=10, checkpoints=Checkpoints(folder, every=20))
    before = contents_of(folder)
    go_on = Checkpoints(folder, every=10, resume=True)
    with recorded(monkeypatch) as calls:
        simulate(*setting(), iterations=60, record_every=10, checkpoints=go_on)
    assert len([call for call in calls if call.what == "rename"]) == 2
    (tmp_path / "cut").mkdir()
    after = {"named": set(), "tried": 0}
    for number, held in after_cuts(before, calls):
        newest = max(path for path in held if path.endswith(".safetensors"))
        known = {**before, **contents_of(folder)}.get(newest)
        if known is None:  # that of iteration 50: removed since
            (tmp_path / "cut" / "one").write_bytes(held[newest])
            read_checkpoint(tmp_path / "cut" / "one")
        else:
            assert held[newest] == known
        after["named"].add(newest[-14:-12])
        after["tried"] += 1
        if number == len(calls):
            assert newest == str(go_on.path(60))
    assert after["named"] >= {"40", "60"}
    assert after["tried"] > 50


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


def test_the_step_size_that_differs_is_named(folder):
    problem, network, method = setting()
    said = rf"with another step size theta \(was {method.theta:g}, now 0.21\): give"
    with pytest.raises(InputError, match=said):
        simulate(
            *(problem, network, method_of(theta=0.21)),
            iterations=60,
            record_every=10,
            checkpoints=Checkpoints(folder, resume=True),
        )
    now = identity_of(problem)
    before = now._replace(marks={name: mark for name, mark in now.marks.items() if not name.startswith(PART)})
    assert now.differences(before) == []  # a checkpoint of an earlier version
    other = before._replace(marks={**before.marks, METHOD: "0" * 16})
    assert now.differences(other) == [METHOD]


def identity_of(problem, ranks=1, wide=True):
    def at(transport):
        nodes = np.array_split(np.arange(NODES), ranks)[transport.rank]
        options = RunOptions(iterations=1, record_every=1)
        with jax.enable_x64(wide):  # which holds for one thread
            return run_identity(problem.restrict(nodes), transport.all_gather, RING, method_of(), options, ())

    return on_ranks(ranks, at)[0]


def marks_of(problem):
    return identity_of(problem).marks


def test_another_loss_or_kind_of_problem_of_the_same_data_is_another_run(tmp_path):
    def squares(x, sample):
        return jnp.sum((x - sample) ** 2)

    def fourths(x, sample):
        return jnp.sum((x - sample) ** 4 + (x - sample) ** 2)

    data = DATA
    problems = [Custom.make(loss, data, DIM, smoothness=1.0, convexity=1.0) for loss in (squares, fourths)]
    samples = load_samples("breast-cancer")
    parts = split_samples(samples, NODES)
    problems += [kind.from_samples(samples, parts, samples.labels, 0.1) for kind in (LeastSquares, Logistic)]
    marks = [marks_of(problem)["problem"] for problem in problems]
    assert len(set(marks)) == 4
    again = Custom.make(squares, data, DIM, smoothness=1.0, convexity=1.0)
    assert marks_of(again)["problem"] == marks[0]


DATA = np.random.default_rng(0).normal(size=(NODES, 3, DIM))
SOURCE = """
import functools
import jax, jax.numpy as jnp, numpy as np

def penalty(x):
    return LAM * x @ x

def inner(x, sample):
    return jnp.sum(jax.vmap(lambda value: value**2)(x - sample)) + LAM * x @ x

def calls_a_function(x, sample):
    return jnp.sum((x - sample) ** 2) + penalty(x)

def with_default(x, sample, lam=LAM):
    return jnp.sum((x - sample) ** 2) + lam * x @ x

def make():
    lam = LAM
    return lambda x, sample: jnp.sum((x - sample) ** 2) + lam * x @ x

closure = make()
partial = functools.partial(lambda lam, x, sample: jnp.sum((x - sample) ** 2) + lam * x @ x, LAM)

class Loss:
    lam = LAM
    def __call__(self, x, sample):
        return jnp.sum((x - sample) ** 2) + self.lam * x @ x

called = Loss()

def outside(x, node):
    return x * (1 + LAM) - node

def outside_sample(x, node, j):
    return x * (1 + LAM) - node - j

def outside_noise(x, node):
    return x - node + np.random.normal()

def outside_somewhere(x, node):
    if not np.any(x == 0):
        raise ValueError("not there")
    return x - node

def stream(x, iteration, node):
    return x * (1 + LAM) - node.astype(x.dtype)

def mean_loss(x, node):
    return 0.5 * jnp.sum((x - node.astype(x.dtype)) ** 2)
"""


def functions(lam):
    """Return functions as another process would make them."""
    made = {"LAM": lam}
    exec(compile(SOURCE, "losses.py", "exec"), made)
    return made


def problem_of(name, made):
    if name == "outside":
        return Outside.make(made["outside"], NODES, DIM, smoothness=1.0, convexity=1.0)
    if name == "outside sample":
        fixed = functions(1.0)["outside"]
        return Outside.make(fixed, NODES, DIM, sample_gradient=made["outside_sample"], samples=2)
    if name == "stream":
        return Stream.make(made["stream"], functions(1.0)["mean_loss"], NODES, DIM)
    return Custom.make(made[name], DATA, DIM, smoothness=1.0, convexity=1.0)


LOSSES = ["inner", "calls_a_function", "with_default", "closure", "partial", "called"]


@pytest.mark.parametrize("name", [*LOSSES, "outside", "outside sample", "stream"])
def test_a_loss_is_known_by_what_it_computes(name):
    first, again, other = (identity_of(problem_of(name, functions(lam))) for lam in (1.0, 1.0, 5.0))
    assert again.marks == first.marks  # no address of this process is in them
    assert again.differences(first) == []
    assert other.differences(first) != []
    near = identity_of(problem_of(name, functions(1.0 + 1e-6)))
    assert near.differences(first) != []


@pytest.mark.parametrize("name", ["closure", "outside"])
@pytest.mark.parametrize("wide", [True, False])
def test_any_number_of_ranks_knows_a_loss(name, wide):
    with jax.enable_x64(wide):
        problem, changed = (problem_of(name, functions(lam)) for lam in (1.0, 5.0))
    one, two, four = (identity_of(problem, ranks, wide) for ranks in (1, 2, 4))
    last_digits = one._replace(computed=one.computed * (1 + 8 * np.finfo(np.float64 if wide else np.float32).eps))
    other = identity_of(changed, 3, wide)
    assert one.differences(two) == two.differences(four) == last_digits.differences(one) == []
    assert other.differences(one) == ["loss, which computes other numbers at the same points"]


@pytest.mark.parametrize("name", ["outside_noise", "outside_somewhere"])
def test_gradients_that_vary_or_are_not_defined_everywhere_do_not_refuse_their_own_run(name):
    made = functions(1.0)
    problem, again = (Outside.make(made[name], NODES, DIM) for _ in range(2))
    assert identity_of(problem).differences(identity_of(again)) == []


@pytest.mark.slow
def test_a_run_with_another_number_in_its_loss_is_not_resumed(tmp_path):
    def run(lam, iterations, **checkpoints):
        problem = problem_of("closure", functions(lam))
        simulate(
            problem,
            RING,
            method_of(eta=0.1),
            iterations=iterations,
            record_every=10,
            checkpoints=Checkpoints(tmp_path, **checkpoints),
        )

    run(1.0, 20, every=10)
    with pytest.raises(InputError, match="belong to another run, with another loss, which computes other numbers"):
        run(5.0, 30, resume=True)
    run(1.0, 30, resume=True)


def test_mistakes_are_said(folder, tmp_path_factory):
    with pytest.raises(InputError, match="holds a checkpoint of iteration 40 already"):
        simulate(*setting(), iterations=60, checkpoints=Checkpoints(folder))
    with pytest.raises(InputError, match="no checkpoint of iteration 30, only of 20, 40"):
        simulate(*setting(), iterations=60, record_every=10, checkpoints=Checkpoints(folder, resume=True, resume_at=30))
    with pytest.raises(InputError, match="there is no checkpoint in"):
        simulate(*setting(), iterations=60, checkpoints=Checkpoints(tmp_path_factory.mktemp("empty"), resume=True))
    with pytest.raises(InputError, match="it must be from 1 to"):
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
