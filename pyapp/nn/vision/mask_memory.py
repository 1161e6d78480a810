"""The memory with which Segment Anything 2 follows objects through a video (Ravi et al. 2024, arXiv 2408.00714): what a
frame shows is read together with maps of earlier frames and of the masks found there, and with a vector of the object
in each of them.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Tensor, ops
from ...engine.lazy import np
from ..encoders.encoders import attend
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .detection import sines_of_places
from .segment_anything import Head, PromptedMasks, vectors_of
from .vision import over_channels

EPSILON = 1e-6  # of the norms of the encoder
NOWHERE = -1024.0  # the logits of the mask of an object that is not there
OF_PLACES = 0.1  # how much the positions of a frame count
HALVINGS = 4  # of a mask, to the size of the map


class RotaryAttention(Module):
    """Attention with rotary positions of rows and columns; keys and values have `source` channels."""

    def __init__(self, config: Any, source: int) -> None:
        super().__init__()
        inner = config.width // config.memory_attention_downsample_rate
        self.heads = config.memory_attention_num_attention_heads
        self.q_proj = Linear(config.width, inner)
        self.k_proj, self.v_proj = (Linear(source, inner) for _ in range(2))
        self.o_proj = Linear(inner, config.width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, table: Tensor, placed: int) -> Tensor:
        """x (B, T, C), keys and values (B, S, C'), table (T, D / 2, 2), placed: how many keys have positions, which are
        those of x again and again → (B, T, C).
        """
        q, k, v = (
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer, y in ((self.q_proj, x), (self.k_proj, keys), (self.v_proj, values))
        )
        turned = ops.rope(k.narrow(1, 0, placed), ops.cat([table] * (placed // table.shape[0])))
        rest = k.shape[1] - placed
        k = ops.cat([turned, k.narrow(1, placed, rest)], 1) if rest else turned
        return self.o_proj(attend(ops.rope(q, table), k, v, None))


class MemoryLayer(Module):
    """Attention of places to each other and to the memory, and a feed-forward part, each with a norm before it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, inner = config.width, config.memory_attention_feed_forward_hidden_size
        self.self_attn = RotaryAttention(config, width)
        self.cross_attn_image = RotaryAttention(config, config.memory_encoder_output_channels)
        self.linear1, self.linear2 = Linear(width, inner), Linear(inner, width)
        self.layer_norm1, self.layer_norm2, self.layer_norm3 = (LayerNorm(width) for _ in range(3))
        self.activation = activation_named(config.memory_attention_feed_forward_hidden_act)

    def forward(self, x: Tensor, memory: Tensor, places: Tensor, table: Tensor, placed: int) -> Tensor:
        """x (B, T, C), memory and its positions (B, S, M) → (B, T, C)."""
        y = self.layer_norm1(x)
        x = x + self.self_attn(y, y, y, table, y.shape[1])
        x = x + self.cross_attn_image(self.layer_norm2(x), memory + places, memory, table, placed)
        return x + self.linear2(self.activation(self.linear1(self.layer_norm3(x))))


class MemoryAttention(Module):
    """Layers in which a frame reads the memory."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.layers = ModuleList(MemoryLayer(config) for _ in range(config.memory_attention_num_layers))
        self.layer_norm = LayerNorm(config.width)

    def table(self, like: Tensor) -> Tensor:
        """The rotations (T, D / 2, 2) of the places, those of columns before those of rows."""
        config = self.config
        rows, columns = config.grid
        size = config.width // config.memory_attention_downsample_rate // config.memory_attention_num_attention_heads
        speeds = config.rope_theta ** -(np.arange(0, size // 2, 2) / (size // 2))
        along, down = np.tile(np.arange(columns), rows), np.repeat(np.arange(rows), columns)
        angles = np.concatenate([np.outer(along, speeds), np.outer(down, speeds)], 1)
        table = np.stack([np.cos(angles), np.sin(angles)], 2).astype("float32")
        return ops.from_numpy(table).to(like.device)

    def forward(self, x: Tensor, memory: Tensor, places: Tensor, placed: int) -> Tensor:
        """x (B, C, H, W), memory and its positions (B, S, M), placed: how many of them are places → (B, C, H, W)."""
        shape, table = x.shape, self.table(x)
        y = x.flatten(2).transpose(1, 2)  # (B, T, C)
        y = y + sines_of_places(shape[2], shape[3], shape[1], x.device) * OF_PLACES
        for layer in self.layers:
            y = layer(y, memory, places, table, placed)
        return self.layer_norm(y).transpose(1, 2).reshape(shape)


class Halving(Module):
    """A filter that halves the sides of a map of a mask."""

    def __init__(self, config: Any, before: int, width: int) -> None:
        super().__init__()
        size, padding = config.mask_downsampler_kernel_size, config.mask_downsampler_padding
        self.conv = Conv2d(before, width, size, config.mask_downsampler_stride, padding)
        self.layer_norm = LayerNorm(width, EPSILON)
        self.activation = activation_named(config.mask_downsampler_hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / 2, W / 2)."""
        return self.activation(over_channels(self.conv(x), self.layer_norm))


class Fuser(Module):
    """A filter of each channel, then a feed-forward part over the channels, and the input."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, inner, size = config.width, config.memory_fuser_intermediate_dim, config.memory_fuser_kernel_size
        self.depthwise_conv = Conv2d(width, width, size, padding=config.memory_fuser_padding, groups=width)
        self.layer_norm = LayerNorm(width, EPSILON)
        self.pointwise_conv1, self.pointwise_conv2 = Linear(width, inner), Linear(inner, width)
        self.scale = new_parameter(ops.ones, width)
        self.activation = activation_named(config.memory_fuser_hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = self.layer_norm(self.depthwise_conv(x).permute(0, 2, 3, 1))
        y = self.scale * self.pointwise_conv2(self.activation(self.pointwise_conv1(y)))
        return x + y.permute(0, 3, 1, 2)


class MemoryEncoder(Module):
    """A map of a frame and of the mask in it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, times = config.width, config.mask_downsampler_stride**2
        self.mask_downsampler = Module()
        self.mask_downsampler.layers = ModuleList(Halving(config, times**i, times ** (i + 1)) for i in range(HALVINGS))
        self.mask_downsampler.final_conv = Conv2d(times**HALVINGS, width, 1)
        self.feature_projection = Conv2d(width, width, 1)
        self.memory_fuser = Module()
        self.memory_fuser.layers = ModuleList(Fuser(config) for _ in range(config.memory_fuser_num_layers))
        self.projection = Conv2d(width, config.memory_encoder_output_channels, 1)

    def forward(self, x: Tensor, masks: Tensor) -> Tensor:
        """x (B, C, H, W), masks (B, 1, 16 * H, 16 * W) → (B, M, H, W)."""
        for layer in self.mask_downsampler.layers:
            masks = layer(masks)
        x = self.feature_projection(x) + self.mask_downsampler.final_conv(masks)
        for layer in self.memory_fuser.layers:
            x = layer(x)
        return self.projection(x)


@dataclass(frozen=True)
class Remembered:
    """What is kept of an object in a frame: a map (1, T, M) bfloat16, and a vector (1, C)."""

    features: Tensor
    pointer: Tensor


@dataclass(frozen=True)
class Track:
    """An object on its way through a video of `total` frames: `first` is the frame in which it was shown."""

    first: int
    total: int
    kept: dict[int, Remembered] = field(default_factory=dict)


class RememberingMasks(PromptedMasks):
    """Masks of an object in the frames of a video. A subclass calls `add_memory`, and has `seen`."""

    memory: Any

    def add_memory(self, config: Any) -> None:
        """Adds the parts that remember."""
        self.memory, width, kept = config, config.width, config.memory_encoder_output_channels
        self.memory_attention, self.memory_encoder = MemoryAttention(config), MemoryEncoder(config)
        self.memory_temporal_positional_encoding = new_parameter(ops.zeros, config.num_maskmem, 1, 1, kept)
        self.no_object_pointer = new_parameter(ops.zeros, 1, width)
        self.object_pointer_proj = Head(width, width, width, 3)
        timed = config.enable_temporal_pos_encoding_for_object_pointers
        self.temporal_positional_encoding_projection_layer = Linear(width, kept) if timed else None
        if config.enable_occlusion_spatial_embedding:
            self.occlusion_spatial_embedding_parameter = new_parameter(ops.zeros, 1, kept)

    def plain(self, seen: Tensor) -> Tensor:
        """The map (1, C, H, W) of a frame whose objects are shown, without memory."""
        raise NotImplementedError

    def followed(
        self, seen: Tensor, finer: Sequence[Tensor], track: Track, number: int, prompts: Tensor | None = None,
        points: int = 0, backward: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The mask (1, 1, 4 * H, 4 * W) logits of an object in a frame, and how surely it is there (1, 1), a logit; the
        track remembers both. seen (1, C, H, W) and finer maps of frame `number`; prompts (1, N, C): what shows the
        object, in the track's first frame alone, by so many points (a box has two). backward: the frames come from the
        last to the first.
        """
        config = self.memory
        x = self.plain(seen) if prompts is not None else self._with_memory(seen, track, number, backward)
        several = config.multimask_output_in_sam
        several = several and (prompts is not None or config.multimask_output_for_tracking)
        several = several and config.multimask_min_pt_num <= points <= config.multimask_max_pt_num
        masks, score, token = self._decoded(x, finer, prompts, several)
        there = score > 0  # (1, 1)
        masks = ops.where(there.reshape(1, 1, 1, 1), masks, NOWHERE)
        pointer = ops.where(there, self.object_pointer_proj(token), self.no_object_pointer)
        whole = ops.interpolate(masks, size=self.pixels, mode="bilinear", align_corners=False)
        drawn = (whole > 0).to("float32") if prompts is not None else whole.sigmoid()
        drawn = drawn * config.sigmoid_scale_for_mem_enc + config.sigmoid_bias_for_mem_enc
        features = self.memory_encoder(seen, drawn)
        if config.enable_occlusion_spatial_embedding:
            hidden = self.occlusion_spatial_embedding_parameter.reshape(1, -1, 1, 1)
            features = ops.where(there.reshape(1, 1, 1, 1), features, features + hidden)
        # As the model's makers keep it.
        track.kept[number] = Remembered(features.to("bfloat16").flatten(2).transpose(1, 2), pointer)
        most = max(config.num_maskmem, config.max_object_pointers_in_encoder)
        for old in [old for old in track.kept if min(abs(old - number), abs(old - track.first)) > most]:
            del track.kept[old]
        return masks, score

    def prompts_of(self, points: Tensor | None, labels: Tensor | None, box: Tensor | None) -> Tensor:
        """What points (1, N, 2) with labels (1, N), and a box (1, 4), in the model's pixels, show (1, N', C)."""
        sides = ops.tensor([float(self.pixels[1]), float(self.pixels[0])], device=self.device)
        tokens = []
        if points is not None and labels is not None:
            waves = self.waves((points.to("float32") + 0.5) / sides).unsqueeze(0)
            tokens.append(self.prompt_encoder.points(waves, labels.unsqueeze(0))[0])
        if box is not None:
            corners = (box.to("float32").reshape(1, 1, 2, 2) + 0.5) / sides
            tokens.append(self.prompt_encoder.boxes(self.waves(corners))[0])
        return ops.cat(tokens, 1)

    def _decoded(
        self, x: Tensor, finer: Sequence[Tensor], prompts: Tensor | None, several: bool
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """The best mask (1, 1, 4 * H, 4 * W), how surely the object is there (1, 1), and its token (1, C)."""
        decoder: Any = self.mask_decoder
        none = vectors_of(self.prompt_encoder.not_a_point_embed).unsqueeze(0)  # (1, 1, C)
        tokens = ops.cat([none if prompts is None else prompts, none], 1)
        dense = vectors_of(self.prompt_encoder.no_mask_embed).reshape(1, -1, 1, 1)
        rows, columns = x.shape[2:]
        masks, scores, states = decoder.decoded(tokens, x + dense, self.places(rows, columns), finer)
        first = decoder.first_mask
        score = decoder.pred_obj_score_head(states.select(1, 0))
        if not several:
            own, _ = self.single(masks, scores)
            return own, score, states.select(1, first)
        best = int(scores[0, 1:].argmax().item())
        return masks.narrow(1, 1 + best, 1), score, states.select(1, first + 1 + best)

    def _with_memory(self, seen: Tensor, track: Track, number: int, backward: bool) -> Tensor:
        """The map (1, C, H, W) of a frame that has read the memory."""
        config, sign = self.memory, -1 if backward else 1
        rows, columns, device = *seen.shape[2:], seen.device
        own = sines_of_places(rows, columns, config.memory_encoder_output_channels, device)
        memories, places = [], []
        recent = [(offset, number - sign * offset) for offset in range(config.num_maskmem - 1, 0, -1)]
        for offset, at in [(0, track.first), *recent]:
            if at in track.kept and (at != track.first or not offset):
                memories.append(track.kept[at].features.to("float32"))
                places.append(own + self.memory_temporal_positional_encoding[offset - 1])
        placed = sum(memory.shape[1] for memory in memories)
        pointers, offsets = [track.kept[track.first].pointer], [abs(number - track.first)]
        most = min(track.total, config.max_object_pointers_in_encoder)
        for offset in range(1, most):
            at = number - sign * offset
            if at in track.kept and at != track.first and 0 <= at < track.total:
                pointers.append(track.kept[at].pointer)
                offsets.append(offset)
        parts = config.width // config.memory_encoder_output_channels
        memories.append(ops.stack(pointers, 1).reshape(1, len(pointers) * parts, -1))
        timed = ops.zeros(len(pointers), config.memory_encoder_output_channels, device=device)
        if self.temporal_positional_encoding_projection_layer is not None:
            timed = self.temporal_positional_encoding_projection_layer(
                _waves([offset / max(most - 1, 1) for offset in offsets], config.width).to(device)
            )
        places.append(timed.repeat_interleave(parts, 0).unsqueeze(0))
        return self.memory_attention(seen, ops.cat(memories, 1), ops.cat(places, 1), placed)


def _waves(times: list[float], width: int) -> Tensor:
    """Sines, then cosines (N, width) of times, of ever slower turns."""
    half = width // 2
    speeds = 10000.0 ** (2 * (np.arange(half) // 2) / half)
    angles = np.array(times)[:, None] / speeds
    return ops.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1).astype("float32"))
