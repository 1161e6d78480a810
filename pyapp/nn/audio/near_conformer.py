"""The encoder of wav2vec 2.0 BERT and SeamlessM4T (Seamless Communication 2023, arXiv 2312.05187): layers that attend,
by content and near distances (Shaw et al. 2018, arXiv 1803.02155), and convolve over what was before (Gulati et al.
2020, arXiv 2005.08100), over pairs of frames of log-mel filter banks, and an adapter that joins moments. The layers of
SeamlessM4T's first version attend by all distances, and convolve over what was before and after.

`attention_mask` (B, F) is 0 where a frame is padding, which stands at the end. Parameters have the names of Hugging
Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Device, Tensor, no_grad, ops
from ...engine.lazy import np
from ...engine.user_errors import describe
from ...errors import ArgumentError, InputError
from ..encoders.encoders import as_bias, attend, until, visible_keys
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d
from ..layers.embedding import Embedding
from ..layers.feed_forward import FeedForward
from ..layers.gated import activation_named
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from ..positions.relative_positions import by_distance
from ..positions.sinusoids import interleaved_sinusoids
from .fast_conformer import LINEAR_NAMES, DistanceAttention, NormedConvolution
from .sound import ConformerLayer
from .spec_augment import MaskedEncoder

NAMES = ("intermediate_dense", "output_dense")
FRAME, HOP = 400, 160  # samples of a frame, and from one to the next


def frames_of(samples: int) -> int:
    """The number of pairs of frames that `samples` samples have."""
    return max(0, 1 + (samples - FRAME) // HOP) // 2


class Attention(Module):
    """Attention; with `near`, its scores depend on distances up to a few moments, too."""

    def __init__(self, config: Any, width: int, near: bool) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.linear_q, self.linear_k, self.linear_v = (Linear(width, width) for _ in range(3))
        self.linear_out = ResidualLinear(width, width)
        self.qkv = JoinedLinear("linear_q", "linear_k", "linear_v")
        self.sides = config.left_max_position_embeddings, config.right_max_position_embeddings
        self.distance_embedding = Embedding(sum(self.sides) + 1, width // self.heads) if near else None

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None) -> Tensor:
        """x and residual (B, T, D), mask (B, 1, 1, T) → residual + attention (B, T, D)."""
        batch, moments, width = x.shape
        qkv = self.qkv(self, x).reshape(batch, moments, 3 * self.heads, -1)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))  # (B, T, H, D / H)
        if self.distance_embedding is not None:
            left, right = self.sides
            ahead = np.arange(1 - moments, moments).clip(-left, right) + left  # of keys, from the farthest before on
            rows = self.distance_embedding(ops.from_numpy(ahead.astype(np.int32)).to(x.device))  # (2 T - 1, D / H)
            scores = (q.transpose(1, 2) @ rows.transpose(0, 1)) * (width // self.heads) ** -0.5
            mask = as_bias(mask, by_distance(scores))
        return self.linear_out(attend(q, k, v, mask), residual)


class CausalConvolution(Module):
    """A gate, a filter of each channel over the moments so far, a norm, an activation, and a linear layer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, self.before = config.hidden_size, config.conv_depthwise_kernel_size - 1
        self.layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.pointwise_conv1 = Conv1d(width, 2 * width, 1, bias=False)
        self.depthwise_conv = Conv1d(width, width, self.before + 1, groups=width, bias=False)
        self.depthwise_layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.activation = activation_named(config.hidden_act)
        self.pointwise_conv2 = Conv1d(width, width, 1, bias=False)

    def forward(self, x: Tensor, heard: Tensor | None) -> Tensor:
        """x (B, T, D), heard (B, T) → (B, T, D)."""
        x = self.layer_norm(x)
        if heard is not None:
            x = x * heard.to(x.dtype).unsqueeze(2)
        x = ops.glu(self.pointwise_conv1(x.transpose(1, 2)), 1)  # (B, D, T)
        x = self.depthwise_conv(ops.pad(x, (self.before, 0)))
        x = self.activation(self.depthwise_layer_norm(x.transpose(1, 2)))
        return self.pointwise_conv2(x.transpose(1, 2)).transpose(1, 2)


