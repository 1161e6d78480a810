"""Llama 3.2 Vision (Grattafiori et al. 2024, arXiv 2407.21783, section 7): a tower sees all tiles of a picture at once,
with local layers and then with global ones, whose parts have gates; Llama writes, and some of its layers attend to what
was seen instead of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError, ModelError
from pyapp.nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.decoders.caches import last_tokens
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock
from pyapp.nn.encoders.rotary_encoder import RotaryAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, as_sequence, check_pictures
from pyapp.nn.vision_language.cross_pictures import (
    CachedTextWithSight,
    CrossAttention,
    CrossBlock,
    Sight,
    SightCache,
    WholeTextWithSight,
)
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Seen, Size
from pyapp.vision.processors.sizes import least_canvas

from .loading import picture_text
from .loading.config import DecoderConfig, check_depth, require
from .loading.picture_text import PictureTextConfig
from .loading.pictures_config import WIDEST, PatchConfig

MODEL_TYPES = ("mllama",)
IMAGE_PROCESSOR = "Mllama"  # of files that name none
MULTIPLE = 8  # of vectors that a tile has in the tower
MORE = 8  # rows of the table of tokens that are not words: those of pictures
renamed = picture_text.renamed


def arrangements(most: int) -> list[list[int]]:
    """The rows and columns of the tiles of pictures, at most so many, in the order of their numbers."""
    return [[rows, columns] for rows in range(1, most + 1) for columns in range(1, most // rows + 1)]


@dataclass(frozen=True, kw_only=True)
class TowerConfig(PatchConfig):
    """The fields of vision_config."""

    model_type = "mllama_vision_model"
    image, patch = 448, 14

    hidden_size: int = 1280
    num_hidden_layers: int = 32
    num_global_layers: int = 8
    num_attention_heads: int = 16
    intermediate_size: int = 5120
    vision_output_dim: int = 7680
    norm_eps: float = 1e-5
    max_num_tiles: int = 4
    intermediate_layers_indices: list[int]
    supported_aspect_ratios: list[Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        most = values.get("max_num_tiles", 4)
        require(type(most) is int and 1 <= most <= 64, f"max_num_tiles is {most!r:.40}, expected a number up to 64")
        usual = {"intermediate_layers_indices": [3, 7, 15, 23, 30], "supported_aspect_ratios": arrangements(most)}
        own = {"num_attention_heads": values["attention_heads"]} if "attention_heads" in values else {}
        return super().from_dict(usual | {key: value for key, value in values.items() if value is not None} | own)

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, read, made = self.num_hidden_layers, self.intermediate_layers_indices, self.vision_output_dim
        check_depth(layers + self.num_global_layers)
        plausible = all(type(layer) is int and 0 <= layer < layers for layer in read)
        require(plausible, f"intermediate_layers_indices is {read!r:.60}, expected numbers of the {layers} layers")
        wide = self.hidden_size * (1 + len(read))
        require(made == wide <= WIDEST, f"vision_output_dim is {made}, but {1 + len(read)} layers give {wide} numbers")
        known = arrangements(self.max_num_tiles)
        given = [[*pair] if isinstance(pair, list | tuple) else pair for pair in self.supported_aspect_ratios]
        require(given == known, f"supported_aspect_ratios is {given!r:.60}, expected all of {self.max_num_tiles} tiles")
        (high, wide), (rows, columns) = self.patch_size, self.grid
        require(high == wide <= 256 and rows == columns, f"patch_size is {self.patch_size}, expected a square")

    @property
    def vectors(self) -> int:
        """The vectors of a tile: those of its patches, and of the class token."""
        return self.patches + 1


@dataclass(frozen=True, kw_only=True)
class TextConfig(DecoderConfig):
    """The fields of text_config."""

    model_type = "mllama_text_model"
    defaults = {
        "vocab_size": 128_256, "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32,
        "num_key_value_heads": 8, "max_position_embeddings": 131_072, "rope_theta": 500_000.0,
        "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
    }  # fmt: skip

    intermediate_size: int = 14_336
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    cross_attention_layers: list[int]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"tie_word_embeddings": False}  # the head has fewer rows than the table of tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, found = self.num_hidden_layers, self.cross_attention_layers
        plausible = found and all(type(layer) is int and 0 <= layer < layers for layer in found)
        require(bool(plausible), f"cross_attention_layers is {found!r:.60}, expected numbers of the {layers} layers")


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "mllama"
    tower = "mllama_vision_model"
    towers = {"mllama_vision_model": TowerConfig}
    token = ("image_token_index", 128_256)

    @classmethod
    def text_of(cls, text: Mapping[str, Any], tied: bool) -> Any:
        kind = text.get("model_type", TextConfig.model_type)
        if kind != TextConfig.model_type:
            raise ModelError(f"the language model {kind!r:.50} in text_config is not known")
        return TextConfig.from_dict(text)

    def check(self) -> None:
        super().check()
        number, known = self.image_token_id, self.tokens_read
        require(number < known, f"image_token_index is {number}, of {known:,} tokens")

    @property
    def tokens_read(self) -> int:
        """The tokens that the model reads: it writes `vocab_size` of them."""
        return self.vocab_size + MORE

    def language_model(self) -> CausalLanguageModel:
        return TextModel(self.text_config)


# -- what sees


class GatedEmbedding(Module):
    """A vector for each tile of a picture, by the arrangement of its tiles."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.tiles = config.max_num_tiles
        kinds = len(config.supported_aspect_ratios) + 1  # 0 is not a picture
        self.embedding = Embedding(kinds, self.tiles * config.hidden_size)
        self.gate = new_parameter(ops.zeros, 1)

    def forward(self, x: Tensor, kinds: Tensor) -> Tensor:
        """x (B, tiles, T, D), kinds (B,) → (B, tiles, T, D)."""
        own = self.embedding(kinds).reshape(x.shape[0], self.tiles, 1, x.shape[3])
        return x + own * self.gate.tanh()


