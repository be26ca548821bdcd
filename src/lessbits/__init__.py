"""Decentralized optimization with compressed communication.

>>> import lessbits
>>> problem = lessbits.Consensus.random(nodes=20, dim=50)
>>> network = lessbits.make_network("star", nodes=20)
>>> method = lessbits.primal_dual(problem, network, quantizer="dit-2", theta=1.58, eta=1)
>>> trace = lessbits.simulate(problem, network, method, iterations=1000, until=1e-3)
>>> trace.converged
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lessbits.version import __version__

# Names are looked up when first used, so that importing the package, and `lessbits --help`, load no JAX.
_HOME = {
    "Accelerated": "methods",
    "AtcTracking": "methods",
    "Baseline": "methods",
    "BroadcastMessages": "methods.messages",
    "Checkpoints": "engines.recording.checkpoints",
    "Choco": "methods",
    "Codec": "codecs",
    "Composition": "quantizers",
    "Compressor": "quantizers",
    "Consensus": "problems",
    "Contraction": "quantizers",
    "Custom": "problems",
    "Dgd": "methods",
    "Diana": "methods",
    "Dither": "quantizers",
    "Exact": "quantizers",
    "ExactMessages": "methods.messages",
    "Extra": "methods",
    "GradientTracking": "methods",
    "Gradients": "methods.gradients",
    "GtSvrg": "methods",
    "IndependentMessages": "methods.messages",
    "InputError": "errors",
    "Interrupted": "engines.interrupts",
    "Lead": "methods",
    "LeastSquares": "problems",
    "LinkModel": "engines.recording.trace",
    "LocalNetwork": "networks.local",
    "Logistic": "problems",
    "Lyapunov": "engines.scoring",
    "Message": "methods.base",
    "Method": "methods.base",
    "Msda": "methods",
    "Natural": "quantizers",
    "Network": "networks",
    "Nids": "methods",
    "Node": "engines.distributed.node",
    "Outside": "problems",
    "PrimalDual": "methods",
    "Problem": "problems",
    "Qdgd": "methods",
    "Quantizer": "quantizers",
    "RandK": "quantizers",
    "Samples": "datasets",
    "Scaled": "quantizers",
    "ScaledSign": "quantizers",
    "Settings": "config.settings",
    "Softmax": "problems",
    "PartitionedProblem": "engines.distributed.partitioned",
    "Ssda": "methods",
    "ProgressState": "engines.recording.progress",
    "Start": "methods.base",
    "Step": "_internal.randomness",
    "Stream": "problems",
    "Ternary": "quantizers",
    "TopK": "quantizers",
    "Trace": "engines.recording.trace",
    "Tuning": "tuning",
    "VrDiana": "methods",
    "WireError": "errors",
    "build": "config.build",
    "disagreements": "methods.messages",
    "load_samples": "datasets",
    "make_codec": "codecs",
    "make_method": "tuning.stepsizes",
    "make_network": "networks",
    "make_quantizer": "quantizers",
    "primal_dual": "tuning.stepsizes",
    "pytree": "_internal.pytrees",
    "register_codec": "codecs",
    "register_quantizer": "quantizers",
    "run_mpi": "engines.distributed.mpi",
    "share": "methods.messages",
    "simulate": "engines.simulate.run",
    "split_samples": "datasets",
    "static": "_internal.pytrees",
    "theory": "theory",
    "tune": "tuning",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lessbits' has no attribute {name!r}")
    home = import_module(f"lessbits.{_HOME[name]}")
    value = home if name == _HOME[name] else getattr(home, name)  # `theory` is a module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from lessbits import theory
    from lessbits._internal.pytrees import pytree, static
    from lessbits._internal.randomness import Step
    from lessbits.codecs import Codec, make_codec, register_codec
    from lessbits.config.build import build
    from lessbits.config.settings import Settings
    from lessbits.datasets import Samples, load_samples, split_samples
    from lessbits.engines.distributed.mpi import run_mpi
    from lessbits.engines.distributed.node import Node
    from lessbits.engines.distributed.partitioned import PartitionedProblem
    from lessbits.engines.interrupts import Interrupted
    from lessbits.engines.recording.checkpoints import Checkpoints
    from lessbits.engines.recording.progress import ProgressState
    from lessbits.engines.recording.trace import LinkModel, Trace
    from lessbits.engines.scoring import Lyapunov
    from lessbits.engines.simulate.run import simulate
    from lessbits.errors import InputError, WireError
    from lessbits.methods import (
        Accelerated,
        AtcTracking,
        Baseline,
        Choco,
        Dgd,
        Diana,
        Extra,
        GradientTracking,
        GtSvrg,
        Lead,
        Msda,
        Nids,
        PrimalDual,
        Qdgd,
        Ssda,
        VrDiana,
    )
    from lessbits.methods.base import Message, Method, Start
    from lessbits.methods.gradients import Gradients
    from lessbits.methods.messages import BroadcastMessages, ExactMessages, IndependentMessages, disagreements, share
    from lessbits.networks import Network, make_network
    from lessbits.networks.local import LocalNetwork
    from lessbits.problems import Consensus, Custom, LeastSquares, Logistic, Outside, Problem, Softmax, Stream
    from lessbits.quantizers import (
        Composition,
        Compressor,
        Contraction,
        Dither,
        Exact,
        Natural,
        Quantizer,
        RandK,
        Scaled,
        ScaledSign,
        Ternary,
        TopK,
        make_quantizer,
        register_quantizer,
    )
    from lessbits.tuning import Tuning, tune
    from lessbits.tuning.stepsizes import make_method, primal_dual
