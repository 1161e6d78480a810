"""Zamba 2 (Glorioso et al. 2024, arXiv 2411.15242): layers of Mamba 2. Before some of them come blocks of attention and
feed-forward, of which there are a few in turn; they read the words beside the present state, and each of their uses has
small matrices of its own (adapters).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat
from pyapp.nn import Identity, Linear, Module, ModuleList, RMSNorm, Sequential
from pyapp.nn.decoders.decoder import RotaryTable, SelfAttention
from pyapp.nn.layers.gated import activation_named, gated
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.recurrent.mamba2 import Mamba2Mixer, Mamba2Settings
from pyapp.nn.recurrent.shared_blocks import MixerLayer, SharedBlocksLanguageModel, SharedLayer

from .loading.config import DecoderConfig, require
from .loading.mamba_layers import MambaFields, mamba_fields

MODEL_TYPES = ("zamba2",)
LINEAR, HYBRID = "linear_attention", "hybrid"
MIXER_EPSILON = 1e-5
# The fields of the mixers, by the names that other architectures have for them.
FIELDS = {"n_mamba_heads": "mamba_n_heads", "mamba_ngroups": "mamba_n_groups", "add_bias_linear": "mamba_proj_bias"}


@dataclass(frozen=True, kw_only=True)
class Config(MambaFields, DecoderConfig):
    """The fields of config.json. num_mem_blocks: the blocks that take turns; adapter_rank: of the small matrices."""

    model_type = "zamba2"
    defaults = {
        "max_position_embeddings": 4096, "tie_word_embeddings": True, "n_mamba_heads": 8, "mamba_d_state": 64,
        "time_step_min": 0.001,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "gelu"
    layers_block_type: list[str]
    num_mem_blocks: int = 1
    use_shared_attention_adapter: bool = False
    adapter_rank: int = 128
    use_mem_rope: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the sizes of the mixers and of the heads, which read the words, too."""
        kinds: Any = values.get("layers_block_type")
        hidden, heads = values.get("hidden_size"), values.get("num_attention_heads")
        if type(hidden) is not int or type(heads) is not int:
            return values  # what is missing is told when the fields are read
        known = isinstance(kinds, list) and all(kind in ("mamba", LINEAR, HYBRID) for kind in kinds)
        require(known, f"layers_block_type is {kinds!r:.60}, expected a list of {LINEAR!r} and {HYBRID!r}")
        values = values | {own: values[name] for name, own in FIELDS.items() if name in values}
        values = {"intermediate_size": 4 * hidden} | values | mamba_fields(values)
        return values | {
            "layers_block_type": [HYBRID if kind == HYBRID else LINEAR for kind in kinds],
            "head_dim": 2 * hidden // heads, "shortest_step": values["time_step_min"],
            "longest_step": None,
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_mamba()
        kinds, layers, adapted = self.layers_block_type, self.num_hidden_layers, self.use_shared_attention_adapter
        require(len(kinds) == layers, f"layers_block_type has {len(kinds)} kinds of layers, of {layers}")
        require(self.num_mem_blocks <= 1 << 8, f"num_mem_blocks is {self.num_mem_blocks:,}, expected 256 or fewer")
        require(self.adapter_rank <= 1 << 14, f"adapter_rank is {self.adapter_rank:,}, expected 16,384 or less")
        groups = not adapted or self.num_key_value_heads == self.num_attention_heads
        require(groups, f"num_key_value_heads is {self.num_key_value_heads}: adapters need a key for each query")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, by the names of config.json."""
        values = super().to_dict()
        return values | {name: values[own] for name, own in FIELDS.items()} | {"time_step_min": self.shortest_step}

    @property
    def uses(self) -> int:
        """How often blocks are used."""
        return self.layers_block_type.count(HYBRID)

    @property
    def mixer(self) -> Mamba2Settings:
        """The sizes of a layer's mixer."""
        return self.mamba_settings(MIXER_EPSILON, "silu", output_bias=self.mamba_proj_bias)


def adapters(config: Config, block: int, size: int, width: int) -> ModuleList:
    """The small matrices (..., size) → (..., width) of each use; nothing where the use is another block's."""
    rank = config.adapter_rank
    return ModuleList(
        Sequential(Linear(size, rank, bias=False), Linear(rank, width, bias=False))
        if use % config.num_mem_blocks == block
        else Identity()
        for use in range(config.uses)
    )


class Attention(SelfAttention):
    """Self-attention of the present states and the words, side by side."""

    def __init__(self, config: Config, block: int, rotary: RotaryTable) -> None:
        heads = config.heads(scale=(config.head_dim / 2) ** -0.5)
        super().__init__(0, heads, rotary if config.use_mem_rope else None)
        size, inner, kv = 2 * config.hidden_size, heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
        self.q_proj = Linear(size, inner, bias=False)
        self.k_proj = Linear(size, kv, bias=False)
        self.v_proj = Linear(size, kv, bias=False)
        self.o_proj = Linear(inner, config.hidden_size, bias=False)
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")
        self.adapters: Sequence[str] = ()
        if config.use_shared_attention_adapter:
            self.adapters = [f"linear_{part}_adapter_list" for part in "qkv"]
            for name in self.adapters:
                self.add_module(name, adapters(config, block, size, inner))

    def forward(self, x: Tensor, text: Any, layer: int, use: int) -> Tensor:
        """x (..., T, 2 hidden_size) → (..., T, hidden_size). layer: of the cache."""
        qkv = self.qkv(self, x)
        if self.adapters:
            qkv = qkv + cat([self.get_submodule(f"{name}.{use}")(x) for name in self.adapters], -1)
        return self.o_proj(text.attention(layer, qkv, self.heads, self.rotary))


class FeedForward(Module):
    """down_proj(activation(gate) * up), with [gate, up] from one projection and the adapter of the use."""

    def __init__(self, config: Config, block: int) -> None:
        super().__init__()
        size, inner, bias = config.hidden_size, config.intermediate_size, config.mamba_proj_bias
        activation_named(config.hidden_act)  # an unknown one is refused here
        self.activation = config.hidden_act
        self.gate_up_proj = Linear(size, 2 * inner, bias=bias)
        self.down_proj = Linear(inner, size, bias=bias)
        self.gate_up_proj_adapter_list = adapters(config, block, size, 2 * inner)

    def forward(self, x: Tensor, use: int) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size)."""
        return self.down_proj(gated(self.gate_up_proj(x) + self.gate_up_proj_adapter_list[use](x), self.activation))


class SharedBlock(Module):
    """Attention and feed-forward, each with a norm before it, without residuals."""

    def __init__(self, config: Config, block: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, block, rotary)
        self.feed_forward = FeedForward(config, block)
        self.input_layernorm = RMSNorm(2 * size, epsilon)
        self.pre_ff_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, words: Tensor, text: Any, layer: int, use: int) -> Tensor:
        """x and words (..., T, hidden_size) → (..., T, hidden_size)."""
        y = self.self_attn(self.input_layernorm(cat([x, words], -1)), text, layer, use)
        found: Tensor = self.feed_forward(self.pre_ff_layernorm(y), use)
        return found


class Zamba2ForCausalLM(SharedBlocksLanguageModel):
    """The language model. Without tied embeddings the uses of a block are not tied either, as in transformers."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()), config.hidden_size
        count = min(config.num_mem_blocks, config.uses) if config.tie_word_embeddings else 0
        shared = [SharedBlock(config, block, rotary) for block in range(count)]
        layers: list[Module] = []
        shapes: list[Any] = []
        uses = 0
        for kind in config.layers_block_type:
            place = len(shapes)
            shapes += [None, config.mixer.states] if kind == HYBRID else [config.mixer.states]
            mixer = Mamba2Mixer(size, config.mixer, len(shapes) - 1)
            layer: Any = MixerLayer(mixer, RMSNorm(size, config.rms_norm_eps))
            if kind == HYBRID:
                turn, tied = uses % config.num_mem_blocks, config.tie_word_embeddings
                block = shared[turn] if tied else SharedBlock(config, turn, rotary)
                layer = SharedLayer("shared_transformer", block, size, layer, place, uses)
                uses += 1
            layers.append(layer)
        super().__init__(config, layers, RMSNorm(size, config.rms_norm_eps), shapes)


TASKS = {"causal-lm": Zamba2ForCausalLM}
