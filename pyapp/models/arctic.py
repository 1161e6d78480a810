"""Arctic (Snowflake 2024, https://huggingface.co/Snowflake/snowflake-arctic-instruct): Llama's blocks with a mixture of
experts beside the feed-forward part, which reads the input of the layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.experts import SparseFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice, check_form
from .loading.gguf import EXPERTS, KEYS, NAMES, Gguf, pairs_of_llama
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("arctic",)
GATES = ("w1", "w3", "w2")  # the names of gate, values and output


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "arctic"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    num_local_experts: int = 8
    num_experts_per_tok: int = 2

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields, of a model with experts in each layer."""
        check_form(values, {"moe_layer_frequency": 1, "parallel_attn_mlp_res": True, "use_residual": True})
        return values

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it, and a mixture of experts."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon, act = config.hidden_size, config.rms_norm_eps, config.hidden_act
        self.self_attn = GroupedQueryAttention(layer, size, config.heads(), rotary)
        self.residual_mlp = GatedFeedForward(size, size, act, names=GATES)
        self.block_sparse_moe = SparseFeedForward(
            size, config.intermediate_size, config.num_local_experts, config.num_experts_per_tok, act
        )
        self.input_layernorm = RMSNorm(size, epsilon)
        self.residual_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixed = self.block_sparse_moe(self.post_attention_layernorm(x))
        x = self.self_attn(self.input_layernorm(x), text, x)
        y: Tensor = self.residual_mlp(self.residual_layernorm(x), x) + mixed
        return y


class ArcticForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    place = "block_sparse_moe.experts"
    return experts_apart(tensors, place, GATES, config.num_local_experts, config.num_hidden_layers, place)


_LAYER = "model.layers.{}."
_PARTS = {
    "residual_layernorm": "ffn_norm", "post_attention_layernorm": "ffn_norm_exps", "residual_mlp.w1": "ffn_gate",
    "residual_mlp.w3": "ffn_up", "residual_mlp.w2": "ffn_down",
}  # fmt: skip
GGUF = Gguf(
    "arctic", order=pairs_of_llama,
    names=NAMES | {name.replace("mlp.", "block_sparse_moe."): own for name, own in EXPERTS.items()}
    | {_LAYER + ours: f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    keys=KEYS | {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
)  # fmt: skip
TASKS = {"causal-lm": ArcticForCausalLM}
