"""A reader of docs/codecs.md can decode messages: page_decoder.py follows the page, and reads our bytes."""

import ast
from pathlib import Path

import jax
import numpy as np
import page_decoder
import pytest
from codec_checks import dithered, quantized, subtracted
from tiers import slow_but

from lessbits.codecs import make_codec
from lessbits.codecs.range_coding import whole_weights
from lessbits.quantizers import make_quantizer

DIM, DIT_4 = 37, 8  # d, and s of dit-4
LEVELS = {"dit-1": 1, "dit-4": DIT_4, "dit-9": 256, "dither:5": 5, "dither:200": 200, "dit-22": 2**21, "ternary": 1}
LEVELS |= {"sign": 1, "subtractive:12": 12, "scaled-dit-4": DIT_4, "grid:10": 2**23 - 1, "fading:0.1:0.9": 2**23 - 1}
OTHERS = ["exact", "float32", "rand-9", "top-1", "top-9", "top-37", "natural", "rand-9+dit-4", "rand-9+natural"]
BLOCKS = ["block:0.1", "block:1", "block-dither:1", "block-top:8", "block:1:16", "block:0.1:tensor"]
SPELLINGS = [*LEVELS, *OTHERS, *BLOCKS]
LETTERS = {np.float32: "f", np.float64: "d"}


def decoded(spelling, body, key, letter):
    """What the page says of a body of fixed width, as the arrays of its payload."""
    if spelling in LEVELS:
        return page_decoder.fixed(body, DIM, LEVELS[spelling])
    if spelling == "exact":
        return (page_decoder.values(body, DIM, letter),)
    if spelling == "float32":
        return (page_decoder.values(body, DIM, "f"),)
    if spelling.startswith("top"):
        return (page_decoder.top(body, DIM, int(spelling[4:]), letter),)
    if spelling == "natural":
        return (page_decoder.natural(body, DIM),)
    places = page_decoder.positions(DIM, 9, *(int(word) for word in key))
    if spelling == "rand-9":
        return (page_decoder.spread(DIM, places, page_decoder.values(body, 9, letter)),)
    if spelling == "rand-9+natural":
        return (page_decoder.spread(DIM, places, page_decoder.natural(body, 9)),)
    levels, scale = page_decoder.fixed(body, 9, DIT_4)
    return page_decoder.spread(DIM, places, levels), scale


def as_sent(spelling, payload):
    """The arrays of a payload that are sent: codes of `natural` as the numbers that they stand for."""
    if "natural" in spelling:
        return [np.asarray(make_quantizer("natural", DIM).decode(payload[None]))[0]]
    return jax.tree.leaves(payload)[: 2 if spelling in LEVELS else None]


@pytest.mark.parametrize("dtype", slow_but([np.float64], [np.float32, np.float64]))
@pytest.mark.parametrize("spelling", [*LEVELS, *OTHERS])
def test_fixed_widths_are_as_the_page_says(spelling, dtype):
    codec, _, rows = quantized(spelling, DIM, "fixed", dtype, SPELLINGS)
    for payload, key in rows:
        found = decoded(spelling, codec.encode(payload, key), key, LETTERS[dtype])
        for part, expected in zip(found, as_sent(spelling, payload), strict=True):
            np.testing.assert_array_equal(np.array(part), expected)


@pytest.mark.parametrize("spelling", ["dit-4", "scaled-dit-4", "ternary", "sign", "grid:10", "natural", "block:1"])
def test_levels_stand_for_what_the_page_says(spelling):
    codec, stacked, rows = quantized(spelling, DIM, "fixed", np.float64, SPELLINGS)
    quantizer = make_quantizer(spelling, DIM)
    for (payload, key), expected in zip(rows, np.asarray(quantizer.decode(stacked)), strict=True):
        body = codec.encode(payload, key)
        if spelling == "natural":
            vector = page_decoder.natural(body, DIM)
        elif spelling == "block:1":
            vector = page_decoder.block(body, DIM)
        else:
            levels, scale = page_decoder.fixed(body, DIM, LEVELS[spelling])
            unit = scale if "grid" in spelling else scale * (1 / LEVELS[spelling])
            vector = [level * unit * getattr(quantizer, "factor", 1) for level in levels]
        np.testing.assert_allclose(vector, expected, rtol=1e-15)


