"""Modules that round numbers to the steps of a quantised type while a model is trained."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...engine import Tensor, float32, int32, int64, uint8
from ...engine.ops import fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine, tensor, zeros
from ...nn import Module
from ..tensors import choose_parameters
from ..types import (
    bounds_of,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_symmetric,
    qint8,
    quint4x2,
    quint8,
)
from .observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    WithArguments,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant", "default_dynamic_fake_quant", "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit", "default_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant", "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant", "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant", "default_symmetric_fixed_qparams_fake_quant", "default_weight_fake_quant",
    "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127", "fused_wt_fake_quant_range_neg_127_to_127",
]  # fmt: skip


class FakeQuantizeBase(Module):
    """Base of the modules that round. Two buffers turn the rounding and the measuring on and off."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=uint8))
        self.register_buffer("observer_enabled", tensor([1], dtype=uint8))

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled[0] = int(enabled)

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled[0] = int(enabled)

    def disable_observer(self) -> None:
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> WithArguments:
        """The class with these arguments, as a QConfig takes it."""
        return WithArguments(partial(cls, **kwargs))


class FakeQuantize(FakeQuantizeBase):
    """Rounds to the steps that an observer gives: (…) → (…). The gradient is that of the input where nothing was cut
    off, else 0. Other arguments are those of the observer."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None, quant_max: int | None = None,
        is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            given = getattr(getattr(observer, "p", None), "keywords", {})
            low, high = bounds_of(observer_kwargs.get("dtype", given.get("dtype", quint8)))
            assert low <= quant_min <= quant_max <= high, f"quant_min {quant_min} or quant_max {quant_max} out of bound"
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.activation_post_process = found = observer(is_dynamic=is_dynamic, **observer_kwargs)
        self.quant_min, self.quant_max, self.is_dynamic = found.quant_min, found.quant_max, found.is_dynamic
        self.dtype, self.qscheme, self.ch_axis = found.dtype, found.qscheme, getattr(found, "ch_axis", -1)
        self.is_per_channel = found.qscheme.is_per_channel
        whole = float32 if found.qscheme is per_channel_affine_float_qparams else int32
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer("zero_point", tensor([0], dtype=whole))

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero_point), (1,) or (C,)."""
        return self.activation_post_process.calculate_qparams()

    _present = calculate_qparams

    def forward(self, X: Tensor) -> Tensor:
        if int(self.observer_enabled[0]):
            self.activation_post_process(X.detach())
            scale, zero_point = self._present()
            self.scale, self.zero_point = scale.to(self.scale), zero_point.to(self.zero_point)
        if not int(self.fake_quant_enabled[0]):
            return X
        if self.is_per_channel:
            return fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max
            )
        return fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def _load_from_state_dict(self, state: Any, prefix: str, *args: Any) -> None:
        for name in ("scale", "zero_point"):  # (1,) before the first numbers
            if prefix + name in state:
                setattr(self, name, zeros(state[prefix + name].shape, dtype=getattr(self, name).dtype))
        super()._load_from_state_dict(state, prefix, *args)

    def extra_repr(self) -> str:
        names = "fake_quant_enabled observer_enabled quant_min quant_max dtype qscheme ch_axis scale zero_point".split()
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to the steps of a FixedQParamsObserver."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer)
        assert type(self.activation_post_process) is FixedQParamsObserver, "takes a FixedQParamsObserver"
        self.scale, self.zero_point = self.activation_post_process.scale, self.activation_post_process.zero_point


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize of a moving average; in torch, one kernel, for which an infinite number counts once."""

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255, **kwargs: Any
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **kwargs)
        allowed = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
        assert isinstance(self.activation_post_process, allowed), "takes an observer of a moving average"
        self.activation_post_process.forgives = True
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=int64))
        self.register_buffer("observer_enabled", tensor([1], dtype=int64))
        self.is_symmetric_quant = self.qscheme.is_symmetric

    def forward(self, X: Tensor) -> Tensor:
        return super().forward(X) if X.numel() else X

    def _present(self) -> tuple[Tensor, Tensor]:
        """What torch's kernel chooses, which differs a little from the observer's choice."""
        seen = self.activation_post_process
        low, high = (value.cpu().numpy().reshape(-1) for value in (seen.min_val, seen.max_val))
        found = choose_parameters(low, high, self.quant_min, self.quant_max, self.is_symmetric_quant)
        return tensor(found[0].astype("float32")), tensor(found[1])


default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8, reduce_range=True
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8, qscheme=per_tensor_symmetric,
    reduce_range=False,
)  # fmt: skip
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, is_dynamic=True, dtype=quint8,
    averaging_constant=1,
)  # fmt: skip
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
_PER_CHANNEL: dict[str, Any] = {
    "observer": MovingAveragePerChannelMinMaxObserver, "dtype": qint8, "qscheme": per_channel_symmetric,
}  # fmt: skip
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    **_PER_CHANNEL, quant_min=-128, quant_max=127, reduce_range=False, ch_axis=0
)
_EMBEDDING: dict[str, Any] = {
    "observer": MovingAveragePerChannelMinMaxObserver, "qscheme": per_channel_affine_float_qparams, "ch_axis": 0,
    "averaging_constant": 1,
}  # fmt: skip
default_embedding_fake_quant = FakeQuantize.with_args(**_EMBEDDING, dtype=quint8, quant_min=0, quant_max=255)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(**_EMBEDDING, dtype=quint4x2)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=quint8, reduce_range=True
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8, qscheme=per_tensor_symmetric
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    **_PER_CHANNEL, quant_min=-128, quant_max=127
)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-127, quant_max=127, dtype=qint8, qscheme=per_tensor_symmetric,
    eps=2**-12,
)  # fmt: skip
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    **_PER_CHANNEL, quant_min=-127, quant_max=127, eps=2**-12
)


def _told(what: str) -> Any:
    def tell(mod: Module) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, what)()

    tell.__name__ = tell.__qualname__ = what
    tell.__doc__ = f"For `model.apply`: {what}() of the modules that round."
    return tell


enable_fake_quant, disable_fake_quant = _told("enable_fake_quant"), _told("disable_fake_quant")
enable_observer, disable_observer = _told("enable_observer"), _told("disable_observer")
