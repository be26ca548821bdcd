"""The seam: parts of the nodes, `send` and `receive` compiled apart, must give the simulator's run.

The nodes are dealt to several parts, each with its own rows of problem, network and state, as real processes would be.
Messages go from part to part as NumPy arrays.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lessbits import Consensus, LeastSquares, LocalNetwork, PrimalDual, Start, make_network, make_quantizer, simulate
from lessbits.methods.base import Message
from lessbits.pytrees import take_rows
from lessbits.randomness import Step, make_seed

NODES, DIM = 12, 37


@jax.jit
def send(method, step, state, problem, local):
    return method.send(step, state, problem, local)


@jax.jit
def receive(method, step, state, outbox, inbox, local):
    return method.receive(step, state, outbox, inbox, local)


def run_in_parts(problem, network, method, iterations, parts, seed=0):
    held = [np.arange(NODES)[part] for part in parts]
    locals_ = [LocalNetwork.of(network, nodes) for nodes in held]
    problems = [problem.restrict(nodes) for nodes in held]
    states = [method.init(p, local, Start()) for p, local in zip(problems, locals_, strict=True)]
    order_of_links = np.argsort(np.concatenate([np.asarray(local.links) for local in locals_]))
    order_of_nodes = np.argsort(np.concatenate(held))
    for k in range(iterations):
        step = Step(make_seed(seed), jnp.int32(k))
        sent = [send(method, step, s, p, local) for s, p, local in zip(states, problems, locals_, strict=True)]
        outboxes = [outbox for _, outbox, _ in sent]
        states = [
            receive(
                method, step, state, outbox, deliver(network, outboxes, local, order_of_links, order_of_nodes), local
            )
            for (state, outbox, _), local in zip(sent, locals_, strict=True)
        ]
    return np.concatenate([np.asarray(state.x) for state in states])[order_of_nodes]


def deliver(network, outboxes, local, order_of_links, order_of_nodes):
    inbox = []
    for messages in zip(*outboxes, strict=True):
        order = order_of_links if messages[0].per_link else order_of_nodes
        payloads = [message.payload for message in messages]
        whole = jax.tree.map(lambda *rows: np.concatenate([np.asarray(row) for row in rows])[order], *payloads)  # noqa: B023
        links = np.asarray(local.links)
        source = network.reverse[links] if messages[0].per_link else network.neighbor[links]
        inbox.append(Message(take_rows(whole, source), per_link=True))
    return tuple(inbox)


# Each network, message kind and quantizer, in the pairs that once differed in the last bit.
CASES = [
    ("ring", "independent", "dit-4"),
    ("star", "broadcast", "natural"),
    ("erdos-renyi:0.4", "independent", "exact"),
    ("erdos-renyi:0.4", "broadcast", "rand-9"),
]


@pytest.mark.parametrize(("network", "messages", "quantizer"), CASES)
def test_parts_of_the_nodes_give_the_same_run_bit_for_bit(network, messages, quantizer):
    network = make_network(network, NODES, seed=1)
    method = PrimalDual.make(make_quantizer(quantizer, DIM), 0.2, 0.7, dim=DIM, messages=messages)
    for problem in (Consensus.random(NODES, DIM), LeastSquares.random(NODES, DIM, samples=40)):
        whole = simulate(problem, network, method, 40)
        uneven = [slice(0, 1), slice(1, 6), slice(6, None)]
        scattered = [slice(0, None, 3), slice(1, None, 3), slice(2, None, 3)]
        for parts in ([slice(None)], uneven, scattered):
            assert run_in_parts(problem, network, method, 40, parts).tobytes() == whole.x.tobytes()


@pytest.mark.parametrize("option", "CD")
def test_samples_and_coins_do_not_depend_on_who_holds_a_node(option):
    network = make_network("ring", NODES)
    problem = LeastSquares.random(NODES, DIM, samples=40)
    method = PrimalDual.make(make_quantizer("dit-4", DIM), 0.05, 0.02, dim=DIM, option=option)
    whole = simulate(problem, network, method, 40)
    parts = run_in_parts(problem, network, method, 40, [slice(0, 5), slice(5, None)])
    np.testing.assert_allclose(parts, whole.x, rtol=0, atol=1e-9)
