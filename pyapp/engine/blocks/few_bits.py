"""Reads ggml's types that only files have (layout.FILE_TYPES): of one to three bits with codebooks, of three values, of
one bit, and nvfp4.

In each of them value = d * scale * number, where a scale applies to a run of values, and numbers are small and whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..lazy import np
from .codebooks import codebook, even_signs, signs
from .layout import MXFP4_VALUES, scaled, single, spread

if TYPE_CHECKING:
    from .layout import Array


class Parts(NamedTuple):
    """Blocks of types of files: d float32 (n, 1), scales (n, runs), whole but for nvfp4, and numbers int8 (n, values).
    Products of the three are exact in float32.
    """

    d: Array
    scales: Array
    numbers: Array


def parts_of(kind: str, blocks: Array) -> Parts:
    """The parts of blocks (n,), which have the fields of the type."""
    d, scales, numbers = _PARTS[kind](blocks)
    return Parts(d, scales, numbers.reshape(len(blocks), -1))


def values_of(parts: Parts) -> Array:
    """float32 (n, values)."""
    return scaled(parts.d * parts.scales, parts.numbers)


def _signed(magnitudes: Array, minus: Array) -> Array:
    """magnitudes (n, ...) with the signs (n, groups, 8) → (n, 256)."""
    return magnitudes.reshape(len(minus), -1) * minus.reshape(len(minus), -1)


def _fields(words: Array, width: int) -> Array:
    """The four numbers of `width` bits in the low bits of each word: (n, w) → (n, 4 * w), in the type of the words."""
    shifts = np.arange(0, 4 * width, width, dtype=words.dtype)
    return (words[:, :, None] >> shifts & words.dtype.type((1 << width) - 1)).reshape(len(words), -1)


def _odd(numbers: Array) -> Array:
    """1, 3, 5 … for 0, 1, 2 …"""
    return 2 * numbers.astype(np.float32) + 1


def _code(low: Array, high: Array) -> Array:
    """Numbers from their low eight bits and the bits above."""
    return low | high.astype(np.uint16) << np.uint16(8)


def _eighth(blocks: Array) -> Array:
    return single(blocks["d"]) * np.float32(0.125)


def _iq2_xxs(blocks: Array) -> tuple[Array, Array, Array]:
    codes = np.ascontiguousarray(blocks["pairs"][:, ::2]).view(np.uint8)  # (n, 32)
    words = blocks["pairs"][:, 1::2]  # (n, 8): 4 x seven bits of signs, four bits of the scale
    numbers = _signed(codebook("iq2_xxs")[codes], even_signs()[_fields(words, 7)])
    return _eighth(blocks), _odd(words >> np.uint32(28)), numbers


def _iq2_xs(blocks: Array) -> tuple[Array, Array, Array]:
    codes = blocks["codes"]  # (n, 32): nine bits of the codebook, seven of signs
    numbers = _signed(codebook("iq2_xs")[codes & np.uint16(511)], even_signs()[codes >> np.uint16(9)])
    return _eighth(blocks), _odd(spread(blocks["scales"], 1, 4)), numbers


def _iq2_s(blocks: Array) -> tuple[Array, Array, Array]:
    codes = _code(blocks["low"], spread(blocks["high"], 1, 2))  # (n, 32)
    numbers = _signed(codebook("iq2_s")[codes], signs()[blocks["signs"]])
    return _eighth(blocks), _odd(spread(blocks["scales"], 1, 4)), numbers


def _iq3_xxs(blocks: Array) -> tuple[Array, Array, Array]:
    words = blocks["words"]  # (n, 8): 4 x seven bits of signs, four bits of the scale
    numbers = _signed(codebook("iq3_xxs")[blocks["codes"]], even_signs()[_fields(words, 7)])
    return single(blocks["d"]) * np.float32(0.5), _odd(words >> np.uint32(28)), numbers


def _iq3_s(blocks: Array) -> tuple[Array, Array, Array]:
    codes = _code(blocks["low"], spread(blocks["high"], 1, 1))  # (n, 64)
    numbers = _signed(codebook("iq3_s")[codes], signs()[blocks["signs"]])
    return single(blocks["d"]), _odd(spread(blocks["scales"], 1, 4)), numbers


def _shifted(codes: Array, below: Array) -> Array:
    """Numbers of iq1_s and iq1_m: eight times -1, 0 or 1, and 1 more, or 1 less where `below` (n, g) is not 0. Codes
    (n, 32) → (n, 32, 8)."""
    shift = (1 - 2 * (below != 0)).astype(np.int8)
    return 8 * codebook("iq1_s")[codes] + np.repeat(shift, 32 // shift.shape[1], axis=1)[:, :, None]


def _iq1_s(blocks: Array) -> tuple[Array, Array, Array]:
    words = blocks["words"]  # (n, 8): 4 x three bits of the codebook, three of the scale, the sign of the shift
    numbers = _shifted(_code(blocks["low"], _fields(words, 3)), words >> np.uint16(15))
    return _eighth(blocks), _odd(words >> np.uint16(12) & np.uint16(7)), numbers


def _iq1_m(blocks: Array) -> tuple[Array, Array, Array]:
    words = blocks["words"]  # (n, 4): 4 x three bits of scales, four bits of d
    bits = words >> np.uint16(12) << np.arange(0, 16, 4, dtype=np.uint16)
    d = np.bitwise_or.reduce(bits, axis=1).astype(np.uint16).view(np.float16)
    high = spread(blocks["high"], 1, 4)  # (n, 32): three bits of the codebook, the sign of the shift
    numbers = _shifted(_code(blocks["low"], high & np.uint8(7)), high & np.uint8(8))
    return single(d) * np.float32(0.125), _odd(_fields(words, 3)), numbers


def _three_values(blocks: Array, digits: Array) -> tuple[Array, Array, Array]:
    """Digits 0, 1 and 2 (n, 256) mean -1, 0 and 1."""
    return single(blocks["d"]), np.ones((len(blocks), 1), np.float32), digits.astype(np.int8) - np.int8(1)


def _tq1_0(blocks: Array) -> tuple[Array, Array, Array]:
    """Five digits in a byte, four in the last bytes: the first digits of the fraction byte / 256 in base 3."""
    turned = [
        (part[:, None] * np.array([1, 3, 9, 27, 81][:digits], np.uint8)[:, None]).reshape(len(blocks), -1)
        for part, digits in ((blocks["low"][:, :32], 5), (blocks["low"][:, 32:], 5), (blocks["high"], 4))
    ]
    return _three_values(blocks, np.concatenate(turned, axis=1).astype(np.uint16) * 3 >> 8)


def _tq2_0(blocks: Array) -> tuple[Array, Array, Array]:
    return _three_values(blocks, spread(blocks["low"], 32, 2))


def _nvfp4(blocks: Array) -> tuple[Array, Array, Array]:
    """Scales are E4M3 without a sign. They are halved, as MXFP4_VALUES are doubled. ggml reads their NaN as 0."""
    bits = np.arange(256)
    exponent, fraction = bits >> 3 & 15, (bits & 7).astype(np.float32)
    half = np.ldexp(np.where(exponent > 0, 8 + fraction, fraction), np.maximum(exponent, 1) - 11).astype(np.float32)
    half[127] = 0
    numbers = np.array(MXFP4_VALUES, np.int8)[spread(blocks["low"], 8, 4)]  # (n, 64)
    return np.ones((len(blocks), 1), np.float32), half[blocks["scales"]], numbers


def _q1_0(blocks: Array) -> tuple[Array, Array, Array]:
    numbers = 2 * spread(blocks["low"], 1, 1).astype(np.int8) - np.int8(1)
    return single(blocks["d"]), np.ones((len(blocks), 1), np.float32), numbers


_PARTS: dict[str, Callable[[Array], tuple[Array, Array, Array]]] = {
    "iq2_xxs": _iq2_xxs,
    "iq2_xs": _iq2_xs,
    "iq2_s": _iq2_s,
    "iq3_xxs": _iq3_xxs,
    "iq3_s": _iq3_s,
    "iq1_s": _iq1_s,
    "iq1_m": _iq1_m,
    "tq1_0": _tq1_0,
    "tq2_0": _tq2_0,
    "nvfp4": _nvfp4,
    "q1_0": _q1_0,
}
