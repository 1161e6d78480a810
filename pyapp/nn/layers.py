"""Layers with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import sqrt
from typing import Any

from ..engine import Tensor, as_dtype, no_grad, ops
from ..engine.dtype import Default
from ..engine.op import describe
from ..engine.ops import empty, ones, zeros
from ..errors import ArgumentError, ArgumentTypeError
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


def _parameter(create: Callable[..., Tensor], *shape: int, device: Any = None, dtype: Any = None) -> Tensor:
    """A new parameter; of the default dtype unless given. TypeError for a dtype that has no gradients."""
    kind = Default.dtype if dtype is None else as_dtype(dtype)
    if not kind.is_floating_point or kind.is_storage_only:
        raise ArgumentTypeError(f"a layer's parameters are floating-point numbers that are computed with, not {kind}")
    return Parameter(create(*(shape if _Initialization.on else (0,)), device=device, dtype=kind))


class Linear(Module):
    """x (..., in) → (..., out): x @ weight.T + bias. The weight (out, in) may be of any format; its kernel follows."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.out_features = out_features
        self.weight = _parameter(empty, out_features, in_features, **made)
        self.bias = _parameter(zeros, out_features, **made) if bias else None
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
    """Integer ids (...) → rows (..., dim) of a weight (num, dim), standard normal at first. The row `padding_idx` is
    zero at first and gets no gradient. `max_norm`, `norm_type`, `scale_grad_by_freq`: see functional.embedding.
    """

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
            raise ArgumentError(f"{type(self).__name__}: padding_idx {padding_idx} is none of {num_embeddings} rows")
        refuse_sparse(type(self).__name__, sparse)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse = False
        if _weight is not None:
            if _weight.shape != (num_embeddings, embedding_dim):
                raise ArgumentError(
                    f"{type(self).__name__}: the weight {describe(_weight)} is not [{num_embeddings}, {embedding_dim}]"
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)
            return
        self.weight = _parameter(empty, num_embeddings, embedding_dim, device=device, dtype=dtype)
        if _Initialization.on:
            self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, *args: Any, **settings: Any) -> Any:
        """Over a given weight (num, dim), which is not trained while `freeze`; further arguments as those that follow
        `embedding_dim`.
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

    def forward(self, ids: Tensor) -> Tensor:
        if self.padding_idx is None and self.max_norm is None and not self.scale_grad_by_freq:
            return ops.embedding(self.weight, ids)
        from .embeddings import embedding

        return embedding(ids, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, usual in (("padding_idx", None), ("max_norm", None), ("norm_type", 2.0), ("scale_grad_by_freq", 0)):
            value = getattr(self, name)
            text += "" if value == usual else f", {name}={value}"
        return text


def refuse_sparse(name: str, sparse: bool) -> None:
    """Gradients are dense here. NotImplementedError where sparse ones are asked for."""
    if sparse:
        raise NotImplementedError(f"{name}: sparse gradients are not there; leave out sparse=True, they will be dense")


class _Norm(Module):
    """What the two norms share: the shape of the last dims, eps, a weight and perhaps a bias of that shape."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None, affine: bool, bias: bool, **made: Any
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps: Any = eps
        self.elementwise_affine = affine
        self.weight = _parameter(ones, *self.normalized_shape, **made) if affine else None
        self.bias = _parameter(zeros, *self.normalized_shape, **made) if affine and bias else None

    def reset_parameters(self) -> None:
        """Ones and zeros."""
        with no_grad():
            for parameter, value in ((self.weight, 1.0), (self.bias, 0.0)):
                if parameter is not None:
                    parameter.fill_(value)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(_Norm):
    """Root mean square norm over the last dims, times a weight. eps None: the smallest step of the dtype, as torch."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, False, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        if self.eps is not None and self.weight is not None and len(self.normalized_shape) == 1:
            return ops.rms_norm(x, self.weight, self.eps)
        from ..engine.ops.normalization import rms_norm

        y: Tensor = rms_norm(x, self.normalized_shape, self.weight, self.eps)
        return y


class LayerNorm(_Norm):
    """Mean and variance norm over the last dims, times a weight, plus a bias."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        if self.bias is not None and len(self.normalized_shape) == 1:
            return ops.layer_norm(x, self.weight, self.bias, self.eps)
        from ..engine.ops.normalization import layer_norm

        y: Tensor = layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return y


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
