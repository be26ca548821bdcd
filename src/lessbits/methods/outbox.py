"""The messages of an iteration, as arrays: an outbox before they are carried, an inbox after."""

from typing import Any

import jax

from lessbits._internal.pytrees import pytree, static, take_rows
from lessbits.quantizers.base import Payload


@pytree
class Message:
    """Payloads that are sent together: one per link, or one per node that goes to every neighbour.

    In an inbox there is one payload per link: the one received along the reverse link. Read it with `take`; `active`
    then says which have arrived. A random compressor draws from `message_draws`, so that the receiver can draw the same
    numbers.

    Attributes:
        payload: The payloads, stacked by row.
        per_link: Whether a row belongs to a link. Otherwise it belongs to a node.
        active: The links on which the message is sent; None for all.
        awaited: The links on which a message comes back; None for all. Receivers know it, so silence costs no bits.
        source: In an inbox, the row received along each link; None if rows are links already.
        round: How many messages each link has sent before, if that is not the iteration: random numbers then use it.
    """

    payload: Payload
    per_link: bool = static()
    active: jax.Array | None = None  # [links of this process]
    awaited: jax.Array | None = None  # [links of this process]
    source: jax.Array | None = None
    round: jax.Array | None = None  # [links of this process]

    def take(self, links: Any) -> Payload:
        """Return the payloads of the given links, without first making a copy for all links."""
        return take_rows(self.payload, links if self.source is None else self.source[links])


Outbox = tuple[Message, ...]
