"""GTE (Zhang et al. 2024, arXiv 2407.19669), Alibaba's "new" encoders such as gte-multilingual-base: BERT with rotary
positions and gated feed-forward parts.

Parameters have the names of Hugging Face's library. The files of Alibaba have others (`renamed`, `stored`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import Headed, PooledClassifierHead, TokenLabelsHead, Words, headed
from pyapp.nn.encoders.rotary_encoder import RotaryEncoder
from pyapp.nn.layers.gated import activation_named

from .loading.config import LARGEST, LIMITS, optional_object, read_config, require, rope_parameters
from .loading.encoder_config import RotaryEncoderConfig
from .loading.stored import Stored, cut_apart

MODEL_TYPES = ("gte", "new")
BASE = "gte"  # the encoder's name in files with a head
IGNORED = r"(new\.)?(pooler\.dense\.(weight|bias)|rotary_emb\..*)"
THETA = 160_000.0
# What Alibaba's files call the parts.
OLDER_NAMES = {
    "encoder.layer.": "layers.", "attention.o_proj.": "self_attn.o_proj.", "attn_ln.": "post_attention_layernorm.",
    "mlp_ln.": "post_mlp_layernorm.", "lm_head.norm.": "lm_head.layer_norm.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(RotaryEncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "gte"

    max_position_embeddings: int = 8192
    type_vocab_size: int = 0
    pad_token_id: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, of the library or of Alibaba's files; other keys are ignored."""
        usual: dict[str, Any] = {"type_vocab_size": 1, "pad_token_id": 1}
        if values.get("model_type") == "new":
            usual = {"type_vocab_size": 0, "pad_token_id": 0}
            plain = {
                "position_embedding_type": "rope", "layer_norm_type": "layer_norm", "logn_attention_scale": False,
                "pack_qkv": True,
            }  # fmt: skip
            wrong = [name for name, value in plain.items() if values.get(name, value) != value]
            require(not wrong, f"GTE with {', '.join(wrong)} of another kind is not supported")
        scaling = optional_object(values, "rope_scaling")
        given = {**usual, **values}
        if scaling.get("type", scaling.get("rope_type")) == "ntk":
            given = _stretched(given, scaling)
        return read_config(cls, given | {"rope_parameters": rope_parameters(given, THETA)})


def _stretched(values: dict[str, Any], scaling: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the angles of "ntk" in Alibaba's files: a base that is `factor` times as large, and all angles
    divided by factor^(2 / d), for heads of d features.
    """
    factor: Any = scaling.get("factor")
    theta: Any = values.get("rope_theta", THETA)
    width: Any = values.get("hidden_size")
    heads: Any = values.get("num_attention_heads")
    numbers = all(type(x) in (int, float) and 0 < x < LARGEST for x in (factor, theta))
    fits = numbers and all(type(x) is int and 0 < x <= LIMITS["hidden_size"] for x in (width, heads)) and width >= heads
    require(fits and scaling.get("mixed_b") is None, f"rope_scaling {dict(scaling)!r:.80} is not supported")
    size = width // heads
    factors = [factor ** (2 / size)] * (size // 2)
    positions = values.get("max_position_embeddings", 8192)
    angles = {
        "rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0,
        "factor": 1.0, "rope_theta": theta * factor, "original_max_position_embeddings": positions,
    }  # fmt: skip
    return {**values, "rope_scaling": None, "rope_parameters": angles}


def renamed(name: str) -> str:
    """The library's name of a tensor of Alibaba's files."""
    name = f"{BASE}.{name.removeprefix('new.')}" if name.startswith("new.") else name
    for old, new in OLDER_NAMES.items():
        at = name.find(old)
        if at == 0 or (at > 0 and name[at - 1] == "."):
            name = name[:at] + new + name[at + len(old) :]
    return name


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """The parts of Alibaba's files that have the queries, keys and values in one matrix, or both inputs of the gate."""
    if not any(name.endswith("attention.qkv_proj.weight") for name in names):
        return {}
    found: dict[str, Stored] = {}
    for prefix in ("", f"{BASE}."):
        for layer in range(config.num_hidden_layers):
            source = f"{prefix}layers.{layer}."
            for kind in ("weight", "bias"):
                parts = [f"{source}self_attn.{part}_proj.{kind}" for part in "qkv"]
                found |= cut_apart(f"{source}attention.qkv_proj.{kind}", parts, config.hidden_size)
            both = [f"{source}mlp.{part}_proj.weight" for part in ("up", "gate")]
            found |= cut_apart(f"{source}mlp.up_gate_proj.weight", both, config.intermediate_size)
    return found


class WordsHead(Module):
    """Scores of all words: those of layer_norm(gelu(dense(x)))."""

    def __init__(self, config: Config, encoder: RotaryEncoder) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        table = encoder.word_embeddings if config.tie_word_embeddings else None
        self.decoder = Words(config.hidden_size, config.vocab_size, table)
        self.activation = activation_named("gelu")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        return self.decoder(self.layer_norm(self.activation(self.dense(x))))


class GteForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        encoder = RotaryEncoder(config)
        super().__init__(BASE, encoder)
        self.lm_head = WordsHead(config, encoder)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.lm_head(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": RotaryEncoder,
    "masked-lm": GteForMaskedLM,
    "sequence-classification": headed(PooledClassifierHead, BASE, RotaryEncoder, pooler=True),
    "token-classification": headed(TokenLabelsHead, BASE, RotaryEncoder),
}
