"""Speech of texts, sentence by sentence, by a model that speaks (pyapp.models.loading.voice)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from pyapp.audio.replies import said_of
from pyapp.audio.voice import samples_of
from pyapp.audio.wav import as_pcm
from pyapp.dataclass import dataclass
from pyapp.engine import no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops.random import Generator
from pyapp.errors import OptionError, check_settings
from pyapp.events import Cancel, Done, Event, Notice, Progress, Sound
from pyapp.text.generation.options import check_number
from pyapp.text.passages import sentences

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST = 250  # characters that are spoken in one breath: longer sentences are divided
MOST_CHARACTERS = 1 << 22  # of a text
READ_AT_ONCE = 64  # sentences, between two turns of other work
SEEDS = 1 << 63
SLOWEST, FASTEST = 0.1, 10.0
MOST_PAUSE = 60.0  # seconds
MOST_DESCRIBED = 2000  # characters that describe a voice
# Where a long sentence is divided: after a mark inside a sentence, else between words.
CLAUSE = re.compile(r"(?<=[,;:—–])\s+|(?<=[、，；：،])\s*")
SHOWN = 8  # unknown characters in a notice
NAMES_SHOWN = 60  # of voices in an error


@dataclass(frozen=True)
class SpeakOptions:
    """How texts are spoken. OptionError, with the name of the setting, for an invalid value.

    - speaker: the number of a voice, of models that have several. voice: its name, of models whose voices have names
      (Kokoro, Orpheus); of Kokoro also several, NAME,NAME, which are mixed. rate: how fast, beside the model's own
      rate: 2 is twice as fast.
    - noise, noise_duration: how much the sound and the durations vary; None: as the model's configuration says. The
      noise of Parler-TTS is its temperature.
    - seed: of these variations: a text is spoken alike with the same one.
    - pause: seconds between two sentences. phonemes: the text has phonemes, which the model reads.
    - description: of the voice and the recording, for models that speak as a text says (Parler-TTS): "Jon speaks fast,
      in a small room"; None: a usual one.
    """

    speaker: int = 0
    voice: str | None = None
    rate: float = 1.0
    noise: float | None = None
    noise_duration: float | None = None
    seed: int = 0
    pause: float = 0.2
    phonemes: bool = False
    description: str | None = None

    def __post_init__(self) -> None:
        check_number("speaker", self.speaker, 0, 1 << 31, whole=True)
        if self.voice is not None and (type(self.voice) is not str or not self.voice_names()):
            raise OptionError(f"must be the name of a voice, not {self.voice!r:.60}", where="voice")
        if self.voice is not None and self.speaker:
            raise OptionError("a voice and a speaker are two choices of one thing", where="voice", hint="Give one")
        check_number("rate", self.rate, SLOWEST, FASTEST)
        for name in ("noise", "noise_duration"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0, 10)
        check_number("seed", self.seed, 0, SEEDS - 1, whole=True)
        check_number("pause", self.pause, 0, MOST_PAUSE)
        if type(self.phonemes) is not bool:
            raise OptionError(f"must be true or false, not {self.phonemes!r:.40}", where="phonemes")
        said = self.description
        if said is not None and (type(said) is not str or not 0 < len(said.strip()) <= MOST_DESCRIBED):
            raise OptionError(
                f"must be a text of 1 to {MOST_DESCRIBED:,} characters, not {said!r:.60}", where="description"
            )

    def seed_of(self, sentence: int) -> int:
        """The seed of a sentence, which is spoken alike whatever comes before it."""
        return (self.seed + sentence) % SEEDS

    def voice_names(self) -> list[str]:
        """The names of the voices that are mixed."""
        return [name.strip() for name in (self.voice or "").split(",") if name.strip()]

    def refuse_variations(self, but: tuple[str, ...] = ()) -> None:
        """OptionError for a rate or noise that is not the usual one, of models that have their own."""
        usual = SpeakOptions()
        for name in ("rate", "noise", "noise_duration"):
            if name not in but and getattr(self, name) != getattr(usual, name):
                raise OptionError("this model has its own", where=name, hint="Leave it out")

    def silence(self, rate: int) -> bytes:
        """The samples of a pause, 16 bits each."""
        return bytes(2 * round(self.pause * rate))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SpeakOptions:
        """From JSON values; unknown names are refused."""
        check_settings(values, (entry.name for entry in fields(cls)))
        return cls(**values)


def pieces(text: str, longest: int = LONGEST) -> list[str]:
    """The sentences and lines of a text, without white space around and in them; long ones are divided."""
    found: list[str] = []
    for start, end in sentences(text):
        found += _divided(" ".join(text[start:end].split()), longest)
    return found


def _divided(sentence: str, longest: int) -> Iterator[str]:
    """Parts of a sentence, none longer than `longest`: of equal length where it can be, each to the end of a clause,
    else of a word.
    """
    while len(sentence) > longest:
        wanted = max(1, len(sentence) // -(-len(sentence) // longest))
        ends = [match.end() for match in CLAUSE.finditer(sentence, 0, longest + 1) if 0 < match.start() <= longest]
        ends = [end for end in ends if end >= wanted // 2] or [
            match.end() for match in re.finditer(r"\s+", sentence[: longest + 1])
        ]
        end = min(ends, key=lambda place: abs(place - wanted), default=longest)
        yield sentence[:end].strip()
        sentence = sentence[end:].strip()
    if sentence:
        yield sentence


def speak(
    loaded: Any, text: str, options: SpeakOptions | Mapping[str, Any] | None = None
) -> tuple[NDArray[np.float32], int]:
    """The speech of a text as (samples float32 (N,) from -1 to 1, samples a second), by a model that load_voice has
    loaded. Errors are those of `speak_events`.
    """
    chosen = options if isinstance(options, SpeakOptions) else SpeakOptions.from_dict(options or {})
    found = [event.pcm for event in speak_events(loaded, text, chosen, Cancel()) if isinstance(event, Sound)]
    samples: NDArray[np.float32] = np.frombuffer(b"".join(found), "<i2").astype(np.float32) / np.float32(32768)
    return samples, loaded.model.sample_rate


def speak_events(
    loaded: Any, text: str, options: SpeakOptions, cancel: Cancel, reply_to: Sequence[Mapping[str, Any]] | None = None,
    writer: Any = None,
) -> Iterator[Event | None]:  # fmt: skip
    """Speaks a text: a Sound for each sentence as soon as it is computed, Progress in characters, a Notice of letters
    and digits that the model does not know, and Done with `duration` in seconds, `rate` in samples a second and
    `sentences`; None between steps of the work.

    reply_to: the text is a reply to this conversation (mappings with role and content), as language models write it:
    the marks of Markdown are not said, and one without anything to say has no sound. Models that also write (Qwen-Omni)
    speak it as their own reply, others as any text. writer: the loaded model that has written it, whose ears hear the
    recordings in the conversation, if it is the one that the voice belongs to.

    Raises OptionError for a text without anything to say or that the model cannot read, and for a speaker that it has
    not; ModelError if what it computes is not sound; Cancelled once `cancel` is set.
    """
    model = loaded.model
    check_text(text, reply_to is not None)
    options = named(loaded, options)
    if options.description is not None and not loaded.described:
        raise OptionError(
            "the model's voice is its own", where="description",
            hint="Leave it out, or choose a model that a text describes, such as parler-tts/parler-tts-mini-v1",
        )  # fmt: skip
    tokenizer = loaded.reader(options.speaker)
    parts: list[tuple[str, Any]] = []
    unknown: dict[str, None] = {}
    said = pieces(text if reply_to is None else said_of(text))
    asked = None
    if reply_to is not None and hasattr(model, "asked_in"):
        asked, recorded = yield from model.asked_in(reply_to, writer, cancel.check)
    if asked is not None:
        said = model.reply_passages(said)
    for number, part in enumerate(model.passages(said) if hasattr(model, "passages") else said):
        read = tokenizer.read(part, options.phonemes)
        unknown |= dict.fromkeys(read.unknown)
        parts += [(part, read)] if read.ids else []
        if number % READ_AT_ONCE == READ_AT_ONCE - 1:
            cancel.check()
            yield None
    if not parts and reply_to is None:
        raise OptionError(
            "there is nothing to say that the model knows", where="text", hint="Write letters of its language"
        )
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        yield Notice(
            f"characters that the model does not know are left out: {' '.join([*unknown][:SHOWN])}{more}",
            where=loaded.name, hint="Write numbers and signs as words",
        )  # fmt: skip
    rate, done, total = model.sample_rate, 0, sum(len(part) for part, _ in parts)
    samples = 0
    for number, (part, read) in enumerate(parts):
        heard, generator = bytearray(), Generator().manual_seed(options.seed_of(number))
        if asked is not None:
            steps = model.replied(asked, read.ids, options, options.seed_of(number), recorded)
        elif hasattr(model, "spoken"):  # it writes codes (pyapp.audio.token_voice)
            steps = model.spoken(read.ids, options, generator, options.seed_of(number))
        else:
            steps = _sentence(model, read.ids, options, generator)
        for step in steps:
            cancel.check()
            if step is not None:
                heard += as_pcm(step)
            yield None
        heard += options.silence(rate) if number < len(parts) - 1 else b""
        start, samples, done = samples, samples + len(heard) // 2, done + len(part)
        yield Sound(part, start / rate, samples / rate, rate, bytes(heard))
        yield Progress("speaking", done, total, "characters")
    yield Done("complete", {"duration": samples / rate, "rate": rate, "sentences": len(parts)})


def named(loaded: Any, options: SpeakOptions) -> SpeakOptions:
    """The settings with the number of the voice that they name. OptionError for a voice that the model has not."""
    names, known = options.voice_names(), loaded.voices
    if options.speaker and options.speaker >= loaded.speakers:
        has = "one voice" if loaded.speakers == 1 else f"the voices 0 to {loaded.speakers - 1}"
        raise OptionError(f"{options.speaker} is too large: the model has {has}", where="speaker")
    if not names:
        return options
    if not known:
        raise OptionError(
            "the model's voices have no names",
            where="voice",
            hint="Give the number: --speaker (in Python speaker=), in pyapp chat --voice-name",
        )
    for name in names:
        if name not in known:
            shown = ", ".join(known[:NAMES_SHOWN]) + (" …" if len(known) > NAMES_SHOWN else "")
            raise OptionError(f"the model has no voice {name!r:.60}", where="voice", hint=f"Its voices: {shown}")
    if len(names) > 1 and not loaded.mixes:
        raise OptionError("the model speaks in one voice", where="voice", hint="Name one")
    mixed = options.voice if len(names) > 1 else None
    return replace(options, speaker=0 if mixed else known.index(names[0]), voice=mixed)


def check_text(text: str, may_be_empty: bool = False) -> None:
    """OptionError for a text that is empty or too long, and for anything else."""
    if not isinstance(text, str):
        raise OptionError(f"must be a text, not {type(text).__name__}", where="text")
    if len(text) > MOST_CHARACTERS:
        raise OptionError(f"{len(text):,} characters are more than {MOST_CHARACTERS:,}", where="text")
    if not text.strip() and not may_be_empty:
        raise OptionError("there is nothing to say", where="text")


def _sentence(
    model: Any, ids: tuple[int, ...], options: SpeakOptions, generator: Generator
) -> Iterator[NDArray[np.float32] | None]:
    """The samples of a sentence in parts; None between steps."""
    config = model.config
    of_durations = config.noise_scale_duration if options.noise_duration is None else options.noise_duration
    of_frames = config.noise_scale if options.noise is None else options.noise

    def drawn(shape: tuple[int, ...], scale: float) -> Any:
        return (ops.randn(*shape, generator=generator) * scale).to(model.device)

    with no_grad():
        speaker = model.speaker(options.speaker)
        text = model.read(int32_tensor(list(ids), model.device).unsqueeze(0))
    yield None
    with no_grad():
        durations = model.durations(
            text, drawn((1, 2, len(ids)), of_durations), speaker, config.speaking_rate * options.rate
        )
    yield None
    with no_grad():
        frames, _ = model.frames(text, durations, lambda shape: drawn(shape, of_frames), speaker)
    yield from samples_of(model.decoder.in_windows(frames, speaker))
