"""Heads over a whole text that an encoder and a decoder read, the decoder one place to the right (Lewis et al. 2019,
arXiv 1910.13461).
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...errors import InputError
from ..layers.linear import Linear
from ..module import Module
from .sequence_to_sequence import check_ids


class WholeReader(Module):
    """An encoder and a decoder below a head."""

    config: Any
    most: int

    def first(self, ids: Tensor) -> Tensor:
        """What the decoder reads first of texts ids (B, T) → (B, 1)."""
        return ops.full((ids.shape[0], 1), self.config.decoder_start_token_id, dtype=ids.dtype, device=ids.device)

    def states(self, ids: Tensor, attention_mask: Tensor | None, tokens: Tensor) -> Tensor:
        """Texts ids (B, T), and what the decoder reads, tokens (B, T) → its hidden states (B, T, D)."""
        raise NotImplementedError

    def hidden(self, ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """ids (B, T) → the decoder's hidden states (B, T, D)."""
        check_ids(self, ids, attention_mask)
        tokens = ops.cat([self.first(ids), ids.narrow(1, 0, ids.shape[1] - 1)], 1)  # (B, T)
        return self.states(ids, attention_mask, tokens)


class ClassificationHead(Module):
    """out_proj(tanh(dense(x)))."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.out_proj = Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D) → logits (B, labels)."""
        return self.out_proj(self.dense(x).tanh())


class EndClassifier(WholeReader):
    """Scores of the labels of a text, or of a pair of texts, read at its last end token by `classification_head`."""

    classification_head: Module

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → logits (B, labels). InputError for a text without an end token."""
        end = self.config.eos_token_id
        ends = (ids == end).to("int32")  # (B, T)
        if not ends.amax(1).amin().item():
            raise InputError(f"{type(self).__name__}: a text has no end token (eos_token_id {end})")
        places = ops.arange(1, ids.shape[1] + 1, dtype="int32", device=ids.device)
        last = (ends * places).argmax(1, True).unsqueeze(-1)  # (B, 1, 1)
        x = self.hidden(ids, attention_mask)
        found: Tensor = self.classification_head(ops.gather(x, 1, last.expand(x.shape[0], 1, x.shape[2])).squeeze(1))
        return found


class AnswerFinder(WholeReader):
    """Scores of an answer's start and end at each token, by `qa_outputs`."""

    qa_outputs: Linear

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → logits (B, T, 2)."""
        return self.qa_outputs(self.hidden(ids, attention_mask))
