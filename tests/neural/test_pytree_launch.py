"""`lessbits launch` with JAX: real processes, real bytes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("optax")
pytest.importorskip("mpi4py")

COMMAND = Path(sys.executable).parent / "lessbits"


@pytest.mark.slow
def test_the_script_of_the_page_runs(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "neural.md").read_text(encoding="utf-8")
    script = tmp_path / "train.py"
    (text,) = (each for each in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "optax" in each)
    script.write_text(text)
    command = [str(COMMAND), "launch", "--nodes", "4", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    # Pieces of lines of two processes may come in between.
    assert len(re.findall(r"100 steps, 5 exchanges, \S+ MB sent", done.stdout)) == 4
