"""The device "webgpu" in a browser that has a graphics card, which may be its processor: the contract of a device,
kernels against the CPU's, and a model.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, ops
from pyapp.engine import capture, quant
from pyapp.engine.device import HiddenAddress
from pyapp.engine.devices import webgpu
from pyapp.engine.gpu import wgsl
from pyapp.engine.launch import KERNELS
from pyapp.engine.native import SIGNATURES
from pyapp.engine.storage import trim_pool
from pyapp.models import load_model, vit
from pyapp.nn import functional as F
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.generation.session import Session
from tests.engine import test_fused
from tests.engine import test_random_programs as random_programs
from tests.engine.test_fused import CASES, normal
from tests.models.test_whisper import make
from tests.models.whisper_model import CONFIGS, inputs
from tests.together import check_each

pytestmark = pytest.mark.skipif(not pyapp.webgpu.is_available(), reason=pyapp.webgpu.reason())
DEVICE = "webgpu"
STORIES = Path(__file__).parents[2] / "web" / "models" / "stories" / "model.bin"


def opened() -> Any:
    return pyapp.device(DEVICE).backend


@pytest.fixture(autouse=True)
def by_kernels() -> Iterator[None]:
    """What the host computes from copies is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def close(found: Tensor, expected: Tensor, tolerance: float = 2e-5) -> None:
    tolerance = tolerance if expected.is_floating_point() else 0
    assert found.device == DEVICE and found.dtype is expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)


def test_a_tensor_goes_there_and_back() -> None:
    x = normal(4, 5)
    for source in (x, x.t(), x[:, 1:3], x.half(), x.bfloat16(), pyapp.arange(7), pyapp.tensor(3.5), x[:0], x > 0):
        there = source.to(DEVICE)
        assert there.device == DEVICE and there.shape == source.shape and there.dtype is source.dtype
        assert there.cpu().device == "cpu" and there.cpu().tolist() == source.tolist() == there.tolist()
    assert isinstance(there.address, HiddenAddress)
    with pytest.raises(RuntimeError, match="webgpu cannot be read in place"):
        there._storage.bytes_view()
    with pytest.raises(RuntimeError, match="cpu and webgpu"):
        x + x.to(DEVICE)


def test_bytes_between_words() -> None:
    """A card copies whole words: what stands beside them stays."""
    host = np.arange(23, dtype=np.uint8)
    for first, count in ((0, 23), (1, 2), (3, 5), (4, 7), (5, 16), (2, 1)):
        x = pyapp.from_numpy(host).to(DEVICE)
        assert x[first : first + count].cpu().tolist() == host[first : first + count].tolist()
        x._storage.write(first, bytes([200] * count))
        expected = host.copy()
        expected[first : first + count] = 200
        assert x.tolist() == expected.tolist()
        for to in (0, 1, 6):
            y = pyapp.zeros(40, dtype="uint8", device=DEVICE)
            y._storage.copy_from(x._storage, to, first, count)
            assert y.tolist() == [0] * to + [200] * count + [0] * (40 - to - count)


def test_elements_are_written_by_their_indices() -> None:
    for kind in ("float32", "float16", "int64", "uint8"):
        written = []
        for device in (DEVICE, "cpu"):
            x = pyapp.arange(12, device=device).to(kind).reshape(3, 4)
            values = pyapp.tensor([[50, 60, 70], [80, 90, 91]], dtype=kind, device=device)
            x.T[pyapp.tensor([2, 0], device=device)] = values
            x.index_copy_(1, pyapp.tensor([1], device=device), x[:, 3:])
            x[pyapp.tensor([1, 1, -2], device=device), pyapp.tensor([3, 0, 3], device=device)] = 7
            x.scatter_(1, pyapp.tensor([[0, 0], [3, 0]], device=device), values[:, :2])
            x.scatter_reduce_(0, pyapp.tensor([[2, 2, 1, 1]], device=device), x[1:2] * 2, "amax")
            written.append(x.tolist())
        assert written[0] == written[1]
    with pytest.raises(IndexError):
        x.to(DEVICE).scatter_(1, pyapp.tensor([[4]], device=DEVICE), 1).tolist()


