"""Cross entropy with its gradient, and AdamW, against definitions in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import INDEX_RANGE, SIZES, Kernels, aligned, unaligned

SETTINGS = {"rate": 3e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1}


def cross_entropy(logits: np.ndarray, targets: np.ndarray, ignored: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    wide = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    log_probability = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    kept, rows = targets != ignored, np.arange(len(targets))
    loss = np.where(kept, -log_probability[rows, np.where(kept, targets, 0)], 0)
    grad = np.exp(log_probability) * scale
    grad[rows[kept], targets[kept]] -= scale
    return loss, grad * kept[:, None]


@pytest.mark.parametrize("rows, columns", [(0, 3), (1, 1), (3, 4), (4, 31), (9, 33), (33, 512), (3, 32_000)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_cross_entropy(kernels: Kernels, rows: int, columns: int, dtype: type) -> None:
    logits = unaligned(normal(rows, columns, scale=4))
    targets = np.random.default_rng(8).integers(0, columns, rows, dtype)
    targets[1::3] = -100
    loss, grad = np.full(rows, np.nan, np.float32), np.full((rows, columns), np.nan, np.float32)
    arguments: dict[str, Any] = {
        "logits": logits,
        "targets": targets,
        "rows": rows,
        "columns": columns,
        "ignore_index": -100,
        "target_bytes": targets.itemsize,
        "scale": np.array([0.25], np.float32),
    }
    count, kept = np.full(1, np.nan, np.float32), int((targets != -100).sum())
    outputs = {"loss": loss, "grad_logits": grad, "count": count}
    run_checked(kernels, "cross_entropy_f32", *outputs, **outputs, **arguments)
    assert count[0] == kept
    expected_loss, expected_grad = cross_entropy(logits, targets, -100, 0.25 / max(kept, 1))
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(grad, expected_grad, rtol=5e-6, atol=5e-8)
    alone = np.full(rows, np.nan, np.float32)
    run_checked(kernels, "cross_entropy_f32", "loss", loss=alone, **arguments)
    assert alone.tobytes() == loss.tobytes()
    run_checked(kernels, "cross_entropy_f32", "grad_logits", grad_logits=logits, **arguments)
    assert logits.tobytes() == grad.tobytes()


def test_cross_entropy_is_stable(kernels: Kernels) -> None:
    logits = np.array([[3e4, -3e4, 0], [0, np.nan, 0], [-np.inf, 0, 0], [-np.inf, 0, 0]], np.float32)
    targets = np.array([1, 0, 0, 1], np.int32)
    loss, grad = np.empty(4, np.float32), np.empty((4, 3), np.float32)
    arguments: dict[str, Any] = {
        "logits": logits,
        "targets": targets,
        "rows": 4,
        "columns": 3,
        "ignore_index": -1,
        "target_bytes": 4,
        "scale": np.array([4], np.float32),  # as many as there are targets
    }
    run_checked(kernels, "cross_entropy_f32", "loss", "grad_logits", loss=loss, grad_logits=grad, **arguments)
    np.testing.assert_allclose(loss, np.array([6e4, np.nan, np.inf, np.log(2)], np.float32), rtol=1e-6)
    expected = [[1, -1, 0], [np.nan] * 3, [-1, 0.5, 0.5], [0, -0.5, 0.5]]
    np.testing.assert_allclose(grad, np.array(expected, np.float32), rtol=1e-6)


@pytest.mark.parametrize("wrong", [-1, 4, 2**31 - 1, 1 << 32])
def test_a_target_outside_writes_nothing(kernels: Kernels, wrong: int) -> None:
    logits, targets = normal(3, 4), np.array([0, 1, wrong])
    loss, grad = np.full(3, GUARD), np.full((3, 4), GUARD)
    arguments: dict[str, Any] = {
        "logits": logits,
        "targets": targets,
        "rows": 3,
        "columns": 4,
        "ignore_index": -100,
        "target_bytes": 8,
    }
    assert kernels.run("cross_entropy_f32", loss=loss, grad_logits=grad, **arguments) == INDEX_RANGE
    assert (loss == GUARD).all() and (grad == GUARD).all()


@pytest.mark.parametrize("place", [unaligned, aligned])
@pytest.mark.parametrize("count", [*SIZES, 10_007])
def test_adamw(kernels: Kernels, count: int, place: Callable[[np.ndarray], np.ndarray]) -> None:
    parameter, m, v = (place(x) for x in (normal(count), np.zeros(count, np.float32), np.zeros(count, np.float32)))
    p64, m64, v64 = parameter.astype(np.float64), np.zeros(count), np.zeros(count)
    rate, beta1, beta2, epsilon, decay = SETTINGS.values()
    for step in range(1, 6):
        grad = place(normal(count, seed=step, scale=0.1))
        numbers = np.array([*SETTINGS.values(), 1 - beta1**step, 1 - beta2**step])
        state = {"parameter": parameter, "m": m, "v": v}
        run_checked(kernels, "adamw_f32", *state, **state, grad=grad, numbers=numbers, count=count)
        m64 = beta1 * m64 + (1 - beta1) * grad
        v64 = beta2 * v64 + (1 - beta2) * grad.astype(np.float64) ** 2
        p64 = p64 - rate * decay * p64
        p64 = p64 - rate * (m64 / (1 - beta1**step)) / (np.sqrt(v64 / (1 - beta2**step)) + epsilon)
    np.testing.assert_allclose(parameter, p64, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(m, m64, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(v, v64, rtol=1e-5, atol=1e-9)


@pytest.mark.native_only  # the wasm libraries have no room for the kernel
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_nll_loss(kernels: Kernels, dtype: type) -> None:
    scores, targets = normal(9, 33), np.random.default_rng(8).integers(0, 33, 9).astype(dtype)
    targets[1::3] = -100
    kept, rows = targets != -100, np.arange(9)
    outputs = {"loss": np.full(9, np.nan, np.float32), "grad_scores": np.full((9, 33), np.nan, np.float32)}
    outputs["count"] = np.full(1, np.nan, np.float32)
    arguments: dict[str, Any] = {"scores": unaligned(scores), "targets": targets, "scale": np.array([3], np.float32)}
    arguments |= {"rows": 9, "columns": 33, "ignore_index": -100, "target_bytes": targets.itemsize}
    run_checked(kernels, "nll_loss_f32", *outputs, **outputs, **arguments)
    assert outputs["count"][0] == 6
    np.testing.assert_array_equal(outputs["loss"], np.where(kept, -scores[rows, np.where(kept, targets, 0)], 0))
    grad = np.zeros((9, 33), np.float32)
    grad[rows[kept], targets[kept]] = -0.5
    np.testing.assert_array_equal(outputs["grad_scores"], grad)
    del outputs["loss"]  # a gradient alone reads no scores, of which there may be fewer
    run_checked(kernels, "nll_loss_f32", *outputs, **outputs, **(arguments | {"scores": normal(1)}))
    np.testing.assert_array_equal(outputs["grad_scores"], grad)
    targets[0] = 33
    assert kernels.run("nll_loss_f32", **outputs, **arguments) == INDEX_RANGE


@pytest.mark.native_only  # the wasm libraries have no room for the kernel
@pytest.mark.parametrize("places", [1, 7, 16, 45])
def test_cross_entropy_of_planes(kernels: Kernels, places: int) -> None:
    logits = normal(2, 5, places, scale=4)
    targets = np.random.default_rng(8).integers(0, 5, (2, places))
    targets[:, 1::3] = -1
    outputs = {"loss": np.full((2, places), np.nan, np.float32), "grad_logits": np.full_like(logits, np.nan)}
    outputs["count"] = np.full(1, np.nan, np.float32)
    arguments: dict[str, Any] = {"logits": unaligned(logits), "targets": targets, "scale": np.array([3], np.float32)}
    arguments |= {"batch": 2, "classes": 5, "places": places, "ignore_index": -1, "target_bytes": 8}
    run_checked(kernels, "cross_entropy_planes_f32", *outputs, **outputs, **arguments)
    kept = int((targets >= 0).sum())
    assert outputs["count"][0] == kept
    rows = np.ascontiguousarray(logits.transpose(0, 2, 1)).reshape(-1, 5)
    loss, grad = cross_entropy(rows, targets.reshape(-1), -1, 3 / kept)
    np.testing.assert_allclose(outputs["loss"].reshape(-1), loss, rtol=1e-6, atol=2e-6)
    found = outputs["grad_logits"].transpose(0, 2, 1).reshape(-1, 5)
    np.testing.assert_allclose(found, grad, rtol=5e-6, atol=5e-7)
    targets[0, 0] = 5
    assert kernels.run("cross_entropy_planes_f32", **outputs, **arguments) == INDEX_RANGE
