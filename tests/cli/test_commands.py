"""The command `lessbits`: what it prints, writes and returns."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest
import typer
from command_line import run_command
from tiers import slow_but

import lessbits
from lessbits import Settings, Trace
from lessbits._internal import logging as library_logging
from lessbits.cli.app import app
from lessbits.engines.interrupts import Interrupts

COMMAND = Path(sys.executable).parent / "lessbits"
SMALL = ("--nodes", 6, "--dim", 8, "--theta", 0.5, "--eta", 1, "--iterations", 60)
KEYS = {
    "converged",
    "diverged",
    "iterations",
    "error",
    "suboptimality",
    "bits_per_link",
    "total_bits",
    "gradient_evaluations",
    "seconds",
    "compile_seconds",
    "prepare_seconds",
    "interrupted",
    "settings",
}
CLOCKS = ("seconds", "compile_seconds", "prepare_seconds")
CHOOSING = "chosen_with"  # a run from written settings has nothing to choose


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line in this process."""
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


@pytest.fixture
def libsvm(tmp_path):
    """Twenty samples of two classes in three dimensions."""
    random = np.random.default_rng(0)
    lines = []
    for label in [-1, 1] * 10:
        values = random.normal(size=3) + 0.5 * label
        lines.append(f"{label} " + " ".join(f"{index}:{value:.6f}" for index, value in enumerate(values, start=1)))
    file = tmp_path / "small data.libsvm"
    file.write_text("\n".join(lines) + "\n")
    return file


def subprocess_command(*arguments, **environment):
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **environment}
    )


def without_clocks(summary):
    return {name: value for name, value in summary.items() if name not in (*CLOCKS, CHOOSING)}


# The command lines of the issue.