def test_memory_is_given_back() -> None:
    backend = opened()
    gc.collect()  # what earlier tests have left in cycles
    trim_pool(pyapp.device(DEVICE))
    before, reserved = backend.allocated, backend.reserved
    large = pyapp.zeros(20 << 20, dtype="uint8", device=DEVICE)  # has a buffer of its own
    assert backend.allocated >= before + large.numel() and backend.reserved >= reserved + large.numel()
    assert (large[: 1 << 20] + 1).sum().item() == 1 << 20  # both buffers in one kernel
    del large
    trim_pool(pyapp.device(DEVICE))
    assert backend.allocated == before and backend.reserved <= reserved
    with pytest.raises(MemoryError, match="the largest buffer of this graphics card"):
        backend.allocate(backend.largest + 1)


def test_what_has_no_kernel_is_computed_by_the_host() -> None:
    x = normal(3, 4)
    for function in (lambda x: x.double() * 2, lambda x: x.cummax(1).values, lambda x: x.lgamma()):
        with pytest.warns(UserWarning, match="webgpu has no kernel for '.*the host computes it"):
            found = function(x.to(DEVICE))
        close(found, function(x))


def test_a_wrong_index_is_told_with_the_kernel() -> None:
    table, ids = normal(5, 4).to(DEVICE), pyapp.tensor([1, 5], dtype=pyapp.int32).to(DEVICE)
    y = ops.embedding(table, ids)
    with pytest.raises(IndexError, match="embedding_copy.*launched before"):
        y.cpu()
    assert y.shape == (2, 4) and ops.embedding(table, ids[:1]).tolist() == table[1:2].tolist()  # it goes on


def test_every_program_compiles() -> None:
    import js
    import pyodide.ffi

    texts = {}
    for name, kernel in wgsl.programs().items():
        dims = SIGNATURES[name].split("|")[1].split()
        sizes = [
            {"type": 13, "x_type": 13, "y_type": 13, "index_type": 8, "element_bytes": 4}.get(dim, 2) for dim in dims
        ]
        for number, program in enumerate((*kernel.steps, kernel)):
            constants = [int(constant(sizes)) for constant in program.constants.values()]
            kinds = "".join("w" if writes else "r" for writes in program.written)
            texts[f"{name} {number}"] = wgsl.text_of(program, constants, range(len(program.slots)), kinds, False, False)

    def check(name: str) -> None:
        code = pyodide.ffi.to_js({"code": texts[name]}, dict_converter=js.Object.fromEntries)
        found = pyodide.ffi.run_sync(opened().card.device.createShaderModule(code).getCompilationInfo())
        assert [message.message for message in found.messages if message.type == "error"] == []

    check_each(check, [(name,) for name in texts])


def test_what_an_earlier_visit_used_is_compiled_ahead() -> None:
    import pyodide.ffi

    from pyapp import browser

    def visit(ahead: bool) -> Any:
        backend = webgpu.open_with(browser._host.openGraphicsCard)
        backend.foresee()
        if ahead:
            deadline = time.monotonic() + 30
            while any(not program.pipeline for program in backend.card.programs) and time.monotonic() < deadline:
                backend.synchronize()
        addresses = [backend.allocate(64), backend.allocate(64)]
        backend.write(addresses[0], bytes(range(64)))
        backend.copy(addresses[1], addresses[0], 64)
        found = bytearray(64)
        backend.read(addresses[1], found)
        assert found == bytes(range(64))
        pyodide.ffi.run_sync(backend.card.save())
        return backend.card

    assert visit(False).late <= 1
    card = visit(True)
    assert card.late == 0 and len(card.programs) > 0
    card.earlier.push('["no_such_kernel", [], false, [0]]', "no JSON")
    pyodide.ffi.run_sync(card.save())
    assert visit(True).late == 0


OPS = """linear linear_one_row linear_rows_apart linear_nothing rms_norm softmax log_softmax silu_mul silu rope
    rope_halves rope_positions slices_that_overlap stack attention_long attention_later_keys attention_slices
    attention_window_both_sides attention_mask attention_more_rows_than_keys masked_attention masked_attention_padding
    masked_attention_window max_pool2d max_pool1d_apart max_pool3d_of_columns places_of_max avg_pool2d
    avg_pool1d_inside avg_pool3d_divided adaptive_avg_pool2d adaptive_max_pool2d conv1d conv1d_step
    conv1d_of_one_window conv1d_far_steps""".split()
