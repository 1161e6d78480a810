"""CodeShell (Xie et al. 2024, arXiv 2403.15747): GPT-2's blocks with rotary positions and grouped heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, ResidualLinear
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, RotaryTable, SelfAttention, Text
from pyapp.nn.decoders.decoder_blocks import GPT2Block
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import check_divides, require
from .loading.gguf import Gguf
from .loading.gpt2_form import GGUF_KEYS, GGUF_NAMES, Gpt2Config

MODEL_TYPES = ("codeshell",)
IGNORED = r".*\.rotary_emb\.inv_freq"


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json."""

    model_type = "codeshell"

    n_positions: int = 8192
    activation_function: str = "gelu_pytorch_tanh"
    num_query_groups: int
    tie_word_embeddings: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        kind, scaling = values.get("position_embedding_type", "rope"), values.get("rope_scaling")
        require(kind == "rope" and scaling is None, f"positions of the kind {kind!r:.40}, or scaled, are not known")
        return super().from_dict({"num_query_groups": values.get("n_head"), **values})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides(self, "num_query_groups", "n_head")

    @property
    def num_key_value_heads(self) -> int:
        return self.num_query_groups


class Attention(SelfAttention):
    """Self-attention from one projection: all queries, all keys, all values."""

    tensor_parallel = {"c_attn": ("outputs", "queries", "keys", "keys"), "c_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads = Heads(config.n_head, config.num_query_groups, config.head_dim)
        super().__init__(layer, heads, rotary)
        self.c_attn = Linear(config.n_embd, heads.width)
        self.c_proj = ResidualLinear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        return self.c_proj(self.attend(self.c_attn(x), text), residual)


class CodeShellStack(DecoderStack):
    """The decoder."""

    tokens, blocks, last_norm = "wte", "h", "ln_f"


class CodeShellForCausalLM(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        parameters = {"rope_type": "default", "rope_theta": 10000.0}
        rotary = RotaryTable.of_heads(config.head_dim, config.n_positions, parameters)

        def block(layer: int) -> GPT2Block:
            inner = FeedForward(
                config.n_embd, config.inner_size, config.activation_function, names=("c_fc", "c_proj")
            )  # fmt: skip
            return GPT2Block(config, Attention(config, layer, rotary), inner)

        norm = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        blocks = (block(layer) for layer in range(config.n_layer))
        super().__init__(config, CodeShellStack(config.vocab_size, config.n_embd, blocks, norm))


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    inner, groups = values.get("feed_forward_length"), values.get("attention.head_count_kv", found.get("n_head"))
    return found | {"n_inner": inner, "num_query_groups": groups}


GGUF = Gguf(
    "codeshell", names=GGUF_NAMES, keys=GGUF_KEYS, read=_from_gguf, unsaid=("n_inner",),
    write=lambda config: {
        "feed_forward_length": config.inner_size, "attention.head_count_kv": config.num_query_groups,
        "rope.freq_base": 10000.0, "rope.scaling.type": "linear", "rope.scaling.factor": 1.0,
    },
)  # fmt: skip
TASKS = {"causal-lm": CodeShellForCausalLM}
