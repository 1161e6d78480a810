"""Qwen, the first (Bai et al. 2023, arXiv 2309.16609): Llama's blocks with biases of queries, keys and values. Its own
files have the names of GPT-2. Texts are at most as long as those of its training (`seq_length`); beyond them its own
code scales queries and frequencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, require
from .loading.gguf import NAMES, Gguf
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("qwen",)
FIELDS = {"layer_norm_epsilon": "rms_norm_eps", "seq_length": "max_position_embeddings", "kv_channels": "head_dim"}
# The names of parameters in its own files.
NAMES_OF_FILES = {
    "transformer.wte.": "model.embed_tokens.", "transformer.h.": "model.layers.", "transformer.ln_f.": "model.norm.",
    ".attn.c_proj.": ".self_attn.o_proj.", ".ln_1.": ".input_layernorm.", ".ln_2.": ".post_attention_layernorm.",
    ".mlp.w2.": ".mlp.gate_proj.", ".mlp.w1.": ".mlp.up_proj.", ".mlp.c_proj.": ".mlp.down_proj.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. intermediate_size: of gate and values together."""

    model_type = "qwen"
    defaults = {"max_position_embeddings": 8192}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, by Llama's names."""
        require(values.get("no_bias", True) is True, "no_bias is false, expected true")
        own = {new: values[old] for old, new in FIELDS.items() if values.get(old) is not None}
        return super().from_dict({**values, **own})

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, size = self.num_attention_heads, self.intermediate_size
        require(self.num_key_value_heads == heads, f"num_key_value_heads is {self.num_key_value_heads}, of {heads}")
        require(size % 2 == 0, f"intermediate_size is {size}, expected an even number")


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=True, output_bias=False)
        feed_forward = GatedFeedForward(size, config.intermediate_size // 2, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class QwenForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    if name.startswith("transformer.") and ".attn.c_attn." not in name:
        for theirs, ours in NAMES_OF_FILES.items():
            name = name.replace(theirs, ours, 1)
    return name


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How its own files store the projections of attention: three in one."""
    found: dict[str, Stored] = {}
    for layer in range(config.num_hidden_layers):
        for last in ("weight", "bias"):
            source = f"transformer.h.{layer}.attn.c_attn.{last}"
            if source in tensors:
                parts = [f"model.layers.{layer}.self_attn.{part}_proj.{last}" for part in "qkv"]
                found |= cut_apart(source, parts, config.num_attention_heads * config.head_dim)
    return found


_JOINED = tuple(f"model.layers.{{}}.self_attn.{part}_proj" for part in "qkv")
GGUF = Gguf("qwen", names=NAMES | dict.fromkeys(_JOINED, "blk.{}.attn_qkv"), joined=_JOINED)
TASKS = {"causal-lm": QwenForCausalLM}
