"""What is encoded is decoded, bit for bit, by a codec that knows no more than the receiver does."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from codec_checks import assert_same, dithered, made_key, made_payloads, quantized

from lessbits._internal.pytrees import pytree
from lessbits._internal.randomness import Draws
from lessbits.codecs import Codec, make_codec, register_codec
from lessbits.codecs.values import Pattern, RawCodec
from lessbits.errors import InputError, WireError
from lessbits.quantizers import Dither, Exact, Quantizer, RandK, ScaledSign, SubtractiveDither, TopK, make_quantizer
from lessbits.quantizers.contractions import SignPayload
from lessbits.quantizers.dither import DitherPayload
from lessbits.quantizers.rand_k import chosen
from lessbits.quantizers.subtractive import SubtractivePayload

SPELLINGS = ["exact", "float32", "rand-1", "rand-9", "rand-37", "top-1", "top-9", "top-37", "dit-1", "dit-4", "dit-9"]
SPELLINGS += ["dit-22", "dither:5", "ternary", "sign", "natural", "scaled-dit-3", "rand-9+dit-4", "rand-9+natural"]
SPELLINGS += ["subtractive:12", "subtractive:3000", "grid:1", "grid:1000", "fading:0.1:0.9"]
SPELLINGS += ["block:0.1", "block:1", "block-dither:1", "block-top:64"]

IN_FLOAT32 = ["exact", "rand-9", "top-9", "dit-4", "subtractive:12", "dit-22", "sign", "natural", "rand-9+dit-4"]
IN_FLOAT32 += ["float32", "fading:0.1:0.9"]


@pytest.mark.parametrize(
    ("spelling", "dim", "dtype"),
    [
        *((spelling, 37, np.float64) for spelling in SPELLINGS),
        *((spelling, 250, np.float32) for spelling in IN_FLOAT32),
    ],
)
def test_round_trip_and_closed_form(spelling, dim, dtype):
    for code in ("entropy", "fixed"):
        codec, payload, rows = quantized(spelling, dim, code, dtype, SPELLINGS if dim == 37 else IN_FLOAT32)
        expected = np.asarray(codec.expected_bytes(payload)) if codec.body_bytes is not None else None
        for number, (row, key) in enumerate(rows):
            body = codec.encode(row, key)
            assert len(body) <= codec.most_bytes
            if expected is not None:
                assert len(body) == codec.body_bytes == expected[number]
            assert_same(codec.decode(body, key), row)


@pytest.mark.parametrize("dim", [1, 2, 250, 1001])
def test_round_trip_in_any_dimension(dim):
    for spelling, payloads in made_payloads(dim).items():
        for code in ("entropy", "fixed"):
            codec = make_codec(make_quantizer(spelling, dim), dim, code)
            for payload in payloads:
                body = codec.encode(payload, made_key(dim))
                assert len(body) <= codec.most_bytes
                assert codec.body_bytes in (None, len(body))
                assert_same(codec.decode(body, made_key(dim)), payload)


def test_a_scale_that_is_not_finite_arrives():
    for code in ("entropy", "fixed"):
        codec = make_codec(Dither.make(4), 6, code)
        for scale in (np.inf, np.nan, -np.nan, 0.0, 2.0**-130):
            payload = DitherPayload(np.array([0, 1, -4, 4, 0, 2], np.int8), np.float64(scale))
            assert_same(codec.decode(codec.encode(payload)), payload)
        for scale in (0.1, 1 + 2**-8, -1.0, -0.0, 1e300):
            with pytest.raises(WireError, match="scale"):
                codec.encode(payload._replace(scale=np.float64(scale)))


def test_payloads_of_another_kind_are_refused():
    levels = np.array([0, 3], np.int8)
    with pytest.raises(WireError, match="levels from 0 to 3, but -2 to 2"):
        make_codec(Dither.make(2), 2).encode(DitherPayload(levels, np.float64(1)))
    with pytest.raises(WireError, match=r"shape \(2,\)"):
        make_codec(Dither.make(4), 3, "fixed").encode(DitherPayload(levels, np.float64(1)))
    with pytest.raises(WireError, match="3 values, but top-2 keeps 2"):
        make_codec(TopK.make(2), 4).encode(np.array([1.0, 2, 0, 3]))
    with pytest.raises(WireError, match="another message"):
        make_codec(RandK.make(1), 4).encode(np.array([1.0, 2, 0, 3]), np.array([1, 0], np.uint32))
    payload = SubtractivePayload(levels, np.float64(1), np.uint32(1), np.uint32(2))
    with pytest.raises(WireError, match="another message"):
        make_codec(SubtractiveDither.make(4), 2).encode(payload, np.array([1, 3], np.uint32))
    with pytest.raises(InputError, match="not sent"):
        make_codec(RandK.make(1), 4).encode(np.zeros(4))
    with pytest.raises(WireError, match="float32"):
        make_codec(Exact(), 2).encode(np.zeros(2, np.float32))
    with pytest.raises(InputError, match="unknown code 'fixd': did you mean 'fixed'"):
        make_codec(Exact(), 2, "fixd")


def test_minus_zero_and_too_few_values_survive_top_k():
    codec = make_codec(TopK.make(3), 6)
    for row in ([0.0, -0.0, 0, 5, 0, 0], [0.0] * 6, [np.nan, 1, 0, 0, 0, -0.0]):
        assert_same(codec.decode(codec.encode(np.array(row))), np.array(row))


@pytest.mark.parametrize("dim", [1, 250, 1_000_003])
def test_rand_k_coordinates_are_those_that_the_quantizer_chose(dim):
    kept = max(1, dim // 7)
    draw = Draws(jnp.array([1, 2**32 - 5], jnp.uint32), jnp.array([3, 77], jnp.uint32))
    pattern = Pattern(dim, kept)
    mask = np.asarray(jax.jit(chosen, static_argnums=0)(dim, kept, draw))
    for row, key in zip(mask, np.asarray(pattern.draw(draw)), strict=True):
        positions = pattern.positions(key)
        assert len(np.unique(positions)) == kept
        assert row[positions].all()


def test_only_the_k_values_travel():
    codec, _, rows = quantized("rand-9", 37, among=SPELLINGS)
    row, key = rows[0]
    body = codec.encode(row, key)
    assert sorted(np.frombuffer(body)) == sorted(row[row != 0])
    other = codec.decode(body, np.array([1, 0], np.uint32))
    assert (np.flatnonzero(other) == np.arange(9)).all()


def test_fine_levels_are_split_without_loss():
    generator = np.random.default_rng(0)
    vector = generator.normal(size=300) * (generator.random(300) < 0.2)
    for levels in (2**11 - 1, 2**20, 2**23 - 1):
        codec = make_codec(Dither.make(levels), 300)
        assert codec.last < codec.most
        for given in (vector, np.eye(300)[3] * levels, -np.eye(300)[0]):
            payload = dithered(given, levels, generator)
            body = codec.encode(payload)
            assert_same(codec.decode(body), payload)
            # Exact zeros have no low bits.
            assert len(body) < 0.4 * codec.fixed.body_bytes


@pytree
class Halves(Quantizer):
    """A user's quantizer, with a payload of several arrays."""

    name = "halves"

    def quantize(self, given, measure, draws):
        return {"numbers": given / 2, "signs": given > 0, "mean": given.mean(-1).astype(jnp.float32)}

    def decode(self, payload):
        return 2 * payload["numbers"]

    def omega(self, dim):
        return 0.0

    def bits(self, dim):
        return 32.0 * dim


