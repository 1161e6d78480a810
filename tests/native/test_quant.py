"""Block formats: packing, quantising and the products of int8 blocks, against definitions in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.native.checks import assert_guarded, run_checked, strided
from tests.native.emulated import EmulatedKernels
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, OK, TYPES, Kernels, aligned, from_bf16, to_bf16, unaligned

ACTIVATIONS = np.dtype([("values", np.int8, 32), ("scale", np.float32), ("sum", np.int32)])
SHAPES = [(1, 1), (3, 4), (4, 31), (33, 32), (31, 33), (8, 64), (9, 96), (65, 288), (130, 1000), (16, 4224)]
FORMATS = ["q8_0", "q8_group"]


def normal(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def blocked(x: np.ndarray) -> np.ndarray:
    """(rows, columns) to (rows, blocks, 32), padded with zeros."""
    rows, columns = x.shape
    padded = np.zeros((rows, -(-columns // 32) * 32), x.dtype)
    padded[:, :columns] = x
    return padded.reshape(rows, padded.shape[1] // 32, 32)


def quantized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Definition: int8 values (rows, blocks, 32) and f32 scales (rows, blocks); halves are rounded away from zero."""
    blocks = blocked(x)
    scale = np.abs(blocks).max(-1) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = blocks * np.where(scale > 0, np.float32(1) / scale, np.float32(0))[..., None]
    values = np.trunc(scaled) + np.where(np.abs(scaled - np.trunc(scaled)) >= 0.5, np.sign(scaled), 0)
    return values.astype(np.int8), scale


