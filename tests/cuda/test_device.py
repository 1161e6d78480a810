"""The CUDA device on the emulator: memory, errors, graphs, compiled kernels on disk; and what the emulator notices."""

from __future__ import annotations

import ctypes
import gc
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.engine import capture
from pyapp.engine.device import HiddenAddress, register
from pyapp.engine.devices.cuda import Cuda
from pyapp.engine.element_types import CODES
from pyapp.engine.gpu import card as cards
from pyapp.engine.gpu import nvidia, sources
from pyapp.engine.launch import KERNELS
from pyapp.engine.native import HOST_KERNELS, SIGNATURES
from pyapp.engine.storage import trim_backend
from pyapp.errors import KernelError

from . import emulated

pytestmark = pytest.mark.native_only
DEVICE = emulated.DEVICE
on_the_emulator = pytest.mark.skipif(emulated.REAL, reason="looks into the emulated card")
NATIVE = Path(__file__).parents[2] / "native"


def test_a_tensor_goes_there_and_back() -> None:
    x = pyapp.from_numpy(np.random.RandomState(0).randn(4, 5).astype("float32"))
    for source in (x, x.t(), x[:, 1:3], x.half(), x.bfloat16(), pyapp.arange(7), pyapp.tensor(3.5), x[:0], x > 0):
        there = source.to(DEVICE)
        assert there.device == DEVICE and there.shape == source.shape and there.dtype is source.dtype
        assert there.cpu().tolist() == source.tolist() == there.tolist()
    assert isinstance(x.to(DEVICE).address, HiddenAddress)
    with pytest.raises(RuntimeError, match=f"cpu and {DEVICE}"):
        KERNELS["exp_f32"].launch(0, x, x.to(DEVICE), 20)


def test_what_a_kernel_finds_wrong_is_raised_once_and_the_device_goes_on() -> None:
    x = pyapp.arange(12.0).reshape(4, 3).to(DEVICE)
    for index in ([4], [-5]):
        taken = x[pyapp.tensor(index, device=DEVICE)]
        with pytest.raises(IndexError, match="an index.*the kernel index_get"):
            taken.tolist()
    x[pyapp.tensor([0, 7], device=DEVICE)] = 1.0  # not even row 0 is written
    backend: Any = x.device.backend
    backend.card.synchronize()
    with pytest.raises(IndexError, match="the kernel index_put"):
        pyapp.zeros(3, device=DEVICE) + 1.0
    assert x.tolist() == pyapp.arange(12.0).reshape(4, 3).tolist()
    quotient = pyapp.tensor([4, 6], device=DEVICE) // pyapp.tensor([2, 0], device=DEVICE)
    with pytest.raises(RuntimeError, match="divided by zero"):
        quotient.tolist()
    assert (x + 1.0).tolist()[0] == [1.0, 2.0, 3.0]


