"""Marian (Junczys-Dowmunt et al. 2018, arXiv 1804.00344): the translators of OPUS-MT, with BART's layers and fixed
positions: sines, then cosines.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Embedding, Module
from pyapp.nn.sequence_to_sequence import BartLanguageModel, Decoder, Encoder, FixedPositions
from pyapp.nn.sinusoids import paired_sinusoids

from .loading.config import check_fields, check_padding, read_config, require

MODEL_TYPES = ("marian",)
BASE = "model"  # the name of encoder and decoder in files with a head
IGNORED = r"(model\.)?(encoder|decoder)\.embed_positions\.weight"  # tensors of files that are computed here


@dataclass(frozen=True)
class Config:
    """The hyper-parameters, by the names of config.json."""

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
    share_encoder_decoder_embeddings: bool = True
    decoder_vocab_size: int | None = None
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58100

    def __post_init__(self) -> None:
        check_fields(self)
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(self.d_model % heads == 0, f"{heads} heads do not divide d_model {self.d_model}")
        require(max(self.encoder_layers, self.decoder_layers) <= 1 << 10, "a model of more than 1,024 layers")
        check_padding(self.pad_token_id, self.vocab_size)

    @property
    def target_words(self) -> int:
        """The words of the decoder."""
        own = None if self.share_encoder_decoder_embeddings else self.decoder_vocab_size
        return self.vocab_size if own is None else own

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        return read_config(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": MODEL_TYPES[0]} | asdict(self)


class MarianModel(Module):
    """Encoder and decoder over one table of words, or over one each."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        places = partial(paired_sinusoids, config.max_position_embeddings, config.d_model)
        table = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        if config.share_encoder_decoder_embeddings:
            self.shared = table
        self.encoder = Encoder(config, FixedPositions(places), table=table, norm_embedding=False)
        if not config.share_encoder_decoder_embeddings:
            table = Embedding(config.target_words, config.d_model, config.pad_token_id)
        self.decoder = Decoder(config, FixedPositions(places), table=table, norm_embedding=False)


class MarianMT(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = MarianModel(config)
        table = model.decoder.embed_tokens if config.tie_word_embeddings else None
        super().__init__(config, model, config.target_words, table)


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": MarianMT}
