"""The rows of the table: methods, how each is tuned, and in which columns."""

import math
import time
from typing import NamedTuple

from columns import LARGE, MOST, SMALL, goal_of, parts
from hasty import fastest_gather, fastest_gossip, fastest_tree
from kin import choice_of
from measure import LINKS, SEEDS, measure, spent

from lessbits.tuning.attempts import neighbours
from lessbits.tuning.estimates import Choice, Constraints, estimate_bits, predictable_choices
from lessbits.tuning.fewest_bits import FewestBits

FINALISTS = 5  # of a search, that are run with three seeds
PAPER = (2, 3, 4, 5)  # the K of dit-K
STAR = ("star",)


class Row(NamedTuple):
    """A row: its title, whose method it is, and the columns that it is for, by how they begin."""

    title: str
    ours: bool = False
    only: tuple[str, ...] = ("",)
    method: str | None = None  # whose search it is, if that is not the name of the row
    quantizer: str | None = None  # if it is not to be searched
    link: str | None = None  # the kind of links that it is to be fastest on, in chunks


ROWS = {
    "uncompressed": Row("uncompressed gossip, float32"),
    "all-reduce": Row("all-reduce on a tree, float32", method="tree", quantizer="float32"),
    "algorithm-1": Row("Algorithm 1 as in the paper"),
    "choco": Row("Choco"),
    "lead": Row("LEAD"),
    "qdgd": Row("QDGD"),
    "c-gt": Row("C-GT"),
    "beer": Row("BEER"),
    "motef": Row("MoTEF"),
    "opapc": Row("OPAPC, float32"),
    "apapc": Row("APAPC, float32", only=("ridge", "w1a"), method="accelerated", quantizer="float32"),
    "diana": Row("DIANA", only=STAR),
    "dore": Row("DORE", only=STAR),
    "ef21": Row("EF21", only=STAR),
    "adiana": Row("ADIANA", only=STAR),
    "scaffnew": Row("Scaffnew, float32", only=STAR),
    "compressed-scaffnew": Row("CompressedScaffnew, float32", only=STAR),
    "locodl": Row("LoCoDL", only=STAR),
    "gossip": Row("our gossip, tuned", ours=True, method="primal-dual"),
    "gossip-practical": Row("our gossip, defaults", ours=True),
    "scheduled": Row("our scheduled gossip", ours=True, only=("ring", "star", "torus", "4-regular", "ridge")),
    "accelerated": Row("our accelerated gossip, tuned", ours=True, only=("ridge", "w1a")),
    "proximal": Row("our proximal gossip, tuned", ours=True, only=("ridge", "w1a")),
    "tree": Row("our tree, tuned", ours=True),
    "tree-practical": Row("our tree, defaults", ours=True),
}
for _link in LINKS:  # such as "1 Mbit/s, 50 ms"
    _name, _rate = _link.partition("/")[0].replace(" ", ""), _link.partition(",")[0]
    _sums = f"in chunks or all-gather for {_rate}"
    ROWS[f"all-reduce-{_name}"] = Row(f"all-reduce {_sums}, float32", method="tree", quantizer="float32", link=_link)
    ROWS[f"tree-{_name}"] = Row(f"our tree {_sums}", ours=True, method="tree", link=_link)
    ROWS[f"gossip-{_name}"] = Row(f"our gossip for {_rate}", ours=True, method="primal-dual", link=_link)
HASTY = ("uncompressed", "gossip", "accelerated")  # whose step sizes gossip for seconds starts from
SCALES = (0.8, 0.9, 1, 1.2)  # of first errors, that `scheduled` is tried with
SLOW = ("c-gt", "beer", "motef", "opapc")  # 1e-10 is searched around what was found for 1e-3
PATIENT = (
    "lead",
    "choco",
    "qdgd",
    "c-gt",
    "beer",
    "motef",
    "accelerated",
    "proximal",
)  # on ridge and w1a shorter runs are searched


class TimeUpError(Exception):
    """A search has taken its time."""