def test_a_quantizer_without_a_codec_sends_its_payload_as_it_is():
    codec = make_codec(Halves(), 5)
    payload = {"numbers": np.arange(5.0), "signs": np.array([True, False] * 2 + [True]), "mean": np.float32(1.5)}
    assert codec.body_bytes == 5 * 8 + 5 + 4
    assert_same(codec.decode(codec.encode(payload)), payload)
    with pytest.raises(WireError, match="true or false"):
        codec.decode(b"\2" * codec.body_bytes)
    assert make_codec(Halves(), 5, dtype=np.float32).body_bytes == 5 * 4 + 5 + 4


def test_composition_with_an_unregistered_quantizer():
    compressor = make_quantizer("rand-3+exact", 8)
    codec = make_codec(type(compressor)(compressor.first, Halves()), 8)
    key = np.array([3, 5], np.uint32)
    positions = Pattern(8, 3).positions(key)
    payload = {"numbers": np.zeros(8), "signs": np.zeros(8, bool), "mean": np.float32(2)}
    payload["numbers"][positions] = [1, 2, 3]
    payload["signs"][positions] = True
    body = codec.encode(payload, key)
    assert len(body) == 3 * 8 + 3 + 4
    assert_same(codec.decode(body, key), payload)
    payload["numbers"] += 1
    with pytest.raises(WireError, match="another message"):
        codec.encode(payload, key)


def test_a_registered_codec_is_used():
    class Mine(Halves):
        """Of a type of its own, so that the registration touches no other test."""

    register_codec(Mine, lambda compressor, dim, code, dtype: RawCodec(jax.ShapeDtypeStruct((dim,), jnp.int8)))
    assert make_codec(Mine(), 9).body_bytes == 9


def test_marks_tell_codecs_apart():
    def codecs() -> list[Codec]:
        made = [make_codec(Dither.make(levels), dim) for levels in (4, 5) for dim in (9, 10)]
        made += [make_codec(make_quantizer(name, 9), 9, "fixed") for name in ("dit-3", "ternary", "natural", "exact")]
        made += [make_codec(make_quantizer(name, 9), 9) for name in ("rand-3", "top-3", "rand-3+dit-3", "rand-4+dit-3")]
        return [*made, make_codec(RandK.make(3), 9, dtype=np.float32), make_codec(ScaledSign(), 9)]

    marks = [codec.mark() for codec in codecs()]
    assert len(set(marks)) == len(marks)
    assert marks == [codec.mark() for codec in codecs()]
    assert codecs() == codecs()
    assert len(set(codecs()) | set(codecs())) == len(marks)
    assert all(len(mark) == 8 for mark in marks)


def test_signs_come_back_as_signs():
    codec = make_codec(ScaledSign(), 4)
    payload = SignPayload(np.array([1, -1, 0, 1], np.int8), np.float64(0.5))
    assert isinstance(codec.decode(codec.encode(payload)), SignPayload)


def test_the_written_example_runs(capsys):
    text = (Path(__file__).parents[2] / "docs" / "codecs.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], {})
    assert capsys.readouterr().out.startswith("5 DitherPayload(levels=array([ 0, -1,  3,  0,  8]")
