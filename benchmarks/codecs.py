"""How long messages are, and how fast they are made and read.

    python benchmarks/codecs.py [--json FILE] [--dim 1000000]

The first table: every codec on a Gaussian vector; bits per coordinate beside the empirical entropy of what is sent, and
MB/s of float32 input each way (d floats of 4 bytes over the time, the best of several runs). The second: dithering at
d = 10 000 on several laws, the length over the entropy, as the worst of several vectors; 3 % and 8 bytes is the aim.
The third: subtractive dithering, whose receiver knows the dither. Bits per coordinate, without first byte and scale,
beside the entropy given the exact dither and the law of the coordinates, which is the least possible; beside that
entropy given the dither in 16 and in 8 bins, and not given at all. The fourth: times of messages with and without a
known dither, measured in turns.
"""

import argparse
import json
import math
import time

import jax
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import entr
from scipy.stats import laplace, norm
from scipy.stats import t as student

from lessbits._internal.randomness import host_bits
from lessbits.codecs import make_codec
from lessbits.codecs.values import Pattern
from lessbits.quantizers import make_quantizer
from lessbits.quantizers.base import short_scale
from lessbits.quantizers.contractions import SignPayload
from lessbits.quantizers.dither import DitherPayload
from lessbits.quantizers.rand_k import coprime_strides
from lessbits.quantizers.subtractive import SubtractivePayload

jax.config.update("jax_enable_x64", True)

REPEATS = 15
VECTORS = 5
SPACINGS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.6)  # of subtractive dithering, in standard deviations
SENT_BESIDES = 3  # bytes: the model and the scale


def scale_of(number):
    """A scale as it travels: 16 bits of a float32, rounded up."""
    return np.asarray(short_scale(np.asarray(number)))[()]


def dithered(vector, levels, scale, generator):
    rounded = np.clip(np.floor(vector * (levels / scale) + generator.random(vector.size)), -levels, levels)
    kind = next(kind for kind in (np.int8, np.int16, np.int32) if levels <= np.iinfo(kind).max)
    return DitherPayload(rounded.astype(kind), scale)


def subtracted(vector, levels, scale, key):
    """The payload of subtractive dithering, from the two words of the dither."""
    dither = dither_of(key, vector.size)
    rounded = np.clip(np.floor(vector * (levels / scale) + dither), -levels, levels)
    kind = next(kind for kind in (np.int8, np.int16, np.int32) if levels <= np.iinfo(kind).max)
    return SubtractivePayload(rounded.astype(kind), scale, *key)


def dither_of(key, dim):
    """ξ of each coordinate, in float64."""
    return (host_bits(*key, dim) ^ np.uint32(1 << 31)) / 2.0**32 + 2.0**-33


def entropy_bits(symbols):
    """The empirical entropy of a whole vector of symbols."""
    _, counts = np.unique(symbols, return_counts=True)
    return float(-(counts * np.log2(counts / symbols.size)).sum())


