"""Time and memory of an exchange with `lessbits.torch`, on one core, beside a step of training.

    python benchmarks/neural/step.py [--device cuda]

A GPT of the size of the experiment (3.2 million parameters) at two nodes that are threads. Times are of node 0: a step
of AdamW with 16 blocks of 128 characters, and the parts of an exchange; then both directions with other quantizers.
Memory is what `Gossip` keeps.
"""

import copy
import sys
import time

import torch
from torch import nn

from lessbits.torch import Gossip, ThreadLinks
from lessbits.torch.pieces import Pieces

QUANTIZERS = ("block:1", "block:1.5", "block-dither:1", "block-top:64", "block:1:tensor", "exact")
LAYERS, WIDTH, HEADS, BLOCK, WORDS, BATCH = 4, 256, 4, 128, 65, 16


class Model(nn.Module):
    """A character GPT made of PyTorch's own layers."""

    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.zeros(BLOCK, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1], device=text.device)
        return self.head(self.layers(self.token(text) + self.position, mask=mask, is_causal=True))


def seconds(function, times=3):
    """Return the shortest of some calls, in time of the core itself on a CPU, which other programs do not lengthen."""
    found, clock = [], time.perf_counter if "cuda" in sys.argv else time.process_time
    for _ in range(times):
        start = clock()
        function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        found.append(clock() - start)
    return min(found)


def main(device):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(WORDS, (BATCH, BLOCK + 1), device=device)

    def train():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    def one(links):
        gossip = Gossip(copy.deepcopy(model), links=links)
        for parameter in gossip.layout.model.parameters():
            parameter.data += 1e-3 * torch.randn_like(parameter)
        gossip.exchange()
        return gossip

    gossip = ThreadLinks.run(2, one)[0]
    size, pieces = gossip.layout.size, gossip.pieces
    difference = 1e-3 * torch.randn(size, device=device)

    def quantize():
        return [piece.quantizer.quantize(difference[piece.part]) for piece in pieces]

    def encode():
        quantized = ((piece, piece.quantizer.quantize(difference[piece.part])) for piece in pieces)
        return pieces.codec.join(piece.codec.encode(piece.quantizer.to_host(payload)) for piece, payload in quantized)

    def add(payloads):
        for piece, payload in zip(pieces, payloads, strict=True):
            piece.add(difference, payload, 0.0)

    payloads, body = quantize(), encode()
    rows = [
        ("a training step", seconds(train)),
        ("quantize", seconds(quantize)),
        ("encode, with quantizing", seconds(encode)),
        ("decode", seconds(lambda: pieces.codec.decode(body))),
        ("add a decoded message", seconds(lambda: add(payloads))),
    ]
    kept = sum(tensor.numel() for tensor in gossip._tensors().values()) * 4
    print(f"{size} parameters, {len(body) * 8 / size:.3f} bits each, {kept / 4 / size:.1f} float32 vectors kept")
    for name, taken in rows:
        print(f"{name:>24}: {1e3 * taken:8.1f} ms, {4 * size / taken / 1e6:8.0f} MB/s of float32")
    step, _, encoding, decoding, adding = (taken for _, taken in rows)
    exchange = encoding + decoding + 3 * adding
    for every in (20, 60):
        share = exchange / (every * step + exchange)
        print(f"compression takes {100 * share:.2f} % of training with every={every}, on {device}")
    compare(gossip.layout, device)


def compare(layout, device):
    """Print how fast both directions are with each kind of quantizer, quantizing included."""
    difference = 1e-3 * torch.randn(layout.size, device=device)
    print("| quantizer | bits | quantize and encode, MB/s | decode and add, MB/s |\n|---|---:|---:|---:|")
    for name in QUANTIZERS:
        pieces = Pieces(name, layout.names, layout.sizes)

        def send(pieces=pieces):
            return [
                piece.codec.encode(piece.quantizer.to_host(piece.quantizer.quantize(difference[piece.part], (1, 2))))
                for piece in pieces
            ]

        def take(bodies, pieces=pieces):
            for piece, body in zip(pieces, bodies, strict=True):
                decoded = piece.quantizer.from_host(piece.codec.decode(body), difference.device)
                piece.add(difference, decoded, 0.0)

        bodies = send()
        bits = 8 * sum(map(len, bodies)) / layout.size
        speeds = (4e-6 * layout.size / seconds(each) for each in (send, lambda bodies=bodies: take(bodies)))
        print(f"| `{name}` | {bits:.2f} | {' | '.join(f'{speed:.0f}' for speed in speeds)} |")


if __name__ == "__main__":
    main("cuda" if "cuda" in sys.argv else "cpu")
