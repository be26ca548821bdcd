"""Methods that train models, by name."""

from lessbits.errors import InputError, check_name, shown
from lessbits.neural.methods.averaged import Ddp, DiLoCo, NoExchange, PowerSgd, SparseLoCo
from lessbits.neural.methods.base import NeuralMethod
from lessbits.neural.methods.gossip import GossipBroadcast, GossipEdges, GossipInTurn
from lessbits.neural.methods.neighbourhood import Beer, ChocoSgd, DeepSqueeze, DPsgd, Motef
from lessbits.neural.methods.tree import TreeSums

METHODS: dict[str, type[NeuralMethod]] = {
    "in-turn": GossipInTurn,
    "broadcast": GossipBroadcast,
    "edges": GossipEdges,
    "tree": TreeSums,
    "choco-sgd": ChocoSgd,
    "d-psgd": DPsgd,
    "deepsqueeze": DeepSqueeze,
    "beer": Beer,
    "motef": Motef,
    "diloco": DiLoCo,
    "sparseloco": SparseLoCo,
    "powersgd": PowerSgd,
    "ddp": Ddp,
    "none": NoExchange,
}


def find_method(method: str | NeuralMethod) -> NeuralMethod:
    """Return a method that was given, or one with default settings by its name."""
    if isinstance(method, NeuralMethod):
        return method
    if isinstance(method, type) and issubclass(method, NeuralMethod):
        raise InputError(f"the method is the class {method.__name__}: write {method.__name__}()")
    if not isinstance(method, str):
        raise InputError(f"the method is {shown(method)}, but it must be a name such as 'in-turn', or a NeuralMethod")
    return METHODS[check_name("method", method, METHODS)]()
