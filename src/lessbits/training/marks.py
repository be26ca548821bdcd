"""Short digests of the model, of its start and of the settings, which neighbours compare before they exchange."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from lessbits.errors import InputError
from lessbits.networks import Network
from lessbits.training.links import Links, differ
from lessbits.training.partners import neighbours, rounds
from lessbits.training.state import other_settings

NAMES = ("model", "start", "settings")
MARK_BYTES = 8
COUNT_BYTES = 8


def model_mark(tensors: Iterable[tuple[str, Sequence[int], str]]) -> bytes:
    """Return bytes that differ between models with other names, shapes or types.

    Types have the names that NumPy gives them, so that a PyTorch model and a pytree can be the same model.
    """
    return _short("\n".join(f"{name} {tuple(shape)} {kind}" for name, shape, kind in tensors).encode())


def fixed_mark(tensors: Iterable[tuple[str, Sequence[int], str, Iterable[np.ndarray]]]) -> bytes:
    """Return bytes that differ between models with other tensors that are not exchanged; none if there are none.

    Of each it takes the name, the shape, the type and the values, in one array or more.
    """
    digest, found = hashlib.sha256(), False
    for name, shape, kind, parts in tensors:
        found = True
        digest.update(f"{name} {tuple(shape)} {kind}\n".encode())
        for part in parts:
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.digest() if found else b""


def values_mark(vector: np.ndarray, fixed: bytes = b"") -> bytes:
    """Return bytes that differ between models with other values, or with another mark of what is not exchanged."""
    digest = hashlib.sha256(np.ascontiguousarray(vector).data)
    digest.update(fixed)
    return digest.digest()[:MARK_BYTES]


def settings_mark(settings: str, network: Network) -> bytes:
    """Return bytes that differ between other settings, networks, weights or orders of turns."""
    links = f"{network.owner.tolist()} {network.neighbor.tolist()} {network.weight.tolist()}"
    return _short(f"{settings} {links} {rounds(network)}".encode())


def run_number(marks: Iterable[bytes]) -> int:
    """Return 32 bits that are in the check of every message of a run."""
    return int.from_bytes(hashlib.sha256(b"".join(marks)).digest()[:4], "little")


def compare_marks(links: Links, network: Network, marks: Sequence[bytes], settings: str) -> int:
    """Check that neighbours have the same marks, and tell their settings if not; return the number of the run."""
    here = links.node
    if links.reaches_all:  # nodes with other networks would wait for each other: their neighbours are not the same
        around = {(here + step) % links.nodes for step in (1, -1)} - {here}
        words = f"network={network.name} {settings}"
        for other, frame in sorted(links.exchange(dict.fromkeys(around, marks[-1] + words.encode())).items()):
            if frame[:MARK_BYTES] != marks[-1]:
                both = sorted([(here, words), (other, frame[MARK_BYTES:].decode(errors="replace"))])
                raise InputError(other_settings(*both))
    others = links.exchange(dict.fromkeys(neighbours(network, here), b"".join(marks)))
    for other, digest in sorted(others.items()):
        for number, name in enumerate(NAMES):
            if digest[MARK_BYTES * number : MARK_BYTES * (number + 1)] != marks[number]:
                raise InputError(differ(name, f"nodes {min(here, other)} and {max(here, other)}"))
    return run_number(marks)


def compare_exchanges(links: Links, network: Network | None, exchanges: int) -> None:
    """Check that neighbours have done as many exchanges: one may have loaded the state of another step."""
    if network is None:
        return
    here = links.node
    others = links.exchange(dict.fromkeys(neighbours(network, here), exchanges.to_bytes(COUNT_BYTES, "little")))
    for other, frame in sorted(others.items()):
        if len(frame) != COUNT_BYTES:  # a message: that node goes on as it was
            raise InputError(
                f"node {here} has loaded a state at exchange {exchanges}, but node {other} has not: load states of the "
                "same step at all nodes"
            )
        if (theirs := int.from_bytes(frame, "little")) != exchanges:
            (low, first), (high, second) = sorted([(here, exchanges), (other, theirs)])
            raise InputError(
                f"node {low} is at exchange {first}, but node {high} is at exchange {second}: load states of the same "
                "step at all nodes"
            )


def _short(words: bytes) -> bytes:
    return hashlib.sha256(words).digest()[:MARK_BYTES]
