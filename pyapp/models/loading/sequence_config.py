"""The fields of config.json that BART and its kin share: an encoder and a decoder over one width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from pyapp.dataclass import dataclass

from .config import FileConfig, check_depth, check_padding, check_token, require


@dataclass(frozen=True, kw_only=True)
class SequenceToSequenceConfig(FileConfig):
    """The hyper-parameters, by the names of config.json. A model adds its own."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_layers: int
    decoder_attention_heads: int
    decoder_ffn_dim: int
    activation_function: str = "gelu"
    max_position_embeddings: int = 1024
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    pad_token_id: int = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(self.d_model % heads == 0, f"{heads} heads do not divide d_model {self.d_model}")
        check_depth(max(self.encoder_layers, self.decoder_layers))
        check_padding(self.pad_token_id, self.vocab_size)
        check_token("decoder_start_token_id", self.decoder_start_token_id, self.vocab_size)


@dataclass(frozen=True, kw_only=True)
class FamilyConfig(SequenceToSequenceConfig):
    """The fields of models with several model_types, of which `kind` is the file's. `usual`: what a config.json leaves
    out, by its model_type.
    """

    usual: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    kind: str

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        kind = values.get("model_type", cls.model_type)
        return super().from_dict({**cls.usual.get(kind, {}), **values, "kind": kind})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return {"model_type": values.pop("kind")} | values
