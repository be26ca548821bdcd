"""Draws the pictures of the README and the site into docs/images: `python docs/draw_pictures.py [NAME ...]`.

Names are headline, methods, report, gallery and faults; without any, all are drawn, in about five minutes on two cores.
The report is photographed with Chromium. Pictures follow the reader's light or dark mode: SVG files by themselves, the
photographs in two files each. (`docs/draw_agreement.py` and `docs/draw_packages.py` draw the other two.)
"""

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessbits._internal.figures import COLOURS, FRAME, GRID, PAGE, STYLE, TEXT, label_axis
from lessbits.engines.recording.trace import Trace
from lessbits.report.plots import LINES, in_style, new_figure, plot_headline
from lessbits.report.runs import LOG_ABOVE

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
EXAMPLES = {  # column and title of each plot
    "sensors": ("error", "Thirty sensors average over radio links"),
    "hospitals": ("suboptimality", "Eight hospitals fit one model"),
    "custom_loss": ("error", "A robust loss of one's own"),
    "torch_gradient": ("error", "Gradients from PyTorch"),
    "sixteen_processes": ("error", "Sixteen MPI processes"),
}
NEEDS = {"torch_gradient": "torch", "sixteen_processes": "mpi4py"}
# Colours of the page: in the figure, in light mode, and in dark mode.
THEME = {
    PAGE: ("--page", "#14171a"),
    TEXT: ("--text", "#e6e9ed"),
    FRAME: ("--frame", "#7d8894"),
    GRID: ("--grid", "#343b43"),
    "#000000": ("--black", "#ffffff"),
    "#0072b2": ("--blue", "#3d9bd8"),
}
METHODS = (
    "primal-dual,tree,accelerated,dgd,qdgd,choco,extra,gradient-tracking,gradient-tracking-atc,nids,lead,gt-svrg,diana,"
    "vr-diana,ssda,msda"
)
COMPARED = (
    "compare --problem logistic --data breast-cancer --normalize --nodes 8 --network star --quantizers dit-4 "
    f"--until 1e-8 --iterations 5000 --methods {METHODS}"
)
REPORTED = "compare --network star --nodes 20 --dim 50"


def themed(figure: Any) -> str:
    """Return a figure as SVG whose colours follow the reader's mode, with text as text."""
    import matplotlib

    content = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.fonttype": "none", "path.simplify_threshold": 0.3}):
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    text = content.getvalue()
    text = text[text.index("<svg") :]
    for given, (name, _) in THEME.items():
        text = re.sub(rf"(fill|stroke): {given}\b", rf"\1: var({name})", text, flags=re.IGNORECASE)
    text = re.sub(r"font: ([^;\"]*?)'DejaVu Sans'[^;\"]*", r"font: \1system-ui, sans-serif", text)
    light = "".join(f"{name}:{given};" for given, (name, _) in THEME.items())
    dark = "".join(f"{name}:{other};" for name, other in THEME.values())
    css = f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
    return re.sub(r"(<svg[^>]*>)", rf"\1\n<style>{css}</style>", text, count=1)


def write_svg(name: str, figure: Any) -> None:
    """Write a figure to the folder of images."""
    (IMAGES / f"{name}.svg").write_text(themed(figure), encoding="utf-8")


def command(words: str, folder: Path) -> None:
    """Run `lessbits` with these words and a folder for its files, without what it prints."""
    told = [sys.executable, "-m", "lessbits", *words.split(), "--out", str(folder), "--quiet"]
    done = subprocess.run(told, stdout=subprocess.PIPE, text=True)
    if done.returncode > 1:  # 1: some runs missed the target
        raise SystemExit(done.returncode)


def headline(folder: Path) -> None:
    """Draw the plot of `lessbits demo`."""
    import json

    command("demo", folder)
    write_svg("headline", plot_headline(json.loads((folder / "results.json").read_text(encoding="utf-8"))))


