"""Training of pytrees between sites: the same model as between threads, and a site that dies and comes back."""

import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("grpc")

from engines.peers.in_process import Town, write_sites

from lessbits.errors import InputError
from lessbits.neural import Gossip, Rule
from lessbits.training.links import ThreadLinks

EVERY, SIZE = 4, 50


def start():
    return {"weight": jnp.asarray(np.random.default_rng(0).standard_normal(SIZE), jnp.float32)}


def target(node):
    return jnp.asarray(np.random.default_rng(7 + node).standard_normal(SIZE), jnp.float32)


def train(gossip, steps, pause=0.0):
    """Move towards a target of each node's own, and return the parameters."""
    params = start()
    while gossip.steps < steps:
        time.sleep(pause)
        params = gossip.step({"weight": params["weight"] - 0.1 * (params["weight"] - target(gossip.links.node))})
    return params["weight"]


def in_threads(count, work):
    """Call a function with each number, and return what it returns, or its mistake."""
    results = [None] * count

    def one(number):
        try:
            results[number] = work(number)
        except InputError as error:
            results[number] = str(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("in_turn", [True, False])
def test_sites_train_the_model_of_threads(tmp_path, in_turn):
    rule = Rule(dual=0.1, theta=0.6, turns=in_turn)

    def thread(links):
        gossip = Gossip(start(), EVERY, network="complete", rule=rule, links=links)
        return train(gossip, 40), gossip.bits

    def site(node):
        gossip = Gossip(start(), EVERY, rule=rule, site=files[node])
        found = train(gossip, 40), gossip.bits
        gossip.close()
        return found

    files = write_sites(Town(tmp_path))
    for (expected, bits), (found, sent) in zip(ThreadLinks.run(3, thread), in_threads(3, site), strict=True):
        if in_turn:
            assert (np.asarray(expected) == np.asarray(found)).all()
            assert sent == bits
        else:  # one memory for each link, in place of one for all
            assert np.abs(expected - found).max() < 0.3


def test_different_settings_are_one_clear_line(tmp_path):
    def site(node):
        gossip = Gossip(start(), EVERY, site=files[node], seed=node)
        try:
            return train(gossip, EVERY)
        finally:
            gossip.close()

    files = write_sites(Town(tmp_path, names=("berlin", "paris")))
    assert all("berlin and paris have different settings" in each for each in in_threads(2, site))


@pytest.mark.slow
def test_a_site_that_dies_comes_back_with_the_model_of_a_neighbour(tmp_path):
    steps, gossips = 120, {}

    def site(node):
        gossips[node] = Gossip(start(), EVERY, site=files[node])
        if node == 1:
            train(gossips[1], 30, 0.02)
            gossips[1].links._leave()  # as the end of a process does
            gossips[1] = Gossip(start(), EVERY, site=files[1])
        found = train(gossips[node], steps, 0.02)
        gossips[node].close()
        return found

    files = write_sites(Town(tmp_path))
    models = in_threads(3, site)
    assert all(gossip.exchanges == steps // EVERY for gossip in gossips.values())
    total = sum(gossip.dual for gossip in gossips.values())
    assert jnp.linalg.norm(total) < 1e-3 * jnp.linalg.norm(gossips[0].dual)
    middle = (target(0) + target(1) + target(2)) / 3
    assert all(jnp.linalg.norm(model - middle) < 0.5 * jnp.linalg.norm(target(0) - middle) for model in models)
