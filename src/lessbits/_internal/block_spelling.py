"""How quantizers with scales are written: `block:Δ`, `block-dither:Δ` and `block-top:K`, with `:N` or `:tensor` behind.

Without JAX, so that all libraries read the same.
"""

import re
from typing import NamedTuple

from lessbits._internal.blocks import BLOCK, LEAST_SPACING, MOST_SPACING
from lessbits.errors import InputError, is_whole, shown

LEAST_BLOCK, MOST_BLOCK = 16, 2**24
GROUP = 4  # levels that are coded as one symbol: blocks of whole groups need no filling
TENSOR = "tensor"
_NUMBER = re.compile(r"[-+0-9.eE]{1,24}")


class BlockSpelling(NamedTuple):
    """A quantizer: `amount` is Δ or K, and `block` how many numbers share a scale, None for all of a tensor."""

    kind: str
    amount: float = 0.0
    block: int | None = BLOCK

    @property
    def name(self) -> str:
        """The shortest spelling.

        >>> read_blocks("block:1.0:4096").name, read_blocks("block-top:64:tensor").name
        ('block:1', 'block-top:64:tensor')
        """
        if self.kind == "exact":
            return self.kind
        number = f"{int(self.amount)}" if self.kind == "block-top" else f"{self.amount:g}"
        behind = "" if self.block == BLOCK else f":{TENSOR if self.block is None else self.block}"
        return f"{self.kind}:{number}{behind}"


BLOCK_KINDS = ("block", "block-dither", "block-top")


def read_blocks(spelling: str) -> BlockSpelling:
    """Read a spelling that begins with one of `BLOCK_KINDS` and a colon.

    >>> read_blocks("block:1.5"), read_blocks("block-top:16:1024").block
    (BlockSpelling(kind='block', amount=1.5, block=4096), 1024)
    """
    kind, _, rest = spelling.partition(":")
    number, colon, length = rest.partition(":")
    what, example = ("K as a whole number", "64") if kind == "block-top" else ("Δ as a number", "1.5")
    try:
        amount = float(number) if _NUMBER.fullmatch(number) else float("nan")
    except ValueError:
        amount = float("nan")
    if amount != amount or (kind == "block-top" and not amount.is_integer()):
        raise InputError(f"{spelling[:60]!r} is not {kind}:{what[0]}: write {what}, such as {kind}:{example}")
    if not colon:
        return checked_blocks(kind, amount)
    if length != TENSOR and not re.fullmatch(r"[0-9]{1,9}", length):
        raise InputError(f"{spelling[:60]!r} has {length[:20]!r} as its block: {_LENGTHS}")
    return checked_blocks(kind, amount, None if length == TENSOR else int(length))


_LENGTHS = (
    f"write how many numbers share a scale, a multiple of {GROUP} from {LEAST_BLOCK} to {MOST_BLOCK}, or {TENSOR} for "
    "one scale per tensor"
)


def checked_blocks(kind: str, amount: float, block: int | None = BLOCK) -> BlockSpelling:
    """Check the numbers of a quantizer."""
    if block is not None and (not is_whole(block) or block % GROUP or not LEAST_BLOCK <= block <= MOST_BLOCK):
        raise InputError(f"{kind} has blocks of {shown(block)} numbers: {_LENGTHS}")
    if kind == "block-top":
        most = block or BLOCK
        if not 1 <= amount <= most:
            raise InputError(
                f"k of block-top:K is {amount:g}, but it must be a whole number from 1 to {most}: it is how many of "
                f"{most} numbers are sent"
            )
    elif not LEAST_SPACING <= amount <= MOST_SPACING:
        raise InputError(
            f"Δ of {kind} is {amount:g}, but it must be from {LEAST_SPACING:g} to {MOST_SPACING:g}: it is in root mean "
            f"squares of a block, such as {kind}:1"
        )
    return BlockSpelling(kind, float(amount), block)
