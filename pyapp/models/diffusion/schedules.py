"""Schedules: at which times the U-Net is asked, and how much of the noise that it finds each step takes away.

Fields have the names of diffusers' scheduler_config.json, and the numbers are those of its schedulers: DDIM (Song et
al. 2020, arXiv 2010.02502), Euler and Euler ancestral (Karras et al. 2022, arXiv 2206.00364), LCM (Luo et al. 2023,
arXiv 2310.04378).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.errors import OptionError

from ..loading.config import check_fields, read_config, require

Noise = Callable[[Tensor], Tensor]  # x → noise of its shape
SPACINGS = ("leading", "trailing", "linspace")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The hyper-parameters that all schedules share; the defaults are those of Stable Diffusion."""

    num_train_timesteps: int = 1000
    beta_start: float = 0.00085
    beta_end: float = 0.012
    beta_schedule: str = "scaled_linear"
    prediction_type: str = "epsilon"
    timestep_spacing: str | None = None
    steps_offset: int = 0
    set_alpha_to_one: bool = True
    clip_sample: bool = False
    clip_sample_range: float = 1.0
    original_inference_steps: int = 50
    timestep_scaling: float = 10.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(2 <= self.num_train_timesteps <= 1 << 16, f"num_train_timesteps is {self.num_train_timesteps:,}")
        require(0 < self.beta_start <= self.beta_end < 1, f"the betas are {self.beta_start} to {self.beta_end}")
        for name, known in (
            ("beta_schedule", ("scaled_linear", "linear")), ("prediction_type", ("epsilon", "v_prediction", "sample")),
            ("timestep_spacing", (None, *SPACINGS)),
        ):  # fmt: skip
            given = getattr(self, name)
            require(given in known, f"{name} {given!r:.60} is not known", f"Known: {', '.join(map(str, known))}")
        require(self.original_inference_steps <= self.num_train_timesteps, "original_inference_steps is too large")


