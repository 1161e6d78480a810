"""Mellum 2 (JetBrains 2026, https://huggingface.co/JetBrains/Mellum2-12B-A2.5B-Base): Qwen3's blocks with experts, some
layers with a window and rotary positions of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable
from pyapp.nn.decoders.expert_blocks import HeadNormBlock

from .loading.config import (
    DENSE,
    FULL,
    SLIDING,
    SPARSE,
    DecoderConfig,
    check_choice,
    check_kinds,
    layer_types,
    layers_in,
    require,
)
from .loading.gguf import EXPERTS, HEAD_NORMS, KEYS, NAMES, PATTERN, WINDOW, Gguf, key_lengths
from .loading.qwen_experts import GGUF_KEYS
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("mellum",)
IGNORED = r"(model\.)?mtp\..*"  # the layers that guess tokens ahead
WHOLE_THETA, WINDOW_THETA = 500_000.0, 10_000.0  # where a config.json says none


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "mellum"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 7168}

    intermediate_size: int
    moe_intermediate_size: int = 896
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_experts: int
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = True
    sliding_window: int | None = 1024
    layer_types: list[str]
    mlp_layer_types: list[str]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        if values.get("rope_parameters") is None and values.get("rope_theta") is None:
            kinds = ((FULL, WHOLE_THETA), (SLIDING, WINDOW_THETA))
            usual = {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in kinds}
            values = {**values, "rope_parameters": usual}
        return super().from_dict(values)

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, and the number of experts, which has two names."""
        count = layers_in(values)
        rotary = values["rope_parameters"]
        found = {
            "layer_types": layer_types(values, lambda layer: False),
            "rope_parameters": {SLIDING: rotary, FULL: rotary} if "rope_type" in rotary else rotary,
            "num_experts": values.get("num_experts", values.get("num_local_experts", 64)),
        }
        return {"mlp_layer_types": [SPARSE] * count} | values | found

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        check_kinds("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers, DENSE, SPARSE)
        missing = {*self.layer_types} - {*self.rope_parameters}
        require(not missing, f"rope_parameters has none of {', '.join(sorted(missing))}")
        windows = SLIDING not in self.layer_types or self.sliding_window is not None
        require(windows, "sliding_window is null, and some of layer_types slide")

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return self.mlp_layer_types[layer] == SPARSE


class MellumForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        tables = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        blocks = (HeadNormBlock(config, layer, tables[kind]) for layer, kind in enumerate(config.layer_types))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp always normalises the shares of the chosen experts."""
    slides, whole = values.get(PATTERN), found["rope_parameters"]
    layers = layers_in(found)
    pattern = slides if isinstance(slides, list) else [i % 4 != 3 for i in range(layers)]
    pattern = pattern if values.get(WINDOW["sliding_window"]) else [False] * layers
    near = {"rope_type": "default", "rope_theta": whole["rope_theta"]}  # whatever rope.freq_base_swa says
    return {"intermediate_size": found.get("moe_intermediate_size"), "sliding_window": None} | found | {
        "layer_types": [SLIDING if own else FULL for own in pattern], "norm_topk_prob": True,
        "rope_parameters": {FULL: whole, SLIDING: near},
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    require({*config.mlp_layer_types} == {SPARSE}, "llama.cpp has experts in each layer of this architecture")
    found: dict[str, Any] = key_lengths(config)
    if config.sliding_window is not None:
        found[PATTERN] = [kind == SLIDING for kind in config.layer_types]
    rotary = [config.rope_parameters.get(kind, {}) for kind in (SLIDING, FULL)]
    alike = len({own["rope_theta"] for own in rotary if own}) == 1
    require(alike, "llama.cpp has one rope_theta for all layers of this architecture", "Write safetensors")
    plain = rotary[0].get("rope_type", "default") == "default"
    require(plain, "llama.cpp scales no rotary positions of layers with a window", "Write safetensors")
    return found


GGUF = Gguf(
    "mellum", names=NAMES | HEAD_NORMS | EXPERTS, keys=KEYS | GGUF_KEYS | WINDOW, read=_from_gguf, write=_to_gguf,
    unsaid=("intermediate_size", "mlp_layer_types"),
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"causal-lm": MellumForCausalLM}
