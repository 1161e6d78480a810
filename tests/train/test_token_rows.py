"""Rows of tokens as batches, and the loss over the tokens that are not ignored."""

from __future__ import annotations

import pytest

from pyapp import tensor
from pyapp.engine.ops.random import Generator
from pyapp.engine.row_pieces import PIECE
from pyapp.models.llama2c import Config, Llama2c
from pyapp.testing import assert_close
from pyapp.train.preferences import completion_log_probs
from pyapp.train.token_rows import (
    IGNORED,
    next_token_batch,
    padded,
    predicted_log_probs,
    predicted_loss,
    predicted_tokens,
    token_loss,
    total_loss,
)
from tests.train.small import Net


def test_short_rows_are_filled_with_ignored_targets() -> None:
    inputs, targets = next_token_batch([[1, 2, 3], [1, 5]])
    assert inputs.tolist() == [[1, 2], [1, 0]]
    assert targets.tolist() == [[2, 3], [5, IGNORED]]


def test_padding() -> None:
    assert padded([[7], [], [1, 2, 3]], 9).tolist() == [[7, 9, 9], [9, 9, 9], [1, 2, 3]]


def test_evaluation_counts_every_token_once() -> None:
    model = Net(Generator(7))
    rows = [[1, 5, 6, 7], [1, 9], [1, 3, 4], [1, 2, 3, 4, 5]]

    def loss(groups: list[list[list[int]]]) -> tuple[float, int]:
        batches = [next_token_batch(group) for group in groups]
        counts = [sum(len(row) - 1 for row in group) for group in groups]
        losses = (token_loss(model(x), y) for x, y in batches)
        return total_loss(zip(losses, counts, strict=True))

    parts = [loss([[row]])[0] for row in rows]
    for size in (1, 2, 3, 4):
        total, count = loss([rows[i : i + size] for i in range(0, 4, size)])
        assert count == 10
        assert total == pytest.approx(sum(parts), rel=1e-5)
    assert next(iter(model.parameters())).grad is None


def test_the_loss_of_what_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of all logits, in one piece and in several: the mean, and log p of rows."""
    model = Llama2c(Config(16, 32, 1, 2, 1, 24, 8), generator=Generator(3))
    tokens, targets = next_token_batch([[1, 5, 6, 7, 2], [1, 9, 4]])
    targets[0, 1] = IGNORED
    best = model(tokens).argmax(2)[targets != IGNORED].tolist()
    found = []
    for bytes_of_piece in (None, 1 << 20, 2 * 24 * 4):
        model.zero_grad()
        if bytes_of_piece is not None:
            monkeypatch.setitem(PIECE, "cpu", bytes_of_piece)
        if bytes_of_piece is None:
            logits = model(tokens)
            loss, log_probs = token_loss(logits, targets), completion_log_probs(logits, targets)
        else:
            states = model.hidden(tokens)
            loss, log_probs = (function(model, states, targets) for function in (predicted_loss, predicted_log_probs))
            assert predicted_tokens(model, states, targets).tolist() == best
        (loss + (log_probs * tensor([0.5, -2.0])).sum()).backward()
        found.append([loss.item(), log_probs.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    for mine in found[1:]:
        assert mine[0] == pytest.approx(found[0][0], rel=1e-6)
        for gradient, right in zip(mine[1:], found[0][1:], strict=True):
            assert_close(gradient, right, rtol=1e-4, atol=1e-6)
