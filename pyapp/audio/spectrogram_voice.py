"""Speech by a model that writes spectrograms in a voice that a vector describes (SpeechT5, pyapp.models.speecht5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .voice import Voice, samples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

ENDS = 0.5  # the probability from which on the speech ends
FRAMES_PER_TOKEN = 20.0  # at most
STEPS_AT_ONCE = 16  # between two turns of other work


@dataclass(frozen=True)
class SpokenLetters:
    """Reads texts for the model: `words` is its tokenizer, `unknown` the number of what that does not know, `end` the
    one after a text.
    """

    words: Any
    unknown: int | None
    end: int

    @property
    def vocab_size(self) -> int:
        """The letters."""
        found: int = self.words.vocab_size
        return found

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The numbers of a text's letters; those that are not known are left out."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        known = {letter: self.unknown not in self._numbers(letter) for letter in dict.fromkeys(text)}
        numbers = self._numbers("".join(letter for letter in text if known[letter]))
        lacking = tuple(letter for letter, known in known.items() if not known and letter.isalnum())
        return ReadText((*numbers, self.end) if numbers else (), lacking)

    def _numbers(self, text: str) -> Sequence[int]:
        found: Sequence[int] = self.words.encode(text, bos=False, eos=False, parse_special=False)
        return found


class SpectrogramVoice(Voice):
    """The model, what makes sound of its spectrograms, and the vectors (N, size) of voices. ModelError for a vocoder of
    other spectrograms, and for vectors of another size.
    """

    def __init__(self, model: Any, vocoder: Any, voices: Tensor) -> None:
        config, reads = model.config, vocoder.config.model_in_dim
        if reads != config.num_mel_bins:
            raise ModelError(
                f"the vocoder reads {reads} bins, the model writes {config.num_mel_bins}", where="codec",
                hint="Give the vocoder that belongs to it: microsoft/speecht5_hifigan",
            )  # fmt: skip
        size = config.speaker_embedding_dim
        if voices.ndim != 2 or voices.shape[1] != size or not voices.shape[0]:
            raise ModelError(
                f"a voice is {size} numbers, the file has {tuple(voices.shape)}", where="voices",
                hint="Give the vectors of speakers for this model",
            )  # fmt: skip
        self.model, self.vocoder, self.config = model, vocoder, config
        self.voices = voices.to("float32").to(model.device)

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.vocoder.config.sampling_rate
        return found

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence in parts; None between steps."""
        options.refuse_variations()
        dropout = self.config.speech_decoder_prenet_dropout

        def keep(shape: tuple[int, ...]) -> Tensor:
            return (ops.rand(*shape, generator=generator) >= dropout).to("float32")

        written: list[Tensor] = []
        for frames in self.written(ids, options.speaker, keep):
            written.append(frames)
            if len(written) % STEPS_AT_ONCE == 0:
                yield None
        with no_grad():
            frames = self.vocoder.prepared(self.refined(written))  # (1, bins, F)
        yield from samples_of(self.vocoder.in_windows(frames))

    def written(self, ids: Sequence[int], speaker: int, keep: Any) -> Iterator[Tensor]:
        """The frames (1, r, bins) of one step after the other, not refined."""
        config, bins = self.config, self.config.num_mel_bins
        most = max(1, int(len(ids) * FRAMES_PER_TOKEN / config.reduction_factor))
        voice = self.voices.narrow(0, speaker, 1)
        with no_grad():
            memory = self.model.memory(int32_tensor(list(ids), self.device).unsqueeze(0), most)
            last = ops.zeros(1, 1, bins, device=self.device)
        for _ in range(memory.most):
            with no_grad():
                frames, ends = self.model.decode(last, voice, memory, keep)
                last = frames.narrow(1, frames.shape[1] - 1, 1)
                chance = float(ends.sigmoid().sum().item())
            yield frames
            if chance >= ENDS:
                return
            memory.advance()

    def refined(self, written: Sequence[Tensor]) -> Tensor:
        """The spectrogram (1, bins, F) of frames."""
        found: Tensor = self.model.speech_decoder_postnet.refined(ops.cat(list(written), 1)).transpose(1, 2)
        return found
