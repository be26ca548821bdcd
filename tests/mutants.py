"""Plants mistakes in a copy of the package, one at a time, and tells which tier of the suite catches each.

    python tests/mutants.py [NAME ...]

Prints a Markdown table. A mutant is tried with the test files that should catch it: first with those of `make test`,
then with the slow ones of `make test-all`. The working tree is not touched. It takes
some ten minutes, and is no part of the suite.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TIERS = {"make test": "not slow", "make test-all": "slow"}


class Mutant(NamedTuple):
    """A mistake: what is replaced where, and the test files that should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = [
    Mutant(
        "wrong sign of the dual step",
        "methods/primal_dual.py",
        "subtract(state.z, state.lost, self.theta * disagreement)",
        "subtract(state.z, state.lost, -self.theta * disagreement)",
        ("methods/test_primal_dual.py",),
    ),
    Mutant(
        "memory forgotten (broadcast messages)",
        "methods/messages.py",
        "Memory(memory.h + self.alpha * mine, g, None)",
        "Memory(memory.h, g, None)",
        ("methods/test_primal_dual.py", "methods/test_baselines.py"),
    ),
    Mutant(
        "memory of a link moves by the whole message (edge messages)",
        "methods/messages.py",
        "EdgeMemory(memory.h + mine, moved_g, None)",
        "EdgeMemory(memory.h + decode(sent.payload), moved_g, None)",
        ("methods/test_primal_dual.py",),
    ),
    Mutant(
        "swapped neighbour: nodes hear themselves",
        "engines/simulate/program.py",
        "source = self.reverse if message.per_link else self.local.neighbor",
        "source = self.reverse if message.per_link else self.local.owner",
        ("methods/test_baselines.py", "engines/test_stepwise.py"),
    ),
    Mutant(
        "off-by-one round in the frames that are expected",
        "engines/distributed/wire.py",
        "place = Place(self.run, turn, int(self.back[link]), number)",
        "place = Place(self.run, turn + 1, int(self.back[link]), number)",
        ("engines/test_stepwise.py",),
    ),
    Mutant(
        "off-by-one record",
        "engines/schedule.py",
        "end = (iteration // every + 1) * every",
        "end = (iteration // every + 1) * every + 1",
        ("engines/test_simulate.py", "engines/test_stepwise.py"),
    ),
    Mutant(
        "NaN is no divergence",
        "engines/stopping.py",
        "return (metrics[name] <= self.ceilings[name]) ^ True",
        "return metrics[name] > self.ceilings[name]",
        ("engines/test_simulate.py", "tuning/test_sweep.py", "engines/test_stepwise.py"),
    ),
    Mutant(
        "unescaped HTML in a report",
        "report/page.py",
        'data-run="{number}">{escape(row["run"])}</td>\']',
        'data-run="{number}">{row["run"]}</td>\']',
        ("report/test_report.py",),
    ),
    Mutant(
        "checkpoint not synced",
        "_internal/files.py",
        "        os.fsync(descriptor)\n    finally:\n        os.close(descriptor)\n    os.replace",
        "        pass\n    finally:\n        os.close(descriptor)\n    os.replace",
        ("internal/test_files.py", "engines/test_checkpoints.py"),
    ),
    Mutant(
        "checkpoints of another run are accepted",
        "engines/recording/checkpoints.py",
        "if different := identity.differences(saved.identity):",
        "if different := []:",
        ("engines/test_checkpoints.py",),
    ),
    Mutant(
        "variance reduction without the anchor's gradient",
        "methods/gradients.py",
        "- problem.sample_gradient(anchor.point, samples) + anchor.gradient",
        "- problem.sample_gradient(anchor.point, samples)",
        ("methods/test_primal_dual.py", "methods/test_baselines.py"),
    ),
    Mutant(
        "rand-k without its scale",
        "quantizers/rand_k.py",
        "separate(vectors * (dim / self.kept))",
        "separate(vectors)",
        ("quantizers/test_contract.py",),
    ),
    Mutant(
        "dithering rounds down",
        "quantizers/dither.py",
        "levels = jnp.floor(exact + uniform)",
        "levels = jnp.floor(exact)",
        ("quantizers/test_contract.py",),
    ),
    Mutant(
        "corrupted messages pass",
        "codecs/frames.py",
        "if found == _check(length, summed, place):",
        "if True:",
        ("codecs/test_frames.py", "engines/test_stepwise.py"),
    ),
    Mutant(
        "random numbers do not depend on their purpose",
        "_internal/randomness.py",
        "base = _mix(step.seed[..., 0] + _word(int(stream) * GOLDEN & 0xFFFFFFFF), step.seed[..., 1])",
        "base = _mix(step.seed[..., 0], step.seed[..., 1])",
        ("internal/test_randomness.py",),
    ),
    Mutant(
        "LEAD with twice its dual step",
        "methods/lead.py",
        "self.gamma / (2 * self.eta)",
        "self.gamma / self.eta",
        ("methods/test_baselines.py",),
    ),
    Mutant(
        "Choco gossips on old copies",
        "methods/choco.py",
        "disagreement = memory.g  # of x̂⁺",
        "disagreement = state.memory.g  # of x̂⁺",
        ("methods/test_baselines.py",),
    ),
    Mutant(
        "theory forgets the noise",
        "theory/theorems.py",
        "return self.lambda_max + 12 * self.omega * self.max_weight",
        "return self.lambda_max",
        ("theory/test_theorems.py", "test_paper.py"),
    ),
    Mutant(
        "Metropolis weights one too small",
        "networks/weights.py",
        "return 1.0 / (1 + np.maximum(",
        "return 1.0 / (2 + np.maximum(",
        ("networks/test_network.py", "networks/test_network_spectrum.py"),
    ),
    Mutant(
        "bits are divided by nodes, not links",
        "engines/recording/recorder.py",
        '"bits_per_link": bits / self.links,',
        '"bits_per_link": bits / self.nodes,',
        ("engines/test_trace.py", "engines/test_simulate.py", "methods/test_primal_dual.py"),
    ),
    Mutant(
        "ranks take each other's rows",
        "engines/distributed/stepwise.py",
        "rows = {Axis.NODE: rank.nodes, Axis.LINK: rank.wire.links}",
        "rows = {Axis.NODE: rank.nodes[::-1], Axis.LINK: rank.wire.links}",
        ("engines/test_checkpoints.py",),
    ),
    Mutant(
        "mistakes on the command line have status 1",
        "cli/exit_status.py",
        "MISTAKE = 2",
        "MISTAKE = 1",
        ("cli/test_exit_status.py", "cli/test_bad_input.py"),
    ),
    Mutant(
        "estimators penalize the intercept",
        "sklearn/dealing.py",
        "np.append(penalty, 0.0)",
        "np.append(penalty, 1.0)",
        ("sklearn/test_estimators.py",),
    ),
    Mutant(
        "MPI gathers rows of one rank too short",
        "engines/distributed/mpi.py",
        "return room.view(rows.dtype).reshape(-1, *rows.shape[1:])",
        "return room.view(rows.dtype).reshape(-1, *rows.shape[1:])[:-1]",
        ("mpi/test_ranks.py",),
    ),
]


def caught(mutant: Mutant, folder: Path, marker: str) -> str | None:
    """Return the first test that fails with the mutant; None if none does."""
    files = [str(ROOT / "tests" / name) for name in mutant.tests if (ROOT / "tests" / name).is_file()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marker, *files]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (1, 2):  # 5: no test has the marker
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split()[1].removeprefix("tests/") if lines else "collection"


def main() -> None:
    wanted = sys.argv[1:]
    print("| mutant | caught by | first test to fail |\n|---|---|---|", flush=True)
    missed = 0
    for mutant in MUTANTS:
        if wanted and not any(word in mutant.name for word in wanted):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "src"
            shutil.copytree(ROOT / "src", folder)
            file = folder / "lessbits" / mutant.file
            text = file.read_text(encoding="utf-8")
            if text.count(mutant.old) < 1:
                sys.exit(f"{mutant.name}: {mutant.file} has no text {mutant.old!r}")
            file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
            tiers = ((tier, caught(mutant, folder, marker)) for tier, marker in TIERS.items())
            tier, test = next(((tier, test) for tier, test in tiers if test), ("none", ""))
        missed += tier == "none"
        print(f"| {mutant.name} | {f'`{tier}`' if test else 'nothing'} | {f'`{test}`' if test else ''} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
