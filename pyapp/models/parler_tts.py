"""Parler-TTS (Lyth and King 2024, arXiv 2402.01912; https://github.com/huggingface/parler-tts): speech in a voice that
a text describes. T5 reads the description, and a decoder writes the codes of DAC, of each codebook one moment later
than of the one before it. The words to speak stand before the codes, or beside the description.

The parts that read the description and make sound of codes are other architectures, which config.json names. Parameters
have the names of Hugging Face's files; the codec may be in the form of the library dac.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Embedding, Module
from pyapp.nn.audio.code_decoder import CodeDecoder, CodeStack, TextToCodes
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.positions.sinusoids import cosines_and_sines
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory, FixedPositions, WholeMemory, check_ids

from .loading.config import check_fields, check_heads, object_of, read_config, require, stated
from .loading.sound_parts import CODEC, TEXT, CodesConfig, check_code_decoder, part_config, part_of, stored_codec
from .loading.stored import Stored

MODEL_TYPES = ("parler_tts",)
SPEAKS = "descriptions"  # in pyapp.models.loading.voice
BASE = ""
IGNORED = r"(decoder\.model\.decoder\.)?embed_positions\.weights"  # which the model computes


@dataclass(frozen=True)
class DecoderConfig:
    """The fields of `decoder` in config.json. Its `scale_embedding` changes nothing in Parler-TTS."""

    vocab_size: int = 2049
    max_position_embeddings: int = 2048
    num_hidden_layers: int = 24
    ffn_dim: int = 4096
    num_attention_heads: int = 16
    num_key_value_heads: int | None = None
    num_cross_attention_key_value_heads: int | None = None
    activation_function: str = "gelu"
    hidden_size: int = 1024
    num_codebooks: int = 4
    bos_token_id: int = 2049
    pad_token_id: int = 2048
    eos_token_id: int = 2048
    rope_embeddings: bool = False
    rope_theta: float = 10000.0
    use_fused_lm_heads: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_code_decoder(self)
        heads, width = self.num_attention_heads, self.hidden_size
        for keys in self.key_heads:
            check_heads(width, heads, keys, width // heads, self.max_position_embeddings)
        for name, lacking in (("bos_token_id", 0), ("pad_token_id", 0), ("eos_token_id", 1)):
            number = getattr(self, name)
            require(number <= self.vocab_size - lacking, f"{name} is {number}, above vocab_size {self.vocab_size}")

    @property
    def key_heads(self) -> tuple[int, int]:
        """The heads of keys and values, of the attention to the codes and to the description."""
        own = self.num_key_value_heads or self.num_attention_heads
        return own, self.num_cross_attention_key_value_heads or own


@dataclass(frozen=True)
class Config(CodesConfig):
    """The configurations of the three parts."""

    model_type = MODEL_TYPES[0]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known or do not fit."""
        text, codec = (part_config(values, name) for name in (TEXT, CODEC))
        decoder = read_config(DecoderConfig, object_of(values, "decoder"))
        other = object_of(values, "decoder").get("cross_attention_hidden_size")
        require(
            other is None,
            f"decoder.cross_attention_hidden_size is {other!r:.40}: descriptions of another width than the decoder's "
            "are read through a projection here",
            "Choose a model without it, such as parler-tts/parler-tts-mini-v1",
        )
        books, entries = getattr(codec, "n_codebooks", 0), codec.codebook_size
        require(
            decoder.num_codebooks <= books and decoder.vocab_size >= entries,
            f"the decoder writes {decoder.num_codebooks} codes below {decoder.vocab_size}, the codec has {books} "
            f"codebooks of {entries} entries",
        )
        found = cls(text, codec, decoder, dict(values))
        number = values.get("vocab_size", 1024)
        require(type(number) is int and 0 < number <= 1 << 22, f"vocab_size is {number!r:.60}")
        beside = values.get("prompt_cross_attention", False)
        require(type(beside) is bool, f"prompt_cross_attention is {beside!r:.60}")
        return found

    vocab_size = stated("vocab_size", 1024)  # the tokens of the words to speak
    # Whether the words to speak stand beside the description, and not before the codes.
    beside = stated("prompt_cross_attention", False)

    @property
    def num_speakers(self) -> int:
        """One voice, which the description makes."""
        return 1


