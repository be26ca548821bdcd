"""Every command that a page says to type is run here or by another test, or is marked with the reason why not.

A mark is a comment on the line before the block: `<!-- run by FILE::TEST -->` or `<!-- not run: REASON -->`.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from command_line import run_command

from lessbits.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples" / "README.md",
    ROOT / "CONTRIBUTING.md",
]
PAGES = [page for page in dict.fromkeys(PAGES) if page.name != "CHANGELOG.md"]
COMMAND = re.compile(r"    ((?:lessbits|make|pip|python|mpiexec|srun|git|docker|curl) .+)")
MARK = re.compile(r"<!-- (?:run by (\S+)|not run: (.+)) -->")
# Pages whose Python is run by a test of its own, which knows what it promises.
PYTHON = {
    "README.md": "tests/test_written_examples.py::test_the_readmes_python_example_runs",
    "docs/index.md": "tests/test_site.py::test_python_on_the_pages_runs",
    "docs/own-data.md": "tests/cli/test_own_data.py::test_the_pages_python_runs",
    "docs/concepts.md": "tests/test_site.py::test_python_on_the_pages_runs",
    "docs/add-a-problem.md": "tests/test_site.py::test_python_on_the_pages_runs",
    "docs/edges.md": "tests/test_site.py::test_python_on_the_pages_runs",
    "docs/scikit-learn.md": "tests/test_site.py::test_python_on_the_pages_runs",
    "docs/add-a-quantizer.md": "tests/quantizers/test_documentation.py::test_the_run_of_the_page_converges",
    "docs/add-a-method.md": "tests/methods/test_method_documentation.py::test_the_runs_of_the_page_converge",
    "docs/neural.md": "tests/pytorch/test_launch.py::test_the_script_of_the_page_runs",
    "docs/codecs.md": "tests/codecs/test_round_trip.py::test_the_written_example_runs",
    "docs/peers.md": "tests/engines/peers/test_joining.py::test_the_pages_training_loop_runs",
    "docs/distributed.md": "tests/mpi/test_command.py::test_the_pages_training_loop_runs",
}


class Block(NamedTuple):
    page: str
    commands: tuple[str, ...]
    run_by: str | None
    not_run: str | None


def blocks(page: Path) -> list[Block]:
    """Return the indented blocks of commands, with the marks before them; fenced blocks hold output or Python."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: list[Block] = []
    marks: tuple[str | None, str | None] = (None, None)
    inside = False
    for line in text.splitlines():
        match = COMMAND.fullmatch(line)
        if match and inside:
            found[-1] = found[-1]._replace(commands=(*found[-1].commands, match[1]))
        elif match:
            found.append(Block(page.relative_to(ROOT).as_posix(), (match[1],), *marks))
        if line.strip():
            mark = MARK.fullmatch(line.strip())
            marks = (mark[1], mark[2]) if mark else (None, None)
        inside = match is not None
    return found


BLOCKS = [block for page in PAGES for block in blocks(page)]
HERE = [block for block in BLOCKS if not (block.run_by or block.not_run)]


def assert_test_exists(name: str) -> None:
    file, _, test = name.partition("::")
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_every_command_is_run_or_marked():
    assert len(BLOCKS) >= 15
    assert len({block.page for block in HERE}) >= 4
    for block in BLOCKS:
        if block.run_by:
            assert_test_exists(block.run_by)
        elif block.not_run is None:
            assert all(command.startswith("lessbits ") for command in block.commands), block


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({block.page for block in HERE}))
def test_commands_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in HERE:
        for command in block.commands if block.page == page else ():
            found = run_command(monkeypatch, capsys, *shlex.split(command, comments=True)[1:])
            assert found.status == 0, f"{command}: {found.err}"
            assert found.out


@pytest.mark.slow
def test_the_readme_shows_what_compare_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command, shown = re.search(r"    lessbits (compare .*)\n\n```\n(.*?)```", text, re.DOTALL).groups()
    found = run_command(monkeypatch, capsys, *shlex.split(command))
    printed = {line.rstrip() for line in found.out.splitlines()}
    lines = shown.splitlines()
    assert len(lines) == 6
    assert {line for line in lines if line not in printed} == set()


def test_every_page_with_python_is_tested():
    with_python = {page.relative_to(ROOT).as_posix() for page in PAGES if "```python" in page.read_text("utf-8")}
    assert with_python == set(PYTHON)
    for test in PYTHON.values():
        assert_test_exists(test)


def test_commands_within_sentences_exist():
    root = typer.main.get_command(app)
    seen = 0
    for page in PAGES:
        for words in re.findall(r"`lessbits ([a-z][^`]*)`", page.read_text(encoding="utf-8")):
            name, *rest = words.split()
            command = root.commands[name]
            while rest and rest[0] in getattr(command, "commands", {}):
                command = command.commands[rest.pop(0)]
            flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
            unknown = {word for word in rest if word.startswith("-") and word != "-"} - flags
            assert not unknown, (page.name, words)
            seen += 1
    assert seen > 20
