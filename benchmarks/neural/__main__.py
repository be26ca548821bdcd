"""Validation loss against bytes for training a character GPT on many nodes, by every method.

    python benchmarks/neural --data tinyshakespeare.txt --group ddp,pair [--budget SECONDS] [--first N] [--out FILE]

One line of JSON for each evaluation: the configuration's number, the step, bytes that a node has sent on all its links,
and the validation loss of the mean model (`mean`), of the worst node's own model (`worst`) and of a node on average.
Configurations come from `table.py`, or from a file with `--table`. A run that the time budget cuts off is named in the
last line, and `--first` continues there. `python benchmarks/neural/summary.py FILE …` makes the table of results.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parent))

import jax.numpy as jnp
import numpy as np
from graphs import matchings
from model import Shape, load
from table import GROUPS
from train import DEFAULTS, SIDE_BY_SIDE, Bundle, bundles, line


def main():
    parser = argparse.ArgumentParser(prog="neural", description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the text")
    parser.add_argument("--group", default="", help=f"of {', '.join(GROUPS)}; several with commas")
    parser.add_argument("--table", type=Path, help="a file with a JSON list of configurations")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds")
    parser.add_argument("--first", type=int, default=0, help="number of the first configuration to run")
    parser.add_argument("--out", type=Path, help="file that lines are added to, besides standard output")
    parser.add_argument(
        "--levels", type=Path, help="folder for node 0's levels of every 15th exchange of the first three runs"
    )
    parser.add_argument("--cache", type=Path, default=Path("out/jax-cache"), help="folder of compiled programs")
    parser.add_argument("--toy", action="store_true", help="a tiny network, to try the program on a CPU")
    parser.add_argument("--steps", type=int, help="instead of the configurations' own")
    arguments = parser.parse_args()
    jax.config.update("jax_compilation_cache_dir", str(arguments.cache.resolve()))
    configs = [config for name in filter(None, arguments.group.split(",")) for config in GROUPS[name]]
    configs += json.loads(arguments.table.read_text()) if arguments.table else []
    shape = Shape(2, 32, 2, 32) if arguments.toy else Shape()
    end = time.time() + arguments.budget

    def tell(row):
        print(line(row), flush=True)
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(line(row) + "\n")

    tell({"device": str(jax.devices()[0].device_kind), "jax": jax.__version__, "configurations": len(configs)})
    configs = [each | ({"steps": arguments.steps} if arguments.steps else {}) for each in configs]
    for members in bundles(configs):
        number, config = members[0]
        if number < arguments.first:
            continue
        if time.time() > end:
            tell({"next": number})
            break
        for each, one in members:
            tell({"number": each, "config": {name: value for name, value in one.items() if DEFAULTS[name] != value}})
        spare = [(None, config | {"seed": config["seed"] + 1})] * (SIDE_BY_SIDE - len(members))  # always one shape
        graph = jnp.asarray(matchings(config["graph"], config["nodes"]))
        data = load(arguments.data, config["nodes"], shape.block)

        def tell_of(number, row):
            if number is not None:
                tell({"number": number, **row})

        save = saver(arguments.levels, number) if arguments.levels and number < 3 else None
        try:
            whole = Bundle([*members, *spare], data, graph, shape, tell_of).run(save, end)
        except Exception as error:  # one wrong configuration must not cost the others their time on the device
            tell({"number": number, "error": f"{type(error).__name__}: {error}"[:300]})
            continue
        if not whole:
            tell({"next": number})
            break
    else:
        tell({"next": None})


def saver(folder, number):
    """Return a function that writes levels of an exchange to a file."""
    folder.mkdir(parents=True, exist_ok=True)

    def save(turn, levels):
        if turn % 15 == 1:
            np.savez_compressed(folder / f"{number:03d}-{turn:04d}.npz", levels=levels)

    return save


if __name__ == "__main__":
    main()
