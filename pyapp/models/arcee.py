"""AFM (Arcee AI 2025): Llama's blocks with squared ReLU and no gates. Jais 2 (MBZUAI and others 2025) has layer norms
and biases.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import LayerNorm, RMSNorm
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.decoders.ungated_decoder import UngatedBlock

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf, biases, pairs_of_llama

MODEL_TYPES = ("arcee", "jais2")
JAIS = {"max_position_embeddings": 8192, "attention_bias": True, "mlp_bias": True}  # what its config.json leaves out


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "arcee"
    defaults = {"max_position_embeddings": 4096}

    kind: str = "arcee"  # the model_type
    intermediate_size: int
    rms_norm_eps: float = 1e-5
    layer_norm_eps: float = 1e-5  # of Jais 2
    hidden_act: str = "relu2"
    attention_bias: bool = False
    mlp_bias: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, with what its kind takes for granted."""
        kind = values.get("kind", values.get("model_type", cls.model_type))
        found: Config = super().from_dict({**(JAIS if kind == "jais2" else {}), **values, "kind": kind})
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    @property
    def norm(self) -> partial[LayerNorm] | partial[RMSNorm]:
        """Makes a norm."""
        if self.kind == "jais2":
            return partial(LayerNorm, self.hidden_size, self.layer_norm_eps)
        return partial(RMSNorm, self.hidden_size, self.rms_norm_eps)


class ArceeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, partial(UngatedBlock, norm=config.norm), config.norm())


def _as_jais(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return biases(found, values) | {"model_type": "jais2"}


GGUF = Gguf(
    "arcee", order=pairs_of_llama, read=biases,
    others=(
        Gguf(
            "jais2", read=_as_jais, suits=lambda config: config.kind == "jais2",
            keys={name: key for name, key in KEYS.items() if name != "rms_norm_eps"}
            | {"layer_norm_eps": "attention.layer_norm_epsilon"},
        ),
    ),
)  # fmt: skip
TASKS = {"causal-lm": ArceeForCausalLM}
