"""Speech of scripts with several speakers by VibeVoice (pyapp.models.vibevoice), in the voices of recordings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.text.tokenization.voice_tokenizer import ReadText

from .processors.samples import LevelledSampleProcessor
from .voice import Voice, finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.audio.speaking import SpeakOptions
    from pyapp.engine.ops.random import Generator

ORDER = (
    " Transform the text provided by various speakers into speech output, utilizing the distinct voice of each "
    "respective speaker.\n"
)  # as in training
VOICES, SCRIPT, SPEECH = " Voice input:\n", " Text input:\n", " Speech output:\n"
LINE = re.compile(r"\s*Speaker\s+(\d{1,3})\s*:\s*", re.IGNORECASE)
LONGEST = 1500  # characters that are spoken together, about a minute and a half
MOST_SPEAKERS = 4  # as in training
LONGEST_VOICE = 60.0  # seconds of a recording
TIMES = 2  # how many moments of speech there are for each token before it, at most
USUAL: Mapping[str, float] = {"guidance_scale": 1.3, "num_diffusion_steps": 10}  # where the files do not say them
# The schedule of the noise, where the files do not say it.
SCHEDULE: Mapping[str, Any] = {
    "_class_name": "DPMSolverMultistepScheduler", "beta_schedule": "squaredcos_cap_v2",
    "prediction_type": "v_prediction",
}  # fmt: skip


@dataclass(frozen=True)
class ScriptTokens:
    """Reads scripts for the model: `words` is its tokenizer."""

    words: Any

    def ids(self, text: str) -> tuple[int, ...]:
        """The tokens of a text; it has no special ones."""
        return tuple(self.words.encode(text, bos=False, eos=False, parse_special=False))

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The tokens of a script, each line of which begins with its speaker."""
        if phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        found = self.ids(SCRIPT)
        for line in text.split("\n"):
            found += self.ids(f" {line}\n")
        return ReadText(found + self.ids(SPEECH), ())


def passages(parts: Sequence[str]) -> list[str]:
    """Sentences joined to scripts of up to LONGEST characters, whose lines begin with who speaks, from 0 on.
    OptionError for more speakers than the model has learnt.
    """
    first = min((int(found[1]) for part in parts if (found := LINE.match(part))), default=0)
    scripts: list[str] = []
    speaker = 0
    for part in parts:
        named = LINE.match(part)
        said = part[named.end() :].strip() if named else part
        changes = named is not None and int(named[1]) - first != speaker
        speaker = int(named[1]) - first if named else speaker
        if speaker >= MOST_SPEAKERS:
            raise OptionError(f"a script has up to {MOST_SPEAKERS} speakers", where="text")
        if not said:
            continue
        own = f"Speaker {speaker}: {said}"
        if not scripts or len(scripts[-1]) + len(own) > LONGEST:
            scripts.append(own)
        else:
            scripts[-1] += f"\n{own}" if changes or named else f" {said}"
    return scripts


