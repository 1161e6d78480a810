"""LFM2 (Liquid AI 2025, arXiv 2511.23404): most layers mix a token with the two before it by a gated convolution, some
attend.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Conv1d, Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoder import DecoderStack, RotaryTable
from pyapp.nn.decoder_blocks import HeadNormAttention
from pyapp.nn.hybrid import HybridLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.state_space import causal_convolution

from .loading.config import LARGEST, LIMITS, DecoderConfig, require
from .loading.gguf import KEYS, Gguf, GgufForm, attending

MODEL_TYPES = ("lfm2",)
CONVOLUTION, ATTENTION = "conv", "full_attention"  # kinds of layers
LARGEST_KERNEL = 1 << 8


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is what the file's sizes come to."""

    model_type = "lfm2"
    defaults = {
        "max_position_embeddings": 128000, "rope_theta": 1000000.0, "tie_word_embeddings": True,
        "num_key_value_heads": 8,
    }  # fmt: skip

    intermediate_size: int
    norm_eps: float = 1e-5
    conv_bias: bool = False
    conv_L_cache: int = 3
    layer_types: list[str]
    block_auto_adjust_ff_dim: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        kernel = self.conv_L_cache
        require(2 <= kernel <= LARGEST_KERNEL, f"conv_L_cache is {kernel}, expected 2 to {LARGEST_KERNEL}")
        kinds = self.layer_types
        known = len(kinds) == self.num_hidden_layers and {*map(str, kinds)} <= {CONVOLUTION, ATTENTION}
        require(known, f"layer_types is {kinds!r:.60}, expected {self.num_hidden_layers} of conv or full_attention")

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """With the types of the layers, from the numbers of those that attend, and the size of the feed-forward."""
        layers, at = values.get("num_hidden_layers"), values.get("full_attn_idxs")
        kinds = values.get("layer_types")
        if kinds is None and type(layers) is int and 1 <= layers <= LIMITS["num_hidden_layers"]:
            there = range(layers) if not isinstance(at, list) else at
            kinds = [ATTENTION if layer in there else CONVOLUTION for layer in range(layers)]
        size = _inner(values)
        tied = values.get("tie_embedding", values["tie_word_embeddings"])
        given = {"layer_types": kinds, "intermediate_size": size, "tie_word_embeddings": tied}
        return values | given | {"block_auto_adjust_ff_dim": False}


def _inner(values: Mapping[str, Any]) -> Any:
    """The features inside the feed-forward part."""
    size = values.get("block_ff_dim") or values.get("intermediate_size", 12288)
    if values.get("block_auto_adjust_ff_dim") is False or type(size) is not int:
        return size
    factor, multiple = values.get("block_ffn_dim_multiplier", 1.0), values.get("block_multiple_of", 256)
    require(type(factor) in (int, float) and 0 < factor <= 64, f"block_ffn_dim_multiplier is {factor!r:.60}")
    require(type(multiple) is int and 1 <= multiple <= LARGEST, f"block_multiple_of is {multiple!r:.60}")
    return -(-int(factor * int(2 * size / 3)) // multiple) * multiple


class Attention(HeadNormAttention):
    """Self-attention with normalised queries and keys."""

    output, norms = "out_proj", ("q_layernorm", "k_layernorm")


class ShortConvolution(Module):
    """Each channel's convolution over the token and those before it, between two gates."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.layer = layer
        self.conv = Conv1d(size, size, config.conv_L_cache, groups=size, bias=config.conv_bias)
        self.in_proj = Linear(size, 3 * size, bias=config.conv_bias)
        self.out_proj = ResidualLinear(size, size, bias=config.conv_bias)

    def forward(self, x: Tensor, text: Any, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens (..., T, hidden_size)."""
        before, after, x = self.in_proj(text.masked(x)).chunk(3, -1)
        step = partial(causal_convolution, weight=self.conv.weight, bias=self.conv.bias)
        return self.out_proj(after * text.carry(self.layer, 0, step, before * x), residual)


class Block(Module):
    """Attention or a convolution, and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.norm_eps
        self.attends = config.layer_types[layer] == ATTENTION
        if self.attends:
            self.self_attn = Attention(layer, size, config.heads(), rotary, epsilon)
        else:
            self.conv = ShortConvolution(config, layer)
        self.feed_forward = GatedFeedForward(size, config.intermediate_size, names=("w1", "w3", "w2"))
        self.operator_norm = RMSNorm(size, epsilon)
        self.ffn_norm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixer: Module = self.self_attn if self.attends else self.conv
        x = mixer(self.operator_norm(x), text, x)
        return self.feed_forward(self.ffn_norm(x), x)


class Lfm2Stack(DecoderStack):
    """The decoder, whose last norm has another name."""

    last_norm = "embedding_norm"


class Lfm2ForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()), config.hidden_size
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, Lfm2Stack(config.vocab_size, size, blocks, RMSNorm(size, config.norm_eps)))
        state = [(config.conv_L_cache - 1, size)]
        self.state_shapes = [None if kind == ATTENTION else state for kind in config.layer_types]


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers attend: those with heads of keys."""
    attends, heads = attending(found)
    given = {"layer_types": [ATTENTION if a else CONVOLUTION for a in attends], "num_key_value_heads": heads}
    return found | given | {"block_auto_adjust_ff_dim": False}


def _to_gguf(config: Config) -> dict[str, Any]:
    heads = [config.num_key_value_heads if kind == ATTENTION else 0 for kind in config.layer_types]
    return {"attention.head_count_kv": heads}


GGUF = Gguf(
    "lfm2", read=_from_gguf, write=_to_gguf,
    names={
        "model.embed_tokens": "token_embd", "model.embedding_norm": "token_embd_norm", "lm_head": "output",
        "model.layers.{}.operator_norm": "blk.{}.attn_norm", "model.layers.{}.ffn_norm": "blk.{}.ffn_norm",
        "model.layers.{}.self_attn.q_proj": "blk.{}.attn_q", "model.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
        "model.layers.{}.self_attn.v_proj": "blk.{}.attn_v",
        "model.layers.{}.self_attn.out_proj": "blk.{}.attn_output",
        "model.layers.{}.self_attn.q_layernorm": "blk.{}.attn_q_norm",
        "model.layers.{}.self_attn.k_layernorm": "blk.{}.attn_k_norm",
        "model.layers.{}.conv.conv": "blk.{}.shortconv.conv",
        "model.layers.{}.conv.in_proj": "blk.{}.shortconv.in_proj",
        "model.layers.{}.conv.out_proj": "blk.{}.shortconv.out_proj",
        "model.layers.{}.feed_forward.w1": "blk.{}.ffn_gate", "model.layers.{}.feed_forward.w3": "blk.{}.ffn_up",
        "model.layers.{}.feed_forward.w2": "blk.{}.ffn_down",
    },
    keys={name: key for name, key in KEYS.items() if name != "rms_norm_eps"} | {
        "norm_eps": KEYS["rms_norm_eps"], "conv_L_cache": "shortconv.l_cache",
    },
    forms={".conv.conv.weight": GgufForm(shape=lambda config, shape: (shape[0], shape[2]))},
)  # fmt: skip
TASKS = {"causal-lm": Lfm2ForCausalLM}
