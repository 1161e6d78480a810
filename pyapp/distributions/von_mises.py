"""The normal distribution of angles."""

from __future__ import annotations

import math
from typing import Any

from ..engine import no_grad
from ..engine.ops import cos, rand, where, zeros
from ..engine.ops.elementwise.bessel import i0e, i1e
from ..engine.tensor import Tensor
from .constraints import positive, real
from .distribution import Distribution, as_tensors, inner


class VonMises(Distribution):
    """Angles around `loc`, in radians from -π to π, with the density exp(concentration cos(x - loc)) / 2π I0."""

    arg_constraints = {"loc": real, "concentration": positive}
    support = real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = as_tensors(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = inner("loc")

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1 / I0."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k = self.concentration
        return k * (cos(value - self.loc) - 1) - math.log(2 * math.pi) - i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws samples by rejection from a wrapped Cauchy distribution (Best and Fisher 1979), in float64."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            k = self.concentration.double()
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, k.reciprocal() + k, (1 + rho * rho) / (2 * rho)).expand(shape)
            k = k.expand(shape)
            found, done = zeros(shape, dtype=k.dtype, device=k.device), zeros(shape, device=k.device) > 0
            while not bool(done.all()):
                first, second, side = (rand(shape, dtype=k.dtype, device=k.device) for _ in range(3))
                z = (math.pi * first).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                kept = (c * (2 - c) - second > 0) | ((c / second).log() + 1 - c >= 0)
                angle = where(side < 0.5, -1.0, 1.0) * f.clamp(-1.0, 1.0).acos()
                found = where(kept & done.logical_not(), angle, found)
                done = done | kept
            turned = (found + math.pi + self.loc.double()).remainder(2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)
