"""Bodies of messages to neighbours as checked frames, and back."""

from collections.abc import Mapping

from lessbits._internal.blocks import BlockPayload
from lessbits.codecs.block import BlockCodec
from lessbits.codecs.frames import Place, seal, unseal
from lessbits.training.links import Links


def sealed(links: Links, bodies: Mapping[int, bytes], run: int, turn: int) -> dict[int, bytes]:
    """Return the frame of each body, by neighbour; its check says to which exchange and link it belongs."""
    here, nodes = links.node, links.nodes
    return {other: seal(body, Place(run, turn, here * nodes + other, 0)) for other, body in bodies.items()}


def opened(
    links: Links, frames: Mapping[int, bytes], run: int, turn: int, codec: BlockCodec
) -> dict[int, BlockPayload]:
    """Return the payloads of frames that came, as NumPy arrays, by neighbour."""
    here, nodes = links.node, links.nodes
    return {
        other: codec.decode(unseal(frame, Place(run, turn, other * nodes + here, 0), codec))
        for other, frame in frames.items()
    }
