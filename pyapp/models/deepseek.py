"""DeepSeek V2 (arXiv 2405.04434) and V3 (arXiv 2412.19437): multi-head latent attention, and experts chosen within
groups beside experts that every token has. GLM-4.7-Flash (glm4_moe_lite) is V3 in other sizes, Youtu-LLM (Tencent 2025,
arXiv 2512.24618) V3 without experts; DeepSeek V3.2 (2025, arXiv 2512.02556) and GLM-5 (Zhipu AI 2026) are V3 with an
indexer, which chooses the tokens that each sees; Mistral Small 4 (Mistral AI 2026) has V2's scores of experts, and
queries that grow with their positions. Sarvam 105B (Sarvam AI 2026) is V3 without groups of experts, A.X K1 (SK Telecom
2026, https://huggingface.co/skt/A.X-K1) V3 with a norm after the experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import zeros
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import CachedText, CausalLanguageModel, DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock
from pyapp.nn.decoders.latent_attention import LatentAttention
from pyapp.nn.decoders.sparse_attention import EPSILON, CachedIndexedText, IndexedCache, SparseLatentAttention
from pyapp.nn.layers.experts import GroupedRouter, SharedExpertsFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import check_divides, layers_in, query_growth, require
from .loading.gguf import BIAS_FORM, EXPERTS, KEYS, NAMES, SHARED_EXPERTS, SIGMOID, Gguf, without_layers_ahead
from .loading.latent import LATENT_FORM, LatentConfig, latent_heads, latent_sizes
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

# The layers of the published models that guess tokens ahead; a norm of A.X K1 that its layer without experts has not.
IGNORED = r"(model\.)?layers\.((47|61|78)\..*|0\.post_mlp_layernorm\.weight)"
# The fields of experts where there are none.
NO_EXPERTS = dict.fromkeys(
    ("moe_intermediate_size", "n_routed_experts", "n_shared_experts", "num_experts_per_tok", "n_group", "topk_group"), 1
)
# What a config.json leaves out: the fields of experts, of V3's groups of them, of an indexer, of GLM's heads.
CHOSEN = {"norm_topk_prob": True, "n_shared_experts": 1}
OF_V3 = CHOSEN | {"routed_scaling_factor": 2.5, "num_experts_per_tok": 8}
GROUPS = {"n_group": 8, "topk_group": 4}
ONE_GROUP = {"n_group": 1, "topk_group": 1}
INDEXER = {"index_topk": 2048, "index_head_dim": 128}
OF_GLM = {"rms_norm_eps": 1e-5, "qk_nope_head_dim": 192, "v_head_dim": 256}


@dataclass(frozen=True)
class Kind:
    """What a model type has of its own. usual: the fields that its config.json leaves out. dense: the first layers
    without experts, where config.json says the kinds of layers or nothing. adjust: its fields from those that
    config.json has. sigmoid: the scores of experts are independent of one another, as in V3. normalizes: the shares of
    the chosen experts may be normalised. sparse: an indexer chooses the tokens that each sees. index_interleaved: the
    indexer's rotary pairs are neighbours. grows: queries grow with their positions. normed: a norm follows the experts.
    """

    usual: Mapping[str, Any] = field(default_factory=dict)
    dense: int | None = None
    adjust: Callable[[dict[str, Any]], dict[str, Any]] = dict
    sigmoid: bool = True
    normalizes: bool = True
    sparse: bool = False
    index_interleaved: bool = False
    grows: bool = False
    normed: bool = False


def _indexer_types(values: dict[str, Any]) -> dict[str, Any]:
    """Which layers have an indexer, of a config.json of GLM-5: by a pattern of F and S, or by how often."""
    kinds, pattern = values.get("indexer_types"), values.get("index_topk_pattern")
    if kinds is None and pattern is not None:
        require(isinstance(pattern, str) and {*pattern} <= {"F", "S"}, f"index_topk_pattern is {pattern!r:.60}")
        kinds = [{"F": "full", "S": "shared"}[kind] for kind in pattern]
    if kinds is None:
        every, first = (values.get(name, usual) for name, usual in (
            ("index_topk_freq", 1), ("index_skip_topk_offset", 2),
        ))  # fmt: skip
        known = type(every) is int and type(first) is int
        require(known, f"index_topk_freq is {every!r:.40} and index_skip_topk_offset {first!r:.40}")
        kinds = [
            "full" if max(layer - first + 1, 0) % max(every, 1) == 0 else "shared" for layer in range(layers_in(values))
        ]
    return values | {"indexer_types": kinds}


def _of_youtu(values: dict[str, Any]) -> dict[str, Any]:
    """No layer has experts."""
    return values | NO_EXPERTS | {"first_k_dense_replace": values.get("num_hidden_layers")}


def _of_mistral(values: dict[str, Any]) -> dict[str, Any]:
    """Its share of rotated features is of the heads before they are compressed."""
    rotary = dict(values["rope_parameters"])
    rotary.pop("partial_rotary_factor", None)
    return values | {"rope_parameters": rotary}


KINDS = {
    "deepseek_v2": Kind(sigmoid=False, normalizes=False),
    "deepseek_v3": Kind(OF_V3 | GROUPS | {"first_k_dense_replace": 3}),
    "deepseek_v32": Kind(
        OF_V3 | GROUPS | INDEXER | {"index_n_heads": 64, "max_position_embeddings": 163_840}, dense=3, sparse=True
    ),
    "glm_moe_dsa": Kind(
        OF_V3 | INDEXER | OF_GLM | {
            "n_routed_experts": 256, "q_lora_rank": 2048, "index_n_heads": 32, "max_position_embeddings": 202_752,
        }, dense=3, adjust=_indexer_types, sparse=True, index_interleaved=True,
    ),
    "glm4_moe_lite": Kind(
        CHOSEN | OF_GLM | {"routed_scaling_factor": 1.8, "num_experts_per_tok": 4, "n_routed_experts": 64}, dense=1
    ),
    "youtu": Kind({"tie_word_embeddings": True, "max_position_embeddings": 131_072}, adjust=_of_youtu),
    "mistral4": Kind({
        "max_position_embeddings": 1_048_576, "q_lora_rank": 1024, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 2048,
        "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 4, "norm_topk_prob": True,
        "rope_parameters": {
            "rope_type": "yarn", "factor": 128.0, "original_max_position_embeddings": 8192, "mscale": 1.0,
            "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
        },
    }, adjust=_of_mistral, sigmoid=False, grows=True),
    "axk1": Kind(OF_V3 | GROUPS | {"n_routed_experts": 192, "max_position_embeddings": 32_768}, dense=1, normed=True),
    "sarvam_mla": Kind(OF_V3 | ONE_GROUP | {
        "q_lora_rank": None, "first_k_dense_replace": 1, "max_position_embeddings": 4096,
    }),
}  # fmt: skip
MODEL_TYPES = tuple(KINDS)
SARVAM_FIELDS = {"num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts"}  # its own names


@dataclass(frozen=True, kw_only=True)
class Config(LatentConfig):
    """The fields of config.json."""

    model_type = "deepseek_v2"
    defaults = {"max_position_embeddings": 2048, "q_lora_rank": 1536}

    kind: str = "deepseek_v2"
    intermediate_size: int
    moe_intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    n_routed_experts: int
    n_shared_experts: int
    num_experts_per_tok: int
    first_k_dense_replace: int = 0
    n_group: int = 1
    topk_group: int = 1
    topk_method: str = "greedy"
    norm_topk_prob: bool = False
    routed_scaling_factor: float = 1.0
    rope_interleave: bool = True
    mlp_bias: bool = False
    index_topk: int = 0
    index_n_heads: int = 0
    index_head_dim: int = 0
    indexer_types: list[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        experts, groups = self.n_routed_experts, self.n_group
        check_divides(self, "n_group", "n_routed_experts")
        require(self.topk_group <= groups, f"topk_group is {self.topk_group}, of {groups} groups")
        chosen, most = self.num_experts_per_tok, experts // groups * self.topk_group
        require(chosen <= most, f"num_experts_per_tok is {chosen}, of {most} experts that may be chosen")
        require(
            self.kind != "mistral4" or groups == 1, f"n_group is {groups}, and Mistral's experts are one group",
            "Give the config.json of a published model",
        )  # fmt: skip
        query_growth(self.rope_parameters, self.max_position_embeddings)
        self._check_indexer()
        require(
            not self.own.sigmoid or groups == 1 or experts // groups >= 2, f"n_group {groups} leaves a group one expert"
        )
        known = ("greedy", "group_limited_greedy", "noaux_tc")
        require(
            self.topk_method in known, f"topk_method is {self.topk_method!r:.60}, expected one of {', '.join(known)}"
        )

    def _check_indexer(self) -> None:
        """ModelError for an indexer that cannot be."""
        if not self.own.sparse:
            return
        numbers = [self.index_topk, self.index_n_heads, self.index_head_dim]
        require(min(numbers) >= 1, f"index_topk, index_n_heads and index_head_dim are {numbers}, expected 1 or more")
        require(self.index_head_dim >= self.qk_rope_head_dim, "index_head_dim is less than qk_rope_head_dim")
        require(self.q_lora_rank is not None, "q_lora_rank is null, and the indexer reads compressed queries")
        kinds = self.indexer_types
        known = kinds is None or (
            len(kinds) == self.num_hidden_layers and kinds[0] == "full" and {*kinds} <= {"full", "shared"}
        )
        require(known, f"indexer_types is {kinds!r:.60}, expected full, and full or shared for each layer after it")

    @property
    def own(self) -> Kind:
        """What its model type has of its own."""
        return KINDS[self.kind]

    @property
    def index_interleaved(self) -> bool:
        """Whether the indexer's rotary pairs are neighbours."""
        return self.own.index_interleaved

    @property
    def indexers(self) -> list[int]:
        """The layers that have an indexer; the others see what those before them see."""
        kinds = self.indexer_types or ["full"] * self.num_hidden_layers
        return [layer for layer, kind in enumerate(kinds) if kind == "full"] if self.own.sparse else []

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        kind = str(values.get("kind") or values.get("model_type") or cls.model_type)
        if kind == "sarvam_mla":
            values = {SARVAM_FIELDS.get(name, name): value for name, value in values.items()}
            scaling = values.get("rope_scaling")
            if isinstance(scaling, dict) and scaling.get("type", scaling.get("rope_type")) == "deepseek_yarn":
                values["rope_scaling"] = {**scaling, "type": "yarn", "rope_type": "yarn"}
        usual = KINDS[kind].usual if kind in KINDS else {}
        found: Config = super().from_dict({**usual, **values, "kind": kind})
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the sizes of the cache."""
        require(values["kind"] in KINDS, f"kind is {values['kind']!r:.60}, expected one of {', '.join(KINDS)}")
        own = KINDS[values["kind"]]
        if own.dense is not None:
            values = values | {"first_k_dense_replace": _dense_layers(values, own.dense)}
        return own.adjust(values) | latent_sizes(values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    @property
    def growth(self) -> tuple[float, int]:
        """How queries grow with their positions (0: not), and the positions until they do."""
        growth, original = query_growth(self.rope_parameters, self.max_position_embeddings)
        return growth if self.own.grows else 0.0, original


def _dense_layers(values: Mapping[str, Any], usual: int) -> Any:
    """The number of first layers without experts, by mlp_layer_types if a config.json has it."""
    kinds = values.get("mlp_layer_types")
    if kinds is None:
        return values.get("first_k_dense_replace", usual)
    count = kinds.count("dense") if isinstance(kinds, list) else 0
    known = isinstance(kinds, list) and kinds == ["dense"] * count + ["sparse"] * (len(kinds) - count)
    require(known, f"mlp_layer_types is {kinds!r:.60}, expected dense layers and then sparse ones")
    return count


def limited_router(config: Config) -> GroupedRouter:
    """The router of a layer."""
    limited = config.own.sigmoid or config.topk_method == "group_limited_greedy"
    groups = (config.n_group, config.topk_group) if limited else (1, 1)
    return GroupedRouter(
        config.hidden_size, config.n_routed_experts, config.num_experts_per_tok, groups, sigmoid=config.own.sigmoid,
        normalized=config.norm_topk_prob and config.own.normalizes, scaling=config.routed_scaling_factor,
    )  # fmt: skip


class NormedExperts(SharedExpertsFeedForward):
    """Experts and a norm after them, added to the residual."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, limited_router(config), config.mlp_bias)
        self.post_mlp_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + experts, or the experts alone (..., hidden_size)."""
        y: Tensor = self.post_mlp_layernorm(super().forward(x))
        return y if residual is None else residual + y


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        dense = layer < config.first_k_dense_replace
        feed_forward: Module = (
            GatedFeedForward(size, config.intermediate_size, config.hidden_act, bias=config.mlp_bias)
            if dense
            else NormedExperts(config)
            if config.own.normed
            else SharedExpertsFeedForward(config, limited_router(config), config.mlp_bias)
        )
        attention: Module = LatentAttention(config, layer, rotary)
        if config.own.sparse:
            number = config.indexers.index(layer) if layer in config.indexers else None
            attention = SparseLatentAttention(config, layer, rotary, number)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class DeepseekForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict() | {"head_dim": config.qk_rope_head_dim})
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))

    @property
    def cached_text(self) -> Any:
        """The form of a cached text that the layers read."""
        return CachedIndexedText if self.config.own.sparse else CachedText

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        config = self.config
        if not config.own.sparse:
            return super()._empty_cache(capacity, dtype, texts)
        return IndexedCache(
            config.num_hidden_layers, len(config.indexers), self.kv_heads, config.head_dim, config.index_head_dim,
            capacity, texts, self.device, dtype,
        )  # fmt: skip


def renamed(name: str) -> str:
    """The parameter of a file's tensor: A.X K1's files have the norm of experts beside them."""
    return name if ".mlp." in name else name.replace(".post_mlp_layernorm.", ".mlp.post_mlp_layernorm.")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself. A.X K1's have no biases of the choice."""
    parts = "gate_proj", "up_proj", "down_proj"
    found = experts_apart(tensors, "mlp.experts", parts, config.n_routed_experts, config.num_hidden_layers)
    for layer in range(config.first_k_dense_replace, config.num_hidden_layers) if config.own.normed else ():
        gate = f"model.layers.{layer}.mlp.gate."
        if f"{gate}e_score_correction_bias" not in tensors:
            bias = Stored((f"{gate}weight",), values=lambda weight: zeros(weight.shape[0]))
            found[f"{gate}e_score_correction_bias"] = bias
    return found


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of heads, V3 by its scores of experts, and YaRN, whose two factors are one in these files."""
    whole = values.get("attention.key_length_mla", values.get("attention.key_length"))
    found = latent_heads(found, values, 64, whole)
    parameters = found["rope_parameters"]
    more = values.get("rope.scaling.yarn_log_multiplier")
    if parameters["rope_type"] == "yarn" and more:
        parameters.pop("attention_factor", None)
        parameters |= {"mscale": 10 * more, "mscale_all_dim": 10 * more}
    kind = "deepseek_v3" if values.get("expert_gating_func", 1) == SIGMOID else "deepseek_v2"
    kind = kind if values.get("expert_count") else "youtu"
    limited = kind == "deepseek_v2" and "n_group" in found
    return {"q_lora_rank": None, "norm_topk_prob": False} | ONE_GROUP | found | {
        "kind": kind, "model_type": kind, "rope_parameters": parameters,
        "v_head_dim": values.get("attention.value_length_mla", values.get("attention.value_length", 128)),
        "topk_method": "group_limited_greedy" if limited else "greedy",
        "attention_bias": "blk.0.attn_output.bias" in values["tensors"],
    }  # fmt: skip


def _sparse_from_gguf(kind: str, found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of models with an indexer, some layers of which may have none."""
    found = without_layers_ahead(_from_gguf(found, values), values)
    layers, there, known = layers_in(found), values["tensors"], values.get("attention.indexer.types")
    own = [f"blk.{layer}.indexer.attn_k.weight" in there for layer in range(layers)]
    own = known[:layers] if isinstance(known, list) and len(known) >= layers else own
    kinds = {"indexer_types": ["full" if full else "shared" for full in own]} if kind == "glm_moe_dsa" else {}
    return found | {"kind": kind, "model_type": kind} | kinds


