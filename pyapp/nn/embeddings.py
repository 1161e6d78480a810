"""Look-up of rows by id, one by one (embedding) or in bags: sums, means or maxima without the rows between."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.lazy import np
from ..engine.op import describe, op
from ..engine.ops import from_numpy, index_more, zeros
from ..errors import ArgumentError
from .layers import Embedding, refuse_sparse


@op(vjp=lambda g, _, x, scale: (g * scale,))
def _scaled_gradient(x: Tensor, scale: Tensor) -> Tensor:
    """x itself; its gradient is multiplied by `scale`."""
    return x


def _renormalize(weight: Tensor, ids: Tensor, max_norm: float, norm_type: float) -> None:
    """Shrinks the rows that are looked up, in place, where their norm is above max_norm; as torch."""
    with no_grad():
        used = from_numpy(np.unique(ids.array()).astype(np.int64))
        rows = ops.index_select(weight, 0, used)
        norms = rows.norm(norm_type, 1, True)
        weight[used] = rows * ops.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0).to(rows.dtype)


def _factors(ids: Tensor, weight: Tensor, padding_idx: int | None, by_frequency: bool) -> Tensor:
    """What the gradient of each id's row is multiplied by, in the shape of ids: 0 for padding, 1 / count."""
    factors = ops.ones(ids.shape, dtype=weight.dtype)
    if by_frequency:
        counts = index_more.bincount(ids.reshape(-1), minlength=weight.shape[0]).to(weight.dtype)
        factors = factors / counts[ids.to("int64")]
    return factors if padding_idx is None else factors * (ids != padding_idx % weight.shape[0]).to(weight.dtype)


def _check_padding(name: str, weight: Tensor, padding_idx: int | None) -> None:
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ArgumentError(f"{name}: padding_idx {padding_idx} is none of {weight.shape[0]} rows")


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (V, D) by integers (...) → (..., D). The row `padding_idx` gets no gradient.

    `max_norm`: rows that are looked up and longer, in the p-norm `norm_type`, are first shrunk to it, in the weight
    itself. `scale_grad_by_freq`: the gradient of a row is divided by how often its id occurs in the input.
    """
    refuse_sparse("embedding", sparse)
    _check_padding("embedding", weight, padding_idx)
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    rows = ops.embedding(weight, input)
    if not rows.requires_grad or (padding_idx is None and not scale_grad_by_freq):
        return rows
    scaled: Tensor = _scaled_gradient(rows, _factors(input, weight, padding_idx, scale_grad_by_freq).unsqueeze(-1))
    return scaled


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[int, Tensor]:
    """(how many bags, the bag of each id)."""
    if (input.ndim == 1) == (offsets is None) or input.ndim not in (1, 2):
        raise ArgumentError(
            f"embedding_bag: takes (B, N), or (N,) with offsets, got {describe(input)}, {describe(offsets)}"
        )
    if offsets is None:
        return input.shape[0], ops.arange(input.shape[0]).unsqueeze(1).expand(input.shape).reshape(-1)
    if offsets.ndim != 1 or offsets.dtype.category != 1 or (include_last_offset and not offsets.shape[0]):
        raise ArgumentError(f"embedding_bag: offsets are integers (B,), got {describe(offsets)}")
    if offsets.shape[0] and (int(offsets[0]) != 0 or int(offsets[-1]) > input.shape[0]):
        raise ArgumentError(
            f"embedding_bag: the first bag starts at 0 and the last within {input.shape[0]} ids, not at "
            f"{int(offsets[0])} and {int(offsets[-1])}"
        )
    starts = offsets[:-1] if include_last_offset else offsets
    return starts.shape[0], index_more.searchsorted(starts, ops.arange(input.shape[0]), right=True) - 1


def _check_bag(input: Tensor, mode: str, per_sample_weights: Tensor | None, by_frequency: bool) -> None:
    if mode not in ("sum", "mean", "max") or (per_sample_weights is not None and mode != "sum"):
        raise ArgumentError(f"embedding_bag: mode is sum, mean or max (weights: sum), not {mode!r}")
    if by_frequency and mode == "max":
        raise ArgumentError("embedding_bag: a maximum's gradient cannot be scaled by the frequency")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ArgumentError(
            f"embedding_bag: the weights {describe(per_sample_weights)} do not have the shape of {describe(input)}"
        )


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Bags of ids → (bags, D), each the sum, mean or maximum ("max") of its rows of weight (V, D).

    `input` (B, N) holds bags as rows; (N,) needs `offsets` (B,), where each bag starts; with `include_last_offset` the
    last of them is where the last bag ends. `per_sample_weights`, shaped as the input, multiply the rows of a sum.
    `padding_idx` takes no part. An empty bag is zero. The rest as for embedding.
    """
    _check_bag(input, mode, per_sample_weights, scale_grad_by_freq)
    _check_padding("embedding_bag", weight, padding_idx)
    count, bags = _bags(input, offsets, include_last_offset)
    ids = input.reshape(-1)
    scale = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        kept = ids != padding_idx % weight.shape[0]
        ids, bags = ids[kept], bags[kept]
        scale = None if scale is None else scale[kept]
    rows = embedding(ids, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
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
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, False,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"
