"""DeepSeek V4 (DeepSeek-AI 2026, https://huggingface.co/deepseek-ai/DeepSeek-V4-Flash-Base): compressed attention,
several states of each token that layers mix (manifold-constrained hyper-connections, Xie et al. 2026), and experts of
which the first layers choose those that belong to the token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.nn import GatedFeedForward, Module, Parameter, RMSNorm
from pyapp.nn.decoders.compressed_attention import (
    HEAVY,
    SLIDING,
    SPARSE,
    CompressedAttention,
    CompressedCache,
    cache_order,
)
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable, Text, WholeText
from pyapp.nn.layers.experts import Experts, Router
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from .loading.config import LIMITS, DecoderConfig, check_choice, check_kinds, check_positive, layers_in, require
from .loading.stored import Stored, renaming
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("deepseek_v4",)
IGNORED = r"(model\.)?mtp\..*"  # the layers that guess tokens ahead
HASH, ROUTED = "hash_moe", "moe"  # how the experts of a layer are chosen
KINDS_OF_RATES = {0: SLIDING, 4: SPARSE, 128: HEAVY}
RATES = {SPARSE: 4, HEAVY: 128}
MAIN, COMPRESSED = "main", "compress"  # kinds of rotary positions
SCORES = ("sqrtsoftplus", "softmax", "sigmoid")
MOST_STATES, MOST_ROUNDS = 1 << 6, 1 << 8


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. layer_types: of the attention of each layer. compress_rates: the tokens of an entry.
    hc_mult: the states of a token. hc_sinkhorn_iters: how often rows and columns of what mixes them are normalised.
    """

    model_type = "deepseek_v4"
    defaults = {"max_position_embeddings": 1048576, "num_key_value_heads": 1, "head_dim": 512}
    ignored = ("intermediate_size",)

    moe_intermediate_size: int = 2048
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    q_lora_rank: int = 1024
    n_routed_experts: int = 256
    n_shared_experts: int = 1
    num_experts_per_tok: int = 6
    scoring_func: str = "sqrtsoftplus"
    routed_scaling_factor: float = 1.5
    swiglu_limit: float = 10.0
    sliding_window: int = 128
    layer_types: list[str]
    mlp_layer_types: list[str]
    compress_rates: dict[str, Any]
    o_groups: int = 8
    o_lora_rank: int = 1024
    index_n_heads: int = 64
    index_head_dim: int = 128
    index_topk: int = 512
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    hc_eps: float = 1e-6

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers, and the rotary positions of each kind."""
        layers, rates = layers_in(values), dict(values.get("compress_rates") or RATES)
        for kind, older in ((SPARSE, "compress_rate_csa"), (HEAVY, "compress_rate_hca")):
            rates[kind] = values.get(older, rates.get(kind, RATES[kind]))
        kinds, ratios = values.get("layer_types"), values.get("compress_ratios")
        if kinds is None and isinstance(ratios, list):
            known = all(type(ratio) is int and ratio in KINDS_OF_RATES for ratio in ratios)
            require(known, f"compress_ratios is {ratios!r:.60}, expected 0, 4 or 128 for each layer")
            kinds = [KINDS_OF_RATES[ratio] for ratio in ratios]
        if kinds is None:
            kinds = [SPARSE if layer >= 2 and layer % 2 else HEAVY for layer in range(layers)]
        first = values.get("num_hash_layers", 3)
        require(type(first) is int, f"num_hash_layers is {first!r:.40}, expected a whole number")
        choices = values.get("mlp_layer_types") or [HASH if layer < first else ROUTED for layer in range(layers)]
        require(isinstance(kinds, list) and isinstance(choices, list), "layer_types or mlp_layer_types is no list")
        return values | {
            "compress_rates": rates, "layer_types": kinds[:layers], "mlp_layer_types": choices[:layers],
            "rope_parameters": _rotary(values),
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.n_routed_experts)
        check_kinds("layer_types", self.layer_types, self.num_hidden_layers, SLIDING, SPARSE, HEAVY)
        check_kinds("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers, HASH, ROUTED)
        check_positive(self, "swiglu_limit")
        rates = self.compress_rates
        require(
            {*rates} == {*RATES} and all(type(rate) is int and 1 <= rate <= 1 << 14 for rate in rates.values()),
            f"compress_rates is {rates!r:.80}, expected whole numbers for {' and '.join(RATES)}",
        )
        require(self.num_key_value_heads == 1, f"num_key_value_heads is {self.num_key_value_heads}, expected 1")
        groups, inner = self.o_groups, self.num_attention_heads * self.head_dim
        require(inner % groups == 0, f"o_groups {groups} does not divide {inner} features of all heads")
        require(groups * self.o_lora_rank <= LIMITS["hidden_size"], f"o_lora_rank is {self.o_lora_rank:,}")
        require(self.index_head_dim <= LIMITS["head_dim"], f"index_head_dim is {self.index_head_dim:,}")
        require(self.index_n_heads <= LIMITS["num_heads"], f"index_n_heads is {self.index_n_heads:,}")
        require(self.hc_mult <= MOST_STATES, f"hc_mult is {self.hc_mult}, expected at most {MOST_STATES}")
        rounds = self.hc_sinkhorn_iters
        require(rounds <= MOST_ROUNDS, f"hc_sinkhorn_iters is {rounds}, expected at most {MOST_ROUNDS}")
        score = self.scoring_func
        require(score in SCORES, f"scoring_func is {score!r:.40}, expected one of {', '.join(SCORES)}")
        turned = 2 * RotaryTable(self.to_dict(), COMPRESSED).upto(1).shape[1]
        require(turned <= self.index_head_dim, f"index_head_dim is less than the {turned} features that turn")

    def norm(self) -> RMSNorm:
        """A norm of the states."""
        return RMSNorm(self.hidden_size, self.rms_norm_eps)

    def rotary(self, kind: str, backward: bool = False) -> RotaryTable:
        """The rotary angles of layers of a kind."""
        return RotaryTable(self.to_dict(), MAIN if kind == SLIDING else COMPRESSED, backward)


def _rotary(values: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary positions of both kinds; the scaling of a config.json that says one is of layers that compress."""
    given, share = values["rope_parameters"], values.get("partial_rotary_factor")
    if all(isinstance(given.get(kind), dict) for kind in (MAIN, COMPRESSED)):
        return {kind: given[kind] for kind in (MAIN, COMPRESSED)}
    turned, size = values.get("qk_rope_head_dim"), values["head_dim"]
    if share is None:
        share = turned / size if type(turned) is int and type(size) is int else 64 / 512
    own = {"partial_rotary_factor": share}
    theta = values.get("rope_theta", 10000.0)
    compressed = {**given, **own, "rope_theta": values.get("compress_rope_theta", 160000.0)}
    if compressed["rope_type"] == "yarn":
        compressed.setdefault("attention_factor", 1.0)
    return {MAIN: {"rope_type": "default", "rope_theta": theta, **own}, COMPRESSED: compressed}


