"""CLIPSeg (Lüddecke and Ecker 2021, arXiv 2112.10003): a small transformer reads what some layers of CLIP saw of a
picture, and a text, and says how well the text names each pixel.

Parameters have the names of Hugging Face's files. What another picture shows is not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.errors import InputError
from pyapp.nn import Conv2d, ConvTranspose2d, LayerNorm, Linear, Module, ModuleList, ReLU, Sequential
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Attention
from pyapp.nn.vision.towers import ClipTower, PictureAndText, PositionedPatches, TextTower, at_ends, first_rows
from pyapp.nn.vision.vision import as_sequence, check_pictures, resized_positions

from .loading.config import require
from .loading.pictures_config import WIDEST
from .loading.towers_config import ClipTextConfig, ClipVisionConfig, ProjectedConfig

MODEL_TYPES = ("clipseg",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids|clip\.(visual_projection\.weight|logit_scale)|clip\.vision_model\.post_layernorm\..*"
# The whole numbers of config.json for the decoder, their usual and their largest values.
NUMBERS = {
    "reduce_dim": (64, WIDEST), "decoder_num_attention_heads": (4, 1 << 10),
    "decoder_intermediate_size": (2048, 1 << 20),
}  # fmt: skip


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = ClipTextConfig
    vision_class = ClipVisionConfig

    def __post_init__(self) -> None:
        for name, (_, most) in NUMBERS.items():
            found = self.number(name)
            require(type(found) is int and 1 <= found <= most, f"{name} is {found!r:.60}")
        width, heads = self.number("reduce_dim"), self.number("decoder_num_attention_heads")
        require(width % heads == 0, f"decoder_num_attention_heads {heads} does not divide reduce_dim {width}")
        layers, found = self.vision_config.num_hidden_layers, self.layers
        plausible = isinstance(found, list | tuple) and 1 <= len(found) <= layers
        plausible = plausible and all(type(layer) is int and 0 <= layer < layers for layer in found)
        require(plausible, f"extract_layers is {found!r:.60}, expected numbers of the tower's {layers} layers")
        named = self.values.get("conditional_layer", 0)
        require(type(named) is int and 0 <= named < len(found), f"conditional_layer is {named!r:.60}")
        high, wide = self.vision_config.patch_size
        require(high == wide and high % 4 == 0, f"patch_size is {high} x {wide}, expected multiples of 4")

    def number(self, name: str) -> Any:
        """One of NUMBERS."""
        return self.values.get(name, NUMBERS[name][0])

    @property
    def layers(self) -> Any:
        """The tower's layers whose outputs are read."""
        return self.values.get("extract_layers", (3, 6, 9))


