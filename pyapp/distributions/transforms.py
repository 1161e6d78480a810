"""Invertible functions, by torch.distributions.transforms' names: what makes one distribution of another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..engine.ops import broadcast_shapes, cat, diag_embed, softmax, softplus, stack
from ..engine.ops.dtype_limits import finfo
from ..engine.ops.padding import pad
from ..engine.tensor import Tensor
from . import constraints
from .constraints import Constraint

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "biject_to",
    "identity_transform", "transform_to",
]  # fmt: skip


def sum_last(x: Any, dims: int) -> Any:
    """Sums over the last dims."""
    return x.sum(tuple(range(-dims, 0))) if dims else x


def _inside(x: Tensor) -> Tensor:
    """Probabilities, kept from 0 and 1."""
    limits = finfo(x.dtype)
    return x.clamp(limits.tiny, 1 - limits.eps)


class Transform:
    """A function of tensors with an inverse: `transform(x)`, `transform.inv(y)`, and the logarithm of the absolute
    determinant of the derivative, `log_abs_det_jacobian(x, y)`.

    A subclass writes `_call(x)`, `_inverse(y)` and `log_abs_det_jacobian`; `domain` and `codomain` are constraints
    with an `event_dim`, the dims that belong together. With `cache_size=1` the inverse of the last result is its x.
    """

    bijective = False
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size is 0 or 1, not {cache_size!r}")
        self._cache_size = cache_size

    _cache_size = 0
    _last: tuple[Any, Any] = (None, None)

    def __call__(self, x: Any) -> Any:
        if not self._cache_size:
            return self._call(x)
        if self._last[0] is not x:
            self._last = x, self._call(x)
        return self._last[1]

    def _inv_call(self, y: Any) -> Any:
        if not self._cache_size:
            return self._inverse(y)
        if self._last[1] is not y:
            self._last = self._inverse(y), y
        return self._last[0]

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no function: write _call(x)")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse: write _inverse(y)")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy / dx|, of each element, or of each event of `domain`'s dims."""
        raise NotImplementedError(f"{type(self).__name__} has no derivative: write log_abs_det_jacobian(x, y)")

    @property
    def inv(self) -> Transform:
        """The inverse, a transform too."""
        return _Inverse(self)

    @property
    def event_dim(self) -> int:
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(f"{type(self).__name__}: event_dim of what changes it; take domain's or codomain's")
        return self.domain.event_dim

    @property
    def sign(self) -> Any:
        """1 or -1: whether it grows or falls."""
        raise NotImplementedError(f"{type(self).__name__} neither grows nor falls everywhere")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same with another cache_size."""
        if cache_size == self._cache_size:
            return self
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, _cache_size=cache_size, _last=(None, None))
        return other

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of y for that of x."""
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of x for that of y."""
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        return self is other or type(self) is type(other) and self._settings() == other._settings()

    def __hash__(self) -> int:
        return id(self)

    def _settings(self) -> Any:
        """What makes two of a class equal."""
        return () if self.bijective and not set(self.__dict__) - {"_cache_size", "_last"} else id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._forward = transform

    domain = property(lambda self: self._forward.codomain)
    codomain = property(lambda self: self._forward.domain)
    bijective = property(lambda self: self._forward.bijective)
    sign = property(lambda self: self._forward.sign)

    @property
    def inv(self) -> Transform:
        return self._forward

    def __call__(self, x: Any) -> Any:
        return self._forward._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._forward(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._forward.log_abs_det_jacobian(y, x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._forward.with_cache(cache_size).inv

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return self._forward.forward_shape(shape)

    def _settings(self) -> Any:
        return type(self._forward), self._forward._settings()

    def __repr__(self) -> str:
        return f"_InverseTransform({self._forward!r})"


class _Growing(Transform):
    bijective = True
    sign = 1


class ExpTransform(_Growing):
    """exp."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x to the power `exponent`, for numbers above 0."""

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        return self.exponent.sign() if isinstance(self.exponent, Tensor) else math.copysign(1, self.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return _broadcast(shape, self.exponent)

    inverse_shape = forward_shape

    def _settings(self) -> Any:
        return _number(self.exponent)


class AffineTransform(Transform):
    """loc + scale x, of elements, or of events of `event_dim` dims."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = constraints.over_dims(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return x * self.scale + self.loc

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        size = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(abs(self.scale))
        return sum_last(x * 0 + size, self.event_dim)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return _broadcast(shape, self.loc, self.scale)

    inverse_shape = forward_shape

    def _settings(self) -> Any:
        return _number(self.loc), _number(self.scale), self.event_dim


class SigmoidTransform(_Growing):
    """sigmoid."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _inside(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        safe = _inside(y)
        return safe.log() - (-safe).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Growing):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(_Growing):
    """tanh."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|; of its inverse, y."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(Transform):
    """softmax over the last dim; its inverse gives one of many x, log y."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """K numbers → K + 1 probabilities: each takes a part of what is left."""

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.simplex

    @staticmethod
    def _offset(x: Tensor, count: int) -> Tensor:
        return (count + 1 - x.new_ones(count).cumsum(-1)).log()

    def _call(self, x: Tensor) -> Tensor:
        z = _inside((x - self._offset(x, x.shape[-1])).sigmoid())
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=2.0**-126)
        return taken.log() - left.log() + self._offset(y, taken.shape[-1])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x, x.shape[-1])
        return (-x - softplus(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """Matrices → lower triangles with a diagonal above 0, its exp."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """Matrices → symmetric matrices with eigenvalues above 0, by their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(y.cholesky())


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers → the Cholesky factor of a correlation matrix of D."""

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        r = _strict_triangle(x.tanh().clamp(-1 + 2.0**-23, 1 - 2.0**-23))
        left = (1 - r.square()).sqrt().cumprod(-1)
        return (r + diag_embed(r.new_ones(r.shape[:-1]))) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        numbers = _under(y, y.shape[-1]) / _under(pad(left[..., :-1], [1, 0], value=1), y.shape[-1]).sqrt()
        return numbers.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        size = y.shape[-1]
        steps = pad(left[..., :-1], [1, 0], value=1)
        inner = (0.5 * _under(steps, size).log()).sum(-1)
        return inner - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise ValueError(f"CorrCholeskyTransform: {shape[-1]} numbers are not a triangle of a matrix")
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _strict_triangle(x: Tensor) -> Tensor:
    """(..., n) → (..., D, D) with the numbers below the diagonal, row by row."""
    size = CorrCholeskyTransform().forward_shape(x.shape)[-1]
    rows, at = [], 0
    for row in range(size):
        rows.append(pad(x[..., at : at + row], [0, size - row]))
        at += row
    return stack(rows, -2)


def _under(x: Tensor, size: int) -> Tensor:
    """(..., D, D) → (..., n): what is below the diagonal, row by row."""
    return cat([x[..., row, :row] for row in range(size)], -1)


class CumulativeDistributionTransform(_Growing):
    """The cdf of a distribution, whose icdf is the inverse."""

    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Tensor) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return self.distribution.log_prob(x)


class IndependentTransform(Transform):
    """A transform of elements with some of the last dims as one event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Another shape of the last dims."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(f"ReshapeTransform: {self.in_shape} and {self.out_shape} have other numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self._changed(x.shape, self.in_shape, self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self._changed(y.shape, self.out_shape, self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    @staticmethod
    def _changed(shape: Any, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        at = len(shape) - len(old)
        if at < 0 or tuple(shape[at:]) != old:
            raise ValueError(f"ReshapeTransform: the last dims of {tuple(shape)} are not {old}")
        return (*shape[:at], *new)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return self._changed(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return self._changed(shape, self.out_shape, self.in_shape)


class ComposeTransform(Transform):
    """The composition of several transforms."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        self.bijective = all(part.bijective for part in self.parts)
        self.domain, self.codomain = self._ends()

    def _ends(self) -> tuple[Constraint, Constraint]:
        if not self.parts:
            return constraints.real, constraints.real
        first, last = self.parts[0].domain, self.parts[-1].codomain
        more = last.event_dim
        for part in reversed(self.parts):
            more = max(more + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        less = first.event_dim
        for part in self.parts:
            less = max(less + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return (
            constraints.independent(first, more - first.event_dim) if more > first.event_dim else first,
            constraints.independent(last, less - last.event_dim) if less > last.event_dim else last,
        )

    @property
    def sign(self) -> Any:
        found = 1
        for part in self.parts:
            found = found * part.sign
        return found

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        total = None
        dims = self.domain.event_dim
        for at, part in enumerate(self.parts):
            after = y if at == len(self.parts) - 1 else part(x)
            found = sum_last(part.log_abs_det_jacobian(x, after), dims - part.domain.event_dim)
            total = found if total is None else total + found
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
        return x * 0 if total is None else total

    def with_cache(self, cache_size: int = 1) -> Transform:
        return ComposeTransform(self.parts, cache_size)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def _settings(self) -> Any:
        return [(type(part), part._settings()) for part in self.parts]

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {parts}\n)"


class _Parts(Transform):
    """Base of what transforms the parts of a tensor along `dim` one by one."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [part.with_cache(cache_size) for part in tseq], dim
        self.bijective = all(part.bijective for part in self.transforms)
        most = max(part.domain.event_dim for part in self.transforms)
        self.domain = constraints.over_dims(constraints.real, most)
        self.codomain = constraints.over_dims(constraints.real, most)

    def _split(self, x: Tensor) -> Any:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([part(piece) for part, piece in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([part.inv(piece) for part, piece in zip(self.transforms, self._split(y), strict=True)])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return self._join(
            [sum_last(part.log_abs_det_jacobian(a, b), self.event_dim - part.event_dim) for part, a, b in parts]
        )


class CatTransform(_Parts):
    """Transforms of the parts of `lengths` along `dim`."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:  # fmt: skip
        self.lengths = list(lengths or [1] * len(tseq))
        super().__init__(tseq, dim, cache_size)

    def _split(self, x: Tensor) -> Any:
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return cat(parts, self.dim)


class StackTransform(_Parts):
    """A transform for each index of `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _split(self, x: Tensor) -> Any:
        return x.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return stack(parts, self.dim)


identity_transform = ComposeTransform([])


def _number(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value


def _broadcast(shape: Any, *values: Any) -> tuple[int, ...]:
    from_values = [tuple(value.shape) for value in values if isinstance(value, Tensor)]
    return tuple(broadcast_shapes(tuple(shape), *from_values))


class _Registry:
    """Transforms from all numbers to those that a constraint allows."""

    def __init__(self, bijective: bool) -> None:
        self._bijective = bijective
        self._own: dict[Any, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """The function that makes the transform for a constraint, or for those of a class; also a decorator."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        self._own[constraint] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        own = self._own.get(constraint) or self._own.get(type(constraint))
        found = own(constraint) if own else self._known(constraint)
        if found is None:
            raise NotImplementedError(f"there is no transform to {constraint!r}: register one")
        return found

    def _known(self, constraint: Constraint) -> Transform | None:
        if constraint is constraints.simplex:
            return StickBreakingTransform() if self._bijective else SoftmaxTransform()
        if constraint is constraints.corr_cholesky:
            return CorrCholeskyTransform()
        if constraint in (constraints.lower_cholesky, constraints.positive_definite) and not self._bijective:
            return LowerCholeskyTransform() if constraint is constraints.lower_cholesky else PositiveDefiniteTransform()
        if constraint.is_discrete:
            return None
        if isinstance(constraint, constraints.cat):
            return CatTransform([self(part) for part in constraint.cseq], constraint.dim, constraint.lengths)
        if isinstance(constraint, constraints.stack):
            return StackTransform([self(part) for part in constraint.cseq], constraint.dim)
        low, high = constraint.limits
        if low is not None and high is not None:
            return _moved(SigmoidTransform(), low, high - low)
        if low is not None or high is not None:
            return _moved(ExpTransform(), low, 1) if low is not None else _moved(ExpTransform(), high, -1)
        if constraint.base is not None:
            count = constraint.event_dim - constraint.base.event_dim
            return IndependentTransform(self(constraint.base), count)
        return identity_transform if constraint is constraints.real else None


def _moved(transform: Transform, loc: Any, scale: Any) -> Transform:
    plain = not isinstance(loc, Tensor) and not isinstance(scale, Tensor) and loc == 0 and scale == 1
    return transform if plain else ComposeTransform([transform, AffineTransform(loc, scale)])


biject_to = _Registry(True)
transform_to = _Registry(False)
