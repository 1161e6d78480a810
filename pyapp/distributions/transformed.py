"""Distributions of functions of another distribution's draws, for instance tanh of a normal number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..engine.ops import softplus, where
from ..engine.tensor import Tensor
from .constraints import nonnegative
from .continuous import Normal
from .distribution import Distribution, sum_last


class Transform:
    """An invertible function of each element: `transform(x)`, `transform.inv(y)`, and the logarithm of the absolute
    derivative.
    """

    def __call__(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no function")

    def inv(self, y: Tensor) -> Tensor:
        """The inverse: x of y."""
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx| of each element."""
        raise NotImplementedError(f"{type(self).__name__} has no derivative")


class ExpTransform(Transform):
    """exp."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.exp()

    def inv(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class AffineTransform(Transform):
    """loc + scale x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        self.loc, self.scale = loc, scale

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.scale + self.loc

    def inv(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        size = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(abs(self.scale))
        return x * 0 + size


class SigmoidTransform(Transform):
    """sigmoid."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.sigmoid()

    def inv(self, y: Tensor) -> Tensor:
        safe = y.clamp(2.0**-126, 1 - 2.0**-24)
        return safe.log() - (-safe).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """tanh."""

    def __init__(self, cache_size: int = 0) -> None:
        pass

    def __call__(self, x: Tensor) -> Tensor:
        return x.tanh()

    def inv(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class ComposeTransform(Transform):
    """The composition of several transforms."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = list(parts)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def inv(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total = x * 0
        for part in self.parts:
            after = part(x)
            total, x = total + part.log_abs_det_jacobian(x, after), after
        return total


class TransformedDistribution(Distribution):
    """The distribution of one or several transforms of a distribution's draws. The untransformed values of the last
    draw are kept, so that its log_prob is not affected by rounding in the inverse.
    """

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.base_dist = base_distribution
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.has_rsample = base_distribution.has_rsample
        self._whole = ComposeTransform(self.transforms)
        self._last: tuple[Tensor, Tensor] | None = None
        super().__init__(base_distribution.batch_shape, base_distribution.event_shape, validate_args)

    def _made_of(self, x: Tensor) -> Tensor:
        y = self._whole(x)
        self._last = y, x
        return y

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._made_of(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._made_of(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        known = self._last is not None and self._last[0] is value
        x = self._last[1] if known and self._last is not None else self._whole.inv(value)
        return self.base_dist.log_prob(x) - sum_last(self._whole.log_abs_det_jacobian(x, value), len(self.event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        return self.base_dist.cdf(self._whole.inv(value))


class HalfNormal(Distribution):
    """The absolute value of a normal number of mean 0."""

    has_rsample = True
    support = nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._base = Normal(0.0, scale, validate_args)
        super().__init__(self._base.batch_shape, validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        return self._base.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._base.rsample(sample_shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return where(value >= 0, self._base.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self._base.cdf(value) - 1

    def entropy(self) -> Tensor:
        return self._base.entropy() - math.log(2)
