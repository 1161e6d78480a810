"""The configuration of MusicGen, and the names of its files, with a melody or without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.formats.checkpoint import TensorInfo

from .config import check_fields, object_of, read_config, require
from .sound_parts import CODEC, TEXT, CodesConfig, check_code_decoder, part_config
from .stored import Stored
from .weight_norms import normed_weights

IGNORED = (
    r"audio_encoder\.quantizer\.layers\.\d+\.codebook\.(inited|cluster_size|embed_avg)|"
    r"decoder\.model\.decoder\.embed_positions\.weights"
)


@dataclass(frozen=True)
class DecoderConfig:
    """The fields of `decoder` in config.json."""

    vocab_size: int = 2048
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    ffn_dim: int = 4096
    activation_function: str = "gelu"
    scale_embedding: bool = False
    num_codebooks: int = 4
    audio_channels: int = 1
    max_position_embeddings: int = 2048
    pad_token_id: int = 2048

    def __post_init__(self) -> None:
        check_fields(self)
        check_code_decoder(self)
        require(
            self.audio_channels == 1,
            f"audio_channels is {self.audio_channels}: music of several channels is not made here",
            "Choose a model for one channel, such as facebook/musicgen-small",
        )
        require(self.pad_token_id <= self.vocab_size, f"pad_token_id is {self.pad_token_id}, above vocab_size")


@dataclass(frozen=True)
class MusicgenConfig(CodesConfig):
    """The configurations of the three parts."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        text, codec = (part_config(values, name) for name in (TEXT, CODEC))
        decoder = read_config(DecoderConfig, object_of(values, "decoder"))
        books, entries = getattr(codec, "codebooks", 0), codec.codebook_size
        require(
            decoder.num_codebooks <= books and decoder.vocab_size <= entries,
            f"the decoder writes {decoder.num_codebooks} codes up to {decoder.vocab_size}, the codec has {books} "
            f"codebooks of {entries} entries",
        )
        return cls(text, codec, decoder, dict(values))

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        found: int = self.text_encoder.vocab_size
        return found

    @property
    def moments(self) -> int:
        """Moments of a second."""
        found: int = self.audio_encoder.moments
        return found


def stored(config: MusicgenConfig, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)
