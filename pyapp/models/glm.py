"""GLM-4 and GLM-Edge (arXiv 2406.12793): rotary positions of half of each head, in neighbouring pairs."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.gated import JoinedGatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import NAMES, Gguf, biases

MODEL_TYPES = ("glm",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "glm"
    defaults = {"max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "num_key_value_heads": 2}

    intermediate_size: int
    rms_norm_eps: float = 1.5625e-7
    hidden_act: str = "silu"
    attention_bias: bool = True


class Block(Module):
    """Attention and feed-forward, each with a norm before it, and a residual around both."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(interleaved=True)
        self.self_attn = GroupedQueryAttention(
            layer, size, heads, rotary, bias=config.attention_bias, output_bias=False
        )  # fmt: skip
        self.mlp = JoinedGatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class GlmForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


GGUF = Gguf(
    "chatglm", names=NAMES | {"model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up"}, read=biases,
)  # fmt: skip
TASKS = {"causal-lm": GlmForCausalLM}
