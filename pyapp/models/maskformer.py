"""MaskFormer (Cheng et al. 2021, arXiv 2107.06278) over a Swin or a ResNet: queries, each with a label and a mask; the
labels of all queries whose masks hold a place make the place's.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, Embedding, GroupNorm, Linear, Module, ModuleList, ReLU, Sequential
from pyapp.nn.vision.detection import QueriesDecoder, sines_of_places
from pyapp.nn.vision.masks import MaskEmbedder, labels_of_places
from pyapp.nn.vision.residual import ResidualEmbeddings, ResidualStages
from pyapp.nn.vision.vision import ImageModel, as_sequence, check_pictures
from pyapp.nn.vision.windows import WindowMaps

from .loading.config import FileConfig, check_depth, require
from .loading.pictures_config import WIDEST, Backbone, PictureConfig, SwinBackbone, backbone_of, check_numbers

MODEL_TYPES = ("maskformer",)
IMAGE_PROCESSOR = "MaskFormer"  # of files that name none
BASE = ""
IGNORED = (
    r"criterion\..*|model\.pixel_level_module\.encoder\.(model\.)?(layernorm\..*|embeddings\.mask_token)|"
    r".*relative_position_index"
)
GROUPS = 32  # of norms
QUERIES = 1 << 12
BACKBONES: Mapping[str, Any] = {"swin": SwinBackbone, "maskformer-swin": SwinBackbone, "resnet": Backbone}


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(FileConfig):
    """The fields of decoder_config, which is DETR's."""

    model_type = "detr"

    num_queries: int = 100
    d_model: int = 256
    decoder_layers: int = 6
    decoder_attention_heads: int = 8
    decoder_ffn_dim: int = 2048
    activation_function: str = "relu"
    auxiliary_loss: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, width = self.decoder_attention_heads, self.d_model
        require(width % heads == 0, f"decoder_attention_heads {heads} do not divide d_model {width}")
        require(width % 4 == 0, f"d_model is {width}, expected a multiple of 4")
        check_numbers("d_model and decoder_ffn_dim", (width, self.decoder_ffn_dim), WIDEST)
        check_numbers("num_queries", [self.num_queries], QUERIES)
        check_depth(self.decoder_layers)


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone_config: Any
    decoder_config: Any
    fpn_feature_size: int = 256
    mask_feature_size: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("the features", (self.fpn_feature_size, self.mask_feature_size), WIDEST)
        width = self.fpn_feature_size
        require(width % GROUPS == 0, f"fpn_feature_size is {width}, no multiple of {GROUPS}")
        require(len(self.widths) > 1, "the backbone has one stage only")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than Swin and
        ResNet, and for another decoder than DETR's.
        """
        (own, kind), decoder = backbone_of(values, *BACKBONES), values.get("decoder_config", {})
        require(isinstance(decoder, dict), f"decoder_config is {decoder!r:.60}, expected the configuration of DETR")
        writer = decoder.get("model_type", "detr")
        require(writer == "detr", f"the decoder {writer!r:.60} is not known", "Known: detr")
        backbone = BACKBONES[str(kind)].from_dict(own)
        stages = [f"stage{i + 1}" for i in range(len(backbone.depths))]
        given = own.get("out_features", stages)
        whole = given == stages or kind != "resnet"  # of a Swin all are read, whatever the file says
        require(whole, f"out_features is {given!r:.80}, expected all stages: {', '.join(stages)}")
        return super().from_dict(
            {**values, "backbone_config": backbone, "decoder_config": DecoderConfig.from_dict(decoder)}
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        stages = [f"stage{i + 1}" for i in range(len(self.widths))]
        return super().to_dict() | {
            "backbone_config": self.backbone_config.to_dict() | {"out_features": stages},
            "decoder_config": self.decoder_config.to_dict(),
        }

    @property
    def widths(self) -> list[int]:
        """The channels of the backbone's stages."""
        own = self.backbone_config
        if isinstance(own, Backbone):
            return list(own.hidden_sizes)
        return [own.embed_dim << i for i in range(len(own.depths))]


