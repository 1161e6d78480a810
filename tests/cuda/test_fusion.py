"""Launches that a Graph of the CUDA device joins: fewer kernels, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn
from pyapp.engine import capture
from pyapp.engine.element_types import CODES
from pyapp.engine.gpu.fusion import fuse
from pyapp.engine.native import DIMS, FLOATS, POINTERS, RECORD, RECORD_BYTES, SIGNATURES
from pyapp.models.llama2c import Config, Llama2c
from pyapp.nn import quantize
from pyapp.nn.decoders.decoder import normalized_heads
from pyapp.nn.heads import Heads
from pyapp.text.generation.generate import Session

from . import emulated

pytestmark = pytest.mark.native_only
DEVICE = emulated.DEVICE
ADDRESS = 1 << 20  # of made-up memory: each name has its own


def normal(*shape: int, seed: int = 0) -> Tensor:
    return pyapp.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32)).to(DEVICE)


def launched(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """The result of a call, and the functions that it launches on the emulated card."""
    backend: Any = pyapp.device(DEVICE).backend
    before = 0 if emulated.REAL else len(backend.card.launched)
    result = call()
    return result, [] if emulated.REAL else list(backend.card.launched[before:])


def assert_fused(compute: Callable[[], tuple[Tensor, ...]], expected: list[str]) -> None:
    with pyapp.no_grad():
        alone = [np.array(y.cpu().numpy()) for y in compute()]
        graph = capture(compute)
        for y in graph.outputs:
            y.fill_(float("nan"))
        _, names = launched(graph.replay)
    assert emulated.REAL or names == expected
    for y, own in zip(graph.outputs, alone, strict=True):
        assert y.cpu().numpy().tobytes() == own.tobytes()
    emulated.check()


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize(
    "kind, weight, inputs, outputs",
    [
        ("float32", "float32", 520, 30),
        ("float16", "float32", 2048, 18),
        ("bfloat16", "bfloat16", 2056, 130),
        ("bfloat16", "float16", 8192, 10),
        ("float16", "bfloat16", 1032, 8210),
    ],
)
def test_a_norm_a_linear_layer_and_a_gated_activation(
    kind: str, weight: str, inputs: int, outputs: int, gated: bool
) -> None:
    norm, layer = nn.RMSNorm(inputs), nn.Linear(inputs, outputs, bias=False)
    norm.weight.data.copy_(pyapp.arange(inputs) / inputs - 0.3)
    norm.to(weight).to(DEVICE)
    layer.to(kind).to(DEVICE)
    x = normal(1, inputs)

    def compute() -> tuple[Tensor, ...]:
        normed = norm(x)
        y = layer(normed)
        return (normed, y, pyapp.ops.silu_mul(y)) if gated else (normed, y)

    assert_fused(compute, ["rms_norm_linear"])


@pytest.mark.parametrize("weight", ["float32", "bfloat16"])
def test_a_norm_with_an_offset_and_what_is_added_to_its_result(weight: str) -> None:
    """One launch for the three."""
    norm = nn.OffsetRMSNorm(544)
    norm.weight.data.copy_(pyapp.arange(544) / 544 - 0.3)
    norm.to(weight).to(DEVICE)
    x, residual = normal(1, 544), normal(1, 544, seed=3)

    def compute() -> tuple[Tensor, ...]:
        y = norm(x)
        return y, residual + y, y + residual

    assert_fused(compute, ["rms_norm_add", "add_f32"])
    with pyapp.no_grad():
        expected = pyapp.ops.rms_norm(x, norm.weight.float() + 1.0, norm.eps)
        np.testing.assert_allclose(norm(x).cpu().numpy(), expected.cpu().numpy(), rtol=1e-6, atol=1e-7)
    norm(x.clone().requires_grad_()).sum().backward()  # by the ops that have gradients
    assert norm.weight.grad is not None


@pytest.mark.parametrize("kind", [nn.RMSNorm, nn.OffsetRMSNorm])
def test_heads_are_normalized_in_one_launch(kind: Any) -> None:
    """Of one token and of several; where gradients are recorded, or the norms differ, by the ops."""
    heads, (q_norm, k_norm) = Heads(4, 2, 16), (kind(16, 1e-5).to(DEVICE) for _ in range(2))
    for norm, first in ((q_norm, 0.5), (k_norm, -0.2)):
        norm.weight.data.copy_(pyapp.arange(16) / 16 + first)
    x = normal(3, 128)
    expected = normalized_heads(x, heads, q_norm, k_norm).detach()
    for rows in (1, 3):
        with pyapp.no_grad():
            found, names = launched(partial(normalized_heads, x.narrow(0, 0, rows), heads, q_norm, k_norm))
        assert emulated.REAL or names == ["normalize_heads"]
        np.testing.assert_allclose(found.cpu().numpy(), expected[:rows].cpu().numpy(), rtol=1e-5, atol=1e-6)
    k_norm.eps = 1e-6
    with pyapp.no_grad():
        _, names = launched(partial(normalized_heads, x, heads, q_norm, k_norm))
    assert "normalize_heads" not in names
    with pyapp.no_grad(), pytest.raises(RuntimeError, match="invalid for input of size 396"):
        normalized_heads(normal(3, 132), heads, q_norm, q_norm)  # not a whole number of heads
    emulated.check()


@pytest.mark.parametrize("cache", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "kind, weight, inputs, heads, kv_heads, size, rotated, interleaved",
    [
        ("bfloat16", "float32", 520, 4, 2, 8, 8, False),
        ("float16", "bfloat16", 1032, 3, 1, 6, 4, True),
        ("float32", "float16", 576, 2, 2, 12, 6, False),
        ("bfloat16", "bfloat16", 640, 2, 1, 16, 0, False),
    ],
)
def test_a_norm_a_linear_layer_and_what_a_cache_keeps(
    kind: str, weight: str, inputs: int, heads: int, kv_heads: int, size: int, rotated: int, interleaved: bool,
    cache: str,
) -> None:  # fmt: skip
    """A position outside of the cache is found, and nothing is written."""
    norm, layer = nn.RMSNorm(inputs), nn.Linear(inputs, (heads + 2 * kv_heads) * size, bias=False)
    norm.weight.data.copy_(pyapp.arange(inputs) / inputs - 0.3)
    norm.to(weight).to(DEVICE)
    layer.to(kind).to(DEVICE)
    x, table = normal(1, inputs), normal(9, rotated // 2, 2, seed=2) if rotated else None
    keys, values = (pyapp.zeros(kv_heads, 7, size, dtype=cache, device=DEVICE) for _ in range(2))
    position = pyapp.tensor([5], dtype="int32").to(DEVICE)

    def compute() -> tuple[Tensor, ...]:
        normed = norm(x)
        y = pyapp.ops.linear(normed, layer.weight)
        attended = pyapp.ops.cached_self_attention(y, table, position, keys, values, interleaved)
        return normed, y, attended

    with pyapp.no_grad():
        alone = [np.array(y.cpu().numpy()) for y in (*compute(), keys.float(), values.float())]
        keys.zero_(), values.zero_()
        graph = capture(compute)
        for y in graph.outputs:
            y.fill_(float("nan"))
        keys.zero_(), values.zero_()
        _, names = launched(graph.replay)
        found = [np.array(y.cpu().numpy()) for y in (*graph.outputs, keys.float(), values.float())]
        assert emulated.REAL or names[:1] == ["rms_norm_linear_rotate"] and len(names) == 2, names
        for y, own in zip(found, alone, strict=True):
            assert y.tobytes() == own.tobytes()
        position.fill_(7)
        before = [np.array(y.float().cpu().numpy()) for y in (keys, values)]
        with pytest.raises(IndexError, match="rms_norm_linear_rotate"):
            graph.replay()
            graph.outputs[0].tolist()
        for y, own in zip((keys, values), before, strict=True):
            assert y.float().cpu().numpy().tobytes() == own.tobytes()
    emulated.check()


def quantised_layer(kind: str, columns: int, outputs: int) -> nn.Module:
    pyapp.manual_seed(1)
    block = nn.Sequential(nn.Linear(columns, outputs, bias=False))
    quantize(block, kind)
    return block.to(DEVICE)


@pytest.mark.parametrize("rows, columns", [(3, 64), (2, 8224)])
@pytest.mark.parametrize("weight", ["float32", "bfloat16"])
def test_a_norm_and_its_quantisation(weight: str, rows: int, columns: int) -> None:
    norm, block = nn.RMSNorm(columns), quantised_layer("q8_0", columns, 16)
    norm.weight.data.copy_(pyapp.arange(columns) / columns - 0.3)
    norm.to(weight).to(DEVICE)
    x = normal(rows, columns)

    def compute() -> tuple[Tensor, ...]:
        normed = norm(x)
        return normed, block(normed)

    assert_fused(compute, ["rms_norm_quantize_rows", "linear_q8_0"])


def test_a_gated_activation_and_its_quantisation() -> None:
    block, x = quantised_layer("q8_0", 96, 16), normal(5, 192)

    def compute() -> tuple[Tensor, ...]:
        activated = pyapp.ops.silu_mul(x)
        return activated, block(activated)

    assert_fused(compute, ["silu_mul_quantize_rows", "linear_q8_0"])


@pytest.mark.parametrize("before", ["", "rms_norm", "silu_mul"])
@pytest.mark.parametrize(
    "kind, columns, outputs",
    [
        ("q8_0", 544, 8210),
        ("q8_0", 2048, 9),
        ("q4_0", 1056, 40),
        ("q4_K", 8192, 24),
        ("q6_K", 768, 8),
        ("iq4_xs", 1024, 5),
    ],
)
def test_a_row_and_weights_in_blocks(kind: str, columns: int, outputs: int, before: str) -> None:
    block = quantised_layer(kind, columns, outputs)
    norm = nn.RMSNorm(columns)
    norm.weight.data.copy_(pyapp.arange(columns) / columns - 0.3)
    norm.to("bfloat16" if kind == "q4_0" else "float32").to(DEVICE)
    x, residual = normal(1, columns * (2 if before == "silu_mul" else 1)), normal(1, outputs, seed=1)

    def compute() -> tuple[Tensor, ...]:
        if not before:
            return (pyapp.ops.linear(x, block[0].weight, None, residual),)
        made = norm(x) if before == "rms_norm" else pyapp.ops.silu_mul(x)
        return made, block(made)

    assert_fused(compute, ["quantize_linear_q8_0" if kind == "q8_0" else "quantize_linear_blocks"])


def test_what_is_not_finite_stays_so_in_a_row_of_blocks() -> None:
    block, x = quantised_layer("q4_0", 1024, 16), normal(1, 1024)
    x[0, 40] = float("inf")
    assert_fused(lambda: (block(x),), ["quantize_linear_blocks"])


@pytest.mark.parametrize("kind, launches", [("bfloat16", 5), ("q8_0", 6)])
def test_a_layer_of_a_token_has_few_launches(kind: str, launches: int) -> None:
    """And its logits are those of a prompt."""
    counts = []
    for n_layers in (1, 2):
        pyapp.manual_seed(0)
        config = Config(
            dim=576, hidden_dim=640, n_layers=n_layers, n_heads=8, n_kv_heads=4, vocab_size=64, max_seq_len=64
        )
        model = Llama2c(config).requires_grad_(False)
        if kind == "q8_0":
            quantize(model, kind)
        else:
            model.to(kind)
        model.to(DEVICE)
        session = Session(model)
        session.feed([3, 7, 1])
        session.step(5)
        logits, names = launched(partial(session.step, 9))
        found = np.array(logits.read_values())
        counts.append(len(names))
        whole = np.array(Session(model).feed([3, 7, 1, 5, 9]).read_values())
        np.testing.assert_allclose(found, whole, rtol=0.05, atol=0.05)
    assert emulated.REAL or counts[1] - counts[0] == launches
    emulated.check()


# ---- What is joined: made-up records


def record(name: str, **values: Any) -> bytes:
    pointers, dims, floats = (part.replace("?", "").split() for part in SIGNATURES[name].split("|"))
    assert values.keys() <= {*pointers, *dims, *floats}
    numbers = [
        [values.get(slot, 0) for slot in slots] + [0] * (size - len(slots))
        for slots, size in ((pointers, POINTERS), (dims, DIMS), (floats, FLOATS))
    ]
    return RECORD.pack(list(SIGNATURES).index(name), 0, *sum(numbers, []))


def names_of(records: bytearray) -> list[str]:
    names = list(SIGNATURES)
    return [names[int.from_bytes(records[at : at + 4], "little")] for at in range(0, len(records), RECORD_BYTES)]


def places(names: str) -> dict[str, int]:
    return {name: ADDRESS * (i + 1) for i, name in enumerate(names.split())}


NORM: dict[str, Any] = {
    **places("x weight y"), "rows": 1, "columns": 1024, "x_stride": 1024, "y_stride": 1024, "epsilon": 1e-5
}  # fmt: skip
LINEAR: dict[str, Any] = {
    "x": NORM["y"], **dict(zip(["w", "y"], [ADDRESS * 4, ADDRESS * 64], strict=True)),
    "rows": 1, "outputs": 64, "inputs": 1024, "y_stride": 64, "x_stride": 1024,
}  # fmt: skip
SILU: dict[str, Any] = {"x": LINEAR["y"], "y": ADDRESS * 70, "rows": 1, "columns": 32, "x_stride": 64, "y_stride": 32}


def test_three_records_become_one() -> None:
    records = record("rms_norm_f32", **NORM) + record("linear_bf16", **LINEAR) + record("silu_mul_f32", **SILU)
    assert names_of(fuse(records, 3)) == ["rms_norm_linear"]
    doubled = records + record("exp_f32", y=ADDRESS, x=ADDRESS, count=3) + records
    assert names_of(fuse(doubled, 7)) == ["rms_norm_linear", "exp_f32", "rms_norm_linear"]
    assert fuse(b"", 0) == b""


@pytest.mark.parametrize(
    "norm, linear",
    [
        ({}, {"residual": ADDRESS * 80}),
        ({}, {"x": ADDRESS * 81}),  # of something else
        ({"rows": 2}, {"rows": 2}),
        ({"columns": 512}, {"inputs": 512}),
        ({"columns": 8200}, {"inputs": 8200}),
        ({"columns": 1020}, {"inputs": 1020}),
        ({"x": ADDRESS + 4}, {}),
        ({"y": NORM["x"]}, {"x": NORM["x"]}),  # in place
        ({}, {"y": NORM["x"]}),  # the row's memory serves again
        ({}, {"y": NORM["x"] + 4000}),
        ({}, {"y": NORM["weight"] - 128}),
    ],
)
def test_what_one_kernel_cannot_do_stays_two(norm: dict[str, int], linear: dict[str, int]) -> None:
    records = record("rms_norm_f32", **NORM | norm) + record("linear_bf16", **LINEAR | linear)
    assert fuse(records, 2) == records


ROTATION: dict[str, Any] = {
    "qkv": LINEAR["y"], "table": ADDRESS * 66, "position": ADDRESS * 71, "keys": ADDRESS * 76, "values": ADDRESS * 81,
    "texts": 1, "tokens": 1, "heads": 4, "kv_heads": 2, "head_dim": 8, "capacity": 100, "stride": 64, "rotated": 8,
    "positions": 100, "type": CODES[pyapp.float16],
}  # fmt: skip


@pytest.mark.parametrize(
    "change, fused",
    [
        ({}, True),
        ({"type": CODES[pyapp.uint8]}, False),  # q8_0: a warp has one number of a row
        ({"block_table": ADDRESS * 90, "blocks": 4, "parts": 2}, False),
        ({"tokens": 2}, False),
        ({"qkv": ADDRESS * 91}, False),
        ({"heads": 2}, False),
        ({"table": 0}, False),
        ({"table": 0, "rotated": 0}, True),
        ({"values": ROTATION["keys"] + 64}, False),
        ({"keys": NORM["x"]}, False),
        ({"head_dim": 1, "heads": 60, "rotated": 0}, False),
    ],
)
def test_a_rotation_behind_queries_keys_and_values(change: dict[str, int], fused: bool) -> None:
    records = record("rms_norm_f32", **NORM) + record("linear_bf16", **LINEAR)
    found = fuse(records + record("rotate_and_write", **ROTATION | change), 3)
    assert (names_of(found) == ["rms_norm_linear_rotate"]) == fused, names_of(found)


FITTING = {"xq": ADDRESS * 100, "x": NORM["y"], "columns": 1024, "x_stride": 1024}
BLOCKS: dict[str, Any] = {
    "y": ADDRESS * 64, "xq": FITTING["xq"], "w": ADDRESS * 4, "residual": ADDRESS * 80, "rows": 1, "outputs": 64,
    "inputs": 1024, "type": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    "change, names",
    [
        ({}, ["quantize_linear_blocks"]),
        ({"residual": BLOCKS["y"]}, ["quantize_linear_blocks"]),  # added in place
        ({"residual": BLOCKS["y"] + 8}, ["rms_norm_quantize_rows", "linear_blocks"]),
        ({"y": NORM["x"]}, ["rms_norm_quantize_rows", "linear_blocks"]),  # other blocks still read the row
        ({"y": NORM["weight"] + 16}, ["rms_norm_quantize_rows", "linear_blocks"]),
        ({"xq": ADDRESS * 101}, ["rms_norm_quantize_rows", "linear_blocks"]),
        ({"inputs": 992}, ["rms_norm_quantize_rows", "linear_blocks"]),
    ],
)
def test_a_norm_before_weights_in_blocks(change: dict[str, int], names: list[str]) -> None:
    records = record("rms_norm_f32", **NORM) + record("quantize_rows", rows=1, **FITTING)
    assert names_of(fuse(records + record("linear_blocks", **BLOCKS | change), 3)) == names


@pytest.mark.parametrize("columns, fused", [(512, False), (8192, True), (8224, False)])
def test_long_and_short_norms_before_weights_in_blocks(columns: int, fused: bool) -> None:
    records = record("rms_norm_f32", **NORM | {"columns": columns})
    records += record("quantize_rows", rows=1, **FITTING | {"columns": columns})
    records += record("linear_blocks", **BLOCKS | {"inputs": columns})
    assert (names_of(fuse(records, 3)) == ["quantize_linear_blocks"]) == fused


@pytest.mark.parametrize(
    "change",
    [{"x": ADDRESS * 90}, {"rows": 2}, {"columns": 33}, {"x_stride": 1030, "rows": 3}, {"xq": NORM["x"] + 64}],
)
def test_what_is_not_quantised_next_stays_alone(change: dict[str, int]) -> None:
    rows = change.get("rows", 1) if "x_stride" in change else 1
    first = record("rms_norm_f32", **NORM | {"rows": rows})
    second = FITTING | {"rows": rows} | change
    records = first + record("quantize_rows", **second)
    assert fuse(records, 2) == records
    assert names_of(fuse(first + record("quantize_rows", **second | FITTING | {"rows": rows}), 2)) == [
        "rms_norm_quantize_rows"
    ]


ROWS = NORM | {"rows": 2}


@pytest.mark.parametrize(
    "change, fused",
    [
        ({}, True),
        ({"y": ADDRESS * 6}, True),  # the residual itself
        ({"y": ROWS["x"]}, True),
        ({"b": ROWS["x"]}, True),
        ({"x_stride": 1030}, True),
        ({"x_stride": 1030, "y": ROWS["x"]}, False),  # other rows are still read there
        ({"x_stride": 1030, "b": ROWS["x"]}, False),
        ({"b": ROWS["weight"]}, False),
        ({"y": ROWS["weight"] + 16}, False),
        ({"b_period": 1024}, False),
    ],
)
def test_a_sum_with_the_result_of_a_norm(change: dict[str, int], fused: bool) -> None:
    count = 2 * ROWS["columns"]
    norm = ROWS | {name: change[name] for name in change if name == "x_stride"}
    second = dict(y=ADDRESS * 7, a=norm["y"], b=ADDRESS * 6, count=count, a_period=count, b_period=count)
    second |= {name: change[name] for name in change if name != "x_stride"}
    found = fuse(record("rms_norm_f32", **norm) + record("add_f32", **second), 2)
    assert names_of(found) == (["rms_norm_add"] if fused else ["rms_norm_f32", "add_f32"])
