"""masked_attention and masked_attention_backward against the same formulas in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.emulated import EmulatedKernels
from tests.native.kernels import BAD_ARGUMENT, OK, TYPES, Kernels, from_bf16, to_bf16, unaligned

FLOAT32, FLOAT16, BFLOAT16, BOOL = (TYPES[name] for name in ("float32", "float16", "bfloat16", "bool"))
TOLERANCE = {FLOAT32: 1e-5, FLOAT16: 4e-3, BFLOAT16: 3e-2}
# batch, tokens, keys, heads, kv_heads, head_dim, value_dim
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 5, 7, 4, 2, 8, 8),
    (2, 70, 70, 4, 2, 33, 20),
    (1, 49, 90, 5, 1, 16, 48),
    (1, 7, 60, 3, 3, 300, 5),
]


def encode(x: np.ndarray, kind: int) -> np.ndarray:
    """float64 as the kernel wants it: float32, float16, the bits of bfloat16, or bool."""
    if kind == BOOL:
        return x.astype(np.bool_)
    return to_bf16(x) if kind == BFLOAT16 else x.astype(np.float16 if kind == FLOAT16 else np.float32)


def decode(x: np.ndarray, kind: int) -> np.ndarray:
    return (from_bf16(x) if kind == BFLOAT16 else x).astype(np.float64)


def visible(tokens: int, keys: int, before: int, after: int) -> np.ndarray:
    apart = np.arange(keys) - np.arange(tokens)[:, None]
    return (apart <= after) & (apart >= -before)


@dataclass
class Case:
    shape: tuple[int, ...]
    mask: np.ndarray | None = None  # broadcast to (batch, heads, tokens, keys): bool, or floats that are added
    kind: int = FLOAT32
    mask_kind: int = FLOAT32
    before: int = 1 << 40
    after: int = 1 << 40
    workers: int = 6
    softcap: float = 0.0
    inputs: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        batch, tokens, keys, heads, kv_heads, size, width = self.shape
        shapes = [
            (batch, tokens, heads, size), (batch, keys, kv_heads, size), (batch, keys, kv_heads, width),
            (batch, tokens, heads, width),
        ]  # fmt: skip
        self.inputs = [unaligned(encode(normal(*s, seed=i), self.kind)) for i, s in enumerate(shapes)]

    def arguments(self) -> dict[str, Any]:
        batch, tokens, keys, heads, kv_heads, size, width = self.shape
        names = ("batch", "tokens", "keys", "heads", "kv_heads", "head_dim", "value_dim")
        result: dict[str, Any] = dict(zip(names, self.shape, strict=True))
        for name, x in zip("qkv", self.inputs, strict=False):
            result |= {name: x, f"{name}_batch": x[0].size, f"{name}_token": x[0, 0].size}
        if self.mask is not None:
            mask_kind = BOOL if self.mask.dtype == np.bool_ else self.mask_kind
            stored = encode(self.mask, mask_kind)
            strides = np.broadcast_to(stored, (batch, heads, tokens, keys)).strides
            result |= {"mask": stored, "mask_type": mask_kind}
            for name, stride in zip(("batch", "head", "token", "key"), strides, strict=True):
                result[f"mask_{name}"] = stride // stored.itemsize
        columns, width = -(-keys // 24) * 24, -(-max(size, width) // 16) * 16
        space = np.full(
            self.workers * (4 * (columns + 48) * width + (144 if self.softcap else 96) * columns) + 64,
            np.nan,
            np.float32,
        )
        space[-64:] = GUARD
        scales = {"scale": size**-0.5, "softcap": self.softcap}
        sight = {"before": self.before, "after": self.after, "type": self.kind}
        plain = {"plain": int(self.mask is None and not self.softcap)}
        return result | sight | {"workspace": space, "workspaces": self.workers} | plain | scales

    def run(self, kernels: Kernels) -> list[np.ndarray]:
        """[y, grad_q, grad_k, grad_v] in float64, each from one worker and from several."""
        q, k, v, g = self.inputs
        y, grad_q, grad_kv = np.full_like(g, 7), np.full_like(q, 7), np.full(k.size + v.size, 7, k.dtype)
        arguments = self.arguments()
        run_checked(kernels, "masked_attention", "y", y=y, **arguments)
        grads = {"grad_q": grad_q, "grad_kv": grad_kv}
        run_checked(kernels, "masked_attention_backward", *grads, grad_y=g, **grads, **arguments)
        assert (arguments["workspace"][-64:] == GUARD).all(), "written past the workspace"
        found = (y, grad_q, grad_kv[: k.size].reshape(k.shape), grad_kv[k.size :].reshape(v.shape))
        return [decode(x, self.kind) for x in found]

    def expected(self) -> list[np.ndarray]:
        batch, tokens, keys, heads, kv_heads, size, width = self.shape
        q, k, v, g = (decode(x, self.kind) for x in self.inputs)
        k, v = (np.repeat(x, heads // kv_heads, axis=2) for x in (k, v))
        scores = np.einsum("bthd,bshd->bhts", q, k) * size**-0.5
        slant = np.full_like(scores, size**-0.5)
        if self.softcap:
            slant /= np.cosh(scores / self.softcap) ** 2
            scores = np.tanh(scores / self.softcap) * self.softcap
        if self.mask is not None and self.mask.dtype == np.bool_:
            scores = np.where(self.mask, scores, -np.inf)
        elif self.mask is not None:
            scores = scores + decode(encode(self.mask, self.mask_kind), self.mask_kind)
        scores[:, :, ~visible(tokens, keys, self.before, self.after)] = -np.inf
        largest = scores.max(-1, keepdims=True)
        p = np.exp(scores - np.where(largest == -np.inf, 0, largest))
        p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)  # a row that sees nothing: zeros
        d = np.einsum("bthd,bshd->bhts", g, v)
        d = p * (d - (p * d).sum(-1, keepdims=True)) * slant
        grad_k = np.einsum("bhts,bthd->bshd", d, q).reshape(batch, keys, kv_heads, -1, size).sum(3)
        grad_v = np.einsum("bhts,bthd->bshd", p, g).reshape(batch, keys, kv_heads, -1, width).sum(3)
        return [np.einsum("bhts,bshd->bthd", p, v), np.einsum("bhts,bshd->bthd", d, k), grad_k, grad_v]

    def check(self, kernels: Kernels) -> list[np.ndarray]:
        found = self.run(kernels)
        tolerance = TOLERANCE[self.kind]
        for x, exact in zip(found, self.expected(), strict=True):
            np.testing.assert_allclose(x, exact, rtol=10 * tolerance, atol=tolerance)
        return found


def random_bool(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) > 0.4


@pytest.mark.parametrize("kind", [FLOAT32, FLOAT16, BFLOAT16])
@pytest.mark.parametrize("shape", SHAPES)
def test_without_a_mask(kernels: Kernels, shape: tuple[int, ...], kind: int) -> None:
    Case(shape, kind=kind).check(kernels)


@pytest.mark.parametrize("kind", [FLOAT32, BFLOAT16])
@pytest.mark.parametrize("shape", SHAPES)
def test_padding_mask(kernels: Kernels, shape: tuple[int, ...], kind: int) -> None:
    """(batch, 1, 1, keys): the first entry is padded after, the others before."""
    mask = np.ones((shape[0], 1, 1, shape[2]), np.bool_)
    mask[0, ..., shape[2] * 2 // 3 + 1 :] = False
    mask[1:, ..., : shape[2] // 3] = False
    Case(shape, mask, kind=kind).check(kernels)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "mask_kind, lead",
    [(FLOAT32, ""), (FLOAT32, "bh"), (FLOAT16, "h"), (BFLOAT16, "b"), (BOOL, "bh"), (BOOL, "h"), (BOOL, "b")],
)
def test_full_mask(kernels: Kernels, shape: tuple[int, ...], mask_kind: int, lead: str) -> None:
    batch, tokens, keys, heads, *_ = shape
    size = (batch if "b" in lead else 1, heads if "h" in lead else 1, tokens, keys)
    mask = random_bool(*size) if mask_kind == BOOL else normal(*size, seed=9).astype(np.float64)
    Case(shape, mask, mask_kind=mask_kind).check(kernels)


def test_keys_that_do_not_lie_side_by_side(kernels: Kernels) -> None:
    shape = (2, 20, 30, 4, 2, 8, 8)
    case = Case(shape, np.ascontiguousarray(random_bool(1, 1, 20, 30)))
    turned = Case(shape, case.mask)
    arguments = turned.arguments()
    assert case.mask is not None
    arguments |= {"mask": np.ascontiguousarray(case.mask[0, 0].T), "mask_token": 1, "mask_key": 20}
    y = np.zeros_like(turned.inputs[3])
    assert kernels.run("masked_attention", y=y, **arguments) == OK
    np.testing.assert_array_equal(y, case.run(kernels)[0].astype(np.float32))


@pytest.mark.parametrize("before, after", [(0, 0), (5, 0), (1 << 40, -3), (20, 7), (1 << 40, 40), (-2, 60)])
@pytest.mark.parametrize("masked", [False, True])
def test_windows(kernels: Kernels, before: int, after: int, masked: bool) -> None:
    mask = random_bool(1, 1, 130, 150) if masked else None
    Case((1, 130, 150, 2, 1, 24, 24), mask, before=before, after=after).check(kernels)


@pytest.mark.native_only  # WebAssembly has none
@pytest.mark.parametrize("kind", [FLOAT32, FLOAT16, BFLOAT16])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("softcap", [0.7, 30.0])
def test_softcap(kernels: Kernels, softcap: float, masked: bool, kind: int) -> None:
    """Before the mask, in the scores and in their gradients; small ones saturate."""
    mask = random_bool(1, 1, 70, 60) if masked else None
    Case((2, 70, 60, 4, 2, 33, 20), mask, kind=kind, before=25, after=3, softcap=softcap).check(kernels)


@pytest.mark.parametrize("kind", [FLOAT32, FLOAT16])
def test_a_row_that_sees_nothing_is_zero(kernels: Kernels, kind: int) -> None:
    mask = random_bool(2, 1, 60, 50)
    mask[:, :, 7] = False
    mask[1] = False
    y, grad_q, grad_k, grad_v = Case((2, 60, 50, 2, 1, 16, 16), mask, kind=kind).check(kernels)
    assert (y[:, 7] == 0).all() and (grad_q[:, 7] == 0).all()
    assert (y[1] == 0).all() and (grad_k[1] == 0).all() and (grad_v[1] == 0).all()
    added = np.where(mask, 0.0, -np.inf)
    other = Case((2, 60, 50, 2, 1, 16, 16), added, kind=kind).check(kernels)
    assert all((a == b).all() for a, b in zip(other, (y, grad_q, grad_k, grad_v), strict=True))


def test_finite_minimum_of_all_keys_gives_equal_weights(kernels: Kernels) -> None:
    """As masks of the smallest number do: nothing is infinite."""
    mask = np.full((1, 1, 10, 20), float(np.finfo(np.float32).min))
    case = Case((1, 10, 20, 1, 1, 4, 4), mask)
    mean = case.inputs[2].mean(1, keepdims=True)
    np.testing.assert_allclose(case.run(kernels)[0], np.broadcast_to(mean, (1, 10, 1, 4)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [FLOAT32, FLOAT16, BFLOAT16])
@pytest.mark.parametrize("size, masked", [(16, False), (16, True), (100, False), (130, True)])
def test_columns_that_are_not_finite_stay_apart(kernels: Kernels, kind: int, size: int, masked: bool) -> None:
    """Of values, and of the gradients that come: only their own columns. Rows that do not see them may get NaN there
    (0 * NaN), but for those of CUDA."""
    rows, key = (150, 140) if size < 100 else (90, 80)  # in the last of several tiles
    mask = np.tri(rows, rows, dtype=bool)[None, None] if masked else None
    shape = (1, rows, rows, 2, 1, size, size)
    bad = {3: np.nan, 5: np.inf, size - 1: -np.inf}
    cuda = isinstance(kernels, EmulatedKernels)
    clean = Case(shape, mask, kind=kind, after=0).run(kernels)

    def run(of: int) -> list[np.ndarray]:
        case = Case(shape, mask, kind=kind, after=0)
        for column, number in bad.items():
            case.inputs[of][0, key, 0, column] = encode(np.array([number]), kind)[0]
        return case.run(kernels)

    def check(found: np.ndarray, expected: np.ndarray, see: slice, rest: slice) -> None:
        for column, number in bad.items():
            expected[:, see, :, column] = number
            if not cuda:
                expected[:, rest, :, column] = found[:, rest, :, column]
        np.testing.assert_array_equal(found, expected)

    seeing, before, seen, behind = slice(key, None), slice(key), slice(key + 1), slice(key + 1, None)
    y, grad_q, grad_k, grad_v = run(2)
    check(y, clean[0].copy(), seeing, before)
    np.testing.assert_array_equal(grad_v, clean[3])
    assert np.isnan(grad_q[:, seeing]).all() and np.isnan(grad_k[:, seen]).all()
    y, grad_q, grad_k, grad_v = run(3)
    np.testing.assert_array_equal(y, clean[0])
    gradients = clean[3].copy()
    check(grad_v, gradients, seen, behind)
    assert np.isnan(grad_q[:, key, 0]).all() and np.isfinite(np.delete(grad_q, key, 1)).all()
    assert np.isfinite(grad_q[:, key, 1]).all() and np.isnan(grad_k[:, seen]).all()


def test_fewer_workspaces_than_workers(kernels: Kernels) -> None:
    mask = random_bool(1, 4, 30, 30)
    results = [Case((2, 30, 30, 4, 2, 8, 8), mask, workers=workers).run(kernels) for workers in (1, 2, 6)]
    for other in results[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize(
    "wrong",
    [{"kv_heads": 0}, {"kv_heads": 3}, {"keys": 0}, {"workspaces": 0}, {"type": BOOL}, {"type": -1}, {"mask_type": -1},
     {"value_dim": 0}],
    ids=lambda wrong: str(wrong),
)  # fmt: skip
@pytest.mark.parametrize("kernel", ["masked_attention", "masked_attention_backward"])
def test_impossible_sizes_are_refused(kernels: Kernels, kernel: str, wrong: dict[str, int]) -> None:
    sizes = {"batch": 1, "tokens": 5, "keys": 5, "heads": 4, "kv_heads": 2, "head_dim": 4, "value_dim": 4}
    sizes |= {"type": FLOAT32, "mask_type": FLOAT32}
    assert kernels.run(kernel, **(sizes | {"workspaces": 1} | wrong)) == BAD_ARGUMENT


@pytest.mark.native_only
@pytest.mark.parametrize(
    "kind, tokens, keys, before, after",
    [
        (BFLOAT16, 260, 130, 1 << 40, 1 << 40),  # rows of two blocks, of the second one few; tiles that are not whole
        (FLOAT16, 150, 150, 70, 0),  # some tiles are seen whole by one warpgroup, partly by the other
        (BFLOAT16, 80, 3, 1, 0),  # rows that see nothing, and a warpgroup without rows
    ],
)
def test_by_pairs_of_warpgroups(
    kernels: Kernels, kind: int, tokens: int, keys: int, before: int, after: int
) -> None:  # fmt: skip
    """As masked_attention, with what the gradient reads of each query: the power of 2 of its sum, and 1 / sum."""
    if not isinstance(kernels, EmulatedKernels):
        return
    case = Case((1, tokens, keys, 2, 1, 128, 128), kind=kind, before=before, after=after)
    case.inputs = [x.copy() for x in case.inputs]  # aligned
    y, numbers = np.full_like(case.inputs[3], 7), np.full((2, 2, tokens), np.nan, np.float32)
    arguments = case.arguments() | {"workspaces": 2, "workspace": numbers}
    assert kernels.run("masked_attention_pairs", y=y, **arguments) == OK
    tolerance = TOLERANCE[kind]
    np.testing.assert_allclose(decode(y, kind), case.expected()[0], rtol=10 * tolerance, atol=tolerance)
    q, k = (decode(x, kind) for x in case.inputs[:2])
    scores = np.einsum("bthd,bshd->hts", q, np.repeat(k, 2, axis=2)) * 128**-0.5
    sums = np.where(visible(tokens, keys, before, after), np.exp(scores), 0).sum(-1)
    seen = sums > 0
    assert seen.any() and (numbers[0][~seen] == np.inf).all() and (numbers[1][~seen] == 0).all()
    np.testing.assert_allclose(numbers[0][seen], np.log2(sums[seen]), rtol=1e-4, atol=1e-4)
    for name, value in (("head_dim", 64), ("keys", 0), ("q_token", 257), ("plain", 0)):
        assert kernels.run("masked_attention_pairs", y=y, **(arguments | {name: value})) == BAD_ARGUMENT
