"""Granite Speech (Saon et al. 2025, arXiv 2505.08699): a Conformer hears blocks of moments, a Q-Former makes three
vectors of each fifteen of them, and these stand before a Granite, which writes what was said or answers questions. An
adapter beside the weights changes the Granite for that (models/loading/sound.py). Granite Speech Plus reads what
several layers of the Conformer give, side by side.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pyapp.audio.processors.spectrograms import PairedSpectrogramProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import BatchNorm1d, Conv1d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.sound_text import SoundTextModel
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.parameter import new_parameter
from pyapp.nn.positions.relative_positions import by_distance
from pyapp.nn.vision_language.query_former import query_layers

from .loading import picture_text, sound_text
from .loading.config import check_fields, optional_object, read_config, require, stated
from .loading.picture_text import MixedTextConfig
from .loading.query_config import QueryConfig

MODEL_TYPES = ("granite_speech", "granite_speech_plus")
BASE = ""
PROCESSOR = PairedSpectrogramProcessor
WIDEST = 1 << 16  # numbers of a vector
TASK = "can you transcribe the speech into a written format?"  # as in training
TURNS = (
    "<|start_of_role|>system<|end_of_role|>You are Granite, developed by IBM. You are a helpful AI assistant"
    "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>{}<|end_of_text|>\n"
    "<|start_of_role|>assistant<|end_of_role|>"
)  # where the files have no chat template


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The fields of encoder_config. cat_hidden_layers: after how many layers the states are read besides the last ones
    (0: those before the first layer).
    """

    input_dim: int = 160
    num_layers: int = 10
    hidden_dim: int = 1024
    feedforward_mult: int = 4
    num_heads: int = 8
    dim_head: int | None = None  # None: hidden_dim / num_heads
    output_dim: int = 42
    context_size: int = 200
    max_pos_emb: int = 512
    conv_kernel_size: int = 15
    conv_expansion_factor: int = 2
    cat_hidden_layers: list[int] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name, most in (
            ("input_dim", WIDEST), ("hidden_dim", WIDEST), ("output_dim", WIDEST), ("num_layers", 1 << 10),
            ("feedforward_mult", 64), ("conv_expansion_factor", 64), ("conv_kernel_size", 1 << 10),
            ("max_pos_emb", 1 << 16), ("num_heads", 1 << 12),
        ):  # fmt: skip
            given = getattr(self, name)
            require(given <= most, f"{name} is {given:,}, expected at most {most:,}")
        require(self.size <= WIDEST and self.size >= 1, f"heads of {self.size:,} numbers")
        require(
            self.context_size <= self.max_pos_emb,
            f"context_size is {self.context_size:,}, max_pos_emb {self.max_pos_emb:,}",
        )
        given, most = self.joined, self.num_layers
        require(
            all(type(layer) is int and 0 <= layer < most for layer in given) and len({*given}) == len(given),
            f"cat_hidden_layers is {given!r:.60}, expected numbers below the {most} layers",
        )

    @property
    def joined(self) -> list[int]:
        """After how many layers the states are read besides the last ones, in order."""
        return sorted(self.cat_hidden_layers or [])

    @property
    def width(self) -> int:
        """The numbers of a vector that the projector reads."""
        return self.hidden_dim * (len(self.joined) + 1)

    @property
    def size(self) -> int:
        """The numbers of a head."""
        return self.hidden_dim // self.num_heads if self.dim_head is None else self.dim_head


