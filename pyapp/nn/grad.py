"""Gradients of convolutions, as functions: torch.nn.grad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..engine import ops
from ..engine.autograd import enable_grad, grad, is_grad_enabled
from ..engine.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(dims: int, x: Tensor, weight: Tensor, of: Tensor, grad_output: Tensor, settings: Sequence[Any]) -> Tensor:
    """The gradient of a convolution in one of its operands, whose values do not matter."""
    record = is_grad_enabled()
    of.requires_grad_()
    with enable_grad():
        y = getattr(ops, f"conv{dims}d")(x, weight, None, *settings)
        found = grad(y, of, grad_output, create_graph=record)[0]
    assert found is not None
    return found


def _of_input(dims: int) -> Callable[..., Tensor]:
    def function(
        input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        x = weight.new_zeros(tuple(input_size))
        return _gradient(dims, x, weight, x, grad_output, (stride, padding, dilation, groups))

    function.__name__ = function.__qualname__ = f"conv{dims}d_input"
    function.__doc__ = f"""The gradient of conv{dims}d in its input, of shape `input_size` (N, C, ...), from that of its
    result (N, O, ...) and the weight (O, C / groups, ...)."""
    return function


def _of_weight(dims: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        weight = input.new_zeros(tuple(weight_size))
        return _gradient(dims, input, weight, weight, grad_output, (stride, padding, dilation, groups))

    function.__name__ = function.__qualname__ = f"conv{dims}d_weight"
    function.__doc__ = f"""The gradient of conv{dims}d in its weight, of shape `weight_size` (O, C / groups, ...), from
    that of its result (N, O, ...) and the input (N, C, ...)."""
    return function


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (1, 2, 3))
