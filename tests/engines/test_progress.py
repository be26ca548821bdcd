"""How a run tells how it is going: a bar, lines, a log, a function."""

import contextlib
import io
import json

import pytest
from command_line import run_command

import lessbits
from lessbits.engines.options import RunOptions
from lessbits.engines.recording import progress
from lessbits.engines.recording.log import Log
from lessbits.engines.recording.progress import Lines, Progress, ProgressState, show_activity

SMALL = ("--nodes", 6, "--dim", 8, "--theta", 0.5, "--eta", 1, "--iterations", 60)


@pytest.fixture
def command(monkeypatch, capsys):
    return lambda *arguments: run_command(monkeypatch, capsys, *arguments)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown_on(stream, monkeypatch, wish=True):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with contextlib.redirect_stderr(stream), Progress(RunOptions(iterations=10, progress=wish)) as bar:
        bar.show(5, {"error": 1e-3}.get, 2000.0)
    return stream.getvalue()


def test_the_bar_is_for_terminals_only(monkeypatch):
    shown = shown_on(Terminal(), monkeypatch)
    assert "5/10 " in shown
    assert "error 1.0e-03, 2 kbit per link" in shown
    assert shown_on(Terminal(), monkeypatch, wish=False) == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown_on(io.StringIO(), monkeypatch) == ""  # a short run says nothing


def test_work_without_iterations_is_shown_on_terminals_only(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        with contextlib.redirect_stderr(stream), show_activity("thinking"):
            pass
        assert ("thinking …" in stream.getvalue()) == shown


def test_elsewhere_there_are_lines_now_and_then(capsys):
    lines = Lines()
    for second in range(31):
        lines(ProgressState(10 * second, 400, 1e-2, 5e5, float(second), 0.25, 40.0 - second))
    said = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in said] == [f"lessbits: iteration {10 * at} of 400" for at in (5, 15, 25)]
    assert said[0].endswith("error 1.00e-02, 500 kbit per link, shrinks 25 % per iteration, 0:35 left")


def test_lines_of_a_real_run(command, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    result = command("run", *SMALL)
    assert result.status == 0
    assert "lessbits: iteration " in result.err
    assert command("run", *SMALL, "--quiet").err == ""


def test_a_function_is_told_the_truth(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    told = []
    with Progress(
        RunOptions(iterations=1000, progress=told.append, until=1e-8, goal="suboptimality"), begun=100
    ) as bar:
        for look in range(1, 6):
            values = {"error": 7.0, "suboptimality": 0.5 ** (10 * look)}
            bar.show(100 + 10 * look, values.get, 1.0)
    last = told[-1]
    assert (last.iteration, last.error, last.seconds) == (150, 7.0, 5)
    assert last.rate == pytest.approx(0.5)
    # 2^-50 is below the target already; two looks before, 10 iterations a second, there were some left.
    assert last.seconds_left == 0
    assert told[1].rate is None
    assert told[1].seconds_left == pytest.approx((1000 - 120) / 10)
    assert Progress(RunOptions(iterations=1))._rate() is None


def test_time_left_is_to_the_target():
    problem, network = lessbits.Consensus.random(nodes=6, dim=8), lessbits.make_network("ring", nodes=6)
    method = lessbits.primal_dual(problem, network, "exact", theta=0.5, eta=1)
    told = []
    trace = lessbits.simulate(
        problem, network, method, iterations=10**6, until=1e-9, record_every=1, progress=told.append
    )
    assert told[-1].iteration == trace["iteration"][-1]
    assert told[-1].error == trace["error"][-1]
    last = told[-1]
    assert last.seconds_left < (10**6 - last.iteration) * last.seconds / last.iteration / 100


def test_a_log_is_json_lines_that_grow_while_the_run_goes_on(command, tmp_path):
    file = tmp_path / "run.log"
    for seed in (0, 1):
        assert command("run", *SMALL, "--log", file, "--seed", seed).status == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    heads = [line for line in lines if line.get("format") == "lessbits-log-1"]
    assert [head["settings"]["seed"] for head in heads] == [0, 1]  # a second run adds to it
    assert lines[1]["iteration"] <= 60
    assert lines[1]["error"] > 0
    assert lines[-1]["ended"].startswith("stopped after 60 iterations")
    assert lines[-1]["iterations"] == 60
    assert all("time" in line for line in lines)


def test_a_log_that_cannot_be_written_stops_no_run(tmp_path, caplog):
    with Log(tmp_path / "run.log", {"seed": 0}) as log:
        log.stream.close()
        log.stream = open("/dev/full", "w")  # noqa: SIM115
        for second in range(0, 10, 2):
            log(ProgressState(1, 2, 1.0, 1.0, float(second), None, None))
    (said,) = caplog.messages
    assert "ends here (No space left on device): the run goes on" in said


def test_a_log_in_no_folder_is_refused_before_the_run(command, tmp_path):
    result = command("run", *SMALL, "--log", tmp_path / "absent" / "run.log")
    assert (result.status, result.out) == (2, "")
    assert "there is no folder" in result.err


def test_quiet_switches_the_progress_bar_off(command, monkeypatch):
    enabled = []

    def spy(experiment, progress, checkpoints):
        enabled.append(progress)
        raise lessbits.InputError("far enough")

    monkeypatch.setattr("lessbits.config.build.Experiment.run", spy)
    command("run", *SMALL)
    command("run", *SMALL, "--quiet")
    assert enabled == [True, False]


def test_a_reader_of_progress_that_leaves_ends_no_run(monkeypatch):
    def gone(standing):
        raise BrokenPipeError

    monkeypatch.setattr(progress, "display", lambda: Gone(gone))
    told = []
    with Progress(RunOptions(iterations=10, progress=(True, told.append))) as bar:
        bar.show(5, {"error": 1e-3}.get, 2000.0)
        bar.show(6, {"error": 1e-3}.get, 2000.0)
    assert [standing.iteration for standing in told] == [5, 6]


class Gone:
    def __init__(self, call):
        self.call = call

    def __call__(self, standing):
        self.call(standing)

    def close(self):
        raise BrokenPipeError


def test_what_breaks_a_run_is_the_last_line_of_its_log(tmp_path):
    with pytest.raises(KeyboardInterrupt), Log(tmp_path / "run.log", {}):
        raise KeyboardInterrupt
    assert json.loads((tmp_path / "run.log").read_text().splitlines()[-1])["ended"] == "failed: KeyboardInterrupt"
