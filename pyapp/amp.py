"""Mixed precision by torch.amp's names. Nothing is cast: pyapp computes in the dtypes of the tensors."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

from .engine import no_grad
from .engine.device import Device
from .engine.tensor import Tensor


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast changes dtypes on a device: no."""
    return False


class autocast:
    """`with autocast("cuda", dtype=bfloat16):` is accepted, also as a decorator, without effect: computations use the
    tensors' dtypes. It warns: for the CPU once per process, for other devices each time, as torch does for missing
    devices.
    """

    _has_warned = False  # for the CPU

    def __init__(
        self, device_type: Any = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        self.device, self.fast_dtype, self._enabled = Device(device_type).type, dtype, False
        if enabled and self.device == "cpu" and not autocast._has_warned:
            autocast._has_warned = True
            warnings.warn(
                "autocast has no effect: operations on the CPU run in the dtypes of their tensors; convert the model "
                "with .to(dtype) to compute in half precision",
                stacklevel=2,
            )
        if enabled and self.device != "cpu":
            warnings.warn(f"autocast has no effect: there is no device {self.device!r}", stacklevel=2)

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapped


def custom_fwd(fwd: Any = None, **_: Any) -> Any:
    """The forward of a Function, unchanged."""
    return custom_fwd if fwd is None else fwd


custom_bwd = custom_fwd


class GradScaler:
    """Scales a loss so that small gradients survive half precision, and skips steps whose gradients are not finite.

    Works on the CPU (`device="cpu"`); for other devices, which do not exist, it has no effect, as in torch without
    CUDA.
    """

    def __init__(
        self, device: Any = "cuda", init_scale: float = 65536.0, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._enabled = enabled and Device(device).type == "cpu"
        self._scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._finite: dict[int, bool] = {}  # by optimizer: whether its gradients are unscaled

    def is_enabled(self) -> bool:
        return self._enabled

    def get_scale(self) -> float:
        """The present factor of losses."""
        return self._scale if self._enabled else 1.0

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
        """Divides the gradients of an optimizer's parameters by the scale, once before its step."""
        if not self._enabled:
            return
        if id(optimizer) in self._finite:
            raise RuntimeError("unscale_: it has been called for this optimizer since the last update()")
        finite = True
        with no_grad():
            for gradient in self._gradients(optimizer):
                gradient.mul_(1.0 / self._scale)
                finite = finite and bool(gradient.isfinite().all())
        self._finite[id(optimizer)] = finite

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the optimizer's step if the gradients are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        return optimizer.step(*args, **kwargs) if self._finite[id(optimizer)] else None

    def update(self, new_scale: Any = None) -> None:
        """Decreases the scale after a skipped step; increases it after 2000 steps without skipping."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not all(self._finite.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
        self._finite.clear()

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
