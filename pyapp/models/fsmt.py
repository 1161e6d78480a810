"""The translators of fairseq for WMT 2019 (Ng et al. 2019, arXiv 1907.06616): encoder and decoder with the norm after
each part, fixed positions, and a vocabulary for each language.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.nn import Embedding, Module
from pyapp.nn.encoders.encoders import Words, visible_keys
from pyapp.nn.positions.sinusoids import padded_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import (
    Decoder,
    Encoder,
    FixedPositions,
    Memory,
    SequenceToSequence,
)

from .loading.config import check_padding, require
from .loading.sequence_config import SequenceToSequenceConfig

MODEL_TYPES = ("fsmt",)
BASE = "model"  # the name of encoder and decoder in files
IGNORED = r"(model\.)?(encoder|decoder)\.embed_positions\.weight"  # computed here


@dataclass(frozen=True, kw_only=True)
class Config(SequenceToSequenceConfig):
    """The hyper-parameters, by the names of config.json. vocab_size: that of the source's language."""

    model_type = "fsmt"

    tgt_vocab_size: int
    activation_function: str = "relu"
    scale_embedding: bool = True
    tie_word_embeddings: bool = False
    bos_token_id: int = 0
    forced_eos_token_id: int | None = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.d_model % 2 == 0 and self.d_model > 2, f"d_model is {self.d_model}, expected an even number from 4"
        )
        check_padding(self.pad_token_id, self.tgt_vocab_size)
        require(
            not self.tie_word_embeddings or self.vocab_size == self.tgt_vocab_size,
            f"tie_word_embeddings with vocabularies of {self.vocab_size:,} and {self.tgt_vocab_size:,} words",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        source = values.get("src_vocab_size", values.get("vocab_size"))
        return super().from_dict({**values, "vocab_size": source})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        return values | {"src_vocab_size": values.pop("vocab_size")}


class TargetDecoder(Decoder):
    """The decoder with its scores of the target's words."""

    def __init__(self, config: Config, positions: Module, offset: int, table: Embedding) -> None:
        super().__init__(config, positions, offset, table, norm_embedding=False)
        tied = self.embed_tokens if config.tie_word_embeddings else None
        self.output_projection = Words(config.d_model, config.tgt_vocab_size, tied, bias=False)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → logits (R, T, V)."""
        return self.output_projection(super().forward(tokens, memory))


class Fsmt(SequenceToSequence):
    """The translator."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, config.max_position_embeddings
        width, padding = config.d_model, config.pad_token_id
        places, offset = partial(padded_sinusoids, self.most, width, padding), padding + 1
        source = Embedding(config.vocab_size, width, padding)
        target = source if config.tie_word_embeddings else Embedding(config.tgt_vocab_size, width, padding)
        self.model = Module()
        self.model.encoder = Encoder(config, FixedPositions(places), offset, source, norm_embedding=False)
        self.model.decoder = TargetDecoder(config, FixedPositions(places), offset, target)

    @property
    def device(self) -> Device:
        found: Device = self.model.encoder.embed_tokens.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found: Tensor = self.model.encoder(ids, visible_keys(attention_mask))
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        found: Tensor = self.model.decoder(tokens, memory)
        return found


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": Fsmt}