@pytest.mark.slow
def test_the_papers_command_line_prints_one_json_object_and_nothing_else():
    line = (
        "run --problem consensus --nodes 100 --dim 250 --network ring --weights metropolis "
        "--method primal-dual --option B --messages independent --quantizer dit-4 "
        "--theta 1.2589 --eta 1 --until 1e-3 --iterations 20000 --seed 0 --json -"
    )
    done = subprocess_command(*line.split(), "--quiet", FORCE_COLOR="1")
    assert done.returncode == 0
    assert done.stderr == ""
    result = json.loads(done.stdout, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert result.keys() >= KEYS
    assert result["converged"] is True
    assert result["diverged"] is False
    assert abs(result["iterations"] / 2525 - 1) <= 0.03
    assert result["error"] <= 1e-3 < 2 * result["error"]
    # Two messages per link: 250 coordinates of 4 bits and a scale of 32.
    assert result["bits_per_link"] == result["iterations"] * 2 * (250 * 4 + 32)
    assert result["total_bits"] == result["bits_per_link"] * 200
    assert result["gradient_evaluations"] == result["iterations"] * 100
    assert result["seconds"] > 0
    assert result["compile_seconds"] > 0
    assert result["settings"]["theta"] == 1.2589
    assert result["settings"]["quantizer"] == "dit-4"


def test_a_quiet_command_does_not_say_that_it_is_slow(monkeypatch, capsys):
    class AtOnce(threading.Timer):
        def start(self):
            self.function(*self.args)

    monkeypatch.setattr(library_logging.threading, "Timer", AtOnce)
    monkeypatch.setattr(library_logging, "AGAIN", 0.0)
    assert run_command(monkeypatch, capsys, "run", *SMALL, "--quiet").err == ""
    assert "compiling the run …" in run_command(monkeypatch, capsys, "run", *SMALL).err  # this one is not quiet


@pytest.mark.slow
@pytest.mark.parametrize("option", ["B", "D"])
def test_logistic_regression_from_a_file_writes_the_solution(command, libsvm, tmp_path, option):
    solution = tmp_path / "x"  # the name is taken as it is, without .npy added
    result = command(
        *("run", "--problem", "logistic", "--data", libsvm, "--regularization", 0.01, "--split", "sorted"),
        *("--nodes", 4, "--network", "ring", "--option", option, "--batch-size", 1, "--iterations", 50),
        *("--solution", solution, "--json", "-"),
    )
    assert result.status == 0
    assert result.err == ""
    x = np.load(solution, allow_pickle=False)
    assert x.shape == (4, 3)
    assert x.dtype == np.float64
    settings = result.json["settings"]
    assert (settings["regularization"], settings["dim"], settings["features"]) == (0.01, 3, 3)
    experiment = lessbits.build(Settings(problem="logistic", data=str(libsvm), regularization=0.01, nodes=4))
    error = ((x - experiment.problem.solution) ** 2).sum(1).mean()
    assert result.json["error"] == pytest.approx(error, rel=1e-9)


# What it resolves, writes and reads again.


def test_every_setting_is_resolved(command):
    settings = command("run", *SMALL[:4], "--seed", 3, "--iterations", 25_000, "--until", 1e-1, "--json", "-").json[
        "settings"
    ]
    assert settings.keys() == Settings.model_fields.keys()
    unresolved = {name for name, value in settings.items() if value is None}
    assert unresolved == {
        *(
            "data",
            "target",
            "site",
            "ignore",
            "faults",
            "drop",
            "lose",
            "delay",
            "test",
            "features",
            "samples",
            "regularization",
            "latency",
            "bandwidth",
            "ranks",
            "chunks",
        ),
        *("gamma", "epsilon", "momentum", "decay", "probability"),  # step sizes of other methods
    }
    assert (settings["nodes"], settings["dim"], settings["record_every"]) == (6, 8, 2)
    assert settings["problem_seed"] == settings["network_seed"] == settings["seed"] == 3
    omega = lessbits.make_quantizer("dit-4", 8).omega(8)
    assert settings["alpha"] == pytest.approx(1 / (1 + omega))
    noise = 1 / 2 * 2 * (1 / 3) * (5 / 6)  # half of two links, their weight, and their leverage in a ring of six
    assert settings["theta"] == pytest.approx(1 / (2 * (4 / 3 + 12 * omega * noise)))
    assert settings["eta"] == 1


def test_the_settings_of_data_and_of_random_least_squares_are_resolved():
    data = lessbits.build(Settings(problem="softmax", data="iris", nodes=4, theta=1.0, eta=1.0)).settings
    assert (data.features, data.dim, data.regularization) == (4, 12, pytest.approx(1 / 148))  # two are dropped
    random = lessbits.build(Settings(problem="least-squares", dim=5, nodes=4, theta=1.0, eta=1.0)).settings
    assert (random.samples, random.regularization) == (5, 0.0)


def test_weights_of_a_file_are_resolved(tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("0 1 0.5\n1 2 0.25\n")
    settings = lessbits.build(Settings(network=str(edges), dim=3)).settings
    assert (settings.nodes, settings.weights) == (3, "given")


RUNS = [
    (("--network", "erdos-renyi:0.6", "--seed", 5, "--messages", "broadcast", "--quantizer", "rand-3"),),
    (("--problem", "logistic", "--data", "DATA", "--split", "iid", "--option", "C", "--until", 1e-9),),
    (("--problem", "logistic", "--data", "DATA", "--stepsizes", "practical", "--normalize", "--precision", 32),),
]


@pytest.mark.parametrize(("arguments",), slow_but(RUNS[:1], RUNS))  # noqa: PT006 (one argument, a tuple)
def test_a_rerun_from_the_written_settings_is_identical(command, libsvm, tmp_path, arguments):
    arguments = [libsvm if argument == "DATA" else argument for argument in arguments]
    size = ("--nodes", 5, "--iterations", 40, *(() if libsvm in arguments else ("--dim", 8)))
    toml, first_x, second_x = (tmp_path / name for name in ("run.toml", "first.npy", "second.npy"))
    first = command("run", *arguments, *size, "--write-toml", toml, "--solution", first_x, "--json", "-")
    second = command("run", toml, "--solution", second_x, "--json", "-")
    assert first.status == second.status == 0
    assert without_clocks(first.json) == without_clocks(second.json)
    assert first_x.read_bytes() == second_x.read_bytes()


def test_flags_win_over_the_file(command, tmp_path):
    toml = tmp_path / "run.toml"
    command("run", *SMALL, "--write-toml", toml)
    result = command("run", toml, "--theta", 0.25, "--seed", 9, "--json", "-").json
    assert result["settings"]["theta"] == 0.25
    assert result["settings"]["seed"] == 9
    assert result["settings"]["problem_seed"] == 0  # the file's: the same problem, other coins


COST = ("trials", "iterations", "bits_per_link")  # of choosing step sizes


def test_a_saved_trace_holds_what_the_json_says(command, tmp_path):
    save, file = tmp_path / "run.trace", tmp_path / "run.json"
    result = command("run", *SMALL, "--save", save, "--json", file)
    trace = Trace.load(save)
    written = json.loads(file.read_text())
    assert (written.pop("interrupted"), written.pop("prepare_seconds") > 0) == (False, True)
    assert written.pop("chosen_with") == trace.provenance["chosen_with"] == dict.fromkeys(COST, 0)
    assert trace.summary() == written
    assert len(trace) == 61
    assert trace.x.shape == (6, 8)
    assert (
        f"stopped after {trace['iteration'][-1]} iterations" in result.out
    )  # a file leaves the report on the terminal


def test_precision_32(command, tmp_path):
    solution = tmp_path / "x.npy"
    result = command("run", *SMALL, "--precision", 32, "--solution", solution, "--json", "-")
    assert np.load(solution).dtype == np.float32
    assert result.json["settings"]["precision"] == 32
    assert jax.numpy.result_type(float) == np.float64  # the helper switched back


def test_a_link_model_gives_simulated_time(command):
    result = command("run", *SMALL, "--latency", 0.5, "--json", "-").json
    assert result["simulated_seconds"] == result["iterations"] * 0.5
    result = command("run", *SMALL, "--bandwidth", 100, "--json", "-").json
    assert result["simulated_seconds"] == pytest.approx(result["wire_bits_per_link"] / 100)


# Ends that are not a success.


def test_divergence_ends_with_status_1_and_still_prints_the_json(command):
    done = command("run", "--nodes", 6, "--dim", 8, "--theta", 1e9, "--eta", 1, "--json", "-")
    assert done.status == 1
    assert done.err.startswith("lessbits: diverged at iteration ")
    assert done.err.count("\n") == 1
    assert "lower theta, now 1e+09" in done.err
    result = done.json
    assert result["diverged"] is True
    assert result["converged"] is False
    assert f"iteration {result['iterations']} " in done.err


def test_divergence_to_nan_is_still_json(command):
    result = command("run", *SMALL, "--eta", 1e200, "--iterations", 100, "--json", "-")
    assert result.status == 1
    assert "lower eta" in result.err
    assert result.json["error"] is None
    assert result.json["diverged"] is True


def test_not_reaching_the_goal_is_no_failure(command):
    result = command("run", *SMALL, "--until", 1e-300, "--json", "-")
    assert result.status == 0
    assert result.json["converged"] is False


@pytest.mark.parametrize("asked", [("--until", 1e-3), ("--checkpoint", "folder"), ("--test", 0.2)])
def test_what_needs_scores_is_refused_before_anything_is_built(command, monkeypatch, asked):
    monkeypatch.setattr("lessbits.config.run.build", None)
    result = command("run", *SMALL, "--scoring", "off", *asked)
    assert (result.status, result.out) == (2, "")
    assert f"{asked[0][2:]} was given, but scoring is off" in result.err


def test_ctrl_c_ends_with_one_line(command, monkeypatch):
    def interrupt(settings, transport):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("lessbits.config.run.build", interrupt)
    result = command("run")
    assert result.status == 130
    assert result.out == ""
    assert result.err.strip() == "lessbits: interrupted"


def test_seeds_that_diverge_are_summed_up_too(command):
    endless = ("--theta", 10, "--iterations", 3000, "--record-every", 1000)  # so that the first record is NaN
    result = command("run", *SMALL, *endless, "--seeds", 2, "--quiet")
    assert (result.status, "2 diverged" in result.out, "nan ± nan" in result.out) == (1, True, True)


@contextmanager
def interrupt_after(looks):
    """Have Ctrl-C come when runs have looked for it so often, in all."""
    left = iter(range(looks))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Interrupts, "asked", property(lambda _: next(left, None) is None))
        yield


KEPT = [((), 2), (("--encode",), 2), (("--seeds", 3), 8)]


@pytest.mark.parametrize(("flags", "looks"), slow_but(KEPT[-1:], KEPT))
def test_an_interrupted_run_is_kept_and_the_same_command_goes_on(command, monkeypatch, tmp_path, flags, looks):
    monkeypatch.chdir(tmp_path)
    line = ("run", *SMALL, *flags, "--quiet", "--save", "run.trace")
    assert command(*line).status == 0
    files = sorted(tmp_path.glob("run*.trace"))
    whole = {file: Trace.load(file) for file in files}
    with interrupt_after(looks):
        result = command(*line)
    assert (result.status, result.err.strip()) == (130, "lessbits: interrupted")
    assert "run the same command again: the run is kept in out/run\n" in result.out
    assert "goes on" not in command(*line, "--until", 1e-3).err  # another run, which may have ended before
    assert "this run goes on from iteration " in command(*line).err
    for file, trace in whole.items():
        again = Trace.load(file)
        assert all(np.array_equal(again[name], trace[name]) for name in trace.columns if not name.endswith("seconds"))
        assert again.x.tobytes() == trace.x.tobytes()
    assert not Path("out/run").exists()


def test_what_is_kept_of_an_interrupted_run_may_be_damaged_or_old(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        with interrupt_after(2):
            assert command("run", *SMALL, "--seed", seed).status == 130
        (kept,) = Path("out/run").glob("*/checkpoint-*")  # the first is dropped when the second is written
        os.utime(kept, (0, 0))
    kept.write_bytes(b"nothing")
    result = command("run", *SMALL, "--seed", 1)
    assert result.status == 0
    assert "the run begins anew" in result.err


def test_an_interrupted_run_that_keeps_nothing_says_so(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    hint = "nothing was saved: --save FILE keeps the trace, --checkpoint DIR lets the run go on"
    for kept in ([], ["--quiet"]):
        with interrupt_after(2):
            result = command("run", *SMALL, "--scoring", "off", *kept)
        assert result.status == 130
        assert (hint in result.err) == (not kept)


READ = [(("run", "--help"),), (("theory",),), (("data", "list"),), (("theory", "--json", "-"),)]


@pytest.mark.parametrize(("words",), slow_but(READ[:1], READ))  # noqa: PT006 (one argument, a tuple)
def test_a_reader_that_leaves_early_is_no_failure_of_ours(words):
    with subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


# Terminals.


@pytest.mark.parametrize(
    "arguments",
    [("run", *SMALL, "--latency", 1), ("theory", "--network", "star", "--nodes", 100)],
)
def test_reports_fit_a_narrow_terminal(command, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    result = command(*arguments)
    assert result.status == 0
    assert result.err == ""
    lines = [line for line in result.out.splitlines() if not line.startswith("  lessbits ")]  # to be copied whole
    assert max(map(len, lines)) <= 60
    assert "…" not in result.out
    assert "\x1b" not in result.out


@pytest.mark.slow
def test_a_terminal_without_greek_gets_a_report_too():
    done = subprocess_command("theory", "--nodes", 4, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "? = " in done.stdout


# Help.


def test_version(command):
    assert command("--version").out == f"lessbits {lessbits.__version__}\n"


def test_without_arguments_it_shows_the_commands(command):
    result = command()
    assert result.status == 0
    assert result.err == ""
    for name in ("run", "theory", "advise", "demo"):
        assert f"│ {name} " in result.out


def test_help_names_every_setting_with_its_default(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    out = command("run", "--help").out
    for name, field in Settings.model_fields.items():
        if name == "step_sizes":  # of methods registered in Python
            continue
        assert f"--{name.replace('_', '-')} " in out
        assert field.description in out, name
    for flag in ("--json", "--solution", "--save", "--write-toml", "--quiet"):
        assert f"{flag} " in out


def test_help_loads_no_heavy_library():
    code = (
        "import sys; sys.argv = ['lessbits', 'run', '--help']\n"
        "from lessbits.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "lessbits.cli.app" in loaded
    assert not loaded & {"jax", "numpy", "scipy", "matplotlib", "pandas", "sklearn", "networkx"}


def examples():
    commands = typer.main.get_command(app).commands
    for name, command in commands.items():
        for line in (command.epilog or "").split("\n\n")[1:]:
            yield pytest.param(command, line, id=f"{name}-{len(line)}")


@pytest.mark.parametrize(("command", "line"), list(examples()))
def test_the_examples_in_the_help_can_be_typed(command, line):
    program, name, *arguments = shlex.split(line)
    assert program == "lessbits"
    assert name == command.name
    context = command.make_context(name, arguments)
    given = {name: value for name, value in context.params.items() if name in Settings.model_fields}
    Settings.read(given)
    assert not given or any(value is not None for value in given.values())  # some commands have no settings


# The demo.


def test_the_demo_prints_tables_and_writes_data_and_a_plot(command, monkeypatch, tmp_path):
    headline = "lessbits.experiments.headline"
    monkeypatch.setattr(f"{headline}.NODES", 8)
    monkeypatch.setattr(f"{headline}.DIM", 20)
    monkeypatch.setattr(f"{headline}.TUNED", {"star": {"exact": 1, "dit-4": 1}, "ring": {"exact": 0, "rand-2": -10}})
    result = command("demo", "--out", tmp_path / "new" / "folder")
    assert result.status == 0
    assert result.err == ""
    data = json.loads((tmp_path / "new" / "folder" / "results.json").read_text())
    assert (tmp_path / "new" / "folder" / "headline.png").read_bytes().startswith(b"\x89PNG")
    for network, quantizer in (("star", "dit-4"), ("ring", "rand-2")):
        exact, other = data[network]
        assert (exact["quantizer"], exact["free"], exact["bits_saved"]) == ("exact", "-", 1)
        assert other["quantizer"] == quantizer
        assert other["converged"]
        assert other["bits_saved"] == pytest.approx(exact["bits_per_link"] / other["bits_per_link"])
        assert f"{other['iterations']:,}" in result.out
        assert quantizer in result.out
    assert data["star"][1]["free"] == "yes"
    assert data["ring"][1]["free"].startswith("no, ")
    assert "star of 8 nodes" in result.out
    assert "headline.png" in result.out.replace("\n", "")


def test_a_run_can_go_on_for_longer(command, tmp_path):
    words = (
        "run",
        "--nodes",
        6,
        "--dim",
        8,
        "--theta",
        0.5,
        "--eta",
        1,
        "--checkpoint",
        tmp_path / "kept",
        "--json",
        "-",
    )
    assert command(*words, "--iterations", 9_000, "--checkpoint-every", 4_500).status == 0
    longer = command(*words, "--iterations", 30_000, "--resume")  # by itself it would record every 3 iterations
    assert longer.status == 0
    assert longer.json["iterations"] == 30_000
    assert longer.json["settings"]["record_every"] == 1


def test_a_run_with_several_seeds_shows_mean_and_spread(command, tmp_path):
    told = ("run", *SMALL, "--quiet", "--seeds", 3, "--save", tmp_path / "ring.trace")
    found = command(*told, "--json", "-").json
    names = sorted(path.name for path in tmp_path.glob("*.trace"))
    assert names == ["ring-seed-0.trace", "ring-seed-1.trace", "ring-seed-2.trace"]
    errors = [Trace.load(tmp_path / name)["error"][-1] for name in names]
    assert len(set(errors)) == 3
    assert found["seeds"]["mean"]["error"] == pytest.approx(np.mean(errors))
    assert found["seeds"]["spread"]["error"] == pytest.approx(np.std(errors, ddof=1))
    assert "Mean ± standard deviation of 3 seeds" in command(*told).out
    refused = command("run", *SMALL, "--seeds", 2, "--checkpoint", tmp_path / "checkpoints")
    assert refused.status == 2
    assert "several seeds are for the simulator" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run --condition 10", "condition was given, but it is for least squares"),
        ("run --normalize", "normalize was given, but there are no data"),
        ("run --problem logistic --data iris --condition 10", "condition was given, but it is for random problems"),
        ("theory --latency 1", "No such option: --latency"),
        ("theory --engine mpi", "No such option: --engine"),
        ("compare --method lead", "No such option: --method"),
    ],
)
def test_flags_that_would_have_no_effect_are_refused(command, words, said):
    found = command(*words.split())
    assert found.status == 2
    assert said in found.err


def test_a_file_with_settings_that_a_command_does_not_take_is_refused(command, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('method = "lead"\n')
    found = command("compare", file)
    assert found.status == 2
    assert f"method is set in {file}, but lessbits compare does not take it" in found.err


def test_a_torus_of_a_prime_number_says_what_it_is(command):
    found = command("run", *SMALL[2:], "--network", "torus", "--nodes", 7, "--quiet")
    assert "a torus of 7 nodes has the sides 1 x 7, which is a ring" in found.err


@pytest.mark.slow
def test_a_method_that_is_made_for_a_target_says_so_if_there_is_none(monkeypatch, capsys):
    line = ("run", "--nodes", 2, "--dim", 2, "--method", "scheduled", "--iterations", 3)
    assert "note: scheduled has a schedule for one target: give --until" in run_command(monkeypatch, capsys, *line).err
    assert "give --until" not in run_command(monkeypatch, capsys, *line, "--until", 1e-3).err