@on_the_emulator
@pytest.mark.parametrize("kernels, graphs", [(1, 0), (3, 1)])
def test_a_graph_of_a_few_kernels_is_launched_by_itself(
    kernels: int, graphs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card takes longer to start a graph than one kernel."""
    card, captured = pyapp.device(DEVICE).backend.card, []
    begin = card.begin_capture
    monkeypatch.setattr(card, "begin_capture", lambda: (captured.append(1), begin())[1])
    x = pyapp.tensor([1.0, 2.0], device=DEVICE)

    def compute() -> pyapp.Tensor:
        y = x
        for _ in range(kernels):
            y = y.tanh()
        return y

    graph = capture(compute)
    assert len(captured) == graphs
    x.assign([0.5, -1.0])
    expected = pyapp.tensor([0.5, -1.0])
    for _ in range(kernels):
        expected = expected.tanh()
    assert pyapp.allclose(graph.replay().cpu(), expected, atol=1e-6)


@on_the_emulator
def test_a_graph_checks_again_and_has_scratch_memory_of_its_own() -> None:
    table, ids = pyapp.arange(20_000.0).reshape(4, 5000).to(DEVICE), pyapp.tensor([1, 3], dtype="int32").to(DEVICE)
    backend: Any = table.device.backend

    def compute() -> Tensor:
        rows = pyapp.ops.embedding(table, ids)
        return rows.sort(-1, descending=True).values[:, :2]  # for long lines sort has scratch memory

    gc.collect()  # what other tests have left would be freed meanwhile
    trim_backend(backend)
    before = backend.card.used
    graph = capture(compute)
    pyapp.rand(2, 9000, device=DEVICE).sort(-1)  # the device's own scratch memory moves
    for values in ([0, 2], [3, 1]):
        ids.assign(values)
        assert graph.replay().tolist() == [[5000 * i + 4999.0, 5000 * i + 4998.0] for i in values]
    ids.assign([0, 4])
    graph.replay()
    with pytest.raises(IndexError, match="the kernel embedding_copy"):
        graph.outputs.tolist()
    ids.assign([2, 2])
    assert graph.replay().tolist()[1] == [14999.0, 14998.0]
    trim_backend(backend)
    kept = backend.card.used
    del graph
    assert before < kept and backend.card.used < kept
    emulated.check()


@on_the_emulator
def test_kernels_overlap_behind_kernels_of_a_graph_only() -> None:
    """Not the first, nor what is launched outside of a Graph; nor a Graph of few, which is launched as it is."""
    x, w = pyapp.rand(2, 64).to(DEVICE), pyapp.rand(8, 64).to(DEVICE)
    card: Any = x.device.backend.card  # type: ignore[attr-defined]

    def compute() -> Tensor:
        return pyapp.ops.linear(x.tanh(), w, None, None).softmax(-1)

    before = len(card.overlapped)
    with pyapp.no_grad():
        alone = compute()
        few = capture(lambda: x.tanh().exp())
        few.replay()
        assert len(card.overlapped) == before
        graph = capture(compute)
        started = card.overlapped[before:]
        assert started == ["linear_f32", "softmax_f32"], started
        assert graph.replay().tolist() == alone.tolist()
    emulated.check()


@on_the_emulator
def test_counters_are_zero_again() -> None:
    """Of attention, whose last part joins the others: in the device's own scratch memory, also after an error."""
    keys, q = pyapp.rand(3, 2, 300, 8).to(DEVICE), pyapp.rand(3, 1, 4, 8).to(DEVICE)
    blocks, table = pyapp.rand(6, 2, 150, 8).to(DEVICE), [[0, 5], [3, 1], [2, 4]]
    backend: Any = keys.device.backend

    def attend(position: list[int]) -> Tensor:
        return pyapp.ops.cached_attention(q, keys, keys, pyapp.tensor(position, dtype="int32").to(DEVICE))

    def attend_blocks(table: list[list[int]]) -> Tensor:
        position, own = (pyapp.tensor(x, dtype="int32").to(DEVICE) for x in ([299, 5, 280], table))
        return pyapp.ops.cached_attention(q, blocks, blocks, position, block_table=own)

    def counters() -> bytes:
        own = backend._scratch[0]
        assert own.counters >= 12
        return ctypes.string_at(own.memory, own.at - own.memory)

    first, other = attend([299, 5, 130]), attend_blocks(table)
    assert not any(counters())
    for wrong in (lambda: attend([299, 300, 0]), lambda: attend_blocks([[0, 5], [3, 1], [2, 6]])):
        wrong()
        with pytest.raises(IndexError):
            backend.raise_errors()
        assert not any(counters())
    assert attend([299, 5, 130]).tolist() == first.tolist()
    assert attend_blocks(table).tolist() == other.tolist()


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_a_token_does_not_depend_on_its_company(kind: str) -> None:
    """Attention of a few tokens has the same bits for a text alone, where each part of the keys has a warp, and among
    others, where a warp takes several parts; for a token alone and with those before it; in blocks and without.
    """
    chance = np.random.RandomState(5)
    texts, heads, capacity, size, tokens = 9, 4, 301, 12, 5
    places = [0, 30, 31, 63, 64, 128, 200, 255, 296]
    q = pyapp.from_numpy(chance.randn(texts, tokens, heads, size).astype("float32"))
    k, v = (pyapp.from_numpy(chance.randn(texts, 2, capacity, size).astype("float32")).to(kind) for _ in range(2))
    there, keys, values = (x.to(DEVICE) for x in (q, k, v))

    def attend(first: int, last: int, token: int) -> Tensor:
        """Of these texts, from a token on."""
        position = pyapp.tensor([place + token for place in places[first:last]], dtype="int32").to(DEVICE)
        own = there[first:last, token:].contiguous()
        return pyapp.ops.cached_attention(own, keys[first:last], values[first:last], position)

    found = attend(0, texts, 0)  # four parts for a warp
    assert attend(0, 3, 4).tolist() == found[:3, 4:].tolist()  # two
    for text in range(texts):
        assert attend(text, text + 1, 4).tolist() == found[text : text + 1, 4:].tolist(), text
    padded = [pyapp.cat([x, x[:, :, :19]], 2).reshape(texts, 2, 5, 64, size) for x in (k, v)]
    blocks = [x.permute(0, 2, 1, 3, 4).reshape(5 * texts, 2, 64, size).contiguous().to(DEVICE) for x in padded]
    table = pyapp.arange(5 * texts, dtype="int32").reshape(texts, 5).to(DEVICE)
    position = pyapp.tensor(places, dtype="int32")
    in_blocks = pyapp.ops.cached_attention(there, *blocks, position.to(DEVICE), block_table=table)
    assert in_blocks.tolist() == found.tolist()
    expected = pyapp.ops.cached_attention(q, k.float(), v.float(), position)
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), atol=2e-6)


