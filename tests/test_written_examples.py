"""Examples that are written down must run, and names in the paper map must exist."""

import doctest
import importlib
import pkgutil
import re
from functools import reduce
from pathlib import Path

import pytest

import lessbits

ROOT = Path(__file__).parents[1]
MODULES = [name for _, name, _ in pkgutil.walk_packages(lessbits.__path__, "lessbits.")]


def test_names_in_the_paper_map_exist():
    names = set(re.findall(r"`(lessbits\.[\w.]+)`", (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")))
    assert len(names) > 30
    for name in names:
        module = max((m for m in MODULES if name.startswith(m + ".")), key=len)
        reduce(getattr, name.removeprefix(module + ".").split("."), importlib.import_module(module))


@pytest.mark.parametrize("name", ["lessbits", *MODULES])
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_some_docstrings_have_examples():
    found = sum(len(test.examples) for name in ["lessbits", *MODULES] for test in find(name))
    assert found >= 10


def find(name):
    return doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))


def test_the_readmes_python_example_runs(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["exact", "dit-4", "dit-2"]
    assert all("reached error" in line for line in lines)


def test_the_readmes_commands_run(capsys, monkeypatch, tmp_path):
    from lessbits.cli import main

    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    lessbits (.+)$", text, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        monkeypatch.setattr("sys.argv", ["lessbits", *command.split()])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 0, command
        assert capsys.readouterr().out
