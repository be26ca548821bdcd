"""The command `lessbits data`, with its subcommands `list`, `get` and `info`."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from lessbits.cli.checks import check_not_read
from lessbits.cli.flags import Json
from lessbits.cli.help import complete_setting, examples
from lessbits.cli.output import json_path, print_line, write_result

app = typer.Typer()

Name = Annotated[
    str,
    typer.Argument(
        help="A name that lessbits data list shows, or a CSV, Parquet, .npz or libsvm file.",
        metavar="NAME",
        autocompletion=complete_setting("data"),
    ),
]
Target = Annotated[str | None, typer.Option(help="Column to predict, of a CSV or Parquet file.", show_default=False)]
Site = Annotated[str | None, typer.Option(help="Column that names the site of each row.", show_default=False)]
Ignore = Annotated[str | None, typer.Option(help="Columns that are not used, separated by commas.", show_default=False)]
MOST_SHOWN = 20  # classes or sites that are listed


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
            print_line(f"{row['name']:<14} {size}{row['source']}")
        print()
        print_line("Your own CSV, Parquet, .npz or libsvm file can be given by its path: lessbits data info mine.csv")

    write_result({"data": rows}, json_file, print_list)


@app.command(epilog=examples("lessbits data get w8a"))
def get(name: Name) -> None:
    """Download a data set to the cache folder, unless it is there; verify its checksum, and print its path."""
    from lessbits.datasets.download import BUILT_IN, CATALOGUE, download_samples, find_in_folders
    from lessbits.errors import check_name

    if name in BUILT_IN:
        print_line(f"{name} comes with scikit-learn: there is nothing to download")
        return
    found = find_in_folders(name)
    if found is None:
        check_name("data set", name, sorted({*CATALOGUE, *BUILT_IN}))
        found = download_samples(CATALOGUE[name])
    print_line(found)


@app.command(
    epilog=examples(
        "lessbits data info breast-cancer",
        "lessbits data info mine.csv --target outcome --site hospital",
        "lessbits data info mine.libsvm.xz --json -",
    )
)
def info(name: Name, target: Target = None, site: Site = None, ignore: Ignore = None, json_file: Json = None) -> None:
    """Describe a data set: samples, features, labels, sites, and the share of nonzero values.

    Without --target, the columns of a CSV or Parquet file are listed.
    """
    from lessbits.datasets.tables import table_format

    check_not_read([json_path(json_file)], [name])
    undescribed = target is None and site is None and ignore is None
    if undescribed and table_format(name) in ("csv", "parquet") and Path(name).is_file():
        described = _describe_columns(Path(name))
        write_result({"columns": described}, json_file, lambda: _print_columns(described, name))
        return
    columns = {"target": target, "site": site, "ignore": ignore}
    facts = _describe(name, columns)
    write_result(facts, json_file, lambda: _print_description(facts, name, columns))


def _describe_columns(path: Path) -> list[dict[str, Any]]:
    from pandas.api.types import is_numeric_dtype

    from lessbits.datasets.tables import read_frame

    described = []
    for name, column in read_frame(path).items():
        kind = "numbers" if is_numeric_dtype(column.dtype) else "text"
        try:
            different: int | None = int(column.nunique())
        except TypeError:  # lists and records, which cannot be compared
            kind, different = "other", None
        described.append({"name": str(name), "kind": kind, "different": different, "missing": int(column.isna().sum())})
    return described


def _print_columns(columns: list[dict[str, Any]], name: str) -> None:
    width = max(len("column"), *(len(column["name"]) for column in columns))
    print_line(f"{'column':<{width}}  {'kind':<7}  {'different':>9}  {'missing':>7}")
    for column in columns:
        different = "-" if column["different"] is None else f"{column['different']:,}"
        print_line(f"{column['name']:<{width}}  {column['kind']:<7}  {different:>9}  {column['missing']:>7,}")
    print()
    print_line("name the column to predict and, if a column names the site of each row, that one:")
    print_line(f"  lessbits data info {shlex.quote(name)} --target COLUMN [--site COLUMN]")


def _describe(name: str, columns: dict[str, str | None]) -> dict[str, Any]:
    import numpy as np

    from lessbits.datasets import load_samples

    ignore = columns["ignore"].split(",") if columns["ignore"] else ()
    samples = load_samples(name, target=columns["target"], site=columns["site"], ignore=ignore)
    features: Any = samples.features
    is_dense = isinstance(features, np.ndarray)
    nonzero = np.count_nonzero(features) if is_dense else features.nnz
    values, counts = np.unique(samples.labels, return_counts=True)
    # Text and few whole numbers are classes; anything else is a quantity.
    few = len(values) <= max(20, samples.count // 50) and bool((values == np.rint(values)).all())
    names = samples.classes or tuple(f"{value:g}" for value in values)
    classes = {label: int(count) for label, count in zip(names, counts, strict=True)}
    sites = {} if samples.sites is None else dict(zip(samples.site_names, map(len, samples.site_rows()), strict=True))
    return {
        "name": samples.name,
        "samples": samples.count,
        "features": samples.dim,
        "stored": "dense" if is_dense else "sparse",
        "nonzero": nonzero / (samples.count * samples.dim),
        "labels": classes if few or samples.classes else None,
        "label_range": [float(values[0]), float(values[-1])],
        "sites": sites,
    }


def _print_description(facts: dict[str, Any], name: str, columns: dict[str, str | None]) -> None:
    print_line(f"{facts['name']}: {facts['samples']:,} samples, {facts['features']:,} features, {facts['stored']}")
    print_line(f"nonzero   {facts['nonzero']:.1%}")
    classes = facts["labels"]
    if classes is None:
        lowest, highest = facts["label_range"]
        print_line(f"labels    numbers from {lowest:g} to {highest:g}")
        problem = "least-squares"
    else:
        print_line(f"classes   {_counted(classes)}")
        problem = "logistic" if len(classes) == 2 else "softmax"
    if facts["sites"]:
        print_line(f"sites     {_counted(facts['sites'])}")
    flags = "".join(f" --{flag} {shlex.quote(column)}" for flag, column in columns.items() if column)
    data = f"{shlex.quote(name)}{flags}"
    print_line(f"use it    lessbits run --problem {problem} --data {data} --normalize --stepsizes practical")


def _counted(counts: dict[str, int]) -> str:
    shown = ", ".join(f"{name}: {count:,}" for name, count in list(counts.items())[:MOST_SHOWN])
    return shown if len(counts) <= MOST_SHOWN else f"{shown}, … ({len(counts)} in all)"
