"""Linear layers of one input, joined in memory: the same results, and the layers keep their parameters."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.engine import capture, quant
from pyapp.nn import JoinedLinear


class Pair(nn.Module):
    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(32, 16, bias=bias)
        self.second = nn.Linear(32, 8, bias=bias)
        self.both = JoinedLinear("first", "second")

    def forward(self, x: pyapp.Tensor) -> pyapp.Tensor:
        return self.both(self, x)

    def apart(self, x: pyapp.Tensor) -> np.ndarray:
        return np.concatenate([part(x).detach().numpy() for part in (self.first, self.second)], -1)


@pytest.fixture
def pair() -> Pair:
    pyapp.manual_seed(0)
    made = Pair()
    made.requires_grad_(False)
    return made


X = [[float(i % 7) - 3 for i in range(32)], [float(i % 5) - 2 for i in range(32)]]


@pytest.mark.parametrize("kind", [None, "float16", "q8_0", "q4_0"])
def test_one_matrix_in_memory(pair: Pair, kind: str | None) -> None:
    if kind == "float16":
        for part in (pair.first, pair.second):
            part.weight.data = part.weight.detach().to(kind)
    elif kind:
        nn.quantize(pair, kind)
    x = pyapp.tensor(X)
    expected = pair.apart(x)
    pair.both.join(pair)
    assert pair.both._whole is not None
    first, whole = pair.first.weight, pair.both._whole[0]
    size = quant.packed_bytes(first.shape, first.dtype) if first.dtype.is_quantized else first.nbytes
    assert pair.second.weight.address == whole.address + size
    np.testing.assert_array_equal(pair(x).numpy(), expected)
    np.testing.assert_array_equal(pair.apart(x), expected)
    assert set(pair.state_dict()) == {"first.weight", "first.bias", "second.weight", "second.bias"}


def test_writes_to_the_layers_are_seen(pair: Pair) -> None:
    x = pyapp.tensor(X)
    pair(x)
    with pyapp.no_grad():
        pair.second.weight.mul_(2.0)
        pair.first.bias.zero_()
    np.testing.assert_allclose(pair(x).numpy(), pair.apart(x), rtol=1e-6)
    pair.load_state_dict({name: value + 1 for name, value in pair.state_dict().items()})
    np.testing.assert_allclose(pair(x).numpy(), pair.apart(x), rtol=1e-6)
    pair.second.weight = nn.Parameter(pyapp.ones(8, 32), requires_grad=False)
    np.testing.assert_allclose(pair(x).numpy(), pair.apart(x), rtol=1e-6)


def test_copies_have_their_own_memory(pair: Pair) -> None:
    x = pyapp.tensor(X)
    pair(x)
    expected = pair.apart(x)
    twin = copy.deepcopy(pair)
    with pyapp.no_grad():
        twin.first.weight.zero_()
    np.testing.assert_array_equal(pair(x).numpy(), expected)
    np.testing.assert_allclose(twin(x).numpy(), twin.apart(x), rtol=1e-6)
    again = pickle.loads(pickle.dumps(pair.both))
    assert again.names == pair.both.names and again._whole is None


def test_gradients_reach_each_layer(pair: Pair) -> None:
    pair.requires_grad_()
    x = pyapp.tensor(X)
    pair(x).pow(2).sum().backward()
    found = pair.second.weight.grad.numpy().copy()
    pair.zero_grad()
    pyapp.cat([pair.first(x), pair.second(x)], -1).pow(2).sum().backward()
    np.testing.assert_allclose(found, pair.second.weight.grad.numpy(), rtol=1e-6)


def test_layers_of_different_types_and_with_hooks_run_one_by_one(pair: Pair) -> None:
    x = pyapp.tensor(X)
    pair.second.weight.data = quant.quantize(pair.second.weight.detach(), "q8_0")
    np.testing.assert_array_equal(pair(x).numpy(), pair.apart(x))
    assert pair.both._whole is None
    other = Pair()
    other.requires_grad_(False)
    seen = []
    other.first.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    other(x)
    assert seen == [(2, 16)]


def test_a_graph_that_is_captured_first(pair: Pair) -> None:
    x = pyapp.tensor(X)
    with pyapp.no_grad():
        graph = capture(lambda: pair(x))
    x.assign([1.0] * 64)
    graph.replay()
    np.testing.assert_array_equal(graph.outputs.numpy(), pair.apart(x))