ELEMENTWISE: dict[str, tuple[Any, list[Tensor]]] = {
    "broadcast": (lambda x, y: (x + y) * y - x / (y.abs() + 1), [normal(3, 1, 5), normal(4, 5, seed=1)]),
    "numbers": (lambda x: 2 - x * 3, [normal(70)]),
    "strided": (lambda x: x.t().exp() + x[::2].sum(), [normal(6, 7)]),
    "compare": (lambda x, y: ((x > y) | (x.isnan() == y.isnan())) & (x != 0), [normal(5, 7), normal(7, seed=1)]),
    "whole numbers": (lambda x: (x * 9).long() * 70000 * 70000 - (x * 100).int(), [normal(11)]),
    "bytes": (lambda x: (x * 50).to("int8").to("float16") + (x > 0).to("uint8"), [normal(3, 7)]),
    "unary": (lambda x: x.tanh() + x.sigmoid() + x.erf() + x.abs().sqrt() + F.gelu(x), [normal(40)]),
    "angles": (
        lambda x: pyapp.stack([x.sin(), x.cos(), x.tan().atan(), x.sinh() / x.cosh(), x.asinh(), (x / 700).atanh()]),
        [pyapp.cat([normal(40) * 50, pyapp.tensor([0.0, 699.0, -8.0, 80.0])])],
    ),
    "angles of numbers": (
        lambda x: pyapp.stack([(x / 4).asin(), (x / 4).acos(), (x.abs() + 1).acosh(), x.logcumsumexp(0)]), [normal(40)],
    ),
    "quotients of whole numbers": (
        lambda x, y: pyapp.stack([
            x % y, x // y, x.fmod(y), x.int() % (y % 100).int(), x % 7, x // -(1 << 40), (x % (1 << 40)) // 3,
        ]),
        [
            pyapp.tensor([7, -7, 1 << 60, -(1 << 60) + 5, 0, 12345678901, -1]),
            pyapp.tensor([3, 3, 77, 1 << 35, 5, -9, 8]),
        ],
    ),
    "sums of halves": (
        lambda x: (x.half().sum(0) + x.half().mean(0)).float() + x.bfloat16().amax(0).float(), [normal(9, 7)],
    ),
    "logarithms": (
        lambda x: pyapp.cat([y.nan_to_num(7.0, 8.0, 9.0) for y in (x.log(), x.log2(), x.log10(), x.log1p(), x.sqrt())]),
        [pyapp.tensor([-2.0, -1.0, -0.5, 0.0, 0.5, 3.0, float("inf"), float("-inf"), float("nan")])],
    ),
    "where": (lambda x, y: pyapp.where(x > 0, x, y), [normal(5, 3), normal(3, seed=1)]),
    "reduce": (lambda x: x.sum(1) + x.amax(1) - x.mean(1) * x.var(1) + x.argmax(1), [normal(5, 90, 3)]),
    "places": (
        lambda x, y: pyapp.stack([x.argmax(1), x.argmin(1), y.t().argmax(1), y.t().argmin(1)]),
        [normal(4, 130).round(), pyapp.where(normal(130, 4) > 2, float("nan"), normal(130, 4, seed=1).round())],
    ),
    "sums so far": (
        lambda x: x.cumsum(1) + x[0].t().cumsum(1).t() + (x * 9).int().cumsum(1) + (x > 0).cumsum(0),
        [normal(3, 131, 3)],
    ),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), [normal(40)]),
    "gather": (lambda x: x.gather(1, x.argmax(1, True)), [normal(5, 9)]),
    "rows": (lambda x: x[x.argmax(0)], [normal(5, 9)]),
    "matmul": (lambda x, y: x @ y, [normal(2, 9, 33), normal(2, 33, 40, seed=1)]),
    "layer_norm": (lambda x, w, b: ops.layer_norm(x, w, b), [normal(3, 50), normal(50, seed=1), normal(50, seed=2)]),
    "attention of halves": (
        lambda q, k, v: ops.scaled_dot_product_attention(q.half(), k.half(), v.half(), is_causal=True).float(),
        [normal(1, 3, 19, 20), normal(1, 3, 19, 20, seed=1), normal(1, 3, 19, 7, seed=2)],
    ),
    "attention of wide values": (
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, q.narrow(3, 0, 1) > k.narrow(3, 0, 1).mT),
        [normal(2, 2, 17, 33), normal(2, 2, 35, 33, seed=1), normal(2, 2, 35, 130, seed=2)],
    ),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        [normal(2, 6, 9, 11), normal(10, 3, 3, 2, seed=1), normal(10, seed=2)],
    ),
    "conv2d of many channels": (lambda x, w: F.conv2d(x, w, padding=1), [normal(2, 5, 19, 23), normal(70, 5, 3, 3)]),
    "patches": (lambda x, w, b: F.conv2d(x, w, b, 4), [normal(2, 3, 16, 12), normal(33, 3, 4, 4), normal(33)]),
    "conv of points": (lambda x, w, b: F.conv2d(x, w, b, 2), [normal(2, 9, 5, 7), normal(11, 9, 1, 1), normal(11)]),
    "depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, (1, 2), (2, 1), groups=5),
        [normal(2, 5, 9, 8), normal(10, 1, 3, 5), normal(10)],
    ),
    "conv transpose": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
        [normal(2, 4, 5, 3), normal(4, 3, 3, 2, seed=1), normal(6, seed=2)],
    ),
    "pool of NaN": (
        lambda x: pyapp.cat([F.max_pool2d(x.log(), 2, 1), F.max_pool2d(x.log(), 2, 1, return_indices=True)[1].float()]),
        [normal(1, 2, 9, 7)],
    ),
    "pool of halves": (lambda x: F.avg_pool2d(x.half(), 3, 2, 1).float(), [normal(1, 3, 7, 9)]),
    "tril": (lambda x: x.tril(1), [normal(5, 6)]),
}  # fmt: skip


