"""Nomic BERT (Nussbaum et al. 2024, arXiv 2402.01613): BERT with rotary positions, gated feed-forward parts and no
biases, for embeddings of long texts. Version 2 (Nussbaum and Duderstadt 2025, arXiv 2502.07972) has biases and no
gates, and a mixture of experts in every second layer.

Parameters have the names of Hugging Face's library. The files on the hub have others (`renamed`, `stored`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, Module
from pyapp.nn.encoders.encoders import Headed, PooledClassifierHead, TokenLabelsHead, Transform, Words, headed
from pyapp.nn.encoders.rotary_encoder import RotaryEncoder, rotary_feed_forward
from pyapp.nn.layers.experts import Experts, RoutedFeedForward, Router
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter

from .loading.config import FileConfig, check_heads, optional_object, read_config, require
from .loading.gguf import ENCODER_KEYS, JOINED_QKV, ROTARY_ENCODER, Gguf, encoder_settings, rows_in
from .loading.labels import Labelled
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("nomic_bert",)
BASE = "nomic_bert"  # the encoder's name in files with a head
THETA = 1000.0
# The names of the hub's config.json, of GPT-2's kind.
OLDER_FIELDS = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_inner": "intermediate_size", "n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps",
}  # fmt: skip
OLDER_NAMES = {
    "encoder.layers.": "layers.", "emb_ln.": "embeddings.LayerNorm.", "attn.out_proj.": "self_attn.o_proj.",
    "fc11.": "up_proj.", "fc1.": "up_proj.", "fc12.": "gate_proj.", "fc2.": "down_proj.",
    "norm1.": "post_attention_layernorm.", "norm2.": "post_mlp_layernorm.", "mlp.router.layer.": "mlp.router.",
}  # fmt: skip


@dataclass(frozen=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of Hugging Face's library."""

    model_type = "nomic_bert"

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    rope_parameters: dict[str, Any]
    hidden_act: str = "silu"
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    tie_word_embeddings: bool = True
    bias: bool = False  # of projections
    gated: bool = True  # feed-forward parts
    moe_every_n_layers: int = 0  # the last of so many has experts; 0: none has
    num_experts: int = 8
    moe_top_k: int = 2
    moe_normalize_expert_weights: bool = False
    expert_bias: bool = True  # one of all experts of a layer, which GGUF files leave out
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_attention_heads
        check_heads(self.hidden_size, heads, heads, self.head_dim, self.max_position_embeddings)
        require(self.pad_token_id < self.vocab_size, f"pad_token_id {self.pad_token_id} is not a token")
        require(self.moe_top_k <= self.num_experts, f"moe_top_k is {self.moe_top_k}, of {self.num_experts} experts")
        require(self.bias != self.gated, "Nomic BERT has biases, or gates")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, of the library or of the hub's files; other keys are ignored."""
        found = {OLDER_FIELDS.get(name, name): value for name, value in values.items()}
        if "n_embd" in values:
            biased = values.get("qkv_proj_bias", False)
            plain = {
                "prenorm": False, "qkv_proj_bias": bool(biased), "mlp_fc1_bias": biased, "mlp_fc2_bias": biased,
                "activation_function": "gelu" if biased else "swiglu", "num_shared_experts": 0,
                "expert_choice_router": False, "ffn_div": 1,
            }  # fmt: skip
            wrong = [name for name, value in plain.items() if values.get(name, value) != value]
            if biased:
                found |= {"bias": True, "gated": False, "hidden_act": "gelu"}
            require(not wrong, f"Nomic BERT with {', '.join(wrong)} of another kind is not supported")
        given = optional_object(values, "rope_parameters")
        theta = values.get("rotary_emb_base") or THETA
        return read_config(cls, found | {"rope_parameters": {"rope_type": "default", "rope_theta": theta} | given})

    @property
    def size(self) -> int:
        """Features of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def has_experts(self, layer: int) -> bool:
        """Whether a layer has a mixture of experts."""
        every = self.moe_every_n_layers
        return every > 0 and layer % every == every - 1


def renamed(name: str) -> str:
    """The library's name of a tensor of the hub's files."""
    for old, new in OLDER_NAMES.items():
        at = name.find(old)
        if at == 0 or (at > 0 and name[at - 1] == "."):
            name = name[:at] + new + name[at + len(old) :]
    return name


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """The parts of the hub's files that have the queries, keys and values in one matrix."""
    if not any(name.endswith("attn.Wqkv.weight") for name in names):
        return {}
    rows = config.num_attention_heads * config.size
    stack = config.num_experts, config.intermediate_size, config.hidden_size
    found = {}
    for prefix in ("", f"{BASE}."):
        for layer in range(config.num_hidden_layers):
            if config.has_experts(layer):
                start = f"{prefix}layers.{layer}.mlp.experts."
                found[f"{start}up_proj"] = Stored((f"{start}mlp.w1",), values=lambda x: x.reshape(*stack))
                found[f"{start}down_proj"] = Stored(
                    (f"{start}mlp.w2",), join=lambda parts: parts[0].reshape(*stack).transpose(1, 2).contiguous()
                )
            for kind in ("weight", "bias")[: 1 + config.bias]:
                parts = [f"{prefix}layers.{layer}.self_attn.{part}_proj.{kind}" for part in "qkv"]
                found |= cut_apart(f"{prefix}layers.{layer}.attn.Wqkv.{kind}", parts, rows)
    return found