def _mistral_from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Mistral Small 4's, with the growth of queries."""
    found = _from_gguf(found, values)
    growth, original = (values.get(f"attention.temperature_{name}") for name in ("scale", "length"))
    parameters = found["rope_parameters"] | ({"llama_4_scaling_beta": growth} if growth else {})
    if growth and original:
        parameters.setdefault("original_max_position_embeddings", original)
    return found | {"kind": "mistral4", "model_type": "mistral4", "rope_parameters": parameters}


# The keys that a model without experts does not have.
_OF_GROUPS = "expert_group_count", "expert_group_used_count"
_OF_EXPERTS = ("expert_count", "expert_used_count", *_OF_GROUPS, "expert_weights_scale", "expert_weights_norm")


def _to_gguf(config: Config) -> dict[str, Any]:
    own = config.own
    limited = not own.sigmoid and config.topk_method == "group_limited_greedy" and config.topk_group < config.n_group
    require(not limited, "llama.cpp chooses groups by their best two experts, not by the best", "Write safetensors")
    groups = {} if own.sigmoid else dict.fromkeys(_OF_GROUPS)
    require(not own.normed, "llama.cpp has no norm after the experts", "Write safetensors")
    plain, rotated, parameters = config.qk_nope_head_dim, config.qk_rope_head_dim, config.rope_parameters
    more = parameters.get("mscale_all_dim") if parameters["rope_type"] == "yarn" else None
    further = {"rope.scaling.yarn_log_multiplier": 0.1 * more, "rope.scaling.attn_factor": None} if more else {}
    gating: dict[str, Any] = {"expert_gating_func": SIGMOID if own.sigmoid else 1}
    if config.kind == "youtu":
        groups = dict.fromkeys(_OF_EXPERTS) | {
            "expert_shared_count": 0, "expert_feed_forward_length": config.intermediate_size
        }  # fmt: skip
        gating = {}
    if config.indexers:
        further |= {"attention.layer_norm_epsilon": EPSILON}
        further |= {"attention.indexer.types": [layer in config.indexers for layer in range(config.num_hidden_layers)]}
    growth, original = config.growth
    if growth:
        further |= {"attention.temperature_scale": float(growth), "attention.temperature_length": original}
    return groups | further | gating | {
        "attention.key_length": config.head_dim, "attention.value_length": config.kv_lora_rank,
        "attention.key_length_mla": plain + rotated, "attention.value_length_mla": config.v_head_dim,
        "rope.dimension_count": rotated,
    }  # fmt: skip