def test_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    table, int32 = test_fused.TABLE, test_fused.int32

    def check(name: str) -> None:
        function, inputs = (CASES | ELEMENTWISE)[name]
        results = []
        for device in ("cpu", DEVICE):
            monkeypatch.setattr(test_fused, "TABLE", table.to(device))
            monkeypatch.setattr(test_fused, "int32", lambda *values, to=device: int32(*values).to(to))
            results.append(function(*(x.to(device) for x in inputs)))
        close(results[1], results[0])

    check_each(check, [(name,) for name in (*OPS, *ELEMENTWISE)])


IDS = pyapp.tensor([3, 1, 3, 0, 3, 1, 4])
TARGETS = pyapp.tensor([2, -100, 0, 8, 2])
NAN, SMALL = float("nan"), dict(stride=2, padding=1)
SLOPED: dict[str, tuple[Any, list[Tensor]]] = {
    "activations": (lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") * F.silu(x) + x.tanh().abs(), [normal(70) * 3]),
    "activations of halves": (lambda x: (F.gelu(x.half()) + F.silu(x.half())).float(), [normal(7, 11)]),
    "silu_mul": (lambda x: ops.silu_mul(x), [normal(5, 12)]),
    "softmax": (lambda x: x.softmax(-1) + x.softmax(0) + x.log_softmax(-1) + x.log_softmax(1), [normal(3, 5, 70)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (50,), w), [normal(37, 50), normal(50, seed=1)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (50,), w, b), [normal(37, 50), normal(50, seed=1), normal(50)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [normal(5, 3, 7), normal(3), normal(3)]),
    "batch_norm of pictures": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [normal(3, 4, 5, 4), normal(4, seed=1), normal(4)],
    ),
    "instance_norm": (lambda x: F.instance_norm(x), [normal(3, 4, 5, 4)]),
    "group_norm of pictures": (
        lambda x, w, b: F.group_norm(x, 2, w, b), [normal(3, 6, 5, 4), normal(6, seed=1), normal(6)],
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [normal(5, 4, 7), normal(4), normal(4, seed=1)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, TARGETS.to(x.device)), [normal(5, 70)]),
    "cross_entropy of int32": (
        lambda x: F.cross_entropy(x, IDS[:5].int().to(x.device), reduction="sum"), [normal(5, 9)],
    ),
    "cross_entropy with weights": (
        lambda x, w: F.cross_entropy(x, TARGETS.to(x.device), w.detach(), label_smoothing=0.1) + w.sum(),
        [normal(5, 9), normal(9, seed=1).abs()],
    ),
    "cross_entropy of rows": (
        lambda x: F.cross_entropy(x, TARGETS.to(x.device), reduction="none", label_smoothing=0.2), [normal(5, 9)],
    ),
    "cross_entropy of pictures": (lambda x: F.cross_entropy(x, IDS.reshape(1, 7).to(x.device)), [normal(1, 5, 7)]),
    "other losses": (
        lambda x, y: F.mse_loss(x, y) + F.smooth_l1_loss(x, y) + F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        [normal(5, 9), normal(5, 9, seed=1)],
    ),
    "embedding": (lambda w: F.embedding(IDS.to(w.device), w), [normal(5, 70)]),
    "rows that repeat": (lambda x: x[IDS.to(x.device), :, IDS.flip(0).to(x.device)], [normal(5, 3, 5)]),
    "gather": (lambda x: x.gather(0, IDS.reshape(1, 7).expand(2, 7).to(x.device)), [normal(5, 7)]),
    "written": (
        lambda x, y: x.clone().index_put_((IDS.to(x.device),), y, accumulate=True).index_fill(
            1, IDS[:2].to(x.device), 0.5
        ).scatter(1, IDS.reshape(1, 7)[:, :1].to(x.device), 2.0),
        [normal(5, 6), normal(7, 6, seed=1)],
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x.round(), 3, **SMALL) + F.adaptive_max_pool2d(x, (5, 4)), [normal(2, 3, 9, 8)],
    ),
    "max_pool1d of halves": (lambda x: F.max_pool1d(x.half(), 2, 3, dilation=2).float(), [normal(3, 17)]),
    "avg_pool2d": (
        lambda x: F.avg_pool2d(x, 3, **SMALL) + F.adaptive_avg_pool2d(x, (5, 4)) + F.avg_pool2d(
            x, 3, **SMALL, count_include_pad=False
        ),
        [normal(2, 3, 9, 8)],
    ),
    "avg_pool1d of halves": (lambda x: F.avg_pool1d(x.half(), 3, 2).float(), [normal(3, 17)]),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        [normal(2, 6, 9, 11), normal(10, 3, 3, 2, seed=1), normal(10, seed=2)],
    ),
    "depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, (1, 2), (2, 1), groups=5),
        [normal(2, 5, 9, 8), normal(10, 1, 3, 5), normal(10)],
    ),
    "conv transpose": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2, (1, 2)),
        [normal(2, 4, 5, 3), normal(4, 3, 3, 2, seed=1), normal(6, seed=2)],
    ),
    "sizes": (
        lambda x: F.interpolate(x, (9, 5), mode="bilinear") + F.interpolate(x, (9, 5)), [normal(2, 2, 4, 7)],
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [normal(2, 3, 70, 20), normal(2, 3, 70, 20, seed=1), normal(2, 3, 70, 70, seed=2)],
    ),
    "attention with a mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, (m > -1).detach()) + 0 * m.sum(),
        [normal(2, 2, 9, 8), normal(2, 2, 67, 8, seed=1), normal(2, 2, 67, 5, seed=2), normal(9, 67, seed=3)],
    ),
    "attention with numbers, of groups": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m.detach(), enable_gqa=True) + 0 * m.sum(),
        [normal(1, 4, 5, 8), normal(1, 2, 5, 8, seed=1), normal(1, 2, 5, 8, seed=2), normal(1, 1, 5, 5, seed=3)],
    ),
    "attention of halves": (
        lambda q, k, v: F.scaled_dot_product_attention(q.half(), k.half(), v.half(), is_causal=True).float(),
        [normal(1, 3, 19, 20), normal(1, 3, 19, 20, seed=1), normal(1, 3, 19, 8, seed=2)],
    ),
    "products so far": (lambda x: x.cumprod(1) + x.cumsum(0), [normal(3, 131)]),
    "products of halves": (lambda x, y: (x.half() @ y.half()).float(), [normal(2, 9, 33), normal(2, 33, 40, seed=1)]),
    "dropout": (lambda x: F.dropout(x, 0.5) * 0 + x, [normal(3, 131)]),
}  # fmt: skip


