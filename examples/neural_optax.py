"""Four nodes train a network of JAX on digits with optax, each with a few classes only: in simulation, then over links.

The simulator compares methods in seconds. The one that is chosen then runs as a plain training loop with one more line,
here with nodes that are threads, and trains the same models with the same bytes.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

from lessbits import neural
from lessbits.datasets import split_labels

NODES, EVERY = 4, 10
OPTIMIZER = optax.adam(2e-3)


def init(key: jax.Array) -> dict[str, jax.Array]:
    """Return the parameters at the start, the same at all nodes."""
    first, second = jax.random.split(key)
    hidden = 0.2 * jax.random.normal(first, (64, 32), jnp.float32)
    return {"hidden": hidden, "bias": jnp.zeros(32), "out": 0.2 * jax.random.normal(second, (32, 10), jnp.float32)}


def logits(params: dict[str, jax.Array], images: jax.Array) -> jax.Array:
    return jax.nn.relu(images @ params["hidden"] + params["bias"]) @ params["out"]


def loss(params: dict[str, jax.Array], batch: tuple[jax.Array, jax.Array]) -> jax.Array:
    images, labels = batch
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels).mean()


def accuracy(params: dict[str, jax.Array], batch: tuple[jax.Array, jax.Array]) -> jax.Array:
    images, labels = batch
    return (logits(params, images).argmax(1) == labels).mean()


def make_problem() -> neural.NeuralProblem:
    """Deal the digits by class in Dirichlet(0.1) proportions, and keep some that nobody trains with."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 8 - 1).astype(np.float32), labels[order].astype(np.int32)
    held_out = neural.Metric(accuracy, (images[1400:], labels[1400:]), larger=True)
    shards = split_labels(labels[:1400], NODES, concentration=0.1, seed=0)
    return neural.NeuralProblem(init, loss, (images[:1400], labels[:1400]), shards, metrics={"accuracy": held_out})


@jax.jit
def local_step(params, state, batch):
    updates, state = OPTIMIZER.update(jax.grad(loss)(params, batch), state, params)
    return optax.apply_updates(params, updates), state


def train(links: neural.Links, problem: neural.NeuralProblem, steps: int) -> tuple[dict[str, jax.Array], neural.Gossip]:
    """Train at one node: the loop that each process would have."""
    params = problem.init(jax.random.key(0))
    state = OPTIMIZER.init(params)
    gossip = neural.Gossip(params, every=EVERY, quantizer="block:1.0", network="ring", links=links)
    for step in range(steps):
        params, state = local_step(params, state, problem.draw(links.node, step))
        params = gossip.step(params)
    return params, gossip


def main(steps: int) -> None:
    """Compare methods, then train over links, and print both."""
    problem = make_problem()
    # Encoded and one node after the other: then numbers and bytes are those of links.
    options = neural.SimulateOptions(record=steps, encoded=True, sequential=True)
    ours = neural.GossipInTurn(every=EVERY)
    for name, method in {"in turn": ours, "DiLoCo": neural.DiLoCo(every=EVERY), "DDP": "ddp", "alone": "none"}.items():
        trace = neural.simulate(problem, OPTIMIZER, method, "ring", steps, options=options)
        mean, worst = trace["accuracy"][-1], trace["accuracy_worst"][-1]
        print(
            f"{name}: accuracy {100 * mean:.1f}%, worst node {100 * worst:.1f}%, {trace['bytes'][-1] / 1e3:.0f} kB sent"
        )
        if method is ours:
            simulated = trace.models
    nodes = neural.ThreadLinks.run(NODES, lambda links: train(links, problem, steps))
    far = max(
        float(abs(params[name] - simulated[name][node]).max())
        for node, (params, _) in enumerate(nodes)
        for name in params
    )
    print(f"over links, node 0: {nodes[0][1].report()}; largest difference to the simulation {far:g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    main(200 if parser.parse_args().quick else 1000)
