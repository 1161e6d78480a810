"""Pictures of Würstchen (Pernias et al. 2023, arXiv 2306.00637) in two stages: the prior draws a picture of a few
numbers, with the guidance, and the decoder latents from it.

The numbers of the schedule are those of diffusers' DDPMWuerstchenScheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, cos, pi
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import OptionError

from ..loading.config import check_fields, read_config, require
from .load import LoadedDiffusion
from .sampling import SIDES, Drawing, ImagineOptions, decoded, drawer
from .schedules import Noise

CLASS = "DDPMWuerstchenScheduler"
PRIOR_STEPS, DECODER_STEPS, GUIDANCE = 60, 12, 4.0  # usual ones
USUAL_SIDE = 1024  # pixels
MOST_STEPS = 1000
KEPT = 0.0001, 0.9999  # the least and the most of a picture that noise leaves


@dataclass(frozen=True, kw_only=True)
class CosineConfig:
    """The hyper-parameters of the schedule."""

    scaler: float = 1.0
    s: float = 0.008

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 < self.scaler <= 100, f"scaler is {self.scaler}")
        require(0 < self.s < 1, f"s is {self.s}")


class Cosine:
    """A schedule of `steps` steps over times from 1 to 0 (the interface is that of schedules.Schedule)."""

    def __init__(self, values: Mapping[str, Any], steps: int) -> None:
        kind = values.get("_class_name")
        require(kind == CLASS, f"the schedule {kind!r:.60} is not known", f"Known for this network: {CLASS}")
        self.config, self.steps = read_config(CosineConfig, values), steps
        if not 1 <= steps <= MOST_STEPS:
            raise OptionError(f"{steps!r} is not a number of steps from 1 to {MOST_STEPS:,}", where="steps")
        step, half = np.float32(-1 / steps), (steps + 1) // 2  # rounded as the training's: angles of times are large
        self.times = [
            float(np.float32(1) + step * np.float32(i) if i < half else -step * np.float32(steps - i))
            for i in range(steps + 1)
        ]

    def kept(self, time: float) -> float:
        """The part of a picture that is left at a time."""
        s, scaler = self.config.s, self.config.scaler
        time = 1 - (1 - time) ** scaler if scaler > 1 else time**scaler
        found = cos((time + s) / (1 + s) * pi / 2) ** 2 / cos(s / (1 + s) * pi / 2) ** 2
        return min(max(found, KEPT[0]), KEPT[1])

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        """x and the noise that was found in it (B, C, H, W) → x of the next step."""
        kept, then = self.kept(self.times[i]), self.kept(self.times[i + 1])
        part = kept / then
        x = (x - found * ((1 - part) / (1 - kept) ** 0.5)) / part**0.5
        if i + 1 == self.steps:
            return x
        return x + noise(x) * ((1 - part) * (1 - then) / (1 - kept)) ** 0.5


class CascadeDrawing:
    """Pictures of prompts under way, as sampling.Drawing: the steps of the prior, then those of the decoder."""

    def __init__(
        self, loaded: LoadedDiffusion, prompts: Sequence[str], options: ImagineOptions, noise: Any = None
    ) -> None:
        assert loaded.prior is not None
        self.loaded, self.prior, self.options, self.count = loaded, loaded.prior, options, len(prompts)
        self.guidance = GUIDANCE if options.guidance is None else options.guidance
        self.guided = self.guidance > 1
        if options.schedule is not None:
            raise OptionError("this model has its own schedule alone", where="schedule", hint="Leave it out")
        if options.true_cfg_scale > 1:
            raise OptionError("this model has one guidance alone", where="true_cfg_scale", hint="Give the guidance")
        steps = PRIOR_STEPS if options.steps is None else options.steps
        self.schedules = (
            Cosine(self.prior.schedule, steps), Cosine(loaded.schedule, min(steps, DECODER_STEPS))
        )  # fmt: skip
        settings = self.prior.settings
        self.mean, self.deviation, self.multiple, self.scale = (
            _number(values, name, usual)
            for values, name, usual in (
                (settings, "latent_mean", 42.0), (settings, "latent_std", 1.0),
                (settings, "resolution_multiple", 42.67), (loaded.settings, "latent_dim_scale", 10.67),
            )
        )  # fmt: skip
        places = [self._places(name, getattr(options, name)) for name in ("height", "width")]
        pixels = loaded.autoencoder.config.scale
        self.height, self.width = (int(n * self.scale) * pixels for n in places)
        self._draw = drawer(options.seed) if noise is None else noise
        with no_grad():
            texts = [*prompts, *[options.negative_prompt] * self.count * self.guided]
            self._prior_text = self.prior.reader.clip_of_words(texts)
            self._text = loaded.readers[0].clip_of_words(prompts)
        self.small = self.noise((self.count, self.prior.network.config.c_in, *places))
        self.latents = self.small  # until the decoder begins

    def _places(self, name: str, side: int | None) -> int:
        """The places of the prior's picture along a side in pixels. OptionError for a side that comes out otherwise."""
        pixels = self.loaded.autoencoder.config.scale

        def drawn(places: int) -> int | None:
            latents = int(places * self.scale)
            return None if latents < 1 or latents % self.loaded.network.multiple else latents * pixels

        known: dict[int, int] = {}  # sides: their places
        for places in range(1, int(SIDES / self.multiple) + 2):
            found = drawn(places)
            if found is not None and found <= SIDES:
                known.setdefault(found, places)
        require(bool(known), "the numbers of the prior and of the decoder fit no picture")
        if side is None:
            return known[min(known, key=lambda one: abs(one - USUAL_SIDE))]
        if side not in known or ceil(side / self.multiple) != known[side]:
            near = min(known, key=lambda one: abs(one - side))
            raise OptionError(f"{side:,} pixels cannot be drawn", where=name, hint=f"The nearest side is {near:,}")
        return known[side]

    @property
    def steps(self) -> int:
        """The number of steps of both stages."""
        return sum(schedule.steps for schedule in self.schedules)

    def noise(self, shape: Sequence[int]) -> Tensor:
        """Normal numbers of a shape, on the model's device."""
        found: Tensor = self._draw(tuple(shape)).to(self.loaded.device)
        return found

    def step(self, number: int) -> None:
        """A step of the prior's picture or of the latents, from 0."""
        first, second = self.schedules
        with no_grad():
            if number < first.steps:
                self.small = first.after(self.small, self._found_small(number), number, lambda x: self.noise(x.shape))
                if number + 1 == first.steps:
                    self.small = self.small * self.mean - self.deviation
                    sides = [int(n * self.scale) for n in self.small.shape[2:]]
                    self.latents = self.noise((self.count, self.loaded.network.config.c_in, *sides))
                return
            i = number - first.steps
            time = ops.tensor([second.times[i]], dtype="float32", device=self.loaded.device)
            found = self.loaded.network(self.latents, time, self.small, self._text)
            self.latents = second.after(self.latents, found, i, lambda x: self.noise(x.shape))

    def _found_small(self, i: int) -> Tensor:
        """The noise that the prior finds at a step (N, C, H, W)."""
        x = ops.cat([self.small, self.small]) if self.guided else self.small
        time = ops.tensor([self.schedules[0].times[i]], dtype="float32", device=self.loaded.device)
        found = self.prior.network(x, time, self._prior_text)
        if not self.guided:
            return found
        following, without = ops.chunk(found, 2)
        return without + (following - without) * self.guidance

    def pictures(self) -> Iterator[Tensor]:
        """The pictures uint8 (height, width, 3), decoded one by one."""
        yield from decoded(self.loaded, self.latents)


def _number(values: Mapping[str, Any], name: str, usual: float) -> float:
    """A number of a model_index.json."""
    found = values.get(name, usual)
    require(type(found) in (int, float) and 0 < abs(found) < 1e6, f"{name} is {found!r:.60}")
    require(found > 0 or not name.endswith(("multiple", "scale")), f"{name} is {found!r:.60}")
    return float(found)


def begin_drawing(
    loaded: LoadedDiffusion, prompts: Sequence[str], options: ImagineOptions, noise: Any = None,
    picture: Tensor | None = None, mask: Tensor | None = None, control: Tensor | None = None,
    prompt: Tensor | None = None,
) -> Drawing | CascadeDrawing:  # fmt: skip
    """Pictures of prompts under way; the arguments are those of Drawing."""
    if loaded.prior is None:
        return Drawing(loaded, prompts, options, noise, picture, mask, control, prompt)
    for name, given in (
        ("image", picture), ("mask", mask), ("control_image", control), ("adapter_image", prompt),
        ("strength", options.strength),
    ):  # fmt: skip
        if given is not None:
            raise OptionError("this model draws of texts alone", where=name, hint="Leave it out")
    return CascadeDrawing(loaded, prompts, options, noise)
