"""Set-up that every test shares: float64, as strict as JAX can be, one thread a library."""

import os
import signal

# A shell that starts the suite in the background makes it deaf to Ctrl-C, and its children too; tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two libraries that each take all cores fight each other; set before they are loaded.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from pathlib import Path  # noqa: E402

import jax  # noqa: E402
import pytest  # noqa: E402

from lessbits._internal.programs import keep_compiled, make_room  # noqa: E402

jax.config.update("jax_enable_x64", True)
keep_compiled()  # a second run of the suite takes half the time


@pytest.fixture(autouse=True)
def room():
    """Forget compiled programs before there are too many for one process: the suite has more than anyone."""
    make_room()


@pytest.fixture
def in_float32():
    """Run a test in JAX's usual precision."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(scope="session")
def w1a():
    """The w1a data, where the developers' copy is; users' clones do not have it."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not (folder / "w1a.libsvm.xz").is_file():
        pytest.skip("the data set w1a is not on this machine")
    from lessbits.datasets import load_samples

    return load_samples(folder / "w1a.libsvm.xz", features=300)