def methods(folder: Path) -> None:
    """Draw the error against bits for all methods."""
    command(COMPARED, folder)
    write_svg("methods", plot_methods([Trace.load(path) for path in sorted(folder.glob("*.trace"))]))


@in_style
def plot_methods(traces: Sequence[Trace]) -> Any:
    """Plot the error against bits, with the name of each method at the end of its curve."""

    def bits(trace: Trace) -> tuple[bool, float]:
        return not trace.converged, float(trace["wire_bits_per_link"][-1])

    figure, ((axis,),) = new_figure(1, 1, width=9.2, height=5.0)
    ended = sorted(traces, key=bits)
    for number, trace in enumerate(ended):
        sent, error = trace["wire_bits_per_link"], trace["error"]
        kept = np.unique(np.linspace(0, len(sent) - 1, 250).astype(int))
        name = trace.settings["method"] + (" (dit-4)" if trace.settings["quantizer"] != "exact" else "")
        name += "" if trace.converged else ", not reached"
        look = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number // len(COLOURS) % 4]}
        axis.plot(sent[kept], error[kept], label=name, **look)
    axis.set(xscale="log", yscale="log", ylim=(5e-9, None))
    label_axis(axis, "x", "wire_bits_per_link")
    label_axis(axis, "y", "error")
    axis.axhline(1e-8, color=FRAME, linestyle=":", linewidth=1.2)
    axis.set_title("Logistic regression on breast-cancer, star of 8 nodes, practical step sizes")
    figure.legend(loc="outside right upper", title="fewest bits to 1e-8 first")
    return figure


def report(folder: Path) -> None:
    """Photograph the HTML report of a comparison, in light and in dark."""
    command(REPORTED, folder)
    photograph((folder / "report.html").as_uri(), "report", 1180, 985)


def photograph(address: str, name: str, width: int, height: int) -> None:
    """Write NAME-light.png and NAME-dark.png with few colours, which keeps them small."""
    import shutil

    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            tab.goto(address)
            tab.wait_for_timeout(500)
            picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
            picture = picture.quantize(96, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
            picture.save(IMAGES / f"{name}-{scheme}.png", optimize=True)
            tab.close()
        browser.close()


def gallery(folder: Path) -> None:
    """Run the examples, and draw their runs; one that needs a package that is missing keeps its picture."""
    import importlib.util
    import runpy

    for name, (column, title) in EXAMPLES.items():
        if importlib.util.find_spec(NEEDS.get(name, "lessbits")) is None:
            print(f"{name}: not drawn, because {NEEDS[name]} is missing")
            continue
        main = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"]
        if name == "sixteen_processes":
            main(16, str(folder / "run.trace"))
            traces = {"16 processes, dit-4": Trace.load(folder / "run.trace")}
        else:
            traces = main(quick=False)
        write_svg(name.replace("_", "-"), plot_example(traces, column, title))


def faults(folder: Path) -> None:
    """Run the example of networks that fail; and draw its runs."""
    import runpy

    example = runpy.run_path(str(ROOT / "examples" / "faults.py"))
    write_svg("faults", example["plot"](example["main"](quick=False)))


@in_style
def plot_example(traces: Mapping[str, Trace], column: str, title: str) -> Any:
    """Plot the runs of an example against bits."""
    figure, ((axis,),) = new_figure(1, 1, width=7.6, height=3.4)
    for label, trace in traces.items():
        trace.plot("wire_bits_per_link", column, axis=axis, label=label)
    sent = [trace["wire_bits_per_link"][-1] for trace in traces.values()]
    if max(sent) > LOG_ABOVE * min(sent):
        axis.set_xscale("log")
        label_axis(axis, "x", "wire_bits_per_link")
    axis.set_title(title)
    figure.legend(loc="outside right upper")
    return figure


def main(names: Sequence[str]) -> None:
    """Draw the pictures with these names, or all."""
    known = {"headline": headline, "methods": methods, "report": report, "gallery": gallery, "faults": faults}
    for name in names or known:
        with tempfile.TemporaryDirectory() as folder:
            known[name](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
