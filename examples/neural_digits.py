"""Four processes train a convolutional network on digits, each with a few classes only, and send a few bits.

Each process trains with its own samples, dealt by class in Dirichlet(0.1) proportions: first alone, then with
`lessbits.torch.Gossip` around the same loop. Run alone, this file starts itself with `lessbits launch`.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import lessbits.torch
from lessbits.datasets import split_labels

NODES, EVERY, BATCH = 4, 10, 32


def make_model() -> nn.Module:
    """Return a small network, the same at all nodes."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def load(node: int, nodes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the samples of a node, and those that nobody trains with."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    inputs = torch.tensor(images[order] / 8 - 1, dtype=torch.float32).reshape(-1, 1, 8, 8)
    targets = torch.tensor(labels[order])
    mine = torch.from_numpy(split_labels(labels[order][:1400], nodes, concentration=0.1, seed=0)[node])
    return inputs[mine], targets[mine], inputs[1400:], targets[1400:]


def train(steps: int, together: bool) -> tuple[float, "lessbits.torch.Gossip"]:
    """Return the accuracy of this node's model after training, and what exchanged it."""
    model = make_model()
    gossip = lessbits.torch.Gossip(model, every=EVERY, quantizer="block:1.0", network="ring")
    node, nodes = gossip.links.node, gossip.links.nodes
    inputs, targets, new_inputs, new_targets = load(node, nodes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    random = torch.Generator().manual_seed(1 + node)
    for _ in range(steps):
        batch = torch.randint(len(targets), (BATCH,), generator=random)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
        if together:
            gossip.step()
    with torch.no_grad():
        return float((model(new_inputs).argmax(1) == new_targets).float().mean()), gossip


def main(steps: int) -> None:
    """Train alone and together, and print both."""
    (alone, _), (together, gossip) = train(steps, together=False), train(steps, together=True)
    accuracy = f"accuracy {100 * alone:.1f}% alone, {100 * together:.1f}% together"
    # In one piece, as four processes print at the same time.
    print(f"node {gossip.links.node}: {accuracy}; {gossip.report()}\n", end="", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--node", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.node or "LESSBITS_RANKS" in os.environ:  # which `lessbits launch` sets
        main(300 if given.quick else 1000)
    else:
        flags = ["--node", *(["--quick"] if given.quick else [])]
        command = ["launch", "--nodes", str(NODES), str(Path(__file__).resolve()), *flags]
        done = subprocess.run([sys.executable, "-m", "lessbits", *command], stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="")
        if done.returncode:
            raise SystemExit(done.returncode)
