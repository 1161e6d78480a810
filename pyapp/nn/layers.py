"""Layers with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import sqrt
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.ops import empty, ones, zeros
from .module import Module, Parameter


class _Initialization:
    """Whether new layers allocate and fill their parameters."""

    on = True


@contextmanager
def skip_initialization() -> Iterator[None]:
    """Inside, new layers have parameters of no size: for models whose weights are about to be read from a file."""
    before, _Initialization.on = _Initialization.on, False
    try:
        yield
    finally:
        _Initialization.on = before


def _parameter(create: Callable[..., Tensor], *shape: int) -> Tensor:
    return Parameter(create(*shape) if _Initialization.on else empty(0))


class Linear(Module):
    """x (..., in) → (..., out): x @ weight.T + bias. The weight (out, in) may be of any format; its kernel follows."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = _parameter(empty, out_features, in_features)
        self.bias = _parameter(zeros, out_features) if bias else None
        if _Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±1 / sqrt(in), as torch.nn.Linear."""
        bound = 1 / sqrt(self.in_features) if self.in_features else 0.0
        with no_grad():
            self.weight.uniform_(-bound, bound)
            if self.bias is not None:
                self.bias.uniform_(-bound, bound)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        return ops.linear(x, self.weight, self.bias, residual)

    def extra_repr(self) -> str:
        kind = "" if self.weight.dtype.name == "float32" else f", dtype={self.weight.dtype.name}"
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}{kind}"


class Embedding(Module):
    """Integer ids (...) → rows (..., dim) of a weight (num, dim), standard normal at first."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = _parameter(empty, num_embeddings, embedding_dim)
        if _Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        with no_grad():
            self.weight.normal_()

    def forward(self, ids: Tensor) -> Tensor:
        return ops.embedding(self.weight, ids)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class RMSNorm(Module):
    """Root mean square norm over the last dim, times a weight (dim,)."""

    def __init__(self, dim: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.dim = dim
        self.epsilon = epsilon
        self.weight = _parameter(ones, dim)

    def forward(self, x: Tensor) -> Tensor:
        return ops.rms_norm(x, self.weight, self.epsilon)

    def extra_repr(self) -> str:
        return f"{self.dim}, epsilon={self.epsilon}"


class LayerNorm(Module):
    """Mean and variance norm over the last dim, times a weight plus a bias (dim,)."""

    def __init__(self, dim: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.dim = dim
        self.epsilon = epsilon
        self.weight = _parameter(ones, dim)
        self.bias = _parameter(zeros, dim)

    def forward(self, x: Tensor) -> Tensor:
        return ops.layer_norm(x, self.weight, self.bias, self.epsilon)

    def extra_repr(self) -> str:
        return f"{self.dim}, epsilon={self.epsilon}"


class KVCache:
    """Keys and values of the tokens so far: for each layer two tensors (kv_heads, capacity, head_dim), float32."""

    def __init__(self, layers: int, kv_heads: int, capacity: int, head_dim: int) -> None:
        self.capacity = capacity
        self.keys = [zeros(kv_heads, capacity, head_dim) for _ in range(layers)]
        self.values = [zeros(kv_heads, capacity, head_dim) for _ in range(layers)]

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in (*self.keys, *self.values))


def initialize_normal(parameter: Tensor, std: float, generator: Any = None) -> None:
    """Fills a parameter from a normal distribution."""
    with no_grad():
        parameter.normal_(0.0, std, generator=generator)
