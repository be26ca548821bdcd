"""What training over slow links costs a process: encoding, overlap, memory, and the share of a step.

    python benchmarks/neural.py [--device cuda] [--millions 50]

It runs `neural/step.py`, `neural/memory.py` and the timed part of `neural/overlap.py`. Losses against bytes are in
`python benchmarks/neural`, and real processes over shaped links in `neural/processes.py`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent / "neural"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--millions", type=float, default=50)
    options = parser.parse_args()
    parts = {
        "encoding, and its share of a step": ["step.py", "--device", options.device],
        "memory": ["memory.py", "--millions", str(options.millions)],
        "overlap": ["overlap.py", "--time"],
    }
    for title, (script, *flags) in parts.items():
        print(f"\n## {title}\n", flush=True)
        subprocess.run([sys.executable, str(HERE / script), *flags], check=True)


if __name__ == "__main__":
    main()
