"""Bytes that nobody encoded, for every codec: they decode to a payload that can be sent, or end in `WireError`."""

import random

import numpy as np
from codec_checks import assert_same, made_key, made_payloads, quantized

from lessbits.codecs import make_codec
from lessbits.codecs.frames import Place, seal, unseal
from lessbits.codecs.joined import FloatCodec, JoinedCodec
from lessbits.errors import WireError
from lessbits.quantizers import make_quantizer

DUE = Place(7, 100, 2, 0)


def subjects(dims=(37,), kept=5):
    """Codecs of every kind, a key, and some bodies that they made."""
    made = []
    for dim in dims:
        key = made_key(dim)
        for spelling, payloads in made_payloads(dim, kept).items():
            for code in ("entropy", "fixed") if "dit" in spelling else ("entropy",):
                codec = make_codec(make_quantizer(spelling, dim), dim, code)
                made.append((codec, key, [codec.encode(payload, key) for payload in payloads]))
        for spelling in ("fading:0.1:0.9", "fading:1e-9:0.9"):  # the second so fine that its spacing is raised
            codec, _, rows = quantized(spelling, dim)
            key = rows[0][1]
            made.append((codec, key, [codec.encode(row, at) for row, at in rows]))
        blocks = make_codec("block:0.5:16", dim)  # a model with a tensor of three numbers that are sent as they are
        joined, bias = JoinedCodec([blocks, FloatCodec(3)]), np.array([0.5, -1, 3e38], np.float32)
        rows = made_payloads(dim, kept)["block:0.5:16"]
        made.append((joined, None, [joined.encode([row, bias]) for row in rows]))
    return made


def arbitrary(generator, codec, bodies):
    """Random bytes of any length, of a fitting one, or a body with some of its bits, bytes or its length changed."""
    kind = generator.randrange(6)
    if kind == 0:
        return generator.randbytes(generator.randrange(codec.most_bytes + 4))
    if kind == 1:
        return generator.randbytes(codec.body_bytes or generator.randrange(codec.most_bytes + 1))
    body = bytearray(generator.choice(bodies))
    at = generator.randrange(len(body) + 1)
    if kind == 2:
        return bytes(body[:at])
    if kind == 3:
        return bytes(body[:at]) + generator.randbytes(generator.randrange(1, 5)) + bytes(body[at:])
    for _ in range(generator.randrange(1, 4)):
        at = generator.randrange(len(body))
        body[at] = generator.randrange(256) if kind == 4 else body[at] ^ (1 << generator.randrange(8))
    return bytes(body)


def fuzz(made, inputs, seed):
    """Feed `inputs` inputs to each of the codecs in turn, and return how many were accepted and refused."""
    generator = random.Random(seed)
    accepted = 0
    for number in range(inputs):
        codec, key, bodies = made[number % len(made)]
        body = arbitrary(generator, codec, bodies)
        try:
            # The check is made to fit, so that the decoder behind it is reached.
            payload = codec.decode(unseal(seal(body, DUE), DUE, codec), key)
        except WireError:
            continue
        accepted += 1
        if accepted % 8 == 0:
            again = codec.encode(payload, key)
            assert len(again) <= codec.most_bytes
            assert_same(codec.decode(again, key), payload)
    return accepted, inputs - accepted
