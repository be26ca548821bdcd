"""Buffers between nodes: running statistics stay what they are, and those that every node makes are left alone."""

import copy

import pytest

torch = pytest.importorskip("torch")

from lessbits.errors import InputError  # noqa: E402
from lessbits.torch import Gossip, Rule, ThreadLinks  # noqa: E402

# Threads share one random generator, so that all nodes copy one model.
torch.manual_seed(0)
NORMED = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


@pytest.mark.parametrize(
    ("quantizer", "settings"),
    [
        ("block:3.25", {"rule": Rule(tree=True)}),
        ("block:1.5", {}),
        ("block:1.5", {"rule": Rule(turns=False)}),
        ("block:1.5", {"overlap": True}),
        ({"*.weight": "block:1.5", "*": "block:3"}, {}),
    ],
)
def test_running_variances_of_trained_models_stay_positive(quantizer, settings):
    def one(links):
        model = copy.deepcopy(NORMED)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        gossip = Gossip(model, 20, quantizer, "ring", links=links, **settings)
        random = torch.Generator().manual_seed(links.node)
        least = torch.inf
        for step in range(100):
            inputs = (0.3 if step < 60 else 0.01) * (3 if links.node else 1) * torch.randn(16, 8, generator=random)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1)).backward()
            optimizer.step()
            gossip.step()
            least = min(least, float(model[1].running_var.min()))
        gossip.finish()
        least = min(least, float(model[1].running_var.min()))
        return least, model[1].running_var.clone(), gossip

    runs = ThreadLinks.run(4, one)
    assert min(least for least, *_ in runs) > 0
    if runs[0][-1].rule.tree:
        assert all(torch.equal(variances, runs[0][1]) for _, variances, _ in runs)


class Masked(torch.nn.Module):
    """A mask that every node makes by itself, and a table that grows with what it has seen."""

    def __init__(self, persistent):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))
        self.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1), persistent=persistent)
        self.register_buffer("table", torch.zeros(2), persistent=False)


def test_buffers_that_are_not_persistent_are_left_alone():
    def one(links):
        model = Masked(persistent=False)
        gossip = Gossip(model, 1, "block:0.1", links=links)
        model.table = torch.zeros(4)
        gossip.step()
        return gossip.layout.names, model.mask

    for names, mask in ThreadLinks.run(2, one):
        assert names == ["weight"]
        assert torch.equal(mask, Masked(False).mask)


def test_a_buffer_with_infinite_numbers_is_named_with_what_to_do():
    with pytest.raises(InputError, match=r"the buffer 'mask' has NaN or infinite .* persistent=False"):
        ThreadLinks.run(2, lambda links: Gossip(Masked(persistent=True), links=links))


class Counting(torch.nn.Module):
    """A buffer that gets a new tensor at each step, as an average over steps does."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))
        self.register_buffer("mean", torch.zeros(3))


def test_buffers_that_are_replaced_are_exchanged():
    def one(links):
        model = Counting()
        gossip = Gossip(model, 1, "block:0.1", links=links, rule=Rule(theta=1.0))
        for _ in range(2):
            model.mean = model.mean + links.node
            gossip.step()
        return model.mean

    for mean in ThreadLinks.run(2, one):
        assert torch.allclose(mean, torch.ones(3), atol=0.02)


class Backbone(torch.nn.Module):
    """A trained head on what is not exchanged: frozen parameters, whole numbers, and counted batches."""

    def __init__(self, node, other):
        super().__init__()
        self.head = torch.nn.Parameter(torch.zeros(3))
        self.body = torch.nn.Parameter(torch.arange(12.0).view(3, 4).T, requires_grad=False)
        self.register_buffer("index", torch.arange(4))
        self.register_buffer("mask", torch.ones(2, dtype=torch.bool))
        self.norm = torch.nn.BatchNorm1d(2)
        self.norm.num_batches_tracked += node
        self.register_buffer("own", torch.tensor(node), persistent=False)
        if other and node:
            getattr(self, other).data[-1:] = 0


@pytest.mark.parametrize("other", ["", "body", "index", "mask"])
def test_nodes_that_differ_in_what_is_not_exchanged_are_told_so(other):
    def one(links):
        return Gossip(Backbone(links.node, other), links=links).layout.fixed

    if other:
        with pytest.raises(InputError, match=r"nodes 0 and 1 start from different numbers, .* frozen"):
            ThreadLinks.run(2, one)
    else:
        assert len(set(ThreadLinks.run(2, one))) == 1


class Packed(torch.Tensor):
    """A kind of tensor that cannot be read as bytes, as some quantized ones."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        if "view" in str(function):
            raise NotImplementedError
        return super().__torch_function__(function, types, arguments, named or {})


def test_frozen_tensors_of_other_kinds_are_no_obstacle():
    def one(links):
        model = torch.nn.Linear(2, 2, bias=False)
        torch.nn.init.zeros_(model.weight)
        model.register_buffer("sparse", torch.eye(2, dtype=torch.int64).to_sparse())
        model.packed = torch.nn.Parameter(torch.zeros(2).as_subclass(Packed), requires_grad=False)
        model.register_parameter("short", torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16), requires_grad=False))
        return Gossip(model, links=links).layout.fixed

    assert len(set(ThreadLinks.run(2, one))) == 1
