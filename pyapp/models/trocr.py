"""The decoder of TrOCR (Li et al. 2021, arXiv 2109.10282): BART's decoder, which writes the text of a picture that an
encoder of pictures has read.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.positions.sinusoids import padded_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import (
    POSITION_OFFSET,
    BartTextDecoder,
    Decoder,
    FixedPositions,
    learned_positions,
)

from .loading.config import FileConfig, check_depth, check_padding, require

MODEL_TYPES = ("trocr",)
BASE = "model"  # the name of the decoder in files with a head


@dataclass(frozen=True)
class Config(FileConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "trocr"

    vocab_size: int = 50265
    d_model: int = 1024
    decoder_layers: int = 12
    decoder_attention_heads: int = 16
    decoder_ffn_dim: int = 4096
    activation_function: str = "gelu"
    max_position_embeddings: int = 512
    scale_embedding: bool = False
    use_learned_position_embeddings: bool = True
    layernorm_embedding: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int = 1
    cross_attention_hidden_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.decoder_attention_heads
        require(self.d_model % heads == 0, f"{heads} heads do not divide d_model {self.d_model}")
        require(
            self.d_model % 2 == 0 and self.d_model > 2, f"d_model is {self.d_model}, expected an even number from 4"
        )
        check_depth(self.decoder_layers)
        check_padding(self.pad_token_id, self.vocab_size)

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.d_model

    @property
    def source_width(self) -> int | None:
        """The width of the source's hidden states, if the decoder takes another than its own."""
        return self.cross_attention_hidden_size


class TrocrDecoder(BartTextDecoder):
    """The decoder with its scores of words."""

    def __init__(self, config: Config) -> None:
        learned = config.use_learned_position_embeddings
        sizes = config.max_position_embeddings, config.d_model, config.pad_token_id
        positions = learned_positions(config) if learned else FixedPositions(partial(padded_sinusoids, *sizes))
        decoder = Decoder(
            config, positions, POSITION_OFFSET if learned else config.pad_token_id + 1,
            norm_embedding=config.layernorm_embedding, source_width=config.source_width,
        )  # fmt: skip
        super().__init__(config, decoder, "output_projection")


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-decoder": TrocrDecoder}
