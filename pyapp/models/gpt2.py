"""GPT-2 (Radford et al. 2019): learned positions, layer norms before each part, a plain feed-forward layer, biases."""

from __future__ import annotations

from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, LayerNorm, Module
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.linear import TransposedLinear

from .loading.config import GPTConfig
from .loading.gguf import GPT_KEYS, GPT_NAMES, Gguf, gpt_sizes

MODEL_TYPES = ("gpt2",)


@dataclass(frozen=True, kw_only=True)
class Config(GPTConfig):
    """The fields of config.json."""

    model_type = "gpt2"

    scale_attn_weights: bool = True
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


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = Attention(config, layer)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = FeedForward(
            config.n_embd, config.inner_size, config.activation_function, names=("c_fc", "c_proj"), transposed=True
        )

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, n_embd) → (..., T, n_embd)."""
        x = self.attn(self.ln_1(x), text, x)
        return self.mlp(self.ln_2(x), x)


class GPT2Stack(DecoderStack):
    """The decoder; a position's embedding is added to the token's."""

    tokens, blocks, last_norm = "wte", "h", "ln_f"

    def __init__(self, config: Config) -> None:
        norm = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        blocks = (Block(config, layer) for layer in range(config.n_layer))
        super().__init__(config.vocab_size, config.n_embd, blocks, norm)
        self.wpe = Embedding(config.n_positions, config.n_embd)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.wte(tokens) + self.wpe(text.positions(tokens))


class GPT2LMHeadModel(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, GPT2Stack(config))


GGUF = Gguf(
    "gpt2", names=GPT_NAMES, keys=GPT_KEYS, unsaid=("n_inner",),  # as a number where it is None
    write=gpt_sizes, read=lambda found, values: found | {"n_inner": values.get("feed_forward_length")},
    transposed=("c_attn.weight", "c_proj.weight", "c_fc.weight"),
)  # fmt: skip
TASKS = {"causal-lm": GPT2LMHeadModel}
