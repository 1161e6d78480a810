"""The talkers of Qwen2.5-Omni (Xu et al. 2025, arXiv 2503.20215) and Qwen3-Omni (Xu et al. 2025, arXiv 2509.17765): a
language model that reads what another one has read and written, and writes the codes of its sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...engine import Tensor, no_grad, ops
from ...engine.buffers import int32_tensor
from ..decoders.decoder import CachedText, CausalLanguageModel
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..module import Module

Choose = Callable[[Tensor], int]  # a code by its logits (entries,)


class Spoken(NamedTuple):
    """What a talker reads: x (T, D) before the first moment of sound; and what is added to the codes of each moment
    that it has written: the rows of said (N, D), and pad (1, D) after these.
    """

    x: Tensor
    said: Tensor
    pad: Tensor


class Heard(NamedTuple):
    """The recordings of a text: their vectors (N, D), and the places of these among its tokens."""

    places: Sequence[int]
    vectors: Tensor

    def within(self, x: Tensor, vectors: Tensor) -> Tensor:
        """The vectors x (T, D) of the text's tokens, with `vectors` (N, D) in the places of recordings."""
        places = ops.tensor([*self.places], dtype="int64", device=x.device)
        return x.index_copy(0, places, vectors.to(x.dtype))


class Talker(Module):
    """Base of a talker: `language` writes a code for each moment."""

    def __init__(self, language: CausalLanguageModel) -> None:
        super().__init__()
        self.language = language

    @property
    def room(self) -> int:
        """The moments that it can read and write."""
        found: int = self.language.config.max_seq_len
        return found

    def read(self, model: Any, cache: Any, x: Tensor, place: int) -> Tensor:
        """What the head of a language model reads of the last of x (T, D) at `place` …, (1, D)."""
        x = model.stack(x, CachedText(int32_tensor([place], x.device), cache), x)
        found: Tensor = model.stack.normalized(x.narrow(0, x.shape[0] - 1, 1))
        return found

    def entry(self, spoken: Tensor) -> Tensor:
        """What the language model reads of x or of a row that a moment's codes were added to."""
        return spoken

    def completed(self, code: int, state: Tensor, choose: Choose) -> tuple[list[int], Tensor]:
        """All codes of a moment by its first, and the vector (1, D) of them. state (1, D): what the head has read."""
        return [code], self.language.embedding(int32_tensor([code], state.device))

    def written(
        self, spoken: Spoken, most: int, ends: Sequence[int], choose: Choose, choose_more: Choose
    ) -> Iterator[list[int]]:
        """The codes of one moment after another, to one of `ends`, or up to `most` of them. `choose` takes the first of
        a moment, `choose_more` the others.
        """
        language: Any = self.language
        with no_grad():
            x, place = self.entry(spoken.x), 0
            cache = language.new_cache(x.shape[0] + most)
        for number in range(most):
            with no_grad():
                state = self.read(language, cache, x, place)
                code = choose(language.lm_head(state).reshape(-1))
                if code in ends:
                    return
                codes, vector = self.completed(code, state, choose_more)
                place += x.shape[0]
                more = spoken.said.narrow(0, number, 1) if number < spoken.said.shape[0] else spoken.pad
                x = self.entry(vector + more)
            yield codes


class OneCodeTalker(Talker):
    """Writes one code a moment. What it reads, of `width` numbers, is the sum of the vectors and of the states of the
    text. `codes`: of silence, and of the begin.
    """

    def __init__(self, language: CausalLanguageModel, width: int, codes: tuple[int, int]) -> None:
        super().__init__(language)
        self.codes = codes
        language.stack.embed_tokens = Embedding(language.config.vocab_size, width)
        self.thinker_to_talker_proj = Linear(width, language.config.hidden_size)

    def entry(self, spoken: Tensor) -> Tensor:
        return self.thinker_to_talker_proj(spoken)

    def spoken(self, asked: Tensor, replied: Tensor, marks: Tensor) -> Spoken:
        """What is read of what was asked (T, width) and replied (N, width), and of the marks (3, width): of the begin
        of a voice's text, of its end, and of nothing more.
        """
        begin, end, pad = marks.split(1)
        codes = self.language.embedding(int32_tensor([*self.codes], marks.device))
        first = ops.cat([begin, replied.narrow(0, 0, 1)]) + codes
        return Spoken(ops.cat([asked, first]), ops.cat([replied.narrow(0, 1, replied.shape[0] - 1), end]), pad)


class Resizer(Module):
    """Two linear layers with an activation between them."""

    def __init__(self, inputs: int, inner: int, outputs: int, activation: str) -> None:
        super().__init__()
        self.linear_fc1, self.linear_fc2 = Linear(inputs, inner), Linear(inner, outputs)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., inputs) → (..., outputs)."""
        return self.linear_fc2(self.activation(self.linear_fc1(x)))


class ManyCodeTalker(Talker):
    """Writes the first code of a moment, of which `predictor` knows the others, one after the other. It reads the
    vectors, of `width` numbers, of a text; `hidden_projection` is for the states of pictures and recordings.
    """

    def __init__(self, language: CausalLanguageModel, predictor: CausalLanguageModel, width: int, books: int) -> None:
        super().__init__(language)
        own = language.config
        self.text_projection, self.hidden_projection = (
            Resizer(width, own.intermediate_size, own.hidden_size, own.hidden_act) for _ in range(2)
        )
        self.predictor: Any = predictor
        self.predictor.lm_head = None
        inner, entries = predictor.config.hidden_size, predictor.config.vocab_size
        self.tables = ModuleList(Embedding(entries, inner) for _ in range(books - 1))
        predictor.stack.embed_tokens = self.tables[0]
        self.heads = ModuleList(Linear(inner, entries, bias=False) for _ in range(books - 1))

    def spoken(self, asked: Tensor, replied: Tensor, marks: Tensor, codes: Sequence[int]) -> Spoken:
        """What is read of the vectors of what was asked (T, D), and of the reply (3 + N, D), which begins with who
        speaks; of the marks (3, D): of the begin, of the end, and of nothing more; and of the codes of how speech
        begins.
        """
        begin, end, pad = marks.split(1)
        known = self.language.embedding(int32_tensor([*codes], marks.device))  # (C, D)
        role, first = replied.narrow(0, 0, 3), replied.narrow(0, 3, 1)
        waits = pad.expand(len(codes) - 2, pad.shape[1])
        x = ops.cat([asked, role, ops.cat([waits, begin, first]) + known])
        return Spoken(x, ops.cat([replied.narrow(0, 4, replied.shape[0] - 4), end]), pad)

    def completed(self, code: int, state: Tensor, choose: Choose) -> tuple[list[int], Tensor]:
        vector = self.language.embedding(int32_tensor([code], state.device))
        cache = self.predictor.new_cache(len(self.heads) + 1)
        found, x, place = [code], ops.cat([state, vector]), 0
        for head, table in zip(self.heads, self.tables, strict=True):
            found.append(choose(head(self.read(self.predictor, cache, x, place)).reshape(-1)))
            place += x.shape[0]
            x = table(int32_tensor([found[-1]], state.device))
            vector = vector + x
        return found, vector
