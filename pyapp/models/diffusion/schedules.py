"""Schedules: at which times the U-Net is asked, and how much of the noise that it finds each step takes away.

Fields have the names of diffusers' scheduler_config.json, and the numbers are those of its schedulers: DDPM (Ho et al.
2020, arXiv 2006.11239), DDIM (Song et al. 2020, arXiv 2010.02502), PNDM (Liu et al. 2022, arXiv 2202.09778) and LCM
(Luo et al. 2023, arXiv 2310.04378). Those over deviations of the noise are in deviations.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.errors import OptionError

from ..loading.config import check_fields, require

Noise = Callable[[Tensor], Tensor]  # x → noise of its shape
MOST_BETA = 0.999  # of the cosine's (Nichol and Dhariwal 2021, arXiv 2102.09672)
FLOW = "flow_prediction"  # of networks that find noise less picture
SPACINGS = ("leading", "trailing", "linspace")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The hyper-parameters that all schedules share; the defaults are those of Stable Diffusion."""

    num_train_timesteps: int = 1000
    beta_start: float = 0.00085
    beta_end: float = 0.012
    beta_schedule: str = "scaled_linear"
    prediction_type: str = "epsilon"
    flow_shift: float = 1.0
    timestep_spacing: str | None = None
    steps_offset: int = 0
    rescale_betas_zero_snr: bool = False
    set_alpha_to_one: bool | None = None
    clip_sample: bool = False
    clip_sample_range: float = 1.0
    original_inference_steps: int = 50
    timestep_scaling: float = 10.0
    skip_prk_steps: bool = False
    use_karras_sigmas: bool = False
    use_exponential_sigmas: bool = False
    final_sigmas_type: str = "zero"
    interpolation_type: str = "linear"
    solver_order: int = 2
    solver_type: str | None = None
    algorithm_type: str = "dpmsolver++"
    lower_order_final: bool = True
    euler_at_final: bool = False
    predict_x0: bool = True
    disable_corrector: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        require(2 <= self.num_train_timesteps <= 1 << 16, f"num_train_timesteps is {self.num_train_timesteps:,}")
        require(0 < self.beta_start <= self.beta_end < 1, f"the betas are {self.beta_start} to {self.beta_end}")
        for name, known in (
            ("beta_schedule", ("scaled_linear", "linear", "squaredcos_cap_v2")),
            ("prediction_type", ("epsilon", "v_prediction", "sample", FLOW)),
            ("timestep_spacing", (None, *SPACINGS)), ("final_sigmas_type", ("zero", "sigma_min")),
            ("interpolation_type", ("linear", "log_linear")),
        ):  # fmt: skip
            given = getattr(self, name)
            require(given in known, f"{name} {given!r:.60} is not known", f"Known: {', '.join(map(str, known))}")
        require(self.original_inference_steps <= self.num_train_timesteps, "original_inference_steps is too large")
        require(0 < self.flow_shift < 1e4, f"flow_shift is {self.flow_shift}")
        require(1 <= self.solver_order <= 3, f"solver_order is {self.solver_order:,}, expected 1 to 3")


class Schedule:
    """A schedule of `steps` steps: `times` are those of the U-Net. `scaled(x, i)` is what it reads at step i, and
    `after(x, found, i, noise)` what follows from what it found, where i counts up from the first step that is taken.
    `first` is the deviation of the noise at the beginning. It remembers past steps: each picture needs a new one.
    """

    spacing = "leading"
    first = 1.0
    order = 1  # the times of each step

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        self.config, self.steps = config, steps
        most = config.num_train_timesteps
        if type(steps) is not int or not 1 <= steps <= most:
            raise OptionError(f"{steps!r} is not a number of steps from 1 to {most:,}", where="steps")
        first, last = np.float32(config.beta_start), np.float32(config.beta_end)
        if config.beta_schedule == "squaredcos_cap_v2":
            ends = np.cos((np.arange(most + 1) / most + 0.008) / 1.008 * np.pi / 2) ** 2
            betas = np.minimum(1 - ends[1:] / ends[:-1], MOST_BETA).astype("float32")
        elif config.beta_schedule == "scaled_linear":
            betas = np.linspace(first**0.5, last**0.5, most, dtype="float32") ** 2
        else:
            betas = np.linspace(first, last, most, dtype="float32")
        kept: Any = np.cumprod(1 - betas, dtype="float32")
        self.kept = (
            until_nothing(kept) if config.rescale_betas_zero_snr else kept
        )  # of a picture, at each time of the training
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

    def begin(self, strength: float) -> int:
        """The first step of a picture that is changed, by the part of the steps taken. OptionError for none."""
        return first_of_steps(self.steps, min(int(self.steps * strength), self.steps), strength) * self.order

    def noised(self, x: Tensor, noise: Tensor, i: int) -> Tensor:
        """A picture x (B, C, H, W) with the noise of step i."""
        kept = float(self.kept[int(self.times[i])])
        return x * kept**0.5 + noise * (1 - kept) ** 0.5

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
    """Steps without new noise."""

    all_at_last = True  # whether the last step leaves no noise, unless set_alpha_to_one says

    @property
    def last(self) -> float:
        """The part of the picture that the last step keeps."""
        chosen = self.config.set_alpha_to_one
        return 1.0 if (self.all_at_last if chosen is None else chosen) else float(self.kept[0])

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        config, time = self.config, int(self.times[i])
        before = time - config.num_train_timesteps // self.steps
        kept = float(self.kept[time])
        then = float(self.kept[before]) if before >= 0 else self.last
        picture = self.picture(x, found, kept)
        wrong = found if config.prediction_type == "epsilon" else (x - picture * kept**0.5) / (1 - kept) ** 0.5
        if config.clip_sample:
            picture = picture.clamp(-config.clip_sample_range, config.clip_sample_range)
        return picture * then**0.5 + wrong * (1 - then) ** 0.5


