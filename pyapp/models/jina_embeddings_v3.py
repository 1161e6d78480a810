"""Jina Embeddings v3 (Sturua et al. 2024, arXiv 2409.10173): XLM-RoBERTa with rotary positions. Its adapters for tasks
are files of their own. Jina ColBERT v2 (Jha et al. 2024, arXiv 2408.16672) is this encoder; its files have the names
of FlashAttention's BERT (`renamed`, `stored`).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import ops
from pyapp.errors import ModelError
from pyapp.nn import Module
from pyapp.nn.encoders.encoders import AnswersHead, DenseClassifierHead, NormedWordsHead, TokenLabelsHead, headed
from pyapp.nn.encoders.rotary_encoder import RotaryEncoder

from .loading.config import require, rope_parameters
from .loading.encoder_config import RotaryEncoderConfig
from .loading.gguf import ENCODER_KEYS, JOINED_QKV, ROTARY_ENCODER, Gguf, encoder_settings, rows_in
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("jina_embeddings_v3",)
BASE = "roberta"  # the encoder's name in files with a head
THETA = 20000.0
OLDER_THETA = 10000.0  # of files with the names of FlashAttention's BERT
# What a name in such files begins with, and what takes its place.
_LAYER = r"((?:roberta\.)?)encoder\.layers(\.\d+\.)"
FLASH_NAMES = {r"((?:roberta\.)?)emb_ln\.": r"\1embeddings.LayerNorm."} | {
    rf"{_LAYER}{old}\.": rf"\1layers\2{new}."
    for old, new in (
        (r"mixer\.out_proj", "self_attn.o_proj"), ("mixer", "self_attn"), ("norm1", "post_attention_layernorm"),
        ("mlp", "mlp"), ("norm2", "post_mlp_layernorm"),
    )
}  # fmt: skip
ADAPTERS = ".parametrizations."  # in the names of matrices with adapters


@dataclass(frozen=True, kw_only=True)
class Config(RotaryEncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "jina_embeddings_v3"
    gated = False

    type_vocab_size: int = 1
    max_position_embeddings: int = 8194
    layer_norm_eps: float = 1e-5
    pad_token_id: int | None = 1

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        theta = OLDER_THETA if values.get("position_embedding_type") == "rotary" else THETA
        return super().from_dict({**values, "rope_parameters": rope_parameters(values, theta)})


def renamed(name: str) -> str:
    """Hugging Face's name of a tensor whose file has the names of FlashAttention's BERT."""
    for old, new in FLASH_NAMES.items():
        if re.match(old, name):
            return re.sub(old, new, name)
    return name


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """The parts of such files that have the queries, keys and values in one matrix. ModelError for matrices with
    adapters.
    """
    if any(ADAPTERS in name for name in names):
        raise ModelError(
            "the matrices have adapters for tasks", hint="Give the model in transformers' form, with files of adapters"
        )
    found: dict[str, Stored] = {}
    if any(name.endswith("mixer.Wqkv.weight") for name in names):
        for prefix in ("", f"{BASE}."):
            for layer in range(config.num_hidden_layers):
                start = f"{prefix}layers.{layer}.self_attn."
                for kind in ("weight", "bias"):
                    found |= cut_apart(f"{start}Wqkv.{kind}", [f"{start}{part}_proj.{kind}" for part in "qkv"],
                                       config.hidden_size)  # fmt: skip
    return found


def features(config: Config) -> RotaryEncoder:
    """The encoder, with a layer over the first token."""
    return RotaryEncoder(config, pooler=True)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return encoder_settings(found, values) | {"type_vocab_size": rows_in(values, "token_types.weight") or 1}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(
        config.hidden_act == "gelu", f"llama.cpp has no Jina Embeddings 3 with hidden_act {config.hidden_act!r:.40}"
    )
    return {}


GGUF = Gguf(
    "jina-bert-v3", unsaid=("head_dim",), keys=ENCODER_KEYS, joined=JOINED_QKV, read=_from_gguf, write=_to_gguf,
    names=ROTARY_ENCODER | {"layers.{}.mlp.fc1": "blk.{}.ffn_up", "layers.{}.mlp.fc2": "blk.{}.ffn_down"},
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": features,
    "masked-lm": headed(NormedWordsHead, BASE, RotaryEncoder),
    "sequence-classification": headed(DenseClassifierHead, BASE, RotaryEncoder, ops.tanh),
    "token-classification": headed(TokenLabelsHead, BASE, RotaryEncoder),
    "question-answering": headed(AnswersHead, BASE, RotaryEncoder),
}
