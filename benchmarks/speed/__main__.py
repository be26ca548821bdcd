"""Time of an iteration, of starting and of tuning, against others in the same run.

    python benchmarks/speed [SECTION …] [--out FOLDER] [--w8a FILE]

Writes FOLDER/speed.json and FOLDER/speed.md. Everything takes its turn in several rounds, and the best round
of each counts, so that ratios hold on a noisy machine; compiling is apart.
"""

from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import consensus  # noqa: E402
import data  # noqa: E402
import size  # noqa: E402
import starting  # noqa: E402
import sweeps  # noqa: E402
from timing import run_sections  # noqa: E402

SECTIONS = (
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
W8A = {"default": "w8a", "help": "the file w8a, for logistic regression; downloaded by default"}

if __name__ == "__main__":
    run_sections("speed", Path(__file__).parent, __doc__, SECTIONS, {"--w8a": W8A})
