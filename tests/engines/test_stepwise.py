"""The engine of real bytes, on threads as ranks: the same run as the simulator's, bit for bit."""

import jax.numpy as jnp
import numpy as np
import pytest
from engines.threads import on_ranks, run_on
from tiers import slow_but

from lessbits import (
    Consensus,
    Custom,
    InputError,
    LeastSquares,
    Logistic,
    PrimalDual,
    load_samples,
    make_method,
    make_network,
    make_quantizer,
    simulate,
    split_samples,
)
from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.rank import Rank
from lessbits.engines.distributed.stepwise import run_stepwise
from lessbits.engines.distributed.transport import SingleProcess, held_nodes
from lessbits.engines.options import RunOptions
from lessbits.errors import WireError

NODES, DIM = 16, 37
CLOCKS = {"seconds", "compute_seconds", "coding_seconds", "communication_seconds", "bytes_between_ranks"}


def method_of(quantizer="dit-4", messages="independent", theta=0.2, eta=0.7, option="B"):
    return PrimalDual.make(make_quantizer(quantizer, DIM), theta, eta, dim=DIM, messages=messages, option=option)


def same_run(trace, other, but=()):
    """Whether two traces tell the same run: every column bit for bit, and the final iterates."""
    assert trace.message == other.message
    for name in trace.columns.keys() - CLOCKS - set(but):
        assert trace[name].tobytes() == other[name].tobytes(), name
    assert trace.x.tobytes() == other.x.tobytes()


# Each network, message kind and quantizer, in pairs that once differed in the last bit.
PAIRS = [
    ("ring", "dit-4", "independent", (1, 2)),
    ("star", "natural", "broadcast", (2,)),
    ("ring", "float32", "edge", (2,)),
    ("erdos-renyi:0.4", "rand-9+dit-4", "broadcast", (3,)),
    ("erdos-renyi:0.4", "rand-9", "independent", (4,)),
    ("erdos-renyi:0.4", "dit-4", "edge", (3,)),
    ("ring", "fading:1:0.9", "broadcast", (3,)),
    ("complete", "exact", "independent", (5,)),
    ("erdos-renyi:0.4", "rand-9", "edge", (2,)),
    ("ring", "dit-6", "independent", (2,)),
]


@pytest.mark.parametrize(("network", "quantizer", "messages", "ranks"), slow_but(PAIRS[-1:], PAIRS))
@pytest.mark.optimized
def test_ranks_give_the_simulators_run_bit_for_bit(network, quantizer, messages, ranks):
    network = make_network(network, NODES, seed=1)
    method = method_of(quantizer, messages)
    kinds = (Consensus.random(NODES, DIM), LeastSquares.random(NODES, DIM, samples=40))
    for problem in kinds if quantizer == "dit-4" else kinds[1:]:
        simulated = simulate(problem, network, method, iterations=25, record_every=4)
        # The simulator knows the length of entropy codes from a model only.
        varies = {"wire_bits_per_link"} if quantizer not in ("exact", "float32", "rand-9", "natural") else set()
        encoded = simulate(problem, network, method, iterations=25, record_every=4, encode=True)
        same_run(simulated, encoded, varies)
        for size in ranks:
            for trace in run_on(size, problem, network, method, iterations=25, record_every=4):
                same_run(encoded, trace)


@pytest.mark.parametrize(
    ("option", "messages"),
    slow_but([("C", "edge")], [("A", "edge"), ("C", "edge"), ("D", "edge"), ("D", "independent")]),
)
def test_samples_and_coins_do_not_depend_on_who_holds_a_node(option, messages):
    network = make_network("ring", NODES)
    problem = LeastSquares.random(NODES, DIM, samples=40)
    method = method_of(theta=0.05, eta=0.02, option=option, messages=messages)
    whole = simulate(problem, network, method, iterations=40)
    trace = run_on(2, problem, network, method, iterations=40)[0]
    assert trace["gradient_evaluations"].tolist() == whole["gradient_evaluations"].tolist()
    np.testing.assert_allclose(trace.x, whole.x, rtol=0, atol=1e-9)


OF_OTHERS = {"choco": {"quantizer": "top-5"}, "ef21": {"quantizer": "top-5"}, "accelerated": {"stepsizes": "practical"}}


