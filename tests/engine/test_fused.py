"""Kernels against their definitions, and fused gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import capture, quant
from pyapp.engine.op import OPS
from pyapp.engine.ops.int8_product import int8_linear
from pyapp.engine.ops.kv_cache import row_bytes
from pyapp.nn import functional as F


@contextmanager
def definitions_only() -> Iterator[None]:
    """Runs every op with a definition by that definition."""
    claimed = {op: op.claim for op in OPS.values() if op.definition is not None}
    for op in claimed:
        op.claim = None
    try:
        yield
    finally:
        for op, claim in claimed.items():
            op.claim = claim


@contextmanager
def refusing_definitions() -> Iterator[None]:
    """Raises where an op of rows runs by its definition."""
    names = ("softmax", "log_softmax", "layer_norm", "rms_norm")
    named = [op for op in OPS.values() if op.name.lstrip("_").removesuffix("_backward") in names]
    meant = {op: op.definition for op in named}

    def refuse(*_: Any) -> Any:
        raise AssertionError("no kernel takes these arguments")

    for op in named:
        op.definition = refuse
    try:
        yield
    finally:
        for op, definition in meant.items():
            op.definition = definition


def normal(*shape: int, seed: int = 0) -> Tensor:
    return pyapp.from_numpy(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def int32(*values: int) -> Tensor:
    return pyapp.tensor(list(values), dtype="int32")


def _sight(*shape: int) -> Tensor:
    """A bool mask. Its second row, if there is one, masks every key."""
    mask = np.random.RandomState(7).rand(*shape) > 0.4
    if shape[-2] > 1:
        mask[..., 1, :] = False
    return pyapp.from_numpy(mask)


def _rotate_and_attend(qkv: Tensor) -> Tensor:
    qk = ops.rope(qkv.narrow(-2, 0, 6), TABLE)
    return ops.attention(qk.narrow(-2, 0, 4), qk.narrow(-2, 4, 2), qkv.narrow(-2, 6, 2))


def _half_mask(*shape: int) -> Tensor:
    """A float mask that hides some keys, but no row's own."""
    mask = np.random.RandomState(7).randn(*shape).astype(np.float32)
    return pyapp.from_numpy(np.where((mask < 1) | np.eye(*shape[-2:], dtype=bool), mask, -np.inf).astype(np.float32))


