"""The command `lessbits data`: which data sets there are, fetching one, and what is in it."""

from typing import Annotated, Any

import typer

from lessbits.cli.flags import Json, examples, show
from lessbits.cli.help import completion

app = typer.Typer()

Name = Annotated[
    str,
    typer.Argument(
        help="A name that lessbits data list shows, or a libsvm file.",
        metavar="NAME",
        autocompletion=completion("data"),
    ),
]


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    """List data sets that can be had by name, fetch one, or say what is in one."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_sets(json_file: Json = None) -> None:
    """List the data sets that have names, and where each comes from."""
    from lessbits.datasets.download import BUILT_IN, CATALOGUE, find_in_folders

    rows: list[dict[str, Any]] = [{"name": name, "source": "comes with scikit-learn"} for name in BUILT_IN]
    for entry in CATALOGUE.values():
        found = find_in_folders(entry.name)
        source = "downloaded when it is first used" if found is None else f"here: {found}"
        rows.append({"name": entry.name, "source": source, "samples": entry.samples, "features": entry.features})

    def words() -> None:
        for row in rows:
            size = f"{row['samples']:>7,} samples, {row['features']:>4,} features, " if "samples" in row else ""
            print(f"{row['name']:<14} {size}{row['source']}")
        print("\nAny libsvm file can be given by its path too, plain or .xz, .bz2, .gz.")

    show({"data": rows}, json_file, words)


@app.command(epilog=examples("lessbits data get w8a"))
def get(name: Name) -> None:
    """Fetch a data set into the user's cache folder, checked, unless it is there; print where it is."""
    from lessbits.datasets.download import BUILT_IN, CATALOGUE, download_samples, find_in_folders
    from lessbits.errors import check_name

    if name in BUILT_IN:
        print(f"{name} comes with scikit-learn: nothing is to be fetched")
        return
    found = find_in_folders(name)
    if found is None:
        check_name("data set", name, sorted({*CATALOGUE, *BUILT_IN}))
        found = download_samples(CATALOGUE[name])
    print(found)


@app.command(epilog=examples("lessbits data info breast-cancer", "lessbits data info mine.libsvm.xz --json -"))
def info(name: Name, json_file: Json = None) -> None:
    """Say what is in a data set: samples, features, labels, and how dense it is."""
    import numpy as np

    from lessbits.datasets.samples import load_samples

    samples = load_samples(name)
    values, counts = np.unique(samples.labels, return_counts=True)
    filled = np.count_nonzero(samples.features) if isinstance(samples.features, np.ndarray) else samples.features.nnz
    classes = len(values) <= max(20, samples.count // 50) and bool((values == np.rint(values)).all())
    facts: dict[str, Any] = {
        "name": samples.name,
        "samples": samples.count,
        "features": samples.dim,
        "stored": "dense" if isinstance(samples.features, np.ndarray) else "sparse",
        "nonzero": filled / (samples.count * samples.dim),
        "labels": {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)} if classes else None,
        "label_range": [float(values[0]), float(values[-1])],
    }

    def words() -> None:
        print(f"{samples.name}: {samples.count:,} samples, {samples.dim:,} features, {facts['stored']}")
        print(f"nonzero   {facts['nonzero']:.1%}")
        if classes:
            print("classes   " + ", ".join(f"{label}: {count:,}" for label, count in facts["labels"].items()))
            problem = "logistic" if len(values) == 2 else "softmax"
        else:
            print(f"labels    numbers from {values[0]:g} to {values[-1]:g}")
            problem = "least-squares"
        print(f"use it    lessbits run --problem {problem} --data {name} --normalize --stepsizes practical")

    show(facts, json_file, words)
