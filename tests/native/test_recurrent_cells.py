"""Steps of an LSTM and a GRU against their definitions in float64, and their gradients against differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import Kernels, unaligned

SHAPES = [(0, 3), (3, 0), (1, 1), (2, 5), (3, 64), (5, 67), (33, 130)]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(gates: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    take, forget, cell, out = np.split(gates, 4, axis=1)
    c = sigmoid(forget) * before + sigmoid(take) * np.tanh(cell)
    return sigmoid(out) * np.tanh(c), c


def gru(x: np.ndarray, hidden: np.ndarray, before: np.ndarray) -> np.ndarray:
    (r, z, n), (of_r, of_z, of_n) = np.split(x, 3, axis=1), np.split(hidden, 3, axis=1)
    new = np.tanh(n + sigmoid(r + of_r) * of_n)
    return new + sigmoid(z + of_z) * (before - new)


def slope(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """The derivative of each element of a function whose columns do not mix, by a complex step (Squire and Trapp 1998,
    "Using complex variables to estimate derivatives of real functions")."""
    return np.imag(function(at + 1e-30j)) / 1e-30


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_lstm(kernels: Kernels, rows: int, columns: int) -> None:
    gates, before = unaligned(normal(rows, 4 * columns, scale=3)), unaligned(normal(rows, columns, seed=4))
    given = gates.astype(np.float64)
    h, c = (unaligned(np.zeros((rows, columns), np.float32)) for _ in range(2))
    sizes = {"rows": rows, "columns": columns}
    run_checked(kernels, "lstm_cell_f32", "h", "c", "gates", h=h, c=c, gates=gates, c_before=before, **sizes)
    expected_h, expected_c = lstm(given, before.astype(np.float64))
    np.testing.assert_allclose(h, expected_h, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(c, expected_c, rtol=2e-6, atol=1e-6)
    for k, function in enumerate((sigmoid, sigmoid, np.tanh, sigmoid)):
        own = slice(k * columns, (k + 1) * columns)
        np.testing.assert_allclose(gates[:, own], function(given[:, own]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("rows, columns", SHAPES)
@pytest.mark.parametrize("given", ["", "grad_h", "grad_h later_h", "later_h later_c", "grad_h later_h later_c"])
def test_lstm_backward(kernels: Kernels, given: str, rows: int, columns: int) -> None:
    gates, before = unaligned(normal(rows, 4 * columns, scale=2)), unaligned(normal(rows, columns, seed=4))
    wide, wide_before = gates.astype(np.float64), before.astype(np.float64)
    c = unaligned(lstm(wide, wide_before)[1].astype(np.float32))
    grad_c = unaligned(normal(rows, columns, seed=5))
    parts = {name: unaligned(normal(rows, columns, seed=6 + i)) for i, name in enumerate(given.split())}
    of_c = grad_c.astype(np.float64) + parts.get("later_c", 0.0)
    of_h = np.zeros_like(of_c) + parts.get("grad_h", 0.0) + parts.get("later_h", 0.0)
    arguments = {"gates": gates, "grad_c": grad_c, "c": c, "c_before": before, **parts}
    run_checked(kernels, "lstm_cell_backward_f32", "gates", "grad_c", rows=rows, columns=columns, **arguments)

    def of_all(h_and_c: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return h_and_c[0] * of_h + h_and_c[1] * of_c

    def of_gate(k: int) -> np.ndarray:
        def changed(x: np.ndarray) -> np.ndarray:
            parts = np.split(wide.astype(complex), 4, axis=1)
            parts[k] = x
            return of_all(lstm(np.concatenate(parts, axis=1), wide_before))

        return slope(changed, np.split(wide, 4, axis=1)[k])

    np.testing.assert_allclose(gates, np.concatenate([of_gate(k) for k in range(4)], 1), rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(grad_c, slope(lambda x: of_all(lstm(wide, x)), wide_before), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_gru(kernels: Kernels, rows: int, columns: int) -> None:
    x, hidden = (unaligned(normal(rows, 3 * columns, scale=3, seed=i)) for i in (1, 2))
    before, h = unaligned(normal(rows, columns, seed=4)), unaligned(np.zeros((rows, columns), np.float32))
    sizes = {"rows": rows, "columns": columns}
    run_checked(kernels, "gru_cell_f32", "h", h=h, x=x, hidden=hidden, h_before=before, **sizes)
    np.testing.assert_allclose(h, gru(*(a.astype(np.float64) for a in (x, hidden, before))), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("rows, columns", SHAPES)
@pytest.mark.parametrize("both", [False, True])
def test_gru_backward(kernels: Kernels, both: bool, rows: int, columns: int) -> None:
    x, hidden = (unaligned(normal(rows, 3 * columns, scale=2, seed=i)) for i in (1, 2))
    before, grad_before = (unaligned(normal(rows, columns, seed=i)) for i in (4, 5))
    wide = [a.astype(np.float64) for a in (x, hidden, before)]
    of_h = grad_before.astype(np.float64)
    more = {}
    if both:
        more = {"grad_h": unaligned(normal(rows, columns, seed=6))}
        of_h = of_h + more["grad_h"]
    grad_x = unaligned(np.zeros_like(x))
    arguments = {"grad_x": grad_x, "hidden": hidden, "grad_before": grad_before, "x": x, "h_before": before, **more}
    run_checked(
        kernels, "gru_cell_backward_f32", "grad_x", "hidden", "grad_before", rows=rows, columns=columns, **arguments
    )

    def of_gate(which: int, k: int) -> np.ndarray:
        def changed(own: np.ndarray) -> np.ndarray:
            parts = np.split(wide[which].astype(complex), 3, axis=1)
            parts[k] = own
            given = [np.concatenate(parts, axis=1) if i == which else a for i, a in enumerate(wide)]
            return gru(given[0], given[1], given[2]) * of_h

        return slope(changed, np.split(wide[which], 3, axis=1)[k])

    for found, which in ((grad_x, 0), (hidden, 1)):
        expected = np.concatenate([of_gate(which, k) for k in range(3)], axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)
    _, z, _ = np.split(wide[0] + wide[1], 3, axis=1)
    np.testing.assert_allclose(grad_before, of_h * sigmoid(z), rtol=1e-5, atol=1e-6)


@pytest.mark.native_only  # the wasm libraries have no room for these
def test_float64(kernels: Kernels) -> None:
    """Results are those of the definitions; gradients those of float32, whose tests are above."""
    rows, columns = 3, 5
    sizes = {"rows": rows, "columns": columns}
    gates, x, hidden = (normal(rows, count * columns, seed=i) for i, count in enumerate((4, 3, 3)))
    before, later, grad = (normal(rows, columns, seed=i) for i in (3, 4, 5))
    found: dict[str, list[np.ndarray]] = {}
    for name, dtype in (("f32", np.float32), ("f64", np.float64)):
        own_gates, own_x, own_hidden, own_before, own_later, own_grad = (
            a.astype(dtype) for a in (gates, x, hidden, before, later, grad)
        )
        h, c, of_gru, grad_x = (np.zeros((rows, n * columns), dtype) for n in (1, 1, 1, 3))
        after, grad_c, grad_before = own_gates.copy(), own_grad.copy(), own_grad.copy()
        arguments = {"h": h, "c": c, "gates": after, "c_before": own_before}
        run_checked(kernels, f"lstm_cell_{name}", *arguments, **arguments, **sizes)
        arguments = {"gates": own_gates, "grad_c": grad_c}
        run_checked(
            kernels, f"lstm_cell_backward_{name}", *arguments, **arguments, c=c, c_before=own_before, later_h=own_later,
            **sizes,
        )  # fmt: skip
        given = {"x": own_x, "h_before": own_before}
        run_checked(kernels, f"gru_cell_{name}", "h", h=of_gru, hidden=own_hidden, **given, **sizes)
        arguments = {"grad_x": grad_x, "hidden": own_hidden, "grad_before": grad_before}
        run_checked(kernels, f"gru_cell_backward_{name}", *arguments, **arguments, **given, grad_h=own_later, **sizes)
        found[name] = [h, c, of_gru, own_gates, grad_c, grad_x, own_hidden, grad_before]
    wide_gates, wide_x, wide_hidden, wide_before = (a.astype(np.float64) for a in (gates, x, hidden, before))
    exact = (*lstm(wide_gates, wide_before), gru(wide_x, wide_hidden, wide_before))
    for ours, expected in zip(found["f64"], exact, strict=False):
        np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=1e-14)
    for ours, other in zip(found["f64"], found["f32"], strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-5)
