"""RWKV 4 (Peng et al. 2023, arXiv 2305.13048): layers that mix each token with the one before it, and average the
values of all tokens, of which older ones count less. Values are float32, so `rescale_every`, which keeps float16 from
overflowing, is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.ops import arange, cat, empty, where
from pyapp.engine.ops.recurrences import linear_scan
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.decoder import DecoderStack, Text
from pyapp.nn.parameter import Initialization, new_parameter
from pyapp.nn.recurrent import RecurrentLanguageModel, StateText, token_before

from .loading.config import FileConfig, read_config, require

MODEL_TYPES = ("rwkv",)
LAST_EPSILON = 1e-5  # of the last norm, whatever the configuration says
LOWEST, PADDING = -1e38, -1e30  # logarithms of the weight of no token, and of padding


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json."""

    model_type = "rwkv"

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    attention_hidden_size: int
    intermediate_size: int
    context_length: int = 1024
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        given = {name: value for name, value in values.items() if value is not None}
        hidden: Any = given.get("hidden_size")
        require(type(hidden) is int and hidden >= 1, f"hidden_size is {hidden!r:.60}, expected a whole number")
        return read_config(cls, {"attention_hidden_size": hidden, "intermediate_size": 4 * hidden} | given)

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return self.context_length


def weighted_average(
    state: Tensor | None, keys: Tensor, values: Tensor, *, decay: Tensor, first: Tensor
) -> tuple[Tensor, Tensor]:
    """The average of the values so far, channel by channel: a token counts exp(key), times exp(decay) for every token
    since, the newest one exp(key + first). keys and values (B, T, C), decay (C,) < 0, first (C,), state (B, 3, C): the
    sums of values and of weights, divided by exp of the third row; None or zeros: no tokens → (B, T, C) and the next.
    """
    texts, tokens, channels = keys.shape
    if state is None:
        state = keys.new_zeros((texts, 3, channels))
    sums = state.narrow(1, 0, 2).reshape(texts, 1, 2 * channels)
    start = where(state.narrow(1, 1, 1) > 0, state.narrow(1, 2, 1), LOWEST)  # (B, 1, C)
    with no_grad():  # sums are divided by exp(tops), which changes no average
        tops, step = cat([start, keys], 1), 1  # (B, T + 1, C)
        while step <= tokens:
            later = tops.narrow(1, 0, tokens + 1 - step) + decay * step
            tops = cat([tops.narrow(1, 0, step), tops.narrow(1, step, tokens + 1 - step).maximum(later)], 1)
            step *= 2
        old, new = tops.narrow(1, 0, tokens), tops.narrow(1, 1, tokens)
        top = old.maximum(keys + first)
    kept, added = (old + decay - new).exp(), (keys - new).exp()
    found = linear_scan(cat([kept, kept], -1), cat([added * values, added], -1), sums.squeeze(1))  # (B, T, 2 C)
    earlier = sums if tokens == 1 else cat([sums, found.narrow(1, 0, tokens - 1)], 1)
    share, own = (old - top).exp(), (keys + first - top).exp()
    total, weights = earlier.narrow(-1, 0, channels), earlier.narrow(-1, channels, channels)
    y = (share * total + own * values) / (share * weights + own)
    last = found.narrow(1, tokens - 1, 1).reshape(texts, 2, channels)
    return y, cat([last, tops.narrow(1, tokens, 1)], 1)


class Mixing(Module):
    """The base of both parts of a layer: inputs that are between a token and the one before it, by a share for each
    feature. `parts` are the names of the shares.
    """

    def __init__(self, config: Config, layer: int, parts: Sequence[str]) -> None:
        super().__init__()
        self.parts = tuple(f"time_mix_{part}" for part in parts)
        for name in self.parts:
            setattr(self, name, new_parameter(empty, 1, 1, config.hidden_size))
        if Initialization.on:
            with no_grad():
                later, depth = 1 - layer / config.num_hidden_layers, layer / max(config.num_hidden_layers - 1, 1)
                rows = arange(config.hidden_size, dtype="float32") / config.hidden_size
                for name in self.parts:
                    power = later * (0.5 if name == "time_mix_receptance" and len(parts) == 3 else 1.0)
                    getattr(self, name).copy_(rows**power + (0.3 * depth if name == "time_mix_value" else 0.0))

    def mixed(self, x: Tensor, earlier: Tensor) -> list[Tensor]:
        """x and the tokens before (..., T, H) → the input (..., T, H) of each part."""
        shares = (getattr(self, name).reshape(-1) for name in self.parts)
        return [x * share + earlier * (1 - share) for share in shares]


