"""OneFormer (Jain et al. 2022, arXiv 2211.06220) over a Swin: Mask2Former's queries, which begin with the task that the
model reads as a text; the labels of all queries whose masks hold a place make the place's.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError, InputError
from pyapp.nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.vision.detection import PositionedAttention, sines_of_places
from pyapp.nn.vision.masks import (
    GROUPS,
    LEVELS,
    STRIDES,
    MaskedAttention,
    MaskEmbedder,
    PixelLevel,
    as_sources,
    labels_of_places,
    shown_places,
)
from pyapp.nn.vision.vision import ImageModel, as_sequence, check_pictures

from .loading.config import require
from .loading.pictures_config import DEEPEST, WIDEST, PictureConfig, SwinBackbone, check_numbers

MODEL_TYPES = ("oneformer",)
IMAGE_PROCESSOR = "OneFormer"  # of files that name none
BASE = ""
IGNORED = (  # the texts are for training
    r"criterion\..*|model\.text_mapper\..*|.*relative_position_index|"
    r"model\.pixel_level_module\.encoder\.(swin\.)?(layernorm\..*|embeddings\.mask_token)"
)
QUERIES = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone_config: SwinBackbone
    conv_dim: int = 256
    mask_dim: int = 256
    hidden_dim: int = 256
    encoder_feedforward_dim: int = 1024
    encoder_layers: int = 6
    decoder_layers: int = 10
    query_dec_layers: int = 2
    num_attention_heads: int = 8
    dim_feedforward: int = 2048
    num_queries: int = 150
    task_seq_len: int = 77
    use_task_norm: bool = True
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        width, heads = self.hidden_dim, self.num_attention_heads
        check_numbers("the widths", (width, self.mask_dim, self.encoder_feedforward_dim, self.dim_feedforward), WIDEST)
        layers = self.encoder_layers, self.decoder_layers, self.query_dec_layers
        check_numbers("encoder_layers, decoder_layers and query_dec_layers", layers, DEEPEST)
        check_numbers("num_queries", [self.num_queries], QUERIES, 2)
        check_numbers("task_seq_len", [self.task_seq_len], QUERIES)
        for name in ("conv_dim", "mask_dim"):
            require(getattr(self, name) == width, f"{name} is {getattr(self, name)}, expected hidden_dim {width}")
        require(width % GROUPS == 0, f"hidden_dim is {width}, no multiple of {GROUPS}")
        require(width % (2 * heads) == 0, f"num_attention_heads {heads} do not divide half of the hidden_dim")
        require(len(self.backbone_config.depths) == LEVELS + 1, "a backbone of other than four stages is not supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than Swin, and for
        other forms of the decoder than published ones.
        """
        backbone = SwinBackbone.part_of(values)
        for name in ("pre_norm", "enforce_input_proj"):
            require(not values.get(name), f"OneFormer with {name} is not supported")
        strides, common = values.get("strides", STRIDES), values.get("common_stride", STRIDES[0])
        require(isinstance(strides, list | tuple) and [*strides] == STRIDES, f"strides is {strides!r:.60}")
        require(common == STRIDES[0], f"common_stride is {common!r:.60}, expected {STRIDES[0]}")
        return super().from_dict({**values, "backbone_config": backbone})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"backbone_config": self.backbone_config.to_dict()}


class FirstLayer(Module):
    """A layer that makes queries of the task: attention to each other and to the finest map, and a feed-forward part,
    each with a residual and a norm.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, heads, epsilon = config.hidden_dim, config.num_attention_heads, config.layer_norm_eps
        self.self_attn, self.multihead_attn = MaskedAttention(width, heads), MaskedAttention(width, heads)
        self.linear1 = Linear(width, config.dim_feedforward)
        self.linear2 = Linear(config.dim_feedforward, width)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(width, epsilon) for _ in range(3))

    def forward(self, x: Tensor, queries: Tensor, source: Tensor, places: Tensor) -> Tensor:
        """x (B, Q, D) with queries (1, Q, D), source (1, S, D) with places (B, S, D) → (B, Q, D)."""
        x = self.norm1(x + self.self_attn(x + queries, x + queries, x))
        values = source.expand(*places.shape)
        x = self.norm2(x + self.multihead_attn(x + queries, values + places, values))
        return self.norm3(x + self.linear2(ops.relu(self.linear1(x))))


class QueriesLayer(Module):
    """Attention of queries to places within their masks and to each other, and a feed-forward part, each with a
    residual and a norm.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, heads, epsilon = config.hidden_dim, config.num_attention_heads, config.layer_norm_eps
        self.cross_attn, self.self_attn, self.ffn = Module(), Module(), Module()
        self.cross_attn.multihead_attn = MaskedAttention(width, heads)
        self.self_attn.self_attn = PositionedAttention(width, heads)
        self.ffn.linear1 = Linear(width, config.dim_feedforward)
        self.ffn.linear2 = Linear(config.dim_feedforward, width)
        for part in (self.cross_attn, self.self_attn, self.ffn):
            part.norm = LayerNorm(width, epsilon)

    def forward(self, x: Tensor, queries: Tensor, source: Tensor, waves: Tensor, mask: Tensor) -> Tensor:
        """x (B, Q, D) with queries (1, Q, D), source (B, S, D) with waves (1, S, D), mask (B, 1, Q, S) → (B, Q, D)."""
        cross, own, last = self.cross_attn, self.self_attn, self.ffn
        x = cross.norm(x + cross.multihead_attn(x + queries, source + waves, source, mask))
        x = own.norm(own.self_attn(x, queries, x))
        return last.norm(x + last.linear2(ops.relu(last.linear1(x))))


