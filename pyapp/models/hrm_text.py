"""HRM-Text (Wang et al. 2025, arXiv 2506.21734; https://huggingface.co/sapientinc/HRM-Text-1B): two stacks of layers,
of which one is passed several times before each pass of the other. The sum of their states enters each pass.

Every token sees those before it. transformers can also let the tokens of the instruction see one another
(token_type_ids), which is not done here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.containers import ModuleList
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import Parameter

from .loading.config import DecoderConfig, check_positive, layers_in, require
from .loading.stored import Stored, cut_apart, renaming

MODEL_TYPES = ("hrm_text",)
MOST_CYCLES = 1 << 6


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. num_layers_per_stack: the layers of each stack; num_hidden_layers counts each pass of
    a layer. In each of H_cycles, the first stack is passed L_cycles times and the second once. L_bp_cycles: the last
    passes of the first stack in the last cycles that have gradients, one in the others.
    """

    model_type = "hrm_text"
    defaults = {"max_position_embeddings": 2048, "head_dim": 128}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    initializer_range: float = 0.02
    embedding_scale: float | None = None
    H_cycles: int = 2
    L_cycles: int = 3
    L_bp_cycles: list[int] | None = None
    num_layers_per_stack: int

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the layers of a stack and those of all passes."""
        if values.get("num_layers_per_stack") is not None:
            return values
        cycles = [values.get("H_cycles", 2), values.get("L_cycles", 3)]
        counts = all(type(cycle) is int and 1 <= cycle <= MOST_CYCLES for cycle in cycles)
        require(counts, f"H_cycles and L_cycles are {cycles!r:.60}, expected whole numbers from 1 to {MOST_CYCLES}")
        layers = layers_in(values)
        return values | {
            "num_layers_per_stack": layers, "num_hidden_layers": layers * cycles[0] * (cycles[1] + 1),
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        passes, layers = self.H_cycles * (self.L_cycles + 1) * self.num_layers_per_stack, self.num_hidden_layers
        require(passes == layers, f"num_hidden_layers is {layers}, of {passes} layers that all cycles pass")
        check_positive(self, "initializer_range")
        given = self.L_bp_cycles or []
        require(all(type(count) is int and count >= 0 for count in given), f"L_bp_cycles is {given!r:.60}")

    @property
    def scale(self) -> float:
        """What the embeddings are multiplied by."""
        return 1 / self.initializer_range if self.embedding_scale is None else self.embedding_scale

    def trained_passes(self, cycle: int) -> int:
        """The last passes of the first stack in a cycle that have gradients."""
        given = [2] if self.L_bp_cycles is None else self.L_bp_cycles
        padded = [1] * (self.H_cycles - len(given)) + given
        return padded[cycle] if cycle < len(padded) else 1

    def norm(self) -> RMSNorm:
        """A norm of the states."""
        return RMSNorm(self.hidden_size, self.rms_norm_eps, elementwise_affine=False)


class Attention(GroupedQueryAttention):
    """Self-attention whose result is gated."""

    tensor_parallel = {**GroupedQueryAttention.tensor_parallel, "gate_proj": ("outputs", "queries")}

    def __init__(self, config: Config, rotary: RotaryTable) -> None:
        heads, size = config.heads(), config.hidden_size
        super().__init__(0, size, heads, rotary, bias=config.attention_bias)
        self.gate_proj = Linear(size, heads.heads * heads.head_dim, bias=config.attention_bias)

    def attended(self, x: Tensor, text: Text, place: int, residual: Tensor) -> Tensor:
        """x, residual (..., T, hidden_size) → (..., T, hidden_size). place: of the keys and values in the cache."""
        y = text.attention(place, self.qkv(self, x), self.heads, self.rotary)
        found: Tensor = self.o_proj(y * self.gate_proj(x).sigmoid(), residual)
        return found


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, rotary: RotaryTable) -> None:
        super().__init__()
        self.self_attn = Attention(config, rotary)
        self.mlp = GatedFeedForward(
            config.hidden_size, config.intermediate_size, config.hidden_act, bias=config.mlp_bias
        )  # fmt: skip
        self.input_layernorm, self.post_attention_layernorm = config.norm(), config.norm()

    def forward(self, x: Tensor, text: Text, place: int) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size). place: of the keys and values in the cache."""
        x = self.self_attn.attended(self.input_layernorm(x), text, place, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


class Cycled(Module):
    """One of the two stacks, with a norm after it."""

    def __init__(self, config: Config, rotary: RotaryTable) -> None:
        super().__init__()
        self.layers = ModuleList(Block(config, rotary) for _ in range(config.num_layers_per_stack))
        self.final_norm = config.norm()

    def forward(self, x: Tensor, text: Text, place: int) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size). place: of the first layer's keys and values."""
        for number, layer in enumerate(self.layers):
            x = layer(x, text, place + number)
        y: Tensor = self.final_norm(x)
        return y


class HrmStack(DecoderStack):
    """The two stacks and the cycles through them."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.vocab_size, config.hidden_size, (), config.norm())
        self.config, rotary = config, RotaryTable(config.to_dict())
        self.L_module, self.H_module = Cycled(config, rotary), Cycled(config, rotary)
        self.z_L_init = Parameter(ops.zeros(config.hidden_size), requires_grad=False)  # the low state's beginning

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embedding(tokens) * self.config.scale

    def forward(self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()) -> Tensor:
        config, place = self.config, 0
        high = self.embedded(tokens, text) if x is None else x  # (..., T, hidden_size)
        low = self.z_L_init
        for cycle in range(config.H_cycles):
            untrained = config.L_cycles - config.trained_passes(cycle)
            for number in range(config.L_cycles):
                with no_grad() if number < untrained else nullcontext():
                    low = self.L_module(low + high, text, place)
                place += config.num_layers_per_stack
            high = self.H_module(high + low, text, place)
            place += config.num_layers_per_stack
        return high

    def normalized(self, x: Tensor) -> Tensor:
        """x: the last stack has normalised it."""
        return x


class HrmTextForCausalLM(CausalLanguageModel):
    """The language model."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, config: Config) -> None:
        super().__init__(config, HrmStack(config))


renamed = renaming({".attn.o_proj.": ".self_attn.o_proj."})  # the parameter of a file's tensor


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the projections of one input: one after the other, in one matrix."""
    inner, found = config.num_attention_heads * config.head_dim, dict[str, Stored]()
    for name in tensors:
        layer, end, _ = name.rpartition(".attn.gqkv_proj.weight")
        if end:
            parts = [f"{layer}.self_attn.{part}_proj.weight" for part in ("gate", "q", "k", "v")]
            found |= cut_apart(name, parts, inner)
        layer, end, _ = name.rpartition(".mlp.gate_up_proj.weight")
        if end:
            parts = [f"{layer}.mlp.{part}_proj.weight" for part in ("gate", "up")]
            found |= cut_apart(name, parts, config.intermediate_size)
    return found


TASKS = {"causal-lm": HrmTextForCausalLM}
