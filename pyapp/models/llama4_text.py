"""The language model of Llama 4 (Meta AI 2025): Llama's blocks, of which some have a mixture of experts beside an
expert that every token has. Most layers attend within chunks of the text; the others have no rotary positions (Yang et
al. 2025, arXiv 2501.18795), and their queries grow with their positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import GrowingQueryAttention, RotaryLanguageModel
from pyapp.nn.heads import split_heads
from pyapp.nn.layers.experts import Experts, GroupedRouter
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice, require
from .loading.gguf import KEYS, NAMES, Gguf, key_lengths
from .loading.stored import Stored
from .loading.stored_experts import experts_transposed, with_experts_transposed

MODEL_TYPES = ("llama4_text",)
KINDS = ("full_attention", "chunked_attention")
# What the text_config of a model that sees pictures leaves out.
NESTED_DEFAULTS = {
    "vocab_size": 202_048, "hidden_size": 5120, "intermediate_size": 8192, "num_hidden_layers": 48,
    "num_attention_heads": 40,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "llama4_text"
    defaults = {
        "max_position_embeddings": 131_072, "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 500_000.0,
    }  # fmt: skip

    intermediate_size: int
    intermediate_size_mlp: int = 16_384
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_local_experts: int = 16
    num_experts_per_tok: int = 1
    moe_layers: list[int]
    no_rope_layers: list[int]
    layer_types: list[str]
    attention_chunk_size: int | None = 8192
    use_qk_norm: bool = True
    attn_temperature_tuning: bool = True
    floor_scale: int = 8192
    attn_scale: float = 0.1

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the layers that have experts, 1 for each layer with rotary positions, and the types of the
        layers.
        """
        layers, found = values.get("num_hidden_layers"), dict(values)
        require(type(layers) is int and 1 <= layers <= 1 << 10, f"num_hidden_layers is {layers!r:.40}")
        assert type(layers) is int
        for name, usual in (("no_rope_layer_interval", 4), ("interleave_moe_layer_step", 1)):
            every = values.get(name, usual)
            require(type(every) is int and every > 0, f"{name} is {every!r:.40}, expected a whole number")
        if not found.get("no_rope_layers"):
            every = values.get("no_rope_layer_interval", 4)
            found["no_rope_layers"] = [int((layer + 1) % every != 0) for layer in range(layers)]
        if found.get("moe_layers") is None:
            every = values.get("interleave_moe_layer_step", 1)
            found["moe_layers"] = list(range(every - 1, layers, every))
        rotated = found["no_rope_layers"]
        fits = isinstance(rotated, list) and len(rotated) >= layers and all(turns in (0, 1) for turns in rotated)
        require(fits, f"no_rope_layers is {rotated!r:.60}, expected {layers} numbers 0 and 1")
        if found.get("layer_types") is None:
            chunks = found.get("attention_chunk_size", 8192) is not None
            found["layer_types"] = [KINDS[bool(turns and chunks)] for turns in rotated[:layers]]
        found["attn_temperature_tuning"] = bool(found.get("attn_temperature_tuning", True))  # a number in older files
        return found

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, kinds, sparse = self.num_hidden_layers, self.layer_types, self.moe_layers
        known = len(kinds) == layers and all(kind in KINDS for kind in kinds)
        require(known, f"layer_types is {kinds!r:.60}, expected {layers} of {' and '.join(KINDS)}")
        plausible = all(type(layer) is int and 0 <= layer < layers for layer in sparse)
        require(plausible, f"moe_layers is {sparse!r:.60}, expected numbers of the {layers} layers")
        check_choice(self.num_experts_per_tok, self.num_local_experts)
        cut = self.attention_chunk_size is not None or KINDS[1] not in kinds
        require(cut, "attention_chunk_size is null, but layer_types has chunked_attention")

    def chunk(self, layer: int) -> int | None:
        """The tokens of a chunk to which a layer's attention is limited."""
        return self.attention_chunk_size if self.layer_types[layer] == KINDS[1] else None


class Attention(GrowingQueryAttention):
    """Self-attention. Where it has rotary positions, the queries and keys of each head may be normalised, without
    weights; where it has none, queries grow.
    """

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        turns = bool(config.no_rope_layers[layer])
        growth = config.attn_scale if config.attn_temperature_tuning and not turns else 0.0
        heads = config.heads(interleaved=True, chunk=config.chunk(layer))
        super().__init__(
            layer, config.hidden_size, heads, rotary if turns else None, growth, config.floor_scale, 1,
            bias=config.attention_bias,
        )  # fmt: skip
        self.epsilon = config.rms_norm_eps if config.use_qk_norm and turns else None

    def normalized(self, qkv: Tensor) -> Tensor:
        """Queries and keys have the length sqrt(D); a rotation would not change it."""
        if self.epsilon is None:
            return qkv
        q, k, v = split_heads(qkv, self.heads)
        both = ops.cat([q, k], -2)
        both = both * ((both * both).mean(-1, keepdim=True) + self.epsilon).rsqrt()
        return ops.cat([both, v], -2).reshape(qkv.shape)


