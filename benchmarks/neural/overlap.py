"""What overlap costs in loss, and gains in time over a slow link.

    python benchmarks/neural/overlap.py [--quick | --time]

Digits with a few classes at each of 4 nodes (Dirichlet 0.1), a small network, the same steps with and without overlap:
the loss of the mean model on digits that nobody trains on, of three seeds. Then two nodes whose link carries so many
Mbit/s (a sleep), with steps of a fixed time: seconds of a run, which do not depend on how fast the machine is.
"""

import sys
import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from lessbits.datasets import split_labels
from lessbits.torch import Gossip, Links, Rule, ThreadLinks

NODES, EVERY, STEPS, BATCH = 4, 10, 600, 32
RATE, STEP_SECONDS, SLOW_STEPS = 1e6, 0.01, 200  # bits per second, seconds of a step


class SlowLinks(Links):
    """Links that take as long as the bytes need at a given speed; both directions at once."""

    def __init__(self, links, rate):
        self.links, self.node, self.nodes, self.rate = links, links.node, links.nodes, rate

    def exchange(self, frames):
        time.sleep(8 * sum(map(len, frames.values())) / self.rate)
        return self.links.exchange(frames)


def make_model(seed):
    """Return a small network, the same at all nodes."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.15 * torch.randn(parameter.shape, generator=random))
    return model


def digits_loss(seed, every, overlap, steps):
    """Return the loss of the mean model, and the largest of a node's own."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    inputs, targets = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
    parts = split_labels(labels[order][:1400], NODES, concentration=0.1, seed=seed)

    def one(links):
        model, mine = make_model(seed), torch.from_numpy(parts[links.node])
        gossip = Gossip(model, every, links=links, overlap=overlap)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        random = torch.Generator().manual_seed(100 * seed + links.node)
        for _ in range(steps):
            batch = mine[torch.randint(len(mine), (BATCH,), generator=random)]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
            optimizer.step()
            gossip.step()
        gossip.finish()
        return nn.utils.parameters_to_vector(model.parameters()).detach()

    def loss(vector):
        model = make_model(seed)
        nn.utils.vector_to_parameters(vector, model.parameters())
        with torch.no_grad():
            return float(nn.functional.cross_entropy(model(inputs[1400:]), targets[1400:]))

    found = ThreadLinks.run(NODES, one)
    return loss(torch.stack(found).mean(0)), max(map(loss, found))


def slow_seconds(overlap):
    """Return the seconds of a run over a slow link, and the seconds for which node 0 waited."""

    def one(links):
        model = nn.Linear(500, 500)
        nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
        gossip = Gossip(model, EVERY, "block:1.5", links=SlowLinks(links, RATE), rule=Rule(), overlap=overlap)
        random = torch.Generator().manual_seed(links.node)
        began = time.monotonic()
        for _ in range(SLOW_STEPS):
            time.sleep(STEP_SECONDS)
            model.weight.data += 1e-3 * torch.randn(model.weight.shape, generator=random)
            gossip.step()
        gossip.finish()
        return time.monotonic() - began, gossip.waited, gossip.bits / gossip.exchanges

    return ThreadLinks.run(2, one)[0]


def main(quick, losses):
    torch.set_num_threads(1)
    steps = 100 if quick else STEPS
    for every in (EVERY, 2 * EVERY) if losses else ():
        for overlap in (False, True):
            rows = [digits_loss(seed, every, overlap, steps) for seed in range(1 if quick else 3)]
            losses = ", ".join(f"{mean:.4f} ({worst:.4f})" for mean, worst in rows)
            print(f"digits, every={every}, overlap={overlap}: loss of the mean model (worst node) {losses}", flush=True)
    taken = {overlap: slow_seconds(overlap) for overlap in (False, True)}
    for overlap, (seconds, waited, bits) in taken.items():
        print(
            f"{RATE / 1e6:g} Mbit/s, intervals of {EVERY * STEP_SECONDS:.2f} s, messages of {bits / RATE:.2f} s, "
            f"overlap={overlap}: {seconds:.2f} s, of which {waited:.2f} s waiting"
        )
    print(f"overlap gain: {taken[False][0] / taken[True][0]:.2f} times faster", flush=True)


if __name__ == "__main__":
    main("--quick" in sys.argv, "--time" not in sys.argv)
