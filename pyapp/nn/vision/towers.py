"""The common parts of models that read pictures and texts into one space (CLIP, Radford et al. 2021, arXiv 2103.00020):
a transformer for each, whose layers have a norm before each part, and the scores of all pairs.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...errors import ArgumentError
from ..encoders.encoders import attend_joined, first_token
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.embedding import Embedding
from ..layers.feed_forward import FeedForward
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from ..sequence_to_sequence.sequence_to_sequence import Attention, check_ids
from .vision import ImageModel, as_sequence, check_pictures


class TowerLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it. causal: a token attends
    to those before it only.
    """

    def __init__(
        self, width: int, heads: int, inner: int, activation: str, epsilon: float, causal: bool = False
    ) -> None:
        super().__init__()
        self.causal = causal
        self.self_attn = Attention(width, heads)
        self.layer_norm1 = LayerNorm(width, epsilon)
        self.mlp = FeedForward(width, inner, activation)
        self.layer_norm2 = LayerNorm(width, epsilon)

    def forward(self, x: Tensor, table: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D), the rotary positions (T, head / 2, 2) if there are some → (B, T, D). mask (B, 1, T, T) bool:
        which tokens a token sees, if not all, or all before it.
        """
        attention = self.self_attn
        qkv = attention.qkv(attention, self.layer_norm1(x))  # (B, T, 3 D)
        if table is not None:
            parts = qkv.reshape(*qkv.shape[:2], 3 * attention.heads, -1)
            both = ops.rope(parts.narrow(2, 0, 2 * attention.heads), table, interleaved=False)
            v = parts.narrow(2, 2 * attention.heads, attention.heads)
            qkv = ops.cat([both, v], 2).reshape(qkv.shape)
        y = attend_joined(qkv, attention.heads, mask, causal=self.causal)
        x = attention.out_proj(y, x)
        return self.mlp(self.layer_norm2(x), x)


class Tower(Module):
    """The layers of a transformer, by the fields of its configuration."""

    def __init__(self, config: Any, causal: bool = False) -> None:
        super().__init__()
        self.layers = ModuleList(
            TowerLayer(
                config.hidden_size, config.num_attention_heads, config.intermediate_size, config.hidden_act,
                config.layer_norm_eps, causal,
            )
            for _ in range(config.num_hidden_layers)
        )  # fmt: skip

    def forward(self, x: Tensor, count: int | None = None, table: Tensor | None = None) -> Tensor:
        """x (B, T, D) → (B, T, D), after the first `count` layers; None: after all. table: as TowerLayer's."""
        for layer in self.layers if count is None else self.layers[:count]:
            x = layer(x, table)
        return x


def first_rows(table: Embedding, count: int) -> Tensor:
    """The first `count` vectors of a table, which may be quantised: (count, D)."""
    return table(ops.arange(count, dtype="int32", device=table.weight.device))


class TextEmbeddings(Module):
    """Tokens and their positions."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.token_embedding = Embedding(config.vocab_size, config.hidden_size)
        self.position_embedding = Embedding(config.max_position_embeddings, config.hidden_size)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (N, T) → (N, T, D)."""
        return self.token_embedding(ids) + first_rows(self.position_embedding, ids.shape[1])


OLDER_END = 2  # the eos_token_id of older files, whose texts end with their largest token


def at_ends(x: Tensor, ids: Tensor, end: int, older: bool = True) -> Tensor:
    """x (N, T, D) of ids (N, T) → the vectors (N, D) at the first end token of each text; at its first token if there
    is none. older: whether OLDER_END stands for the largest token.
    """
    rows, largest = ids.tolist(), older and end == OLDER_END
    ends = [row.index(max(row) if largest else end) if end in row or largest else 0 for row in rows]
    places = ops.tensor([i * ids.shape[1] + at for i, at in enumerate(ends)], dtype="int64", device=x.device)
    return x.reshape(-1, x.shape[2]).index_select(0, places)


