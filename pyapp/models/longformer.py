"""Longformer (Beltagy et al. 2020, arXiv 2004.05150): RoBERTa whose tokens attend to a window around them. In tasks
over whole texts, some tokens attend to all others and all others to them, with projections of their own: the first
token of a text to be labelled, those of a question to be answered.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module, ModuleList
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    BertLayer,
    DenseClassifierHead,
    Encoder,
    NormedWordsHead,
    Pooler,
    TokenLabelsHead,
    choosing,
    headed,
    visible_keys,
)  # fmt: skip
from pyapp.nn.encoders.window_attention import WindowAttention

from .loading.config import check_windows, require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("longformer",)
BASE = "longformer"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json. attention_window: the tokens that a token sees in each layer,
    half of them before it and half after it; config.json may have one number for all layers.
    """

    model_type = "longformer"

    type_vocab_size: int = 2
    pad_token_id: int = 1
    sep_token_id: int = 2
    attention_window: list[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.pad_token_id < min(self.max_position_embeddings - 1, self.vocab_size),
            f"pad_token_id {self.pad_token_id} leaves no positions of {self.max_position_embeddings}, or no words",
        )
        check_windows(self.attention_window, self.num_hidden_layers)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        window, layers = values.get("attention_window", 512), values.get("num_hidden_layers")
        if type(window) is int and type(layers) is int and 0 < layers <= 1 << 10:
            window = [window] * layers
        return super().from_dict({**values, "attention_window": window})


class Longformer(Encoder):
    """The encoder; with `pooler`, also a layer over the first token, which no task here reads.

    `seeing`: which tokens see everything: None, "first", "question", those before the first separator, or "choice",
    those after the second, which follows the first.
    """

    def __init__(self, config: Config, pooler: bool = True, seeing: str | None = None) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings - config.pad_token_id - 1
        self.seeing = seeing
        self.embeddings = BertEmbeddings(config, skips_padding=True)
        self.encoder = Module()
        self.encoder.layer = ModuleList(
            BertLayer(config, WindowAttention(config.hidden_size, config.num_attention_heads, window))
            for window in config.attention_window
        )
        self.pooler: Pooler | None = Pooler(config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        seeing = None
        if self.seeing is not None:
            places = ops.arange(ids.shape[1], dtype="int32", device=ids.device)  # (T,)
            ends = (ids == self.config.sep_token_id).to("int32").argmax(1).unsqueeze(1)  # (B, 1)
            if self.seeing == "choice":
                seen = places > ends + 1
                seeing = (seen if attention_mask is None else seen & (attention_mask != 0)).to("int32")  # (B, T)
            else:
                ends = ends.clamp(1) if self.seeing == "question" else ends * 0 + 1
                seeing = (places < ends).to("int32")  # (B, T)
        x, mask = self.embeddings(ids, type_ids), visible_keys(attention_mask)
        for layer in self.encoder.layer:
            x = layer(x, mask, seeing)
        return x


def choice_encoder(config: Config) -> Longformer:
    """The encoder of texts of which one is right."""
    return Longformer(config, seeing="choice")


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Longformer,
    "masked-lm": headed(NormedWordsHead, BASE, Longformer, pooler=False),
    "sequence-classification": headed(DenseClassifierHead, BASE, Longformer, ops.tanh, pooler=False, seeing="first"),
    "token-classification": headed(TokenLabelsHead, BASE, Longformer, pooler=False),
    "question-answering": headed(AnswersHead, BASE, Longformer, pooler=False, seeing="question"),
    "multiple-choice": choosing(BASE, choice_encoder),
}
