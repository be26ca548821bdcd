"""Bytes that no site has sent, for all that takes bytes of a neighbour: nothing but `WireError` may come of it."""

import json
import random
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from engines.peers.in_process import Town

from lessbits import make_quantizer
from lessbits._internal.pytrees import take_rows
from lessbits._internal.randomness import Step, make_seed, message_draws
from lessbits.codecs import make_codec
from lessbits.codecs.frames import Place, seal
from lessbits.engines.peers.edge import Control, Edge, Ends
from lessbits.engines.peers.facts import Facts
from lessbits.engines.peers.patience import Patience
from lessbits.engines.peers.protocol import (
    DIGEST_BYTES,
    PART_BYTES,
    PROTOCOL,
    Farewell,
    Greeting,
    Joiner,
    Kind,
    Round,
    alive,
    kind_of,
    read_alive,
    split,
)
from lessbits.errors import WireError

ABOUT = {"protocol": PROTOCOL, "version": "1", "run": "r", "method": "m", "code": "c"}
DIM, BODIES = 37, 20
ODD = (None, -1, -2, 2**32, 10**30, 1e308, "x", "\n", "x" * 101, [], {}, True)  # in place of an entry of a greeting


class Sink:
    """An outlet that keeps nothing."""

    def put(self, packet):
        """Forget a packet."""

    announce = put

    def close(self, reason):
        """Do nothing."""


class Target:
    """A site's side of a link, as far as it takes bytes: what `Meetings` does with packets, without a connection."""

    def __init__(self, folder, rng):
        self.rng = rng
        quantizer = make_quantizer("dit-4", DIM)
        self.codec = make_codec(quantizer, DIM, "entropy", np.dtype("float64"))
        values = jnp.asarray(np.random.default_rng(0).normal(size=(BODIES, DIM)))
        draw = message_draws(Step(make_seed(0), jnp.int32(0)), jnp.arange(BODIES), per_link=True)
        payload = jax.tree.map(np.asarray, quantizer.quantize(values, quantizer.measure(values), draw))
        self.bodies = [self.codec.encode(take_rows(payload, row)) for row in range(BODIES)]
        self.facts = Facts(Town(folder).member("berlin"), _NoDoors(), lambda names: None)
        self.facts._tell("fact 0", [[1], "<i8", [3]], self.facts.known.setdefault("fact 0", {}))
        self.begin()

    def begin(self):
        """Connect anew, as after a fault."""
        self.edge = Edge(Ends("a", "b", 1, 2, 77, self.codec), 0, True, Patience(), lambda: None)
        mine, theirs = (self.edge.greeting({**ABOUT, "nonce": digit * 16}) for digit in "12")
        self.edge.meet(Sink(), mine, theirs, Control())
        self.mark = zlib.crc32(b"1" * 16 + b"2" * 16, 77)
        # As that of a link, or of one with messages that are longer than a part.
        self.joiner = Joiner(self.rng.choice([max(self.edge.most_bytes, 4096), 3 * PART_BYTES]))

    def take(self, packet):
        """Take a packet of the stream."""
        whole = self.joiner.whole(packet)
        if whole is None:
            return
        match kind_of(whole):
            case Kind.ROUND:
                self.edge.take(whole)
                self._apply()
            case Kind.ALIVE:
                read_alive(whole)
            case Kind.FAREWELL:
                Farewell.read(whole)
            case Kind.GREETING:
                Greeting.read(whole)

    def _apply(self):
        """Go on as the thread that computes does: decode, and finish the round."""
        edge = self.edge
        if edge.round in edge.inbox:
            edge.must_reset = False
            edge.post(b"", b"", Control())
            self.codec.decode(edge.inbox[edge.round][0], None)
            edge.finish_round()

    def right(self):
        """Return a packet that is right, or nearly."""
        rng, edge = self.rng, self.edge
        body = rng.choice([rng.choice(self.bodies), rng.randbytes(rng.randrange(1, self.codec.most_bytes + 2))])
        number = max(0, edge.round + rng.choice([0, 0, 0, 1, -1, 2]))
        digest = rng.choice([b"", rng.randbytes(DIGEST_BYTES)])
        frame = seal(body, Place(self.mark, (edge.epoch << 32) | number, 2, 0))
        said = Round(
            edge.epoch, number, rng.randrange(2**32), rng.randrange(2**32), 0, rng.randrange(1100), 0.5, digest, frame
        )
        said_of = vars(edge.greeting({**ABOUT, "nonce": "1" * 16}))
        odd = {rng.choice([*said_of, "other"]): rng.choice(ODD)} if rng.random() < 0.5 else {}
        greeting = bytes([Kind.GREETING]) + json.dumps({**said_of, **odd}).encode()
        long = bytes([Kind.ROUND]) + bytes(PART_BYTES + 5)
        return rng.choice(
            [said.packet(), alive(1.0), Farewell("reset", "why").packet(), greeting, rng.choice(split(long))]
        )


class _NoDoors:
    """Connections to nobody."""


def mutated(rng, packet):
    """Change, cut or lengthen bytes."""
    changed = bytearray(packet)
    for _ in range(rng.choice([0, 1, 1, 2, 8])):
        changed[rng.randrange(len(changed))] = rng.choice([0, 1, 255, 34, 91, rng.randrange(256)])
    kind = rng.randrange(8)
    if kind == 0:
        del changed[rng.randrange(len(changed)) :]
    elif kind == 1:
        changed += rng.randbytes(rng.randrange(20))
    return bytes(changed)


def facts_packet(rng, facts):
    """Return facts that are nearly right."""
    values = [None, -1, 10**30, 1e308, "x", [], {}, True, [[1], "<i8", [3], "00"], [[1], "<f8", [1e999], "00"]]
    said = json.loads(facts.packet())
    where = rng.choice([said, said["known"], said["known"]["fact 0"]])
    where[rng.choice([*where, "fact 1", "rome"])] = rng.choice(values)
    return mutated(rng, json.dumps(said).encode())


def fuzz(folder, count, seed):
    """Feed a site with inputs, and return how many it took and how many it refused."""
    rng = random.Random(seed)
    target, taken = Target(folder, rng), 0
    for number in range(count):
        try:
            if number % 10 == 0:
                target.facts.merge(facts_packet(rng, target.facts))
            elif number % 10 == 1:
                rng.choice([Greeting.read, Farewell.read, Round.read])(rng.randbytes(rng.randrange(100)))
            else:
                target.take(mutated(rng, target.right()))
            taken += 1
        except WireError:
            target.begin()
    assert len(target.facts.packet()) < 2000  # nothing that is not signed was kept
    return taken, count - taken