class StretchedPatches(PositionedPatches):
    """Patches whose positions are stretched over a picture of another size."""

    def __init__(self, config: ClipVisionConfig) -> None:
        super().__init__(config, class_token=True)
        self.grid = config.grid

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + patches, D)."""
        x = self.patch_embedding(pixel_values)  # (B, D, rows, columns)
        wanted = int(x.shape[2]), int(x.shape[3])
        table = first_rows(self.position_embedding, 1 + self.grid[0] * self.grid[1]).unsqueeze(0)
        assert self.class_embedding is not None
        token = self.class_embedding.reshape(1, 1, -1).expand(x.shape[0], 1, x.shape[1])
        return ops.cat([token, as_sequence(x)], 1) + resized_positions(table, 1, 0, self.grid, wanted)


class Tower(ClipTower):
    """CLIP's Vision Transformer, as far as it is read."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.vision_config)
        self.embeddings = StretchedPatches(config.vision_config)
        self.post_layernorm = None  # type: ignore[assignment]
        self.read = config.layers

    def outputs(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the outputs (B, T, D) of the layers that are read."""
        assert self.pre_layrnorm is not None
        x, found = self.pre_layrnorm(self.embeddings(pixel_values)), {}
        for i, layer in enumerate(self.encoder.layers):
            x = layer(x)
            found[i] = x
        return [found[i] for i in self.read]


class DecoderLayer(Module):
    """Attention and a feed-forward part, each with a residual around it and a norm after it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, epsilon = config.number("reduce_dim"), config.vision_config.layer_norm_eps
        self.self_attn = Attention(width, config.number("decoder_num_attention_heads"))
        self.layer_norm1, self.layer_norm2 = LayerNorm(width, epsilon), LayerNorm(width, epsilon)
        self.mlp = FeedForward(width, config.number("decoder_intermediate_size"), "relu")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.layer_norm1(self.self_attn.encode(x, x, None))
        return self.layer_norm2(self.mlp(x, x))


class Decoder(Module):
    """The last outputs first, each added to what came before; one of them is changed by the text."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, patch = config.number("reduce_dim"), config.vision_config.patch_size[0]
        self.named: int = config.values.get("conditional_layer", 0)
        self.film_mul, self.film_add = (Linear(config.projection_dim, width) for _ in range(2))
        side = patch // 4
        self.transposed_convolution: Module = (
            Sequential(
                Conv2d(width, width, 3, padding=1), ReLU(), ConvTranspose2d(width, width // 2, side, stride=side),
                ReLU(), ConvTranspose2d(width // 2, 1, side, stride=side),
            ) if config.values.get("use_complex_transposed_convolution") is True
            else ConvTranspose2d(width, 1, patch, stride=patch)
        )  # fmt: skip
        self.reduces = ModuleList(Linear(config.vision_config.hidden_size, width) for _ in config.layers)
        self.layers = ModuleList(DecoderLayer(config) for _ in config.layers)

    def forward(self, outputs: list[Tensor], texts: Tensor, grid: tuple[int, int]) -> Tensor:
        """outputs (B, T, D), the vectors of texts (N, P), where B is N or 1 → logits (N, H, W)."""
        x: Any = 0.0
        for i, (seen, layer, reduce) in enumerate(zip(outputs[::-1], self.layers, self.reduces, strict=True)):
            x = reduce(seen) + x
            if i == self.named:
                x = self.film_mul(texts).unsqueeze(1) * x + self.film_add(texts).unsqueeze(1)  # (N, T, width)
            x = layer(x)
        x = x.narrow(1, 1, x.shape[1] - 1).transpose(1, 2)
        found: Tensor = self.transposed_convolution(x.reshape(x.shape[0], x.shape[1], *grid).contiguous())
        return found.squeeze(1)


class ClipSeg(PictureAndText):
    """CLIP's towers, which are not trained, and the decoder."""

    template = "a photo of a {}."
    pixels = None  # any squares of whole patches

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.clip = Module()
        self.clip.text_model = TextTower(config.text_config, causal=True)
        self.clip.vision_model = Tower(config)
        self.clip.text_projection = Linear(config.text_config.hidden_size, config.projection_dim, bias=False)
        self.decoder = Decoder(config)

    @property
    def most(self) -> int:
        found: int = self.clip.text_model.most
        return found

    def text_features(self, ids: Tensor) -> Tensor:
        x = self.clip.text_model(ids)  # (N, T, D)
        return self.clip.text_projection(at_ends(x, ids, self.config.text_config.eos_token_id)).detach()

    def found(self, pixel_values: Tensor, texts: Tensor) -> Tensor:
        """pixel_values (B, C, S, S) and the vectors of texts (N, P), where B is N or 1 → logits (N, S', S'): how well
        each text names each place of its picture, or of the only one.
        """
        patch = self.config.vision_config.patch_size[0]
        check_pictures("CLIPSeg", pixel_values, self.config.num_channels, least=patch)
        high, wide = int(pixel_values.shape[2]), int(pixel_values.shape[3])
        if high != wide or high % patch:
            raise InputError(f"CLIPSeg: pictures are squares in multiples of {patch} pixels, not {high} x {wide}")
        seen = [x.detach() for x in self.clip.vision_model.outputs(pixel_values)]
        return self.decoder(seen, texts, (high // patch, wide // patch))

    def forward(self, pixel_values: Tensor, ids: Tensor) -> Tensor:
        """As `found`, for the texts ids (N, T)."""
        return self.found(pixel_values, self.text_features(ids))


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-semantic-segmentation": ClipSeg}
