"""Speech in a voice that a text describes (Parler-TTS, pyapp.models.parler_tts).

Codes of a codebook come one moment after those of the codebook before it, and so do their ends: a codebook may end only
after the one before it. Moments in which a codebook has ended, or says what is not an entry of it, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.audio.decoding import draw_of_best
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Decoding
from pyapp.text.generation.sampling import Uniform
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .voice import Voice, finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

USUAL = "A woman speaks clearly, at a moderate speed and pitch, very close up, in a recording of very high quality."
TEMPERATURE, TOP_K = 1.0, 50  # where generation_config.json does not say them, as in transformers
SECONDS = 30.0  # of a sentence, at most
# Fields of generation_config.json that speech here does not follow, and the values that change nothing.
UNUSED = {"guidance_scale": 1, "num_beams": 1, "top_p": 1, "repetition_penalty": 1, "no_repeat_ngram_size": 0}


@dataclass(frozen=True)
class PromptTokens:
    """Reads texts for the model: `words` is its tokenizer."""

    words: Any

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a text."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        return ReadText(tuple(self.words.encode(text, parse_special=False)), ())


class DescribedVoice(Voice):
    """The model, and what reads descriptions for it. `generation`: the object of its generation_config.json. ModelError
    for fields of it that are not followed here.
    """

    def __init__(self, model: Any, words: Any, generation: Mapping[str, Any]) -> None:
        self.model, self.config, self._words, self._generation = model, model.config, words, dict(generation)
        for name, usual in UNUSED.items():
            found = self._generation.get(name)
            if found is not None and found != usual:
                raise ModelError(
                    f"{name} is {found!r:.40}, which is not followed here", where="generation_config.json",
                    hint=f"Take {name} out of the file",
                )  # fmt: skip
        own = self.config.decoder
        self.start, self.empty = (
            self._whole(name, getattr(own, name), own.vocab_size) for name in ("bos_token_id", "pad_token_id")
        )
        self.end = self._whole("eos_token_id", own.eos_token_id, own.vocab_size - 1)
        self._temperature = self._number("temperature", TEMPERATURE, 100)
        self._top_k = self._whole("top_k", TOP_K, 1 << 20) or own.vocab_size
        self._least = self._whole("min_new_tokens", 0, 1 << 20)
        codec = self.config.audio_encoder
        usual_length = round(SECONDS * self.sample_rate / codec.step) + own.num_codebooks
        self._most = max(2, self._whole("max_length", usual_length, 1 << 20))

    def _whole(self, name: str, usual: int, most: int) -> int:
        """As `_number`, a whole one."""
        return int(self._number(name, usual, most, (int,)))

    def _number(self, name: str, usual: float, most: float, kinds: tuple[type, ...] = (int, float)) -> float:
        """A number of generation_config.json, from 0 to `most`."""
        found = self._generation.get(name)
        found = usual if found is None else found
        if type(found) not in kinds or not 0 <= found <= most:
            raise ModelError(f"{name} is {found!r:.60}, expected 0 to {most:,}", where="generation_config.json")
        return found

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence; None between steps."""
        options.refuse_variations(but=("noise",))
        drawn = self._generation.get("do_sample") is not False
        temperature = options.noise if options.noise is not None else self._temperature if drawn else 0.0
        draw = Uniform(seed % (1 << 31)).draw
        codes: Tensor | None = None

        def choose(scores: NDArray[np.float32]) -> int:
            return draw_of_best(scores, self._top_k, temperature, draw())

        for step in self.written(ids, options.description or USUAL, choose):
            codes = step
            yield None
        if codes is None:
            return
        parts = self.model.sound_parts(codes)
        while True:
            with no_grad():  # which ends before others run
                part = next(parts, None)
            if part is None:
                return
            yield finite(part[0, 0].cpu().numpy())

    def written(
        self, ids: Sequence[int], description: str, choose: Callable[[NDArray[np.float32]], int]
    ) -> Iterator[Tensor | None]:
        """None after every step, and at last the codes (1, codebooks, T) int64 of a sentence, if there are any.
        `choose` takes each from scores (V,).
        """
        model, books = self.model, self.config.decoder.num_codebooks
        source = self._words.encode(description, parse_special=False)
        if len(ids) + books >= model.most:
            raise OptionError(f"a sentence has {len(ids):,} tokens, too many for the model", where="text")
        with no_grad():
            tensors = (int32_tensor(list(part), model.device).unsqueeze(0) for part in (source, ids))
            memory = model.memory(*tensors, self._most)
        most = min(self._most, memory.most - memory.first)
        decoding, rows = Decoding(model, memory, books), [[self.start] for _ in range(books)]
        ended, unfinished = [False] * books, 0  # unfinished: the last codebook that may end
        for place in range(1, most):
            codes = [self._pattern(book, place - 1, most, row[-1]) for book, row in enumerate(rows)]
            with no_grad():
                logits: NDArray[np.float32] = decoding.step(codes).to("float32").cpu().numpy()
                memory.advance()
            finite(logits, "scores")
            unfinished += ended[unfinished] and unfinished < books - 1
            for book, row in enumerate(rows):
                if book > unfinished or place <= self._least:
                    logits[book, self.end] = -np.inf
                row.append(self.empty if ended[book] else choose(logits[book]))
            ended = [known or row[-1] == self.end for known, row in zip(ended, rows, strict=True)]
            yield None
            if all(ended):
                break
        yield self._moments(rows)

    def _pattern(self, book: int, place: int, most: int, code: int) -> int:
        """What the model reads of a codebook at a place of a row of at most so many."""
        books = self.config.decoder.num_codebooks
        if most < 2 * books - 1:
            return code
        return self.start if place <= book else self.empty if place > book + most - books else code

    def _moments(self, rows: Sequence[Sequence[int]]) -> Tensor | None:
        """The codes of the moments of which every codebook has one."""
        books, entries = len(rows), self.config.audio_encoder.codebook_size
        count = len(rows[0]) - books
        moments = zip(*(row[1 + book : 1 + book + count] for book, row in enumerate(rows)), strict=True)
        kept = [moment for moment in moments if max(moment) < entries]
        if not kept:
            return None
        return ops.tensor(kept, dtype="int64", device=self.device).transpose(0, 1).unsqueeze(0)
