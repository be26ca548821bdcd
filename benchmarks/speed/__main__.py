"""Time of an iteration, of starting and of tuning, against others in the same run.

    python benchmarks/speed [SECTION …] [--out FOLDER] [--w8a FILE]

Writes FOLDER/speed.json and FOLDER/speed.md. Times are medians over rounds in which everything takes its turn, so that
ratios hold on a noisy machine; compiling is apart.
"""

import argparse
import json
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import consensus  # noqa: E402
import data  # noqa: E402
import size  # noqa: E402
import starting  # noqa: E402
import sweeps  # noqa: E402
from timing import machine  # noqa: E402

SECTIONS = {
    section.__name__: section
    for section in (
        consensus.iteration,
        consensus.networks,
        size.large,
        size.scaling,
        size.memory,
        data.logistic,
        data.stochastic,
        sweeps.tuning,
        starting.start,
    )
}


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all by default")
    words.add_argument("--out", type=Path, default=Path(__file__).parent)
    words.add_argument("--w8a", default="w8a", help="the file w8a, for logistic regression; downloaded by default")
    told = words.parse_args()
    if unknown := set(told.sections) - set(SECTIONS):
        words.error(f"no section {', '.join(sorted(unknown))}: there are {', '.join(SECTIONS)}")
    told.out.mkdir(parents=True, exist_ok=True)
    kept = told.out / "speed.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    found["machine"] = machine()
    for name in told.sections or SECTIONS:
        print(f"## {SECTIONS[name].__doc__}", flush=True)
        found[name] = SECTIONS[name](told)
        print(table(found[name]), flush=True)
        kept.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        texts = [f"## {SECTIONS[done].__doc__}\n\n{table(found[done])}" for done in SECTIONS if done in found]
        (told.out / "speed.md").write_text(f"{found['machine']}\n\n" + "\n".join(texts))


def table(rows):
    """Rows of names and numbers as a table."""
    titles = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(_shown(row.get(title, "")) for title in titles) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _shown(value):
    return f"{value:,.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
