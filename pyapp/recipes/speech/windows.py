"""Windows of sound to train on, with the sentences in them and their times.

A window is one input of Whisper: some sentences with pauses, the last one perhaps cut off by the window's end, or no
speech at all. Other windows are like live sound: they stop during speech, or begin after words that are already
transcribed and whose sound is gone. Each window is made when it is needed, from its number alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING

from pyapp.audio import SAMPLE_RATE, log_mel_spectrogram
from pyapp.audio.mel import HOP
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.speech.letters import spell
from pyapp.recipes.speech.scenes import Scene, choose_scene, record
from pyapp.recipes.speech.tokens import TIME_STEP, SpeechTokens
from pyapp.recipes.speech.voices import SEEN, Voice, choose_clear_voice, choose_voice, speak
from pyapp.train.token_rows import IGNORED

if TYPE_CHECKING:
    from numpy.typing import NDArray


LATEST_START = 1.0
"""Seconds: Whisper's decoder allows no later first timestamp, whatever the pause before the first word."""
NO_SPEECH = 0.06  # of the windows
LONG = 8.0  # seconds: half of the windows that are shorter have no noise and echo
STRETCH = (0.88, 1.12)
BEGUN = 0.06  # seconds of a sentence in the window for it to count as begun
BROKEN = 2  # sentences of a window that may be broken in two
LENGTHENED = (0.06, 0.18)
"""Seconds by which espeak-ng lengthens the word before a pause. The median is 0.12."""

Speaker = Callable[[str, Voice], "NDArray[np.float32]"]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence and its times in seconds."""

    start: float
    end: float
    text: str


@dataclass
class Window:
    """Sound (samples,) at 16 kHz and its phrases. `begun` is the phrase that the window's end cuts off."""

    samples: NDArray[np.float32]
    phrases: list[Phrase] = field(default_factory=list)
    begun: Phrase | None = None


