"""quantize(model, kind): which weights change, and that the model computes nearly the same."""

from __future__ import annotations

from typing import Any

import pytest

from pyapp import nn
from pyapp.engine import Tensor, no_grad
from pyapp.engine.ops import from_numpy

np = pytest.importorskip("numpy")


class Tied(nn.Module):
    """An embedding whose weight is the head's too."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 256)
        self.inner = nn.Linear(256, 256)
        self.narrow = nn.Linear(256, 33)
        self.wide = nn.Linear(33, 256)
        self.head = nn.Linear(256, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(x + self.inner(x) + self.wide(self.narrow(x)))


@pytest.fixture
def model() -> Any:
    model = Tied()
    random = np.random.default_rng(3)
    for parameter in model.parameters():
        parameter.detach().copy_(from_numpy((random.standard_normal(parameter.shape) / 16).astype(np.float32)))
    return model


@pytest.mark.parametrize("kind, error", [("q8_0", 0.02), ("q6_K", 0.04), ("q4_K", 0.12), ("q4_0", 0.15)])
def test_the_model_computes_what_it_did(model: Any, kind: str, error: float) -> None:
    ids = from_numpy(np.arange(7, dtype=np.int32))
    with no_grad():
        exact = model(ids).numpy().copy()
        names = nn.quantize(model, kind)
        found = model(ids).numpy()
    assert names == dict.fromkeys(["embed.weight", "inner.weight", "narrow.weight"], kind)
    assert model.head.weight is model.embed.weight and model.wide.weight.dtype.name == "float32"
    assert 0 < np.linalg.norm(found - exact) < error * np.linalg.norm(exact)


def test_where_and_importance(model: Any) -> None:
    weight = model.inner.weight.detach().numpy().copy()
    importance = np.where(np.arange(256) % 8, 0.01, 1).astype(np.float32)
    names = nn.quantize(model, "q4_0", lambda name, tensor: "inner" in name, {"inner.weight": importance})
    assert names == {"inner.weight": "q4_0"} and model.embed.weight.dtype.name == "float32"
    from pyapp.engine import quant

    weighted = quant.dequantize(model.inner.weight).numpy()
    plain = quant.dequantize(quant.quantize(from_numpy(weight), "q4_0")).numpy()
    errors = [float((importance * np.square(found - weight)).mean()) for found in (weighted, plain)]
    assert errors[0] < 0.9 * errors[1]
    assert nn.quantize(model, "q8_0", lambda name, tensor: "inner" in name) == {}


def test_rows_of_other_widths_get_the_shorter_type() -> None:
    model = nn.Sequential(nn.Linear(96, 8), nn.Linear(8, 4))
    assert nn.quantize(model, "q4_K") == {"0.weight": "q5_0"}


def test_clear_errors(model: Any) -> None:
    with pytest.raises(ValueError, match="float16 is not a block type"):
        nn.quantize(model, "float16")
    with pytest.raises(TypeError, match="unknown dtype 'q9'"):
        nn.quantize(model, "q9")
    model.inner.weight.detach().data_view()[5] = float("nan")
    with pytest.raises(ValueError, match=r"inner\.weight: cannot quantize NaN"):
        nn.quantize(model, "q4_0")


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_weights_that_are_no_numbers_are_named(kind: str) -> None:
    model = nn.Sequential(nn.Linear(32, 2))
    with no_grad():
        model[0].weight[1, 3] = float("inf")
    with pytest.raises(ValueError, match=f"quantize: 0.weight: cannot quantize NaN or infinite values to {kind}"):
        nn.quantize(model, kind)


def test_states_go_between_quantised_and_floating_point_models(model: Any) -> None:
    exact = {name: value.clone() for name, value in model.state_dict().items()}
    nn.quantize(model, "q4_K")
    other, plain = Tied(), Tied()
    nn.quantize(other, "q4_K")
    other.load_state_dict(model.state_dict())
    assert (
        other.inner.weight.equal(model.inner.weight) and other.inner.weight._storage is not model.inner.weight._storage
    )
    plain.load_state_dict(model.state_dict())
    assert plain.inner.weight.dtype.name == "float32" and plain.inner.weight.equal(model.inner.weight)
    other.load_state_dict(exact)
    assert other.inner.weight.equal(exact["inner.weight"].to("q4_K"))
