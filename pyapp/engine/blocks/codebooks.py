"""The codebooks of ggml's types of one to three bits: a number of 8 to 11 bits stands for 8 or 4 magnitudes.

Source: ggml-common.h of https://github.com/ggml-org/ggml (MIT). `python -m scripts.codebooks` writes codebooks.bin.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass

from ..lazy import np

if TYPE_CHECKING:
    from .layout import Array


@dataclass(frozen=True, slots=True)
class Codebook:
    """`entries` of `values` numbers each, all from the growing list `magnitudes`."""

    entries: int
    values: int
    magnitudes: tuple[int, ...]


# ggml doubles the magnitudes of iq3_xxs.
_TWO_BITS, _THREE_BITS = (8, 25, 43), (2, 6, 10, 14, 18, 22, 26, 31)
# In the order of the file.
CODEBOOKS = {
    "iq2_xxs": Codebook(256, 8, _TWO_BITS),
    "iq2_xs": Codebook(512, 8, _TWO_BITS),
    "iq2_s": Codebook(1024, 8, _TWO_BITS),
    "iq3_xxs": Codebook(256, 4, _THREE_BITS),
    "iq3_s": Codebook(512, 4, (1, 3, 5, 7, 9, 11, 13, 15)),
    "iq1_s": Codebook(2048, 8, (-1, 0, 1)),
}


@cache
def _entries() -> dict[str, Array]:
    """The entries (entries,) of each codebook: the places of its values in the list of magnitudes, 2 or 4 bits each."""
    packed = zlib.decompress(resources.files(__package__).joinpath("codebooks.bin").read_bytes())
    steps = np.frombuffer(packed, np.uint8).reshape(2, -1).T.astype(np.uint16) @ np.array([1, 256], np.uint16)
    ends = np.cumsum([book.entries for book in CODEBOOKS.values()])
    return {
        name: np.cumsum(part, dtype=np.uint16) for name, part in zip(CODEBOOKS, np.split(steps, ends[:-1]), strict=True)
    }


@cache
def codebook(name: str) -> Array:
    """The values of a codebook, int8 (entries, values)."""
    book = CODEBOOKS[name]
    width = 16 // book.values  # bits
    places = _entries()[name][:, None] >> np.arange(0, 16, width, dtype=np.uint16) & np.uint16((1 << width) - 1)
    return np.array(book.magnitudes, np.int8)[places]


@cache
def signs() -> Array:
    """The signs of a byte's bits, the lowest first, int8 (256, 8): -1 where the bit is set."""
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    return (1 - 2 * bits).astype(np.int8)


@cache
def even_signs() -> Array:
    """The signs that seven bits stand for, int8 (128, 8): the eighth makes the number of minus signs even."""
    odd = np.array([number.bit_count() & 1 for number in range(128)])
    return signs()[np.arange(128) | odd << 7]
