"""MiniMax-Text-01 and M1 (MiniMax 2025, arXiv 2501.08313 and 2506.13585): most layers have lightning attention (Qin et
al. 2024, arXiv 2401.04658), a state for each head that decays at a fixed rate, the others attend; all have a mixture of
experts, and the residual is what the norm gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, GroupedQueryAttention, RotaryTable
from pyapp.nn.layers.experts import SparseFeedForward
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.state_space import chunked_scan

from .loading.config import DecoderConfig, check_choice, check_form, check_kinds, layers_in, require
from .loading.gguf import EXPERTS, KEYS, NAMES, Gguf, key_lengths
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("minimax", "minimax_text_01", "minimax_m1")
IGNORED = r".*\.self_attn\.(slope_rate|query_decay|key_decay|diagonal_decay)"  # which follow from the layer's number
LINEAR, ATTENTION = "linear_attention", "full_attention"
LIGHTNING_EPSILON = 1e-6  # of the norm of lightning attention
FULL_EVERY = 8  # of how many layers one attends, where a GGUF file does not say it
# Fields of the authors' own files.
FIELDS = {
    "layernorm_full_attention_alpha": "full_attn_alpha_factor",
    "layernorm_full_attention_beta": "full_attn_beta_factor",
    "layernorm_linear_attention_alpha": "linear_attn_alpha_factor",
    "layernorm_linear_attention_beta": "linear_attn_beta_factor", "layernorm_mlp_alpha": "mlp_alpha_factor",
    "layernorm_mlp_beta": "mlp_beta_factor",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is that of an expert; the factors are those of the residual and of
    what is added to it, after attention, lightning attention and experts.
    """

    model_type = "minimax"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 8, "rope_theta": 1000000.0}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    sliding_window: int | None = None
    layer_types: list[str]
    full_attn_alpha_factor: float = 1.0
    full_attn_beta_factor: float = 1.0
    linear_attn_alpha_factor: float = 1.0
    linear_attn_beta_factor: float = 1.0
    mlp_alpha_factor: float = 1.0
    mlp_beta_factor: float = 1.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        check_form({name: value for name, value in values.items() if value is not None}, {
            "postnorm": True, "shared_intermediate_size": 0, "use_qk_norm": False,
        })  # fmt: skip
        return super().from_dict({FIELDS.get(name, name): value for name, value in values.items()})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, and the share of a head that is rotated."""
        layers, kinds, own = layers_in(values), values.get("layer_types"), values.get("attn_type_list")
        if kinds is None and own is not None:
            known = isinstance(own, list) and all(kind in (0, 1) for kind in own)
            require(known, f"attn_type_list is {own!r:.60}, expected 0 or 1 for each layer")
            kinds = [ATTENTION if kind else LINEAR for kind in own]
        if kinds is None:
            kinds = [LINEAR if i % 2 else ATTENTION for i in range(layers)]
        rotated, size, parameters = values.get("rotary_dim"), values.get("head_dim"), values["rope_parameters"]
        if rotated is not None and "partial_rotary_factor" not in parameters:
            plausible = type(rotated) is int and type(size) is int and 2 <= rotated <= size
            require(plausible, f"rotary_dim is {rotated!r:.40}, of heads of {size!r:.40} features")
            parameters = parameters | {"partial_rotary_factor": rotated / size}
        return values | {"layer_types": kinds, "rope_parameters": parameters}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)
        check_kinds("layer_types", self.layer_types, self.num_hidden_layers, LINEAR, ATTENTION)


class LightningAttention(Module):
    """Linear attention: the state of a head is the sum of the products of its keys and values, which fades by the same
    factor with each token, less in later layers.
    """

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.head_dim = layer, config.num_attention_heads, config.head_dim
        width = self.heads * self.head_dim
        self.activation = activation_named(config.hidden_act)
        self.norm = RMSNorm(width, LIGHTNING_EPSILON)
        self.qkv_proj = Linear(config.hidden_size, 3 * width, bias=False)
        self.out_proj = Linear(width, config.hidden_size, bias=False)
        self.output_gate = Linear(config.hidden_size, width, bias=False)
        share = 1 - layer / (config.num_hidden_layers - 1 + 1e-5) + 1e-5
        rates = [-share * 2 ** (-8 * (head + 1) / self.heads) for head in range(self.heads)]
        self.register_buffer("decay", ops.tensor(rates), persistent=False)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        before, width = x.shape[:-1], self.heads * self.head_dim
        qkv = text.masked(self.activation(self.qkv_proj(x))).reshape(*before, self.heads, 3 * self.head_dim)
        query, key, value = (part.reshape(*before, width) for part in qkv.chunk(3, -1))
        steps = ops.ones(*before, self.heads, dtype=x.dtype, device=x.device)
        scan = partial(chunked_scan, decay=self.decay, groups=self.heads)
        y = text.carry(self.layer, 0, scan, value, steps, key, query)  # (..., T, H D)
        found: Tensor = self.out_proj(self.output_gate(x).sigmoid() * self.norm(y))
        return found


class Block(Module):
    """Attention and a mixture of experts, each added to what the norm before it gives."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attends = config.layer_types[layer] == ATTENTION
        self.self_attn: Module = (
            GroupedQueryAttention(layer, size, config.heads(window=config.sliding_window), rotary)
            if attends
            else LightningAttention(config, layer)
        )
        self.mlp = SparseFeedForward(
            size, config.intermediate_size, config.num_local_experts, config.num_experts_per_tok, config.hidden_act
        )
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(size, epsilon), RMSNorm(size, epsilon)
        self.factors = (
            (config.full_attn_alpha_factor, config.full_attn_beta_factor)
            if attends
            else (config.linear_attn_alpha_factor, config.linear_attn_beta_factor)
        )
        self.mlp_factors = config.mlp_alpha_factor, config.mlp_beta_factor

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        for norm, part, arguments, (kept, added) in (
            (self.input_layernorm, self.self_attn, (text,), self.factors),
            (self.post_attention_layernorm, self.mlp, (), self.mlp_factors),
        ):
            x = norm(x)
            x = x * kept + part(x, *arguments) * added
        return x


class MiniMaxForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))
        state = (config.num_attention_heads, config.head_dim, config.head_dim)
        self.state_shapes = [None if kind == ATTENTION else (state,) for kind in config.layer_types]


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files call the experts block_sparse_moe."""
    return name if ".experts." in name else name.replace(".block_sparse_moe.", ".mlp.")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    place, parts = "block_sparse_moe.experts", ("w1", "w3", "w2")
    return experts_apart(tensors, place, parts, config.num_local_experts, config.num_hidden_layers)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers have lightning attention, and the factors, of which files say one."""
    layers = layers_in(found)
    linear, every = values.get("attention.recurrent_layers"), values.get("full_attention_interval", FULL_EVERY)
    if not isinstance(linear, list):
        require(type(every) is int and every >= 1, f"full_attention_interval is {every!r:.40}")
        linear = [(i + 1) % every != 0 for i in range(layers)]
    kept = values.get("residual_scale", 1.0)
    names = ("full_attn_alpha_factor", "linear_attn_alpha_factor", "mlp_alpha_factor")
    return found | {"layer_types": [LINEAR if own else ATTENTION for own in linear]} | dict.fromkeys(names, kept)


def _to_gguf(config: Config) -> dict[str, Any]:
    kept = config.mlp_alpha_factor
    alike = config.full_attn_alpha_factor == config.linear_attn_alpha_factor == kept
    ones = config.full_attn_beta_factor == config.linear_attn_beta_factor == config.mlp_beta_factor == 1
    require(
        alike and ones, "llama.cpp has one factor for all residuals, and none for what is added", "Write safetensors"
    )
    require(config.sliding_window is None, "llama.cpp has no windows in this architecture", "Write safetensors")
    return key_lengths(config) | {
        "residual_scale": float(kept), "attention.recurrent_layers": [kind == LINEAR for kind in config.layer_types],
    }  # fmt: skip


_LAYER = "model.layers.{}.self_attn."
GGUF = Gguf(
    "minimax-01", read=_from_gguf, write=_to_gguf,
    names=NAMES | EXPERTS | {
        f"{_LAYER}qkv_proj": "blk.{}.attn_qkv", f"{_LAYER}out_proj": "blk.{}.attn_output",
        f"{_LAYER}output_gate": "blk.{}.attn_gate", f"{_LAYER}norm": "blk.{}.attn_norm_2",
    },
    keys=KEYS | {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
)  # fmt: skip
TASKS = {"causal-lm": MiniMaxForCausalLM}
