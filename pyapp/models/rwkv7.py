"""RWKV 7 "Goose" (Peng et al. 2025, arXiv 2503.14456): layers that mix each token with the one before it, and a state
for each head that every token decays, reads and overwrites in a direction of its own.

Parameters have the names of the files of flash-linear-attention. The author's files (.pth) have others, and need no
config.json: their tensors say the sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import exp
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import empty
from pyapp.nn import LayerNorm, Linear, Module, ModuleDict
from pyapp.nn.decoders.decoder import DecoderStack, Text
from pyapp.nn.parameter import Initialization, new_parameter
from pyapp.nn.recurrent.delta_rule import generalized_delta_rule
from pyapp.nn.recurrent.recurrent import RecurrentLanguageModel, StateText, token_before

from .loading.config import FileConfig, check_divides, read_config, require
from .loading.gguf import Gguf, GgufForm
from .loading.rwkv_files import sizes_of, version_of
from .loading.stored import Stored

MODEL_TYPES = ("rwkv7",)
# The first layer has no part of the values of a layer before it; some files have it, and readers ignore it.
IGNORED = r"(model\.layers|blocks)\.0\.att(n)?\.v(_lora\..*|[012])"
LONGEST = 1 << 20  # tokens of a text, as llama.cpp says: states know no limit
SLOWEST = -exp(-0.5)  # the logarithm of the fastest decay of a token
SHORTEST = 1e-12  # of the length by which keys are divided
MIXES = ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g")
# What the author's files call the parts.
OWN_NAMES = {
    "emb.": "model.embeddings.", "head.": "lm_head.", "ln_out.": "model.norm.", "ln0.": "pre_norm.",
    "ln1.": "attn_norm.", "ln2.": "ffn_norm.", "att.": "attn.", "ln_x.": "g_norm.", "receptance.": "r_proj.",
    "output.": "o_proj.",
}  # fmt: skip
OF_ATTENTION = {"key.": "k_proj.", "value.": "v_proj."}
RANKS = {
    "w": "decay_low_rank_dim",
    "a": "a_low_rank_dim",
    "v": "v_low_rank_dim",
    "g": "gate_low_rank_dim",
}


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json."""

    model_type = "rwkv7"

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    head_dim: int = 64
    intermediate_size: int
    decay_low_rank_dim: int = 64
    gate_low_rank_dim: int = 128
    a_low_rank_dim: int = 64
    v_low_rank_dim: int = 16
    norm_eps: float = 1e-5
    norm_first: bool = True
    tie_word_embeddings: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for a form of RWKV 7 that is not known."""
        given = {name: value for name, value in values.items() if value is not None}
        hidden, ratio, heads = given.get("hidden_size"), given.get("hidden_ratio", 4), given.get("num_heads")
        if type(hidden) is int and type(ratio) in (int, float) and 0 < ratio < 1 << 10:
            given.setdefault("intermediate_size", 32 * -(-int(hidden * ratio) // 32))
        if type(hidden) is int and type(heads) is int and heads > 0 and "head_dim" not in given:
            given["head_dim"] = hidden // heads
        plain = {"hidden_act": "sqrelu", "norm_bias": True, "attn": None}
        wrong = [name for name, value in plain.items() if given.get(name, value) != value]
        require(not wrong, f"RWKV 7 with {', '.join(wrong)} of another kind is not supported")
        widths = given.get("value_dim", hidden)
        own = widths if isinstance(widths, list) else [widths]
        require(all(width == hidden for width in own), f"value_dim is {widths!r:.60}, expected hidden_size")
        return read_config(cls, given)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides(self, "head_dim", "hidden_size")
        for name in RANKS.values():
            require(getattr(self, name) <= 1 << 16, f"{name} is {getattr(self, name):,}, expected at most 65,536")

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return LONGEST

    @property
    def heads(self) -> int:
        """The heads of a layer."""
        return self.hidden_size // self.head_dim


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with the sizes that the tensors of a file say."""
    if version_of(tensors) != "rwkv7":
        return settings
    layer = 1 if "blocks.1.att.v1" in tensors else 0  # the first layer has no part of the values before it
    sizes = {
        "vocab_size": ("emb.weight", 0), "hidden_size": ("emb.weight", 1), "head_dim": ("blocks.0.att.r_k", -1),
        "intermediate_size": ("blocks.0.ffn.key.weight", 0),
    } | {field: (f"blocks.{layer if part == 'v' else 0}.att.{part}1", 1) for part, field in RANKS.items()}  # fmt: skip
    return {**settings, "norm_eps": 1e-5, **sizes_of(tensors, sizes)}


