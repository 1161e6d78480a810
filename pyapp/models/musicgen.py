"""MusicGen (Copet et al. 2023, arXiv 2306.05284): music of a text. T5 reads the text, and a decoder writes the codes of
EnCodec, of each codebook one moment later than of the one before it.

The parts that read the text and make sound of codes are other architectures, which config.json names. Parameters have
the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import OptionError
from pyapp.nn import Module
from pyapp.nn.audio.code_decoder import CodeDecoder, CodeStack, TextToCodes
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory

from .loading import musicgen_config
from .loading.sound_parts import CODEC, TEXT, part_of

MODEL_TYPES = ("musicgen",)
BASE = ""
IGNORED, stored = musicgen_config.IGNORED, musicgen_config.stored


@dataclass(frozen=True)
class Config(musicgen_config.MusicgenConfig):
    """The configurations of the three parts."""

    model_type = MODEL_TYPES[0]


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


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-audio": Musicgen}
