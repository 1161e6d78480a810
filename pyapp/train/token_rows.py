"""Batches of token rows for models that predict tokens: padding, and the loss over the tokens that are not padding."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.row_pieces import rows_at_once, rows_of_pieces, sum_of_pieces
from pyapp.nn.functional import cross_entropy

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
    """Mean cross-entropy in nats per token, a scalar: logits (B, T, vocabulary), targets (B, T) on any device."""
    return ops.cross_entropy(logits, targets.to(logits.device), IGNORED)


def _predicted(model: Any, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """The places (N,) of B * T at which targets (B, T) are not IGNORED, their states (N, D) and targets (N,); and how
    many rows of logits are computed at a time.
    """
    wanted = targets.flatten()  # (B * T,)
    places = (wanted != IGNORED).nonzero().flatten()  # (N,)
    there = places.to(states.device)
    kept = states.flatten(0, 1).index_select(0, there)  # (N, D)
    size = rows_at_once(model.config.vocab_size, states.device)
    return there, kept, wanted.index_select(0, places).to(states.device), size


def predicted_loss(model: Any, states: Tensor, targets: Tensor) -> Tensor:
    """token_loss(model.head(states), targets) of a language model: states (B, T, D), which its head reads (of
    `model.hidden`), targets (B, T) on the CPU. Logits are computed only where a target is not IGNORED, and in pieces:
    those of a large vocabulary may need more memory than the model.
    """
    _, kept, wanted, size = _predicted(model, states, targets)

    def total(x: Tensor, wanted: Tensor) -> Tensor:
        return token_loss(model.head(x).float(), wanted) * x.shape[0]

    return sum_of_pieces(total, size, kept, wanted) / max(kept.shape[0], 1)


def predicted_tokens(model: Any, states: Tensor, targets: Tensor) -> Tensor:
    """The most probable tokens (N,) where targets are not IGNORED, row by row; the arguments and pieces of
    predicted_loss.
    """
    _, kept, wanted, size = _predicted(model, states, targets)

    def best(x: Tensor, _: Tensor) -> Tensor:
        return model.head(x).argmax(1)  # (n,)

    return rows_of_pieces(best, size, kept, wanted)


def predicted_log_probs(model: Any, states: Tensor, targets: Tensor) -> Tensor:
    """log p of each row's targets that are not IGNORED (B,) in nats; the arguments and pieces of predicted_loss."""
    places, kept, wanted, size = _predicted(model, states, targets)

    def losses(x: Tensor, wanted: Tensor) -> Tensor:
        return cross_entropy(model.head(x).float(), wanted.long(), reduction="none")  # (n,)

    rows = places.div(targets.shape[1], rounding_mode="floor")  # (N,)
    found = rows_of_pieces(losses, size, kept, wanted)  # (N,)
    return -found.new_zeros(targets.shape[0]).index_add(0, rows, found)


def total_loss(batches: Iterable[tuple[Tensor, int]]) -> tuple[float, int]:
    """(sum of -log p over all predicted tokens in nats, their number).

    `batches` yields (mean loss, a scalar; number of targets that are not IGNORED) of each batch; it runs without
    gradients.
    """
    total, count = 0.0, 0
    with no_grad():
        for loss, predicted in batches:
            total += float(loss.item()) * predicted
            count += predicted
    return total, count
