"""Feed a site with bytes that no neighbour has sent: packets of a link, greetings, farewells, and facts.

    python benchmarks/fuzz_peers.py --inputs 1000000

The test suite does the same with 3000 inputs (tests/engines/peers/fuzzing.py). Anything but `WireError` ends the run
with a traceback, and the seed of the batch is printed before it starts.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

BATCH = 100_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()

    jax.config.update("jax_enable_x64", True)
    from compiled_programs import resident_megabytes
    from engines.peers.fuzzing import fuzz

    started, done, taken, before = time.perf_counter(), 0, 0, 0.0
    while done < given.inputs:
        count, seed = min(BATCH, given.inputs - done), given.seed + done // BATCH
        print(f"seed {seed}: {count} inputs", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            taken += fuzz(Path(folder), count, seed)[0]
        before = before or resident_megabytes()  # after the first batch, which loads what is needed
        done += count
    seconds = time.perf_counter() - started
    print(
        f"{done} inputs in {seconds:.0f} s: {taken} taken, {done - taken} refused with WireError, nothing else; memory "
        f"grew by {resident_megabytes() - before:.0f} MB after the first {min(BATCH, given.inputs)}"
    )


if __name__ == "__main__":
    main()
