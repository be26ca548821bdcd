"""One process of `processes.py`: trains a small character GPT in one of several ways, and notes its model on the side.

python process_worker.py SETTINGS.json NODE
"""

import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

LAYERS, WIDTH, HEADS, BLOCK, WORDS, NODES = 2, 128, 4, 64, 65, 4
WARM_UP = 20
COUNTER = Path("/sys/class/net/site/statistics/tx_bytes")


class Model(nn.Module):
    """A character GPT made of PyTorch's own layers."""

    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.zeros(BLOCK, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)
        self.token.weight.data *= 0.02

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        return self.head(self.layers(self.token(text) + self.position, mask=mask, is_causal=True))


def load(path):
    """Return the first 90 % of the text in a contiguous part for each node, and 100 blocks of the rest."""
    text = np.frombuffer(Path(path).read_bytes(), np.uint8)
    numbers = torch.from_numpy(np.searchsorted(np.unique(text), text).astype(np.int64))
    size = len(numbers) * 9 // 10
    held_out = torch.stack([numbers[size + row * BLOCK :][: BLOCK + 1] for row in range(100)])
    return numbers[: size // NODES * NODES].reshape(NODES, -1), held_out


def loss_of(model, text):
    """Return the mean cross entropy of the next character."""
    return nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


class AllReduced:
    """DDP with gloo, plain or with the PowerSGD hook: gradients are averaged in the backward pass."""

    def __init__(self, model, settings, node):
        import torch.distributed as dist

        start_gloo(settings, node)
        # With gloo, the collectives of two buckets of the PowerSGD hook may meet: all gradients in one.
        large = {"bucket_cap_mb": 100} if settings["way"] == "powersgd" else {}
        self.model = nn.parallel.DistributedDataParallel(model, **large)
        if settings["way"] == "powersgd":
            from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hooks

            rank = settings["rank"]
            state = hooks.PowerSGDState(dist.group.WORLD, matrix_approximation_rank=rank, start_powerSGD_iter=2)
            self.model.register_comm_hook(state, hooks.powerSGD_hook)

    def step(self):
        return


def start_gloo(settings, node):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=settings["meet"], rank=node, world_size=NODES)


class DiLoCo:
    """The change of an interval is averaged exactly, and an outer Nesterov step taken with it."""

    def __init__(self, model, settings, node):
        start_gloo(settings, node)
        self.model, self.every, self.count = model, settings["every"], 0
        self.old = [parameter.detach().clone() for parameter in model.parameters()]
        self.outer = torch.optim.SGD(self.old, settings["outer"], settings["momentum"], nesterov=True)

    def step(self):
        import torch.distributed as dist

        self.count += 1
        if self.count % self.every:
            return
        with torch.no_grad():
            change = torch.cat(
                [(old - new).flatten() for old, new in zip(self.old, self.model.parameters(), strict=True)]
            )
            dist.all_reduce(change)
            parts = change.div_(NODES).split([old.numel() for old in self.old])
            for old, part in zip(self.old, parts, strict=True):
                old.grad = part.view(old.shape)
            self.outer.step()
            for old, new in zip(self.old, self.model.parameters(), strict=True):
                new.copy_(old)


class Gossiped:
    """`lessbits.torch.Gossip` over MPI."""

    def __init__(self, model, settings, node):
        from lessbits.torch import Gossip, Rule

        self.model = model
        rule = Rule(**settings["rule"])
        self.gossip = Gossip(model, settings["every"], settings["quantizer"], rule=rule, overlap=settings["overlap"])

    def step(self):
        self.gossip.step()


class Hivemind:
    """`hivemind.Optimizer`: local steps, and models averaged when all together have seen so many samples."""

    def __init__(self, model, settings, node):
        import hivemind

        self.model, folder = model, Path(settings["folder"])
        peers = None
        while node and peers is None:
            time.sleep(0.1)
            peers = (folder / "peers").read_text().split() if (folder / "peers").exists() else None
        address = f"/ip4/{settings['addresses'][node]}/tcp/7020"
        self.dht = hivemind.DHT(initial_peers=peers, host_maddrs=[address], start=True)
        if not node:
            (folder / "peers.new").write_text(" ".join(map(str, self.dht.get_visible_maddrs())))
            (folder / "peers.new").rename(folder / "peers")
        self.optimizer = hivemind.Optimizer(
            dht=self.dht,
            run_id="benchmark",
            batch_size_per_step=settings["batch"],
            target_batch_size=NODES * settings["batch"] * settings["every"],
            params=model.parameters(),
            optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=settings["peak"]),
            use_local_updates=True,
            matchmaking_time=2.0,
            averaging_timeout=60.0,
            verbose=True,
        )

    def step(self):
        return


class Alone:
    """No exchange at all."""

    def __init__(self, model, settings, node):
        self.model = model

    def step(self):
        return


WAYS = {
    "ddp": AllReduced,
    "powersgd": AllReduced,
    "diloco": DiLoCo,
    "lessbits": Gossiped,
    "alone": Alone,
    "hivemind": Hivemind,
}


def wait_for_all(folder, node):
    """Begin at the same moment at all nodes."""
    (folder / f"ready-{node}").touch()
    while not all((folder / f"ready-{other}").exists() for other in range(NODES)):
        time.sleep(0.01)


def main(file, node):
    settings = json.loads(Path(file).read_text())
    folder, steps, peak = Path(file).parent, settings["steps"], settings["peak"]
    torch.set_num_threads(1)
    torch.manual_seed(settings["seed"])
    model = Model()
    shards, _ = load(settings["data"])
    trainer = WAYS[settings["way"]](model, settings, node)
    optimizer = getattr(trainer, "optimizer", None) or torch.optim.AdamW(model.parameters(), lr=peak)
    random = torch.Generator().manual_seed(100 * settings["seed"] + node)
    notes, models = [], []
    wait_for_all(folder, node)
    began, sent = time.monotonic(), int(COUNTER.read_text())
    for step in range(steps):
        share = max(0.0, (step - WARM_UP) / (steps - WARM_UP))
        rate = peak * min(1, (step + 1) / WARM_UP) * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))
        optimizer.param_groups[0]["lr"] = rate
        offsets = torch.randint(shards.shape[1] - BLOCK - 1, (settings["batch"], 1), generator=random)
        optimizer.zero_grad()
        loss_of(trainer.model, shards[node][offsets + torch.arange(BLOCK + 1)]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        trainer.step()
        if (step + 1) % settings["note"] == 0 or step + 1 == steps:
            notes.append([time.monotonic() - began, step + 1, int(COUNTER.read_text()) - sent])
            models.append(nn.utils.parameters_to_vector(model.parameters()).detach().numpy())
        if time.monotonic() - began > settings["seconds"]:
            break
    np.savez(folder / f"notes-{node}.npz", notes=np.array(notes), models=np.stack(models))
    (folder / f"done-{node}").touch()
    while not all((folder / f"done-{other}").exists() for other in range(NODES)):
        time.sleep(0.05)
    if settings["way"] == "hivemind":
        os._exit(0)  # its own processes end with this one


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(sys.argv[1], int(sys.argv[2]))
    else:  # MPI says which node this is
        from mpi4py import MPI

        main(sys.argv[1], MPI.COMM_WORLD.Get_rank())
