"""MobileBERT (Sun et al. 2020, arXiv 2004.02984): BERT whose layers compute in a narrow space between two linear
layers, with several feed-forward parts, factors in place of norms, and words that see their neighbours.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList, TransposedLinear
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    Encoder,
    Headed,
    Intermediate,
    PooledClassifierHead,
    Pooler,
    TokenLabelsHead,
    Transform,
    Words,
    attend,
    choosing,
    first_token,
    headed,
    visible_keys,
)
from pyapp.nn.parameter import new_parameter

from .loading.config import require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("mobilebert",)
BASE = "mobilebert"  # the encoder's name in files with a head
NEIGHBOURS = 3  # words that a word's embedding is made of


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "mobilebert"

    hidden_act: str = "relu"
    embedding_size: int = 128
    type_vocab_size: int = 2
    pad_token_id: int | None = 0
    trigram_input: bool = True
    use_bottleneck: bool = True
    intra_bottleneck_size: int = 128
    use_bottleneck_attention: bool = False
    key_query_shared_bottleneck: bool = True
    num_feedforward_networks: int = 4
    normalization_type: str = "no_norm"
    classifier_activation: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.normalization_type
        require(kind in ("no_norm", "layer_norm"), f"normalization_type {kind!r:.40} is not known")
        require(self.width % self.num_attention_heads == 0, "num_attention_heads does not divide intra_bottleneck_size")
        require(self.embedding_size < self.hidden_size, "embedding_size is not below hidden_size")
        require(self.num_feedforward_networks <= 1 << 8, "num_feedforward_networks is above 256")

    @property
    def width(self) -> int:
        """The features inside of a layer."""
        return self.intra_bottleneck_size if self.use_bottleneck else self.hidden_size


class NoNorm(Module):
    """A factor and a number to add, for each feature."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = new_parameter(ops.zeros, width)
        self.weight = new_parameter(ops.ones, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., width)."""
        return x * self.weight + self.bias


def norm(config: Config, width: int, epsilon: float = 1e-5) -> Module:
    """What stands in the place of norms."""
    return NoNorm(width) if config.normalization_type == "no_norm" else LayerNorm(width, epsilon)


class Embeddings(Module):
    """The sum of a token's word, with its neighbours, position and type."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.embedding_size
        self.trigram = config.trigram_input
        self.word_embeddings = Embedding(config.vocab_size, size, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = Embedding(config.type_vocab_size, config.hidden_size)
        self.embedding_transformation = Linear(size * (NEIGHBOURS if self.trigram else 1), config.hidden_size)
        self.LayerNorm = norm(config, config.hidden_size)

    def forward(self, ids: Tensor, type_ids: Tensor | None) -> Tensor:
        """ids and type_ids (B, T) → (B, T, D)."""
        words = self.word_embeddings(ids)  # (B, T, embedding_size)
        if self.trigram:
            none, last = words.new_zeros((words.shape[0], 1, words.shape[2])), words.shape[1] - 1
            behind = ops.cat([words.narrow(1, 1, last), none], 1)
            words = ops.cat([behind, words, ops.cat([none, words.narrow(1, 0, last)], 1)], 2)
        types = ops.zeros(1, dtype="int32", device=ids.device) if type_ids is None else type_ids
        positions = ops.arange(ids.shape[1], dtype="int32", device=ids.device)  # (T,)
        x = self.embedding_transformation(words) + self.position_embeddings(positions)
        y: Tensor = self.LayerNorm(x + self.token_type_embeddings(types))
        return y


class Mapped(Module):
    """A linear layer, a residual if there is one, and a norm."""

    def __init__(self, config: Config, inputs: int, outputs: int, epsilon: float | None = None) -> None:
        super().__init__()
        self.dense = Linear(inputs, outputs)
        self.LayerNorm = norm(config, outputs, config.layer_norm_eps if epsilon is None else epsilon)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., inputs) → (..., outputs)."""
        x = self.dense(x)
        y: Tensor = self.LayerNorm(x if residual is None else x + residual)
        return y


class SelfAttention(Module):
    """Attention whose values may be made of other features than its queries and keys."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.width
        self.heads = config.num_attention_heads
        self.query = Linear(width, width)
        self.key = Linear(width, width)
        self.value = Linear(width if config.use_bottleneck_attention else config.hidden_size, width)

    def forward(self, query: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """query (B, T, width), value (B, T, width or D) → (B, T, width)."""
        parts = (self.query(query), self.key(query), self.value(value))
        q, k, v = (x.reshape(*x.shape[:2], self.heads, -1) for x in parts)  # (B, T, H, width / H)
        return attend(q, k, v, mask)


class Attention(Module):
    """Attention, its output projection, the residual and the norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.add_module("self", SelfAttention(config))
        self.output = Mapped(config, config.width, config.width)

    def forward(self, query: Tensor, value: Tensor, residual: Tensor, mask: Tensor | None) -> Tensor:
        """As SelfAttention, with a residual (B, T, width)."""
        y: Tensor = self.output(self._modules["self"](query, value, mask), residual)
        return y


class FeedForward(Module):
    """One of the first feed-forward parts of a layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.intermediate = Intermediate(config.width, config.intermediate_size, config.hidden_act)
        self.output = Mapped(config, config.intermediate_size, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, width)."""
        y: Tensor = self.output(self.intermediate(x), x)
        return y


class Bottleneck(Module):
    """The linear layers before a layer's parts."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.input = Mapped(config, config.hidden_size, config.width)
        shared = config.key_query_shared_bottleneck
        self.attention = Mapped(config, config.hidden_size, config.width) if shared else None
        self.of_all = config.use_bottleneck_attention

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, D) → what queries and keys, and what values are made of, and the residual (B, T, width)."""
        narrow = self.input(x)
        if self.of_all:
            return narrow, narrow, narrow
        return (x if self.attention is None else self.attention(x)), x, narrow


class Output(Mapped):
    """The last linear layers of a layer; the second one leads out of the narrow space."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.intermediate_size, config.width, 1e-5)
        self.bottleneck = Mapped(config, config.width, config.hidden_size) if config.use_bottleneck else None

    def both(self, x: Tensor, residual: Tensor, whole: Tensor) -> Tensor:
        """x (B, T, inner), residual (B, T, width), whole (B, T, D) → (B, T, D)."""
        x = self(x, residual)
        return x if self.bottleneck is None else self.bottleneck(x, whole)