@dataclass(frozen=True)
class Example:
    """One row of a batch: `mel` (80, frames); the decoder's inputs and as many targets, some of them IGNORED; and the
    letters (see letters.py) that are spoken in the first `heard` positions of the encoder.
    """

    mel: NDArray[np.float32]
    inputs: list[int]
    targets: list[int]
    letters: list[int]
    heard: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """A kind of windows: `seconds` long, `rows` in a batch.

    The same speech is laid out and recorded in `takes` ways, because speaking takes most of the time. `clear`: a few
    voices, no noise, no echo. The share `prompted` of the windows follows up to `before` earlier sentences. The share
    `live` stops or begins within a sentence.
    """

    seconds: float
    rows: int
    takes: int = 4
    clear: bool = False
    before: int = 4
    prompted: float = 0.3
    live: float = 0.0

    @property
    def name(self) -> str:
        """Lessons of the same name use the same speech."""
        return str(self.seconds) if self.before == 4 else f"{self.seconds} after {self.before}"

    @property
    def sentences(self) -> int:
        """How many sentences are spoken for a window, which uses some of them."""
        return 2 + round(self.seconds / 2)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence and its sound (samples,). It may be split after `words` words, which alone take `middle` samples."""

    text: str
    samples: NDArray[np.float32]
    words: int = 0
    middle: int = 0

    def halves(self, chooser: Chooser) -> tuple[Spoken, Spoken]:
        """The parts before and after the split."""
        parts = self.text.split()
        at = max(SAMPLE_RATE // 20, self.middle - int(chooser.between(*LENGTHENED) * SAMPLE_RATE))
        first, second = " ".join(parts[: self.words]).rstrip(","), " ".join(parts[self.words :])
        return Spoken(first, self.samples[:at]), Spoken(second, self.samples[at:])


class WindowMaker:
    """Makes the windows of a seed: `examples(number, lesson)` is the same each time.

    `sentences(name)` gives the sentences of one window, without end. `variants` are the timbres of the voices.
    `speaker` turns a sentence into sound; without one, voices.speak does.
    """

    def __init__(
        self,
        seed: int,
        tokens: SpeechTokens,
        text_context: int,
        sentences: Callable[[str], Iterator[str]],
        variants: tuple[str, ...] = SEEN,
        speaker: Speaker | None = None,
    ) -> None:
        self._seed = seed
        self._tokens = tokens
        self._limit = text_context // 2  # Whisper's decoder keeps one half for the text before
        self._sentences = sentences
        self._variants = variants
        self._speak = speaker or speak

    def examples(self, number: int, lesson: Lesson) -> list[Example]:
        """The same speech in `lesson.takes` windows: features (80, seconds * 100), tokens and letters."""
        chooser = Chooser("window", self._seed, lesson.name, number)
        random = np.random.Generator(np.random.PCG64(int(chooser.random() * 2**53)))
        sentences = self._sentences(f"{self._seed}/{lesson.name}/{number}")
        spoken = self.speech(chooser, sentences, lesson)
        return [self._example(chooser, random, spoken, sentences, lesson) for _ in range(lesson.takes)]

    def speech(self, chooser: Chooser, sentences: Iterator[str], lesson: Lesson) -> list[Spoken]:
        """Spoken sentences, mostly in one voice, a few of them cut to some words. The first ones fit into a window."""
        voice = self._voice(chooser, lesson.clear)
        spoken: list[Spoken] = []
        while len(spoken) < lesson.sentences:
            text = next(sentences)
            if chooser.chance(0.06):
                text = fragment(text, chooser)
            samples = self._speak(text, voice)
            if len(spoken) > 1 or len(samples) / SAMPLE_RATE < 0.85 * lesson.seconds:
                one = Spoken(text, samples)
                spoken.append(self._broken(one, voice, chooser) if lesson.live and len(spoken) < BROKEN else one)
            if chooser.chance(0.2):
                voice = self._voice(chooser, lesson.clear)
        return spoken

    def _broken(self, spoken: Spoken, voice: Voice, chooser: Chooser) -> Spoken:
        """The same with a place to split it, if it is long enough."""
        parts = spoken.text.split()
        words = 1 + int(chooser.random() * (len(parts) - 1))
        if len(parts) < 3:
            return spoken
        middle = len(self._speak(" ".join(parts[:words]).rstrip(","), voice))
        return replace(spoken, words=words, middle=middle) if middle < len(spoken.samples) else spoken

    def _example(
        self,
        chooser: Chooser,
        random: np.random.Generator,
        spoken: list[Spoken],
        sentences: Iterator[str],
        lesson: Lesson,
    ) -> Example:
        words = ""
        if chooser.chance(NO_SPEECH):
            window = Window(np.zeros(int(chooser.between(0.5, lesson.seconds) * SAMPLE_RATE), np.float32))
        elif chooser.chance(lesson.live):
            window, words = self.lay_out_live(chooser, spoken, lesson)
        else:
            window = self.lay_out(chooser, spoken, lesson)
        scene = choose_scene(chooser)
        if lesson.clear or (lesson.seconds < LONG and chooser.chance(0.5)):
            scene = Scene(scene.gain)
        samples = record(window.samples, scene, random)
        count = int(chooser.between(1, lesson.before + 1)) if chooser.chance(lesson.prompted) else 0
        before = [next(sentences) for _ in range(count)]
        if words or (lesson.live and chooser.chance(0.5)):
            prompt = self._plain_prompt([*before, words])
        else:
            prompt = self._prompt(before, chooser, lesson.seconds)
        inputs, targets = self.token_rows(window, prompt, chooser.chance(0.1))
        mel = features(samples, round(lesson.seconds * 100), chooser)
        return Example(mel, inputs, targets, *letters(window, lesson.seconds))

    def lay_out(self, chooser: Chooser, spoken: list[Spoken], lesson: Lesson) -> Window:
        """Some of `spoken` in any order with pauses between them: in a third of the cases a few that end before the
        window, otherwise as many as fill it.
        """
        seconds = lesson.seconds
        few = int(chooser.between(1, 4)) if chooser.chance(0.35) else 1 << 30
        window = Window(np.zeros(int(seconds * SAMPLE_RATE), np.float32))
        at = self._pause(chooser, first=True)
        rest = list(spoken)
        while at < seconds and rest and len(window.phrases) < few:
            next_one = rest.pop(int(chooser.random() * len(rest)))
            samples = stretched(next_one.samples, chooser.between(*STRETCH) if chooser.chance(0.7) else 1.0)
            end = at + len(samples) / SAMPLE_RATE
            if end > seconds and not window.phrases:  # the first one must fit: earlier, or another one
                at = min(at, max(0.0, seconds - 0.1 - len(samples) / SAMPLE_RATE))
                end = at + len(samples) / SAMPLE_RATE
                if end > seconds:
                    continue
            if place(window.samples, samples, at, chooser.between(-5, 3)) and end > seconds:
                window.begun = Phrase(at, end, next_one.text)
                return window
            if end <= seconds:
                window.phrases.append(Phrase(at, end, next_one.text))
            at = end + self._pause(chooser)
        window.samples = window.samples[: int(at * SAMPLE_RATE)]
        return window

    def lay_out_live(self, chooser: Chooser, spoken: list[Spoken], lesson: Lesson) -> tuple[Window, str]:
        """Up to five sentences: the last one is unfinished, or the first began before the window, or both. Also returns
        the words of the first that came before the window.
        """
        broken = [one for one in spoken if one.words]
        begins = bool(broken) and chooser.chance(0.4)
        stops = bool(broken) and (not begins or chooser.chance(0.7))
        order = [one for one in spoken if not one.words][: int(chooser.between(0, 4))]
        before = ""
        if begins:
            said, rest = broken[0].halves(chooser)
            order.insert(0, rest)
            before = said.text if chooser.chance(0.85) else ""
        if stops:
            order.append(broken[-1].halves(chooser)[0])
        window = Window(np.zeros(int(lesson.seconds * SAMPLE_RATE), np.float32))
        at = 0.0 if begins else self._pause(chooser, first=True)
        factor, gain, end = chooser.between(*STRETCH), chooser.between(-5, 3), 0.0
        for one in order:
            samples = stretched(one.samples, factor)
            if at + len(samples) / SAMPLE_RATE > lesson.seconds:
                break
            place(window.samples, samples, at, gain)
            end = at + len(samples) / SAMPLE_RATE
            window.phrases.append(Phrase(at, end, one.text))
            at = end + self._pause(chooser)
        if stops and len(window.phrases) == len(order):
            at = end
        window.samples = window.samples[: int(at * SAMPLE_RATE)]
        return window, before if window.phrases else ""

    def _voice(self, chooser: Chooser, clear: bool) -> Voice:
        return choose_clear_voice(chooser) if clear else choose_voice(chooser, self._variants)

    @staticmethod
    def _pause(chooser: Chooser, first: bool = False) -> float:
        """Seconds."""
        draw = chooser.random()
        if first and draw < 0.4:
            return chooser.between(0, 0.2)
        return chooser.between(0.15, 1.0) if draw < 0.75 else chooser.between(1.0, 3.0)

    def _prompt(self, before: list[str], chooser: Chooser, seconds: float) -> list[int]:
        """The earlier text with the timestamps of its windows, as Whisper's decoder passes it on."""
        ids, at = [], chooser.between(0, 1)
        for text in before:
            end = at + chooser.between(1, 4)
            if end > seconds:
                at, end = 0.0, end - at
            ids += [self._tokens.time(at), *self._tokens.encode(text), self._tokens.time(end)]
            at = end + chooser.between(0, 1)
        return [self._tokens.previous, *ids[-(self._limit - 1) :]] if before else []

    def _plain_prompt(self, before: list[str]) -> list[int]:
        """The earlier text without timestamps: as a user's prompt, or as live decoding keeps it."""
        ids = [number for text in before if text for number in self._tokens.encode(text)]
        return [self._tokens.previous, *ids[-(self._limit - 1) :]] if ids else []

    def token_rows(self, window: Window, prompt: list[int], plain: bool = False) -> tuple[list[int], list[int]]:
        """The decoder's inputs and targets. `plain`: without timestamps, unless the window's end cuts a sentence off.

        The first target of a window without speech is the no-speech token. The tokens after it are those of an empty
        text, for a decoder that goes on nevertheless.
        """
        tokens = self._tokens
        quiet = not window.phrases and window.begun is None
        body = [tokens.start]
        if quiet:
            body += [tokens.times, tokens.end]
        elif plain and window.begun is None:
            body.append(tokens.no_timestamps)
            body += [number for phrase in window.phrases for number in tokens.encode(phrase.text)]
            body.append(tokens.end)
        else:
            for number, phrase in enumerate(window.phrases):
                start = phrase.start if number else min(phrase.start, LATEST_START)
                body += [tokens.time(start), *tokens.encode(phrase.text), tokens.time(phrase.end)]
            body += [] if window.begun is None else [tokens.time(window.begun.start)]
            body.append(tokens.end)
        prompt = prompt[: 2 * self._limit - len(body)]  # both fit into the decoder's context
        targets = body[1:]
        if quiet:
            targets[0] = tokens.no_speech
        return [*prompt, *body[:-1]], [*[IGNORED] * len(prompt), *targets]


