"""`Gossip`: exchanges compressed differences of a model with neighbours every few local steps."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from lessbits.errors import InputError, check_flag, check_kind, check_seed, check_whole, shown
from lessbits.networks import Network
from lessbits.torch.layout import Layout
from lessbits.torch.loading import Loading
from lessbits.torch.memory import Broadcast, InTurn, Memory
from lessbits.torch.pieces import Pieces
from lessbits.torch.tree import TreeSums
from lessbits.training.flight import Flight
from lessbits.training.intervals import Every, Intervals
from lessbits.training.links import Links, Reached
from lessbits.training.marks import compare_exchanges, compare_marks, run_number, settings_mark, values_mark
from lessbits.training.meeting import choose_links
from lessbits.training.partners import network_between
from lessbits.training.pieces import Spelling
from lessbits.training.rule import Rule
from lessbits.training.stability import choose_rule
from lessbits.training.state import check_state, sent_line, tell

if TYPE_CHECKING:
    from lessbits.torch.failing import PerLink

VERSION = 1  # of state_dict


class Gossip:
    """Trains one model with neighbours: call `step` after each step of the optimizer.

    Every node has a model, data and an optimizer of its own, and all models start alike. After `every` steps a node
    sends the compressed difference of its model to what its neighbours know of it, and moves towards theirs, as `Rule`
    says. Optimizers keep their own state.

        gossip = lessbits.torch.Gossip(model, every=20, quantizer="block:1.0", network="ring")
        for batch in loader:
            optimizer.zero_grad()
            loss(model, batch).backward()
            optimizer.step()
            gossip.step()

    Args:
        model: The model. Its trained parameters are exchanged, and its persistent floating-point buffers. Memories are
            float32, even of parameters of 16 bits, and on the model's device.
        every: Local steps between two exchanges, or a function of the step of the last, such as `Shrinking(60, 2400)`.
        quantizer: `block:Δ`, `block-dither:Δ` or `block-top:K`, with a scale for each 4096 numbers of a tensor (with
            `:N` or `:tensor` behind, for N or all), or `exact`. A mapping from patterns of names chooses one for each
            tensor; the first pattern that fits counts: `{"*.norm*": "exact", "*": "block:1.5:tensor"}`. Buffers are
            sent as they are: rounding could make a variance negative.
        network: A network, or its name as in `lessbits.make_network`, such as `ring`, `complete` or `hypercube`.
        rule: The numbers of the method; those that are open are chosen for the network and the quantizer.
        links: What carries bytes; by default MPI, if several processes were started.
        seed: Seed of random rounding, the same at all nodes.
        site: The file `site.toml` of this process, for sites that talk over gRPC and may fail and come back. The links
            of the roster are the network then.
        overlap: Whether messages travel while an interval is computed: they tell of the model at its start, and the
            correction that they bring is taken at its end. Call `finish` after the last step.
        progress: Print `report()` of node 0 on standard error after every so many exchanges; 0 for never.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        every: Every = 20,
        quantizer: Spelling = "block:1.0",
        network: str | Network = "ring",
        rule: Rule | None = None,
        links: Links | None = None,
        seed: int = 0,
        site: str | PathLike[str] | None = None,
        overlap: bool = False,
        progress: int = 0,
    ) -> None:
        self.seed, self.rule, self.links = check_seed(seed), Rule() if rule is None else rule, choose_links(links, site)
        check_kind("the rule", self.rule, Rule, "make one with lessbits.torch.Rule(…)")
        self.intervals = Intervals(every, self.rule.alone)
        self.overlap, self.progress = check_flag("overlap", overlap), check_whole("progress", progress, 0)
        if overlap:
            self.rule.check_gossip("overlap")
            self.links.allow_overlap()
        self.layout = Layout(model)
        self.loading = Loading(self.layout)
        self.pieces = Pieces(quantizer, self.layout.names, self.layout.sizes, self.layout.buffers)
        self.connected = network_between(self.links, network)
        self.rule = choose_rule(self.rule, self.connected, self.pieces.noisiest, self.links.node)
        self.numbers = self.rule.numbers
        self.old = self.layout.gather()
        self.momentum = torch.zeros(self.layout.trained, device=self.layout.device)
        self.dual = torch.zeros_like(self.momentum[: 0 if self.rule.tree else None])
        self.steps, self.exchanges, self.waited = 0, 0, 0.0  # seconds, for messages
        self.flight: Flight | None = None  # messages under way
        self.waits = False  # whether messages have been sent, of which nothing was taken yet
        self.memory: Memory | TreeSums | None = None
        self.failing: PerLink | None = None  # the memory, if links may fail
        self.met = False
        if self.connected is not None and self.links.steady:
            self.memory = self._meet(self.connected)
        elif not self.links.steady:
            self.rule.check_gossip("a site")
            self.memory = self.failing = self._expect()

    @property
    def bits(self) -> int:
        """The bits that this node has sent in messages, with their checksums, on all its links."""
        return 0 if self.memory is None else self.memory.bits

    def step(self) -> bool:
        """Count a local step, and exchange if it is time. Return whether this was done."""
        self._open()
        self.steps += 1
        self.links.reached = Reached(self.steps, self.exchanges)
        if self.numbers.dual and self.exchanges:
            self.layout.add(self.dual, self.numbers.dual / self.intervals.length(self.steps))
        if due := self.intervals.due(self.steps):
            self.exchange()
        return due

    @torch.no_grad()
    def exchange(self) -> None:
        """Exchange now. All nodes must do so at the same time."""
        self._open()
        self.layout.check()
        if self.memory is None:
            return
        if self.failing is not None:
            self._rejoin(self.failing)
        if isinstance(self.memory, TreeSums):
            self.memory.talk(self._read, self.old, self.exchanges, self._waiting)
        elif self.overlap:
            self._land()
            self._take(self.exchanges)
            self.flight = Flight(self.links, self.memory.send(self.layout.read, self.exchanges))
        else:
            frames = self.memory.send(self._read, self.exchanges)
            with self._waiting():
                received = self.links.exchange(frames)
            self.memory.receive(received, self.exchanges)
        self.exchanges += 1
        self.links.reached = Reached(self.steps, self.exchanges)
        self.waits = True
        if not self.overlap:
            self._take(self.exchanges - 1)
        if self.progress and not self.links.node and self.exchanges % self.progress == 0:
            tell(self.report())

    @torch.no_grad()
    def finish(self) -> None:
        """Wait for messages under way, and take the correction that they bring; at all nodes.

        With `overlap`, call it after the last step, and before models are compared. Without, there is nothing to do.
        """
        self._land()
        if self.waits:
            for part in self.pieces.parts():
                self.layout.write(part, self._corrected(part, self.layout.read(part)))
            self.waits = False

    def _land(self) -> None:
        """Receive the messages that are under way."""
        if self.flight is not None and isinstance(self.memory, Memory):
            flight, self.flight = self.flight, None
            with self._waiting():
                received = flight.land()
            self.memory.receive(received, self.exchanges - 1)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.waited += time.perf_counter() - began

    def _read(self, part: slice) -> torch.Tensor:
        """Return a part of x, with what the dual adds to parameters of 16 bits in an interval."""
        return self.layout.read(part, self.dual if self.numbers.dual else None, self.numbers.dual)

    def _corrected(self, part: slice, x: torch.Tensor) -> torch.Tensor:
        """Return a part of x less what gossip finds in the last exchange, and let the dual learn it."""
        if not isinstance(self.memory, Memory) or not self.waits:
            return x
        found = self.memory.pull(self.exchanges - 1, part).mul_(self.numbers.theta)
        trained = max(0, min(part.stop, self.layout.trained) - part.start)
        self.dual[part.start : part.start + trained] -= found[:trained]  # buffers have no dual
        if self.overlap:  # this is an interval old, and must not make a variance negative that has shrunk since
            found[trained:] *= x[trained:] * (x[trained:] - found[trained:]) >= 0
        return x.sub_(found)

    def _take(self, exchange: int) -> None:
        """Take the correction of the last exchange, and momentum over the interval; part by part, to save memory."""
        numbers = self.rule.numbers_at(exchange)
        for part in self.pieces.parts():
            if isinstance(self.memory, TreeSums):
                x = self.old[part] - self.memory.mean[part]
            else:
                x = self._corrected(part, self._read(part))
            trained = slice(part.start, min(part.stop, self.layout.trained))
            if trained.stop > trained.start:  # buffers have no momentum
                mine = x[: trained.stop - trained.start]
                change = self.old[trained] - mine
                self.momentum[trained].mul_(numbers.kept).add_(change)
                change += numbers.momentum * self.momentum[trained]
                mine.copy_(self.old[trained] - numbers.rate * change)
            self.layout.write(part, x)
            self.old[part] = x
        self.waits = False

    def report(self) -> str:
        """Return one line about what was sent, and how long this node has waited for its neighbours."""
        return f"{sent_line(self.steps, self.exchanges, self.bits, self.layout.size)}, {self.waited:.1f} s waited"

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on, with tensors that torch.save writes. Messages under way arrive first."""
        self._land()
        return {
            **self._about(),
            "counts": {name: getattr(self, name) for name in ("steps", "exchanges", "bits", "waits")},
            "tensors": {name: tensor.clone() for name, tensor in self._tensors().items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict` of the same node of the same run. Load the model's and the optimizer's own too."""
        self._land()
        tensors = self._tensors()
        counts = check_state(state, self._about(), tensors, self.failing is not None and self.met)
        for name, tensor in tensors.items():
            tensor.copy_(state["tensors"][name])
        self.loading.complete = True
        self.steps, self.exchanges, self.waits = counts["steps"], counts["exchanges"], bool(counts["waits"])
        self.links.reached, self.met = Reached(self.steps, self.exchanges), False
        if self.memory is not None:
            self.memory.bits = counts["bits"]
        if self.failing is not None:
            self.dual.zero_()  # it belongs to links, which all begin anew

    def close(self) -> None:
        """End all connections, once the last messages are sent."""
        self._land()
        self.links.close()

    def _tensors(self) -> dict[str, torch.Tensor]:
        kept = {"old": self.old, "dual": self.dual, "momentum": self.momentum}
        kept |= {f"carry.{name}": tensor for name, tensor in self.layout.carry.items()}
        return kept if self.memory is None else kept | self.memory.tensors()

    def _settings(self) -> str:
        words = (self.intervals.words(), f"quantizer={self.pieces.name}", f"seed={self.seed}", self.rule.words())
        return " ".join(words) + " overlap" * self.overlap

    def _about(self) -> dict[str, Any]:
        nodes = self.links.nodes if self.links.steady else None  # a roster may grow
        return {"version": VERSION, "layout": self.layout.digest().hex(), "settings": self._settings(), "nodes": nodes}

    def _marks(self, network: Network) -> list[bytes]:
        start = values_mark(self.old.cpu().numpy(), self.layout.fixed)
        return [self.layout.digest(), start, settings_mark(self._settings(), network)]

    def _meet(self, network: Network) -> Memory | TreeSums:
        """Check with neighbours that models and settings are the same, and return the memory."""
        run = compare_marks(self.links, network, self._marks(network), self._settings())
        kind = TreeSums if self.rule.tree else InTurn if self.rule.turns else Broadcast
        return kind(self.links, self.pieces, self.seed, run, self.old, network)

    def _expect(self) -> "PerLink":
        """Return the memory of links that may fail; neighbours are met at the first step."""
        from lessbits.torch.failing import PerLink
        from lessbits.training.peer_links import PeerLinks

        if not isinstance(self.links, PeerLinks):
            raise InputError(f"the links are {shown(self.links)}, but only PeerLinks may fail")
        model, _, settings = self._marks(self.links.roster.network())
        shares = self.rule.turns, self.numbers.dual > 0
        return PerLink(self.links, self.pieces, self.seed, run_number([model, settings]), self.old, *shares)

    def _open(self) -> None:
        """Meet neighbours at the first step: a state may have been loaded until then."""
        self.loading.check()
        if self.failing is None and not self.met:
            compare_exchanges(self.links, self.connected, self.exchanges)
        elif self.failing is not None and not self.met:
            links = self.failing.sites
            model, start, settings = (part.hex() for part in self._marks(links.roster.network()))
            links.number = self.exchanges
            links.open(settings, model, start, 8 * self.layout.size + self.failing.codec.most_bytes)
        self.met = True

    def _rejoin(self, memory: "PerLink") -> None:
        """Begin links anew where needed, and catch up with neighbours; who was just started takes the model of one."""
        reached, model = memory.begin(lambda: self._read(slice(0, self.layout.size)), self.exchanges)
        self.steps += self.intervals.between(self.exchanges, reached)
        self.exchanges = reached
        self.dual += self.numbers.theta * memory.recover()[: self.layout.trained]
        if model is not None:
            self.old = model
            self.layout.scatter(model)
