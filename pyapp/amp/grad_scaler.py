"""GradScaler: scales losses, so that small gradients survive float16."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from ..engine import no_grad
from ..engine.device import Device
from ..engine.dtype import float16
from ..engine.ops import stack
from ..engine.tensor import Tensor
from ..errors import ArgumentError
from .autocast_mode import device_of

_LARGEST_SCALE = 3.4028234663852886e38  # of float32: losses times a larger one would be infinite


class OptState(Enum):
    """What a scaler has done with an optimizer since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


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
        self._enabled = enabled and device_of(device) is not None
        self._scale, self._growth_factor, self._backoff_factor = float(init_scale), growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        # By optimizer whose gradients are unscaled: whether they are finite; until that is read, a flag on each device.
        self._finite: dict[int, list[Tensor] | bool] = {}
        self._stepped: set[int] = set()
        self._used = False  # whether anything was scaled

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
        self._used = True
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
        if not self._used:
            raise AssertionError("step: no loss was scaled: call scale(loss).backward() first")
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        if self._finite[id(optimizer)] == []:
            raise AssertionError(
                "step: no parameter of this optimizer has a gradient: call scale(loss).backward() first"
            )
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


__all__ = ["GradScaler", "OptState"]
__top_level__ = ["GradScaler"]
