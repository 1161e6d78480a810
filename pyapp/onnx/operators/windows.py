"""Convolutions and pools: everything that slides a window over (N, C, spatial dims)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import array_of, check_room, element_of, ints, like, made_of, text
from .shapes import padded

Pairs = list[tuple[int, int]]


def sides(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Any,
    auto: bytes,
) -> Pairs:
    """The padding (before, after) of each spatial dim, from `pads` or as `auto_pad` says."""
    how, count = text(auto), len(kernel)
    if how in ("NOTSET", ""):
        given = list(pads or [0] * (2 * count))
        if len(given) != 2 * count:
            raise ValueError(f"{len(given)} pads for {count} spatial dims, expected two each")
        return [(given[k], given[k + count]) for k in range(count)]
    if how == "VALID":
        return [(0, 0)] * count
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        raise ValueError(f"auto_pad is {how!r}, expected NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    found = []
    for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        small, large = total // 2, total - total // 2
        found.append((small, large) if how == "SAME_UPPER" else (large, small))
    return found


def settings(dims: int, strides: Any, dilations: Any) -> tuple[list[int], list[int]]:
    """Strides and dilations, 1 unless given. ValueError for numbers that are not positive."""
    found = list(strides or [1] * dims), list(dilations or [1] * dims)
    if any(len(part) != dims or min(part, default=1) < 1 for part in found):
        raise ValueError(f"strides {found[0]} and dilations {found[1]} for {dims} spatial dims")
    return found


@operator("Conv")
def conv(
    x: Tensor, weight: Tensor, bias: Any = None, *, auto_pad: bytes = b"NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """Cross-correlation: x (N, C, spatial…), weight (O, C / group, kernel…), bias (O,) → (N, O, …)."""
    dims = x.ndim - 2
    if dims < 1 or weight.ndim != x.ndim:
        raise ValueError(f"x of shape {tuple(x.shape)} does not fit weight of shape {tuple(weight.shape)}")
    steps, apart = settings(dims, strides, dilations)
    widths = sides(x.shape[2:], weight.shape[2:], steps, apart, pads, auto_pad)
    if dims > 3:
        raise ValueError(f"convolutions have at most 3 spatial dims here, not {dims}")
    if any(b != a for b, a in widths):
        x, widths = padded(x, [0, 0, *(b for b, _ in widths)], [0, 0, *(a for _, a in widths)]), [(0, 0)] * dims
    function = (ops.conv1d, ops.conv2d, ops.conv3d)[dims - 1]
    return function(x, weight, bias, tuple(steps), tuple(b for b, _ in widths), tuple(apart), group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, weight: Tensor, bias: Any = None, *, auto_pad: bytes = b"NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
        strides: Any = None,
) -> Tensor:  # fmt: skip
    """The transposed convolution: x (N, C, spatial…), weight (C, O / group, kernel…) → (N, O, …)."""
    dims = x.ndim - 2
    steps, apart = settings(dims, strides, dilations)
    kernel, extra = weight.shape[2:], list(output_padding or [0] * dims)
    how = text(auto_pad)
    widths: Pairs = []
    for k in range(dims):
        full = steps[k] * (x.shape[2 + k] - 1) + extra[k] + (kernel[k] - 1) * apart[k] + 1
        if output_shape:
            total = full - output_shape[-dims + k]
        elif how in ("SAME_UPPER", "SAME_LOWER"):
            total = full - x.shape[2 + k] * steps[k]
        else:
            given = list(pads or [0] * (2 * dims))
            widths.append((0, 0) if how == "VALID" else (given[k], given[k + dims]))
            continue
        half = total // 2
        widths.append((half, total - half) if how == "SAME_UPPER" else (total - half, half))
    function = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)[dims - 1]
    y = function(x, weight, None, tuple(steps), 0, 0, group, tuple(apart))
    # The whole result, widened by the output padding and cut by the padding.
    y = padded(y, [0, 0, *(-b for b, _ in widths)], [0, 0, *(e - a for e, (_, a) in zip(extra, widths, strict=True))])
    return y if bias is None else y + bias.reshape(1, -1, *[1] * dims)


@operator("CausalConvWithState")
def causal_conv_with_state(
    x: Tensor, weight: Tensor, bias: Any = None, past: Any = None, *, activation: bytes = b"none", outputs: int = 1
) -> Any:
    """A convolution of each channel with itself and the past: x (B, C, T), weight (C, 1, K), past (B, C, K - 1) → (B,
    C, T)
    and the last K - 1 positions."""
    width = weight.shape[-1] - 1
    if past is None:
        past = ops.zeros((x.shape[0], x.shape[1], width), dtype=x.dtype, device=x.device)
    whole = ops.cat([past.to(x.dtype), x], 2)
    y = ops.conv1d(whole, weight, bias, 1, 0, 1, x.shape[1])
    if text(activation) in ("silu", "swish"):
        y = ops.silu(y)
    elif text(activation) != "none":
        raise ValueError(f"the activation is {text(activation)!r}, expected silu, swish or none")
    return y, whole[:, :, whole.shape[2] - width :]


class Windows:
    """The windows of a pool over x (N, C, spatial…)."""

    def __init__(
        self, x: Tensor, kernel: Any, strides: Any, dilations: Any, pads: Any, auto_pad: bytes, ceil_mode: int
    ) -> None:
        self.dims = len(kernel)
        if x.ndim != self.dims + 2 or min(kernel, default=1) < 1:
            raise ValueError(f"a kernel {list(kernel)} does not fit x of shape {tuple(x.shape)}")
        self.sizes, self.kernel = list(x.shape[2:]), list(kernel)
        self.strides, self.dilations = settings(self.dims, strides, dilations)
        self.sides = sides(self.sizes, kernel, self.strides, self.dilations, pads, auto_pad)
        self.out, self.beyond = [], []  # windows; elements that the last one lacks
        for n, k, s, d, (before, after) in zip(
            self.sizes, self.kernel, self.strides, self.dilations, self.sides, strict=True
        ):
            reach = (k - 1) * d + 1
            room = n + before + after - reach
            count = (-(-room // s) if ceil_mode else room // s) + 1
            if ceil_mode and (count - 1) * s >= n + before:
                count -= 1  # it would begin in the padding after
            if count < 1:
                raise ValueError(f"a window of {reach} does not fit {n} elements with padding {before} and {after}")
            self.out.append(count)
            self.beyond.append(max(0, (count - 1) * s + reach - n - before - after))

    def widened(self, x: Tensor, fill: float, beyond: float | None = None) -> Tensor:
        """x with its padding, and with what the last windows lack."""
        lead = [0] * (x.ndim - self.dims)
        x = padded(x, [*lead, *(b for b, _ in self.sides)], [*lead, *(a for _, a in self.sides)], value=fill)
        return padded(x, [0] * x.ndim, [*lead, *self.beyond], value=fill if beyond is None else beyond)

    def of(self, x: Tensor) -> Tensor:
        """x, widened → (..., out…, elements of a window)."""
        first = x.ndim - self.dims
        for at, (k, s, d, n) in enumerate(zip(self.kernel, self.strides, self.dilations, self.out, strict=True)):
            index = (np.arange(n)[:, None] * s + np.arange(k) * d).reshape(-1)
            x = ops.index_select(x, first + 2 * at, made_of(index, device=x.device))
            x = x.reshape(*x.shape[: first + 2 * at], n, k, *x.shape[first + 2 * at + 1 :])
        order = [*range(first), *range(first, x.ndim, 2), *range(first + 1, x.ndim, 2)]
        return x.permute(*order).reshape(*x.shape[:first], *self.out, prod(self.kernel))

    @property
    def plain(self) -> bool:
        """Whether the engine's pools have these windows."""
        even = all(b == a and b <= k // 2 for (b, a), k in zip(self.sides, self.kernel, strict=True))
        return even and not any(self.beyond) and self.dims <= 3


@operator("MaxPool")
def max_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, dilations: Any = None,
    pads: Any = None, storage_order: int = 0, strides: Any = None, outputs: int = 1,
) -> Any:  # fmt: skip
    """The largest element of each window, and where it is in the flattened x (column by column if `storage_order`)."""
    w = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    y = x if x.dtype.category == 2 else x.to("float32")
    if outputs == 1 and w.plain:
        function = (ops.max_pool1d, ops.max_pool2d, ops.max_pool3d)[w.dims - 1]
        return function(y, w.kernel, w.strides, [b for b, _ in w.sides], w.dilations).to(x.dtype)
    seen = w.of(w.widened(y, float("-inf")))
    if outputs == 1:
        return ops.amax(seen, -1).to(x.dtype)
    places = np.arange(prod(w.sizes), dtype=np.float32).reshape(1, 1, *w.sizes)
    spatial = array_of(w.of(w.widened(made_of(places.astype(np.float64)), -1.0)))
    best = array_of(seen).argmax(-1)
    index = np.take_along_axis(np.broadcast_to(spatial, seen.shape), best[..., None], -1)[..., 0].astype(np.int64)
    if storage_order:
        index = np.ravel_multi_index(np.unravel_index(index, w.sizes), w.sizes, order="F")
    n, c = x.shape[:2]
    index = index + (np.arange(n * c) * prod(w.sizes)).reshape(n, c, *[1] * w.dims)
    return ops.amax(seen, -1).to(x.dtype), made_of(index.astype(np.int64), device=x.device)


