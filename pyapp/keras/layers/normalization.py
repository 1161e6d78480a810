"""Normalisation, with Keras' defaults: epsilon 0.001, momentum 0.99."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, no_grad, ops
from ...train.metrics import in_float32
from ...train.stateless import about_to_write
from .. import initializers
from ..arguments import dim_of
from ..config import epsilon
from ..core import Layer
from ..nn_functions import rms_normalization
from .weight_rules import add_weight, set_rules

__all__ = ["BatchNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization", "UnitNormalization"]


class _Scaled(Layer):
    """Base: gamma and beta along one or several axes."""

    supports_masking = True

    def __init__(
        self, axis: Any, epsilon: float, center: bool, scale: bool, beta_initializer: Any, gamma_initializer: Any,
        beta_regularizer: Any, gamma_regularizer: Any, beta_constraint: Any, gamma_constraint: Any, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        self.axis, self.epsilon, self.center, self.scale = axis, epsilon, center, scale
        set_rules(self, "beta", beta_initializer, beta_regularizer, beta_constraint)
        set_rules(self, "gamma", gamma_initializer, gamma_regularizer, gamma_constraint)
        self.gamma: Tensor | None = None
        self.beta: Tensor | None = None

    def _axes(self, ndim: int) -> list[int]:
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        return sorted(dim_of(axis, ndim) for axis in axes)

    def _add_scale(self, shape: Any) -> None:
        if self.scale:
            self.gamma = add_weight(self, "gamma", shape, autocast=False)
        if self.center:
            self.beta = add_weight(self, "beta", shape, autocast=False)

    def call(self, inputs: Tensor) -> Tensor:
        if not inputs.dtype.is_floating_point:
            inputs = inputs.to(self.compute_dtype)
        return self._as_output(self.normalized(in_float32(inputs)))

    def normalized(self, inputs: Tensor) -> Tensor:
        """The outputs, in the dtype of the weights."""
        raise NotImplementedError


class BatchNormalization(_Scaled):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta of each channel: over the batch when training, else by the
    moving means (Ioffe and Szegedy 2015, arXiv 1502.03167).

    With `renorm`, training too normalises by moving means, those with `renorm_momentum`, through which no gradient goes
    (Ioffe 2017, arXiv 1702.03275): the ratio r of the deviations stays within rmin and rmax of `renorm_clipping`, the
    shift d of the means within -dmax and dmax.
    """

    probe_scale = 1
    resolved = ("renorm_clipping",)

    def __init__(
        self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones", beta_regularizer: Any = None, gamma_regularizer: Any = None,
        beta_constraint: Any = None, gamma_constraint: Any = None, synchronized: bool = False, renorm: bool = False,
        renorm_clipping: Any = None, renorm_momentum: float = 0.99, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            axis, epsilon, center, scale, beta_initializer, gamma_initializer, beta_regularizer, gamma_regularizer,
            beta_constraint, gamma_constraint, **settings,
        )  # fmt: skip
        if synchronized:
            raise NotImplementedError("BatchNormalization: synchronized=True does not exist; leave it out")
        limits = dict(renorm_clipping or {}) if renorm else {}
        if unknown := set(limits) - {"rmin", "rmax", "dmax"}:
            raise ValueError(f"BatchNormalization: renorm_clipping has rmin, rmax and dmax, not {sorted(unknown)}")
        least, most, shift = (limits.get(key) for key in ("rmin", "rmax", "dmax"))
        if least is not None and most is not None and most < least:
            raise ValueError(f"BatchNormalization: rmax of renorm_clipping is {most}, but rmin {least}")
        if shift is not None and shift < 0:
            raise ValueError(f"BatchNormalization: dmax of renorm_clipping is {shift}, below 0")
        self.momentum = momentum
        self.renorm_clipping = limits if renorm else renorm_clipping
        self.renorm, self.renorm_limits, self.renorm_momentum = renorm, (least, most, shift), renorm_momentum
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)

    def build(self, input_shape: Any) -> None:
        if not -len(input_shape) <= self.axis < len(input_shape):
            raise ValueError(f"there is no axis {self.axis}: the inputs have {len(input_shape)} dims, the batch first")
        channels = input_shape[self.axis]
        self._add_scale((channels,))
        self.moving_mean = self.add_weight(
            (channels,), self.moving_mean_initializer, name="moving_mean", trainable=False, autocast=False
        )
        self.moving_variance = self.add_weight(
            (channels,), self.moving_variance_initializer, name="moving_variance", trainable=False, autocast=False
        )
        if not self.renorm:
            return

        def deviation(shape: Any, dtype: Any = None) -> Tensor:
            found: Tensor = self.moving_variance_initializer(shape, dtype=dtype).sqrt()
            return found

        for name, initializer in (
            ("moving_stddev", deviation), ("renorm_mean", self.moving_mean_initializer), ("renorm_stddev", deviation),
        ):  # fmt: skip
            setattr(self, name, self.add_weight((channels,), initializer, name=name, trainable=False, autocast=False))

    def call(self, inputs: Tensor, training: bool = False, mask: Tensor | None = None) -> Tensor:
        x = in_float32(inputs if inputs.dtype.is_floating_point else inputs.to(self.compute_dtype))
        return self._as_output(self._of_batch(x, training, mask))

    def _of_batch(self, x: Tensor, training: bool, mask: Tensor | None) -> Tensor:
        axis = dim_of(self.axis, x.ndim)
        others = [dim for dim in range(x.ndim) if dim != axis]
        if training and self.trainable and (mask is not None or self.renorm):
            return self._by_steps(x, mask, axis, others)
        if training and self.trainable:
            # As torch's batch_norm, which has a kernel; the moving variance is Keras': not corrected.
            with no_grad():
                mean = x.detach().mean(others)
                variance = x.detach().var(others, correction=0)
                keep = self.momentum
                about_to_write(self.moving_mean, self.moving_variance)
                self.moving_mean.mul_(keep).add_(mean * (1 - keep))
                self.moving_variance.mul_(keep).add_(variance * (1 - keep))
            if x.numel() == x.shape[axis]:  # one value in each channel, as of a last batch of one example
                return self._scaled(x - x.mean(others, True), axis)
            y = ops.batch_norm(x.movedim(axis, 1), None, None, self.gamma, self.beta, True, 0.0, self.epsilon)
        else:
            y = ops.batch_norm(
                x.movedim(axis, 1),
                self.moving_mean,
                self.moving_variance,
                self.gamma,
                self.beta,
                False,
                0.0,
                self.epsilon,
            )
        return y.movedim(1, axis)

    def _scaled(self, difference: Tensor, axis: int) -> Tensor:
        """Differences from the mean where the variance is 0, times gamma, plus beta."""
        shape = [-1 if dim == axis else 1 for dim in range(difference.ndim)]
        y = difference / self.epsilon**0.5
        y = y if self.gamma is None else y * self.gamma.reshape(shape)
        return y if self.beta is None else y + self.beta.reshape(shape)

    def _by_steps(self, x: Tensor, mask: Tensor | None, axis: int, others: list[int]) -> Tensor:
        """Training with the mean and the variance over what the mask (B, steps) does not leave out, or by the moving
        ones of `renorm`."""
        if mask is None:
            mean = x.mean(others, True)
            variance = (x - mean).square().mean(others, True)
        else:
            counts = mask.to("bool").reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)).expand(x.shape)
            count = counts.to(x.dtype).sum(others, keepdim=True) + epsilon()
            nothing = ops.zeros((), dtype=x.dtype, device=x.device)
            mean = ops.where(counts, x, nothing).sum(others, keepdim=True) / count
            variance = ops.where(counts, x - mean, nothing).square().sum(others, keepdim=True) / count
        y = (x - mean) * (variance + self.epsilon).rsqrt()
        with no_grad():
            batch_mean, batch_variance = mean.detach().reshape(-1), variance.detach().reshape(-1)
            if self.renorm:
                r, d = self._renormalize(batch_mean, (batch_variance + self.epsilon).sqrt())
            else:
                keep = self.momentum
                about_to_write(self.moving_mean, self.moving_variance)
                self.moving_mean.mul_(keep).add_(batch_mean * (1 - keep))
                self.moving_variance.mul_(keep).add_(batch_variance * (1 - keep))
        shape = [-1 if dim == axis else 1 for dim in range(x.ndim)]
        if self.renorm:
            y = y * r.reshape(shape) + d.reshape(shape)
        y = y if self.gamma is None else y * self.gamma.reshape(shape)
        return y if self.beta is None else y + self.beta.reshape(shape)

    def _renormalize(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """r and d of a batch with this mean and this standard deviation, each (channels,); all moving ones go on."""
        least, most, shift = self.renorm_limits
        usual = self.renorm_stddev.clamp(min=self.epsilon**0.5)
        r, d = deviation / usual, (mean - self.renorm_mean) / usual
        r = r if least is None and most is None else r.clamp(least, most)
        d = d if shift is None else d.clamp(-shift, shift)
        for moving, value, keep in (
            (self.renorm_mean, mean, self.renorm_momentum), (self.renorm_stddev, deviation, self.renorm_momentum),
            (self.moving_mean, mean, self.momentum), (self.moving_stddev, deviation, self.momentum),
        ):  # fmt: skip
            about_to_write(moving)
            moving.mul_(keep).add_(value * (1 - keep))
        about_to_write(self.moving_variance)
        self.moving_variance.copy_((self.moving_stddev.square() - self.epsilon).relu())
        return r, d


class LayerNormalization(_Scaled):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta of each example (Ba et al. 2016, arXiv 1607.06450).

    `rms_scaling` gives x / sqrt(variance + epsilon) * gamma, as Keras does: RMSNormalization is what it is named after.
    """

    probe_scale = 1

    def __init__(
        self, axis: Any = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", beta_regularizer: Any = None,
        gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None,
        rms_scaling: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            axis, epsilon, center and not rms_scaling, scale or rms_scaling, beta_initializer, gamma_initializer,
            beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint, **settings,
        )  # fmt: skip
        self.rms_scaling = rms_scaling
        self.autocast = False  # it computes in float32

    def build(self, input_shape: Any) -> None:
        self._add_scale([input_shape[axis] for axis in self._axes(len(input_shape))])

    def normalized(self, inputs: Tensor) -> Tensor:
        axes = self._axes(inputs.ndim)
        last = list(range(inputs.ndim - len(axes), inputs.ndim))
        x = inputs if axes == last else inputs.movedim(axes, last)
        if self.rms_scaling:
            y = x * (x.var(last, correction=0, keepdim=True) + self.epsilon).rsqrt()
            y = y if self.gamma is None else y * self.gamma
            return y if axes == last else y.movedim(last, axes)
        y = ops.layer_norm(x, x.shape[inputs.ndim - len(axes) :], self.gamma, self.beta, self.epsilon)
        return y if axes == last else y.movedim(last, axes)


class GroupNormalization(_Scaled):
    """Normalises groups of channels of each example (Wu and He 2018, arXiv 1803.08494)."""

    def __init__(
        self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", beta_regularizer: Any = None,
        gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            axis, epsilon, center, scale, beta_initializer, gamma_initializer, beta_regularizer, gamma_regularizer,
            beta_constraint, gamma_constraint, **settings,
        )  # fmt: skip
        self.autocast = False  # it computes in float32
        if not isinstance(groups, int) or (groups < 1 and groups != -1):
            raise ValueError(f"GroupNormalization: groups is 1 or more, or -1: one per channel; not {groups!r:.60}")
        self.groups = groups

    def build(self, input_shape: Any) -> None:
        channels = input_shape[self.axis]
        groups = channels if self.groups == -1 else self.groups
        if channels % groups:
            raise ValueError(f"{channels} channels do not divide into {groups} groups")
        self.groups = groups
        self._add_scale((channels,))

    def normalized(self, inputs: Tensor) -> Tensor:
        axis = dim_of(self.axis, inputs.ndim)
        y = ops.group_norm(inputs.movedim(axis, 1), self.groups, self.gamma, self.beta, self.epsilon)
        return y.movedim(1, axis)


class RMSNormalization(Layer):
    """x / sqrt(mean x² + epsilon) * scale (Zhang and Sennrich 2019, arXiv 1910.07467)."""

    supports_masking = True

    def __init__(self, axis: Any = -1, epsilon: float = 1e-6, **settings: Any) -> None:
        super().__init__(**settings)
        self.axis, self.epsilon = axis, epsilon

    def build(self, input_shape: Any) -> None:
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        self.scale = self.add_weight([input_shape[axis] for axis in axes], "ones", name="scale")

    def call(self, inputs: Tensor) -> Tensor:
        if not isinstance(self.axis, int):
            return rms_normalization(inputs, self.scale, self.axis, self.epsilon)
        axis = dim_of(self.axis, inputs.ndim)
        x = inputs.movedim(axis, -1)
        return ops.rms_norm(x, self.scale, self.epsilon).movedim(-1, axis)


class UnitNormalization(Layer):
    """x / its Euclidean norm along `axis`."""

    supports_masking = True

    def __init__(self, axis: Any = -1, **settings: Any) -> None:
        super().__init__(**settings)
        self.axis = axis

    def call(self, inputs: Tensor) -> Tensor:
        return inputs / (inputs * inputs).sum(self.axis, keepdim=True).clamp(min=1e-12).sqrt()
