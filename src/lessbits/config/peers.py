"""What a site of a run across sites builds: the problem of its own data, and the method that all sites agree on."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lessbits.config.data import check_data_settings, ignored_columns
from lessbits.config.settings import Settings
from lessbits.datasets.shards import load_shards
from lessbits.engines.distributed.partitioned import PartitionedProblem, shared_property
from lessbits.engines.peers.facts_team import FactsTeam
from lessbits.engines.peers.options import SiteOptions
from lessbits.engines.peers.program import check_method
from lessbits.engines.peers.roster import Roster
from lessbits.errors import InputError, check_name, check_positive
from lessbits.faults import Faults
from lessbits.methods.base import Method
from lessbits.methods.gradients import Gradients
from lessbits.methods.registry import find_method
from lessbits.methods.request import MethodRequest, check_chunks, check_local_steps, resolve_choices
from lessbits.problems import Consensus, LeastSquares, Logistic, Problem, Softmax
from lessbits.problems.design import Layout, node_size
from lessbits.quantizers import LARGEST_DIM, make_quantizer

OWN = ("mode", "alone", "clip")  # settings that only runs across sites have
# What the roster says, what a site says for itself, and what only simulations and ranks have.
NOT_SHARED = ("data", "network", "nodes", "weights", "engine", "ranks", "encode", "faults", "drop", "lose", "delay")
DIGITS = 3  # of step sizes, so that machines that round differently choose the same
# Iterations that a message may be late without lockstep, for the choice of step sizes. With 2, a run with one site 50
# times slower than the others diverges; with 8 it takes longer than with 4 (docs/peers.md).
ASYNC_DELAY = (1, 4)


@dataclass(frozen=True)
class SiteSettings:
    """The settings of a run across sites, as one site has them.

    Attributes:
        settings: The settings that all runs have, with the data of this site.
        mode: "lockstep" or "async".
        alone: Whether each site ends by itself.
        clip: The largest norm of an edge's dual; None for no bound.
    """

    settings: Settings
    mode: str = "lockstep"
    alone: bool = False
    clip: float | None = None

    def options(self, **own: Any) -> SiteOptions:
        """Return the options of the site; `own` are those that sites need not agree on."""
        values = {name: value for name, value in own.items() if value is not None}
        return SiteOptions(
            mode=self.mode,
            alone=self.alone,
            iterations=self.settings.iterations,
            until=self.settings.until,
            **values,
        )


def site_settings(roster: Roster, data: str | None = None) -> SiteSettings:
    """Return the settings of a roster, with the data of this site. Raise an `InputError` if they do not fit."""
    given = dict(roster.settings)
    for name in given:
        check_name("setting in the roster", name, (*Settings.model_fields, *OWN))
        if name in NOT_SHARED:
            raise InputError(f"the roster has the setting {name!r}, which sites do not share: leave it out")
    own = {name: given.pop(name) for name in OWN if name in given}
    if (clip := own.get("clip")) is not None:
        check_positive("clip", clip)
    shared: dict[str, Any] = {"method": "edge-dual", "stepsizes": "practical", **given}
    if data is not None:
        shared["data"] = data
    found = SiteSettings(Settings(**shared), **own)
    found.options()  # checks them
    return found


def check_choices(chosen: SiteSettings) -> None:
    """Raise an `InputError` for a method, an option or a quantizer that cannot be, before the site connects."""
    settings = chosen.settings
    kind = find_method(settings.method)
    check_method(kind)
    choices = resolve_choices(kind, settings.option, settings.messages, settings.quantizer)
    check_name("option", choices.option, kind.options)
    if isinstance(choices.quantizer, str):
        make_quantizer(choices.quantizer, settings.dim or LARGEST_DIM)  # the number of features is not known yet
    check_local_steps(kind, settings.local_steps)
    check_chunks(kind, settings.chunks or 1, LARGEST_DIM)
    if settings.data is None:
        check_random(settings)


@dataclass(frozen=True)
class SiteParts:
    """What a site computes with.

    Attributes:
        problem: The problem of this site alone.
        method: The method, the same at all sites.
        convexity: The curvature of the mean loss, with which gradients are turned into distances.
        settings: The settings, resolved.
    """

    problem: Problem
    method: Method
    convexity: float
    settings: SiteSettings


class SharedProblem(PartitionedProblem):
    """A problem whose sites tell each other numbers of rows and curvatures, and nothing of length d."""

    @shared_property
    def typical_convexity(self) -> float:
        """The mean of the sites' own typical convexities: a lower bound of the curvature of the mean loss."""
        return float(self.transport.all_gather(np.array([self._known.typical_convexity])).mean())


