"""Pictures: resizing, sampling at places, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from io import BytesIO
from math import floor
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn.vision.boxes import non_max_suppression as suppressed

from ..registry import operator
from ..values import array_of, axes_of, check_room, floats, ints, made_of, scalar, text


def _places(size: int, out: int, scale: float, how: str, roi: tuple[float, float] | None) -> Any:
    """The place in the input of each element of the output (float64)."""
    at = np.arange(out, dtype=np.float64)
    match how:
        case "half_pixel":
            return (at + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (at + 0.5) / scale - 0.5 if out > 1 else np.full(out, -0.5)
        case "align_corners":
            return at * (size - 1) / (scale * size - 1) if out > 1 else np.zeros(out)
        case "asymmetric":
            return at / scale
        case "half_pixel_symmetric":
            wanted = scale * size
            return size / 2 * (1 - out / wanted) + (at + 0.5) / scale - 0.5
        case "tf_half_pixel_for_nn":
            return (at + 0.5) / scale
        case "tf_crop_and_resize":
            start, end = roi if roi is not None else (0.0, 1.0)
            if out > 1:
                return start * (size - 1) + at * (end - start) * (size - 1) / (scale * size - 1)
            return np.full(out, 0.5 * (start + end) * (size - 1))
    raise ValueError(f"coordinate_transformation_mode is {how!r}")


def _nearest(places: Any, how: str) -> Any:
    match how:
        case "round_prefer_floor":
            return np.ceil(places - 0.5)
        case "round_prefer_ceil":
            return np.floor(places + 0.5)
        case "floor":
            return np.floor(places)
        case "ceil":
            return np.ceil(places)
        case "simple":
            return np.trunc(places)
    raise ValueError(f"nearest_mode is {how!r}")


def _cubic(x: Any, a: float) -> Any:
    """Keys' kernel (1981)."""
    x = np.abs(x)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _taps(places: Any, mode: str, scale: float, antialias: bool, cubic: float) -> tuple[Any, Any]:
    """(index (out, taps), weight (out, taps)) of the elements that make each output."""
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = 1 if mode == "linear" else 2
    low = np.floor(places).astype(np.int64)
    begin, end = floor(-reach / shrink) + 1, reach - floor(-reach / shrink)
    steps = np.arange(begin, end if shrink < 1 else reach + 1)
    index = low[:, None] + steps
    apart = (index - places[:, None]) * shrink
    weight = np.clip(1 - np.abs(apart), 0, 1) if mode == "linear" else _cubic(apart, cubic)
    return index, weight / weight.sum(1, keepdims=True) if shrink < 1 else weight


def _resized(
    x: Tensor, at: int, out: int, scale: float, mode: str, how: str, roi: Any, nearest: str, cubic: float,
        antialias: bool,
    exclude: bool, extrapolation: float,
) -> Tensor:  # fmt: skip
    """x with another size of one dim."""
    size = x.shape[at]
    places = _places(size, out, scale, how, roi)
    if mode == "nearest":
        index, weight = np.clip(_nearest(places, nearest), 0, size - 1).astype(np.int64)[:, None], None
    else:
        index, weight = _taps(places, mode, scale, antialias, cubic)
        if exclude:
            weight = np.where((index >= 0) & (index < size), weight, 0)
            weight = weight / weight.sum(1, keepdims=True)
        index = np.clip(index, 0, size - 1)
    shape = [out if d == at else 1 for d in range(x.ndim)]
    if weight is None:
        y = ops.index_select(x, at, made_of(np.ascontiguousarray(index[:, 0]), device=x.device))
    elif index.shape[1] > 4:
        check_room((out, size), "Resize", 8)
        matrix = np.zeros((out, size))
        np.add.at(matrix, (np.arange(out)[:, None], index), weight)
        y = (x.movedim(at, -1) @ made_of(matrix.T, x.dtype.name, x.device)).movedim(-1, at)
    else:
        parts = [
            ops.index_select(x, at, made_of(np.ascontiguousarray(index[:, tap]), device=x.device))
            * made_of(weight[:, tap].reshape(shape), x.dtype.name, x.device)
            for tap in range(index.shape[1])
        ]
        y = reduce(ops.add, parts)
    if how == "tf_crop_and_resize":
        outside = ((places < 0) | (places > size - 1)).reshape(shape)
        y = ops.where(made_of(outside, device=x.device), made_of(np.array(extrapolation), x.dtype.name, x.device), y)
    return y


def _sizes(
    x: Tensor, axes: Sequence[int], scales: list[float] | None, sizes: list[int] | None, policy: str
) -> tuple[list[int], list[float]]:
    """(size, scale) of each axis in the output."""
    have = [x.shape[at] for at in axes]
    if scales:
        if len(scales) != len(axes) or not all(0 < s < 1e9 for s in scales):
            raise ValueError(f"the scales {scales} do not fit the axes {list(axes)}")
        return [floor(n * s) for n, s in zip(have, scales, strict=True)], scales
    if not sizes or len(sizes) != len(axes):
        raise ValueError(f"the sizes {sizes} do not fit the axes {list(axes)}")
    ratios = [s / n for s, n in zip(sizes, have, strict=True)]
    if policy == "stretch":
        return sizes, ratios
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [int(n * ratio + 0.5) for n in have], [ratio] * len(axes)


