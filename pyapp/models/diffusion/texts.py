"""Encoders of texts with their tokenizers, as networks that draw read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.nn import Linear, Module
from pyapp.nn.decoders.decoder import CausalLanguageModel
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder
from pyapp.nn.vision.towers import TextTower, at_ends
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.tokenization.tokenizer import Tokenizer

from ..loading.towers_config import ClipTextConfig


class TextEncoder(Module):
    """CLIP's transformer of texts; its vectors of texts are projected to `projected` features, if given."""

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


class LanguageEncoder(Module):
    """A language model; networks read the states before its last layer, which it does not have.

    unread: the names of a file's tensors that belong to the last layer, and to the head.
    """

    def __init__(self, config: Any, language: CausalLanguageModel) -> None:
        super().__init__()
        self.config, self.model, stack = config, language.stack, language.stack
        layers = getattr(stack, stack.blocks)
        last = len(layers) - 1
        del layers[last]
        setattr(stack, stack.last_norm, None)
        self.unread = re.compile(rf"(model\.)?({stack.blocks}\.{last}\.|{stack.last_norm}\.).*|lm_head\..*")
        self._whole = language.whole_text

    def forward(self, ids: Tensor) -> Tensor:
        """ids (N, T) → the hidden states (N, T, D)."""
        found: Tensor = self.model(ids, self._whole(ids.shape[1], None))
        return found


@dataclass(frozen=True)
class Reader:
    """An encoder of texts with its tokenizer."""

    tokenizer: Tokenizer
    encoder: TextEncoder | T5Encoder | LanguageEncoder

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

    def clip_of_words(self, prompts: Sequence[str]) -> Tensor:
        """The last states (N, T, D) of CLIP's encoder, which does not see what fills up shorter prompts; longer ones
        are cut.
        """
        assert isinstance(self.encoder, TextEncoder)
        tower = self.encoder.text_model
        ids = self.ids(prompts, tower.most)
        found = self.tokenizer.encode_batch(list(prompts), truncation=True, max_length=tower.most, parse_special=True)
        lengths = int32_tensor([len(encoding.ids) for encoding in found], ids.device).reshape(-1, 1, 1, 1)
        places = ops.arange(tower.most, dtype="int32", device=ids.device)
        mask = (places < lengths) & (places <= places.reshape(-1, 1))  # (N, 1, T, T)
        return tower.states(ids, mask)[1]

    def t5(self, prompts: Sequence[str], length: int) -> Tensor:
        """The states (N, length, D) of T5's encoder, which sees padding as any other token; longer prompts are cut."""
        assert isinstance(self.encoder, T5Encoder)
        found: Tensor = self.encoder(self.ids(prompts, length))
        return found

    def language(self, prompts: Sequence[str], most: int) -> tuple[Tensor, Tensor]:
        """The states (N, S, D) that a language model has of prompts as its user's turns, with zeros after each, and
        how many each prompt has, int32 (N,). Longer turns are cut.
        """
        assert isinstance(self.encoder, LanguageEncoder)
        template, found = ChatTemplate(self.tokenizer), []
        device = next(iter(self.encoder.parameters())).device
        for prompt in prompts:
            ids = template.encode([{"role": "user", "content": prompt}], enable_thinking=True)[:most]
            found.append(self.encoder(int32_tensor(ids, device).reshape(1, -1))[0])  # (T, D)
        lengths = [states.shape[0] for states in found]
        rows = [ops.pad(states, (0, 0, 0, max(lengths) - states.shape[0])) for states in found]
        return ops.stack(rows), int32_tensor(lengths, device)
