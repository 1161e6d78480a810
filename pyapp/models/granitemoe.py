"""Granite 3 with experts (Granite Team 2024): Granite's blocks with a mixture of experts for each feed-forward layer,
and, in some, an expert that every token has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.decoders.scaled_decoder import ScaledLanguageModel, ScaledSparseBlock

from .loading.config import check_choice
from .loading.gguf import NAMES, TENSOR_SCALINGS, Gguf, biases, pairs_of_llama
from .loading.multipliers import EXPERT_KEYS, EXPERT_NAMES, MULTIPLIER_KEYS, MultiplierConfig, older_experts

MODEL_TYPES = ("granitemoe", "granitemoeshared")


@dataclass(frozen=True, kw_only=True)
class Config(MultiplierConfig):
    """The fields of config.json. shared_intermediate_size: of the expert that every token has; 0: there is none."""

    model_type = "granitemoe"

    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    shared_intermediate_size: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields without a shared expert in the architecture that has none; where it has one, of the usual size."""
        shared = values.get("shared_intermediate_size")
        if values.get("model_type") == "granitemoeshared" and shared is None:
            shared = 1024
        return values | {"shared_intermediate_size": shared or 0}

    def saved(self) -> dict[str, Any]:
        """The fields with the name of the architecture that has a shared expert."""
        return super().saved() | ({"model_type": "granitemoeshared"} if self.shared_intermediate_size else {})


class GraniteMoeForCausalLM(ScaledLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, ScaledSparseBlock)


renamed = older_experts  # of published files


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The size of the shared expert, if there is one."""
    shared = values.get("expert_shared_feed_forward_length")
    kind = "granitemoeshared" if shared else "granitemoe"
    return biases(found, values) | {"model_type": kind, "shared_intermediate_size": shared or 0}


def _to_gguf(config: Config) -> dict[str, Any]:
    return {"expert_shared_feed_forward_length": config.shared_intermediate_size or None}


GGUF = Gguf(
    "granitemoe", order=pairs_of_llama, scalings=TENSOR_SCALINGS, read=_from_gguf, write=_to_gguf,
    keys=MULTIPLIER_KEYS | EXPERT_KEYS, names=NAMES | EXPERT_NAMES,
)  # fmt: skip
TASKS = {"causal-lm": GraniteMoeForCausalLM}