@dataclass(frozen=True)
class Config(MixedTextConfig):
    """The configurations of all parts."""

    model_type = MODEL_TYPES[0]
    text = "granite"
    token = ("audio_token_index", 49155)

    encoder: EncoderConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        if "audio_token_index" not in values and "audio_token_id" in values:
            values = {**values, "audio_token_index": values["audio_token_id"]}
        text, encoder = cls.parts({"tie_word_embeddings": True, **values}, "encoder_config")
        made = cls(text, dict(values), read_config(EncoderConfig, encoder))
        made.check()
        return made

    def check(self) -> None:
        super().check()
        for name, usual in (("window_size", 15), ("downsample_rate", 5)):
            given = self.values.get(name, usual)
            plausible = type(given) is int and 1 <= given <= 1 << 12
            require(plausible, f"{name} is {given!r:.60}, expected a whole number up to 4,096")
        window, rate = self.window, self.values.get("downsample_rate", 5)
        require(window % rate == 0, f"downsample_rate {rate} does not divide window_size {window}")
        told = optional_object(self.values, "projector_config")
        kind, width = told.get("model_type", "blip_2_qformer"), told.get("encoder_hidden_size", self.encoder.width)
        require(kind == "blip_2_qformer", f"the projector {kind!r:.60} is not known", "Known: blip_2_qformer")
        require(
            width == self.encoder.width,
            f"encoder_hidden_size is {width!r:.60}, the encoder makes vectors of {self.encoder.width}",
        )
        assert self.queries

    @property
    def queries(self) -> QueryConfig:
        """The configuration of what asks."""
        found: QueryConfig = read_config(QueryConfig, self.values.get("projector_config") or {})
        return found

    window = stated("window_size", 15)  # the moments that are asked together

    @property
    def count(self) -> int:
        """The vectors that so many moments become."""
        return self.window // int(self.values.get("downsample_rate", 5))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"model_type": self.values.get("model_type", self.model_type), "text_config": self.text_config.to_dict()}
        return {**self.values, **own, "encoder_config": asdict(self.encoder)}


class HalfFeedForward(FeedForward):
    """Half of a feed-forward part after a norm, and the input."""

    def __init__(self, config: EncoderConfig) -> None:
        width = config.hidden_dim
        super().__init__(width, width * config.feedforward_mult, "silu", names=("up_proj", "down_proj"))
        self.pre_norm = LayerNorm(width)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return x + super().forward(self.pre_norm(x)) * 0.5


