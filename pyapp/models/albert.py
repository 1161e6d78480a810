"""ALBERT (Lan et al. 2019, arXiv 1909.11942): BERT with narrow embeddings, whose layers share their weights.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.encoders.albert import Albert
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    Chooser,
    Headed,
    TokenLabelsHead,
    Words,
    first_token,
    headed,
    one_label,
)
from pyapp.nn.layers.gated import activation_named
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


class AlbertForMultipleChoice(Chooser, AlbertForSequenceClassification):
    """Scores of several texts, of which one is right."""

    def __init__(self, config: Config) -> None:
        super().__init__(one_label(config))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Albert,
    "masked-lm": AlbertForMaskedLM,
    "sequence-classification": AlbertForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, Albert, pooler=False),
    "question-answering": headed(AnswersHead, BASE, Albert, pooler=False),
    "multiple-choice": AlbertForMultipleChoice,
}