def test_one_token_fills_a_card() -> None:
    """The blocks of attention follow the card, whose multiprocessors Python and the compiler know alike."""
    names = SIGNATURES["cached_attention"].split("|")[1].split()

    def blocks(multiprocessors: int, **sizes: int) -> int:
        own = {"tokens": 1, "head_dim": 64, "type": CODES[pyapp.float16]} | sizes
        step = sources.plans(multiprocessors)["cached_attention"].steps[0]
        return step.blocks([own.get(name, 0) for name in names])

    for cards_own in (24, 108, 132):
        for heads in (8, 12, 32, 40):
            one = blocks(cards_own, texts=1, heads=heads, capacity=8192)
            assert min(2 * cards_own, 64 * heads // 4) <= one <= 2 * cards_own + heads // 4
    assert blocks(132, texts=1, heads=32, capacity=1024) == 256
    assert blocks(132, texts=16, heads=32, capacity=1024) == 1024  # four parts for a warp
    assert "#define MULTIPROCESSORS 24\n" in sources.text_of("attention", multiprocessors=24)
    assert sources.text_of("rope", multiprocessors=24) == sources.text_of("rope")


def test_memory_ends_with_an_error_that_names_sizes() -> None:
    backend = Cuda(emulated.EmulatedCard(1 << 20))
    register("small", lambda index: backend)
    x = pyapp.zeros(100_000, device="small")
    for _ in range(2):
        with pytest.raises(MemoryError, match=r"cannot allocate 8\d\d,\d+ bytes on small \(tensors hold 4.*1,048,576"):
            pyapp.zeros(200_000, device="small")
    assert (x + 1.0)[:2].tolist() == [1.0, 1.0] and backend.peak >= 800_000
    backend.limit = backend.allocated
    with pytest.raises(MemoryError, match="and the limit is"):
        pyapp.zeros(200_000, device="small")
    backend.limit = None
    assert pyapp.ones(3, device="small").tolist() == [1.0] * 3


def test_scratch_memory_takes_what_freed_blocks_hold() -> None:
    register("tight", lambda index: Cuda(emulated.EmulatedCard(1 << 20)))
    freed = pyapp.zeros(150_000, device="tight")
    del freed
    x = pyapp.arange(25_000.0).to("tight")  # which sorting needs 400,000 bytes for
    assert x.sort(descending=True).values[:2].tolist() == [24_999.0, 24_998.0]


def test_small_blocks_share_memory_of_the_card() -> None:
    card = emulated.EmulatedCard()
    card.slab = 1 << 16
    backend = Cuda(card)
    blocks = [backend.allocate(nbytes) for nbytes in (1, 64, 200, 4096, 5000)]
    places = sorted(block.value for block in blocks if block is not None)
    assert len(places) == 5 and all(b - a >= 64 for a, b in zip(places, places[1:], strict=False))
    assert len(card.blocks) == 4  # the word, the status, a slab, the large block
    for number, block in enumerate(blocks):
        assert block is not None
        backend.write(block, bytes([number]))
    for number, block in enumerate(blocks):
        back = bytearray(1)
        backend.read(block, back)
        assert back[0] == number
        backend.free(block)
    again = backend.allocate(200)
    assert again == blocks[2] and backend.allocated == 200


def test_compiled_kernels_are_kept_and_damaged_ones_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYAPP_CUDA_CACHE", str(tmp_path / "cache"))
    card, compiled = emulated.EmulatedCard(), []
    monkeypatch.setattr(card, "compile", lambda source, text, headers: compiled.append(source) or b"image of it")
    assert cards.compiled(card, "rope") == cards.compiled(card, "rope") == b"image of it" and compiled == [
        "native/cuda/rope"
    ]
    (path,) = (tmp_path / "cache").iterdir()
    for damaged in (b"", path.read_bytes()[:-1], path.read_bytes() + b"x"):
        path.write_bytes(damaged)
        assert cards.compiled(card, "rope") == b"image of it"
    assert compiled == ["native/cuda/rope"] * 4
    card.architecture = "another"
    cards.compiled(card, "rope")
    assert len(compiled) == 5
    monkeypatch.setattr(os, "replace", refused)
    card.architecture = "a third"
    assert cards.compiled(card, "rope") == b"image of it" and len(list((tmp_path / "cache").iterdir())) == 2


def refused(*_: Any) -> None:
    raise OSError("No space left on device")


def test_what_has_no_elements() -> None:
    """The errors and shapes of the CPU."""
    x = pyapp.empty(0, 4, device=DEVICE)
    for call in (lambda: x.max(), lambda: x.amin(0), lambda: x.argmax(), lambda: x.max(0)):
        with pytest.raises((ValueError, IndexError), match="no elements"):
            call()
    assert x.amax(1).shape == (0,)
    images, weight = pyapp.empty(0, 1, 4, 4, device=DEVICE), pyapp.ones(1, 1, 2, 2, device=DEVICE)
    assert pyapp.nn.functional.conv2d(images, weight).shape == (0, 1, 3, 3)


def test_counts_lie_where_what_they_count_does() -> None:
    """NumPy finds them; results are on the device, and two devices are refused."""
    x = pyapp.tensor([3, 1, 3], device=DEVICE)
    device = pyapp.device(DEVICE)
    values, counts = x.unique(return_counts=True)
    found = [values, counts, x.bincount(), pyapp.isin(x, x[:1]), pyapp.searchsorted(values, x)]
    assert all(result.device == device for result in found)
    assert [result.tolist() for result in found[1:]] == [[1, 2], [0, 1, 0, 2], [True, False, True], [1, 0, 1]]
    for refused in (lambda: pyapp.isin(x, x.cpu()), lambda: pyapp.searchsorted(values.cpu(), x)):
        with pytest.raises(RuntimeError, match="tensors are on"):
            refused()
    bag = pyapp.nn.EmbeddingBag(5, 3)
    ids, starts = pyapp.tensor([0, 1, 2]), pyapp.tensor([0, 2])
    expected = bag(ids, starts)
    assert pyapp.allclose(bag.to(DEVICE)(ids.to(DEVICE), starts.to(DEVICE)).cpu(), expected, atol=1e-6)


def test_the_sources_have_the_kernels_of_the_c_files_of_their_names() -> None:
    for name, plan in sources.plans().items():
        path = NATIVE / f"{plan.steps[-1].source}.c"  # none where CUDA alone has all the kernels
        text = path.read_text() if path.exists() else ""
        found = re.search(rf"^(?:\w+_)?KERNEL\({name}\b", text, re.MULTILINE) is not None
        assert found == (name in HOST_KERNELS), name
        assert all(step.threads % 32 == 0 for step in plan.steps)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("KERNEL(no_such_kernel, 1, 32, 0)", "is not a kernel"),
        ("KERNEL(exp_f32, rows, 32, 0)", "'rows' is not a dim of the kernel 'exp_f32'"),
        ("KERNEL(exp_f32, PARTS(count, 32", "does not end"),
        ("KERNEL(exp_f32, 1, 32, 0) {} STEP(exp_f32, 1, 1, 32, 0)", "does not begin its line"),
        ("#define TWICE(x) TWICE(x)\nKERNEL(exp_f32, TWICE(count), 32, 0)", "contains itself"),
    ],
)
def test_lines_that_do_not_fit_are_refused(line: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.cu"
    path.write_text(line)
    with pytest.raises(KernelError, match=error):
        sources.read_source(path)


@on_the_emulator
def test_a_machine_without_a_driver_says_what_is_missing() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(ValueError, match=r"no device 'cuda:1'.*no CUDA driver on this machine.*NVIDIA"):
            pyapp.zeros(3, device="cuda:1")
        with pytest.raises(ValueError, match="no device 'cuda:1'"):  # a number is that of a card, as in torch
            pyapp.zeros(3).to(1)
        assert nvidia.count() == 0 and pyapp.device(0) == "cuda:0"


@pytest.mark.skipif(not emulated.REAL or nvidia.count() < 2, reason="needs two cards")
def test_two_cards() -> None:
    x = pyapp.rand(1 << 20, device="cuda:0")
    y = (x * 2.0).to("cuda:1")
    assert (y - 1.0).to("cuda:0").tolist() == (x * 2.0 - 1.0).tolist()


# ---- what the emulator notices

KERNEL = "{}\nKERNEL(exp_f32, 1, 64, 64)\n{{\n    float *y = (float *)record.pointers[exp_f32_y];\n{}\n}}\n"
WRONG = {
    "past the end of the dynamic shared memory": "DYNAMIC_SHARED(float, s); s[threadIdx.x] = 1; y[0] = s[0];",
    "threads wait for others": "if (threadIdx.x < 40) __syncthreads(); else __syncwarp(); y[0] = 1;",
    "for some lanes only": "y[0] = __shfl_sync(1u, 1.0f, 0);",
    "written behind a block": "y[32 + threadIdx.x] = 1;",
}


def run_alone(body: str) -> list[float]:
    """The 32 floats that a kernel of 64 threads writes."""
    card = emulated.EmulatedCard()
    text = KERNEL.format('#include "gpu.h"', body)
    function = card.function(card.load(card.compile("alone", text, sources.headers())), "exp_f32")
    address = card.allocate(128)
    assert address is not None
    record = bytearray(280)
    record[8:16] = address.to_bytes(8, "little")
    buffer = (ctypes.c_ubyte * 280).from_buffer(record)
    nothing = ctypes.c_uint64(0)
    pointers = [ctypes.addressof(x) for x in (buffer, nothing, nothing)]
    card.launch(function, 1, 64, 64, (ctypes.c_void_p * 3)(*pointers))
    found = (ctypes.c_float * 32)()
    card.read(ctypes.addressof(found), address, 128)
    card.check()
    return list(found)


@pytest.mark.parametrize("error", WRONG)
def test_the_emulator_notices(error: str) -> None:
    with pytest.raises(AssertionError, match=error):
        run_alone(WRONG[error])


def test_the_emulator_needs_every_barrier() -> None:
    body = "__shared__ float s[64]; s[threadIdx.x] = threadIdx.x; {}"
    body += "if (threadIdx.x < 32) y[threadIdx.x] = s[63 - threadIdx.x];"
    assert run_alone(body.format("__syncthreads();")) == [63.0 - i for i in range(32)]
    assert run_alone(body.format("")) != [63.0 - i for i in range(32)]
