"""BERT (Devlin et al. 2018, arXiv 1810.04805): a transformer encoder with learned positions, and its heads. MiniLM,
BGE, GTE, E5 and many rerankers have this architecture.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module
from pyapp.nn.encoders import Bert, Headed, LinearHead, Predictions

from .loading.config import require
from .loading.encoder_config import EncoderConfig
from .loading.gguf import BERT_NAMES, ENCODER_KEYS, Gguf, encoder_settings, rows_in

MODEL_TYPES = ("bert",)
BASE = "bert"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "bert"

    type_vocab_size: int = 2
    pad_token_id: int | None = 0
    position_embedding_type: str = "absolute"
    is_decoder: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.position_embedding_type == "absolute" and not self.is_decoder,
            f"BERT with position_embedding_type {self.position_embedding_type!r:.40} or as a decoder is not supported",
        )


class BertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__("bert", Bert(config, pooler=False))
        self.cls = Module()
        table = self.encoder.word_embeddings if config.tie_word_embeddings else None
        self.cls.predictions = Predictions(config, config.hidden_size, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.cls.predictions(x)


class BertForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__("bert", Bert(config))
        self.classifier = Linear(config.hidden_size, len(config.labels))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.classifier(self.encoder.pooler(x))


def token_classification(config: Config) -> LinearHead:
    """Scores of the labels of each token."""
    return LinearHead(("bert", "classifier"), Bert(config, pooler=False), config.hidden_size, len(config.labels))


def question_answering(config: Config) -> LinearHead:
    """Scores of an answer's start and end at each token."""
    return LinearHead(("bert", "qa_outputs"), Bert(config, pooler=False), config.hidden_size, 2)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return encoder_settings(found, values) | {"type_vocab_size": rows_in(values, "token_types.weight") or 1}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.hidden_act == "gelu", f"llama.cpp has no BERT with hidden_act {config.hidden_act!r:.40}")
    return {}


GGUF = Gguf("bert", names=BERT_NAMES, keys=ENCODER_KEYS, read=_from_gguf, write=_to_gguf)
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Bert,
    "masked-lm": BertForMaskedLM,
    "sequence-classification": BertForSequenceClassification,
    "token-classification": token_classification,
    "question-answering": question_answering,
}