def test_gradients() -> None:
    def check(name: str) -> None:
        function, inputs = SLOPED[name]
        results: list[list[Tensor]] = []
        for device in ("cpu", DEVICE):
            own = [x.detach().to(device).requires_grad_() for x in inputs]
            y = function(*own)
            y.backward(normal(*y.shape, seed=9).to(device) if y.shape else None)
            results.append([y, *(x.grad for x in own if x.grad is not None)])
        assert len(results[0]) == len(results[1]) == 1 + len(inputs)
        tolerance = 4e-3 if "halves" in name else 1e-4
        for expected, found in zip(*results, strict=True):
            close(found.detach(), expected.detach(), tolerance)

    check_each(check, [(name,) for name in SLOPED])


@pytest.mark.parametrize("kind", [pyapp.nn.LSTM, pyapp.nn.GRU])
def test_recurrent_layers(kind: Any) -> None:
    pyapp.manual_seed(0)
    layer, x = kind(6, 8, num_layers=2, batch_first=True), normal(3, 5, 6)
    results = []
    for device in ("cpu", DEVICE):
        layer.to(device).zero_grad()
        own = x.detach().to(device).requires_grad_()
        y = layer(own)[0]
        (y * y).sum().backward()
        results.append([y.detach(), own.grad, *(p.grad for p in layer.parameters())])
    for expected, found in zip(*results, strict=True):
        close(found, expected, 1e-4)


