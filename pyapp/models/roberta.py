"""RoBERTa (Liu et al. 2019, arXiv 1907.11692): BERT's layers, positions that skip padding, and heads of its own. Also
data2vec of texts (Baevski et al. 2022, arXiv 2202.03555); and XLM-RoBERTa XL (Goyal et al. 2021, arXiv 2105.00572) and
RoBERTa-PreLayerNorm (Wettig et al. 2022, arXiv 2202.08005), whose norms stand before each part. I-BERT (Kim et al.
2021, arXiv 2101.01321) computes in whole numbers after a further training; before it, as published, it is RoBERTa.
Jina's rerankers (jina-reranker-v2) have other names.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.encoders.bert_decoder import PlacedEmbeddings, TextDecoder
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEncoder,
    DenseClassifierHead,
    NormedWords,
    NormedWordsHead,
    TokenLabelsHead,
    choosing,
    headed,
)
from pyapp.nn.encoders.norm_first import NormFirstEncoder, NormNames
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory

from .loading.config import require
from .loading.encoder_config import DecoderPart, EncoderConfig
from .loading.gguf import BERT_NAMES, ENCODER_KEYS, Gguf
from .loading.stored import Stored, cut_apart

MODEL_TYPES = (
    "roberta",
    "xlm-roberta",
    "camembert",
    "data2vec-text",
    "ibert",
    "xlm-roberta-xl",
    "roberta-prelayernorm",
)
IGNORED = r".*\.((weight|bias)_integer|(fc|weight|act)_scaling_factor|x_min|x_max|LayerNorm\.shift)"  # I-BERT's own
# The encoder's name in files with a head.
BASE: Mapping[str, str] = dict.fromkeys(MODEL_TYPES, "roberta") | {
    "data2vec-text": "data2vec_text", "ibert": "ibert", "roberta-prelayernorm": "roberta_prelayernorm",
}  # fmt: skip
XL = "xlm-roberta-xl"
# The names of Jina's rerankers: what a name begins with, and what takes its place.
_LAYER = r"((?:roberta\.)?encoder\.)layers(\.\d+\.)"
FLASH_NAMES = {r"((?:roberta\.)?)emb_ln\.": r"\1embeddings.LayerNorm."} | {
    rf"{_LAYER}{old}\.": rf"\1layer\2{new}."
    for old, new in (
        (r"mixer\.out_proj", "attention.output.dense"), ("norm1", "attention.output.LayerNorm"),
        (r"mlp\.fc1", "intermediate.dense"), (r"mlp\.fc2", "output.dense"), ("norm2", "output.LayerNorm"),
        ("mixer", "mixer"),
    )
}  # fmt: skip
# By the model_type of models whose norms stand before each part.
NORM_FIRST = {
    XL: NormNames("self_attn_layer_norm", "LayerNorm", "LayerNorm"),
    "roberta-prelayernorm": NormNames("LayerNorm", "LayerNorm", "LayerNorm", inside=True),
}


@dataclass(frozen=True, kw_only=True)
class Config(DecoderPart, EncoderConfig):
    """The hyper-parameters, by the names of config.json. The first `pad_token_id` + 1 positions are of padding."""

    model_type = "roberta"

    type_vocab_size: int = 2
    pad_token_id: int = 1
    position_embedding_type: str = "absolute"
    is_decoder: bool = False
    quant_mode: bool = False
    kind: str = "roberta"  # the model_type

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.pad_token_id < min(self.max_position_embeddings - 1, self.vocab_size),
            f"pad_token_id {self.pad_token_id} leaves no positions of {self.max_position_embeddings}, or no words",
        )
        require(
            self.position_embedding_type == "absolute",
            f"RoBERTa with position_embedding_type {self.position_embedding_type!r:.40} is not known",
        )
        require(
            not self.quant_mode, "I-BERT in whole numbers (quant_mode) is not supported",
            "Set quant_mode to false in config.json: the weights are there as floats, too",
        )  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        kind = values.get("model_type", MODEL_TYPES[0])
        usual = {"layer_norm_eps": 1e-5} if kind == XL else {}
        return super().from_dict({**usual, **values, "kind": kind})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        return values | {"model_type": values.pop("kind")}

    @property
    def base(self) -> str:
        """The encoder's name in files with a head."""
        return BASE[self.kind]


