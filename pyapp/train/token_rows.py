"""Batches of token rows for models that predict tokens: padding, and the loss over the tokens that are not padding."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.row_pieces import rows_at_once, sum_of_pieces

IGNORED = -100
"""The target where no token is to be predicted."""


def padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Rows of ids as one tensor (rows, longest), int32, padded with `fill`."""
    width = max(len(row) for row in rows)
    values = array("i")
    for row in rows:
        values.extend([*row, *[fill] * (width - len(row))])
    return Tensor.from_buffer(values.tobytes(), (len(rows), width), "int32")


def next_token_batch(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of ids as inputs and targets (rows, longest - 1), int32: each token predicts the next one."""
    return padded([row[:-1] for row in rows], 0), padded([row[1:] for row in rows], IGNORED)


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats per token, a scalar: logits (B, T, vocabulary), targets (B, T)."""
    return ops.cross_entropy(logits, targets, IGNORED)


def predicted_loss(model: Any, tokens: Tensor, targets: Tensor) -> Tensor:
    """token_loss(model(tokens), targets) of a language model, whose logits are computed only where a target is not
    IGNORED, and in pieces: those of a large vocabulary may need more memory than the model. tokens, targets (B, T) are
    on the CPU.
    """
    device = model.device
    x = model.hidden(tokens.to(device)).flatten(0, 1)  # (B * T, D)
    wanted = targets.flatten()  # (B * T,)
    places = (wanted != IGNORED).nonzero().flatten()  # (N,)
    count = places.shape[0]

    def total(x: Tensor, wanted: Tensor) -> Tensor:
        return token_loss(model.head(x).float(), wanted) * x.shape[0]

    size = rows_at_once(model.config.vocab_size, device)
    kept, wanted = x.index_select(0, places.to(device)), wanted.index_select(0, places).to(device)  # (N, D), (N,)
    return sum_of_pieces(total, size, kept, wanted) / max(count, 1)


def total_loss(predictions: Iterable[tuple[Tensor, Tensor, int]]) -> tuple[float, int]:
    """(sum of -log p over all predicted tokens in nats, their number).

    `predictions` yields (logits, targets, number of targets that are not IGNORED) of each batch; it runs without
    gradients.
    """
    total, count = 0.0, 0
    with no_grad():
        for logits, targets, predicted in predictions:
            total += float(token_loss(logits, targets).item()) * predicted
            count += predicted
    return total, count
