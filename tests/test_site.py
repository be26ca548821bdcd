"""The documentation: it builds without a warning, and what its pages say to type works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("index.md", "choose.md", "concepts.md", "add-a-problem.md", "scikit-learn.md")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_it_builds_strictly(tmp_path: Path) -> None:
    told = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(told, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    api = (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")
    assert "simulate" in api
    assert "DecentralizedRidge" in api
    assert "<blockquote>" not in api  # examples are code


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = {name for name in pages if f": {name}" in menu}
    assert pages - listed <= {name for name in pages if name.startswith("reproduction/")}


@pytest.mark.parametrize("name", [name for name in PAGES if "```python" in page(name)])
def test_python_on_the_pages_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for code in re.findall(r"```python\n(.*?)```", page(name), re.DOTALL):
        exec(compile(code, name, "exec"), {})
        assert "reached error" in capsys.readouterr().out
