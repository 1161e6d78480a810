"""CSM, Sesame's conversational speech model (https://github.com/SesameAILabs/csm): a Llama reads texts and the sound of
earlier turns, and writes the first code of each moment; a small Llama writes the other codes of the moment, one
codebook after the other, and Mimi makes sound of them.

The parts are other architectures. Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Embedding, Linear, Module
from pyapp.nn.audio.sound_codes import Codes
from pyapp.nn.decoders.decoder import WholeText
from pyapp.nn.parameter import new_parameter

from .loading.architectures import architecture
from .loading.config import object_of, require, stated
from .loading.sound_parts import codec_of, module_of_part
from .loading.stored import Stored

MODEL_TYPES = ("csm",)
SPEAKS = "frames"  # in pyapp.models.loading.voice
BASE = ""
IGNORED = r"codec_model\.quantizer\..*\.codebook\.initialized|.*audio_tokens_offsets"
MOST_CODEBOOKS, MOST_ENTRIES = 64, 1 << 16
SPEAKERS = 10  # that one digit names
LANGUAGE = "llama"  # the architecture of both decoders
USUAL = {
    "vocab_size": 2051, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
}  # fmt: skip
USUAL_DEPTH = USUAL | {
    "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
    "max_position_embeddings": 33,
}  # fmt: skip
NAMES = (
    (r"backbone_model\.embed_tokens\.embed_audio_tokens\.", "backbone.model.embed_tokens."),
    (r"backbone_model\.", "backbone.model."), (r"lm_head\.", "backbone.lm_head."),
    (r"depth_decoder\.model\.inputs_embeds_projector\.", "projector."), (r"depth_decoder\.codebooks_head\.", ""),
    (r"depth_decoder\.", "depth."),
)  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        if re.match(old, name):
            return "heads" if not new else re.sub(rf"^{old}", new, name)
    return name


@dataclass(frozen=True)
class Config:
    """The configurations of both decoders and of the codec, and `values`, the whole object of the config.json."""

    backbone: Any
    depth: Any
    codec: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known or do not fit."""
        language = architecture(LANGUAGE).Config
        own = {"model_type": LANGUAGE, "tie_word_embeddings": False}
        depth = object_of(values, "depth_decoder_config")
        found = cls(
            language.from_dict(USUAL | {k: v for k, v in values.items() if v is not None} | own),
            language.from_dict(USUAL_DEPTH | {k: v for k, v in depth.items() if v is not None} | own),
            codec_of(object_of(values, "codec_config")), dict(values),
        )  # fmt: skip
        found.check()
        return found

    def check(self) -> None:
        """ModelError for values that cannot be."""
        books, depth = self.num_codebooks, self.depth
        require(type(books) is int and 1 < books <= MOST_CODEBOOKS, f"num_codebooks is {books!r:.60}")
        require(
            books <= getattr(self.codec, "num_quantizers", 0) and self.codec.codebook_size <= self.entries,
            f"it writes {books} codes of {self.entries} numbers, the codec has other codebooks",
        )
        require(self.entries <= MOST_ENTRIES, f"vocab_size is {self.entries:,}")
        own = self.values.get("depth_decoder_config", {})
        widths = own.get("backbone_hidden_size", self.backbone.hidden_size), self.backbone.hidden_size
        require(
            widths[0] == widths[1] and depth.vocab_size == self.entries and own.get("num_codebooks", books) == books,
            "depth_decoder_config does not fit the decoder before it",
        )
        require(depth.max_seq_len > books, f"the small decoder reads {depth.max_seq_len} codes, expected {books + 1}")
        for name, usual in (("text_vocab_size", 128256), ("codebook_eos_token_id", 0)):
            number = self.values.get(name, usual)
            require(type(number) is int and 0 <= number <= 1 << 22, f"{name} is {number!r:.60}")
        require(self.end < self.entries, f"codebook_eos_token_id is {self.end}, of {self.entries} codes")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0]}

    num_codebooks = stated("num_codebooks", 32)  # the codes of a moment

    @property
    def entries(self) -> int:
        """The numbers of a code, and those that stand for none."""
        found: int = self.backbone.vocab_size
        return found

    end = stated("codebook_eos_token_id", 0)  # the code of a moment after the last one
    vocab_size = stated("text_vocab_size", 128256)  # the tokens of texts

    @property
    def num_speakers(self) -> int:
        """How many voices have a number."""
        return SPEAKERS