def renamed(name: str) -> str:
    """The parameter of a tensor of the author's files."""
    if not name.startswith(("emb.", "blocks.", "ln_out.", "head.")):
        return name
    name = re.sub(r"^blocks\.", "model.layers.", name)
    for own, ours in {**OWN_NAMES, **(OF_ATTENTION if ".att." in name else {})}.items():
        if name.startswith(own) or f".{own}" in name:
            name = name.replace(own, ours, 1)
    return re.sub(r"\.attn\.([wav])0$", r".attn.\1_lora.lora.2.bias", name)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How the author's files have the matrices of low rank, by columns, and how older files join the mixes."""
    found = {}
    for layer in range(config.num_hidden_layers):
        path = f"model.layers.{layer}.attn"
        if version_of(tensors) == "rwkv7":
            for part in RANKS if layer else RANKS.keys() - {"v"}:
                for number, place in ((1, 0), (2, 2)):
                    name = f"{path}.{part}_lora.lora.{place}.weight"
                    found[name] = Stored((f"{path}.{part}{number}",), values=_transposed)
            biases = (f"{path}.{part}_lora.lora.2.bias" for part in ("wav" if layer else "wa"))
            vectors = (*biases, f"{path}.k_k", f"{path}.k_a", f"model.layers.{layer}.ffn.x_k")
            found |= {name: Stored((name,), values=_flat) for name in vectors}
        for place, name in enumerate(MIXES if f"{path}.x_x" in tensors else ()):
            found[f"{path}.{name}"] = Stored((f"{path}.x_x",), values=partial(_mix, place))
    return found


def _transposed(value: Tensor) -> Tensor:
    return value.T.contiguous()


def _flat(value: Tensor) -> Tensor:
    return value.reshape(-1)


def _mix(place: int, value: Tensor) -> Tensor:
    return value.reshape(len(MIXES), 1, 1, -1).select(0, place).contiguous()


class LowRank(Module):
    """Two matrices with few features between them."""

    def __init__(self, size: int, rank: int, bias: bool = True) -> None:
        super().__init__()
        self.lora = ModuleDict({"0": Linear(size, rank, bias=False), "2": Linear(rank, size, bias=bias)})

    def forward(self, x: Tensor, activation: Any = None) -> Tensor:
        """x (..., size) → (..., size), with an activation between the matrices."""
        inner = self.lora["0"](x)  # (..., rank)
        y: Tensor = self.lora["2"](inner if activation is None else activation(inner))
        return y


def mix(*features: int) -> Tensor:
    """A parameter with the share of the token before, for each feature."""
    made = new_parameter(empty, *features)
    if Initialization.on:
        made.data.fill_(0.5)
    return made


class TimeMixing(Module):
    """Reads and changes the state of each head. Values of later layers are between their own and the first layer's."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.layer, self.heads, self.epsilon = layer, config.heads, config.head_dim * config.norm_eps
        for name in MIXES:
            setattr(self, name, mix(1, 1, size))
        self.k_k = mix(size)
        self.k_a = mix(size)
        self.r_k = mix(config.heads, config.head_dim)
        self.r_proj = Linear(size, size, bias=False)
        self.k_proj = Linear(size, size, bias=False)
        self.v_proj = Linear(size, size, bias=False)
        self.o_proj = Linear(size, size, bias=False)
        self.w_lora = LowRank(size, config.decay_low_rank_dim)
        self.v_lora = LowRank(size, config.v_low_rank_dim) if layer else None
        self.a_lora = LowRank(size, config.a_low_rank_dim)
        self.g_lora = LowRank(size, config.gate_low_rank_dim, bias=False)
        self.g_norm = LayerNorm(size, self.epsilon)  # the parameters of a norm of each head

    def forward(self, x: Tensor, text: StateText, first: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (..., T, C), the first layer's values (..., T, C) → (..., T, C) and the first layer's values."""
        x = text.masked(x)
        change = text.carry(self.layer, 0, token_before, x) - x
        r, w, k, v, a, g = (x + change * getattr(self, name).reshape(-1) for name in MIXES)
        decay = self.w_lora(w, ops.tanh).sigmoid() * SLOWEST
        query, key, value = self.r_proj(r), self.k_proj(k), self.v_proj(v)
        if self.v_lora is not None and first is not None:
            value = value + (first - value) * self.v_lora(v).sigmoid()
        value = text.masked(value)
        rate, gate = self.a_lora(a).sigmoid(), self.g_lora(g, ops.sigmoid)
        heads = (*x.shape[:-1], self.heads, -1)
        removed = (key * self.k_k).reshape(heads)  # (..., T, H, K)
        removed = (removed / removed.square().sum(-1, True).sqrt().clamp(SHORTEST)).reshape(x.shape)
        key = key * (1 + (rate - 1) * self.k_a)
        rule = partial(generalized_delta_rule, heads=self.heads)
        y = text.carry(self.layer, 1, rule, query, decay, key, value, removed, removed * rate).reshape(heads)
        y = ops.layer_norm(y, (y.shape[-1],), None, None, self.epsilon).reshape(x.shape)
        y = y * self.g_norm.weight + self.g_norm.bias
        own = ((query * key).reshape(heads) * self.r_k).sum(-1, True) * value.reshape(heads)
        return self.o_proj((y + own.reshape(x.shape)) * gate), value if first is None else first


class ChannelMixing(Module):
    """The feed-forward part."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.x_k = mix(config.hidden_size)
        self.key = Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.value = Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, C) → (..., T, C)."""
        x = text.masked(x)
        change = text.carry(self.layer, 2, token_before, x) - x
        return self.value(ops.relu(self.key(x + change * self.x_k)).square())