def test_steps_of_optimisers() -> None:
    def check(name: str, settings: dict[str, Any]) -> None:
        results = []
        for device in ("cpu", DEVICE):
            parameters = [normal(9, 7).to(device).requires_grad_(), normal(5, seed=1).to(device).requires_grad_()]
            optimizer = getattr(pyapp.optim, name)(parameters, lr=0.1, **settings)
            for seed in range(3):
                for parameter in parameters:
                    parameter.grad = normal(*parameter.shape, seed=seed + 2).to(device)
                pyapp.nn.utils.clip_grad_norm_(parameters, 2.0)
                optimizer.step()
            results.append([parameter.detach() for parameter in parameters])
        for expected, found in zip(*results, strict=True):
            close(found, expected, 1e-4)

    cases = [("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("AdamW", {"weight_decay": 0.1})]
    cases += [(name, {}) for name in ("Adam", "RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Lion", "Rprop")]
    check_each(check, cases)


def test_random_numbers_are_those_of_the_cpu() -> None:
    found = []
    for device in ("cpu", DEVICE):
        pyapp.manual_seed(5)
        found.append([pyapp.rand(3, 7, device=device), pyapp.randn(1025, device=device), pyapp.rand(2, device=device)])
    for expected, own in zip(*found, strict=True):
        close(own, expected, 2e-6)
    assert found[0][0].tolist() == found[1][0].tolist()


def test_sorting() -> None:
    few = pyapp.tensor([[0.5, NAN, -0.0, 2.0, 0.0, -7.0], [1.0, 1.0, float("-inf"), NAN, float("inf"), 1.0]])
    for x in (few, few.half(), (few * 3).nan_to_num(9, 9, -9).int(), few.nan_to_num(1, 1, 1).long() << 33, few > 0):
        for dim, down in ((0, True), (1, False), (1, True)):
            expected, there = x.sort(dim, down, stable=True), x.to(DEVICE).sort(dim, down, stable=True)
            assert there.indices.tolist() == expected.indices.tolist()
            assert there.values.device == DEVICE and str(there.values.tolist()) == str(expected.values.tolist())
    x = normal(3, 1300, seed=3).round(decimals=2)
    assert x.t().to(DEVICE).argsort(0, stable=True).tolist() == x.t().argsort(0, stable=True).tolist()
    assert x.to(DEVICE).topk(7).values.tolist() == x.topk(7).values.tolist()
    assert (x > 3.3).any(1).tolist() == (x.to(DEVICE) > 3.3).any(1).tolist() and x.to(DEVICE).isfinite().all().item()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "q8_0", "q8_group", "q4_0", "q4_K", "q6_K"])
def test_weights_of_every_format(kind: str) -> None:
    outputs, inputs = 19, 256
    w, x, ids = normal(outputs, inputs), normal(5, inputs, seed=1), pyapp.tensor([3, 18, 0], dtype=pyapp.int32)
    if kind == "q8_group":
        quants, scales = (w * 30).to("int8"), w[:, ::64].contiguous()
        packed = quant.from_groups(quants.numpy().tobytes(), scales.numpy().tobytes(), w.shape, 64)
    else:
        packed = quant.quantize(w, kind) if kind[0] == "q" else w.to(kind)
    there = packed.to(DEVICE)
    close(there.to("float32"), packed.to("float32"))
    for rows in (1, 5):
        close(ops.linear(x[:rows].to(DEVICE), there), ops.linear(x[:rows], packed), 1e-4)
    close(ops.embedding(there, ids.to(DEVICE)), ops.embedding(packed, ids))
    if kind[0] == "q" and kind != "q8_group":
        again = quant.from_blocks(quant.to_blocks(packed).data, (outputs, inputs), kind, pyapp.device(DEVICE))
        assert again._storage.read() == packed._storage.read()
    if kind == "q8_0":
        assert quant.quantize(w.to(DEVICE), kind)._storage.read() == packed._storage.read()


