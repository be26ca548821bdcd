"""A node with JAX and a node with PyTorch train one model: they agree on it, and send each other the same bytes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import slow_but

torch = pytest.importorskip("torch")

import lessbits.neural  # noqa: E402
import lessbits.torch  # noqa: E402
from lessbits._internal.randomness import Step, make_seed, message_draws  # noqa: E402
from lessbits.neural.quantizers import WeightQuantizer, row_of  # noqa: E402
from lessbits.torch.pieces import Pieces  # noqa: E402
from lessbits.torch.sums import stream_words  # noqa: E402
from lessbits.training.links import ThreadLinks  # noqa: E402
from lessbits.training.partners import PER_LINK  # noqa: E402
from lessbits.training.rule import Rule  # noqa: E402

SIZES = {"a": (70, 60), "b": (5,), "c": (2, 4096)}


class Recorded(ThreadLinks):
    """Links that keep the frames that they sent."""

    def exchange(self, frames):
        self.__dict__.setdefault("kept", []).append(dict(frames))
        return super().exchange(frames)


class Model(torch.nn.Module):
    """Parameters with the names of the pytree, in its order."""

    def __init__(self):
        super().__init__()
        for name, value in start().items():
            self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(value)))


def start():
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in SIZES.items()}


def moves(node, step):
    random = np.random.default_rng([node, step])
    return {name: 0.01 * random.normal(size=shape).astype(np.float32) for name, shape in SIZES.items()}


def with_torch(links, rule, quantizer, overlap):
    model = Model()
    gossip = lessbits.torch.Gossip(model, 2, quantizer, "complete", rule, links, seed=3, overlap=overlap)
    for step in range(8):
        with torch.no_grad():
            for name, change in moves(links.node, step).items():
                model.get_parameter(name).add_(torch.from_numpy(change))
        gossip.step()
    gossip.finish()
    return {name: value.detach().numpy() for name, value in model.named_parameters()}, gossip.bits, links.kept


def with_jax(links, rule, quantizer, overlap):
    params = jax.tree.map(jnp.asarray, start())
    gossip = lessbits.neural.Gossip(params, 2, quantizer, "complete", rule, links, seed=3, overlap=overlap)
    for step in range(8):
        params = jax.tree.map(lambda value, change: value + jnp.asarray(change), params, moves(links.node, step))
        params = gossip.step(params)
    return gossip.finish(params), gossip.bits, links.kept


@pytest.mark.parametrize(
    ("rule", "quantizer", "overlap"),
    [
        (Rule(dual=0.1, momentum=0.3), "block:1", True),
        (Rule(dual=0.1, momentum=0.3, turns=False), "block-dither:1", False),
        (Rule(tree=True), "block:1", False),
        (Rule(dual=0.1, momentum=0.3), {"a": "block:1:tensor", "b": "exact", "*": "block-dither:1:1024"}, False),
    ],
)
def test_a_pair_of_both_trains_and_a_pair_of_one_sends_the_same(rule, quantizer, overlap):

    def run(*kinds):
        return Recorded.run(2, lambda links: kinds[links.node](_recorded(links), rule, quantizer, overlap))

    ours, theirs, mixed = run(with_jax, with_jax), run(with_torch, with_torch), run(with_jax, with_torch)
    for node in range(2):
        for other in (theirs, mixed):
            # The meeting and the first message are equal byte for byte. Then sums differ in the last bit, because
            # PyTorch may fuse products into them, and a number in the middle of two levels may go either way.
            assert [list(each.values()) for each in other[node][2][:2]] == [
                list(each.values()) for each in ours[node][2][:2]
            ]
            assert other[node][1] == pytest.approx(ours[node][1], rel=1e-2)
        for name in SIZES:
            np.testing.assert_allclose(mixed[node][0][name], ours[node][0][name], rtol=0, atol=0.05)
            assert np.mean(np.abs(mixed[node][0][name] - np.asarray(ours[node][0][name]))) < 1e-4


def _recorded(links):
    return Recorded(links.node, links.boxes, links.nodes)


NAMED = {"b*": "exact", "c": "block-top:64:tensor", "d": "block-dither:0.5:1000", "*": "block:0.5"}
QUICK = [(NAMED, 6000), ("block:1.5:tensor", 2**22)]
OTHERS = [(each, 2**22) for each in ("block:1", "block-dither:0.5", "block-top:64", "exact", "block-top:9:100", NAMED)]


@pytest.mark.parametrize(("spelling", "most"), slow_but(QUICK, [*QUICK, *OTHERS]))
def test_tensors_have_the_levels_and_bytes_of_pytorch(spelling, most):
    names, sizes = ["a", "b1", "c", "b2", "d", "e"], [5000, 3, 8192, 3, 3004, 904]
    vectors = np.random.default_rng(1).standard_t(4, size=(3, sum(sizes))).astype(np.float32)
    ours, theirs = WeightQuantizer(spelling, sizes, names, most), Pieces(spelling, names, sizes, most=most)
    draws = message_draws(Step(make_seed(5), jnp.int32(2)), jnp.arange(3).astype(jnp.uint32), per_link=True)
    payload, decoded = jax.device_get(ours.send(jnp.asarray(vectors), jnp.zeros(vectors.shape, jnp.float32), draws))
    assert (ours.name, ours.noisiest) == (theirs.name, theirs.noisiest)
    assert len(payload) == len(theirs.pieces)
    counted = ours.codec().expected_bytes(payload)
    for row, vector in enumerate(vectors):
        words, room = stream_words(5, 2, row, PER_LINK), torch.zeros(len(vector))
        found = [(piece, piece.quantizer.quantize(torch.from_numpy(vector)[piece.part], words)) for piece in theirs]
        body = theirs.codec.encode([piece.quantizer.to_host(part) for piece, part in found])
        assert ours.codec().encode(row_of(payload, row)) == body
        assert abs(float(counted[row]) - len(body)) < 0.01 * len(body) + 8 * len(payload)
        for piece, part in found:
            piece.add(room, part)
        np.testing.assert_array_equal(decoded[row], room.numpy())
        read = np.concatenate([part[0] for _, part in ours.read(ours.codec().decode(body))])
        np.testing.assert_array_equal(read, room.numpy())
    last = jnp.asarray(vectors[-1:])
    draws = message_draws(Step(make_seed(5), jnp.int32(2)), jnp.full(1, 2, jnp.uint32), per_link=True)
    pieces = list(ours.stream(last, lambda: jnp.zeros_like(last), draws))
    assert ours.codec().encode([row_of(part) for _, part, _ in pieces]) == body
    assert [start for start, *_ in pieces] == [piece.part.start for piece in theirs]
    np.testing.assert_array_equal(np.concatenate([part[0] for *_, part in pieces]), decoded[-1])


def test_whole_numbers_that_are_not_exchanged_have_one_mark():
    model, table = Model(), np.arange(6).reshape(2, 3)
    model.register_buffer("table", torch.from_numpy(table))
    theirs = lessbits.torch.Gossip(model).layout.fixed
    assert theirs == lessbits.neural.Gossip({**start(), "table": table}).fixed
    assert theirs != lessbits.neural.Gossip({**start(), "table": table + 1}).fixed
