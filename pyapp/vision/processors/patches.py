"""Kinds of image processors whose pictures keep their shape, as far as whole patches allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import interpolate, pad, stack
from pyapp.errors import ArgumentError

from ..resampling import resize
from .processor import ImageProcessor, kind
from .settings import BOTH_SIDES, CLIP, LARGEST, LONG_SIDE, SHORT_AND_LONG, check_whole, square, wrong
from .sizes import at_least, in_multiples, of_patches, of_pixels, of_squares

PIXELS = 1 << 27  # of a picture
SOFT_TOKENS = 70, 140, 280, 560, 1120  # that a picture of Gemma 4 may have at most


@dataclass(frozen=True)
class Patches(ImageProcessor):
    """Patches, of which squares become one vector each."""

    patch_size: int = 14  # pixels of a side
    merge_size: int = 2  # rows, and columns, of patches that become one vector

    def _check(self) -> None:
        super()._check()
        check_whole("patch_size", self.patch_size, 1, 256)
        check_whole("merge_size", self.merge_size, 1, 256)

    @property
    def _side(self) -> int:
        """The pixels of a side of what becomes one vector."""
        return self.patch_size * self.merge_size

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of a picture's vectors."""
        high, wide = self.seen(height, width)
        return high // self._side, wide // self._side


