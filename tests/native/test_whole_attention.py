"""masked_attention and its gradient without a mask, for float32 whose tokens lie apart, against the same formulas in
float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import OK, TYPES, Kernels, unaligned

# batch, tokens, keys, heads, kv_heads, head_dim
SHAPES = [
    (1, 1, 1, 1, 1, 1),
    (2, 5, 5, 4, 2, 8),
    (2, 70, 70, 6, 2, 33),
    (1, 49, 90, 5, 1, 16),
    (3, 24, 24, 4, 2, 32),
    (1, 130, 130, 2, 2, 4),
    (1, 7, 11, 60, 1, 20),
    (1, 30, 50, 2, 1, 100),
]
OPEN_SHAPES = [(1, 3, 7, 4, 4, 6), (2, 50, 31, 4, 2, 48), (1, 1, 25, 2, 1, 3)]
SIZES = {"batch": 1, "tokens": 5, "keys": 5, "heads": 4, "kv_heads": 2, "head_dim": 4, "value_dim": 4}
CASES = [(shape, causal) for shape in SHAPES for causal in (1, 0)] + [(shape, 0) for shape in OPEN_SHAPES]


def workspace(keys: int, head_dim: int, workers: int) -> np.ndarray:
    """As kernels.h sizes it, full of NaN, with guards after."""
    keys, width = -(-keys // 24) * 24, -(-head_dim // 16) * 16
    memory = np.full(workers * (4 * (keys + 48) * width + 96 * keys) + 64, np.nan, np.float32)
    memory[-64:] = GUARD
    return memory


def heads_apart(x: np.ndarray, extra: int) -> tuple[np.ndarray, np.ndarray]:
    """(memory, view of x's values) with NaN between the tokens and after each batch entry."""
    batch, tokens, heads, size = x.shape
    memory = unaligned(np.full((batch, tokens + 1, heads * size + extra), np.nan, np.float32))
    view = memory[:, :tokens, : heads * size]
    view[...] = x.reshape(view.shape)
    return memory, view.reshape(x.shape)


@dataclass
class Case:
    shape: tuple[int, ...]
    causal: int = 1
    scale: float = 0.0
    workers: int = 6
    inputs: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        batch, tokens, keys, heads, kv_heads, size = self.shape
        self.scale = self.scale or size**-0.5
        shapes = [(batch, tokens, heads, size), (batch, keys, kv_heads, size), (batch, keys, kv_heads, size)]
        self.inputs = [normal(*shape, seed=seed) for seed, shape in enumerate([*shapes, shapes[0]])]

    def arguments(self) -> dict[str, object]:
        names = ("batch", "tokens", "keys", "heads", "kv_heads", "head_dim")
        result: dict[str, object] = dict(zip(names, self.shape, strict=True))
        for name, x, extra in zip("qkv", self.inputs, (5, 0, 3), strict=False):
            memory, _ = heads_apart(x, extra)
            result |= {name: memory, f"{name}_batch": memory[0].size, f"{name}_token": memory.shape[2]}
        tokens, keys, size = self.shape[1], self.shape[2], self.shape[5]
        sight = {"before": tokens, "after": keys - tokens if self.causal else keys, "type": TYPES["float32"]}
        space = {"workspaces": self.workers, "workspace": workspace(keys, size, self.workers)}
        return result | sight | space | {"value_dim": size, "mask_type": TYPES["float32"], "scale": self.scale}

    def run(self, kernels: Kernels) -> list[np.ndarray]:
        """[y, grad_q, grad_k, grad_v], each from one worker and from several."""
        q, k, v, g = self.inputs
        y, grad_q, grad_kv = np.full_like(q, GUARD), np.full_like(q, GUARD), np.full(2 * k.size, GUARD)
        arguments = self.arguments()
        run_checked(kernels, "masked_attention", "y", y=y, **arguments)
        gradients = {"grad_q": grad_q, "grad_kv": grad_kv}
        run_checked(kernels, "masked_attention_backward", *gradients, grad_y=g, **gradients, **arguments)
        space = arguments["workspace"]
        assert isinstance(space, np.ndarray) and (space[-64:] == GUARD).all(), "written past the workspace"
        return [y, grad_q, grad_kv[: k.size].reshape(k.shape), grad_kv[k.size :].reshape(v.shape)]

    def expected(self) -> list[np.ndarray]:
        batch, tokens, keys, heads, kv_heads, size = self.shape
        q, k, v, g = (x.astype(np.float64) for x in self.inputs)
        k, v = (np.repeat(x, heads // kv_heads, axis=2) for x in (k, v))
        scores = np.einsum("bthd,bshd->bhts", q, k) * self.scale
        if self.causal:
            scores[:, :, ~np.tri(tokens, keys, keys - tokens, dtype=bool)] = -np.inf
        with np.errstate(invalid="ignore"):
            p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        d = np.einsum("bthd,bshd->bhts", g, v)
        d = p * (d - (p * d).sum(-1, keepdims=True)) * self.scale
        by_head = np.einsum("bhts,bthd->bshd", d, q), np.einsum("bhts,bthd->bshd", p, g)
        grad_k, grad_v = (x.reshape(batch, keys, kv_heads, -1, size).sum(3) for x in by_head)
        return [np.einsum("bhts,bshd->bthd", p, v), np.einsum("bhts,bshd->bthd", d, k), grad_k, grad_v]


@pytest.mark.parametrize(("shape", "causal"), CASES)
def test_attention_and_its_gradients(kernels: Kernels, shape: tuple[int, ...], causal: int) -> None:
    case = Case(shape, causal)
    for found, exact in zip(case.run(kernels), case.expected(), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def test_large_scores_stay_finite(kernels: Kernels) -> None:
    case = Case((1, 60, 60, 4, 2, 24), scale=30.0)
    for found, exact in zip(case.run(kernels), case.expected(), strict=True):
        np.testing.assert_allclose(found, exact, rtol=5e-3, atol=5e-3)


def test_later_tokens_never_leak(kernels: Kernels) -> None:
    case = Case((1, 70, 70, 2, 1, 16))
    clean = case.run(kernels)
    q, k, v, g = case.inputs
    k[:, 40:], v[:, 40:] = 50.0, -1e6
    g[:, 40:] = 0
    changed = case.run(kernels)
    assert changed[0][:, :40].tobytes() == clean[0][:, :40].tobytes()
    assert changed[1][:, :40].tobytes() == clean[1][:, :40].tobytes()


@pytest.mark.parametrize("name", [0, 1, 2, 3])
def test_nan_reaches_what_depends_on_it(kernels: Kernels, name: int) -> None:
    """NaN in token 60 of the first kv head's inputs."""
    case = Case((2, 70, 70, 2, 2, 16))
    case.inputs[name][0, 60, 0, 3] = np.nan
    y, grad_q, grad_k, grad_v = case.run(kernels)
    for x in (y, grad_q, grad_k, grad_v):
        assert np.isfinite(x[1]).all() and np.isfinite(x[0, :, 1]).all()
    if name < 3:
        assert np.isnan(y[0, 60, 0]).any()
    assert np.isnan(grad_q[0, 60, 0]).any() and np.isnan(grad_k[0, 60, 0]).any()


def test_a_row_without_weight_is_nan(kernels: Kernels) -> None:
    case = Case((1, 20, 20, 1, 1, 8))
    case.inputs[0][:] = np.abs(case.inputs[0])
    case.inputs[1][0, :4] = -np.inf
    y = case.run(kernels)[0]
    assert np.isnan(y[0, :4]).all()
    np.testing.assert_allclose(y[0, 4:], case.expected()[0][0, 4:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", ["masked_attention", "masked_attention_backward"])
@pytest.mark.parametrize("empty", ["batch", "tokens", "heads"])
def test_nothing_to_attend(kernels: Kernels, kernel: str, empty: str) -> None:
    assert kernels.run(kernel, **(SIZES | {"workspaces": 1, empty: 0})) == OK
