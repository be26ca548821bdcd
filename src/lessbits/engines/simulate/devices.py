"""Several devices for one simulation: the nodes, and with them all rows of nodes and links, are dealt to them.

JAX's own sharding does it: each array is cut along its first axis, XLA finds out which rows a device needs of the
others, and no method knows of it. On CPUs sums have their order written out, so results are those of one device, bit
for bit. These are the devices of one host: for several hosts there is the MPI engine.
"""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lessbits._internal.axes import Axis, row_axes
from lessbits.errors import InputError

ENOUGH = 2**20  # numbers of one vector a node that a device should have: less is not worth talking to another for


def choose_devices(devices: int | None, nodes: int, dim: int) -> int:
    """Return how many devices share the nodes: as many as told, or as pay, of which the nodes are a multiple."""
    there = len(jax.local_devices())
    if devices is None:
        devices = min(there, max(1, nodes * dim // ENOUGH))
        return next(count for count in range(devices, 0, -1) if nodes % count == 0)
    if not 1 <= devices <= there:
        raise InputError(f"devices is {devices}, but there are {there}: give a number from 1 to {there}")
    if nodes % devices:
        raise InputError(f"devices is {devices}, but {nodes} nodes cannot be dealt to them equally: give a divisor")
    return devices


def shard_rows(tree: Any, devices: int, default: Axis = Axis.SHARED) -> Any:
    """Cut each array along its nodes or links, as its field declares; every device holds the others whole."""
    if devices == 1:
        return tree
    mesh = Mesh(np.asarray(jax.local_devices()[:devices]), ("nodes",))
    cut, whole = NamedSharding(mesh, PartitionSpec("nodes")), NamedSharding(mesh, PartitionSpec())

    def place(leaf: Any, axis: Axis) -> Any:
        divides = axis in (Axis.NODE, Axis.LINK) and np.shape(leaf)[0] % devices == 0
        return jax.device_put(leaf, cut if divides else whole)

    return jax.tree.map(place, tree, row_axes(tree, default))
