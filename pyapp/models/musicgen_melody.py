"""MusicGen that follows a melody (Copet et al. 2023, arXiv 2306.05284): the note that is loudest in each moment of a
recording, and the text, which T5 reads, stand before the codes that the decoder writes.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError, OptionError
from pyapp.nn import Linear, Module
from pyapp.nn.audio.code_decoder import CodeDecoder, CodeStack, TextToCodes
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory, WholeMemory

from .loading import musicgen_config
from .loading.config import require, stated
from .loading.sound_parts import CODEC, TEXT, part_of

MODEL_TYPES = ("musicgen_melody",)
BASE = ""
IGNORED, stored = musicgen_config.IGNORED, musicgen_config.stored
LIMITS = {"num_chroma": (12, 256), "chroma_length": (235, 1 << 16)}  # usual and largest values


@dataclass(frozen=True)
class Config(musicgen_config.MusicgenConfig):
    """The configurations of the three parts, and the sizes of melodies."""

    model_type = MODEL_TYPES[0]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        found = super().from_dict(values)
        for name, (usual, most) in LIMITS.items():
            value = values.get(name, usual)
            require(type(value) is int and 1 <= value <= most, f"{name} is {value!r:.60}, expected 1 to {most:,}")
        return found

    notes = stated("num_chroma", LIMITS["num_chroma"][0])  # notes of a melody, from C on: 12
    # Moments of a melody before the text. Shorter ones are repeated, longer ones cut.
    melody_length = stated("chroma_length", LIMITS["chroma_length"][0])


class MusicgenMelody(TextToCodes):
    """The model."""

    def __init__(self, config: Config) -> None:
        own = config.decoder
        super().__init__(
            config, part_of(config.text_encoder, TEXT), part_of(config.audio_encoder, CODEC),
            CodeDecoder(own, CodeStack(own, attends=False)), (config.text_encoder.d_model, own.hidden_size),
        )  # fmt: skip
        self.audio_enc_to_dec_proj = None if config.notes == own.hidden_size else Linear(config.notes, own.hidden_size)

    def melody_before(self, melody: Tensor | None, like: Tensor) -> Tensor:
        """A melody (B, M, notes), whose largest value is the note of a moment, or the first note for as many texts as
        in `like` → the vectors (B, melody_length, D).
        """
        count, length = self.config.notes, self.config.melody_length
        if melody is None:
            first = ops.zeros(like.shape[0], 1, dtype="int64", device=like.device)
            melody = ops.one_hot(first, count).to(like.dtype)
        if melody.ndim != 3 or melody.shape[0] != like.shape[0] or melody.shape[2] != count or not melody.shape[1]:
            raise ArgumentError(f"MusicgenMelody: a melody is (B, M, {count}), not {describe(melody)}")
        x = melody if self.audio_enc_to_dec_proj is None else self.audio_enc_to_dec_proj(melody)
        times = -(-length // x.shape[1])
        return (ops.cat([x] * times, 1) if times > 1 else x).narrow(1, 0, length)

    def forward(
        self, ids: Tensor, tokens: Tensor, attention_mask: Tensor | None = None, token_mask: Tensor | None = None,
        melody: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Texts ids (B, S), codes tokens (B * codebooks, T), melodies (B, M, notes) → logits (B * codebooks, T, V). The
        masks (B, S) and (B, T) are 0 for padding, which is read as zeros before the codes.
        """
        self.check_source(ids, attention_mask)
        self.check(tokens, None)
        encoded = self.encode(ids, attention_mask)
        before = ops.cat([self.melody_before(melody, encoded), encoded], 1)
        x = ops.cat([before, self.decoder.embed(tokens)], 1)
        mask, start = token_mask, before.shape[1]
        if mask is not None:
            mask = ops.cat([ops.ones(*before.shape[:2], dtype=mask.dtype, device=mask.device), mask], 1)
        x = self.decoder.model.decoder(x, WholeMemory(before, None, x.shape[1], mask))
        return self.decoder.scores(x.narrow(1, start, x.shape[1] - start))

    def memory(self, ids: Tensor, most: int, guided: bool, melody: Tensor | None = None) -> CachedMemory:
        """What the decoder remembers of a text (1, S) and a melody (1, M, notes), and of neither beside them if it is
        `guided`, for at most so many moments. OptionError for a text that leaves no room for them.
        """
        encoded = self.encode(ids)
        before = ops.cat([self.melody_before(melody, encoded), encoded], 1)
        if guided:
            nothing = ops.cat([self.melody_before(None, encoded), ops.zeros_like(encoded)], 1)
            before = ops.cat([before, nothing])
        count = before.shape[1]
        if count >= self.most:
            raise OptionError(f"it has {ids.shape[1]:,} tokens, too many for the model", where="text")
        memory = CachedMemory(before, None, 1, min(count + most, self.most), count)
        self.decoder.model.decoder(before, memory)
        memory.advance(tokens=count)
        return memory


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-audio": MusicgenMelody}
