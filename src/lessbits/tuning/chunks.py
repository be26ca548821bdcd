"""How many chunks make a sweep over a tree fastest."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from lessbits.codecs import make_codec
from lessbits.codecs.frames import header_bytes
from lessbits.engines.recording.trace import LinkModel
from lessbits.methods.base import Method
from lessbits.methods.request import MethodRequest
from lessbits.networks.tree import spanning_tree
from lessbits.tuning.estimates import message_bits

SCALE_BITS = 24  # of a message, besides its header: the spacing, and which code its levels have


def with_fastest_chunks(kind: type[Method], request: MethodRequest, link: LinkModel | None) -> MethodRequest:
    """Return the request with the fastest number of chunks, if the method takes chunks."""
    return replace(request, chunks=fastest_chunks(request, link)) if kind.takes_chunks else request


def fastest_chunks(request: MethodRequest, link: LinkModel | None) -> int:
    """Return the number of chunks that a tree needs the least time with, by the model of a link; 1 without a model.

    A sweep over a tree of height h takes h + C - 1 exchanges. Each takes the latency, and the time to send a message:
    what every message has besides its coordinates, and the share of a chunk in the bits of a Gaussian vector. Hessians
    that go with the first gradients do not count.
    """
    dim, quantizer = request.problem.dim, request.quantizer
    if link is None or np.isinf(link.bandwidth):
        return 1
    codec = make_codec(quantizer, dim, dtype=np.dtype(jnp.result_type(float)))
    whole = 8.0 * codec.body_bytes if codec.body_bytes is not None else message_bits(quantizer, dim)
    besides = 8 * header_bytes(codec) + SCALE_BITS
    counts = np.arange(1, dim + 1)
    length = besides + max(whole - besides, 0) * np.ceil(dim / counts) / dim
    sweep = spanning_tree(request.network).height + counts - 1
    return int(counts[np.argmin(sweep * (link.latency + length / link.bandwidth))])