class LimitedFeedForward(GatedFeedForward):
    """A gated feed-forward part whose gate and values have limits."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.moe_intermediate_size * config.n_shared_experts, config.hidden_act)
        self.act, self.limit = activation_named(config.hidden_act), config.swiglu_limit

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + the result, or this alone (..., hidden_size)."""
        gate = self.gate_proj(x).clamp(max=self.limit)
        y: Tensor = self.down_proj(self.act(gate) * self.up_proj(x).clamp(-self.limit, self.limit), residual)
        return y


class LimitedExperts(Experts):
    """Experts whose gates and values have limits."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            config.hidden_size, config.moe_intermediate_size, config.n_routed_experts, config.hidden_act
        )  # fmt: skip
        self.act, self.limit = activation_named(config.hidden_act), config.swiglu_limit

    def gated(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        return self.act(gate.clamp(max=self.limit)) * up.clamp(-self.limit, self.limit)


class TokenRouter(Router):
    """Chooses experts by their scores and a bias; or by a table, which has those of each token."""

    def __init__(self, config: Config, kind: str) -> None:
        super().__init__(config.hidden_size, config.n_routed_experts, config.num_experts_per_tok)
        self.score, self.scaling, self.by_table = config.scoring_func, config.routed_scaling_factor, kind == HASH
        if self.by_table:
            self.register_buffer("tid2eid", ops.zeros(config.vocab_size, self.count, dtype="int64"))
        else:
            self.e_score_correction_bias = Parameter(ops.zeros(config.n_routed_experts), requires_grad=False)

    def choose(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, D), tokens (N,) → shares (N, count) and experts (N, count) int64."""
        logits = ops.linear(x, self.weight)  # (N, E)
        if self.score == "sqrtsoftplus":
            scores = logits.softplus().sqrt()
        else:
            scores = logits.sigmoid() if self.score == "sigmoid" else logits.softmax(-1)
        if self.by_table:
            chosen = self.tid2eid.index_select(0, tokens).clamp(0, self.weight.shape[0] - 1)
        else:
            with no_grad():
                chosen = (scores + self.e_score_correction_bias).topk(self.count, -1)[1]
        shares = scores.gather(1, chosen)
        return shares / (shares.sum(-1, True) + 1e-20) * self.scaling, chosen


