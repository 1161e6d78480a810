"""Ops on a device whose memory the host cannot see: the contract, and every op that has a kernel."""

from __future__ import annotations

import copy
import ctypes
import pickle
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import capture, quant
from pyapp.engine.claims import attention
from pyapp.engine.device import HiddenAddress
from pyapp.engine.launch import KERNELS
from pyapp.engine.ops.int8_product import int8_linear
from pyapp.nn import GrowingCache, Heads, RotatingCache
from tests.engine import test_fused
from tests.engine.test_fused import CASES, EVERY, normal
from tests.together import IN_BROWSER

from . import device as _device  # noqa: F401 (registers the mirror)

DEVICE = "mirror"


def opened() -> Any:
    return pyapp.device(DEVICE).backend


def test_a_tensor_goes_there_and_back() -> None:
    x = normal(4, 5)
    for source in (x, x.t(), x[:, 1:3], x.half(), x.bfloat16(), pyapp.arange(7), pyapp.tensor(3.5), x[:0], x > 0):
        there = source.to(DEVICE)
        assert there.device == DEVICE and there.shape == source.shape and there.dtype is source.dtype
        assert there.cpu().device == "cpu" and there.cpu().tolist() == source.tolist() == there.tolist()
    assert x.to(DEVICE, "float64").dtype is pyapp.float64 and x.to(DEVICE).to(x).device == "cpu"
    assert x.to(DEVICE).to(DEVICE).device == DEVICE and x.to("cpu") is x


def test_views_of_more_dims_than_kernels_have_come_back() -> None:
    x = normal(2, 3, 1, 2, 2, 1, 3, 2)
    for view in (lambda x: x.permute(7, 0, 3, 1, 2, 4, 6, 5), lambda x: x[1:, ::2].transpose(0, 7), lambda x: x[:0].mT):
        assert view(x.to(DEVICE)).cpu().tolist() == view(x).tolist()


def test_an_address_of_the_mirror_is_no_pointer() -> None:
    x = normal(4, 5).to(DEVICE)
    assert isinstance(x.address, HiddenAddress) and isinstance(x[1:].address, HiddenAddress)
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        ctypes.memmove(x.address, b"1234", 4)
    with pytest.raises(RuntimeError, match=f"{DEVICE} cannot be read in place"):
        x._storage.bytes_view()
    with pytest.raises(RuntimeError, match=f"cpu and {DEVICE}"):
        KERNELS["exp_f32"].launch(0, normal(20), x, 20)


def test_what_the_host_reads_is_a_copy() -> None:
    x = normal(3, 4).to(DEVICE)
    array = x.numpy()
    assert not array.flags.writeable and x[1, 2].item() == array[1, 2] and x.t().tolist() == array.T.tolist()
    view = x.data_view()
    assert view.readonly and list(view) == list(array.reshape(-1))
    assert repr(x).endswith(f"device='{DEVICE}')")


def test_tensors_of_two_devices_do_not_meet() -> None:
    x, there = normal(4, 4), normal(4, 4).to(DEVICE)
    for call in (lambda: x + there, lambda: there + x, lambda: there @ x, lambda: ops.linear(there, x)):
        with pytest.raises(RuntimeError, match=f"cpu and {DEVICE}"):
            call()


def test_what_has_no_kernel_is_named() -> None:
    x = normal(4, 4).to(DEVICE)
    with pytest.raises(NotImplementedError, match=f"{DEVICE} has no kernel for 'qr'"):
        pyapp.linalg.qr(x)
    backend = opened()
    backend.kernels -= {"softmax_f32", "reduce"}
    try:
        with pytest.raises(NotImplementedError, match=f"{DEVICE} has no kernel for 'amax'"):
            x.softmax(-1)  # the definition, which lacks a kernel in turn
    finally:
        backend.kernels |= {"softmax_f32", "reduce"}


@pytest.mark.parametrize(
    "name", "cholesky cholesky_ex cond det eig eigh eigvals inv inv_ex lu lu_factor pinv qr slogdet svdvals".split()
)
def test_linear_algebra_says_that_it_runs_on_the_host(name: str) -> None:
    x = (normal(3, 3) + pyapp.eye(3) * 9.0).to(DEVICE)
    with pytest.raises(NotImplementedError, match=r"runs on the host.*\.to\('cpu'\)"):
        getattr(pyapp.linalg, name)(x)


