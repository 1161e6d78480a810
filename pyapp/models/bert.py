"""BERT (Devlin et al. 2018, arXiv 1810.04805): a transformer encoder with learned positions, and its heads. MiniLM,
BGE, GTE, E5 and many rerankers have this architecture. With `position_embedding_type` "alibi" it is Jina's, of
jina-embeddings-v2 (nn/encoders/alibi_encoder.py). Megatron's BERT (Shoeybi et al. 2019, arXiv 1909.08053) has the norms
before each part. ERNIE (Sun et al. 2019, arXiv 1904.09223) may add the vector of a task to each token.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, Module
from pyapp.nn.encoders.alibi_encoder import GATES, AlibiBertEncoder
from pyapp.nn.encoders.bert_decoder import PlacedEmbeddings, TextDecoder
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    BertEncoder,
    Encoder,
    PooledClassifierHead,
    Predictions,
    PredictionsHead,
    TokenLabelsHead,
    choosing,
    headed,
)
from pyapp.nn.encoders.norm_first import NormFirstEncoder, NormNames
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory

from .loading.config import require
from .loading.encoder_config import BertConfig, DecoderPart
from .loading.gguf import BERT_NAMES, ENCODER_KEYS, Gguf, encoder_settings, rows_in

MODEL_TYPES = ("bert", "megatron-bert", "ernie")
# The encoder's name in files with a head.
BASE: Mapping[str, str] = dict.fromkeys(MODEL_TYPES, "bert") | {"ernie": "ernie"}
MEGATRON = "megatron-bert"
ERNIE = "ernie"
MEGATRON_NORMS = NormNames("ln", "ln", "ln")


@dataclass(frozen=True, kw_only=True)
class Config(DecoderPart, BertConfig):
    """The hyper-parameters, by the names of config.json. feed_forward_type: "original", and in Jina's models "geglu" or
    "reglu".
    """

    model_type = "bert"
    known_positions = ("absolute", "alibi")
    decodes = True

    feed_forward_type: str = "original"
    use_task_id: bool = False
    task_type_vocab_size: int = 3
    kind: str = "bert"  # the model_type

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "kind": values.get("model_type", MODEL_TYPES[0])})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        return values | {"model_type": values.pop("kind")}

    def __post_init__(self) -> None:
        super().__post_init__()
        known = tuple(GATES) if self.position_embedding_type == "alibi" else ("original",)
        require(
            self.feed_forward_type in known,
            f"BERT with position_embedding_type {self.position_embedding_type!r} and feed_forward_type "
            f"{self.feed_forward_type!r:.40} is not supported",
        )
        if self.kind == MEGATRON:
            require(self.position_embedding_type == "absolute", "Megatron's BERT has absolute positions only")

    @property
    def base(self) -> str:
        """The encoder's name in files with a head."""
        return BASE[self.kind]


class ErnieEmbeddings(BertEmbeddings):
    """BERT's sum, with the vector of the first task, which texts without one have."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.task_type_embeddings = Embedding(config.task_type_vocab_size, config.hidden_size)

    def summed(self, ids: Tensor, type_ids: Tensor | None, positions: Tensor | None = None) -> Tensor:
        first = ops.zeros(1, dtype="int32", device=ids.device)
        return super().summed(ids, type_ids, positions) + self.task_type_embeddings(first)


class Ernie(BertEncoder):
    """BERT's encoder over such a sum."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__(config, pooler)
        self.embeddings = ErnieEmbeddings(config)


def encoder(config: Config, pooler: bool = True) -> Encoder:
    """BERT's encoder, ERNIE's, Jina's or Megatron's."""
    require(not config.is_decoder, "BERT as a decoder is read as a part of another model alone")
    if config.kind == ERNIE and config.use_task_id:
        return Ernie(config, pooler)
    if config.kind == MEGATRON:
        return NormFirstEncoder(config, MEGATRON_NORMS, pooler)
    return (AlibiBertEncoder if config.position_embedding_type == "alibi" else BertEncoder)(config, pooler)


class BertTextDecoder(TextDecoder):
    """BERT as the decoder of another model, with its scores of words."""

    def __init__(self, config: Config) -> None:
        plain = config.kind == MODEL_TYPES[0] and config.position_embedding_type == "absolute"
        require(plain, "a decoder of this kind of BERT is not supported")
        super().__init__(config.base, config, PlacedEmbeddings(config))
        table = self.bert.embeddings.word_embeddings if config.tie_word_embeddings else None
        self.cls = Module()
        self.cls.predictions = Predictions(config, config.hidden_size, table)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        return self.cls.predictions(self.hidden(tokens, memory))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return encoder_settings(found, values) | {"type_vocab_size": rows_in(values, "token_types.weight") or 1}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(not config.is_decoder, "llama.cpp has no BERT as a decoder")
    require(config.position_embedding_type == "absolute", "GGUF files of BERT with alibi are not written")
    require(config.kind != MEGATRON, "llama.cpp has no Megatron BERT")
    require(config.kind != ERNIE or not config.use_task_id, "llama.cpp has no ERNIE with tasks")
    require(config.hidden_act == "gelu", f"llama.cpp has no BERT with hidden_act {config.hidden_act!r:.40}")
    return {}


def _as_jina(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Jina's second encoder, whose files have gates and values in one matrix."""
    return _from_gguf(found, values) | {"position_embedding_type": "alibi", "feed_forward_type": "geglu"}


def _jina_to_gguf(config: Config) -> dict[str, Any]:
    require(config.feed_forward_type == "geglu", f"llama.cpp has no gates of the type {config.feed_forward_type!r:.40}")
    return {}


_PARTS = {
    "mlp.gated_layers": "ffn_up", "mlp.wo": "ffn_down", "mlp.layernorm": "layer_output_norm",
}  # fmt: skip
GGUF = Gguf(
    "bert", names=BERT_NAMES, keys=ENCODER_KEYS, read=_from_gguf, write=_to_gguf,
    others=(
        Gguf(
            "jina-bert-v2", keys=ENCODER_KEYS, read=_as_jina, write=_jina_to_gguf,
            names=BERT_NAMES | {f"encoder.layer.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
            suits=lambda config: config.position_embedding_type == "alibi",
        ),
    ),
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": encoder,
    "masked-lm": headed(PredictionsHead, None, encoder, pooler=False),
    "sequence-classification": headed(PooledClassifierHead, None, encoder),
    "token-classification": headed(TokenLabelsHead, None, encoder, pooler=False),
    "question-answering": headed(AnswersHead, None, encoder, pooler=False),
    "multiple-choice": choosing(None, encoder),
    "text-decoder": BertTextDecoder,
}
