"""The whole way to a card, with a double of NVIDIA's driver (driver_double.py): several cards, streams, events, memory,
user-defined kernels, and what goes wrong.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pyapp
from pyapp import Tensor, cuda, nn, optim
from pyapp.cli import cli
from pyapp.engine.devices import cuda as backend_module
from pyapp.engine.gpu import card as cards
from pyapp.engine.gpu import nvidia
from pyapp.errors import KernelError
from pyapp.extension import load
from pyapp.tasks.keeper import keeper
from pyapp.text.generation.generate import Session
from scripts import cuda_card

from . import emulated
from .driver_double import CODES, Driver, install
from .test_models import llama

pytestmark = [pytest.mark.native_only, pytest.mark.skipif(emulated.REAL, reason="needs the double of the driver")]
devices: Any = importlib.import_module("pyapp.engine.device")  # pyapp.engine.device is the class
storage: Any = importlib.import_module("pyapp.engine.storage")
EXAMPLE = Path(__file__).parents[2] / "examples" / "fused_rms_norm"


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    """Cards are opened anew, and forgotten afterwards."""
    with pytest.MonkeyPatch.context() as made:
        known = {name: found for name, found in devices._known.items() if found.type != "cuda"}
        made.setattr(devices, "_known", known)
        made.setattr(storage, "_pools", dict(storage._pools))
        yield made
        devices.choose("cuda", None)
        for found in devices._known.values():  # what is freed later finds no driver
            if isinstance(found._backend, backend_module.Cuda):
                for name in ("free", "end_stream", "end_event", "synchronize"):
                    setattr(found._backend.card, name, lambda *_: None)


@pytest.fixture
def driver(patch: pytest.MonkeyPatch) -> Driver:
    return install(patch, Driver(cards=2))


def test_why_there_is_no_card_is_said_in_a_line(patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    driver = install(patch, Driver())
    driver.start_code = CODES["CUDA_ERROR_NO_DEVICE"]
    for told in ("the CUDA driver does not start: CUDA_ERROR_NO_DEVICE", "too old: it is for CUDA 12.4, and 13.0"):
        assert cuda_card.main([]) == 2
        found = capfd.readouterr()
        assert told in found.err and found.err.count("\n") == 1 and not found.out
        driver.version, driver.start_code = 12040, 0
    driver.version = 13000
    assert cuda_card.main([]) == cuda_card.main(["--driver"]) == 0
    assert capfd.readouterr() == ("", "")


def test_cards_that_reach_each_other_copy_without_the_host(driver: Driver, patch: pytest.MonkeyPatch) -> None:
    """In the order of both streams, back and forth, parts as well; the host sees none of it."""
    x = pyapp.arange(12.0, device="cuda:0").reshape(3, 4) + 1.0
    y = pyapp.zeros(5, device="cuda:1")
    streams = [int(d.backend.stream_of(None)) for d in (x.device, y.device)]  # type: ignore[attr-defined]
    with patch.context() as inner:
        for name in ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"):
            inner.delattr(Driver, name)
        there = x.to("cuda:1")
        part = x[1:, ::2].to("cuda:1")
        y[1:3].copy_(x[0, :2])
        back = (there * 2.0).to("cuda:0")
    assert [n for n, _ in driver.copied[:2]] == [48, 16] and {s for _, s in driver.copied} == set(streams)
    assert [s for s, _ in driver.waits[:2]] == [streams[1], streams[0]]  # the copy for the kernel, then the other way
    expected = (np.arange(12, dtype=np.float32) + 1).reshape(3, 4)
    assert there.device == "cuda:1" and there.tolist() == expected.tolist()
    assert part.tolist() == expected[1:, ::2].tolist() and y.tolist() == [0, 1, 2, 0, 0]
    assert back.device == "cuda:0" and back.tolist() == (2 * expected).tolist()
    assert driver.permitted == {(101, 100), (100, 101)} and cuda.can_device_access_peer(0, 1)


@pytest.mark.parametrize(
    ("reached", "code", "direct"),
    [(False, 0, 0), (True, CODES["CUDA_ERROR_TOO_MANY_PEERS"], 0),
     (True, CODES["CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"], 1)],
)  # fmt: skip
def test_cards_that_do_not_reach_each_other(driver: Driver, reached: bool, code: int, direct: int) -> None:
    driver.reached, driver.peer_code = reached, code
    x = pyapp.rand(1 << 19, device="cuda:0")  # in pieces of staging memory
    assert x.to("cuda:1").tolist() == x.tolist() and len(driver.copied) == direct


def test_two_threads_copy_in_both_directions(driver: Driver) -> None:
    tensors = [pyapp.full((64,), float(i), device=f"cuda:{i}") for i in range(2)]
    found: dict[int, Any] = {}

    def move(i: int) -> None:
        for _ in range(50):
            found[i] = tensors[i].to(f"cuda:{1 - i}")

    threads = [threading.Thread(target=move, args=(i,), daemon=True) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert all(found[i].tolist() == [float(i)] * 64 for i in range(2))


def test_several_cards(driver: Driver) -> None:
    assert cuda.device_count() == 2 and cuda.is_available() and cuda.current_device() == 0
    x, y = pyapp.ones(3, device="cuda"), pyapp.ones(3, device="cuda:1")
    assert (str(x.device), str(y.device)) == ("cuda:0", "cuda:1")
    assert (x + 1).tolist() == (y.to(x.device) + x).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="tensors are on cuda:0 and cuda:1"):
        x + y
    cuda.set_device(1)
    assert cuda.current_device() == 1 and pyapp.zeros(1, device="cuda").device == "cuda:1"
    assert cuda.get_device_properties().name == "double 1" and cuda.get_device_name(0) == "double 0"
    assert cuda.get_device_capability() == (9, 0) and cuda.is_bf16_supported(False)
    with cuda.device(0):
        assert cuda.current_device() == 0 and pyapp.zeros(1).cuda().device == "cuda:0"
        with cuda.device_of(y), cuda.device(None):
            assert cuda.current_device() == 1
    assert cuda.current_device() == 1
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(cuda.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]  # every thread chooses for itself
    for wrong in ("cuda:2", 2):
        with pytest.raises(ValueError, match="no card number 2; this machine has 2"):
            cuda.set_device(wrong)
    with pytest.raises(ValueError, match="'cpu' is not a card"):
        cuda.synchronize("cpu")


def test_streams_and_events(driver: Driver) -> None:
    x = pyapp.arange(6.0).to("cuda")
    default, side = cuda.default_stream(), cuda.Stream(priority=-1)
    assert cuda.current_stream() == default != side and side.device == "cuda:0"
    side.wait_stream(default)
    with cuda.stream(side):
        assert cuda.current_stream() == side
        y = x * 2.0
        with side, cuda.stream(None):
            assert cuda.current_stream() == side
    assert cuda.current_stream() == default
    z = x * 3.0
    launches = [stream for stream, _ in driver.launches]
    assert launches[-2:] == [side.cuda_stream, default.cuda_stream] and driver.waits[-1][0] == side.cuda_stream
    default.wait_stream(side)
    assert (y + z).tolist() == [5.0 * i for i in range(6)]
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert start.query()
    with pytest.raises(RuntimeError, match="not recorded yet"):
        start.elapsed_time(end)
    start.record()
    side.record_event(end)
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 60_000
    driver.busy = 2
    with pytest.raises(RuntimeError, match="not reached yet"):
        start.elapsed_time(end)
    driver.busy = 2
    assert not side.query() and side.query()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        cuda.Event().elapsed_time(end)
    with pytest.raises(NotImplementedError, match="between processes"):
        cuda.Event(interprocess=True)
    handle = side.cuda_stream
    side.synchronize()
    del side
    gc.collect()
    assert handle not in driver.streams


def test_freed_memory_serves_its_own_stream(driver: Driver) -> None:
    side = cuda.Stream()
    x = pyapp.ones(5000, device="cuda")
    with side:
        y = pyapp.ones(5000, device="cuda")
    places = x.address, y.address
    del x, y
    with side:
        y = pyapp.ones(5000, device="cuda")
    x = pyapp.ones(5000, device="cuda")
    assert (x.address, y.address) == places
    with side:  # sort has scratch memory: each stream its own
        a = pyapp.arange(9000.0).to("cuda").sort(descending=True).values
    b = pyapp.arange(9000.0).to("cuda").sort(descending=True).values
    backend: Any = x.device.backend
    assert len(backend._scratch) == 2 and a.tolist() == b.tolist() == list(np.arange(8999.0, -1, -1))


def test_memory_that_another_stream_uses(driver: Driver) -> None:
    """It serves its own stream again after what the other had to do."""
    own, side = cuda.default_stream(), cuda.Stream()
    for size in (5000, 10):
        x = pyapp.ones(size, device="cuda")
        place = x.address
        view = x[2:]
        x.record_stream(own)  # its own: nothing to wait for
        view.record_stream(side)
        x.record_stream(side)
        before = len(driver.waits)
        del x
        assert len(driver.waits) == before
        del view
        (waiting, event), = driver.waits[before:]  # fmt: skip
        assert waiting == own.cuda_stream and event not in driver.events
        assert pyapp.ones(size, device="cuda").address == place
    with side:
        y = pyapp.ones(5000, device="cuda")
    y.record_stream(own)
    del y
    assert driver.waits[-1][0] == side.cuda_stream
    with side:
        y = pyapp.ones(5000, device="cuda")
    y.record_stream(own)
    before = len(driver.waits)
    backend: Any = y.device.backend
    held = backend.allocated
    del side
    gc.collect()
    assert not backend.streams and backend.allocated == held
    del y  # whose stream has ended: the memory goes back to the card, which waits by itself
    assert len(driver.waits) == before and backend.allocated < held - 19_000
    pyapp.ones(3).record_stream(own)  # the CPU has no streams
    x = pyapp.ones(3, device="cuda")
    with pytest.raises(TypeError, match=r"takes a cuda.Stream, not int"):
        x.record_stream(3)
    with pytest.raises(RuntimeError, match="the tensor is on cuda:0, the stream on cuda:1"):
        x.record_stream(cuda.default_stream(1))


def test_memory_is_counted(driver: Driver) -> None:
    assert cuda.memory_allocated() == 0 == cuda.max_memory_allocated()
    x = pyapp.zeros(100_000, device="cuda")
    held = cuda.memory_allocated()
    assert 400_000 <= held < 460_000
    y = x + 1.0
    assert cuda.memory_allocated() >= 2 * held - 4096
    del y
    gc.collect()
    assert cuda.memory_allocated() < held + 4096 and cuda.memory_reserved() >= 2 * held
    assert cuda.max_memory_allocated() >= 2 * held <= cuda.max_memory_reserved()
    cuda.reset_peak_memory_stats()
    cuda.empty_cache()
    assert cuda.max_memory_allocated() < held + 8192 and cuda.memory_reserved() < held + 8192
    free, total = cuda.mem_get_info()
    assert free < total == 1 << 28 and cuda.memory_stats()["allocated_bytes.all.current"] == cuda.memory_allocated()
    assert "reserved_bytes.all.peak" in cuda.memory_summary()
    assert cuda.memory_allocated(1) == 0


def test_large_copies_pass_through_pinned_memory(driver: Driver) -> None:
    values = np.random.RandomState(0).randn(3_300_000).astype("float32")  # more than three pieces
    x = pyapp.from_numpy(values).to("cuda")
    assert len(driver.pinned) == 2  # the word that kernels report in, and the staging memory
    np.testing.assert_array_equal(x.cpu().numpy(), values)
    assert len(driver.pinned) == 2 and x.device == "cuda:0"


def test_seeds(driver: Driver) -> None:
    cuda.manual_seed_all(7)
    first = pyapp.rand(3, device="cuda").tolist()
    state = cuda.get_rng_state()
    second = pyapp.rand(3, device="cuda").tolist()
    cuda.set_rng_state(state)
    assert pyapp.rand(3, device="cuda").tolist() == second
    cuda.manual_seed(7)
    assert pyapp.rand(3, device="cuda").tolist() == first and cuda.initial_seed() == 7


# ---- graphs by torch's names


def test_a_training_step_as_a_graph(driver: Driver) -> None:
    """torch's recipe: the parameters of replays are those of steps that ran one by one."""
    random = np.random.RandomState(5)
    batches = [random.randn(4, 3).astype("float32") for _ in range(3)]

    def begin() -> tuple[nn.Linear, optim.Adam, Tensor]:
        pyapp.manual_seed(3)
        model = nn.Linear(3, 2).to("cuda")
        return model, optim.Adam(model.parameters(), lr=0.1), pyapp.from_numpy(batches[0].copy()).to("cuda")

    model, optimizer, x = begin()

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in (0, 0, 1, 2, 1):
        x.copy_(pyapp.from_numpy(batches[i]))
        expected = step().item()
    weights = model.weight.tolist()
    model, optimizer, x = begin()
    step()
    g, side = cuda.CUDAGraph(), cuda.Stream()
    with pytest.raises(RuntimeError, match="nothing was recorded yet"):
        g.replay()
    with cuda.graph(g, stream=side):
        assert cuda.is_current_stream_capturing() and cuda.current_stream() == side
        loss = step()
    assert not cuda.is_current_stream_capturing() and cuda.current_stream() == cuda.default_stream()
    for i in (1, 2, 1):
        x.copy_(pyapp.from_numpy(batches[i]))
        g.replay()
    assert loss.item() == expected and model.weight.tolist() == weights and "kernels" in repr(g)
    with pytest.raises(RuntimeError, match="so it cannot be replayed"), cuda.graph(g):
        loss.item()
    with pytest.raises(RuntimeError, match="do not nest"), cuda.graph(g), cuda.graph(cuda.CUDAGraph()):
        pass
    assert not cuda.is_current_stream_capturing()
    g.reset()
    with pytest.raises(RuntimeError, match="nothing was recorded yet"):
        g.replay()
    with pytest.raises(RuntimeError, match="capture_begin"):
        g.capture_end()
    with pytest.raises(TypeError, match="takes a CUDAGraph, not Graph"):
        cuda.graph(pyapp.capture(lambda: None))


