"""Pictures of texts, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops.random import Generator
from pyapp.errors import OptionError
from pyapp.text.options import check_number

from .load import LoadedDiffusion
from .schedules import Schedule, read_schedule

SIDES = 1 << 12  # pixels at most
SEEDS = 1 << 63


@dataclass(frozen=True)
class ImagineOptions:
    """How pictures are made. guidance: how much more the prompt counts than the negative prompt; 1 or less computes the
    prompt alone. None: the model's usual size, and a usual number of steps and guidance.
    """

    negative_prompt: str = ""
    steps: int | None = None
    guidance: float | None = None
    height: int | None = None
    width: int | None = None
    seed: int = 0
    schedule: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.negative_prompt, str):
            raise OptionError(f"{self.negative_prompt!r:.60} is no text", where="negative_prompt")
        for name, most in (("steps", 1 << 16), ("height", SIDES), ("width", SIDES)):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, most, whole=True)
        if self.guidance is not None:
            check_number("guidance", self.guidance, 0, 100)
        check_number("seed", self.seed, 0, SEEDS - 1, whole=True)


def usual(loaded: LoadedDiffusion) -> tuple[int, float]:
    """A usual number of steps and guidance: few steps without guidance for models that learnt to need no more."""
    if loaded.unet.config.time_cond_proj_dim is not None or loaded.schedule.get("_class_name") == "LCMScheduler":
        return 4, 8.5
    turbo = loaded.schedule.get("_class_name") == "EulerAncestralDiscreteScheduler"
    if turbo and loaded.schedule.get("timestep_spacing") == "trailing":
        return 1, 0.0
    return 30, 7.5 if not loaded.is_xl else 5.0


def guidance_waves(scale: float, width: int) -> Tensor:
    """The embedding (1, width) of a guidance scale, for networks that learnt it (Luo et al. 2023, arXiv 2310.04378)."""
    half = width // 2
    angles = (scale - 1) * 1000 * np.exp(-log(10000) / (half - 1) * np.arange(half, dtype="float32"))
    return ops.tensor(np.concatenate([np.sin(angles), np.cos(angles)]).astype("float32")).reshape(1, width)


class Drawing:
    """Pictures of prompts under way. `noise` makes the random numbers of a shape: new latents first, then those that a
    schedule asks for.
    """

    def __init__(
        self, loaded: LoadedDiffusion, prompts: Sequence[str], options: ImagineOptions, noise: Any = None
    ) -> None:
        self.loaded, self.options, self.count = loaded, options, len(prompts)
        steps, guidance = usual(loaded)
        steps = steps if options.steps is None else options.steps
        self.guidance = guidance if options.guidance is None else options.guidance
        kind, config = read_schedule(loaded.schedule, options.schedule)
        self.schedule: Schedule = kind(config, steps)
        scale, step = loaded.decoder.config.scale, loaded.unet.config.step
        usual_side = loaded.unet.config.sample_size * scale
        sides = [usual_side if side is None else side for side in (options.height, options.width)]
        for name, side in zip(("height", "width"), sides, strict=True):
            if side % (scale * step):
                raise OptionError(f"{side} is no multiple of {scale * step}", where=name)
        self.height, self.width = sides
        self._draw = _drawer(options.seed) if noise is None else noise
        self._learnt = loaded.unet.config.time_cond_proj_dim
        self.guided = self._learnt is None and self.guidance > 1
        with no_grad():
            texts = [options.negative_prompt] * self.count * self.guided + list(prompts)
            self._text, self._pooled = loaded.texts(texts)
            shape = (self.count, loaded.unet.config.in_channels, self.height // scale, self.width // scale)
            self.latents = self.noise(shape) * self.schedule.first

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.schedule.times)

    def noise(self, shape: Sequence[int]) -> Tensor:
        """Normal numbers of a shape, on the model's device."""
        found: Tensor = self._draw(tuple(shape)).to(self.loaded.device)
        return found

    def found(self, i: int) -> Tensor:
        """What the U-Net finds in the latents at step i (N, C, H, W)."""
        device, x = self.loaded.device, self.schedule.scaled(self.latents, i)
        x = ops.cat([x, x]) if self.guided else x
        time = ops.tensor([self.schedule.times[i]], device=device)
        sizes = guidance = None
        if self.loaded.is_xl:
            row = [self.height, self.width, 0, 0, self.height, self.width]
            sizes = ops.tensor([row] * x.shape[0], dtype="float32", device=device)
        if self._learnt is not None:
            guidance = guidance_waves(self.guidance, self._learnt).expand(x.shape[0], self._learnt).to(device)
        y = self.loaded.unet(x, time, self._text, self._pooled, sizes, guidance)
        if not self.guided:
            return y
        without, following = ops.chunk(y, 2)
        return without + (following - without) * self.guidance

    def step(self, i: int) -> None:
        """Step i of the latents."""
        with no_grad():
            self.latents = self.schedule.after(self.latents, self.found(i), i, lambda x: self.noise(x.shape))

    def pictures(self) -> Iterator[Tensor]:
        """The pictures uint8 (height, width, 3), decoded one by one."""
        for i in range(self.count):
            with no_grad():
                pixels = self.loaded.decoder(self.latents.narrow(0, i, 1))[0]  # (3, height, width)
                pixels = ((pixels / 2 + 0.5).clamp(0, 1) * 255).round().to("uint8")
            yield pixels.permute(1, 2, 0).cpu().contiguous()


def _drawer(seed: int) -> Any:
    """Normal numbers of a seed, the same on each device."""
    generator = Generator().manual_seed(seed)
    return lambda shape: ops.randn(*shape, generator=generator)