def fragment(text: str, chooser: Chooser) -> str:
    """Some words of a sentence: a live recording may be read, or may begin, in the middle of one."""
    parts = text.rstrip(".?").split()
    first = int(chooser.random() * len(parts)) if chooser.chance(0.5) else 0
    last = first + 1 + int(chooser.random() * (len(parts) - first))
    return " ".join(parts[first:last]).rstrip(",")


def stretched(samples: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """The sound played `factor` times as long: above 1 it is slower and deeper, like a longer vocal tract."""
    places = np.arange(int(len(samples) * factor), dtype=np.float32) / np.float32(factor)
    return np.interp(places, np.arange(len(samples), dtype=np.float32), samples).astype(np.float32)


def letters(window: Window, seconds: float) -> tuple[list[int], int]:
    """The letters of a window, and the number of the encoder's positions that they lie in: those before a sentence that
    is cut off.
    """
    until = seconds if window.begun is None else min(seconds, window.begun.start)
    return spell(" ".join(phrase.text for phrase in window.phrases)), int(until / TIME_STEP)


def place(target: NDArray[np.float32], samples: NDArray[np.float32], at: float, gain: float) -> bool:
    """Adds as much of `samples` as fits to `target` at `at` seconds, `gain` dB louder.

    Adds nothing and returns False where less than BEGUN seconds fit.
    """
    first = int(at * SAMPLE_RATE)
    count = min(len(samples), len(target) - first)
    if count < min(len(samples), int(BEGUN * SAMPLE_RATE)):
        return False
    target[first : first + count] += samples[:count] * np.float32(10 ** (gain / 20))
    return True


def features(samples: NDArray[np.float32], frames: int, chooser: Chooser) -> NDArray[np.float32]:
    """The log-mel spectrogram (80, frames), filled up as decoders do: with silence before the transform, or with zeros
    after it.

    Sometimes its floor is higher, as if something louder came later in the recording.
    """
    silence = max(0, frames * HOP - len(samples)) if chooser.chance(0.5) else 0
    mel = log_mel_spectrogram(samples, padding=silence)[:, :frames]
    if chooser.chance(0.3) and mel.size:
        mel = np.maximum(mel, mel.max() + np.float32(chooser.between(0, 0.3)) - np.float32(2))
    result = np.zeros((len(mel), frames), np.float32)
    result[:, : mel.shape[1]] = mel
    return result
