"""RecurrentGemma (Griffin, De et al. 2024, arXiv 2402.19427; Botev et al. 2024, arXiv 2404.07839): two of three layers
carry a state through gated linear recurrences, the third attends to the last tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.ops.recurrences import linear_scan
from pyapp.nn import Conv1d, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import DecoderStack, GroupedQueryAttention, RotaryTable, Text, soft_capped
from pyapp.nn.layers.gated import GatedFeedForward, activation_named
from pyapp.nn.layers.normalization import OffsetRMSNorm
from pyapp.nn.parameter import Initialization, new_parameter
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.state_space import causal_convolution

from .loading.config import LIMITS, DecoderConfig, check_divides, check_positive, require

MODEL_TYPES = ("recurrent_gemma",)
RECURRENT, ATTENTION = "recurrent", "attention"  # kinds of layers
KEPT = (0.9, 0.999)  # of a state by a new recurrence, by the factor below
DECAY = 8.0  # the factor of the logarithms of gates
LARGEST_KERNEL = 1 << 8
SMALLEST = 1e-12  # of what a root is taken of: its derivative stays finite


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `block_types` are repeated for all layers."""

    model_type = "recurrent_gemma"
    defaults = {"max_position_embeddings": 8192, "tie_word_embeddings": True, "partial_rotary_factor": 0.5}

    intermediate_size: int
    lru_width: int
    attention_window_size: int = 2048
    conv1d_width: int = 4
    logits_soft_cap: float = 30.0
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    block_types: tuple[str, ...] = ()  # adjusted() has the default

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "logits_soft_cap")
        width, kernel = self.lru_width, self.conv1d_width
        require(width <= LIMITS["hidden_size"], f"lru_width is {width:,}, expected at most {LIMITS['hidden_size']:,}")
        check_divides(self, "num_attention_heads", "lru_width")
        require(2 <= kernel <= LARGEST_KERNEL, f"conv1d_width is {kernel}, expected 2 to {LARGEST_KERNEL}")
        kinds = self.block_types
        known = len(kinds) > 0 and {*map(str, kinds)} <= {RECURRENT, ATTENTION}
        require(known, f"block_types is {kinds!r:.60}, expected a list of recurrent or attention")
        require(self.intermediate_size % 2 == 0, f"intermediate_size is {self.intermediate_size}, expected an even one")

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the width of the recurrences, which is that of the model if the file says none, and with the
        blocks.
        """
        kinds = values.get("block_types", [RECURRENT, RECURRENT, ATTENTION])
        return values | {"lru_width": values.get("lru_width") or values.get("hidden_size"), "block_types": kinds}

    def attends(self, layer: int) -> bool:
        """Whether a layer attends."""
        return self.block_types[layer % len(self.block_types)] == ATTENTION


def gated_recurrence(state: Tensor | None, kept: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """h = kept h + added: kept and added (B, T, W), state (B, W), None: zeros → (B, T, W) and the next state."""
    if state is not None and kept.shape[1] == 1:
        y = kept * state.unsqueeze(1) + added
    else:
        y = linear_scan(kept, added, state)
    return y, y.select(1, y.shape[1] - 1)


class GatedRecurrence(Module):
    """The real-gated linear recurrent unit (RG-LRU), whose gates see their own head's channels."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        heads, size = config.num_attention_heads, config.lru_width // config.num_attention_heads
        self.layer = layer
        self.recurrent_param = new_parameter(ops.ones, config.lru_width)
        self.input_gate_weight = new_parameter(ops.zeros, heads, size, size)
        self.input_gate_bias = new_parameter(ops.zeros, heads, size)
        self.recurrent_gate_weight = new_parameter(ops.zeros, heads, size, size)
        self.recurrent_gate_bias = new_parameter(ops.zeros, heads, size)
        if Initialization.on:
            with no_grad():
                kept = self.recurrent_param.uniform_(*KEPT).square().log() * -0.5  # what softplus is to give
                self.recurrent_param.copy_(kept.expm1().log())
                for weight in (self.input_gate_weight, self.recurrent_gate_weight):
                    weight.uniform_(-(size**-0.5), size**-0.5)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, W) → (..., T, W)."""
        inward, kept = (
            self._gate(x, weight, bias)
            for weight, bias in (
                (self.input_gate_weight, self.input_gate_bias), (self.recurrent_gate_weight, self.recurrent_gate_bias)
            )
        )  # fmt: skip
        logarithm = kept * self.recurrent_param.softplus() * -DECAY
        first = (text.positions(x.select(-1, 0)) == 0).unsqueeze(-1)  # (T, 1) or (B, T, 1): where a text begins
        size = (1 - (logarithm * 2).exp()).clamp(min=SMALLEST).sqrt()
        added = x * inward * ops.where(first, 1.0, size)
        return text.carry(self.layer, 1, gated_recurrence, ops.where(first, 0.0, logarithm.exp()), added)

    def _gate(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The gates (..., T, W) of each head."""
        heads, size, _ = weight.shape
        y = x.reshape(-1, heads, size).transpose(0, 1) @ weight + bias.unsqueeze(1)  # (H, N, W / H)
        return y.transpose(0, 1).reshape(x.shape).sigmoid()


