"""Convolutions, pools, patches, resampling: cases as the package describes them."""

from __future__ import annotations

from typing import Any

from . import Case, F


def _pool(name: str, *arguments: Any, which: int | None = None, **settings: Any) -> Any:
    def run(P: Any, x: Any) -> Any:
        found = getattr(F(P), name)(x, *arguments, **settings)
        return found if which is None else found[which]

    return run


def _unpooled(dims: int, *arguments: Any, **settings: Any) -> Any:
    def run(P: Any, x: Any) -> Any:
        y, i = getattr(F(P), f"max_pool{dims}d")(x, *arguments, return_indices=True)
        return getattr(F(P), f"max_unpool{dims}d")(y, i, *arguments, **settings)

    return run


_SIZES = {"linear": (11, 4), "bilinear": ((8, 3), (3, 9)), "bicubic": ((8, 3), (3, 9)), "trilinear": ((4, 6, 2), 5)}
_MODES = {"linear": (2, 3, 7), "bilinear": (1, 2, 5, 6), "bicubic": (1, 2, 5, 6), "trilinear": (1, 2, 3, 4, 3)}


CASES: list[Case] = [
    ("conv1d", lambda P, x, w, b: F(P).conv1d(x, w, b), [(2, 3, 8), (4, 3, 3), (4,)]),
    ("conv1d_step", lambda P, x, w: F(P).conv1d(x, w, None, 2, 3, 2), [(2, 2, 9), (3, 2, 3)]),
    ("conv1d_same", lambda P, x, w: F(P).conv1d(x, w, padding="same"), [(3, 9), (2, 3, 4)]),
    ("conv1d_groups", lambda P, x, w, b: F(P).conv1d(x, w, b, groups=2), [(2, 4, 7), (6, 2, 3), (6,)]),
    ("conv2d", lambda P, x, w, b: F(P).conv2d(x, w, b, padding=1), [(2, 3, 5, 6), (4, 3, 3, 3), (4,)]),
    (
        "conv2d_all",
        lambda P, x, w, b: F(P).conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        [(2, 4, 7, 6), (4, 2, 3, 2), (4,)],
    ),
    ("conv2d_depthwise", lambda P, x, w: F(P).conv2d(x, w, groups=3), [(1, 3, 5, 5), (3, 1, 3, 3)]),
    ("conv2d_no_batch", lambda P, x, w: F(P).conv2d(x, w), [(0, 2, 5, 5), (3, 2, 3, 3)]),
    ("conv3d", lambda P, x, w: F(P).conv3d(x, w, stride=2, padding=1), [(1, 2, 4, 5, 3), (2, 2, 2, 3, 2)]),
    ("max_pool1d", lambda P, x: F(P).max_pool1d(x, 3, 2, 1), [(2, 3, 8)]),
    ("max_pool2d", lambda P, x: F(P).max_pool2d(x, 2), [(2, 3, 5, 6)]),
    ("max_pool2d_apart", lambda P, x: F(P).max_pool2d(x, (3, 2), (1, 2), 1, 2), [(1, 2, 7, 8)]),
    ("avg_pool1d", lambda P, x: F(P).avg_pool1d(x, 3, 2, 1), [(2, 3, 8)]),
    ("avg_pool2d", lambda P, x: F(P).avg_pool2d(x, 3, 2, 1, count_include_pad=False), [(2, 3, 5, 6)]),
    *(
        (
            f"grid_sample_nearest_{padding}",
            lambda P, x, grid, p=padding: P.nn.functional.grid_sample(x, grid, "nearest", p, align_corners=False),
            [(2, 2, 4, 5), (2, 3, 3, 2)],
        )
        for padding in ("zeros", "border", "reflection")
    ),
    (
        "grid_sample_nearest_volume",
        lambda P, x, grid: P.nn.functional.grid_sample(x, grid, "nearest", align_corners=True),
        [(1, 2, 3, 4, 5), (1, 2, 2, 2, 3)],
    ),
    ("transpose1d", lambda P, x, w, b: F(P).conv_transpose1d(x, w, b), [(2, 3, 5), (3, 4, 3), (4,)]),
    (
        "transpose1d_all",
        lambda P, x, w, b: F(P).conv_transpose1d(x, w, b, 3, 2, 1, 2, 2),
        [(2, 4, 5), (4, 3, 3), (6,)],
    ),
    ("transpose2d", lambda P, x, w: F(P).conv_transpose2d(x, w, stride=2, padding=1), [(2, 3, 4, 3), (3, 2, 3, 4)]),
    (
        "transpose2d_all",
        lambda P, x, w, b: F(P).conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
        [(2, 4, 3, 4), (4, 2, 3, 2), (4,)],
    ),
    ("transpose2d_no_batch", lambda P, x, w: F(P).conv_transpose2d(x, w), [(3, 4, 3), (3, 2, 2, 2)]),
    (
        "transpose3d",
        lambda P, x, w: F(P).conv_transpose3d(x, w, stride=2, output_padding=1),
        [(1, 2, 2, 3, 2), (2, 3, 2, 3, 2)],
    ),
    (
        "conv2d_pad_sides",
        lambda P, x, w: (
            F(P).conv2d(F(P).pad(x, (3, 0, 1, 2)), w)
            if P.__name__ == "torch"
            else P.conv2d(x, w, padding=((1, 2), (3, 0)))
        ),
        [(1, 2, 4, 5), (3, 2, 3, 3)],
    ),
    (
        "im2col",
        lambda P, x: (
            F(P).unfold(x, (2, 3), 2, 1, (2, 1)) * 2
            if P.__name__ == "torch"
            else P.nn.functional.unfold(x, (2, 3), 2, 1, (2, 1)) * 2
        ),
        [(2, 3, 6, 7)],
    ),
    (
        "col2im",
        lambda P, x: (F(P) if P.__name__ == "torch" else P.nn.functional).fold(x, (5, 6), (2, 3), 1, 1, (2, 1)),
        [(2, 12, 18)],
    ),
    ("max1d_ceil", _pool("max_pool1d", 3, 2, 1, 1, True), [(2, 3, 8)]),
    ("max1d_places", _pool("max_pool1d", 3, 2, 1, 1, True, True, which=1), [(2, 3, 8)]),
    ("max2d_ceil", _pool("max_pool2d", (3, 2), (2, 3), (1, 0), (1, 2), True), [(2, 2, 6, 9)]),
    (
        "max2d_bytes",
        lambda P, i: P.cat(F(P).max_pool2d(i.to(P.uint8), 3, 2, 1, return_indices=True)),
        [("ints", 3, (1, 2, 6, 7))],
    ),
    (
        "max2d_wholes",
        lambda P, i: P.cat(
            [
                part.reshape(-1).to(P.int64)
                for kind in (P.int64, P.int32, P.int16)
                for size in (3, (2, 1))
                for part in F(P).max_pool2d((i - 1).to(kind), size, 2, size == 3 and 1 or 0, return_indices=True)
            ]
        ),
        [("ints", 4, (2, 2, 6, 7))],
    ),
    ("max2d_places", _pool("max_pool2d", 3, 2, 1, return_indices=True, which=1), [(2, 2, 6, 7)]),
    ("max3d", _pool("max_pool3d", 2, ceil_mode=True), [(1, 2, 3, 5, 4)]),
    ("max3d_places", _pool("max_pool3d", (1, 2, 2), return_indices=True, which=1), [(1, 2, 3, 5, 4)]),
    ("avg1d_ceil", _pool("avg_pool1d", 3, 2, 1, True), [(2, 3, 8)]),
    ("avg1d_ceil_inside", _pool("avg_pool1d", 4, 3, 2, True, False), [(2, 3, 8)]),
    ("avg2d_ceil", _pool("avg_pool2d", 3, 2, 1, True), [(2, 2, 6, 8)]),
    ("avg2d_divisor", _pool("avg_pool2d", (2, 3), divisor_override=5), [(2, 2, 6, 8)]),
    ("avg3d", _pool("avg_pool3d", 2, 1, 1, count_include_pad=False), [(1, 2, 3, 4, 3)]),
    ("lp1d", _pool("lp_pool1d", 2.0, 3, 2), [("positive", (2, 3, 8))]),
    ("lp2d", _pool("lp_pool2d", 3.0, 2, ceil_mode=True), [("positive", (2, 2, 5, 6))]),
    ("adaptive_avg1d", _pool("adaptive_avg_pool1d", 3), [(2, 3, 8)]),
    ("adaptive_avg2d", _pool("adaptive_avg_pool2d", (3, None)), [(2, 3, 8, 5)]),
    ("adaptive_avg2d_to_one", _pool("adaptive_avg_pool2d", 1), [(2, 3, 4, 5)]),
    ("adaptive_avg3d", _pool("adaptive_avg_pool3d", (2, 1, 4)), [(1, 2, 3, 4, 5)]),
    ("adaptive_max1d", _pool("adaptive_max_pool1d", 5), [(2, 3, 8)]),
    ("adaptive_max2d", _pool("adaptive_max_pool2d", (3, 2)), [(2, 3, 8, 5)]),
    ("adaptive_max2d_places", _pool("adaptive_max_pool2d", (3, 2), True, which=1), [(2, 3, 8, 5)]),
    ("adaptive_max3d", _pool("adaptive_max_pool3d", 2), [(1, 2, 3, 4, 5)]),
    ("unpool1d", _unpooled(1, 2), [(2, 3, 8)]),
    ("unpool2d", _unpooled(2, 2, output_size=(5, 7)), [(2, 2, 5, 7)]),
    ("unpool3d", _unpooled(3, 2), [(1, 2, 4, 4, 2)]),
    *(
        (
            f"{mode}_{size}_{corners}",
            lambda P, x, m=mode, s=size, c=corners: F(P).interpolate(x, s, mode=m, align_corners=c),
            [shape],
        )
        for mode, shape in _MODES.items()
        for size in _SIZES[mode]
        for corners in (False, True)
    ),
    *(
        (f"{mode}_scaled", lambda P, x, m=mode: F(P).interpolate(x, scale_factor=1.7, mode=m), [shape])
        for mode, shape in _MODES.items()
    ),
    (
        "bilinear_recomputed",
        lambda P, x: F(P).interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear", recompute_scale_factor=True),
        [(1, 2, 5, 6)],
    ),
    ("nearest", lambda P, x: F(P).interpolate(x, (8, 3)), [(1, 2, 5, 6)]),
    ("nearest_scaled", lambda P, x: F(P).interpolate(x, scale_factor=2.3), [(1, 2, 7)]),
    ("nearest_exact", lambda P, x: F(P).interpolate(x, (3, 7, 2), mode="nearest-exact"), [(1, 2, 5, 4, 3)]),
    ("area", lambda P, x: F(P).interpolate(x, (3, 4), mode="area"), [(1, 2, 5, 6)]),
    *(
        (f"{m}_antialias", lambda P, x, m=m: F(P).interpolate(x, (3, 5), mode=m, antialias=True), [(1, 2, 9, 11)])
        for m in ("bilinear", "bicubic")
    ),
    (
        "bilinear_antialias_to_one",
        lambda P, x: F(P).interpolate(x, (1, 4), mode="bilinear", align_corners=True, antialias=True),
        [(1, 2, 9, 11)],
    ),
    *(
        (
            f"bytes_{m}_{a}",
            lambda P, x, m=m, a=a: F(P).interpolate(
                (x * 90 + 128).clamp(0, 255).to(P.uint8), (5, 23), mode=m, antialias=a
            ),
            [(2, 3, 12, 9)],
        )
        for m in ("bilinear", "bicubic")
        for a in (False, True)
    ),
    *(
        (
            f"grid_{mode}_{padding}_{corners}",
            lambda P, x, g, m=mode, p=padding, c=corners: F(P).grid_sample(x, g * 0.8, m, p, c),
            [(2, 2, 4, 5), (2, 3, 4, 2)],
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    ),
    *(
        (
            f"grid3d_{mode}",
            lambda P, x, g, m=mode: F(P).grid_sample(x, g * 0.8, m, align_corners=False),
            [(1, 2, 3, 4, 5), (1, 2, 3, 2, 3)],
        )
        for mode in ("bilinear", "nearest")
    ),
    ("affine_grid", lambda P, t: F(P).affine_grid(t, (2, 3, 4, 5), align_corners=False), [(2, 2, 3)]),
    ("affine_grid_corners", lambda P, t: F(P).affine_grid(t, (1, 1, 3, 2, 4), align_corners=True), [(1, 3, 4)]),
    ("pixel_shuffle", lambda P, x: F(P).pixel_shuffle(x, 2), [(2, 8, 3, 2)]),
    ("pixel_unshuffle", lambda P, x: F(P).pixel_unshuffle(x, 2), [(2, 3, 4, 6)]),
]