def test_a_cache_of_halves_in_blocks() -> None:
    """cache_write and cached_attention with a table of blocks, a window and grouped heads."""
    texts, tokens, heads, kv_heads, size, capacity, halves, parts, blocks = 2, 3, 4, 2, 8, 4, 11, 3, 6
    rows, row, kv_row = texts * tokens, heads * size, kv_heads * size
    q, new = normal(rows, heads, size), normal(rows, kv_heads, size, seed=1)

    def write(cache: Tensor, position: Tensor, table: Tensor) -> None:
        numbers = texts, tokens, kv_heads, size, capacity, kv_row, halves, parts, blocks
        KERNELS["cache_write"].launch(0, cache, new.to(cache.device), position, table, *numbers)

    results = []
    for device in ("cpu", DEVICE):
        caches = [normal(blocks, kv_heads, capacity, size, seed=seed).half().to(device) for seed in (2, 3)]
        table = pyapp.tensor([[5, 1, 2], [0, 3, 4]], dtype=pyapp.int32).to(device)
        position = pyapp.tensor([6, 2], dtype=pyapp.int32).to(device)
        y = pyapp.zeros(rows, heads, size, device=device)
        for cache in caches:
            write(cache, position, table)
        KERNELS["cached_attention"].launch(
            0, y, q.to(device), *caches, position, None, None, table,
            texts, tokens, heads, kv_heads, size, capacity, row, row, 1, 5, halves, parts, blocks, 0.35, 0.0,
        )  # fmt: skip
        results.append([y, *caches])
    for ours, expected in zip(results[1], results[0], strict=True):
        close(ours, expected, 1e-3 if ours.dtype is pyapp.float16 else 1e-4)
    with pytest.raises(IndexError, match="position is outside the cache"):
        write(caches[0], position + 9, table)
        opened().synchronize()


def test_a_graph_is_kept_by_the_card() -> None:
    x = normal(4, 4).to(DEVICE)
    graph = capture(lambda: (x @ x + 1.0).softmax(-1))
    card = opened().card
    for seed in (1, 2):
        x.copy_(normal(4, 4, seed=seed).to(DEVICE))
        opened().synchronize()
        starts, submissions = card.starts, card.submissions
        close(graph.replay(), (normal(4, 4, seed=seed) @ normal(4, 4, seed=seed) + 1.0).softmax(-1))
        assert card.starts - starts == len(graph.names) and card.submissions - submissions == 1
    kept = card.graphs.size
    del graph
    assert card.graphs.size == kept - 1


def test_tokens_are_drawn_as_on_the_cpu() -> None:
    logits = normal(80) * 3

    def drawn(device: str, **settings: Any) -> list[int]:
        sampler = Sampler(SamplingOptions(seed=1, **settings), 80, 40, pyapp.device(device))
        sampler.accept([3, 7])
        found = []
        for _ in range(4):
            found.append(sampler.sample(logits.to(device)))
            sampler.accept(found[-1:])
        return found

    for settings in (
        {"temperature": 0.0, "repetition_penalty": 1.5}, {"temperature": 1.0, "top_p": 1.0},
        {"temperature": 0.7, "top_p": 0.8, "top_k": 20}, {"temperature": 1.0, "min_p": 0.1, "repetition_penalty": 1.2},
        {"temperature": 1.5, "top_p": 1.0, "typical_p": 0.5},
    ):  # fmt: skip
        assert drawn(DEVICE, **settings) == drawn("cpu", **settings)


def test_a_model_writes_what_it_writes_on_the_cpu() -> None:
    """The page's model. A step for a token is one Graph, which is sent at once; the draw is sent with its read."""
    written = {}
    for device in ("cpu", DEVICE):
        session = Session(load_model(str(STORIES), device=device).model)
        sampler = Sampler(SamplingOptions(temperature=0.0), 2048, 200, session.device)
        logits, tokens = session.feed([1, 365, 400]), []
        for _ in range(8):
            tokens.append(sampler.sample(logits))
            logits = session.step(tokens[-1])
        written[device] = tokens
    assert written[DEVICE] == written["cpu"] and len(set(tokens)) > 3
    opened().synchronize()
    card = opened().card
    starts, submissions = card.starts, card.submissions
    logits = session.step(tokens[-1])
    assert card.starts - starts == 58 and card.submissions - submissions == 1
    sampler.sample(logits)
    assert card.starts - starts == 59 and card.submissions - submissions == 2