TABLE = ops.rope_table(16, 8)
SLOPES = pyapp.tensor([0.5, 0.25, 0.125, 0.0625])
CASES: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "linear": (ops.linear, [normal(5, 33), normal(7, 33)]),
    "linear_one_row": (ops.linear, [normal(1, 64), normal(17, 64)]),
    "linear_bias": (ops.linear, [normal(2, 3, 12), normal(9, 12), normal(9)]),
    "linear_residual": (lambda x, w, r: ops.linear(x, w, residual=r), [normal(4, 12), normal(9, 12), normal(4, 9)]),
    "linear_bias_and_residual": (
        lambda x, w, b, r: ops.linear(x, w, b, r.permute(1, 0)),
        [normal(4, 12), normal(9, 12), normal(9, seed=1), normal(9, 4, seed=2)],
    ),
    "linear_residual_of_one_row": (
        lambda x, w, r: ops.linear(x, w, residual=r.expand(4, 9)),
        [normal(4, 12), normal(9, 12), normal(1, 9, seed=2)],
    ),
    "linear_rows_apart": (lambda x, w: ops.linear(x[:, 3:15], w), [normal(4, 20), normal(9, 12)]),
    "linear_nothing": (ops.linear, [normal(0, 12), normal(9, 12)]),
    "rms_norm": (lambda x, w: ops.rms_norm(x, w, 1e-5), [normal(3, 5, 31), normal(31, seed=1)]),
    "softmax": (lambda x: x.softmax(-1), [normal(4, 33)]),
    "log_softmax": (lambda x: x.log_softmax(-1), [normal(4, 33)]),
    "silu_mul": (ops.silu_mul, [normal(3, 22)]),
    "silu": (lambda x: x.silu(), [normal(3, 22)]),
    "rope": (lambda x: ops.rope(x, TABLE, int32(5)), [normal(3, 4, 8)]),
    "linear_scan": (lambda a, b: ops.linear_scan(a.sigmoid(), b), [normal(2, 7, 5), normal(2, 7, 5, seed=1)]),
    "linear_scan_begun": (
        lambda a, b, s: ops.linear_scan(a.sigmoid(), b, s, True),
        [normal(2, 5, 3, 4), normal(2, 5, 3, 4, seed=1), normal(2, 3, 4, seed=2)],
    ),
    "rope_halves": (lambda x: ops.rope(x, TABLE, interleaved=False), [normal(3, 4, 8)]),
    "rope_batch": (lambda x: ops.rope(x, TABLE), [normal(2, 3, 4, 8)]),
    "rope_part": (lambda x: ops.rope(x, TABLE, int32(5)), [normal(3, 4, 11)]),
    "rope_part_halves": (lambda x: ops.rope(x, TABLE, interleaved=False), [normal(2, 3, 4, 11)]),
    "rope_positions": (lambda x: ops.rope(x, TABLE, int32(5, 0, 15), False), [normal(3, 4, 8)]),
    "rope_positions_of_a_batch": (
        lambda x: ops.rope(x, TABLE, int32(5, 0, 15, 1, 2, 3).reshape(2, 3)),
        [normal(2, 3, 4, 10)],
    ),
    "attention": (ops.attention, [normal(2, 5, 4, 8), normal(2, 5, 2, 8), normal(2, 5, 2, 8, seed=3)]),
    "attention_open": (
        lambda q, k, v: ops.attention(q, k, v, causal=False),
        [normal(1, 3, 4, 6), normal(1, 7, 4, 6), normal(1, 7, 4, 6)],
    ),
    "attention_long": (ops.attention, [normal(2, 70, 4, 8), normal(2, 70, 2, 8, seed=1), normal(2, 70, 2, 8, seed=3)]),
    "attention_later_keys": (
        ops.attention,
        [normal(1, 5, 2, 8), normal(1, 9, 1, 8, seed=1), normal(1, 9, 1, 8, seed=3)],
    ),
    "attention_few_rows": (  # in torch's layout, whose keys lie as in a cache
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [normal(2, 3, 5, 8), normal(2, 3, 5, 8, seed=1), normal(2, 3, 5, 8, seed=3)],
    ),
    "attention_one_row_of_cache": (
        lambda q, cache: F.scaled_dot_product_attention(q, cache[:, :, :6], cache[:, :, 1:7], enable_gqa=True),
        [normal(2, 4, 1, 8), normal(2, 2, 9, 8, seed=1)],
    ),
    "attention_values_of_one_feature": (  # the transposed gradient is dense, with a stride of its own there
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v).mT,
        [normal(2, 2, 3, 8), normal(2, 2, 5, 8, seed=1), normal(2, 2, 5, 1, seed=3)],
    ),
    "attention_one_row_of_joined_queries": (  # a token of each of 3 texts, whose query, key and value lie together
        lambda qkv, keys: ops.attention(qkv.narrow(2, 0, 2), keys.transpose(1, 2), keys.transpose(1, 2)),
        [normal(3, 1, 6, 8), normal(3, 2, 6, 8, seed=1)],
    ),
    "batch_norm_in_evaluation": (
        lambda x, w, b: F.batch_norm(x, ops.arange(3.0, device=x.device), ops.full((3,), 2.0, device=x.device), w, b),
        [normal(2, 3, 4, 5), normal(3, seed=1), normal(3, seed=2)],
    ),
    "attention_slices": (
        lambda x: ops.attention(x[:, :, :4], x.narrow(2, 4, 2), x.narrow(2, 6, 2)),
        [normal(2, 70, 8, 8)],
    ),
    "attention_as_in_llama": (
        lambda x: _rotate_and_attend(x.reshape(2, 16, 8, 8)),
        [normal(2, 16, 64)],
    ),
    "attention_window": (
        lambda q, k, v: ops.attention(q, k, v, window=3),
        [normal(2, 9, 4, 8), normal(2, 11, 2, 8, seed=1), normal(2, 11, 2, 5, seed=3)],
    ),
    "attention_window_both_sides": (
        lambda q, k, v: ops.attention(q, k, v, False, window=(2, 1)),
        [normal(1, 9, 2, 8), normal(1, 9, 2, 8, seed=1), normal(1, 9, 2, 8, seed=3)],
    ),
    "attention_soft_cap": (
        lambda q, k, v: ops.attention(q, k, v, scale=0.5, window=4, softcap=2.0),
        [normal(2, 5, 4, 8), normal(2, 7, 2, 8, seed=1), normal(2, 7, 2, 8, seed=3)],
    ),
    "attention_slopes": (
        lambda q, k, v: ops.attention(q, k, v, slopes=SLOPES.to(q.device)),
        [normal(2, 5, 4, 8), normal(2, 7, 2, 8, seed=1), normal(2, 7, 2, 8, seed=3)],
    ),
    "attention_slopes_and_mask": (
        lambda q, k, v: ops.attention(q, k, v, slopes=SLOPES.to(q.device), mask=_sight(2, 1, 5, 5).to(q.device)),
        [normal(2, 5, 4, 8), normal(2, 5, 2, 8, seed=1), normal(2, 5, 2, 8, seed=3)],
    ),
    "attention_sinks": (
        lambda q, k, v, sinks: ops.attention(q, k, v, window=4, softcap=2.0, sinks=sinks),
        [normal(2, 5, 4, 8), normal(2, 7, 2, 8, seed=1), normal(2, 7, 2, 8, seed=3), normal(4, seed=4)],
    ),
    "attention_sinks_and_mask": (
        lambda q, k, v, sinks: ops.attention(q, k, v, sinks=sinks, mask=_sight(2, 1, 5, 5).to(q.device)),
        [normal(2, 5, 4, 8), normal(2, 5, 2, 8, seed=1), normal(2, 5, 2, 8, seed=3), normal(4, seed=4)],
    ),
    "attention_mask": (
        lambda q, k, v: ops.attention(q, k, v, False, mask=_half_mask(1, 4, 5, 7).to(q.device, q.dtype)),
        [normal(2, 5, 4, 8), normal(2, 7, 4, 8, seed=1), normal(2, 7, 4, 12, seed=3)],
    ),
    "linear_and_relu": (ops.linear_activated, [normal(2, 5, 8), normal(6, 8, seed=1), normal(6, seed=2)]),
    "linear_and_gelu": (
        lambda x, w: ops.linear_activated(x.t(), w, None, "gelu_tanh"),
        [normal(8, 11), normal(6, 8, seed=1)],
    ),
    "masked_attention": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, _sight(2, 1, 5, 7).to(q.device)),
        [normal(2, 4, 5, 8), normal(2, 4, 7, 8, seed=1), normal(2, 4, 7, 3, seed=2)],
    ),
    "masked_attention_padding": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, _sight(2, 1, 1, 60).to(q.device), enable_gqa=True),
        [normal(2, 4, 55, 8), normal(2, 2, 60, 8, seed=1), normal(2, 2, 60, 8, seed=2)],
    ),
    "masked_attention_added": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, normal(4, 5, 7, seed=9).to(q.device, q.dtype)),
        [normal(4, 5, 8), normal(4, 7, 8, seed=1), normal(4, 7, 8, seed=2)],
    ),
    "masked_attention_soft_cap": (
        lambda q, k, v: ops.scaled_dot_product_attention(
            q, k, v, _sight(2, 1, 5, 60).to(q.device), softcap=1.5, enable_gqa=True
        ),
        [normal(2, 4, 5, 8), normal(2, 2, 60, 8, seed=1), normal(2, 2, 60, 8, seed=2)],
    ),
    "masked_attention_window": (
        lambda x: ops.scaled_dot_product_attention(x, x, x, is_causal=True, window=(3, -1)),
        [normal(1, 2, 70, 16)],
    ),
    "attention_more_rows_than_keys": (
        lambda q, k: ops.attention(q, k, k),
        [normal(2, 7, 2, 8), normal(2, 4, 2, 8, seed=1)],
    ),
    "slices_that_overlap": (
        lambda x: x[:, 1:5] * x[:, 2:6] + x[:, ::2][:, :4] * x.narrow(1, 0, 4) + x[:, :4],
        [normal(3, 9)],
    ),
    "batch_norm_of_rows": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [normal(6, 5), normal(5), normal(5)],
    ),
    "batch_norm_of_small_maps": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [normal(3, 5, 2, 2), normal(5), normal(5)],
    ),
    "cross_entropy": (lambda x: ops.cross_entropy(x, int32(1, 0, 8, -100, 3)), [normal(5, 9)]),
    "cross_entropy_int64": (
        lambda x: ops.cross_entropy(x.permute(1, 0), int32(1, 0, 4, 7, 3).to("int64"), 7),
        [normal(5, 5)],
    ),
    "cross_entropy_of_places": (
        lambda x: F.cross_entropy(x, int32(*(i * i % 3 for i in range(34))).reshape(2, 17), ignore_index=1),
        [normal(2, 4, 17)],
    ),
    "weighted_cross_entropy": (
        lambda x: F.cross_entropy(
            x, int32(1, 0, 8, -100, 3), pyapp.arange(9.0, device=x.device) + 0.5, label_smoothing=0.1
        ),
        [normal(5, 9)],
    ),
    "smoothed_cross_entropy": (
        lambda x: F.cross_entropy(x, int32(1, 0, 2, 2, 0, 1).reshape(2, 3), ignore_index=0, label_smoothing=0.2),
        [normal(2, 3, 3)],
    ),
    "cross_entropy_rows": (
        lambda x: F.cross_entropy(x, int32(1, 0, 8, -100, 3), reduction="none", label_smoothing=0.1),
        [normal(5, 9)],
    ),
    "nll_loss": (lambda x: F.nll_loss(x, int32(1, 0, 8, -100, 3)), [normal(5, 9)]),
    "nll_loss_of_places": (
        lambda x: F.nll_loss(x, int32(1, 0, 2, 2, 0, 1).reshape(2, 3), ignore_index=0),
        [normal(2, 4, 3)],
    ),
    "embedding_bag": (
        lambda w: (
            F.embedding_bag(int32(2, 0, 2, 5, 1), w, int32(0, 2, 2))
            + F.embedding_bag(int32(2, 0, 2, 5, 1, 1).reshape(3, 2), w, mode="sum")
        ),
        [normal(6, 12)],
    ),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=True), [normal(2, 3, 5, 7), normal(2, 4, 3, 2)]),
    "grid_sample_mirrored": (
        lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False),
        [normal(1, 2, 4, 5), normal(1, 5, 14, 2)],
    ),
    "grid_sample_at_borders": (
        lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False),
        [normal(1, 2, 4, 5), normal(1, 3, 5, 2)],
    ),
    "cdist": (lambda a, b: pyapp.cdist(a, b) + pyapp.cdist(a, b, 1.0), [normal(2, 5, 19), normal(2, 3, 19, seed=1)]),
    "pdist": (pyapp.pdist, [normal(6, 7)]),
    "exp": (lambda x: x.exp(), [normal(3, 11)]),
    "embedding": (lambda w: ops.embedding(w, int32(2, 0, 2, 5)), [normal(6, 12)]),
    "layer_norm": (ops.layer_norm, [normal(3, 5, 31), normal(31, seed=1), normal(31, seed=2)]),
    "layer_norm_rows_apart": (
        lambda x, w, b: ops.layer_norm(x[:, 3:15], w, b, 1e-3),
        [normal(4, 20), normal(12, seed=1), normal(12, seed=2)],
    ),
    "softmax_first": (lambda x: x.softmax(0) + x.permute(1, 0, 2).softmax(1), [normal(5, 5, 33)]),
    "log_softmax_middle": (lambda x: x.log_softmax(1) + x.log_softmax(-1), [normal(3, 21, 5)]),
    "gelu": (ops.gelu, [normal(3, 22)]),
    "gelu_turned": (lambda x: ops.gelu(x.permute(0, 2, 1)), [normal(2, 3, 22)]),
    "gelu_with_gaps": (lambda x: ops.gelu(x[:, 3:15]), [normal(4, 20)]),
    "gelu_tanh": (lambda x: ops.gelu(x, "tanh"), [normal(3, 22)]),
    "relu": (lambda x: ops.relu(x.permute(1, 0, 2)) * x.relu().permute(1, 0, 2), [normal(3, 5, 33)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), [normal(2, 3, 7, 8)]),
    "max_pool1d_apart": (lambda x: F.max_pool1d(x, 3, 1, 1, 2, True), [normal(2, 3, 9)]),
    "max_pool3d_of_columns": (lambda x: F.max_pool3d(x.permute(1, 0, 2, 3, 4), 2), [normal(3, 2, 4, 5, 6)]),
    "places_of_max": (lambda x: F.max_pool2d(x, 2, return_indices=True)[1] + x[0, 0, 0, 0], [normal(2, 3, 4, 6)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1, True), [normal(2, 3, 6, 8)]),
    "avg_pool1d_inside": (lambda x: F.avg_pool1d(x, 4, 3, 2, True, False), [normal(2, 3, 9)]),
    "avg_pool3d_divided": (lambda x: F.avg_pool3d(x, 2, divisor_override=5), [normal(2, 4, 5, 6)]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), [normal(2, 3, 7, 33)]),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), [normal(2, 3, 7, 5)]),
    "conv1d": (
        lambda x, w, b: ops.conv1d(x, w, b, 1, 1),
        [normal(3, 5, 31), normal(7, 5, 3, seed=1), normal(7, seed=2)],
    ),
    "conv1d_step": (
        lambda x, w, b: ops.conv1d(x.permute(0, 2, 1), w, b, (2,), (1,)),
        [normal(2, 30, 4), normal(6, 4, 3, seed=1), normal(6, seed=2)],
    ),
    "conv1d_of_one_window": (lambda x, w: ops.conv1d(x, w, padding=2), [normal(1, 3, 1), normal(2, 3, 5, seed=1)]),
    "conv1d_far_steps": (lambda x, w: ops.conv1d(x, w, None, 5), [normal(2, 3, 14), normal(2, 3, 2, seed=1)]),
    "conv1d_then_gelu": (
        lambda x, v, w: ops.gelu(ops.conv1d(ops.gelu(ops.conv1d(x, v, None, 1, 1)), w, None, 2, 1)).permute(0, 2, 1),
        [normal(2, 4, 12), normal(6, 4, 3, seed=1), normal(5, 6, 3, seed=2)],
    ),
    "sum_first": (lambda x: x.sum((0, 1)) + x.sum(0, keepdim=True).sum(1), [normal(5, 7, 33)]),
    "sum_last": (lambda x: x.sum(-1, keepdim=True) + x.sum((-1, -2), keepdim=True) + x.sum(), [normal(5, 7, 33)]),
    "var": (lambda x: x.var(-1, keepdim=True) + x.var((0, 2), 0, keepdim=True) + x.std(), [normal(5, 7, 33)]),
    "stack": (lambda x, y: pyapp.stack([x, y.t(), x], 1), [normal(3, 4), normal(4, 3)]),
    "topk": (lambda x: x.topk(3, 1).values + x.topk(3, 0, largest=False).values.sum(), [normal(5, 300)]),
}
# The page has no kernel for them: NumPy computes them, for the CPU alone.
TRANSFORMS: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "fft": (
        lambda x: pyapp.view_as_real(pyapp.fft.ifft2(pyapp.fft.fft2(x)[:, :, 1:], norm="ortho")),
        [normal(2, 6, 10)],
    ),
    "rfft": (
        lambda x: pyapp.fft.irfft(pyapp.fft.rfft(x, dim=1, norm="forward")[:, 1:], 10, 1),
        [normal(2, 12, 3)],
    ),
}
# Of whole numbers, which have no gradients.
PLACES: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "indexed_places": (
        lambda q, w, keys: ops.indexed_places(q, w, keys, int32(2), 4).sort()[0],
        [normal(5, 3, 8), normal(5, 3, seed=1), normal(1, 9, 8, seed=2)],
    ),
    "indexed_places_in_blocks": (
        lambda q, w, keys: ops.indexed_places(q, w, keys, int32(5), 4, int32(2, 0, 1).reshape(1, 3)).sort()[0],
        [normal(5, 3, 8), normal(5, 3, seed=1), normal(3, 1, 4, 8, seed=2)],
    ),
}
EVERY = CASES | TRANSFORMS


