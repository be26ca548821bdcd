"""Step sizes of async runs with one site that is slow, in the simulator: who converges, and how fast.

    python benchmarks/peers/slow_site.py [--quick]

When a message is sent, and what a site applies when, depends on times alone. So the schedule of a run is made first, by
a clock: a gradient takes one unit of time, at one site 5 or 50, give or take 10 %, and a message 0.1. The simulator
repeats that schedule, as `lessbits.replay` does with the record of a real run, and looks at the error.
"""

import argparse
import heapq
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from lessbits import Consensus, EdgeDual, Faults, LeastSquares, Logistic, MethodRequest, make_network, make_quantizer
from lessbits._internal.randomness import make_seed
from lessbits.engines.peers.replay import ReplayProgram, advance, masks, order
from lessbits.engines.peers.schedule import Turn
from lessbits.methods.base import Start
from lessbits.methods.gradients import Gradients
from lessbits.networks.local import LocalNetwork

SITES, LATENCY, JITTER = 5, 0.1, 0.1
LEVEL = 1e-6  # of the squared distance to the optimum, of the site that is farthest, beside that of zero
DELAYS = (2, 4, 5, 8)


def clock(network, slow, until, seed=0):
    """Return the turns of all sites, and when each ended, until some time.

    Args:
        network: The network.
        slow: How many times slower the last site is.
        until: The time.
        seed: Seed of how long gradients take.
    """
    random = np.random.default_rng(seed)
    names = [str(node) for node in range(network.nodes)]
    around = [network.neighbor[network.owner == node].tolist() for node in range(network.nodes)]
    rounds = {(a, b): 0 for a in range(network.nodes) for b in around[a]}
    posted, arrived = dict(rounds), dict(rounds)  # messages so far, by sender and receiver
    turns, ends = {name: [] for name in names}, {name: [] for name in names}
    sending, waits = [{} for _ in names], [False] * len(names)
    events = [(0.0, node, -1) for node in range(network.nodes)]  # a site begins; or a message is there

    def lasts(node):
        return (slow if node == network.nodes - 1 else 1.0) * (1 + JITTER * random.uniform(-1, 1))

    def finish(node, now):
        """Apply what has come, if something has, and begin the next gradient."""
        ready = [
            other for other in around[node] if min(posted[node, other], arrived[other, node]) > rounds[node, other]
        ]
        waits[node] = not ready
        if ready:
            applied = {names[other]: (1, rounds[node, other]) for other in ready}
            others = [names[other] for other in around[node]]
            turns[names[node]].append(Turn(len(turns[names[node]]), [], others, sending[node], applied))
            ends[names[node]].append(now)
            for other in ready:
                rounds[node, other] += 1
            heapq.heappush(events, (now + lasts(node), node, -1))

    while events and (event := heapq.heappop(events))[0] < until:
        now, node, sender = event
        if sender >= 0:
            arrived[sender, node] += 1
            if waits[node]:
                finish(node, now)
            continue
        sending[node] = {}
        for other in around[node]:
            if posted[node, other] == rounds[node, other]:
                sending[node][names[other]] = (1, rounds[node, other])
                posted[node, other] += 1
                heapq.heappush(events, (now + LATENCY, other, node))
        finish(node, now)
    for node, name in enumerate(names):  # what was sent may have been applied
        if waits[node]:
            turns[name].append(Turn(len(turns[name]), [], [names[other] for other in around[node]], sending[node], {}))
            ends[name].append(until)
    return turns, ends


def times_to(problem, network, method, turns, ends, level):
    """Repeat a schedule; return the time at which all sites are below a level for good, and the level at the end."""
    late = method.with_delays()
    program = ReplayProgram(
        late.prepare(problem), late, LocalNetwork.of(network), jnp.asarray(network.reverse), make_seed(0), None
    )
    state = late.init(program.problem, program.local, Start())
    boxes = (state.waiting.payload, state.waiting.payload)
    numbers = {str(node): node for node in range(network.nodes)}
    ends_of = zip(network.owner.tolist(), network.neighbor.tolist(), strict=True)
    link = {(str(first), str(second)): row for row, (first, second) in enumerate(ends_of)}
    solution = np.asarray(problem.solution)
    time, curve = 0.0, []
    for number, moment in enumerate(order(turns)):
        state, boxes = advance(program, state, boxes, masks(moment, turns, numbers, link))
        time = max([time, *(ends[site][turn] for site, turn in moment.end)])
        if number % 5 == 0:
            error = np.square(np.asarray(state.x) - solution).sum(axis=1).max() / np.square(solution).sum()
            curve.append((time, float(error)))
            if not error < 1e6:
                return None, float("inf")
            if error < level / 100:
                break
    return last_above(curve, level), curve[-1][1]


