"""Observers: modules that see numbers, give them back, and say with which scale and zero point to quantise them."""

from __future__ import annotations

import warnings
from functools import partial
from math import inf
from typing import Any

import numpy as np

from ...engine import Tensor, float16, float32, int32, int64, no_grad
from ...engine.ops import aminmax, as_tensor, full_like, maximum, minimum, ones_like, tensor, where, zeros, zeros_like
from ...nn import Module
from ..types import (
    QScheme,
    bounds_of,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qint8,
    quint4x2,
    quint8,
    storage_of,
)

__all__ = [
    "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase",
    "default_affine_fixed_qparams_observer", "default_debug_observer", "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer", "default_float_qparams_observer_4bit", "default_histogram_observer",
    "default_observer", "default_per_channel_weight_observer", "default_placeholder_observer",
    "default_reuse_input_observer", "default_symmetric_fixed_qparams_observer", "default_weight_observer",
    "per_channel_weight_observer_range_neg_127_to_127", "weight_observer_range_neg_127_to_127",
]  # fmt: skip

EPS = 2.0**-23  # of float32: the least scale


class WithArguments:
    """A class together with some of its arguments, which makes an object at each call."""

    def __init__(self, made: Any) -> None:
        self.p = made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.p(*args, **kwargs)

    def with_args(self, **kwargs: Any) -> WithArguments:
        return WithArguments(partial(self.p, **kwargs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WithArguments):
            return NotImplemented
        return (self.p.func, self.p.args, self.p.keywords) == (other.p.func, other.p.args, other.p.keywords)

    def __hash__(self) -> int:
        return hash(self.p.func)

    def __repr__(self) -> str:
        return f"{self.p!r}{{}}"


class ObserverBase(Module):
    """Base of the observers: `forward` sees numbers and gives them back, `calculate_qparams` gives (scale,
    zero_point)."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        raise RuntimeError(f"calculate_qparams should not be called for {type(self).__name__}")

    @classmethod
    def with_args(cls, **kwargs: Any) -> WithArguments:
        """The class with these arguments, as a QConfig takes it."""
        return WithArguments(partial(cls, **kwargs))


def range_of(low: int | None, high: int | None, dtype: Any, reduce_range: bool) -> tuple[int, int]:
    """The steps in use: those given, else all of the type; with `reduce_range` half of those given, or of 8 bits."""
    bounds = bounds_of(dtype)
    if low is None or high is None:
        low, high = bounds
        reduce_range = reduce_range and high - low == 255
    elif not low <= 0 <= high or low == high:
        raise AssertionError(f"Used-specified quantization range must include 0: got {low} to {high}")
    return (low // 2, high // 2) if reduce_range else (low, high)


class UniformQuantizationObserverBase(ObserverBase):
    """Base of those that measure the least and the greatest number. Steps go from quant_min to quant_max (default: all
    of the type); a scale is at least `eps`."""

    _per_channel: bool | None = None
    _whole = True  # whether half of the steps of quint8 are too few around 0, as torch says
    min_val: Tensor
    max_val: Tensor
    eps: Tensor

    def __init__(
        self, dtype: Any = quint8, qscheme: QScheme = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None, eps: float = EPS,
        is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        name = type(self).__name__
        if self._per_channel not in (None, qscheme.is_per_channel):
            raise NotImplementedError(f"{name}: takes a scheme per {'channel' if self._per_channel else 'tensor'}, "
                                      f"not {qscheme}")  # fmt: skip
        if is_dynamic and type(self) is not MinMaxObserver and getattr(self, "averaging_constant", 0) != 1:
            raise NotImplementedError(f"{name} doesn't support dynamic quantization")
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = range_of(quant_min, quant_max, dtype, reduce_range)
        if self._whole and qscheme.is_symmetric and reduce_range and dtype is quint8:
            raise NotImplementedError(f"{name}: cannot reduce range for symmetric quantization for quint8")
        self.register_buffer("eps", tensor([eps]))

    def _calculate_qparams(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """scale float32 and zero_point, each (1,) or (C,), that cover low .. high and 0."""
        if low.numel() == 0 or bool((low == inf).logical_and(high == -inf).any()):
            warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=3)
            return tensor([1.0], device=low.device), tensor([0], device=low.device)
        assert not bool((low > high).any()), f"min {low} should be less than max {high}"
        least, greatest = self.quant_min, self.quant_max
        below, above = minimum(low, zeros_like(low)), maximum(high, zeros_like(high))
        zero = zeros_like(low, dtype=int64)
        if self.qscheme.is_symmetric:
            scale = maximum(maximum(-below, above) / ((greatest - least) / 2), self.eps)
            if self.dtype is not quint4x2 and storage_of(self.dtype).name == "uint8":
                zero = full_like(zero, (least + greatest) // 2 if self.has_customized_qrange else 128)
        elif self.qscheme is per_channel_affine_float_qparams:
            scale = (high - low) / float(greatest - least)
            scale = where(scale > self.eps, scale, ones_like(scale))
            zero = -low / scale
        else:
            scale = maximum((above - below) / float(greatest - least), self.eps)
            # Whole numbers are subtracted, because float32 does not have all steps of 32 bits.
            zero = (least - (below / scale).round().to(int32)).clamp(least, greatest)
        return scale.reshape(-1), zero.reshape(-1)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero_point), (1,) or (C,)."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MinMaxObserver(UniformQuantizationObserverBase):
    """Of the least and the greatest number of all that it saw."""

    _per_channel = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reset_min_max_vals()

    def forward(self, x: Tensor) -> Tensor:
        if x.numel():
            with no_grad():
                low, high = aminmax(x.detach().to(self.min_val.dtype))
                self._see(low, high)
        return x

    def _see(self, low: Tensor, high: Tensor) -> None:
        self.min_val.copy_(minimum(low, self.min_val))
        self.max_val.copy_(maximum(high, self.max_val))

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        self.register_buffer("min_val", tensor(inf))
        self.register_buffer("max_val", tensor(-inf))


class _MovingAverages:
    """For observers of averages. `forgives`: an infinite average is replaced by the next number; otherwise it becomes
    NaN.
    """

    averaging_constant: float
    min_val: Tensor
    max_val: Tensor
    forgives = False

    def _averages(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return self._average(self.min_val, low), self._average(self.max_val, high)

    def _average(self, old: Tensor, new: Tensor) -> Tensor:
        found = old + self.averaging_constant * (new - old)
        return where(old.isinf(), new, found) if self.forgives else found


class MovingAverageMinMaxObserver(_MovingAverages, MinMaxObserver):
    """Of averages of the least and the greatest numbers, which move to a new one by `averaging_constant`."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "averaging_constant", averaging_constant)  # read before Module is ready
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def _see(self, low: Tensor, high: Tensor) -> None:
        if float(self.min_val) != inf or float(self.max_val) != -inf:
            low, high = self._averages(low, high)
        self.min_val.copy_(low)
        self.max_val.copy_(high)


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Of the least and the greatest number of each index of the dim `ch_axis`."""

    _per_channel = True

    def __init__(
        self, ch_axis: int = 0, dtype: Any = quint8, qscheme: QScheme = per_channel_affine, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(dtype, qscheme, *args, **kwargs)
        self.ch_axis = ch_axis
        self.reset_min_max_vals()

    def forward(self, x: Tensor) -> Tensor:
        if x.numel():
            with no_grad():
                rows = x.detach().transpose(0, self.ch_axis).to(self.min_val.dtype).flatten(1)  # (C, …)
                low, high = aminmax(rows, dim=1)
                if self.min_val.numel():
                    low, high = self._joined(low, high)
                self.min_val, self.max_val = low, high
        return x

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return minimum(low, self.min_val), maximum(high, self.max_val)

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        self.register_buffer("min_val", zeros(0))
        self.register_buffer("max_val", zeros(0))

    def _load_from_state_dict(self, state: Any, prefix: str, *args: Any) -> None:
        for name in ("min_val", "max_val"):  # (0,) before the first numbers
            if prefix + name in state:
                setattr(self, name, zeros(state[prefix + name].shape))
        super()._load_from_state_dict(state, prefix, *args)


class MovingAveragePerChannelMinMaxObserver(_MovingAverages, PerChannelMinMaxObserver):
    """Of moving averages of them."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.averaging_constant = averaging_constant

    def _joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        return self._averages(low, high)


class HistogramObserver(UniformQuantizationObserverBase):
    """Of the range between quantiles in which the square of the rounding error is least, by a histogram of all numbers
    in `bins`."""

    _per_channel, _whole = False, False

    def __init__(self, bins: int = 2048, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bins, self.dst_nbins, self.upsample_rate = bins, 2 ** (8 * storage_of(self.dtype).itemsize), 16
        self.register_buffer("histogram", zeros(bins))
        self.register_buffer("min_val", tensor(inf))
        self.register_buffer("max_val", tensor(-inf))

    def forward(self, x: Tensor) -> Tensor:
        values = x.detach().to(float32).cpu().numpy().reshape(-1)
        if np.isinf(values).any():
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            values = values[~np.isinf(values)]
        if not values.size:
            return x
        before = float(self.min_val), float(self.max_val)
        low, high = min(before[0], float(values.min())), max(before[1], float(values.max()))
        counts = _histogram(values, self.bins, low, high)
        if before[0] != inf:
            counts = counts + self._moved(self.histogram.cpu().numpy(), before, (low, high))
        with no_grad():
            for buffer, value in ((self.histogram, counts), (self.min_val, low), (self.max_val, high)):
                buffer.copy_(as_tensor(np.asarray(value, np.float32)))
        return x

    def _moved(self, counts: Any, old: tuple[float, float], new: tuple[float, float]) -> Any:
        """The counts (bins,) of a histogram from old[0] to old[1], in the bins from new[0] to new[1]."""
        if old == new:
            return counts
        if old[0] == old[1]:
            return _histogram(np.asarray(old[:1], np.float32), self.bins, *new) * counts.sum()
        fine = self.bins * self.upsample_rate
        middles = np.linspace(*old, fine + 1, dtype=np.float32)[:-1] + np.float32(0.5 * (old[1] - old[0]) / fine)
        edges = np.linspace(*new, self.bins + 1, dtype=np.float32)
        places = np.clip(np.searchsorted(edges, middles, side="right") - 1, 0, self.bins - 1)
        return np.bincount(places, np.repeat(counts, self.upsample_rate) / self.upsample_rate, self.bins)

    def _error(self, first: int, last: int, counts: Any, width: float) -> float:
        """The sum of squares of what is lost where the bins first .. last are all that the steps cover."""
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (np.arange(self.bins) - first) * width
        end = begin + width
        step_of_begin = np.clip(begin // step, 0, self.dst_nbins - 1)
        step_of_end = np.clip(end // step, 0, self.dst_nbins - 1)
        cube = step * step * step / 8
        norm = (cube - (begin - (step_of_begin + 0.5) * step) ** 3) / 3
        norm = norm + (step_of_end - step_of_begin - 1) * (2 * cube / 3)
        norm = norm + ((end - (step_of_end * step + step / 2)) ** 3 + cube) / 3
        return float((counts / width * norm).sum())

    def _best_range(self) -> tuple[float, float]:
        """Narrows the range by quantiles, from the side where more bins fall away, as long as the error shrinks."""
        counts, low = self.histogram.cpu().numpy().astype(np.float64), float(self.min_val)
        width = (float(self.max_val) - low) / self.bins
        sums, step = np.cumsum(counts), 1e-5
        lower, upper, first, last, least = 0.0, 1.0, 0, self.bins - 1, inf
        while lower < upper:
            next_first, next_last = first, last
            left = min(max(first, int(np.searchsorted(sums, (lower + step) * sums[-1], "left"))), last)
            right = max(min(last, int(np.searchsorted(sums, (upper - step) * sums[-1], "right")) - 1), first)
            if left - first > last - right:
                next_first, lower = left, lower + step
            else:
                next_last, upper = right, upper - step
            if (next_first, next_last) == (first, last):
                continue
            error = self._error(next_first, next_last, counts, width)
            if error > least:
                break
            least, first, last = error, next_first, next_last
        return low + width * first, low + width * (last + 1)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        if float(self.min_val) == inf:
            return self._calculate_qparams(self.min_val, self.max_val)
        low, high = self._best_range()
        return self._calculate_qparams(tensor(low), tensor(high))


def _histogram(values: Any, bins: int, low: float, high: float) -> Any:
    """Counts (bins,) between low and high; of numbers that are all equal, one wider to both sides, as torch's histc."""
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(values, bins, (low, high))[0]


class FixedQParamsObserver(ObserverBase):
    """Has one scale and zero point, whatever it sees."""

    def __init__(
        self, scale: float, zero_point: int, dtype: Any = quint8, qscheme: QScheme = per_tensor_affine,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", tensor([scale]))
        self.register_buffer("zero_point", tensor([zero_point], dtype=int32))

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Measures nothing: says of which type numbers will be, for layers that measure each input (`is_dynamic`)."""

    def __init__(
        self, dtype: Any = float32, custom_op_name: str = "", compute_dtype: Any = None, quant_min: int | None = None,
        quant_max: int | None = None, qscheme: QScheme | None = None, eps: float = EPS, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic or compute_dtype is not None)
        self.qscheme, self.quant_min, self.quant_max = qscheme or per_tensor_affine, quant_min, quant_max
        self.eps, self.custom_op = eps, custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class NoopObserver(ObserverBase):
    """Measures nothing."""

    def __init__(self, dtype: Any = float16, custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReuseInputObserver(NoopObserver):
    """Measures nothing: the numbers have the steps of those that they come from."""

    def __init__(self) -> None:
        super().__init__(quint8)


class RecordingObserver(ObserverBase):
    """Keeps what it sees."""

    def __init__(self, dtype: Any = quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        return self.tensor_val


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=qint8, qscheme=per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(dtype=qint8, qscheme=per_channel_symmetric)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=quint4x2, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(scale=2 / 256, zero_point=128)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1 / 256, zero_point=0)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
