"""Operations of two operands by opcode: every operation with every type that the header lists for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import (
    BAD_ARGUMENT,
    DIVISION_BY_ZERO,
    OK,
    TYPES,
    Kernels,
    aligned,
    dims,
    element_strides,
    number_bits,
    read_opcodes,
    store_as,
    unaligned,
    values_of,
)

OPCODES = read_opcodes("binary")
CODES = {name: code for code, name in enumerate(OPCODES)}
PAIRS = [(name, dtype) for name, (dtypes, _) in OPCODES.items() for dtype in dtypes]
EPSILON = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, np.inf, -np.inf, np.nan, 1e30, -1e-30, 7.0]


def xlogy(a: Any, b: Any) -> Any:
    return np.where((a == 0) & ~np.isnan(b), 0.0, a * np.log(b))


def power(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.power(a, b)
    wrapped = [
        pow(int(x), int(y), 2**64) if y >= 0 else {1: 1, -1: 1 - 2 * (int(y) % 2)}.get(int(x), 0)
        for x, y in zip(a, b, strict=True)
    ]
    return np.array([w % 2**64 for w in wrapped], np.uint64).astype(a.dtype)


def shifted(a: Any, b: Any, function: Any, far: int) -> Any:
    """Shifts out of range: to the left 0, to the right as far as there are bits."""
    outside, wide = (b < 0) | (b > 63), a.astype(np.int64)
    inside = function(wide, np.where(outside, far, b).astype(np.int64))
    return np.where(outside & (far == 0), 0, inside).astype(a.dtype)


REFERENCES: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": power,
    "atan2": np.arctan2,
    "xlogy": xlogy,
    "ldexp": lambda a, b: a * np.exp2(b),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "bitwise_left_shift": lambda a, b: shifted(a, b, np.left_shift, 0),
    "bitwise_right_shift": lambda a, b: shifted(a, b, np.right_shift, 63),
}


def operands(name: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    if dtype == "bool":
        a, b = np.meshgrid([False, True], [False, True])
        return np.tile(a.ravel(), 30), np.tile(b.ravel(), 30)
    if dtype not in EPSILON:
        info = np.iinfo(dtype)
        ends = np.array([0, 1, 2, 7, info.max, info.min, info.max - 1, info.min + 1], dtype)
        a, b = (grid.ravel() for grid in np.meshgrid(ends, ends))
        a = np.concatenate([a, rng.integers(info.min, info.max, 200, dtype)])
        b = np.concatenate([b, rng.integers(max(info.min, -20), 20, 200, dtype)])
        if name in ("floor_divide", "remainder", "fmod"):
            b[b == 0] = 3
        return a, b
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    a = np.concatenate([a, rng.standard_normal(300) * 30, rng.random(100) * 5])
    b = np.concatenate([b, rng.standard_normal(300) * 3, rng.standard_normal(100) * 20])
    if dtype == "bfloat16":
        keep = ~(np.isnan(a) | np.isnan(b))
        a, b = a[keep], b[keep]
    with np.errstate(over="ignore"):
        return store_as(dtype, a), store_as(dtype, b)


def run(kernels: Kernels, name: str, dtype: str, a: Any, b: Any, code: int = OK, place: Any = unaligned) -> np.ndarray:
    """Operands broadcast; a number is an operand that is NULL."""
    arrays = [x for x in (a, b) if isinstance(x, np.ndarray)]
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    y = place(np.empty(shape, np.bool_ if OPCODES[name][1] == "bool" else arrays[0].dtype))
    arguments: dict[str, Any] = {
        "opcode": CODES[name],
        "type": TYPES[dtype],
        "rank": len(shape),
        **dims("shape", shape),
    }
    for key, x in (("a", a), ("b", b)):
        if isinstance(x, np.ndarray):
            wide = np.broadcast_to(x, shape)
            arguments |= {key: x, **dims(key, element_strides(wide))}
        else:
            arguments["number"] = number_bits(dtype, x)
    if code:
        assert kernels.run("binary", y=y, **arguments) == code
    else:
        run_checked(kernels, "binary", "y", y=y, **arguments)
    return y


@pytest.mark.parametrize("name, dtype", PAIRS)
def test_operation(kernels: Kernels, name: str, dtype: str) -> None:
    a, b = operands(name, dtype)
    y = run(kernels, name, dtype, unaligned(a), unaligned(b))
    left, right = values_of(dtype, a), values_of(dtype, b)
    function = REFERENCES.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        if OPCODES[name][1] == "bool" or dtype not in EPSILON:
            np.testing.assert_array_equal(y, function(left, right).astype(y.dtype))
            return
        if name == "nextafter":
            np.testing.assert_array_equal(y, np.nextafter(left, right))
            return
        expected = function(left.astype(np.float64), right.astype(np.float64))
        if name == "floor_divide":  # where the quotient is past 2^53, NumPy and torch differ in the last digit
            expected = np.where(right == 0, left.astype(np.float64) / right, expected)
        found = values_of(dtype, y).astype(np.float64)
        largest = {"float16": 65504.0, "float64": 1.7e308}.get(dtype, 3.38e38)
        smallest = {"float16": 2.0**-24, "float64": 5e-324}.get(dtype, 1e-40)
        close = np.abs(found - expected) <= 4 * EPSILON[dtype] * np.abs(expected) + smallest
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        overflow = (np.abs(expected) > largest) & (np.abs(found) >= largest) & (np.sign(found) == np.sign(expected))
    wrong = ~(close | same | overflow)
    assert not wrong.any(), (left[wrong][:4], right[wrong][:4], found[wrong][:4], expected[wrong][:4])


def test_float_remainders_are_exact(kernels: Kernels) -> None:
    rng = np.random.default_rng(2)
    a = np.concatenate([rng.standard_normal(2000) * 10.0 ** rng.integers(-300, 300, 2000), [5e-324, 1e-310, 1e308]])
    b = np.concatenate([rng.standard_normal(2000) * 10.0 ** rng.integers(-300, 300, 2000), [3e-320, 5e-324, 5e-324]])
    np.testing.assert_array_equal(
        run(kernels, "fmod", "float64", a, b), [math.fmod(x, y) for x, y in zip(a, b, strict=True)]
    )
    for x, y, rest in ((5.0, 3.0, 2.0), (-5.0, 3.0, 1.0), (5.0, -3.0, -1.0), (-5.0, -3.0, -2.0), (6.0, -3.0, 0.0)):
        assert run(kernels, "remainder", "float32", np.array([x], np.float32), y) == rest
        assert run(kernels, "floor_divide", "float32", np.array([x], np.float32), y) == math.floor(x / y)


def test_power_is_within_two_ulps(kernels: Kernels) -> None:
    rng = np.random.default_rng(4)
    a, b = np.exp(rng.standard_normal(20_000) * 5), rng.standard_normal(20_000) * 40
    found = run(kernels, "pow", "float64", a, b)
    expected = np.array([math.pow(x, y) if abs(y * math.log(x)) < 709 else np.nan for x, y in zip(a, b, strict=True)])
    known = np.isfinite(expected) & (expected > 1e-300)
    assert (np.abs(found - expected)[known] <= 2.01 * np.spacing(expected[known])).all()


@pytest.mark.parametrize("name, dtype", [("add", "float32"), ("mul", "int16"), ("lt", "float16"), ("pow", "float64")])
def test_broadcasting(kernels: Kernels, name: str, dtype: str) -> None:
    """Rows, columns, scalars, turned and stepped views on both sides, and odd sizes."""
    rng = np.random.default_rng(5)
    whole = store_as(dtype, rng.integers(1, 9, (5, 6, 37)))
    other = store_as(dtype, rng.integers(1, 5, (37, 6, 5)))
    function = {"add": np.add, "mul": np.multiply, "lt": np.less, "pow": np.power}[name]
    error = getattr(kernels, "pow_ulps", 0) * 2.0**-52 if (name, dtype) == ("pow", "float64") else 0

    def check(y: np.ndarray, expected: np.ndarray) -> None:
        np.testing.assert_allclose(y, expected.astype(y.dtype), rtol=error, atol=0)

    pairs = [
        (whole, other.transpose(2, 1, 0)),
        (whole, whole[0]),
        (whole[:, :, :1], whole[:1]),
        (whole[::2, ::-1, ::3], other.transpose(2, 1, 0)[::2, :, 2:15]),
        (whole[0, 0, 0:1], whole),
        (whole[:, :0], whole[:, :0]),
        (whole[:, :, None, :1], other[None, :, 0, :1]),
    ]
    for a, b in pairs:
        y = run(kernels, name, dtype, a, b)
        check(y, function(np.asarray(a, np.float64), np.asarray(b, np.float64)))
    check(run(kernels, name, dtype, whole, 3.0), function(whole.astype(np.float64), 3.0))
    check(run(kernels, name, dtype, 2.0, whole), function(2.0, whole.astype(np.float64)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "ge"])
def test_broadcasting_of_aligned_rows(kernels: Kernels, name: str, dtype: str) -> None:
    """Where vectors are read whole: dense operands, rows, columns, blocks and numbers."""
    rng = np.random.default_rng(5)
    a, b = (aligned(store_as(dtype, rng.integers(-9, 9, (3, 5, 48)))) for _ in range(2))
    function: Any = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "maximum": np.maximum,
        "ge": np.greater_equal,
    }
    turned = aligned(b.transpose(1, 0, 2)).transpose(1, 0, 2)
    for u, v in ((a, b), (a, b[:1, :1]), (a[..., :1], b), (a[:, :1], b), (a, turned), (a[:, ::-1], 3.0), (2.0, b)):
        values = [values_of(dtype, x).astype(np.float64) if isinstance(x, np.ndarray) else x for x in (u, v)]
        y = run(kernels, name, dtype, u, v, place=aligned)
        found = y if name == "ge" else values_of(dtype, y)
        np.testing.assert_array_equal(found, function[name](*values).astype(found.dtype))


def test_a_number_keeps_its_digits(kernels: Kernels) -> None:
    ones = np.ones(3)
    assert (run(kernels, "mul", "float64", ones, 0.1) == 0.1).all()
    large = np.array([2**53 + 1], np.int64)
    assert run(kernels, "add", "int64", large, 2**62 + 1)[0] == 2**53 + 2**62 + 2


def test_division_of_integers_by_zero(kernels: Kernels) -> None:
    a, b = np.arange(5, dtype=np.int32), np.array([1, 2, 0, 4, 5], np.int32)
    for name in ("floor_divide", "remainder", "fmod"):
        run(kernels, name, "int32", a, b, code=DIVISION_BY_ZERO)
        assert run(kernels, name, "int32", a[:2], b[:2]).shape == (2,)


def test_division_of_integers_below_2_to_the_31(kernels: Kernels) -> None:
    """Which processors divide as doubles: quotients next to whole numbers stay on their side."""
    most = 2**31 - 1
    ends = np.array([1, 2, 3, 7, 46341, 65537, most // 2, most - 1, most, -1, -2, -3, -46341, 1 - most, -most])
    a, b = (grid.ravel() for grid in np.meshgrid(np.append(ends, 0), ends))
    for dtype in ("int32", "int64"):
        for name in ("floor_divide", "remainder", "fmod"):
            found = run(kernels, name, dtype, a.astype(dtype), b.astype(dtype))
            np.testing.assert_array_equal(found, getattr(np, name)(a, b))
    for x, y in ((2**31, 1), (-(2**31), -1), (5, 2**31), (-5, 2**31), (-(2**63), -1), (-(2**63), 2)):
        for name in ("floor_divide", "remainder", "fmod"):
            left, right = np.array([x]), np.array([y])
            with np.errstate(over="ignore"):
                assert run(kernels, name, "int64", left, right)[0] == getattr(np, name)(left, right)[0]


def test_in_place(kernels: Kernels) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        x = store_as(dtype, np.arange(1, 400))
        expected = run(kernels, "mul", dtype, x, x)
        arguments = {"opcode": CODES["mul"], "type": TYPES[dtype], "rank": 1, "shape0": x.size, "a0": 1, "b0": 1}
        kernels.run("binary", y=x, a=x, b=x, **arguments)
        assert x.tobytes() == expected.tobytes()


def test_bad_records_are_refused(kernels: Kernels) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    good = {"opcode": CODES["add"], "type": TYPES["float32"], "rank": 1, "shape0": 4, "a0": 1, "b0": 1}
    assert kernels.run("binary", y=y, a=x, b=x, **good) == OK
    bads = [
        {"opcode": -1},
        {"opcode": len(OPCODES)},
        {"type": 77},
        {"type": TYPES["uint64"]},
        {"rank": 7},
        {"shape0": -4},
    ]
    bads.append({"opcode": CODES["bitwise_and"]})
    for bad in bads:
        before = y.copy()
        assert kernels.run("binary", y=y, a=x, b=x, **{**good, **bad}) == BAD_ARGUMENT
        assert (y == before).all()
