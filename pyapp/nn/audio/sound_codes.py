"""What codecs of sound give: codes, a few numbers for each moment; and parts that several codecs have."""

from __future__ import annotations

from typing import NamedTuple

from ...engine import Tensor, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..layers.convolution import Conv1d
from ..layers.embedding import Embedding
from ..module import Module
from ..parameter import new_parameter

SMALLEST = 1e-9  # added to the slope of an activation


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


def count_of_codebooks(kind: str, wanted: int | None, most: int) -> int:
    """How many codebooks are used; None: all. ArgumentError for a number that is not 1 to `most`."""
    count = most if wanted is None else wanted
    if type(count) is not int or not 1 <= count <= most:
        raise ArgumentError(f"{kind}: codebooks is 1 to {most}, not {wanted!r:.40}")
    return count


class Snake(Module):
    """x + sin²(a x) / a, with a slope a for each channel (Ziyin et al. 2020, arXiv 2006.08195)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = new_parameter(ops.ones, 1, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, C, N)."""
        wave = (self.alpha * x).sin()
        return x + wave * wave / (self.alpha + SMALLEST)


class SnakeBeta(Module):
    """x + sin²(exp(a) x) / exp(b), with a and b for each channel (Lee et al. 2023, arXiv 2206.04658)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha, self.beta = (new_parameter(ops.zeros, width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, C, N)."""
        wave = (self.alpha.exp().unsqueeze(1) * x).sin()
        return x + wave * wave / (self.beta.exp().unsqueeze(1) + SMALLEST)


class DirectionQuantizer(Module):
    """A codebook of few dimensions, of which the entry that points the same way stands for a vector (Yu et al. 2021,
    arXiv 2110.04627).
    """

    def __init__(self, width: int, entries: int, dimensions: int) -> None:
        super().__init__()
        self.in_proj = Conv1d(width, dimensions, 1)
        self.out_proj = Conv1d(dimensions, width, 1)
        self.codebook = Embedding(entries, dimensions)

    def encode(self, x: Tensor) -> Tensor:
        """x (B, D, T) → the numbers (B, T) int64 of the entries that point the same way."""
        vectors = ops.normalize(self.in_proj(x).transpose(1, 2), dim=-1)  # (B, T, d)
        return (vectors @ ops.normalize(self.codebook.weight, dim=-1).T).argmax(-1)

    def decode(self, numbers: Tensor) -> Tensor:
        """numbers (B, T) → (B, D, T)."""
        return self.out_proj(self.codebook(numbers).transpose(1, 2))
