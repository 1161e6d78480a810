"""The common parts of encoders of sound: convolutions over samples, a convolution instead of positions, the layers of a
transformer (wav2vec 2.0, Baevski et al. 2020, arXiv 2006.11477), and the head that names a character for each moment.

`attention_mask` (B, N) is 0 where a sample is padding, which stands at the end. Dropout is not applied, and nothing is
hidden in training unless `hide_in_training` was called.
"""

from __future__ import annotations

from typing import Any

from ...engine import Device, Tensor, no_grad, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError, InputError
from ..encoders.encoders import attend_joined, until, visible_keys
from ..layers.channel_normalization import BatchNorm1d, GroupNorm
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d
from ..layers.feed_forward import FeedForward
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from ..sequence_to_sequence.sequence_to_sequence import Attention
from ..utils.parametrizations import weight_norm
from .spec_augment import MaskedEncoder


class SampleConvolution(Module):
    """A convolution, a norm if there is one ("group": of each channel over time; "layer": of all channels of a moment),
    and an activation.
    """

    def __init__(self, config: Any, layer: int) -> None:
        super().__init__()
        inputs, outputs = config.conv_dim[layer - 1] if layer else 1, config.conv_dim[layer]
        self.conv = Conv1d(
            inputs, outputs, config.conv_kernel[layer], config.conv_stride[layer], bias=config.conv_bias
        )  # fmt: skip
        self.layer_norm: Module | None = None
        self.by_moment = config.feat_extract_norm == "layer"
        if self.by_moment:
            self.layer_norm = LayerNorm(outputs)
        elif layer == 0:
            self.layer_norm = GroupNorm(outputs, outputs)
        self.activation = activation_named(config.feat_extract_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, C', N')."""
        x = self.conv(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x.transpose(1, 2)).transpose(1, 2) if self.by_moment else self.layer_norm(x)
        return self.activation(x)


class SampleConvolutions(Module):
    """The convolutions that make a vector of a few hundredths of a second."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.conv_layers = ModuleList(SampleConvolution(config, layer) for layer in range(len(config.conv_dim)))

    def forward(self, input_values: Tensor) -> Tensor:
        """input_values (B, N) → (B, T, C)."""
        x = input_values.unsqueeze(1)
        for layer in self.conv_layers:
            x = layer(x)
        return x.transpose(1, 2)


class Projection(Module):
    """A norm, if there is one, and a linear layer to the size of the hidden states."""

    def __init__(self, config: Any, normalized: bool = True) -> None:
        super().__init__()
        inputs = config.conv_dim[-1]
        self.layer_norm = LayerNorm(inputs, config.layer_norm_eps) if normalized else None
        self.projection = Linear(inputs, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) → (B, T, D)."""
        return self.projection(x if self.layer_norm is None else self.layer_norm(x))


class PositionalConvolution(Module):
    """A convolution over moments, in groups of channels, whose results say where a moment is; with a norm of its
    weights (Salimans and Kingma 2016, arXiv 1602.07868), or one of batches before it. Of `stride` moments one is left.
    """

    def __init__(self, config: Any, batch_norm: bool = False, stride: int = 1) -> None:
        super().__init__()
        size, self.width = config.hidden_size, config.num_conv_pos_embeddings
        self.conv = Conv1d(
            size, size, self.width, stride, padding=self.width // 2, groups=config.num_conv_pos_embedding_groups
        )  # fmt: skip
        self.batch_norm = BatchNorm1d(size) if batch_norm else None
        if not batch_norm:
            weight_norm(self.conv, "weight", dim=2)
        self.activation = activation_named(config.feat_extract_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D), or fewer moments."""
        y = x.transpose(1, 2)
        y = self.conv(y if self.batch_norm is None else self.batch_norm(y))
        return self.activation(y.narrow(2, 0, y.shape[2] - (self.width + 1) % 2)).transpose(1, 2)


def positional_names(name: str) -> str:
    """The parameter of a file's tensor: older files have other names for the parts of a normalised weight."""
    for old, new in (("weight_g", "original0"), ("weight_v", "original1")):
        if name.endswith(f"pos_conv_embed.conv.{old}"):
            return f"{name.removesuffix(old)}parametrizations.weight.{new}"
    return name


class SoundAttention(Attention):
    """Attention of each recording to itself."""

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """x and residual (B, T, D), mask (B, 1, 1, T) True where a moment is heard → (B, T, D). bias: of the
        scores, which subclasses add.
        """
        return self.out_proj(attend_joined(self.qkv(self, x), self.heads, mask), residual)


class LanguageAdapter(Module):
    """A norm and two small layers, which fit a layer to a language (Houlsby et al. 2019, arXiv 1902.00751)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm = LayerNorm(width)
        self.linear_1 = Linear(width, inner)
        self.linear_2 = ResidualLinear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → x + adapter (B, T, D)."""
        return self.linear_2(ops.relu(self.linear_1(self.norm(x))), x)


