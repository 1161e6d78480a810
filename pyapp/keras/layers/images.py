"""Layers for pictures (B, H, W, C) or (H, W, C), or with their channels first: their base, and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...engine.ops.resample import interpolate
from ...train.metrics import in_float32
from .. import random
from ..arguments import layer_is_channels_first
from ..core import inherited_training
from .channels import DataFormatLayer

__all__ = ["CenterCrop", "Resizing"]

_MODES = {"bilinear": "bilinear", "nearest": "nearest-exact", "bicubic": "bicubic"}
_PARTS = ("images", "labels", "segmentation_masks", "bounding_boxes")


def resized(x: Tensor, height: int, width: int, mode: str, antialias: bool = False) -> Tensor:
    """Pictures (B, H, W, C) -> (B, height, width, C)."""
    corners = None if mode == "nearest" else False
    found = interpolate(x.movedim(-1, 1), (height, width), None, _MODES[mode], corners, None, antialias)
    return found.movedim(1, -1)


def centre(x: Tensor, height: int, width: int) -> Tensor:
    """The middle of pictures (B, H, W, C)."""
    top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
    return x.narrow(1, top, height).narrow(2, left, width)


def of_shape(x: Tensor, height: int, width: int) -> Tensor:
    """The largest middle part that has the proportions height : width."""
    tall = min(x.shape[1], int(x.shape[2] * height / width))
    wide = min(x.shape[2], int(x.shape[1] * width / height))
    return centre(x, max(tall, 1), max(wide, 1))


class PictureLayer(DataFormatLayer):
    """Base. A layer writes `changed`, which computes on floats (B, H, W, C); a picture alone becomes a batch of one.

    Inputs are pictures, or a dict of `images` and of what belongs to them: `labels`, `segmentation_masks`,
    `bounding_boxes`. Layers whose pictures change at random write `drawn` too, and `moves` is True if pixels change
    their places: then masks move as well, and bounding boxes are refused.
    """

    moves = False

    def __init__(self, data_format: str | None = None, bounding_box_format: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.channels_first = layer_is_channels_first(type(self).__name__, data_format)
        if self.moves and bounding_box_format is not None:
            raise NotImplementedError(f"{type(self).__name__}: bounding boxes do not move with the pictures")

    # -- to be written by layers

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        """The pictures (B, h, w, C) of pictures (B, H, W, C), by the numbers of `drawn`."""
        raise NotImplementedError

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        """As `changed`, for segmentation masks: they move with the pictures, and no values between theirs arise."""
        if self.moves:
            raise NotImplementedError(f"{type(self).__name__}: takes no segmentation masks")
        return x

    def changed_labels(self, labels: Tensor, drawn: Any) -> Tensor:
        """The labels of changed pictures."""
        return labels

    # -- the methods of Keras

    def get_random_transformation(self, data: Any, training: bool = True, seed: Any = None) -> Any:
        """What `transform_images` does with these pictures: random numbers of each; None if nothing is random."""
        return None

    def transform_images(self, images: Any, transformation: Any = None, training: bool = True) -> Tensor:
        """The changed pictures."""
        x = in_float32(self._batch(ops.as_tensor(images).to(self.compute_dtype)))
        return self._like(self.changed(x, transformation, training), images).to(self.compute_dtype)

    def transform_labels(self, labels: Any, transformation: Any = None, training: bool = True) -> Tensor:
        """The labels of the changed pictures."""
        return self.changed_labels(ops.as_tensor(labels), transformation) if training else ops.as_tensor(labels)

    def transform_segmentation_masks(
        self, segmentation_masks: Any, transformation: Any = None, training: bool = True
    ) -> Tensor:
        """The masks of the changed pictures, of their own dtype."""
        masks = ops.as_tensor(segmentation_masks)
        found = self.changed_masks(self._batch(masks.to(self.dtype)), transformation, training)
        return self._like(found, masks).to(masks.dtype)

    def transform_bounding_boxes(self, bounding_boxes: Any, transformation: Any = None, training: bool = True) -> Any:
        """The boxes of the changed pictures. NotImplementedError where pixels change their places."""
        if self.moves:
            raise NotImplementedError(f"{type(self).__name__}: bounding boxes do not move with the pictures")
        return bounding_boxes

    def _batch(self, x: Tensor) -> Tensor:
        """Pictures as (B, H, W, C)."""
        if x.ndim not in (3, 4):
            raise ValueError(f"takes pictures (B, H, W, C) or (H, W, C), got {tuple(x.shape)}")
        x = x if x.ndim == 4 else x.unsqueeze(0)
        return x.movedim(1, -1) if self.channels_first else x

    def _like(self, x: Tensor, images: Any) -> Tensor:
        """Pictures (B, H, W, C) in the form of `images`."""
        x = x.movedim(-1, 1) if self.channels_first else x
        return x if len(images.shape) == 4 else x.squeeze(0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("training") is None and inherited_training() is None:
            kwargs["training"] = True
        return super().__call__(*args, **kwargs)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if isinstance(inputs, Mapping) and ("images" not in inputs or inputs.keys() - set(_PARTS)):
            raise ValueError(
                f"takes pictures, or a dict of {', '.join(_PARTS)}, got a dict of {', '.join(map(repr, inputs))}"
            )
        drawn = self.get_random_transformation(inputs, training)
        if not isinstance(inputs, Mapping):
            return self.transform_images(inputs, drawn, training)
        single = len(inputs["images"].shape) == 3
        found: dict[str, Any] = dict(inputs)
        found["images"] = self.transform_images(inputs["images"], drawn, training)
        if "labels" in inputs:
            labels = inputs["labels"].unsqueeze(0) if single else inputs["labels"]
            labels = self.transform_labels(labels, drawn, training)
            found["labels"] = labels.squeeze(0) if single else labels
        if "segmentation_masks" in inputs:
            found["segmentation_masks"] = self.transform_segmentation_masks(
                inputs["segmentation_masks"], drawn, training
            )
        if "bounding_boxes" in inputs:
            found["bounding_boxes"] = self.transform_bounding_boxes(inputs["bounding_boxes"], drawn, training)
        return found


class RandomPictureLayer(PictureLayer):
    """Base: changes while the model is trained, or where the layer is called alone; each picture by its own draw."""

    def __init__(self, seed: int | None = None, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.seed = seed
        self.generator = None if seed is None else Generator(seed)

    def drawn(self, x: Tensor, generator: Generator | None) -> Any:
        """The random numbers for pictures (B, H, W, C)."""
        raise NotImplementedError

    def disturbed(self, x: Tensor, drawn: Any) -> Tensor:
        """The pictures (B, H, W, C) changed by the numbers of `drawn`."""
        raise NotImplementedError

    def get_random_transformation(self, data: Any, training: bool = True, seed: Any = None) -> Any:
        if not training:
            return None
        x = self._batch(ops.as_tensor(data["images"] if isinstance(data, Mapping) else data))
        return self.drawn(x, self.generator if seed is None else random.generator_of(seed))

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self.disturbed(x, drawn) if training and drawn is not None else x

    def limits(self, factor: Any, least: float = -1.0, most: float = 1.0) -> tuple[float, float]:
        """(lower, upper) of a number, which goes both ways, or of a pair."""
        pair = tuple(sorted(factor)) if isinstance(factor, (tuple, list)) else (max(-abs(factor), least), abs(factor))
        if len(pair) != 2 or not least <= pair[0] <= pair[1] <= most:
            raise ValueError(f"{type(self).__name__}: factors are in [{least:g}, {most:g}], got {factor}")
        return float(pair[0]), float(pair[1])


def draw(
    x: Tensor, limits: tuple[float, float], generator: Generator | None, shape: tuple[int, ...] = (1, 1, 1)
) -> Tensor:
    """A number for each picture of a batch: (B, *shape)."""
    low, high = limits
    return ops.rand((x.shape[0], *shape), generator=generator, device=x.device) * (high - low) + low


def happens(x: Tensor, limits: tuple[float, float], generator: Generator | None) -> Tensor:
    """Whether each picture of a batch changes: (B,), by probabilities that are drawn from `limits`."""
    chance = draw(x, limits, generator, ())
    return draw(x, (0.0, 1.0), generator, ()) < chance


def of_each(values: Tensor) -> Tensor:
    """(B,) as (B, 1, 1, 1)."""
    return values.reshape(-1, 1, 1, 1)


class Resizing(PictureLayer):
    """Pictures of another size. `crop_to_aspect_ratio` cuts the middle of the new proportions first,
    `pad_to_aspect_ratio` adds borders of `fill_value` instead.
    """

    moves = True

    def __init__(
        self, height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
        pad_to_aspect_ratio: bool = False, fill_mode: str = "constant", fill_value: float = 0.0,
        antialias: bool = False, data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(data_format, **settings)
        if interpolation not in _MODES:
            raise ValueError(f"Resizing: interpolation is one of {', '.join(_MODES)}, not {interpolation!r}")
        if crop_to_aspect_ratio and pad_to_aspect_ratio:
            raise ValueError("Resizing: crops or pads to the proportions, not both")
        if fill_mode != "constant":
            raise ValueError(f"Resizing: fill_mode is constant, not {fill_mode!r}")
        self.height, self.width, self.interpolation, self.antialias = height, width, interpolation, antialias
        self.crops, self.pads, self.fill_value = crop_to_aspect_ratio, pad_to_aspect_ratio, fill_value

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._resized(x, self.interpolation)

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._resized(x, "nearest")

    def _resized(self, x: Tensor, interpolation: str) -> Tensor:
        if self.crops:
            x = of_shape(x, self.height, self.width)
        elif self.pads:
            tall = max(x.shape[1], int(x.shape[2] * self.height / self.width))
            wide = max(x.shape[2], int(x.shape[1] * self.width / self.height))
            top, left = (tall - x.shape[1]) // 2, (wide - x.shape[2]) // 2
            x = ops.pad(x, [0, 0, left, left, top, top], value=self.fill_value)  # both sides alike, as Keras does
        return resized(x, self.height, self.width, interpolation, self.antialias and interpolation != "nearest")


class CenterCrop(PictureLayer):
    """The middle of pictures; smaller ones are enlarged."""

    moves = True

    def __init__(self, height: int, width: int, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.height, self.width = height, width

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._cropped(x, "bilinear")

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._cropped(x, "nearest")

    def _cropped(self, x: Tensor, interpolation: str) -> Tensor:
        if x.shape[1] >= self.height and x.shape[2] >= self.width:
            return centre(x, self.height, self.width)
        return resized(of_shape(x, self.height, self.width), self.height, self.width, interpolation)