@operator("Resize", since=11, reads=(1, 2, 3))
def resize(
    x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0, axes: Any = None,
    coordinate_transformation_mode: bytes = b"half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, keep_aspect_ratio_policy: bytes = b"stretch", mode: bytes = b"nearest",
    nearest_mode: bytes = b"round_prefer_floor",
) -> Tensor:  # fmt: skip
    """x with other sizes, by `scales` or `sizes`: nearest, linear or cubic, axis by axis."""
    dims = axes_of(axes, x.ndim) if axes is not None else list(range(x.ndim))
    factors = floats(scales) if scales is not None and scales.numel() else None
    wanted = ints(sizes) if sizes is not None and sizes.numel() else None
    out, ratios = _sizes(x, dims, factors, wanted, text(keep_aspect_ratio_policy))
    box = floats(roi) if roi is not None and roi.numel() else None
    how = text(coordinate_transformation_mode)
    check_room([out[dims.index(d)] if d in dims else x.shape[d] for d in range(x.ndim)], "Resize")
    kind, y = text(mode), x if x.dtype.category == 2 or text(mode) == "nearest" else x.to("float32")
    for k, at in enumerate(dims):
        if out[k] == x.shape[at] and ratios[k] == 1 and how != "tf_crop_and_resize":
            continue
        part = (box[k], box[k + len(dims)]) if box is not None and how == "tf_crop_and_resize" else None
        y = _resized(
            y, at, out[k], ratios[k], kind, how, part, text(nearest_mode), cubic_coeff_a, bool(antialias),
            bool(exclude_outside), extrapolation_value,
        )  # fmt: skip
    return y if y.dtype is x.dtype else ops.round(y).to(x.dtype)


@operator("Resize", "Upsample", since=9, reads=(1,))
def resize_asymmetric(x: Tensor, scales: Tensor, *, mode: bytes = b"nearest") -> Tensor:
    return _upsampled(x, floats(scales), mode)


@operator("Upsample")
def upsample(x: Tensor, *, scales: list[float], mode: bytes = b"nearest") -> Tensor:
    return _upsampled(x, scales, mode)


def _upsampled(x: Tensor, scales: list[float], mode: bytes) -> Tensor:
    y = x
    out, ratios = _sizes(x, range(x.ndim), scales, None, "stretch")
    check_room(out, "Upsample")
    for at in range(x.ndim):
        if out[at] != x.shape[at]:
            y = _resized(
                y, at, out[at], ratios[at], text(mode), "asymmetric", None,
                "floor" if ratios[at] >= 1 else "ceil", -0.75, False, False, 0.0,
            )  # fmt: skip
    return y


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: bytes = b"linear", padding_mode: bytes = b"zeros"
) -> Tensor:
    """x (N, C, H, W) at places (N, H', W', 2) in -1 .. 1; or with one spatial dim more."""
    how = {"linear": "bilinear", "cubic": "bicubic"}.get(text(mode), text(mode))
    return ops.grid_sample(x, grid.to(x.dtype), how, text(padding_mode), bool(align_corners))


@operator("AffineGrid", reads=(1,))
def affine_grid(theta: Tensor, size: Tensor, *, align_corners: int = 0) -> Tensor:
    sizes = ints(size)
    check_room(sizes, "AffineGrid")
    return ops.affine_grid(theta, sizes, bool(align_corners))


def _corners(boxes: Any, centred: int) -> Any:
    """(…, 4) as x1, y1, x2, y2."""
    if centred:
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        return np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1)
    y1, x1, y2, x2 = np.moveaxis(boxes, -1, 0)
    return np.stack([np.minimum(x1, x2), np.minimum(y1, y2), np.maximum(x1, x2), np.maximum(y1, y2)], -1)


@operator("NonMaxSuppression", reads=(0, 1, 2, 3, 4))
def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: Any = None, iou_threshold: Any = None, score_threshold: Any = None, *,
    center_point_box: int = 0,
) -> Tensor:  # fmt: skip
    """The best boxes (B, N, 4) of each class by scores (B, C, N), without those that overlap a better one: (count, 3)
    of
    batch, class, box."""
    limit, overlap = int(scalar(most, 0)), float(scalar(iou_threshold, 0.0))
    least = None if score_threshold is None else float(scalar(score_threshold))
    found: list[list[int]] = []
    all_scores, all_boxes = array_of(scores), array_of(boxes).astype(np.float64)
    for b in range(all_scores.shape[0]):
        corners = _corners(all_boxes[b], center_point_box)
        for c in range(all_scores.shape[1]):
            own = all_scores[b, c]
            chosen = np.arange(len(own)) if least is None else np.flatnonzero(own > least)
            kept = suppressed(corners[chosen], own[chosen], overlap, limit)
            found += [[b, c, int(chosen[i])] for i in kept]
    return made_of(np.array(found, np.int64).reshape(-1, 3))


@operator("ImageDecoder", reads=(0,))
def image_decoder(stream: Tensor, *, pixel_format: bytes = b"RGB") -> Tensor:
    """The picture of a file's bytes: (H, W, 3) in RGB or BGR, (H, W, 1) in grey; (0, 0, channels) if it is broken."""
    from PIL import Image  # an optional library: the extra "data"

    how = text(pixel_format)
    if how not in ("RGB", "BGR", "Grayscale"):
        raise ValueError(f"pixel_format is {how!r}, expected RGB, BGR or Grayscale")
    channels = 1 if how == "Grayscale" else 3
    try:
        with Image.open(BytesIO(bytes(array_of(stream)))) as picture:
            found = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError):
        return made_of(np.zeros((0, 0, channels), np.uint8))
    found = found[..., None] if channels == 1 else found[..., ::-1] if how == "BGR" else found
    return made_of(found, "uint8")
