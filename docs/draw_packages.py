"""Draws docs/images/packages.svg, the picture on the page docs/design.md: `python docs/draw_packages.py`.

A test compares the packages with the layers that imports are held to, and the file with what this script draws.
"""

from html import escape
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "images" / "packages.svg"
WIDTH, LEFT, GAP, HEIGHT = 760, 28, 8, 46


class Box(NamedTuple):
    """A package or a module: what is in it, and its place on the path of `lessbits run`."""

    name: str
    contents: str
    stop: str = ""
    planned: bool = False


# From the top layer down: a package may import those below it.
LAYERS = [
    [Box("cli", "one file per command; flags, exit statuses", "1")],
    [
        Box("sklearn", "estimators"),
        Box("experiments", "the paper's figures"),
        Box("torch", "PyTorch training"),
        Box("neural", "JAX training"),
    ],
    [
        Box("studies", "what the commands do, on any problem"),
        Box("training", "rule and links of training"),
    ],
    [Box("report", "text, tables, plots, HTML pages", "6")],
    [Box("config", "settings → problem, network, method; one run", "2")],
    [Box("tuning", "step sizes, grids, search, fewest bits")],
    [Box("engines", "one RunOptions, one StopRule, one schedule, one scoring, for all engines", "3")],
    [Box("methods", "base class, registry, gradients, messages, one file per method")],
    [
        Box("problems", "losses and their solutions"),
        Box("codecs", "payloads as bytes"),
        Box("faults", "links, nodes that fail"),
    ],
    [
        Box("datasets", "samples, splits"),
        Box("networks", "graphs, weights, spectra"),
        Box("quantizers", "compressed messages"),
        Box("theory", "the paper's numbers"),
    ],
    [Box("_internal", "pytrees, axes, randomness, summation, files, cache, wording")],
    [Box("errors", "InputError, WireError"), Box("version", "one number")],
]
INSIDE = {
    "engines": [
        Box("simulate/", "all nodes, one process", "4"),
        Box("distributed/", "real processes, bytes", "4"),
        Box("recording/", "traces, checkpoints", "5"),
        Box("peers/", "sites, over gRPC"),
    ],
}

STYLE = """
  text { font-family: system-ui, sans-serif; font-size: 12px; fill: #3b4a5a; }
  .name { font-family: ui-monospace, monospace; font-size: 14px; font-weight: 600; fill: #16202b; }
  .box { fill: #e9eff8; stroke: #5f7fae; }
  .inner { fill: #ffffff; stroke: #5f7fae; }
  .planned { fill: none; stroke: #7b8794; stroke-dasharray: 5 4; }
  .stop { fill: #b3430f; }
  .number { font-weight: 700; fill: #ffffff; text-anchor: middle; }
  .arrow { stroke: #7b8794; stroke-width: 1.5; fill: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b8c4d2; }
    .name { fill: #eef3f9; }
    .box { fill: #24334d; stroke: #86a3d1; }
    .inner { fill: #17233a; stroke: #86a3d1; }
    .planned, .arrow { stroke: #8f9cab; }
    .stop { fill: #f0a060; }
    .number { fill: #1a1206; }
  }
"""


def draw_box(box: Box, left: float, top: float, width: float, height: float, kind: str = "box") -> list[str]:
    """Return a box with its name, its contents, and a number where the path of a run goes through it."""
    kind = "planned" if box.planned else kind
    parts = [
        f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="5"/>',
        f'<text class="name" x="{left + 10:g}" y="{top + 19:g}">{escape(box.name)}</text>',
        f'<text x="{left + 10:g}" y="{top + 36:g}">{escape(box.contents)}</text>',
    ]
    if box.stop:
        right = left + width - 16
        parts.append(f'<circle class="stop" cx="{right:g}" cy="{top + 14:g}" r="9"/>')
        parts.append(f'<text class="number" x="{right:g}" y="{top + 18:g}">{escape(box.stop)}</text>')
    return parts


def draw_row(boxes: list[Box], left: float, top: float, width: float, kind: str = "box") -> tuple[list[str], float]:
    """Return boxes side by side, with what stands inside them, and the height of the row."""
    share = (width - GAP * (len(boxes) - 1)) / len(boxes)
    height = HEIGHT + max((HEIGHT + GAP for box in boxes if box.name in INSIDE), default=0)
    parts = []
    for number, box in enumerate(boxes):
        start = left + number * (share + GAP)
        parts += draw_box(box, start, top, share, height, kind)
        if box.name in INSIDE:
            parts += draw_row(INSIDE[box.name], start + GAP, top + HEIGHT, share - 2 * GAP, "inner")[0]
    return parts, height


def draw() -> str:
    """Return the picture as SVG."""
    parts, top = [], GAP / 2
    for layer in LAYERS:
        row, height = draw_row(layer, LEFT, top, WIDTH - LEFT - GAP / 2)
        parts += row
        top += height + GAP
    middle, end = top / 2, top - GAP
    parts.append(f'<path class="arrow" d="M 14 {GAP} V {end:g} m -5 -8 l 5 8 l 5 -8"/>')
    parts.append(f'<text x="9" y="{middle:g}" transform="rotate(-90 9 {middle:g})">imports point down</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:g}" role="img">'
    title = "<title>The packages of lessbits, in the order of their layers</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(draw(), encoding="utf-8")