class Roberta(BertEncoder):
    """The encoder; with `pooler`, also a layer over the first token."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__(config, pooler, skips_padding=True)


def encoder(config: Config, pooler: bool = True) -> BertEncoder:
    """RoBERTa's encoder, or one whose norms stand before each part."""
    require(not config.is_decoder, "RoBERTa as a decoder is read as a part of another model alone")
    if config.kind in NORM_FIRST:
        return NormFirstEncoder(config, NORM_FIRST[config.kind], pooler, skips_padding=True)
    return Roberta(config, pooler)


class RobertaTextDecoder(TextDecoder):
    """RoBERTa as the decoder of another model, with its scores of words."""

    def __init__(self, config: Config) -> None:
        require(config.kind not in NORM_FIRST, f"{config.kind} as a decoder is not supported")
        embeddings = PlacedEmbeddings(config, config.pad_token_id + 1)
        super().__init__(config.base, config, embeddings)
        table = embeddings.word_embeddings if config.tie_word_embeddings else None
        self.lm_head = NormedWords(config.hidden_size, config.vocab_size, config.layer_norm_eps, table)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        return self.lm_head(self.hidden(tokens, memory))


def renamed(name: str) -> str:
    """Hugging Face's name of a tensor of Jina's XLM-RoBERTa, whose layers have the names of FlashAttention's BERT."""
    for old, new in FLASH_NAMES.items():
        if re.match(old, name):
            name = re.sub(old, new, name)
    return name


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """The parts of such files that have the queries, keys and values in one matrix."""
    if not any(name.endswith("mixer.Wqkv.weight") for name in names):
        return {}
    found: dict[str, Stored] = {}
    for prefix in ("", f"{config.base}."):
        for layer in range(config.num_hidden_layers):
            start = f"{prefix}encoder.layer.{layer}."
            for kind in ("weight", "bias"):
                parts = [f"{start}attention.self.{part}.{kind}" for part in ("query", "key", "value")]
                found |= cut_apart(f"{start}mixer.Wqkv.{kind}", parts, config.hidden_size)
    return found


def _to_gguf(config: Config) -> dict[str, Any]:
    require(not config.is_decoder, "llama.cpp has no RoBERTa as a decoder")
    require(config.kind not in NORM_FIRST, f"llama.cpp has no {config.kind}")
    require(config.hidden_act == "gelu", f"llama.cpp has no RoBERTa with hidden_act {config.hidden_act!r:.40}")
    return {"context_length": config.max_position_embeddings - config.pad_token_id - 1}


def _skipped(name: str, config: Config) -> int:
    """The rows of a tensor that files leave out: the positions of padding."""
    return config.pad_token_id + 1 if name.endswith("position_embeddings.weight") else 0


# Without the positions of padding this is BERT, as which such files are read.
GGUF = Gguf(
    "bert", names=BERT_NAMES, keys=ENCODER_KEYS, write=_to_gguf, skipped=_skipped, unsaid=("max_position_embeddings",),
    index="",
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": encoder,
    "masked-lm": headed(NormedWordsHead, None, encoder, pooler=False),
    "sequence-classification": headed(DenseClassifierHead, None, encoder, ops.tanh, pooler=False),
    "token-classification": headed(TokenLabelsHead, None, encoder, pooler=False),
    "question-answering": headed(AnswersHead, None, encoder, pooler=False),
    "multiple-choice": choosing(None, encoder),
    "text-decoder": RobertaTextDecoder,
}
