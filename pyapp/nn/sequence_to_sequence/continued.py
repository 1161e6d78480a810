"""Decoders that go on after earlier tokens, whose keys and values, and those of the source, are inputs and outputs: the
form in which other runtimes keep them (`past_key_values` of transformers and Optimum).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Tensor, ops
from ...errors import ModelError
from .sequence_to_sequence import Project, SequenceToSequence, WholeMemory

Past = Sequence[Tensor]  # of a layer: keys and values (B, KV, P, D) of tokens, then (B, KV, S, D) of the source


class KeptKeys:
    """The keys and values of each layer: those of P earlier tokens and of the source, with `past`; then those of this
    call too, in `present`.
    """

    def __init__(self, past: Sequence[Past]) -> None:
        self.past = past
        self._own: dict[int, list[Tensor]] = {}
        self._source: dict[int, list[Tensor]] = {}

    @property
    def present(self) -> list[list[Tensor]]:
        """As `past`, after the call."""
        return [[*self._own[layer], *self._source[layer]] for layer in sorted(self._own)]

    def seen(self, layer: int, new: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Keys and values (B, T, KV, D) of the tokens → (B, P + T, KV, D) of all."""
        found = [x.transpose(1, 2) for x in new]  # (B, KV, T, D)
        if self.past:
            found = [ops.cat([old, x], 2) for old, x in zip(self.past[layer][:2], found, strict=True)]
        self._own[layer] = found
        return found[0].transpose(1, 2), found[1].transpose(1, 2)

    def of_source(self, layer: int, project: Project, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, KV, D) of the source."""
        kept = self._source[layer] = (
            list(self.past[layer][2:]) if self.past else [x.transpose(1, 2) for x in project(encoded)]
        )
        return kept[0].transpose(1, 2), kept[1].transpose(1, 2)


class _ContinuedMemory(WholeMemory):
    """The tokens (B, T) of texts after P earlier ones, and their sources (B, S, D); past: of each layer, or nothing at
    the beginning of texts.
    """

    def __init__(self, encoded: Tensor, source_mask: Tensor | None, tokens: int, past: Sequence[Past]) -> None:
        super().__init__(encoded, source_mask, tokens, earlier=past[0][0].shape[2] if past else 0)
        self.kept = KeptKeys(past)

    def seen(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return self.kept.seen(layer, (keys, values))

    def of_source(self, layer: int, project: Project) -> tuple[Tensor, Tensor]:
        return self.kept.of_source(layer, project, self.encoded)

    def beside(self, *_: Any) -> Tensor:
        raise ModelError("a decoder of several streams has no form in which other runtimes keep its keys and values")

    def joint(self, *_: Any) -> Tensor:
        raise ModelError(
            "a decoder that attends to text and source at once has no form in which other runtimes keep its keys and "
            "values"
        )


def continued_logits(
    model: SequenceToSequence, tokens: Tensor, encoded: Tensor, source_mask: Tensor | None, past: Sequence[Past]
) -> tuple[Tensor, list[list[Tensor]]]:
    """tokens (B, T) after what `past` holds, of sources (B, S, D), source_mask (B, S) 0 for padding → (logits (B, T,
    V), the keys and values of each layer with theirs). ModelError for a decoder that keeps something else.
    """
    memory = _ContinuedMemory(encoded, source_mask, tokens.shape[1], past)
    logits = model.decode(tokens, memory)
    return logits, memory.kept.present