class Layer(Module):
    """Attention and the feed-forward parts."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config.width, config.intermediate_size, config.hidden_act)
        self.output = Output(config)
        self.bottleneck = Bottleneck(config) if config.use_bottleneck else None
        more = config.num_feedforward_networks - 1
        self.ffn = ModuleList(FeedForward(config) for _ in range(more)) if more else None

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        query, value, narrow = (x, x, x) if self.bottleneck is None else self.bottleneck(x)
        y = self.attention(query, value, narrow, mask)
        for part in self.ffn or ():
            y = part(y)
        return self.output.both(self.intermediate(y), y, x)


class FirstToken(Module):
    """The first token of each text."""

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, D)."""
        return first_token(x)


class MobileBert(Encoder):
    """The encoder."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.hides_padding = not config.trigram_input  # the last word's neighbour is padding
        self.embeddings = Embeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        plain = FirstToken() if not config.classifier_activation else Pooler(config.hidden_size)
        self.pooler: Module | None = plain if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x, mask = self.embeddings(ids, type_ids), visible_keys(attention_mask)
        for layer in self.encoder.layer:
            x = layer(x, mask)
        return x


class Predictions(Module):
    """Scores of all words: the table of words reads the first features, a matrix of its own the others."""

    def __init__(self, config: Config, table: Embedding | None) -> None:
        super().__init__()
        size, rest = config.embedding_size, config.hidden_size - config.embedding_size
        self.transform = Transform(config.hidden_size, config.hidden_size, config.hidden_act, config.layer_norm_eps)
        self.dense = TransposedLinear(rest, config.vocab_size, bias=False)
        self.bias = new_parameter(ops.zeros, config.vocab_size)
        self.decoder = Words(size, config.vocab_size, table)
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        x, size = self.transform(x), self.decoder.in_features
        rest = x.narrow(-1, size, x.shape[-1] - size)
        return self.decoder(x.narrow(-1, 0, size).contiguous()) + self.dense(rest.contiguous())


class MobileBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, MobileBert(config, pooler=False))
        self.cls = Module()
        self.cls.predictions = Predictions(config, self.encoder.word_embeddings if config.tie_word_embeddings else None)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.cls.predictions(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": MobileBert,
    "masked-lm": MobileBertForMaskedLM,
    "sequence-classification": headed(PooledClassifierHead, BASE, MobileBert),
    "token-classification": headed(TokenLabelsHead, BASE, MobileBert, pooler=False),
    "question-answering": headed(AnswersHead, BASE, MobileBert, pooler=False),
    "multiple-choice": choosing(BASE, MobileBert),
}
