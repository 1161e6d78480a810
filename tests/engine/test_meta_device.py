"""The meta device: shapes without elements. The expectations are torch 2.14's."""

from __future__ import annotations

import pytest

import pyapp
from pyapp import nn
from pyapp.engine.native import IN_BROWSER


def test_layers_and_gradients_have_shapes() -> None:
    with pyapp.device("meta"):
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 5)
        )
        assert {str(value.device) for value in model.state_dict().values()} == {"meta"}
        y = model(pyapp.randn(2, 3, 4, 4))
        loss = nn.functional.cross_entropy(y, pyapp.randint(0, 5, (2,)))
        loss.backward()
        pyapp.optim.AdamW(model.parameters()).step()
        for name in ("orthogonal_", "trunc_normal_", "xavier_uniform_", "eye_"):
            getattr(nn.init, name)(model[4].weight)
    assert tuple(y.shape) == (2, 5) and y.is_meta and loss.shape == ()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    assert pyapp.ones(1).device == "cpu"


def test_takes_no_memory_and_gets_some() -> None:
    side = 1 << (14 if IN_BROWSER else 20)  # 1 GiB, or 4 TiB
    layers = [nn.Linear(side, side, device="meta") for _ in range(5)]
    x = pyapp.empty(2, side, device="meta")
    for layer in layers:
        x = layer(x)
    assert layers[0].weight.nbytes == 4 * side * side and x.shape == (2, side)
    small = nn.Linear(2, 3, device="meta")
    state = nn.Linear(2, 3).state_dict()
    small.load_state_dict(state, assign=True)
    assert small.weight.device == "cpu" and small.weight.tolist() == state["weight"].tolist()
    assert nn.BatchNorm1d(3, device="meta").to_empty(device="cpu").running_mean.device == "cpu"


def test_elements_are_refused() -> None:
    x = pyapp.empty(3, device="meta")
    for read in (
        x.tolist,
        x.numpy,
        lambda: x[0].item(),
        lambda: bool(x[0]),
        lambda: x.to("cpu"),
        x.nonzero,
        lambda: x[x > 0],
    ):
        with pytest.raises(NotImplementedError, match="no elements to read"):
            read()
    with pytest.raises(RuntimeError):
        x + pyapp.ones(3)
    x.copy_(pyapp.ones(3))
    assert repr(x) == "tensor(..., device='meta', size=(3,))"
    assert repr(x.double().requires_grad_()) == (
        "tensor(..., device='meta', size=(3,), dtype=pyapp.float64, requires_grad=True)"
    )


def test_where_new_tensors_are() -> None:
    makers = (
        "eye(3)", "linspace(0, 1, 3)", "logspace(0, 1, 3)", "randn(2)", "randint(0, 3, (2,))", "randperm(4)",
        "tensor([1.0])", "zeros(2)", "hann_window(4)", "tril_indices(3, 3)", "as_tensor([1])", "arange(3)",
    )  # fmt: skip
    kept = pyapp.ones(2)
    with pyapp.device("meta"):
        with pyapp.device("cpu"):
            assert pyapp.zeros(1).device == "cpu"
        assert [made for made in makers if not eval(f"pyapp.{made}").is_meta] == []
        assert (
            pyapp.ones(2, device="cpu").device == pyapp.zeros_like(kept).device == pyapp.Tensor([1.0]).device == "cpu"
        )
        assert (kept + 1).tolist() == [2, 2]
    pyapp.set_default_device("meta")
    try:
        assert pyapp.zeros(1).is_meta and pyapp.get_default_device() == "meta"
    finally:
        pyapp.set_default_device(None)
    assert pyapp.zeros(1).device == "cpu"
