"""PLM (Deng et al. 2025, arXiv 2503.12167): Llama's blocks with multi-head latent attention and squared ReLU without
gates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock
from pyapp.nn.decoders.latent_attention import LatentAttention
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.gguf import KEYS, NAMES, Gguf
from .loading.latent import LatentConfig, latent_heads, latent_keys, latent_sizes

MODEL_TYPES = ("plm",)


@dataclass(frozen=True, kw_only=True)
class Config(LatentConfig):
    """The fields of config.json."""

    model_type = "plm"
    defaults = {"max_position_embeddings": 4096, "tie_word_embeddings": True}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "relu2"

    rope_interleave = True  # pairs of rotary positions are neighbours

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the sizes of the cache."""
        return values | {"q_lora_rank": None} | latent_sizes(values)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        feed_forward = FeedForward(
            size, config.intermediate_size, config.hidden_act, bias=False, names=("up_proj", "down_proj")
        )
        attention = LatentAttention(config, layer, rotary)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class PlmForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict() | {"head_dim": config.qk_rope_head_dim})
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    found = latent_heads(found, values, 64, values.get("attention.key_length"))
    return found | {"v_head_dim": values.get("attention.value_length", 128)}


_PARTS = {
    "kv_a_proj_with_mqa": "attn_kv_a_mqa", "kv_a_layernorm": "attn_kv_a_norm", "kv_b_proj": "attn_kv_b",
}  # fmt: skip
GGUF = Gguf(
    "plm", read=_from_gguf, write=latent_keys, keys=KEYS | {"kv_lora_rank": "attention.kv_lora_rank"},
    names=NAMES | {f"model.layers.{{}}.self_attn.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
)  # fmt: skip
TASKS = {"causal-lm": PlmForCausalLM}
