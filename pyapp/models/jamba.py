"""Jamba (Lieber et al. 2024, arXiv 2403.19887): most blocks mix tokens by Mamba, with norms in the mixer; the others
attend, without positions. Some feed-forward parts are mixtures of experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention
from pyapp.nn.layers.experts import SparseFeedForward
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.recurrent.hybrid import HybridBlock, HybridLanguageModel, HybridStack
from pyapp.nn.recurrent.mamba import MambaMixer, MambaSettings

from .loading.config import LIMITS, DecoderConfig, check_choice, require
from .loading.gguf import KEYS, MAMBA_FORMS, NAMES, Gguf, attending
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("jamba",)
LARGEST_EXPANSION = 1 << 8


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. Layer i attends if its remainder by attn_layer_period is the offset; so for the layers
    with experts.
    """

    model_type = "jamba"
    defaults = {"max_position_embeddings": 262144, "num_key_value_heads": 8}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    num_experts: int = 16
    num_experts_per_tok: int = 2
    expert_layer_period: int = 2
    expert_layer_offset: int = 0
    attn_layer_period: int = 8
    attn_layer_offset: int = 0
    mamba_d_state: int = 16
    mamba_d_conv: int = 4
    mamba_expand: int = 2
    mamba_dt_rank: int
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the rank of the steps, which may be "auto"."""
        given = {"mamba_dt_rank": "auto", "expert_layer_offset": 1, "attn_layer_offset": 4} | values
        hidden = given.get("hidden_size")
        if given["mamba_dt_rank"] == "auto" and type(hidden) is int:
            given["mamba_dt_rank"] = -(-hidden // 16)
        return given

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_experts > 1:
            check_choice(self.num_experts_per_tok, self.num_experts)
        for name in ("expert_layer", "attn_layer"):
            offset, period = getattr(self, f"{name}_offset"), getattr(self, f"{name}_period")
            require(offset < period, f"{name}_offset is {offset}, expected less than {name}_period {period}")
        kernel, expand = self.mamba_d_conv, self.mamba_expand
        require(2 <= kernel <= LIMITS["conv_kernel"], f"mamba_d_conv is {kernel}, expected 2 to 256")
        require(expand <= LARGEST_EXPANSION, f"mamba_expand is {expand}, expected at most {LARGEST_EXPANSION}")
        for name, most in (("mamba_d_state", "state_size"), ("mamba_dt_rank", "time_step_rank")):
            require(getattr(self, name) <= LIMITS[most], f"{name} is {getattr(self, name):,}, which is too many")

    @property
    def mixer(self) -> MambaSettings:
        """The sizes of a layer's mixer."""
        return MambaSettings(
            self.mamba_expand * self.hidden_size, self.mamba_d_state, self.mamba_d_conv, self.mamba_dt_rank,
            self.hidden_act, self.mamba_proj_bias, self.mamba_conv_bias,
        )  # fmt: skip

    def attends(self, layer: int) -> bool:
        """Whether a layer attends."""
        return layer % self.attn_layer_period == self.attn_layer_offset

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return self.num_experts > 1 and layer % self.expert_layer_period == self.expert_layer_offset


