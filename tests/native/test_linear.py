"""linear_f32, linear_f16 and linear_bf16 against NumPy, and those whose activations are halves too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.emulated import EmulatedKernels
from tests.native.kernels import BAD_ARGUMENT, OK, SIZES, TYPES, Kernels, aligned, from_bf16, to_bf16, unaligned

KINDS = ["f32", "f16", "bf16"]
ROWS = [0, 1, 2, 3, 4, 5, 9, 31, 33, 100]


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def weights(kind: str, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights as stored, and the same as f32."""
    w = normal(*shape, seed=9)
    if kind == "bf16":
        return to_bf16(w), from_bf16(to_bf16(w))
    stored = w.astype(np.float16 if kind == "f16" else np.float32)
    return stored, stored.astype(np.float32)


def linear(
    kernels: Kernels, kind: str, x: np.ndarray, w: np.ndarray, residual: np.ndarray | str | None = None
) -> np.ndarray:
    (rows, inputs), outputs = x.shape, w.shape[0]
    wide = np.full((rows, inputs + 3), np.nan, np.float32)
    wide[:, :inputs] = x
    y = unaligned(np.full((rows, outputs + 1), 7, np.float32))
    arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs + 1, x_stride=inputs + 3)
    if isinstance(residual, np.ndarray):
        if residual.ndim == 2:
            y[:, :outputs] = residual
            arguments |= dict(residual=y, residual_stride=outputs + 1)
        else:
            arguments |= dict(residual=unaligned(residual), residual_stride=0)
    assert kernels.run(f"linear_{kind}", y=y, x=unaligned(wide), w=unaligned(w), **arguments) == OK
    assert (y[:, outputs:] == 7).all()
    return y[:, :outputs]


def close(kernels: Kernels, y: np.ndarray, x: np.ndarray, w: np.ndarray, residual: np.ndarray | float = 0.0) -> None:
    expected = x.astype(np.float64) @ w.T.astype(np.float64) + residual
    bound = np.abs(x).astype(np.float64) @ np.abs(w.T).astype(np.float64) + np.abs(residual)
    assert (np.abs(y - expected) <= getattr(kernels, "mixed_error", 2e-6) * bound + 1e-30).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", ROWS)
def test_shapes(kernels: Kernels, kind: str, rows: int) -> None:
    for outputs in SIZES:
        for inputs in (*SIZES, 16, 100):
            stored, w = weights(kind, outputs, inputs)
            x = normal(rows, inputs)
            close(kernels, linear(kernels, kind, x, stored), x, w)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rows, outputs, inputs, residual",
    [(1, 1000, 768, "row"), (3, 517, 2049, "itself"), (4, 600, 288, "none"), (70, 333, 300, "itself"),
     (150, 130, 1030, "row")],
)  # fmt: skip
def test_large_shapes(kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int, residual: str) -> None:
    stored, w = weights(kind, outputs, inputs)
    x = normal(rows, inputs)
    add = {"none": None, "itself": normal(rows, outputs), "row": normal(outputs)}[residual]
    close(kernels, linear(kernels, kind, x, stored, add), x, w, 0.0 if add is None else add)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3, 7, 8, 16, 17, 32, 40])
@pytest.mark.parametrize("outputs, inputs", [(1, 8), (16, 64), (70, 72), (45, 1032)])
def test_aligned_rows(kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int) -> None:
    """Rows that begin where 16 bytes do."""
    stored, w = weights(kind, outputs, inputs)
    x, add = normal(rows, inputs), normal(rows, outputs)
    bad = rows // 2, inputs // 2
    for value in (0.5, np.inf):
        x[bad] = value
        y = np.full((rows, outputs), np.nan, np.float32)
        arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs, x_stride=inputs)
        run_checked(
            kernels, f"linear_{kind}", "y", y=y, x=x, w=stored, residual=add, residual_stride=outputs, **arguments
        )
        known = np.isfinite(value) | (np.arange(rows) != bad[0])
        close(kernels, y[known], x[known], w, add[known])
        assert not np.isfinite(y[~known]).any()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("rows", [1, 3, 7, 8, 16, 17, 32, 40])
