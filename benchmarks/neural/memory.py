"""Peak memory of a process that exchanges a model, against what it must keep.

    python benchmarks/neural/memory.py [--millions 50] [--library jax]

Two processes with a model of so many parameters. Kept are the parameters, and the float32 vectors of `Gossip`. The peak
is what the kernel says of node 0 (VmHWM), less what the process had before the model was made. Gradients and the state
of an optimizer are not made, so that the ratio is the worst case.
"""

import argparse
import subprocess
import sys
from pathlib import Path

LAYERS = 4


def resident(field):
    """Return VmRSS or VmHWM of this process, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


def width_of(millions):
    return round((millions * 1e6 / LAYERS) ** 0.5)


def report(node, size, kept, before, resting):
    if node == 0:
        peak = resident("VmHWM") - before
        print(
            f"{size / 1e6:.1f} million parameters: parameters and memory {kept / 1e6:.0f} MB "
            f"({kept / 4 / size:.1f} float32 vectors), at rest {resting / 1e6:.0f} MB, "
            f"at most {peak / 1e6:.0f} MB in an exchange: {peak / kept:.2f} times",
            flush=True,
        )


def work_torch(millions):
    import torch

    from lessbits.torch import Gossip

    torch.manual_seed(0)
    torch.randn(2000, 2000) @ torch.randn(2000, 2000)  # libraries make room for themselves
    before, width = resident("VmRSS"), width_of(millions)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(LAYERS)))
    gossip = Gossip(model, every=1)
    size = gossip.layout.size
    kept = 4 * size + 4 * sum(tensor.numel() for tensor in gossip._tensors().values())
    resting = resident("VmRSS") - before
    for _ in range(2):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 1e-3 * (1 + gossip.links.node)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        gossip.step()
    report(gossip.links.node, size, kept, before, resting)


def work_jax(millions):
    import jax
    import jax.numpy as jnp

    from lessbits.neural import Gossip

    jax.block_until_ready(jnp.ones((2000, 2000)) @ jnp.ones((2000, 2000)))
    before, width = resident("VmRSS"), width_of(millions)
    made = jax.jit(lambda key: jax.random.normal(key, (width, width), jnp.float32))
    params = [made(jax.random.key(number)) for number in range(LAYERS)]
    gossip = Gossip(params, every=1)
    size = gossip.layout.size
    kept = 4 * size + 4 * sum(array.size for array in gossip._arrays().values())
    resting = resident("VmRSS") - before
    moved = jax.jit(lambda params, step: [each + step for each in params], donate_argnums=0)
    for _ in range(2):
        params = jax.block_until_ready(moved(params, jnp.float32(1e-3 * (1 + gossip.links.node))))
        Path("/proc/self/clear_refs").write_text("5")
        params = jax.block_until_ready(gossip.step(params))
    report(gossip.links.node, size, kept, before, resting)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, default=50)
    parser.add_argument("--library", choices=["torch", "jax"], default="torch")
    parser.add_argument("--node", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node:
        {"torch": work_torch, "jax": work_jax}[options.library](options.millions)
    else:
        script = [str(Path(__file__).resolve()), "--node", "--millions", str(options.millions)]
        script += ["--library", options.library]
        done = subprocess.run([sys.executable, "-m", "lessbits", "launch", "--nodes", "2", *script])
        raise SystemExit(done.returncode)
