"""RWKV 5 "Eagle" and 6 "Finch" (Peng et al. 2024, arXiv 2404.05892): layers that mix each token with the one before it,
and a state for each head whose features decay by themselves; in version 6 each token says how much is mixed, and how
fast its features decay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.ops import arange, empty
from pyapp.nn import LayerNorm, Linear
from pyapp.nn.parameter import Initialization, new_parameter
from pyapp.nn.recurrent.recurrent import StateText, token_before
from pyapp.nn.recurrent.rwkv import Block, ChannelMixing, Mixing, RwkvLanguageModel, decayed_attention

from .loading.config import FileConfig, check_divides, read_config, require
from .loading.gguf import Gguf, GgufForm, Shape
from .loading.rwkv_files import renamed as renamed
from .loading.rwkv_files import sizes_of, version_of, with_sizes

MODEL_TYPES = ("rwkv6", "rwkv5")
LONGEST = 1 << 20  # tokens of a text, as llama.cpp says: states know no limit
HEAD_EPSILON = 1e-5  # of the norm of each head, times the square of what heads are divided by
# The inputs of version 5, and of version 6 in the order of the matrix that mixes them, with the first values of their
# shares (nn.recurrent.rwkv.Mixing).
SHARES = {
    "time_mix_key": (1.0, 0.0), "time_mix_value": (1.0, 0.3), "time_mix_receptance": (0.5, 0.0),
    "time_mix_gate": (0.5, 0.0),
}  # fmt: skip
SHARES_6 = {
    "time_maa_w": (1.0, 0.0), "time_maa_k": (1.0, 0.0), "time_maa_v": (1.0, 0.3), "time_maa_r": (0.5, 0.0),
    "time_maa_g": (0.5, 0.0), "time_maa_x": (1.0, 0.0),
}  # fmt: skip
FUSED = tuple(SHARES_6)[:-1]


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json. `halved_every`: after so many layers values are divided by two, because those of
    GGUF files have weights for that; 0: nowhere. (The field `rescale_every` of config.json says when float16 would be
    divided; values are float32 here.)
    """

    model_type: str = "rwkv6"  # type: ignore[misc]

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    attention_hidden_size: int
    intermediate_size: int
    head_size: int = 64
    head_size_divisor: int = 8
    time_mix_extra_dim: int = 32
    time_decay_extra_dim: int = 64
    layer_norm_epsilon: float = 1e-5
    halved_every: int = 0
    tie_word_embeddings: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        return read_config(cls, with_sizes(values, lambda hidden: int(hidden * 3.5) // 32 * 32))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides(self, "head_size", "attention_hidden_size")
        for name in ("time_mix_extra_dim", "time_decay_extra_dim"):
            require(getattr(self, name) <= 1 << 16, f"{name} is {getattr(self, name):,}, expected at most 65,536")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return LONGEST

    @property
    def heads(self) -> int:
        """The heads of a layer."""
        return self.attention_hidden_size // self.head_size


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with the sizes that only tensors say, and all sizes of a file of the author's."""
    own = version_of(tensors) in MODEL_TYPES
    path = "blocks.0.att." if own else "rwkv.blocks.0.attention."
    sizes = {
        "time_mix_extra_dim": (f"{path}time_maa_w1", 1), "time_decay_extra_dim": (f"{path}time_decay_w1", 1),
    }  # fmt: skip
    if own:
        sizes |= {
            "vocab_size": ("emb.weight", 0), "hidden_size": ("emb.weight", 1),
            "head_size": (f"{path}time_faaaa", 1), "attention_hidden_size": (f"{path}key.weight", 0),
            "intermediate_size": ("blocks.0.ffn.key.weight", 0),
        }  # fmt: skip
    found = sizes_of(tensors, sizes)
    if "time_mix_extra_dim" in found:  # a matrix for all inputs
        found["time_mix_extra_dim"] //= len(FUSED)
    return {**settings, **(found if own else {name: found[name] for name in sizes if name in found})}


class Eagle(Mixing):
    """The attention of version 5: states that decay always alike."""

    def __init__(
        self, config: Config, layer: int, shares: Mapping[str, tuple[float, float]] = SHARES, of_before: bool = False
    ) -> None:
        size, inner, layers = config.hidden_size, config.attention_hidden_size, config.num_hidden_layers
        super().__init__(size, layer, layers, shares, of_before)
        heads = config.heads, config.head_size
        self.epsilon = HEAD_EPSILON * config.head_size_divisor**2
        self.time_decay = new_parameter(empty, *((1, 1, inner) if of_before else heads))
        self.time_faaaa = new_parameter(empty, *heads)
        self.receptance = Linear(size, inner, bias=False)
        self.key = Linear(size, inner, bias=False)
        self.value = Linear(size, inner, bias=False)
        self.output = Linear(inner, size, bias=False)
        self.gate = Linear(size, inner, bias=False)
        self.ln_x = LayerNorm(inner, self.epsilon)  # the parameters of a norm of each head
        if Initialization.on:
            with no_grad():
                depth = layer / max(layers - 1, 1)
                channels = arange(inner, dtype="float32")
                rank = channels / max(inner - 1, 1)
                self.time_decay.copy_((rank ** (0.7 + 1.3 * depth) * 5 - 6).reshape(self.time_decay.shape))
                first = (1 - rank) * depth + ((channels + 1).remainder(3) - 1) * 0.1
                self.time_faaaa.copy_(first.reshape(heads))

    def inputs(self, x: Tensor, earlier: Tensor) -> tuple[Tensor, ...]:
        """The inputs (..., T, H) of keys, values, receptance and gate; the logarithms (..., T, inner) of decays."""
        k, v, r, g = self.mixed(x, earlier)
        decay = -self.time_decay.exp().reshape(-1)
        return k, v, r, g, decay.expand((*x.shape[:-1], decay.shape[0]))

    def forward(self, x: Tensor, text: StateText) -> Tensor:
        """x (..., T, H) → (..., T, H)."""
        x = text.masked(x)
        k, v, r, g, decay = self.inputs(x, text.carry(self.layer, 0, token_before, x))
        rule = partial(decayed_attention, first=self.time_faaaa)
        y = text.carry(self.layer, 1, rule, self.receptance(r), decay, self.key(k), self.value(v))
        heads = y.reshape(*y.shape[:-1], *self.time_faaaa.shape)  # (..., T, H, V)
        heads = ops.layer_norm(heads, (heads.shape[-1],), None, None, self.epsilon)
        y = heads.reshape(y.shape) * self.ln_x.weight + self.ln_x.bias
        return self.output(y * ops.silu(self.gate(g)))


class Finch(Eagle):
    """The attention of version 6: tokens say what is mixed, and the decay, by two matrices with few features between
    them.
    """

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config, layer, SHARES_6, of_before=True)
        size, rank = config.hidden_size, config.time_mix_extra_dim
        self.time_maa_w1 = new_parameter(empty, size, rank * len(FUSED))
        self.time_maa_w2 = new_parameter(empty, len(FUSED), rank, size)
        self.time_decay_w1 = new_parameter(empty, size, config.time_decay_extra_dim)
        self.time_decay_w2 = new_parameter(empty, config.time_decay_extra_dim, config.attention_hidden_size)
        if Initialization.on:
            with no_grad():
                for name in ("time_maa", "time_decay"):
                    getattr(self, f"{name}_w1").fill_(0.0)
                    getattr(self, f"{name}_w2").uniform_(-0.01, 0.01)

    def inputs(self, x: Tensor, earlier: Tensor) -> tuple[Tensor, ...]:
        change = earlier - x
        inner = (x + change * self.time_maa_x.reshape(-1)) @ self.time_maa_w1
        inner = ops.tanh(inner).reshape(*x.shape[:-1], len(FUSED), 1, -1)
        shares = (inner @ self.time_maa_w2).squeeze(-2)  # (..., T, 5, H)
        w, k, v, r, g = (
            x + change * (getattr(self, name).reshape(-1) + shares.select(-2, i)) for i, name in enumerate(FUSED)
        )
        decay = self.time_decay.reshape(-1) + ops.tanh(w @ self.time_decay_w1) @ self.time_decay_w2
        return k, v, r, g, -decay.exp()


class Rwkv6ForCausalLM(RwkvLanguageModel):
    """The language model, of version 5 or 6."""

    def __init__(self, config: Config) -> None:
        size, heads, features = config.hidden_size, config.heads, config.head_size
        every, newer = config.halved_every, config.model_type == "rwkv6"
        names = ("time_maa_k", "time_maa_r") if newer else ("time_mix_key", "time_mix_receptance")
        blocks = (
            Block(
                size, config.layer_norm_epsilon, (Finch if newer else Eagle)(config, layer),
                ChannelMixing(size, config.intermediate_size, layer, config.num_hidden_layers, names, newer),
                halved=bool(every) and (layer + 1) % every == 0,
            )
            for layer in range(config.num_hidden_layers)
        )  # fmt: skip
        super().__init__(config, blocks, ((1, size), (heads, features, features), (1, size)))


_ATTENTION, _FEED_FORWARD = "rwkv.blocks.{}.attention", "rwkv.blocks.{}.feed_forward"
_NAMES = {
    "rwkv.embeddings": "token_embd", "rwkv.ln_out": "output_norm", "head": "output",
    "rwkv.blocks.{}.pre_ln": "token_embd_norm", "rwkv.blocks.{}.ln1": "blk.{}.attn_norm",
    "rwkv.blocks.{}.ln2": "blk.{}.attn_norm_2", f"{_FEED_FORWARD}.time_maa_k": "blk.{}.channel_mix_lerp_k",
    f"{_FEED_FORWARD}.time_maa_r": "blk.{}.channel_mix_lerp_r", f"{_ATTENTION}.time_maa_x": "blk.{}.time_mix_lerp_x",
} | {f"{_FEED_FORWARD}.{name}": f"blk.{{}}.channel_mix_{name}" for name in ("key", "value", "receptance")} | {
    f"{_ATTENTION}.{ours}": f"blk.{{}}.time_mix_{theirs}" for ours, theirs in (
        *((name, name) for name in ("key", "value", "receptance", "gate", "output")), ("ln_x", "ln"),
        ("time_maa_w1", "w1"), ("time_maa_w2", "w2"), ("time_decay", "decay"), ("time_decay_w1", "decay_w1"),
        ("time_decay_w2", "decay_w2"), ("time_faaaa", "first"), *((name, "lerp_fused") for name in FUSED),
    )
}  # fmt: skip


def _turned(config: Config, shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


def _turn(config: Config, value: Tensor) -> Tensor:
    return value.transpose(-1, -2)


def _features(config: Config, shape: Shape) -> Shape:
    return shape[-1:]


_MATRIX = GgufForm(shape=_turned, write=_turn, read=_turn)
GGUF = Gguf(
    "rwkv6", names=_NAMES, joined=tuple(f"{_ATTENTION}.{name}" for name in FUSED),
    older={f"{_ATTENTION}.{name}": f"blk.{{}}.time_mix_lerp_{name[-1]}" for name in FUSED},
    keys={
        "hidden_size": "embedding_length", "num_hidden_layers": "block_count", "head_size": "wkv.head_size",
        "intermediate_size": "feed_forward_length", "layer_norm_epsilon": "attention.layer_norm_epsilon",
        "time_mix_extra_dim": "time_mix_extra_dim", "time_decay_extra_dim": "time_decay_extra_dim",
        "halved_every": "rescale_every_n_layers",
    },
    forms={
        **{f".{name}": _MATRIX for name in ("time_maa_w1", "time_maa_w2", "time_decay_w1", "time_decay_w2")},
        **{f".attention.{name}": GgufForm(shape=lambda config, shape: (1, *shape)) for name in FUSED},
        **{f".{name}": GgufForm(shape=_features) for name in (
            "time_decay", "attention.time_maa_x", "feed_forward.time_maa_k", "feed_forward.time_maa_r")},
    },
    write=lambda config: {"context_length": LONGEST, "attention.head_count": 0},
)  # fmt: skip

TASKS = {"causal-lm": Rwkv6ForCausalLM}