def layer(config: Any, far: bool = False) -> ConformerLayer:
    """A layer of the encoder. far: it attends by all distances."""
    if far:
        filters = NormedConvolution(config, config.layer_norm_eps, hears_padding=False)
        by_all = DistanceAttention(config.hidden_size, config.num_attention_heads, True, LINEAR_NAMES)
        return ConformerLayer(config, by_all, filters, config.layer_norm_eps)
    attention = Attention(config, config.hidden_size, near=True)
    return ConformerLayer(config, attention, CausalConvolution(config), config.layer_norm_eps)


class AdapterLayer(Module):
    """Attention among moments that a gated convolution has joined, and a feed-forward part."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, epsilon, stride = config.output_size, config.layer_norm_eps, config.adapter_stride
        where = {"stride": stride, "padding": stride // 2}
        self.residual_layer_norm = LayerNorm(width, epsilon)
        self.residual_conv = Conv1d(width, 2 * width, config.adapter_kernel_size, **where)
        self.self_attn_layer_norm = LayerNorm(width, epsilon)
        self.self_attn_conv = Conv1d(width, 2 * width, config.adapter_kernel_size, **where)
        self.self_attn = Attention(config, width, near=False)
        self.ffn_layer_norm = LayerNorm(width, epsilon)
        self.ffn = FeedForward(width, config.intermediate_size, config.adapter_act, names=NAMES)

    def forward(self, x: Tensor, heard: Tensor | None) -> Tensor:
        """x (B, T, D), heard (B, T') → (B, T', D)."""
        residual, x = (
            ops.glu(conv(norm(x).transpose(1, 2)), 1).transpose(1, 2)
            for conv, norm in (
                (self.residual_conv, self.residual_layer_norm),
                (self.self_attn_conv, self.self_attn_layer_norm),
            )
        )
        x = self.self_attn(x, residual, visible_keys(heard))
        return self.ffn(self.ffn_layer_norm(x), x)


class Adapter(Module):
    """The layers that join moments, after a projection if they have another width."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.proj = self.proj_layer_norm = None
        if config.output_size != config.hidden_size:
            self.proj = Linear(config.hidden_size, config.output_size)
            self.proj_layer_norm = LayerNorm(config.output_size, config.layer_norm_eps)
        self.layers = ModuleList(AdapterLayer(config) for _ in range(config.num_adapter_layers))

    def forward(self, x: Tensor, heard: list[Tensor] | None) -> Tensor:
        """x (B, T, D), heard: (B, T') after each of the layers → (B, T', D')."""
        if self.proj is not None and self.proj_layer_norm is not None:
            x = self.proj_layer_norm(self.proj(x))
        for i, layer in enumerate(self.layers):
            x = layer(x, None if heard is None else heard[i])
        return x


class Projection(Module):
    """A norm and a linear layer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.layer_norm = LayerNorm(config.feature_projection_input_dim, config.layer_norm_eps)
        self.projection = Linear(config.feature_projection_input_dim, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, F, C) → (B, F, D)."""
        return self.projection(self.layer_norm(x))


