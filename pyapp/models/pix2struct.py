"""Pix2Struct (Lee et al. 2022, arXiv 2210.03347), MatCha and DePlot: a Vision Transformer for pictures of any shape,
whose patches have embeddings of rows and columns, and T5's decoder, which writes what screens, pages and charts say.
Questions stand in the picture.

Parameters have the names of Hugging Face's files, but for those of the decoder, which are T5's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Embedding, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.encoders.encoders import Words, attend
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence
from pyapp.nn.sequence_to_sequence.t5 import MOST, GatedDense, decoder_stack
from pyapp.nn.vision.vision import check_pictures

from .loading.config import check_depth, check_fields, optional_object, read_config, require
from .loading.t5_config import T5Config

MODEL_TYPES = ("pix2struct",)
IMAGE_PROCESSOR = "Pix2Struct"  # of files that name none
BASE = ""
CHANNELS = 3
LARGEST = 1 << 16
# What config.json leaves out of text_config.
TEXT = {
    "vocab_size": 50244, "hidden_size": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12, "num_heads": 12,
    "dense_act_fn": "gelu_new",
}  # fmt: skip
# Of the decoder's parts: the names in files, and those of T5.
_LAYERS = {
    "self_attention": ("0", "SelfAttention"), "encoder_decoder_attention": ("1", "EncDecAttention"), "mlp": ("2", ""),
}  # fmt: skip
_PARTS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_LAYER = re.compile(r"decoder\.layer\.(\d+)\.(\w+)\.(attention\.)?(.+)")


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    found = _LAYER.fullmatch(name)
    if found is None:
        return name.removeprefix("decoder.") if name.startswith("decoder.lm_head.") else name
    number, (layer, kind) = found[1], _LAYERS[found[2]]
    part, rest = found[4].partition(".")[::2]
    own = f"{kind}.{_PARTS.get(part, part)}" if found[3] else part
    return f"decoder.block.{number}.layer.{layer}.{own}.{rest}"


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """The fields of vision_config. seq_len: rows, and columns, that have embeddings."""

    hidden_size: int = 768
    patch_embed_hidden_size: int = 768
    d_ff: int = 2048
    d_kv: int = 64
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    dense_act_fn: str = "gelu_new"
    layer_norm_eps: float = 1e-6
    seq_len: int = 4096

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_hidden_layers)
        for name in ("hidden_size", "d_ff", "d_kv", "num_attention_heads", "seq_len"):
            require(getattr(self, name) <= LARGEST, f"{name} is {getattr(self, name):,}, expected at most {LARGEST:,}")
        numbers = self.patch_embed_hidden_size
        require(CHANNELS * isqrt(numbers // CHANNELS) ** 2 == numbers <= LARGEST,
                f"patch_embed_hidden_size is {numbers:,}, expected {CHANNELS} times a square")  # fmt: skip

    @property
    def patch(self) -> int:
        """The pixels of a patch's side."""
        return isqrt(self.patch_embed_hidden_size // CHANNELS)

    @property
    def d_model(self) -> int:
        """The name of hidden_size in T5."""
        return self.hidden_size

    @property
    def activation(self) -> str:
        """The name of dense_act_fn in T5."""
        return self.dense_act_fn


@dataclass(frozen=True)
class Config:
    """The configurations of both parts, and `values`, the whole object of the config.json."""

    vision: VisionConfig
    text: T5Config
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        vision, text = optional_object(values, "vision_config"), {**TEXT, **optional_object(values, "text_config")}
        tied = values.get("tie_word_embeddings", False)
        forced = {
            "model_type": "t5", "d_model": text.get("hidden_size"), "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": tied, "scale_decoder_outputs": False, "is_gated_act": True,
        }  # fmt: skip
        read = T5Config.from_dict({**text, **forced})
        inner = read.num_heads * read.d_kv
        require(inner == read.d_model, f"{read.num_heads} heads of {read.d_kv} numbers, hidden_size {read.d_model}")
        found = read_config(VisionConfig, vision)
        require(found.hidden_size == read.d_model,
                f"hidden_size of vision_config is {found.hidden_size}, of text_config {read.d_model}")  # fmt: skip
        return cls(found, read, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return dict(self.values)

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        return self.text.vocab_size


class Attention(Module):
    """Attention without a scale and without biases."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        inner = self.heads * config.d_kv
        self.query, self.key, self.value = (Linear(width, inner, bias=False) for _ in range(3))
        self.output = ResidualLinear(inner, width, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, D) → (B, T, D)."""
        q, k, v = (layer(x).reshape(*x.shape[:2], self.heads, -1) for layer in (self.query, self.key, self.value))
        return self.output(attend(q, k, v, None, 1.0), residual)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(config), GatedDense(config)
        self.pre_attention_layer_norm, self.pre_mlp_layer_norm = (
            RMSNorm(config.hidden_size, config.layer_norm_eps) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(self.pre_attention_layer_norm(x), x)
        return self.mlp(self.pre_mlp_layer_norm(x), x)


class Patches(Module):
    """Patches, with embeddings of their rows and columns, which count from 1."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.patch = config.patch
        self.patch_projection = Linear(config.patch_embed_hidden_size, config.hidden_size)
        self.row_embedder, self.column_embedder = (Embedding(config.seq_len, config.hidden_size) for _ in range(2))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, rows * columns, D)."""
        count, channels, high, wide = pixel_values.shape
        side = self.patch
        rows, columns = high // side, wide // side
        x = pixel_values.reshape(count, channels, rows, side, columns, side).permute(0, 2, 4, 3, 5, 1)
        x = self.patch_projection(x.reshape(count, rows, columns, side * side * channels))
        down, along = (ops.arange(1, n + 1, dtype="int32", device=x.device) for n in (rows, columns))
        x = x + self.row_embedder(down).unsqueeze(1) + self.column_embedder(along)
        return x.reshape(count, rows * columns, x.shape[3])


class VisionEncoder(Module):
    """The Vision Transformer."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.embeddings = Patches(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.layernorm = RMSNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, rows * columns, D)."""
        x = self.embeddings(pixel_values)
        for layer in self.encoder.layer:
            x = layer(x)
        return self.layernorm(x)


class Pix2Struct(SequenceToSequence):
    """Pictures to texts."""

    pixels = None  # any multiples of a patch

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, MOST
        text = config.text
        self.encoder = VisionEncoder(config.vision)
        self.decoder = decoder_stack(text, Embedding(text.vocab_size, text.d_model))
        table = self.decoder.embed_tokens if text.tie_word_embeddings else None
        self.lm_head = Words(text.d_model, text.vocab_size, table, bias=False)

    @property
    def device(self) -> Device:
        found: Device = self.decoder.embed_tokens.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Pictures (B, C, H, W) → hidden states (B, S, D)."""
        return self.encoder(ids)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.lm_head(self.decoder.decode(tokens, memory))

    def check(self, ids: Tensor, mask: Tensor | None) -> None:
        """As SequenceToSequence.check, of texts and of pictures."""
        if not ids.dtype.is_floating_point:
            super().check(ids, mask)
            return
        side, most = self.config.vision.patch, self.config.vision.seq_len - 1
        check_pictures("Pix2Struct", ids, CHANNELS, least=side)
        if any(n % side or n // side > most for n in ids.shape[2:]):
            raise InputError(f"Pix2Struct: sides are multiples of {side} up to {side * most:,}, not {describe(ids)}")


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-to-text": Pix2Struct}
