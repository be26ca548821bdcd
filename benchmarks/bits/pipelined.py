"""The tree that is fastest on one kind of links: its fineness, and the number of chunks that it cuts vectors into."""

from columns import goal_of
from measure import LINKS

from lessbits import LinkModel, simulate
from lessbits.networks.tree import spanning_tree
from lessbits.tuning.chunks import fastest_chunks
from lessbits.tuning.estimates import Choice
from lessbits.tuning.stepsizes import make_request

FINENESSES = (10, 30, 100, 1000, 10_000, 100_000, 300_000, 1_000_000)
IN_BITS = LinkModel(0, 1)  # its seconds are the bits that a link sends one after the other
BESIDES = 72  # bits of a message besides its coordinates


def fastest_tree(cell, link, quantizer=None, thrifty=None):
    """Return what is measured of the fastest tree by what seed 0 needs with one chunk; None if none gets there.

    `thrifty` is the cell of the tree with the fewest bits, which is tried too.
    """
    kinds = ("tree", "newton-tree") if cell.column.startswith("ridge") and quantizer is None else ("tree",)
    names = [f"grid:{fineness}" for fineness in FINENESSES] if quantizer is None else [quantizer]
    tried = [(Choice(kind, name), {}) for kind in kinds for name in names]
    if thrifty is not None:
        tried.append((Choice("tree", thrifty["quantizer"]), thrifty["sizes"]))
    ranked = [_estimate(cell, *each, link) for each in tried]
    for _, chunks, choice, sizes in sorted((each for each in ranked if each is not None), key=lambda each: each[0]):
        found = cell.measure(choice, {**sizes, "chunks": chunks})
        if found is not None:
            return found
    return None


def _estimate(cell, choice, sizes, link):
    """Return seconds, chunks, the choice and its step sizes; None if the target is not reached."""
    rate, latency = LINKS[link]
    method = choice.make(cell.problem, cell.network, **sizes)
    options = {"until": cell.target, "goal": goal_of(cell.column), "iterations": cell.most, "link_model": IN_BITS}
    trace = simulate(cell.problem, cell.network, method, seed=0, record_every=1, **options)
    if not trace.converged:
        return None
    exchanges, waited = int(trace["iteration"][-1]), float(trace["simulated_seconds"][-1])
    request = make_request(choice.method, cell.problem, cell.network, choice.quantizer, stepsizes="theory", target=None)
    chunks, height = fastest_chunks(request[1], LinkModel(latency, rate)), spanning_tree(cell.network).height
    longer = exchanges / height * (height + chunks - 1)
    return longer * (latency + (BESIDES + waited / exchanges / chunks) / rate), chunks, choice, sizes
