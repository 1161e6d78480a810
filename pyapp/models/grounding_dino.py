"""Grounding DINO (Liu et al. 2023, arXiv 2303.05499) and MM Grounding DINO (Zhao et al. 2024, arXiv 2401.02361): BERT
reads a text of phrases and a Swin sees a picture, layers let them look at each other, and queries from the places that
fit the text best find what the phrases name.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import BertEncoder, attend, visible_keys
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.detection import (
    PointAttention,
    PointsLayer,
    PredictionHead,
    boxes_of_places,
    centres_of_places,
    maps_in_one_width,
    moved,
    placed_objects,
    projected,
    sines_of_numbers,
    sines_of_places,
)
from pyapp.nn.vision.vision import ImageModel, as_sequence, check_pictures
from pyapp.nn.vision.windows import WindowMaps

from .loading.config import check_depth, optional_object, require
from .loading.encoder_config import BertTextConfig
from .loading.pictures_config import WIDEST, PictureConfig, SwinBackbone, check_numbers, stages_of

MODEL_TYPES = ("grounding-dino", "mm-grounding-dino")
IMAGE_PROCESSOR = "GroundingDino"  # of files that name none
BASE = ""
IGNORED = (  # copies, and what no task here reads
    r"model\.decoder\.(bbox_embed|class_embed)\..*|.*\.position_ids|model\.text_backbone\.pooler\..*|"
    r"model\.backbone\.conv_encoder\.model\.((swin\.)?layernorm\..*|embeddings\.mask_token)|.*relative_position_index"
)
GROUPS = 32  # of norms
STOP, ENDS = 1012, (101, 102, 1012, 1029)  # BERT's tokens "."; and "[CLS]", "[SEP]", "." and "?", which end a phrase
LEVELS, POINTS = 16, 64  # at most
STAGES = (1, 2, 3)  # of the Swin whose maps are read, where the file does not say it


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone_config: SwinBackbone
    stages: tuple[int, ...]  # of the backbone, whose maps are read
    text_config: BertTextConfig
    num_queries: int = 900
    encoder_layers: int = 6
    encoder_ffn_dim: int = 2048
    encoder_attention_heads: int = 8
    decoder_layers: int = 6
    decoder_ffn_dim: int = 2048
    decoder_attention_heads: int = 8
    activation_function: str = "relu"
    d_model: int = 256
    num_feature_levels: int = 4
    encoder_n_points: int = 4
    decoder_n_points: int = 4
    max_text_len: int = 256
    decoder_bbox_embed_share: bool = True
    decoder_cls_embed_share: bool = True
    positional_embedding_temperature: int = 20
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        width, inner = self.d_model, self.encoder_ffn_dim
        require(width <= WIDEST and width % GROUPS == 0, f"d_model is {width:,}, expected a multiple of {GROUPS}")
        check_numbers("encoder_ffn_dim and decoder_ffn_dim", (inner, self.decoder_ffn_dim), WIDEST)
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(width % heads == 0, f"{heads} heads do not divide d_model {width}")
        heads = self.encoder_attention_heads // 2  # of texts
        fits = heads >= 1 and inner % 2 == 0 and inner // 2 % heads == 0 and width % heads == 0
        require(fits, f"half of {self.encoder_attention_heads} heads do not divide half of encoder_ffn_dim {inner}")
        check_depth(max(self.encoder_layers, self.decoder_layers))
        require(self.num_queries <= 1 << 14, f"{self.num_queries:,} queries are too many")
        require(self.max_text_len <= 1 << 14, f"max_text_len is {self.max_text_len:,}")
        for name in ("encoder_n_points", "decoder_n_points"):
            require(getattr(self, name) <= POINTS, f"{name} is {getattr(self, name):,}")
        fits = len(self.stages) <= self.num_feature_levels <= LEVELS
        require(fits, f"num_feature_levels is {self.num_feature_levels:,}, the backbone has {len(self.stages)} maps")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for what is not supported."""
        found = dict(values)
        for name, kind, read in (("backbone_config", "swin", SwinBackbone), ("text_config", "bert", BertTextConfig)):
            own = optional_object(values, name)
            given = own.get("model_type", kind)
            require(given == kind, f"{name} is of {given!r:.60}, which is not known", f"Known: {kind}")
            found[name] = read.from_dict(own)
        count = len(found["backbone_config"].depths)
        found["stages"] = stages_of(values.get("backbone_config") or {}, count, STAGES)
        for name, wanted in (("position_embedding_type", "sine"), ("two_stage", True), ("query_dim", 4),
                             ("embedding_init_target", True)):  # fmt: skip
            given = values.get(name, wanted)
            require(given in (None, wanted), f"Grounding DINO with {name} {given!r:.60} is not supported")
        newer = values.get("model_type") == NewerConfig.model_type
        return super(Config, NewerConfig if newer else cls).from_dict(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        names = [f"stage{i + 1}" for i in own.pop("stages")]
        backbone = self.backbone_config.to_dict() | {"out_features": names}
        return own | {"backbone_config": backbone, "text_config": self.text_config.to_dict()}

    @property
    def vocab_size(self) -> int:
        """The number of tokens of texts."""
        return self.text_config.vocab_size


class NewerConfig(Config):
    """As Config, of MM Grounding DINO."""

    model_type = MODEL_TYPES[1]


class Attention(Module):
    """Attention of queries to keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.out_proj = Linear(width, width)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """q (B, T, D), k and v (B, S, D), mask bool that broadcasts to (B, H, T, S) → (B, T, D)."""
        parts = [
            layer(x).to(q.dtype).reshape(*x.shape[:2], self.heads, -1)
            for layer, x in ((self.query, q), (self.key, k), (self.value, v))
        ]
        return self.out_proj(attend(parts[0], parts[1], parts[2], mask))


class TextLayer(Module):
    """Attention of a phrase's tokens to each other, and a feed-forward part, each with a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner = config.d_model, config.encoder_ffn_dim // 2
        self.self_attn = Attention(width, config.encoder_attention_heads // 2)
        self.fc1, self.fc2 = Linear(width, inner), Linear(inner, width)
        self.layer_norm_before = LayerNorm(width, config.layer_norm_eps)
        self.layer_norm_after = LayerNorm(width, config.layer_norm_eps)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor, waves: Tensor, seen: Tensor) -> Tensor:
        """x and its positions waves (B, T, D), seen (B, 1, T, T) bool → (B, T, D)."""
        x = self.layer_norm_before(x + self.self_attn(x + waves, x + waves, x, seen))
        return self.layer_norm_after(x + self.fc2(self.activation(self.fc1(x))))


class BothWays(Module):
    """Attention of places to tokens and of tokens to places, by the same scores."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner = config.d_model, config.encoder_ffn_dim // 2
        self.heads = config.encoder_attention_heads // 2
        self.vision_proj, self.text_proj = Linear(width, inner), Linear(width, inner)
        self.values_vision_proj, self.values_text_proj = Linear(width, inner), Linear(width, inner)
        self.out_vision_proj, self.out_text_proj = Linear(inner, width), Linear(inner, width)

    def forward(self, x: Tensor, text: Tensor, tokens: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B, S, D), text (B, T, D), tokens (B, 1, 1, T) bool, False for padding → the same shapes."""

        def in_heads(layer: Module, y: Tensor) -> Tensor:
            return layer(y).reshape(*y.shape[:2], self.heads, -1)

        places, words = in_heads(self.vision_proj, x), in_heads(self.text_proj, text)
        seen = attend(places, words, in_heads(self.values_text_proj, text), tokens)
        read = attend(words, places, in_heads(self.values_vision_proj, x), None)
        return self.out_vision_proj(seen), self.out_text_proj(read)


class FusionLayer(Module):
    """The norms of both, to which what they find in each other is added."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.d_model
        self.layer_norm_vision = LayerNorm(width, config.layer_norm_eps)
        self.layer_norm_text = LayerNorm(width, config.layer_norm_eps)
        self.attn = BothWays(config)
        self.vision_param, self.text_param = new_parameter(ops.zeros, width), new_parameter(ops.zeros, width)

    def forward(self, x: Tensor, text: Tensor, tokens: Tensor | None) -> tuple[Tensor, Tensor]:
        """As BothWays."""
        x, text = self.layer_norm_vision(x), self.layer_norm_text(text)
        seen, read = self.attn(x, text, tokens)
        return x + self.vision_param * seen, text + self.text_param * read


class EncoderLayer(Module):
    """Places and tokens look at each other, then each at their own kind."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.text_enhancer_layer = TextLayer(config)
        self.fusion_layer = FusionLayer(config)
        self.deformable_layer = PointsLayer(
            config.d_model, config.encoder_attention_heads, config.num_feature_levels, config.encoder_n_points,
            config.encoder_ffn_dim, config.activation_function, config.layer_norm_eps,
        )  # fmt: skip


class DecoderLayer(Module):
    """Queries attend to each other, to the tokens, and to points of the maps; a feed-forward part. A norm follows each
    residual.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, heads, epsilon = config.d_model, config.decoder_attention_heads, config.layer_norm_eps
        self.self_attn, self.encoder_attn_text = Attention(width, heads), Attention(width, heads)
        self.self_attn_layer_norm = LayerNorm(width, epsilon)
        self.encoder_attn_text_layer_norm = LayerNorm(width, epsilon)
        self.encoder_attn = PointAttention(width, heads, config.num_feature_levels, config.decoder_n_points)
        self.encoder_attn_layer_norm = LayerNorm(width, epsilon)
        self.fc1, self.fc2 = Linear(width, config.decoder_ffn_dim), Linear(config.decoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width, epsilon)
        self.activation = activation_named(config.activation_function)

    def forward(
        self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]], text: Tensor,
        tokens: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """x (B, Q, D) at places (B, Q, D) with boxes (B, Q, 4), source (B, S, D) of maps of `sizes`, text (B, T, D),
        tokens (B, 1, 1, T) → (B, Q, D).
        """
        x = self.self_attn_layer_norm(x + self.self_attn(x + places, x + places, x, None))
        x = self.encoder_attn_text_layer_norm(x + self.encoder_attn_text(x + places, text, text, tokens))
        x = self.encoder_attn_layer_norm(x + self.encoder_attn.in_boxes(x + places, boxes, source, sizes))
        return self.final_layer_norm(x + self.fc2(self.activation(self.fc1(x))))


class Likeness(Module):
    """How well places, or queries, fit the tokens. MM Grounding DINO scales the scores and adds a bias."""

    def __init__(self, scaled: bool) -> None:
        super().__init__()
        self.bias = new_parameter(ops.zeros) if scaled else None

    def forward(self, x: Tensor, text: Tensor, tokens: Tensor | None) -> Tensor:
        """x (B, Q, D), text (B, T, D), tokens (B, 1, 1, T) → logits (B, Q, T), minus infinity for padding."""
        scores = x @ text.to(x.dtype).transpose(1, 2)
        if self.bias is not None:
            scores = scores / float(x.shape[2]) ** 0.5 + self.bias
        return scores if tokens is None else ops.where(tokens.squeeze(1), scores, float("-inf"))


def phrases(ids: Any) -> tuple[Any, Any]:
    """Token ids (B, T) → which tokens each one sees, bool (B, 1, T, T): those of its phrase, up to the token that ends
    it, but itself only after the last end and where a text ends; and its place in the phrase, int32 (B, T).
    """
    batch, length = ids.shape
    places, ends = np.arange(length), np.isin(ids, ENDS)  # (T,), (B, T)
    before = np.maximum.accumulate(np.where(ends, places, -1), 1)
    before = np.concatenate([np.full((batch, 1), -1), before[:, :-1]], 1)  # the end before each token
    after = np.minimum.accumulate(np.where(ends, places, length)[:, ::-1], 1)[:, ::-1]  # the end of its phrase
    inside = (after != 0) & (after < length - 1)
    seen = (after[:, :, None] == after[:, None, :]) & inside[:, None, :] | np.eye(length, dtype=bool)
    return seen[:, None], np.where(inside, places - before - 1, 0).astype("int32")


class Transformer(Module):
    """All but the output."""

    def __init__(self, config: Config, scaled: bool) -> None:
        super().__init__()
        self.config, width, seen = config, config.d_model, config.backbone_config
        self.backbone = Module()
        self.backbone.conv_encoder = Module()
        self.backbone.conv_encoder.model = WindowMaps(seen, config.stages)
        widths = [seen.embed_dim << stage for stage in config.stages]
        self.input_proj_vision = maps_in_one_width(widths, width, config.num_feature_levels)
        self.level_embed = new_parameter(ops.zeros, config.num_feature_levels, width)
        self.text_backbone = BertEncoder(config.text_config, pooler=False)
        self.text_backbone.most = min(self.text_backbone.most, config.max_text_len)
        self.text_projection = Linear(config.text_config.hidden_size, width)
        self.encoder = Module()
        self.encoder.layers = ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.enc_output, self.enc_output_norm = Linear(width, width), LayerNorm(width, config.layer_norm_eps)
        self.encoder_output_bbox_embed = PredictionHead(width, width, 4)
        self.encoder_output_class_embed = Likeness(scaled)
        self.query_position_embeddings = Embedding(config.num_queries, width)
        self.decoder = Module()
        self.decoder.layers = ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.decoder.layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.decoder.reference_points_head = PredictionHead(2 * width, width, width, 2)

    def maps(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, 3, H, W) → maps (B, D, H', W'), the finest first."""
        return projected(self.input_proj_vision, self.backbone.conv_encoder.model(pixel_values))

    def encode(self, maps: list[Tensor], ids: Tensor, tokens: Tensor | None) -> tuple[Tensor, Tensor]:
        """maps (B, D, H, W), ids (B, T), tokens (B, 1, 1, T) → places (B, S, D) and text (B, T, D)."""
        device, width = ids.device, self.config.d_model
        seen, positions = (ops.tensor(part, device=device) for part in phrases(ids.cpu().numpy()))
        reader = self.text_backbone
        text = self.text_projection(reader.encoder(reader.embeddings(ids, None, positions), seen))
        order = sines_of_numbers(positions.to(text.dtype), width)  # (B, T, D)
        sizes = [(int(x.shape[2]), int(x.shape[3])) for x in maps]
        slowest = float(self.config.positional_embedding_temperature)
        waves = ops.cat(
            [sines_of_places(*size, width, device, slowest) + self.level_embed[i] for i, size in enumerate(sizes)], 1
        )  # (1, S, D)
        x, centres = ops.cat([as_sequence(part) for part in maps], 1), centres_of_places(sizes, device)
        for layer in self.encoder.layers:
            x, text = layer.fusion_layer(x, text, tokens)
            text = layer.text_enhancer_layer(text, order, seen)
            x = layer.deformable_layer(x, waves, centres, sizes)
        return x, text

    def boxes(self, source: Tensor, sizes: list[tuple[int, int]], text: Tensor, tokens: Tensor | None) -> Tensor:
        """The boxes (B, Q, 4) of the places that fit the text best; arguments as those of DecoderLayer."""
        logits, inside = boxes_of_places(sizes, source.device)
        promising = self.enc_output_norm(self.enc_output(source * inside.to(source.dtype)))
        scores = self.encoder_output_class_embed(promising, text, tokens).amax(2)  # (B, S)
        best = ops.topk(scores, self.config.num_queries, 1)[1].unsqueeze(2)  # (B, Q, 1)
        logits = self.encoder_output_bbox_embed(promising) + logits
        return ops.sigmoid(ops.gather(logits, 1, best.expand(*best.shape[:2], 4))).detach()

    def forward(
        self, pixel_values: Tensor, ids: Tensor, tokens: Tensor | None, heads: Sequence[Module]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """pixel_values (B, 3, H, W), ids (B, T), tokens (B, 1, 1, T), the heads that move the boxes after each layer →
        queries (B, Q, D), their boxes (B, Q, 4) and text (B, T, D).
        """
        maps = self.maps(pixel_values)
        sizes = [(int(x.shape[2]), int(x.shape[3])) for x in maps]
        count, most = sum(rows * columns for rows, columns in sizes), self.config.num_queries
        if count < most:
            raise InputError(f"a picture of {describe(pixel_values)} has {count:,} places, {most:,} are needed")
        source, text = self.encode(maps, ids, tokens)
        boxes, numbers = self.boxes(source, sizes, text, tokens), ops.arange(most, dtype="int32", device=ids.device)
        x = self.query_position_embeddings(numbers).unsqueeze(0)
        x = x.expand(source.shape[0], *x.shape[1:])  # (B, Q, D)
        for i, (layer, head) in enumerate(zip(self.decoder.layers, heads, strict=True)):
            waves = sines_of_numbers(boxes[..., [1, 0, 2, 3]], self.config.d_model // 2).flatten(2)  # (B, Q, 2 * D)
            x = layer(x, self.decoder.reference_points_head(waves), boxes, source, sizes, text, tokens)
            if i + 1 < len(heads):
                boxes = moved(boxes, head(x)).detach()
        x = self.decoder.layer_norm(x)
        return x, moved(boxes, heads[-1](x)), text


class GroundingDino(ImageModel):
    """Finds what the phrases of a text name. All labels are one text, which the model reads at once."""

    template = "{}"
    usual_threshold = usual_text_threshold = 0.25

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, layers, width = config, config.decoder_layers, config.d_model
        scaled = config.model_type == NewerConfig.model_type
        self.model = Transformer(config, scaled)
        heads = [PredictionHead(width, width, 4) for _ in range(1 if config.decoder_bbox_embed_share else layers)]
        scores = [Likeness(scaled) for _ in range(1 if config.decoder_cls_embed_share else layers)]
        self.bbox_embed = ModuleList(heads * (layers // len(heads)))
        self.class_embed = ModuleList(scores * (layers // len(scores)))

    @property
    def most(self) -> int:
        """The largest number of tokens of a text."""
        found: int = self.model.text_backbone.most
        return found

    def prompt_of(self, labels: Sequence[str]) -> str:
        """The text of labels, as the model was trained: "a cat. a remote control."""
        return ". ".join(label.strip().lower() for label in labels) + "."

    def labels_in(self, ids: Sequence[int]) -> list[int]:
        """The number of the label that each token of a prompt is of; -1 for those of none."""
        return [-1 if token in ENDS or token == 0 else ids[:i].count(STOP) for i, token in enumerate(ids)]

    def found(self, pixel_values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """pixel_values (B, C, H, W) and the prompt ids (1, T) → logits (B, Q, T) of its tokens, boxes (B, Q, 4), and
        the ids.
        """
        return *self(pixel_values, ids.expand(pixel_values.shape[0], ids.shape[1])), ids

    def forward(self, pixel_values: Tensor, ids: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """pixel_values (B, C, H, W), ids (B, T), attention_mask (B, T), 0 where a token is padding → logits (B, Q, T)
        of the tokens, and boxes (B, Q, 4): centre x and y, width and height, as parts of the picture's sides.
        """
        check_pictures("Grounding DINO", pixel_values, self.config.num_channels)
        self.model.text_backbone.check(ids, attention_mask)
        tokens = visible_keys(attention_mask)
        x, boxes, text = self.model(pixel_values, ids, tokens, self.bbox_embed)
        return self.class_embed[-1](x, text, tokens), boxes

    def objects(
        self, outputs: Sequence[Tensor], threshold: float, names: Sequence[str], text_threshold: float | None = None
    ) -> list[list[dict[str, Any]]]:
        """As Detector.objects, of what `found` gives; the names are those of the prompt's labels. `tokens`: those that
        are more probable than the text threshold, for a text of what was found.
        """
        logits, boxes, ids = outputs
        least = self.usual_text_threshold if text_threshold is None else text_threshold
        prompt: list[int] = ids.reshape(-1).tolist()
        labels = self.labels_in(prompt)
        last = min(len(prompt), self.config.max_text_len - 1)

        def described(picture: int, row: list[float]) -> dict[str, Any]:
            best = max((i for i, label in enumerate(labels) if label >= 0), key=row.__getitem__)
            tokens = [prompt[i] for i in range(1, last) if row[i] > least]
            return {"label": names[labels[best]], "score": max(row), "tokens": tokens}

        return placed_objects(ops.sigmoid(logits.to("float32")), boxes, described, threshold)


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-object-detection": GroundingDino}
