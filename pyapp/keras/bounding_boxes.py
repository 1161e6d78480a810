"""keras.utils.bounding_boxes: boxes (…, 4) around things in pictures, in several formats, and how much they overlap.

Formats: "xyxy" (left, top, right, bottom), "yxyx", "xywh" (left, top, width, height), "center_xywh", "center_yxhw", in
pixels; the first four with "rel_" before them as parts of the picture's width and height.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi
from typing import Any

from ..engine import Tensor, as_dtype, ops
from .arguments import as_tensor

__all__ = [
    "FORMATS", "clip_to_image_size", "compute_ciou", "compute_iou", "convert_format", "crop", "decode_deltas_to_boxes",
    "encode_box_to_deltas", "pad",
]  # fmt: skip

_RELATIVE = ("xyxy", "yxyx", "xywh", "center_xywh")
FORMATS = (*_RELATIVE, "center_yxhw", *(f"rel_{name}" for name in _RELATIVE))
EPSILON = 1e-7


def _parts(boxes: Tensor) -> tuple[Tensor, ...]:
    return tuple(boxes[..., k] for k in range(4))


def _of_parts(*parts: Tensor) -> Tensor:
    return ops.stack(list(parts), -1)


def _corners(boxes: Tensor, kind: str) -> Tensor:
    """Boxes of a format without "rel_" as xyxy."""
    a, b, c, d = _parts(boxes)
    if kind in ("yxyx", "center_yxhw"):
        a, b, c, d = b, a, d, c
    if kind == "xywh":
        c, d = a + c, b + d
    elif kind.startswith("center"):
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return _of_parts(a, b, c, d)


def _from_corners(boxes: Tensor, kind: str) -> Tensor:
    a, b, c, d = _parts(boxes)
    if kind == "xywh":
        c, d = c - a, d - b
    elif kind.startswith("center"):
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return _of_parts(b, a, d, c) if kind in ("yxyx", "center_yxhw") else _of_parts(a, b, c, d)


def convert_format(
    boxes: Any, source: str, target: str, height: Any = None, width: Any = None, dtype: Any = "float32"
) -> Any:
    """Boxes (…, 4), or a dict with them as "boxes", in another format. ValueError for formats that there are not, and
    where a relative one meets one in pixels without `height` and `width`."""
    if isinstance(boxes, Mapping):
        return {**boxes, "boxes": convert_format(boxes["boxes"], source, target, height, width, dtype)}
    source, target = source.lower(), target.lower()
    for name in (source, target):
        if name not in FORMATS:
            raise ValueError(f"convert_format: a format is one of {', '.join(FORMATS)}, not {name!r:.40}")
    given = as_tensor(boxes).to(as_dtype(dtype))
    if not given.ndim or given.shape[-1] != 4:
        raise ValueError(f"convert_format: takes boxes (…, 4), got {tuple(given.shape)}")
    relative = source.startswith("rel_"), target.startswith("rel_")
    if any(relative) and (height is None or width is None):
        raise ValueError(f"convert_format: from {source} to {target} takes the height and the width of the picture")
    if source == target:
        return given
    found = _corners(given, source.removeprefix("rel_"))
    if relative[0] != relative[1]:
        size = ops.tensor([float(width), float(height)] * 2, dtype=given.dtype, device=given.device)
        found = found * size if relative[0] else found / size
    return _from_corners(found, target.removeprefix("rel_"))


def clip_to_image_size(
    bounding_boxes: Mapping[str, Any], height: Any = None, width: Any = None, bounding_box_format: str = "xyxy"
) -> dict[str, Any]:
    """The parts of boxes that lie in the picture. `bounding_boxes` has "boxes", and may have "labels": those of boxes
    of which nothing is left become -1."""
    if bounding_box_format not in ("xyxy", "rel_xyxy"):
        raise ValueError(f"clip_to_image_size: takes xyxy or rel_xyxy, not {bounding_box_format!r:.40}")
    if bounding_box_format == "xyxy" and (height is None or width is None):
        raise ValueError("clip_to_image_size: boxes in pixels take the height and the width of the picture")
    right, bottom = (1.0, 1.0) if bounding_box_format == "rel_xyxy" else (float(width), float(height))
    a, b, c, d = _parts(as_tensor(bounding_boxes["boxes"]))
    a, b, c, d = a.clamp(0, right), b.clamp(0, bottom), c.clamp(0, right), d.clamp(0, bottom)
    found = {**bounding_boxes, "boxes": _of_parts(a, b, c, d)}
    if bounding_boxes.get("labels") is not None:
        labels = as_tensor(bounding_boxes["labels"])
        left = (c - a) * (d - b) > 0
        found["labels"] = ops.where(left.reshape(*left.shape, *(1,) * (labels.ndim - left.ndim)), labels, -1)
    return found


def _shifted(boxes: Any, x: Any, y: Any, name: str, bounding_box_format: str) -> Tensor:
    if bounding_box_format != "xyxy":
        raise ValueError(f"{name}: takes xyxy, not {bounding_box_format!r:.40}; use convert_format")
    a, b, c, d = _parts(as_tensor(boxes))
    return _of_parts(a + x, b + y, c + x, d + y)


def crop(boxes: Any, top: Any, left: Any, height: Any, width: Any, bounding_box_format: str = "xyxy") -> Tensor:
    """Boxes (…, 4) in a part of the picture: what lies outside of it is cut off."""
    moved = _shifted(boxes, -left, -top, "crop", bounding_box_format)
    found: Tensor = clip_to_image_size({"boxes": moved}, height, width)["boxes"]
    return found


def pad(
    boxes: Any, top: Any, left: Any, height: Any = None, width: Any = None, bounding_box_format: str = "xyxy"
) -> Tensor:
    """Boxes (…, 4) in a picture with so many more pixels above and on the left."""
    return _shifted(boxes, left, top, "pad", bounding_box_format)


def _size(image_shape: Any) -> tuple[Any, Any]:
    return (None, None) if image_shape is None else (image_shape[0], image_shape[1])


def _variance(variance: Any) -> Any:
    if variance is None:
        return 1.0
    found = as_tensor(variance, "float32")
    if found.shape[-1] != 4:
        raise ValueError(f"variance has four numbers, got {tuple(found.shape)}")
    return found


def _check_encoding(name: str) -> None:
    if name not in ("center_xywh", "center_yxhw"):
        raise ValueError(f"deltas are those of center_xywh or center_yxhw, not {name!r:.40}")


def encode_box_to_deltas(
    anchors: Any, boxes: Any, anchor_format: str, box_format: str, encoding_format: str = "center_yxhw",
    variance: Any = None, image_shape: Any = None,
) -> Tensor:  # fmt: skip
    """What a detector learns: boxes (…, N, 4) as differences from anchors (N, 4), of centres in parts of the anchor's
    size and of sizes by their logarithms, divided by `variance` (Ren et al. 2015, arXiv 1506.01497)."""
    _check_encoding(encoding_format)
    height, width = _size(image_shape)
    anchor = convert_format(anchors, anchor_format, encoding_format, height, width)
    box = convert_format(boxes, box_format, encoding_format, height, width)
    of_anchor, of_box = anchor[..., 2:].clamp(min=EPSILON), box[..., 2:].clamp(min=EPSILON)
    moves = (box[..., :2] - anchor[..., :2]) / of_anchor
    return ops.cat([moves, (of_box / of_anchor).log()], -1) / _variance(variance)


def decode_deltas_to_boxes(
    anchors: Any, boxes_delta: Any, anchor_format: str, box_format: str, encoded_format: str = "center_yxhw",
    variance: Any = None, image_shape: Any = None,
) -> Any:  # fmt: skip
    """The boxes of `encode_box_to_deltas`; of dicts of anchors and differences a dict."""
    _check_encoding(encoded_format)
    if isinstance(anchors, Mapping):
        settings = anchor_format, box_format, encoded_format, variance, image_shape
        return {key: decode_deltas_to_boxes(anchor, boxes_delta[key], *settings) for key, anchor in anchors.items()}
    height, width = _size(image_shape)
    anchor = convert_format(anchors, anchor_format, encoded_format, height, width)
    delta = as_tensor(boxes_delta) * _variance(variance)
    centre = delta[..., :2] * anchor[..., 2:] + anchor[..., :2]
    found = ops.cat([centre, delta[..., 2:].exp() * anchor[..., 2:]], -1)
    return convert_format(found, encoded_format, box_format, height, width)


def _overlap(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
    """The area that boxes share, from their corners."""
    across = one[2].minimum(other[2]) - one[0].maximum(other[0])
    down = one[3].minimum(other[3]) - one[1].maximum(other[1])
    return across.clamp(min=0) * down.clamp(min=0)


def compute_iou(
    boxes1: Any, boxes2: Any, bounding_box_format: str, use_masking: bool = False, mask_val: float = -1,
    image_shape: Any = None,
) -> Tensor:  # fmt: skip
    """How much boxes (M, 4) or (B, M, 4) and (N, 4) or (B, N, 4) overlap: the shared area by that of both together, (M,
    N) or (B, M, N). With `use_masking` it is `mask_val` for boxes without a number of 0 or more."""
    height, width = _size(image_shape)
    pair = []
    for given in (boxes1, boxes2):
        boxes = convert_format(given, bounding_box_format, "xyxy", height, width)
        if boxes.ndim not in (2, 3):
            raise ValueError(f"compute_iou: takes boxes (N, 4) or (B, N, 4), got {tuple(boxes.shape)}")
        pair.append(boxes)
    one, other = pair[0].unsqueeze(-2), pair[1].unsqueeze(-3)
    shared = _overlap(_parts(one), _parts(other))
    area, other_area = ((x[..., 2] - x[..., 0]) * (x[..., 3] - x[..., 1]) for x in (one, other))
    found = shared / (area + other_area - shared + EPSILON)
    if not use_masking:
        return found
    none = (one.max(-1)[0] < 0) | (other.max(-1)[0] < 0)
    return ops.where(none, float(mask_val), found)


def compute_ciou(boxes1: Any, boxes2: Any, bounding_box_format: str, image_shape: Any = None) -> Tensor:
    """The complete overlap of boxes (…, 4) with others, one with one: compute_iou less terms for the distance of their
    centres and for other proportions (Zheng et al. 2020, arXiv 1911.08287)."""
    height, width = _size(image_shape)
    one, other = (_parts(convert_format(x, bounding_box_format, "xyxy", height, width)) for x in (boxes1, boxes2))
    sizes = [(x[2] - x[0], x[3] - x[1] + EPSILON) for x in (one, other)]
    shared = _overlap(one, other)
    iou = shared / (sizes[0][0] * sizes[0][1] + sizes[1][0] * sizes[1][1] - shared + 2 * EPSILON)
    across = one[2].maximum(other[2]) - one[0].minimum(other[0])
    down = one[3].maximum(other[3]) - one[1].minimum(other[1])
    away = sum(((one[k] + one[k + 2] - other[k] - other[k + 2]) / 2).square() for k in (0, 1))
    angle = (sizes[1][0] / sizes[1][1]).atan() - (sizes[0][0] / sizes[0][1]).atan()
    unlike = 4 / pi**2 * angle.square()
    share = unlike / (unlike - iou + (1 + EPSILON))
    found: Tensor = iou - (away / (across.square() + down.square() + EPSILON) + unlike * share)
    return found
