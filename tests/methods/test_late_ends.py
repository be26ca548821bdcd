"""Late messages where each end of an edge is computed for itself: duals are opposite to the bit at equal rounds."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from methods.test_edge_dual import SMALL, Alone, _receive, _send
from tiers import slow_but

from lessbits import EdgeDual, LeastSquares, Message, Step, make_quantizer
from lessbits._internal.randomness import make_seed


class LateAlone(Alone):
    """Nodes in programs of their own, and messages that wait until they are let through."""

    def __init__(self, method, network, problem):
        super().__init__(method.with_delays(), network, problem)
        self.mail = {}

    def iterate(self, iteration, up):
        """Step every node; `up` says on which links a node looks for what has been sent to it."""
        step = Step(make_seed(1), jnp.int32(iteration))
        everywhere = [
            replace(local, up=jnp.ones(len(links), bool)) for local, links in zip(self.local, self.links, strict=True)
        ]
        sent = [_send(self.method, step, *each) for each in zip(self.state, self.parts, everywhere, strict=True)]
        for node, (_, (message,), _) in enumerate(sent):
            for row in np.flatnonzero(message.active):
                key = int(self.links[node][row]), int(message.round[row])
                self.mail[key] = jax.tree.map(lambda leaf, row=row: leaf[row], message.payload)
        for node, (state, (message,), _) in enumerate(sent):
            keys = [
                (int(self.network.reverse[link]), int(r))
                for link, r in zip(self.links[node], message.round, strict=True)
            ]
            some = next(iter(self.mail.values()))
            rows = [self.mail.get(key, some) for key in keys]
            arrived = jnp.array([key in self.mail for key in keys]) & jnp.asarray(up[self.links[node]])
            payload = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
            inbox = (Message(payload, True, arrived, round=message.round),)
            self.state[node] = _receive(self.method, step, state, (message,), inbox, everywhere[node])

    def same_rounds(self):
        """Check the links whose ends have applied the same rounds, and return how many these are."""
        count = 0
        for link, back in enumerate(self.network.reverse):
            (one, row), (other, there) = self.row[link], self.row[int(back)]
            mine, theirs = self.state[one], self.state[other]
            if int(mine.round[row]) != int(theirs.round[there]):
                continue
            count += 1
            assert not np.asarray(mine.y[row] + theirs.y[there]).any()
            if mine.memory is not None:
                assert np.array_equal(mine.memory.mine[row], theirs.memory.theirs[there])
        return count


@pytest.mark.slow
@pytest.mark.optimized  # compilers that fuse products into sums are what this is about
@pytest.mark.parametrize("quantizer", slow_but(["exact"], ["exact", "dit-3"]))
@given(schedule=st.lists(st.integers(0, 63), min_size=4, max_size=14))
@settings(max_examples=5)
def test_both_ends_compute_opposite_duals_whenever_messages_come(quantizer, schedule):
    compressor = make_quantizer(quantizer, 7)
    method = EdgeDual(0.37, 0.61, 1 / (1 + compressor.omega(7)), 1.3, compressor)
    alone = LateAlone(method, SMALL, LeastSquares.random(4, 7, condition=5.0))
    for iteration, mask in enumerate([*schedule, 63, 63]):
        alone.iterate(iteration, np.array([bool(mask >> link & 1) for link in range(SMALL.links)]))
        alone.same_rounds()
    assert alone.same_rounds() == SMALL.links  # in the end all has come
    assert all((np.asarray(state.y) != 0).any() for state in alone.state)
