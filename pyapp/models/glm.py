"""GLM-4 and GLM-Edge (arXiv 2406.12793): rotary positions of half of each head, in neighbouring pairs. ChatGLM 2 and 3,
GLM-4-9b and CodeGeeX4 are the same network, whose files have other names and join the projections of attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import JoinedGatedFeedForward

from .loading.config import DecoderConfig, require
from .loading.gguf import NAMES, Gguf, biases
from .loading.stored import Stored, rows_of

MODEL_TYPES = ("glm", "chatglm")
IGNORED = r"transformer\.(rotary_pos_emb|vision)\..*"
# What GLM calls the fields and tensors of ChatGLM's files.
FIELDS = {
    "num_layers": "num_hidden_layers", "padded_vocab_size": "vocab_size", "kv_channels": "head_dim",
    "ffn_hidden_size": "intermediate_size", "layernorm_epsilon": "rms_norm_eps", "add_qkv_bias": "attention_bias",
    "seq_length": "max_position_embeddings", "multi_query_group_num": "num_key_value_heads",
}  # fmt: skip
NAMES_OF_CHATGLM = {
    "transformer.embedding.word_embeddings": "model.embed_tokens", "transformer.encoder.layers": "model.layers",
    "transformer.encoder.final_layernorm": "model.norm", "transformer.output_layer": "lm_head",
    ".self_attention.dense": ".self_attn.o_proj", ".mlp.dense_h_to_4h": ".mlp.gate_up_proj",
    ".mlp.dense_4h_to_h": ".mlp.down_proj",
}  # fmt: skip
# Settings of ChatGLM that all published models have.
USUAL = {
    "rmsnorm": True, "post_layer_norm": True, "add_bias_linear": False, "multi_query_attention": True,
    "apply_residual_connection_post_layernorm": False,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "glm"
    defaults = {"max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "num_key_value_heads": 2}

    intermediate_size: int
    rms_norm_eps: float = 1.5625e-7
    hidden_act: str = "silu"
    attention_bias: bool = True

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, of ChatGLM too."""
        if values.get("model_type") != "chatglm":
            return super().from_dict(values)
        for name, usual in USUAL.items():
            require(values.get(name, usual) == usual, f"{name} is {values.get(name)!r:.40}, expected {usual}")
        ratio = values.get("rope_ratio", 1)
        require(type(ratio) in (int, float) and 0 < ratio <= 1 << 24, f"rope_ratio is {ratio!r:.40}")
        own = {FIELDS.get(name, name): value for name, value in values.items()}
        return super().from_dict({**own, "rope_theta": 10000.0 * ratio, "tie_word_embeddings": False})


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it, and a residual around both."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(interleaved=True)
        attention = GroupedQueryAttention(
            layer, size, heads, rotary, bias=config.attention_bias, output_bias=False
        )  # fmt: skip
        feed_forward = JoinedGatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class GlmForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    for theirs, ours in NAMES_OF_CHATGLM.items() if ".query_key_value." not in name else ():
        name = name.replace(theirs, ours)
    return name


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How ChatGLM's files store the projections of attention: the rows of all three in one."""
    heads, found = config.heads(), {}
    counts = {"q_proj": heads.heads, "k_proj": heads.kv_heads, "v_proj": heads.kv_heads}
    for layer in range(config.num_hidden_layers):
        for last in ("weight", "bias"):
            name, first = f"transformer.encoder.layers.{layer}.self_attention.query_key_value.{last}", 0
            for part, count in counts.items():
                if name in tensors:
                    rows = partial(rows_of, first=first, count=count * heads.head_dim)
                    found[f"model.layers.{layer}.self_attn.{part}.{last}"] = Stored((name,), values=rows)
                first += count * heads.head_dim
    return found


GGUF = Gguf(
    "chatglm", names=NAMES | {"model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up"}, read=biases,
)  # fmt: skip
TASKS = {"causal-lm": GlmForCausalLM}
