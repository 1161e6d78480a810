"""Phi-1, Phi-1.5 and Phi-2 (Li et al. 2023, arXiv 2309.05463): attention and a plain feed-forward layer side by side,
with biases, and rotary positions of a part of each head.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import DecoderStack, GroupedQueryAttention, RotaryTable, normalized_heads
from pyapp.nn.decoders.decoder_blocks import ParallelBlock, RotaryLanguageModel
from pyapp.nn.layers.feed_forward import FeedForward

from .loading import phi_form
from .loading.config import DecoderConfig
from .loading.gguf import KEYS, NAMES, Gguf
from .loading.stored import Stored

MODEL_TYPES = ("phi", "phi-msft", "mixformer-sequential")


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "phi"
    defaults = {"max_position_embeddings": 2048, "partial_rotary_factor": 0.5}

    intermediate_size: int
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu_new"
    qk_layernorm: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        return super().from_dict(phi_form.completed(values))


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """Where parameters lie in files of the older form."""
    return phi_form.stored(config, names)


class Attention(GroupedQueryAttention):
    """Self-attention with biases; in some models the queries and keys are normalised, head by head."""

    output = "dense"
    tensor_parallel = {
        **GroupedQueryAttention.tensor_parallel,
        "q_layernorm": ("between",),
        "k_layernorm": ("between",),
    }

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, norms = config.heads(), config.qk_layernorm
        super().__init__(layer, config.hidden_size, heads, rotary, bias=True)
        self.q_layernorm = LayerNorm(heads.head_dim, config.layer_norm_eps) if norms else None
        self.k_layernorm = LayerNorm(heads.head_dim, config.layer_norm_eps) if norms else None

    def normalized(self, qkv: Tensor) -> Tensor:
        if self.q_layernorm is None or self.k_layernorm is None:
            return qkv
        return normalized_heads(qkv, self.heads, self.q_layernorm, self.k_layernorm)


class Block(ParallelBlock):
    """Attention and feed-forward of the same norm, both added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.hidden_size
        feed_forward = FeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(Attention(config, layer, rotary), feed_forward, LayerNorm(size, config.layer_norm_eps))


class PhiStack(DecoderStack):
    """The decoder; its last norm has another name."""

    last_norm = "final_layernorm"


class PhiForCausalLM(RotaryLanguageModel):
    """The language model; its head has a bias."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_eps), stack=PhiStack, bias=True)


GGUF = Gguf(
    "phi2",
    names=NAMES | {
        "model.final_layernorm": "output_norm", "model.layers.{}.self_attn.dense": "blk.{}.attn_output",
        "model.layers.{}.mlp.fc1": "blk.{}.ffn_up", "model.layers.{}.mlp.fc2": "blk.{}.ffn_down",
    },
    keys=KEYS | {"layer_norm_eps": "attention.layer_norm_epsilon"},
)  # fmt: skip
TASKS = {"causal-lm": PhiForCausalLM}
