"""Decentralized optimization with compressed communication.

>>> import lessbits
>>> problem = lessbits.Consensus.random(nodes=20, dim=50)
>>> network = lessbits.make_network("star", nodes=20)
>>> method = lessbits.primal_dual(problem, network, quantizer="dit-2", theta=1.58, eta=1)
>>> trace = lessbits.simulate(problem, network, method, iterations=1000, until=1e-3)
>>> trace.converged
True
"""

import lazy_loader

# Names are looked up when first used, so that importing the package, and `lessbits --help`, load no JAX. The public
# names stand in __init__.pyi alone, which type checkers and editors read too.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