def build_site(roster: Roster, chosen: SiteSettings, team: FactsTeam) -> SiteParts:
    """Build what a site computes with. Facts that all sites must know are exchanged through the team."""
    settings, network = chosen.settings, roster.network()
    problem, settings = _problem(settings, roster, team)
    shared = SharedProblem(problem, team)
    kind = find_method(settings.method)
    choices = resolve_choices(kind, settings.option, settings.messages, settings.quantizer)
    settings = settings.updated(**choices._asdict())
    assert settings.quantizer is not None
    assert settings.option is not None
    request = MethodRequest(
        shared,
        network,
        make_quantizer(settings.quantizer, problem.dim),
        Gradients(settings.option, settings.batch_size),
        settings.messages,
        settings.corrected,
        practical=settings.stepsizes == "practical",
        given=settings.given_step_sizes(),
        faults=Faults(delay=ASYNC_DELAY) if chosen.mode == "async" else None,
        local_steps=check_local_steps(kind, settings.local_steps),
    )
    method = kind.configure(request)
    sizes = {name: _rounded(float(getattr(method, name))) for name in method.step_size_names}
    method = replace(method, **sizes)  # type: ignore[type-var]
    settings = settings.with_step_sizes(sizes).updated(dim=problem.dim)
    # The curvature is needed for the estimate of the error alone, so a site without losses does without.
    convexity = float(shared.typical_convexity) if settings.until is not None else 1.0
    return SiteParts(problem, method, _rounded(convexity), replace(chosen, settings=settings))


def check_random(settings: Settings) -> None:
    """Raise an `InputError` if a problem cannot be made at random."""
    if settings.problem not in ("consensus", "least-squares"):
        raise InputError(f"{settings.problem} needs data: give --data a file with the rows of this site")


def _rounded(size: float) -> float:
    return float(f"{size:.{DIGITS}g}")


def _problem(settings: Settings, roster: Roster, team: FactsTeam) -> tuple[Problem, Settings]:
    """Make the problem of this site: from its data, or its part of a random one."""
    if settings.data is None:
        check_random(settings)
        held, dim, seed = np.array([team.rank]), settings.dim or 250, settings.problem_seed or settings.seed
        if settings.problem == "consensus":
            return Consensus.random(len(roster.sites), dim, seed, held), settings
        samples = settings.samples or dim
        return LeastSquares.random(len(roster.sites), dim, samples, settings.condition, seed, held), settings
    check_data_settings(settings)
    settings.refuse(("site", "test", "scale", "split"), "every site has its own rows only")
    shards = load_shards(
        settings.data,
        [team.rank],
        settings.features,
        team,
        settings.normalize,
        settings.target,
        ignored_columns(settings),
        classes=settings.problem != "least-squares",
    )
    features, targets = [part.features for part in shards.samples], shards.targets(settings.problem)
    layout = _layout(np.array([node_size(part) for part in features]), team)
    if settings.problem == "softmax":
        problem: Problem = Softmax.from_parts(features, targets, len(shards.classes), settings.regularization, layout)
    else:
        kind = LeastSquares if settings.problem == "least-squares" else Logistic
        problem = kind.from_parts(features, targets, settings.regularization, layout=layout)
    return problem, settings.updated(features=shards.samples[0].dim)


def _layout(own: np.ndarray, team: FactsTeam) -> Layout:
    """Return sizes that fit the data of all sites. A site that was added weighs its rows as the founders do."""
    founders = team.all_gather(own)
    if not team.added:
        return Layout.of(founders)
    layout = Layout.of(np.concatenate([founders, own]))
    return layout._replace(nodes=len(founders), total=int(founders[:, 0].sum()))