class Csm(Module):
    """The model. A turn is the tokens of its text, and the codes (codebooks, T) of its sound, if it was spoken."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        language = architecture(LANGUAGE).TASKS["causal-lm"]
        width, books, entries = config.backbone.hidden_size, config.num_codebooks, config.entries
        self.embed_text_tokens = Embedding(config.vocab_size, width)
        self.backbone, self.depth = language(config.backbone), language(config.depth)
        for decoder in (self.backbone, self.depth):
            decoder.model.embed_tokens = Embedding(books * entries, width)
        if config.values.get("tie_codebooks_embeddings", True):
            self.depth.model.embed_tokens.weight = self.backbone.model.embed_tokens.weight
        self.depth.lm_head = None
        self.projector = Linear(width, config.depth.hidden_size, bias=False)
        self.heads = new_parameter(ops.zeros, books - 1, config.depth.hidden_size, entries)
        codec = module_of_part(config.codec)
        self.codec_model = codec.TASKS["audio-codec"](config.codec)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.embed_text_tokens.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.codec_model.sample_rate
        return found

    def _frames(self, codes: Tensor) -> Tensor:
        """codes (T, codebooks) → the vectors of moments (T, D)."""
        offsets = ops.arange(codes.shape[1], dtype="int64", device=codes.device) * self.config.entries
        found: Tensor = self.backbone.model.embed_tokens(codes + offsets).sum(1)
        return found

    def embedded(self, turns: Sequence[tuple[Sequence[int], Tensor | None]]) -> Tensor:
        """The vectors (T, D) of turns, one after the other; after the sound of one is the moment that ends it."""
        found = []
        for ids, codes in turns:
            found.append(self.embed_text_tokens(ops.tensor(list(ids), dtype="int64", device=self.device)))
            if codes is not None:
                found.append(self._frames(codes.transpose(0, 1).to("int64")))
                ends = [[self.config.end] * self.config.num_codebooks]
                found.append(self._frames(ops.tensor(ends, dtype="int64", device=self.device)))
        return ops.cat(found)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, D), the vectors of turns → the states (B, T, D), and the logits (B, T, entries) of first codes."""
        x = self.backbone.stack(x, WholeText(x.shape[1], None), x)
        return self.backbone.stack.normalized(x), self.backbone.head(x)

    def other_codes(self, states: Tensor, codes: Tensor) -> Tensor:
        """states (B, D) of moments, codes (B, C): the first of each → logits (B, C, entries) of those after them."""
        count = codes.shape[1]
        offsets = ops.arange(count, dtype="int64", device=codes.device) * self.config.entries
        x = ops.cat([states.unsqueeze(1), self.depth.model.embed_tokens(codes + offsets)], 1)  # (B, 1 + C, D)
        x = self.projector(x)
        x = self.depth.stack.normalized(self.depth.stack(x, WholeText(count + 1, None), x))  # (B, 1 + C, W)
        return ops.cat([x.narrow(1, i + 1, 1) @ self.heads[i] for i in range(count)], 1)

    def writer(self, turns: Sequence[tuple[Sequence[int], Tensor | None]], moments: int) -> CodeWriter:
        """What writes the codes of up to so many moments after the turns."""
        return CodeWriter(self, turns, moments)

    def sound(self, codes: Tensor) -> Tensor:
        """codes (B, codebooks, T) → samples (B, 1, N)."""
        found: Tensor = self.codec_model.decode(Codes((codes,), (None,)))
        return found


class CodeWriter:
    """Writes the codes of moments after `turns`, with caches for `moments` moments."""

    def __init__(self, model: Csm, turns: Sequence[tuple[Sequence[int], Tensor | None]], moments: int) -> None:
        self.model, self._x = model, model.embedded(turns)
        self._place, self.room = 0, model.config.backbone.max_seq_len - self._x.shape[0]
        capacity = self._x.shape[0] + min(moments, max(self.room, 1))
        self._cache = model.backbone.new_cache(capacity)
        self._depth = model.depth.new_cache(model.config.num_codebooks + 1)

    def _read(self, decoder: Any, cache: Any, x: Tensor, place: int) -> Tensor:
        """x (T, D) at `place` … → the normalised state (1, D) of the last."""
        position = ops.tensor([place], dtype="int32", device=x.device)
        x = decoder.stack(x, decoder.cached_text(position, cache), x)
        found: Tensor = decoder.stack.normalized(x.narrow(0, x.shape[0] - 1, 1))
        return found

    def write(self, choose: Callable[[Tensor], int]) -> list[int]:
        """The codes of the next moment: `choose` takes each from logits (entries,)."""
        model, entries = self.model, self.model.config.entries
        state = self._read(model.backbone, self._cache, self._x, self._place)  # (1, D)
        self._place += self._x.shape[0]
        codes = [choose(model.backbone.lm_head(state).reshape(-1))]
        self._read(model.depth, self._depth, model.projector(state), 0)
        for place in range(1, model.config.num_codebooks):
            code = ops.tensor([codes[-1] + (place - 1) * entries], dtype="int64", device=model.device)
            x = model.projector(model.depth.model.embed_tokens(code))
            x = self._read(model.depth, self._depth, x, place)  # (1, W)
            codes.append(choose((x @ model.heads[place - 1]).reshape(-1)))
        self._x = model._frames(ops.tensor([codes], dtype="int64", device=model.device))
        return codes


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    codec = module_of_part(config.codec)
    found: dict[str, Stored] = codec.stored(config.codec, tensors)
    return found


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": Csm}
