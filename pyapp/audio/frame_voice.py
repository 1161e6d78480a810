"""Speech by a language model that writes all codes of a moment one after the other (CSM, pyapp.models.csm)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.audio.decoding import draw_of_best
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import OptionError
from pyapp.text.generation.sampling import Uniform
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .voice import Voice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

TEMPERATURE, TOP_K = 0.9, 50  # as its authors draw
SECONDS = 30.0  # of a sentence, at most


@dataclass(frozen=True)
class SpokenTokens:
    """Reads texts for the model: `words` is its tokenizer."""

    words: Any

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a text, without its speaker."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        return ReadText(tuple(self.words.encode(text, bos=False, eos=False, parse_special=False)), ())


class FrameVoice(Voice):
    """The model, with the turns of a conversation that it has heard: it speaks as they go on."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.config, self._words = model, model.config, tokenizer
        self.turns: list[tuple[Sequence[int], Tensor | None]] = []

    def prompt(self, text: str, speaker: int) -> list[int]:
        """The tokens of a turn's text."""
        found: list[int] = self._words.encode(f"[{speaker}]{self._words.guard(text)}", bos=True, eos=True)
        return found

    def hear(self, text: str, samples: NDArray[np.float32], speaker: int = 0) -> None:
        """Adds a turn: what a speaker said, and its samples (N,) at the model's rate, which sound as it is to sound.
        OptionError for samples that are none.
        """
        sound = self.recorded(samples)
        with no_grad():
            codes = self.model.codec_model.encode(sound, self.config.num_codebooks).chunks[0][0]  # (codebooks, T)
        self.turns.append((self.prompt(text, speaker), codes))

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence; None between steps."""
        options.refuse_variations()
        prompt, draw = self.prompt(self._words.decode(list(ids)), options.speaker), Uniform(seed % (1 << 31)).draw

        def choose(logits: Tensor) -> int:
            return draw_of_best(logits.to("float32").cpu().numpy(), TOP_K, TEMPERATURE, draw())

        codes: list[list[int]] = []
        for moment in self.written(prompt, choose):
            codes.append(moment)
            yield None
        if not codes:
            return
        with no_grad():
            rows = ops.tensor(codes, dtype="int64", device=self.device).transpose(0, 1).unsqueeze(0)
            yield self.model.sound(rows)[0, 0].cpu().numpy()

    def written(self, prompt: Sequence[int], choose: Any) -> Iterator[list[int]]:
        """The codes of one moment after the other, to the end of the sentence. OptionError for turns that leave no
        room.
        """
        most = round(SECONDS * self.sample_rate / self.samples_per_moment)
        with no_grad():
            writer = self.model.writer([*self.turns, (prompt, None)], most)
        if writer.room < 1:
            raise OptionError(
                f"the conversation is too long for the model, which reads {self.config.backbone.max_seq_len:,} tokens",
                where="text", hint="Take fewer turns",
            )  # fmt: skip
        for _ in range(min(most, writer.room)):
            with no_grad():
                codes = writer.write(choose)
            if all(code == self.config.end for code in codes[:-1]):
                return
            # What is not an entry of a codebook stands for none.
            yield [min(code, self.config.codec.codebook_size - 1) for code in codes]

    @property
    def samples_per_moment(self) -> int:
        """The samples of the codec's codes of one moment."""
        codec = self.config.codec
        found: int = codec.step * codec.stride
        return found