@operator("AveragePool")
def average_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """The mean of each window; elements of the padding count with `count_include_pad` only."""
    w = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if w.plain and all(d == 1 for d in w.dilations):
        function = (ops.avg_pool1d, ops.avg_pool2d, ops.avg_pool3d)[w.dims - 1]
        return function(x, w.kernel, w.strides, [b for b, _ in w.sides], False, bool(count_include_pad))
    total = w.of(w.widened(x, 0.0)).sum(-1)
    inside = made_of(np.ones((1, 1, *w.sizes)), element_of(x), x.device)
    return total / w.of(w.widened(inside, 1.0 if count_include_pad else 0.0, 0.0)).sum(-1)


@operator("LpPool")
def lp_pool(
    x: Tensor, *, kernel_shape: list[int], auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, dilations: Any = None,
    p: int = 2, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """(Σ |x|ᵖ)^(1/p) of each window."""
    w = Windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return w.of(w.widened(x.abs(), 0.0)).pow(p).sum(-1).pow(1 / p)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


operator("GlobalAveragePool")(lambda x: x.mean(_spatial(x), True))
operator("GlobalMaxPool")(lambda x: ops.amax(x, _spatial(x), True))


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    return x.abs().pow(p).sum(_spatial(x), True).pow(1 / p)


@operator("MaxUnpool", reads=(2,))
def max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: Any = None,
    *,
    kernel_shape: list[int],
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    """The elements of x back at their places in the flattened result, zeros elsewhere."""
    dims = len(kernel_shape)
    steps, _ = settings(dims, strides, None)
    margins = list(pads or [0] * (2 * dims))
    inferred = [(x.shape[2 + k] - 1) * steps[k] - margins[k] - margins[k + dims] + kernel_shape[k] for k in range(dims)]
    small = (*x.shape[:2], *inferred)
    shape = small if output_shape is None else tuple(ints(output_shape))
    check_room(shape, "MaxUnpool")
    places = array_of(indices).reshape(-1)
    if places.size and not 0 <= places.min() <= places.max() < prod(small):
        raise IndexError(f"an index is outside of the shape {small}")
    where = np.unravel_index(places, small)
    flat = made_of(np.ravel_multi_index(where, shape).astype(np.int64), device=x.device)
    y = ops.zeros((prod(shape),), dtype=x.dtype, device=x.device)
    return ops.scatter(y, 0, flat, x.reshape(-1)).reshape(shape)


@operator("Col2Im", reads=(1, 2))
def col2im(
    x: Tensor, image_shape: Tensor, block_shape: Tensor, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Tensor:
    """Sums of overlapping blocks: x (N, C · block, L) → (N, C, image…)."""
    image, block = ints(image_shape), ints(block_shape)
    dims = len(image)
    steps, apart = settings(dims, strides, dilations)
    margins = list(pads or [0] * (2 * dims))
    wide = [n + margins[k] + margins[k + dims] for k, n in enumerate(image)]
    out = [(wide[k] - (block[k] - 1) * apart[k] - 1) // steps[k] + 1 for k in range(dims)]
    channels = x.shape[1] // prod(block)
    if channels * prod(block) != x.shape[1] or prod(out) != x.shape[2]:
        raise ValueError(f"x of shape {tuple(x.shape)} has no blocks of {block} for an image of {image}")
    check_room([*block, *out], "Col2Im", 16)
    places = np.zeros([*block, *out], np.int64)
    for k in range(dims):
        along = np.arange(block[k])[:, None] * apart[k] + np.arange(out[k]) * steps[k]  # (block, out)
        shape = [1] * (2 * dims)
        shape[k], shape[dims + k] = along.shape
        places = places * wide[k] + along.reshape(shape)
    flat = made_of(places.reshape(-1), device=x.device)
    y = ops.zeros((x.shape[0], channels, prod(wide)), dtype=x.dtype, device=x.device)
    y = ops.index_add(y, 2, flat, x.reshape(x.shape[0], channels, -1)).reshape(x.shape[0], channels, *wide)
    return padded(y, [0, 0, *(-b for b in margins[:dims])], [0, 0, *(-a for a in margins[dims:])])


def _sampled(image: Any, y: Any, x: Any) -> Any:
    """image (C, H, W) at places y and x (of one shape), linearly; zeros outside → (C, …)."""
    h, w = image.shape[1:]
    low_y, low_x = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    found = 0.0
    for dy in (0, 1):
        for dx in (0, 1):
            at_y, at_x = low_y + dy, low_x + dx
            inside = (at_y >= 0) & (at_y < h) & (at_x >= 0) & (at_x < w)
            weight = (1 - np.abs(y - at_y)) * (1 - np.abs(x - at_x)) * inside
            found = found + image[:, np.clip(at_y, 0, h - 1), np.clip(at_x, 0, w - 1)] * weight
    return found


@operator("DeformConv")
def deform_conv(
    x: Tensor, weight: Tensor, offset: Tensor, bias: Any = None, mask: Any = None, *, dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    """A convolution that reads x at places moved by an offset (Dai et al. 2017, arXiv 1703.06211; Zhu et al. 2018,
    arXiv
    1811.11168): x (N, C, H, W), weight (O, C / group, KH, KW), offset (N, offset_group KH KW 2, H', W')."""
    if x.ndim != 4:
        raise ValueError(f"x has the shape {tuple(x.shape)}, expected (N, C, H, W)")
    steps, apart = settings(2, strides, dilations)
    (top, _), (left, _) = sides(x.shape[2:], weight.shape[2:], steps, apart, pads, b"NOTSET")
    n, c = x.shape[:2]
    outputs, inner, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    moved = array_of(offset).reshape(n, offset_group, kh, kw, 2, oh, ow)
    scale = (
        np.ones((n, offset_group, kh, kw, oh, ow))
        if mask is None
        else array_of(mask).reshape(n, offset_group, kh, kw, oh, ow)
    )
    rows = np.arange(oh)[None, None, :, None] * steps[0] - top + np.arange(kh)[:, None, None, None] * apart[0]
    columns = np.arange(ow)[None, None, None, :] * steps[1] - left + np.arange(kw)[None, :, None, None] * apart[1]
    image, each = array_of(x).astype(np.float64), c // offset_group
    seen = np.zeros((n, c, kh, kw, oh, ow))
    for b in range(n):
        for g in range(offset_group):
            part = slice(g * each, (g + 1) * each)
            places = rows + moved[b, g, :, :, 0], columns + moved[b, g, :, :, 1]
            seen[b, part] = _sampled(image[b, part], *places) * scale[b, g]
    seen = seen.reshape(n, group, inner, kh, kw, oh, ow)
    kernel = array_of(weight).astype(np.float64).reshape(group, outputs // group, inner, kh, kw)
    y = np.einsum("ngiabhw,goiab->ngohw", seen, kernel).reshape(n, outputs, oh, ow)
    return like(x, y if bias is None else y + array_of(bias).reshape(1, -1, 1, 1))


@operator("MaxRoiPool", reads=(1,))
def max_roi_pool(x: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> Tensor:
    """The largest elements in the parts of regions: rois (R, 5) of batch, x1, y1, x2, y2 → (R, C, *pooled_shape)."""
    image, regions = array_of(x), array_of(rois)
    h, w = image.shape[2:]
    ph, pw = pooled_shape
    found = np.zeros((len(regions), image.shape[1], ph, pw), image.dtype)
    for r, region in enumerate(regions):
        x1, y1, x2, y2 = (int(np.floor(v * spatial_scale + 0.5)) for v in region[1:])
        height, width = max(y2 - y1 + 1, 1) / ph, max(x2 - x1 + 1, 1) / pw
        for i in range(ph):
            for j in range(pw):
                top, bottom = (
                    min(max(v + y1, 0), h) for v in (int(np.floor(i * height)), int(np.ceil((i + 1) * height)))
                )
                left, right = (
                    min(max(v + x1, 0), w) for v in (int(np.floor(j * width)), int(np.ceil((j + 1) * width)))
                )
                if top < bottom and left < right:
                    found[r, :, i, j] = image[int(region[0]), :, top:bottom, left:right].max((1, 2))
    return like(x, found)


@operator("RoiAlign", reads=(1, 2))
def roi_align(
    x: Tensor, rois: Tensor, batch: Tensor, *, coordinate_transformation_mode: bytes | None = None,
        mode: bytes = b"avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0, opset: int = 16,
) -> Tensor:  # fmt: skip
    """Means (or largest elements) of samples in the parts of regions (He et al. 2017, arXiv 1703.06870): rois (R, 4) of
    x1, y1, x2, y2 → (R, C, output_height, output_width). Before opset 16 half pixels were not taken into account."""
    image, regions = array_of(x).astype(np.float64), array_of(rois).astype(np.float64)
    how = text(coordinate_transformation_mode or (b"half_pixel" if opset >= 16 else b"output_half_pixel"))
    shift, (h, w) = (0.5 if how == "half_pixel" else 0.0), image.shape[2:]
    found = np.zeros((len(regions), image.shape[1], output_height, output_width))
    for r, (region, b) in enumerate(zip(regions, ints(batch), strict=True)):
        x1, y1, x2, y2 = region * spatial_scale - shift
        width, height = x2 - x1, y2 - y1
        if how != "half_pixel":
            width, height = max(width, 1.0), max(height, 1.0)
        ny = sampling_ratio or int(np.ceil(height / output_height))
        nx = sampling_ratio or int(np.ceil(width / output_width))
        check_room((output_height, ny, output_width, nx), "RoiAlign")
        ys = y1 + (np.arange(output_height)[:, None] + (np.arange(ny) + 0.5) / max(ny, 1)) * height / output_height
        xs = x1 + (np.arange(output_width)[:, None] + (np.arange(nx) + 0.5) / max(nx, 1)) * width / output_width
        grid_y, grid_x = np.broadcast_arrays(ys[:, :, None, None], xs[None, None])
        outside = (grid_y < -1) | (grid_y > h) | (grid_x < -1) | (grid_x > w)
        corners = _corners(image[b], np.clip(grid_y, 0, None), np.clip(grid_x, 0, None))
        if text(mode) == "max":
            found[r] = np.where(outside, 0, np.max(corners, 0)).max((2, 4))
        else:
            found[r] = np.where(outside, 0, np.sum(corners, 0)).sum((2, 4)) / max(ny * nx, 1)
    return like(x, found)


def _corners(image: Any, y: Any, x: Any) -> list[Any]:
    """The four neighbours of each place, times their weights; the border goes on outside."""
    h, w = image.shape[1:]
    low_y, low_x = np.minimum(np.floor(y).astype(np.int64), h - 1), np.minimum(np.floor(x).astype(np.int64), w - 1)
    high_y, high_x = np.minimum(low_y + 1, h - 1), np.minimum(low_x + 1, w - 1)
    part_y = np.where(low_y >= h - 1, 0, y - low_y)
    part_x = np.where(low_x >= w - 1, 0, x - low_x)
    return [
        image[:, low_y, low_x] * (1 - part_y) * (1 - part_x), image[:, low_y, high_x] * (1 - part_y) * part_x,
        image[:, high_y, low_x] * part_y * (1 - part_x), image[:, high_y, high_x] * part_y * part_x,
    ]  # fmt: skip
