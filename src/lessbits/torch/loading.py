"""Whether values were loaded into a model after it was wrapped, without what gossip keeps beside them.

To gossip, a loaded model is one that has moved far in an interval: momentum would multiply the move.
"""

import hashlib
import weakref
from typing import Any

import torch

from lessbits._internal.logging import logger
from lessbits.errors import InputError
from lessbits.torch.layout import Layout


class _Hook:
    """What a module calls before it loads values. It keeps no Gossip alive, and copies of a module do not call it."""

    def __init__(self, loading: "Loading") -> None:
        self.loading = weakref.ref(loading)

    def __call__(self, *_: Any) -> None:
        if (loading := self.loading()) is not None:
            loading.begin()

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, ("", "format")  # which does nothing, and needs no lessbits where the module is unpickled


class Loading:
    """The loads of a wrapped model since the last step."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.before = b""  # a digest of the values before the first load; empty if there was none
        self.complete = False  # whether the state of Gossip was loaded, too
        for module in layout.model.modules():
            module._register_load_state_dict_pre_hook(_Hook(self))

    def begin(self) -> None:
        """Note the values that are there before a load."""
        self.before = self.before or self._digest()

    def check(self) -> None:
        """Raise if values were loaded since the last step, but not the state of Gossip."""
        if self.before and not self.complete and self._digest() != self.before:
            raise InputError(
                "a state was loaded into the model after it was wrapped: load it before Gossip(model), or, to go on "
                "with a run, load what was saved of gossip.state_dict() too"
            )
        if self.complete and not self.before:
            logger.warning(
                "a state of Gossip was loaded, but none into the model: to go on with a run, load what was saved of "
                "model.state_dict() too"
            )
        self.before, self.complete = b"", False

    @torch.no_grad()
    def _digest(self) -> bytes:
        found = hashlib.sha256()
        for entry in self.layout.entries:
            found.update(entry.tensor.reshape(-1).contiguous().view(torch.uint8).cpu().numpy().data)
        return found.digest()