def pack(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Definition of the packed layout in kernels.h, from (rows, blocks, 32) and (rows, blocks)."""
    rows, blocks = scales.shape
    bands = -(-rows // 8)
    v = np.zeros((bands * 8, blocks, 32), np.int8)
    s = np.zeros((bands * 8, blocks), scales.dtype)
    v[:rows], s[:rows] = values, scales
    v = v.reshape(bands, 8, blocks, 8, 4).transpose(0, 2, 3, 1, 4).reshape(bands, blocks, 256)
    s = s.reshape(bands, 8, blocks).transpose(0, 2, 1)
    return np.concatenate([np.ascontiguousarray(s).view(np.uint8), v.view(np.uint8)], axis=2).reshape(-1)


def random_weights(rows: int, columns: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Every int8, also -128, and scales of the format's type; columns past the end are zero."""
    random = np.random.default_rng(rows * 1000 + columns)
    values = blocked(random.integers(-128, 128, (rows, columns), np.int8))
    scales = random.uniform(0.001, 0.02, values.shape[:2]).astype(np.float16 if kind == "q8_0" else np.float32)
    return values, scales


def activations(x: np.ndarray) -> np.ndarray:
    values, scales = quantized(x)
    out = np.zeros(scales.shape, ACTIVATIONS)
    out["values"], out["scale"], out["sum"] = values, scales, values.sum(-1, dtype=np.int32)
    return out


@pytest.mark.parametrize("rows, columns", [(0, 5), (5, 0), *SHAPES])
def test_quantize_rows(kernels: Kernels, rows: int, columns: int) -> None:
    x = normal(rows, columns + 3)
    expected = activations(x[:, :columns])
    xq = np.zeros(expected.shape, ACTIVATIONS)
    assert kernels.run("quantize_rows", xq=xq, x=unaligned(x), rows=rows, columns=columns, x_stride=columns + 3) == OK
    assert xq.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("rows, columns", [(0, 5), (5, 0), *SHAPES])
def test_quantize_rows_of_halves(kernels: Kernels, kind: str, rows: int, columns: int) -> None:
    """As of the same values in f32."""
    x = normal(rows, columns + 3)
    stored = to_bf16(x) if kind == "bf16" else x.astype(np.float16)
    values = from_bf16(stored) if kind == "bf16" else stored.astype(np.float32)
    expected = activations(values[:, :columns])
    xq = np.zeros(expected.shape, ACTIVATIONS)
    sizes = dict(rows=rows, columns=columns, x_stride=columns + 3)
    assert kernels.run(f"quantize_rows_{kind}", xq=xq, x=unaligned(stored), **sizes) == OK
    assert xq.tobytes() == expected.tobytes()


@pytest.mark.parametrize("rows, columns", [(0, 5), (5, 0), *SHAPES, (3, 512), (2, 2048), (1, 8192)])
@pytest.mark.parametrize("place", [unaligned, aligned])
@pytest.mark.parametrize("weight_type", ["float32", "float16", ""])
def test_quantize_rows_after_another_kernel(
    kernels: Kernels, weight_type: str, place: Callable[[np.ndarray], np.ndarray], rows: int, columns: int
) -> None:
    """CUDA alone has it: the bits of the two kernels. Without the type of a weight: after silu_mul."""
    name = "rms_norm_quantize_rows" if weight_type else "silu_mul_quantize_rows"
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run(name) == BAD_ARGUMENT
        return
    x, results = place(normal(rows, 2 * columns)), []
    if rows > 2 and columns:
        x[1, 0] = np.nan
    sizes: dict[str, Any] = {"rows": rows, "columns": columns, "x_stride": 2 * columns}
    more: dict[str, Any] = {}
    if weight_type:
        stored = place(normal(columns, seed=4).astype(weight_type))
        more = {"epsilon": 1e-5, "weight": stored}
    for fused in (True, False):
        memory, y = strided(np.zeros((rows, columns), np.float32), extra=4)
        memory = place(memory)
        y, xq = memory[:, :columns], np.zeros((rows, -(-columns // 32)), ACTIVATIONS)
        own: dict[str, Any] = {"y": memory, "x": x, "y_stride": columns + 4, **sizes, **more}
        if fused:
            kind = {"type": TYPES[weight_type]} if weight_type else {}
            run_checked(kernels, name, "y", "xq", xq=xq, **own, **kind)
        else:
            if weight_type:
                own["weight"] = place(more["weight"].astype(np.float32))
            run_checked(kernels, "rms_norm_f32" if weight_type else "silu_mul_f32", "y", **own)
            run_checked(kernels, "quantize_rows", "xq", xq=xq, x=memory, **sizes | {"x_stride": columns + 4})
        assert_guarded(memory, columns)
        results.append((y.tobytes(), xq.tobytes()))
    assert results[0] == results[1]


def test_quantize_rows_rounds_halves_away_from_zero(kernels: Kernels) -> None:
    x = np.array([[127, 0.5, -0.5, 1.5, -2.5, 0.49999997, -0.49999997, 126.5]], np.float32)
    xq = np.zeros((1, 1), ACTIVATIONS)
    assert kernels.run("quantize_rows", xq=xq, x=x, rows=1, columns=8, x_stride=8) == OK
    assert xq["values"][0, 0, :8].tolist() == [127, 1, -1, 2, -3, 0, 0, 127]
    assert xq["scale"][0, 0] == 1 and xq["sum"][0, 0] == 253


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_quantize_rows_keeps_what_is_not_finite(kernels: Kernels, bad: float) -> None:
    x = normal(1, 96)
    x[0, 40] = bad
    xq = np.zeros((1, 3), ACTIVATIONS)
    assert kernels.run("quantize_rows", xq=xq, x=x, rows=1, columns=96, x_stride=96) == OK
    assert np.isnan(xq["scale"][0]).tolist() == [False, True, False]
    assert not xq["values"][0, 1].any() and xq["sum"][0, 1] == 0


@pytest.mark.parametrize("tiny", [0.0, 1e-45, 1e-39, 3e-38])
def test_quantize_rows_of_tiny_values(kernels: Kernels, tiny: float) -> None:
    x = np.full((1, 32), tiny, np.float32)
    xq = np.zeros((1, 1), ACTIVATIONS)
    assert kernels.run("quantize_rows", xq=xq, x=x, rows=1, columns=32, x_stride=32) == OK
    assert np.abs(xq["values"] * xq["scale"][..., None] - x).max() <= 4e-37
    assert xq["sum"] == xq["values"].sum()


@pytest.mark.parametrize("rows, columns", [(0, 32), (3, 0), (1, 32), (7, 64), (8, 96), (33, 288)])
def test_pack_q8_0(kernels: Kernels, rows: int, columns: int) -> None:
    values, scales = random_weights(rows, columns, "q8_0")
    blocks = np.concatenate([scales[..., None].view(np.uint8).reshape(*scales.shape, 2), values.view(np.uint8)], axis=2)
    expected = pack(values, scales)
    packed = np.full(expected.shape, 0xAA, np.uint8)
    assert kernels.run("pack_q8_0", packed=packed, blocks=unaligned(blocks), rows=rows, columns=columns) == OK
    assert (packed == expected).all()


def test_pack_q8_0_needs_whole_blocks(kernels: Kernels) -> None:
    assert kernels.run("pack_q8_0", packed=None, blocks=None, rows=1, columns=33) == BAD_ARGUMENT


@pytest.mark.parametrize(
    "rows, columns, group",
    [(0, 64, 32), (3, 64, 32), (9, 64, 64), (16, 256, 64), (4, 48, 48), (5, 33, 66), (2, 96, 64)],
)
def test_pack_q8_group(kernels: Kernels, rows: int, columns: int, group: int) -> None:
    random = np.random.default_rng(1)
    quants = random.integers(-128, 128, (rows, columns), np.int8)
    scales = random.uniform(0.1, 1, -(-rows * columns // group)).astype(np.float32)
    starts = np.arange(rows)[:, None] * columns + np.arange(0, columns, 32)[None]
    expected = pack(blocked(quants), scales[starts // group] if rows else np.zeros((0, 2), np.float32))
    packed = np.full(expected.shape, 0xAA, np.uint8)
    arguments = dict(rows=rows, columns=columns, group=group)
    assert kernels.run("pack_q8_group", packed=packed, quants=unaligned(quants), scales=scales, **arguments) == OK
    assert (packed == expected).all()


@pytest.mark.parametrize("columns, group", [(64, 16), (64, 48), (48, 32), (64, 0), (64, -32)])
def test_pack_q8_group_refuses_groups_within_a_block(kernels: Kernels, columns: int, group: int) -> None:
    quants, scales, packed = np.zeros((2, columns), np.int8), np.zeros(64, np.float32), np.zeros(4096, np.uint8)
    arguments = dict(rows=2, columns=columns, group=group)
    assert kernels.run("pack_q8_group", packed=packed, quants=quants, scales=scales, **arguments) == BAD_ARGUMENT


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_quantize_q8_0(kernels: Kernels, rows: int, columns: int) -> None:
    x = normal(rows, columns + 1) * np.float32(10.0) ** np.arange(rows, dtype=np.float32).clip(0, 4)[:, None]
    values, scales = quantized(x[:, :columns])
    expected = pack(values, scales.astype(np.float16))
    packed = np.full(expected.shape, 0xAA, np.uint8)
    assert (
        kernels.run("quantize_q8_0", packed=packed, x=unaligned(x), rows=rows, columns=columns, x_stride=columns + 1)
        == OK
    )
    assert (packed == expected).all()


def test_quantize_q8_0_scales_like_numpy(kernels: Kernels) -> None:
    """Scales from the smallest subnormal half to past the largest one."""
    sizes = np.concatenate([2.0 ** np.arange(-30, 24, 0.37), [0, 65504, 65519.996, 65520, 70000]]) * 127
    x = np.zeros((sizes.size, 32), np.float32)
    x[:, 5] = sizes
    packed = np.zeros(-(-sizes.size // 8) * 272, np.uint8)
    assert kernels.run("quantize_q8_0", packed=packed, x=x, rows=sizes.size, columns=32, x_stride=32) == OK
    scales = packed.reshape(-1, 272)[:, :16].copy().view(np.float16).reshape(-1)[: sizes.size]
    with np.errstate(over="ignore"):
        assert (scales == (x[:, 5] / np.float32(127)).astype(np.float16)).all()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("rows, columns", SHAPES)
def test_unpack_and_embedding(kernels: Kernels, rows: int, columns: int, kind: str) -> None:
    values, scales = random_weights(rows, columns, kind)
    expected = (values * scales.astype(np.float32)[..., None]).reshape(rows, -1)[:, :columns]
    packed = pack(values, scales)
    y = unaligned(np.full((rows, columns), np.nan, np.float32))
    assert kernels.run(f"unpack_{kind}", y=y, packed=packed, rows=rows, columns=columns) == OK
    assert (y == expected).all()
    ids = np.array([rows - 1, 0, rows // 2, 0], np.int32)
    y = np.full((4, columns + 1), np.nan, np.float32)
    arguments = dict(columns=columns, vocabulary=rows, y_stride=columns + 1)
    assert kernels.run(f"embedding_{kind}", y=y, w=packed, ids=unaligned(ids), tokens=4, **arguments) == OK
    assert (y[:, :columns] == expected[ids]).all() and np.isnan(y[:, columns]).all()
    for bad in (-1, rows, 2**31 - 1):
        ids[2] = bad
        assert kernels.run(f"embedding_{kind}", y=y, w=packed, ids=ids, tokens=4, **arguments) == INDEX_RANGE


def product(xq: np.ndarray, values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Definition of linear_q8_*: exact integer dots of blocks, then f32 (summed here in f64)."""
    dots = np.einsum("mbk,nbk->mnb", xq["values"].astype(np.int64), values.astype(np.int64))
    return (dots * (xq["scale"][:, None].astype(np.float64) * scales[None].astype(np.float64))).sum(-1)


def check_linear(kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int, residual: str) -> None:
    values, scales = random_weights(outputs, inputs, kind)
    xq = activations(normal(rows, inputs))
    expected = product(xq, values, scales)
    size = np.abs(expected).max(initial=1)
    y = unaligned(np.full((rows, outputs + 2), 7, np.float32))
    arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs + 2)
    if residual == "itself":
        y[:, :outputs] = start = normal(rows, outputs)
        arguments |= dict(residual=y, residual_stride=outputs + 2)
        expected += start
    elif residual == "row":
        start = unaligned(normal(outputs))
        arguments |= dict(residual=start, residual_stride=0)
        expected += start
    assert kernels.run(f"linear_{kind}", y=y, xq=xq, w=unaligned(pack(values, scales)), **arguments) == OK
    assert np.abs(y[:, :outputs] - expected).max(initial=0) <= 1e-6 * size
    assert (y[:, outputs:] == 7).all()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("outputs, inputs", [(0, 33), (33, 0), *SHAPES])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 31])
def test_linear(kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int) -> None:
    check_linear(kernels, kind, rows, outputs, inputs, ["none", "itself", "row"][(rows + outputs) % 3])


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("rows, outputs, inputs", [(1, 2000, 768), (130, 777, 288), (5, 640, 9001)])
def test_linear_of_large_shapes(kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int) -> None:
    check_linear(kernels, kind, rows, outputs, inputs, "itself")


@pytest.mark.parametrize("rows", [1, 4])
def test_linear_is_exact_for_extreme_values(kernels: Kernels, rows: int) -> None:
    """Sums that an int16 in between would cut off, and weights of -128."""
    for w, x in ((-128, 127), (-128, -127), (127, 127), (127, -127)):
        values, scales = np.full((8, 2, 32), w, np.int8), np.ones((8, 2), np.float32)
        xq = np.zeros((rows, 2), ACTIVATIONS)
        xq["values"], xq["scale"], xq["sum"] = x, 1, 32 * x
        y = np.zeros((rows, 8), np.float32)
        arguments = dict(rows=rows, outputs=8, inputs=64, y_stride=8)
        assert kernels.run("linear_q8_group", y=y, xq=xq, w=pack(values, scales), **arguments) == OK
        assert (y == 64 * w * x).all()


@pytest.mark.parametrize("scale", [6e-8, 5.96e-8, 3e-5, 65504, np.inf, -np.inf, np.nan])
def test_linear_with_odd_half_scales(kernels: Kernels, scale: float) -> None:
    values, scales = random_weights(8, 32, "q8_0")
    scales[3] = scale
    xq = activations(normal(1, 32))
    y = np.zeros((1, 8), np.float32)
    assert (
        kernels.run("linear_q8_0", y=y, xq=xq, w=pack(values, scales), rows=1, outputs=8, inputs=32, y_stride=8) == OK
    )
    expected = product(xq, values, scales).astype(np.float32)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", FORMATS)
def test_linear_of_nan_activations_is_nan(kernels: Kernels, kind: str) -> None:
    x = normal(3, 64)
    x[1, 40] = np.nan
    xq = np.zeros((3, 2), ACTIVATIONS)
    assert kernels.run("quantize_rows", xq=xq, x=x, rows=3, columns=64, x_stride=64) == OK
    values, scales = random_weights(9, 64, kind)
    y = np.zeros((3, 9), np.float32)
    assert (
        kernels.run(f"linear_{kind}", y=y, xq=xq, w=pack(values, scales), rows=3, outputs=9, inputs=64, y_stride=9)
        == OK
    )
    assert np.isnan(y[1]).all() and not np.isnan(y[[0, 2]]).any()


@pytest.mark.parametrize("before, outputs, inputs", [(0, 33, 31), (0, 8210, 100), (1, 20, 2500), (2, 9, 65)])
def test_linear_of_a_row_that_it_quantises(kernels: Kernels, before: int, outputs: int, inputs: int) -> None:
    """CUDA alone has it; `before` 1: after rms_norm, 2: after silu_mul."""
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run("quantize_linear_q8_0") == BAD_ARGUMENT
        return
    values, scales = random_weights(outputs, inputs, "q8_0")
    x, weight = aligned(normal(1, inputs * (2 if before == 2 else 1))), aligned(normal(inputs, seed=8))
    made, residual = x.astype(np.float64), normal(outputs, seed=9)
    if before == 1:
        made = made / np.sqrt((made**2).mean() + 1e-5) * weight
    elif before == 2:
        gate, up = np.split(made, 2, axis=1)
        made = gate / (1 + np.exp(-gate)) * up
    y, own, xq = (
        np.zeros(outputs, np.float32),
        np.zeros((1, inputs), np.float32),
        np.zeros(-(-inputs // 32), ACTIVATIONS),
    )
    arguments = {
        "x": x,
        "weight": weight,
        "w": pack(values, scales),
        "residual": residual,
        "made": own,
        "epsilon": 1e-5,
    }
    arguments |= {"inputs": inputs, "outputs": outputs, "before": before, "weight_type": TYPES["float32"]}
    run_checked(kernels, "quantize_linear_q8_0", "y", "made", "xq", y=y, xq=xq, **arguments)
    np.testing.assert_allclose(own, made, rtol=2e-6, atol=1e-6)
    assert xq.tobytes() == activations(own).tobytes()
    expected = product(xq[None], values, scales)[0] + residual
    assert np.abs(y - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["quantize_linear_q8_0", "quantize_linear_blocks"])
@pytest.mark.parametrize(
    "change",
    [
        {"before": 3},
        {"before": -1},
        {"inputs": 512},
        {"inputs": 8224},
        {"before": 0, "inputs": 32800},
        {"weight_type": 99},
    ],
)
def test_a_row_of_its_own_that_does_not_fit_is_refused(kernels: Kernels, name: str, change: dict[str, int]) -> None:
    """tests/cuda/test_fusion.py has those that do."""
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run(name) == BAD_ARGUMENT
        return
    sizes = {"inputs": 1024, "outputs": 8, "before": 1, "weight_type": TYPES["float32"]} | change
    sizes |= {"type": 2} if name == "quantize_linear_blocks" else {}
    x, weight, made = (aligned(np.ones(sizes["inputs"], np.float32)) for _ in range(3))
    w, y = np.zeros(8 * sizes["inputs"] * 2, np.uint8), np.zeros(8, np.float32)
    xq = np.zeros(-(-sizes["inputs"] // 32), ACTIVATIONS)
    arguments = {"x": x, "weight": weight, "made": made, "xq": xq, "w": w, "y": y, "epsilon": 0.0, **sizes}
    assert kernels.run(name, **arguments) == BAD_ARGUMENT and not y.any()
