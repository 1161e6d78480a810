"""Texts that go on after earlier tokens, whose keys and values are inputs and outputs: the form in which other runtimes
keep the cache of a language model (`past_key_values` of transformers and Optimum).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...engine import Tensor, ops
from .caches import FixedCache
from .decoder import CachedText, CausalLanguageModel, RotaryTable, WholeText


class ContinuedText(WholeText):
    """The tokens (B, T) of texts, after P earlier ones. past: for each layer, the keys and values (B, KV, P, D) of
    those. mask (B, P + T): 0 where a token is padding. places (B, T): the positions of the tokens in their texts.
    """

    def __init__(self, past: Sequence[tuple[Tensor, Tensor]], mask: Tensor, places: Tensor) -> None:
        super().__init__(mask.shape[1], mask)
        self._past, self._places = past, places
        self.present: dict[int, tuple[Tensor, Tensor]] = {}  # by layer: the keys and values (B, KV, P + T, D) so far

    def positions(self, tokens: Tensor) -> Tensor:
        return self._places

    def rotated(self, rotary: RotaryTable, interleaved: bool, *inputs: Tensor) -> Iterator[Tensor]:
        shape = self._places.shape
        table = rotary.at(self._places.reshape(-1), self.length)  # (B T, R / 2, 2)
        rows = ops.arange(shape[0] * shape[1], device=table.device).reshape(shape)
        return (ops.rope(x, table, rows, interleaved) for x in inputs)

    def seen(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        found = [
            ops.cat([old, new.transpose(1, 2)], 2) for old, new in zip(self._past[layer], (keys, values), strict=True)
        ]
        self.present[layer] = found[0], found[1]
        return found[0].transpose(1, 2), found[1].transpose(1, 2)


def cache_shapes(model: CausalLanguageModel) -> list[tuple[int, int]] | None:
    """(KV, D) of each layer's cache; None for a model whose cache is not one of keys and values for each layer."""
    if model.cached_text is not CachedText or model.whole_text.attention is not WholeText.attention:
        return None
    layers = model.new_cache(1).layers
    # More caches than layers hold what other states are made of.
    if len(layers) > model.config.num_hidden_layers or not all(type(layer) is FixedCache for layer in layers):
        return None
    return [(layer.keys.shape[0], layer.keys.shape[2]) for layer in layers]


def continued_logits(
    model: CausalLanguageModel, tokens: Tensor, mask: Tensor, places: Tensor, past: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:  # fmt: skip
    """tokens (B, T) after what `past` holds → (logits (B, T, V), the keys and values (B, KV, P + T, D) of each layer
    with theirs), as ContinuedText takes them.
    """
    text = ContinuedText(past, mask, places)
    logits = model.head(model.stack(tokens, text))
    return logits, [text.present[layer] for layer in range(len(past))]