@kind("Qwen2VL", size={"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}, resample=3, statistics=CLIP)
@dataclass(frozen=True)
class Qwen2VL(Patches):
    """The size is a number of pixels, of the smallest and of the largest pictures."""

    cap_pixels_per_frame: bool = False  # whether a video's frames are smaller where there are many
    max_video_tokens: int = 128000

    SIZES = (SHORT_AND_LONG,)
    LARGEST = PIXELS

    def _check(self) -> None:
        super()._check()
        check_whole("max_video_tokens", self.max_video_tokens, 1, 1 << 24)

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        names = {"shortest_edge": "min_pixels", "longest_edge": "max_pixels"}
        own = {edge: settings[name] for edge, name in names.items() if settings.get(name) is not None}
        size = usual["size"] if settings.get("size") is None else settings["size"]
        merged = {"size": {**size, **own}} if own and isinstance(size, dict) else {}
        return {**super()._renewed(settings, usual), **merged}

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return of_pixels(height, width, self._side, self.size["shortest_edge"], self.size["longest_edge"])

    def _frames_target(self, count: int, each: int, height: int, width: int) -> tuple[int, int]:
        """The size to resize a video's `count` frames to, of which a patch has `each`."""
        least, most = self.size["shortest_edge"], self.size["longest_edge"]
        if self.cap_pixels_per_frame:
            whole = int(self.max_video_tokens * self._side**2 * 0.9)
            most = max(min(most, whole * each // count), int(least * 1.05))
        return of_pixels(height, width, self._side, least, most)

    def frame_tiles(self, count: int, each: int, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of vectors of each few frames of a video."""
        high, wide = self._frames_target(count, each, height, width) if self.do_resize else (height, width)
        return high // self._side, wide // self._side

    def of_frames(self, frames: Sequence[Tensor], each: int) -> Tensor:
        """The frames of a video, uint8 (H, W, 3) of one size → (N, each, 3, h, w) float32; the last one is repeated."""
        high, wide = int(frames[0].shape[0]), int(frames[0].shape[1])
        size = self._frames_target(len(frames), each, high, wide) if self.do_resize else (high, wide)
        found = [self._values(resize(frame, *size, self._method) if self.do_resize else frame) for frame in frames]
        found += [found[-1]] * (-len(found) % each)
        return stack(found).reshape(-1, each, *found[0].shape)


@kind(
    "Qwen3VL", size={"shortest_edge": 128 * 32 * 32, "longest_edge": 32 * 32 * 768}, resample=3, patch_size=16,
    max_video_tokens=768,
)  # fmt: skip
@dataclass(frozen=True)
class Qwen3VL(Qwen2VL):
    """Videos, of which the size is a number of pixels of all frames."""

    def _frames_target(self, count: int, each: int, height: int, width: int) -> tuple[int, int]:
        if count < each:
            raise ArgumentError(f"a video of {count} frames is too short: {each} are needed")
        side, least, most = self._side, self.size["shortest_edge"], self.size["longest_edge"]
        if self.cap_pixels_per_frame:
            most = max(min(self.max_video_tokens * side**2, most // count), int(least * 1.05)) * count
        if min(height, width) < side:
            scale = max(side / height, side / width)
            height, width = int(height * scale), int(width * scale)
        return of_pixels(height, width, side, least, most, count, round(count / each) * each)


def as_videos(processor: ImageProcessor) -> ImageProcessor:
    """What prepares the frames of Qwen3-VL's videos, of what prepares its pictures."""
    names = ("patch_size", "merge_size", "image_mean", "image_std", "do_resize", "do_rescale", "do_normalize")
    own = {name: getattr(processor, name) for name in names if hasattr(processor, name)}
    return ImageProcessor.from_settings(own, "Qwen3VL")


@kind("PaddleOCRVL", size={"shortest_edge": 384 * 384, "longest_edge": 1536 * 1536}, resample=3, statistics=CLIP)
@dataclass(frozen=True)
class PaddleOCRVL(Qwen2VL):
    """Narrow pictures are made larger before."""

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return super()._target(*at_least(height, width, self._side))


@kind(
    "Glm4v", "Glm46V", size={"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 15000}, resample=3, statistics=CLIP
)
@dataclass(frozen=True)
class Glm4v(Qwen2VL):
    """Each picture counts as the two frames of a patch, and small ones are made larger before."""

    def _target(self, height: int, width: int) -> tuple[int, int]:
        side = self._side
        if min(height, width) < side:
            scale = max(side / height, side / width)
            height, width = int(height * scale), int(width * scale)
        return of_pixels(height, width, side, self.size["shortest_edge"] / 2, self.size["longest_edge"] / 2)


@kind("Pix2Struct", size=square(224), resample=2, patch_size=16)
@dataclass(frozen=True)
class Pix2Struct(ImageProcessor):
    """A picture has as many whole patches as a limit allows, and is normalised by its own numbers. With `is_vqa` a
    question, `header`, stands above it (pyapp.vision.headers).
    """

    patch_size: int = 16  # pixels of a side
    max_patches: int = 2048
    is_vqa: bool = False
    header: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        settings, sides = super()._renewed(settings, usual), settings.get("patch_size")
        settings = {key: value for key, value in settings.items() if key != "header"}
        if isinstance(sides, dict) and set(sides) == BOTH_SIDES and sides["height"] == sides["width"]:
            return {**settings, "patch_size": sides["height"]}
        return settings

    def _check(self) -> None:
        super()._check()
        check_whole("patch_size", self.patch_size, 1, 256)
        check_whole("max_patches", self.max_patches, 1, 1 << 16)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _prepared(self, image: Tensor) -> Tensor:
        if self.is_vqa and self.header is None:
            raise ArgumentError("this model reads a question, which stands above the picture: give a prompt")
        x = (image if self.header is None else self.header(image)).permute(2, 0, 1).to("float32")  # (3, H, W)
        high, wide, side = int(x.shape[1]), int(x.shape[2]), self.patch_size
        scale = sqrt(self.max_patches * (side / high) * (side / wide))
        size = tuple(side * max(min(int(scale * n / side), self.max_patches), 1) for n in (high, wide))
        if self.do_normalize:
            mean = x.mean()
            x = (x - mean) / (x - mean).square().mean().sqrt().clamp(min=x.numel() ** -0.5)
        found = interpolate(x.unsqueeze(0), size=size, mode="bilinear", align_corners=False, antialias=True)
        return found.squeeze(0)


@kind("Pixtral", size={"longest_edge": 1024}, resample=3, statistics=CLIP, do_pad=True, patch_size=16, merge_size=1)
@dataclass(frozen=True)
class Pixtral(Patches):
    """Pictures become no larger, but for the rest of a patch."""

    SIZES: ClassVar[tuple[set[str], ...]] = (LONG_SIDE, BOTH_SIDES)

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        settings, sides = super()._renewed(settings, usual), settings.get("patch_size")
        if isinstance(sides, dict) and set(sides) == BOTH_SIDES and sides["height"] == sides["width"]:
            return {**settings, "patch_size": sides["height"]}
        return settings

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return in_multiples(height, width, self.size, self._side)


@kind("Fuyu", size={"height": 1080, "width": 1920}, resample=2, do_pad=True, patch_size=30, merge_size=1)
@dataclass(frozen=True)
class Fuyu(Pixtral):
    """Pictures become no larger. What a patch lacks at the right and below has one value."""

    padding_value: float = 1.0  # of 255

    SIZES = (BOTH_SIDES,)

    def _check(self) -> None:
        super()._check()
        for name, side in self.size.items():
            if side % self._side:
                wrong(f"size[{name!r}]", side, f"a multiple of the patches' {self._side} pixels")
        if not 0 <= self.padding_value <= 255 or not self.do_pad:
            wrong("padding_value or do_pad", self.padding_value, "a value up to 255, and true")

    def _within(self, height: int, width: int) -> tuple[int, int]:
        """The sides of a picture that is no larger than the size."""
        high, wide = self.size["height"], self.size["width"]
        if not self.do_resize or (height <= high and width <= wide):
            return height, width
        scale = min(high / height, wide / width)
        return max(1, int(height * scale)), max(1, int(width * scale))

    def _target(self, height: int, width: int) -> tuple[int, int]:
        high, wide = self._within(height, width)
        return high + -high % self._side, wide + -wide % self._side

    def seen(self, height: int, width: int) -> tuple[int, int]:
        return self._target(height, width)

    def _resized(self, image: Tensor) -> Tensor:
        high, wide = self._within(int(image.shape[0]), int(image.shape[1]))
        return resize(image, high, wide, self._method) if (high, wide) != tuple(image.shape[:2]) else image

    def _values(self, image: Tensor) -> Tensor:
        side = self._side
        below, right = -int(image.shape[0]) % side, -int(image.shape[1]) % side
        return super()._values(pad(image.to("float32"), [0, 0, 0, right, 0, below], value=float(self.padding_value)))


@kind("Aria", size=square(980), resample=3)
@dataclass(frozen=True)
class Aria(ImageProcessor):
    """The longer side has max_image_size pixels. What a patch lacks at the right and below is black; transformers makes
    squares, of which the model does not see the rest.
    """

    max_image_size: int = 980
    min_image_size: int = 336  # pixels of the shorter side, at least
    split_image: bool = False
    patch_size: int = 14

    def _check(self) -> None:
        super()._check()
        check_whole("max_image_size", self.max_image_size, 1, LARGEST)
        check_whole("min_image_size", self.min_image_size, 1, self.max_image_size)
        check_whole("patch_size", self.patch_size, 1, 256)
        if self.split_image:
            wrong("split_image", self.split_image, "false: pictures are seen whole")

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        most, least = self.max_image_size, self.min_image_size
        scale = most / max(height, width)
        return (max(int(height * scale), least), most) if width >= height else (most, max(int(width * scale), least))

    def _values(self, image: Tensor) -> Tensor:
        below, right = (-int(n) % self.patch_size for n in image.shape[:2])
        return super()._values(pad(image, [0, 0, 0, right, 0, below]))


@kind("Gemma4", "Gemma4Unified", size=square(768), resample=3, do_normalize=False, patch_size=16, merge_size=3)
@dataclass(frozen=True)
class Gemma4(Patches):
    """A picture has nearly as many vectors as a limit allows."""

    max_soft_tokens: int = 280  # of a picture

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        side = settings.get("pooling_kernel_size")
        kept = {key: value for key, value in super()._renewed(settings, usual).items() if key != "size"}
        return kept if side is None else {**kept, "merge_size": side}

    def _check(self) -> None:
        super()._check()
        if self.max_soft_tokens not in SOFT_TOKENS:
            wrong("max_soft_tokens", self.max_soft_tokens, f"one of {', '.join(map(str, SOFT_TOKENS))}")

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return of_squares(height, width, self._side, self.max_soft_tokens)


@kind("Siglip2", size=square(224), resample=2, patch_size=16)
@dataclass(frozen=True)
class Siglip2(ImageProcessor):
    """A picture has as many patches as a limit allows."""

    patch_size: int = 14  # pixels of a side
    max_num_patches: int = 256  # of a picture

    def _check(self) -> None:
        super()._check()
        check_whole("patch_size", self.patch_size, 1, 256)
        check_whole("max_num_patches", self.max_num_patches, 1, 1 << 14)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return of_patches(height, width, self.patch_size, self.max_num_patches)