class BlockAttention(Module):
    """Attention of the moments of a block to each other, whose scores depend on the distance too (Shaw et al. 2018,
    arXiv 1803.02155); after a norm.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        inner = config.size * config.num_heads
        self.heads, self.size, self.most, self.middle = (
            config.num_heads, config.size, config.context_size, config.max_pos_emb,
        )  # fmt: skip
        self.pre_norm = LayerNorm(config.hidden_dim)
        self.to_q = Linear(config.hidden_dim, inner, bias=False)
        self.to_kv = Linear(config.hidden_dim, 2 * inner, bias=False)
        self.to_out = ResidualLinear(inner, config.hidden_dim)
        self.rel_pos_emb = Embedding(2 * self.middle + 1, self.size)

    def block(self, x: Tensor) -> Tensor:
        """x (N, T, D) of at most `most` moments → (N, T, H * size)."""
        count, moments, _ = x.shape
        q = self.to_q(x).reshape(count, moments, self.heads, self.size)
        kv = self.to_kv(x).reshape(count, moments, 2 * self.heads, self.size)
        k, v = (kv.narrow(2, i * self.heads, self.heads) for i in range(2))  # (N, T, H, size)
        far = np.arange(moments - 1, -moments, -1, dtype=np.int32) + np.int32(self.middle)
        places = self.rel_pos_emb(ops.from_numpy(far).to(x.device)).to(q.dtype)  # (2 T - 1, size)
        scores = (q.transpose(1, 2) @ places.transpose(0, 1)) * self.size**-0.5  # (N, H, T, 2 T - 1)
        return attend(q, k, v, by_distance(scores))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        batch, moments, width = x.shape
        y, whole = self.pre_norm(x), moments // self.most * self.most
        found = []
        if whole:
            blocks = y.narrow(1, 0, whole).reshape(-1, self.most, width)
            found.append(self.block(blocks).reshape(batch, whole, -1))
        if whole < moments:
            found.append(self.block(y.narrow(1, whole, moments - whole)))
        return self.to_out(ops.cat(found, 1), x)


class Convolution(Module):
    """A gate, a filter of each channel over moments, a norm of batches, an activation, and a linear layer; after a
    norm.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, kernel = config.hidden_dim, config.conv_kernel_size
        inner = width * config.conv_expansion_factor
        self.around = [kernel // 2, (kernel - 1) // 2]  # moments of silence before and after
        self.norm = LayerNorm(width)
        self.up_conv = Conv1d(width, 2 * inner, 1)
        self.depth_conv = Module()
        self.depth_conv.conv = Conv1d(inner, inner, kernel, groups=inner, bias=False)
        self.batch_norm = BatchNorm1d(inner)
        self.down_conv = Conv1d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        y = ops.glu(self.up_conv(self.norm(x).transpose(1, 2)), 1)  # (B, inner, T)
        y = self.batch_norm(self.depth_conv.conv(ops.pad(y, self.around)))
        return x + self.down_conv(ops.silu(y)).transpose(1, 2)


class Block(Module):
    """A block of the Conformer (Gulati et al. 2020, arXiv 2005.08100)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.ff1 = HalfFeedForward(config)
        self.attn = BlockAttention(config)
        self.conv = Convolution(config)
        self.ff2 = HalfFeedForward(config)
        self.post_norm = LayerNorm(config.hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.post_norm(self.ff2(self.conv(self.attn(self.ff1(x)))))


class Encoder(Module):
    """The Conformer. What its middle layer takes for the characters that are heard is added to its states."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.input_linear = Linear(config.input_dim, config.hidden_dim)
        self.layers = ModuleList(Block(config) for _ in range(config.num_layers))
        self.out = Linear(config.hidden_dim, config.output_dim)
        self.out_mid = Linear(config.output_dim, config.hidden_dim)
        self.joined = config.joined

    def warm_up(self) -> None:
        """Hears some moments of silence, so that the first recording starts sooner."""
        with no_grad():
            self(ops.zeros(1, 64, self.input_linear.in_features, device=self.input_linear.weight.device))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, numbers) → (B, T, width). ArgumentError for another shape."""
        numbers = self.input_linear.in_features
        if x.ndim != 3 or x.shape[2] != numbers or not x.shape[1]:
            raise InputError(f"spectrograms are (B, T, {numbers}), not {describe(x)}")
        x = self.input_linear(x)
        joined = [x] if 0 in self.joined else []
        for number, layer in enumerate(self.layers, 1):
            x = layer(x)
            if number == len(self.layers) // 2:
                x = x + self.out_mid(ops.softmax(self.out(x), 2))
            joined += [x] if number in self.joined else []
        return ops.cat([*joined, x], 2) if joined else x


class Projector(Module):
    """Queries ask each `window` moments; their answers, in the text's size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        own = config.queries
        self.window = config.window
        self.query = new_parameter(ops.zeros, 1, config.count, own.hidden_size)
        self.qformer = Module()
        self.qformer.layernorm = LayerNorm(own.hidden_size, own.layer_norm_eps)
        self.qformer.encoder = Module()
        self.qformer.encoder.layer = query_layers(own, config.encoder.width)
        self.linear = Linear(own.hidden_size, config.text_config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, vectors, D)."""
        batch, moments, width = x.shape
        windows, count = -(-moments // self.window), self.query.shape[1]
        x = ops.pad(x, [0, 0, 0, windows * self.window - moments]).reshape(-1, self.window, width)
        y = self.qformer.layernorm(self.query.to(x.dtype)).expand(x.shape[0], count, self.query.shape[2])
        for layer in self.qformer.encoder.layer:
            y = layer(y, x, count)
        return self.linear(y.reshape(batch, windows * count, -1))


class GraniteSpeechForConditionalGeneration(SoundTextModel):
    """Recordings and text to text. A recording is heard in one piece; its size is (numbers, moments)."""

    placeholder = part = "<|audio|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.audio_tower = Encoder(config.encoder)
        self.multi_modal_projector = Projector(config)

    def stretches(self, frames: int) -> list[int]:
        return [frames]

    def tokens_in_stretch(self, frames: int) -> int:
        found: int = -(-frames // self.config.window) * self.config.count
        return found

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        """pixel_values (B, T, numbers) → (B, vectors, D); what stands after the shorter ones is heard, as in
        transformers.
        """
        x = self.multi_modal_projector(self.audio_tower(pixel_values))
        return x * getattr(self.config.text_config, "embedding_multiplier", 1.0)  # as the embeddings of words

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None],
        conversation: Callable[[str], str | None] = lambda _: None,
    ) -> str:  # fmt: skip
        return conversation(sound + TASK) or TURNS.format(sound + TASK)


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    name = re.sub(r"^(model\.)?encoder\.", "audio_tower.", name)
    return picture_text.renamed(re.sub(r"^(model\.)?projector\.", "multi_modal_projector.", name))


TASKS: Mapping[str, Any] = {
    "speech-recognition": GraniteSpeechForConditionalGeneration, sound_text.TASK: GraniteSpeechForConditionalGeneration,
}  # fmt: skip
