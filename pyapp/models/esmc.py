"""ESM C (EvolutionaryScale 2024, https://www.evolutionaryscale.ai/blog/esm-cambrian): an encoder of proteins, whose
words are amino acids: Llama's blocks with layer norms, of all queries and all keys too, and residuals that are scaled.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import cat
from pyapp.nn import GatedFeedForward, LayerNorm, Module
from pyapp.nn.encoders.encoders import (
    DenseClassifierHead,
    Headed,
    LinearHead,
    NormedWords,
    headed,
)  # fmt: skip
from pyapp.nn.encoders.rotary_encoder import NormFirstRotaryEncoder, RotaryAttention

from .loading.config import DecoderConfig, check_padding, require
from .loading.labels import Labelled

MODEL_TYPES = ("esmc",)
BASE = "esmc"  # the encoder's name in files with a head
DEPTH = 36  # layers of the model whose residuals are not scaled
EPSILON = 1e-5  # of norms


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, DecoderConfig):
    """The fields of config.json."""

    model_type = "esmc"
    defaults = {"max_position_embeddings": 2048, "pad_token_id": 1}

    intermediate_size: int
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    pad_token_id: int | None = None
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)
        keys, heads = self.num_key_value_heads, self.num_attention_heads
        require(keys == heads, f"num_key_value_heads is {keys}, of {heads} heads: each has keys of its own")


class Attention(RotaryAttention):
    """Attention with rotary positions, whose queries and keys are normalised, all heads together."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.heads(), config.attention_bias)
        self.q_norm = LayerNorm(config.hidden_size, EPSILON, bias=False)
        self.k_norm = LayerNorm(config.hidden_size, EPSILON, bias=False)

    def normalized(self, qkv: Tensor) -> Tensor:
        q, k, v = qkv.chunk(3, -1)
        return cat([self.q_norm(q), self.k_norm(k), v], -1)


class Block(Module):
    """Attention and feed-forward, each with a norm before it, divided, and a residual around it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.hidden_size
        self.scale = sqrt(DEPTH / config.num_hidden_layers)
        self.self_attn = Attention(config)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.input_layernorm = LayerNorm(size, EPSILON)
        self.post_attention_layernorm = LayerNorm(size, EPSILON)

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.self_attn(self.input_layernorm(x), mask, table) * self.scale
        return x + self.mlp(self.post_attention_layernorm(x)) * self.scale


class EsmC(NormFirstRotaryEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        blocks = (Block(config) for _ in range(config.num_hidden_layers))
        super().__init__(config, blocks, LayerNorm(config.hidden_size, EPSILON, bias=False))


class EsmCForMaskedLM(Headed):
    """Scores of the amino acids that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, EsmC(config))
        self.lm_head = NormedWords(config.hidden_size, config.vocab_size, EPSILON, None)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.lm_head(x)


def token_classification(config: Config) -> LinearHead:
    """Scores of the labels of each token."""
    return LinearHead((BASE, "score"), EsmC(config), config.hidden_size, len(config.labels))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": EsmC,
    "masked-lm": EsmCForMaskedLM,
    "sequence-classification": headed(DenseClassifierHead, BASE, EsmC, ops.tanh),
    "token-classification": token_classification,
}