def test_callables_as_graphs(driver: Driver) -> None:
    """A module and a function in a row: results, and gradients of the inputs and parameters, as without graphs."""
    random = np.random.RandomState(6)
    first, second = (random.randn(4, 3).astype("float32") for _ in range(2))
    pyapp.manual_seed(4)
    model = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 2)).to("cuda").eval()

    def halves(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sin(), (x * 0.5).detach()

    def gradients(through: Any, then: Any, values: Any) -> list[Any]:
        x = pyapp.from_numpy(values).to("cuda").requires_grad_()
        a, b = then(through(x))
        assert a.requires_grad and not b.requires_grad
        (a * pyapp.arange(8.0, device="cuda").reshape(4, 2)).sum().backward()
        found = [a.tolist(), b.tolist(), x.grad.tolist(), *(p.grad.tolist() for p in model.parameters())]
        model.zero_grad()
        return found

    expected = [gradients(model, halves, values) for values in (first, second)]
    sample = pyapp.zeros(4, 3, device="cuda", requires_grad=True)
    middle = pyapp.zeros(4, 2, device="cuda", requires_grad=True)
    through, then = cuda.make_graphed_callables((model, halves), ((sample,), (middle,)))
    assert through is model
    launched = len(driver.launches)
    found = [gradients(through, then, values) for values in (first, second)]
    assert found == expected and launched < len(driver.launches)
    model.train()  # recorded in the other mode: it runs as before, with dropout
    assert model(sample + 1.0).tolist() != model(sample + 1.0).tolist()
    with pytest.raises(ValueError, match=r"takes float32\[4, 2\] on cuda:0, not float32\[4, 3\]"):
        then(sample)
    with pytest.raises(TypeError, match="the arguments are tensors, not int"):
        cuda.make_graphed_callables(halves, (3,))
    model.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="remove the hooks"):
        cuda.make_graphed_callables(model, (sample,))


