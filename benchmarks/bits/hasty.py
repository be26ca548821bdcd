"""What is fastest on one kind of links.

Of trees: the fineness, and the number of chunks that vectors are cut into; of all-gather, the fineness, and
whether Hessians go along. Of gossip:
quantizers finer than those with the fewest bits, so that fewer exchanges are needed.
"""

import math

from columns import LARGE, goal_of
from measure import LINKS

from lessbits import InputError, LinkModel, simulate
from lessbits.tuning.chunks import fastest_chunks
from lessbits.tuning.estimates import Choice
from lessbits.tuning.stepsizes import make_method, make_request

FINENESSES = (10, 30, 100, 1000, 10_000, 100_000, 300_000, 1_000_000, 1_500_000, 1_550_000)
IN_BITS = LinkModel(0, 1)  # its seconds are the bits that a link sends one after the other
MEASURED = 3  # trees that are run with three seeds
LEVELS = (0.5, 1, 2, 5, 20)  # of gossip, per root mean square of a coordinate
REFINED = 3  # choices of gossip whose step sizes are searched
BESIDES = 72  # bits of a message besides its coordinates


def fastest_tree(cell, link, quantizer=None, thrifty=None):
    """Return the fastest tree of those that are fastest by what seed 0 needs with one chunk; None if none gets there.

    `thrifty` is the cell of the tree with the fewest bits, or of all-reduce, which is tried too.
    """
    two_roots = make_method("twin-tree", cell.problem, cell.network).top  # where a round is shorter so
    kinds = ("twin-tree" if two_roots else "tree",)
    kinds += ("newton-tree",) if cell.column.startswith("ridge") else ()
    names = [f"grid:{fineness}" for fineness in FINENESSES] if quantizer is None else [quantizer]
    tried = [(Choice(kind, name), {}) for kind in kinds for name in names]
    if thrifty is not None:
        tried.append((Choice(kinds[0], thrifty["quantizer"]), thrifty["sizes"]))
    return _fastest_of(cell, tried, link)


def fastest_gather(cell, link, quantizer=None):
    """Return the fastest all-gather; None if none gets there, or the network is not for it."""
    kinds = ("all-gather", "newton-gather") if cell.column.startswith("ridge") else ("all-gather",)
    names = [f"grid:{fineness}" for fineness in FINENESSES] if quantizer is None else [quantizer]
    try:
        return _fastest_of(cell, [(Choice(kind, name), {}) for kind in kinds for name in names], link)
    except InputError:
        return None


def _fastest_of(cell, tried, link):
    """Measure those that are fastest by an estimate, and return the fastest; None if none gets there."""
    ranked = [_estimate(cell, *each, link) for each in tried]
    ranked = sorted((each for each in ranked if each is not None), key=lambda each: each[0])
    found = [cell.measure(choice, sizes) for _, choice, sizes in ranked[:MEASURED]]
    return min((each for each in found if each is not None), key=lambda each: each["seconds"][link], default=None)


def _estimate(cell, choice, sizes, link):
    """Return seconds, the choice and its step sizes with the number of chunks; None if the target is not reached."""
    rate, latency = LINKS[link]
    method = choice.make(cell.problem, cell.network, **sizes)
    known = (cell.column, cell.target, cell.most, choice, tuple(sizes.items()))
    if known not in _needed:
        _needed[known] = _needs(cell, method)
    if _needed[known] is None:
        return None
    exchanges, waited = _needed[known]
    if not method.takes_chunks:
        return exchanges * latency + waited / rate, choice, sizes
    request = make_request(choice.method, cell.problem, cell.network, choice.quantizer, stepsizes="theory", target=None)
    chunks = fastest_chunks(request[1], LinkModel(latency, rate))
    many = choice.make(cell.problem, cell.network, **sizes, chunks=chunks)
    longer = exchanges / method.round_length * many.round_length
    return longer * (latency + (BESIDES + waited / exchanges / chunks) / rate), choice, {**sizes, "chunks": chunks}


_needed = {}  # by column and choice: all kinds of links ask for it


def _needs(cell, method):
    """Return the exchanges, and the bits that links send one after the other; None if the target is not reached."""
    options = {"until": cell.target, "goal": goal_of(cell.column), "iterations": cell.most, "link_model": IN_BITS}
    trace = simulate(cell.problem, cell.network, method, seed=0, record_every=1, **options)
    return (int(trace["iteration"][-1]), float(trace["simulated_seconds"][-1])) if trace.converged else None


def fastest_gossip(cell, link, starts):
    """Return what is measured of the fastest gossip, searched around the cells of a column; None if none gets there."""
    rate, latency = LINKS[link]

    def cost(iterations, bits):
        return iterations * latency + bits / rate

    def searched(search):
        tried = []
        for start in starts:
            for levels in LEVELS:
                quantizer = f"subtractive:{round(levels * math.sqrt(cell.problem.dim))}"
                choice = Choice(start["method"], quantizer, start.get("messages"), start.get("corrected", False))
                tried.append(search.adopt(choice, start["sizes"]))
        tried.sort(key=lambda each: cost(each.outcomes[0].iterations, each.bits))
        for each in tried[:REFINED] if cell.problem.dim < LARGE else ():
            search.refine(each, tuple(each.sizes))

    return cell.best(searched, cost) if starts else None
