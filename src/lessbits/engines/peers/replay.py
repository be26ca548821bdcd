"""A recorded run across sites, repeated in the simulator: all nodes in one program, and the same iterates.

Every site has written down which messages it applied in which of its iterations. From that a common time follows: an
iteration comes after the one before it at its site, and not before those that sent what it applied. In each moment of
this time some nodes are awake. They send, and then they apply what the record says that they applied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from os import PathLike
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.axes import choose_by_axis
from lessbits._internal.pytrees import choose_rows, pytree
from lessbits._internal.randomness import Step, make_seed
from lessbits.engines.peers.program import clipped
from lessbits.engines.peers.roster import Roster
from lessbits.engines.peers.schedule import Turn, read_schedule
from lessbits.errors import InputError
from lessbits.methods.base import Method, Start, State
from lessbits.methods.outbox import Message
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem


@pytree
class ReplayProgram:
    """What stays fixed during a replay."""

    problem: Problem
    method: Method
    local: LocalNetwork
    reverse: jax.Array
    seed: jax.Array
    clip: jax.Array | None


class Moment(NamedTuple):
    """Masks of what happens in a moment: who is awake, and on which links something is done."""

    awake: Any  # a mask
    resets: Any  # a mask
    up: Any  # a mask
    applied: Any  # a mask


@jax.jit
def _advance(program: ReplayProgram, state: State, boxes: tuple[Any, Any], now: Moment) -> Any:
    method, local, owner = program.method, program.local, program.local.owner
    before = state
    nobody = jnp.zeros(now.awake.shape, bool)
    state = method.reset(state, jax.tree.map(jnp.zeros_like, state), nobody, now.resets, local)
    step, there = Step(program.seed, jnp.int32(0)), replace(local, up=now.up)
    after, (message,), _ = method.send(step, state, program.problem, there)
    assert message.active is not None
    assert message.round is not None
    spoken = message.active & now.awake[owner]
    even = message.round % 2 == 0
    first, second = (
        choose_rows(spoken & turn, message.payload, box) for turn, box in zip((even, ~even), boxes, strict=True)
    )
    inbox = choose_rows(even, *(jax.tree.map(lambda leaf: leaf[program.reverse], box) for box in (first, second)))
    received = (Message(inbox, per_link=True, active=now.applied),)
    after = method.receive(step, after, (message,), received, there)
    if program.clip is not None:
        after = clipped(after, method, local, program.clip)
    return choose_by_axis(now.awake, now.awake[owner], after, before), (first, second)


def order(turns: Mapping[str, Sequence[Turn]]) -> list[list[tuple[str, int]]]:
    """Return the turns of all sites, by moment: for each the sites that take one, and its number there.

    A turn comes after the one before it, and not before those that sent what it applies. Two turns that apply each
    other's message, as in lockstep, are in one moment, in which all send before any receives.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    needs = _needs(turns)
    places = list(needs)
    index = {place: number for number, place in enumerate(places)}
    before = [(index[site, number - 1], index[site, number]) for site, number in places if number]
    sent = [(index[source], index[place]) for place, sources in needs.items() for source in sources]
    start, end = np.array([*before, *sent], np.int64).reshape(-1, 2).T
    graph = csr_array((np.ones(len(start), np.int8), (start, end)), shape=(len(places),) * 2)
    count, moment_of = connected_components(graph, connection="strong")  # turns that wait for each other
    if any(moment_of[first] == moment_of[second] for first, second in before):
        raise InputError("the schedules do not fit together: they belong to different runs")
    waits: list[dict[int, int]] = [{} for _ in range(count)]  # for which others each set of turns waits, and how long
    for number, (first, second) in enumerate(zip(moment_of[start].tolist(), moment_of[end].tolist(), strict=True)):
        if first != second:
            waits[second][first] = max(waits[second].get(first, 0), int(number < len(before)))
    when = [0] * count
    for each in TopologicalSorter(dict(enumerate(waits))).static_order():
        when[each] = max((when[other] + later for other, later in waits[each].items()), default=0)
    moments: list[list[tuple[str, int]]] = [[] for _ in range(max(when) + 1)]
    for place in places:
        moments[when[moment_of[index[place]]]].append(place)
    return moments