class Block(Module):
    """Both parts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.norm_eps
        self.pre_norm = LayerNorm(size, epsilon) if config.norm_first and layer == 0 else None
        self.attn_norm = LayerNorm(size, epsilon)
        self.attn = TimeMixing(config, layer)
        self.ffn_norm = LayerNorm(size, epsilon)
        self.ffn = ChannelMixing(config, layer)

    def forward(self, x: Tensor, text: StateText, first: Tensor | None) -> tuple[Tensor, Tensor]:
        """As TimeMixing."""
        x = x if self.pre_norm is None else self.pre_norm(x)
        y, first = self.attn(self.attn_norm(x), text, first)
        x = x + y
        return x + self.ffn(self.ffn_norm(x), text), first


class Rwkv7Stack(DecoderStack):
    """The decoder. Layers hand on the values of the first one."""

    tokens = "embeddings"

    def forward(
        self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()
    ) -> Tensor:  # fmt: skip
        x = self.embedded(tokens, text) if x is None else x
        first = None
        for i, layer in enumerate(self.layers):
            x, first = layer(x, text, first)
            x = x + added[i] if i < len(added) else x
        return x


class Rwkv7ForCausalLM(RecurrentLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        size, features = config.hidden_size, config.head_dim
        blocks: Iterable[Module] = (Block(config, layer) for layer in range(config.num_hidden_layers))
        super().__init__(config, Rwkv7Stack(config.vocab_size, size, blocks, LayerNorm(size, config.norm_eps)))
        self.state_shapes = [((1, size), (config.heads, features, features), (1, size))] * config.num_hidden_layers


_LAYER = "model.layers.{}"
_NAMES = {
    "model.embeddings": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    f"{_LAYER}.pre_norm": "token_embd_norm", f"{_LAYER}.attn_norm": "blk.{}.attn_norm",
    f"{_LAYER}.ffn_norm": "blk.{}.attn_norm_2", f"{_LAYER}.attn.g_norm": "blk.{}.time_mix_ln",
    f"{_LAYER}.attn.r_proj": "blk.{}.time_mix_receptance", f"{_LAYER}.attn.k_proj": "blk.{}.time_mix_key",
    f"{_LAYER}.attn.v_proj": "blk.{}.time_mix_value", f"{_LAYER}.attn.o_proj": "blk.{}.time_mix_output",
    f"{_LAYER}.ffn.x_k": "blk.{}.channel_mix_lerp_k", f"{_LAYER}.ffn.key": "blk.{}.channel_mix_key",
    f"{_LAYER}.ffn.value": "blk.{}.channel_mix_value",
} | {f"{_LAYER}.attn.{name}": f"blk.{{}}.time_mix_{name}" for name in ("k_k", "k_a", "r_k")} | {
    f"{_LAYER}.attn.{name}": "blk.{}.time_mix_lerp_fused" for name in MIXES
}  # fmt: skip
# The tensors of each part of low rank: its bias has a name of its own.
_PLACES = {"lora.2.bias": "0", "lora.0.weight": "1", "lora.2.weight": "2"}


def _names(config: Config) -> dict[str, str]:
    """The names of the parts of low rank. Files have for the first layer's values, which readers ignore, its rates."""
    found = {}
    for part in RANKS:
        for own, number in _PLACES.items():
            found[f"{_LAYER}.attn.{part}_lora.{own}"] = f"blk.{{}}.time_mix_{part}{number}.weight"
    for own, number in _PLACES.items():
        both = " ".join(f"blk.0.time_mix_{part}{number}.weight" for part in "av")
        found[_LAYER.format(0) + f".attn.a_lora.{own}"] = both
    return found


def _first(config: Config, value: Tensor, *same: Tensor) -> Tensor:
    return value


_AS_IT_IS = GgufForm(read=_first)
GGUF = Gguf(
    "rwkv7", names=_NAMES, names_of=_names, joined=tuple(f"{_LAYER}.attn.{name}" for name in MIXES),
    keys={
        "hidden_size": "embedding_length", "num_hidden_layers": "block_count", "head_dim": "wkv.head_size",
        "intermediate_size": "feed_forward_length", "norm_eps": "attention.layer_norm_epsilon",
        "decay_low_rank_dim": "attention.decay_lora_rank", "a_low_rank_dim": "attention.iclr_lora_rank",
        "v_low_rank_dim": "attention.value_residual_mix_lora_rank", "gate_low_rank_dim": "attention.gate_lora_rank",
    },
    forms={
        **{f".attn.a_lora.{own}": _AS_IT_IS for own in _PLACES},
        **{f".attn.{name}": GgufForm(shape=lambda config, shape: (1, *shape)) for name in MIXES},
        ".attn.r_k": GgufForm(shape=lambda config, shape: (shape[0] * shape[1],)),
    },
    write=lambda config: {"context_length": LONGEST, "attention.head_count": 0},
)  # fmt: skip

TASKS = {"causal-lm": Rwkv7ForCausalLM}
