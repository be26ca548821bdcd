"""Vectors in chunks up and down a tree: the same sums, all levels at once, and how many chunks are fastest."""

from dataclasses import replace

import numpy as np
import pytest
from engines.test_stepwise import same_run
from engines.threads import run_on
from tiers import slow_but

from lessbits import (
    Consensus,
    InputError,
    LeastSquares,
    LinkModel,
    Settings,
    build,
    make_method,
    make_network,
    simulate,
)
from lessbits.methods.chunks import fewest_chunks
from lessbits.networks.tree import spanning_tree

PROBLEM, NETWORK = LeastSquares.random(10, 11, condition=5.0), make_network("erdos-renyi:0.3", 10, seed=2)
METHOD = make_method("tree", PROBLEM, NETWORK, "grid:6")


def up_to_16_bits(value):
    """The first 16 bits of a float32, rounded up."""
    word = np.float32(value)
    word = np.nextafter(word, np.float32(np.inf)) if word < value else word
    return float((((word.view(np.uint32) + np.uint32(0xFFFF)) >> 16) << 16).view(np.float32))


def in_chunks(vector, chunks, fineness):
    """C(v): every chunk, filled up with zeros, has a spacing of its own."""
    length = -(-len(vector) // chunks)
    sent = []
    for chunk in np.pad(vector, (0, chunks * length - len(vector))).reshape(chunks, length):
        spacing = up_to_16_bits(np.linalg.norm(chunk) / (np.sqrt(length) * fineness))
        sent.append(spacing * np.rint(chunk / spacing) if spacing else chunk)
    return np.concatenate(sent)[: len(vector)]


def gradient_steps_on_a_tree(problem, network, chunks, fineness, eta, rounds):
    """The method without L-BFGS, node by node: plain NumPy."""
    tree, mu = spanning_tree(network), problem.convexity
    deepest_first = np.argsort(-tree.depth, kind="stable")
    x, reported = np.zeros(problem.dim), np.zeros((network.nodes, problem.dim))
    for _ in range(rounds):
        sums = np.asarray(problem.gradient(np.broadcast_to(x, reported.shape))) - mu * x
        for node in deepest_first:
            sums[node] += reported[tree.parent == node].sum(axis=0)
            if tree.depth[node]:
                reported[node] += in_chunks(sums[node] - reported[node], chunks, fineness)
        goal = x - eta * (sums[tree.depth == 0][0] / network.nodes + mu * x)
        x = x + in_chunks(goal - x, chunks, fineness)
    return x


@pytest.mark.parametrize("chunks", slow_but([4], [1, 4, 11]))
def test_it_is_the_plain_numpy_version(chunks):
    method = replace(METHOD, pairs=0, chunks=chunks)
    trace = simulate(PROBLEM, NETWORK, method, iterations=5 * method.round_length)
    expected = gradient_steps_on_a_tree(PROBLEM, NETWORK, chunks, 6, float(method.eta), 5)
    np.testing.assert_allclose(trace.x, np.broadcast_to(expected, trace.x.shape), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_chunks_of_exact_messages_change_nothing():
    plain = make_method("tree", PROBLEM, NETWORK, "exact")
    one, four = (
        simulate(PROBLEM, NETWORK, m, iterations=6 * m.round_length) for m in (plain, replace(plain, chunks=4))
    )
    assert one.x.tobytes() == four.x.tobytes()
    assert one["error"].tobytes() == four["error"].tobytes()


@pytest.mark.slow
def test_all_levels_of_the_tree_send_at_once():
    tree, chunks = spanning_tree(NETWORK), 4
    method = replace(METHOD, chunks=chunks)
    sweep = tree.height + chunks - 1
    assert method.round_length == 2 * sweep
    first = tree.height - tree.depth[tree.depth > 0]  # the exchange in which a node sends its first chunk
    up = [int(((first <= number) & (number < first + chunks)).sum()) for number in range(sweep)]
    runs = [simulate(PROBLEM, NETWORK, method, iterations=number + 1) for number in range(2 * sweep)]
    ends = [run["messages"][-1] for run in runs]
    assert np.diff([0, *ends]).tolist() == up + up[::-1]
    assert ends[-1] == 2 * chunks * (NETWORK.nodes - 1)


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", slow_but(["grid:6"], ["grid:6", "dit-8"]))
def test_all_engines_agree_bit_for_bit(quantizer):
    method = make_method("tree", PROBLEM, NETWORK, quantizer, chunks=3)
    iterations = 2 * method.round_length
    here = simulate(PROBLEM, NETWORK, method, iterations=iterations)
    same_run(simulate(PROBLEM, NETWORK, method, iterations=iterations, encode=True), here, {"wire_bits_per_link"})
    for trace in run_on(2, PROBLEM, NETWORK, method, iterations=iterations):
        same_run(trace, here, {"wire_bits_per_link"})


@pytest.mark.parametrize(("latency", "bandwidth", "least"), [(0.0, 1e3, 8), (0.05, 1e6, 1), (1e-4, 1e5, 4)])
@pytest.mark.slow
def test_the_chosen_number_of_chunks_is_about_the_fastest(latency, bandwidth, least):
    settings = Settings(method="tree", network="ring", nodes=30, dim=200, latency=latency, bandwidth=bandwidth)
    built = build(settings)
    chosen, link = built.settings.chunks, LinkModel(latency, bandwidth)
    assert chosen >= least
    seconds = {}
    for chunks in {fewest_chunks(200, max(1, round(chosen * factor))) for factor in (0.5, 1, 2)}:
        method = replace(built.method, chunks=chunks)
        trace = simulate(built.problem, built.network, method, iterations=method.round_length, link_model=link)
        seconds[chunks] = trace["simulated_seconds"][-1]
    assert seconds[built.method.chunks] <= 1.05 * min(seconds.values())


def test_without_a_link_there_is_one_chunk():
    assert build(Settings(method="tree", network="ring", nodes=5, dim=4)).settings.chunks == 1
    assert make_method("tree", PROBLEM, NETWORK).chunks == 1


def test_no_chunk_is_empty():
    assert make_method("tree", PROBLEM, NETWORK, chunks=8).chunks == 6  # of two coordinates


@pytest.mark.parametrize(
    ("method", "chunks", "says"),
    [
        ("tree", 12, "chunks is 12, but a vector has only 11 coordinates here: take at most 11"),
        ("tree", 0, "chunks"),
        ("tree", 2.5, "chunks"),
        ("lead", 2, "chunks is 2, but lead sends whole vectors: take tree"),
    ],
)
def test_numbers_of_chunks_that_cannot_be_are_refused(method, chunks, says):
    with pytest.raises(InputError, match=says):
        make_method(method, PROBLEM, NETWORK, chunks=chunks)
    with pytest.raises(InputError, match="chunks"):
        build(Settings(method=method, problem="least-squares", nodes=10, dim=11, network="ring", chunks=chunks))


def test_a_method_made_by_hand_is_checked_too():
    problem = Consensus.random(10, 3)
    with pytest.raises(InputError, match="take at most 3"):
        simulate(problem, NETWORK, replace(METHOD, chunks=4), iterations=1)
