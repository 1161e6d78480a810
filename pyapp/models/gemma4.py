"""Gemma 4, its language model (Gemma Team 2026, https://ai.google.dev/gemma/docs): Gemma 3 with other heads in layers
without a window, whose keys may be their values; the small ones with an input for each layer and with last layers that
attend to the keys and values of earlier ones, the large ones with experts beside each feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, Parameter, RMSNorm
from pyapp.nn.decoders.decoder import CausalLanguageModel, RotaryTable, Text, soft_capped
from pyapp.nn.decoders.layer_inputs import LayerInputsStack, SharedKeysAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.experts import Experts
from pyapp.nn.layers.gated import GatedFeedForward, activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.recurrent.hybrid import uneven_cache

from .loading.config import (
    FULL,
    LARGEST,
    LIMITS,
    LOCAL_BASE,
    SLIDING,
    DecoderConfig,
    check_choice,
    check_heads,
    check_positive,
    check_shared_keys,
    layer_types,
    require,
    source_of_keys,
)
from .loading.gguf import AFTER_NORMS, HEAD_NORMS, KEYS, NAMES, NEVER, WINDOW, Gguf, GgufForm

MODEL_TYPES = ("gemma4_text", "gemma4", "gemma4_unified_text", "gemma4_unified")
# The tensors of a model that also sees and hears, and the keys and values that layers with those of others do not need.
IGNORED = (
    r"(model\.)?((vision_tower|audio_tower|embed_vision|embed_audio|vision_embedder)\..*"
    r"|(language_model\.)?layers\.\d+\.self_attn\.(k_proj|v_proj|k_norm|v_norm)\..*)"
)
PATTERN = 6  # of which one layer has no window, where config.json says nothing
USUAL = {
    "vocab_size": 262_144, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
}  # fmt: skip
ROTARY = {
    SLIDING: {"rope_type": "default", "rope_theta": LOCAL_BASE},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
}


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. global_head_dim and num_global_key_value_heads: those of layers without a window. The
    last `num_kv_shared_layers` layers attend to the keys and values of the last layer of their kind before them.
    """

    model_type = "gemma4_text"
    defaults = USUAL | {"max_position_embeddings": 131072, "tie_word_embeddings": True}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    sliding_window: int = 512
    layer_types: list[str]
    global_head_dim: int = 512
    num_global_key_value_heads: int | None = None
    attention_k_eq_v: bool = False
    final_logit_softcapping: float | None = None
    vocab_size_per_layer_input: int = 262_144
    hidden_size_per_layer_input: int = 0
    num_kv_shared_layers: int = 0
    use_double_wide_mlp: bool = False
    enable_moe_block: bool = False
    num_experts: int | None = None
    top_k_experts: int | None = None
    moe_intermediate_size: int | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; of a model that also sees and hears, its `text_config`."""
        own = values.get("text_config")
        found: Config = super().from_dict(own if isinstance(own, dict) else values)
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: all but every sixth and the last slide; and with the heads of those
        without a window, which newer files give for each layer.
        """
        layers = values.get("num_hidden_layers")
        kinds = layer_types(values, lambda layer: (layer + 1) % PATTERN and layer + 1 != layers)
        rotary = values["rope_parameters"]
        own, first = values.get("per_layer_config"), kinds.index(FULL) if FULL in kinds else -1
        found = own.get(str(first), own.get(first)) if isinstance(own, dict) else None
        found = found if isinstance(found, dict) else {}
        size = found.get("head_dim", values.get("global_head_dim", values["head_dim"] if own is not None else 512))
        heads = found.get("num_key_value_heads", values.get("num_global_key_value_heads"))
        return {"hidden_size_per_layer_input": 256} | values | {
            "layer_types": kinds, "rope_parameters": ROTARY if "rope_type" in rotary else rotary,
            "global_head_dim": size, "num_global_key_value_heads": heads,
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "final_logit_softcapping")
        check_shared_keys(self.layer_types, self.num_kv_shared_layers)
        heads, kv_heads = self.num_attention_heads, self.global_kv_heads
        check_heads(self.hidden_size, heads, kv_heads, self.global_head_dim, self.max_position_embeddings)
        require(self.global_head_dim <= LIMITS["head_dim"], f"global_head_dim is {self.global_head_dim:,}")
        require({*self.layer_types} <= {*self.rope_parameters}, "rope_parameters has not all types of layer_types")
        words = self.num_hidden_layers * self.hidden_size_per_layer_input * self.vocab_size_per_layer_input
        require(words <= LARGEST << 4, f"{words:,} numbers of the embeddings for each layer are too many")
        if self.enable_moe_block:
            for name in ("num_experts", "top_k_experts", "moe_intermediate_size"):
                require(getattr(self, name) is not None, f"the configuration does not say the model's {name}")
            check_choice(self.top_k_experts or 0, self.num_experts or 0)

    @property
    def global_kv_heads(self) -> int:
        """The heads of keys and values of layers without a window."""
        own = self.num_global_key_value_heads if self.attention_k_eq_v else None
        return self.num_key_value_heads if own is None else own

    def source(self, layer: int) -> int:
        """The layer that computes the keys and values to which a layer attends."""
        return source_of_keys(self.layer_types, self.num_kv_shared_layers, layer)

    def attention(self, layer: int) -> Heads:
        """The attention of a layer."""
        if self.layer_types[layer] == SLIDING:
            return self.heads(window=self.sliding_window, scale=1.0)
        return Heads(self.num_attention_heads, self.global_kv_heads, self.global_head_dim, scale=1.0)

    def inner_size(self, layer: int) -> int:
        """The features inside the feed-forward part of a layer."""
        wide = self.use_double_wide_mlp and layer >= self.num_hidden_layers - self.num_kv_shared_layers
        return self.intermediate_size * (2 if wide else 1)

    def rotary(self, kind: str) -> RotaryTable:
        """The rotary angles of layers of a kind."""
        size = self.head_dim if kind == SLIDING else self.global_head_dim
        return RotaryTable(self.to_dict() | {"head_dim": size}, kind)


