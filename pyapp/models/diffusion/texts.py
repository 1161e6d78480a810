"""Encoders of texts with their tokenizers, as networks that draw read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ModelError
from pyapp.nn import Linear, Module
from pyapp.nn.decoders.decoder import CausalLanguageModel
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder
from pyapp.nn.vision.towers import TextTower, at_ends
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.tokenization.tokenizer import Tokenizer

from ..loading.config import require
from ..loading.towers_config import ClipTextConfig

MARK = "<|image_pad|>"  # stands for a picture in a text
LONGEST = 1 << 15  # tokens of a text with a picture


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
    """A language model without its head; networks read the states after some of its layers, side by side. reads: after
    how many layers each, negative ones from the last, whose states have the last norm. Layers that none needs are left
    out. ModelError for more layers than there are.

    unread: the names of a file's tensors that belong to what is left out, and to parts that see pictures.
    """

    def __init__(self, config: Any, language: CausalLanguageModel, reads: Sequence[int]) -> None:
        super().__init__()
        self.config, self.model, stack = config, language.stack, language.stack
        layers = getattr(stack, stack.blocks)
        count = len(layers)
        self.reads = [number if number >= 0 else count + 1 + number for number in reads]
        last = max(self.reads)
        require(0 <= min(self.reads) and last <= count, f"it has {count} layers, the network reads layer {last}")
        without = [rf"{stack.blocks}\.{layer}\." for layer in range(last, count)]
        for layer in reversed(range(last, count)):
            del layers[layer]
        if last < count:
            setattr(stack, stack.last_norm, None)
            without.append(rf"{stack.last_norm}\.")
        start = r"(language_model\.|model\.)*"
        seeing = r"(model\.)?(visual|vision_tower|multi_modal_projector)\.|(\w+\.)?lm_head\."
        self.unread = re.compile(rf"({start}({'|'.join(without or ['-'])})|{seeing}).*")
        self._normed, self._whole = last == count, language.whole_text

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """ids (N, T), mask (N, T): 0 where a token is padding, which no other sees → the hidden states
        (N, T, D * reads).
        """
        stack, text = self.model, self._whole(ids.shape[1], mask)
        layers, x = getattr(stack, stack.blocks), stack.embedded(ids, text)
        states = [x]
        for layer in layers:
            x = layer(x, text)
            states.append(x)
        if self._normed:
            states[-1] = stack.normalized(x)
        found = [states[number] for number in self.reads]
        return found[0] if len(found) == 1 else ops.cat(found, 2)


class SeeingEncoder(Module):
    """A language model without its head that sees a picture in a text. files: the module of its architecture, which
    says how files name and store the weights.
    """

    unread = re.compile(r"(\w+\.)*lm_head\..*")

    def __init__(self, config: Any, model: Any, files: Any) -> None:
        super().__init__()
        self.config, self.seeing, self._whole, self._files = config.text_config, model, config, files
        model.language_model.lm_head = None

    def renamed(self, name: str) -> str:
        """The model's name of a file's tensor."""
        found: str = self._files.renamed(name)
        return found

    def stored(self, tensors: Mapping[str, Any]) -> Any:
        """How files store weights."""
        return self._files.stored(self._whole, tensors)

    def forward(self, ids: Tensor, pixel_values: Tensor) -> Tensor:
        """ids (1, T), in which image_token_id stands for each vector of the picture → the hidden states (1, T, D)."""
        found: Tensor = self.seeing.states(ids, None, pixel_values)
        normed: Tensor = self.seeing.language_model.stack.normalized(found)
        return normed


@dataclass(frozen=True)
class Reader:
    """An encoder of texts with its tokenizer, and what prepares pictures for it, if it sees them."""

    tokenizer: Tokenizer
    encoder: TextEncoder | T5Encoder | LanguageEncoder | SeeingEncoder
    processor: Any = None

    @property
    def width(self) -> int:
        """The numbers of a token."""
        config: Any = self.encoder.config
        found: int = config.d_model if isinstance(self.encoder, T5Encoder) else config.hidden_size
        return found * len(self.encoder.reads) if isinstance(self.encoder, LanguageEncoder) else found

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

    def rows(self, texts: Sequence[str], most: int) -> list[list[int]]:
        """The tokens of texts, which may name special ones. Longer texts are cut after `most`."""
        found = self.tokenizer.encode_batch(list(texts), truncation=True, max_length=most, parse_special=True)
        return [list(encoding.ids) for encoding in found]

    def turns(self, prompts: Sequence[str], most: int, thinking: bool) -> list[list[int]]:
        """The tokens of prompts as turns of a language model's user. Longer ones are cut after `most`."""
        return [
            self._chat([{"role": "user", "content": prompt}], most, enable_thinking=thinking) for prompt in prompts
        ]  # fmt: skip

    def instructed(self, prompts: Sequence[str], most: int, instruction: str) -> list[list[int]]:
        """The tokens of prompts as turns of a user after an instruction, in the form of lists of parts, before any
        answer. Longer ones are cut after `most`.
        """

        def said(role: str, text: str) -> dict[str, Any]:
            return {"role": role, "content": [{"type": "text", "text": text}]}

        return [
            self._chat([said("system", instruction), said("user", prompt)], most, add_generation_prompt=False)
            for prompt in prompts
        ]  # fmt: skip

    def _chat(self, messages: Sequence[dict[str, Any]], most: int, **options: Any) -> list[int]:
        return ChatTemplate(self.tokenizer).encode(messages, **options)[:most]

    def language(
        self, rows: Sequence[list[int]], skipped: Sequence[tuple[int, int]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The states (N, S, D) that a language model, or T5's encoder, has of tokens, with zeros after each text, and
        how many each has, int32 (N,). skipped: of each text the first state, and the number of states, that are left
        out.
        """
        device = next(iter(self.encoder.parameters())).device
        found: list[Tensor] = []
        for ids, (first, count) in zip(rows, skipped or [(0, 0)] * len(rows), strict=True):
            require(len(ids) > first + count, f"the tokenizer makes {len(ids)} tokens of a text, too few")
            states: Any = self.encoder(int32_tensor(ids, device).reshape(1, -1))[0]  # (T, D)
            rest = states.narrow(0, first + count, len(ids) - first - count)
            found.append(ops.cat([states.narrow(0, 0, first), rest]) if first else rest)
        lengths = [states.shape[0] for states in found]
        texts = [ops.pad(states, (0, 0, 0, max(lengths) - states.shape[0])) for states in found]
        return ops.stack(texts), int32_tensor(lengths, device)

    def language_seeing(self, texts: Sequence[str], picture: Tensor, skipped: int) -> tuple[Tensor, Tensor]:
        """As `language`, of texts in each of which MARK stands for a picture uint8 (H, W, 3); without the first
        `skipped` states.
        """
        assert isinstance(self.encoder, SeeingEncoder)
        device = self.encoder.seeing.device
        [pixels] = self.processor.by_size(picture)
        rows, columns = self.processor.tiles(picture.shape[0], picture.shape[1])
        found: list[Tensor] = []
        for ids in self.rows([text.replace(MARK, MARK * (rows * columns)) for text in texts], LONGEST):
            require(len(ids) > skipped, f"the tokenizer makes {len(ids)} tokens of a text, too few")
            states = self.encoder(int32_tensor(ids, device).reshape(1, -1), pixels.to(device))[0]  # (T, D)
            found.append(states.narrow(0, skipped, len(ids) - skipped))
        lengths = [states.shape[0] for states in found]
        filled = [ops.pad(states, (0, 0, 0, max(lengths) - states.shape[0])) for states in found]
        return ops.stack(filled), int32_tensor(lengths, device)

    def language_filled(self, rows: Sequence[list[int]], length: int) -> Tensor:
        """As `language`, of texts that are filled up with padding, on the side that the tokenizer's settings say:
        (N, length, D), those of the padding included.
        """
        assert isinstance(self.encoder, LanguageEncoder)
        fill, device = self.tokenizer.pad_id, next(iter(self.encoder.parameters())).device
        if fill is None:
            raise ModelError("the tokenizer has no token for padding", hint="Give the tokenizer of the model")
        ids, seen, left = [], [], self.tokenizer.settings.get("padding_side") == "left"
        for row in rows:
            more = length - len(row)
            ids += [*[fill] * more, *row] if left else [*row, *[fill] * more]
            seen += [0] * more + [1] * len(row) if left else [1] * len(row) + [0] * more
        given = (int32_tensor(values, device).reshape(len(rows), length) for values in (ids, seen))
        found: Tensor = self.encoder(*given)
        return found
