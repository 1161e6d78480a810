"""What all image processors do: they read their settings, and resize, crop, rescale, normalise and pad pictures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.ops import cat
from pyapp.errors import ArgumentError, ModelError

from ..resampling import NUMBERED, resize
from .frames import cropped, padded
from .settings import (
    BOTH_SIDES,
    FILE,
    HALF,
    HINT,
    LARGEST,
    LARGEST_SIDES,
    SHORT_AND_LONG,
    SHORT_SIDE,
    checked_size,
    is_list,
    is_number,
    size_of_sides,
    square,
    wrong,
)
from .sizes import between, shortest

Processor = TypeVar("Processor", bound="type[ImageProcessor]")


class Kind(NamedTuple):
    """The class of a kind of image processor, and its settings where a file says nothing."""

    processor: type[ImageProcessor]
    usual: Mapping[str, Any]


KINDS: dict[str, Kind] = {}  # by their names without "ImageProcessor"


def kind(
    *names: str, size: Mapping[str, int], resample: int, statistics: Any = HALF, **more: Any
) -> Callable[[Processor], Processor]:
    """Declares that a class is the processor of the kinds `names`, and their usual settings. statistics: their
    image_mean and image_std.
    """

    def declare(processor: Processor) -> Processor:
        usual = {"size": size, "resample": resample, "image_mean": statistics[0], "image_std": statistics[1]} | more
        for name in names:
            KINDS[name] = Kind(processor, usual)
        return processor

    return declare


@dataclass(frozen=True)
class Prepared:
    """pixel_values (B, 3, H, W) float32, of each picture its tiles, row by row, and the whole, if it has tiles, and the
    whole and its crops, if it has crops; mask
    (B, H, W) int64, 1 where a pixel is of its picture and 0 where it is padding, None if no picture is padded; the
    sizes (height, width) of the pictures as they were given.
    """

    pixel_values: Tensor
    mask: Tensor | None
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ImageProcessor:
    """The steps from pictures to a model's input, in this order, under the names of preprocessor_config.json."""

    kind: str
    size: Mapping[str, int]
    resample: int
    image_mean: tuple[float, ...]
    image_std: tuple[float, ...]
    crop_size: Mapping[str, int] = field(default_factory=lambda: square(224))
    pad_size: Mapping[str, int] | None = None
    rescale_factor: float = 1 / 255
    do_resize: bool = True
    do_center_crop: bool = False
    do_rescale: bool = True
    do_normalize: bool = True
    do_pad: bool = False
    rescale_offset: bool = False

    # The forms that `size` may have, and the largest number in it.
    SIZES: ClassVar[Collection[Collection[str]]] = (BOTH_SIDES, SHORT_SIDE, SHORT_AND_LONG, LARGEST_SIDES)
    LARGEST: ClassVar[int] = LARGEST

    @staticmethod
    def from_settings(settings: Mapping[str, Any], usual: str | None = None) -> ImageProcessor:
        """From the object of a preprocessor_config.json, or of a processor_config.json. usual: its kind where it says
        none, by its name in KINDS. ModelError for an unknown processor and for values that cannot be.
        """
        own = settings.get("image_processor")
        settings = own if isinstance(own, dict) else settings
        name = _kind_of(settings, usual)
        processor, values = KINDS[name]
        settings = {key: value for key, value in processor._renewed(settings, values).items() if value is not None}
        if settings.get("do_pan_and_scan") and "do_pan_and_scan" not in processor.__dataclass_fields__:
            wrong("do_pan_and_scan", settings["do_pan_and_scan"], "false: only Gemma 3's pictures have crops")
        found = {**values, **{key: settings[key] for key in processor.__dataclass_fields__ if key in settings}}
        found["kind"] = name
        if "size" in settings:
            found["size"] = processor._read_size(settings["size"], settings.get("max_size"), values["size"])
        found |= {key: size_of_sides(key, settings[key]) for key in ("crop_size", "pad_size") if key in settings}
        for key in ("image_mean", "image_std"):
            value = found[key]
            found[key] = (value,) * 3 if type(value) in (int, float) else tuple(value) if is_list(value) else value
        made = processor(**found)
        made._check()
        return made._completed()

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings of older files under today's names. usual: those where a file says nothing."""
        old = settings.get("pad_and_return_pixel_mask")
        return settings if old is None else {"do_pad": old, **settings}

    @classmethod
    def _read_size(cls, given: Any, longest: Any, usual: Mapping[str, int]) -> Mapping[str, int]:
        """A size as a mapping. Older files have one number, or two, and the longest side by itself."""
        found = given
        if type(given) is int and cls._keeps_shape(usual):
            found = {"shortest_edge": given} | ({} if longest is None else {"longest_edge": longest})
        elif type(given) is int:
            found = square(given)
        elif is_list(given) and len(given) == 2:
            found = dict(zip(cls._sides(), given, strict=True))
        return checked_size("size", found, cls.SIZES, given, cls.LARGEST)

    @classmethod
    def _keeps_shape(cls, usual: Mapping[str, int]) -> bool:
        """Whether a single number for the size is that of the shorter side."""
        return "shortest_edge" in usual

    @classmethod
    def _sides(cls) -> tuple[str, str]:
        """What two numbers for the size are."""
        return "height", "width"

    def _check(self) -> None:
        """ModelError for settings that cannot be."""
        for name, declared in self.__dataclass_fields__.items():
            value = getattr(self, name)
            if str(declared.type) == "bool" and type(value) is not bool:
                wrong(name, value, "true or false")
            if str(declared.type) == "float" and not (is_number(value) and value > 0):
                wrong(name, value, "a number above 0")
        if type(self.resample) is not int or self.resample not in NUMBERED:
            wrong("resample", self.resample, f"a filter's number, one of {', '.join(map(str, NUMBERED))}")
        for name in ("image_mean", "image_std"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or len(value) != 3 or not all(map(is_number, value)):
                wrong(name, value, "three numbers")
        if not all(self.image_std):
            wrong("image_std", self.image_std, "numbers other than 0")

    def _completed(self) -> ImageProcessor:
        """The processor with the settings that follow from others."""
        return self

    def adapted(self, **settings: Any) -> ImageProcessor:
        """The processor with what a model's configuration says of pictures. ModelError for a setting that its kind
        does not have.
        """
        for name in settings:
            if name not in self.__dataclass_fields__:
                raise ModelError(
                    f"the image processor {self.kind}ImageProcessor has no {name}, which the model needs",
                    where=FILE, hint=HINT,
                )  # fmt: skip
        return replace(self, **settings)

    def without_tiles(self) -> ImageProcessor:
        """The processor that shows a picture as one square, if it cuts pictures into tiles, on request of a model."""
        return self

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """(height, width) of every picture that it makes; None if that depends on the picture."""
        exact = self.crop_size if self.do_center_crop else self.size if self.do_resize else {}
        if self.do_pad and self.pad_size is not None:
            exact = self.pad_size
        return (exact["height"], exact["width"]) if set(exact) >= BOTH_SIDES else None

    def __call__(self, images: Sequence[Tensor], device: Device | None = None) -> Prepared:
        """Pictures uint8 (H, W, 3) → the input of a model. ArgumentError for other tensors, and for pictures of several
        sizes if the processor pads none.
        """
        for image in images:
            if image.ndim != 3 or image.shape[2] != 3 or image.dtype.name != "uint8" or 0 in image.shape:
                raise ArgumentError(
                    f"a picture is uint8 (height, width, 3), not {image.dtype.name} {list(image.shape)}"
                )
        if not images:
            raise ArgumentError("there is no picture to prepare")
        found = [self._prepared(view) for image in images for view in self._views(image)]  # (3, h, w) each
        high, wide = (max(int(x.shape[i]) for x in found) for i in (1, 2))
        if self.do_pad and self.pad_size is not None:
            high, wide = self.pad_size["height"], self.pad_size["width"]
        same = all(tuple(x.shape[1:]) == (high, wide) for x in found)
        if not same and not self._pads_batches:
            raise ArgumentError(
                f"the pictures have several sizes after their preparation, such as {list(found[0].shape[1:])}: "
                "give them one by one"
            )
        mask = None
        if not same:
            mask = cat([padded(ops.ones(1, *x.shape[1:], dtype="int64"), high, wide) for x in found])  # (B, H, W)
            found = [padded(x, high, wide) for x in found]
        values = ops.stack(found)  # (B, 3, H, W)
        if device is not None:
            values, mask = values.to(device), None if mask is None else mask.to(device)
        return Prepared(values, mask, tuple((int(x.shape[0]), int(x.shape[1])) for x in images))

    @property
    def _pads_batches(self) -> bool:
        """Whether smaller pictures of a batch are padded."""
        return self.do_pad

    def by_size(self, image: Tensor) -> list[Tensor]:
        """The parts of a picture uint8 (H, W, 3) that a model sees, as its input (N, 3, h, w), those of one size
        together. ArgumentError as of a call.
        """
        return [self([image]).pixel_values]

    def told(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture as it is given to a model."""
        return height, width

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of tiles, of crops, or of vectors, that a picture is cut into; (0, 0): it stays
        whole.
        """
        return 0, 0

    def margins(self, height: int, width: int) -> tuple[int, int]:
        """The rows above and below a picture, and the columns beside it, that are its reflection."""
        return 0, 0

    def area(self, height: int, width: int) -> tuple[float, float, float, float] | None:
        """The place of a picture in its frame: left, top, width and height as parts of the frame's sides. None if the
        model's input has no frame.
        """
        return None

    def whole_map(self, x: Tensor, height: int, width: int) -> Tensor:
        """The scores (1, C, H', W') of the places of a picture of this size, by those of the parts x (N, C, h, w) of
        it that the model has seen, without what is around it.
        """
        return x

    def seen(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture (height, width) in the model's input, before it is cropped or padded."""
        return self._target(height, width) if self.do_resize else (height, width)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        """The size to resize a picture to."""
        size, short, long = self.size, self.size.get("shortest_edge"), self.size.get("longest_edge")
        if short is not None and long is not None:
            return between(height, width, short, long)
        if short is not None:
            return shortest(height, width, short)
        if "max_height" in size:
            scale = min(size["max_height"] / height, size["max_width"] / width)
            return max(1, int(height * scale)), max(1, int(width * scale))
        return size["height"], size["width"]

    def _views(self, image: Tensor) -> list[Tensor]:
        """The parts of a picture (H, W, 3) uint8 that a model sees."""
        return [image]

    def _prepared(self, image: Tensor) -> Tensor:
        """(H, W, 3) uint8 → (3, h, w) float32."""
        image = self._resized(image)
        return self._values(self._centre(image) if self.do_center_crop else image)

    def _values(self, image: Tensor) -> Tensor:
        """(h, w, 3) uint8, resized → (3, h, w) float32."""
        x = image.permute(2, 0, 1).to("float32")  # (3, h, w)
        if self.do_rescale:
            x = x * self.rescale_factor
            if self.rescale_offset:
                x = x - 1
        mean, std = (
            ops.tensor([*map(float, values)], dtype="float32", device=x.device).reshape(3, 1, 1)
            for values in (self.image_mean, self.image_std)
        )
        return self._normalized(x, mean, std).contiguous()

    def _resized(self, image: Tensor) -> Tensor:
        """(H, W, 3) uint8 → (h, w, 3) uint8."""
        if not self.do_resize:
            return image
        high, wide = self._target(int(image.shape[0]), int(image.shape[1]))
        return resize(image, high, wide, self._method)

    def _centre(self, image: Tensor) -> Tensor:
        """The middle (h, w, 3) of a picture (H, W, 3)."""
        return cropped(image, self.crop_size["height"], self.crop_size["width"])

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """(3, H, W) float32, rescaled, mean and std (3, 1, 1) → (3, h, w) float32, what a model sees."""
        return (x - mean) / std if self.do_normalize else x

    @property
    def _method(self) -> str:
        """The filter with which pictures are resized, by its name."""
        return NUMBERED[self.resample]


def _kind_of(settings: Mapping[str, Any], usual: str | None) -> str:
    """The name in KINDS of the processor that a file names; `usual` where it names none. ModelError for an unknown
    one.
    """
    names = ("image_processor_type", "feature_extractor_type", "video_processor_type")
    named = next((settings[name] for name in names if settings.get(name)), None)
    if named is None:
        if usual is not None:
            return usual
        raise ModelError("it does not say the image_processor_type", where=FILE, hint=HINT)
    short = str(named).removesuffix("Fast").removesuffix("Pil")
    for end in ("ImageProcessor", "FeatureExtractor", "VideoProcessor"):
        short = short.removesuffix(end)
    if short not in KINDS:
        raise ModelError(
            f"the image processor {named!s:.60} is not known", where=FILE,
            hint=f"Known: {', '.join(f'{name}ImageProcessor' for name in KINDS)}",
        )  # fmt: skip
    return short
