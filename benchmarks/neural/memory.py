"""Peak memory of a process that exchanges a model, against what it must keep.

    python benchmarks/neural/memory.py [--millions 50]

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


def work(millions):
    import torch

    from lessbits.torch import Gossip

    torch.manual_seed(0)
    torch.randn(2000, 2000) @ torch.randn(2000, 2000)  # libraries make room for themselves
    before, width = resident("VmRSS"), round((millions * 1e6 / LAYERS) ** 0.5)
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers)
    gossip = Gossip(model, every=1)
    size = gossip.layout.size
    kept = 4 * size + 4 * sum(tensor.numel() for tensor in gossip._tensors().values())
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    resting = resident("VmRSS") - before
    for _ in range(2):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 1e-3 * (1 + gossip.links.node)
        Path("/proc/self/clear_refs").write_text("5")
        gossip.step()
    if gossip.links.node == 0:
        peak = resident("VmHWM") - before
        print(
            f"{size / 1e6:.1f} million parameters: parameters and memory {kept / 1e6:.0f} MB "
            f"({kept / 4 / size:.1f} float32 vectors), at rest {resting / 1e6:.0f} MB, "
            f"at most {peak / 1e6:.0f} MB in an exchange: {peak / kept:.2f} times",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, default=50)
    parser.add_argument("--node", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node:
        work(options.millions)
    else:
        script = [str(Path(__file__).resolve()), "--node", "--millions", str(options.millions)]
        done = subprocess.run([sys.executable, "-m", "lessbits", "launch", "--nodes", "2", *script])
        raise SystemExit(done.returncode)