class ParlerTts(TextToCodes):
    """The model. The source is a description, the prompt the words to speak."""

    def __init__(self, config: Config) -> None:
        own = config.decoder
        turns = {"rope_theta": own.rope_theta, "head_dim": own.hidden_size // own.num_attention_heads}
        stack = CodeStack(own, rotary=RotaryTable(turns) if own.rope_embeddings else None, key_heads=own.key_heads)
        super().__init__(
            config, part_of(config.text_encoder, TEXT), part_of(config.audio_encoder, CODEC),
            CodeDecoder(own, stack, own.use_fused_lm_heads), (config.text_encoder.d_model, own.hidden_size),
        )  # fmt: skip
        self.embed_prompts = Embedding(config.vocab_size, own.hidden_size)
        table = partial(cosines_and_sines, own.max_position_embeddings, own.hidden_size)
        self.embed_positions = FixedPositions(table) if config.beside else None

    def prompt(self, ids: Tensor) -> Tensor:
        """The words (B, P) to speak → (B, P, D)."""
        x = self.embed_prompts(ids)
        if self.embed_positions is None:
            return x
        return x + self.embed_positions(ops.arange(ids.shape[1], dtype="int32", device=ids.device))

    def forward(
        self, ids: Tensor, tokens: Tensor, attention_mask: Tensor | None = None, token_mask: Tensor | None = None,
        prompt: Tensor | None = None, prompt_mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Descriptions ids (B, S), codes tokens (B * codebooks, T), words to speak prompt (B, P) → logits
        (B * codebooks, T, V). The masks, (B, S), (B, T) and (B, P), are 0 for padding. ArgumentError without a prompt.
        """
        self.check_source(ids, attention_mask)
        if prompt is None:
            raise ArgumentError("ParlerTts: there is no prompt, the words to speak")
        check_ids(self, prompt, prompt_mask)
        self.check(tokens, None)
        encoded, words = self.encode(ids, attention_mask), self.prompt(prompt)
        x = self.decoder.embed(tokens)  # (B, T, D)
        before = 0 if self.config.beside else words.shape[1]
        if self.config.beside:
            encoded, source_mask = ops.cat([encoded, words], 1), _joined(attention_mask, ids, prompt_mask, prompt)
            mask = token_mask
        else:
            source_mask, mask = attention_mask, _joined(prompt_mask, prompt, token_mask, x)
            x = ops.cat([words, x], 1)
        x = self.decoder.model.decoder(x, WholeMemory(encoded, source_mask, x.shape[1], mask))
        return self.decoder.scores(x.narrow(1, before, x.shape[1] - before))

    def memory(self, ids: Tensor, prompt: Tensor, most: int) -> CachedMemory:
        """What the decoder remembers of a description (1, S) and the words (1, P) to speak, for at most so many
        moments.
        """
        encoded, words = self.encode(ids), self.prompt(prompt)
        if self.config.beside:
            return CachedMemory(ops.cat([encoded, words], 1), None, 1, min(most, self.most))
        count = words.shape[1]
        memory = CachedMemory(encoded, None, 1, min(count + most, self.most), count)
        self.decoder.model.decoder(words, memory)
        memory.advance(tokens=count)
        return memory


def _joined(first: Tensor | None, of_first: Tensor, second: Tensor | None, of_second: Tensor) -> Tensor | None:
    """The mask (B, A + B) of two parts (B, A …) and (B, B …) side by side; None: neither has padding."""
    if first is None and second is None:
        return None
    parts = (
        ops.ones(*part.shape[:2], dtype="int64", device=part.device) if mask is None else mask.to("int64")
        for mask, part in ((first, of_first), (second, of_second))
    )
    return ops.cat(list(parts), 1)


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return stored_codec(config.audio_encoder, tensors)


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": ParlerTts}
