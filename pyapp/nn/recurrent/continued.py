"""Texts that go on after earlier tokens, whose keys, values and states are inputs and outputs: the form in which other
runtimes keep the cache of a language model (`past_key_values` of transformers and Optimum, the states of
transformers.js).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...dataclass import dataclass
from ...engine import Tensor, no_grad, ops
from ..decoders.caches import FixedCache
from ..decoders.decoder import CachedText, CausalLanguageModel, RotaryTable, WholeText
from .hybrid import CachedHybridText
from .recurrent import CachedStates, LayerStates, Step, token_before
from .state_space import causal_convolution, chunked_scan, selective_scan

_ROLES = {causal_convolution: "conv", selective_scan: "ssm", chunked_scan: "ssm", token_before: "shift"}
_OTHER = "recurrent"  # the role of a state that other steps carry
_PARTS = "key", "value"
Place = tuple[int, int | str]  # the layer of a cache, and a part of it: "key", "value" or the number of a state


def _role(step: Step) -> str:
    return _ROLES.get(step.func if isinstance(step, partial) else step, _OTHER)


@dataclass(frozen=True)
class Kept:
    """A part of a layer's cache. name: what `past` and `present` add to theirs, ".0.key" or "_conv.0", as in
    transformers.js. sizes: of each text; None where it is the number of tokens.
    """

    place: Place
    name: str
    sizes: tuple[int | None, ...]

    @property
    def of_tokens(self) -> bool:
        """Whether it grows with every token."""
        return None in self.sizes

    @property
    def past(self) -> str:
        """The name of the input, past_key_values.0.key or past_conv.0."""
        return f"past_key_values{self.name}" if self.of_tokens else f"past{self.name}"

    @property
    def present(self) -> str:
        """The name of the output, present.0.key or present_conv.0."""
        return f"present{self.name}"


class ContinuedText(WholeText):
    """The tokens (B, T) of texts, after P earlier ones. past: what is kept of those, keys and values (B, KV, P, D) and
    states; a convolution over K tokens has the last K inputs of it, (B, C, K), as in transformers. mask (B, P + T): 0
    where a token is padding; of a model without attention (B, T) is enough. places (B, T): the positions of the tokens
    in their texts.
    """

    def __init__(self, past: Mapping[Place, Tensor], mask: Tensor, places: Tensor) -> None:
        super().__init__(mask.shape[1], mask)
        self._past, self._places = past, places
        tokens = places.shape[1]
        self._own = (mask.narrow(1, mask.shape[1] - tokens, tokens) != 0).unsqueeze(-1)  # (B, T, 1)
        self.present: dict[Place, Tensor] = {}

    def positions(self, tokens: Tensor) -> Tensor:
        return self._places

    def rotated(self, rotary: RotaryTable, interleaved: bool, *inputs: Tensor) -> Iterator[Tensor]:
        shape = self._places.shape
        table = rotary.at(self._places.reshape(-1), self.length)  # (B T, R / 2, 2)
        rows = ops.arange(shape[0] * shape[1], device=table.device).reshape(shape)
        return (ops.rope(x, table, rows, interleaved) for x in inputs)

    def seen(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        for part, new in zip(_PARTS, (keys, values), strict=True):
            place = layer, part
            self.present[place] = ops.cat([self._past[place], new.transpose(1, 2)], 2)  # (B, KV, P + T, D)
        return self.present[layer, "key"].transpose(1, 2), self.present[layer, "value"].transpose(1, 2)

    def carry(self, layer: int, part: int, step: Step, *inputs: Tensor) -> Tensor:
        """As StateText.carry."""
        state = self._past[layer, part].clone()  # which the step may write
        if _role(step) != "conv":
            y, self.present[layer, part] = step(state, *inputs)
            return y
        # Padding before a text is as nothing before it.
        inputs = tuple(map(self.masked, inputs))
        y, state = step(state.narrow(2, 1, state.shape[2] - 1).transpose(1, 2), *inputs)  # (B, K - 1, C)
        # The oldest of the K inputs is not seen again.
        self.present[layer, part] = ops.cat([ops.zeros_like(state.narrow(1, 0, 1)), state], 1).transpose(1, 2)
        return y

    def masked(self, x: Tensor, value: float = 0.0) -> Tensor:
        """As StateText.masked."""
        return ops.where(self._own, x, value)


class _Probe(ContinuedText):
    """Two tokens at the beginning of a text, which tell what the layers keep."""

    def __init__(self, like: Tensor) -> None:
        super().__init__({}, ops.ones_like(like), ops.arange(like.shape[1], device=like.device).unsqueeze(0))
        self.found: dict[Place, tuple[str, tuple[int | None, ...]]] = {}  # the role, and the sizes

    def seen(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        for part, new in zip(_PARTS, (keys, values), strict=True):
            self.found[layer, part] = part, (new.shape[2], None, new.shape[3])
        return keys, values

    def carry(self, layer: int, part: int, step: Step, *inputs: Tensor) -> Tensor:
        y, state = step(None, *inputs)
        role, sizes = _role(step), tuple(state.shape[1:])
        self.found[layer, part] = role, ((sizes[1], sizes[0] + 1) if role == "conv" else sizes)
        return y


def kept_parts(model: CausalLanguageModel) -> list[Kept] | None:
    """What a model keeps of earlier tokens, by layer; None for a model that keeps something else than keys and values,
    and states.
    """
    whole = getattr(model.whole_text, "attention", WholeText.attention)
    if model.cached_text not in (CachedText, CachedHybridText, CachedStates) or whole is not WholeText.attention:
        return None
    caches = [
        list(_PARTS) if type(layer) is FixedCache else list(range(len(layer.parts))) if type(layer) is LayerStates
        else None for layer in model.new_cache(1).layers
    ]  # fmt: skip
    if None in caches:
        return None
    wanted = [(layer, part) for layer, parts in enumerate(caches) for part in parts or ()]
    tokens = ops.zeros(1, 2, dtype="int64", device=model.device)
    probe = _Probe(tokens)
    with no_grad():
        model.stack(tokens, probe)
    if {*wanted} != {*probe.found}:
        return None
    return _named(wanted, probe, len(caches) // model.config.num_hidden_layers)


def _named(places: Sequence[Place], probe: _Probe, caches: int) -> list[Kept]:
    """The parts with their names. A layer of the model may have several caches: one of attention and one of states."""
    titles = []
    for place in places:
        layer, role = place[0] // max(caches, 1), probe.found[place][0]
        titles.append(f".{layer}.{role}" if role in _PARTS else f"_{role}.{layer}")
    count, met = Counter(titles), Counter[str]()
    found = []
    for place, title in zip(places, titles, strict=True):
        name = title if count[title] == 1 else f"{title}.{met[title]}"
        met[title] += 1
        found.append(Kept(place, name, probe.found[place][1]))
    return found


def continued_logits(
    model: CausalLanguageModel, tokens: Tensor, mask: Tensor, places: Tensor, past: Mapping[Place, Any]
) -> tuple[Tensor, dict[Place, Tensor]]:
    """tokens (B, T) after what `past` holds → (logits (B, T, V), what is kept of them and of the earlier ones), as
    ContinuedText takes them.
    """
    text = ContinuedText(past, mask, places)
    logits = model.head(model.stack(tokens, text))
    return logits, text.present
