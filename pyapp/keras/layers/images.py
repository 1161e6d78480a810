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
from ..bounding_boxes import FORMATS, clip_to_image_size, convert_format
from ..call_state import inherited_training
from .channels import DataFormatLayer

__all__ = ["CenterCrop", "MaxNumBoundingBoxes", "Resizing"]

MODES = {"bilinear": "bilinear", "nearest": "nearest-exact", "bicubic": "bicubic"}
_PARTS = ("images", "labels", "segmentation_masks", "bounding_boxes")


def resized(x: Tensor, height: int, width: int, mode: str, antialias: bool = False) -> Tensor:
    """Pictures (B, H, W, C) -> (B, height, width, C)."""
    corners = None if mode == "nearest" else False
    found = interpolate(x.movedim(-1, 1), (height, width), None, MODES[mode], corners, None, antialias)
    return found.movedim(1, -1)


def centre(x: Tensor, height: int, width: int) -> Tensor:
    """The middle of pictures (B, H, W, C)."""
    top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
    return x.narrow(1, top, height).narrow(2, left, width)


def part_of_shape(size: tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """The height and width of the largest part of a picture that has the proportions height : width."""
    return max(min(size[0], int(size[1] * height / width)), 1), max(min(size[1], int(size[0] * width / height)), 1)


def of_shape(x: Tensor, height: int, width: int) -> Tensor:
    """The largest middle part that has the proportions height : width."""
    return centre(x, *part_of_shape((x.shape[1], x.shape[2]), height, width))


def centred_boxes(boxes: Tensor, size: tuple[int, int], part: tuple[int, int]) -> Tensor:
    """Boxes (B, N, 4) in the middle of a picture, or in a larger one around it."""
    (height, width), (tall, wide) = size, part
    return boxes - ops.tensor([(width - wide) // 2, (height - tall) // 2] * 2, dtype=boxes.dtype, device=boxes.device)


def scaled_boxes(boxes: Tensor, size: tuple[int, int], to: tuple[int, int]) -> Tensor:
    """Boxes (B, N, 4) in a resized picture."""
    return boxes * ops.tensor([to[1] / size[1], to[0] / size[0]] * 2, dtype=boxes.dtype, device=boxes.device)


class PictureLayer(DataFormatLayer):
    """Base. A layer writes `changed`, which computes on floats (B, H, W, C); a picture alone becomes a batch of one.

    Inputs are pictures, or a dict of `images` and of what belongs to them: `labels`, `segmentation_masks`,
    `bounding_boxes`. Layers whose pictures change at random write `drawn` too, and `moves` is True if pixels change
    their places: then masks move as well. Bounding boxes move where a layer writes `moved_boxes`; others refuse them.
    """

    resolved: tuple[str, ...] = ("factor",)
    moves = False
    moves_boxes = False  # whether there is `moved_boxes`

    def __init__(self, data_format: str | None = None, bounding_box_format: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.channels_first = layer_is_channels_first(type(self).__name__, data_format)
        if self.moves and not self.moves_boxes and bounding_box_format is not None:
            raise NotImplementedError(f"{type(self).__name__}: bounding boxes do not move with the pictures")
        if bounding_box_format is not None and bounding_box_format.lower() not in FORMATS:
            raise ValueError(
                f"{type(self).__name__}: bounding_box_format is one of {', '.join(FORMATS)}, not "
                f"{bounding_box_format!r:.40}"
            )
        self.bounding_box_format = bounding_box_format

    # -- to be written by layers

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        """The pictures (B, h, w, C) of pictures (B, H, W, C), by the numbers of `drawn`."""
        raise NotImplementedError

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        """As `changed`, for segmentation masks: they move with the pictures, and no values between theirs arise."""
        if self.moves:
            raise NotImplementedError(f"{type(self).__name__}: takes no segmentation masks")
        return x

    def moved_boxes(
        self, boxes: Tensor, size: tuple[int, int], drawn: Any, training: bool
    ) -> tuple[Tensor, tuple[int, int]]:
        """The boxes (B, N, 4), left, top, right, bottom in pixels, in the changed pictures, and their height and
        width; `size` is that of the pictures before."""
        raise NotImplementedError(f"{type(self).__name__}: bounding boxes do not move with the pictures")

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
        """The boxes of the changed pictures. NotImplementedError where pixels change their places: that takes the size
        of the pictures, so call the layer with a dict of pictures and boxes."""
        if self.moves:
            raise NotImplementedError(
                f"{type(self).__name__}: "
                + ("call the layer with a dict of images and bounding_boxes" if self.moves_boxes else
                   "bounding boxes do not move with the pictures")
            )  # fmt: skip
        return bounding_boxes

    def _boxes_moved_with(self, images: Any, given: Mapping[str, Any], drawn: Any, training: bool) -> dict[str, Any]:
        """{"boxes": (B, N, 4) or (N, 4), "labels"} in the changed pictures. What is outside is cut off; boxes of which
        nothing is left have the label -1, and rows of 0 or of -1 alone, which fill up, become 0."""
        kind = type(self).__name__
        if self.bounding_box_format is None:
            raise ValueError(f"{kind}: give the layer bounding_box_format, such as 'xyxy'")
        if not isinstance(given, Mapping) or "boxes" not in given:
            raise ValueError(f"{kind}: bounding_boxes is a dict of boxes and labels")
        rows = images.shape[-3 + self.channels_first], images.shape[-2 + self.channels_first]
        boxes, form = ops.as_tensor(given["boxes"]), self.bounding_box_format
        filling = (boxes == 0).all(-1) | (boxes == -1).all(-1)
        corners = convert_format(boxes, form, "xyxy", *rows, dtype=in_float32(boxes).dtype)
        moved, size = self.moved_boxes(corners.reshape(-1, *corners.shape[-2:]), rows, drawn, training)
        found = clip_to_image_size({**given, "boxes": moved.reshape(corners.shape)}, *size)
        kept = ops.where(filling.unsqueeze(-1), 0.0, found["boxes"])
        return {**found, "boxes": convert_format(kept, "xyxy", form, *size, dtype=kept.dtype)}

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
            boxes = inputs["bounding_boxes"]
            if self.moves and self.moves_boxes:
                found["bounding_boxes"] = self._boxes_moved_with(inputs["images"], boxes, drawn, training)
            else:
                found["bounding_boxes"] = self.transform_bounding_boxes(boxes, drawn, training)
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
        """(lower, upper) of a number, which goes both ways, or of a pair. Keras' files have (-f, f) for a number f."""
        pair = tuple(sorted(factor)) if isinstance(factor, (tuple, list)) else (-abs(factor), abs(factor))
        if len(pair) == 2 and pair[0] == -pair[1]:
            pair = (max(pair[0], least), pair[1])
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

    moves = moves_boxes = True

    def __init__(
        self, height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
        pad_to_aspect_ratio: bool = False, fill_mode: str = "constant", fill_value: float = 0.0,
        antialias: bool = False, data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(data_format, **settings)
        if interpolation not in MODES:
            raise ValueError(f"Resizing: interpolation is one of {', '.join(MODES)}, not {interpolation!r}")
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

    def moved_boxes(
        self, boxes: Tensor, size: tuple[int, int], drawn: Any, training: bool
    ) -> tuple[Tensor, tuple[int, int]]:
        part = size
        if self.crops:
            part = part_of_shape(size, self.height, self.width)
        elif self.pads:  # both sides alike
            tall, wide = self._around(size)
            part = size[0] + (tall - size[0]) // 2 * 2, size[1] + (wide - size[1]) // 2 * 2
        wanted = self.height, self.width
        return scaled_boxes(centred_boxes(boxes, size, part), part, wanted), wanted

    def _around(self, size: tuple[int, int]) -> tuple[int, int]:
        """The height and width of the smallest picture around one that has the proportions."""
        return max(size[0], int(size[1] * self.height / self.width)), max(
            size[1], int(size[0] * self.width / self.height)
        )

    def _resized(self, x: Tensor, interpolation: str) -> Tensor:
        if self.crops:
            x = of_shape(x, self.height, self.width)
        elif self.pads:
            tall, wide = self._around((x.shape[1], x.shape[2]))
            top, left = (tall - x.shape[1]) // 2, (wide - x.shape[2]) // 2
            x = ops.pad(x, [0, 0, left, left, top, top], value=self.fill_value)  # both sides alike, as Keras does
        return resized(x, self.height, self.width, interpolation, self.antialias and interpolation != "nearest")


class CenterCrop(PictureLayer):
    """The middle of pictures; smaller ones are enlarged."""

    moves = moves_boxes = True

    def __init__(self, height: int, width: int, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.height, self.width = height, width

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._cropped(x, "bilinear")

    def changed_masks(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return self._cropped(x, "nearest")

    def moved_boxes(
        self, boxes: Tensor, size: tuple[int, int], drawn: Any, training: bool
    ) -> tuple[Tensor, tuple[int, int]]:
        wanted = self.height, self.width
        if size[0] >= self.height and size[1] >= self.width:
            return centred_boxes(boxes, size, wanted), wanted
        part = part_of_shape(size, *wanted)
        return scaled_boxes(centred_boxes(boxes, size, part), part, wanted), wanted

    def _cropped(self, x: Tensor, interpolation: str) -> Tensor:
        if x.shape[1] >= self.height and x.shape[2] >= self.width:
            return centre(x, self.height, self.width)
        return resized(of_shape(x, self.height, self.width), self.height, self.width, interpolation)


class MaxNumBoundingBoxes(PictureLayer):
    """The first `max_number` bounding boxes of each picture; rows of `fill_value` fill up where there are fewer. Takes
    a dict of `images` and `bounding_boxes`: `boxes` (B, N, 4) and `labels` (B, N)."""

    def __init__(self, max_number: int, fill_value: int = -1, **settings: Any) -> None:
        super().__init__(**settings)
        if max_number < 0:
            raise ValueError(f"MaxNumBoundingBoxes: max_number is at least 0, not {max_number}")
        self.max_number, self.fill_value = int(max_number), int(fill_value)

    def changed(self, x: Tensor, drawn: Any, training: bool) -> Tensor:
        return x

    def transform_bounding_boxes(self, bounding_boxes: Any, transformation: Any = None, training: bool = True) -> Any:
        """{"boxes": (B, max_number, 4), "labels": (B, max_number)}."""
        found = dict(bounding_boxes)
        for name in ("boxes", "labels"):
            rows = ops.as_tensor(found[name])[:, : self.max_number]  # (B, n, 4) or (B, n)
            missing = self.max_number - rows.shape[1]
            found[name] = ops.pad(rows, [0, 0] * (rows.ndim - 2) + [0, missing], value=self.fill_value)
        return found
