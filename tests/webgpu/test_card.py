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
from pyapp import Tensor, ops
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
        there.storage.bytes_view()
    with pytest.raises(RuntimeError, match="cpu and webgpu"):
        x + x.to(DEVICE)


def test_bytes_between_words() -> None:
    """A card copies whole words: what stands beside them stays."""
    host = np.arange(23, dtype=np.uint8)
    for first, count in ((0, 23), (1, 2), (3, 5), (4, 7), (5, 16), (2, 1)):
        x = pyapp.from_numpy(host).to(DEVICE)
        assert x[first : first + count].cpu().tolist() == host[first : first + count].tolist()
        x.storage.write(first, bytes([200] * count))
        expected = host.copy()
        expected[first : first + count] = 200
        assert x.tolist() == expected.tolist()
        for to in (0, 1, 6):
            y = pyapp.zeros(40, dtype="uint8", device=DEVICE)
            y.storage.copy_from(x.storage, to, first, count)
            assert y.tolist() == [0] * to + [200] * count + [0] * (40 - to - count)


@pytest.mark.filterwarnings("ignore:.*the host computes it from copies")
def test_elements_are_written_by_their_indices() -> None:
    """No kernel does that here; what the host writes must not stay in its copy."""
    for kind in ("float32", "float16", "int64"):
        written = []
        for device in (DEVICE, "cpu"):
            x = pyapp.arange(12, device=device).to(kind).reshape(3, 4)
            values = pyapp.tensor([[50, 60, 70], [80, 90, 91]], dtype=kind, device=device)
            x.T[pyapp.tensor([2, 0], device=device)] = values
            x.index_copy_(1, pyapp.tensor([1], device=device), x[:, 3:])
            written.append(x.tolist())
        assert written[0] == written[1]


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
    for function in (lambda x: x.double() * 2, lambda x: x.cumprod(1), lambda x: x.lgamma()):
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
    for name, program in wgsl.programs().items():
        pointers, dims, _ = (group.split() for group in SIGNATURES[name].split("|"))
        sizes = [
            {"type": 13, "x_type": 13, "y_type": 13, "index_type": 8, "element_bytes": 4}.get(dim, 2) for dim in dims
        ]
        constants = [int(number(sizes)) for number in program.constants.values()]
        kinds = "".join("w" if writes else "r" for writes in wgsl.written(name))
        texts[name] = wgsl.text_of(name, constants, range(len(pointers)), kinds, False, False)

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
        assert again.storage.read() == packed.storage.read()
    if kind == "q8_0":
        assert quant.quantize(w.to(DEVICE), kind).storage.read() == packed.storage.read()


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
