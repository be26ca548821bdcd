"""`python -m lessbits.training SCRIPT …`: a training script as one of several processes, started by `lessbits launch`.

If it fails at one node, all end. A mistake of the user is one line; other errors have their traceback.
"""

import io
import os
import runpy
import sys
import time
import traceback
from pathlib import Path

from lessbits._internal.logging import show_messages
from lessbits.engines.distributed.launch import become_rank
from lessbits.training.ending import last_words
from lessbits.training.mpi import MPI, speaks_for_all

SILENT_SECONDS = 30.0  # for which a node that fails waits for another one to say why, and to end all
FLUSH_SECONDS = 0.25  # until the launcher has forwarded what was printed


def main() -> None:
    """Run the script."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nobody types, and a node that waits for it would wait forever
    become_rank()  # before the script loads PyTorch or JAX, which then take their share of the cores
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)  # so that lines of several nodes do not mix
    show_messages()
    sys.argv = sys.argv[1:]
    if not sys.argv:
        raise SystemExit("lessbits: give a training script: python -m lessbits.training SCRIPT")
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code is not None and last_words(end)[1]:
            _fail(end)
        raise
    except BaseException as error:
        _fail(error)
        raise


def _fail(error: BaseException) -> None:
    """End all nodes with one line for a mistake. Return if there is only one."""
    node = 0 if MPI is None else MPI.COMM_WORLD.Get_rank()
    if not speaks_for_all():
        time.sleep(SILENT_SECONDS)
    line, status = last_words(error)
    if status == 1 and not isinstance(error, SystemExit):
        traceback.print_exc()
    nodes = 1 if MPI is None else MPI.COMM_WORLD.Get_size()
    print(f"lessbits: node {node} of {nodes}: {line}", file=sys.stderr, flush=True)
    if nodes > 1:
        time.sleep(FLUSH_SECONDS)
        MPI.COMM_WORLD.Abort(status)
    os._exit(status)


if __name__ == "__main__":
    main()