class ScaledRouter(Module):
    """Chooses experts by a softmax over projections of normalised and scaled features; each expert's share, of those
    that are chosen, has a factor.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, experts = config.hidden_size, config.num_experts or 0
        self.count = config.top_k_experts or 0
        self.norm = RMSNorm(size, config.rms_norm_eps, elementwise_affine=False)
        self.proj = Linear(size, experts, bias=False)
        self.scale = new_parameter(ops.ones, size)
        self.per_expert_scale = new_parameter(ops.ones, experts)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, D) → shares (N, count) and experts (N, count) int64."""
        x = self.norm(x) * self.scale * x.shape[-1] ** -0.5
        shares, chosen = self.proj(x).softmax(-1).topk(self.count, -1)
        scales = ops.index_select(self.per_expert_scale, 0, chosen.reshape(-1)).reshape(chosen.shape)
        return shares / shares.sum(-1, True) * scales, chosen


class Block(Module):
    """Attention and feed-forward, each between two norms, with a residual around it; experts beside the feed-forward
    part, and the layer's input, where the model has them. All is multiplied by a number of the layer's.
    """

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        super().__init__()
        size, own, epsilon = config.hidden_size, config.hidden_size_per_layer_input, config.rms_norm_eps
        kind = config.layer_types[layer]
        self.self_attn = SharedKeysAttention(
            layer, config.source(layer), size, config.attention(layer), rotary[kind], epsilon,
            bias=config.attention_bias, values=kind == SLIDING or not config.attention_k_eq_v,
        )  # fmt: skip
        self.mlp = GatedFeedForward(size, config.inner_size(layer), config.hidden_activation)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.pre_feedforward_layernorm = RMSNorm(size, epsilon)
        self.post_feedforward_layernorm = RMSNorm(size, epsilon)
        self.layer_scalar = Parameter(ops.ones(1), requires_grad=False)
        self.sparse, self.own = config.enable_moe_block, own
        if own:
            self.activation = activation_named(config.hidden_activation)
            self.per_layer_input_gate = Linear(size, own, bias=False)
            self.per_layer_projection = Linear(own, size, bias=False)
            self.post_per_layer_input_norm = RMSNorm(size, epsilon)
        if self.sparse:
            self.router = ScaledRouter(config)
            self.experts = Experts(
                size, config.moe_intermediate_size or 0, config.num_experts or 0, config.hidden_activation
            )
            self.post_feedforward_layernorm_1 = RMSNorm(size, epsilon)
            self.post_feedforward_layernorm_2 = RMSNorm(size, epsilon)
            self.pre_feedforward_layernorm_2 = RMSNorm(size, epsilon)

    def feed_forward(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size), before the last norm."""
        y: Tensor = self.mlp(self.pre_feedforward_layernorm(x))
        if not self.sparse:
            return y
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        found = self.experts(self.pre_feedforward_layernorm_2(flat), *self.router(flat)).reshape(x.shape)
        return self.post_feedforward_layernorm_1(y) + self.post_feedforward_layernorm_2(found)

    def forward(self, x: Tensor, text: Text, own: Tensor | None, known: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (..., T, hidden_size), own (..., T, hidden_size_per_layer_input), known: as SharedKeysAttention.forward →
        (..., T, hidden_size), and the keys and values.
        """
        y, known = self.self_attn(self.input_layernorm(x), text, known)
        x = x + self.post_attention_layernorm(y)
        x = x + self.post_feedforward_layernorm(self.feed_forward(x))
        if own is not None:
            added = self.per_layer_projection(self.activation(self.per_layer_input_gate(x)) * own)
            x = x + self.post_per_layer_input_norm(added)
        return x * self.layer_scalar.detach(), known  # it is not trained


