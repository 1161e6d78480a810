"""Look-up of rows by id: one by one (embedding, one_hot), or in bags, as sums, means or maxima."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.op import op
from ...engine.ops import empty
from ...engine.ops.embedding_lookup import embedding_bag as bags_of_rows
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..module import Module
from ..parameter import Initialization, Parameter, new_parameter
from .from_function import torch_function

__all__ = ["Embedding", "EmbeddingBag", "embedding", "embedding_bag", "one_hot"]
__top_level__ = ["embedding_bag"]

one_hot = torch_function(ops.one_hot, "one_hot")


@op(vjp=lambda g, _, x, scale: (g * scale,))
def _scaled_gradient(x: Tensor, scale: Tensor) -> Tensor:
    """x itself; its gradient is multiplied by `scale`."""
    return x


def _renormalize(weight: Tensor, ids: Tensor, max_norm: float, norm_type: float) -> None:
    """Shrinks the rows that are looked up to max_norm, in place, where their norm is larger, as in torch."""
    with no_grad():
        used = ops.unique(ids.to("int64"))
        rows = ops.index_select(weight, 0, used)
        norms = rows.norm(norm_type, 1, True)
        weight[used] = rows * ops.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0).to(rows.dtype)


def _factors(ids: Tensor, weight: Tensor, padding_idx: int | None, by_frequency: bool) -> Tensor:
    """The factor of the gradient of each id's row, in the shape of ids: 0 for padding, 1 / count."""
    factors = weight.new_ones(ids.shape)
    if by_frequency:
        counts = ops.bincount(ids.reshape(-1), minlength=weight.shape[0]).to(weight.dtype)
        factors = factors / counts[ids.to("int64")]
    return factors if padding_idx is None else factors * (ids != padding_idx % weight.shape[0]).to(weight.dtype)