class _Sees(nn.Module):
    """A convolution, norms, pools and attention: what many trainings have."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.places, self.drop = nn.Embedding(9, 8), nn.Dropout(0.1)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor, places: Tensor) -> Any:
        x = self.filters(x).flatten(2).transpose(1, 2)  # (B, 9, 8)
        return self.head(self.layer(self.drop(x + self.places(places))).mean(1))


def _losses(device: str) -> list[float]:
    """Of two steps, and of three as one Graph."""
    pyapp.manual_seed(0)
    model = _Sees().to(device)
    optimizer = pyapp.optim.AdamW(model.parameters(), lr=0.01)
    x, places, target = normal(6, 1, 6, 6).to(device), pyapp.arange(9).to(device), IDS[:6].to(device)

    def step(x: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, places), target)
        loss.backward()
        optimizer.step()
        return loss

    compiled = pyapp.compile(step)
    return [float(one(x, target)) for one in (step, step, compiled, compiled, compiled)]


def test_a_training_is_that_of_the_cpu() -> None:
    expected = _losses("cpu")
    np.testing.assert_allclose(_losses(DEVICE), expected, rtol=1e-4)
    assert expected[-1] < expected[0]


def test_keras_on_the_default_device() -> None:
    keras, found = pyapp.keras, []
    x = normal(64, 6, 6, 1).numpy()
    y = x.reshape(64, -1)[:, :5].argmax(1)
    for device in ("cpu", DEVICE):
        pyapp.set_default_device(device)
        try:
            keras.utils.set_random_seed(0)
            layers = [
                keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.BatchNormalization(),
                keras.layers.MaxPooling2D(2), keras.layers.Flatten(), keras.layers.Dropout(0.2), keras.layers.Dense(5),
            ]  # fmt: skip
            model = keras.Sequential(layers)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("adam", loss, metrics=["accuracy"])
            history = model.fit(x, y, batch_size=32, epochs=2, validation_split=0.25, verbose=0).history
            found.append([*history.values(), model.predict(x[:3], verbose=0).ravel()])
            assert pyapp.device(model.layers[0].kernel.value.device) == device
        finally:
            pyapp.set_default_device("cpu")
    for expected, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-3, atol=1e-4)


def test_random_programs() -> None:
    """Views, indices, writes in place, reductions and gradients, of every dtype: what has no kernel is computed by the
    host."""
    warnings.simplefilter("ignore")
    pyapp.set_default_device(DEVICE)
    try:
        check_each(random_programs.check, [(program,) for program in random_programs.KEPT[::8]])
    finally:
        pyapp.set_default_device("cpu")


def test_models_that_hear_and_see() -> None:
    """The encoders of Whisper and ViT: convolution, attention of whole sequences."""
    pyapp.manual_seed(0)
    hears = make(CONFIGS["deep"])
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48}
    sees = vit.ViT(vit.Config.from_dict({"model_type": "vit", "image_size": [24, 16], "patch_size": 8, **sizes}))
    mel, picture = pyapp.from_numpy(inputs(hears.config)[0]), normal(2, 3, 24, 16)
    with pyapp.no_grad():
        expected = [hears.encode(mel), sees.eval()(picture)]
        for tensor in (*hears.parameters(), *hears.buffers(), *sees.parameters(), *sees.buffers()):
            tensor.data = tensor.data.to(DEVICE)
        found = [hears.encode(mel.to(DEVICE)), sees(picture.to(DEVICE))]
    for one, other in zip(found, expected, strict=True):
        close(one, other, 1e-4)


def test_a_card_that_is_lost_and_a_browser_that_cannot_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyodide.ffi

    from pyapp import browser

    other = webgpu.open_with(browser._host.openGraphicsCard)
    address = other.allocate(64)
    assert address is not None
    other.write(address, b"1234")
    other.card.device.destroy()
    with pytest.raises(pyapp.errors.KernelError, match="not there any more.*Reload the page"):
        other.read(address, bytearray(4))
    with pytest.raises(pyapp.errors.KernelError, match="not there any more"):
        other.allocate(other.largest // 2)
    monkeypatch.setattr(pyodide.ffi, "can_run_sync", lambda: False)
    with pytest.raises(RuntimeError, match="JavaScript Promise Integration"):
        webgpu.open_with(browser._host.openGraphicsCard)
