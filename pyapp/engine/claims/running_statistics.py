"""Batch norm by running statistics."""

from __future__ import annotations

from typing import Any

from ..dtype import float32
from ..element_programs import ElementProgram
from ..op import OPS, claims
from ..operands import is_plain
from ..ops.running_statistics import batch_norm as _batch_norm_of_users  # noqa: F401 (defines the op)
from ..tensor import Tensor, empty_contiguous
from .element_updates import record


def _factor_and_shift(_: Any, __: Any, mean: Any, var: Any, weight: Any, bias: Any, epsilon: Any) -> tuple[Any, ...]:
    factor = weight / (var + epsilon).sqrt()
    return factor, bias - mean * factor, None, None, None, None


_FACTOR_AND_SHIFT = ElementProgram(_factor_and_shift, 6, 1)


@claims("_batch_norm")
def _batch_norm(x: Tensor, mean: Tensor, var: Tensor, weight: Any, bias: Any, epsilon: float) -> Any:
    """By the running statistics."""
    given, channels = (mean, var, weight, bias), x._shape[1]
    if x.dtype is not float32:
        return NotImplemented
    for each in given:
        if not is_plain(each) or each._shape != (channels,):
            return NotImplemented
    own = (channels, *(1,) * (len(x._shape) - 2))
    factor, shift = empty_contiguous(own, float32, x.device), empty_contiguous(own, float32, x.device)
    kernel, *slots = record(_FACTOR_AND_SHIFT, channels, (factor, shift, *given), (float(epsilon),))
    kernel.launch(channels >> 11, *slots)
    y = OPS["mul"].forward(x, factor)
    added = OPS["add"].claim_in_place
    return y if added is not None and added(y, shift) else OPS["add"].forward(y, shift)
