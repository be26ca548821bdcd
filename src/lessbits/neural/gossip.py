"""`Gossip`: exchanges compressed differences of parameters with neighbours every few local steps."""

from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from lessbits._internal.summation import separate
from lessbits.errors import InputError, check_flag, check_kind, check_seed, check_whole, shown
from lessbits.networks import Network
from lessbits.neural.arithmetic import Moved, Numbers, finish_in_parts, nesterov
from lessbits.neural.layout import Layout, Tree
from lessbits.neural.memory import Broadcast, InTurn, Memory
from lessbits.neural.quantizers import WeightQuantizer
from lessbits.neural.tree import TreeSums
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
    from lessbits.neural.failing import PerLink

VERSION = 1  # of state_dict


class Gossip:
    """Trains one model with neighbours: call `step` after each step of the optimizer.

    Every node has parameters, data and an optimizer of its own, and all parameters start alike. After `every` steps a
    node sends the compressed difference of its model to what its neighbours know of it, and moves towards theirs, as
    `Rule` says. Optimizers keep their own state. Frames and bytes are those of `lessbits.torch`.

        gossip = lessbits.neural.Gossip(params, every=20, quantizer="block:1.0", network="ring")
        for batch in batches:
            params, state = train_step(params, state, batch)  # compiled, with optax
            params = gossip.step(params)  # on the host

    Args:
        params: The parameters at the start, any pytree. Floating-point arrays are exchanged. Memories are float32, even
            of parameters of 16 bits.
        every: Local steps between two exchanges, or a function that returns them, given the step of the last exchange,
            such as `Shrinking(longest=60, steps=2400)`.
        quantizer: `block:Δ`, `block-dither:Δ` or `block-top:K`, with a scale for each 4096 numbers of an array (with
            `:N` or `:tensor` behind, for N or all), or `exact`. A mapping from patterns of names chooses one for each
            array; the first pattern that fits counts: `{"*.norm*": "exact", "*": "block:1.5:tensor"}`.
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
        params: Tree,
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
        self.seed = check_seed(seed)
        self.rule, self.links = Rule() if rule is None else rule, choose_links(links, site)
        check_kind("the rule", self.rule, Rule, "make one with lessbits.neural.Rule(…)")
        self.intervals = Intervals(every, self.rule.alone)
        self.overlap, self.progress = check_flag("overlap", overlap), check_whole("progress", progress, 0)
        if overlap:
            self.rule.check_gossip("overlap")
            self.links.allow_overlap()
        self.layout = Layout(params)
        self.fixed = self.layout.fixed(params)
        self.quantizer = WeightQuantizer(quantizer, self.layout.sizes, self.layout.names)
        self.connected = network_between(self.links, network)
        self.rule = choose_rule(self.rule, self.connected, self.quantizer.noisiest, self.links.node)
        self.steps = self.exchanges = 0
        self.carry = jnp.zeros((1, self.layout.size), jnp.float32) if self.layout.rounded else None
        self.old = jnp.array(self._gather(params))  # which is changed in place
        self.dual = jnp.zeros_like(self.old)
        self.momentum = jnp.zeros_like(self.old)
        self._added = jax.jit(self.layout.added)
        self._gather_added = jax.jit(self.layout.gather_added)
        self.memory: Memory | TreeSums | None = None
        self.failing: PerLink | None = None  # the memory, if links may fail
        self.met = False
        if not self.links.steady:
            self.rule.check_gossip("a site")
            self.memory = self.failing = self._expect()
        elif self.connected is not None:
            self.memory = self._meet(self.connected)

    @property
    def bits(self) -> int:
        """The bits that this node has sent in messages, with their checksums, on all its links."""
        return 0 if self.memory is None else self.memory.bits

    def step(self, params: Tree) -> Tree:
        """Count a local step, exchange if it is time, and return the parameters to go on with."""
        self.layout.check(params)
        self._open()
        self.steps += 1
        self.links.reached = Reached(self.steps, self.exchanges)
        due = self.intervals.due(self.steps)
        if not (self.rule.numbers.dual and self.exchanges):
            return self.exchange(params) if due else params
        share = jnp.float32(self.rule.numbers.dual / self.intervals.length(self.steps))
        values = self.layout.values(params)
        if due and self.memory is not None:  # without another tree of parameters
            return self._exchange(params, self._checked(params, self._gather_added(values, self.dual, share)))
        return self.layout.replace(params, self._added(values, self.dual, share))

    def exchange(self, params: Tree) -> Tree:
        """Exchange now, and return the parameters to go on with. All nodes must do so at the same time."""
        self.layout.check(params)
        self._open()
        x = self._gather(params)
        return params if self.memory is None else self._exchange(params, x)

    def _exchange(self, params: Tree, x: jax.Array) -> Tree:
        """Exchange a model, and return parameters like these to go on with."""
        assert self.memory is not None
        numbers = Numbers.of(self.rule, self.exchanges)
        if self.carry is not None:
            late = separate(self.dual * numbers.dual)  # which could not be added to 16 bits at each step
            x = jnp.where(self.layout.short[None], x + late, x)
        if self.failing is not None:
            x = self._rejoin(self.failing, x)
        if isinstance(self.memory, TreeSums):
            mean = self.memory.exchange(self.old - x, self.exchanges)
            more = numbers.rate, numbers.momentum, numbers.kept
            self.old, self.momentum = nesterov(self.old, mean, self.momentum, *more)
        else:
            memory, turn = self.memory, self.exchanges
            pull = memory.late(turn - 1) if self.overlap else memory.exchange(x, turn)
            moved = finish_in_parts(Moved(self.old, self.dual, self.momentum), x, pull, numbers)
            self.old, self.dual, self.momentum = moved
            del x
            if self.overlap:
                memory.launch(self.old, turn)
        params = self._scatter(params, self.old)
        self.exchanges += 1
        self.links.reached = Reached(self.steps, self.exchanges)
        if self.progress and not self.links.node and self.exchanges % self.progress == 0:
            tell(self.report())
        return params

    def finish(self, params: Tree) -> Tree:
        """Wait for messages under way, and return the parameters with the correction that they bring; at all nodes.

        With `overlap`, call it after the last step, and before models are compared. Without, there is nothing to do.
        """
        self.layout.check(params)
        if not isinstance(self.memory, Memory) or not self.memory.waits:
            return params
        pull = separate(self.memory.late(self.exchanges - 1)(slice(0, self.layout.size)) * self.rule.numbers.theta)
        self.dual = self.dual - pull
        return self._scatter(params, self._gather(params) - pull)

    def report(self) -> str:
        """Return one line about what was sent, and how long this node has waited for its neighbours."""
        waited = 0.0 if self.memory is None else self.memory.waited
        return f"{sent_line(self.steps, self.exchanges, self.bits, self.layout.size)}, {waited:.1f} s waited"

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on besides the parameters: texts, whole numbers and NumPy arrays.

        Messages under way arrive first.
        """
        waits = self.memory is not None and self.memory.land()
        return {
            **self._about(),
            "counts": {"steps": self.steps, "exchanges": self.exchanges, "bits": self.bits, "waits": waits},
            "tensors": {name: np.array(array[0]) for name, array in self._arrays().items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict` of the same node of the same run, with the parameters that were saved beside it."""
        counts = check_state(state, self._about(), self._arrays(), self.failing is not None and self.met)
        loaded = {name: jnp.array(np.asarray(array)[None]) for name, array in state["tensors"].items()}
        self.old, self.dual, self.momentum = (loaded.pop(name) for name in ("old", "dual", "momentum"))
        self.carry = loaded.pop("carry", None)
        self.steps, self.exchanges = counts["steps"], counts["exchanges"]
        self.links.reached, self.met = Reached(self.steps, self.exchanges), False
        if self.memory is not None:
            self.memory.land()
            self.memory.arrays, self.memory.bits = loaded, counts["bits"]
            self.memory.waits = bool(counts["waits"])
        if self.failing is not None:
            self.dual = jnp.zeros_like(self.dual)  # it belongs to links, which all begin anew

    def close(self) -> None:
        """End all connections, once the last messages are sent."""
        if self.memory is not None:
            self.memory.land()
        self.links.close()

    def _gather(self, params: Tree) -> jax.Array:
        return self._checked(params, self.layout.gather_row(params))

    def _checked(self, params: Tree, vector: jax.Array) -> jax.Array:
        """Return a vector of parameters with what rounding to 16 bits has taken away."""
        vector = vector if self.carry is None else vector + self.carry
        self.layout.check_finite(params, vector)
        return vector

    def _scatter(self, params: Tree, x: jax.Array) -> Tree:
        """Return parameters with these numbers, and keep what rounding to 16 bits takes away."""
        params = self.layout.scatter(params, x)
        if self.carry is not None:
            self.carry = x - self.layout.gather_row(params)
        return params

    def _arrays(self) -> dict[str, jax.Array]:
        kept = {"old": self.old, "dual": self.dual, "momentum": self.momentum}
        if self.carry is not None:
            kept["carry"] = self.carry
        return kept if self.memory is None else kept | self.memory.arrays

    def _settings(self) -> str:
        overlap = " overlap" if self.overlap else ""
        words = f"{self.intervals.words()} quantizer={self.quantizer.name}"
        return f"{words} seed={self.seed} {self.rule.words()}{overlap}"

    def _about(self) -> dict[str, Any]:
        nodes = self.links.nodes if self.links.steady else None  # a roster may grow
        return {"version": VERSION, "layout": self.layout.digest().hex(), "settings": self._settings(), "nodes": nodes}

    def _marks(self, network: Network) -> list[bytes]:
        start = values_mark(np.asarray(self.old[0]), self.fixed)
        return [self.layout.digest(), start, settings_mark(self._settings(), network)]

    def _meet(self, network: Network) -> Memory | TreeSums:
        """Check with neighbours that models and settings are the same, and return the memory."""
        run = compare_marks(self.links, network, self._marks(network), self._settings())
        kind = partial(
            TreeSums if self.rule.tree else InTurn if self.rule.turns else Broadcast,
            self.links,
            self.quantizer,
            self.seed,
            run,
        )
        return kind(self.old, network)

    def _expect(self) -> "PerLink":
        """Return the memory of links that may fail; neighbours are met at the first step."""
        from lessbits.neural.failing import PerLink
        from lessbits.training.peer_links import PeerLinks

        if not isinstance(self.links, PeerLinks):
            raise InputError(f"the links are {shown(self.links)}, but only PeerLinks may fail")
        model, _, settings = self._marks(self.links.network())
        run = run_number([model, settings])
        return PerLink(
            self.links, self.quantizer, self.seed, run, jnp.array(self.old), self.rule.turns, bool(self.rule.dual)
        )

    def _open(self) -> None:
        """Meet neighbours at the first step: a state may have been loaded until then."""
        if self.failing is None and not self.met:
            compare_exchanges(self.links, self.connected, self.exchanges)
        elif self.failing is not None and not self.met:
            links = self.failing.sites
            model, start, settings = (part.hex() for part in self._marks(links.network()))
            links.number = self.exchanges
            links.open(settings, model, start, 8 * self.layout.size + self.failing.codec.most_bytes)
        self.met = True

    def _rejoin(self, memory: "PerLink", x: jax.Array) -> jax.Array:
        """Begin links anew where needed, catch up with neighbours, and return the model to go on with.

        A process that has just been started, with neighbours that have not, takes the model of one.
        """
        reached, model = memory.begin(lambda: x, self.exchanges)
        self.steps += self.intervals.between(self.exchanges, reached)
        self.exchanges = reached
        self.dual = self.dual + separate(memory.recover() * self.rule.numbers.theta)
        if model is None:
            return x
        self.old = jnp.array(model)
        return model
