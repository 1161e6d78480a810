"""Refact 1.6B (Small Magellanic Cloud AI 2023, https://huggingface.co/smallcloudai/Refact-1_6B-fim): Llama's blocks
with linear biases of the attention instead of positions, and one head of keys and values. Its own files have the names
of GPT-2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import ops
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.positions.linear_biases import slopes

from .loading.config import DecoderConfig, require
from .loading.gguf import Gguf
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("gpt_refact",)
STEP = 256  # the features of feed-forward parts are a multiple of it
FIELDS = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings", "layer_norm_epsilon": "rms_norm_eps",
}  # fmt: skip
# The names of parameters in its own files.
NAMES_OF_FILES = {
    "transformer.wte.": "model.embed_tokens.", "transformer.h.": "model.layers.", "ln_f.": "model.norm.",
    ".attn.q.": ".self_attn.q_proj.", ".attn.c_proj.": ".self_attn.o_proj.", ".ln_1.": ".input_layernorm.",
    ".ln_2.": ".post_attention_layernorm.", ".mlp.c_proj.": ".mlp.down_proj.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by Llama's names."""

    model_type = "gpt_refact"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        require(values.get("multi_query", True) is True, "multi_query is false, expected true")
        own = {new: values[old] for old, new in FIELDS.items() if values.get(old) is not None}
        size = own.get("hidden_size")
        if type(size) is int:
            own["intermediate_size"] = -(-int(8 * size / 3) // STEP) * STEP
        return super().from_dict({"num_key_value_heads": 1, **own, **values})


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(slopes=ops.tensor(slopes(config.num_attention_heads)))
        attention = GroupedQueryAttention(layer, size, heads, None)
        feed_forward = GatedFeedForward(size, config.intermediate_size)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class RefactForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    if name.startswith(("transformer.", "ln_f.")) and not name.endswith((".attn.kv.weight", ".gate_up_proj.weight")):
        for theirs, ours in NAMES_OF_FILES.items():
            name = name.replace(theirs, ours, 1)
    return name


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How its own files store keys and values, and gates and values: two in one."""
    found: dict[str, Stored] = {}
    for layer in range(config.num_hidden_layers):
        for source, place, rows, parts in (
            ("attn.kv", "self_attn", config.head_dim, ("k_proj", "v_proj")),
            ("mlp.gate_up_proj", "mlp", config.intermediate_size, ("gate_proj", "up_proj")),
        ):
            if f"transformer.h.{layer}.{source}.weight" in tensors:
                names = [f"model.layers.{layer}.{place}.{part}.weight" for part in parts]
                found |= cut_apart(f"transformer.h.{layer}.{source}.weight", names, rows)
    return found


GGUF = Gguf("refact", unsaid=("rope_parameters",))
TASKS = {"causal-lm": RefactForCausalLM}
