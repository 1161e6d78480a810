"""autocast and GradScaler against torch (make_golden_autocast.py): dtypes, values, and losses of a training."""

from __future__ import annotations

import json
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.adapters import LoraConfig, add_adapter
from pyapp.engine.autocast import REGIONS
from pyapp.engine.op import OPS
from pyapp.nn import functional as F
from tests.mirror import device as _device  # noqa: F401 (registers the mirror)
from tests.models.test_decoders import make
from tests.nn.autocast_cases import CASES, arrays, training
from tests.together import check_each

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_autocast.json").read_text())


def test_dtypes_and_values() -> None:
    given = {name: pyapp.from_numpy(value) for name, value in arrays().items()}

    def check(name: str) -> None:
        dtype, shape, values = GOLDEN[name]
        with pyapp.autocast("cpu", dtype=pyapp.bfloat16):
            result = CASES[name](pyapp, F, given, given["x"].bfloat16())
        assert (result.dtype.name, list(result.shape)) == (dtype, shape)
        found = result.double().numpy().reshape(-1)[:8]
        np.testing.assert_allclose(found, values, rtol=2e-2 if dtype == "bfloat16" else 2e-4, atol=2e-2)

    check_each(check, ((name,) for name in CASES))


@pytest.mark.parametrize("device", ["cpu", "mirror"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_training_with_a_scaler(dtype: str, device: str) -> None:
    losses, kinds = training(pyapp, pyapp.from_numpy, dtype, device)
    expected, expected_kinds = GOLDEN["training"][dtype]
    assert kinds == expected_kinds == ["float32"] * 3
    np.testing.assert_array_equal(losses[1::2], expected[1::2])  # the scales: which steps were skipped
    np.testing.assert_allclose(losses[::2], expected[::2], rtol=5e-3)


@pytest.mark.native_only
def test_a_region_belongs_to_a_thread() -> None:
    x, others = pyapp.ones(2, 2), list[Any]()
    with pyapp.autocast("cpu"):
        thread = threading.Thread(target=lambda: others.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert others == [pyapp.float32]


def test_regions() -> None:
    x = pyapp.ones(2, 2, requires_grad=True)
    assert not pyapp.is_autocast_enabled()
    with pyapp.autocast("cpu"):
        assert pyapp.is_autocast_enabled("cpu") and not pyapp.is_autocast_enabled("cuda")
        y = x @ x
        with pytest.raises(ZeroDivisionError), pyapp.autocast("cpu", enabled=False):
            raise ZeroDivisionError
        assert (x @ x).dtype is pyapp.bfloat16
    assert (x @ x).dtype is pyapp.float32
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype is pyapp.float32

    @pyapp.autocast("cpu", dtype=pyapp.float16)
    def product() -> Any:
        return x @ x

    assert product().dtype is pyapp.float16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pyapp.autocast("cuda", enabled=False)
    for arguments in (("cpu", pyapp.float64), ("cuda",)):
        with pytest.warns(UserWarning, match="autocast has no effect"):
            region = pyapp.autocast(*arguments)
        with region:
            assert (x @ x).dtype is pyapp.float32


# By torch's list for cards (docs, "CUDA Ops that can autocast"): what ops of float16 and float32 tensors give.
ON_CARDS: dict[str, tuple[str, Any]] = {
    "matmul": ("float16", lambda x, h: x @ x.T), "linear": ("float16", lambda x, h: F.linear(x, x)),
    "vector": ("float16", lambda x, h: x @ x[0]), "baddbmm": ("float16", lambda x, h: pyapp.addmm(x[:, :3], x, x.T)),
    "attention": ("float16", lambda x, h: F.scaled_dot_product_attention(x[None], x[None], x[None])),
    "softmax": ("float32", lambda x, h: h.softmax(-1)), "log_softmax": ("float32", lambda x, h: h.log_softmax(-1)),
    "layer_norm": ("float32", lambda x, h: F.layer_norm(h, (4,))),
    "group_norm": ("float32", lambda x, h: F.group_norm(h, 2)), "exp": ("float32", lambda x, h: h.exp()),
    "pow": ("float32", lambda x, h: h**2), "sum": ("float32", lambda x, h: h.sum()),
    "cumsum": ("float32", lambda x, h: h.cumsum(0)), "prod": ("float32", lambda x, h: h.prod()),
    "norm": ("float32", lambda x, h: h.norm()), "normalize": ("float32", lambda x, h: F.normalize(h)),
    "cosine": ("float32", lambda x, h: F.cosine_similarity(h, h)), "cdist": ("float32", lambda x, h: pyapp.cdist(h, h)),
    "softplus": ("float32", lambda x, h: F.softplus(h)), "mse": ("float32", lambda x, h: F.mse_loss(h, h + 1)),
    "renorm": ("float32", lambda x, h: h.renorm(2, 0, 1.0)), "rsqrt": ("float32", lambda x, h: h.abs().rsqrt()),
    "relu": ("float16", lambda x, h: h.relu()), "gelu": ("float16", lambda x, h: F.gelu(h)),
    "mean": ("float16", lambda x, h: h.mean()), "add": ("float32", lambda x, h: h + x),
    "addcmul": ("float32", lambda x, h: pyapp.addcmul(h, x, h)), "cat": ("float32", lambda x, h: pyapp.cat([h, x])),
    "scatter_add": ("float32", lambda x, h: x.scatter_add(0, (x[:1] > 9).long(), h)),
    "float64": ("float64", lambda x, h: x.double() @ x.double().T),
}  # fmt: skip


def test_the_types_of_other_devices() -> None:
    """There float16 is the type without another, and more ops run in float32."""
    x = pyapp.from_numpy(arrays()["x"].reshape(-1)[:12].reshape(3, 4).copy()).to("mirror")
    half, weight = x.half(), x.clone().requires_grad_()

    def check(name: str) -> None:
        with pyapp.autocast("mirror"):
            assert ON_CARDS[name][1](x, half).dtype.name == ON_CARDS[name][0]
        assert ON_CARDS[name][1](x, x).dtype.name != "float16"

    check_each(check, ((name,) for name in ON_CARDS))
    with pyapp.autocast("mirror", dtype=pyapp.bfloat16):
        y = F.linear(x, weight)
        with pyapp.autocast("cpu", enabled=False):  # of another device
            assert (x @ x.T).dtype is pyapp.bfloat16
        with pyapp.autocast("mirror", enabled=False):
            assert (x @ x.T).dtype is pyapp.float32
        assert (x.cpu() @ x.cpu().T).dtype is pyapp.float32
    assert y.dtype is pyapp.bfloat16
    y.sum().backward()
    assert weight.grad is not None and weight.grad.dtype is pyapp.float32


def test_a_scale_does_not_grow_beyond_float32() -> None:
    scaler = pyapp.GradScaler("cpu", init_scale=2.0**126, growth_interval=1)
    weight = pyapp.ones(2, requires_grad=True)
    optimizer = pyapp.optim.SGD([weight], lr=0.0)
    for scale in (2.0**127, 2.0**127):
        scaler.scale(weight.sum() * 0).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale


def test_a_changed_weight_is_converted_again() -> None:
    weight = pyapp.ones(2, 2, requires_grad=True)
    x = pyapp.ones(1, 2)
    with pyapp.autocast("cpu"):
        assert F.linear(x, weight).tolist() == [[2, 2]]
        with pyapp.no_grad():
            weight.mul_(3)
            assert F.linear(x, weight).tolist() == [[6, 6]]
        y = F.linear(x, weight)
    assert y.requires_grad and y.tolist() == [[6, 6]]


def test_a_region_within_another_converts_weights_to_its_own_type() -> None:
    layer, x = nn.Linear(4, 3), pyapp.randn(2, 4)
    with pyapp.autocast("cpu", dtype="bfloat16"):
        assert layer(x).dtype is pyapp.bfloat16
        with pyapp.autocast("cpu", dtype="float16"):
            halves = layer(x)
        assert layer(x).dtype is pyapp.bfloat16
    with pyapp.autocast("cpu", dtype="float16"):
        expected = layer(x)
    assert halves.dtype is pyapp.float16 and halves.equal(expected)


def test_a_region_changes_no_op() -> None:
    """Ops are the same objects, with the same claims, whatever ran before."""
    x = pyapp.ones(2, 2)
    before, users = {name: dict(vars(op)) for name, op in OPS.items()}, REGIONS.count
    with pyapp.autocast("cpu"):
        assert REGIONS.count > users and (x @ x).dtype is pyapp.bfloat16
        with pyapp.autocast("cpu", enabled=False):
            assert (x @ x).dtype is pyapp.float32
    assert REGIONS.count == users and (x @ x).dtype is pyapp.float32
    assert all(vars(OPS[name]) == attributes for name, attributes in before.items())


def test_custom_functions() -> None:
    class Product(pyapp.autograd.Function):
        @staticmethod
        @pyapp.amp.custom_fwd(device_type="cpu", cast_inputs=pyapp.float32)
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @pyapp.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g @ y.mT, x.mT @ g

    x = pyapp.ones(2, 2, requires_grad=True)
    with pyapp.autocast("cpu"):
        assert Product.apply(x.bfloat16(), x).dtype is pyapp.float32
    there = x.detach().to("mirror")
    with pyapp.autocast("mirror"):  # a region of another device than the function's
        assert Product.apply(there.half(), there.half()).dtype is pyapp.float16


def test_a_language_model_with_an_adapter() -> None:
    """A step on a quantised base under autocast: gradients reach the adapter, in float32."""
    model = make("llama", 0, hidden_size=64, intermediate_size=64)
    nn.quantize(model, "q8_0", where=lambda name, _: "proj" in name)
    add_adapter(model, LoraConfig(r=2, init_lora_weights=False))
    tokens = pyapp.tensor([[3, 17, 5, 60, 8]])
    exact = F.cross_entropy(model(tokens)[0], tokens[0])
    with pyapp.autocast("cpu"):
        loss = F.cross_entropy(model(tokens)[0], tokens[0])
    assert loss.dtype is pyapp.float32 and 0 < abs(loss.item() - exact.item()) < 0.05
    loss.backward()
    found = [value.grad for value in model.parameters() if value.requires_grad]
    assert len(found) == 28 and all(g is not None and g.dtype is pyapp.float32 for g in found)


def test_the_order_of_a_scalers_calls() -> None:
    weight = nn.Parameter(pyapp.ones(2))
    optimizer = pyapp.optim.SGD([weight], lr=1.0)
    scaler = pyapp.amp.GradScaler("cpu", init_scale=4.0)
    with pytest.raises(RuntimeError, match="no gradients were unscaled"):
        scaler.update()
    with pytest.raises(AssertionError, match="no loss was scaled"):
        scaler.step(optimizer)
    scaler.scale(weight.sum())
    with pytest.raises(AssertionError, match="no parameter of this optimizer has a gradient"):
        scaler.step(optimizer)
    scaler.update(4.0)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    assert weight.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="has been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="before step"):
        scaler.unscale_(optimizer)
    scaler.update()
    other = pyapp.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0
    half = nn.Parameter(pyapp.ones(2, dtype=pyapp.float16))
    half.grad = pyapp.ones(2, dtype=pyapp.float16)
    with pytest.raises(ValueError, match="float16"):
        scaler.unscale_(SimpleNamespace(param_groups=[{"params": [half]}]))


def test_a_scaler_reads_one_value_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [nn.Parameter(pyapp.full((3,), float(k))) for k in range(5)]
    optimizer = pyapp.optim.SGD(weights, lr=0.25)
    scaler = pyapp.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    reads: list[Any] = []
    item = pyapp.Tensor.item
    monkeypatch.setattr(pyapp.Tensor, "item", lambda self: reads.append(self.dtype) or item(self))
    for bad in (None, 0, 4, None, None):
        optimizer.zero_grad()
        scaler.scale(sum((w * w).sum() for w in weights) * 0.5).backward()
        if bad is not None:
            weights[bad].grad[1] = float("inf" if bad else "nan")
        before = [w.tolist() for w in weights]
        reads.clear()
        scaler.step(optimizer)
        scaler.update()
        assert len(reads) == 1
        moved = [w.tolist() != b for w, b in zip(weights, before, strict=True)]
        assert moved == [bad is None and k > 0 for k in range(5)]
    assert scaler.get_scale() == 8.0 * 0.5 * 0.5 * 2
    # Without a step, too, what was unscaled decides.
    weights[1].grad = pyapp.full((3,), float("inf"))
    scaler.unscale_(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0 * 0.5
