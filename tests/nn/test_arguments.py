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


def test_an_embedding_of_given_rows() -> None:
    layer = nn.Embedding.from_pretrained(tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert layer(tensor([1, 0])).tolist() == [[3, 4], [1, 2]] and not layer.weight.requires_grad
    assert nn.Embedding.from_pretrained(tensor([[1.0]]), freeze=False).weight.requires_grad
