"""Messages between nodes of one rank are decoded from their bytes, and compared with what was sent."""

import numpy as np
import pytest
from engines.threads import run_on

from lessbits import Consensus, PrimalDual, make_network, make_quantizer, simulate
from lessbits.codecs import making
from lessbits.codecs.levels import FixedLevels
from lessbits.errors import WireError
from lessbits.quantizers import Dither
from lessbits.quantizers.dither import DitherPayload

DIM = 11


class Careless(FixedLevels):
    """Writes levels as if all were of one sign."""

    def encode(self, payload, key=None):
        return super().encode(DitherPayload(abs(payload.levels), payload.scale), key)


class Deaf(FixedLevels):
    """Decodes zeros, whatever was sent."""

    def decode(self, body, key=None):
        return super().decode(body, key)._replace(levels=np.zeros(self.dim, self.level_type))


class Counting(FixedLevels):
    """Counts the bodies that it decodes."""

    decoded = 0

    def decode(self, body, key=None):
        type(self).decoded += 1
        return super().decode(body, key)


def use(monkeypatch, kind):
    """Have dithering send by another codec."""

    def make(quantizer, dim, code, dtype):
        return kind(DitherPayload, int(quantizer.level_count), dim, quantizer.level_type, dtype)

    monkeypatch.setitem(making._FACTORIES, Dither, make)


def method_of(messages):
    return PrimalDual.make(make_quantizer("dit-4", DIM), 0.2, 0.7, dim=DIM, messages=messages)


@pytest.mark.parametrize("messages", ["independent", "broadcast", "edge"])
@pytest.mark.parametrize("kind", [Careless, Deaf])
def test_a_codec_that_loses_something_is_named_in_the_simulator(monkeypatch, kind, messages):
    use(monkeypatch, kind)
    network, problem = make_network("ring", 5), Consensus.random(5, DIM)
    with pytest.raises(WireError, match=rf"node \d to node \d: {kind.__name__} decodes another payload"):
        simulate(problem, network, method_of(messages), iterations=3, encode=True)


def test_a_codec_that_loses_something_is_named_within_ranks(monkeypatch):
    use(monkeypatch, Careless)
    network, problem = make_network("path", 6), Consensus.random(6, DIM)
    with pytest.raises(WireError, match=r"from rank \d, node \d to node \d: Careless decodes another payload"):
        run_on(2, problem, network, method_of("independent"), iterations=3)


# "independent" sends one message per link and one per node.
@pytest.mark.parametrize(("messages", "bodies"), [("independent", 25), ("broadcast", 5)])
def test_every_body_is_decoded_once(monkeypatch, messages, bodies):
    use(monkeypatch, Counting)
    monkeypatch.setattr(Counting, "decoded", 0)
    network, problem = make_network("complete", 5), Consensus.random(5, DIM)
    simulate(problem, network, method_of(messages), iterations=3, encode=True)
    assert Counting.decoded == 3 * bodies