# ---- user-defined kernels


@pytest.fixture
def example(driver: Driver, tmp_path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = importlib.util.spec_from_file_location("fused_rms_norm", EXAMPLE / "fused_rms_norm.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_on_a_card(example: Any, driver: Driver) -> None:
    random = np.random.RandomState(3)
    arrays = [random.randn(2, 3, 20), random.randn(2, 3, 20), random.rand(20) + 0.5]
    found, expected = (
        [pyapp.tensor(a.astype("float32")).to(d).requires_grad_() for a in arrays] for d in ("cuda", "cpu")
    )
    y, z = example.add_rms_norm(*found), example.add_rms_norm.definition(*expected)
    np.testing.assert_allclose(y.detach().cpu().numpy(), z.detach().numpy(), rtol=2e-5, atol=2e-6)
    weights = pyapp.arange(y.numel(), dtype="float32").reshape(y.shape)
    (y * weights.to("cuda")).sum().backward()
    (z * weights).sum().backward()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.grad.cpu().numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-4)
    names = [name for _, name in driver.launches]
    assert "add_rms_norm" in names and "add_rms_norm_backward" in names
    x, residual, weight = (t.detach() for t in found)
    with pyapp.no_grad():
        graph = pyapp.capture(lambda: example.add_rms_norm(x * 2.0, residual, weight) + x)
        x.copy_(x * 3.0)
        replayed = graph.replay().cpu().numpy().copy()
        again = example.add_rms_norm.definition(x.cpu() * 2.0, residual.cpu(), weight.cpu()) + x.cpu()
    np.testing.assert_allclose(replayed, again.numpy(), rtol=1e-4, atol=1e-5)


def test_arguments_that_do_not_fit(example: Any, driver: Driver) -> None:
    kernel = example.CUDA_KERNELS.add_rms_norm
    x, weight = pyapp.ones(4, 4, device="cuda"), pyapp.ones(4, device="cuda")

    def refused(error: type[Exception], match: str, *arguments: Any, **settings: Any) -> None:
        with pytest.raises(error, match=match):
            kernel(*arguments, **({"blocks": 1} | settings))

    refused(TypeError, "got 2 arguments", x, x)
    refused(TypeError, "x must be float32", x, x.half(), x, weight, 4, 4, 1e-5)
    refused(ValueError, "is not dense", x, x.t(), x, weight, 4, 4, 1e-5)
    refused(ValueError, r"weight, .*is not on a card", x, x, x, weight.cpu(), 4, 4, 1e-5)
    refused(RuntimeError, "tensors are on cuda:0 and cuda:1", x, x, x, weight.to("cuda:1"), 4, 4, 1e-5)
    refused(TypeError, "rows must be a whole number", x, x, x, weight, 4.5, 4, 1e-5)
    refused(ValueError, "blocks is -1", x, x, x, weight, 4, 4, 1e-5, blocks=-1)
    refused(ValueError, "threads is 2,048, and may be 1 to 1,024", x, x, x, weight, 4, 4, 1e-5, threads=2048)
    refused(ValueError, "shared is 300,000", x, x, x, weight, 4, 4, 1e-5, shared=300_000)
    launched = len(driver.launches)
    kernel(x, x, x, weight, 0, 4, 1e-5, blocks=0)
    assert len(driver.launches) == launched
    with pytest.raises(ValueError, match="is not on the CPU"):
        example.KERNELS.add_rms_norm(x, x, x, weight, 4, 4, 1e-5)


def test_sources_that_are_wrong(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    with pytest.raises(KernelError, match=r"cannot be read.*mine\.cu|mine\.cu.*cannot be read"):
        load(path, f="x | n |")
    path.write_text("__global__ void f(float *x, intptr_t n) {\n}\n")
    with pytest.raises(KernelError, match='C\\+\\+ name.*extern "C"'):
        load(path, f="x | n |")
    path.write_text('extern "C" __global__ void f(float *x, int n) {\n}\n')
    with pytest.raises(KernelError, match="no kernel 'g'"):
        load(path, g="x | n |")
    with pytest.raises(ValueError, match="argument 2 is a size, but the C function takes 'int'"):
        load(path, f="x | n |")
    path.write_text(
        '#include <stdint.h>\nextern "C" __global__ void f(float *x, intptr_t n) {\n    x[0] = nothing;\n}\n'
    )
    kernels = load(path, f="x | n |")
    x = pyapp.ones(1, device="cuda")
    with pytest.raises(KernelError, match=r"(?s)mine\.cu.*does not compile.*nothing"):
        kernels.f(x, 1, blocks=1)
    assert (x + 1.0).tolist() == [2.0]
    with pytest.raises(AttributeError, match="no kernel 'g' was named"):
        _ = kernels.g


# ---- what goes wrong


@pytest.mark.parametrize("capability, chosen, expected", [
    ((9, 0), "1", ["add_f32", "exp_f32"]), ((12, 0), "1", ["add_f32", "exp_f32"]), ((9, 0), "0", []), ((8, 9), "1", []),
])  # fmt: skip
def test_kernels_of_a_graph_overlap_where_that_is_chosen(
    capability: tuple[int, int], chosen: str, expected: list[str], patch: pytest.MonkeyPatch
) -> None:
    """On cards that can, after kernels of ours in the same Graph; what is launched at once never does."""
    driver = install(patch, Driver(capability=capability))
    patch.setenv("PYAPP_CUDA_OVERLAP", chosen)
    x = pyapp.tensor([0.5, -1.0], device="cuda:0")
    with pyapp.no_grad():
        compute = lambda: (x.tanh() + 1.0).exp()  # noqa: E731
        alone = compute().tolist()
        assert driver.overlapped == []
        graph = pyapp.capture(compute)
        assert graph.replay().tolist() == alone
    assert driver.overlapped == expected


def test_an_overlapped_launch_in_nvidias_own_structures() -> None:
    driver = pytest.importorskip("cuda.bindings.driver", reason="needs NVIDIA's bindings, but no driver")
    config = nvidia.overlapped_launch(driver, 12, 256, 4096, driver.CUstream(5))
    raw = ctypes.string_at(config.getPtr(), 56)
    *sizes, stream, attributes, count = struct.unpack("@7IxxxxQQI", raw[:52])
    assert sizes == [12, 1, 1, 256, 1, 1, 4096] and (stream, count) == (5, 1)
    kind, allowed = struct.unpack("@IxxxxI", ctypes.string_at(attributes, 12))
    assert (kind, allowed) == (6, 1)  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION of cuda.h


def test_an_old_driver_and_an_old_card(patch: pytest.MonkeyPatch) -> None:
    driver = install(patch, Driver())
    driver.version = 12040
    with pytest.raises(ValueError, match=r"driver is too old: it is for CUDA 12\.4, and 13\.0 is needed.*newer driver"):
        pyapp.zeros(1, device="cuda")
    assert not cuda.is_available()
    old = install(patch, Driver(capability=(7, 0)))
    with pytest.raises(ValueError, match=r"compute capability 7\.0; the kernels need 7\.5"):
        pyapp.zeros(1, device="cuda")
    old.start_code = 100
    patch.setattr(nvidia, "_pids", [])
    with pytest.raises(ValueError, match="does not start: CUDA_ERROR_NO_DEVICE.*nvidia-smi.*CUDA_VISIBLE_DEVICES"):
        pyapp.zeros(1, device="cuda")
    assert pyapp.zeros(1).tolist() == [0.0]


def test_a_process_that_was_forked(driver: Driver, patch: pytest.MonkeyPatch) -> None:
    x = pyapp.ones(2, device="cuda")
    patch.setattr(nvidia, "_pids", [os.getpid() + 1])
    backend: Any = x.device.backend
    patch.setattr(nvidia._present, "pid", 0)
    assert backend.card is nvidia._present.card
    for use in (x.tolist, lambda: x + x, lambda: pyapp.ones(100_000, device="cuda")):
        with pytest.raises(KernelError, match="before this process was forked.*spawn"):
            use()
    assert pyapp.ones(2).tolist() == [1.0, 1.0]


def test_memory_ends_while_loading_and_training(patch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(patch, Driver(memory=6 << 20))
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
    path = tmp_path / "model.safetensors"
    pyapp.save(model.state_dict(), path)
    with pytest.raises(MemoryError, match=r"cannot allocate 1,048,576 bytes on cuda:0 \(tensors hold .* are free\)"):
        model.to("cuda")
    with pytest.raises(MemoryError, match="on cuda:0"):
        pyapp.load(path, map_location="cuda")
    del model
    gc.collect()
    cuda.empty_cache()
    small = nn.Linear(256, 256).to("cuda")
    before = [x.tolist()[:2] for x in small.parameters()]
    optimizer = pyapp.optim.AdamW(small.parameters(), lr=0.1)
    with pytest.raises(MemoryError, match="use a smaller model, batch or context"):
        small(pyapp.ones(4000, 256, device="cuda")).square().sum().backward()
    gc.collect()
    cuda.empty_cache()
    assert [x.tolist()[:2] for x in small.parameters()] == before
    small(pyapp.ones(3, 256, device="cuda")).square().sum().backward()
    optimizer.step()
    assert small.weight.grad is not None and [x.tolist()[:2] for x in small.parameters()] != before


def test_a_kernel_that_does_not_compile(driver: Driver, patch: pytest.MonkeyPatch) -> None:
    x = pyapp.ones(3, device="cuda")

    def fails(source: str, text: str, headers: Any) -> bytes:
        raise KernelError(f"does not compile for sm_90:\n{source}.cu(3): error: what is this", where=f"{source}.cu")

    with patch.context() as inner:
        backend: Any = x.device.backend
        inner.setattr(backend.card, "compile", fails)
        inner.setenv("PYAPP_CUDA_CACHE", "/nowhere")
        with pytest.raises(KernelError, match=r"(?s)native/cuda/sort\.cu.*does not compile.*sort\.cu\(3\): error"):
            x.sort()
    assert x.sort().values.tolist() == [1.0] * 3


@pytest.mark.parametrize("name", ["ILLEGAL_ADDRESS", "LAUNCH_FAILED", "MISALIGNED_ADDRESS", "ILLEGAL_INSTRUCTION"])
def test_a_kernel_that_goes_beyond_its_memory(driver: Driver, name: str) -> None:
    x = pyapp.ones(3, device="cuda")
    driver.cuMemcpyDtoHAsync = lambda *_: (CODES[f"CUDA_ERROR_{name}"],)  # type: ignore[method-assign]
    with pytest.raises(KernelError, match=f"CUDA_ERROR_{name}.*started anew"):
        x.tolist()
    assert backend_module.Cuda is type(x.device.backend)


def test_memory_ends_while_kernels_are_loaded(driver: Driver) -> None:
    x = pyapp.ones(3, device="cuda")
    driver.module_code = CODES["CUDA_ERROR_OUT_OF_MEMORY"]
    with pytest.raises(MemoryError, match="loading kernels: the card has no memory left.*smaller model"):
        x.cumsum(0)
    driver.module_code = 0
    assert x.cumsum(0).tolist() == [1.0, 2.0, 3.0]


def test_what_is_kept_is_given_back_before_memory_has_ended(driver: Driver, patch: pytest.MonkeyPatch) -> None:
    """For kernels, for a launch whose registers are spilled, and for a graph."""
    ended = CODES["CUDA_ERROR_OUT_OF_MEMORY"]
    x = pyapp.ones(5, device="cuda")

    def load(image: bytes) -> tuple[int, Any]:
        return (ended, None) if cuda.memory_reserved() > cuda.memory_allocated() else (0, driver.card.load(image))

    kept = pyapp.ones(50_000, device="cuda")
    del kept
    assert cuda.memory_reserved() > cuda.memory_allocated()
    with patch.context() as inner:
        inner.setattr(driver, "cuModuleLoadData", load)
        assert x.cumsum(0).tolist() == [1, 2, 3, 4, 5]
    driver.launch_codes = [ended]
    assert (x + x).tolist() == [2.0] * 5
    driver.launch_codes = [ended, ended]
    with pytest.raises(MemoryError, match="launching a kernel: the card has no memory left"):
        x + x
    function = pyapp.compile(lambda a: ((a + 1) * a).cumsum(0).sin() + a)
    expected = function(x.cpu()).tolist()
    driver.instantiate_codes = [ended]
    with pyapp.no_grad():
        for _ in range(3):
            np.testing.assert_allclose(function(x).tolist(), expected, rtol=1e-6)
    assert not driver.instantiate_codes


def test_a_launch_that_fails_names_the_kernel(driver: Driver) -> None:
    """As with CUDA_LAUNCH_BLOCKING=1. In a graph the first error is told, and the graph ends."""
    x = pyapp.ones(5, device="cuda")
    driver.launch_codes = [CODES["CUDA_ERROR_ILLEGAL_ADDRESS"]]
    with pytest.raises(KernelError, match=r"scan: launching a kernel: CUDA_ERROR_ILLEGAL_ADDRESS.*LAUNCH_BLOCKING"):
        x.cumsum(0)


@pytest.mark.parametrize(
    ("code", "told"),
    [("ECC_UNCORRECTABLE", "link failed.*Xid.*started anew"), ("LAUNCH_TIMEOUT", "shows a screen.*started anew")],
)
def test_a_card_that_fails(driver: Driver, code: str, told: str) -> None:
    x = pyapp.ones(3, device="cuda")
    driver.cuMemcpyDtoHAsync = lambda *_: (CODES[f"CUDA_ERROR_{code}"],)  # type: ignore[method-assign]
    with pytest.raises(KernelError, match=f"CUDA_ERROR_{code}.*{told}"):
        x.tolist()


def test_a_driver_that_is_older_than_the_compiler(driver: Driver) -> None:
    x = pyapp.ones(3, device="cuda")
    backend: Any = x.device.backend
    backend.card.compiler = "nvrtc 14.1"
    driver.module_code = CODES["CUDA_ERROR_UNSUPPORTED_PTX_VERSION"]
    with pytest.raises(
        KernelError, match=r"loading kernels.*driver is for CUDA 13\.0, and .* compiled by nvrtc 14\.1.*newer driver"
    ):
        x.cumsum(0)


def test_a_card_that_the_compiler_does_not_know(patch: pytest.MonkeyPatch) -> None:
    compiler = SimpleNamespace(
        nvrtcResult=SimpleNamespace(NVRTC_SUCCESS=0),
        nvrtcGetSupportedArchs=lambda: (0, [75, 90, 121]),
        nvrtcVersion=lambda: (0, 13, 5),
    )
    patch.setattr(nvidia, "_compiler", lambda: compiler)
    with pytest.raises(
        KernelError, match=r"sort\.cu: .*compiler 13\.5 has no sm_130, only sm_75, sm_90, sm_121.*upgrade"
    ):
        nvidia.compile_source("sort", "", {}, "sm_130")
    patch.setattr(compiler, "nvrtcCreateProgram", lambda *_: (7, None), raising=False)
    with pytest.raises(KernelError, match="does not start: 7"):
        nvidia.compile_source("sort", "", {}, "sm_90a")


def test_a_stream_that_ends_is_waited_for(driver: Driver, patch: pytest.MonkeyPatch) -> None:
    """Blocks that its last kernels use serve other streams afterwards; errors are told by another call."""
    side = cuda.Stream()
    handle, order = side.cuda_stream, []
    with side:
        y = pyapp.ones(7, device="cuda")
    with patch.context() as inner:
        for name in ("cuStreamSynchronize", "cuStreamDestroy"):
            original = getattr(driver, name)
            inner.setattr(
                driver, name, lambda stream, of=original, name=name: order.append((name, stream)) or of(stream)
            )
        del side
        gc.collect()
    assert order == [("cuStreamSynchronize", handle), ("cuStreamDestroy", handle)] and y.tolist() == [1.0] * 7
    x = pyapp.ones(3, device="cuda")
    side = cuda.Stream()
    with side, pytest.raises(IndexError, match="out of range|out of bounds"):
        x.index_select(0, pyapp.tensor([9], device="cuda")).tolist()
    with side:
        x.index_select(0, pyapp.tensor([9], device="cuda"))
    del side
    gc.collect()
    with pytest.raises(IndexError, match="out of range|out of bounds"):  # in a stream that is still there
        cuda.synchronize()
    assert x.tolist() == [1.0] * 3


def test_memory_ends_while_decoding(patch: pytest.MonkeyPatch) -> None:
    """At a session that is too long; a shorter one goes on."""
    install(patch, Driver(memory=3 << 20))
    model = llama().to("cuda")
    with pytest.raises(MemoryError, match="on cuda:0.*smaller model, batch or context"):
        model.new_cache(1 << 14)
    session = Session(model)
    assert np.isfinite(session.feed([3, 7, 1]).tolist()).all() and np.isfinite(session.step(4).tolist()).all()


def test_a_user_without_a_home_keeps_no_kernels(patch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("PYAPP_CUDA_CACHE", "XDG_CACHE_HOME"):
        patch.delenv(name, raising=False)
    patch.setattr(Path, "home", nowhere)
    card = emulated.EmulatedCard()
    patch.setattr(card, "compile", lambda *_: b"image")
    assert cards.compiled(card, "rope") == b"image"


def test_without_the_compilers_library(patch: pytest.MonkeyPatch) -> None:
    class Absent:
        def nvrtcVersion(self) -> None:
            raise RuntimeError('Failure finding "libnvrtc.so.13"')

    patch.setattr(importlib, "import_module", lambda name: Absent())
    with pytest.raises(KernelError, match=r"runtime compiler is not installed.*pip install 'pyapp\[cuda\]'"):
        nvidia.compiler_version()


def test_commands_compute_on_a_card(driver: Driver) -> None:
    """`--device cuda`: the text of the CPU. A card that is not there, and several processes, are wrong usage."""
    arguments = ["generate", "-p", "One day", "-n", "3", "--temperature", "0"]
    runs = [CliRunner().invoke(cli, [*arguments, *more]) for more in ([], ["--device", "cuda:1"], ["--device", "cpu"])]
    assert [run.exit_code for run in runs] == [0, 0, 0], runs
    assert runs[0].stdout == runs[1].stdout == runs[2].stdout and len(runs[0].stdout) > 10
    assert any("linear" in name for _, name in driver.launches)
    for device, told in (("cuda:2", "no card number 2; this machine has 2"), ("card", "there is no device 'card'")):
        found = CliRunner().invoke(cli, [*arguments, "--device", device])
        assert found.exit_code == 2 and told in found.output
    both = CliRunner().invoke(cli, [*arguments, "--device", "cuda", "--tensor-parallel", "2"], standalone_mode=False)
    assert "several processes compute on the CPU" in f"{both.output}{both.exception}"
    assert CliRunner().invoke(cli, arguments).exit_code == 0 and keeper.device is None


def test_logits_that_are_not_numbers(driver: Driver) -> None:
    from pyapp.text.generation.options import SamplingOptions
    from pyapp.text.generation.sampling import Sampler

    x = pyapp.full((8,), float("nan")).to("cuda")
    sampler = Sampler(SamplingOptions(seed=1), 8, 4, x.device)
    with pytest.raises((RuntimeError, ValueError), match="NaN"):
        sampler.sample(x)
    assert isinstance(x + 1.0, Tensor)