class TimeMixing(Mixing):
    """Averages the values of all tokens, behind a gate."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config, layer, ("key", "value", "receptance"))
        size, inner = config.hidden_size, config.attention_hidden_size
        self.layer = layer
        self.time_decay = new_parameter(empty, inner)
        self.time_first = new_parameter(empty, inner)
        self.key = Linear(size, inner, bias=False)
        self.value = Linear(size, inner, bias=False)
        self.receptance = Linear(size, inner, bias=False)
        self.output = Linear(inner, size, bias=False)
        if Initialization.on:
            with no_grad():
                channels, depth = arange(inner, dtype="float32"), layer / max(config.num_hidden_layers - 1, 1)
                self.time_decay.copy_((channels / max(inner - 1, 1)) ** (0.7 + 1.3 * depth) * 8 - 5)
                self.time_first.copy_(((channels + 1).remainder(3) - 1) * 0.5 + log(0.3))

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = text.masked(x)
        keys, values, gates = self.mixed(x, text.carry(self.layer, 0, token_before, x))
        step = partial(weighted_average, decay=-self.time_decay.exp(), first=self.time_first)
        y = text.carry(self.layer, 1, step, text.masked(self.key(keys), PADDING), self.value(values))
        return self.output(self.receptance(gates).sigmoid() * y)


class ChannelMixing(Mixing):
    """The feed-forward part, with a gate."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config, layer, ("key", "receptance"))
        size, inner = config.hidden_size, config.intermediate_size
        self.layer = layer
        self.key = Linear(size, inner, bias=False)
        self.receptance = Linear(size, size, bias=False)
        self.value = Linear(inner, size, bias=False)

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = text.masked(x)
        keys, gates = self.mixed(x, text.carry(self.layer, 2, token_before, x))
        return self.receptance(gates).sigmoid() * self.value(ops.relu(self.key(keys)).square())


class Block(Module):
    """Both parts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.layer_norm_epsilon
        self.pre_ln = None if layer else LayerNorm(size, epsilon)
        self.ln1 = LayerNorm(size, epsilon)
        self.ln2 = LayerNorm(size, epsilon)
        self.attention = TimeMixing(config, layer)
        self.feed_forward = ChannelMixing(config, layer)

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = x if self.pre_ln is None else self.pre_ln(x)
        x = x + self.attention(self.ln1(x), text)
        return x + self.feed_forward(self.ln2(x), text)


class RwkvStack(DecoderStack):
    """The decoder, which has the last norm in its output: the files call the layer after it "head"."""

    tokens, blocks, last_norm = "embeddings", "blocks", "ln_out"

    def forward(
        self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()
    ) -> Tensor:  # fmt: skip
        y: Tensor = self.ln_out(super().forward(tokens, text, x, added))
        return y

    def normalized(self, x: Tensor) -> Tensor:
        return x


class RwkvForCausalLM(RecurrentLanguageModel):
    """The language model."""

    base_model_prefix = "rwkv"

    def __init__(self, config: Config) -> None:
        blocks = (Block(config, layer) for layer in range(config.num_hidden_layers))
        size, inner = config.hidden_size, config.attention_hidden_size
        super().__init__(config, RwkvStack(config.vocab_size, size, blocks, LayerNorm(size, LAST_EPSILON)))
        layer = self.lm_head
        del self.lm_head
        self.head = layer  # type: ignore[method-assign]
        self.state_shapes = [((1, size), (3, inner), (1, size))] * config.num_hidden_layers


TASKS = {"causal-lm": RwkvForCausalLM}