class Mixer(MambaMixer):
    """Mamba's mixer with norms."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config.hidden_size, config.mixer, layer)
        self.dt_layernorm = RMSNorm(config.mamba_dt_rank, config.rms_norm_eps)
        self.b_layernorm = RMSNorm(config.mamba_d_state, config.rms_norm_eps)
        self.c_layernorm = RMSNorm(config.mamba_d_state, config.rms_norm_eps)

    def normalized(self, part: int, x: Tensor) -> Tensor:
        norm: Module = (self.dt_layernorm, self.b_layernorm, self.c_layernorm)[part]
        y: Tensor = norm(x)
        return y


class Block(HybridBlock):
    """Attention or a mixer, and feed-forward."""

    def __init__(self, config: Config, layer: int) -> None:
        size, inner, attends = config.hidden_size, config.intermediate_size, config.attends(layer)
        feed_forward: Module = (
            SparseFeedForward(
                size, inner, config.num_experts, config.num_experts_per_tok, config.hidden_act, normalized=False,
                name="router",
            )
            if config.is_sparse(layer)
            else GatedFeedForward(size, inner, config.hidden_act)
        )  # fmt: skip
        super().__init__(
            GroupedQueryAttention(layer, size, config.heads(), None) if attends else None,
            None if attends else Mixer(config, layer),
            feed_forward,
            partial(RMSNorm, size, config.rms_norm_eps),
        )


class JambaForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        layers = range(config.num_hidden_layers)
        blocks = (Block(config, layer) for layer in layers)
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, HybridStack(config.vocab_size, config.hidden_size, blocks, norm))
        self.state_shapes = [None if config.attends(layer) else config.mixer.states for layer in layers]


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    place, parts = "feed_forward.experts", ("gate_proj", "up_proj", "down_proj")
    return experts_apart(tensors, place, parts, config.num_experts, config.num_hidden_layers, place)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers attend, and which have experts: by heads of keys, and by tensors."""
    attends, heads = attending(found)
    sparse = [f"blk.{layer}.ffn_gate_inp.weight" in values["tensors"] for layer in range(len(attends))]
    inner, hidden = values.get("ssm.inner_size"), found.get("hidden_size")
    expand = inner // hidden if type(inner) is int and type(hidden) is int and hidden > 0 else 2
    found = found | {"num_key_value_heads": heads, "mamba_expand": expand}
    for name, chosen in (("attn_layer", attends), ("expert_layer", sparse)):
        places = [layer for layer, own in enumerate(chosen) if own]
        first = places[0] if places else 0
        period = places[1] - first if len(places) > 1 else max(len(chosen), first + 1)
        found |= {f"{name}_offset": first, f"{name}_period": period}
    return found | ({} if any(sparse) else {"num_experts": 1, "num_experts_per_tok": 1})


def _to_gguf(config: Config) -> dict[str, Any]:
    layers = range(config.num_hidden_layers)
    return {
        "attention.head_count_kv": [config.num_key_value_heads if config.attends(layer) else 0 for layer in layers],
        "ssm.inner_size": config.mamba_expand * config.hidden_size, "rope.freq_base": None,
    }  # fmt: skip


_PARTS = {
    "pre_ff_layernorm": "ffn_norm", "mamba.in_proj": "ssm_in", "mamba.conv1d": "ssm_conv1d", "mamba.x_proj": "ssm_x",
    "mamba.dt_proj": "ssm_dt", "mamba.A_log": "ssm_a", "mamba.D": "ssm_d", "mamba.out_proj": "ssm_out",
    "mamba.dt_layernorm": "ssm_dt_norm", "mamba.b_layernorm": "ssm_b_norm", "mamba.c_layernorm": "ssm_c_norm",
    "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
    "feed_forward.router": "ffn_gate_inp", "feed_forward.experts.gate_up_proj": "ffn_gate_exps blk.{}.ffn_up_exps",
    "feed_forward.experts.down_proj": "ffn_down_exps",
}  # fmt: skip
GGUF = Gguf(
    "jamba", read=_from_gguf, write=_to_gguf,
    names=NAMES | {"model.final_layernorm": "output_norm"}
    | {f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    forms={
        ".mamba.A_log": MAMBA_FORMS[".mixer.A_log"], ".mamba.D": MAMBA_FORMS[".mixer.D"],
        ".mamba.conv1d.weight": MAMBA_FORMS[".mixer.conv1d.weight"],
    },
    keys=KEYS | {
        "num_experts": "expert_count", "num_experts_per_tok": "expert_used_count", "mamba_d_state": "ssm.state_size",
        "mamba_d_conv": "ssm.conv_kernel", "mamba_dt_rank": "ssm.time_step_rank",
    },
    unsaid=("rope_parameters", "attn_layer_period", "expert_layer_period"),
)  # fmt: skip
TASKS = {"causal-lm": JambaForCausalLM}