def test_new_tensors_are_made_there() -> None:
    x = pyapp.zeros(2, 3, device=DEVICE)
    assert x.device == DEVICE and x.tolist() == [[0.0] * 3] * 2
    assert pyapp.ones(3, device=DEVICE).tolist() == [1.0] * 3
    assert pyapp.full((2,), 7, device=DEVICE).tolist() == [7, 7]
    assert pyapp.tensor([1, 2], device=DEVICE).device == DEVICE
    assert pyapp.empty_like(x).device == pyapp.zeros_like(x).device == x.new_zeros(2).device == DEVICE
    pyapp.manual_seed(3)
    drawn = pyapp.randn(5, device=DEVICE)
    pyapp.manual_seed(3)
    assert drawn.device == DEVICE and drawn.tolist() == pyapp.randn(5).tolist()


def test_what_is_made_for_a_tensor_is_beside_it() -> None:
    """Draws by weights, helpers of pools, the masks of caches that grow."""
    x = pyapp.rand(2, 6, generator=pyapp.Generator(1)).to(DEVICE)
    assert {pyapp.multinomial(x, 2).device.type, pyapp.randint_like(x, 0, 5).device.type} == {DEVICE}
    pooled = ops.lp_pool1d(x, 2.0, 4, ceil_mode=True)
    np.testing.assert_allclose(pooled.cpu(), ops.lp_pool1d(x.cpu(), 2.0, 4, ceil_mode=True), rtol=1e-6)
    slopes = pyapp.tensor([0.5, 0.25])
    for make in (GrowingCache, lambda: RotatingCache(4, 2, 8, device=DEVICE)):
        cache, own = make(), GrowingCache() if make is GrowingCache else RotatingCache(4, 2, 8)
        for tokens in (3, 1, 3):
            q, k, v = (normal(tokens, 2, 8) for _ in range(3))
            for each, place in ((cache, DEVICE), (own, "cpu")):
                each.append(k.to(place), v.to(place))
            heads = [Heads(2, 2, 8, slopes=slopes.to(place)) for place in (DEVICE, "cpu")]
            found, wanted = cache.attend(q.to(DEVICE), heads[0]), own.attend(q, heads[1])
            np.testing.assert_allclose(found.cpu(), wanted, rtol=1e-5, atol=1e-6)


def test_numbers_are_written_in_place() -> None:
    x = pyapp.zeros(3, dtype=pyapp.int32, device=DEVICE)
    x.assign([5, 6, 7])
    assert x.tolist() == [5, 6, 7] and list(x.read_values()) == [5, 6, 7]
    with pytest.raises(ValueError, match="2 numbers do not fill"):
        x.assign([5, 6])


def test_copies_stay_there() -> None:
    x = normal(3, 4).to(DEVICE)
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert twin.device == DEVICE and twin.tolist() == x.tolist()
        assert twin._storage is not x._storage


def test_block_formats_are_packed_there() -> None:
    x = normal(16, 64)
    for name in ("q8_0", "q4_0", "q4_K", "q5_0"):
        if 64 % pyapp.as_dtype(name).block:
            x = normal(16, 256)
        packed = quant.quantize(x, name)
        there = packed.to(DEVICE)
        assert there.device == DEVICE and there.to("float32").tolist() == packed.to("float32").tolist()
        y, expected = ops.linear(x[:3].to(DEVICE), there), ops.linear(x[:3], packed)
        assert y.device == DEVICE and y.tolist() == expected.tolist()
        again = quant.from_blocks(quant.to_blocks(there).data, tuple(x.shape), name, pyapp.device(DEVICE))
        assert again.to("float32").tolist() == packed.to("float32").tolist()


