"""Sites on this machine that train a small network on digits; run as a program, it is one of them."""

import json
import os
import sys
import time

import torch
from sklearn.datasets import load_digits

from lessbits.torch import Gossip, Rule

NAMES = ("berlin", "paris", "rome")
EVERY, BATCH = 10, 32
PAUSE = 0.02  # seconds of a step: the steps that a process misses depend on it
RULE = Rule(dual=0.1, momentum=0.3)


def make_model():
    generator = torch.Generator().manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def data():
    digits = load_digits()
    return torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)


def loss_of(model):
    """The loss on digits that nobody trains on."""
    inputs, labels = (part[::5] for part in data())
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(model(inputs), labels))


def train(model, gossip, steps, at_step=lambda step: None):
    """Train on the digits of one node: half of them of three or four classes, half of all."""
    kept = torch.arange(1797) % 5 > 0
    inputs, labels = (part[kept] for part in data())
    order, node = torch.argsort(labels, stable=True), gossip.links.node
    own = torch.cat([order[node * len(order) // 3 :][: len(order) // 3], order[node::3]])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=0.005)
    while gossip.steps < steps:
        step = gossip.steps
        at_step(step)
        generator = torch.Generator().manual_seed(10_000 * node + step)
        batch = own[torch.randint(len(own), (BATCH,), generator=generator)]
        optimizer.param_groups[0]["lr"] = 0.2 * (1 - step / steps)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()
        gossip.step()


def main():
    """Train one site: FILE, STEPS, the step at which it dies (0: never), a file for which it waits ("": none)."""
    file, steps, last, gate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    model = make_model()
    while gate and not os.path.exists(gate):
        time.sleep(0.02)
    gossip = Gossip(model, EVERY, rule=RULE, site=file)
    seen = []

    def at_step(step):
        time.sleep(PAUSE)
        seen.append(step)
        if last and step == last:
            os.kill(os.getpid(), 9)

    train(model, gossip, steps, at_step)
    gossip.close()
    told = {"loss": loss_of(model), "exchanges": gossip.exchanges, "bits": gossip.bits, "seen": len(seen)}
    print(json.dumps({**told, "jax": "jax" in sys.modules}), flush=True)


if __name__ == "__main__":
    main()