class TextTower(Module):
    """Embeddings, layers and a norm."""

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = TextEmbeddings(config)
        self.encoder = Tower(config, causal)
        self.final_layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (N, T) → hidden states (N, T, D)."""
        return self.states(ids)[1]

    def states(self, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """ids (N, T) → the hidden states (N, T, D) before the last layer, and those after it and the norm. mask: as
        TowerLayer's.
        """
        check_ids(self, ids, None)
        x = before = self.embeddings(ids)
        for layer in self.encoder.layers:
            before, x = x, layer(x, None, mask)
        return before, self.final_layer_norm(x)


class PositionedPatches(Module):
    """Patches with their positions, after the class token if there is one."""

    def __init__(self, config: Any, class_token: bool) -> None:
        super().__init__()
        width = config.hidden_size
        self.class_embedding = new_parameter(ops.zeros, width) if class_token else None
        self.patch_embedding = Conv2d(
            config.num_channels, width, config.patch_size, stride=config.patch_size, bias=not class_token
        )
        self.position_embedding = Embedding(config.patches + class_token, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, T, D)."""
        x = as_sequence(self.patch_embedding(pixel_values))
        if self.class_embedding is not None:
            token = self.class_embedding.reshape(1, 1, -1).expand(x.shape[0], 1, x.shape[2])
            x = ops.cat([token, x], 1)
        return x + first_rows(self.position_embedding, x.shape[1])


class VisionTower(ImageModel):
    """The Vision Transformer of SigLIP; that of CLIP (`class_token`) has a token and a norm before its layers."""

    def __init__(self, config: Any, class_token: bool) -> None:
        super().__init__()
        self.config = config
        self.embeddings = PositionedPatches(config, class_token)
        self.pre_layrnorm = LayerNorm(config.hidden_size, config.layer_norm_eps) if class_token else None  # as in files
        self.encoder = Tower(config)
        self.post_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, T, D) after all layers and the last norm."""
        return self.post_layernorm(self.states(pixel_values))

    def states(self, pixel_values: Tensor, count: int | None = None) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, T, D) after `count` layers; None: after all."""
        check_pictures(self.config.model_type, pixel_values, self.config.num_channels, self.config.image_size)
        x = self.embeddings(pixel_values)
        return self.encoder(x if self.pre_layrnorm is None else self.pre_layrnorm(x), count)


class FlatPatches(Module):
    """Patches as rows of numbers, with the learned positions of a square, which are stretched over the picture."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.patch_size, self.grid = config.patch_size, config.grid
        self.patch_embedding = Linear(
            config.num_channels * config.patch_size[0] * config.patch_size[1], config.hidden_size
        )
        self.position_embedding = Embedding(config.patches, config.hidden_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, T, D)."""
        count, channels, height, width = pixel_values.shape
        high, wide = self.patch_size
        rows, columns = height // high, width // wide
        x = pixel_values.reshape(count, channels, rows, high, columns, wide).permute(0, 2, 4, 3, 5, 1)
        x = self.patch_embedding(x.reshape(count, rows * columns, -1))  # (B, T, D)
        table = first_rows(self.position_embedding, self.grid[0] * self.grid[1])
        square = table.reshape(1, *self.grid, -1).permute(0, 3, 1, 2)  # (1, D, side, side)
        places = ops.interpolate(square, size=(rows, columns), mode="bilinear", align_corners=False, antialias=True)
        return x + as_sequence(places)


class NaflexTower(ImageModel):
    """The Vision Transformer of SigLIP 2 for pictures of any shape."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embeddings = FlatPatches(config)
        self.encoder = Tower(config)
        self.post_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) in multiples of a patch's sides → hidden states (B, T, D) after all layers and the
        last norm.
        """
        high, wide = self.config.patch_size
        check_pictures("SigLIP 2", pixel_values, self.config.num_channels, least=max(high, wide))
        if pixel_values.shape[2] % high or pixel_values.shape[3] % wide:
            raise ArgumentError(
                f"SigLIP 2: pictures have multiples of {high} x {wide} pixels, not "
                f"{pixel_values.shape[2]} x {pixel_values.shape[3]}"
            )
        return self.post_layernorm(self.encoder(self.embeddings(pixel_values)))


