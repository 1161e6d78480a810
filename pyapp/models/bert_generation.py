"""BERT as the parts of a model that writes (Rothe et al. 2019, arXiv 1907.12461): an encoder without types of tokens,
and a decoder that reads an encoder's hidden states (`google/bert2bert_L-24_wmt_de_en`).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.encoders.bert_decoder import PlacedEmbeddings, TextDecoder
from pyapp.nn.encoders.encoders import BertEncoder, Words
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory

from .loading.config import require
from .loading.encoder_config import BertConfig, DecoderPart

MODEL_TYPES = ("bert-generation",)
BASE = "bert"  # the layers' name in files with scores of words


@dataclass(frozen=True, kw_only=True)
class Config(DecoderPart, BertConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "bert-generation"
    decodes = True

    type_vocab_size: int = 0


class BertGenerationEncoder(BertEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        require(not config.is_decoder, "BERT as a decoder is read as a part of another model alone")
        super().__init__(config, pooler=False)


class WordScores(Module):
    """Scores of all words."""

    def __init__(self, decoder: Words, words: int) -> None:
        super().__init__()
        self.bias = new_parameter(ops.zeros, words)
        self.decoder = decoder
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., V)."""
        y: Tensor = self.decoder(x)
        return y


class BertGenerationDecoder(TextDecoder):
    """The decoder, with its scores of words."""

    def __init__(self, config: Config) -> None:
        embeddings = PlacedEmbeddings(config)
        super().__init__(BASE, config, embeddings)
        table = embeddings.word_embeddings if config.tie_word_embeddings else None
        self.lm_head = WordScores(Words(config.hidden_size, config.vocab_size, table), config.vocab_size)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        return self.lm_head(self.hidden(tokens, memory))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": BertGenerationEncoder, "text-decoder": BertGenerationDecoder,
}  # fmt: skip
