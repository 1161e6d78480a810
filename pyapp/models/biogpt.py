"""BioGPT (Luo et al. 2022, arXiv 2210.10341): the decoder of BART's form, of texts of medicine and biology."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import Embedding
from pyapp.nn.sequence_to_sequence.bart_decoder import FIRST_ROW, BartLanguageModel

from .loading.config import UNGROUPED, DecoderConfig

MODEL_TYPES = ("biogpt",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "biogpt"
    defaults = {"max_position_embeddings": 1024, "tie_word_embeddings": True}
    ignored = UNGROUPED

    intermediate_size: int
    hidden_act: str = "gelu"
    scale_embedding: bool = True


class BioGptForCausalLM(BartLanguageModel):
    """The language model."""

    base_model_prefix = "biogpt"
    head_name = "output_projection"
    tensor_parallel = {head_name: ("vocabulary",)}

    def __init__(self, config: Config) -> None:
        positions = Embedding(config.max_position_embeddings + FIRST_ROW, config.hidden_size)
        super().__init__(
            config, positions, inner=config.intermediate_size, activation=config.hidden_act,
            scaled=config.scale_embedding,
        )  # fmt: skip


TASKS = {"causal-lm": BioGptForCausalLM}
