"""What distributions of one's own use, by torch.distributions.utils' names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from numbers import Number
from typing import Any

from ..engine.autograd import enable_grad
from ..engine.ops import randn, sigmoid, softmax, tril_indices
from ..engine.ops.dtype_limits import finfo
from ..engine.tensor import Tensor
from .distribution import as_tensors
from .transforms import sum_last as _sum_rightmost  # noqa: F401  # by the name that other packages import

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers get the dtype and the device of the tensors."""
    for value in values:
        if not isinstance(value, (Tensor, Number)):
            raise ValueError(f"broadcast_all: takes tensors and numbers, not {type(value).__name__}")
    return tuple(as_tensors(*values))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: of two classes for each number, or of the classes in the last dim."""
    return sigmoid(logits) if is_binary else softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities so far from 0 and 1 that their logarithms are finite."""
    least = finfo(probs.dtype).eps
    return probs.clamp(least, 1 - least)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of logits_to_probs; probabilities of 0 and 1 become finite logits."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of matrices (..., N, N) up to the diagonal `diag`, row by row: (..., count)."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"tril_matrix_to_vec: diag is from {-size} to {size - 1}, not {diag}")
    rows, columns = tril_indices(size, size, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular matrices (..., N, N) with the elements of vectors up to the diagonal `diag`, row by row."""
    count = vec.shape[-1]
    size = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(size) - size:
        raise ValueError(f"vec_to_tril_matrix: {count} elements are not a lower triangle with diag {diag}")
    side = round(size)
    mat = vec.new_zeros((*vec.shape[:-1], side, side))
    rows, columns = tril_indices(side, side, diag)
    mat[..., rows, columns] = vec
    return mat


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    return randn(tuple(shape), dtype=dtype, device=device)


class lazy_property:
    """A property that is computed when it is first read, and then an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
