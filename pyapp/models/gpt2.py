"""GPT-2 (Radford et al. 2019): learned positions, layer norms before each part, a plain feed-forward layer, biases."""

from __future__ import annotations

from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn.decoder import SelfAttention, Text
from pyapp.nn.decoder_blocks import GPT2LanguageModel
from pyapp.nn.heads import Heads
from pyapp.nn.layers.linear import TransposedLinear

from .loading.gguf import Gguf
from .loading.gpt2_form import GGUF_KEYS, GGUF_NAMES, Gpt2Config

MODEL_TYPES = ("gpt2",)


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json."""

    model_type = "gpt2"

    scale_attn_by_inverse_layer_idx: bool = False


class Attention(SelfAttention):
    """Self-attention from one projection of queries, keys and values."""

    tensor_parallel = {"c_attn": ("outputs", "queries", "keys", "keys"), "c_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int) -> None:
        scale = 1 / sqrt(config.head_dim) if config.scale_attn_weights else 1.0
        scale = scale / (layer + 1) if config.scale_attn_by_inverse_layer_idx else scale
        super().__init__(layer, Heads(config.n_head, config.n_head, config.head_dim, scale=scale), None)
        self.c_attn = TransposedLinear(config.n_embd, 3 * config.n_embd)
        self.c_proj = TransposedLinear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        return self.c_proj(self.attend(self.c_attn(x), text), residual)


class GPT2LMHeadModel(GPT2LanguageModel):
    """The language model."""

    attention = Attention
    transposed = True


GGUF = Gguf(
    "gpt2",
    names=GGUF_NAMES,
    keys=GGUF_KEYS,
    unsaid=("n_inner",),  # as a number where it is None
    write=lambda config: {"feed_forward_length": config.inner_size},
    read=lambda found, values: found | {"n_inner": values.get("feed_forward_length")},
    transposed=("c_attn.weight", "c_proj.weight", "c_fc.weight"),
)  # fmt: skip
TASKS = {"causal-lm": GPT2LMHeadModel}
