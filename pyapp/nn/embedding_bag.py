"""EmbeddingBag: sums, means or maxima of embeddings, without the rows between."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from ..engine.op import describe
from ..engine.ops import index_more, zeros
from .layers import Embedding


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, *, mode: str = "mean",
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Bags of ids → (bags, D), each the sum, mean or maximum ("max") of its rows of weight (V, D).

    `input` (B, N) holds bags as rows; (N,) needs `offsets` (B,), where each bag starts. `per_sample_weights`, shaped as
    the input, multiply the rows of a sum. `padding_idx` takes no part. An empty bag is zero.
    """
    if mode not in ("sum", "mean", "max") or (per_sample_weights is not None and mode != "sum"):
        raise ValueError(f"embedding_bag: mode is sum, mean or max (weights: sum), not {mode!r}")
    if (input.ndim == 1) == (offsets is None) or input.ndim not in (1, 2):
        raise ValueError(
            f"embedding_bag: takes (B, N), or (N,) with offsets, got {describe(input)}, {describe(offsets)}"
        )
    if offsets is None:
        count = input.shape[0]
        bags = ops.arange(count).unsqueeze(1).expand(input.shape).reshape(-1)
    else:
        starts = offsets[:-1] if include_last_offset else offsets
        count = starts.shape[0]
        if count and int(starts[0]) != 0:
            raise ValueError(f"embedding_bag: the first bag starts at {int(starts[0])}, not 0")
        bags = index_more.searchsorted(starts, ops.arange(input.shape[0]), right=True) - 1
    ids = input.reshape(-1)
    scale = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        kept = ids != padding_idx % weight.shape[0]
        ids, bags = ids[kept], bags[kept]
        scale = None if scale is None else scale[kept]
    rows = ops.embedding(weight, ids)
    if scale is not None:
        rows = rows * scale.unsqueeze(1)
    empty = zeros(count, weight.shape[1], dtype=rows.dtype)
    if mode == "max":
        index = bags.unsqueeze(1).expand(rows.shape)
        return index_more.scatter_reduce(empty, 0, index, rows, "amax", include_self=False)
    total = ops.index_add(empty, 0, bags, rows)
    if mode == "sum":
        return total
    sizes = index_more.bincount(bags, minlength=count).to(rows.dtype)
    return total / ops.clamp(sizes, 1.0).unsqueeze(1)


class EmbeddingBag(Embedding):
    """See embedding_bag; weight (num, dim)."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, mode: str = "mean", include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim)
        self.settings: dict[str, Any] = {
            "mode": mode, "include_last_offset": include_last_offset, "padding_idx": padding_idx
        }  # fmt: skip

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return embedding_bag(input, self.weight, offsets, per_sample_weights=per_sample_weights, **self.settings)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.settings['mode']!r}"
