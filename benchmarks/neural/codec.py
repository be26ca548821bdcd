"""Speed and length of messages with a scale per block, on one core.

    python benchmarks/neural/codec.py [FILE.npz …]

Prints bits per coordinate beside the entropy of each block's levels with 16 bits for its scale, and MB of float32 per
second of a core's own time for encoding and decoding: of random numbers, or of levels that were saved with `--levels`.
"""

import sys
import time

import numpy as np

from lessbits._internal.blocks import BLOCK, BlockPayload, block_sizes, level_type, most_level
from lessbits.codecs.block import BlockCodec

SIZE = 800 * BLOCK
SPACINGS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)


def entropy(levels):
    """Return bits per coordinate of levels [blocks, 4096] under each block's own frequencies, and of its scale."""
    total = 16.0 * len(levels)
    for level in np.unique(levels):
        share = np.mean(levels == level, axis=1)
        total -= BLOCK * np.sum(share * np.log2(np.where(share > 0, share, 1)))
    return total / levels.size


def rates(levels, most):
    """Return bits per coordinate, and bytes of float32 per second of both directions."""
    codec = BlockCodec(block_sizes([levels.size]), most, levels.dtype)
    payload = BlockPayload(levels.ravel(), np.ones(len(levels), np.float32))
    body, seconds = codec.encode(payload), []
    for function, given in ((codec.encode, payload), (codec.decode, body)):
        times = []
        for _ in range(5):
            start = time.process_time()
            function(given)
            times.append(time.process_time() - start)
        seconds.append(min(times))
    assert np.array_equal(codec.decode(body).levels, payload.levels)
    return 8 * len(body) / levels.size, *(4 * levels.size / each for each in seconds)


def main(paths):
    print("| levels | bits | entropy | encode, MB/s | decode, MB/s |\n|---|---|---|---|---|")
    random = np.random.default_rng(0)
    rows = []
    for law in ("normal", "laplace"):
        values = getattr(random, law)(size=(SIZE // BLOCK, BLOCK))
        values /= np.sqrt(np.mean(values**2, axis=1, keepdims=True))
        for spacing in SPACINGS:
            most = most_level(spacing, BLOCK)
            rows.append((f"{law}, block:{spacing:g}", np.rint(values / spacing).astype(level_type(most)), most))
    for path in paths:
        rows.append((path, np.load(path)["levels"].reshape(-1, BLOCK), 15))
    for name, levels, most in rows:
        bits, encoded, decoded = rates(levels, most)
        print(f"| {name} | {bits:.3f} | {entropy(levels):.3f} | {encoded / 1e6:.0f} | {decoded / 1e6:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
