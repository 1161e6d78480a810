"""Recurrent, attention, transformer and norm layers against torch's values, gradients and state dicts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, optim
from pyapp.engine.ops import from_numpy
from tests.nn.checks import check_module, leaf
from tests.nn.training_cases import MODULES, load_golden, values

GOLDEN = load_golden()


@pytest.mark.parametrize("name", MODULES)
def test_values_gradients_and_state_are_those_of_torch(name: str) -> None:
    check_module(GOLDEN, name, MODULES[name])


def test_attention_of_one_tensor_is_that_of_three() -> None:
    pyapp.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2)
    x, y, z = (leaf(values(1, 3, 2, 8)) for _ in range(3))
    one, _ = attention(x, x, x)
    three, _ = attention(x, y, z)
    np.testing.assert_allclose(one.detach().numpy(), three.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", ["nothing", "mask", "padding", "causal", "causal with padding", "added keys"])
def test_attention_without_weights_is_that_with_them(given: str) -> None:
    """Without them one kernel computes it; its values and gradients are those of the parts."""
    pyapp.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=given == "added keys")
    settings: dict[str, Any] = {"is_causal": given.startswith(("causal", "added"))}
    if given == "mask":
        settings["attn_mask"] = from_numpy(values(5, 2 * 2, 5, 5))
    if given.endswith("padding"):
        settings["key_padding_mask"] = from_numpy(np.arange(5) >= np.array([[5], [3]]))
    found = []
    for need_weights in (True, False):
        x = leaf(values(4, 2, 5, 8))
        y, weights = attention(x, x, x, need_weights=need_weights, **settings)
        assert (weights is not None) == need_weights
        attention.zero_grad()
        (y * from_numpy(values(6, 2, 5, 8))).sum().backward()
        found.append([y.detach(), x.grad, *(parameter.grad for parameter in attention.parameters())])
    for with_weights, without in zip(*found, strict=True):
        np.testing.assert_allclose(without.numpy(), with_weights.numpy(), rtol=1e-4, atol=1e-5)


def test_a_causal_layer_does_not_see_what_follows() -> None:
    pyapp.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = values(2, 1, 5, 8)
    changed = x.copy()
    changed[:, 3:] += 1
    a, b = (layer(from_numpy(array), is_causal=True).detach().numpy() for array in (x, changed))
    np.testing.assert_allclose(a[:, :3], b[:, :3], rtol=1e-5, atol=1e-6)
    assert np.abs(a[:, 3:] - b[:, 3:]).max() > 1e-3


def test_stacks_begin_as_copies_and_have_parameters_of_their_own() -> None:
    pyapp.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
    x = from_numpy(values(3, 4, 2, 8))
    wanted = stack.norm(layer(layer(x)))
    np.testing.assert_allclose(stack(x).detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert sum(1 for _ in stack.parameters()) == 2 * 12 + 2
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
    assert decoder(x, x, tgt_is_causal=True).shape == (4, 2, 8)
    assert "layers.1.multihead_attn.in_proj_weight" in decoder.state_dict()


def test_training_a_small_lstm_lowers_its_loss() -> None:
    """Whether more ones than zeros came so far, of random bits."""
    pyapp.manual_seed(0)
    bits = np.random.default_rng(0).integers(0, 2, (24, 8, 1))
    x = from_numpy(bits.astype(np.float32))
    balance = np.cumsum(2 * bits - 1, axis=1)[..., 0]
    y = from_numpy((balance > 0).astype(np.int64))
    lstm, head = nn.LSTM(1, 12, batch_first=True), nn.Linear(12, 2)
    parameters = [*lstm.parameters(), *head.parameters()]
    optimizer = optim.Adam(parameters, lr=0.02)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(lstm(x)[0]).reshape(-1, 2), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.6 and losses[-1] < 0.35


def test_dropout_between_recurrent_layers_acts_in_training_only() -> None:
    pyapp.manual_seed(3)
    gru = nn.GRU(3, 4, num_layers=2, dropout=0.5)
    x = from_numpy(values(4, 5, 2, 3))
    assert not np.array_equal(gru(x)[0].detach().numpy(), gru(x)[0].detach().numpy())
    gru.eval()
    assert np.array_equal(gru(x)[0].detach().numpy(), gru(x)[0].detach().numpy())


def test_dropout_is_seeded_scaled_and_off_in_evaluation() -> None:
    x = pyapp.ones(100, 100, requires_grad=True)
    layer = nn.Dropout(0.3, generator=pyapp.Generator(7))
    first = layer(x)
    kept = first.detach().numpy()
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.7)} and abs((kept > 0).mean() - 0.7) < 0.02
    first.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), kept)
    assert not np.array_equal(layer(x).detach().numpy(), kept)
    layer.generator.manual_seed(7)
    assert np.array_equal(layer(x).detach().numpy(), kept)
    assert layer.eval()(x) is x and nn.functional.dropout(x, 1.0).detach().numpy().max() == 0
    with pytest.raises(ValueError, match="p must be in"):
        nn.Dropout(1.5)


def test_containers() -> None:
    modules = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Identity()})
    assert list(modules) == ["a", "b"] and "a" in modules and len(modules) == 2 and modules["a"] is modules.a
    modules["a"] = nn.Linear(2, 5)
    assert list(modules.keys()) == ["a", "b"] and modules.a.out_features == 5
    assert set(modules.state_dict()) == {"a.weight", "a.bias"}
    assert isinstance(modules.pop("b"), nn.Identity) and list(modules) == ["a"] and not hasattr(modules, "b")
    for key in ("keys", "", "x.y", "training"):
        with pytest.raises(KeyError, match="cannot be a key"):
            modules[key] = nn.Identity()
    with pytest.raises(TypeError, match="must be a module"):
        modules["c"] = pyapp.ones(1)
    parameters = nn.ParameterList([pyapp.ones(2), pyapp.zeros(3)]).append(pyapp.ones(1))
    assert [tuple(p.shape) for p in parameters] == [(2,), (3,), (1,)] and parameters[-1].requires_grad
    parameters[0] = pyapp.zeros(4)
    assert list(parameters.state_dict()) == ["0", "1", "2"] and parameters[0].shape == (4,)
    with pytest.raises(IndexError, match="outside a list of 3"):
        parameters[3]
    named = nn.ParameterDict({"w": pyapp.ones(2)})
    named["v"] = nn.Parameter(pyapp.zeros(1))
    assert [name for name, _ in named.named_parameters()] == ["w", "v"] and "(w): Parameter" in repr(named)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: nn.LSTM(3, 4)(pyapp.ones(2, 2, 5)), "the last 3, got float32"),
        (lambda: nn.LSTM(3, 4)(pyapp.ones(5, 2, 3), (pyapp.ones(1, 2, 4), pyapp.ones(1, 3, 4))), r"\[1, 2, 4\], got"),
        (lambda: nn.GRU(3, 4)(pyapp.ones(0, 2, 3)), "must not be empty"),
        (lambda: nn.RNN(3, 4, nonlinearity="gelu"), "'tanh' or 'relu'"),
        (lambda: nn.MultiheadAttention(8, 3), "does not divide"),
        (lambda: nn.MultiheadAttention(8, 2)(*[pyapp.ones(3, 2, 8)] * 3, attn_mask=pyapp.ones(2, 3)), "attn_mask must"),
        (lambda: nn.GroupNorm(3, 4), "do not make 3 groups"),
        (lambda: nn.BatchNorm1d(4)(pyapp.ones(1, 4)), "more than one value"),
        (lambda: nn.BatchNorm1d(4)(pyapp.ones(2, 4, 3, 3)), "takes 2 or 3 dims"),
        (lambda: nn.Bilinear(3, 4, 5)(pyapp.ones(2, 3), pyapp.ones(3, 4)), "Bilinear: takes"),
    ],
)
def test_what_does_not_fit_is_named(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_batch_norm_of_16_bits_is_computed_in_float32(dtype: str) -> None:
    """In training: 16-bit results, of squares that float16 cannot hold."""
    pyapp.manual_seed(2)
    x = pyapp.randn(6, 4) * 900
    norm, same = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    given = x.to(dtype)
    y, expected = norm(given), same(given.float())
    assert y.dtype == given.dtype and norm.running_var.dtype is pyapp.float32
    assert pyapp.allclose(y.float(), expected, atol=2e-2)
    assert pyapp.allclose(norm.running_var, same.running_var)


@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_16_bit_batch_norms_have_the_dtype_of_the_weights(training: bool) -> None:
    norm = nn.BatchNorm1d(4).bfloat16().train(training)
    norm(pyapp.arange(24.0).reshape(6, 4).bfloat16()).square().sum().backward()
    assert norm.weight.grad.dtype is norm.bias.grad.dtype is pyapp.bfloat16


def test_operators_of_containers() -> None:
    """As torch's: names of slices, repetition, lists of parameters, unions."""
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    assert list(net[1:].state_dict()) == ["2.weight", "2.bias"] and len(net * 2) == 6 and (2 * net)[3] is net[0]
    with pytest.raises(ValueError, match="above 0"):
        net * 0
    some = nn.ParameterList([pyapp.ones(1), pyapp.zeros(2)])
    some += [pyapp.ones(3)]
    assert len(some) == 3 and [len(p) for p in some[1:]] == [2, 3] and isinstance(some[:1], nn.ParameterList)
    named = nn.ParameterDict({"a": pyapp.ones(1)}) | {"b": pyapp.ones(2)}
    named |= {"c": pyapp.ones(3)}
    assert list(named.keys()) == ["a", "b", "c"] and isinstance(named["b"], nn.Parameter)


