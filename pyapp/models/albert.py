"""ALBERT (Lan et al. 2019, arXiv 1909.11942): BERT with narrow embeddings, whose layers share their weights.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders import (
    BertEmbeddings,
    Encoder,
    Headed,
    LinearHead,
    SelfAttention,
    Words,
    first_token,
    visible_keys,
)
from pyapp.nn.layers.gated import activated, activation_named
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.parameter import new_parameter

from .loading.config import LIMITS, require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("albert",)
BASE = "albert"  # the encoder's name in files with a head
IGNORED = r"sop_classifier\..*"  # of the first training: which of two texts came first


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json. Layers follow one another in `num_hidden_groups` groups, each
    of `inner_group_num` layers that are run again and again.
    """

    model_type = "albert"

    hidden_act: str = "gelu_new"
    embedding_size: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    type_vocab_size: int = 2
    pad_token_id: int | None = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        most, groups, inner = LIMITS["num_hidden_layers"], self.num_hidden_groups, self.inner_group_num
        require(groups <= self.num_hidden_layers, f"num_hidden_groups is {groups}, of {self.num_hidden_layers} layers")
        require(inner <= most, f"inner_group_num is {inner:,}, expected at most {most:,}")
        require(
            self.embedding_size <= LIMITS["hidden_size"],
            f"embedding_size is {self.embedding_size:,}, expected at most {LIMITS['hidden_size']:,}",
        )


class Attention(SelfAttention):
    """Self-attention, its output projection, the residual and the norm."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.num_attention_heads)
        self.dense = ResidualLinear(config.hidden_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.LayerNorm(self.dense(super().forward(x, mask), x))


class Layer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.ffn = Linear(config.hidden_size, config.intermediate_size)
        self.ffn_output = ResidualLinear(config.intermediate_size, config.hidden_size)
        self.full_layer_layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(x, mask)
        return self.full_layer_layer_norm(self.ffn_output(activated(self.ffn, x, self.activation), x))


class Group(Module):
    """Layers that are run one after the other."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.albert_layers = ModuleList(Layer(config) for _ in range(config.inner_group_num))


class Layers(Module):
    """The layers of all groups, by turns as often as there are hidden layers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.count = config.num_hidden_layers
        self.embedding_hidden_mapping_in = Linear(config.embedding_size, config.hidden_size)
        self.albert_layer_groups = ModuleList(Group(config) for _ in range(config.num_hidden_groups))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, embedding_size) → (B, T, D)."""
        x = self.embedding_hidden_mapping_in(x)
        groups = list(self.albert_layer_groups)
        for i in range(self.count):
            for layer in groups[int(i / (self.count / len(groups)))].albert_layers:
                x = layer(x, mask)
        return x


class Albert(Encoder):
    """The encoder; with `pooler`, also the layer over the first token that some heads read."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(
            config.vocab_size, config.embedding_size, config.max_position_embeddings, config.type_vocab_size,
            config.layer_norm_eps, config.pad_token_id,
        )  # fmt: skip
        self.encoder = Layers(config)
        self.pooler: Linear | None = Linear(config.hidden_size, config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        return self.encoder(self.embeddings(ids, type_ids), visible_keys(attention_mask))


class Predictions(Module):
    """Scores of all words: those of a transform of the hidden states to the width of the embeddings."""

    def __init__(self, albert: Albert) -> None:
        super().__init__()
        config: Config = albert.config
        self.bias = new_parameter(ops.zeros, config.vocab_size)
        self.LayerNorm = LayerNorm(config.embedding_size, config.layer_norm_eps)
        self.dense = Linear(config.hidden_size, config.embedding_size)
        table = albert.word_embeddings if config.tie_word_embeddings else None
        self.decoder = Words(config.embedding_size, config.vocab_size, table)
        self.decoder.bias = self.bias
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        return self.decoder(self.LayerNorm(self.activation(self.dense(x))))


class AlbertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        albert = Albert(config, pooler=False)
        super().__init__(BASE, albert)
        self.predictions = Predictions(albert)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.predictions(x)


class AlbertForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, Albert(config))
        self.classifier = Linear(config.hidden_size, len(config.labels))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.classifier(self.encoder.pooler(first_token(x)).tanh())


def token_classification(config: Config) -> LinearHead:
    """Scores of the labels of each token."""
    return LinearHead((BASE, "classifier"), Albert(config, pooler=False), config.hidden_size, len(config.labels))


def question_answering(config: Config) -> LinearHead:
    """Scores of an answer's start and end at each token."""
    return LinearHead((BASE, "qa_outputs"), Albert(config, pooler=False), config.hidden_size, 2)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Albert,
    "masked-lm": AlbertForMaskedLM,
    "sequence-classification": AlbertForSequenceClassification,
    "token-classification": token_classification,
    "question-answering": question_answering,
}