@pytest.mark.parametrize("name", EVERY | PLACES)
def test_kernel_equals_definition(name: str) -> None:
    function, inputs = (EVERY | PLACES)[name]
    fast = function(*inputs)
    with definitions_only():
        meant = function(*inputs)
    assert fast.shape == meant.shape
    np.testing.assert_allclose(fast.numpy(), meant.numpy(), rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("inputs", [1, 32, 37, 200])
def test_int8_linear_kernel_equals_definition(inputs: int) -> None:
    x, weight = ((normal(*shape) * 40).clamp(-127, 127).to("int8") for shape in ((2, 3, inputs), (9, inputs)))
    fast = int8_linear(x, quant.pack_int8(weight))
    with definitions_only():
        np.testing.assert_array_equal(fast.numpy(), int8_linear(x, quant.pack_int8(weight)).numpy())


@pytest.mark.parametrize("name", EVERY)
def test_gradient_equals_definition(name: str) -> None:
    """The fused gradient, and the definition's in float64."""
    function, inputs = EVERY[name]
    results = []
    for convert in (lambda x: x.clone(), lambda x: x.double()):
        leaves = [convert(x).requires_grad_() for x in inputs]
        y = function(*leaves)
        if y.numel():
            (y * pyapp.from_numpy(np.asarray(np.random.RandomState(5).randn(*y.shape))).to(y.dtype)).sum().backward()
            results.append([leaf.grad.numpy() for leaf in leaves if leaf.grad is not None])
    if results:
        assert len(results[0]) == len(results[1]) == len(inputs)
        for fast, exact in zip(*results, strict=True):
            np.testing.assert_allclose(fast, exact, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", [n for n in EVERY if n not in ("linear_nothing",)])
def test_gradient_by_differences(name: str) -> None:
    """Directional derivatives in float64, central differences."""
    function, inputs = EVERY[name]
    random = np.random.RandomState(11)
    leaves = [x.double().requires_grad_() for x in inputs]
    y = function(*leaves)
    weights = pyapp.from_numpy(np.asarray(random.randn(*y.shape))).double()
    (y * weights).sum().backward()
    directions = [random.randn(*x.shape) for x in inputs]

    def along(step: float) -> float:
        moved = [
            pyapp.from_numpy(x.numpy().astype("float64") + step * d) for x, d in zip(inputs, directions, strict=True)
        ]
        return float((function(*moved) * weights).sum().item())

    expected = (along(1e-5) - along(-1e-5)) / 2e-5
    found = sum(float((leaf.grad.numpy() * d).sum()) for leaf, d in zip(leaves, directions, strict=True))
    assert found == pytest.approx(expected, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("start", [0, 3])
def test_cached_attention_equals_attention(tokens: int, start: int) -> None:
    """Token by token over a cache is the same as all at once."""
    heads, kv, size, total = 4, 2, 8, start + tokens
    qkv = normal(total, (heads + 2 * kv) * size)
    keys, values = pyapp.zeros(kv, 16, size), pyapp.zeros(kv, 16, size)
    if start:
        ops.cached_self_attention(qkv[:start].clone(), TABLE, int32(0), keys, values)
    found = ops.cached_self_attention(qkv[start:].clone(), TABLE, int32(start), keys, values)
    x = qkv.reshape(1, total, heads + 2 * kv, size)
    qk = ops.rope(x[:, :, : heads + kv], TABLE)
    whole = ops.attention(qk[:, :, :heads], qk[:, :, heads:], x[:, :, heads + kv :])
    np.testing.assert_allclose(found.numpy(), whole.numpy()[0, start:].reshape(tokens, -1), rtol=1e-5, atol=1e-6)


def _cached(name: str, texts: int | None, kv: int, size: int) -> list[Tensor]:
    """Two caches of 16 tokens of each text, with something in them."""
    shape = (*([] if texts is None else [texts]), kv, 16, size)
    if name != "q8_0":
        return [normal(*shape, seed=seed).to(name) for seed in (4, 5)]
    lead, position = shape[:-3], int32(*([0] * (texts or 1)))
    caches = [pyapp.zeros(*lead, kv, 16, row_bytes(size), dtype="uint8") for _ in range(2)]
    for cache, seed in zip(caches, (4, 5), strict=True):
        ops.cache_write(cache, normal(*lead, 16, kv, size, seed=seed), position)
    return caches


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "halves": {"interleaved": False, "scale": 0.7},
    "window": {"window": 3},
    "soft_cap": {"softcap": 1.5, "window": 20},
    "slopes": {"slopes": SLOPES, "table": None},
    "sinks": {"sinks": normal(4, seed=6), "window": 5},
}


@pytest.mark.parametrize("texts", [None, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "q8_0"])
@pytest.mark.parametrize("name", OPTIONS)
def test_cached_self_attention_kernel_equals_definition(name: str, dtype: str, texts: int | None) -> None:
    options = {"table": TABLE, **OPTIONS[name]}
    table = options.pop("table")
    size, heads, kv = 40 if name == "window" else 8, 4, 2  # with a window, a part of each head is rotated
    lead, starts = ([], [9]) if texts is None else ([texts], [9, 0, 13])
    qkv = normal(*lead, 3, (heads + 2 * kv) * size)
    results = []
    for only in (False, True):
        caches = _cached(dtype, texts, kv, size)
        with definitions_only() if only else _nothing():
            y = ops.cached_self_attention(qkv.clone(), table, int32(*starts), *caches, head_dim=size, **options)
        results.append([y.numpy(), *(c.numpy() for c in caches)])
    (fast, *written), (meant, *expected) = results
    # The definition writes its caches by the same kernel; a rotation's last bit may round to another int8 or half.
    np.testing.assert_allclose(fast, meant, rtol=1e-5, atol=1e-6 if dtype == "float32" else 2e-2)
    for ours, theirs in zip(written, expected, strict=True):
        if dtype == "q8_0":
            apart = np.abs(ours[..., :size].view(np.int8).astype(int) - theirs[..., :size].view(np.int8))
            assert apart.max() <= 1 and (apart > 0).mean() < 0.02
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5 if dtype == "float32" else 1e-3, atol=1e-6)


@pytest.mark.parametrize("texts", [None, 3])
@pytest.mark.parametrize("dtype", ["float32", "q8_0"])
def test_attention_over_blocks(dtype: str, texts: int | None) -> None:
    """Paged caches give what dense ones do, by the kernels and by the definition."""
    size, heads, kv, options = 8, 4, 2, {"window": 7, "slopes": SLOPES}
    lead, starts = ([], [9]) if texts is None else ([texts], [9, 0, 13])
    qkv, position = normal(*lead, 3, (heads + 2 * kv) * size), int32(*starts)
    table = int32(*((number * 5 + 3) % 12 for number in range(4 * (texts or 1)))).reshape(-1, 4)  # blocks of 4 tokens
    dense = _cached(dtype, texts, kv, size)
    blocks = [pyapp.zeros(12, kv, 4, cache.shape[-1], dtype=cache.dtype) for cache in dense]
    for memory, cache in zip(blocks, dense, strict=True):
        for text, row in enumerate(table.tolist()):
            for part, block in enumerate(row):
                own = cache if texts is None else cache[text]
                memory[block].copy_(own[:, 4 * part : 4 * part + 4])
    expected = ops.cached_self_attention(qkv.clone(), TABLE, position, *dense, head_dim=size, **options).numpy()
    for only in (False, True):
        memory = [cache.clone() for cache in blocks]
        with definitions_only() if only else _nothing():
            y = ops.cached_self_attention(
                qkv.clone(), TABLE, position, *memory, head_dim=size, block_table=table, **options
            )
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6 if dtype == "float32" else 2e-2)
    for text, row in enumerate(table.tolist()):
        own = [cache if texts is None else cache[text] for cache in dense]
        found = [pyapp.stack([cache[block] for block in row], 1).reshape(own[0].shape) for cache in memory]
        for ours, theirs in zip(found, own, strict=True):
            apart = np.abs(ours.numpy().astype(float) - theirs.numpy())[..., :size]
            assert apart.max() <= (1e-5 if dtype == "float32" else 255) and (apart > 1e-5).mean() < 0.02
    with pytest.raises(IndexError):
        ops.cache_write(memory[0], normal(*lead, 3, kv, size), int32(*([14] * (texts or 1))), table)
    with pytest.raises(ValueError, match="block table"):
        ops.cached_attention(normal(*lead, 3, heads, size), *memory, position, block_table=table.reshape(-1, 2))