def cases(dim, generator):
    """Spelling, code, payload, key and the entropy in bits, or None where values are sent as they are."""
    vector = generator.normal(size=dim)
    kept = dim // 100
    key = np.array([coprime_strides(dim)[-1], 12345 % dim], np.uint32)
    sparse = np.zeros(dim)
    positions = Pattern(dim, kept).positions(key)
    sparse[positions] = vector[positions]
    largest = np.where(np.abs(vector) >= np.sort(np.abs(vector))[-kept], vector, 0)
    positions_bits = (math.lgamma(dim + 1) - math.lgamma(kept + 1) - math.lgamma(dim - kept + 1)) / math.log(2)
    yield "exact", "", vector, None, None
    yield f"rand-{kept}", "", sparse, key, None
    yield f"top-{kept}", "", largest, None, 64 * kept + positions_bits
    codes = (np.sign(vector) * (np.floor(np.log2(np.abs(vector))) + 127)).astype(np.int16)
    yield "natural", "", codes, None, entropy_bits(codes)
    length, most = scale_of(np.linalg.norm(vector)), scale_of(np.abs(vector).max())
    for spelling, payload in (
        ("ternary", dithered(vector, 1, most, generator)),
        ("sign", SignPayload(np.sign(vector).astype(np.int8), scale_of(np.abs(vector).mean()))),
        *((f"dither:{levels}", dithered(vector, levels, length, generator)) for levels in (1, 4, 16, 64, 256, 10_000)),
    ):
        entropy = entropy_bits(payload[0])
        yield spelling, "fixed", payload, None, entropy
        yield spelling, "entropy", payload, None, entropy
    words = np.array([1, 2], np.uint32)
    for levels in (256, 500, 10_000):
        payload = subtracted(vector, levels, length, words)
        yield f"subtractive:{levels}", "entropy", payload, words, dim * given_dither(levels / math.sqrt(dim))[0]
    chosen = dithered(sparse, 8, scale_of(np.linalg.norm(sparse)), generator)
    yield f"rand-{kept}+dit-4", "entropy", chosen, key, entropy_bits(chosen.levels[positions])


def best(work):
    seconds = []
    for _ in range(REPEATS):
        clock = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - clock)
    return min(seconds), result


def speeds(dim, generator):
    for spelling, code, payload, key, entropy in cases(dim, generator):
        codec = make_codec(make_quantizer(spelling, dim), dim, code or "entropy")
        encoding, body = best(lambda codec=codec, payload=payload, key=key: codec.encode(payload, key))
        decoding, back = best(lambda codec=codec, body=body, key=key: codec.decode(body, key))
        one, other = (each[0] if isinstance(each, tuple) else each for each in (back, payload))
        assert (one == other).all()
        yield {
            "quantizer": spelling,
            "code": code,
            "bytes": len(body),
            "bits per coordinate": 8 * len(body) / dim,
            "entropy": None if entropy is None else entropy / dim,
            "encode MB/s": 4e-6 * dim / encoding,
            "decode MB/s": 4e-6 * dim / decoding,
        }


def laws(dim, generator):
    gaussian = generator.normal(size=dim)
    yield "Gaussian", gaussian
    yield "Laplace", generator.laplace(size=dim)
    yield "10 % Gaussian", gaussian * (generator.random(dim) < 0.1)
    yield "1 % Gaussian", gaussian * (generator.random(dim) < 0.01)
    for freedom in (5, 3, 2, 1.5, 1):
        yield f"Student's t, {freedom:g}", generator.standard_t(freedom, size=dim)


def lengths(dim):
    """The worst of several vectors: by how many bytes a body exceeds 1.03 times the entropy; at most 8 is the aim."""
    for levels in (1, 4, 16, 64, 256):
        codec = make_codec(make_quantizer(f"dither:{levels}", dim), dim)
        found = {}
        for seed in range(VECTORS):
            generator = np.random.default_rng(seed)
            for law, vector in laws(dim, generator):
                payload = dithered(vector, levels, scale_of(np.linalg.norm(vector)), generator)
                entropy = entropy_bits(payload.levels) / 8
                length = len(codec.encode(payload))
                found.setdefault(law, []).append((length - 1.03 * entropy, length, entropy))
        for law, each in found.items():
            excess, length, entropy = max(each)
            yield {
                "law": law,
                "levels": levels,
                "bytes": length,
                "entropy": entropy,
                "over 1.03 entropies": excess,
                "mean bytes": float(np.mean([row[1] for row in each])),
                "mean entropy": float(np.mean([row[2] for row in each])),
            }


