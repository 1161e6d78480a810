"""compute_f32: every operation, tails, single elements, and programs that are refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, TYPES, Kernels, read_opcodes, store_as, unaligned, values_of

OPCODES = {name: code for code, name in enumerate(read_opcodes("compute_f32"))}
EXPECTED: dict[str, Any] = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "div": lambda a, b, c: a / b,
    "maximum": lambda a, b, c: np.maximum(a, b),
    "minimum": lambda a, b, c: np.minimum(a, b),
    "greater": lambda a, b, c: (a > b) * np.float32(1),
    "where": lambda a, b, c: np.where(a != 0, b, c),
    "multiply_add": lambda a, b, c: a * b + c,
    "sqrt": lambda a, b, c: np.sqrt(a),
    "abs": lambda a, b, c: np.abs(a),
    "sign": lambda a, b, c: np.where(np.isnan(a), 0, np.sign(a)),
}


def bits(number: float) -> int:
    return int(struct.unpack("q", struct.pack("d", number))[0])


def program(*steps: tuple[str, int, int, int, int]) -> dict[str, Any]:
    code = np.array([(OPCODES[name], *places) for name, *places in steps], np.uint8).reshape(-1)
    return {"program": code, "steps": len(steps)}


@pytest.mark.parametrize("name", OPCODES)
def test_operations(kernels: Kernels, name: str) -> None:
    a, b, c = (unaligned(normal(67, seed=seed)) for seed in range(3))
    a[::9], a[3], b[4] = 0, np.nan, np.nan
    y = np.zeros_like(a)
    run_checked(kernels, "compute_f32", "x0", x0=y, x1=a, x2=b, x3=c, count=67, **program((name, 0, 1, 2, 3)))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(y, EXPECTED[name](a, b, c), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 4, 31, 128, 129, 400])
def test_values_in_between_numbers_and_single_elements(kernels: Kernels, count: int) -> None:
    """x0 = x0 - x2 * (x1 = 0.5 x1 + 3), of which x2 is one element; the sum of the products passes by place 6."""
    x, m, rate = unaligned(normal(count)), unaligned(normal(count, seed=1)), np.array([0.25], np.float32)
    mean = np.float32(0.5) * m + np.float32(3)
    expected = x - rate * mean
    steps = program(("mul", 6, 1, 14, 0), ("add", 1, 6, 29, 0), ("mul", 6, 2, 1, 0), ("sub", 0, 0, 6, 0))
    numbers = {"number0": bits(0.5), "number15": bits(3.0), "single": 4}
    run_checked(kernels, "compute_f32", "x0", "x1", x0=x, x1=m, x2=rate, count=count, **numbers, **steps)
    np.testing.assert_allclose(m, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.native_only
@pytest.mark.host_library
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_are_rounded_once(kernels: Kernels, name: str) -> None:
    """x0 = (x1 + 2^-12) * x2 - x1 * x2, where x1 + 2^-12 is no number of the type; x2 is one element."""
    steps = program(("add", 6, 1, 14, 0), ("mul", 7, 6, 2, 0), ("mul", 8, 1, 2, 0), ("sub", 0, 7, 8, 0))
    for count in (0, 1, 15, 16, 17, 256, 300):
        values = np.round(normal(count, seed=count) * 8) / 8
        x, factor = store_as(name, values), store_as(name, np.array([4.0], np.float32))
        y = unaligned(store_as(name, np.zeros(count, np.float32)))
        kind = {"half": TYPES[name], "single": 4, "number0": bits(2.0**-12)}
        run_checked(kernels, "compute_f32", "x0", x0=y, x1=unaligned(x), x2=factor, count=count, **kind, **steps)
        assert (values_of(name, y) == 2.0**-10).all()
    assert kernels.run("compute_f32", x0=y, x1=x, x2=factor, count=1, half=TYPES["float32"], **steps) == BAD_ARGUMENT


def test_numbers_in_memory(kernels: Kernels) -> None:
    """x0 = x0 * 3 + 5, of which the 3 is read from memory."""
    x, steps = unaligned(normal(200)), program(("mul", 6, 0, 14, 0), ("add", 0, 6, 15, 0))
    expected = x * np.float32(3) + np.float32(5)
    numbers = {"numbers": np.array([3.0, np.nan]), "held": 1, "number1": bits(5.0)}
    run_checked(kernels, "compute_f32", "x0", x0=x, count=200, **numbers, **steps)
    np.testing.assert_allclose(x, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        program(("add", 0, 1, 0, 0)),  # x1 is NULL
        program(("add", 30, 0, 0, 0)),
        program(("add", 0, 0, 30, 0)),
        program(("add", 14, 0, 0, 0)),  # a number
        {"program": np.array([99, 0, 0, 0, 0], np.uint8), "steps": 1},
        program(("add", 0, 0, 0, 0)) | {"single": 1},  # one element is not written by many
        program(("add", 0, 0, 0, 0)) | {"steps": -1},
        program(("add", 0, 0, 0, 0)) | {"count": -1},
        program(("add", 0, 0, 0, 0)) | {"held": 1},  # of no numbers
        program(("add", 0, 0, 0, 0)) | {"held": 17, "numbers": np.zeros(17)},
    ],
)
def test_programs_that_are_refused(kernels: Kernels, wrong: dict[str, Any]) -> None:
    x = np.ones(8, np.float32)
    assert kernels.run("compute_f32", **({"x0": x, "count": 8} | wrong)) == BAD_ARGUMENT
    assert (x == 1).all()
    assert kernels.run("compute_f32", x0=x, count=8, **program(("add", 0, 0, 0, 0))) == OK and (x == 2).all()