@pytest.mark.parametrize("outputs, inputs", [(1, 8), (16, 64), (70, 72), (45, 1032)])
def test_aligned_rows_of_halves(kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int) -> None:
    (x, x_values), (w, w_values) = halves(kind, rows, inputs), halves(kind, outputs, inputs, seed=9)
    y = np.zeros((rows, outputs), x.dtype)
    arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs, x_stride=inputs)
    run_checked(kernels, f"linear_{kind}_{kind}", "y", y=y, x=x, w=w, **arguments)
    close_halves(kind, y, x_values, w_values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 4, 60])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_values_reach_their_row_and_column_only(kernels: Kernels, kind: str, rows: int, bad: float) -> None:
    x, w = np.abs(normal(rows, 35)) + 1, np.abs(normal(40, 35, seed=9)) + 1
    x[rows // 2, 34] = bad
    w[7, 1] = w[39, 33] = bad
    stored = (
        to_bf16(np.nan_to_num(w, posinf=0, neginf=0))
        if kind == "bf16"
        else w.astype(np.float16 if kind == "f16" else np.float32)
    )
    if kind == "bf16":
        stored[~np.isfinite(w)] = np.float32(bad).view(np.uint32) >> 16
    y = linear(kernels, kind, x, stored)
    expected = np.zeros((rows, 40), bool)
    expected[rows // 2], expected[:, [7, 39]] = True, True
    assert (~np.isfinite(y) == expected).all()


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_every_half(kernels: Kernels, rows: int) -> None:
    """All 65536 halves, also subnormals: multiplied by one they must come back as NumPy widens them. Of many rows, for
    which weights are packed, a seventh of them: all exponents and signs."""
    stored = np.arange(0, 65536, 7 if rows == 50 else 1, dtype=np.uint16).view(np.float16).reshape(-1, 1)
    y = linear(kernels, "f16", np.ones((rows, 1), np.float32), stored)
    np.testing.assert_array_equal(y, np.broadcast_to(stored.astype(np.float32).T, y.shape))
    y = linear(kernels, "f16", np.ones((rows, 16), np.float32), np.repeat(stored, 16, axis=1))
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(y, np.broadcast_to(stored.astype(np.float32).T * 16, y.shape))


def halves(kind: str, *shape: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Normal numbers as stored in 16 bits, and the same as f32."""
    x = normal(*shape, seed=seed)
    if kind == "bf16":
        return to_bf16(x), from_bf16(to_bf16(x))
    return x.astype(np.float16), x.astype(np.float16).astype(np.float32)


def linear_of_halves(
    kernels: Kernels, kind: str, x: np.ndarray, w: np.ndarray, residual: np.ndarray | None = None
) -> np.ndarray:
    """The stored result (rows, outputs); x, w and residual as stored. A residual of rows is where y is written."""
    (rows, inputs), outputs = x.shape, w.shape[0]
    wide = np.full((rows, inputs + 3), 0x7E7E, np.uint16).view(x.dtype)
    wide[:, :inputs] = x
    y = unaligned(np.full((rows, outputs + 1), 7, x.dtype))
    arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs + 1, x_stride=inputs + 3)
    if residual is not None and residual.ndim == 2:
        y[:, :outputs] = residual
        arguments |= dict(residual=y, residual_stride=outputs + 1)
    elif residual is not None:
        arguments |= dict(residual=unaligned(residual), residual_stride=0)
    run_checked(kernels, f"linear_{kind}_{kind}", "y", y=y, x=unaligned(wide), w=unaligned(w), **arguments)
    assert (y[:, outputs:] == 7).all()
    return y[:, :outputs]


def close_halves(kind: str, y: np.ndarray, x: np.ndarray, w: np.ndarray, residual: np.ndarray | float = 0.0) -> None:
    """x, w and residual as f32. The sum is as exact as in f32, and rounded once."""
    expected = x.astype(np.float64) @ w.T.astype(np.float64) + residual
    bound = np.abs(x).astype(np.float64) @ np.abs(w.T).astype(np.float64) + np.abs(residual)
    found = from_bf16(y) if kind == "bf16" else y.astype(np.float32)
    half_a_step = 2.0**-8 if kind == "bf16" else 2.0**-11
    assert (np.abs(found - expected) <= half_a_step * np.abs(expected) + 2e-6 * bound + 3e-8).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("rows", ROWS)
def test_activations_of_halves(kernels: Kernels, kind: str, rows: int) -> None:
    for outputs in SIZES:
        for inputs in (*SIZES, 16, 100):
            (x, x_values), (w, w_values) = halves(kind, rows, inputs), halves(kind, outputs, inputs, seed=9)
            close_halves(kind, linear_of_halves(kernels, kind, x, w), x_values, w_values)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(
    "rows, outputs, inputs, residual",
    [(1, 7000, 70, "none"), (1, 40, 9000, "row"), (5, 600, 4200, "itself"), (150, 260, 1030, "none"),
     (400, 40, 300, "itself")],
)  # fmt: skip
def test_large_activations_of_halves(
    kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int, residual: str
) -> None:
    (x, x_values), (w, w_values) = halves(kind, rows, inputs), halves(kind, outputs, inputs, seed=9)
    add, values = {
        "none": (None, np.zeros(1)),
        "itself": halves(kind, rows, outputs, seed=3),
        "row": halves(kind, outputs, seed=3),
    }[residual]
    close_halves(kind, linear_of_halves(kernels, kind, x, w, add), x_values, w_values, values)


@pytest.mark.parametrize("rows", [1, 60])
def test_sums_of_halves_are_made_in_f32(kernels: Kernels, rows: int) -> None:
    """In f16 the sum would stop growing at 2048, and 300 squared would be infinite."""
    ones = np.ones((rows, 5000), np.float16)
    assert (linear_of_halves(kernels, "f16", ones, ones[:1]) == 5000).all()
    large = np.tile(np.array([300, 300], np.float16), (rows, 1))
    assert (linear_of_halves(kernels, "f16", large, np.array([[300, -300]], np.float16)) == 0).all()


@pytest.mark.parametrize(
    "change", [{"inputs": 512}, {"inputs": 8200}, {"inputs": 1028}, {"type": 0}, {"weight_type": 99}, {"at": 1}]
)
def test_a_normed_row_that_does_not_fit_is_refused(kernels: Kernels, change: dict[str, int]) -> None:
    """tests/cuda/test_fusion.py has those that do."""
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run("rms_norm_linear") == BAD_ARGUMENT
        return
    sizes = {"inputs": 1024, "outputs": 8, "type": TYPES["float32"], "weight_type": TYPES["float32"], "at": 0} | change
    inputs, at = sizes["inputs"], sizes.pop("at")
    x, weight, normed = (aligned(np.ones(inputs + 4, np.float32))[at : at + inputs] for _ in range(3))
    w, y = aligned(np.ones((8, inputs), np.float32)), aligned(np.zeros(8, np.float32))
    arguments = {"x": x, "weight": weight, "normed": normed, "w": w, "y": y, "epsilon": 0.0, **sizes}
    assert kernels.run("rms_norm_linear", **arguments) == BAD_ARGUMENT and not y.any()
