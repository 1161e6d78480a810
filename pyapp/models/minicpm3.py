"""MiniCPM 3 (Hu et al. 2024, arXiv 2404.06395): Llama's blocks with multi-head latent attention, and factors for
embeddings, residuals and logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.latent_attention import LatentAttention
from pyapp.nn.decoders.scaled_decoder import ScaledBlock, ScaledLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import check_positive
from .loading.gguf import KEYS, NAMES, TENSOR_SCALINGS, Gguf
from .loading.latent import LatentConfig, latent_heads, latent_keys, latent_sizes

MODEL_TYPES = ("minicpm3",)


@dataclass(frozen=True, kw_only=True)
class Config(LatentConfig):
    """The fields of config.json. scale_depth None: residuals are not scaled; dim_model_base None: nor are logits."""

    model_type = "minicpm3"
    defaults = {
        "max_position_embeddings": 32768, "tie_word_embeddings": True, "kv_lora_rank": 256, "q_lora_rank": 768,
        "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "scale_depth": 1.4, "dim_model_base": 256,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    mlp_bias: bool = False
    original_max_position_embeddings: int | None = None
    scale_emb: float = 12.0
    scale_depth: float | None = None
    dim_model_base: int | None = None

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the sizes of the cache, and of values, which are those of Llama's heads."""
        hidden, heads = values.get("hidden_size"), values.get("num_attention_heads")
        own = {"v_head_dim": hidden // heads} if type(hidden) is int and type(heads) is int else {}
        return own | values | latent_sizes(values)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "scale_emb", "scale_depth")

    rope_interleave = False  # pairs of rotary positions are halves

    @property
    def embedding_multiplier(self) -> float:
        """What embeddings are multiplied by."""
        return self.scale_emb

    @property
    def residual_multiplier(self) -> float:
        """What is added to the residuals is multiplied by this."""
        return 1.0 if self.scale_depth is None else self.scale_depth / sqrt(self.num_hidden_layers)

    @property
    def logit_factor(self) -> float:
        """What logits are multiplied by."""
        return 1.0 if self.dim_model_base is None else self.dim_model_base / self.hidden_size


class Block(ScaledBlock):
    """Attention and feed-forward, each with a norm before it, scaled and added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, inner = config.hidden_size, config.intermediate_size
        feed_forward = GatedFeedForward(size, inner, config.hidden_act, config.mlp_bias)
        super().__init__(config, layer, rotary, feed_forward, attention=LatentAttention(config, layer, rotary))


class MiniCPM3ForCausalLM(ScaledLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, config.qk_rope_head_dim)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp takes the factors of embeddings, residuals and logits for granted."""
    return latent_heads(found, values, 32, values.get("attention.key_length")) | {
        "original_max_position_embeddings": values.get("rope.scaling.original_context_length"),
        "attention_bias": "blk.0.attn_output.bias" in values["tensors"],
    }  # fmt: skip


_PARTS = {
    "q_a_proj": "attn_q_a", "q_a_layernorm": "attn_q_a_norm", "q_b_proj": "attn_q_b",
    "kv_a_proj_with_mqa": "attn_kv_a_mqa", "kv_a_layernorm": "attn_kv_a_norm", "kv_b_proj": "attn_kv_b",
}  # fmt: skip
GGUF = Gguf(
    "minicpm3", read=_from_gguf, write=latent_keys, scalings=TENSOR_SCALINGS,
    names=NAMES | {f"model.layers.{{}}.self_attn.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    keys=KEYS | {"q_lora_rank": "attention.q_lora_rank", "kv_lora_rank": "attention.kv_lora_rank"},
    unsaid=("original_max_position_embeddings",),
)  # fmt: skip
TASKS = {"causal-lm": MiniCPM3ForCausalLM}