class Schedule:
    """A schedule of `steps` steps: `times` are those of the U-Net. `scaled(x, i)` is what it reads at step i, and
    `after(x, found, i, noise)` what follows from what it found. `first` is the deviation of the noise at the beginning.
    """

    spacing = "leading"
    first = 1.0

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        self.config, self.steps = config, steps
        most = config.num_train_timesteps
        if type(steps) is not int or not 1 <= steps <= most:
            raise OptionError(f"{steps!r} is no number of steps from 1 to {most:,}", where="steps")
        first, last = np.float32(config.beta_start), np.float32(config.beta_end)
        if config.beta_schedule == "scaled_linear":
            betas = np.linspace(first**0.5, last**0.5, most, dtype="float32") ** 2
        else:
            betas = np.linspace(first, last, most, dtype="float32")
        self.kept: Any = np.cumprod(1 - betas, dtype="float32")  # of a picture, at each time of the training
        self.times: list[float] = [float(time) for time in self._times()]

    def _times(self) -> Any:
        """The times of the steps, the noisiest first."""
        config, steps = self.config, self.steps
        most, spacing = config.num_train_timesteps, config.timestep_spacing or self.spacing
        if spacing == "linspace":
            return np.linspace(0, most - 1, steps).round()[::-1].astype("int64")
        if spacing == "trailing":
            return np.round(np.arange(most, 0, -most / steps)).astype("int64") - 1
        return (np.arange(steps) * (most // steps)).round()[::-1].astype("int64") + config.steps_offset

    def picture(self, x: Tensor, found: Tensor, kept: float) -> Tensor:
        """The picture without noise, of x, what the network found, and the part of a picture that x has kept."""
        kind, noise = self.config.prediction_type, 1 - kept
        if kind == "epsilon":
            return (x - found * noise**0.5) / kept**0.5
        return found if kind == "sample" else x * kept**0.5 - found * noise**0.5

    def scaled(self, x: Tensor, i: int) -> Tensor:
        """x (B, C, H, W) as the network reads it at step i."""
        return x

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        """x and what the network found in it (B, C, H, W) → x of the next step."""
        raise NotImplementedError


class DDIM(Schedule):
    """Without new noise."""

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        config, time = self.config, int(self.times[i])
        before = time - config.num_train_timesteps // self.steps
        kept = float(self.kept[time])
        then = float(self.kept[before]) if before >= 0 else 1.0 if config.set_alpha_to_one else float(self.kept[0])
        picture = self.picture(x, found, kept)
        wrong = found if config.prediction_type == "epsilon" else (x - picture * kept**0.5) / (1 - kept) ** 0.5
        if config.clip_sample:
            picture = picture.clamp(-config.clip_sample_range, config.clip_sample_range)
        return picture * then**0.5 + wrong * (1 - then) ** 0.5


class Euler(Schedule):
    """Steps along the direction that the network finds; x is the picture with noise of the deviation `sigmas[i]`."""

    spacing = "linspace"

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        table = ((1 - self.kept.astype("float64")) / self.kept) ** 0.5
        found = np.interp(self.times, np.arange(len(table)), table).astype("float32")
        self.sigmas: list[float] = [*map(float, found), 0.0]
        largest = max(self.sigmas)
        spread = (config.timestep_spacing or self.spacing) in ("linspace", "trailing")
        self.first = largest if spread else (largest**2 + 1) ** 0.5

    def _times(self) -> Any:
        if (self.config.timestep_spacing or self.spacing) == "linspace":
            return np.linspace(0, self.config.num_train_timesteps - 1, self.steps, dtype="float32")[::-1]
        return super()._times()

    def scaled(self, x: Tensor, i: int) -> Tensor:
        return x / (self.sigmas[i] ** 2 + 1) ** 0.5

    def direction(self, x: Tensor, found: Tensor, i: int) -> Tensor:
        """The change of x with the deviation of its noise."""
        sigma = self.sigmas[i]
        return (x - self.picture(x / (sigma**2 + 1) ** 0.5, found, 1 / (sigma**2 + 1))) / sigma

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        return x + self.direction(x, found, i) * (self.sigmas[i + 1] - self.sigmas[i])


class EulerAncestral(Euler):
    """Euler's steps, each a bit too far, and new noise."""

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        now, then = self.sigmas[i], self.sigmas[i + 1]
        up = (then**2 * (now**2 - then**2) / now**2) ** 0.5
        down = (then**2 - up**2) ** 0.5
        x = x + self.direction(x, found, i) * (down - now)
        return x + noise(x) * up if up else x


class LCM(Schedule):
    """For networks that learnt to find the picture in a few steps; noise comes back after each but the last."""

    DATA = 0.5  # the deviation of pictures

    def _times(self) -> Any:
        config = self.config
        every = config.num_train_timesteps // config.original_inference_steps
        learnt = (np.arange(1, config.original_inference_steps + 1) * every - 1)[::-1]
        if self.steps > len(learnt):
            raise OptionError(f"{self.steps} are more than the {len(learnt)} steps that were learnt", where="steps")
        return learnt[np.floor(np.linspace(0, len(learnt), self.steps, endpoint=False)).astype("int64")]

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        config, time = self.config, int(self.times[i])
        picture = self.picture(x, found, float(self.kept[time]))
        if config.clip_sample:
            picture = picture.clamp(-config.clip_sample_range, config.clip_sample_range)
        scaled = (time * config.timestep_scaling) ** 2 + self.DATA**2
        picture = picture * (time * config.timestep_scaling / scaled**0.5) + x * (self.DATA**2 / scaled)
        if i + 1 == self.steps:
            return picture
        then = float(self.kept[int(self.times[i + 1])])
        return picture * then**0.5 + noise(picture) * (1 - then) ** 0.5


# By the class that a scheduler_config.json names, and by the names of the command line.
SCHEDULES: Mapping[str, type[Schedule]] = {
    "DDIMScheduler": DDIM, "EulerDiscreteScheduler": Euler, "EulerAncestralDiscreteScheduler": EulerAncestral,
    "LCMScheduler": LCM,
}  # fmt: skip
NAMES: Mapping[str, type[Schedule]] = {"ddim": DDIM, "euler": Euler, "euler-ancestral": EulerAncestral, "lcm": LCM}
# Schedules that need more than one past step or other noise; DDIM with the same numbers stands for them.
ALIKE = ("PNDMScheduler", "DPMSolverMultistepScheduler", "UniPCMultistepScheduler", "LMSDiscreteScheduler")
UNSUPPORTED = (
    "use_karras_sigmas",
    "use_exponential_sigmas",
    "use_beta_sigmas",
    "rescale_betas_zero_snr",
    "thresholding",
)


def read_schedule(values: Mapping[str, Any], name: str | None = None) -> tuple[type[Schedule], ScheduleConfig]:
    """The schedule of a scheduler_config.json and its numbers; `name` chooses another one (NAMES). ModelError for an
    unknown one, OptionError for an unknown name.
    """
    if name is not None and name not in NAMES:
        raise OptionError(f"{name!r:.60} is no schedule", where="schedule", hint=f"Schedules: {', '.join(NAMES)}")
    for setting in UNSUPPORTED:
        require(not values.get(setting), f"a schedule with {setting} is not supported")
    kind = values.get("_class_name")
    known = isinstance(kind, str) and (kind in SCHEDULES or kind in ALIKE)
    require(known or name is not None, f"the schedule {kind!r:.60} is not known", f"Known: {', '.join(SCHEDULES)}")
    chosen = NAMES[name] if name is not None else SCHEDULES.get(str(kind), DDIM)
    return chosen, read_config(ScheduleConfig, values)