class ScriptVoice(Voice):
    """The model, its tokens, and the vectors (T, latent_size) of `voices`: the first one is Speaker 0's, and so on; the
    model makes up those that are missing. `generation`: the object of its generation_config.json; `schedule(steps)`
    makes the schedule of the noise. ModelError for values of it that cannot be.
    """

    def __init__(
        self, model: Any, tokens: ScriptTokens, generation: Mapping[str, Any], schedule: Callable[[int], Any],
        voices: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        self.model, self.config, self._tokens = model, model.config, tokens
        self._values: dict[str, float] = {}
        for name, usual in USUAL.items():
            found = generation.get(name)
            found = usual if found is None else found
            if type(found) not in (int, float) or not 0 <= found <= 1000:
                raise ModelError(f"{name} is {found!r:.60}, expected a number from 0", where="generation_config.json")
            self._values[name] = found
        self._steps = int(self._values["num_diffusion_steps"])
        if self._steps < 1:
            raise ModelError("num_diffusion_steps is below 1", where="generation_config.json")
        self._schedule = schedule
        schedule(self._steps)  # which refuses what cannot be
        self.voices: list[Tensor] = []
        size = model.config.acoustic.hidden_size
        for voice in voices:
            if voice.ndim != 2 or voice.shape[1] != size or not voice.shape[0]:
                raise ModelError(f"a voice is (T, {size}), not {tuple(voice.shape)}", where="voices")
            self.voices.append(voice.to(self.device))

    def passages(self, parts: Sequence[str]) -> list[str]:
        """The sentences of a text, joined to what is spoken together."""
        return passages(parts)

    def hear(self, samples: NDArray[np.float32]) -> int:
        """Adds the voice of samples (N,) at the model's rate; returns its number. OptionError for samples that are
        none, and for more than a minute.
        """
        sound = self.recorded(samples)
        if sound.shape[2] > LONGEST_VOICE * self.sample_rate:
            raise OptionError(f"a voice is heard for up to {LONGEST_VOICE:g} seconds", where="samples")
        levelled = LevelledSampleProcessor(self.sample_rate, step=self.config.acoustic.step)
        self.voices.append(self.model.heard(levelled.levelled(sound[0, 0].cpu().numpy()).to(self.device)))
        return len(self.voices) - 1

    def prompt(self, ids: Sequence[int], voices: Sequence[Tensor]) -> list[Tensor | Sequence[int]]:
        """What the model reads: what to do, the voices, and the tokens of a script."""
        begin, end = (self.config.tokens[f"audio_{name}_token_id"] for name in ("bos", "eos"))
        parts: list[Tensor | Sequence[int]] = [self._tokens.ids(ORDER)]
        if voices:
            parts.append(self._tokens.ids(VOICES))
        for number, voice in enumerate(voices):
            parts += [(*self._tokens.ids(f" Speaker {number}:"), begin), voice, (end, *self._tokens.ids("\n"))]
        return [*parts, (*ids, begin)]

    def spoken(
        self, ids: Sequence[int], options: SpeakOptions, generator: Generator, seed: int
    ) -> Iterator[NDArray[np.float32] | None]:
        """The samples of a script, moment by moment; None between steps."""
        options.refuse_variations(but=("noise",))
        size, scale = self.config.acoustic.hidden_size, np.float32(1 if options.noise is None else options.noise)
        numbers = np.random.Generator(np.random.Philox(key=seed))

        def noise() -> Tensor:
            return ops.from_numpy(numbers.standard_normal((1, size), np.float32) * scale).to(self.device)

        silent = True
        for made in self.written(ids, self._heard_in(ids, options.speaker), noise):
            silent = silent and made is None
            yield None if made is None else np.clip(finite(made.cpu().numpy()), -1, 1)
            yield None
        if silent:
            raise ModelError("the model says nothing to this text", hint="Write more of it, or choose another voice")

    def _heard_in(self, ids: Sequence[int], speaker: int) -> list[Tensor]:
        """The voices of a script: those of its speakers, or the one that was chosen for a script of one speaker."""
        text = self._tokens.words.decode(list(ids))
        speakers = 1 + max((int(number) for number in re.findall(r"^ ?Speaker (\d):", text, re.MULTILINE)), default=0)
        return self.voices[speaker : speaker + 1] if speakers == 1 else self.voices[:speakers]

    def written(self, ids: Sequence[int], voices: Sequence[Tensor], noise: Any) -> Iterator[Tensor | None]:
        """The samples (N,) of each moment of a script; None between them."""
        with no_grad():
            x = self.model.embedded(self.prompt(ids, voices))
        most = min(TIMES * x.shape[0], self.config.max_seq_len - x.shape[0])
        if most < 1:
            raise OptionError("the script and the voices are too long for the model", where="text")
        yield from self.model.written(
            x, most, noise, lambda: self._schedule(self._steps), self._values["guidance_scale"]
        )
