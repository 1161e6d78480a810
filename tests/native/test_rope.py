"""Rotary embedding against complex multiplication in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, POSITION_RANGE, Kernels

POSITIONS = 40


def rope_table(head_dim: int) -> np.ndarray:
    angles = np.arange(POSITIONS)[:, None] * 10_000.0 ** (-np.arange(0, head_dim, 2) / head_dim)
    return np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32)


def rope(x: np.ndarray, table: np.ndarray, start: int, interleaved: bool) -> np.ndarray:
    """x (tokens, heads, head_dim)."""
    tokens, heads, dims = x.shape
    pairs = x.astype(np.float64).reshape(tokens, heads, dims // 2, 2)
    if not interleaved:
        pairs = x.astype(np.float64).reshape(tokens, heads, 2, dims // 2).swapaxes(-1, -2)
    turn = table[start : start + tokens, None].astype(np.float64)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * (turn[..., 0] + 1j * turn[..., 1])
    both = np.stack([turned.real, turned.imag], -1 if interleaved else -2)
    return both.reshape(tokens, heads, dims)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(
    "tokens, heads, dims", [(0, 2, 8), (1, 0, 8), (1, 6, 48), (3, 2, 2), (33, 3, 10), (4, 1, 66), (5, 2, 128)]
)
def test_rope(kernels: Kernels, tokens: int, heads: int, dims: int, interleaved: bool) -> None:
    table, x = rope_table(dims), normal(tokens, heads, dims)
    source = np.full((tokens, heads * dims + 3), GUARD)
    source[:, : heads * dims] = x.reshape(tokens, heads * dims)
    memory = np.full((tokens, heads * dims + 5), GUARD)
    sizes = {
        "texts": 1,
        "tokens": tokens,
        "heads": heads,
        "head_dim": dims,
        "rotated": dims,
        "positions": POSITIONS,
        "interleaved": int(interleaved),
    }
    strides = {"x_stride": source.shape[1], "y_stride": memory.shape[1]}
    position = np.array([4], np.int32)
    run_checked(kernels, "rope_f32", "y", y=memory, x=source, table=table, position=position, **sizes, **strides)
    expected = rope(x, table, 4, interleaved).reshape(tokens, heads * dims)
    np.testing.assert_allclose(memory[:, : heads * dims], expected, rtol=1e-6, atol=1e-6)
    assert (memory[:, heads * dims :] == GUARD).all()
    strides["y_stride"] = strides["x_stride"]
    run_checked(kernels, "rope_f32", "y", y=source, x=source, table=table, position=position, **sizes, **strides)
    assert source[:, : heads * dims].tobytes() == memory[:, : heads * dims].tobytes()


def test_without_position_it_starts_at_zero(kernels: Kernels) -> None:
    x, y = normal(3, 2, 8), np.empty((3, 2, 8), np.float32)
    sizes = {
        "texts": 1,
        "tokens": 3,
        "heads": 2,
        "head_dim": 8,
        "rotated": 8,
        "x_stride": 16,
        "y_stride": 16,
        "positions": POSITIONS,
        "interleaved": 1,
    }
    assert kernels.run("rope_f32", y=y, x=x, table=rope_table(8), **sizes) == OK
    np.testing.assert_allclose(y, rope(x, rope_table(8), 0, True), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "start, head_dim, code", [(-1, 8, POSITION_RANGE), (38, 8, POSITION_RANGE), (0, 7, BAD_ARGUMENT)]
)
def test_refusals_write_nothing(kernels: Kernels, start: int, head_dim: int, code: int) -> None:
    x, y = normal(3, 2, 8), np.full((3, 2, 8), GUARD)
    sizes = {
        "texts": 1,
        "tokens": 3,
        "heads": 2,
        "head_dim": head_dim,
        "rotated": head_dim,
        "x_stride": 16,
        "y_stride": 16,
        "positions": POSITIONS,
        "interleaved": 1,
    }
    position = np.array([start], np.int32)
    assert kernels.run("rope_f32", y=y, x=x, table=rope_table(8), position=position, **sizes) == code
    assert (y == GUARD).all()


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("rotated", [0, 2, 10, 16])
def test_each_text_has_its_position_and_other_columns_stay(kernels: Kernels, rotated: int, interleaved: bool) -> None:
    texts, tokens, heads, dims = 3, 2, 5, 17
    x, y = normal(texts * tokens, heads, dims), np.full((texts * tokens, heads, dims), GUARD)
    table, starts = rope_table(rotated), [7, 0, 38]
    expected = x.astype(np.float64)
    for text, start in enumerate(starts):
        rows = slice(text * tokens, (text + 1) * tokens)
        expected[rows, :, :rotated] = rope(x[rows, :, :rotated], table, start, interleaved)
    run_checked(kernels, "rope_f32", "y", y=y, x=x, table=table, position=np.array(starts, np.int32), texts=texts,
        tokens=tokens, heads=heads, head_dim=dims, rotated=rotated, x_stride=heads * dims, y_stride=heads * dims,
        positions=POSITIONS, interleaved=int(interleaved),
    )  # fmt: skip
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    assert y[:, :, rotated:].tobytes() == x[:, :, rotated:].tobytes()
