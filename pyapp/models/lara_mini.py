"""Lara 4 Mini (Translated 2026, https://huggingface.co/translated/Lara-4-Mini-Base): layers with a state by the gated
delta rule, layers that attend within a window, and some that attend to all, without positions; experts in each layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention
from pyapp.nn.layers.experts import Experts, RoutedFeedForward, Router
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.recurrent.delta_layer import GatedDeltaLayer
from pyapp.nn.recurrent.hybrid import HybridLanguageModel

from .loading.config import SLIDING, check_choice, layers_in, require
from .loading.delta_config import ATTENTION, LINEAR, DeltaConfig
from .loading.stored import Stored, renaming, rows_of
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("lara_mini",)
PATTERN = LINEAR, SLIDING, LINEAR, ATTENTION, SLIDING  # of layers, where a config.json says none


@dataclass(frozen=True, kw_only=True)
class Config(DeltaConfig):
    """The fields of config.json."""

    model_type = "lara_mini"
    defaults = {
        "max_position_embeddings": 131072, "tie_word_embeddings": True, "num_key_value_heads": 4, "head_dim": 128,
        "linear_num_key_heads": 8, "linear_num_value_heads": 16,
    }  # fmt: skip
    kinds = LINEAR, SLIDING, ATTENTION

    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts: int = 128
    num_experts_per_tok: int = 4
    norm_topk_prob: bool = True
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    sliding_window: int | None = 512

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers."""
        kinds = [PATTERN[layer % len(PATTERN)] for layer in range(layers_in(values))]
        return values | {"layer_types": values.get("layer_types") or kinds}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        windows = SLIDING not in self.layer_types or self.sliding_window is not None
        require(windows, "sliding_window is null, and some of layer_types slide")


class DeltaNet(GatedDeltaLayer):
    """A layer with a state."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config, layer, config.rms_norm_eps)
        size, values, heads = config.hidden_size, config.value_size, config.linear_num_value_heads
        self.widths = (sum(self.sizes), values, heads, heads)
        self.in_proj_qkv = Linear(size, sum(self.sizes), bias=False)
        self.in_proj_z = Linear(size, values, bias=False)
        self.in_proj_b = Linear(size, heads, bias=False)
        self.in_proj_a = Linear(size, heads, bias=False)
        self.joined = JoinedLinear("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mixed, gate, rate, step = self.joined(self, x).split(self.widths, -1)
        return mixed, gate, rate, step


class Block(Module):
    """A layer with a state or attention, and experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon, act, kind = config.hidden_size, config.rms_norm_eps, config.hidden_act, config.layer_types[layer]
        self.attends, slides = kind != LINEAR, kind == SLIDING
        if self.attends:
            heads = config.heads(window=config.sliding_window if slides else None)
            self.self_attn = HeadNormAttention(
                layer, size, heads, rotary if slides else None, epsilon, bias=config.attention_bias
            )
        else:
            self.linear_attn = DeltaNet(config, layer)
        self.mlp = RoutedFeedForward(
            Router(size, config.num_experts, config.num_experts_per_tok, config.norm_topk_prob),
            Experts(size, config.moe_intermediate_size, config.num_experts, act),
            shared=("shared_expert", GatedFeedForward(size, config.shared_expert_intermediate_size, act)),
        )
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixer: Module = self.self_attn if self.attends else self.linear_attn
        x = mixer(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


class LaraMiniForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()), config.hidden_size
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, DecoderStack(config.vocab_size, size, blocks, RMSNorm(size, config.rms_norm_eps)))
        self.state_shapes = config.state_shapes


renamed = renaming({".linear_attn.out_norm.": ".linear_attn.norm."})  # the parameter of a file's tensor


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the projections of layers with states: one after the other, in one matrix."""
    found = gated_experts_apart(config, tensors)
    values, heads = config.value_size, config.linear_num_value_heads
    for layer in range(config.num_hidden_layers):
        before, first = f"model.layers.{layer}.linear_attn.in_proj", 0
        if f"{before}.weight" not in tensors:
            continue
        for part, rows in (("qkv", 2 * config.key_size + values), ("z", values), ("b", heads), ("a", heads)):
            own = partial(rows_of, first=first, count=rows)
            found[f"{before}_{part}.weight"] = Stored((f"{before}.weight",), values=own)
            first += rows
    return found


TASKS = {"causal-lm": LaraMiniForCausalLM}
