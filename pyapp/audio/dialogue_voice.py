"""Dialogues of two speakers (Dia, pyapp.models.dia). A text has [S1] and [S2] where one of them begins to speak, and
sounds such as (laughs).

Codes of each codebook come some moments later than those of the first one. What the model would write without the text
is held against what it writes with it: among the best codes by both, one is drawn by the scores with the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.audio.decoding import draw_token
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.nn.audio.sound_codes import Codes
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Decoding
from pyapp.text.generation.sampling import Uniform
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .voice import Voice, finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

USUAL_CODEC = "descript/dac_44khz"
SPEAKER = re.compile(r"\[S([12])\]")
FIRST = "[S1]"
LONGEST = 360  # characters that are spoken together, about twenty seconds
USUAL: Mapping[str, float] = {  # where generation_config.json does not say them, as its authors' has them
    "guidance_scale": 3.0, "temperature": 1.8, "top_k": 45, "top_p": 0.9, "max_length": 3072,
}  # fmt: skip


@dataclass(frozen=True)
class DialogueTokens:
    """Reads texts for the model: bytes, and one token for each change of speakers."""

    vocab_size: int = 256

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a text."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        parts = SPEAKER.split(text)  # texts, and the numbers of speakers between them
        ids = [number for i, part in enumerate(parts) for number in ([int(part)] if i % 2 else part.encode())]
        return ReadText(tuple(ids), ())


def passages(parts: Sequence[str]) -> list[str]:
    """Sentences joined to what is spoken together; each begins with who speaks."""
    found: list[str] = []
    speaker = FIRST
    for part in parts:
        own = part if SPEAKER.match(part) else f"{speaker} {part}"
        if found and len(found[-1]) + len(part) < LONGEST:
            found[-1] += f" {part}"
        else:
            found.append(own)
        speaker = next((match.group() for match in reversed([*SPEAKER.finditer(own)])), speaker)
    return found


class DialogueVoice(Voice):
    """The model and the codec, and `turns`: what was heard, whose voices go on. `generation`: the object of its
    generation_config.json. ModelError for values of it that cannot be, and for a codec that does not fit.
    """

    def __init__(self, model: Any, codec: Any, generation: Mapping[str, Any]) -> None:
        self.model, self.config, self.codec = model, model.config, codec
        own = self.config.decoder
        books, entries = getattr(codec.config, "n_codebooks", 0), getattr(codec.config, "codebook_size", 0)
        if books != own.num_channels or not 0 < entries <= own.eos_token_id:
            raise ModelError(
                f"the model writes {own.num_channels} codes below {own.eos_token_id}, the codec has {books} codebooks "
                f"of {entries} entries", where="codec", hint=f"Give {USUAL_CODEC}",
            )  # fmt: skip
        self._values: dict[str, float] = {}
        for name, usual in USUAL.items():
            found = generation.get(name)
            found = usual if found is None else found
            if type(found) not in (int, float) or not 0 <= found <= 1 << 20:
                raise ModelError(f"{name} is {found!r:.60}, expected a number from 0", where="generation_config.json")
            self._values[name] = found
        self._drawn = generation.get("do_sample") is not False
        self.turns: list[tuple[Sequence[int], Tensor]] = []

    @property
    def sample_rate(self) -> int:
        found: int = self.codec.sample_rate
        return found

    def passages(self, parts: Sequence[str]) -> list[str]:
        """The sentences of a text, joined to what is spoken together."""
        return passages(parts)

    def hear(self, text: str, samples: NDArray[np.float32]) -> None:
        """Adds what was said, and its samples (N,) at the codec's rate: what is spoken goes on in these voices.
        OptionError for samples that are none.
        """
        sound = self.recorded(samples)
        with no_grad():
            codes = self.codec.encode(sound, self.config.decoder.num_channels).chunks[0][0]  # (codebooks, T)
        self.turns.append((DialogueTokens().read(passages([text])[0]).ids, codes))

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a passage; None between steps."""
        options.refuse_variations(but=("noise",))
        temperature = max(1.0, self._values["temperature"]) if self._drawn else 0.0
        temperature = temperature if options.noise is None else options.noise
        draw, best, mass = Uniform(seed % (1 << 31)).draw, int(self._values["top_k"]), self._values["top_p"]

        def choose(scores: NDArray[np.float32]) -> int:
            return chosen(scores, temperature, best, mass, draw())

        codes: Tensor | None = None
        for step in self.written(ids, choose):
            codes = step
            yield None
        if codes is None:
            return
        for part in self._sound(codes):
            yield finite(part)

    def _sound(self, codes: Tensor) -> Iterator[NDArray[np.float32]]:
        """The samples of codes (1, codebooks, T), in parts."""
        parts = self.codec.in_windows(Codes((codes,), (None,)))
        while True:
            with no_grad():  # which ends before others run
                part = next(parts, None)
            if part is None:
                return
            yield part[0, 0].cpu().numpy()

    def written(self, ids: Sequence[int], choose: Callable[[NDArray[np.float32]], int]) -> Iterator[Tensor | None]:
        """None after every step, and at last the codes (1, codebooks, T) int64 of a passage, if there are any. `choose`
        takes each from scores (V,).
        """
        own, delays = self.config.decoder, self.config.delays
        books, last = own.num_channels, max(delays)
        heard = [code for said, _ in self.turns for code in said]
        source = [*heard, *ids]
        if len(source) > self.model.most:
            raise OptionError(
                f"the text has {len(source):,} bytes, the model reads {self.model.most:,}", where="text",
                hint="Give shorter texts, or fewer turns",
            )  # fmt: skip
        prompt: list[list[int]] = [[] for _ in range(books)]
        for _, codes in self.turns:
            for row, more in zip(prompt, codes.tolist(), strict=True):
                row += more
        count = 1 + len(prompt[0])  # moments that are known: the beginning, and what was heard
        most = min(count + int(self._values["max_length"]) + last, self.model.written)
        if count + last + 2 >= most:
            raise OptionError("what was heard is too long for the model", where="text", hint="Take fewer turns")
        # Until all codebooks have begun, what is read of them is known: the beginning, and what was heard.
        known = [[own.bos_token_id] * (delay + 1) + row for delay, row in zip(delays, prompt, strict=True)]
        rows = [row[:count] for row in known]
        first = ops.tensor([row[: count - 1] for row in rows], dtype="int32", device=self.device)
        with no_grad():
            memory = self.model.memory(
                int32_tensor(list(source), self.device).unsqueeze(0), first.reshape(books, count - 1), most
            )
        decoding = Decoding(self.model, memory, books)
        left, ending, ended = list(delays), False, [False] * books
        while not all(ended) and len(rows[0]) < most:
            place = len(rows[0]) - 1
            read = [(told if place < len(told) else row)[place] for told, row in zip(known, rows, strict=True)]
            with no_grad():
                logits: NDArray[np.float32] = decoding.step([*read, *read]).to("float32").cpu().numpy()
                memory.advance()
            scores = self._held_against(logits[:books], logits[books:])
            ending = ending or int(scores[0].argmax()) == own.eos_token_id or len(rows[0]) == most - last - 1
            for book, row in enumerate(rows):
                if ended[book]:
                    row.append(own.pad_token_id)
                elif ending and left[book] == 0:
                    row.append(own.eos_token_id)
                    ended[book] = True
                else:
                    row.append(choose(scores[book]))
                    ended[book] = row[-1] == own.eos_token_id
                left[book] -= ending
            yield None
        yield self._moments(rows, count)

    def _held_against(self, told: NDArray[np.float32], untold: NDArray[np.float32]) -> NDArray[np.float32]:
        """The scores (codebooks, V) with the text and without it → those of the best codes by both. Only the first
        codebook may end, and does where that is the best.
        """
        end, scale, best = self.config.decoder.eos_token_id, self._values["guidance_scale"], int(self._values["top_k"])
        if not (np.isfinite(told).all() and np.isfinite(untold).all()):
            raise ModelError("the model computes NaN or infinite scores", hint="Take a model whose weights are whole")
        found = told.copy()
        if scale != 1:
            both = told + (told - untold) * np.float32(scale)
            if 0 < best < both.shape[1]:
                bounds = np.partition(both, both.shape[1] - best, axis=1)[:, both.shape[1] - best]
                found[both < bounds[:, None]] = -np.inf
            elif not best:
                found = both
        found[1:, end:] = -np.inf
        found[0, end + 1 :] = -np.inf
        if int(found[0].argmax()) == end:
            found[0, :end] = -np.inf
        else:
            found[0, end] = -np.inf
        return found

    def _moments(self, rows: Sequence[Sequence[int]], first: int) -> Tensor | None:
        """The codes of the moments from `first` on that all codebooks have."""
        end = self.config.decoder.eos_token_id
        last = rows[0].index(end) if end in rows[0] else len(rows[0])
        last = min(last, *(len(row) - delay for row, delay in zip(rows, self.config.delays, strict=True)))
        if last <= first:
            return None
        most = self.codec.config.codebook_size - 1
        codes = [
            [min(code, most) for code in row[first + delay : last + delay]]
            for row, delay in zip(rows, self.config.delays, strict=True)
        ]
        return ops.tensor(codes, dtype="int64", device=self.device).unsqueeze(0)


def chosen(scores: NDArray[np.float32], temperature: float, best: int, mass: float, number: float) -> int:
    """The index in scores (V,) of one drawn from the best, which have so much of the probability together, with
    `number` in [0, 1); the best one at the temperature 0.
    """
    if temperature == 0:
        return int(scores.argmax())
    order = np.argsort(-scores, kind="stable")[: best or len(scores)]
    order = order[np.isfinite(scores[order])]
    scaled = scores[order].astype(np.float64) / temperature
    shares = np.exp(scaled - scaled.max())
    before = np.cumsum(shares / shares.sum()) - shares / shares.sum()
    order = order[before < max(mass, 1e-9)]
    return int(order[draw_token(scores[order], temperature, number)])
