"""Choice of the engine, by where the problem is held."""

from lessbits.engines.distributed.partitioned import PartitionedProblem
from lessbits.engines.distributed.stepwise import run_stepwise
from lessbits.engines.options import RunOptions
from lessbits.engines.recording.trace import Trace
from lessbits.engines.simulate.run import simulate
from lessbits.methods.base import Method
from lessbits.networks import Network
from lessbits.problems.base import Problem


def run_where_held(
    problem: Problem, network: Network, method: Method, options: RunOptions, encode: bool = False
) -> Trace:
    """Run a method on the ranks that hold a `PartitionedProblem`, or in the simulator for any other problem."""
    if isinstance(problem, PartitionedProblem):
        return run_stepwise(problem, network, method, problem.transport, options)
    return simulate(problem, network, method, encode=encode, **options.keywords())
