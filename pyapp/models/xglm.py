"""XGLM (Lin et al. 2021, arXiv 2112.10668): the decoder of BART's form with fixed positions, of thirty languages."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.sequence_to_sequence.bart_decoder import FIRST_ROW, BartLanguageModel

from .loading.config import DecoderConfig

MODEL_TYPES = ("xglm",)
FIELDS = {"d_model": "hidden_size", "num_layers": "num_hidden_layers", "attention_heads": "num_attention_heads"}
LONGEST_WAVE = 10000  # the longest wave of positions turns so much slower than the shortest


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by their usual names."""

    model_type = "xglm"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}

    ffn_dim: int
    activation_function: str = "gelu"
    scale_embedding: bool = True

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        return super().from_dict({FIELDS.get(name, name): value for name, value in values.items()})

    def saved(self) -> dict[str, Any]:
        """The object of a config.json that transformers reads too."""
        theirs = {name: other for other, name in FIELDS.items()}
        return {theirs.get(name, name): value for name, value in self.to_dict().items()}


class Waves(Module):
    """The table of positions (Vaswani et al. 2017, arXiv 1706.03762): sines, and then cosines. It is not in files."""

    def __init__(self, rows: int, size: int) -> None:
        super().__init__()
        half = size // 2
        steps = (ops.arange(half, dtype="float32") * -(log(LONGEST_WAVE) / max(half - 1, 1))).exp()
        angles = ops.arange(rows, dtype="float32").unsqueeze(1) * steps  # (rows, half)
        self.register_buffer("weights", ops.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """positions (...) integers → (..., size)."""
        found = ops.index_select(self.weights, 0, positions.reshape(-1))
        return found.reshape(*positions.shape, found.shape[-1])


class XGLMForCausalLM(BartLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        positions = Waves(config.max_position_embeddings + FIRST_ROW, config.hidden_size)
        super().__init__(
            config, positions, inner=config.ffn_dim, activation=config.activation_function,
            scaled=config.scale_embedding,
        )  # fmt: skip


TASKS = {"causal-lm": XGLMForCausalLM}
