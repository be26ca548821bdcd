"""The documentation: it builds without a warning, and what its pages say to type works."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from test_structure import LAYERS
from tiers import slow_but

ROOT = Path(__file__).parents[1]
RUN_QUICKLY = ("index.md", "concepts.md")
PAGES = ("index.md", "choose.md", "concepts.md", "add-a-problem.md", "scikit-learn.md", "edges.md")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    told = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(told, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_it_builds_strictly(site: Path) -> None:
    api = (site / "api" / "index.html").read_text(encoding="utf-8")
    assert "simulate" in api
    assert "DecentralizedRidge" in api
    assert "<blockquote>" not in api  # examples are code


@pytest.mark.slow
def test_no_star_is_taken_for_emphasis(site: Path) -> None:
    """x* and f* keep their stars: emphasis never begins within a word."""
    for path in site.rglob("*.html"):
        assert not re.search(r"\w<em>.{0,60}", path.read_text(encoding="utf-8")), path
    assert "x*" in (site / "fewest-bits" / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_menu_has_groups_and_code_can_be_copied(site: Path) -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[1]
    assert re.findall(r"^  - (\w+):$", menu, re.MULTILINE) == ["Start", "Guides", "Reference", "Results"]
    assert "content.code.copy" in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_no_table_is_wider_than_its_page(site: Path, width: int) -> None:
    if (browser := shutil.which("chromium")) is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    measure = """() => [...document.querySelectorAll('.md-typeset table')].map((table) => Math.max(
      table.getBoundingClientRect().right, table.getBoundingClientRect().left + table.scrollWidth))"""
    seen = 0
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = started.new_page(viewport={"width": width, "height": 900})
        for path in sorted(site.rglob("index.html")):
            tab.goto(path.as_uri())
            edges = tab.evaluate(measure)
            assert max(edges, default=0) <= width, path
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, path
            if width == 1280:
                assert tab.locator("table.stacked").count() == 0, path  # a table on a desk is a table
            seen += len(edges)
        started.close()
    assert seen > 30


def test_pictures_are_there_small_and_drawn_by_a_script() -> None:
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("draw_*.py"))
    for path in (ROOT / "docs" / "images").iterdir():
        assert path.stat().st_size < 100_000, path
        name = re.sub(r"-(light|dark)$", "", path.stem)
        assert f'"{name}' in scripts or f'"{name.replace("-", "_")}' in scripts or path.name in scripts, path
    for file in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = file.read_text(encoding="utf-8")
        for address in re.findall(r"!\[[^\]]*\]\(([^)#]+)|(?:src|srcset)=\"([^\"]+)", text):
            assert (file.parent / (address[0] or address[1])).is_file(), (file, address)


def test_drawings_follow_light_and_dark() -> None:
    for path in (ROOT / "docs" / "images").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme" in text, path
        ElementTree.fromstring(text)


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = {name for name in pages if f": {name}" in menu}
    assert pages - listed <= {name for name in pages if name.startswith("reproduction/")}


@pytest.mark.parametrize("name", slow_but(RUN_QUICKLY, [name for name in PAGES if "```python" in page(name)]))
def test_python_on_the_pages_runs(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}  # a page goes on with what it had before
    for code in re.findall(r"```python\n(.*?)```", page(name), re.DOTALL):
        exec(compile(code, name, "exec"), names)
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
    paths = re.findall(r"`([\w./]+(?:\.py|\.pyi|\.toml|\.md|/))`(?: \(`(\w+)`)?", text)
    assert len(paths) > 60
    for path, name in paths:
        found = [base / path for base in (ROOT / "src" / "lessbits", ROOT) if (base / path).exists()]
        assert found, path
        if name:
            assert re.search(rf"^(\s*(def|class) )?{name}\b", found[0].read_text("utf-8"), re.MULTILINE), (path, name)
