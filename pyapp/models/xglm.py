"""XGLM (Lin et al. 2021, arXiv 2112.10668): the decoder of BART's form with fixed positions, of thirty languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.sequence_to_sequence.bart_decoder import FIRST_ROW, BartLanguageModel, Waves

from .loading.config import UNGROUPED, DecoderConfig

MODEL_TYPES = ("xglm",)
FIELDS = {"d_model": "hidden_size", "num_layers": "num_hidden_layers", "attention_heads": "num_attention_heads"}


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by their usual names."""

    model_type = "xglm"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}
    ignored = UNGROUPED

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


class XGLMForCausalLM(BartLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        positions = Waves(config.max_position_embeddings + FIRST_ROW, config.hidden_size)
        super().__init__(
            config, positions, inner=config.ffn_dim, activation=config.activation_function,
            scaled=config.scale_embedding,
        )  # fmt: skip


TASKS = {"causal-lm": XGLMForCausalLM}
