"""Examples that are written down must run, and names in the paper map must exist."""

import doctest
import importlib
import pkgutil
import re
from functools import reduce
from pathlib import Path

import matplotlib
import pytest
from tiers import slow_but

import lessbits
from lessbits.methods import registry
from lessbits.methods.registry import all_methods

ROOT = Path(__file__).parents[1]
QUANTIZERS = (
    *("exact", "float32", "rand-2", "dit-3", "subtractive:3", "ternary", "natural", "rand-2+dit-3", "fading:1:0.9"),
    *("grid:2", "top-2", "sign", "scaled-dit-2"),
)
MODULES = [name for _, name, _ in pkgutil.walk_packages(lessbits.__path__, "lessbits.")]
ALL = ["lessbits", *MODULES]
LONG = {
    "lessbits.studies.advice",
    "lessbits.sklearn.ridge",
    "lessbits.sklearn.classifier",
}  # their examples take seconds


@pytest.fixture(autouse=True)
def no_method_stays_registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def test_names_in_the_paper_map_exist():
    names = set(re.findall(r"`(lessbits\.[\w.]+)`", (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")))
    assert len(names) > 30
    for name in names:
        module = max((m for m in MODULES if name.startswith(m + ".")), key=len)
        reduce(getattr, name.removeprefix(module + ".").split("."), importlib.import_module(module))


def numbers_in(section):
    """Return the numbers of the first column of a section's table."""
    text = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8").split(f"## {section}")[1].split("\n## ")[0]
    found = []
    for column in re.findall(r"^\| ([\d, -]+) \|", text, re.MULTILINE):
        for part in column.split(","):
            first, _, last = part.strip().partition("-")
            found.extend(range(int(first), int(last or first) + 1))
    return found


def test_the_paper_map_leaves_no_line_and_no_equation_out():
    assert set(numbers_in("Algorithm 1")) == set(range(1, 21))
    equations = numbers_in("Equations")
    assert sorted(equations) == list(range(1, 58))  # each once


@pytest.mark.parametrize("name", slow_but(sorted({*ALL} - LONG), ALL))
def test_examples_in_docstrings_run(name):
    if name.startswith("lessbits.torch"):
        pytest.importorskip("torch")
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


# Ranks start them, `make_method` and `make_quantizer` make them, or a page shows how to write one's own.
SHOWN_ELSEWHERE = {
    *("Node", "PartitionedProblem", "run_mpi", "Interrupted", "InputError", "WireError", "Tuning", "Start"),
    *("TuningInterrupted", "Comparison", "ComparisonInterrupted", "Advice", "Axis"),
    *("ProgressState", "PrimalDual", "RunOptions", "Lyapunov", "theory", "__version__"),
    *("Roster", "read_roster", "replay"),  # docs/peers.md
    *("Problem", "Quantizer", "Contraction", "Compressor", "Codec", "register_codec", "pytree", "static", "Step"),
    *("Method", "MethodRequest", "StepSize", "Message", "message_draws", "Gradients", "LocalNetwork", "share"),
    *("disagreements", "ExactMessages", "BroadcastMessages", "IndependentMessages", "EdgeMessages"),
    *(type(lessbits.make_quantizer(name, 8)).__name__ for name in QUANTIZERS),
    *(kind.__name__ for kind in all_methods()),
}


def test_what_users_call_has_an_example():
    public = set(lessbits.__all__) - SHOWN_ELSEWHERE
    shown = {name for name in public if ">>> " in (getattr(lessbits, name).__doc__ or "")}
    assert shown == public
    assert len(public) >= 19


def test_the_readmes_python_example_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.splitlines()) <= 15
    exec(compile(code, "README.md", "exec"), {})
    assert {path.name for path in tmp_path.iterdir()} == {"star.png", "dit-2.csv"}
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["exact", "dit-4", "dit-2"]
    assert all("reached error" in line for line in lines)