class SoundLayer(Module):
    """Attention and feed-forward, each with a residual, and a norm after it or (`stable`) before it; then an adapter,
    if there is one.
    """

    def __init__(self, config: Any, attention: Module) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.layer_norm_eps
        self.stable = config.do_stable_layer_norm
        self.attention = attention
        self.layer_norm = LayerNorm(size, epsilon)
        self.feed_forward = FeedForward(
            size, config.intermediate_size, config.hidden_act, names=("intermediate_dense", "output_dense")
        )
        self.final_layer_norm = LayerNorm(size, epsilon)
        inner = config.adapter_size
        self.adapter_layer = None if inner is None else LanguageAdapter(size, inner)

    def forward(self, x: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        if self.stable:
            x = self.attention(self.layer_norm(x), x, mask, bias)
            x = self.feed_forward(self.final_layer_norm(x), x)
            return x if self.adapter_layer is None else self.adapter_layer(x)
        x = self.layer_norm(self.attention(x, x, mask, bias))
        return self.final_layer_norm(self.feed_forward(x, x))


class SoundLayers(Module):
    """The positions and the layers. `attention(config, layer)` makes the attention of a layer."""

    def __init__(self, config: Any, attention: Any, batch_norm: bool = False) -> None:
        super().__init__()
        self.stable = config.do_stable_layer_norm
        self.pos_conv_embed: Module = PositionalConvolution(config, batch_norm)
        self.layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.layers = ModuleList(
            SoundLayer(config, attention(config, layer)) for layer in range(config.num_hidden_layers)
        )  # fmt: skip

    def bias(self, moments: int) -> Tensor | None:
        """What is added to the scores of all layers (1, H, T, T), if anything is."""
        return None

    def forward(self, x: Tensor, heard: Tensor | None, states: list[Tensor] | None = None) -> Tensor:
        """x (B, T, D), heard (B, T) bool → (B, T, D). `states` gets what each layer reads, and the result."""
        if heard is not None:
            x = x * heard.unsqueeze(2).to(x.dtype)
        x = x + self.pos_conv_embed(x)
        x = x if self.stable else self.layer_norm(x)
        mask, bias = visible_keys(heard), self.bias(x.shape[1])
        for layer in self.layers:
            if states is not None:
                states.append(x)
            x = layer(x, mask, bias)
        x = self.layer_norm(x) if self.stable else x
        if states is not None:
            states.append(x)
        return x


def plain_attention(config: Any, layer: int) -> SoundAttention:
    """The attention of a layer of wav2vec 2.0."""
    return SoundAttention(config.hidden_size, config.num_attention_heads)


class ConformerLayer(Module):
    """Half of a feed-forward part, attention, a convolution, and the other half, each with a residual; then a norm
    (Gulati et al. 2020, arXiv 2005.08100).
    """

    def __init__(self, config: Any, attention: Module, convolution: Module, epsilon: float) -> None:
        super().__init__()
        width, sizes = config.hidden_size, (config.intermediate_size, config.hidden_act)
        names = ("intermediate_dense", "output_dense")
        self.ffn1_layer_norm = LayerNorm(width, epsilon)
        self.ffn1 = FeedForward(width, *sizes, names=names)
        self.self_attn_layer_norm = LayerNorm(width, epsilon)
        self.self_attn = attention
        self.conv_module = convolution
        self.ffn2_layer_norm = LayerNorm(width, epsilon)
        self.ffn2 = FeedForward(width, *sizes, names=names)
        self.final_layer_norm = LayerNorm(width, epsilon)

    def forward(self, x: Tensor, heard: Tensor | None, *places: Tensor | None) -> Tensor:
        """x (B, T, D), heard (B, T), what the attention reads of places → (B, T, D)."""
        x = x + self.ffn1(self.ffn1_layer_norm(x)) * 0.5
        x = self.self_attn(self.self_attn_layer_norm(x), x, visible_keys(heard), *places)
        x = x + self.conv_module(x, heard)
        return self.final_layer_norm(x + self.ffn2(self.ffn2_layer_norm(x)) * 0.5)


class SoundEncoder(MaskedEncoder):
    """The hidden states of recordings."""

    def __init__(self, config: Any, layers: Module, normalized: bool = True) -> None:
        super().__init__()
        self.config = config
        self.feature_extractor = SampleConvolutions(config)
        self.feature_projection: Any = Projection(config, normalized)
        if config.mask_time_prob > 0 or config.mask_feature_prob > 0:  # a part of files, which training uses
            self.masked_spec_embed = new_parameter(ops.zeros, config.hidden_size)
        self.encoder = layers

    @property
    def device(self) -> Device:
        """The device on which the encoder computes."""
        first: Any = self.feature_extractor.conv_layers[0]
        found: Device = first.conv.weight.device
        return found

    def projected(self, x: Tensor) -> Tensor:
        """What the convolutions give (B, T, C) → (B, T, D)."""
        found: Tensor = self.feature_projection(x)
        return found

    def moments(self, samples: int) -> int:
        """The moments T of `samples` samples; 0 if they are too few for one."""
        for kernel, stride in zip(self.config.conv_kernel, self.config.conv_stride, strict=True):
            samples = (samples - kernel) // stride + 1 if samples >= kernel else 0
        return samples

    def counted(self, samples: int) -> int:
        """The moments of so many places of a mask that are no padding."""
        return self.moments(samples)

    def heard(self, attention_mask: Tensor | None, moments: int) -> Tensor | None:
        """attention_mask (B, N) → (B, T) bool: the moments that are not padding."""
        if attention_mask is None:
            return None
        ends = [self.moments(int(count)) for count in attention_mask.to("int32").sum(1).tolist()]
        return until(ends, moments, attention_mask.device)

    def warm_up(self) -> None:
        """Hears a moment of silence, so that the first recording starts sooner."""
        samples = 1
        for kernel, stride in reversed([*zip(self.config.conv_kernel, self.config.conv_stride, strict=True)]):
            samples = (samples - 1) * stride + kernel
        with no_grad():
            self(ops.zeros(1, samples, device=self.device))

    def forward(
        self, input_values: Tensor, attention_mask: Tensor | None = None, states: list[Tensor] | None = None
    ) -> Tensor:
        """input_values (B, N), attention_mask (B, N) → hidden states (B, T, D). `states` as SoundLayers'."""
        kind = type(self).__name__
        if input_values.ndim != 2 or self.moments(input_values.shape[1]) < 1:
            raise InputError(f"{kind}: samples are (B, N), enough for a moment, not {describe(input_values)}")
        if attention_mask is not None and attention_mask.shape != input_values.shape:
            raise ArgumentError(
                f"{kind}: attention_mask is {describe(attention_mask)}, the samples {describe(input_values)}"
            )
        x = self.feature_extractor(input_values)
        heard = self.heard(attention_mask, x.shape[1])
        return self.encoder(self.partly_hidden(self.projected(x), heard), heard, states)


class SoundHead(Module):
    """An encoder below a head: a SoundEncoder, or another one with its methods. `name` is that of the encoder in
    files.
    """

    def __init__(self, name: str, encoder: Any) -> None:
        super().__init__()
        self.name, self.config = name, encoder.config
        self.add_module(name, encoder)

    @property
    def encoder(self) -> Any:
        """The encoder below the head."""
        return self._modules[self.name]

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.encoder.device
        return found


def summed_states(encoder: Any, weights: Tensor | None, input_values: Tensor, attention_mask: Tensor | None) -> Tensor:
    """The hidden states (B, T, D) of recordings (B, N): of the last layer, or, with weights (layers + 1,), the sum of
    those of all layers by the softmax of the weights.
    """
    states: list[Tensor] | None = None if weights is None else []
    x: Tensor = encoder(input_values, attention_mask, states)
    if states is None or weights is None:
        return x
    return (ops.stack(states) * weights.softmax(-1).reshape(-1, 1, 1, 1)).sum(0)


class SoundClassifier(SoundHead):
    """Scores of the labels of a whole recording, from the mean of its moments (Yang et al. 2021, arXiv 2105.01051): of
    those of the last layer, or of all layers, each with its weight; the last ones are read after the last norm.
    """

    def __init__(self, name: str, encoder: Any) -> None:
        super().__init__(name, encoder)
        config, layers = self.config, self.config.num_hidden_layers + 1
        self.layer_weights = None
        if config.use_weighted_layer_sum:
            self.layer_weights = new_parameter(ops.ones, layers)
        self.projector = Linear(config.hidden_size, config.classifier_proj_size)
        self.classifier = Linear(config.classifier_proj_size, len(config.labels))

    def forward(self, input_values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_values (B, N), attention_mask (B, N) → logits (B, labels)."""
        x = self.projector(summed_states(self.encoder, self.layer_weights, input_values, attention_mask))
        heard = self.encoder.heard(attention_mask, x.shape[1])
        if heard is None:
            return self.classifier(x.mean(1))
        shares = heard.to(x.dtype).unsqueeze(2)  # (B, T, 1)
        return self.classifier((x * shares).sum(1) / shares.sum(1))


class MomentLabels(SoundHead):
    """Scores of the labels of each moment, such as who speaks (Yang et al. 2021, arXiv 2105.01051). Each label has a
    probability of its own. The states are those of SoundClassifier.
    """

    def __init__(self, name: str, encoder: Any) -> None:
        super().__init__(name, encoder)
        config, self.layer_weights = self.config, None
        if config.use_weighted_layer_sum:
            self.layer_weights = new_parameter(ops.ones, config.num_hidden_layers + 1)
        self.classifier = Linear(config.hidden_size, len(config.labels))

    def forward(self, input_values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_values (B, N), attention_mask (B, N) → logits (B, T, labels)."""
        return self.classifier(summed_states(self.encoder, self.layer_weights, input_values, attention_mask))


class MomentClassifier(SoundHead):
    """Scores of characters for each moment, trained with connectionist temporal classification (Graves et al. 2006,
    https://doi.org/10.1145/1143844.1143891).
    """

    def __init__(self, name: str, encoder: SoundEncoder) -> None:
        super().__init__(name, encoder)
        self.lm_head = Linear(self.config.hidden_size, self.config.vocab_size)

    def forward(self, input_values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_values (B, N), attention_mask (B, N) → logits (B, T, V)."""
        return self.lm_head(self.encoder(input_values, attention_mask))
