"""Simulation on several devices: the rows of nodes and links are split over them.

It uses JAX's sharding: each array is split along its first axis, and XLA finds the rows that a device needs from the
others. Methods need no change. The order of sums is fixed on CPUs, so results are those of one device, bit for bit. All
devices belong to one host; the MPI engine runs on several hosts.
"""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lessbits._internal.axes import Axis, row_axes
from lessbits.errors import InputError, check_whole

ENOUGH = 2**20  # nodes × dim per device; with less, communication between devices costs more than it saves


def choose_devices(devices: int | None, nodes: int, dim: int) -> int:
    """Return the number of devices that share the nodes, a divisor of the number of nodes.

    Args:
        devices: The number to check; None to choose one that pays.
        nodes: Number of nodes.
        dim: Number of coordinates.
    """
    available = len(jax.local_devices())
    if devices is None:
        devices = min(available, max(1, nodes * dim // ENOUGH))
        return next(count for count in range(devices, 0, -1) if nodes % count == 0)
    if not 1 <= check_whole("devices", devices) <= available:
        raise InputError(f"devices is {devices}, but there are {available}: give a number from 1 to {available}")
    if nodes % devices:
        raise InputError(f"devices is {devices}, but {nodes} nodes cannot be dealt to them equally: give a divisor")
    return devices


def shard_rows(tree: Any, devices: int, default: Axis = Axis.SHARED) -> Any:
    """Split each array along the axis of nodes or links that its field declares. Other arrays are replicated."""
    if devices == 1:
        return tree
    mesh = Mesh(np.asarray(jax.local_devices()[:devices]), ("nodes",))
    split, replicated = NamedSharding(mesh, PartitionSpec("nodes")), NamedSharding(mesh, PartitionSpec())

    def place(leaf: Any, axis: Axis) -> Any:
        divides = axis in (Axis.NODE, Axis.LINK) and np.shape(leaf)[0] % devices == 0
        return jax.device_put(leaf, split if divides else replicated)

    return jax.tree.map(place, tree, row_axes(tree, default))