class DDPM(Schedule):
    """Steps that add as much new noise as the training did."""

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        config, time = self.config, int(self.times[i])
        before = time - config.num_train_timesteps // self.steps
        kept, then = float(self.kept[time]), float(self.kept[before]) if before >= 0 else 1.0
        picture = self.picture(x, found, kept)
        if config.clip_sample:
            picture = picture.clamp(-config.clip_sample_range, config.clip_sample_range)
        part = kept / then
        x = picture * (then**0.5 * (1 - part) / (1 - kept)) + x * (part**0.5 * (1 - then) / (1 - kept))
        if time <= 0:
            return x
        return x + noise(x) * max((1 - then) / (1 - kept) * (1 - part), 1e-20) ** 0.5


class PNDM(DDIM):
    """Steps along what the network found at the last four times; the first step is taken twice."""

    all_at_last = False

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        hint = "Choose another schedule"
        require(config.skip_prk_steps, "a PNDM schedule with Runge-Kutta steps is not supported", hint)
        require(config.prediction_type != "sample", "a PNDM schedule of pictures is not supported", hint)
        self._past: list[Tensor] = []
        self._calls = 0
        self._first: Tensor | None = None

    def _times(self) -> Any:
        times = super()._times()
        return np.concatenate([times[:1], times[1:2], times[1:]])

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        every, time = self.config.num_train_timesteps // self.steps, int(self.times[i])
        now, before = time, time - every
        if self._calls == 1:
            now, before = time + every, time
        else:
            self._past = [*self._past[-3:], found]
        past = self._past[::-1]
        if self._calls == 1 and self._first is not None:
            x, found = self._first, (found + past[0]) / 2
        elif len(past) == 1:
            self._first = x
        elif len(past) == 2:
            found = (past[0] * 3 - past[1]) / 2
        elif len(past) == 3:
            found = (past[0] * 23 - past[1] * 16 + past[2] * 5) / 12
        else:
            found = (past[0] * 55 - past[1] * 59 + past[2] * 37 - past[3] * 9) / 24
        self._calls += 1
        kept, then = float(self.kept[now]), float(self.kept[before]) if before >= 0 else self.last
        if self.config.prediction_type == "v_prediction":
            found = found * kept**0.5 + x * (1 - kept) ** 0.5
        parts = kept * (1 - then) ** 0.5 + (kept * (1 - kept) * then) ** 0.5
        return x * (then / kept) ** 0.5 - found * ((then - kept) / parts)


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


class TCD(LCM):
    """As LCM; each step goes further than where it ends, and as much noise comes back (Zheng et al. 2024, arXiv
    2402.19159).
    """

    ETA = 0.3  # how much further

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        config, time = self.config, int(self.times[i])
        last = i + 1 == self.steps
        before = 0 if last else int(self.times[i + 1])
        kept, then = float(self.kept[time]), float(self.kept[before])
        further = float(self.kept[int((1 - self.ETA) * before)])
        picture = self.picture(x, found, kept)
        wrong = found if config.prediction_type == "epsilon" else (x - picture * kept**0.5) / (1 - kept) ** 0.5
        y = picture * further**0.5 + wrong * (1 - further) ** 0.5
        return y if last else y * (then / further) ** 0.5 + noise(y) * (1 - then / further) ** 0.5


def first_of_steps(steps: int, taken: int, strength: float) -> int:
    """The first of the last `taken` steps. OptionError for none."""
    if taken < 1:
        what = f"a strength of {strength} of {steps} steps takes none"
        raise OptionError(what, where="strength", hint="Give more of it, or more steps")
    return steps - taken


def until_nothing(kept: Any) -> Any:
    """The parts of a picture that are kept, scaled so that the last time keeps nothing (Lin et al. 2023, arXiv
    2305.08891).
    """
    roots = kept**0.5
    found = (roots - roots[-1]) * (roots[0] / (roots[0] - roots[-1]))
    return (found**2).astype("float32")
