"""The documentation: it builds without a warning, and what its pages say to type works."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from test_structure import LAYERS

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
        assert re.search(r"reached (error|gradient)|^[0-9.]+$", capsys.readouterr().out)


def draw_packages() -> ModuleType:
    """Return the script that draws the picture of the design page."""
    spec = importlib.util.spec_from_file_location("draw_packages", ROOT / "docs" / "draw_packages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_the_packages_is_true() -> None:
    """It shows the layers that imports are held to, and the packages that stand inside others exist."""
    script = draw_packages()
    drawn = [{box.name for box in layer if not box.planned} for layer in script.LAYERS]
    assert drawn[::-1] == LAYERS[:-1]  # but for __main__
    for outer, boxes in script.INSIDE.items():
        for box in boxes:
            assert (ROOT / "src" / "lessbits" / outer / box.name).exists() != box.planned, box.name
    assert script.FILE.read_text(encoding="utf-8") == script.draw()  # else: python docs/draw_packages.py


def test_files_and_names_on_the_design_page_exist() -> None:
    """Paths are below src/lessbits or the root; a name in brackets after a path is defined in that file."""
    text = page("design.md")
    paths = re.findall(r"`([\w./]+(?:\.py|\.pyi|\.toml|\.md|/))`(?: \(`(\w+)`)?", text.split("## Planned")[0])
    assert len(paths) > 60
    for path, name in paths:
        found = [base / path for base in (ROOT / "src" / "lessbits", ROOT) if (base / path).exists()]
        assert found, path
        if name:
            assert re.search(rf"^(\s*(def|class) )?{name}\b", found[0].read_text("utf-8"), re.MULTILINE), (path, name)