@pytest.mark.parametrize("name", CASES if IN_BROWSER else EVERY)
def test_op_and_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers and gradients as on the CPU, by kernels alone."""
    table, int32 = test_fused.TABLE, test_fused.int32
    function, inputs = EVERY[name]
    weights: Tensor | None = None
    results = []
    for device in ("cpu", DEVICE):
        leaves = [x.detach().to(device).requires_grad_() for x in inputs]
        monkeypatch.setattr(test_fused, "TABLE", table.to(device))
        monkeypatch.setattr(test_fused, "int32", lambda *values, to=device: int32(*values).to(to))
        y = function(*leaves)
        assert y.device == device
        if weights is None:
            weights = normal(*y.shape or (1,), seed=5).reshape(y.shape)
        if y.numel():
            (y * weights.to(device)).sum().backward()
        results.append([y.detach().cpu(), *(x.grad.cpu() for x in leaves if x.grad is not None)])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(ours.numpy(), expected.numpy())


def test_int8_products_are_exact_there() -> None:
    x, weight = ((normal(*shape) * 40).clamp(-127, 127).to("int8") for shape in ((5, 37), (9, 37)))
    found = int8_linear(x.to(DEVICE), quant.pack_int8(weight.to(DEVICE)))
    assert found.device == DEVICE
    np.testing.assert_array_equal(found.cpu().numpy(), (x.float() @ weight.float().T).numpy())


def test_a_graph_runs_there() -> None:
    x = normal(4, 4).to(DEVICE)

    def compute() -> Tensor:
        return (x @ x + 1.0).softmax(-1)

    graph = capture(compute)
    for seed in (1, 2):
        x.copy_(normal(4, 4, seed=seed).to(DEVICE))
        expected = (normal(4, 4, seed=seed) @ normal(4, 4, seed=seed) + 1.0).softmax(-1)
        assert graph.replay().tolist() == expected.tolist()


def test_a_graph_keeps_what_it_reads() -> None:
    x = pyapp.zeros(64, 64, device=DEVICE)
    graph = capture(lambda: x + pyapp.tensor([[float(i) for i in range(64)]] * 64, device=DEVICE))
    for _ in range(3):
        [pyapp.full((64, 64), 9.0, device=DEVICE) for _ in range(4)]
        assert graph.replay()[5].tolist() == [float(i) for i in range(64)]


def test_memory_is_given_back() -> None:
    backend = opened()
    x = pyapp.zeros(1 << 20, device=DEVICE)
    graph = capture(lambda: x + 1.0)
    before = backend.allocated
    del graph
    assert backend.allocated < before


def test_what_the_host_writes_is_not_memory_of_the_graph() -> None:
    """A replay does not write the number again: no kernel of the Graph may write its memory."""
    x = pyapp.full((1,), 2.0, device=DEVICE)

    def compute() -> Tensor:
        y = x * 2 + 1  # whose product is freed before the number is written
        return 1.8 / y

    graph = capture(compute)
    assert graph.outputs.tolist() == graph.replay().tolist() == [pytest.approx(0.36)]


def test_constants_of_attention_are_not_memory_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_constants", {})
    q, cache = normal(1, 1, 8).to(DEVICE), normal(2, 1, 3, 8).to(DEVICE)
    scale = pyapp.full((1,), 0.5, device=DEVICE)

    def compute() -> Tensor:
        factors = [scale * i for i in range(1, 9)]
        y = q * pyapp.cat(factors)
        del factors  # before the number of keys is written
        return ops.cross_attention(y, cache[0], cache[1])

    graph = capture(compute)
    assert graph.outputs.tolist() == graph.replay().tolist() == compute().tolist()


def test_a_tensor_is_copied_into_and_resized_there() -> None:
    x, y = normal(3, 4), normal(3, 4).to(DEVICE)
    assert y.copy_(x).cpu().tolist() == x.tolist() == pyapp.zeros(3, 4).copy_(y).tolist()
    values = x.reshape(-1).tolist()
    assert y.resize_(5, 4).device == pyapp.device(DEVICE) and y.reshape(-1)[:12].tolist() == values


@pytest.mark.parametrize("name", ["copy_", "tensor", "new_tensor", "deepcopy", "assign", "resize_"])
def test_what_the_host_copies_is_not_captured(name: str) -> None:
    """A replay would not copy again."""
    x, there = normal(4), normal(4).to(DEVICE)
    calls = {
        "copy_": lambda: (there * 2).copy_(x), "tensor": lambda: pyapp.tensor(x, device=DEVICE),
        "new_tensor": lambda: there.new_tensor(x), "deepcopy": lambda: copy.deepcopy(there * 2),
        "assign": lambda: (there * 2).assign([1.0] * 4), "resize_": lambda: (there * 2).resize_(100),
    }  # fmt: skip
    with pytest.raises(RuntimeError, match="so it cannot be replayed"):
        capture(calls[name])


def test_a_graph_writes_all_zeros_again() -> None:
    """Also those after the last whole word."""
    graph = capture(lambda: pyapp.zeros(7, dtype="uint8", device=DEVICE))
    graph.outputs.fill_(5)
    assert graph.replay().tolist() == [0] * 7
