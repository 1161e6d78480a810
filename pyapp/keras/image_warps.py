"""keras.ops.image: values at places between pixels: maps of coordinates, affine, perspective, elastic, scaled."""

from __future__ import annotations

import itertools
from math import pi
from typing import Any

from ..engine import Tensor, ops
from ..engine.ops.dtype_limits import iinfo
from . import random
from .arguments import as_floats, as_tensor, channels_last, dim_of
from .image_functions import check_pictures, gaussian_blur
from .linalg_functions import solve

__all__ = [
    "affine_transform", "elastic_transform", "map_coordinates", "perspective_transform", "scale_and_translate",
]  # fmt: skip

FILLS = ("constant", "nearest", "wrap", "mirror", "reflect")
_ORDERS = {"nearest": 0, "bilinear": 1}


def _inside(place: Any, size: int, fill_mode: str) -> Any:
    """Whole places, int64, as ones from 0 to size - 1."""
    if fill_mode == "wrap":
        return place % size
    if fill_mode == "mirror":  # the outermost pixel is not repeated: d c b | a b c d | c b a
        turn = max(size - 1, 1)
        return ((place + turn) % (2 * turn) - turn).abs() if size > 1 else place * 0
    if fill_mode == "reflect":  # it is: d c b a | a b c d | d c b a
        twice = place % (2 * size)
        return ops.minimum(twice, 2 * size - 1 - twice)
    return place.clamp(0, size - 1)


def map_coordinates(
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: float = 0.0
) -> Tensor:
    """The values of inputs, of D dims, at places (D, …): the nearest (order 0) or linear between neighbours (order 1).
    Outside is `fill_value` (constant), the edge (nearest), the other end (wrap), or the picture mirrored at its edge
    (reflect) or at its last pixel (mirror)."""
    x = as_tensor(inputs)
    places = [as_floats(one) for one in coordinates]
    if fill_mode not in FILLS:
        raise ValueError(f"map_coordinates: fill_mode is one of {', '.join(FILLS)}, not {fill_mode!r:.40}")
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates: order is 0 or 1, not {order!r}")
    if len(places) != x.ndim:
        raise ValueError(f"map_coordinates: {tuple(x.shape)} needs {x.ndim} coordinates, got {len(places)}")
    values = x if x.dtype.is_floating_point else x.to("float32")
    neighbours = []  # for each dim: (place, whether it is inside, its share)
    for place, size in zip(places, x.shape, strict=True):
        low = place.floor() if order else place.round()
        share = place - low
        found = [(low.to("int64"), 1 - share), (low.to("int64") + 1, share)] if order else [(low.to("int64"), None)]
        neighbours.append([
            (_inside(whole, size, fill_mode), (whole >= 0) & (whole < size), weight) for whole, weight in found
        ])  # fmt: skip
    total: Any = None
    for corner in itertools.product(*neighbours):
        part = values[tuple(where for where, _, _ in corner)]
        if fill_mode == "constant":
            within = corner[0][1]
            for _, one, _ in corner[1:]:
                within = within & one
            part = ops.where(within, part, float(fill_value)).to(values.dtype)
        for _, _, weight in corner:
            part = part if weight is None else part * weight
        total = part if total is None else total + part
    return total.to(x.dtype) if x.dtype.is_floating_point else total.round().to(x.dtype)


def _order(name: str, interpolation: str) -> int:
    if interpolation not in _ORDERS:
        raise ValueError(f"{name}: interpolation is nearest or bilinear, not {interpolation!r:.40}")
    return _ORDERS[interpolation]


def sampled(images: Tensor, row: Tensor, column: Tensor, order: int, fill_mode: str, fill_value: float) -> Tensor:
    """Pictures (B, H, W, C) at rows and columns (B, h, w): (B, h, w, C)."""
    found = [
        map_coordinates(images[b, :, :, c], (row[b], column[b]), order, fill_mode, fill_value)
        for b in range(images.shape[0])
        for c in range(images.shape[3])
    ]
    return ops.stack(found).reshape(images.shape[0], images.shape[3], *row.shape[1:]).movedim(1, -1)


