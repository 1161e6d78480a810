"""Perceiver IO (Jaegle et al. 2021, arXiv 2107.14795): a few latent vectors read all inputs, bytes of a text or pixels
of a picture, are turned by layers of their own, and are read by queries of outputs.

Parameters have the names of Hugging Face's files. Optical flow and sound with videos are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import BatchNorm2d, Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import Encoder, Headed, attend, visible_keys
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.towers import first_rows
from pyapp.nn.vision.vision import ImageModel, as_sequence, check_pictures

from .loading.config import require
from .loading.pictures_config import SIDE_LIMIT, WIDEST, PictureConfig

MODEL_TYPES = ("perceiver",)
IMAGE_PROCESSOR = "Perceiver"  # of files that name none
BASE = "perceiver"
FORMS = ("fourier", "learned", "conv")  # how pictures are read
BANDS = 64  # speeds of the waves of a side
WORD_HEADS, WORD_WIDTH = 8, 256  # of the queries of words
LEARNED = 256  # numbers of a pixel, and of its learned position
FILTERED = 64  # channels of the filter before the latents
RESOLUTIONS = {"fourier": 224, "conv": 56}  # rows, and columns, of the fastest wave


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json. form: one of FORMS, which the weights say."""

    model_type = MODEL_TYPES[0]

    num_latents: int = 256
    d_latents: int = 1280
    d_model: int = 768
    num_blocks: int = 1
    num_self_attends_per_block: int = 26
    num_self_attention_heads: int = 8
    num_cross_attention_heads: int = 8
    qk_channels: int | None = None
    v_channels: int | None = None
    cross_attention_shape_for_attention: str = "kv"
    self_attention_widening_factor: int = 1
    cross_attention_widening_factor: int = 1
    hidden_act: str = "gelu"
    use_query_residual: bool = True
    vocab_size: int = 262
    max_position_embeddings: int = 2048
    image_size: int = 56
    form: str = FORMS[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.form in FORMS, f"form is {self.form!r:.40}, expected one of {', '.join(FORMS)}")
        like = self.cross_attention_shape_for_attention
        require(like in ("kv", "q"), f"cross_attention_shape_for_attention is {like!r:.40}, expected kv or q")
        for name, most in (
            ("num_latents", 1 << 16), ("d_latents", WIDEST), ("d_model", WIDEST), ("num_blocks", 1 << 10),
            ("num_self_attends_per_block", 1 << 10), ("self_attention_widening_factor", 64),
            ("cross_attention_widening_factor", 64), ("image_size", min(SIDE_LIMIT, 1 << 12)),
        ):  # fmt: skip
            require(getattr(self, name) <= most, f"{name} is {getattr(self, name):,}, expected at most {most:,}")
        for heads in (self.num_self_attention_heads, self.num_cross_attention_heads):
            for name in ("d_latents", "qk_channels", "v_channels"):
                width = getattr(self, name)
                require(
                    width is None or (width <= WIDEST and width % heads == 0), f"{heads} heads do not divide {name}"
                )
        if self.v_channels is not None or self.qk_channels is not None:
            made = self.qk_channels if self.v_channels is None else self.v_channels
            require(made == self.d_latents, f"values have {made} numbers, the latents {self.d_latents}")


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a file with these tensors, with how it reads pictures."""
    names = " ".join(tensors)
    form = "learned" if ".convnet_1x1." in names else "conv" if ".convnet.conv." in names else FORMS[0]
    return {**settings, "form": form}


def attend_by_one_head(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """As `attend`, of one wide head: two products take two thirds of the time of the kernel of attention there."""
    q, k, v = (x.squeeze(2) for x in (q, k, v))
    scores = q @ k.transpose(1, 2) * q.shape[2] ** -0.5  # (B, T, S)
    scores = scores if mask is None else ops.where(mask.squeeze(1), scores, float("-inf"))
    return ops.softmax(scores, -1) @ v


class Attention(Module):
    """Attention of queries to a source, or to themselves, with norms before it."""

    def __init__(
        self, width: int, heads: int, source: int | None, inner: int, values: int, residual: bool
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.residual = heads, residual
        own = Module()
        own.layernorm1 = LayerNorm(width)
        own.layernorm2 = None if source is None else LayerNorm(source)
        own.query = Linear(width, inner)
        own.key, own.value = Linear(source or width, inner), Linear(source or width, values)
        self.add_module("self", own)
        self.output = Module()
        self.output.dense = Linear(values, width)

    def forward(self, x: Tensor, source: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D), source (B, S, D'), mask (B, 1, 1, S) → (B, T, D)."""
        own: Any = self._modules["self"]
        y = own.layernorm1(x)
        read = y if source is None else own.layernorm2(source)
        q, k, v = (
            layer(z).reshape(*z.shape[:2], self.heads, -1)
            for layer, z in ((own.query, y), (own.key, read), (own.value, read))
        )
        found: Tensor = self.output.dense((attend_by_one_head if self.heads == 1 else attend)(q, k, v, mask))
        return found + x if self.residual else found


