"""One rank of a run of the MPI engine; its iterates are noted on the side.

python rank_worker.py NOTES-FOLDER EVERY TASK.json
"""

import json
import sys
from pathlib import Path

from notes import Notes


def note(folder, every):
    """Have the iterate noted before the first iteration and after every so many."""
    from lessbits.engines.distributed.mpi import MPI
    from lessbits.engines.distributed.rank import Rank

    notes = Notes(folder / f"notes-{MPI.COMM_WORLD.Get_rank()}.npz")
    iterate = Rank.iterate

    def noted(self, iteration):
        if not iteration:
            notes.add(0, self.state.x[0])
        iterate(self, iteration)
        if (iteration + 1) % every == 0:
            notes.add(iteration + 1, self.state.x[0])

    Rank.iterate = noted
    return notes


def main():
    from lessbits.engines.distributed.launch import become_rank

    become_rank()
    folder, every, given = Path(sys.argv[1]), int(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    import jax

    jax.config.update("jax_enable_x64", given["precision"] == 64)
    from losses import read_rows

    from lessbits import Consensus, EdgeDual, Logistic, Softmax, make_network, make_quantizer, run_mpi

    files = given["files"]
    features, labels = zip(*[read_rows(Path(file)) for file in files], strict=True) if files else ((), ())
    if given["kind"] == "consensus":
        problem = Consensus.random(given["nodes"], given["dim"])
    elif given["kind"] == "softmax":
        problem = Softmax.from_parts(features, labels, given["classes"], given["regularization"])
    else:
        problem = Logistic.from_parts(features, labels, given["regularization"])
    method = EdgeDual(**given["sizes"], quantizer=make_quantizer(given["quantizer"], problem.dim))
    notes = note(folder, every)
    network = make_network("ring", problem.nodes, weights="metropolis")
    # One record, at the end: for each, all ranks gather counts, which takes several trips over a slow link.
    run_mpi(problem, network, method, iterations=given["iterations"], record_every=given["iterations"], scoring=False)
    notes.save()


if __name__ == "__main__":
    main()
