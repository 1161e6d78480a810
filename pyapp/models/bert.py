"""BERT (Devlin et al. 2018, arXiv 1810.04805): a transformer encoder with learned positions, and its heads. MiniLM,
BGE, GTE, E5 and many rerankers have this architecture. With `position_embedding_type` "alibi" it is Jina's, of
jina-embeddings-v2 (nn/alibi_encoder.py).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.alibi_encoder import GATES, AlibiBertEncoder
from pyapp.nn.encoders import BertEncoder, Encoder, LinearHead, PooledClassifierHead, PredictionsHead

from .loading.config import require
from .loading.encoder_config import BertConfig
from .loading.gguf import BERT_NAMES, ENCODER_KEYS, Gguf, encoder_settings, rows_in

MODEL_TYPES = ("bert",)
BASE = "bert"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. feed_forward_type: "original", and in Jina's models "geglu" or
    "reglu".
    """

    model_type = "bert"
    known_positions = ("absolute", "alibi")

    feed_forward_type: str = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = tuple(GATES) if self.position_embedding_type == "alibi" else ("original",)
        require(
            self.feed_forward_type in known,
            f"BERT with position_embedding_type {self.position_embedding_type!r} and feed_forward_type "
            f"{self.feed_forward_type!r:.40} is not supported",
        )


def encoder(config: Config, pooler: bool = True) -> Encoder:
    """BERT's encoder, or Jina's."""
    return (AlibiBertEncoder if config.position_embedding_type == "alibi" else BertEncoder)(config, pooler)


def masked_lm(config: Config) -> PredictionsHead:
    """Scores of the words that may stand at each token."""
    return PredictionsHead(BASE, encoder(config, pooler=False))


def sequence_classification(config: Config) -> PooledClassifierHead:
    """Scores of the labels of a text, or of a pair of texts."""
    return PooledClassifierHead(BASE, encoder(config))


def token_classification(config: Config) -> LinearHead:
    """Scores of the labels of each token."""
    return LinearHead(("bert", "classifier"), encoder(config, pooler=False), config.hidden_size, len(config.labels))


def question_answering(config: Config) -> LinearHead:
    """Scores of an answer's start and end at each token."""
    return LinearHead(("bert", "qa_outputs"), encoder(config, pooler=False), config.hidden_size, 2)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return encoder_settings(found, values) | {"type_vocab_size": rows_in(values, "token_types.weight") or 1}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.position_embedding_type == "absolute", "GGUF files of BERT with alibi are not written")
    require(config.hidden_act == "gelu", f"llama.cpp has no BERT with hidden_act {config.hidden_act!r:.40}")
    return {}


GGUF = Gguf("bert", names=BERT_NAMES, keys=ENCODER_KEYS, read=_from_gguf, write=_to_gguf)
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": encoder,
    "masked-lm": masked_lm,
    "sequence-classification": sequence_classification,
    "token-classification": token_classification,
    "question-answering": question_answering,
}