class NearConformer(MaskedEncoder):
    """The hidden states of recordings. `config` has the fields of wav2vec 2.0 BERT's configuration; `normalized`: there
    are norms after the layers and after the adapter, as in SeamlessM4T; `far`: layers attend by all distances.
    """

    def __init__(self, config: Any, normalized: bool = False, far: bool = False) -> None:
        super().__init__()
        self.config, self.far = config, far
        self.feature_projection = Projection(config)
        if config.mask_time_prob > 0 or config.mask_feature_prob > 0:  # a part of files, which training uses
            self.masked_spec_embed = new_parameter(ops.zeros, config.hidden_size)
        self.encoder = Module()
        self.encoder.layers = ModuleList(layer(config, far) for _ in range(config.num_hidden_layers))
        self.inner_layer_norm = None
        if normalized:
            self.encoder.layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
            self.inner_layer_norm = LayerNorm(config.output_size, config.layer_norm_eps)
        self.intermediate_ffn = None
        if config.use_intermediate_ffn_before_adapter:
            self.intermediate_ffn = FeedForward(config.hidden_size, config.intermediate_size, "relu", names=NAMES)
        self.adapter = Adapter(config) if config.add_adapter else None

    def pooled(self, frames: int) -> list[int]:
        """How many moments so many frames become after each layer of the adapter."""
        config = self.config
        found: list[int] = []
        for _ in range(config.num_adapter_layers if config.add_adapter else 0):
            frames = (frames + config.adapter_stride // 2 * 2 - config.adapter_kernel_size) // config.adapter_stride + 1
            found.append(max(0, frames))
        return found

    def moments(self, samples: int) -> int:
        """The moments T of `samples` samples; 0 if they are too few for one."""
        frames = frames_of(samples)
        return [frames, *self.pooled(frames)][-1] if frames else 0

    def warm_up(self) -> None:
        """Hears some frames of silence, so that the first recording starts sooner."""
        size = self.config.feature_projection_input_dim
        with no_grad():
            self(ops.zeros(1, 8, size, device=self.feature_projection.projection.weight.device))

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.feature_projection.projection.weight.device

    def counted(self, frames: int) -> int:
        """The moments of so many places of a mask that are no padding: pairs of frames."""
        return [frames, *self.pooled(frames)][-1]

    def heard(self, attention_mask: Tensor | None, moments: int) -> Tensor | None:
        """attention_mask (B, F) → (B, T) bool: the moments that are not padding."""
        found = self.joined(attention_mask)
        if found is None or attention_mask is None:
            return None
        return found[-1] if found else attention_mask != 0

    def forward(
        self, input_features: Tensor, attention_mask: Tensor | None = None, states: list[Tensor] | None = None
    ) -> Tensor:  # fmt: skip
        """input_features (B, F, C), attention_mask (B, F) → (B, T, D). ArgumentError for another shape. `states`
        receives those before the first layer and after each (B, F, D).
        """
        size = self.config.feature_projection_input_dim
        if input_features.ndim != 3 or input_features.shape[2] != size or not input_features.shape[1]:
            raise InputError(f"filter banks are (B, F, {size}), not {describe(input_features)}")
        if attention_mask is not None and attention_mask.shape != input_features.shape[:2]:
            raise ArgumentError(f"attention_mask is {describe(attention_mask)}, the banks {describe(input_features)}")
        x = self.partly_hidden(self.feature_projection(input_features), attention_mask)
        if attention_mask is not None:
            x = x * attention_mask.to(x.dtype).unsqueeze(2)
        places: list[Tensor] = []
        if self.far:
            from_farthest = np.arange(x.shape[1] - 1, -x.shape[1], -1)
            places = [interleaved_sinusoids(from_farthest, x.shape[2]).to(x.device)]  # (2 T - 1, D)
        for layer in self.encoder.layers:
            if states is not None:
                states.append(x)
            x = layer(x, attention_mask, *places)
        if states is not None:
            states.append(x)
        if self.inner_layer_norm is not None:
            x = self.encoder.layer_norm(x)
        if self.intermediate_ffn is not None:
            x = x + self.intermediate_ffn(x) * 0.5
        x = x if self.adapter is None else self.adapter(x, self.joined(attention_mask))
        return x if self.inner_layer_norm is None else self.inner_layer_norm(x)

    def joined(self, mask: Tensor | None) -> list[Tensor] | None:
        """mask (B, F) → (B, T') bool after each layer of the adapter."""
        if mask is None:
            return None
        ends = [self.pooled(int(count)) for count in mask.to("int32").sum(1).tolist()]
        return [until([row[i] for row in ends], most, mask.device) for i, most in enumerate(self.pooled(mask.shape[1]))]
