"""Steps of optimisers (native/loss.c)."""

from __future__ import annotations

from typing import Any

from ..dtype import float32
from ..launch import KERNELS
from ..op import claims
from ..operands import dense
from ..ops.optimizer_steps import AdamWSettings
from ..tensor import Tensor

_ADAMW = KERNELS["adamw_f32"]


@claims("adamw_step")
def _adamw_step(
    parameter: Tensor, mean: Tensor, squares: Tensor, grad: Tensor, settings: AdamWSettings, largest: Tensor | None
) -> Any:
    """Dense float32 tensors of one shape, without AMSGrad."""
    if largest is not None or not parameter.dtype is mean.dtype is squares.dtype is grad.dtype is float32:
        return NotImplemented
    if not parameter.shape == mean.shape == squares.shape == grad.shape or not parameter.is_contiguous():
        return NotImplemented
    if not parameter.strides == mean.strides == squares.strides:
        return NotImplemented
    if grad.strides != parameter.strides:
        grad = dense(grad)
    count = parameter.numel()
    _ADAMW.launch(4 * count >> 10, parameter, mean, squares, grad, settings.on(parameter.device), count)
    for written in (parameter, mean, squares):
        written.storage.version += 1
    return parameter
