"""RWKV 4 (Peng et al. 2023, arXiv 2305.13048): layers that mix each token with the one before it, and average the
values of all tokens, of which older ones count less. Values are float32, so `rescale_every`, which keeps float16 from
overflowing, is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.engine.dtype import float32
from pyapp.engine.op import op
from pyapp.engine.ops import arange, cat, empty, where
from pyapp.engine.ops.recurrences import linear_scan
from pyapp.nn import Linear
from pyapp.nn.parameter import Initialization, new_parameter
from pyapp.nn.recurrent.recurrent import StateText, token_before
from pyapp.nn.recurrent.rwkv import Block, ChannelMixing, Mixing, RwkvLanguageModel

from .loading.config import FileConfig, read_config
from .loading.rwkv_files import renamed as renamed
from .loading.rwkv_files import sizes_of, version_of, with_sizes

MODEL_TYPES = ("rwkv",)
# The inputs of the averages, and the first values of their shares.
SHARES = {"time_mix_key": (1.0, 0.0), "time_mix_value": (1.0, 0.3), "time_mix_receptance": (0.5, 0.0)}
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
        return read_config(cls, with_sizes(values, lambda hidden: 4 * hidden))

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return self.context_length


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with the sizes that the tensors of a file of the author's say."""
    if version_of(tensors) != "rwkv":
        return settings
    sizes = {
        "vocab_size": ("emb.weight", 0), "hidden_size": ("emb.weight", 1),
        "attention_hidden_size": ("blocks.0.att.key.weight", 0),
        "intermediate_size": ("blocks.0.ffn.key.weight", 0),
    }  # fmt: skip
    return {**settings, **sizes_of(tensors, sizes)}


@op(saves="none")
def _decayed_peaks(start: Tensor, keys: Tensor, decay: Tensor) -> Tensor:
    """start (B, 1, C), then the larger of the one before, plus decay (C,), and a key (B, T, C) → (B, T + 1, C)."""
    tops, tokens, step = cat([start, keys], 1), keys.shape[1], 1
    while step <= tokens:
        later = tops.narrow(1, 0, tokens + 1 - step) + decay * step
        tops = cat([tops.narrow(1, 0, step), tops.narrow(1, step, tokens + 1 - step).maximum(later)], 1)
        step *= 2
    return tops


def weighted_average(
    state: Tensor | None, keys: Tensor, values: Tensor, *, decay: Tensor, first: Tensor
) -> tuple[Tensor, Tensor]:
    """The average of the values so far, channel by channel: a token counts exp(key), times exp(decay) for every token
    since, the newest one exp(key + first). keys and values (B, T, C), decay (C,) < 0, first (C,), state (B, 3, C): the
    sums of values and of weights, divided by exp of the third row; None or zeros: no tokens → (B, T, C) and the next.
    """
    texts, tokens, channels = keys.shape
    kind, keys, values = keys.dtype, keys.to(float32), values.to(float32)  # exponents are beyond 16 bits
    state = keys.new_zeros((texts, 3, channels)) if state is None else state.to(float32)
    sums = state.narrow(1, 0, 2).reshape(texts, 1, 2 * channels)
    start = where(state.narrow(1, 1, 1) > 0, state.narrow(1, 2, 1), LOWEST)  # (B, 1, C)
    with no_grad():  # sums are divided by exp(tops), which changes no average
        tops = _decayed_peaks(start, keys, decay)  # (B, T + 1, C)
        old, new = tops.narrow(1, 0, tokens), tops.narrow(1, 1, tokens)
        top = old.maximum(keys + first)
    kept, added = (old + decay - new).exp(), (keys - new).exp()
    found = linear_scan(cat([kept, kept], -1), cat([added * values, added], -1), sums.squeeze(1))  # (B, T, 2 C)
    earlier = sums if tokens == 1 else cat([sums, found.narrow(1, 0, tokens - 1)], 1)
    share, own = (old - top).exp(), (keys + first - top).exp()
    total, weights = earlier.narrow(-1, 0, channels), earlier.narrow(-1, channels, channels)
    y = (share * total + own * values) / (share * weights + own)
    last = found.narrow(1, tokens - 1, 1).reshape(texts, 2, channels)
    return y.to(kind), cat([last, tops.narrow(1, tokens, 1)], 1)


class TimeMixing(Mixing):
    """Averages the values of all tokens, after a gate."""

    def __init__(self, config: Config, layer: int) -> None:
        size, inner = config.hidden_size, config.attention_hidden_size
        super().__init__(size, layer, config.num_hidden_layers, SHARES)
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


class RwkvForCausalLM(RwkvLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        size, inner, layers = config.hidden_size, config.attention_hidden_size, config.num_hidden_layers
        blocks = (
            Block(
                size, config.layer_norm_epsilon, TimeMixing(config, layer),
                ChannelMixing(size, config.intermediate_size, layer, layers),
            )
            for layer in range(layers)
        )  # fmt: skip
        super().__init__(config, blocks, ((1, size), (3, inner), (1, size)))


TASKS = {"causal-lm": RwkvForCausalLM}