class Gemma4Stack(LayerInputsStack):
    """The decoder, whose layers pass on the keys and values to which later ones attend."""

    def forward(
        self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()
    ) -> Tensor:  # fmt: skip
        x = self.embedded(tokens, text) if x is None else x  # (..., T, hidden_size)
        inputs = self.layer_inputs(tokens, x) if self.own else None
        known: dict[int, Tensor] = {}  # the keys and values of each layer that computes some
        for i, layer in enumerate(self.layers):
            source, own = layer.self_attn.layer, None if inputs is None else inputs.select(-2, i)
            x, known[source] = layer(x, text, own, known.get(source))
        return x


class Gemma4ForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = {kind: config.rotary(kind) for kind in set(config.layer_types)}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, Gemma4Stack(config, blocks))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        """The caches of the layers that compute keys and values: one cache for each kind of heads."""
        config = self.config
        own_layers = self.stack.layers[: config.num_hidden_layers - config.num_kv_shared_layers]
        heads = [layer.self_attn.heads for layer in own_layers]  # of this process
        sizes = [(own.kv_heads, own.head_dim) for own in heads]
        return uneven_cache(sizes, texts, capacity, self.device, dtype)

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V), softly capped."""
        return soft_capped(super().head(x), self.config.final_logit_softcapping)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds of layers and their heads. Of the pairs of heads without a window, those turn that are not divided by a
    large number.
    """
    there, layers = values["tensors"], found.get("num_hidden_layers")
    slides = values.get("attention.sliding_window_pattern")
    known = isinstance(slides, list) and type(layers) is int and len(slides) == layers
    require(known, f"attention.sliding_window_pattern is {slides!r:.60}, expected true or false for each layer")
    kinds = [SLIDING if slide else FULL for slide in slides or ()]
    heads, inner = found.get("num_key_value_heads"), found.get("intermediate_size")
    counts = heads if isinstance(heads, list) and len(heads) == layers else [heads] * len(kinds)
    by_kind = dict(zip(kinds, counts, strict=True))
    inner = inner if isinstance(inner, list) and len(inner) == layers else [inner]
    full, local = (values.get(name) for name in ("attention.key_length", "attention.key_length_swa"))
    theta = found["rope_parameters"].get("rope_theta")
    divisors = found["rope_parameters"].get("long_factor") or []
    share = sum(number < NEVER / 2 for number in divisors) / len(divisors) if divisors else 1.0
    sized = values.get("embedding_length_per_layer_input") or 0
    words = there.get("per_layer_token_embd.weight")
    equal = any(k == FULL and f"blk.{i}.attn_k.weight" in there and f"blk.{i}.attn_v.weight" not in there
                for i, k in enumerate(kinds))  # fmt: skip
    return found | {
        "layer_types": kinds, "head_dim": local, "global_head_dim": full, "attention_k_eq_v": equal,
        "num_key_value_heads": by_kind.get(SLIDING, by_kind.get(FULL)), "num_global_key_value_heads": by_kind.get(FULL),
        "intermediate_size": inner[0], "use_double_wide_mlp": len(inner) > 1,
        "num_kv_shared_layers": values.get("attention.shared_kv_layers", 0), "hidden_size_per_layer_input": sized,
        "vocab_size_per_layer_input": found.get("vocab_size") if words is None else words.shape[0],
        "enable_moe_block": bool(found.get("num_experts")),
        "rope_parameters": {
            SLIDING: {"rope_type": "default", "rope_theta": values.get("rope.freq_base_swa", LOCAL_BASE)},
            FULL: {"rope_type": "proportional", "rope_theta": theta, "partial_rotary_factor": share},
        },
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    layers, full, local = range(config.num_hidden_layers), config.global_head_dim, config.head_dim
    kind = config.rope_parameters.get(FULL, {}).get("rope_type")
    require(kind == "proportional", f"llama.cpp has no rotary positions of the type {kind!r} here", "Write safetensors")
    wide = config.use_double_wide_mlp
    return {
        "attention.key_length": full, "attention.value_length": full, "attention.key_length_swa": local,
        "attention.value_length_swa": local, "attention.shared_kv_layers": config.num_kv_shared_layers,
        "attention.sliding_window_pattern": [kind == SLIDING for kind in config.layer_types],
        "attention.head_count_kv": [config.attention(layer).kv_heads for layer in layers],
        "embedding_length_per_layer_input": config.hidden_size_per_layer_input,
        "rope.dimension_count": full, "rope.dimension_count_swa": local,
        "rope.freq_base_swa": float(config.rope_parameters[SLIDING]["rope_theta"]),
    } | ({"feed_forward_length": [config.inner_size(layer) for layer in layers]} if wide else {})  # fmt: skip


_LAYER = {
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2", "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
    "layer_scalar": "layer_output_scale", "router.proj": "ffn_gate_inp", "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale", "experts.gate_up_proj": "ffn_gate_up_exps",
    "experts.down_proj": "ffn_down_exps",
}  # fmt: skip
GGUF = Gguf(
    "gemma4", read=_from_gguf, write=_to_gguf, unsaid=("num_global_key_value_heads", "vocab_size_per_layer_input"),
    names=NAMES | HEAD_NORMS | AFTER_NORMS | {
        f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _LAYER.items()
    } | {
        "model.embed_tokens_per_layer": "per_layer_token_embd",
        "model.per_layer_model_projection": "per_layer_model_proj",
        "model.per_layer_projection_norm": "per_layer_proj_norm",
    },
    keys=KEYS | WINDOW | {
        "final_logit_softcapping": "final_logit_softcapping", "num_experts": "expert_count",
        "top_k_experts": "expert_used_count", "moe_intermediate_size": "expert_feed_forward_length",
    },
    forms={".router.scale": GgufForm(bare=True), ".per_expert_scale": GgufForm(bare=True)},
)  # fmt: skip

TASKS = {"causal-lm": Gemma4ForCausalLM}
