"""The cross entropy of a linear layer's outputs, in pieces of rows: all logits of a large vocabulary need no memory."""

from __future__ import annotations

from math import prod
from typing import Any

from ...dataclass import dataclass
from ...engine import Tensor, ops
from ...engine.row_pieces import rows_at_once, rows_of_pieces, sum_of_pieces
from ...engine.user_errors import describe
from ..layers.linear import Linear
from ..module import Module
from .classification import cross_entropy

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "linear_cross_entropy"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """That linear_cross_entropy works in pieces, and how large they are: `batch_chunk_size` rows, or as
    `chunking_method` says: "auto": logits of 64 MiB on the CPU, of 512 MiB on others; "aspect_ratio:N": logits of about
    the input's size, divided by N.

    allow_retain_graph, acc_policy and acc_dtype are torch's and change nothing: backward may run again, and pieces are
    added in the logits' dtype, in float32 under autocast.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("accurate", "compact", "auto"):
            raise ValueError(f"acc_policy is 'accurate', 'compact' or 'auto', not {self.acc_policy!r}")
        name, _, factor = (self.chunking_method or "auto").partition(":")
        if not (name == "auto" and not factor) and not (name == "aspect_ratio" and _is_count(factor or "1")):
            raise ValueError(f"chunking_method is 'auto' or 'aspect_ratio:N', not {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size < 1):
            raise ValueError(f"batch_chunk_size must be a number of rows above 0, got {size!r}")
        if size is not None and name == "aspect_ratio":
            raise ValueError(f"give batch_chunk_size or chunking_method {self.chunking_method!r}, not both")

    def rows(self, count: int, in_features: int, width: int, device: Any) -> int:
        """The rows of a piece, of `count` rows whose logits are `width` numbers each."""
        if self.batch_chunk_size is not None:
            return self.batch_chunk_size
        if self.chunking_method is None:
            return max(count, 1)
        name, _, factor = self.chunking_method.partition(":")
        if name == "auto":
            return rows_at_once(width, device)
        share = -(-count // max(1, -(-width // max(in_features, 1))))
        return max(1, (1 << max(share - 1, 0).bit_length()) // int(factor or 1))


def _is_count(text: str) -> bool:
    return text.isdecimal() and int(text) > 0


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target, …) in nats.

    input (N, in) or (in,); linear_weight (C, in), or (C, d1, …, in) with an input (N, in); linear_bias as the weight
    without `in`; target: classes (N, d1, …), or probabilities (N, C, d1, …), which get no gradient in pieces; weight
    (C,). With `options` it works in pieces of rows (as Cut Cross-Entropy, Wijmans et al. 2024, arXiv 2411.09009):
    nothing of (N, C) is kept; "mean" and "sum" compute the gradients with the value, and have no second derivatives;
    "none" computes the logits again in backward. ignore_index: -100 by default. ValueError for shapes that do not fit.
    """
    name = "linear_cross_entropy"
    if input.ndim not in (1, 2) or linear_weight.ndim < 2 or input.shape[-1] != linear_weight.shape[-1]:
        raise ValueError(
            f"{name}: takes an input (N, in) or (in,) and a weight (C, ..., in), got {describe(input)} and "
            f"{describe(linear_weight)}"
        )
    classes, *places, in_features = linear_weight.shape
    if linear_bias is not None and linear_bias.shape != (classes, *places):
        raise ValueError(f"{name}: the bias {describe(linear_bias)} is not {(classes, *places)}")
    if places and input.ndim == 1:
        raise ValueError(f"{name}: a weight {describe(linear_weight)} needs an input (N, in), got {describe(input)}")
    of_probabilities = target.shape == (*input.shape[:-1], classes, *places)
    if of_probabilities and ignore_index is not None:
        raise ValueError(f"{name}: ignore_index is for targets that are classes, not probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    width = classes * prod(places)
    matrix = linear_weight.reshape(width, in_features) if places else linear_weight
    bias = linear_bias.reshape(width) if places and linear_bias is not None else linear_bias

    def losses(x: Tensor, target: Tensor, reduction: str) -> Tensor:
        logits = ops.linear(x, matrix, bias)  # (n, width)
        if places:
            logits = logits.reshape(*x.shape[:-1], classes, *places)
        return cross_entropy(
            logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
        )

    if options is None or input.ndim == 1:
        return losses(input, target, reduction)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if target.shape[:1] != input.shape[:1]:
        raise ValueError(f"{name}: targets {describe(target)} do not fit an input {describe(input)}")
    size = options.rows(input.shape[0], in_features, width, input.device)
    if reduction == "none":
        return rows_of_pieces(lambda x, target: losses(x, target, "none"), size, input, target)
    if input.shape[0] <= size:
        return losses(input, target, reduction)

    def kept(target: Tensor) -> Tensor:
        """What the mean divides by, a scalar."""
        if of_probabilities:
            return ops.tensor(target.numel() / classes, device=target.device)
        counts = target != ignored
        if weight is None:
            return counts.sum().float()
        return (weight[target.masked_fill(~counts, 0).long()] * counts).sum()

    has_kernel = not (places or of_probabilities or label_smoothing) and weight is None

    def total(x: Tensor, target: Tensor) -> Tensor:
        if not has_kernel:
            return losses(x, target, "sum")
        count = kept(target)  # the mean has a kernel, and is NaN where nothing is kept
        return ops.where(count > 0, losses(x, target, "mean") * count, 0.0)

    summed = sum_of_pieces(total, size, input, target)
    return summed if reduction == "sum" else summed / kept(target)


class LinearCrossEntropyLoss(Module):
    """linear_cross_entropy with a linear layer of its own, `linear`: in_features → num_classes for each of the places
    out_features (d1, …).
    """

    weight: Tensor | None

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
        device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if weight is not None and weight.shape != (num_classes,):
            raise ValueError(
                f"LinearCrossEntropyLoss: the weight {describe(weight)} does not fit {num_classes} classes"
            )
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"LinearCrossEntropyLoss: label_smoothing must be in [0, 1], got {label_smoothing}")
        self.register_buffer("weight", weight)
        self.num_classes, self.out_features = num_classes, tuple(out_features)
        self.reduction, self.ignore_index, self.label_smoothing = reduction, ignore_index, label_smoothing
        self.options = options
        self.linear = Linear(in_features, num_classes * prod(out_features), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        places, bias = (self.num_classes, *self.out_features), self.linear.bias
        return linear_cross_entropy(
            input, self.linear.weight.reshape(*places, self.linear.in_features), target,
            linear_bias=None if bias is None else bias.reshape(places), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        names = ("num_classes", "out_features", "reduction", "ignore_index", "label_smoothing", "options")
        settings = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"in_features={self.linear.in_features}, {settings}"
