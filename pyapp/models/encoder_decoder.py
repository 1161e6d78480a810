"""An encoder of texts and a decoder that reads its hidden states, both begun from trained encoders or language models
(Rothe et al. 2019, arXiv 1907.12461): BERT2BERT, RoBERTa2GPT-2 and their like, for summaries and translation.

The two parts are other architectures, which config.json names. Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module

from .loading import two_parts
from .loading.two_parts import PartsConfig, TwoParts

MODEL_TYPES = ("encoder-decoder",)
BASE = ""
IGNORED = two_parts.IGNORED


@dataclass(frozen=True)
class Config(PartsConfig):
    """The configurations of both parts."""

    model_type = MODEL_TYPES[0]
    parts = {"encoder": "features", "decoder": "text-decoder"}


class EncoderDecoder(TwoParts):
    """Both parts, and a projection between them if their widths differ."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.most = min(self.encoder.most, self.decoder.most)

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Texts (B, S) → hidden states (B, S, D)."""
        return self.projected(self.encoder(ids, attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": EncoderDecoder}