class Layer(Module):
    """Attention and a feed-forward part. source: the width of what is read; None: the queries themselves."""

    def __init__(
        self, config: Config, width: int, heads: int, source: int | None = None, wider: int = 1,
        residual: bool = True, inner: int | None = None, values: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        by_source = source is not None and config.cross_attention_shape_for_attention == "kv"
        inner = (source if by_source and source is not None else width) if inner is None else inner
        require(inner % heads == 0, f"{heads} heads do not divide keys of {inner} numbers")
        self.attention = Attention(width, heads, source, inner, inner if values is None else values, residual)
        self.layernorm = LayerNorm(width)
        self.mlp = FeedForward(width, wider * width, config.hidden_act, names=("dense1", "dense2"))

    def forward(self, x: Tensor, source: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """As Attention's."""
        x = self.attention(x, source, mask)
        return self.mlp(self.layernorm(x), x)


class Latents(Module):
    """The latents, which read inputs of `width` numbers, and their layers, taken `num_blocks` times."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        latents, inner, values = config.d_latents, config.qk_channels, config.v_channels
        self.cross_attention = Layer(
            config, latents, config.num_cross_attention_heads, width, config.cross_attention_widening_factor,
            config.use_query_residual, inner, values,
        )  # fmt: skip
        wider, heads = config.self_attention_widening_factor, config.num_self_attention_heads
        self.self_attends = ModuleList(
            Layer(config, latents, heads, None, wider, True, inner, values)
            for _ in range(config.num_self_attends_per_block)
        )
        self.blocks = config.num_blocks

    def forward(self, latents: Tensor, inputs: Tensor, mask: Tensor | None) -> Tensor:
        """latents (B, N, D), inputs (B, S, width), mask (B, 1, 1, S) → (B, N, D)."""
        x = self.cross_attention(latents, inputs, mask)
        for _ in range(self.blocks):
            for layer in self.self_attends:
                x = layer(x)
        return x


class Queries(Module):
    """`count` learned queries of outputs, which read the latents. out: the numbers of an output; None: a query's."""

    def __init__(
        self, config: Config, count: int, width: int, out: int | None, heads: int = 1, inner: int | None = None
    ) -> None:
        super().__init__()
        self.output_position_encodings = Module()
        self.output_position_encodings.position_embeddings = new_parameter(ops.zeros, count, width)
        values = None if out is not None else width
        self.decoding_cross_attention = Layer(
            config, width, heads, config.d_latents, 1, out is not None, inner, values
        )  # fmt: skip
        self.final_layer = None if out is None else Linear(width, out)

    def forward(self, latents: Tensor, count: int) -> Tensor:
        """latents (B, N, D) → the first `count` outputs (B, count, out)."""
        table = self.output_position_encodings.position_embeddings.narrow(0, 0, count)
        x = self.decoding_cross_attention(table.unsqueeze(0).expand(latents.shape[0], *table.shape), latents)
        return x if self.final_layer is None else self.final_layer(x)


def reading_parts(module: Any, config: Config, width: int, labels: int | None) -> None:
    """Adds what all models have: the latents, their layers, and a query of `labels`; None: queries of words."""
    module.embeddings = Module()
    module.embeddings.latents = new_parameter(ops.zeros, config.num_latents, config.d_latents)
    module.encoder = Latents(config, width)
    if labels is None:
        module.decoder = Queries(
            config, config.max_position_embeddings, config.d_model, None, WORD_HEADS, WORD_WIDTH
        )  # fmt: skip
    else:
        module.decoder = Module()
        module.decoder.decoder = Queries(config, 1, config.d_latents, labels)


def latents_of(module: Any, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    """The latents (B, N, D) after reading inputs (B, S, width)."""
    own = module.embeddings.latents
    found: Tensor = module.encoder(own.unsqueeze(0).expand(inputs.shape[0], *own.shape), inputs, mask)
    return found


class ByteReader(Encoder):
    """The model of texts. labels: how many a text has; None: each place has scores of words."""

    def __init__(self, config: Config, labels: int | None) -> None:
        super().__init__()
        known = labels is not None or config.d_model % WORD_HEADS == 0
        require(known, f"d_model is {config.d_model}, expected a multiple of {WORD_HEADS}")
        self.config, self.most, self.labels = config, config.max_position_embeddings, labels
        self.input_preprocessor = Module()
        self.input_preprocessor.embeddings = Embedding(config.vocab_size, config.d_model)
        self.input_preprocessor.position_embeddings = Embedding(config.max_position_embeddings, config.d_model)
        reading_parts(self, config, config.d_model, labels)

    @property
    def word_embeddings(self) -> Embedding:
        found: Embedding = self.input_preprocessor.embeddings
        return found

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → what the queries of words read (B, T, d_model), or the logits of the labels (B, 1, labels)."""
        self.check(ids, attention_mask)
        parts = self.input_preprocessor
        x = parts.embeddings(ids) + first_rows(parts.position_embeddings, ids.shape[1])
        latents = latents_of(self, x, visible_keys(attention_mask))
        return self.decoder(latents, ids.shape[1]) if self.labels is None else self.decoder.decoder(latents, 1)


class MaskedWords(Headed):
    """Scores of the bytes that may stand at each place, by the table of the inputs."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, ByteReader(config, None))
        self.embedding_decoder = Module()
        self.embedding_decoder.bias = new_parameter(ops.zeros, config.vocab_size)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        table = first_rows(self.encoder.word_embeddings, self.config.vocab_size)
        return x @ table.transpose(0, 1) + self.embedding_decoder.bias


class TextLabels(Headed):
    """Scores of the labels of a text."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, ByteReader(config, len(config.labels)))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, 1, labels) → logits (B, labels)."""
        return x.squeeze(1)


def waves_of_places(rows: int, columns: int, fastest: int) -> Tensor:
    """The positions (rows * columns, 2 + 4 * BANDS) of places: from -1 to 1, then sines and cosines of BANDS speeds, up
    to that of `fastest` rows and columns.
    """
    sides = [np.linspace(-1, 1, count, dtype="float32") for count in (rows, columns)]
    places = np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2)  # (T, 2)
    speeds = np.linspace(1, fastest / 2, BANDS, dtype="float32")
    angles = (places[:, :, None] * speeds).reshape(len(places), -1) * np.float32(pi)
    return ops.from_numpy(np.concatenate([places, np.sin(angles), np.cos(angles)], 1))


class PixelReader(Module):
    """The model of pictures under the name of files, with the positions of its pixels."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.form, self.side = config.form, config.image_size
        parts, channels = Module(), config.num_channels
        waves = 2 + 4 * BANDS
        if self.form == "learned":
            parts.convnet_1x1 = Conv2d(channels, LEARNED, 1)
            parts.position_embeddings = Module()
            parts.position_embeddings.position_embeddings = new_parameter(ops.zeros, self.side**2, LEARNED)
            parts.positions_projection = Linear(LEARNED, LEARNED)
            channels, waves = LEARNED, LEARNED
        elif self.form == "conv":
            parts.convnet = Module()
            parts.convnet.conv = Conv2d(channels, FILTERED, 7, 2, 3, bias=False)
            parts.convnet.batchnorm = BatchNorm2d(FILTERED)
            channels = FILTERED
        self.input_preprocessor = parts
        reading_parts(self, config, channels + waves, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        x, parts = pixel_values, self.input_preprocessor
        if self.form == "learned":
            x = parts.convnet_1x1(x)
            places = parts.positions_projection(parts.position_embeddings.position_embeddings)
        else:
            if self.form == "conv":
                x = ops.max_pool2d(parts.convnet.batchnorm(parts.convnet.conv(x)).relu(), 3, 2)
            places = waves_of_places(int(x.shape[2]), int(x.shape[3]), RESOLUTIONS[self.form]).to(x.device)
        x = as_sequence(x)
        x = ops.cat([x, places.unsqueeze(0).expand(x.shape[0], *places.shape)], 2)
        found: Tensor = self.decoder.decoder(latents_of(self, x), 1)
        return found.squeeze(1)


class PictureLabels(ImageModel):
    """Scores of the labels of a picture."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.perceiver = PixelReader(config)

    @property
    def pixels(self) -> tuple[int, int] | None:
        side = self.config.image_size
        return (side, side) if self.config.form == "learned" else None

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        check_pictures("Perceiver", pixel_values, self.config.num_channels, self.pixels, least=8)
        return self.perceiver(pixel_values)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "masked-lm": MaskedWords,
    "sequence-classification": TextLabels,
    "image-classification": PictureLabels,
}
