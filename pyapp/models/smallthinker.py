"""SmallThinker (Song et al. 2025, arXiv 2507.20984): mixtures of experts whose router reads the input of the layer,
before attention; some layers have rotary positions and a window, others neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, GroupedRouter

from .loading.config import DecoderConfig, check_choice, layers_in, require
from .loading.gguf import EXPERTS, KEYS, NAMES, SIGMOID, Gguf, key_lengths
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("smallthinker",)
WINDOW, EVERY = 4096, 4  # in GGUF files: the window, of layers but every fourth, the first included


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json: the layouts have 1 for layers with rotary positions, and for those with a window."""

    model_type = "smallthinker"
    defaults = {"max_position_embeddings": 16384}

    rms_norm_eps: float = 1e-6
    moe_ffn_hidden_size: int
    moe_num_primary_experts: int
    moe_num_active_primary_experts: int
    moe_primary_router_apply_softmax: bool = False
    norm_topk_prob: bool = True
    rope_layout: list[int]
    sliding_window_layout: list[int]
    sliding_window_size: int = WINDOW

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the layouts."""
        layers, sparse = layers_in(values), values.get("moe_layer_layout")
        require(sparse is None or (isinstance(sparse, list) and all(sparse)), "a layer without experts is not known")
        return {"rope_layout": [1] * layers, "sliding_window_layout": [0] * layers} | values

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.moe_num_active_primary_experts, self.moe_num_primary_experts)
        for name in ("rope_layout", "sliding_window_layout"):
            found = getattr(self, name)
            known = len(found) == self.num_hidden_layers and all(one in (0, 1) for one in found)
            require(known, f"{name} is {found!r:.60}, expected 0 or 1 for each layer")


class MixtureOfExperts(Module):
    """The experts of a layer, and their router."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, count = config.hidden_size, config.moe_num_primary_experts
        self.primary_router = GroupedRouter(
            size, count, config.moe_num_active_primary_experts, sigmoid=not config.moe_primary_router_apply_softmax,
            normalized=config.norm_topk_prob, biased=False,
        )  # fmt: skip
        self.experts = Experts(size, config.moe_ffn_hidden_size, count, "relu")


class Block(Module):
    """Attention and a mixture of experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.sliding_window_size if config.sliding_window_layout[layer] else None)
        self.self_attn = GroupedQueryAttention(layer, size, heads, rotary if config.rope_layout[layer] else None)
        self.block_sparse_moe = MixtureOfExperts(config)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        size, own = x.shape[-1], self.block_sparse_moe
        chosen = own.primary_router(x.reshape(-1, size))
        x = self.self_attn(self.input_layernorm(x), text, x)
        y: Tensor = own.experts(self.post_attention_layernorm(x).reshape(-1, size), *chosen).reshape(x.shape)
        return x + y


class SmallThinkerForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    place, parts = "block_sparse_moe.experts", ("gate", "up", "down")
    return experts_apart(
        tensors, place, parts, config.moe_num_primary_experts, config.num_hidden_layers, "block_sparse_moe.experts"
    )


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    layers, windows = found.get("num_hidden_layers", 0), values.get("attention.sliding_window")
    layout = [int(layer % EVERY != 0) for layer in range(layers if type(layers) is int and layers <= 1 << 10 else 0)]
    own = {"rope_layout": layout, "sliding_window_layout": layout} if windows else {}
    return found | own | {
        "sliding_window_size": WINDOW, "moe_primary_router_apply_softmax": values.get("expert_gating_func") != SIGMOID,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.norm_topk_prob, "llama.cpp normalises the shares of the chosen experts", "Write safetensors")
    windows = {"attention.sliding_window": config.sliding_window_size} if any(config.sliding_window_layout) else {}
    gating = 1 if config.moe_primary_router_apply_softmax else SIGMOID
    return key_lengths(config) | windows | {
        "expert_gating_func": gating, "feed_forward_length": config.moe_ffn_hidden_size,
    }  # fmt: skip


_PATH = "model.layers.{}.block_sparse_moe."
GGUF = Gguf(
    "smallthinker", read=_from_gguf, write=_to_gguf, unsaid=("sliding_window_size", "norm_topk_prob"),
    names=NAMES | {_PATH + "primary_router": "blk.{}.ffn_gate_inp"}
    | {name.replace("mlp.", "block_sparse_moe."): own for name, own in EXPERTS.items() if ".experts." in name},
    keys={name: key for name, key in KEYS.items() if name != "intermediate_size"} | {
        "moe_num_primary_experts": "expert_count", "moe_num_active_primary_experts": "expert_used_count",
        "moe_ffn_hidden_size": "expert_feed_forward_length",
    },
)  # fmt: skip
TASKS = {"causal-lm": SmallThinkerForCausalLM}
