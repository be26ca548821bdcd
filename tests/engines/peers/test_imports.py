"""What training processes use of this engine loads no JAX."""

import subprocess
import sys

import numpy as np

from lessbits._internal.hashing import fingerprint

MODULES = ("stream", "connections", "protocol", "patience", "options", "identity", "roster_file", "site_file", "edge")


def test_connections_and_rosters_load_no_jax():
    imports = ", ".join(f"lessbits.engines.peers.{module}" for module in MODULES)
    code = f"import sys, {imports}; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_fingerprint_is_the_same_with_and_without_jax():
    code = (
        "import sys, numpy as np; from lessbits._internal.hashing import fingerprint\n"
        "print(fingerprint('ward-7', {'seed': 1}, [(0, 1)], np.arange(3.0)), 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    import jax

    assert jax.devices()
    assert done.stdout.split() == [fingerprint("ward-7", {"seed": 1}, [(0, 1)], np.arange(3.0)), "False"]
    assert fingerprint(np.float32([1, 2])) != fingerprint(jax.numpy.float32([1, 2]))  # their types differ
