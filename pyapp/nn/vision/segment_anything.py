"""The parts that the versions of Segment Anything (Kirillov et al. 2023, arXiv 2304.02643; Ravi et al. 2024, arXiv
2408.00714) share: what points and boxes show, and the decoder of masks.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import pi
from typing import Any, NamedTuple

from ...engine import Tensor, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..encoders.encoders import attend
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d, ConvTranspose2d
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .sam_tower import EPSILON, SamFeedForward
from .vision import ImageModel, over_channels

KINDS = 4  # of points: outside, inside, and the two corners of a box


class Form(NamedTuple):
    """How a version's decoder differs. rate: by how much the channels of the layers' attention shrink; output: the name
    of its last layer; depth: the linear layers of the feed-forward parts, None: two with a residual; epsilon: of the
    layers' norms.
    """

    rate: int
    output: str
    depth: int | None
    epsilon: float


class PlaceEmbedding(Module):
    """Waves of random directions over the picture."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.positional_embedding = new_parameter(ops.randn, 2, features)

    def forward(self, places: Tensor) -> Tensor:
        """places (..., 2): x and y as parts of the sides → (..., 2 * features)."""
        x = ((2 * places - 1).to(self.positional_embedding.dtype) @ self.positional_embedding) * (2 * pi)
        return ops.cat([x.sin(), x.cos()], -1)


class MaskEmbedding(Module):
    """A map of a mask that was given as a prompt."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        channels = config.mask_input_channels
        self.conv1 = Conv2d(1, channels // 4, 2, stride=2)
        self.layer_norm1 = LayerNorm(channels // 4, config.layer_norm_eps)
        self.conv2 = Conv2d(channels // 4, channels, 2, stride=2)
        self.layer_norm2 = LayerNorm(channels, config.layer_norm_eps)
        self.conv3 = Conv2d(channels, config.hidden_size, 1)
        self.activation = activation_named(config.hidden_act)

    def forward(self, masks: Tensor) -> Tensor:
        """masks (B, 1, 4 * side, 4 * side) logits → (B, C, side, side)."""
        x = self.activation(over_channels(self.conv1(masks), self.layer_norm1))
        return self.conv3(self.activation(over_channels(self.conv2(x), self.layer_norm2)))


def vectors_of(table: Embedding) -> Tensor:
    """All vectors (N, C) of a table, whose weights may be quantised."""
    return table(ops.arange(table.num_embeddings, device=table.weight.device))


class PromptEncoder(Module):
    """The tokens of points and boxes. tables: each kind of point has a table of its own in files."""

    def __init__(self, config: Any, tables: bool = True) -> None:
        super().__init__()
        width = config.hidden_size
        self.mask_embed = MaskEmbedding(config)
        self.no_mask_embed = Embedding(1, width)
        self.tables = tables
        if tables:
            self.point_embed: Module = ModuleList(Embedding(1, width) for _ in range(KINDS))
        else:
            self.point_embed = Embedding(KINDS, width)
        self.not_a_point_embed = Embedding(1, width)

    def _kinds(self) -> Tensor:
        """The vectors (4, C) of points outside and inside, and of a box's two corners."""
        own: Any = self.point_embed
        return ops.cat([vectors_of(table) for table in own]) if self.tables else vectors_of(own)

    def points(self, waves: Tensor, labels: Tensor) -> Tensor:
        """waves (B, P, N, C) of points, labels (B, P, N): 1 of the object, 0 not of it, -1 no point → (B, P, N, C)."""
        x, kinds = ops.where((labels == -1).unsqueeze(3), vectors_of(self.not_a_point_embed), waves), self._kinds()
        for value in (0, 1):
            x = x + (labels == value).unsqueeze(3).to(x.dtype) * kinds.narrow(0, value, 1)
        return x

    def boxes(self, waves: Tensor) -> Tensor:
        """waves (B, P, 2, C) of the corners → (B, P, 2, C)."""
        return waves + self._kinds().narrow(0, 2, 2)