class ResidualMaps(Module):
    """A ResNet that gives the map of each stage."""

    def __init__(self, config: Backbone) -> None:
        super().__init__()
        self.embedder, self.encoder = ResidualEmbeddings(config), ResidualStages(config)

    def forward(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, 3, H, W) → maps (B, C, H', W')."""
        found: list[Tensor] = self.encoder.maps(self.embedder(pixel_values))
        return found


def _filter(before: int, width: int) -> Sequential:
    """A filter, a norm and an activation."""
    return Sequential(Conv2d(before, width, 3, padding=1, bias=False), GroupNorm(GROUPS, width), ReLU())


class PixelDecoder(Module):
    """The maps of the backbone, joined from the coarsest to the finest (Lin et al. 2016, arXiv 1612.03144)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, widths = config.fpn_feature_size, config.widths
        self.fpn = Module()
        self.fpn.stem = _filter(widths[-1], width)
        self.fpn.layers = ModuleList(Module() for _ in widths[:-1])
        for layer, before in zip(self.fpn.layers, widths[-2::-1], strict=True):
            layer.proj = Sequential(Conv2d(before, width, 1, bias=False), GroupNorm(GROUPS, width))
            layer.block = _filter(width, width)
        self.mask_projection = Conv2d(width, config.mask_feature_size, 3, padding=1)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """maps (B, C, H, W) of the stages → the features (B, M, H', W') of the finest."""
        x = self.fpn.stem(maps[-1])
        for layer, finer in zip(self.fpn.layers, maps[-2::-1], strict=True):
            x = ops.interpolate(x, size=tuple(finer.shape[2:]), mode="nearest")
            x = layer.block(x + layer.proj(finer))
        return self.mask_projection(x)


class Transformer(Module):
    """The queries, and what they read of the coarsest map."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        own, before = config.decoder_config, config.widths[-1]
        self.queries_embedder = Embedding(own.num_queries, own.d_model)
        self.input_projection = Conv2d(before, own.d_model, 1) if before != own.d_model else None
        self.decoder = QueriesDecoder(own, False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → queries (B, Q, D)."""
        x = x if self.input_projection is None else self.input_projection(x)
        places = sines_of_places(int(x.shape[2]), int(x.shape[3]), int(x.shape[1]), x.device)
        numbers = ops.arange(self.queries_embedder.num_embeddings, dtype="int32", device=x.device)
        return self.decoder(self.queries_embedder(numbers).unsqueeze(0), as_sequence(x), places)


class MaskFormer(ImageModel):
    """The labels of the places of pictures of any size from the backbone's largest step on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, own = config, config.backbone_config
        residual = isinstance(own, Backbone)
        self.least = (4 if residual else own.patch_size[0]) << (len(config.widths) - 1)
        self.model = Module()
        self.model.pixel_level_module = Module()
        self.model.pixel_level_module.encoder = ResidualMaps(own) if residual else WindowMaps(own)
        self.model.pixel_level_module.decoder = PixelDecoder(config)
        self.model.transformer_module = Transformer(config)
        width = config.decoder_config.d_model
        self.class_predictor = Linear(width, len(config.labels) + 1)
        self.mask_embedder = MaskEmbedder(width, config.mask_feature_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → scores (B, labels, H', W') of places, from 0: of all queries, how surely they
        have a label and hold a place.
        """
        check_pictures("MaskFormer", pixel_values, self.config.num_channels, least=self.least)
        parts = self.model.pixel_level_module
        maps = parts.encoder(pixel_values)
        queries = self.model.transformer_module(maps[-1])
        return labels_of_places(self.class_predictor(queries), self.mask_embedder.masks(queries, parts.decoder(maps)))


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    name = name.replace("pixel_level_module.encoder.model.", "pixel_level_module.encoder.", 1)
    return re.sub(r"hidden_states_norms\.(\d+)\.", lambda found: f"hidden_states_norms.stage{int(found[1]) + 1}.", name)


TASKS: Mapping[str, Callable[[Config], Module]] = {"semantic-segmentation": MaskFormer}
