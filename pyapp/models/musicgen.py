"""MusicGen (Copet et al. 2023, arXiv 2306.05284): music of a text. T5 reads the text, and a decoder writes the codes of
EnCodec, of each codebook one moment later than of the one before it.

The parts that read the text and make sound of codes are other architectures, which config.json names. Parameters have
the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import OptionError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Module
from pyapp.nn.audio.code_decoder import CodeDecoder, CodeStack, TextToCodes
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory

from .loading.config import check_fields, read_config, require
from .loading.sound_parts import CODEC, TEXT, CodesConfig, check_code_decoder, object_of, part_config, part_of
from .loading.weight_norms import normed_weights
from .loading.weights import Stored

MODEL_TYPES = ("musicgen",)
BASE = ""
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
class Config(CodesConfig):
    """The configurations of the three parts."""

    model_type = MODEL_TYPES[0]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
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


class Musicgen(TextToCodes):
    """The model."""

    def __init__(self, config: Config) -> None:
        own = config.decoder
        scale = own.hidden_size**0.5 if own.scale_embedding else 1.0
        super().__init__(
            config, part_of(config.text_encoder, TEXT), part_of(config.audio_encoder, CODEC),
            CodeDecoder(own, CodeStack(own, scale)), (config.text_encoder.d_model, own.hidden_size),
        )  # fmt: skip

    def memory(self, ids: Tensor, most: int, guided: bool, melody: Tensor | None = None) -> CachedMemory:
        """What the decoder remembers of a text (1, S), and of no text beside it if it is `guided`, for at most so many
        moments. OptionError for a melody, which the model does not follow.
        """
        if melody is not None:
            raise OptionError(
                "the model follows no melody", where="melody", hint="Choose such as facebook/musicgen-melody"
            )
        encoded = self.encode(ids)  # (1, S, D)
        encoded = ops.cat([encoded, ops.zeros_like(encoded)]) if guided else encoded
        return CachedMemory(encoded, None, 1, min(most, self.most))


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-audio": Musicgen}
