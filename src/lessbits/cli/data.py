"""The command `lessbits data`, with its subcommands `list`, `get` and `info`."""

from typing import Annotated, Any

import typer

from lessbits.cli.flags import Json
from lessbits.cli.help import complete_setting, examples
from lessbits.cli.output import write_result

app = typer.Typer()

Name = Annotated[
    str,
    typer.Argument(
        help="A name that lessbits data list shows, or a libsvm file.",
        metavar="NAME",
        autocompletion=complete_setting("data"),
    ),
]


@app.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    """List the data sets that are available by name, download one, or describe one."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_sets(json_file: Json = None) -> None:
    """List the data sets that are available by name, and where each comes from."""
    from lessbits.datasets.download import BUILT_IN, CATALOGUE, find_in_folders

    rows: list[dict[str, Any]] = [{"name": name, "source": "comes with scikit-learn"} for name in BUILT_IN]
    for entry in CATALOGUE.values():
        found = find_in_folders(entry.name)
        source = "downloaded when it is first used" if found is None else f"here: {found}"
        rows.append({"name": entry.name, "source": source, "samples": entry.samples, "features": entry.features})

    def print_list() -> None:
        for row in rows:
            size = f"{row['samples']:>7,} samples, {row['features']:>4,} features, " if "samples" in row else ""
            print(f"{row['name']:<14} {size}{row['source']}")
        print("\nA libsvm file can be given by its path, plain or compressed (.xz, .bz2, .gz).")

    write_result({"data": rows}, json_file, print_list)


@app.command(epilog=examples("lessbits data get w8a"))
def get(name: Name) -> None:
    """Download a data set to the cache folder, unless it is there; verify its checksum, and print its path."""
    from lessbits.datasets.download import BUILT_IN, CATALOGUE, download_samples, find_in_folders
    from lessbits.errors import check_name

    if name in BUILT_IN:
        print(f"{name} comes with scikit-learn: there is nothing to download")
        return
    found = find_in_folders(name)
    if found is None:
        check_name("data set", name, sorted({*CATALOGUE, *BUILT_IN}))
        found = download_samples(CATALOGUE[name])
    print(found)


@app.command(epilog=examples("lessbits data info breast-cancer", "lessbits data info mine.libsvm.xz --json -"))
def info(name: Name, json_file: Json = None) -> None:
    """Describe a data set: samples, features, labels, and the share of nonzero values."""
    facts = _describe(name)
    write_result(facts, json_file, lambda: _print_description(facts, name))


def _describe(name: str) -> dict[str, Any]:
    import numpy as np

    from lessbits.datasets.samples import load_samples

    samples = load_samples(name)
    features: Any = samples.features
    is_dense = isinstance(features, np.ndarray)
    nonzero = np.count_nonzero(features) if is_dense else features.nnz
    values, counts = np.unique(samples.labels, return_counts=True)
    # Few whole numbers are classes; anything else is a quantity.
    has_classes = len(values) <= max(20, samples.count // 50) and bool((values == np.rint(values)).all())
    classes = {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}
    return {
        "name": samples.name,
        "samples": samples.count,
        "features": samples.dim,
        "stored": "dense" if is_dense else "sparse",
        "nonzero": nonzero / (samples.count * samples.dim),
        "labels": classes if has_classes else None,
        "label_range": [float(values[0]), float(values[-1])],
    }


def _print_description(facts: dict[str, Any], name: str) -> None:
    print(f"{facts['name']}: {facts['samples']:,} samples, {facts['features']:,} features, {facts['stored']}")
    print(f"nonzero   {facts['nonzero']:.1%}")
    classes = facts["labels"]
    if classes is None:
        lowest, highest = facts["label_range"]
        print(f"labels    numbers from {lowest:g} to {highest:g}")
        problem = "least-squares"
    else:
        print("classes   " + ", ".join(f"{label}: {count:,}" for label, count in classes.items()))
        problem = "logistic" if len(classes) == 2 else "softmax"
    print(f"use it    lessbits run --problem {problem} --data {name} --normalize --stepsizes practical")
