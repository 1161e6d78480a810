"""Flow matching (Lipman et al. 2022, arXiv 2210.02747; Esser et al. 2024, arXiv 2403.03206): a picture with noise is
(1 - sigma) * picture + sigma * noise, and the network finds noise less picture.

Fields have the names of diffusers' scheduler_config.json, and the numbers are those of its
FlowMatchEulerDiscreteScheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.errors import OptionError

from ..loading.config import check_fields, read_config, require
from .deviations import spread
from .schedules import Noise, first_of_steps

CLASS = "FlowMatchEulerDiscreteScheduler"
NAME = "euler"  # on the command line
UNSUPPORTED = ("use_beta_sigmas", "invert_sigmas", "stochastic_sampling")


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """The hyper-parameters. Times are shifted to more noise: by `shift`, or with `use_dynamic_shifting` the more, the
    more places the picture has: by `base_shift` of `base_image_seq_len`, and `max_shift` of `max_image_seq_len`.
    """

    num_train_timesteps: int = 1000
    shift: float = 1.0
    use_dynamic_shifting: bool = False
    base_shift: float = 0.5
    max_shift: float = 1.15
    base_image_seq_len: int = 256
    max_image_seq_len: int = 4096
    shift_terminal: float | None = None
    use_karras_sigmas: bool = False
    use_exponential_sigmas: bool = False
    time_shift_type: str = "exponential"

    def __post_init__(self) -> None:
        check_fields(self)
        require(2 <= self.num_train_timesteps <= 1 << 16, f"num_train_timesteps is {self.num_train_timesteps:,}")
        require(0 < self.shift < 1e4, f"shift is {self.shift}")
        for name in ("base_shift", "max_shift"):
            require(-10 <= getattr(self, name) <= 10, f"{name} is {getattr(self, name)}")
        require(
            self.max_image_seq_len > self.base_image_seq_len,
            f"max_image_seq_len {self.max_image_seq_len} is not above base_image_seq_len {self.base_image_seq_len}",
        )
        end = self.shift_terminal
        require(end is None or 0 <= end < 1, f"shift_terminal is {end}")
        kinds = ("exponential", "linear")
        require(self.time_shift_type in kinds, f"time_shift_type {self.time_shift_type!r:.60} is not known")


class Flow:
    """Euler's steps (the interface is that of schedules.Schedule). places: those of the picture; even: deviations of
    noise are even before they are shifted, from 1 to 1 / steps, else those of the training's ends. shift: how much a
    dynamic shift is; None: as the configuration says, by the places.
    """

    first = 1.0

    def __init__(self, config: FlowConfig, steps: int, places: int, even: bool, shift: float | None = None) -> None:
        self.config, self.steps = config, steps
        most = config.num_train_timesteps
        if type(steps) is not int or not 1 <= steps <= most:
            raise OptionError(f"{steps!r} is not a number of steps from 1 to {most:,}", where="steps")
        if even:
            found: Any = np.linspace(1.0, 1 / steps, steps).astype("float32").astype("float64")
        else:
            least = 1 / most if config.use_dynamic_shifting else float(self._shifted(1 / most))
            found = np.linspace(most, least * most, steps) / most
        found = self._shifted_to(found, places, shift) if config.use_dynamic_shifting else self._shifted(found)
        if config.shift_terminal and found[-1] >= 1:  # the only step cannot end before it begins
            raise OptionError(f"{steps} are too few for this schedule", where="steps", hint="Give at least 2")
        if config.shift_terminal:
            found = 1 - (1 - found) * ((1 - config.shift_terminal) / (1 - found[-1]))
        if config.use_karras_sigmas or config.use_exponential_sigmas:
            found = spread(float(found[0]), float(found[-1]), steps, config.use_karras_sigmas)
        self.sigmas: list[float] = [*map(float, found.astype("float32")), 0.0]
        self.times = [float(np.float32(sigma) * np.float32(most)) for sigma in self.sigmas[:-1]]

    def _shifted(self, sigmas: Any) -> Any:
        shift = self.config.shift
        return shift * sigmas / (1 + (shift - 1) * sigmas)

    def _shifted_to(self, sigmas: Any, places: int, shift: float | None) -> Any:
        """The deviations, shifted as a picture of `places` places asks for."""
        config = self.config
        slope = (config.max_shift - config.base_shift) / (config.max_image_seq_len - config.base_image_seq_len)
        shift = config.base_shift + slope * (places - config.base_image_seq_len) if shift is None else shift
        shift = exp(shift) if config.time_shift_type == "exponential" else shift
        return shift / (shift + (1 / sigmas - 1))

    def begin(self, strength: float) -> int:
        """The first step of a picture that is changed, by the part of the steps taken. OptionError for none."""
        return first_of_steps(
            self.steps, self.steps - int(self.steps - min(self.steps * strength, self.steps)), strength
        )

    def noised(self, x: Tensor, noise: Tensor, i: int) -> Tensor:
        """A picture x (B, C, H, W) with the noise of step i."""
        return x * (1 - self.sigmas[i]) + noise * self.sigmas[i]

    def scaled(self, x: Tensor, i: int) -> Tensor:
        """x (B, C, H, W) as the network reads it at step i."""
        return x

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        """x and what the network found in it (B, C, H, W) → x of the next step."""
        return x + found * (self.sigmas[i + 1] - self.sigmas[i])


def read_flow(values: Mapping[str, Any], name: str | None = None) -> FlowConfig:
    """The numbers of a scheduler_config.json. ModelError for a schedule of another kind; OptionError for the name of
    another one.
    """
    if name not in (None, NAME):
        raise OptionError(
            f"{name!r:.60} is not a schedule of this model", where="schedule", hint=f"Its steps are Euler's: {NAME}"
        )
    kind = values.get("_class_name")
    require(kind == CLASS, f"the schedule {kind!r:.60} is not known", f"Known for this network: {CLASS}")
    for setting in UNSUPPORTED:
        require(not values.get(setting), f"a schedule with {setting} is not supported")
    return read_config(FlowConfig, values)