def last_above(curve, level):
    """Return the first time from which on a curve is below a level; None if it is not at the end."""
    above = [time for time, value in curve if not value <= level]
    if above and above[-1] == curve[-1][0]:
        return None
    return next(time for time, value in curve if not above or time > above[-1])


def suggested(problem, network, quantizer, delay):
    """Return the method with the practical step sizes for messages that are at most so many iterations late."""
    request = MethodRequest(
        problem,
        network,
        make_quantizer(quantizer, problem.dim),
        Gradients("B", 1),
        practical=True,
        faults=None if delay is None else Faults(delay=(1, delay)),
    )
    method = EdgeDual.configure(request)
    return replace(method, **{name: float(f"{float(getattr(method, name)):.3g}") for name in method.step_size_names})


def in_step(network, slow, until):
    """Return turns as `clock` does, of a run in lockstep: all wait for the slowest."""
    names = [str(node) for node in range(network.nodes)]
    around = {name: [names[other] for other in network.neighbor[network.owner == int(name)]] for name in names}
    length = slow * (1 + JITTER) + LATENCY
    count = int(until / length)
    turns = {
        name: [
            Turn(k, [], around[name], *(dict.fromkeys(around[name], (1, k)) for _ in range(2))) for k in range(count)
        ]
        for name in names
    }
    return turns, {name: [length * (k + 1) for k in range(count)] for name in names}


def alike(seed=0, rows=40, dim=20):
    """Return features and targets of sites whose rows are of one distribution."""
    random = np.random.default_rng(seed)
    sizes, truth = np.arange(1, dim + 1.0) ** -1.0, random.normal(size=dim)
    features = random.normal(size=(SITES, rows, dim)) * sizes
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    return list(features), list(features @ truth + 0.3 * random.normal(size=(SITES, rows)))


def problems():
    """Return problems by name: sites that are alike, and sites that are not."""
    features, targets = alike()
    labels = [np.where(part + 2 * (number - 2) > 0, 1.0, -1.0) for number, part in enumerate(targets)]
    return {
        "least squares, alike": LeastSquares.from_parts(features, targets, 0.001),
        "least squares, random": LeastSquares.random(SITES, 20, 30, 20.0, 1),
        "logistic, sites with other classes": Logistic.from_parts(features, labels, 0.01),
        "consensus": Consensus.random(SITES, 20, 1),
    }


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one problem, a short run")
    quick = parser.parse_args().quick
    print("| problem | network | quantizer | slower | lockstep |", *(f"up to {delay} late |" for delay in DELAYS))
    print("|---|---|---|---:|---:|" + "---:|" * len(DELAYS))
    for name, problem in problems().items():
        for graph, quantizer in (("ring", "dit-4"), ("complete", "dit-4")):
            network = make_network(graph, SITES)
            methods = {delay: suggested(problem, network, quantizer, delay) for delay in (None, *DELAYS)}
            for slow in (5, 50):
                until = 300 if quick else 1000 * slow
                first, _ = times_to(problem, network, methods[None], *in_step(network, slow, until), LEVEL)
                cells = ["never" if first is None else f"{first:.0f}"]
                turns = clock(network, slow, until)
                for delay in DELAYS:
                    found, last = times_to(problem, network, methods[delay], *turns, LEVEL)
                    gain = f" ({first / found:.1f}×)" if first and found else ""
                    cells.append(f"{found:.0f}{gain}" if found is not None else f"never: {last:.1e}")
                print(f"| {name} | {graph} | {quantizer} | {slow} | {' | '.join(cells)} |", flush=True)
            if quick:
                return


if __name__ == "__main__":
    main()