class DecoderAttention(Module):
    """Attention between tokens and places, in fewer channels. output: the name of its last layer."""

    def __init__(self, config: Any, rate: int, output: str) -> None:
        super().__init__()
        self.output = output
        width, inner = config.hidden_size, config.hidden_size // rate
        self.heads = config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, inner) for _ in range(3))
        self.add_module(output, Linear(inner, width))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q (B, T, C), k and v (B, S, C) → (B, T, C)."""
        parts = [
            layer(x).reshape(*x.shape[:2], self.heads, -1)
            for layer, x in ((self.q_proj, q), (self.k_proj, k), (self.v_proj, v))
        ]
        found: Tensor = self._modules[self.output](attend(parts[0], parts[1], parts[2], None))
        return found


class TwoWayLayer(Module):
    """Tokens attend to each other, then to the places; then the places attend to the tokens."""

    def __init__(self, config: Any, first: bool, form: Form) -> None:
        super().__init__()
        self.first, width = first, config.hidden_size
        self.self_attn = DecoderAttention(config, 1, form.output)
        self.cross_attn_token_to_image = DecoderAttention(config, form.rate, form.output)
        if form.depth is None:
            self.mlp: Module = SamFeedForward(width, config.mlp_dim, config.hidden_act)
        else:
            self.mlp = Head(width, config.mlp_dim, width, form.depth)
        self.cross_attn_image_to_token = DecoderAttention(config, form.rate, form.output)
        for i in range(1, 5):
            self.add_module(f"layer_norm{i}", LayerNorm(width, form.epsilon))

    def forward(self, x: Tensor, tokens: Tensor, image: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, C) with the prompts (B, T, C), the map image (B, S, C) at places (1, S, C) → both."""
        if self.first:
            x = self.self_attn(x, x, x)
        else:
            q = x + tokens
            x = x + self.self_attn(q, q, x)
        x = self.layer_norm1(x)
        x = self.layer_norm2(x + self.cross_attn_token_to_image(x + tokens, image + places, image))
        x = self.layer_norm3(self.mlp(x, x) if isinstance(self.mlp, SamFeedForward) else x + self.mlp(x))
        image = self.layer_norm4(image + self.cross_attn_image_to_token(image + places, x + tokens, x))
        return x, image


