"""What a method needs to reach a target: bits on all links and on the busiest one, iterations, and time on slow links.

An exchange takes the latency of a link, and the time that the longest message needs. Links send at the same time, each
with the whole bandwidth, also those of a hub. What nodes compute takes no time. Before a run of `scheduled` nodes agree
on a scale, up a tree and down, which takes time too.
"""

import jax
import jax.numpy as jnp
import numpy as np
from columns import goal_of, parts
from jax import lax

from lessbits import simulate
from lessbits._internal.randomness import Step
from lessbits.codecs.frames import header_bytes
from lessbits.codecs.making import make_codecs
from lessbits.engines.options import RunOptions
from lessbits.engines.simulate.program import Program
from lessbits.networks.tree import spanning_tree

SEEDS = 3
LINKS = {"1 Mbit/s, 50 ms": (1e6, 0.05), "10 Mbit/s, 10 ms": (1e7, 0.01), "1 Gbit/s, 0.1 ms": (1e9, 1e-4)}
SCALE_BITS = 64  # a float32 and its checksum
AGREE = 1e-3  # by which share the sum over links may differ from the bits of the trace, which adds in another order


def measure(column, target, choice, sizes, most, w1a=None, seeds=SEEDS):
    """Means over the seeds, of problem and run; None if one of the runs does not get there."""
    runs = []
    for seed, problem, network, method, trace in _runs(column, target, choice, sizes, most, w1a, seeds):
        if not trace.converged:
            return None
        iterations, bits = int(trace["iteration"][-1]), float(trace["wire_bits_per_link"][-1])
        carried, waited = link_load(problem, network, method, iterations, seed)
        assert abs(carried.mean() - bits) <= AGREE * bits, f"{carried.mean()} bits on links, {bits} in the trace"
        runs.append((bits, carried.max(), waited, float(trace["bits_per_link"][-1]), iterations))
    means = np.mean(runs, axis=0)
    found = dict(zip(("bits", "worst", "waited", "nominal", "iterations"), map(float, means), strict=True))
    if choice.method == "scheduled":
        found["before"] = 2 * spanning_tree(parts(column, 0, w1a)[1]).height
    return {**found, "seconds": seconds(found), "seeds": seeds, **choice.changes(), "sizes": sizes}


def spent(column, target, choice, sizes, most, w1a=None, seeds=SEEDS):
    """Mean iterations and bits over the seeds, which take half the time of `measure`; None as there."""
    runs = []
    for *_, trace in _runs(column, target, choice, sizes, most, w1a, seeds):
        if not trace.converged:
            return None
        runs.append((float(trace["iteration"][-1]), float(trace["wire_bits_per_link"][-1])))
    return tuple(np.mean(runs, axis=0))


def _runs(column, target, choice, sizes, most, w1a, seeds):
    for seed in range(seeds):
        problem, network = parts(column, seed, w1a)
        method = choice.make(problem, network, **sizes)
        options = {"until": target, "goal": goal_of(column), "record_every": 1}
        yield seed, problem, network, method, simulate(problem, network, method, iterations=most, seed=seed, **options)


def seconds(found):
    """Seconds on each kind of links."""
    before = found.get("before", 0)  # exchanges
    exchanges, waited = before + found["iterations"], SCALE_BITS * before + found["waited"]
    return {name: exchanges * latency + waited / rate for name, (rate, latency) in LINKS.items()}


def link_load(problem, network, method, iterations, seed):
    """Return the bits of each link, and the sum over all exchanges of the most bits that a link carries in one."""
    codecs = make_codecs(method.compressors, method.message_lengths(problem.dim), "entropy")
    options = RunOptions(iterations=iterations, seed=seed).checked(problem, network, method)
    program = Program.of(problem, network, method, options, codecs=codecs)
    headers = jnp.asarray([header_bytes(codec) for codec in codecs], float)
    carried, waited = _replay(
        program, tuple(codec.length_model() for codec in codecs), headers, options.start, jnp.int32(iterations)
    )
    return 8 * np.asarray(carried), 8 * float(waited)


@jax.jit
def _replay(program, lengths, headers, start, iterations):
    local, method = program.local, program.method

    def on_links(message, length, header):
        rows = header + length(message.payload).astype(header.dtype)
        rows = rows if message.per_link else rows[local.owner]
        return rows if message.active is None else jnp.where(message.active, rows, 0)

    def iterate(iteration, carry):
        state, carried, waited = carry
        step = Step(program.seed, iteration)
        state, outbox, _ = method.send(step, state, program.problem, local)
        state = method.receive(step, state, outbox, program.exchange(outbox), local)
        sent = sum(on_links(*each) for each in zip(outbox, lengths, headers, strict=True))
        return state, carried + sent, waited + sent.max()

    nothing = jnp.zeros(local.links.shape[0])
    first = (program.begin(start), nothing, jnp.zeros(()))
    return lax.fori_loop(0, iterations, iterate, first)[1:]