class FeedForward(Module):
    """The experts of a layer, and one that every token has."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.gate = TokenRouter(config, config.mlp_layer_types[layer])
        self.experts, self.shared_experts = LimitedExperts(config), LimitedFeedForward(config)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        """x (..., hidden_size), tokens (...) → (..., hidden_size)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        routed = self.experts(flat, *self.gate.choose(flat, tokens.reshape(-1)))
        return self.shared_experts(x) + routed.reshape(x.shape)


class HyperConnection(Module):
    """How a part of a layer reads the states of a token, and how they and its result become the next ones."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.states, self.rounds, self.epsilon = config.hc_mult, config.hc_sinkhorn_iters, config.hc_eps
        width, count = self.states * config.hidden_size, (2 + self.states) * self.states
        self.input_norm = RMSNorm(width, config.rms_norm_eps, elementwise_affine=False)
        self.fn = new_parameter(ops.zeros, count, width)
        self.base, self.scale = new_parameter(ops.zeros, count), new_parameter(ops.ones, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (..., S, D) → what the part reads (..., D), the factors of its result (..., S, 1), and the states mixed
        (..., S, D).
        """
        count, before = self.states, x.shape[:-2]
        made = ops.linear(self.input_norm(x.reshape(*before, -1)), self.fn)  # (..., (2 + S) S)
        sizes = (count, count, count * count)
        first, last, mixing = (
            part * self.scale.narrow(0, i, 1) + bias
            for i, (part, bias) in enumerate(zip(made.split(sizes, -1), self.base.split(sizes), strict=True))
        )
        read = first.sigmoid() + self.epsilon  # (..., S)
        mix = mixing.reshape(*before, count, count).softmax(-1) + self.epsilon
        mix = mix / (mix.sum(-2, True) + self.epsilon)
        for _ in range(self.rounds - 1):
            mix = mix / (mix.sum(-1, True) + self.epsilon)
            mix = mix / (mix.sum(-2, True) + self.epsilon)
        return (read.unsqueeze(-1) * x).sum(-2), 2 * last.sigmoid().unsqueeze(-1), mix.transpose(-1, -2) @ x


class HyperHead(Module):
    """The last states of a token as one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.epsilon = config.hc_mult * config.hidden_size, config.hc_eps
        self.input_norm = RMSNorm(width, config.rms_norm_eps, elementwise_affine=False)
        self.hc_fn = new_parameter(ops.zeros, config.hc_mult, width)
        self.hc_base, self.hc_scale = new_parameter(ops.zeros, config.hc_mult), new_parameter(ops.ones, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., S, D) → (..., D)."""
        made = ops.linear(self.input_norm(x.reshape(*x.shape[:-2], -1)), self.hc_fn)  # (..., S)
        read = (made * self.hc_scale + self.hc_base).sigmoid() + self.epsilon
        return (read.unsqueeze(-1) * x).sum(-2)


class Block(Module):
    """Attention and experts, each between the states that it reads and those that it changes."""

    def __init__(
        self, config: Config, layer: int, tables: Mapping[str, tuple[RotaryTable, RotaryTable]],
        numbers: dict[tuple[str, int], int],
    ) -> None:  # fmt: skip
        super().__init__()
        self.self_attn = CompressedAttention(config, layer, *tables[config.layer_types[layer]], numbers)
        self.mlp = FeedForward(config, layer)
        self.input_layernorm, self.post_attention_layernorm = config.norm(), config.norm()
        self.attn_hc, self.ffn_hc = HyperConnection(config), HyperConnection(config)

    def forward(self, x: Tensor, text: Any, tokens: Tensor) -> Tensor:
        """x (..., T, S, D), tokens (..., T) → (..., T, S, D)."""
        read, factors, x = self.attn_hc(x)
        x = factors * self.self_attn(self.input_layernorm(read), text).unsqueeze(-2) + x
        read, factors, x = self.ffn_hc(x)
        return factors * self.mlp(self.post_attention_layernorm(read), tokens).unsqueeze(-2) + x


