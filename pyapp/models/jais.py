"""Jais (Sengupta et al. 2023, arXiv 2308.16149) and the Jais family (2024): GPT-2's blocks with linear biases of the
attention instead of positions, gated feed-forward layers, and factors for embeddings, scores and logits (Yang et al.
2022, arXiv 2203.03466).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.decoders.scaled_decoder import ScaledStack
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.positions.linear_biases import slopes

from .loading.config import DecoderConfig, check_form, require
from .loading.gguf import KEYS, NAMES, Gguf
from .loading.stored import Stored

MODEL_TYPES = ("jais",)
IGNORED = r"(transformer\.)?relative_pe\.slopes"  # which follow from the number of heads
MOST_BIAS = 8.0
LARGEST = 1e9  # of the factors of logits
FIELDS = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings", "n_inner": "intermediate_size",
}  # fmt: skip
NAMES_OF_FILES = {
    "transformer.wte.": "model.embed_tokens.", "transformer.h.": "model.layers.", "transformer.ln_f.": "model.norm.",
    ".ln_1.": ".input_layernorm.", ".ln_2.": ".post_attention_layernorm.",
}  # fmt: skip
# The layers of a block, by their names in files, and the parts of ours that they join.
LAYERS = {
    "attn.c_attn": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "attn.c_proj": ("self_attn.o_proj",),
    "mlp.c_fc": ("mlp.up_proj",), "mlp.c_fc2": ("mlp.gate_proj",), "mlp.c_proj": ("mlp.down_proj",),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by Llama's names. `embeddings_scale` multiplies embeddings, `width_scale` logits;
    scale_qk_dot_by_d: scores are divided by the size of a head, not by its root.
    """

    model_type = "jais"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    layer_norm_epsilon: float = 1e-5
    embeddings_scale: float = 1.0
    width_scale: float = 1.0
    scale_qk_dot_by_d: bool = True

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        check_form({name: value for name, value in values.items() if value is not None}, {
            "position_embedding_type": "alibi", "activation_function": "swiglu", "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
        })  # fmt: skip
        own = {new: values[old] for old, new in FIELDS.items() if values.get(old) is not None}
        alpha, width = values.get("mup_output_alpha"), values.get("mup_width_scale")
        if alpha is not None:
            factors: list[Any] = [alpha, width]
            plausible = all(type(factor) in (int, float) and abs(factor) <= LARGEST for factor in factors)
            require(plausible, f"mup_output_alpha is {alpha!r:.40} and mup_width_scale {width!r:.40}, expected numbers")
            own["width_scale"] = factors[0] * factors[1]
        for old, new in (("mup_embeddings_scale", "embeddings_scale"), ("mup_scale_qk_dot_by_d", "scale_qk_dot_by_d")):
            if values.get(old) is not None:
                own[new] = values[old]
        return super().from_dict({**values, **own, "tie_word_embeddings": False})


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, count = config.hidden_size, config.layer_norm_epsilon, config.num_attention_heads
        scale = 1 / config.head_dim if config.scale_qk_dot_by_d else None
        heads = config.heads(slopes=ops.tensor(slopes(count, MOST_BIAS)), scale=scale)
        attention = GroupedQueryAttention(layer, size, heads, None, bias=True)
        feed_forward = GatedFeedForward(size, config.intermediate_size, bias=True)
        super().__init__(attention, feed_forward, LayerNorm(size, epsilon), LayerNorm(size, epsilon))


class JaisForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_epsilon), stack=ScaledStack)
        self.stack.scale = config.embeddings_scale

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x) * self.config.width_scale


def renamed(name: str) -> str:
    """The parameter of a file's tensor that `stored` does not name."""
    if ".attn." in name or ".mlp." in name:
        return name
    for theirs, ours in NAMES_OF_FILES.items():
        name = name.replace(theirs, ours, 1)
    return name


def _rows(value: Tensor, first: int, count: int) -> Tensor:
    """Rows of a matrix that files have by columns, or of a vector."""
    value = value.T if value.ndim == 2 else value
    return value.narrow(0, first, count).contiguous()


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How its files store the layers of a block, matrices by columns; and the head, if that is the table of words."""
    size, inner = config.hidden_size, config.intermediate_size
    found = {}
    for layer in range(config.num_hidden_layers):
        for source, parts in LAYERS.items():
            rows = inner if parts[0] in ("mlp.up_proj", "mlp.gate_proj") else size
            for place, part in enumerate(parts):
                values: Callable[[Tensor], Tensor] = partial(_rows, first=place * rows, count=rows)
                for kind in ("weight", "bias"):
                    names = (f"transformer.h.{layer}.{source}.{kind}",)
                    if names[0] in tensors:
                        found[f"model.layers.{layer}.{part}.{kind}"] = Stored(names, values=values)
    if "lm_head.weight" not in tensors and "transformer.wte.weight" in tensors:
        found["lm_head.weight"] = Stored(("transformer.wte.weight",))
    return found


def _scale(name: str, config: Config) -> float | None:
    """What files multiply words by."""
    return {"model.embed_tokens.weight": config.embeddings_scale, "lm_head.weight": config.width_scale}.get(name)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    most = values.get("attention.max_alibi_bias", MOST_BIAS)
    require(most == MOST_BIAS, f"attention.max_alibi_bias is {most!r:.40}, and only {MOST_BIAS} is known")
    return found | {"scale_qk_dot_by_d": True}


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.scale_qk_dot_by_d, "llama.cpp divides the scores of this one by the size of a head")
    return {"attention.max_alibi_bias": MOST_BIAS}


_JOINED = tuple(f"model.layers.{{}}.{part}" for part in LAYERS["attn.c_attn"])
GGUF = Gguf(
    "jais", names=NAMES | dict.fromkeys(_JOINED, "blk.{}.attn_qkv"), joined=_JOINED, scale=_scale, read=_from_gguf,
    write=_to_gguf, unsaid=("embeddings_scale", "width_scale", "rope_parameters"),
    keys={name: key for name, key in KEYS.items() if name != "rms_norm_eps"} | {
        "layer_norm_epsilon": "attention.layer_norm_epsilon",
    },
)  # fmt: skip
TASKS = {"causal-lm": JaisForCausalLM}
