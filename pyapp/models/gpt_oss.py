"""gpt-oss (OpenAI 2025, arXiv 2508.10925): a mixture of experts with biases, windows in every other layer, and sinks:
scores of attention that go to no token.

Published files have the experts' matrices in MXFP4 (OCP Microscaling Formats 1.0), which they keep here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops, quant
from pyapp.errors import ModelError
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel, SinkAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.experts import ClampedExperts, Experts, RoutedFeedForward, Router

from .loading.config import DecoderConfig, check_choice, layer_types, require
from .loading.gguf import EXPERTS, KEYS, NAMES, WINDOW, Gguf, GgufForm, key_lengths
from .loading.stored import Stored

MODEL_TYPES = ("gpt_oss",)
LIMIT, ALPHA = 7.0, 1.702  # of the published models' gates, which llama.cpp takes for granted
YARN = {
    "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip  # where config.json says nothing
BLOCK = 32  # numbers of MXFP4 that share an exponent


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "gpt_oss"
    defaults = {
        "max_position_embeddings": 131072, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
        "rope_theta": 150000.0, "sliding_window": 128,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = True
    sliding_window: int | None = None
    layer_types: list[str]
    num_local_experts: int = 128
    num_experts_per_tok: int = 4
    swiglu_alpha: float = ALPHA
    swiglu_limit: float = LIMIT

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)
        require(self.hidden_act == "silu", f"hidden_act is {self.hidden_act!r:.60}, expected 'silu'")
        require(self.swiglu_limit > 0, f"swiglu_limit is {self.swiglu_limit}, expected a number above 0")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        given = any(values.get(name) is not None for name in ("rope_parameters", "rope_scaling"))
        return super().from_dict(values if given else {**values, "rope_scaling": YARN})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: every other one slides, the first included."""
        experts = values.get("num_local_experts", values.get("num_experts"))
        return (
            values | {"num_local_experts": experts} | {"layer_types": layer_types(values, lambda layer: layer % 2 == 0)}
        )

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        return self.heads(window=self.sliding_window if self.layer_types[layer] == "sliding_attention" else None)


class Block(PreNormBlock):
    """Attention and a mixture of experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = SinkAttention(layer, size, config.attention(layer), rotary, bias=config.attention_bias)
        count = config.num_local_experts
        experts = ClampedExperts(size, config.intermediate_size, count, config.swiglu_alpha, config.swiglu_limit)
        feed_forward = RoutedFeedForward(Router(size, count, config.num_experts_per_tok, bias=True), experts, "router")
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class GptOssForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters, such as their values or gradients, as Hugging Face's files have them:
        matrices of experts transposed, (E, inputs, outputs), and a gate's column before that of its up. Those in blocks
        stay as they are.
        """
        found = dict(tensors)
        for name, value in tensors.items():
            dense = value.ndim == 3 and ".experts." in name
            if ".experts.gate_up_proj" in name and (dense or name.endswith("_bias")):
                value = value.reshape(value.shape[0], 2, -1, *value.shape[2:]).transpose(1, 2).reshape(value.shape)
            found[name] = value.transpose(1, 2).contiguous() if dense else value.contiguous()
        return found


# -- files


def _halves(value: Tensor) -> Tensor:
    """(E, 2 F, …), gate and up by turns → all gates of an expert, then all ups."""
    return value.reshape(value.shape[0], -1, 2, *value.shape[2:]).transpose(1, 2).reshape(value.shape)


def _of_export(gates: bool, parts: Sequence[Tensor]) -> Tensor:
    """The reverse of GptOssForCausalLM.exported for a tensor."""
    value = quant.dequantize(parts[0]).to("float32")
    value = value.transpose(1, 2) if value.ndim == 3 else value
    return _halves(value) if gates else value.contiguous()


