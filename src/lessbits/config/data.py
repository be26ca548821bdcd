"""The data that settings describe: samples to train on, samples to test on, and the problem that they make."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lessbits.config.settings import Settings
from lessbits.datasets import Samples, hold_out, load_samples
from lessbits.datasets.shards import NODE, count_shards, load_shards
from lessbits.datasets.tables import read_frame, table_format
from lessbits.engines.distributed.transport import Transport
from lessbits.errors import InputError
from lessbits.problems import LeastSquares, Logistic, Problem, Softmax, held_out_metrics, make_problem
from lessbits.problems.design import Layout, node_size
from lessbits.problems.origin import Origin, remember_origin

DEFAULT_NODES = 16
NAMED_SITES = "own"  # the split of a run whose nodes are sites, or have files of their own

Metrics = Mapping[str, Callable[[Any], Any]]


class LoadedData(NamedTuple):
    """Samples to train on, and samples to test on, if there are any."""

    training: Samples
    test: Samples | None


def check_data_settings(settings: Settings) -> None:
    """Raise an `InputError` for settings of data that do not go together."""
    if settings.data is None:
        of_data = ("target", "site", "ignore", "test", "features", "normalize", "scale", "split")
        settings.refuse(of_data, "there are no data")
        return
    settings.refuse(("condition", "samples"), "it is for random problems, and data were given")
    if settings.problem == "consensus":
        raise InputError(
            "consensus takes no data: it averages random vectors; choose logistic, softmax or least-squares"
        )
    if settings.site is not None:
        if NODE in settings.data:
            raise InputError(
                f"site is {settings.site!r}, but {settings.data!r} has one file per node already: leave site out, or "
                "give one file"
            )
        if "split" in settings.model_fields_set and settings.split != NAMED_SITES:
            raise InputError(f"split is {settings.split!r}, but every site is a node: leave out split, or site")


def default_nodes(settings: Settings, sites: int) -> int:
    """Return the number of nodes if neither the settings nor the network say it."""
    if sites:
        return sites
    if settings.data is not None and NODE in settings.data and settings.engine == "simulate":
        # Not over MPI, where every machine may have the files of its own nodes only.
        return max(2, count_shards(settings.data))
    return DEFAULT_NODES


def load_data(settings: Settings) -> LoadedData | None:
    """Load the samples of all nodes; None if there are none, or if each node has a file of its own."""
    check_data_settings(settings)
    if settings.data is None or NODE in settings.data:
        return None
    samples = load_samples(
        settings.data, settings.features, target=settings.target, site=settings.site, ignore=ignored_columns(settings)
    )
    share = _share(settings)
    training, test = samples, None
    if share is not None:
        training, test = hold_out(samples, share, settings.problem_seed or 0)
    elif settings.test is not None:
        test = _load_test(settings, samples)
    if settings.scale:
        sizes = training.column_spreads()  # those of samples to train on, for the others too
        training, test = training.scaled_columns(sizes), None if test is None else test.scaled_columns(sizes)
    if settings.normalize:
        training, test = training.normalized_rows(), None if test is None else test.normalized_rows()
    return LoadedData(training, test)


def sites_of(settings: Settings) -> tuple[str, ...]:
    """Return the names of the sites in the data; empty without sites."""
    if settings.data is None or table_format(settings.data) is None or NODE in settings.data:
        return ()
    data = load_data(settings)
    return () if data is None else data.training.site_names


def problem_of_data(
    settings: Settings, data: LoadedData | None, held: np.ndarray | None, team: Transport
) -> tuple[Problem, Settings, Metrics]:
    """Make the problem of the data, with the nodes in `held`; also return what can be measured on held-out samples."""
    if data is None:
        return _problem_of_shards(settings, held, team)
    samples, given = data.training, settings.regularization
    problem = make_problem(
        settings.problem,
        samples,
        settings.nodes or DEFAULT_NODES,
        split=settings.split,
        regularization=given,
        seed=settings.problem_seed or 0,
        held=held,
    )
    settings = settings.updated(
        features=samples.dim,
        split=NAMED_SITES if samples.sites is not None else settings.split,
        regularization=float(problem.regularization[0]) if given is None else given,
    )
    return problem, settings, {} if data.test is None else held_out_metrics(problem, data.test)


def _problem_of_shards(
    settings: Settings, held: np.ndarray | None, team: Transport
) -> tuple[Problem, Settings, Metrics]:
    """Load the files of the nodes in `held`, and make their problem."""
    assert settings.data is not None
    if _share(settings) is not None:
        raise InputError(
            f"test is {settings.test}, a share, but every node has a file of its own: give test a file of samples"
        )
    settings.refuse(("scale",), "every node has a file of its own, and none knows all rows")
    nodes, ignore = range(settings.nodes or DEFAULT_NODES) if held is None else held.tolist(), ignored_columns(settings)
    shards = load_shards(
        settings.data,
        nodes,
        settings.features,
        team,
        settings.normalize,
        settings.target,
        ignore,
        classes=settings.problem != "least-squares",
    )
    features, given = [part.features for part in shards.samples], settings.regularization
    targets = shards.targets(settings.problem)
    layout = Layout.of(team.all_gather(np.array([node_size(part) for part in features])))
    problem: LeastSquares | Logistic | Softmax
    if settings.problem == "softmax":
        problem = Softmax.from_parts(features, targets, len(shards.classes), given, layout)
    else:
        kind = LeastSquares if settings.problem == "least-squares" else Logistic
        problem = kind.from_parts(features, targets, given, layout=layout)
    first = shards.samples[0]
    labels = None if settings.problem == "least-squares" else shards.classes
    remember_origin(problem, Origin(labels, first.classes, first.columns))
    regularization = float(problem.regularization[0]) if given is None else given
    settings = settings.updated(features=first.dim, split=NAMED_SITES, regularization=regularization)
    if settings.test is None:
        return problem, settings, {}
    test = _load_test(settings, first)
    return problem, settings, held_out_metrics(problem, test.normalized_rows() if settings.normalize else test)


def _share(settings: Settings) -> float | None:
    """Return the share of samples to hold out; None if `test` is a file, or nothing."""
    try:
        return None if settings.test is None else float(settings.test)
    except ValueError:
        return None


def ignored_columns(settings: Settings) -> list[str]:
    """Return the columns that are not used."""
    return [] if settings.ignore is None else [name.strip() for name in settings.ignore.split(",")]


def _load_test(settings: Settings, training: Samples) -> Samples:
    """Load the file of held-out samples. It may have more columns, such as the sites."""
    assert settings.test is not None
    form, path = table_format(settings.test), Path(settings.test).expanduser()
    if training.columns is not None and settings.target is not None and form in ("csv", "parquet") and path.is_file():
        frame, used = read_frame(path), {*training.columns, settings.target}
        frame = frame[[name for name in frame.columns if str(name) in used]]
        return Samples.from_frame(frame, settings.target, name=path.name)
    return load_samples(
        settings.test, training.dim, download=False, target=settings.target if form is not None else None
    )