@pytest.mark.parametrize("dtype", ["float32", "float16", "q8_0"])
def test_cache_write_kernel_equals_numpy(dtype: str) -> None:
    x, written = normal(2, 3, 2, 40), []
    table = int32(3, 0, 1, 2).reshape(2, 2)  # as if each text had two blocks of 16
    for claim in (OPS["cache_write"].claim, None):
        cache, blocks = _cached(dtype, 2, 2, 40)[0], _cached(dtype, 4, 2, 40)[0]
        kept, OPS["cache_write"].claim = OPS["cache_write"].claim, claim
        try:
            ops.cache_write(cache, x, int32(2, 13))
            ops.cache_write(blocks, x, int32(15, 13), table)
        finally:
            OPS["cache_write"].claim = kept
        written.append(np.concatenate([cache.numpy().ravel(), blocks.numpy().ravel()]))
    np.testing.assert_array_equal(*written)


@pytest.mark.parametrize("dtype, error", [("float16", 2e-3), ("q8_0", 3e-2)])
def test_small_caches_are_nearly_exact(dtype: str, error: float) -> None:
    """Beside a float32 cache, for numbers of size one."""
    qkv, found = normal(16, 8 * 64), []
    for kind in ("float32", dtype):
        caches = _cached(kind, None, 2, 64)
        found.append(ops.cached_self_attention(qkv.clone(), None, int32(0), *caches, head_dim=64).numpy())
    apart = np.abs(found[1] - found[0]).max()
    assert 0 < apart < error