class DeepseekV4Stack(DecoderStack):
    """The decoder. Texts with padding before them are moved to the beginning, where their parts are counted from."""

    def __init__(self, config: Config, blocks: Sequence[Module]) -> None:
        super().__init__(config.vocab_size, config.hidden_size, blocks, config.norm())
        self.states, self.hc_head = config.hc_mult, HyperHead(config)

    def forward(self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()) -> Tensor:
        x = self.embedded(tokens, text) if x is None else x  # (..., T, D)
        order = None
        if isinstance(text, WholeText) and text.mask is not None:
            order = _texts_first(text.mask.reshape(tokens.shape))  # (B, T)
            tokens, x = tokens.gather(1, order), _in_order(x, order)
            text = WholeText(tokens.shape[1])
        x = x.unsqueeze(-2).expand((*x.shape[:-1], self.states, x.shape[-1]))  # (..., T, S, D)
        for layer in self.layers:
            x = layer(x, text, tokens)
        x = self.hc_head(x)
        return x if order is None else _in_order(x, order.argsort(-1))


def _texts_first(mask: Tensor) -> Tensor:
    """The order (B, T) int64 in which the tokens of a mask (B, T) come before the padding."""
    places = ops.arange(mask.shape[1], device=mask.device)
    return ops.where(mask, places, places + mask.shape[1]).argsort(-1)


def _in_order(x: Tensor, order: Tensor) -> Tensor:
    """x (B, T, D) in an order (B, T)."""
    return x.gather(1, order.unsqueeze(-1).expand((*order.shape, x.shape[-1])))


class DeepseekV4ForCausalLM(CausalLanguageModel):
    """The language model."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, config: Config) -> None:
        numbers = {own: number for number, own in enumerate(cache_order(config.layer_types))}
        tables = {kind: (config.rotary(kind), config.rotary(kind, True)) for kind in {*config.layer_types}}
        blocks = [Block(config, layer, tables, numbers) for layer in range(config.num_hidden_layers)]
        super().__init__(config, DeepseekV4Stack(config, blocks))

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        config = self.config
        return CompressedCache(
            config.layer_types, config.head_dim, config.index_head_dim, capacity, texts, self.device, dtype
        )  # fmt: skip


_renamed = renaming({
    ".attn.": ".self_attn.", ".ffn.": ".mlp.", ".indexer.compressor.": ".compressor.indexer.",
    ".indexer.weights_proj.": ".compressor.indexer.scorer.weights_proj.",
    ".self_attn.indexer.wq_b.": ".self_attn.compressor.indexer.q_b_proj.", ".wq_b.": ".q_b_proj.",
    ".attn_norm.": ".input_layernorm.", ".ffn_norm.": ".post_attention_layernorm.", ".hc_attn_": ".attn_hc.",
    ".hc_ffn_": ".ffn_hc.", "hc_head_": "hc_head.hc_", ".attn_sink": ".sinks", ".ape": ".position_bias",
    ".wq_a.": ".q_a_proj.", ".wkv.": ".kv_proj.", ".wgate.": ".gate_proj.", ".wo_a.": ".o_a_proj.",
    ".wo_b.": ".o_b_proj.", ".q_norm.": ".q_a_norm.", ".self_attn.norm.": ".self_attn.kv_norm.",
    ".compressor.norm.": ".compressor.kv_norm.",
    ".indexer.norm.": ".indexer.kv_norm.", ".gate.bias": ".gate.e_score_correction_bias",
    ".shared_experts.w1.": ".shared_experts.gate_proj.", ".shared_experts.w2.": ".shared_experts.down_proj.",
    ".shared_experts.w3.": ".shared_experts.up_proj.",
})  # fmt: skip
_WHOLE = {"head.weight": "lm_head.weight", "embed.weight": "embed_tokens.weight"}


def renamed(name: str) -> str:
    """The parameter of a file's tensor: the authors' files have names of their own."""
    return name if ".experts." in name else _WHOLE.get(name, _renamed(name))


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How the authors' files store the experts: each matrix by itself."""
    place, parts = "ffn.experts", ("w1", "w3", "w2")
    return experts_apart(tensors, place, parts, config.n_routed_experts, config.num_hidden_layers)


TASKS = {"causal-lm": DeepseekV4ForCausalLM}
