"""A recorded run across sites, repeated in the simulator: all nodes in one program, and the same iterates.

Every site has written down which messages it sent and applied in which of its iterations. From that a common time
follows: an iteration begins after the one before it at its site has ended, and ends not before those have begun that
sent what it applied. In each moment of this time some nodes begin, and send, and then some end, and apply what the
record says that they applied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
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
from lessbits.engines.peers.schedule import At, Turn, read_schedule
from lessbits.errors import InputError
from lessbits.methods.base import Method, Start, State
from lessbits.methods.outbox import Message
from lessbits.networks.local import LocalNetwork
from lessbits.networks.network import Network
from lessbits.problems.base import Problem

Place = tuple[str, int]  # a turn: its site, and its number there
Half = tuple[str, int, bool]  # the beginning of a turn, or its end
Sent = tuple[str, str, At]  # a message: its sender, its receiver, its epoch and round


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
    """Masks of what happens in a moment: who sends, who receives, and on which links something is done."""

    sends: Any  # nodes
    receives: Any  # nodes
    resets: Any  # links
    up: Any  # links
    applied: Any  # links


class Order(NamedTuple):
    """The turns that begin in a moment, and those that end in it: first the former send, then the latter apply."""

    begin: list[Place]
    end: list[Place]


# Two programs, as at a site: in one, the compiler might compute a message twice, with other bits.
@jax.jit
def _send(program: ReplayProgram, state: State, boxes: tuple[Any, Any], now: Moment) -> Any:
    method, local, owner = program.method, program.local, program.local.owner
    nobody = jnp.zeros(now.sends.shape, bool)
    begun = method.reset(state, jax.tree.map(jnp.zeros_like, state), nobody, now.resets, local)
    step, there = Step(program.seed, jnp.int32(0)), replace(local, up=now.up)
    after, (message,), _ = method.send(step, begun, program.problem, there)
    assert message.active is not None
    assert message.round is not None
    spoken, even = message.active & now.sends[owner], message.round % 2 == 0
    first, second = (
        choose_rows(spoken & turn, message.payload, box) for turn, box in zip((even, ~even), boxes, strict=True)
    )
    return choose_by_axis(now.sends, now.sends[owner], after, state), (first, second)


@jax.jit
def _receive(program: ReplayProgram, state: State, boxes: tuple[Any, Any], now: Moment) -> State:
    method, local, owner = program.method, program.local, program.local.owner
    even = state.round % 2 == 0
    inbox = choose_rows(even, *(jax.tree.map(lambda leaf: leaf[program.reverse], box) for box in boxes))
    outbox = (Message(state.waiting.payload, per_link=True, round=state.round),)
    received = (Message(inbox, per_link=True, active=now.applied),)
    after = method.receive(Step(program.seed, jnp.int32(0)), state, outbox, received, local)
    if program.clip is not None:
        after = clipped(after, method, local, program.clip)
    return choose_by_axis(now.receives, now.receives[owner], after, state)


def advance(program: ReplayProgram, state: State, boxes: tuple[Any, Any], now: Moment) -> tuple[State, tuple[Any, Any]]:
    """Return the state after a moment, and the messages that were sent last in even and in odd rounds."""
    if now.sends.any():
        state, boxes = _send(program, state, boxes, now)
    return _receive(program, state, boxes, now) if now.receives.any() else state, boxes


def order(turns: Mapping[str, Sequence[Turn]]) -> list[Order]:
    """Return the turns of all sites, by moment.

    A turn begins with what it sends, and ends with what it applies. Meanwhile others may take several turns. It begins
    after the one before it has ended, ends not before those have begun that sent what it applies, and begins not before
    what it overwrites was applied: of each link, the last message of even and of odd rounds is kept.
    """
    needs, frees = _needs(turns)
    later: dict[Half, list[tuple[Half, int]]] = {}  # what each half of a turn comes after, and by how many moments
    for site, mine in turns.items():
        for number in range(len(mine)):
            place = (site, number)
            before = [((site, number - 1, True), 1)] if number else []
            later[*place, False] = before + [((*other, True), 1) for other in frees[place]]
            later[*place, True] = [((*place, False), 0)] + [((*other, False), 0) for other in needs[place]]
    try:
        sorted_halves = list(
            TopologicalSorter({half: [other for other, _ in later[half]] for half in later}).static_order()
        )
    except CycleError:
        raise InputError("the schedules do not fit together: they belong to different runs") from None
    when: dict[Half, int] = {}
    for half in sorted_halves:
        when[half] = max((when[other] + moments for other, moments in later[half]), default=0)
    found = [Order([], []) for _ in range(max(when.values()) + 1)]
    for (site, number, ends), moment in sorted(when.items(), key=lambda item: item[0][1]):
        found[moment][ends].append((site, number))
    return found


def _needs(turns: Mapping[str, Sequence[Turn]]) -> tuple[dict[Place, list[Place]], dict[Place, list[Place]]]:
    """Return for each turn those that sent what it applies, and those that applied what it overwrites."""
    sent, applied = dict[Sent, Place](), dict[Sent, Place]()
    for site, mine in turns.items():
        for number, turn in enumerate(mine):
            # A message that was sent again, by a site that went back to its checkpoint, had not arrived before.
            sent |= {(site, other, at): (site, number) for other, at in turn.sent.items()}
            applied |= {(other, site, at): (site, number) for other, at in turn.applied.items()}
    if unknown := next((each for each in applied if each not in sent), None):
        raise InputError(f"{unknown[1]} applied a message that nobody has written down: give all schedules")
    needs: dict[Place, list[Place]] = {(site, number): [] for site in turns for number in range(len(turns[site]))}
    frees: dict[Place, list[Place]] = {place: [] for place in needs}
    for message, place in applied.items():
        needs[place].append(sent[message])
    kept: dict[tuple[str, str, int], Sent] = {}  # the message that is kept, by link and parity of its round
    for message, place in sorted(sent.items(), key=lambda item: item[1][1]):
        box = (*message[:2], message[2][1] % 2)
        if (old := kept.get(box)) in applied:
            frees[place].append(applied[old])
        kept[box] = message
    return needs, frees


def masks(
    moment: Order,
    turns: Mapping[str, Sequence[Turn]],
    numbers: Mapping[str, int],
    link: Mapping[tuple[str, str], int],
) -> Moment:
    """Return what happens in a moment, as masks.

    Args:
        moment: The turns that begin and end in it.
        turns: The turns of all sites.
        numbers: The number of each site.
        link: The number of each link, by the names of its ends.
    """
    now = Moment(*(np.zeros(len(numbers), bool) for _ in range(2)), *(np.zeros(len(link), bool) for _ in range(3)))
    for site, number in moment.begin:
        turn = turns[site][number]
        now.sends[numbers[site]] = turn.restored is None
        for others, mask in ((turn.resets, now.resets), (turn.up, now.up)):
            mask[[link[site, other] for other in others]] = True
    for site, number in moment.end:
        turn = turns[site][number]
        now.receives[numbers[site]] = turn.restored is None
        now.applied[[link[site, other] for other in turn.applied]] = True
    return now


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
        for site, number in moment.begin:
            if (restored := schedules[site][number].restored) is not None:
                kept = fresh if restored < 0 else saved[site, restored]
                mine = np.arange(len(numbers)) == numbers[site]
                state = choose_by_axis(mine, mine[owner], kept, state)
        state, boxes = advance(program, state, boxes, masks(moment, schedules, numbers, link))
        for site, number in moment.end:
            if schedules[site][number].checkpoint:
                saved[site, schedules[site][number].checkpoint] = state
    return np.asarray(state.x)
