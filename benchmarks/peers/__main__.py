"""What runs across sites cost: seconds and bytes over slow links, a slow site, and the overhead of a round.

    sudo python benchmarks/peers --data FOLDER [--flower PYTHON] [--quick] [--only NAME …] [--keep FOLDER]

FOLDER has `w8a.libsvm.xz` and `fashion-mnist/`; PYTHON is the interpreter of an environment with `flwr`, NumPy and
SciPy. It prints Markdown. The parts are `fashion`, `w8a`, `straggler`, `rounds` and `link`; the first two make network
namespaces and TUN devices, which needs root, and take some minutes each. The load of the machine before each part is
printed with it: it should be near zero.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import over_links
import overhead
import straggler

PARTS = ("fashion", "w8a", "straggler", "rounds", "link")


def links(name, options, folder):
    notes, rows = over_links.measure(name, options.data, folder, options.flower, options.quick)
    return [f"{notes[0]}.", "", *over_links.table(rows), "", *(f"- {note}" for note in notes[1:])]


def slow_site(options, folder):
    rows = straggler.measure(folder, options.quick)
    lines = [
        f"Least squares at {straggler.SITES} sites on loopback, dit-4; at one site a gradient takes {straggler.FACTOR} "
        "times as long.",
        "",
        f"| a gradient takes | mode | s to {straggler.LEVEL:g} | iterations of each site until then | at the end |",
        "|---:|---|---:|---|---:|",
    ]
    for row in rows:
        seconds = "–" if row["seconds"] is None else f"{row['seconds']:.1f}"
        counts = ", ".join(str(count) for count in row["counts"])
        lines.append(f"| {1000 * row['gradient']:.0f} ms | {row['mode']} | {seconds} | {counts} | {row['last']:.1e} |")
    lines.append("")
    for waits, other in zip(rows[::2], rows[1::2], strict=True):
        if waits["seconds"] and other["seconds"]:
            gain = waits["seconds"] / other["seconds"]
            lines.append(f"- {1000 * waits['gradient']:.0f} ms: {other['mode']} is {gain:.2f} times faster")
    return lines


def rounds(options, folder):
    lines = [
        f"Consensus at {overhead.SITES} sites on loopback, d = {overhead.DIM}, float64: µs per iteration, of "
        f"windows of {overhead.WINDOW}.",
        "",
        "| engine | quantizer | best | median |",
        "|---|---|---:|---:|",
    ]
    for row in overhead.per_round(folder, options.quick):
        lines.append(f"| {row['engine']} | {row['quantizer']} | {row['best']:.0f} | {row['median']:.0f} |")
    return lines


def link(options, folder):
    lines = [
        f"One link on loopback, d = {overhead.LONG_DIM}, float32, both ways at once: coordinates as 4 bytes, and "
        "what is sent.",
        "",
        "| quantizer | ms per iteration | kB per message | MB/s of coordinates | Mbit/s sent |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in overhead.throughput(folder, options.quick):
        cells = (1000 * row["seconds"], row["message"] / 1000, row["payload"], row["wire"])
        lines.append(f"| {row['quantizer']} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    return lines


def _interrupt(*ignored):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--flower", type=Path)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--keep", type=Path, help="a folder for all files; else they are removed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)  # so that nothing is left over then, too
    folder = Path(tempfile.mkdtemp(prefix="lessbits-")) if options.keep is None else options.keep
    folder.mkdir(parents=True, exist_ok=True)
    makers = {"straggler": slow_site, "rounds": rounds, "link": link}
    try:
        for part in options.only:
            load = os.getloadavg()[0]
            maker = makers.get(part)
            lines = links(part, options, folder) if maker is None else maker(options, folder)
            print("\n".join([f"## {part}", "", *lines, "", f"Load of the machine before: {load:.1f}.", ""]), flush=True)
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
