"""FNet (Lee-Thorp et al. 2021, arXiv 2105.03824): BERT with Fourier transforms over tokens and features in place of
attention. Padding is not hidden from the other tokens.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    Encoder,
    Intermediate,
    NormedResidual,
    PooledClassifierHead,
    Pooler,
    PredictionsHead,
    TokenLabelsHead,
    choosing,
    headed,
)  # fmt: skip

from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("fnet",)
BASE = "fnet"  # the encoder's name in files with a head
Tables = tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "fnet"

    num_attention_heads: int = 1  # there is no attention
    hidden_act: str = "gelu_new"
    type_vocab_size: int = 4
    pad_token_id: int | None = 3


class Embeddings(BertEmbeddings):
    """BERT's embeddings and a linear layer."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.projection = Linear(config.hidden_size, config.hidden_size)

    def forward(self, ids: Tensor, type_ids: Tensor | None, positions: Tensor | None = None) -> Tensor:
        """ids, type_ids and positions (B, T) → (B, T, D)."""
        return self.projection(super().forward(ids, type_ids, positions))


class Fourier(Module):
    """The real part of the transform over tokens and features, with the residual, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.output = Module()
        self.output.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, tables: Tables) -> Tensor:
        """x (B, T, D), tables of T and of D → (B, T, D)."""
        (cosines, sines), (inner_cosines, inner_sines) = ((table.to(x.dtype) for table in pair) for pair in tables)
        return self.output.LayerNorm(x + cosines @ (x @ inner_cosines) - sines @ (x @ inner_sines))


def waves(count: int, device: Device) -> tuple[Tensor, Tensor]:
    """The cosines and sines (N, N) of a discrete Fourier transform, for which devices have no kernel."""
    places = ops.arange(count, dtype="int64")
    turns: Tensor = ops.remainder(places.unsqueeze(0) * places.unsqueeze(1), count)  # (N, N)
    angles = turns.to("float64") * (2 * pi / count)
    return angles.cos().to("float32").to(device), angles.sin().to("float32").to(device)


class Layer(Module):
    """A Fourier transform and a feed-forward part, each with a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.fourier = Fourier(config)
        self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.output = NormedResidual(config.intermediate_size, config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, tables: Tables) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.fourier(x, tables)
        return self.output(self.intermediate(x), x)


class FNet(Encoder):
    """The encoder, and a layer over the first token, which files of every head have."""

    hides_padding = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.pooler: Pooler | None = Pooler(config.hidden_size)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x = self.embeddings(ids, type_ids)
        tables = waves(x.shape[1], x.device), waves(x.shape[2], x.device)
        for layer in self.encoder.layer:
            x = layer(x, tables)
        return x


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": FNet,
    "masked-lm": headed(PredictionsHead, BASE, FNet),
    "sequence-classification": headed(PooledClassifierHead, BASE, FNet),
    "token-classification": headed(TokenLabelsHead, BASE, FNet),
    "question-answering": headed(AnswersHead, BASE, FNet),
    "multiple-choice": choosing(BASE, FNet),
}
