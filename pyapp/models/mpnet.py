"""MPNet (Song et al. 2020, arXiv 2004.09297): BERT's layers with a bias by distance in the attention, shared by all
layers. all-mpnet-base-v2 has this architecture.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList, ResidualLinear
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    DenseClassifierHead,
    Encoder,
    Intermediate,
    NormedResidual,
    NormedWordsHead,
    Pooler,
    TokenLabelsHead,
    as_bias,
    attend_joined,
    choosing,
    headed,
    positions_from,
    visible_keys,
)  # fmt: skip
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.positions.relative_positions import distance_bias, distance_buckets

from .loading.config import require
from .loading.encoder_config import EncoderConfig

PADDING = 1  # the id of padding, and its position, whatever the configuration says
BUCKETS, FARTHEST = 32, 128  # of the bias by distance

MODEL_TYPES = ("mpnet",)
BASE = "mpnet"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "mpnet"

    relative_attention_num_buckets: int = BUCKETS

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.relative_attention_num_buckets >= BUCKETS and min(self.max_position_embeddings, self.vocab_size) > 2,
            f"relative_attention_num_buckets {self.relative_attention_num_buckets} must be {BUCKETS} or more, with "
            "more than 2 positions and words",
        )


class Embeddings(Module):
    """The sum of a token's word and position, normalised. Positions skip padding."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, PADDING)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.hidden_size, PADDING)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) → (B, T, D)."""
        return self.LayerNorm(self.word_embeddings(ids) + self.position_embeddings(positions_from(ids, PADDING)))


class SelfAttention(Module):
    """Multi-head attention of each text to itself."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.q = Linear(width, width)
        self.k = Linear(width, width)
        self.v = Linear(width, width)
        self.o = ResidualLinear(width, width)
        self.qkv = JoinedLinear("q", "k", "v")

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """x (B, T, D), bias (B or 1, H, T, T) → x + attention (B, T, D)."""
        return self.o(attend_joined(self.qkv(self, x), self.heads, bias), x)


class Attention(Module):
    """Self-attention, the residual and the norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attn = SelfAttention(config)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.LayerNorm(self.attn(x, bias))


class Block(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.attention = Attention(config)
        self.intermediate = Intermediate(width, inner, config.hidden_act)
        self.output = NormedResidual(inner, width, config.layer_norm_eps)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(x, bias)
        return self.output(self.intermediate(x), x)


class Layers(Module):
    """The layers, and the bias that they share."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.relative_attention_bias = Embedding(config.relative_attention_num_buckets, config.num_attention_heads)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        tokens = x.shape[1]
        buckets = distance_buckets(tokens, tokens, BUCKETS, FARTHEST)  # (T, T)
        bias = as_bias(mask, distance_bias(self.relative_attention_bias.weight, buckets))  # (B or 1, H, T, T)
        for layer in self.layer:
            x = layer(x, bias)
        return x


class MPNet(Encoder):
    """The encoder; with `pooler`, also a layer over the first token. It has no token types: those given are ignored."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings - PADDING - 1
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)
        self.pooler: Pooler | None = Pooler(config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask)
        return self.encoder(self.embeddings(ids), visible_keys(attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": MPNet,
    "masked-lm": headed(NormedWordsHead, BASE, MPNet, pooler=False),
    "sequence-classification": headed(DenseClassifierHead, BASE, MPNet, ops.tanh, pooler=False),
    "token-classification": headed(TokenLabelsHead, BASE, MPNet, pooler=False),
    "question-answering": headed(AnswersHead, BASE, MPNet, pooler=False),
    "multiple-choice": choosing(BASE, MPNet),
}