@pytest.mark.parametrize("texts, tokens", [(None, 11), (2, 11), (3, 1)])
def test_cached_attention_by_the_rows_of_whole_attention(texts: int | None, tokens: int) -> None:
    """With every option at once, each row of a cache sees what it sees in the whole text. Heads lie before tokens, as
    in torch: of one token that is dense, with a stride of its own between tokens.
    """
    lead = [] if texts is None else [texts]
    q, k, v = (normal(*lead, n, tokens, 8, seed=i).transpose(-3, -2) for i, n in enumerate((4, 2, 2)))
    caches = [pyapp.zeros(*lead, 2, 12, 8) for _ in range(2)]
    zeros = int32(*([0] * (texts or 1)))
    for cache, x in zip(caches, (k, v), strict=True):
        ops.cache_write(cache, x, zeros)
    options: dict[str, Any] = {"scale": 0.4, "window": 5, "softcap": 2.0, "slopes": SLOPES, "sinks": normal(4, seed=3)}
    batch = [t if texts else t.unsqueeze(0) for t in (q, k, v)]
    expected = ops.attention(*batch, **options).numpy().reshape(q.shape)
    found = ops.cached_attention(q, *caches, zeros, **options).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@pytest.mark.parametrize("position", [-1, 14, 16])
def test_positions_outside_the_cache(position: int) -> None:
    caches = [pyapp.zeros(2, 16, 8), pyapp.zeros(2, 16, 8)]
    with pytest.raises(IndexError, match="position|outside"):
        ops.cached_self_attention(normal(3, 64), TABLE, int32(position), *caches)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_weights(dtype: str) -> None:
    x, weight = normal(3, 40), normal(10, 40)
    half = weight.to(dtype)
    expected = x.numpy() @ half.float().numpy().T
    np.testing.assert_allclose(ops.linear(x, half).numpy(), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(ops.embedding(half, int32(3, 9)).float().numpy(), half.float().numpy()[[3, 9]])


@pytest.mark.parametrize("shape", [(8, 32), (17, 64), (3, 96), (1, 32)])
@pytest.mark.parametrize("rows", [1, 6])
def test_quantized_linear(shape: tuple[int, int], rows: int) -> None:
    """Within the error of int8 weights and activations, which is below one in a hundred of the outputs' size."""
    weight, x = normal(*shape), normal(rows, shape[1], seed=2)
    packed = quant.quantize(weight, "q8_0")
    back = quant.dequantize(packed).numpy()
    np.testing.assert_allclose(back, weight.numpy(), atol=np.abs(weight.numpy()).max() / 200)
    exact = x.numpy() @ back.T
    found = ops.linear(x, packed).numpy()
    assert np.abs(found - exact).max() <= 0.03 * np.sqrt(shape[1])
    np.testing.assert_array_equal(ops.embedding(packed, int32(0)).numpy()[0], back[0])


def test_q8_0_blocks_round_trip() -> None:
    """GGML's layout: f16 scale, 32 int8."""
    random = np.random.RandomState(0)
    scales = random.rand(10, 2).astype(np.float16)
    quants = random.randint(-127, 128, (10, 2, 32)).astype(np.int8)
    data = b"".join(s.tobytes() + q.tobytes() for s, q in zip(scales.reshape(-1), quants.reshape(-1, 32), strict=True))
    weight = quant.from_blocks(data, (10, 64), "q8_0")
    expected = (scales.astype(np.float32)[..., None] * quants).reshape(10, 64)
    np.testing.assert_array_equal(quant.dequantize(weight).numpy(), expected)


@pytest.mark.parametrize("group", [16, 32, 64])
def test_groups_round_trip(group: int) -> None:
    random = np.random.RandomState(0)
    quants = random.randint(-127, 128, (6, 128)).astype(np.int8)
    scales = random.rand(6, 128 // group).astype(np.float32)
    weight = quant.from_groups(quants, scales, (6, 128), group)
    expected = quants.astype(np.float32) * np.repeat(scales, group, 1)
    np.testing.assert_array_equal(quant.dequantize(weight).numpy(), expected)
    assert weight.dtype.is_quantized == (group % 32 == 0)


def test_concatenate_quantized() -> None:
    parts = [quant.quantize(normal(n, 64, seed=n)) for n in (8, 16)]
    joined = quant.concatenate(parts)
    assert joined.dtype is pyapp.q8_0
    expected = np.concatenate([quant.dequantize(p).numpy() for p in parts])
    np.testing.assert_array_equal(quant.dequantize(joined).numpy(), expected)
    odd = quant.concatenate([quant.quantize(normal(n, 64, seed=n)) for n in (3, 8)])
    assert odd.shape == (11, 64) and odd.dtype is pyapp.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ops.linear(normal(2, 3), normal(4, 5)),
            r"linear: .*: float32\[2, 3\] on cpu does not fit the weight float32\[4, 5\]",
        ),
        (lambda: quant.from_blocks(b"123", (8, 32), "q8_0"), "needs 272 bytes, the buffer has 3"),
        (lambda: quant.from_blocks(b"", (8, 33), "q8_0"), "33 columns"),
        (lambda: ops.embedding(normal(4, 4), int32(4)), "out of range"),
        (lambda: ops.embedding(normal(4, 4), int32(-1)), "out of range"),
        (lambda: ops.rms_norm(normal(4, 4), normal(5)), "rms_norm"),
        (lambda: ops.attention(normal(1, 2, 3, 4), normal(1, 2, 2, 4), normal(1, 2, 2, 4)), "attention"),
        (lambda: ops.rope(normal(30, 2, 8), TABLE), "position|outside"),
        (lambda: ops.rope(normal(3, 2, 8), TABLE, int32(0, 16, 1)), "position|outside"),
        (lambda: ops.rope(normal(3, 2, 8), TABLE, int32(0, 1)), "positions are integers"),
        (lambda: ops.rope(normal(3, 2, 6), TABLE), "D at least 8"),
        (lambda: ops.attention(*[normal(1, 2, 2, 4)] * 3, window=0), "window is 0"),
        (lambda: ops.attention(*[normal(1, 2, 2, 4)] * 3, causal=False, window=3), "use .before, after."),
        (lambda: ops.attention(*[normal(1, 2, 2, 4)] * 3, softcap=-1.0), "softcap is -1.0"),
        (lambda: ops.attention(*[normal(1, 2, 2, 4)] * 3, slopes=normal(3)), "one for each of the 2 heads"),
        (lambda: ops.attention(*[normal(1, 2, 2, 4)] * 3, mask=normal(1, 1, 2, 3)), "does not broadcast"),
        (lambda: ops.attention(*[normal(1, 2, 2, 4)] * 3, mask=pyapp.ones(1, 1, 2, 2).to("int32")), "a mask is bool"),
        (
            lambda: ops.cached_self_attention(normal(2, 3, 64), TABLE, int32(0, 14), *_cached("float32", 2, 2, 8)),
            "position|outside",
        ),
        (
            lambda: ops.cached_self_attention(normal(2, 3, 64), TABLE, int32(0), *_cached("float32", 2, 2, 8)),
            "positions are integers",
        ),
        (
            lambda: ops.cached_self_attention(normal(3, 64), None, int32(0), *_cached("q8_0", None, 2, 8)),
            "give head_dim",
        ),
        (
            lambda: ops.cached_attention(normal(3, 4, 6), *_cached("float32", None, 2, 8), int32(0)),
            "do not fit the cache",
        ),
        (lambda: ops.cache_write(_cached("float32", None, 2, 8)[0], normal(3, 3, 8), int32(0)), "is not .T, KV, D."),
        (lambda: quant.quantize(normal(2, 2, 2)), "matrices"),
    ],
)
def test_errors_name_what_is_wrong(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, IndexError), match=message):
        make()


