"""Tables of fixed positions, of sines and cosines of angles (Vaswani et al. 2017, arXiv 1706.03762)."""

from __future__ import annotations

from math import log
from typing import Any

from ...engine import Tensor, ops
from ...engine.lazy import np

MAX_TIMESCALE = 10000.0


def paired_sinusoids(positions: int, width: int) -> Tensor:
    """(positions, width) float32, in Marian and Pegasus: neighbours of the paper's table come from one angle."""
    exponents = 2 * (np.arange(width) // 2) / width
    angles = np.arange(positions)[:, None] / MAX_TIMESCALE ** exponents[None, :]
    table = np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], 1)
    return ops.from_numpy(table.astype(np.float32))


def padded_sinusoids(positions: int, width: int, padding: int) -> Tensor:
    """(positions + padding + 1, width) float32, in fairseq's models: the row of padding is zero, and the first position
    has the row after it. `width` is even, and 4 or more.
    """
    speeds = np.exp(np.arange(width // 2, dtype="float32") * np.float32(-log(MAX_TIMESCALE) / (width // 2 - 1)))
    angles = np.arange(positions + padding + 1, dtype="float32")[:, None] * speeds
    table = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype("float32")
    table[padding] = 0
    return ops.from_numpy(table)


def cosines_and_sines(positions: int, width: int) -> Tensor:
    """(positions, width) float32, in MusicGen: the cosines of all angles, then their sines. `width` is even, and 4 or
    more.
    """
    speeds = np.exp(np.arange(width // 2, dtype="float32") * np.float32(-log(MAX_TIMESCALE) / (width // 2 - 1)))
    angles = np.arange(positions, dtype="float32")[:, None] * speeds
    return ops.tensor(np.concatenate([np.cos(angles), np.sin(angles)], 1).astype("float32"))


def sines_and_cosines(positions: int, width: int) -> Tensor:
    """(positions, width) float32: the sines of the angles of `cosines_and_sines`, then their cosines."""
    cosines, sines = cosines_and_sines(positions, width).chunk(2, 1)
    return ops.cat([sines, cosines], 1)


def separate_sinusoids(positions: int, width: int) -> Tensor:
    """(positions, width) float32, in NeMo: the paper's sines of all angles, then their cosines, divided by the root of
    the width.
    """
    pairs = interleaved_sinusoids(np.arange(positions), width).reshape(positions, width // 2, 2)
    return pairs.transpose(1, 2).reshape(positions, width) * width**-0.5


def interleaved_sinusoids(places: Any, width: int) -> Tensor:
    """(N, width) float32, at places (N,): the sine and the cosine of each angle side by side, as in the paper."""
    angles = np.asarray(places)[:, None] * MAX_TIMESCALE ** -(np.arange(0, width, 2) / width)
    return ops.from_numpy(np.stack([np.sin(angles), np.cos(angles)], -1).reshape(len(angles), -1).astype(np.float32))
