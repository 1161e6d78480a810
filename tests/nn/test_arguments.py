"""Layers take torch's arguments by torch's names. Values are worked out by hand."""

from __future__ import annotations

import pytest

from pyapp import nn, tensor


def test_norms_over_several_dims_and_without_weights() -> None:
    x = tensor([[[3.0, 1.0], [1.0, 3.0]]])
    norm = nn.LayerNorm(normalized_shape=(2, 2), eps=0.0, elementwise_affine=False)
    assert norm(x).tolist() == [[[1, -1], [-1, 1]]] and not list(norm.parameters())
    without = nn.LayerNorm(2, eps=0.0, bias=False)
    assert [name for name, _ in without.named_parameters()] == ["weight"]
    assert without(x).tolist() == [[[1, -1], [-1, 1]]]
    root = nn.RMSNorm((2,), eps=0.0, elementwise_affine=False)
    assert root(tensor([[7.0, 1.0]])).flatten().tolist() == pytest.approx([1.4, 0.2])
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True)"


def test_a_padding_row_is_zero_and_stays() -> None:
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0, 0]
    layer(tensor([3, 1, 3, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]]
    with pytest.raises(ValueError, match="padding_idx 4 is none of 4 rows"):
        nn.Embedding(4, 2, padding_idx=4)


def test_gradients_of_rows_are_scaled_by_how_often_they_occur() -> None:
    """Once, also in bags, where torch's CPU kernel divides twice."""
    ids = tensor([[1, 1, 2], [1, 3, 3]])
    for layer in (
        nn.Embedding(4, 1, scale_grad_by_freq=True, padding_idx=2),
        nn.EmbeddingBag(4, 1, scale_grad_by_freq=True, mode="sum", padding_idx=2),
    ):
        layer(ids).sum().backward()
        assert layer.weight.grad.flatten().tolist() == pytest.approx([0, 1, 0, 1])
    with pytest.raises(ValueError, match="maximum's gradient"):
        nn.EmbeddingBag(4, 1, scale_grad_by_freq=True, mode="max")(ids)
    with pytest.raises(NotImplementedError, match="EmbeddingBag: sparse gradients are not there"):
        nn.EmbeddingBag(4, 1, sparse=True)


def test_long_rows_are_shrunk_where_they_are_looked_up() -> None:
    layer = nn.Embedding.from_pretrained(tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), max_norm=1.0)
    assert layer(tensor([[0, 1], [0, 1]]))[0].flatten().tolist() == pytest.approx([0.6, 0.8, 0.3, 0.4])
    assert layer.weight.flatten().tolist() == pytest.approx([0.6, 0.8, 0.3, 0.4, 6, 8])


def test_an_embedding_of_given_rows() -> None:
    layer = nn.Embedding.from_pretrained(tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert layer(tensor([1, 0])).tolist() == [[3, 4], [1, 2]] and not layer.weight.requires_grad
    assert nn.Embedding.from_pretrained(tensor([[1.0]]), freeze=False).weight.requires_grad


def test_modules_are_found_by_their_paths() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    assert net.get_submodule("1.1") is net[1][1] and net.get_submodule("") is net
    assert net.get_parameter("1.1.weight") is net[1][1].weight
    with pytest.raises(AttributeError, match="no module '1.7': '7' is not there"):
        net.get_submodule("1.7")
    with pytest.raises(AttributeError, match="no parameter '0.gain'"):
        net.get_parameter("0.gain")
    net.add_module("last", nn.Linear(1, 1))
    net.register_parameter("scale", nn.Parameter(tensor([1.0])))
    assert [name for name, _ in net.named_children()] == ["0", "1", "last"] and "scale" in net.state_dict()
    first = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.ReLU())[:2]
    assert isinstance(first, nn.Sequential) and len(first) == 2
    plain = nn.ModuleList([nn.ReLU()]).extend([nn.Tanh()])
    plain[0] = nn.Sigmoid()
    assert [type(m).__name__ for m in plain[:]] == ["Sigmoid", "Tanh"]


def test_what_is_shared_stays_shared_in_another_dtype() -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.weight = one.weight
    net = nn.ModuleList([one, two]).double()
    assert net[0].weight is net[1].weight and net[0].weight.dtype.name == "float64"
    assert net.half().float().cpu()[0].bias.dtype.name == "float32"
