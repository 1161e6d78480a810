"""Speech by a model that writes the vectors of a codec (Pocket TTS, pyapp.models.pocket_tts), in the voice of a
recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .voice import Voice, finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

USUAL_CODEC = "eustlb/pocket-tts-audio-tokenizer"
USUAL: Mapping[str, float] = {  # where generation_config.json does not say them
    "temperature": 0.7, "num_flow_steps": 1, "eos_threshold": -4.0, "min_frames_before_eos": 6,
}  # fmt: skip
SHORT, AFTER_SHORT, AFTER = 4, 4, 2  # words of a short text, and vectors behind the end of one, and of another
TOKENS_A_SECOND, MORE = 3.0, 2.0  # of a text at least, and seconds more: how long speech may be
FADE = 0.005  # seconds at the beginning that become louder
LONGEST_VOICE = 60.0  # seconds of a recording


@dataclass(frozen=True)
class CapitalTokens:
    """Reads texts for the model, which begin with a capital letter and end with a mark: `words` is its tokenizer."""

    words: Any

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a text."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        text = text.strip()
        text = text[:1].upper() + text[1:] + ("." if text[-1:].isalnum() else "")
        return ReadText(tuple(self.words.encode(text, bos=False, eos=False, parse_special=False)), ())


class LatentVoice(Voice):
    """The model, its codec, and the vectors (T, latent_dim) of `voices`. `words`: its tokenizer; `generation`: the
    object of its generation_config.json. ModelError for values of it that cannot be, and for another codec.
    """

    def __init__(
        self, model: Any, codec: Any, words: Any, generation: Mapping[str, Any], voices: Sequence[Tensor] = ()
    ) -> None:
        self.model, self.config, self.codec, self._words = model, model.config, codec, words
        made, read = model.config.latent_dim, codec.config.latent_dim
        if made != read:
            raise ModelError(f"the model writes {made} numbers, the codec reads {read}", where="codec")
        self._values: dict[str, float] = {}
        for name, usual in USUAL.items():
            found = generation.get(name)
            found = usual if found is None else found
            if type(found) not in (int, float) or not abs(found) <= 1000 or (found < 0 and usual >= 0):
                raise ModelError(f"{name} is {found!r:.60}, expected a number", where="generation_config.json")
            self._values[name] = found
        if self._values["num_flow_steps"] < 1:
            raise ModelError("num_flow_steps is below 1", where="generation_config.json")
        self._drawn = generation.get("do_sample") is not False
        self.voices: list[Tensor] = []
        for voice in voices:
            if voice.ndim != 2 or voice.shape[1] != made or not voice.shape[0]:
                raise ModelError(f"a voice is (T, {made}), not {tuple(voice.shape)}", where="voices")
            self.voices.append(voice.to(self.device))

    @property
    def sample_rate(self) -> int:
        found: int = self.codec.sample_rate
        return found

    def hear(self, samples: NDArray[np.float32]) -> int:
        """Adds the voice of samples (N,) at the model's rate; returns its number. OptionError for samples that are
        none, and for more than a minute.
        """
        sound, step = self.recorded(samples), self.codec.config.samples_per_moment
        if sound.shape[2] > LONGEST_VOICE * self.sample_rate:
            raise OptionError(f"a voice is heard for up to {LONGEST_VOICE:g} seconds", where="samples")
        with no_grad():
            found = self.codec.encode(ops.pad(sound, (0, -sound.shape[2] % step)))
        self.voices.append(found[0])
        return len(self.voices) - 1

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a sentence; None between steps."""
        options.refuse_variations(but=("noise",))
        if not self.voices:
            raise OptionError(
                "the model speaks in the voice of a recording, and has heard none", where="voice",
                hint="Give --voices FILE, or call loaded.model.hear(samples)",
            )  # fmt: skip
        temperature = options.noise if options.noise is not None else self._values["temperature"] if self._drawn else 0
        numbers, width = np.random.Generator(np.random.Philox(key=seed)), self.config.latent_dim

        def noise() -> Tensor:
            drawn = numbers.standard_normal(width, np.float32) * np.float32(sqrt(temperature))
            return ops.from_numpy(drawn).to(self.device)

        words = len(self._words.decode(list(ids)).split())
        after = AFTER_SHORT if words <= SHORT else AFTER
        written: list[Tensor] = []
        for one in self.written(ids, self.voices[options.speaker], noise, after):
            written.append(one)
            yield None
        with no_grad():
            sound = self.sound(ops.stack(written))
        yield finite(sound.cpu().numpy())

    def written(self, ids: Sequence[int], voice: Tensor, noise: Any, after: int) -> Iterator[Tensor]:
        """The vectors (latent_dim,) of a sentence, `after` of them behind its end."""
        most = ceil((len(ids) / TOKENS_A_SECOND + MORE) * self.config.frame_rate)
        room = self.config.max_position_embeddings - len(ids) - voice.shape[0] - 2
        if room < 1:
            raise OptionError("the sentence and the voice are too long for the model", where="text")
        left: int | None = None
        frames = self.model.written(ids, voice, min(most, room), noise, int(self._values["num_flow_steps"]))
        for number, (latent, end) in enumerate(frames):
            yield latent
            if left is None and number >= self._values["min_frames_before_eos"] and end > self._values["eos_threshold"]:
                left = after
            if left == 0:
                return
            left = None if left is None else left - 1

    def sound(self, written: Tensor) -> Tensor:
        """Vectors (T, latent_dim) of the flow → samples (N,)."""
        found: Tensor = self.codec(self.model.latents(written).unsqueeze(0))[0, 0]
        count = min(int(FADE * self.sample_rate), found.shape[0])
        louder = ops.from_numpy(np.linspace(0, 1, max(int(FADE * self.sample_rate), 1), dtype=np.float32)[:count])
        return ops.cat(
            [found.narrow(0, 0, count) * louder.to(found.device), found.narrow(0, count, found.shape[0] - count)]
        )