def _needs(turns: Mapping[str, Sequence[Turn]]) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """Return for each turn, as site and number, those that sent what it applies; turns are sorted by number."""
    sent: dict[tuple[str, str, int, int], tuple[str, int]] = {}
    for site, mine in turns.items():
        for number, turn in enumerate(mine):
            for other, at in turn.sent.items():
                sent.setdefault((site, other, *at), (site, number))
    needs: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for number in range(max(len(mine) for mine in turns.values())):
        for site, mine in turns.items():
            applied = mine[number].applied if number < len(mine) else {}
            sources = [(other, site, *at) for other, at in applied.items()]
            if any(source not in sent for source in sources):
                raise InputError(f"{site} applied a message that nobody has written down: give all schedules")
            if number < len(mine):
                needs[site, number] = [sent[source] for source in sources]
    return needs


def replay(
    problem: Problem,
    network: Roster | Network,
    method: Method,
    schedules: Sequence[str | PathLike[str]] | Mapping[str, Sequence[Turn]],
    seed: int = 0,
    clip: float | None = None,
) -> np.ndarray:
    """Repeat a run across sites in the simulator, and return the final x of every node, [nodes, dim].

    Args:
        problem: The problem of all nodes.
        network: The roster, `read_roster(file)`, as it was at the end of the run; or, if no site was added, a network
            whose nodes have the names of the sites.
        method: The method of the run.
        schedules: The files that all sites have written with `--schedule`, or what `read_schedule` returns for each.
        seed: Seed of the run.
        clip: The bound on duals that the run had, if any.
    """
    if method.gradients.option != "B" or getattr(method, "local_steps", 1) > 1:
        raise InputError("only runs with full gradients and without local steps can be repeated: others count turns")
    if not isinstance(schedules, Mapping):
        schedules = dict(read_schedule(file) for file in schedules)
    # Links of sites that were added draw their random numbers by other numbers than those of a network of all.
    ids, network = (network.link_ids(), network.network()) if isinstance(network, Roster) else (None, network)
    local = LocalNetwork.of(network)
    local = local if ids is None else replace(local, links=jnp.asarray(ids, jnp.int32))
    names = list(network.names or ())
    numbers = {name: number for number, name in enumerate(names)}
    if unknown := [name for name in schedules if name not in numbers]:
        raise InputError(f"there is a schedule of {unknown[0]!r}, but the network has no such node")
    link = {
        (names[first], names[second]): number
        for number, (first, second) in enumerate(zip(network.owner.tolist(), network.neighbor.tolist(), strict=True))
    }
    late = method.with_delays()
    program = ReplayProgram(
        late.prepare(problem),
        late,
        local,
        jnp.asarray(network.reverse),
        make_seed(seed),
        None if clip is None else jnp.asarray(clip, jnp.result_type(float)),
    )
    return _run(program, schedules, numbers, link)


def _run(
    program: ReplayProgram,
    schedules: Mapping[str, Sequence[Turn]],
    numbers: Mapping[str, int],
    link: Mapping[tuple[str, str], int],
) -> np.ndarray:
    fresh = program.method.init(program.problem, program.local, Start())
    state, boxes = fresh, (fresh.waiting.payload, fresh.waiting.payload)
    saved: dict[tuple[str, int], State] = {}
    owner = np.asarray(program.local.owner)
    for moment in order(schedules):
        now = Moment(np.zeros(len(numbers), bool), *(np.zeros(len(owner), bool) for _ in range(3)))
        for site, number in moment:
            turn = schedules[site][number]
            if turn.restored is not None:
                kept = fresh if turn.restored < 0 else saved[site, turn.restored]
                mine = np.arange(len(numbers)) == numbers[site]
                state = choose_by_axis(mine, mine[owner], kept, state)
                continue
            now.awake[numbers[site]] = True
            for others, mask in ((turn.resets, now.resets), (turn.up, now.up), (turn.applied, now.applied)):
                mask[[link[site, other] for other in others]] = True
        if now.awake.any():
            state, boxes = _advance(program, state, boxes, now)
        for site, number in moment:
            if schedules[site][number].checkpoint:
                saved[site, schedules[site][number].checkpoint] = state
    return np.asarray(state.x)