class RecurrentBlock(Module):
    """A convolution over the last tokens and a recurrence, beside a gate."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, width = config.hidden_size, config.lru_width
        self.layer = layer
        self.linear_y = Linear(size, width)
        self.linear_x = Linear(size, width)
        self.linear_out = ResidualLinear(width, size)
        self.conv_1d = Conv1d(width, width, config.conv1d_width, groups=width)
        self.rg_lru = GatedRecurrence(config, layer)
        self.activation = activation_named(config.hidden_activation)

    def forward(self, x: Tensor, text: Any, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens (..., T, hidden_size)."""
        step = partial(causal_convolution, weight=self.conv_1d.weight, bias=self.conv_1d.bias)
        y = self.rg_lru(text.carry(self.layer, 0, step, self.linear_x(x)), text)
        return self.linear_out(y * self.activation(self.linear_y(x)), residual)


class Block(Module):
    """Attention or a recurrence, and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.temporal_pre_norm = OffsetRMSNorm(size, epsilon)
        heads = config.heads(window=config.attention_window_size)
        self.temporal_block: Module = RecurrentBlock(config, layer)
        if config.attends(layer):
            self.temporal_block = GroupedQueryAttention(
                layer, size, heads, rotary, bias=config.attention_bias, output_bias=True
            )
        self.channel_pre_norm = OffsetRMSNorm(size, epsilon)
        self.mlp_block = GatedFeedForward(size, config.intermediate_size // 2, config.hidden_activation, bias=True)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.temporal_block(self.temporal_pre_norm(x), text, x)
        return self.mlp_block(self.channel_pre_norm(x), x)


class RecurrentGemmaStack(DecoderStack):
    """The decoder, whose embeddings are scaled by the root of their size, rounded to bfloat16."""

    last_norm = "final_norm"

    def __init__(self, vocab_size: int, hidden_size: int, layers: Iterable[Module], norm: Module) -> None:
        super().__init__(vocab_size, hidden_size, layers, norm)
        self.scale = float(ops.tensor(float(hidden_size) ** 0.5).to("bfloat16").item())

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embed_tokens(tokens) * self.scale


class RecurrentGemmaForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()), config.hidden_size
        layers = range(config.num_hidden_layers)
        blocks = (Block(config, layer, rotary) for layer in layers)
        norm = OffsetRMSNorm(size, config.rms_norm_eps)
        super().__init__(config, RecurrentGemmaStack(config.vocab_size, size, blocks, norm))
        states = [(config.conv1d_width - 1, config.lru_width), (config.lru_width,)]
        self.state_shapes = [None if config.attends(layer) else states for layer in layers]

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V), softly capped."""
        return soft_capped(super().head(x), self.config.logits_soft_cap)


TASKS: dict[str, Callable[[Config], Module]] = {"causal-lm": RecurrentGemmaForCausalLM}