class Positions(Module):
    """The positions of patches in a tile, and, by a gate, those in a picture of an arrangement."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        count, width = config.vectors, config.hidden_size
        kinds = len(config.supported_aspect_ratios) + 1
        self.gate = new_parameter(ops.zeros, 1)
        self.embedding = new_parameter(ops.zeros, count, width)
        self.tile_embedding = Embedding(kinds, config.max_num_tiles * count * width)

    def forward(self, x: Tensor, kinds: Tensor) -> Tensor:
        """x (B, tiles, T, D), kinds (B,) → (B, tiles, T, D)."""
        gate = self.gate.tanh()
        return x + (1 - gate) * self.embedding + gate * self.tile_embedding(kinds).reshape(x.shape)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it; `gated`: and a gate."""

    def __init__(self, config: TowerConfig, gated: bool) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        self.gated = gated
        self.self_attn = RotaryAttention(width, Heads(heads, heads, width // heads))
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)
        self.input_layernorm, self.post_attention_layernorm = (LayerNorm(width, config.norm_eps) for _ in range(2))
        if gated:
            self.gate_attn, self.gate_ffn = (new_parameter(ops.zeros, 1) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (1 or B, 1, T, T) bool → (B, T, D)."""
        if not self.gated:
            x = self.self_attn(self.input_layernorm(x), mask, None, x)
            found: Tensor = self.mlp(self.post_attention_layernorm(x), x)
            return found
        x = x + self.gate_attn.tanh() * self.self_attn(self.input_layernorm(x), mask, None)
        return x + self.gate_ffn.tanh() * self.mlp(self.post_attention_layernorm(x))


class Layers(Module):
    """Layers, one after another."""

    def __init__(self, config: TowerConfig, count: int, gated: bool) -> None:
        super().__init__()
        self.layers = ModuleList(Layer(config, gated) for _ in range(count))

    def forward(self, x: Tensor, mask: Tensor) -> list[Tensor]:
        """x (B, T, D) → (B, T, D) after each layer."""
        found = []
        for layer in self.layers:
            x = layer(x, mask)
            found.append(x)
        return found


class Tower(ImageModel):
    """The Vision Transformer of all tiles of a picture."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.patch_embedding = Conv2d(
            config.num_channels, width, config.patch_size, stride=config.patch_size, bias=False
        )
        self.class_embedding = new_parameter(ops.zeros, width)
        self.gated_positional_embedding = Positions(config)
        self.pre_tile_positional_embedding = GatedEmbedding(config)
        self.post_tile_positional_embedding = GatedEmbedding(config)
        self.layernorm_pre, self.layernorm_post = LayerNorm(width), LayerNorm(width)
        self.transformer = Layers(config, config.num_hidden_layers, gated=False)
        self.global_transformer = Layers(config, config.num_global_layers, gated=True)

    def forward(self, tiles: Tensor, rows: int, columns: int) -> Tensor:
        """tiles (rows * columns, C, H, W) of one picture → (tiles, T, vision_output_dim), of all tiles that a picture
        may have: those after its own are empty.
        """
        config, most = self.config, self.config.max_num_tiles
        check_pictures("Llama 3.2 Vision", tiles, config.num_channels, config.image_size)
        if not (rows >= 1 and columns >= 1 and rows * columns == tiles.shape[0] <= most):
            raise ArgumentError(f"{tiles.shape[0]} tiles do not stand in {rows} rows of {columns}, at most {most}")
        width, count = config.hidden_size, config.vectors
        kind = config.supported_aspect_ratios.index([rows, columns]) + 1
        kinds = ops.tensor([kind], dtype="int32", device=tiles.device)
        x = as_sequence(self.patch_embedding(tiles))  # (tiles, patches, D)
        empty = most - tiles.shape[0]
        if empty:  # filters have no bias, so that empty tiles become zeros
            x = ops.cat([x, ops.zeros(empty, *x.shape[1:], dtype=x.dtype, device=x.device)])
        x = self.pre_tile_positional_embedding(x.unsqueeze(0), kinds)  # (1, tiles, patches, D)
        first = self.class_embedding.reshape(1, 1, 1, width).expand(1, most, 1, width)
        x = self.layernorm_pre(self.gated_positional_embedding(ops.cat([first, x], 2), kinds))
        whole = count + -count % MULTIPLE
        if whole != count:
            x = ops.cat([x, ops.zeros(1, most, whole - count, width, dtype=x.dtype, device=x.device)], 2)
        seen = [place < count and tile < rows * columns for tile in range(most) for place in range(whole)]
        valid = ops.tensor(seen, device=x.device)  # (tiles * whole,)
        mask = (valid.unsqueeze(1) | valid).reshape(1, 1, most * whole, most * whole)
        states = self.transformer(x.reshape(1, most * whole, width), mask)
        x = self.layernorm_post(states[-1]).reshape(1, most, whole, width)
        x = self.post_tile_positional_embedding(x, kinds).reshape(1, most * whole, width)
        last = self.global_transformer(x, mask)[-1]
        read = ops.stack([states[layer] for layer in config.intermediate_layers_indices], -1)  # (1, S, D, layers)
        found = ops.cat([last, read.flatten(2, 3)], -1)
        return found.reshape(most, whole, found.shape[2]).narrow(1, 0, count)


# -- what writes


class TextModel(CausalLanguageModel):
    """Llama's decoder, some of whose layers attend to pictures."""

    whole_text, cached_text = WholeTextWithSight, CachedTextWithSight

    def __init__(self, config: TextConfig) -> None:
        rotary = RotaryTable(config.to_dict())
        width, epsilon = config.hidden_size, config.rms_norm_eps

        def block(layer: int) -> Module:
            inner = GatedFeedForward(width, config.intermediate_size, config.hidden_act)
            if layer in config.cross_attention_layers:
                return CrossBlock(CrossAttention(layer, width, config.heads(), epsilon), inner, width, epsilon)
            attention = GroupedQueryAttention(layer, width, config.heads(), rotary)
            return PreNormBlock(attention, inner, RMSNorm(width, epsilon), RMSNorm(width, epsilon))

        blocks = (block(layer) for layer in range(config.num_hidden_layers))
        super().__init__(config, DecoderStack(config.vocab_size + MORE, width, blocks, RMSNorm(width, epsilon)))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        config = self.config
        return SightCache(config.num_hidden_layers, self.kv_heads, config.head_dim, capacity, texts, self.device, dtype)


class MllamaForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder = part = "<|image|>"
    picture_tokens = 1
    whole_pictures = pictures_ahead = True

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.tiles_together = config.vision_config.max_num_tiles
        self.vision_tower = Tower(config.vision_config)
        self.multi_modal_projector = Linear(config.vision_config.vision_output_dim, config.text_config.hidden_size)

    def tokens_in(self, rows: int, columns: int, size: Size = ANY) -> int:
        return 1

    def vectors_in(self, rows: int, columns: int, size: Size = ANY) -> tuple[int, int]:
        tower = self.config.vision_config
        return tower.max_num_tiles * tower.vectors, rows * columns * tower.vectors

    def prepared_by(self, processor: Any) -> Any:
        return processor.adapted(max_image_tiles=self.config.vision_config.max_num_tiles)

    def tiles_of(self, size: Size) -> tuple[int, int]:
        """The rows and columns of tiles of a picture of a size, before its preparation."""
        return least_canvas(*size, self.pixels[0], self.config.vision_config.max_num_tiles)

    def features_of(self, tiles: Tensor, rows: int, columns: int) -> Tensor:
        return self.multi_modal_projector(self.vision_tower(tiles, rows, columns))

    def vectors_of(self, pixel_values: Tensor, sizes: Sequence[Size] | None) -> Tensor:
        """The vectors (S, D) of pictures of `sizes`, whose tiles pixel_values (N, C, H, W) are."""
        both, first, found = [self.tiles_of(size) for size in sizes or ()], 0, []
        if sum(rows * columns for rows, columns in both) != pixel_values.shape[0]:
            raise ArgumentError(
                f"Llama 3.2 Vision: {pixel_values.shape[0]} tiles do not belong to pictures of the sizes "
                f"{[*(sizes or ())]!s:.80}: give `sizes`, those of the pictures before their preparation"
            )
        for rows, columns in both:
            own = pixel_values.narrow(0, first, rows * columns)
            found.append(self.features_of(own, rows, columns).flatten(0, 1))
            first += rows * columns
        return ops.cat(found)

    def states(
        self, tokens: Tensor, attention_mask: Tensor | None = None, pixel_values: Tensor | None = None,
        sizes: Sequence[Size] | None = None,
    ) -> Tensor:  # fmt: skip
        language = self.language_model
        text = language.whole_text(tokens.shape[1], attention_mask)
        if pixel_values is not None:
            number, given = self.config.image_token_id, iter(sizes or ())
            places = [[i for i, token in enumerate(row) if token == number] for row in tokens.tolist()]
            if sum(map(len, places)) != len(sizes or ()):
                raise ArgumentError(f"the texts have {sum(map(len, places))} pictures, and {len(sizes or ())} sizes")
            pictures = [[(place, *self.vectors_in(*self.tiles_of(next(given)))) for place in own] for own in places]
            text.sight = Sight(self.vectors_of(pixel_values, sizes), pictures, tokens.shape[1])
        return language.stack(tokens, text)

    def forward_cached(
        self, tokens: Tensor, position: Tensor, cache: Any, last_only: bool = True, seen: Seen | None = None,
        first: int = 0,
    ) -> Tensor:  # fmt: skip
        if seen is None or seen.features is None:
            return self.language_model.forward_cached(tokens, position, cache, last_only)
        if first:
            raise ArgumentError(f"a pass with pictures begins at the first token of its text, not at {first}")
        text = self.language_model.cached_text(position, cache)
        pictures = [(place, *counts) for place, counts in zip(seen.places, seen.counts, strict=True)]
        text.sight = Sight(seen.features, [pictures], tokens.shape[0])
        places = ops.tensor(list(seen.places), dtype="int64", device=tokens.device)
        number = ops.full((len(seen.places),), self.config.image_token_id, dtype=tokens.dtype, device=tokens.device)
        x = self.language_model.stack(tokens.index_copy(0, places, number), text)  # (T, D)
        return self.language_model.head(last_tokens(x, cache) if last_only else x)


TASKS: Mapping[str, Any] = {picture_text.TASK: MllamaForConditionalGeneration}
