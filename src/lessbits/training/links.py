"""What carries bytes between neighbours. Any engine with these few functions can train a model."""

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lessbits._internal.wording import counted
from lessbits.errors import InputError, WireError, check_whole
from lessbits.networks import Network

PATIENCE = 600.0  # seconds without a message after which a neighbour is taken for lost
LEAVE_SECONDS = 1.0  # for which threads may end by themselves after an error of one


class Reached(NamedTuple):
    """How far a node is: its local steps, and the exchanges that it has done."""

    steps: int = 0
    exchanges: int = 0


class EndedError(InputError):
    """A node waits for another one that has ended."""


class Links(ABC):
    """Bytes to and from neighbours. All nodes of a network call `exchange` in the same order."""

    node: int  # the number of this node
    nodes: int
    reaches_all = False  # whether nodes that are no neighbours can exchange, too
    steady = True  # whether all neighbours are there from the first exchange to the last
    reached = Reached()  # how far this node is, as neighbours are told when it ends
    closed = False  # whether neighbours were told so
    under_way: threading.Thread | None = None  # an exchange in a thread of its own, which ends before the links do

    @abstractmethod
    def exchange(self, frames: Mapping[int, bytes]) -> dict[int, bytes]:
        """Send bytes to some neighbours, and return what those sent to this node."""

    def network(self) -> Network | None:
        """Return the network that these links are; None if any network will do."""
        return None

    def allow_overlap(self) -> None:
        """Prepare for `exchange` in another thread, while a model is trained, or raise an `InputError`."""
        return

    def close(self) -> None:
        """Release what the links hold, and tell neighbours that this node has ended."""
        return

    def check_open(self) -> None:
        """Raise if this node has said that it has ended."""
        if self.closed:
            raise InputError(f"node {self.node} exchanges after it was closed: call close after the last step")

    def missed(self, other: int, theirs: Reached) -> EndedError:
        """Return the error of a node that waits for a neighbour that has ended."""
        done = f"{counted(theirs.steps, 'step')} and {counted(theirs.exchanges, 'exchange')}"
        return EndedError(
            f"node {other} has ended after {done}, but node {self.node} waits for it after "
            f"{counted(self.reached.steps, 'step')}: unless that node tells of an error of its own, give all nodes the "
            "same number of steps, even if they have different numbers of batches, and states of the same step"
        )


class NoLinks(Links):
    """A single node without neighbours."""

    node, nodes = 0, 1

    def exchange(self, frames: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return nothing: there is nobody."""
        if frames:
            raise InputError(f"there are messages for nodes {sorted(frames)}, but this node is alone")
        return {}


class ThreadLinks(Links):
    """Nodes that are threads of one process, for tests and for trying a training loop."""

    reaches_all = True

    def __init__(self, node: int, boxes: dict[tuple[int, int], "queue.Queue[bytes | Reached]"], nodes: int) -> None:
        self.node, self.boxes, self.nodes = node, boxes, nodes

    @classmethod
    def make(cls, nodes: int) -> list["ThreadLinks"]:
        """Return the links of each node."""
        boxes: dict[tuple[int, int], queue.Queue[bytes | Reached]] = {
            (here, there): queue.Queue() for here in range(nodes) for there in range(nodes) if here != there
        }
        return [cls(node, boxes, nodes) for node in range(nodes)]

    def exchange(self, frames: Mapping[int, bytes]) -> dict[int, bytes]:
        """Put the frames into the boxes of the others, and wait for theirs."""
        self.check_open()
        for other, frame in frames.items():
            self.boxes[self.node, other].put(bytes(frame))
        return {other: self._take(other) for other in frames}

    def _take(self, other: int) -> bytes:
        box = self.boxes[other, self.node]
        try:
            found = box.get(timeout=PATIENCE)
        except queue.Empty:
            raise WireError(f"node {self.node} had no message for {PATIENCE:g} s") from None
        if isinstance(found, Reached):
            box.put(found)  # nothing follows it
            raise self.missed(other, found)
        return found

    def close(self) -> None:
        """Tell the others that no more messages come. `run` does so at the end of each function."""
        if self.under_way is not None:
            self.under_way.join()
        if not self.closed:
            self.closed = True
            for other in range(self.nodes):
                if other != self.node:
                    self.boxes[self.node, other].put(self.reached)

    @staticmethod
    def run(nodes: int, function: Callable[["ThreadLinks"], Any]) -> list[Any]:
        """Call a function in a thread for each node, and return the results; raise an error that came first.

        An error that others have because a node has ended comes after the error of that node.
        """
        results: list[Any] = [None] * check_whole("nodes", nodes, 1)
        errors: dict[int, BaseException] = {}

        def work(links: ThreadLinks) -> None:
            try:
                results[links.node] = function(links)
            except BaseException as error:
                errors[links.node] = error
            finally:
                links.close()

        threads = [threading.Thread(target=work, args=(links,), daemon=True) for links in ThreadLinks.make(nodes)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not errors:
            for thread in threads:
                thread.join(timeout=0.05)
        if errors:
            known = dict(errors)
            last = time.monotonic() + LEAVE_SECONDS
            for thread in threads:
                thread.join(max(0.0, last - time.monotonic()))
            first = [node for node, error in known.items() if not isinstance(error, EndedError)]
            raise known[min(first) if first else next(iter(known))]
        return results


def differ(what: str, who: str) -> str:
    """Return in one line what two nodes do not have in common: the model, the start or the settings."""
    if what == "model":
        return f"{who} have different models: names, shapes and types of all trained tensors must be the same"
    if what == "start":
        return (
            f"{who} start from different numbers, in what is trained or in what is frozen: set the same seed before "
            "the model is made (threads share one generator: copy one model for each); to go on with a run, make the "
            "Gossip first, and then load the model's state and the Gossip's"
        )
    settings = "every, quantizer, seed, rule, overlap and network"
    return f"{who} have different settings: {settings} must be the same at all nodes"