class Decoder(Module):
    """What makes queries of the task, the layers, and the labels and masks of queries."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, epsilon = config.hidden_dim, config.layer_norm_eps
        self.task_is_normed = config.use_task_norm
        self.query_transformer = Module()
        first = self.query_transformer.decoder = Module()
        first.layers = ModuleList(FirstLayer(config) for _ in range(config.query_dec_layers))
        first.norm = LayerNorm(width, epsilon)
        self.query_input_projection = Conv2d(config.mask_dim, width, 1)
        self.decoder_norm = LayerNorm(width, epsilon)
        self.layers = ModuleList(QueriesLayer(config) for _ in range(config.decoder_layers - 1))
        self.class_embed = Linear(width, len(config.labels) + 1)
        self.mask_embed = Module()
        self.mask_embed.layers = MaskEmbedder(width, config.mask_dim)

    def begin(self, task: Tensor, queries: Tensor, features: Tensor) -> Tensor:
        """The task (B, 1, D), queries (1, Q, D) and the features (B, M, H, W) of the finest map → (B, Q, D), of which
        the last is the task.
        """
        task = self.decoder_norm(task) if self.task_is_normed else task
        count, width = queries.shape[1] - 1, queries.shape[2]
        places = as_sequence(self.query_input_projection(features))
        waves = sines_of_places(int(features.shape[2]), int(features.shape[3]), width, features.device)
        x = task.expand(task.shape[0], count, width)
        x = x if self.task_is_normed else ops.zeros(*x.shape, device=x.device)
        for layer in self.query_transformer.decoder.layers:
            x = layer(x, queries.narrow(1, 0, count), waves, places)
        return ops.cat([self.query_transformer.decoder.norm(x), task], 1)

    def masks(self, x: Tensor, features: Tensor) -> Tensor:
        """x (B, Q, D), features (B, M, H, W) → the logits of masks (B, Q, H, W)."""
        found: Tensor = self.mask_embed.layers.masks(self.decoder_norm(x), features)
        return found


class Transformer(Module):
    """The queries, and what they read of the maps."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.queries_embedder = Embedding(config.num_queries, config.hidden_dim)
        self.decoder = Decoder(config)
        self.level_embed = Embedding(LEVELS, config.hidden_dim)

    def forward(self, maps: list[Tensor], features: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """maps (B, D, H, W), features (B, M, H', W') and the task (B, 1, D) → the logits of queries' labels (B, Q,
        labels + 1) and of their masks (B, Q, H', W').
        """
        numbers = ops.arange(self.queries_embedder.num_embeddings, device=features.device)
        levels = self.level_embed(ops.arange(LEVELS, device=features.device))  # (L, D)
        read = as_sources(maps, levels)
        queries = self.queries_embedder(numbers).unsqueeze(0)  # (1, Q, D)
        decoder = self.decoder
        x = decoder.begin(task, queries, features)
        masks = decoder.masks(x, features)
        for i, layer in enumerate(decoder.layers):
            source, waves, size = read[i % LEVELS]
            x = layer(x, queries, source, waves, shown_places(masks, size))
            masks = decoder.masks(x, features)
        return decoder.class_embed(decoder.decoder_norm(x)), masks


class OneFormer(ImageModel):
    """The labels of the places of pictures of any size from the backbone's largest step on, after `take_task`."""

    task_text = "the task is semantic"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.task: list[float] | None = None
        self.model = Module()
        self.model.pixel_level_module = PixelLevel(
            config.backbone_config, config.conv_dim, config.mask_dim, config.encoder_layers,
            config.num_attention_heads, config.encoder_feedforward_dim, config.layer_norm_eps,
        )  # fmt: skip
        self.model.transformer_module = Transformer(config)
        self.model.task_encoder = Module()
        mlp = self.model.task_encoder.task_mlp = Module()
        widths = [config.task_seq_len, config.hidden_dim, config.hidden_dim]
        mlp.layers = ModuleList(ModuleList([Linear(*pair)]) for pair in zip(widths, widths[1:], strict=False))

    def take_task(self, ids: Sequence[int]) -> None:
        """Sets the tokens of the task's text. ArgumentError for more than the model reads."""
        most = self.config.task_seq_len
        if not 1 <= len(ids) <= most:
            raise ArgumentError(f"the text of the task has {len(ids):,} tokens, expected 1 to {most:,}")
        self.task = [float(number) for number in ids] + [0.0] * (most - len(ids))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → scores (B, labels, H', W') of places, from 0: of all queries, how surely they
        have a label and hold a place. InputError before `take_task`.
        """
        parts, model = self.model.pixel_level_module, self.model
        check_pictures("OneFormer", pixel_values, self.config.num_channels, least=parts.least)
        if self.task is None:
            raise InputError(f"OneFormer: the task is not known: call take_task with the tokens of {self.task_text!r}")
        first, last = (layer for part in model.task_encoder.task_mlp.layers for layer in part.children())
        task = last(ops.relu(first(ops.tensor([self.task], device=pixel_values.device))))  # (1, D)
        task = task.unsqueeze(0).expand(pixel_values.shape[0], 1, task.shape[1])
        maps, features = parts(pixel_values)
        return labels_of_places(*model.transformer_module(maps, features, task))


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return name.replace(".encoder.swin.", ".encoder.", 1)


TASKS: Mapping[str, Callable[[Config], Module]] = {"semantic-segmentation": OneFormer}