class Cell:
    """One row in one column."""

    def __init__(self, row, column, target, w1a=None, seeds=SEEDS, minutes=math.inf):
        self.row, self.column, self.target, self.w1a, self.seeds = row, column, target, w1a, seeds
        self.ends = time.monotonic() + 60 * minutes  # of the search
        self.problem, self.network = parts(column, 0, w1a)
        slow = column.startswith(("w1a", "ridge")) and row not in PATIENT
        # With d = 10 000 an error of 1e-3 is further away, and the paper's method has needed some 2600 of 3000 already.
        self.most = MOST[target] * (4 if slow else 2 if row == "algorithm-1" else 1)

    def measure(self, choice, sizes):
        return measure(*self.asked(choice, sizes))

    def asked(self, choice, sizes):
        return self.column, self.target, choice, sizes, 2 * self.most, self.w1a, self.seeds

    def best(self, searched, cost=None):
        """Search, and return what needs the fewest bits, or the least of another cost."""
        goal, say = goal_of(self.column), self.stop_in_time
        search = FewestBits(self.problem, self.network, self.target, goal, iterations=self.most, progress=say)
        try:
            searched(search)
        except TimeUpError:  # what was found until then counts
            found = self.best_of(search, cost)
            if found is None:
                raise  # nothing is known
            return {**found, "cut": True}
        return self.best_of(search, cost)

    def stop_in_time(self, line):
        print(f"  {time.strftime('%H:%M')} {line}", flush=True)
        if time.monotonic() > self.ends:
            raise TimeUpError

    def tuned(self):
        """Search for the fewest bits."""
        if self.row == "uncompressed":
            return self.uncompressed()
        if self.row == "algorithm-1":
            return self.paper()
        if self.row.endswith("-practical"):
            return self.practical()
        if self.row == "scheduled":
            return self.scheduled()
        row = ROWS[self.row]
        constraints = Constraints(quantizer=row.quantizer)
        return self.best(lambda search: search.search((row.method or self.row,), constraints))

    def uncompressed(self):
        """The primal-dual gradient method with numbers of 32 bits, tuned: the better of both steps."""

        def searched(search):
            for corrected in (False, True):
                search.refine(search.run(Choice("primal-dual", "float32", "broadcast", corrected)), ("theta", "eta"))

        return self.best(searched)

    def paper(self, tried=PAPER, tune=True, **start):
        """Algorithm 1 as in the paper: independent messages, η = 1/L, α = 1/(1+ω), θ tuned; the best of its dit-K."""

        def searched(search):
            for bits in tried:
                choice = Choice("primal-dual", f"dit-{bits}", "independent")
                omega = math.sqrt(self.problem.dim) / 2 ** (bits - 1)
                fixed = {"eta": 1 / self.problem.smoothness, "alpha": 1 / (1 + min(omega, omega**2))}
                method = choice.make(self.problem, self.network, **fixed, **start)
                sizes = {name: float(getattr(method, name)) for name in method.step_size_names}
                adopted = search.adopt(choice, sizes)
                if tune:
                    search.refine(adopted, ("theta",))

        return self.best(searched)

    def practical(self):
        """No tuning at all: tree as it is, or the gossip that is expected to send the fewest bits."""
        if self.row == "tree-practical":
            return self.measure(Choice("tree", "grid:10"), {})
        choices = predictable_choices("primal-dual", self.problem.dim, Constraints())
        return self.measure(estimate_bits(self.problem, self.network, 1e6, choices)[0].choice, {})

    def scheduled(self):
        """The schedule for this target, with the best of some scales."""
        choices = [Choice("scheduled", f"fading:{scale}:0.97") for scale in SCALES]
        found = [self.measure(choice, {"target": self.target}) for choice in choices]
        return min((each for each in found if each is not None), key=lambda each: each["bits"], default=None)

    def fastest(self, found):
        """What is fastest on a kind of links, tree or gossip, by what was found for the other rows of the column."""
        row = ROWS[self.row]
        if row.method == "tree":
            tree = fastest_tree(self, row.link, row.quantizer, found["all-reduce" if row.quantizer else "tree"])
            return self.or_gather(tree)
        return fastest_gossip(self, row.link, [found[name] for name in HASTY if found[name]])

    def or_gather(self, found):
        """Return what was found of trees, or all-gather if that is faster."""
        row = ROWS[self.row]
        both = [each for each in (found, fastest_gather(self, row.link, row.quantizer)) if each]
        return min(both, key=lambda each: each["seconds"][row.link], default=None)

    def scaled_up(self, found, tune):
        """Take what was found for a smaller dimension, with levels for this one, and tune step sizes if asked to."""
        if found is None or self.row.endswith("-practical"):
            return None if found is None else self.practical()
        if self.row == "algorithm-1":  # ω stays about the same where 2^K grows as √d
            bits = int(found["quantizer"].removeprefix("dit-")) + math.log2(LARGE / SMALL) / 2
            return self.paper((math.floor(bits), math.ceil(bits)), tune, theta=found["sizes"]["theta"])

        def searched(search):
            tried = [search.adopt(choice, found["sizes"]) for choice in scaled(found)]
            if tune:
                search.refine(min(tried, key=lambda each: each.rank), tuple(found["sizes"]))

        return cut_like(found, self.best(searched))

    def again(self, found):
        """Measure what was found once more. What is not tuned is chosen anew."""
        if self.row.endswith("-practical"):
            return self.practical()
        if found is None:
            return None
        return cut_like(found, self.measure(choice_of(found), found["sizes"]))

    def refined(self, found, kin=()):
        """Search around what was found: quantizers a little coarser and finer, and step sizes.

        Choices and step sizes of `kin` are tried too.
        """
        if ROWS[self.row].link and ROWS[self.row].method == "tree":
            return self.or_gather(found)
        if found is None or self.row.endswith("-practical") or self.row == "scheduled" or ROWS[self.row].link:
            return self.again(found)
        fixed = self.row == "algorithm-1" or found["quantizer"] == "float32"
        names = ("theta",) if self.row == "algorithm-1" else tuple(found["sizes"])

        def searched(search):
            choices = [choice_of(found), *([] if fixed else neighbours(choice_of(found)))]
            tried = [search.adopt(each, found["sizes"]) for each in choices]
            tried += [search.adopt(each, sizes) if sizes else search.run(each) for each, sizes in kin]
            search.refine(min(tried, key=lambda each: each.rank), names)

        best, before = self.best(searched), self.again(found)
        return cut_like(
            found, min((each for each in (before, best) if each), key=lambda each: each["bits"], default=None)
        )

    def best_of(self, search, cost=None):
        """Return what costs least with three seeds: the winner with one may not."""
        cost = cost or (lambda iterations, bits: bits)
        reached = [each for each in search.tried.values() if each.reached]
        ranked = sorted(reached, key=lambda each: cost(each.outcomes[0].iterations, each.bits))
        few = FINALISTS if self.problem.dim < LARGE else 3
        costs = []
        for place, each in enumerate(ranked[:few]):
            means = spent(*self.asked(each.choice, each.sizes))
            if means is not None:
                costs.append((cost(*means), place))
        return self.measure(ranked[min(costs)[1]].choice, ranked[min(costs)[1]].sizes) if costs else None


def cut_like(start, found):
    """Return what was found from a start; if the search for that was cut short, so was this one."""
    return {**found, "cut": True} if found and start.get("cut") else found


def scaled(found):
    """The same choice for d = 10 000, a little coarser and finer: levels grow as √d."""
    choice = choice_of(found)
    kind, _, levels = choice.quantizer.partition(":")
    grow = math.sqrt(LARGE / SMALL) if kind in ("dither", "subtractive") else 1
    near = (0.8, 1, 1.25) if levels.isdigit() else ()
    names = {f"{kind}:{max(1, round(int(levels) * grow * factor))}" for factor in near} or {choice.quantizer}
    return [choice._replace(quantizer=name) for name in sorted(names)]