OTHERS = ["choco", "lead", "accelerated", "diana", "gradient-tracking-atc", "qdgd", "tree", "newton-tree"]
RIVALS = ["c-gt", "beer", "motef", "ef21", "scaffnew", "compressed-scaffnew", "locodl", "adiana", "opapc", "dore"]
WHOLE = ("gradient-tracking-atc", "scaffnew", "compressed-scaffnew", "opapc")  # send numbers as they are


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS + RIVALS)
@pytest.mark.optimized
def test_other_methods_run_on_ranks_too(name):
    network = make_network("star", 7)
    problem = LeastSquares.random(7, DIM, samples=40)
    method = make_method(name, problem, network, **OF_OTHERS.get(name, {}))
    simulated = simulate(problem, network, method, iterations=20)
    trace = run_on(2, problem, network, method, iterations=20)[0]
    varies = set() if name in WHOLE else {"wire_bits_per_link"}
    same_run(simulated, trace, varies)
    assert trace["wire_bits_per_link"][-1] == pytest.approx(simulated["wire_bits_per_link"][-1], rel=0.005)


@pytest.mark.slow
def test_logistic_regression_is_the_same_but_for_rounding():
    samples = load_samples("breast-cancer").normalized_rows()
    problem = Logistic.from_samples(samples, split_samples(samples, 6), samples.binary_labels(), 0.1)
    network = make_network("ring", 6)
    method = make_method("primal-dual", problem, network, "dit-4", theta=0.1, eta=2.0)
    simulated = simulate(problem, network, method, iterations=1000, until=1e-10)
    trace = run_on(3, problem, network, method, iterations=1000, until=1e-10)[2]
    assert simulated.converged
    assert trace.converged
    # Until rounding flips a level the runs are one run.
    np.testing.assert_allclose(trace["error"][:20], simulated["error"][:20], rtol=1e-9)
    assert trace["iteration"][-1] == pytest.approx(simulated["iteration"][-1], rel=0.01)
    assert trace["wire_bits_per_link"][-1] == pytest.approx(simulated["wire_bits_per_link"][-1], rel=0.01)


@pytest.mark.slow
def test_bytes_given_to_the_transport_are_those_of_links_between_ranks():
    network, problem = make_network("ring", 8), Consensus.random(8, DIM)
    given = []

    def run(transport):
        trace = run_stepwise(problem, network, method_of(), transport, RunOptions(iterations=30))
        given.append(transport.given)
        return trace

    alone, *_ = on_ranks(1, run)
    assert given == [0]
    given.clear()
    every_node, *_ = on_ranks(8, run)
    assert sum(given) == every_node["bytes_between_ranks"][-1]
    # With a rank for each node all links are between ranks.
    assert sum(given) == every_node["wire_bits_per_link"][-1] * network.links / 8
    given.clear()
    trace, *_ = on_ranks(2, run)
    assert sum(given) == trace["bytes_between_ranks"][-1]
    # Two of the eight edges cross, and messages are about equally long.
    assert sum(given) == pytest.approx(every_node["bytes_between_ranks"][-1] / 4, rel=0.05)
    assert alone["wire_bits_per_link"].tobytes() == trace["wire_bits_per_link"].tobytes()


def test_compute_coding_and_communication_are_told_apart():
    trace = run_on(2, Consensus.random(4, DIM), make_network("ring", 4), method_of(), iterations=20)[0]
    parts = [trace[f"{part}_seconds"] for part in ("compute", "coding", "communication")]
    assert all((np.diff(part) > 0).all() for part in parts)
    assert sum(part[-1] for part in parts) <= trace["seconds"][-1] * 1.001


def spread_facts(whole, parts):
    """What ranks find out together about a problem of which each holds a part."""

    def ask(transport):
        spread = PartitionedProblem(parts[transport.rank], transport)
        return (
            spread.nodes,
            spread.samples,
            spread.smoothness,
            spread.convexity,
            spread.sample_smoothness(1),
            spread.sample_smoothness(3),
            spread.noise(2),
            spread.solution.tobytes(),
            float(spread.target().optimum),
        )

    answers = on_ranks(len(parts), ask)
    assert len(set(answers)) == 1
    return answers[0]


@pytest.mark.slow
def test_ranks_agree_on_the_facts_of_a_problem_that_none_of_them_holds():
    for whole in (
        Consensus.random(10, 5),
        LeastSquares.random(10, 5, samples=8),
    ):
        parts = [whole.restrict(nodes) for nodes in held_nodes(10, 3)]
        facts, alone = spread_facts(whole, parts), spread_facts(whole, [whole])
        assert facts == alone
        assert facts[7] == whole.solution.tobytes()
        assert facts[2:7] == pytest.approx(
            (whole.smoothness, whole.convexity, whole.sample_smoothness(1), whole.sample_smoothness(3), whole.noise(2))
        )


