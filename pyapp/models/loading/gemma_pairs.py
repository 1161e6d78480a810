"""The fields of config.json of the models of two parts of Gemma's layers, an encoder and a decoder (T5Gemma)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pyapp.dataclass import dataclass

from .config import optional_object, require

TOKENS = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}  # where config.json says nothing


@dataclass(frozen=True, kw_only=True)
class GemmaPairConfig:
    """The settings of the encoder and of the decoder. The tokens that begin, end and fill texts are the decoder's.
    A model says how it reads the settings of a part.
    """

    model_type: ClassVar[str]

    encoder: Any
    decoder: Any
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 1
    bos_token_id: int | None = 2

    @classmethod
    def part(cls, name: str, values: dict[str, Any]) -> Any:
        """The settings of the encoder or the decoder, from their object."""
        raise NotImplementedError

    @classmethod
    def further(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that a model has beside those of all."""
        return {}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From the object of a config.json. ModelError for a part that is not an object, and for parts that differ in
        what they share.
        """
        parts = {}
        for name in ("encoder", "decoder"):
            parts[name] = cls.part(name, optional_object(values, name))
        usual = TOKENS | {**(values.get("decoder") or {})}
        tokens = {name: values.get(name, usual[name]) for name in TOKENS}
        for name, value in tokens.items():
            several = value if isinstance(value, list) else [value]
            known = all(token is None or (type(token) is int and token >= 0) for token in several)
            require(known and (name == "eos_token_id" or len(several) == 1), f"{name} is {value!r:.60}")
        tied = values.get("tie_word_embeddings", True)
        require(type(tied) is bool, f"tie_word_embeddings is {tied!r:.60}, expected true or false")
        return cls(**parts, **tokens, tie_word_embeddings=tied, **cls.further(values))

    @property
    def vocab_size(self) -> int:
        """The words that it reads and writes."""
        return int(min(self.encoder.vocab_size, self.decoder.vocab_size))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; the model adds those of its parts."""
        names = ("tie_word_embeddings", *TOKENS)
        return {"model_type": self.model_type} | {name: getattr(self, name) for name in names}