def _check_padding(name: str, weight: Tensor, padding_idx: int | None) -> None:
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ArgumentError(f"{name}: padding_idx {padding_idx} is outside {weight.shape[0]} rows")


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (V, D) by integers (...) → (..., D), in its dtype; in float32 where it has blocks. The row
    `padding_idx` gets no gradient.

    `max_norm`: rows that are looked up and have a larger p-norm (p is `norm_type`) are first shrunk to it, in the
    weight itself. `scale_grad_by_freq`: the gradient of a row is divided by the count of its id in the input.
    `sparse`: the gradient of the weight is a sparse tensor, of these rows alone (for SparseAdam, SGD and Adagrad).
    """
    _check_padding("embedding", weight, padding_idx)
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    if sparse:
        from ...engine.ops.sparse.table_rows import rows_for_sparse_gradient  # late: few models need it

        return _in_type_of(weight, rows_for_sparse_gradient(weight, input, padding_idx, scale_grad_by_freq))
    rows = _in_type_of(weight, ops.embedding(weight, input))
    if not rows.requires_grad or (padding_idx is None and not scale_grad_by_freq):
        return rows
    scaled: Tensor = _scaled_gradient(rows, _factors(input, weight, padding_idx, scale_grad_by_freq).unsqueeze(-1))
    return scaled


def _in_type_of(weight: Tensor, rows: Tensor) -> Tensor:
    """Rows in the dtype of the weight, as torch gives them: the engine's are float32 for weights of 16 bits. Rows of
    blocks stay float32.
    """
    return rows if weight.dtype.is_quantized or rows.dtype is weight.dtype else rows.to(weight.dtype)


def _starts(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> Tensor | None:
    """The first id of each bag; None where the bags are rows."""
    if (input.ndim == 1) == (offsets is None) or input.ndim not in (1, 2):
        raise ArgumentError(
            f"embedding_bag: takes (B, N), or (N,) with offsets, got {describe(input)}, {describe(offsets)}"
        )
    if offsets is None:
        return None
    if offsets.ndim != 1 or offsets.dtype.category != 1 or (include_last_offset and not offsets.shape[0]):
        raise ArgumentError(f"embedding_bag: offsets are integers (B,), got {describe(offsets)}")
    if offsets.shape[0] and (int(offsets[0]) != 0 or int(offsets[-1]) > input.shape[0]):
        raise ArgumentError(
            f"embedding_bag: the first bag starts at 0 and the last within {input.shape[0]} ids, not at "
            f"{int(offsets[0])} and {int(offsets[-1])}"
        )
    return offsets[:-1] if include_last_offset else offsets


def _bags(input: Tensor, starts: Tensor | None) -> tuple[int, Tensor]:
    """(number of bags, the bag of each id)."""
    if starts is None:
        each = ops.arange(input.shape[0], device=input.device).unsqueeze(1)
        return input.shape[0], each.expand(input.shape).reshape(-1)
    return starts.shape[0], ops.searchsorted(starts, ops.arange(input.shape[0], device=input.device), right=True) - 1


def _check_bag(input: Tensor, mode: str, per_sample_weights: Tensor | None, by_frequency: bool, sparse: bool) -> None:
    if sparse and mode == "max":
        raise ArgumentError("embedding_bag: a maximum has no sparse gradient; leave out sparse=True")
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

    `input` (B, N) holds bags as rows. `input` (N,) needs `offsets` (B,), the start of each bag; with
    `include_last_offset` the last offset is the end of the last bag. `per_sample_weights`, in the shape of the input,
    multiply the rows of a sum. `padding_idx` is left out. An empty bag is zero. The other arguments are those of
    embedding.
    """
    _check_bag(input, mode, per_sample_weights, scale_grad_by_freq, sparse)
    _check_padding("embedding_bag", weight, padding_idx)
    starts = _starts(input, offsets, include_last_offset)
    if per_sample_weights is None and padding_idx is None and not scale_grad_by_freq and not sparse:
        if mode != "max":
            if max_norm is not None:
                _renormalize(weight, input, max_norm, norm_type)
            return _in_type_of(weight, bags_of_rows(weight, input, starts, mode == "mean"))
        if starts is None and input.shape[1]:
            return embedding(input, weight, None, max_norm, norm_type, False, sparse).amax(1)
    count, bags = _bags(input, starts)
    ids = input.reshape(-1)
    scale = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        kept = ids != padding_idx % weight.shape[0]
        ids, bags = ids[kept], bags[kept]
        scale = None if scale is None else scale[kept]
    rows = embedding(ids, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    if scale is not None:
        rows = rows * scale.unsqueeze(1)
    empty = rows.new_zeros((count, weight.shape[1]))
    if mode == "max":
        index = bags.unsqueeze(1).expand(rows.shape)
        return ops.scatter_reduce(empty, 0, index, rows, "amax", include_self=False)
    total = ops.index_add(empty, 0, bags, rows)
    if mode == "sum":
        return total
    sizes = ops.bincount(bags, minlength=count).to(rows.dtype)
    return total / ops.clamp(sizes, 1.0).unsqueeze(1)


class Embedding(Module):
    """Integer ids (...) → rows (..., dim) of a weight (num, dim), initially standard normal. The row `padding_idx` is
    initially zero and gets no gradient. `max_norm`, `norm_type`, `scale_grad_by_freq`, `sparse`: see
    functional.embedding.
    """

    # Whether rows of weights of 16 bits are float32, in which models compute that were loaded in such a type.
    float32_rows = False

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"{type(self).__name__}: padding_idx {padding_idx} is outside {num_embeddings} rows")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse = sparse
        if _weight is not None:
            if _weight.shape != (num_embeddings, embedding_dim):
                raise ArgumentError(
                    f"{type(self).__name__}: the weight {describe(_weight)} is not [{num_embeddings}, {embedding_dim}]"
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze and _weight.dtype.has_gradient)
            return
        self.weight = new_parameter(empty, num_embeddings, embedding_dim, device=device, dtype=dtype)
        if _freeze:
            self.weight.requires_grad_(False)
        if Initialization.on:
            self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, *args: Any, **settings: Any) -> Any:
        """An embedding with a given weight (num, dim), which is not trained if `freeze`. The other arguments are those
        of the constructor after `embedding_dim`.
        """
        if embeddings.ndim != 2:
            raise ArgumentError(f"{cls.__name__}: takes a weight (num, dim), got {describe(embeddings)}")
        rows, columns = embeddings.shape
        made: Any = cls(rows, columns, *args, **{**settings, "_weight": embeddings})
        made.weight.requires_grad_(not freeze)
        return made

    def reset_parameters(self) -> None:
        with no_grad():
            self.weight.normal_()
            if self.padding_idx is not None:
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        if self.padding_idx is None and self.max_norm is None and not (self.scale_grad_by_freq or self.sparse):
            rows = ops.embedding(self.weight, input)
            return rows if self.float32_rows else _in_type_of(self.weight, rows)
        return embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def logits(self, x: Tensor) -> Tensor:
        """x (..., dim) times every row → (..., num), of models whose last layer is the embedding."""
        return ops.linear(x, self.weight)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False, "sparse": False}
        for name, default in usual.items():
            value = getattr(self, name)
            text += "" if value == default else f", {name}={value}"
        return text


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
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text, padding = super().extra_repr(), f", padding_idx={self.padding_idx}"
        return f"{text.replace(padding, '')}, mode={self.mode!r}{'' if self.padding_idx is None else padding}"
