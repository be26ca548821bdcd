"""Bodies of messages to neighbours as checked frames, and back."""

from collections.abc import Mapping

from lessbits.codecs.base import Codec
from lessbits.codecs.frames import Place, seal, unseal
from lessbits.training.links import Links


def sealed(links: Links, bodies: Mapping[int, bytes], run: int, turn: int) -> dict[int, bytes]:
    """Return the frame of each body, by neighbour; its check says to which exchange and link it belongs."""
    here, nodes = links.node, links.nodes
    return {other: seal(body, Place(run, turn, here * nodes + other, 0)) for other, body in bodies.items()}


def opened(links: Links, other: int, frame: bytes, run: int, turn: int, codec: Codec) -> bytes:
    """Return the body of a frame that a neighbour sent, checked."""
    return unseal(frame, Place(run, turn, other * links.nodes + links.node, 0), codec)