def _of_blocks(gates: bool, parts: Sequence[Tensor]) -> Tensor:
    """Blocks (E, N, K / 32, 16) of two numbers a byte, the first in its low half, and exponents (E, N, K / 32) → the
    matrix (E * N, K) in mxfp4, of whose 16 bytes the low halves are the first 16 numbers.
    """
    blocks, exponents = parts
    if blocks.dtype.name != "uint8" or blocks.ndim != 4 or blocks.shape[3] != BLOCK // 2:
        raise ModelError(f"blocks of MXFP4 are uint8 (E, N, K / 32, 16), not {blocks.dtype.name} {list(blocks.shape)}")
    if exponents.dtype.name != "uint8" or exponents.shape != blocks.shape[:3]:
        raise ModelError(f"the exponents {list(exponents.shape)} do not fit blocks of MXFP4 {list(blocks.shape)}")
    if gates:
        blocks, exponents = _halves(blocks), _halves(exponents)
    experts, rows, count, _ = blocks.shape
    low, high = ops.remainder(blocks, 16), ops.div(blocks, 16, rounding_mode="floor")
    numbers = ops.stack([low, high], 4).reshape(-1, 2, BLOCK // 2)
    packed = numbers[:, 0] + numbers[:, 1] * 16  # (blocks, 16)
    whole = ops.cat([exponents.reshape(-1, 1), packed], 1).cpu()
    return quant.from_blocks(whole._storage.bytes_view(), (experts * rows, count * BLOCK), "mxfp4").to(blocks.device)


def _is_exported(config: Config, tensors: Mapping[str, Any], experts: str) -> bool:
    """Whether a file has the experts of a layer as transformers computes with them."""
    shape = config.num_local_experts, config.hidden_size, 2 * config.intermediate_size
    names = (f"{experts}.gate_up_proj", f"{experts.removeprefix('model.')}.gate_up_proj")
    return any(name in tensors and tuple(tensors[name].shape) == shape for name in names)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the experts: in MXFP4, as transformers computes with them, or, where pyapp wrote them in blocks,
    as they are.
    """
    found: dict[str, Stored] = {}
    for layer in range(config.num_hidden_layers):
        experts = f"model.layers.{layer}.mlp.experts"
        in_blocks = any(f"{own}.gate_up_proj_blocks" in tensors for own in (experts, experts.removeprefix("model.")))
        if not in_blocks and not _is_exported(config, tensors, experts):
            continue
        for part in Experts.STACKS:
            name, gates = f"{experts}.{part}", part == "gate_up_proj"
            if in_blocks:
                found[name] = Stored((f"{name}_blocks", f"{name}_scales"), join=partial(_of_blocks, gates), block=BLOCK)
            else:
                found[name] = Stored((name,), join=partial(_of_export, gates))
        biases = f"{experts}.gate_up_proj_bias"
        found[biases] = Stored((biases,), join=partial(_of_export, True))
    return found


def _half(part: int) -> GgufForm:
    """The biases of the gates (0) or the ups (1)."""
    return GgufForm(
        True, lambda config, shape: (shape[0], shape[1] // 2),
        lambda config, value: value.narrow(1, part * (value.shape[1] // 2), value.shape[1] // 2),
    )  # fmt: skip


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The experts' size, and that YaRN's limits are not whole numbers, as in the published models."""
    parameters = found["rope_parameters"]
    if parameters["rope_type"] == "yarn":
        parameters = parameters | {"truncate": False}
    size = values.get("expert_feed_forward_length", found.get("intermediate_size"))
    return found | {"intermediate_size": size, "rope_parameters": parameters}


def _to_gguf(config: Config) -> dict[str, Any]:
    return key_lengths(config) | {"expert_feed_forward_length": config.intermediate_size}


GGUF = Gguf(
    "gpt-oss", read=_from_gguf, write=_to_gguf,
    names=NAMES | EXPERTS | {
        "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
        "model.layers.{}.self_attn.sinks": "blk.{}.attn_sinks",
        "model.layers.{}.mlp.router": "blk.{}.ffn_gate_inp",
        "model.layers.{}.mlp.experts.gate_up_proj_bias": "blk.{}.ffn_gate_exps.bias blk.{}.ffn_up_exps.bias",
        "model.layers.{}.mlp.experts.down_proj_bias": "blk.{}.ffn_down_exps.bias",
    },
    keys=KEYS | WINDOW | {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
    forms={
        ".gate_up_proj_bias": GgufForm(
            True, read=lambda config, gates, ups: ops.cat([gates, ups], 1), parts=(_half(0), _half(1))
        ),
        ".down_proj_bias": GgufForm(True),
    },
)  # fmt: skip
TASKS = {"causal-lm": GptOssForCausalLM}
