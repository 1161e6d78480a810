"""Encoders of texts with their tokenizers, as networks that draw read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.buffers import int32_tensor
from pyapp.nn import Linear, Module
from pyapp.nn.t5 import T5Encoder
from pyapp.nn.towers import TextTower, at_ends
from pyapp.text.tokenizer import Tokenizer

from ..loading.towers_config import ClipTextConfig


class TextEncoder(Module):
    """CLIP's transformer of texts; with `projected`, its vectors of texts have a projection of so many numbers."""

    def __init__(self, config: ClipTextConfig, projected: int | None) -> None:
        super().__init__()
        self.config = config
        self.text_model = TextTower(config, causal=True)
        self.text_projection = None if projected is None else Linear(config.hidden_size, projected, bias=False)

    @property
    def pooled_width(self) -> int:
        """The numbers of a text's vector."""
        return self.config.hidden_size if self.text_projection is None else self.text_projection.out_features

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """ids (N, T) → the hidden states (N, T, D) before the last layer, those after it, and the vectors (N, P)."""
        before, after = self.text_model.states(ids)
        pooled = at_ends(after, ids, self.config.eos_token_id)  # (N, D)
        return before, after, pooled if self.text_projection is None else self.text_projection(pooled)


@dataclass(frozen=True)
class Reader:
    """An encoder of texts with its tokenizer."""

    tokenizer: Tokenizer
    encoder: TextEncoder | T5Encoder

    @property
    def width(self) -> int:
        """The numbers of a token."""
        config: Any = self.encoder.config
        found: int = config.d_model if isinstance(self.encoder, T5Encoder) else config.hidden_size
        return found

    def ids(self, prompts: Sequence[str], length: int) -> Tensor:
        """int32 (N, length): the tokens of prompts, cut and padded to this length."""
        found = self.tokenizer.encode_batch(list(prompts), truncation=True, max_length=length, parse_special=True)
        fill, config = self.tokenizer.pad_id, self.encoder.config  # type: Any, Any
        if fill is None:
            fill = config.pad_token_id if isinstance(self.encoder, T5Encoder) else config.eos_token_id
        rows = [[*encoding.ids, *[fill] * (length - len(encoding.ids))] for encoding in found]
        device = next(iter(self.encoder.parameters())).device
        return int32_tensor([i for row in rows for i in row], device).reshape(len(rows), length)

    def clip(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """What CLIP's encoder finds (TextEncoder.forward); longer prompts are cut."""
        assert isinstance(self.encoder, TextEncoder)
        found: tuple[Tensor, Tensor, Tensor] = self.encoder(self.ids(prompts, self.encoder.text_model.most))
        return found

    def t5(self, prompts: Sequence[str], length: int) -> Tensor:
        """The states (N, length, D) of T5's encoder, which sees padding as any other token; longer prompts are cut."""
        assert isinstance(self.encoder, T5Encoder)
        found: Tensor = self.encoder(self.ids(prompts, length))
        return found
