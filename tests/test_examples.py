"""The examples run, in quick form, and find what they say."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs an example and returns what it printed."""

    def run(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, "--quick"])
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_sensors(printed) -> None:
    errors = [float(error) for error in re.findall(r"error +(\S+)", printed("sensors"))]
    assert len(errors) == 4
    assert errors == sorted(errors, reverse=True)  # each sends better than the one before
    assert errors[0] > 1e-3 > 1e-6 > errors[1]


@pytest.mark.slow
def test_hospitals(printed) -> None:
    text = printed("hospitals")
    pooled, *ours = (float(share) for share in re.findall(r"accuracy (\S+)%", text))
    assert pooled > 95
    assert len(ours) == 2
    assert all(abs(share - pooled) < 1 for share in ours)
    for bits, floats in re.findall(r"(\d+) kbit per link \(floats in as many exchanges: (\d+)", text):
        assert 3 * int(bits) < int(floats)


@pytest.mark.slow
def test_custom_loss(printed) -> None:
    text = printed("custom_loss")
    robust, squares = re.search(r"robust (\S+), least squares (\S+)", text).groups()
    assert "reached error" in text
    assert 5 * float(robust) < float(squares)


@pytest.mark.slow
def test_faults(printed) -> None:
    errors = [float(error) for error in re.findall(r": (\d\S*)$", printed("faults"), re.MULTILINE)]
    ours, algorithm, lead, choco, tracking, dgd = zip(*(errors[at : at + 6] for at in range(0, 24, 6)), strict=True)
    assert max(ours) < 1e-20  # through everything
    for healthy, *faulty in (algorithm, lead):
        assert healthy < 1e-10
        assert min(faulty) > 1e-2
    assert max(tracking[:2]) < 1e-10 < 1e-2 < min(tracking[2:])
    assert min(*choco, *dgd) > 1e-4


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_torch_gradient(printed) -> None:
    assert "reached error" in printed("torch_gradient")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
def test_neural_digits(printed) -> None:
    text = printed("neural_digits")
    shares = [(float(alone), float(together)) for alone, together in re.findall(r"(\S+)% alone, (\S+)% together", text)]
    assert len(shares) == 4
    assert all(together > alone + 10 for alone, together in shares)
    assert "jax" not in text


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("optax") is None, reason="optax is not installed")
def test_neural_optax() -> None:
    command = [sys.executable, str(FOLDER / "neural_optax.py"), "--quick"]  # apart, as optax promotes types
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours, outer, ddp, alone = (float(share) for share in re.findall(r"accuracy (\S+)%", text))
    assert min(ours, outer, ddp) > alone + 20
    assert text.endswith("largest difference to the simulation 0\n")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
def test_sixteen_processes(printed) -> None:
    assert printed("sixteen_processes").count(", the same") == 2


def test_every_example_is_tested_and_listed() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")}
    assert names == {name.removeprefix("test_") for name in globals() if name.removeprefix("test_") in names}
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in listed for name in names)