def test_an_entropy_code_is_read_with_the_published_models():
    models = page_decoder.published_models()
    assert len(models) == 3
    codec = make_codec("dit-4", 250)
    assert f"three of the {len(codec.codebook)} of" in page_decoder.PAGE.read_text(encoding="utf-8")
    generator = np.random.default_rng(1)
    used = set()
    for freedom in (1.5, 3, 30) * 10:
        payload = dithered(generator.standard_t(freedom, size=250), DIT_4, generator)
        body = codec.encode(payload)
        if body[0] in models:
            used.add(body[0])
            levels, scale = page_decoder.entropy(body, 250, DIT_4, models)
            assert levels == payload.levels.tolist()
            assert scale == payload.scale
    assert used == set(models)
    for kind, weights in models.items():
        (made,) = whole_weights(codec.codebook.probabilities(kind - 3))
        assert made.tolist() == [*weights[:0:-1], *weights]


def test_a_code_with_a_known_dither_is_read_with_the_published_model():
    name, weights = page_decoder.published_bins()
    codec, generator = make_codec("subtractive:8", 250), np.random.default_rng(2)
    for row, made in zip(weights, whole_weights(codec.inner.codebook.probabilities(name - 3)), strict=True):
        assert row == made.astype(int).tolist()
    used = 0
    for key in generator.integers(0, 2**32, (20, 2), dtype=np.uint32):
        payload = subtracted(generator.normal(size=250), DIT_4, key)
        body = codec.encode(payload, key)
        if body[0] == name:
            used += 1
            found, scale = page_decoder.with_dither(body, 250, weights, *map(int, key))
            assert found == payload.levels.tolist()
            assert scale == payload.scale
    assert used > 3


@pytest.mark.parametrize(
    ("spelling", "most"), [("subtractive:1", 1), ("subtractive:300", 300), ("fading:1e-3:0.9", 2**23 - 1)]
)
def test_other_dithers_and_low_bits_are_read_too(spelling, most):
    codec, _, rows = quantized(
        spelling, DIM, "entropy", np.float64, ["subtractive:1", "subtractive:300", "fading:1e-3:0.9"]
    )
    inner = codec.inner
    for payload, key in rows:
        body = codec.encode(payload, key)
        if body[0] < 3:
            continue
        weights = whole_weights(inner.codebook.probabilities(body[0] - 3)).astype(int).tolist()
        body += page_decoder.ONE if "fading" in spelling else b""
        found, _ = page_decoder.with_dither(body, DIM, weights, *map(int, key[:2]))
        assert found == payload.levels.tolist()


@pytest.mark.parametrize("levels", [1, 8, 29, 30, 31, 100, 5000, 2**20])
def test_other_models_and_low_bits_are_read_too(levels):
    dim, generator = 60, np.random.default_rng(levels)
    codec = make_codec(f"dither:{levels}", dim)
    kinds = set()
    for vector in (*generator.standard_t(1.5, size=(6, dim)), np.zeros(dim), np.eye(dim)[7], np.ones(dim)):
        payload = dithered(vector, levels, generator)
        body = codec.encode(payload)
        kinds.add(min(body[0], 3))
        weights = whole_weights(codec.codebook.probabilities(body[0] - 3))[0] if body[0] > 2 else np.zeros(1)
        models = {body[0]: weights[len(weights) // 2 :].astype(int).tolist()}
        found, scale = page_decoder.entropy(body, dim, levels, models)
        assert found == payload.levels.tolist()
        assert scale == payload.scale
    assert kinds >= {2, 3}


@pytest.mark.parametrize("spelling", BLOCKS)
@pytest.mark.parametrize("dim", [37, 9001])
def test_blocks_are_as_the_page_says(spelling, dim):
    codec, _, rows = quantized(spelling, dim, "entropy", np.float64, SPELLINGS if dim == DIM else BLOCKS)
    for payload, _ in rows:
        length = {"16": 16, "tensor": dim}.get(spelling.rpartition(":")[2], 4096)
        scales = np.repeat(payload.scales, length)[:dim]
        np.testing.assert_array_equal(page_decoder.block(codec.encode(payload), dim, length), payload.levels * scales)


def test_the_example_of_the_page():
    assert page_decoder.fixed(bytes.fromhex("e82c0401c03f"), 5, DIT_4) == ([0, -1, 3, 0, 8], 1.5)
    assert "`e8 2c 04 01 c0 3f`" in page_decoder.PAGE.read_text(encoding="utf-8")


def test_the_decoder_knows_nothing_but_the_page():
    tree = ast.parse(Path(page_decoder.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names} | {getattr(node, "module", "") for node in imports}
    assert names <= {"math", "re", "struct", "pathlib", "Path", ""}
