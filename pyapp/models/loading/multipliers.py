"""The fields of config.json and the keys of GGUF that Granite's models share: factors of embeddings, scores, residuals
and logits.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass

from .config import DecoderConfig
from .gguf import KEYS

MULTIPLIER_KEYS = KEYS | {
    "attention_multiplier": "attention.scale", "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale", "logits_scaling": "logit_scale",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MultiplierConfig(DecoderConfig):
    """The fields of config.json."""

    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    embedding_multiplier: float = 1.0
    logits_scaling: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0
