"""Kyutai's speech to text (Zeghidour et al. 2025, arXiv 2509.08753): Mimi makes codes of sound, and a decoder of
Mistral's form reads those of a moment with each token that it writes, some moments after they were said.

The parts are other architectures. Parameters have the names of those, and of Hugging Face's files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.audio.processors.samples import DelayedSampleProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Embedding
from pyapp.nn.audio.synchronous import SynchronousModel

from .loading.architectures import architecture
from .loading.config import object_of, require, stated
from .loading.sound_parts import MOST_CODEBOOKS, codec_of, module_of_part
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("kyutai_speech_to_text",)
BASE = ""
IGNORED = r"codec_model\.quantizer\..*\.codebook\.initialized|.*audio_tokens_offsets"
PROCESSOR = DelayedSampleProcessor
LANGUAGE = "mistral"  # the architecture of the decoder
MOST_ENTRIES = 1 << 16
USUAL = {
    "vocab_size": 4001, "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "ffn_dim": 11264,
    "max_position_embeddings": 750, "rms_norm_eps": 1e-8, "sliding_window": 375,
}  # fmt: skip
NAMES = (
    (r"^model\.embed_tokens\.embed_tokens\.", "language_model.model.embed_tokens."),
    (r"^model\.", "language_model.model."), (r"^lm_head\.", "language_model.lm_head."),
    (r"_proj\.linear\.weight$", "_proj.weight"), (r"^(language_model\..*)\.mlp\.fc2\.", r"\1.mlp.down_proj."),
)  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        name = re.sub(old, new, name)
    return name


@dataclass(frozen=True)
class Config:
    """The configurations of the decoder and of the codec, and `values`, the whole object of the config.json."""

    text_config: Any
    codec: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known or do not fit."""
        told = USUAL | {key: value for key, value in values.items() if value is not None}
        inner = told["ffn_dim"]
        require(
            type(inner) is int and inner > 0 and inner % 2 == 0, f"ffn_dim is {inner!r:.60}, expected an even number"
        )
        told |= {"num_key_value_heads": values.get("num_key_value_heads") or told["num_attention_heads"]}
        language = architecture(LANGUAGE).Config
        text = language.from_dict(
            told | {"model_type": LANGUAGE, "intermediate_size": inner // 2, "tie_word_embeddings": False}
        )
        found = cls(text, codec_of(object_of(values, "codec_config")), dict(values))
        found.check()
        return found

    def check(self) -> None:
        """ModelError for values that cannot be."""
        books, entries, most = self.num_codebooks, self.entries, getattr(self.codec, "num_quantizers", 0)
        require(type(books) is int and 1 <= books <= MOST_CODEBOOKS, f"num_codebooks is {books!r:.60}")
        require(books <= most, f"num_codebooks is {books}, the codec has {most}")
        plausible = type(entries) is int and self.codec.codebook_size <= entries <= MOST_ENTRIES
        require(plausible, f"codebook_vocab_size is {entries!r:.60}, the codec has {self.codec.codebook_size} entries")
        require(self.values.get("tie_word_embeddings") is not True, "tie_word_embeddings is true, expected a head")
        for name, number, end in (("audio_bos_token_id", self.empty, entries), ("bos_token_id", self.start, self.rows)):
            plausible = type(number) is int and 0 <= number < end
            require(plausible, f"{name} is {number!r:.60}, expected a number below {end:,}")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0]}

    num_codebooks = stated("num_codebooks", 32)  # the codes of a moment
    entries = stated("codebook_vocab_size", 2049)  # the numbers of a code, and those that stand for none
    empty = stated("audio_bos_token_id", 2048)  # the code of each codebook before the recording
    start = stated("bos_token_id", 48000)  # the token before what is written

    @property
    def rows(self) -> int:
        """The rows of the table of vectors: those of tokens, of each codebook's codes, and of one for nothing."""
        return self.vocab_size + self.num_codebooks * self.entries + 1

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        found: int = self.text_config.vocab_size
        return found

    @property
    def max_seq_len(self) -> int:
        """The moments for which the decoder has positions."""
        found: int = self.text_config.max_seq_len
        return found


class KyutaiSpeechToText(SynchronousModel):
    """The model. Behind the tokens in the table of vectors are the codes of each codebook."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.language_model = architecture(LANGUAGE).TASKS["causal-lm"](config.text_config)
        self.language_model.model.embed_tokens = Embedding(config.rows, config.text_config.hidden_size)
        codec = module_of_part(config.codec)
        self.codec_model = codec.TASKS["audio-codec"](config.codec)

    @property
    def encoder(self) -> KyutaiSpeechToText:
        """What hears, as models of speech name it."""
        return self

    def warm_up(self) -> None:
        """Hears a moment of silence, so that the first recording starts sooner."""
        with no_grad():
            self.heard(ops.zeros(1, 1, self.samples_per_moment, device=self.device))

    @property
    def samples_per_moment(self) -> int:
        """The samples of the codec's codes of one moment."""
        codec = self.config.codec
        found: int = codec.step * codec.stride
        return found

    def prepared(self, processor: Any, samples: Any) -> Tensor:
        found: Tensor = processor(samples)
        return found

    def settled(self, processor: Any, count: int) -> int:
        return 1 + int(processor.settled(count)) // self.samples_per_moment

    def behind(self, processor: Any) -> int:
        found: int = processor.behind
        return found

    def codes(self, values: Tensor) -> Tensor:
        """Samples values (B, 1, N) at the codec's rate → the codes (B, codebooks, T) of their whole moments."""
        count = values.shape[2] // self.samples_per_moment
        if not count:
            return ops.zeros(values.shape[0], self.config.num_codebooks, 0, dtype="int64", device=values.device)
        whole = values.narrow(2, 0, count * self.samples_per_moment)
        found: Tensor = self.codec_model.encode(whole, self.config.num_codebooks).chunks[0]
        return found

    def heard(self, values: Tensor) -> Tensor:
        """Samples values (B, 1, N) at the codec's rate → (B, T, D): a moment without sound, and those of the recording
        but the last one, after which nothing is written.
        """
        codes, config = self.codes(values), self.config
        batch, books, count = codes.shape
        empty = ops.full((batch, books, 1), config.empty, dtype="int64", device=codes.device)
        codes = ops.cat([empty, codes], 2).narrow(2, 0, max(1, count))
        offsets = ops.arange(books, dtype="int64", device=codes.device) * config.entries + config.vocab_size
        found: Tensor = self.language_model.embedding(codes + offsets.reshape(1, -1, 1)).sum(1)
        return found

    def prompt(self, tokenizer: Any, generation: Mapping[str, Any]) -> list[int]:
        given = generation.get("bos_token_id")
        return [given if type(given) is int and 0 <= given < self.config.rows else self.config.start]


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights: gate and values of a layer in one matrix, and codebooks as Mimi's."""
    codec = module_of_part(config.codec)
    found: dict[str, Stored] = codec.stored(config.codec, tensors)
    for layer in range(config.text_config.num_hidden_layers):
        place = f"language_model.model.layers.{layer}.mlp"
        parts = [f"{place}.gate_proj.weight", f"{place}.up_proj.weight"]
        found |= cut_apart(f"{place}.fc1.weight", parts, config.text_config.intermediate_size)
    return found


TASKS: Mapping[str, Any] = {"speech-recognition": KyutaiSpeechToText}
