"""autocast: casts the operands of products and of other operations, by torch.amp's lists."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from ..engine import as_dtype
from ..engine import autocast as _autocast
from ..engine.device import Device, as_device
from ..engine.dtype import bfloat16, float16
from ..engine.tensor import Tensor

FAST = (bfloat16, float16)


def device_of(device_type: Any) -> Device | None:
    """The device of a type, None if there is none."""
    name = Device(device_type).type
    try:
        return as_device(name)
    except ValueError:
        return None


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast changes dtypes on a device: where the device exists."""
    return device_of(device_type) is not None


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
        self._place, self._caches = device_of(device_type), cache_enabled is not False
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


__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__top_level__ = ["autocast"]