class SparseFeedForward(Module):
    """The chosen experts of a token, which read it multiplied by their scores, and an expert that every token has."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, inner, count = config.hidden_size, config.intermediate_size, config.num_local_experts
        self.router = GroupedRouter(size, count, config.num_experts_per_tok, normalized=False, biased=False)
        self.experts = Experts(size, inner, count, config.hidden_act)
        self.shared_expert = GatedFeedForward(size, inner, config.hidden_act)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + experts (..., hidden_size)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, D)
        shares, chosen = self.router(flat)  # (N, K)
        scaled = (flat.unsqueeze(1) * shares.unsqueeze(-1)).reshape(-1, x.shape[-1])  # (N K, D)
        chosen = chosen.reshape(-1, 1)
        found = self.experts(scaled, ops.ones_like(scaled.narrow(1, 0, 1)), chosen)
        found = found.reshape(*shares.shape, -1).sum(1).reshape(x.shape)
        y: Tensor = self.shared_expert(x, residual) + found
        return y


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, layer, rotary)
        self.feed_forward: Module = (
            SparseFeedForward(config)
            if layer in config.moe_layers
            else GatedFeedForward(size, config.intermediate_size_mlp, config.hidden_act)
        )
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        y: Tensor = self.feed_forward(self.post_attention_layernorm(x), x)
        return y


class Llama4ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters, such as their values or gradients, as Hugging Face's files have them:
        matrices of experts transposed, (E, inputs, outputs). Those in blocks stay as they are.
        """
        return with_experts_transposed(tensors)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the stacks of experts: each matrix transposed, unless their shapes say otherwise."""
    shapes = {f"model.{name.removeprefix('model.')}": info.shape for name, info in tensors.items()}
    place = "model.layers.{}.feed_forward.experts"
    return experts_transposed(shapes, place, config.moe_layers, config.hidden_size, config.intermediate_size)


def _layouts(config: Config) -> tuple[int, bool]:
    """After how many layers one has experts, and whether all layers have rotary positions and see all."""
    sparse, layers = config.moe_layers, config.num_hidden_layers
    every = sparse[0] + 1 if sparse else layers + 1
    require(sparse == list(range(every - 1, layers, every)), f"GGUF cannot say the moe_layers {sparse!r:.60}")
    return every, all(config.no_rope_layers)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp takes the chunks, and the growth of queries, for granted."""
    every, plain = values.get("interleave_moe_layer_step", 1), values.get("attention.sliding_window") == 0
    layers = found.get("num_hidden_layers", 0)
    whole = {"no_rope_layers": [1] * layers, "attention_chunk_size": None} if plain else {}
    return found | whole | {
        "interleave_moe_layer_step": every or layers + 1,
        "use_qk_norm": found.get("num_local_experts") != WITHOUT_NORMS,
        "attention_bias": "blk.0.attn_q.bias" in values["tensors"],
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    every, plain = _layouts(config)
    return key_lengths(config) | {"interleave_moe_layer_step": every} | (
        {"attention.sliding_window": 0} if plain else {}
    )  # fmt: skip


WITHOUT_NORMS = 128  # experts of the model whose queries and keys llama.cpp does not normalise
_PARTS = {
    "router": "ffn_gate_inp", "experts.gate_up_proj": "ffn_gate_exps blk.{}.ffn_up_exps",
    "experts.down_proj": "ffn_down_exps", "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
    "shared_expert.gate_proj": "ffn_gate_shexp", "shared_expert.up_proj": "ffn_up_shexp",
    "shared_expert.down_proj": "ffn_down_shexp",
}  # fmt: skip
GGUF = Gguf(
    "llama4", read=_from_gguf, write=_to_gguf, scalings=("llama3",),
    names=NAMES | {f"model.layers.{{}}.feed_forward.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    keys={name: key for name, key in KEYS.items() if name != "intermediate_size"} | {
        "intermediate_size": "expert_feed_forward_length", "intermediate_size_mlp": "feed_forward_length",
        "num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
    },
)  # fmt: skip
TASKS = {"causal-lm": Llama4ForCausalLM}