def test_containers_of_parameters_keep_what_is_no_tensor() -> None:
    """As torch's; a plain dict is read by its sorted keys, which is the order of the parameters."""
    named = nn.ParameterDict({"w": pyapp.ones(2), "n": 3, "a": pyapp.zeros(1)})
    named["layer"] = nn.Linear(1, 1)
    assert list(named) == ["a", "n", "w", "layer"] and named["n"] == 3 and list(named.copy()) == list(named)
    assert [name for name, _ in named.named_parameters()] == ["a", "w", "layer.weight", "layer.bias"]
    assert list(nn.ParameterDict([("w", pyapp.ones(2)), ("a", 1)])) == ["w", "a"]
    named["n"] = pyapp.ones(3)
    assert named["n"].requires_grad and list(named.state_dict()) == ["a", "w", "n", "layer.weight", "layer.bias"]
    assert named.pop("layer") and list(named.state_dict()) == ["a", "w", "n"] and not hasattr(named, "layer")
    with pytest.raises(TypeError, match="parameter 'a'"):
        named["a"] = 5
    with pytest.raises(KeyError, match="cannot be a key"):
        named["_keys"] = 1
    again = pickle.loads(pickle.dumps(nn.ParameterList([pyapp.ones(2), 3, None])))
    again.append(pyapp.zeros(1))
    assert list(again.state_dict()) == ["0", "3"] and again[1:3][0] == 3 and [type(x) for x in again][2] is type(None)


def test_skip_init_gives_memory_alone() -> None:
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False)
    layer.weight.detach().fill_(2.0)
    assert layer(pyapp.ones(1, 3)).tolist() == [[6.0, 6.0]] and layer.weight.is_contiguous()