class TwoWayTransformer(Module):
    """The layers, and a last look of the tokens at the places."""

    def __init__(self, config: Any, form: Form) -> None:
        super().__init__()
        self.layers = ModuleList(TwoWayLayer(config, i == 0, form) for i in range(config.num_hidden_layers))
        self.final_attn_token_to_image = DecoderAttention(config, config.attention_downsample_rate, form.output)
        self.layer_norm_final_attn = LayerNorm(config.hidden_size)

    def forward(self, tokens: Tensor, image: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """tokens (B, T, C), image (B, S, C) at places (1, S, C) → both."""
        x = tokens
        for layer in self.layers:
            x, image = layer(x, tokens, image, places)
        x = x + self.final_attn_token_to_image(x + tokens, image + places, image)
        return self.layer_norm_final_attn(x), image


class Head(Module):
    """Linear layers with an activation between them."""

    def __init__(self, width: int, inner: int, outputs: int, depth: int, activation: str = "relu") -> None:
        super().__init__()
        self.activation = activation_named(activation)
        self.proj_in = Linear(width, inner)
        self.layers = ModuleList(Linear(inner, inner) for _ in range(depth - 2))
        self.proj_out = Linear(inner, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., outputs)."""
        x = self.activation(self.proj_in(x))
        for layer in self.layers:
            x = self.activation(layer(x))
        return self.proj_out(x)


class MaskDecoder(Module):
    """Masks, and how good each will be: a token for the latter, and one for each mask. The first is for prompts with
    one meaning, the others for several meanings of one point.
    """

    def __init__(self, config: Any, form: Form) -> None:
        super().__init__()
        width, masks = config.hidden_size, config.num_multimask_outputs + 1
        self.iou_token = Embedding(1, width)
        self.mask_tokens = Embedding(masks, width)
        self.transformer = TwoWayTransformer(config, form)
        self.upscale_conv1 = ConvTranspose2d(width, width // 4, 2, stride=2)
        self.upscale_layer_norm = LayerNorm(width // 4, EPSILON)
        self.upscale_conv2 = ConvTranspose2d(width // 4, width // 8, 2, stride=2)
        self.output_hypernetworks_mlps = ModuleList(Head(width, width, width // 8, 3) for _ in range(masks))
        self.iou_prediction_head = Head(width, config.iou_head_hidden_dim, masks, config.iou_head_depth)

    def own_tokens(self) -> list[Tensor]:
        """The vectors (N, C) of the tokens before the prompts; the last ones are those of scores and masks."""
        return [vectors_of(self.iou_token), vectors_of(self.mask_tokens)]

    def scores(self, x: Tensor) -> Tensor:
        """x (B, C) of the token → how good each mask is (B, M)."""
        found: Tensor = self.iou_prediction_head(x)
        return found

    def forward(
        self, prompts: Tensor, image: Tensor, places: Tensor, finer: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor]:
        """prompts (B, N, C), image (B, C, side, side), places (1, side², C), finer maps (B, C / 4, 2 * side, 2 * side)
        and (B, C / 8, 4 * side, 4 * side), if there are any → masks (B, M, 4 * side, 4 * side) logits and scores
        (B, M).
        """
        masks, scores, _ = self.decoded(prompts, image, places, finer)
        return masks, scores

    def decoded(
        self, prompts: Tensor, image: Tensor, places: Tensor, finer: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As forward, and the states (B, T, C) of all tokens."""
        own = ops.cat(self.own_tokens())  # (N', C)
        masks, count = self.mask_tokens.num_embeddings, own.shape[0]
        x, image = self.seen(own, prompts, image, places, finer)
        filters = [head(x.select(1, count - masks + i)) for i, head in enumerate(self.output_hypernetworks_mlps)]
        found = ops.stack(filters, 1) @ image.flatten(2)  # (B, M, pixels)
        found = found.reshape(found.shape[0], masks, *image.shape[2:])
        return found, self.scores(x.select(1, count - masks - 1)), x

    def seen(
        self, own: Tensor, prompts: Tensor, image: Tensor, places: Tensor, finer: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The own tokens (N', C), and what forward takes → the states (B, T, C) of all tokens, and the larger map
        (B, C / 8, 4 * side, 4 * side).
        """
        batch, width, rows, columns = image.shape
        tokens = ops.cat([own.unsqueeze(0).expand(batch, *own.shape), prompts], 1)
        x, image = self.transformer(tokens, image.flatten(2).transpose(1, 2), places)
        image = self.upscale_conv1(image.transpose(1, 2).reshape(batch, width, rows, columns))
        image = image + finer[0] if finer else image
        image = self.upscale_conv2(ops.gelu(over_channels(image, self.upscale_layer_norm)))
        return x, ops.gelu(image + finer[1] if finer else image)


def repeated(x: Tensor, count: int) -> Tensor:
    """x (B, C, H, W) → (B * count, C, H, W), each map `count` times."""
    return x.unsqueeze(1).expand(x.shape[0], count, *x.shape[1:]).reshape(x.shape[0] * count, *x.shape[1:])


def last_of(steps: Generator[Any, None, Any]) -> Any:
    """What a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class PromptedMasks(ImageModel):
    """Masks of what points and boxes show. `features` sees a picture once; `masks` is quick. A subclass has
    `shared_image_embedding`, `prompt_encoder` and `mask_decoder`. boxes_end: an empty point follows boxes too.
    """

    boxes_end = False
    shared_image_embedding: PlaceEmbedding
    prompt_encoder: PromptEncoder
    mask_decoder: MaskDecoder

    @property
    def pixels(self) -> tuple[int, int]:
        """The only size (height, width) of pictures that the model takes."""
        raise NotImplementedError

    def features_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Any]:
        """As `features`; yields how many layers are done, and how many there are."""
        raise NotImplementedError

    def features(self, pixel_values: Tensor) -> Any:
        """What the model sees of pixel_values (B, 3, H, W)."""
        return last_of(self.features_in_steps(pixel_values))

    def maps(self, features: Any) -> tuple[Tensor, Sequence[Tensor]]:
        """The map (B, C, side, side) of what it saw, and finer ones."""
        return features, ()

    def waves(self, places: Tensor) -> Tensor:
        """The waves (..., C) of places (..., 2) in prompts: x and y as parts of the sides."""
        found: Tensor = self.shared_image_embedding(places)
        return found

    def single(self, masks: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The mask (B, 1, H, W) and the score (B, 1) of a prompt with one meaning, of masks (B, M, H, W) and scores (B,
        M).
        """
        return masks[:, :1], scores[:, :1]

    def meanings(self, masks: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """As `single`, the masks (B, M - 1, H, W) and the scores (B, M - 1) of a prompt with several meanings."""
        return masks[:, 1:], scores[:, 1:]

    def masks(
        self, features: Any, points: Tensor | None = None, labels: Tensor | None = None,
        boxes: Tensor | None = None, given: Tensor | None = None, several: bool = True,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Features of B pictures and P prompts for each picture: points (B, P, N, 2) in pixels x, y with labels
        (B, P, N) integers (1 of the object, 0 not of it, None: all 1), boxes (B, P, 4) left, top, right, bottom, and
        logits `given` (B, 1, 4 * side, 4 * side) → masks (B, P, M, 4 * side, 4 * side) logits, above 0 inside, and the
        score of each (B, P, M). M is 3, the meanings that one point may have, or 1 with several=False.
        """
        features, finer = self.maps(features)  # (B, C, side, side)
        self._check(features, points, labels, boxes)
        batch, width, rows, columns = features.shape
        sides = ops.tensor([float(self.pixels[1]), float(self.pixels[0])], device=features.device)
        tokens = []
        if points is not None:
            labels = ops.ones(*points.shape[:3], dtype="int64", device=points.device) if labels is None else labels
            waves = self.waves((points.to("float32") + 0.5) / sides)  # (B, P, N, C)
            tokens.append(self.prompt_encoder.points(waves, labels))
        if boxes is not None:
            corners = (boxes.to("float32").reshape(*boxes.shape[:2], 2, 2) + 0.5) / sides
            tokens.append(self.prompt_encoder.boxes(self.waves(corners)))
        if boxes is None or self.boxes_end:
            none = vectors_of(self.prompt_encoder.not_a_point_embed).reshape(1, 1, 1, width)
            tokens.append(none.expand(*tokens[0].shape[:2], 1, width))
        prompts = ops.cat(tokens, 2)  # (B, P, N', C)
        count = prompts.shape[1]
        if given is None:
            dense = vectors_of(self.prompt_encoder.no_mask_embed).reshape(1, width, 1, 1)
        else:
            dense = self.prompt_encoder.mask_embed(given)
        image, *finer = (repeated(x, count) for x in (features + dense, *finer))
        found, scores = self.mask_decoder(prompts.flatten(0, 1), image, self.places(rows, columns), finer)
        found, scores = self.meanings(found, scores) if several else self.single(found, scores)
        shape = batch, count, found.shape[1]
        return found.reshape(*shape, *found.shape[2:]), scores.reshape(shape)

    def forward(
        self, pixel_values: Tensor, points: Tensor | None = None, labels: Tensor | None = None,
        boxes: Tensor | None = None, several: bool = True,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """pixel_values (B, 3, H, W) and prompts → masks and scores, as `masks`."""
        return self.masks(self.features(pixel_values), points, labels, boxes, several=several)

    def places(self, rows: int, columns: int) -> Tensor:
        """The waves of the places of the map (1, rows * columns, C)."""
        device = self.device
        y = ((ops.arange(rows, dtype="float32", device=device) + 0.5) / rows).reshape(rows, 1).expand(rows, columns)
        x = (ops.arange(columns, dtype="float32", device=device) + 0.5) / columns
        places = ops.stack([x.reshape(1, columns).expand(rows, columns), y], 2)  # (rows, columns, 2)
        return self.shared_image_embedding(places.reshape(1, rows * columns, 2))

    def _check(self, features: Tensor, points: Tensor | None, labels: Tensor | None, boxes: Tensor | None) -> None:
        if points is None and boxes is None:
            raise ArgumentError("Segment Anything: give points or boxes")
        batch = features.shape[0]
        shapes = (("points", points, 4, 2), ("boxes", boxes, 3, 4))
        for name, given, ndim, last in shapes:
            if given is not None and (given.ndim != ndim or given.shape[0] != batch or given.shape[-1] != last):
                wanted = "(B, P, N, 2)" if name == "points" else "(B, P, 4)"
                raise ArgumentError(f"Segment Anything: {name} are {wanted} with {batch} for B, not {describe(given)}")
        if labels is not None and (points is None or labels.shape != points.shape[:3]):
            raise ArgumentError(f"Segment Anything: labels are (B, P, N), as many as points, not {describe(labels)}")
        if points is not None and boxes is not None and points.shape[1] != boxes.shape[1]:
            raise ArgumentError(
                f"Segment Anything: points are for {points.shape[1]} prompts, boxes for {boxes.shape[1]}"
            )
