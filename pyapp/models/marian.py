"""Marian (Junczys-Dowmunt et al. 2018, arXiv 1804.00344): the translators of OPUS-MT, with BART's layers and fixed
positions: sines, then cosines.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyapp.dataclass import dataclass
from pyapp.nn import Embedding, Module
from pyapp.nn.positions.sinusoids import paired_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import BartLanguageModel, Decoder, Encoder, FixedPositions

from .loading.config import check_padding
from .loading.sequence_config import SequenceToSequenceConfig

MODEL_TYPES = ("marian",)
BASE = "model"  # the name of encoder and decoder in files with a head
IGNORED = r"(model\.)?(encoder|decoder)\.embed_positions\.weight"  # tensors of files that are computed here


@dataclass(frozen=True, kw_only=True)
class Config(SequenceToSequenceConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "marian"

    share_encoder_decoder_embeddings: bool = True
    decoder_vocab_size: int | None = None
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.target_words)

    @property
    def target_words(self) -> int:
        """The words of the decoder."""
        own = None if self.share_encoder_decoder_embeddings else self.decoder_vocab_size
        return self.vocab_size if own is None else own


class MarianModel(Module):
    """Encoder and decoder over one table of words, or over one each."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        places = partial(paired_sinusoids, config.max_position_embeddings, config.d_model)
        table = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        if config.share_encoder_decoder_embeddings:
            self.shared = table
        self.encoder = Encoder(config, FixedPositions(places), table=table, norm_embedding=False)
        if not config.share_encoder_decoder_embeddings:
            table = Embedding(config.target_words, config.d_model, config.pad_token_id)
        self.decoder = Decoder(config, FixedPositions(places), table=table, norm_embedding=False)


class MarianMT(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = MarianModel(config)
        table = model.decoder.embed_tokens if config.tie_word_embeddings else None
        super().__init__(config, model, config.target_words, table)


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": MarianMT}
