"""An op from outside the package: rms_norm(x + residual) in one kernel, with its gradient in another; for the CPU and
for NVIDIA's cards.

Run: python examples/fused_rms_norm/fused_rms_norm.py (needs a C compiler; add "cuda" to run it on a card).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pyapp
from pyapp import Tensor
from pyapp.extension import definition_gradient, load, op

KERNELS = load(
    Path(__file__).with_name("rms_norm.c"),
    add_rms_norm="y x residual weight | rows columns | epsilon",
    add_rms_norm_backward="grad_sum grad_weight x residual weight grad_y | rows columns | epsilon",
)
CUDA_KERNELS = load(  # compiled when one is first called
    Path(__file__).with_name("rms_norm.cu"),
    add_rms_norm="y x residual weight | rows columns | epsilon",
    add_rms_norm_backward="grad_sum grad_scaled x residual weight grad_y | rows columns | epsilon",
)


@op(name="example::add_rms_norm")
def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float = 1e-5) -> Tensor:
    """The meaning, in other ops: what runs where no kernel takes the arguments, and what is differentiated twice."""
    s = x + residual
    return s * ((s * s).mean(-1, True) + epsilon).rsqrt() * weight


def fits(x: Tensor, residual: Tensor, weight: Tensor) -> bool:
    """Whether the kernels take these: dense float32 of the right shapes."""
    every = (x, residual, weight)
    return (
        all(t.dtype is pyapp.float32 and t.is_contiguous() for t in every)
        and x.shape == residual.shape
        and weight.shape == x.shape[-1:]
    )


@add_rms_norm.kernel("cpu")
def _forward(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float = 1e-5) -> Any:
    if not fits(x, residual, weight):
        return NotImplemented
    y = pyapp.empty(x.shape)
    columns = x.shape[-1]
    KERNELS.add_rms_norm(y, x, residual, weight, x.numel() // max(columns, 1), columns, epsilon)
    return y


@add_rms_norm.kernel("cuda")
def _forward_on_a_card(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float = 1e-5) -> Any:
    if not fits(x, residual, weight):
        return NotImplemented
    y = pyapp.empty(x.shape, device=x.device)
    columns = x.shape[-1]
    rows = x.numel() // max(columns, 1)
    CUDA_KERNELS.add_rms_norm(y, x, residual, weight, rows, columns, epsilon, blocks=rows, threads=128)
    return y


@add_rms_norm.gradient
def _backward(g: Tensor, y: None, x: Tensor, residual: Tensor, weight: Tensor, epsilon: float = 1e-5) -> Any:
    """Gradients of x, residual and weight. Where they are differentiated again, the definition's."""
    if pyapp.is_grad_enabled() or not fits(x, residual, weight):
        return definition_gradient(add_rms_norm, g, x, residual, weight, epsilon)
    columns = x.shape[-1]
    rows = x.numel() // max(columns, 1)
    grad_sum, g = pyapp.empty(x.shape, device=x.device), g.contiguous()
    if x.device.type == "cuda":
        scaled = pyapp.empty(x.shape, device=x.device)  # the gradient of weight, from each row
        CUDA_KERNELS.add_rms_norm_backward(
            grad_sum, scaled, x, residual, weight, g, rows, columns, epsilon, blocks=rows, threads=128
        )
        return grad_sum, grad_sum, scaled.reshape(rows, columns).sum(0)
    grad_weight = pyapp.zeros(weight.shape)
    KERNELS.add_rms_norm_backward(grad_sum, grad_weight, x, residual, weight, g, rows, columns, epsilon)
    return grad_sum, grad_sum, grad_weight


def main(device: str = "cpu") -> None:
    x, residual = pyapp.randn(1024, 512).to(device), pyapp.randn(1024, 512).to(device)
    weight = pyapp.rand(512).to(device)
    with pyapp.no_grad():
        for name, function in (("definition", add_rms_norm.definition), ("kernel", add_rms_norm)):
            start = time.perf_counter()
            for _ in range(20):
                y = function(x, residual, weight)
            y[0, 0].item()  # waits for a card
            print(f"{name}: {(time.perf_counter() - start) / 20 * 1e3:.2f} ms for {x.shape}")


if __name__ == "__main__":
    main(*sys.argv[1:])
