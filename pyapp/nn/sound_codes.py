"""What codecs of sound give: codes, a few numbers for each moment."""

from __future__ import annotations

from typing import NamedTuple

from ..engine import Tensor
from ..engine.user_errors import describe
from ..errors import ArgumentError


class Codes(NamedTuple):
    """Sound as codes: for each chunk, the codes (B, codebooks, T) int64 of its moments, and how loud it is, (B, 1, 1),
    if the model makes all chunks equally loud.
    """

    chunks: tuple[Tensor, ...]
    scales: tuple[Tensor | None, ...]


def check_samples(kind: str, samples: Tensor, channels: int) -> None:
    """ArgumentError for samples that are not (B, channels, N). `kind`: of the model."""
    if samples.ndim != 3 or samples.shape[1] != channels or not samples.shape[2]:
        raise ArgumentError(f"{kind}: samples are (B, {channels}, N), not {describe(samples)}")


def check_codes(kind: str, codes: Codes, books: int, entries: int) -> None:
    """ArgumentError for codes of other forms or beyond the entries of a codebook."""
    if not codes.chunks:
        raise ArgumentError(f"{kind}: there are no codes")
    for chunk in codes.chunks:
        if chunk.ndim != 3 or not 1 <= chunk.shape[1] <= books or not chunk.shape[2]:
            raise ArgumentError(f"{kind}: codes are (B, 1 to {books}, T), not {describe(chunk)}")
        low, high = int(chunk.amin()), int(chunk.amax())
        if low < 0 or high >= entries:
            raise ArgumentError(f"{kind}: codes are 0 to {entries - 1}, not {low} to {high}")