def test_peak_is_the_first_of_the_largest_and_the_log_of_the_sum() -> None:
    from pyapp.engine import ops

    random = np.random.Generator(np.random.PCG64(5))
    for size in (1, 3, 31, 1501, 51865):
        values = random.standard_normal(size).astype(np.float32) * 5
        values[random.integers(0, size, size // 3)] = -np.inf
        values[-1] = 2.5
        place, total = ops.peak(ops.from_numpy(values))
        assert place == int(values.argmax())
        assert total == pytest.approx(float(np.log(np.exp(values.astype(np.float64)).sum())), rel=1e-6, abs=1e-6)
    assert ops.peak(ops.from_numpy(np.full(3, -np.inf, np.float32)))[1] == -np.inf
    assert np.isnan(ops.peak(ops.from_numpy(np.array([1, np.nan], np.float32)))[1])


@pytest.mark.parametrize("index", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_cross_entropy_of_every_dtype(dtype: str, index: str) -> None:
    """The kernels' loss and gradient are those of the definition in float64, to the dtype's precision."""
    x, targets, ignored = normal(6, 11).to(dtype), int32(1, 0, 10, 7, 3, 7), 7
    found, exact = x.requires_grad_(), x.detach().double().requires_grad_()
    loss = ops.cross_entropy(found, targets.to(index), ignored)
    loss.backward()
    with definitions_only():
        meant = ops.cross_entropy(exact, targets, ignored)
        meant.backward()
    assert found.grad is not None and exact.grad is not None and loss.dtype is found.grad.dtype is x.dtype
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    assert loss.item() == pytest.approx(meant.item(), rel=tolerance)
    np.testing.assert_allclose(found.grad.double().numpy(), exact.grad.numpy(), rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_cross_entropy_where_no_target_counts(dtype: str) -> None:
    x = normal(2, 3).to(dtype).requires_grad_()
    loss = ops.cross_entropy(x, int32(-100, -100))
    loss.backward()
    assert np.isnan(loss.item()) and x.grad is not None and x.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("target", [2**31, 2**32, -(2**31), -(2**31) - 1, 2**63 - 1, 3, -1])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_cross_entropy_refuses_targets_that_are_no_classes(dtype: str, target: int) -> None:
    for ignore_index in (-100, 2**40, 0):
        with pytest.raises(IndexError, match="out of range"):
            ops.cross_entropy(normal(2, 3).to(dtype), pyapp.tensor([0, target]), ignore_index)
    ignored = ops.cross_entropy(normal(2, 3).to(dtype), pyapp.tensor([0, target]), target)
    assert ignored.item() == pytest.approx(ops.cross_entropy(normal(2, 3).to(dtype)[:1], int32(0)).item(), rel=1e-3)


def test_a_captured_cross_entropy_reads_its_targets_again() -> None:
    """The host reads nothing of the loss or its gradient during a capture."""
    x, targets = normal(4, 6).requires_grad_(), pyapp.tensor([1, -100, 3, 5])

    def step() -> tuple[Tensor, Tensor]:
        x.grad = None
        loss = ops.cross_entropy(x, targets)
        loss.backward()
        assert x.grad is not None
        return loss.detach(), x.grad

    graph = capture(step)
    for values in ([0, 2, -100, -100], [5, 4, 3, 2]):
        targets.assign(values)
        replayed = [t.tolist() for t in graph.replay()]
        assert replayed == [t.tolist() for t in step()]


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_masked_attention_of_every_dtype(dtype: str, added: bool) -> None:
    """Against the definition in float64. A row whose keys are all masked gives 0, and gradients of 0."""
    mask = _sight(1, 4, 5, 7)
    if added:
        mask = ops.where(mask, normal(1, 4, 5, 7, seed=8), float("-inf"))
    inputs = [normal(2, 4, 5, 16), normal(2, 2, 7, 16, seed=1), normal(2, 2, 7, 24, seed=2)]
    found, exact = ([x.to(dtype).to(d).clone().requires_grad_() for x in inputs] for d in (dtype, "float64"))
    y = ops.scaled_dot_product_attention(*found, mask.to(dtype) if added else mask, enable_gqa=True)
    y.sum().backward()
    with definitions_only():
        meant = ops.scaled_dot_product_attention(*exact, mask.to(dtype).double() if added else mask, enable_gqa=True)
        meant.sum().backward()
    assert y.dtype is found[0].dtype and y[:, :, 1].abs().max().item() == 0.0
    assert found[0].grad is not None and found[0].grad[:, :, 1].abs().max().item() == 0.0
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-13}[dtype]
    for a, b in [(y.detach(), meant.detach()), *((a.grad, b.grad) for a, b in zip(found, exact, strict=True))]:
        assert a is not None and b is not None
        np.testing.assert_allclose(a.double().numpy(), b.numpy(), rtol=tolerance, atol=2 * tolerance)


def test_a_mask_may_have_a_gradient() -> None:
    q, mask = normal(1, 2, 3, 4), normal(3, 3, seed=1)
    results = []
    for only in (False, True):
        leaves = [q.clone().requires_grad_(), mask.clone().requires_grad_()]
        with definitions_only() if only else _nothing():
            ops.scaled_dot_product_attention(leaves[0], q, q, leaves[1]).square().sum().backward()
        results.append([x.grad.numpy() for x in leaves if x.grad is not None])
    assert len(results[0]) == 2
    for fast, meant in zip(*results, strict=True):
        np.testing.assert_allclose(fast, meant, rtol=1e-4, atol=1e-6)


_BY_ROWS: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "softmax": (lambda x: x.softmax(-1), [normal(4, 3, 37)]),
    "softmax_middle": (lambda x: x.softmax(1), [normal(3, 9, 20)]),
    "log_softmax": (lambda x: x.log_softmax(-1), [normal(4, 3, 37)]),
    "log_softmax_first": (lambda x: x.log_softmax(0), [normal(4, 3, 37)]),
    "layer_norm": (ops.layer_norm, [normal(4, 3, 37), normal(37, seed=1), normal(37, seed=2)]),
    "rms_norm": (lambda x, w: ops.rms_norm(x, (37,), w), [normal(4, 3, 37), normal(37, seed=1)]),
    "layer_norm_in_pieces": (
        lambda x, w, b: ops.layer_norm(x, (300,), w, b),
        [normal(350, 300), normal(300, seed=1), normal(300, seed=2)],
    ),
    "rms_norm_in_pieces": (lambda x, w: ops.rms_norm(x, (300,), w), [normal(350, 300), normal(300, seed=1)]),
}


@pytest.mark.parametrize("name", _BY_ROWS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_rows_of_every_dtype(name: str, dtype: str) -> None:
    """Results and gradients of kernels, and of the definition in float64. Norms of halves are the definition's."""
    function, inputs = _BY_ROWS[name]
    found, exact = ([x.to(dtype).to(d).clone().requires_grad_() for x in inputs] for d in (dtype, "float64"))
    g = normal(*function(*inputs).shape, seed=6).to(dtype)
    with refusing_definitions() if dtype == "float64" or "softmax" in name else _nothing():
        y = function(*found)
        y.backward(g)
    with definitions_only():
        meant = function(*exact)
        meant.backward(g.double())
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2, "float64": 2e-13}[dtype]
    if "pieces" in name:
        tolerance *= 8  # sums of 350 rows
    for a, b in [(y.detach(), meant.detach()), *((a.grad, b.grad) for a, b in zip(found, exact, strict=True))]:
        assert a is not None and b is not None and a.dtype is y.dtype
        np.testing.assert_allclose(a.double().numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


def test_a_half_is_normalized_by_float32_weights() -> None:
    x, w, b = normal(3, 5).half().requires_grad_(), normal(5, seed=1).requires_grad_(), normal(5, seed=2)
    y = ops.layer_norm(x, w, b)
    y.sum().backward()
    assert y.dtype is pyapp.float16 and x.grad is not None and w.grad is not None
    assert x.grad.dtype is pyapp.float16 and w.grad.dtype is pyapp.float32
    meant = ops.layer_norm(x.detach().float(), w.detach(), b)
    np.testing.assert_allclose(y.detach().float().numpy(), meant.numpy(), rtol=2e-3, atol=2e-3)
