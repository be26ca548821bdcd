"""Feed codecs with bytes that nobody encoded.

    python benchmarks/fuzz_codecs.py --inputs 10000000

The test suite does the same with 100 000 inputs (tests/codecs/fuzzing.py). Anything but `WireError` ends the run with a
traceback, and the seed of the batch is printed before it starts.
"""

import argparse
import sys
import time
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "codecs"))

BATCH = 200_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()

    jax.config.update("jax_enable_x64", True)
    from fuzzing import fuzz, subjects

    made = subjects(dims=(5, 16, 37, 130))
    started = time.perf_counter()
    done = accepted = 0
    slowest = 0.0
    while done < given.inputs:
        count = min(BATCH, given.inputs - done)
        seed = given.seed + done // BATCH
        print(f"seed {seed}: {count} inputs", flush=True)
        clock = time.perf_counter()
        accepted += fuzz(made, count, seed)[0]
        slowest = max(slowest, (time.perf_counter() - clock) / count)
        done += count
    seconds = time.perf_counter() - started
    print(
        f"{done} inputs to {len(made)} codecs in {seconds:.0f} s: {accepted} decoded, {done - accepted} refused with "
        f"WireError, nothing else; {1e6 * slowest:.0f} µs an input in the slowest batch"
    )


if __name__ == "__main__":
    main()
