"""mBART (Liu et al. 2020, arXiv 2001.08210): BART in many languages, with the norms before each part and after the last
layers. A language's token begins or ends a text. Also models of the same layers with fixed positions: M2M100 (Fan et
al. 2020, arXiv 2010.11125) and NLLB (2022, arXiv 2207.04672), and Pegasus for summaries (Zhang et al. 2019, arXiv
1912.08777); and Blenderbot (Roller et al. 2020, arXiv 2004.13637), which answers what is said to it.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Embedding, Module
from pyapp.nn.positions.sinusoids import padded_sinusoids, paired_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import (
    POSITION_OFFSET,
    BartLanguageModel,
    BartModel,
    BartTextDecoder,
    Decoder,
    FixedPositions,
    learned_positions,
)

from .loading.config import require
from .loading.sequence_config import FamilyConfig

MODEL_TYPES = ("mbart", "m2m_100", "pegasus", "blenderbot")
BASE = "model"  # the name of encoder and decoder in files with a head
IGNORED = r"(model\.)?(encoder|decoder)\.embed_positions\.weights?"  # of fixed positions, which are computed here
# What a config.json leaves out, by its model_type.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "m2m_100": {"activation_function": "relu", "scale_embedding": True},
    "pegasus": {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1},
    "blenderbot": {
        "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "decoder_start_token_id": 1,
        "forced_eos_token_id": 2,
    },
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(FamilyConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "mbart"
    usual = DEFAULTS

    bos_token_id: int = 0
    forced_eos_token_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        width = self.d_model
        require(width % 2 == 0 and width > 2, f"d_model is {width}, expected an even number from 4")

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.d_model

    @property
    def source_width(self) -> None:
        """The source's hidden states have the decoder's width."""


def _learned(config: Any) -> Module:
    """A table of positions whose first row counts."""
    return Embedding(config.max_position_embeddings, config.d_model)


def _fixed(make: Callable[..., Any], *sizes: int) -> Callable[[Any], Module]:
    return lambda config: FixedPositions(partial(make, *sizes))


class MBart(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        places, width, padding = config.max_position_embeddings, config.d_model, config.pad_token_id
        if config.kind == "mbart":
            model = BartModel(config, norm_first=True)
        elif config.kind == "blenderbot":
            model = BartModel(config, _learned, 0, norm_embedding=False, norm_first=True)
        else:
            fairseq = config.kind == "m2m_100"
            positions = (
                _fixed(padded_sinusoids, places, width, padding) if fairseq else _fixed(paired_sinusoids, places, width)
            )
            offset = padding + 1 if fairseq else 0
            model = BartModel(config, positions, offset, norm_embedding=False, norm_first=True)
        table = model.shared if config.tie_word_embeddings else None
        super().__init__(config, model, config.vocab_size, table, bias=config.kind != "m2m_100")


class MBartTextDecoder(BartTextDecoder):
    """The decoder alone, which writes the text of what another encoder has read."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            config, Decoder(config, learned_positions(config), POSITION_OFFSET, norm_first=True), "lm_head"
        )


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": MBart, "text-decoder": MBartTextDecoder}