def _is(kind: str, config: Config) -> bool:
    return config.kind == kind


_INDEXED = {
    "index_n_heads": "attention.indexer.head_count", "index_head_dim": "attention.indexer.key_length",
    "index_topk": "attention.indexer.top_k",
}  # fmt: skip
_PATH = "model.layers.{}."
_PARTS = {
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
}  # fmt: skip
GGUF = Gguf(
    "deepseek2",
    names=NAMES | EXPERTS | SHARED_EXPERTS | {_PATH + ours: "blk.{}." + theirs for ours, theirs in _PARTS.items()} | {
        _PATH + "self_attn.kv_b_proj": "blk.{}.attn_k_b blk.{}.attn_v_b",
    },
    keys=KEYS | {
        "q_lora_rank": "attention.q_lora_rank", "kv_lora_rank": "attention.kv_lora_rank",
        "first_k_dense_replace": "leading_dense_block_count", "n_routed_experts": "expert_count",
        "n_shared_experts": "expert_shared_count", "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length", "routed_scaling_factor": "expert_weights_scale",
        "norm_topk_prob": "expert_weights_norm", "n_group": "expert_group_count",
        "topk_group": "expert_group_used_count",
    },
    forms={
        "gate.e_score_correction_bias": BIAS_FORM,
        "kv_b_proj.weight": LATENT_FORM,
    },
    older={_PATH + "self_attn.kv_b_proj": "blk.{}.attn_kv_b"}, read=_from_gguf, write=_to_gguf,
    unsaid=("topk_method", "n_group", "topk_group", "kind", *_INDEXED, "indexer_types"),
)  # fmt: skip
_SPARSE = replace(
    GGUF,
    names=dict(GGUF.names) | {f"{_PATH}self_attn.indexer.{ours}": f"blk.{{}}.indexer.{theirs}" for ours, theirs in (
        ("wq_b", "attn_q_b"), ("wk", "attn_k"), ("k_norm", "k_norm"), ("weights_proj", "proj"),
    )}, keys=dict(GGUF.keys) | _INDEXED, unsaid=("topk_method", "n_group", "topk_group"),
)  # fmt: skip
GGUF = replace(GGUF, others=(
    replace(GGUF, architecture="mistral4", read=_mistral_from_gguf, suits=lambda config: config.kind == "mistral4"),
    *(
        replace(_SPARSE, architecture=architecture, read=partial(_sparse_from_gguf, kind), suits=partial(_is, kind))
        for architecture, kind in (("deepseek32", "deepseek_v32"), ("glm-dsa", "glm_moe_dsa"))
    ),
))  # fmt: skip

TASKS = {"causal-lm": DeepseekForCausalLM}
