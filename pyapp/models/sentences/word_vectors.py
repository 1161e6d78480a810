"""Encoders whose tokens have vectors of their own, whatever stands beside them, and the parts that
sentence-transformers puts after them: weights of words, convolutions, an LSTM.

StaticEmbedding reads model2vec's files too (Tulkens and van Dongen 2024, https://github.com/MinishLab/model2vec);
WordEmbeddings are GloVe's and word2vec's vectors (Pennington et al. 2014, Mikolov et al. 2013).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.nn import LSTM, Conv1d, Embedding, ModuleList
from pyapp.nn.encoders.encoders import Encoder
from pyapp.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .embedding import TokenPart, size_of

LONGEST = 1 << 20  # tokens of a text
KERNELS = 64  # convolutions of a part
WIDEST = 1024  # tokens of a convolution


@dataclass(frozen=True)
class Config:
    """The number of tokens, and of features of a vector."""

    vocab_size: int
    hidden_size: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


class WordVectors(Encoder):
    """A table of vectors. `table` is its name in files."""

    adds_special_tokens = False

    def __init__(self, table: str, rows: int, width: int, most: int = LONGEST) -> None:
        super().__init__()
        self.config = Config(rows, width)
        self.most = most
        self.table = table
        self.add_module(table, Embedding(rows, width))

    @property
    def word_embeddings(self) -> Embedding:
        found = self._modules[self.table]
        assert isinstance(found, Embedding)
        return found

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → the tokens' own vectors (B, T, D)."""
        self.check(ids, attention_mask)
        return self.word_embeddings(ids)


class WordWeights(TokenPart):
    """Vectors times a weight of their word (such as its inverse document frequency)."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        super().__init__()
        words = config.get("vocab")
        if not isinstance(words, list) or not words:
            raise ModelError("vocab is not a list of words", where=where)
        self.emb_layer = Embedding(len(words), 1)

    def tokens(self, x: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        weights = self.emb_layer(ids).squeeze(-1) * mask.to(x.dtype)  # (B, T)
        return x * weights.unsqueeze(-1), weights.sum(1)


class Convolutions(TokenPart):
    """Convolutions over the tokens, of several widths, one beside the other (CNN of sentence-transformers)."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        super().__init__()
        name = "in_embedding_dimension" if "in_embedding_dimension" in config else "in_word_embedding_dimension"
        inputs, outputs = size_of(config, name, where), size_of(config, "out_channels", where)
        widths = _numbers(config.get("kernel_sizes", [1, 3, 5]), "kernel_sizes", where)
        given = config.get("stride_sizes")
        steps = [1] * len(widths) if given is None else _numbers(given, "stride_sizes", where)
        if len(steps) != len(widths):
            raise ModelError("stride_sizes has not one number for each of kernel_sizes", where=where)
        self.convs = ModuleList(
            Conv1d(inputs, outputs, width, step, padding=(width - 1) // 2)
            for width, step in zip(widths, steps, strict=True)
        )

    def tokens(self, x: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        found = [conv(x.transpose(1, 2)) for conv in self.convs]  # (B, outputs, T) each
        return ops.cat(found, 1).transpose(1, 2), None


def _numbers(value: Any, name: str, where: str) -> list[int]:
    """The widths of convolutions. ModelError for anything else."""
    found = value if isinstance(value, list) else []
    if not 1 <= len(found) <= KERNELS or any(type(one) is not int or not 1 <= one <= WIDEST for one in found):
        raise ModelError(f"{name} is {value!r:.60}, expected a list of numbers from 1 to {WIDEST:,}", where=where)
    return found


class Recurrent(TokenPart):
    """An LSTM over the tokens."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        super().__init__()
        name = "embedding_dimension" if "embedding_dimension" in config else "word_embedding_dimension"
        layers = config.get("num_layers", 1)
        if type(layers) is not int or not 1 <= layers <= 64:
            raise ModelError(f"num_layers is {layers!r:.40}", where=where)
        self.encoder = LSTM(
            size_of(config, name, where), size_of(config, "hidden_dim", where), layers, batch_first=True,
            bidirectional=config.get("bidirectional", True) is True,
        )  # fmt: skip

    def tokens(self, x: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        lengths = [max(count, 1) for count in mask.sum(1).tolist()]
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=x.shape[1])
        return y, None