def test_ranks_that_are_set_up_differently_say_so():
    network, problem = make_network("ring", 4), Consensus.random(4, DIM)

    def run(transport):
        method = method_of(theta=0.2 + 0.1 * (transport.rank == 1))
        return run_stepwise(problem, network, method, transport, RunOptions(iterations=5))

    with pytest.raises(InputError, match="rank 1 is set up for another run"):
        on_ranks(2, run)

    def encode_otherwise(transport):
        code = "fixed" if transport.rank == 1 else "entropy"
        return run_stepwise(problem, network, method_of(), transport, RunOptions(iterations=5, code=code))

    def record_otherwise(transport):
        return run_stepwise(
            problem, network, method_of(), transport, RunOptions(iterations=5, record_every=1 + transport.rank)
        )

    with pytest.raises(InputError, match="rank 1 is set up for another run"):
        on_ranks(2, record_otherwise)

    with pytest.raises(InputError, match=r"rank 1 encodes in another way .*--code fixed"):
        on_ranks(2, encode_otherwise)


def test_a_value_that_is_no_number_is_named_with_its_node():
    def loss(x, node):
        return jnp.where((node == 4) & (x[0] != 0), jnp.nan, 1.0) * 0.5 * jnp.sum((x - node) ** 2)

    nodes = jnp.arange(6.0)[:, None]
    problem = Custom.make(loss, nodes, DIM, smoothness=1.0, convexity=1.0, solution=np.full(DIM, 2.5))
    network, method = make_network("ring", 6), method_of(eta=0.5)
    with pytest.raises(InputError, match="node 4 has a value that is no finite number in iteration 1"):
        run_stepwise(problem, network, method, SingleProcess(), RunOptions(iterations=5))


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_run_that_grows_beyond_all_numbers_has_diverged_and_is_no_mistake(ranks):
    network, problem = make_network("ring", 6), Consensus.random(6, DIM)
    traces = run_on(ranks, problem, network, method_of(theta=1e3), iterations=5000, record_every=5000)
    for trace in traces:
        assert trace.diverged
        assert 1 < trace["iteration"][-1] < 5000
        assert "lower theta" in trace.message
        assert not np.isfinite(trace.x).all()


# What may happen to bytes under way, and the words that must name it. Lengths and bodies travel in turn.
FAULTS = {
    "flipped bit": (lambda memory, content: content[:-1] + bytes([content[-1] ^ 1]), "corrupted"),
    "earlier iteration": (lambda memory, content: memory.setdefault("old", content), "iteration"),
    "zeros": (lambda memory, content: bytes(len(content)), "corrupted"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_message_that_is_not_as_it_was_sent_is_named(fault):
    change, words = FAULTS[fault]
    memory = {}

    def tamper(exchange, sender, receiver, content):
        if (sender, receiver) != (1, 0) or exchange < 3 or not content:
            return content
        return change(memory, content)

    network, problem = make_network("path", 4), Consensus.random(4, DIM)
    with pytest.raises(WireError, match=rf"from rank 1, node 2 to node 1: .*{words}"):
        run_on(2, problem, network, method_of("rand-9"), iterations=8, tamper=tamper)


def test_messages_on_swapped_links_are_named():
    def tamper(exchange, sender, receiver, content):
        half = len(content) // 2
        return content[half:] + content[:half] if (sender, receiver, exchange) == (1, 0, 2) else content

    # Rank 0 holds nodes 0 and 1, rank 1 nodes 2 and 3: on a ring two links come from rank 1.
    network, problem = make_network("ring", 4), Consensus.random(4, DIM)
    with pytest.raises(WireError, match=r"expected link \d+, but this is the message of link \d+"):
        run_on(2, problem, network, method_of("exact"), iterations=8, tamper=tamper)


def test_an_announced_length_beyond_the_bound_is_refused_before_room_is_made():
    def tamper(exchange, sender, receiver, content):
        return b"\xff" * len(content) if (sender, receiver, exchange) == (1, 0, 4) else content

    network, problem = make_network("path", 4), Consensus.random(4, DIM)
    with pytest.raises(WireError, match="was announced, but the most is"):
        run_on(2, problem, network, method_of("dit-4"), iterations=8, tamper=tamper)


def test_nodes_are_dealt_in_blocks():
    sizes = [len(nodes) for nodes in held_nodes(100, 7)]
    assert sum(sizes) == 100
    assert max(sizes) - min(sizes) <= 1


def test_measures_need_the_compiled_loop():
    with pytest.raises(InputError, match="further measures"):
        simulate(
            Consensus.random(4, DIM),
            make_network("ring", 4),
            method_of(),
            iterations=5,
            measures={"a": lambda s, p: 0},
            encode=True,
        )


def test_one_rank_alone_holds_everything():
    rank = Rank(
        Consensus.random(4, DIM),
        make_network("ring", 4),
        method_of(),
        SingleProcess(),
        RunOptions(iterations=1, code="fixed"),
    )
    assert rank.wire.ranks == []
    assert len(rank.nodes) == 4
