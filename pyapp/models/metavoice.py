"""MetaVoice (2024, https://github.com/metavoiceio/metavoice-src): a decoder writes the codes of EnCodec's first two
codebooks, one after the other, in the voice of a vector; a second network adds those of the other six at once.

Its files have no config.json: `described` reads the sizes from their tensors. Parameters have the names of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList, ResidualLinear
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text
from pyapp.nn.encoders.encoders import attend_joined
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.normalization import RMSNorm

from .loading.config import LIMITS, check_fields, check_heads, read_config, require

MODEL_TYPES = ("metavoice",)
HEADS, FINER_HEADS = 16, 6  # of the published networks, which no file says


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes of both networks; those of the second begin with finer. finer_speaker: whether it reads the voice."""

    vocab_size: int = 2562
    hidden_size: int = 2048
    intermediate_size: int = 5632
    num_hidden_layers: int = 24
    num_attention_heads: int = HEADS
    max_position_embeddings: int = 2048
    speaker_size: int = 256
    finer_vocab_sizes: tuple[int, ...] = (1538, 1025)
    finer_targets: tuple[int, ...] = (1025,) * 6
    finer_size: int = 384
    finer_layers: int = 6
    finer_heads: int = FINER_HEADS
    finer_positions: int = 1024
    finer_speaker: bool = True
    rms_norm_eps: float = 1e-5
    num_speakers: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        for width, heads, most in (
            (self.hidden_size, self.num_attention_heads, self.max_position_embeddings),
            (self.finer_size, self.finer_heads, self.finer_positions),
        ):
            require(width % heads == 0, f"{heads} heads do not divide {width}")
            check_heads(width, heads, heads, width // heads, most)
        require(max(self.num_hidden_layers, self.finer_layers) <= LIMITS["num_hidden_layers"], "there are many layers")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From JSON values; other keys are ignored."""
        return read_config(
            cls, {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"model_type": MODEL_TYPES[0], **found}

    # What a CausalLanguageModel asks for.
    tie_word_embeddings = False

    @property
    def max_seq_len(self) -> int:
        return self.max_position_embeddings

    @property
    def num_key_value_heads(self) -> int:
        return self.num_attention_heads

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads


def _layers(names: Mapping[str, Any], before: str) -> int:
    """How many layers a list has."""
    return 1 + max(int(name.removeprefix(before).partition(".")[0]) for name in names if name.startswith(before))


def described(first: Mapping[str, TensorInfo], second: Mapping[str, TensorInfo], where: str) -> dict[str, Any]:
    """The fields of the configuration that the tensors of both files say. ModelError for those of another model."""
    try:
        words, size = first["tok_embeddings.weight"].shape
        tables = [f"transformer.wtes.{i}.weight" for i in range(_layers(second, "transformer.wtes."))]
        heads = [f"lm_heads.{i}.weight" for i in range(_layers(second, "lm_heads."))]
        return {
            "vocab_size": words, "hidden_size": size, "num_hidden_layers": _layers(first, "layers."),
            "intermediate_size": first["layers.0.feed_forward.swiglu.w1.weight"].shape[0],
            "max_position_embeddings": first["pos_embeddings.weight"].shape[0],
            "speaker_size": first["speaker_cond_pos.weight"].shape[1],
            "finer_vocab_sizes": [second[name].shape[0] for name in tables],
            "finer_targets": [second[name].shape[0] for name in heads],
            "finer_size": second[tables[0]].shape[1], "finer_layers": _layers(second, "transformer.h."),
            "finer_positions": second["transformer.wpe.weight"].shape[0],
            "finer_speaker": "speaker_cond_pos.weight" in second,
        }  # fmt: skip
    except (KeyError, IndexError, ValueError) as error:
        raise ModelError("its tensors are not those of MetaVoice", where=where) from error


class Attention(SelfAttention):
    """Self-attention from one projection of queries, keys and values."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(layer, Heads(config.num_attention_heads, config.num_attention_heads, config.head_dim), None)
        self.wqkv = Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.wo = ResidualLinear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, D) → residual + attention (..., T, D)."""
        return self.wo(self.attend(self.wqkv(x), text), residual)


class GatedLayers(Module):
    """Gated feed-forward layers under the files' names."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.swiglu = Module()
        self.swiglu.w1, self.swiglu.w3 = (Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = ResidualLinear(inner, width, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., D) → residual + feed-forward (..., D)."""
        return self.w2(ops.silu(self.swiglu.w1(x)) * self.swiglu.w3(x), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.attention, self.attention_norm = Attention(config, layer), RMSNorm(size, epsilon)
        self.feed_forward, self.ffn_norm = GatedLayers(size, config.intermediate_size), RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, D) → (..., T, D)."""
        x = self.attention(self.attention_norm(x), text, x)
        return self.feed_forward(self.ffn_norm(x), x)


class WriterStack(DecoderStack):
    """The decoder, whose tokens get the vectors of their places and `voice`, (B, 1, D) or None: of no voice."""

    tokens = "tok_embeddings"

    def __init__(self, config: Config) -> None:
        size, layers = config.hidden_size, range(config.num_hidden_layers)
        blocks = (Block(config, layer) for layer in layers)
        super().__init__(config.vocab_size, size, blocks, RMSNorm(size, config.rms_norm_eps))
        self.pos_embeddings = Embedding(config.max_position_embeddings, size)
        self.speaker_cond_pos = Linear(config.speaker_size, size, bias=False)
        self.voice: Tensor | None = None

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.embedding(tokens) + self.pos_embeddings(text.positions(tokens))
        return x if self.voice is None else x + self.voice


class Writer(CausalLanguageModel):
    """The first network: text and codes to codes of two codebooks by turns."""

    head_name = "output"

    def __init__(self, config: Config) -> None:
        super().__init__(config, WriterStack(config))

    def speak_as(self, vectors: Tensor | None) -> None:
        """The voices of the texts of a batch: vectors (B, speaker_size), of which zeros are no voice."""
        stack: Any = self.stack
        stack.voice = None if vectors is None else stack.speaker_cond_pos(vectors).unsqueeze(1)


class WholeAttention(Module):
    """Attention of all places to each other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = Linear(width, 3 * width, bias=False), ResidualLinear(width, width, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, D) → residual + attention (B, T, D)."""
        return self.c_proj(attend_joined(self.c_attn(x), self.heads, None), residual)


class FinerBlock(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = (LayerNorm(width, bias=False) for _ in range(2))
        self.attn = WholeAttention(width, heads)
        self.mlp = FeedForward(width, 4 * width, "gelu", bias=False, names=("c_fc", "c_proj"))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attn(self.ln_1(x), x)
        return self.mlp(self.ln_2(x), x)


class Finer(Module):
    """The second network: codes of two codebooks to scores of those of the others."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.finer_size
        self.transformer = Module()
        self.transformer.wtes = ModuleList(Embedding(words, width) for words in config.finer_vocab_sizes)
        self.transformer.wpe = Embedding(config.finer_positions, width)
        self.transformer.h = ModuleList(FinerBlock(width, config.finer_heads) for _ in range(config.finer_layers))
        self.transformer.ln_f = LayerNorm(width, bias=False)
        self.speaker_cond_pos = Linear(config.speaker_size, width, bias=False) if config.finer_speaker else None
        self.lm_heads = ModuleList(Linear(width, words, bias=False) for words in config.finer_targets)

    def forward(self, codes: Tensor, vectors: Tensor | None = None) -> list[Tensor]:
        """codes (B, books, T) integers in the voice of vectors (B, speaker_size) → scores (B, T, V) of each book."""
        places = ops.arange(codes.shape[2], device=codes.device)
        x = self.transformer.wpe(places).unsqueeze(0)
        for i, table in enumerate(self.transformer.wtes):
            x = x + table(codes.select(1, i))
        if vectors is not None and self.speaker_cond_pos is not None:
            x = x + self.speaker_cond_pos(vectors).unsqueeze(1)
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        return [head(x) for head in self.lm_heads]


class MetaVoice(Module):
    """Both networks."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.first, self.second = Writer(config), Finer(config)


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": MetaVoice}
