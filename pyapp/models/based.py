"""Based (Arora et al. 2024, arXiv 2402.18668): some layers attend by the second-order Taylor polynomial of the
exponential, which needs a state of fixed size only, some to a few tokens before, and the others are gated convolutions.

Parameters have the names of the authors' files, but for the attention's projections, which these have in one matrix.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv1d, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import DecoderStack, GroupedQueryAttention, RotaryTable
from pyapp.nn.layers.normalization import RMSNorm
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.state_space import causal_convolution

from .loading.config import LIMITS, DecoderConfig, as_object, require
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("based",)
FIELDS = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_inner": "intermediate_size", "layer_norm_epsilon": "rms_norm_eps", "rotary_emb_base": "rope_theta",
}  # fmt: skip
# What the files must say, where they say it, of what there is one form here.
ONLY = {
    "activation_function": "swiglu", "rms_norm": True, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
    "qkv_proj_bias": False, "out_proj_bias": False, "rotary_emb_fraction": 1, "rotary_emb_interleaved": False,
    "parallel_block": False, "scale_attn_by_inverse_layer_idx": False,
}  # fmt: skip
CHUNK = 128  # tokens whose scores with one another are computed at once
SMALLEST = 1e-12  # added to what is divided by
NAMES = (
    (re.compile(r"^model\."), ""), (re.compile(r"^transformer\.embeddings\.word_embeddings\."), "transformer.wte."),
    (re.compile(r"\.mixer\.conv1?\.conv\."), ".mixer.conv."),
)  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for pattern, new in NAMES:
        name = pattern.sub(new, name)
    return name


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by the names of other decoders. alt_mixer_layers attend by the polynomial,
    alt_mixer_2_layers to the last window // 2 tokens before.
    """

    model_type = "based"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    alt_mixer_layers: tuple[int, ...]
    alt_mixer_2_layers: tuple[int, ...]
    feature_dim: int = 16
    feature_heads: int = 16
    window_size: int = 128
    conv_width: int = 3
    expand: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("feature_dim", 256), ("feature_heads", 1 << 10), ("window_size", 1 << 20),
                           ("conv_width", 256), ("expand", 64)):  # fmt: skip
            value = getattr(self, name)
            require(1 <= value <= most, f"{name} is {value:,}, expected from 1 to {most:,}")
        width, heads = self.hidden_size, self.feature_heads
        require(width % heads == 0, f"alt_mixer's num_heads {heads} does not divide n_embd {width}")
        require(self.expand % 2 == 0 and self.conv_width >= 2, "the mixer's expand_proj or kernel_size cannot be")
        require(self.intermediate_size <= LIMITS["intermediate_size"], f"n_inner is {self.intermediate_size:,}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, of which the authors' has GPT-2's names."""
        if "n_embd" not in values:
            return super().from_dict(values)
        found = {FIELDS.get(name, name): value for name, value in values.items() if name not in ONLY}
        for name, wanted in ONLY.items():
            require(
                values.get(name, wanted) in (wanted, None), f"{name} is {values.get(name)!r:.40}, expected {wanted}"
            )
        mixer, features, attention = (
            as_object(found.pop(name, None) or {}, name) for name in ("mixer", "alt_mixer", "alt_mixer_2")
        )
        kernels = mixer.get("kernel_sizes") or [mixer.get("kernel_size", 3)]
        require(
            isinstance(kernels, list) and len(kernels) == 1, f"kernel_sizes is {kernels!r:.60}, expected one number"
        )
        multiple, words = found.pop("pad_vocab_size_multiple", None) or 1, found.get("vocab_size", 50257)
        if type(words) is int and type(multiple) is int and multiple > 0:
            words = -(-words // multiple) * multiple
        found |= {
            "vocab_size": words, "max_position_embeddings": found.get("max_position_embeddings") or 2048,
            "feature_dim": features.get("feature_dim", 16), "feature_heads": features.get("num_heads", 16),
            "window_size": attention.get("window_size", 128), "conv_width": kernels[0],
            "expand": mixer.get("expand_proj", 2),
        }  # fmt: skip
        return super().from_dict(found)


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """Queries, keys and values, which the authors' files have in one matrix."""
    found: dict[str, Stored] = {}
    for layer in config.alt_mixer_2_layers:
        at = f"transformer.layers.{layer}.mixer."
        if any(renamed(name) == f"{at}Wqkv.weight" for name in names):
            parts = [f"{at}{part}_proj.weight" for part in "qkv"]
            found |= cut_apart(f"{at}Wqkv.weight", parts, config.hidden_size)
    return found


def features_of(x: Tensor) -> Tensor:
    """x (..., D) → (..., 1 + D + D²), whose products are 1 + s + s² / 2 of s = x y / sqrt(D)."""
    size = x.shape[-1]
    squares = (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2) * (1 / sqrt(2 * size))
    return ops.cat([ops.ones_like(x.narrow(-1, 0, 1)), x * size**-0.25, squares], -1)


def polynomial_attention(
    state: Tensor | None, queries: Tensor, keys: Tensor, values: Tensor, *, heads: int
) -> tuple[Tensor, Tensor]:
    """Sums of the values so far with the weights 1 + s + s² / 2 of the scores s: queries and keys (B, T, H D), values
    (B, T, H V), state (B, H, 1 + D + D², V) the sums of features and values, None: zeros → (B, T, H V) and the next
    state.
    """
    texts, tokens, width = queries.shape
    size, found = width // heads, []
    q, k, v = (x.reshape(texts, tokens, heads, -1).transpose(1, 2) for x in (queries, keys, values))  # (B, H, T, ·)
    for start in range(0, tokens, CHUNK):
        count = min(CHUNK, tokens - start)
        own, seen, words = (x.narrow(2, start, count) for x in (q, k, v))
        scores = (own @ seen.transpose(-1, -2)) * size**-0.5  # (B, H, L, L)
        y = (1 + scores + scores * scores * 0.5).tril() @ words
        if state is not None:
            y = y + features_of(own) @ state
        added = features_of(seen).transpose(-1, -2) @ words
        state = added if state is None else state + added
        found.append(y)
    assert state is not None
    y = found[0] if len(found) == 1 else ops.cat(found, 2)
    return y.transpose(1, 2).reshape(texts, tokens, -1), state


class PolynomialAttention(Module):
    """Attention to all tokens before, by the polynomial."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        width, self.heads, self.layer = config.hidden_size, config.feature_heads, layer
        self.proj_q, self.proj_k = (Linear(width, self.heads * config.feature_dim, bias=False) for _ in range(2))
        self.proj_v, self.out_proj = Linear(width, width, bias=False), ResidualLinear(width, width, bias=False)

    def forward(self, x: Tensor, text: Any, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        v = self.proj_v(x)
        v = v.reshape(*x.shape[:-1], self.heads, -1)
        v = ops.cat([v, ops.ones_like(v.narrow(-1, 0, 1))], -1)  # the last is the sum of weights
        step = partial(polynomial_attention, heads=self.heads)
        y = text.carry(self.layer, 0, step, self.proj_q(x), self.proj_k(x), text.masked(v.flatten(-2)))
        y = y.reshape(*v.shape)
        size = y.shape[-1] - 1
        y = y.narrow(-1, 0, size) / (y.narrow(-1, size, 1) + SMALLEST)
        return self.out_proj(y.flatten(-2), residual)


class GatedConvolution(Module):
    """A convolution over the last tokens, times a gate."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        width, self.layer = config.hidden_size, layer
        self.inner = config.expand * width // 2
        self.in_proj, self.out_proj = Linear(width, 2 * self.inner), ResidualLinear(self.inner, width)
        self.conv = Conv1d(self.inner, self.inner, config.conv_width, groups=self.inner, bias=False)

    def forward(self, x: Tensor, text: Any, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens (..., T, hidden_size)."""
        both = self.in_proj(x)
        y = text.masked(both.narrow(-1, 0, self.inner))
        y = text.carry(self.layer, 0, partial(causal_convolution, weight=self.conv.weight), y)
        return self.out_proj(ops.silu(y) * both.narrow(-1, self.inner, self.inner), residual)


class NearAttention(GroupedQueryAttention):
    """Attention to the last tokens."""

    output = "out_proj"


class FeedForward(Module):
    """Values times activated gates, both of one projection."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.inner = inner
        self.fc1, self.fc2 = Linear(width, 2 * inner, bias=False), ResidualLinear(inner, width, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + feed-forward (..., hidden_size)."""
        y = self.fc1(x)
        return self.fc2(ops.silu(y.narrow(-1, self.inner, self.inner)) * y.narrow(-1, 0, self.inner), residual)


class Block(Module):
    """A mixer and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size = config.hidden_size
        self.norm1, self.norm2 = (RMSNorm(size, config.rms_norm_eps) for _ in range(2))
        self.mixer: Module
        if layer in config.alt_mixer_2_layers:
            heads = config.heads(window=config.window_size // 2 + 1)
            self.mixer = NearAttention(layer, size, heads, rotary)
        else:
            kind = PolynomialAttention if layer in config.alt_mixer_layers else GatedConvolution
            self.mixer = kind(config, layer)
        self.mlp = FeedForward(size, config.intermediate_size)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.mixer(self.norm1(x), text, x)
        return self.mlp(self.norm2(x), x)


class BasedStack(DecoderStack):
    """The decoder."""

    tokens, last_norm = "wte", "ln_f"


class BasedForCausalLM(HybridLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        rotary, size, layers = RotaryTable(config.to_dict()), config.hidden_size, range(config.num_hidden_layers)
        blocks = (Block(config, layer, rotary) for layer in layers)
        super().__init__(
            config, BasedStack(config.vocab_size, size, blocks, RMSNorm(size, config.rms_norm_eps))
        )  # fmt: skip
        features = 1 + config.feature_dim + config.feature_dim**2
        sums = [(config.feature_heads, features, size // config.feature_heads + 1)]
        last = [(config.conv_width - 1, config.expand * size // 2)]
        self.state_shapes = [
            None if layer in config.alt_mixer_2_layers else sums if layer in config.alt_mixer_layers else last
            for layer in layers
        ]  # fmt: skip


TASKS = {"causal-lm": BasedForCausalLM}
