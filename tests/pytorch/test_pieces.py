"""Messages in pieces: the same numbers as in one piece, quantizers by the names of tensors, and mistakes."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lessbits.codecs.joined import FloatCodec, JoinedCodec  # noqa: E402
from lessbits.errors import InputError, WireError  # noqa: E402
from lessbits.torch import Gossip, Rule, ThreadLinks  # noqa: E402
from lessbits.torch import gossip as gossip_module  # noqa: E402
from lessbits.torch.pieces import Pieces  # noqa: E402

torch.manual_seed(0)
START = torch.nn.Sequential(torch.nn.Linear(150, 70), torch.nn.BatchNorm1d(70), torch.nn.Linear(70, 3))
NAMES = ["body.weight", "body.norm.bias", "head.weight", "head.bias"]
SIZES = [10_000, 7, 5000, 3]


def run(quantizer, in_turn=True, kind=torch.float32):
    """Return all numbers that each node has after some exchanges of random changes, and its bits."""

    def one(links):
        model = copy.deepcopy(START).to(kind)
        gossip = Gossip(model, 2, quantizer, "ring", Rule(dual=0.2, momentum=0.4, turns=in_turn), links)
        random = torch.Generator().manual_seed(links.node)
        for _ in range(8):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter += (0.01 * torch.randn(parameter.shape, generator=random)).to(kind)
                model[1].running_mean += 0.1 * links.node
            gossip.step()
        return {**model.state_dict(), **gossip.state_dict()["tensors"]}, gossip.bits

    return ThreadLinks.run(3, one)


@pytest.mark.parametrize("quantizer", ["block:1.0", "block-dither:1.0", "block-top:300"])
@pytest.mark.parametrize("in_turn", [True, False])
def test_pieces_change_no_number(quantizer, in_turn, monkeypatch):
    kind = torch.float32 if in_turn else torch.bfloat16
    whole = run(quantizer, in_turn, kind)
    monkeypatch.setattr(gossip_module, "Pieces", lambda *given: Pieces(*given, most=4200))
    cut = run(quantizer, in_turn, kind)
    for (expected, bits), (found, more) in zip(whole, cut, strict=True):
        assert bits < more < 2 * bits  # each piece has a head
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), name


def test_pieces_are_whole_blocks_and_have_at_most_so_many_coordinates():
    pieces = Pieces("block:1", NAMES, SIZES, most=6000)
    assert [piece.quantizer.sizes.tolist() for piece in pieces] == [[4096], [4096, 1808, 7], [4096, 904, 3]]
    assert [piece.part.stop for piece in pieces] == [4096, 10_007, 15_010]
    assert [(part.start, part.stop) for part in pieces.parts()] == [(0, 6000), (6000, 12_000), (12_000, 15_010)]


def test_the_first_pattern_that_fits_a_name_counts():
    chosen = {"*norm*": "exact", "head.*": "block:0.5", "*": "block-top:64"}
    pieces = list(Pieces(chosen, NAMES, SIZES))
    assert [piece.quantizer.name for piece in pieces] == ["block-top:64", "exact", "block:0.5"]
    assert [piece.part.stop for piece in pieces] == [10_000, 10_007, 15_010]


def test_a_finer_quantizer_brings_a_tensor_closer_to_what_neighbours_know():
    (tensors, bits), *_ = run({"2.weight": "exact", "*": "block:2"})
    (_, coarse), *_ = run("block:2")
    assert 0 < bits - coarse < 4 * 8 * 8 * (70 * 3 + 50)
    own = next(tensor for name, tensor in tensors.items() if name.startswith("own."))
    start = 150 * 70 + 70 + 70 + 70  # what comes before the weights of the last layer
    rows = own[start : start + 210]
    assert torch.allclose(rows, START[2].weight.detach().flatten(), atol=0.5)
    assert not torch.equal(rows, START[2].weight.detach().flatten())


@pytest.mark.parametrize(
    ("spelling", "told"),
    [
        ({"head.*": "block:1"}, "'body.weight'"),
        ({"haed.*": "block:1", "*": "block:2"}, "'haed.\\*'"),
        ({"head.*": "dit-4", "*": "block:2"}, "'dit-4'"),
        ({"head.*": 3, "*": "block:2"}, "'3'"),
        ({}, "no pattern"),
    ],
)
def test_wrong_names_are_told_in_one_line(spelling, told):
    with pytest.raises(InputError, match=told) as caught:
        Pieces(spelling, NAMES, SIZES)
    assert "\n" not in str(caught.value)


def test_nodes_must_have_the_same_quantizers():
    def one(links):
        chosen = {"2.*": f"block:{1 + links.node}", "*": "block:1"}
        Gossip(copy.deepcopy(START), 2, chosen, links=links)

    with pytest.raises(InputError, match="different settings"):
        ThreadLinks.run(2, one)


def test_a_body_of_pieces_that_was_changed_is_refused():
    codec = JoinedCodec([FloatCodec(3), FloatCodec(2)])
    numbers = [np.arange(3, dtype=np.float32), np.ones(2, np.float32)]
    body = codec.encode(numbers)
    for found, expected in zip(codec.decode(body), numbers, strict=True):
        np.testing.assert_array_equal(found, expected)
    nan = np.full(2, np.nan, np.float32)
    for wrong in (body[:-1], body + b"\0", body[:2], b"", b"\xff" * 4 + body[4:], body[:-8] + nan.tobytes()):
        with pytest.raises(WireError):
            codec.decode(wrong)
