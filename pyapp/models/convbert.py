"""ConvBERT (Jiang et al. 2020, arXiv 2008.02496): BERT's layers with half of the attention's heads replaced by
convolutions, whose filters each token computes from its neighbours.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv1d, LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertAttention,
    DenseClassifierHead,
    GeneratorHead,
    LastChoiceHead,
    Layers,
    NarrowEncoder,
    TokenLabelsHead,
    attend,
    choosing,
    headed,
)  # fmt: skip
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from .loading.config import require
from .loading.encoder_config import BertConfig

MODEL_TYPES = ("convbert",)
BASE = "convbert"  # the encoder's name in files with a head
WIDEST_KERNEL = 63  # of the convolutions


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "convbert"

    embedding_size: int = 768
    head_ratio: int = 2
    conv_kernel_size: int = 9
    num_groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.conv_kernel_size % 2 == 1 and self.conv_kernel_size <= WIDEST_KERNEL,
            f"conv_kernel_size is {self.conv_kernel_size}, expected an odd number up to {WIDEST_KERNEL}",
        )
        require(
            self.hidden_size % (2 * self.heads) == 0,
            f"hidden_size {self.hidden_size} is not divided by twice its {self.heads} heads of attention",
        )
        require(
            self.hidden_size % self.num_groups == 0 and self.intermediate_size % self.num_groups == 0,
            f"num_groups {self.num_groups} does not divide hidden_size {self.hidden_size} and intermediate_size "
            f"{self.intermediate_size}",
        )

    @property
    def heads(self) -> int:
        """Heads of attention, and as many of convolution."""
        return max(self.num_attention_heads // self.head_ratio, 1)


class SeparableConv(Module):
    """A convolution of each feature, and one of each place."""

    def __init__(self, width: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.depthwise = Conv1d(width, width, kernel, padding=kernel // 2, groups=width, bias=False)
        self.pointwise = Conv1d(width, outputs, 1, bias=False)
        self.bias = new_parameter(ops.zeros, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, outputs)."""
        y = self.pointwise(self.depthwise(x.transpose(1, 2).contiguous())) + self.bias
        return y.transpose(1, 2)


class SelfAttention(Module):
    """Attention, and beside it convolutions with filters of each place."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.hidden_size // 2
        self.heads, self.kernel = config.heads, config.conv_kernel_size
        self.query = Linear(width, inner)
        self.key = Linear(width, inner)
        self.value = Linear(width, inner)
        self.key_conv_attn_layer = SeparableConv(width, inner, self.kernel)
        self.conv_kernel_layer = Linear(inner, self.heads * self.kernel)
        self.conv_out_layer = Linear(width, inner)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        batch, tokens, _ = x.shape
        query = self.query(x)  # (B, T, D / 2)
        q, k, v = (y.reshape(batch, tokens, self.heads, -1) for y in (query, self.key(x), self.value(x)))
        attended = attend(q, k, v, mask).reshape(batch, tokens, self.heads, -1)  # (B, T, H, D / 2 H)
        filters = self.conv_kernel_layer(self.key_conv_attn_layer(x) * query)
        filters = filters.reshape(batch, tokens, self.heads, self.kernel).softmax(-1)  # (B, T, H, K)
        side = self.kernel // 2
        around = ops.pad(self.conv_out_layer(x), (0, 0, side, side))  # (B, T + K - 1, D / 2)
        convolved: Any = 0.0
        for i in range(self.kernel):
            near = around.narrow(1, i, tokens).reshape(batch, tokens, self.heads, -1)  # (B, T, H, D / 2 H)
            convolved = convolved + near * filters.narrow(3, i, 1)
        return ops.cat([attended, convolved], 2).reshape(batch, tokens, -1)


class GroupedLinear(Module):
    """A linear layer of each group of features."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = new_parameter(ops.zeros, groups, inputs // groups, outputs // groups)
        self.bias = new_parameter(ops.zeros, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, inputs) → (B, T, outputs)."""
        parts = x.reshape(x.shape[0] * x.shape[1], self.groups, -1).transpose(0, 1)  # (G, B T, inputs / G)
        return (parts @ self.weight).transpose(0, 1).reshape(*x.shape[:2], -1) + self.bias


class Intermediate(Module):
    """A linear layer, of groups of features if there are some, and an activation."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = _linear(config.hidden_size, config.intermediate_size, config.num_groups)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, inner)."""
        return self.activation(self.dense(x))


class Output(Module):
    """LayerNorm(residual + dense(x))."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = _linear(config.intermediate_size, config.hidden_size, config.num_groups)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x (B, T, inner), residual (B, T, D) → (B, T, D)."""
        return self.LayerNorm(residual + self.dense(x))


def _linear(inputs: int, outputs: int, groups: int) -> Module:
    return Linear(inputs, outputs) if groups == 1 else GroupedLinear(inputs, outputs, groups)


class Layer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = BertAttention(SelfAttention(config), config.hidden_size, config.layer_norm_eps)
        self.intermediate = Intermediate(config)
        self.output = Output(config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class ConvBert(NarrowEncoder):
    """The encoder."""

    hides_padding = False  # the convolutions read it

    def layers(self, config: Config) -> Module:
        """The layers."""
        return Layers(Layer(config) for _ in range(config.num_hidden_layers))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": ConvBert,
    "masked-lm": headed(GeneratorHead, BASE, ConvBert),
    "sequence-classification": headed(DenseClassifierHead, BASE, ConvBert),
    "token-classification": headed(TokenLabelsHead, BASE, ConvBert),
    "question-answering": headed(AnswersHead, BASE, ConvBert),
    "multiple-choice": choosing(BASE, ConvBert, LastChoiceHead),
}
