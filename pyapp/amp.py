"""Mixed precision by torch.amp's names: autocast casts the operands of products, GradScaler scales losses."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

from .engine import as_dtype, no_grad
from .engine import autocast as _autocast
from .engine.device import Device, as_device
from .engine.dtype import bfloat16, float16
from .engine.ops import stack
from .engine.tensor import Tensor
from .errors import ArgumentError

FAST = (bfloat16, float16)
_LARGEST_SCALE = 3.4028234663852886e38  # of float32: losses times a larger one would be infinite


def _device_of(device_type: Any) -> Device | None:
    """The device of a type, None if there is none."""
    name = Device(device_type).type
    try:
        return as_device(name)
    except ValueError:
        return None


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast changes dtypes on a device: where the device exists."""
    return _device_of(device_type) is not None


class autocast:
    """`with autocast("cpu", dtype=bfloat16):` (or float16), also as a decorator: matrix products, linear layers,
    convolutions and attention convert floating-point operands to the dtype, and losses to float32; on other devices
    than the CPU also softmax, layer norms, sums, powers, exponentials and logarithms run in float32. Other operations
    compute in the dtypes of their tensors. The lists are torch's. Weights stay float32, and get float32 gradients.
    Regions may be nested; `enabled=False` ends it inside, for its device. There is one region at a time: that of a
    second device takes the place of the first inside. Tensors of float64 are not converted, nor are products with
    block-quantised weights. Without `dtype` it is bfloat16 on the CPU and float16 on other devices, as in torch.

    Weights are converted once in a region, unless `cache_enabled` is False. A device that does not exist, and dtypes
    other than the two, have no effect; a warning says so, as in torch.
    """

    def __init__(
        self, device_type: Any = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        self.device = Device(device_type).type
        self.fast_dtype = (bfloat16 if self.device == "cpu" else float16) if dtype is None else as_dtype(dtype)
        self._place, self._caches = _device_of(device_type), cache_enabled is not False
        if enabled and self._place is None:
            warnings.warn(f"autocast has no effect: there is no device {self.device!r}", stacklevel=2)
        elif enabled and self.fast_dtype not in FAST:
            warnings.warn(
                f"autocast has no effect: it converts to bfloat16 or float16, not to {self.fast_dtype}", stacklevel=2
            )
        self._enabled = enabled and self._place is not None and self.fast_dtype in FAST
        self._regions: list[Any] = []

    def __enter__(self) -> autocast:
        self._regions.append(_autocast.region(self.fast_dtype if self._enabled else None, self._place, self._caches))
        self._regions[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._regions.pop().__exit__(*error)

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


def _cast(value: Any, dtype: Any, device: Any) -> Any:
    """Floating-point tensors of a device, in lists and dicts too, in a dtype."""
    if isinstance(value, Tensor):
        convertible = value.dtype.is_floating_point and value.dtype.name != "float64" and value.device is device
        return value.to(dtype) if convertible else value
    if isinstance(value, dict):
        return {_cast(key, dtype, device): _cast(item, dtype, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cast(item, dtype, device) for item in value)
    return value


def custom_fwd(fwd: Any = None, *, device_type: str | None = None, cast_inputs: Any = None) -> Any:
    """A decorator of a Function's forward. In a region of autocast (of `device_type`; None: any), with `cast_inputs`,
    its tensors are converted to that dtype and it runs without autocast. `custom_bwd` gives backward the same region.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        state = _autocast.STATE
        ctx._region = None if cast_inputs is not None else (state.dtype, state.device, state.caches)
        device = state.device
        if cast_inputs is None or state.dtype is None or device is None:
            return fwd(ctx, *args, **kwargs)
        if device_type is not None and Device(device_type).type != device.type:
            return fwd(ctx, *args, **kwargs)
        with _autocast.region(None, device):
            return fwd(ctx, *_cast(args, cast_inputs, device), **_cast(kwargs, cast_inputs, device))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str | None = None) -> Any:
    """A decorator of the backward of a Function whose forward has `custom_fwd`: it runs in the region of forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with _autocast.region(*(getattr(ctx, "_region", None) or (None, None))):
            return bwd(ctx, *args, **kwargs)

    return decorated


class GradScaler:
    """Scales a loss so that small gradients survive float16, and skips steps whose gradients are not finite:

        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # before the gradients are clipped
        scaler.step(optimizer)
        scaler.update()

    The scale shrinks by `backoff_factor` after a skipped step, and grows by `growth_factor` after `growth_interval`
    steps in a row that were not skipped. A step waits once for each device that has gradients, to learn whether they
    are finite. For a device that does not exist it has no effect, as in torch.
    """

    def __init__(
        self, device: Any = "cuda", init_scale: float = 65536.0, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if growth_factor <= 1 or not 0 < backoff_factor < 1:
            raise ArgumentError(
                f"GradScaler: growth_factor is above 1 and backoff_factor between 0 and 1, not {growth_factor} and "
                f"{backoff_factor}"
            )
        self._enabled = enabled and _device_of(device) is not None
        self._scale, self._growth_factor, self._backoff_factor = float(init_scale), growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        # By optimizer whose gradients are unscaled: whether they are finite; until that is read, a flag on each device.
        self._finite: dict[int, list[Tensor] | bool] = {}
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        return self._enabled

    def get_scale(self) -> float:
        """The present factor of losses."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def scale(self, outputs: Any) -> Any:
        """A loss, or several, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(output) for output in outputs)

    def _gradients(self, optimizer: Any) -> Iterable[Tensor]:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    yield parameter.grad

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, once before its step. ValueError for
        gradients in float16, in which the division loses them.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_: it is called before step(), not after it")
        if id(optimizer) in self._finite:
            raise RuntimeError("unscale_: it has been called for this optimizer since the last update()")
        gradients = list(self._gradients(optimizer))
        if any(gradient.dtype is float16 for gradient in gradients):
            raise ArgumentError("unscale_: the gradients are float16; keep the weights in float32, under autocast")
        found: dict[Device, list[Tensor]] = {}
        with no_grad():
            for gradient in gradients:
                gradient.mul_(1.0 / self._scale)
                kept = gradient if gradient.dense else gradient.coalesce().values()
                found.setdefault(gradient.device, []).append(kept.isfinite().all())
            self._finite[id(optimizer)] = [stack(flags).all() for flags in found.values()]

    def _is_finite(self, optimizer: int) -> bool:
        """Whether the gradients of an optimizer are finite: the one value of each device that a step reads."""
        flags = self._finite[optimizer]
        if not isinstance(flags, bool):
            flags = self._finite[optimizer] = all(bool(flag.item()) for flag in flags)
        return flags

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the optimizer's step if the gradients are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("step: closures are not supported while the scaler is enabled")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step: it has been called for this optimizer since the last update()")
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(*args, **kwargs) if self._is_finite(id(optimizer)) else None

    def update(self, new_scale: Any = None) -> None:
        """Decreases the scale after a skipped step; increases it after `growth_interval` steps without skipping."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._finite:
            raise RuntimeError("update: no gradients were unscaled since the last update(): call step() first")
        elif not all(self._is_finite(optimizer) for optimizer in self._finite):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale, self._growth_tracker = grown if grown <= _LARGEST_SCALE else self._scale, 0
        self._finite.clear()
        self._stepped.clear()

    def state_dict(self) -> dict[str, Any]:
        """The scale and its settings; empty if the scaler has no effect."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state of state_dict."""
        if self._enabled:
            if not state_dict:
                raise RuntimeError("load_state_dict: the state is that of a scaler that was not enabled")
            for name, value in state_dict.items():
                setattr(self, name if name[0] == "_" else f"_{name}", value)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__top_level__ = ["GradScaler", "autocast"]
