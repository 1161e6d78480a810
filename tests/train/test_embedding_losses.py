"""Losses of embeddings: values and gradients of sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyapp import nn, optim, tensor
from pyapp.errors import OptionError
from pyapp.train import embedding_losses
from tests.together import check_each
from tests.train.embedding_cases import CASES, MATRYOSHKA, VECTORS

GOLDEN = json.loads(Path(__file__).with_name("golden_embedding_losses.json").read_text())


def test_losses_are_those_of_sentence_transformers() -> None:
    def check(name: str) -> None:
        ours, names, labels, settings, *_ = CASES["in batch" if name == "matryoshka" else name]
        vectors = [tensor(VECTORS[key], requires_grad=True) for key in names]
        more: dict[str, Any] = {"labels": tensor(labels)} if labels is not None else {}
        loss = getattr(embedding_losses, ours)
        if name == "matryoshka":
            value = embedding_losses.matryoshka_loss(loss, *vectors, **MATRYOSHKA)  # type: ignore[arg-type]
        else:
            value = loss(*vectors, **more, **settings)
        value.backward()
        assert [value.item(), *(x.grad.abs().sum().item() for x in vectors)] == pytest.approx(GOLDEN[name], rel=2e-5)  # type: ignore[union-attr]

    check_each(check, [(name,) for name in GOLDEN])


def test_a_table_learns_which_words_belong_together() -> None:
    table = nn.Embedding(8, 4)  # words 0 and 1, 2 and 3 … belong together
    optimizer = optim.Adam(table.parameters(), lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        loss = embedding_losses.multiple_negatives_ranking_loss(
            table(tensor([0, 2, 4, 6])), table(tensor([1, 3, 5, 7])), symmetric=True
        )
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_shapes_are_checked() -> None:
    one, two, label = tensor(VECTORS["anchors"]), tensor(VECTORS["positives"][:3]), tensor([1.0])
    with pytest.raises(OptionError, match=r"\(5, 6\), \(3, 6\), \(5, 6\), expected \(B, D\)"):
        embedding_losses.triplet_loss(one, two, one)
    with pytest.raises(OptionError, match=r"labels are \(1,\), expected \(5,\)"):
        embedding_losses.cosent_loss(one, one, label)
    with pytest.raises(OptionError, match="7 is not from 1 to the 6"):
        embedding_losses.matryoshka_loss(embedding_losses.triplet_loss, one, one, one, dimensions=[7])
    with pytest.raises(OptionError, match=r"labels.*expected \(5, 1\)"):
        embedding_losses.margin_mse_loss(one, one, one, labels=label)
