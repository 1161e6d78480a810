"""DBRX (Databricks 2024): layer norms without biases before each part, attention from one projection whose results are
limited, and a mixture of experts for each feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, quant
from pyapp.engine.ops import cat
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, SelfAttention, Text
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.experts import SparseFeedForward

from .loading.config import DecoderConfig, check_choice, check_positive, optional_object, require
from .loading.gguf import KEYS, Gguf
from .loading.stored import Stored

MODEL_TYPES = ("dbrx",)
EPSILON = 1e-5
# config.json's names of the fields, outside and in the two objects in it.
FIELDS = {
    "d_model": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers",
    "max_seq_len": "max_position_embeddings",
}  # fmt: skip
OF_ATTENTION = {"kv_n_heads": "num_key_value_heads", "clip_qkv": "clip_qkv", "rope_theta": "rope_theta"}
OF_EXPERTS = {
    "ffn_hidden_size": "intermediate_size", "moe_num_experts": "num_local_experts", "moe_top_k": "num_experts_per_tok",
}  # fmt: skip
NORMALIZED = "moe_normalize_expert_weights"


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by the names that most models give them. Queries, keys and values are limited to ±
    `clip_qkv`; the shares of a token's experts have the sum 1 if `norm_topk_prob`.
    """

    model_type = "dbrx"
    defaults = {"max_position_embeddings": 2048, "num_key_value_heads": 1}

    intermediate_size: int = 3584
    hidden_act: str = "silu"
    clip_qkv: float | None = None
    num_local_experts: int = 4
    num_experts_per_tok: int = 1
    norm_topk_prob: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)
        check_positive(self, "clip_qkv")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for a form of DBRX that is not known."""
        found = {new: values[old] for old, new in FIELDS.items() if old in values}
        for name, own in (("attn_config", OF_ATTENTION), ("ffn_config", OF_EXPERTS)):
            given = optional_object(values, name)
            found |= {new: given[old] for old, new in own.items() if old in given}
            if name == "ffn_config":
                shares, activation = given.get(NORMALIZED, 1.0), optional_object(given, "ffn_act_fn")
                require(shares in (None, 1), f"ffn_config has {NORMALIZED} {shares!r:.40}, and only 1 or null is known")
                found |= {"norm_topk_prob": shares is not None, "hidden_act": activation.get("name", "silu")}
        made: Config = super().from_dict({**found, **values})
        require(not made.tie_word_embeddings, "tie_word_embeddings is true, which DBRX has not")
        return made

    def saved(self) -> dict[str, Any]:
        """The fields in the form of transformers' config.json."""
        values = self.to_dict()
        kept = {name: values[name] for name in ("model_type", "vocab_size", "rope_parameters", "tie_word_embeddings")}
        outside, attention, experts = (
            {old: values[new] for old, new in names.items() if new in values}
            for names in (FIELDS, OF_ATTENTION, OF_EXPERTS)
        )
        experts |= {NORMALIZED: 1.0 if self.norm_topk_prob else None, "ffn_act_fn": {"name": self.hidden_act}}
        return {**kept, **outside, "attn_config": attention, "ffn_config": experts}