def given_dither(width, density=None, bins=(16, 8, 1)):
    """Entropies of ⌊x + ξ⌋ in bits, x with this standard deviation, given ξ exactly and in some numbers of bins."""
    dither = (np.arange(1024) + 0.5)[:, None] / 1024
    ends = np.arange(-math.ceil(40 * width) - 2, math.ceil(40 * width) + 3)
    chances = np.diff((density or norm()).cdf((ends - dither) / width), axis=1)
    joined = [chances.reshape(count, -1, chances.shape[1]).mean(axis=1) for count in bins]
    return [float(entr(each).sum(axis=1).mean() / math.log(2)) for each in (chances, *joined)]


def known_dither():
    """Subtractive dithering of vectors of several laws and sizes, beside the least possible."""
    densities = {"Gaussian": norm(), "Laplace": laplace(scale=0.5**0.5), "Student's t, 5": student(5, scale=0.6**0.5)}
    generator = np.random.default_rng(0)
    for (law, density), spacing in ((each, spacing) for each in densities.items() for spacing in SPACINGS):
        row = {"law": law, "spacing": spacing}
        exact, sixteen, eight, unknown = given_dither(1 / spacing, density)
        row |= {"ξ known": exact, "16 bins": sixteen, "8 bins": eight, "not known": unknown}
        for dim in (10_000, 250):
            levels = round(math.sqrt(dim) / spacing)
            codec = make_codec(f"subtractive:{levels}", dim)
            bits = []
            for _ in range(40_000 // dim * VECTORS):
                key, vector = generator.integers(0, 2**32, 2, dtype=np.uint32), density.rvs(dim, random_state=generator)
                scale = scale_of(np.linalg.norm(vector))
                payload = subtracted(vector, levels, scale, key)
                bits.append(8 * (len(codec.encode(payload, key)) - SENT_BESIDES) / dim)
            least = given_dither(levels / math.sqrt(dim), density)[0]
            row |= {f"d = {dim}": float(np.mean(bits)), f"least ÷ sent, {dim}": least / float(np.mean(bits))}
        yield row


def times():
    """Microseconds to encode and to decode the same vector with either dithering, the best of many, taken in turns."""
    generator, key = np.random.default_rng(0), np.array([1, 2], np.uint32)
    for dim, levels in ((250, 8), (10_000, 50)):
        vector = generator.normal(size=dim)
        scale = scale_of(np.linalg.norm(vector))
        payloads = {f"dither:{levels}": dithered(vector, levels, scale, generator)}
        payloads[f"subtractive:{levels}"] = subtracted(vector, levels, scale, key)
        codecs = {name: make_codec(name, dim) for name in payloads}
        bodies = {name: codecs[name].encode(payload, key) for name, payload in payloads.items()}
        found = {name: ([], []) for name in payloads}
        for _ in range(20 * REPEATS):
            for name, (encoding, decoding) in found.items():
                clock = time.perf_counter()
                codecs[name].encode(payloads[name], key)
                middle = time.perf_counter()
                codecs[name].decode(bodies[name], key)
                encoding.append(middle - clock)
                decoding.append(time.perf_counter() - middle)
        for name, (encoding, decoding) in found.items():
            yield {"quantizer": name, "d": dim, "encode µs": 1e6 * min(encoding), "decode µs": 1e6 * min(decoding)}


def show(title, rows):
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(
            *(f"{cell:.4g}" if isinstance(cell, float) else str("" if cell is None else cell) for cell in row.values())
        )
    Console(width=120).print(table)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--dim", type=int, default=1_000_000)
    arguments.add_argument("--json")
    given = arguments.parse_args()
    fast = list(speeds(given.dim, np.random.default_rng(0)))
    show(f"codecs at d = {given.dim}", fast)
    near = list(lengths(10_000))
    show(f"dithering at d = 10000, the worst of {VECTORS} vectors", near)
    known = list(known_dither())
    show("subtractive dithering, bits per coordinate", known)
    turns = list(times())
    show("times of messages", turns)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(
                {"dim": given.dim, "codecs": fast, "laws": near, "known dither": known, "times": turns}, file, indent=1
            )


if __name__ == "__main__":
    main()