class ClipTower(VisionTower):
    """The Vision Transformer of CLIP."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, class_token=True)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features (B, D), of the class token."""
        return self.post_layernorm(first_token(self.states(pixel_values)))


class TowerClassifier(ImageModel):
    """Scores of the labels of pictures, of the mean of what a model's part for pictures says of their patches."""

    vision_model: Any

    def __init__(self, config: Any, vision_model: ImageModel) -> None:
        super().__init__()
        self.config, self.vision_model = config, vision_model
        self.classifier = Linear(config.vision_config.hidden_size, len(config.labels))

    def patches(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the states (B, T, D) of patches."""
        raise NotImplementedError

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        return self.classifier(self.patches(pixel_values).mean(1))


class ClipClassifier(TowerClassifier):
    """CLIP's, of the patches before the last norm."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, ClipTower(config.vision_config))

    @property
    def pixels(self) -> tuple[int, int] | None:
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    def patches(self, pixel_values: Tensor) -> Tensor:
        x = self.vision_model.states(pixel_values)
        return x.narrow(1, 1, x.shape[1] - 1)


def direction_scores(x: Tensor, texts: Tensor) -> Tensor:
    """Vectors (B, P) and those of texts (N, P) → the cosines of the angles between them (B, N)."""
    parts = [vectors / (vectors * vectors).sum(1, keepdim=True).sqrt() for vectors in (x, texts)]
    return parts[0] @ parts[1].transpose(0, 1)


class PictureAndText(ImageModel):
    """A model of pictures and texts. `template` makes a text of a label; `independent`: each label has a probability of
    its own, else the probabilities of all add up to 1; `fixed_length`: texts are padded to their largest length.
    """

    template = "This is a photo of {}."
    independent = False
    fixed_length = False
    padding: int | None = None  # the token of padding; None: the tokenizer's
    masks_texts = False  # padding after a text changes nothing
    vision_model: Any
    text_model: Any
    logit_scale: Tensor

    @property
    def pixels(self) -> tuple[int, int] | None:
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    @property
    def most(self) -> int:
        """The largest number of tokens of a text."""
        found: int = self.text_model.most
        return found

    def image_features(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the vectors of pictures (B, P)."""
        raise NotImplementedError

    def text_features(self, ids: Tensor) -> Tensor:
        """ids (N, T) → the vectors of texts (N, P)."""
        raise NotImplementedError

    def scores(self, pictures: Tensor, texts: Tensor) -> Tensor:
        """Vectors of pictures (B, P) and of texts (N, P) → logits (B, N)."""
        return direction_scores(pictures, texts) * self.logit_scale.exp()

    def forward(self, pixel_values: Tensor, ids: Tensor) -> Tensor:
        """pixel_values (B, C, H, W), ids (N, T) → logits (B, N): how well each text says what a picture shows."""
        return self.scores(self.image_features(pixel_values), self.text_features(ids))


class ProjectedTowers(PictureAndText):
    """CLIP's Vision Transformer and a model of texts, with projections into the common space. text_width: features of
    the model of texts, if they are others than its hidden_size.
    """

    def __init__(self, config: Any, text_model: Module, text_width: int | None = None) -> None:
        super().__init__()
        self.config = config
        self.text_model = text_model
        self.vision_model = ClipTower(config.vision_config)
        self.visual_projection = Linear(config.vision_config.hidden_size, config.projection_dim, bias=False)
        width = config.text_config.hidden_size if text_width is None else text_width
        self.text_projection = Linear(width, config.projection_dim, bias=False)
        self.logit_scale = new_parameter(ops.zeros)

    def image_features(self, pixel_values: Tensor) -> Tensor:
        return self.visual_projection(self.vision_model(pixel_values))