class Attention(SelfAttention):
    """Self-attention from one projection, whose results may be limited."""

    tensor_parallel = {"Wqkv": ("outputs", "queries", "keys", "keys"), "out_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__(layer, config.heads(), rotary)
        size, heads = config.hidden_size, self.heads
        self.limit = config.clip_qkv
        self.Wqkv = Linear(size, heads.width, bias=False)
        self.out_proj = ResidualLinear(heads.heads * heads.head_dim, size, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        qkv = self.Wqkv(x)
        qkv = qkv if self.limit is None else qkv.clamp(-self.limit, self.limit)
        return self.out_proj(self.attend(qkv, text), residual)


class NormedAttention(Module):
    """The attention, and the norms before and after it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.norm_1 = LayerNorm(config.hidden_size, EPSILON, bias=False)
        self.attn = Attention(config, layer, rotary)
        self.norm_2 = LayerNorm(config.hidden_size, EPSILON, bias=False)


class Block(Module):
    """Attention and a mixture of experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.norm_attn_norm = NormedAttention(config, layer, rotary)
        self.ffn = SparseFeedForward(
            config.hidden_size, config.intermediate_size, config.num_local_experts, config.num_experts_per_tok,
            config.hidden_act, normalized=config.norm_topk_prob, name="router",
        )  # fmt: skip

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.norm_attn_norm
        x = own.attn(own.norm_1(x), text, x)
        y: Tensor = self.ffn(own.norm_2(x), x)
        return y


class DbrxStack(DecoderStack):
    """The decoder."""

    tokens, blocks, last_norm = "wte", "blocks", "norm_f"


class DbrxForCausalLM(RotaryLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, EPSILON, bias=False), stack=DbrxStack)

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters, such as their values or gradients, as Hugging Face's files have them:
        the matrices of experts in three stacks of rows, the last one transposed. Those in blocks stay as they are.
        """
        found = {}
        for name, value in tensors.items():
            path, dense = name.partition("experts.")[0] + "experts.mlp.", value.ndim == 3
            if name.endswith("experts.gate_up_proj") and dense:
                inner, width = value.shape[1] // 2, value.shape[2]
                found[f"{path}w1"], found[f"{path}v1"] = (
                    value.narrow(1, first, inner).reshape(-1, width) for first in (0, inner)
                )
            elif name.endswith("experts.down_proj") and dense:
                found[f"{path}w2"] = value.transpose(1, 2).reshape(-1, value.shape[1])
            else:
                found[name.replace(".ffn.router.", ".ffn.router.layer.")] = value
        return found


# -- files


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the experts: three matrices with the rows of all experts."""
    found, experts = {}, config.num_local_experts
    for layer in range(config.num_hidden_layers):
        path = f"transformer.blocks.{layer}.ffn.experts"
        if f"{path}.mlp.w1" in tensors or f"{path}.mlp.w1".removeprefix("transformer.") in tensors:
            up = partial(_joined, experts)
            found[f"{path}.gate_up_proj"] = Stored((f"{path}.mlp.w1", f"{path}.mlp.v1"), join=up)
            found[f"{path}.down_proj"] = Stored((f"{path}.mlp.w2",), join=partial(_turned, experts))
    return found


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    return name.replace(".ffn.router.layer.", ".ffn.router.")


def _by_expert(experts: int, value: Tensor) -> Tensor:
    """(E F, D) → (E, F, D)."""
    dense = quant.dequantize(value).to("float32")
    return dense.reshape(experts, dense.shape[0] // experts, dense.shape[1])


def _joined(experts: int, parts: Sequence[Tensor]) -> Tensor:
    return cat([_by_expert(experts, part) for part in parts], 1)  # (E, 2 F, D)


def _turned(experts: int, parts: Sequence[Tensor]) -> Tensor:
    return _by_expert(experts, parts[0]).transpose(1, 2).contiguous()  # (E, D, F)


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.norm_topk_prob, f"llama.cpp has no DBRX with {NORMALIZED} null", "Write safetensors")
    return {"attention.layer_norm_epsilon": EPSILON}


_BLOCK = "transformer.blocks.{}"
GGUF = Gguf(
    "dbrx", write=_to_gguf,
    names={
        "transformer.wte": "token_embd", "transformer.norm_f": "output_norm", "lm_head": "output",
        f"{_BLOCK}.norm_attn_norm.norm_1": "blk.{}.attn_norm",
        f"{_BLOCK}.norm_attn_norm.norm_2": "blk.{}.attn_output_norm",
        f"{_BLOCK}.norm_attn_norm.attn.Wqkv": "blk.{}.attn_qkv",
        f"{_BLOCK}.norm_attn_norm.attn.out_proj": "blk.{}.attn_output",
        f"{_BLOCK}.ffn.router": "blk.{}.ffn_gate_inp", f"{_BLOCK}.ffn.router.layer": "blk.{}.ffn_gate_inp",
        f"{_BLOCK}.ffn.experts.gate_up_proj": "blk.{}.ffn_gate_exps blk.{}.ffn_up_exps",
        f"{_BLOCK}.ffn.experts.down_proj": "blk.{}.ffn_down_exps",
    },
    keys={name: key for name, key in KEYS.items() if name != "rms_norm_eps"} | {
        "clip_qkv": "attention.clamp_kqv", "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
    },
)  # fmt: skip

TASKS: Mapping[str, Callable[[Config], Module]] = {"causal-lm": DbrxForCausalLM}
