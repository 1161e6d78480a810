"""The word error rate of a speech model on sentences that are not in the training data: in voices from training and in
others, with and without noise, sentence by sentence, in long recordings, and live.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyapp.audio import SAMPLE_RATE
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import PyappError
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.speech.grammar.sentences import TEST_SEED, unseen_sentences, words
from pyapp.recipes.speech.scenes import CLEAN, Scene, noisy_scene, record
from pyapp.recipes.speech.voices import SEEN, UNSEEN, choose_voice, speak
from pyapp.recipes.speech.windows import Phrase, place

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLIPS = 500
RECORDINGS = 4
RECORDING_PHRASES = 25
LEAD, TAIL = 0.3, 0.5  # seconds of silence around a sentence
PUSHED = 0.25  # seconds of sound at a time, live

TIMES = "seconds between true and found ends"

Transcribe = Callable[["NDArray[np.float32]"], list[Phrase]]


@dataclass(frozen=True, slots=True)
class Recording:
    """Sound (samples,) at 16 kHz and the phrases in it."""

    samples: NDArray[np.float32]
    phrases: list[Phrase]


@dataclass(frozen=True, slots=True)
class Condition:
    """The conditions of the speech: voices from training or not, with noise and echo or without."""

    name: str
    variants: tuple[str, ...]
    noisy: bool

    def scene(self, chooser: Chooser) -> Scene:
        return noisy_scene(chooser) if self.noisy else CLEAN


CONDITIONS = (
    Condition("seen voices, clean", SEEN, False),
    Condition("seen voices, noise and echo", SEEN, True),
    Condition("unseen voices, clean", UNSEEN, False),
    Condition("unseen voices, noise and echo", UNSEEN, True),
)


def clips(condition: Condition, count: int = CLIPS) -> Iterator[Recording]:
    """`count` recordings of one unseen sentence each; always the same ones."""
    for number, text in enumerate(itertools.islice(unseen_sentences(f"{TEST_SEED}/{condition.name}"), count)):
        chooser = Chooser("clip", condition.name, number)
        yield recording([text], condition, chooser, lambda: TAIL)


def recordings(condition: Condition, count: int = RECORDINGS) -> Iterator[Recording]:
    """`count` recordings of a minute or two, of many unseen sentences with pauses between them."""
    for number in range(count):
        chooser = Chooser("recording", condition.name, number)
        texts = itertools.islice(unseen_sentences(f"{TEST_SEED}/long/{number}"), RECORDING_PHRASES)
        yield recording(list(texts), condition, chooser, partial(chooser.between, 0.3, 2.0))


def recording(texts: list[str], condition: Condition, chooser: Chooser, pause: Callable[[], float]) -> Recording:
    """The sentences one after another in one voice, with `pause()` seconds after each."""
    voice = choose_voice(chooser, condition.variants)
    spoken = [speak(text, voice) for text in texts]
    phrases, at = [], LEAD
    for text, samples in zip(texts, spoken, strict=True):
        end = at + len(samples) / SAMPLE_RATE
        phrases.append(Phrase(at, end, text))
        at = end + pause()
    whole = np.zeros(int(at * SAMPLE_RATE), np.float32)
    for phrase, samples in zip(phrases, spoken, strict=True):
        place(whole, samples, phrase.start, 0.0)
    random = np.random.Generator(np.random.PCG64(int(chooser.random() * 2**53)))
    return Recording(record(whole, condition.scene(chooser), random), phrases)


def word_errors(said: list[list[Phrase]], heard: list[list[Phrase]]) -> float:
    """The word error rate over all recordings: (substitutions + deletions + insertions) / words said. Case and
    punctuation do not count. Raises PyappError without the library jiwer.
    """
    try:
        import jiwer
    except ImportError as error:
        raise PyappError("the Python package `jiwer` is missing", hint="pip install 'pyapp[train]'") from error
    reference, hypothesis = ([_line(phrases) for phrases in texts] for texts in (said, heard))
    return float(jiwer.wer(reference, hypothesis))


def _line(phrases: list[Phrase]) -> str:
    return " ".join(word for phrase in phrases for word in words(phrase.text))


def time_errors(said: list[list[Phrase]], heard: list[list[Phrase]]) -> float:
    """The median error in seconds of the ends of phrases, over the recordings whose number of phrases is right."""
    pairs = [
        abs(one.end - other.end)
        for true, found in zip(said, heard, strict=True)
        if len(true) == len(found)
        for one, other in zip(true, found, strict=True)
    ]
    return float(np.median(pairs)) if pairs else float("nan")


def evaluate(
    transcribe: Transcribe, live: Transcribe | None = None, clip_count: int = CLIPS
) -> Iterator[tuple[str, float]]:
    """Yields names and figures: the word error rate in each condition and in long recordings, and the error of times in
    seconds. `live` also transcribes the long recordings live.
    """
    for condition in CONDITIONS:
        said, heard = _heard(transcribe, clips(condition, clip_count))
        yield condition.name, word_errors(said, heard)
        if condition is CONDITIONS[0]:
            yield TIMES, time_errors(said, heard)
    for condition in (CONDITIONS[0], CONDITIONS[3]):
        made = list(recordings(condition))
        for name, way in (("long recordings", transcribe), ("live", live)):
            if way is not None:
                yield f"{name}, {condition.name}", word_errors(*_heard(way, made))


def _heard(transcribe: Transcribe, made: Iterable[Recording]) -> tuple[list[list[Phrase]], list[list[Phrase]]]:
    items = list(made)
    return [item.phrases for item in items], [transcribe(item.samples) for item in items]


def transcriber(loaded: Any, **options: Any) -> Transcribe:
    """Transcribes with a loaded speech model."""
    from pyapp.audio.options import TranscribeOptions
    from pyapp.audio.transcribe import transcribe_events
    from pyapp.events import Segment

    def transcribe(samples: NDArray[np.float32]) -> list[Phrase]:
        events = transcribe_events(loaded, samples, TranscribeOptions(**options))
        return [Phrase(event.start, event.end, event.text) for event in events if isinstance(event, Segment)]

    return transcribe


def live_transcriber(loaded: Any) -> Transcribe:
    """Transcribes as from a microphone: sound arrives in pieces, and final text stays."""
    from pyapp.audio.streaming import LiveTranscriber
    from pyapp.events import Segment

    def transcribe(samples: NDArray[np.float32]) -> list[Phrase]:
        live, step = LiveTranscriber(loaded), int(PUSHED * SAMPLE_RATE)
        events = [event for at in range(0, len(samples), step) for event in live.push(samples[at : at + step])]
        events += live.finish()
        return [Phrase(event.start, event.end, event.text) for event in events if isinstance(event, Segment)]

    return transcribe
