"""Set-up that every test shares: float64, as strict as JAX can be, one thread a library."""

import os
import signal
from pathlib import Path

# A shell that starts the suite in the background makes it deaf to Ctrl-C, and its children too; tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two libraries that each take all cores fight each other; set before they are loaded.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest  # noqa: E402
from compiled_programs import compile_quickly, exchange_programs, forget_programs, set_up_programs  # noqa: E402

set_up_programs()

import hypothesis  # noqa: E402
import jax  # noqa: E402

from lessbits._internal import logging as library_logging  # noqa: E402

# No test depends on how fast the machine is, nor on what is said where it is slow.
library_logging.SLOW = 3600.0
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

# Files that take longest, first: else one worker is still at them when the other has nothing left.
LONGEST = [
    "test_estimators.py",
    "test_command.py",
    "test_stepwise.py",
    "test_primal_dual.py",
    "test_rates.py",
    "test_problems.py",
    "test_release.py",
    "test_mean_square.py",
]


def pytest_collection_modifyitems(items):
    """Have workers, which take whole files, begin with the longest."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(autouse=True, scope="module")
def shared_programs(request):
    """Exchange compiled programs with the other worker."""
    exchange_programs()
    compile_quickly(request.node.get_closest_marker("optimized") is None)


@pytest.fixture(autouse=True)
def programs(request):
    """Compile quickly unless a test is marked `optimized`, and forget programs before they take too much memory."""
    compile_quickly(request.node.get_closest_marker("optimized") is None)
    yield
    forget_programs(most_megabytes=1000)


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