def _grid(images: Tensor) -> tuple[Tensor, Tensor]:
    """The rows (H, 1) and columns (1, W) of pictures (B, H, W, C)."""
    height, width = images.shape[1:3]
    row = ops.arange(height, dtype="float32", device=images.device).unsqueeze(-1)
    return row, ops.arange(width, dtype="float32", device=images.device).unsqueeze(0)


def _homography(images: Tensor, numbers: Tensor, order: int, fill_mode: str, fill_value: float) -> Tensor:
    """Pictures at the places ((a x + b y + c) / w, (d x + e y + f) / w) with w = g x + h y + 1; `numbers` (B, 8)."""
    row, column = _grid(images)
    a, b, c, d, e, f, g, h = (part.reshape(-1, 1, 1) for part in numbers.expand(images.shape[0], 8).unbind(-1))
    w = g * column + h * row + 1.0
    rows, columns = (d * column + e * row + f) / w, (a * column + b * row + c) / w  # (B, H, W)
    return sampled(images, rows, columns, order, fill_mode, fill_value)


@channels_last(-3)
def affine_transform(
    images: Any, transform: Any, interpolation: str = "bilinear", fill_mode: str = "constant", fill_value: float = 0,
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Pictures whose pixel (x, y) is that at (a x + b y + c, d x + e y + f); transform (8,) or (B, 8) begins with a …
    f."""
    order = _order("affine_transform", interpolation)
    x, numbers = as_tensor(images), as_floats(transform)
    check_pictures("affine_transform", x)
    single = x.ndim == 3
    x, numbers = (x.unsqueeze(0) if single else x), (numbers.unsqueeze(0) if numbers.ndim == 1 else numbers)
    if numbers.ndim != 2 or numbers.shape[1] != 8 or numbers.shape[0] not in (1, x.shape[0]):
        raise ValueError(f"affine_transform: transform is (8,) or ({x.shape[0]}, 8), got {tuple(numbers.shape)}")
    numbers = ops.cat([numbers[:, :6], ops.zeros_like(numbers[:, 6:])], 1)
    found = _homography(x, numbers, order, fill_mode, fill_value)
    return found[0] if single else found


@channels_last(-3)
def perspective_transform(
    images: Any, start_points: Any, end_points: Any, interpolation: str = "bilinear", fill_value: float = 0,
    data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Pictures in which four corners (x, y) of `start_points` (4, 2) or (B, 4, 2) lie at those of `end_points`."""
    order = _order("perspective_transform", interpolation)
    x, first, last = as_tensor(images), as_floats(start_points), as_floats(end_points)
    check_pictures("perspective_transform", x)
    if first.shape[-2:] != (4, 2) or first.ndim not in (2, 3) or first.shape != last.shape:
        raise ValueError(
            "perspective_transform: takes start_points and end_points (4, 2) or (B, 4, 2), got "
            f"{tuple(first.shape)} and {tuple(last.shape)}"
        )
    single = x.ndim == 3
    x = x.unsqueeze(0) if single else x
    start, end = (p.reshape(-1, 4, 2) for p in (first, last))
    (u, v), (s, t) = start.unbind(-1), end.unbind(-1)  # (B, 4) each: u, v are looked up for the pixel s, t
    zero, one = ops.zeros_like(s), ops.ones_like(s)
    across = ops.stack([s, t, one, zero, zero, zero, -u * s, -u * t], -1)  # (B, 4, 8)
    down = ops.stack([zero, zero, zero, s, t, one, -v * s, -v * t], -1)
    numbers = solve(ops.cat([across, down], 1), ops.cat([u, v], 1))
    found = _homography(x, numbers, order, "constant", fill_value)
    return found[0] if single else found


@channels_last(-3)
def elastic_transform(
    images: Any, alpha: float = 20.0, sigma: float = 5.0, interpolation: str = "bilinear", fill_mode: str = "reflect",
    fill_value: float = 0.0, seed: Any = None, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """Pictures whose pixels are moved at random: distances of the deviation sigma, blurred by it, times alpha."""
    order = _order("elastic_transform", interpolation)
    x = as_tensor(images)
    check_pictures("elastic_transform", x)
    single = x.ndim == 3
    x = x.unsqueeze(0) if single else x
    noise = random.normal((*x.shape[:3], 2), 0.0, float(sigma), seed=seed)
    size = int(6 * sigma) | 1
    moved = gaussian_blur(noise, (size, size), (float(sigma), float(sigma))) * float(alpha)
    row, column = _grid(x)
    found = sampled(x, row + moved[..., 0], column + moved[..., 1], order, fill_mode, fill_value)
    return found[0] if single else found


def _triangle(x: Tensor) -> Tensor:
    return (1 - x).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel (1981), a = -1/2."""
    near, far = ((1.5 * x - 2.5) * x) * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return ops.where(x >= 2, 0.0, ops.where(x >= 1, far, near))


def _lanczos(x: Tensor, radius: float) -> Tensor:
    safe = ops.where(x > 1e-3, x, 1.0)
    found = radius * (pi * safe).sin() * (pi * safe / radius).sin() / (pi * safe).square()
    return ops.where(x > radius, 0.0, ops.where(x > 1e-3, found, 1.0))


_KERNELS = {
    **dict.fromkeys(("linear", "bilinear", "trilinear"), _triangle),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), _cubic),
    "lanczos3": lambda x: _lanczos(x, 3.0),
    "lanczos5": lambda x: _lanczos(x, 5.0),
}


def scale_and_translate(
    images: Any, output_shape: Any, scale: Any, translation: Any, spatial_dims: Any, method: str, antialias: bool = True
) -> Tensor:
    """A tensor whose axes `spatial_dims` are scaled and then moved, each by its number: pixel p is that at
    (p + ½ - translation) / scale - ½. `antialias` widens the kernel where an axis becomes shorter."""
    if method not in _KERNELS:
        raise ValueError(f"scale_and_translate: method is one of {', '.join(_KERNELS)}, not {method!r:.40}")
    x, factors, moves = as_tensor(images), as_floats(scale), as_floats(translation)
    axes = [dim_of(int(k), x.ndim) for k in spatial_dims]
    if len(output_shape) != x.ndim or factors.shape != (len(axes),) or moves.shape != (len(axes),):
        raise ValueError(
            f"scale_and_translate: {tuple(x.shape)} needs an output_shape of {x.ndim} numbers, and a scale and a "
            f"translation for each of the {len(axes)} axes"
        )
    found = x if x.dtype.is_floating_point else x.to("float32")
    for k, axis in enumerate(axes):
        size, wanted = x.shape[axis], int(output_shape[axis])
        back = 1.0 / factors[k]
        place = (ops.arange(wanted, dtype="float32", device=x.device) + 0.5) * back - moves[k] * back - 0.5  # (wanted,)
        width = back.clamp(min=1.0) if antialias else 1.0
        own = ops.arange(size, dtype="float32", device=x.device).unsqueeze(-1)  # (size, 1)
        distance = (place - own).abs() / width  # (size, wanted)
        weights = _KERNELS[method](distance)
        total = weights.sum(0, True)
        weights = ops.where(total.abs() > 1.1920929e-4, weights / ops.where(total == 0, 1.0, total), 0.0)
        weights = ops.where((place >= -0.5) & (place <= size - 0.5), weights, 0.0).to(found.dtype)
        found = (found.movedim(axis, -1) @ weights).movedim(-1, axis)
    if x.dtype.is_floating_point:
        return found
    limits = iinfo(x.dtype)
    return found.round().clamp(max(float(x.min()), limits.min), min(float(x.max()), limits.max)).to(x.dtype)
