"""Pictures of texts, or of texts and pictures, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops.random import Generator
from pyapp.errors import OptionError
from pyapp.text.generation.options import check_number
from pyapp.vision.resampling import resize

from .flow import Flow, read_flow
from .load import LoadedDiffusion
from .read_schedule import read_schedule
from .schedules import Schedule
from .unet import UNet

SIDES = 1 << 12  # pixels at most
SEEDS = 1 << 63


@dataclass(frozen=True)
class ImagineOptions:
    """How pictures are made. guidance: how much more the prompt counts than the negative prompt; 1 or less (0 for
    Z-Image) computes the prompt alone. strength: the part of the steps that a start picture is changed by, 1 for all.
    None: the model's usual size (or the start picture's, rounded down to what the model can draw), a usual number of
    steps, guidance and strength. control_scale: how much a ControlNet counts. true_cfg_scale: how much more the prompt
    counts than the negative prompt, for networks that read the guidance; 1 computes the prompt alone.
    """

    negative_prompt: str = ""
    steps: int | None = None
    guidance: float | None = None
    height: int | None = None
    width: int | None = None
    seed: int = 0
    schedule: str | None = None
    strength: float | None = None
    control_scale: float = 1.0
    true_cfg_scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.negative_prompt, str):
            raise OptionError(f"{self.negative_prompt!r:.60} is not text", where="negative_prompt")
        for name, most in (("steps", 1 << 16), ("height", SIDES), ("width", SIDES)):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, most, whole=True)
        if self.guidance is not None:
            check_number("guidance", self.guidance, 0, 100)
        check_number("true_cfg_scale", self.true_cfg_scale, 1, 100)
        check_number("control_scale", self.control_scale, 0, 10)
        if self.strength is not None:
            check_number("strength", self.strength, 0, 1)
        check_number("seed", self.seed, 0, SEEDS - 1, whole=True)


def guidance_waves(scale: float, width: int) -> Tensor:
    """The embedding (1, width) of a guidance scale, for networks that learnt it (Luo et al. 2023, arXiv 2310.04378)."""
    half = width // 2
    angles = (scale - 1) * 1000 * np.exp(-log(10000) / (half - 1) * np.arange(half, dtype="float32"))
    return ops.tensor(np.concatenate([np.sin(angles), np.cos(angles)]).astype("float32")).reshape(1, width)


class Drawing:
    """Pictures of prompts under way. `picture`, uint8 (H, W, 3), is where they start, or what a model that edits
    changes; of the pixels that are light in `mask`, uint8 (H, W, 1), all is new, and the others stay. `control`, uint8
    (H, W, 3), is what a ControlNet reads, `prompt` what an IP-Adapter reads beside the texts. `noise` makes the random
    numbers of a shape: those of the start picture, of new latents, of the masked picture, then those that a
    schedule asks for.
    """

    def __init__(
        self, loaded: LoadedDiffusion, prompts: Sequence[str], options: ImagineOptions, noise: Any = None,
        picture: Tensor | None = None, mask: Tensor | None = None, control: Tensor | None = None,
        prompt: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.loaded, self.options, self.count = loaded, options, len(prompts)
        network = loaded.network
        steps, guidance = network.usual(loaded.schedule, loaded.settings)
        strength = self._strength(picture, mask)
        if network.sees_pictures and picture is None:
            raise OptionError("this model changes a picture, and there is none", where="image", hint="Give one")
        reference = picture if loaded.edits else None
        if reference is None and picture is not None:
            steps = max(steps, ceil(1 / max(strength, 1e-3)))
        steps = steps if options.steps is None else options.steps
        self.guidance = guidance if options.guidance is None else options.guidance
        if (control is None) != (loaded.control is None):
            raise OptionError("a ControlNet and a picture for it go together", where="control_image")
        if (prompt is None) != (loaded.pictures is None):
            raise OptionError("an IP-Adapter and a picture for it go together", where="adapter_image")
        self.height, self.width = self._sides(control if picture is None else picture)
        picture = None if loaded.edits else picture
        self.schedule = self._schedule(steps)
        self.first_step = 0 if picture is None else self.schedule.begin(strength)
        self._draw = drawer(options.seed) if noise is None else noise
        if not network.learnt_guidance and options.true_cfg_scale > 1:
            raise OptionError("this model has one guidance alone", where="true_cfg_scale", hint="Give the guidance")
        distilled = bool(loaded.settings.get("is_distilled"))
        if distilled and self.guidance > network.neutral:
            raise OptionError("this model was distilled and takes no guidance", where="guidance", hint="Leave it out")
        self.guided = self.guidance > network.neutral
        if network.learnt_guidance:
            self.guided = options.true_cfg_scale > 1
        if network.flow and options.negative_prompt and not self.guided:
            told = ("this model reads no negative prompt", "Leave it out, or give a true_cfg_scale above 1")
            if distilled:
                told = (told[0], "Leave it out")
            elif not network.learnt_guidance:
                told = (f"a negative prompt needs a guidance above {network.neutral:g}", "Give a guidance, such as 4")
            raise OptionError(told[0], where="negative_prompt", hint=told[1])
        self._more: Tensor | None = None  # maps (N, C', H, W) that the network reads beside the latents
        self._around: tuple[Tensor, Tensor, Tensor] | None = None  # the picture's latents, their noise, the mask
        with no_grad():
            texts = [options.negative_prompt] * self.count * self.guided + list(prompts)
            self._text, self._pooled = loaded.texts(texts, self.count * self.guided, reference)
            self._read = self._text  # with the tokens of a picture
            if prompt is not None and loaded.pictures is not None:
                own = loaded.pictures.tokens(prompt, self.guided)  # (1 or 2, N, D)
                rows = [own.narrow(0, i, 1).expand(self.count, *own.shape[1:]) for i in range(own.shape[0])]
                self._read = ops.cat([self._text, ops.cat(rows)], 1)
            self._control = None if control is None else self._pixels(control)
            self._reference = None if reference is None else self._latents_of(reference)
            if picture is None:
                self.latents = self._noise_of_latents() * self.schedule.first
            else:
                self._start(picture, mask, strength)

    def _strength(self, picture: Tensor | None, mask: Tensor | None) -> float:
        """The part of the steps that are taken. OptionError for a mask without a picture, and the like."""
        given, fills = self.options.strength, self.loaded.network.fills
        if self.loaded.edits and (given is not None or mask is not None):
            raise OptionError(
                "this model changes a picture as the prompt says",
                where="mask" if given is None else "strength",
                hint="Leave it out",
            )
        if picture is None and given is not None:
            raise OptionError("a strength is of a start picture, and there is none", where="strength")
        if mask is not None and picture is None:
            raise OptionError("a mask is of a start picture, and there is none", where="mask")
        if fills and mask is None:
            raise OptionError("this model fills in a part of a picture", where="mask", hint="Give a picture and a mask")
        return given if given is not None else 0.8 if mask is None else 1.0

    def _sides(self, picture: Tensor | None) -> tuple[int, int]:
        """The height and the width in pixels."""
        options, network, scale = self.options, self.loaded.network, self.loaded.autoencoder.config.scale
        usual, scale = [network.side * scale] * 2, scale * network.multiple
        most = SIDES if network.most is None else min(SIDES, network.most * scale // network.multiple)
        if self.loaded.edits and picture is not None:
            usual = [*network.drawn_size(picture.shape[0], picture.shape[1], scale, usual[0])]
        found = []
        for i, (name, side) in enumerate((("height", options.height), ("width", options.width))):
            if side is None and picture is not None and not self.loaded.edits:
                side = picture.shape[i] // scale * scale
            side = usual[i] if side is None else side
            if side < 1 or side % scale:
                raise OptionError(f"must be a multiple of {scale}, not {side}", where=name, hint=f"At least {scale}")
            if side > most:
                raise OptionError(f"{side:,} pixels are too many", where=name, hint=f"Give at most {most:,}")
            found.append(side)
        return found[0], found[1]

    def _schedule(self, steps: int) -> Schedule | Flow:
        """The schedule for a number of steps."""
        network, values, name = self.loaded.network, self.loaded.schedule, self.options.schedule
        if network.flow:
            places = self.height * self.width // (self.loaded.autoencoder.config.scale * network.multiple) ** 2
            return Flow(read_flow(values, name), steps, places, network.even, network.shift(places, steps))
        kind, config = read_schedule(values, name)
        return kind(config, steps)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.schedule.times) - self.first_step

    def noise(self, shape: Sequence[int]) -> Tensor:
        """Normal numbers of a shape, on the model's device."""
        found: Tensor = self._draw(tuple(shape)).to(self.loaded.device)
        return found

    def _noise_of_latents(self) -> Tensor:
        config = self.loaded.autoencoder.config
        return self.noise((self.count, config.latent_channels, self.height // config.scale, self.width // config.scale))

    def _pixels(self, picture: Tensor, height: int | None = None, width: int | None = None) -> Tensor:
        """A picture uint8 (H, W, C) → (1, C, height, width), from 0 to 1; by default of the size that is drawn."""
        x = resize(picture, height or self.height, width or self.width, "lanczos").permute(2, 0, 1).unsqueeze(0)
        return x.to("float32").to(self.loaded.device) / 255

    def _latents_of(self, picture: Tensor) -> Tensor:
        """The likeliest latents (1, C, H, W) of a picture that is changed."""
        unit = self.loaded.autoencoder.config.scale * self.loaded.network.multiple
        size = self.loaded.network.read_size(picture.shape[0], picture.shape[1], unit)
        pixels = self._pixels(picture, *size)
        for axis, side in enumerate(size, 2):
            pixels = pixels.narrow(axis, side % unit // 2, side // unit * unit)
        return self.loaded.autoencoder.encode(pixels * 2 - 1, lambda x: x * 0)

    def _start(self, picture: Tensor, mask: Tensor | None, strength: float) -> None:
        """The latents of a start picture with noise, and what the mask leaves of it."""
        autoencoder, fills = self.loaded.autoencoder, self.loaded.network.fills
        pixels = self._pixels(picture) * 2 - 1
        fresh = mask is not None and strength == 1
        source = None
        if not (fresh and fills):
            source = autoencoder.encode(pixels, lambda x: self.noise(x.shape))
            source = source.expand(self.count, *source.shape[1:])
        noise = self._noise_of_latents()
        self.latents = noise * self.schedule.first
        if source is not None and not fresh:
            self.latents = self.schedule.noised(source, noise, self.first_step)
        if mask is None:
            return
        new = (self._pixels(mask) >= 0.5).to("float32")  # (1, 1, height, width)
        if not fills:
            assert source is not None
            self._around = source, noise, ops.interpolate(new, self.latents.shape[2:], mode="nearest")
            return
        rest = autoencoder.encode(pixels * (1 - new), lambda x: self.noise(x.shape))
        more = self.loaded.network.around(new, rest)
        self._more = more.expand(self.count * (1 + self.guided), *more.shape[1:])

    def found(self, i: int) -> Tensor:
        """What the network finds in the latents at step i of the schedule (N, C, H, W)."""
        network, device, x = self.loaded.network, self.loaded.device, self.schedule.scaled(self.latents, i)
        x = ops.cat([x, x]) if self.guided else x
        x = x if self._more is None else ops.cat([x, self._more], 1)
        time = ops.tensor([self.schedule.times[i]], device=device)
        if isinstance(network, UNet):
            y = self._of_unet(network, x, time)
        else:
            guidance = ops.tensor([float(self.guidance)], device=device)
            more = {}
            if self._reference is not None:
                more = {"reference": self._reference.expand(x.shape[0], *self._reference.shape[1:])}
            y = network(x, time, self._text, self._pooled, guidance, **more)
        if not self.guided:
            return y
        without, following = ops.chunk(y, 2)
        scale = self.options.true_cfg_scale if network.learnt_guidance else self.guidance + 1 - network.neutral
        return network.combined(without, following, scale)

    def _of_unet(self, network: UNet, x: Tensor, time: Tensor) -> Tensor:
        """What a U-Net finds in x (B, C, H, W), with what it reads besides the text."""
        device, batch = self.loaded.device, x.shape[0]
        learnt = network.config.time_cond_proj_dim
        sizes = guidance = None
        if network.is_xl:
            row = [self.height, self.width, 0, 0, self.height, self.width]
            sizes = ops.tensor([row] * batch, dtype="float32", device=device)
        if learnt is not None:
            guidance = guidance_waves(self.guidance, learnt).expand(batch, learnt).to(device)
        added: Sequence[Tensor] = ()
        if self.loaded.control is not None and self._control is not None:
            channels, scale = self.loaded.control.config.in_channels, self.options.control_scale
            picture = self._control.expand(batch, *self._control.shape[1:])
            seen = x.narrow(1, 0, channels)
            added = self.loaded.control(seen, time, self._text, picture, scale, self._pooled, sizes)
        found: Tensor = network(x, time, self._read, self._pooled, sizes, guidance, added)
        return found

    def step(self, number: int) -> None:
        """A step of the latents, from 0."""
        i = self.first_step + number
        with no_grad():
            self.latents = self.schedule.after(self.latents, self.found(i), i, lambda x: self.noise(x.shape))
            if self._around is not None:
                source, noise, mask = self._around
                last = i + 1 == len(self.schedule.times)
                source = source if last else self.schedule.noised(source, noise, i + 1)
                self.latents = source + (self.latents - source) * mask

    def pictures(self) -> Iterator[Tensor]:
        """The pictures uint8 (height, width, 3), decoded one by one."""
        yield from decoded(self.loaded, self.latents)


def decoded(loaded: LoadedDiffusion, latents: Tensor) -> Iterator[Tensor]:
    """The pictures uint8 (height, width, 3) of latents (N, C, H, W), one by one."""
    for i in range(latents.shape[0]):
        with no_grad():
            pixels = loaded.autoencoder(latents.narrow(0, i, 1))[0]  # (3, height, width)
            pixels = ((pixels / 2 + 0.5).clamp(0, 1) * 255).round().to("uint8")
        yield pixels.permute(1, 2, 0).cpu().contiguous()


def drawer(seed: int) -> Any:
    """Normal numbers of a seed, the same on each device."""
    generator = Generator().manual_seed(seed)
    return lambda shape: ops.randn(*shape, generator=generator)