class BiasedExperts(Experts):
    """Experts without gates; all have one bias, if `expert_bias`."""

    def __init__(self, config: Config) -> None:
        sizes = config.hidden_size, config.intermediate_size, config.num_experts
        super().__init__(*sizes, config.hidden_act, ungated=True)
        self.bias = new_parameter(ops.zeros, config.hidden_size) if config.expert_bias else None

    def forward(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """x (N, D), shares and experts (N, K) → (N, D)."""
        y = super().forward(x, shares, chosen)
        return y if self.bias is None else y + self.bias


class NomicBert(RotaryEncoder):
    """The encoder."""

    def feed_forward(self, config: Config, layer: int) -> Module:
        sizes = config.hidden_size, config.intermediate_size
        if not config.has_experts(layer):
            if config.gated:
                return rotary_feed_forward(config)
            return FeedForward(*sizes, config.hidden_act, names=("up_proj", "down_proj"))
        router = Router(config.hidden_size, config.num_experts, config.moe_top_k, config.moe_normalize_expert_weights)
        return RoutedFeedForward(router, BiasedExperts(config), "router")


class Predictions(Module):
    """Scores of all words for each token."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__()
        width = config.hidden_size
        self.transform = Transform(width, width, config.hidden_act, config.layer_norm_eps, norm="layer_norm")
        self.bias = new_parameter(ops.zeros, config.vocab_size)
        self.decoder = Words(width, config.vocab_size, table if config.tie_word_embeddings else None)
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        return self.decoder(self.transform(x))


class NomicBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, NomicBert(config))
        self.cls = Module()
        self.cls.predictions = Predictions(config, self.encoder.word_embeddings)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.cls.predictions(x)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return encoder_settings(found, values) | {"type_vocab_size": rows_in(values, "token_types.weight") or 1}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.gated and not config.moe_every_n_layers, "llama.cpp has no Nomic BERT with gates and experts")
    require(config.hidden_act == "silu", f"llama.cpp has no Nomic BERT with hidden_act {config.hidden_act!r:.40}")
    return {}


def _from_gguf_with_experts(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return _from_gguf(found, values) | {"bias": True, "gated": False, "hidden_act": "gelu", "expert_bias": False}


def _to_gguf_with_experts(config: Config) -> dict[str, Any]:
    require(config.hidden_act == "gelu", f"llama.cpp has no Nomic BERT 2 with hidden_act {config.hidden_act!r:.40}")
    require(config.moe_every_n_layers == 2, "llama.cpp has no Nomic BERT 2 without experts in every second layer")
    require(not config.moe_normalize_expert_weights, "llama.cpp has no Nomic BERT 2 with shares of the sum 1")
    require(
        not config.expert_bias,
        "GGUF files of Nomic BERT 2 have no bias of the experts",
        "Say expert_bias false in config.json if the model can do without it",
    )
    return {}


_NAMES = ROTARY_ENCODER | {
    "layers.{}.mlp.up_proj": "blk.{}.ffn_up", "layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}  # fmt: skip
_EXPERTS = {
    "layers.{}.mlp.router": "blk.{}.ffn_gate_inp", "layers.{}.mlp.experts.up_proj": "blk.{}.ffn_up_exps",
    "layers.{}.mlp.experts.down_proj": "blk.{}.ffn_down_exps",
}  # fmt: skip
GGUF = Gguf(
    "nomic-bert", unsaid=("head_dim", "moe_every_n_layers", "num_experts", "moe_top_k", "expert_bias"),
    names=_NAMES | {"layers.{}.mlp.gate_proj": "blk.{}.ffn_gate"},
    keys=ENCODER_KEYS, joined=JOINED_QKV, read=_from_gguf, write=_to_gguf,
    others=(
        Gguf(
            "nomic-bert-moe", unsaid=("head_dim",), names=_NAMES | _EXPERTS, joined=JOINED_QKV,
            keys=ENCODER_KEYS | {
                "moe_every_n_layers": "moe_every_n_layers", "num_experts": "expert_count",
                "moe_top_k": "expert_used_count",
            },
            read=_from_gguf_with_experts, write=_to_gguf_with_experts, suits=lambda config: not config.gated,
        ),
    ),
)  # fmt: skip
TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": NomicBert,
    "masked-lm": NomicBertForMaskedLM,
    "sequence-classification": headed(PooledClassifierHead, BASE, NomicBert, pooler=True),
    "token-classification": headed(TokenLabelsHead, BASE, NomicBert),
}
