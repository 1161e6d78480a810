"""Windows to train on: what is said lies where the tokens say, and everything follows from numbers."""

import multiprocessing
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from pyapp.recipes.chooser import Chooser
from pyapp.recipes.prepared_batches import Stage
from pyapp.recipes.speech.grammar.sentences import training_sentences, words
from pyapp.recipes.speech.letters import ALPHABET
from pyapp.recipes.speech.loader import SPREAD, SpeechLoader
from pyapp.recipes.speech.scenes import CLEAN, Scene, choose_scene, noise, record, smooth_size
from pyapp.recipes.speech.windows import (
    IGNORED,
    Lesson,
    Phrase,
    Window,
    WindowMaker,
    features,
    fragment,
    letters,
    place,
    stretched,
)
from tests.recipes.speech.parts import LetterTokens, hum

pytestmark = pytest.mark.native_only  # the page has no recipes
RATE = 16_000
TOKENS = LetterTokens()


def maker(seed: int = 1, **settings: Any) -> WindowMaker:
    return WindowMaker(seed, TOKENS, 448, training_sentences, speaker=hum, **settings)  # type: ignore[arg-type]


def generator() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(1))


# -- scenes


def test_noise_is_as_loud_and_as_dull_as_asked() -> None:
    for slope in (0.0, 1.0, 2.0):
        spectrum = noise(64_000, slope, generator())
        assert spectrum.dtype == np.complex64
        samples = np.fft.irfft(spectrum, 64_000)
        assert np.sqrt(np.mean(samples.astype(np.float64) ** 2)) == pytest.approx(1, rel=1e-3)
        power = np.abs(np.fft.rfft(samples)) ** 2
        octaves = [power[low:high].mean() for low, high in ((2000, 4000), (4000, 8000), (8000, 16000))]
        falls = np.diff(np.log2(octaves))
        assert falls == pytest.approx([-slope, -slope], abs=0.15)


def test_a_scene_keeps_within_full_scale_and_the_length() -> None:
    speech = hum("one two three", None) * np.float32(3)  # type: ignore[arg-type]
    for number in range(20):
        scene = choose_scene(Chooser("scene", number))
        samples = record(speech, scene, generator())
        assert samples.shape == speech.shape and samples.dtype == np.float32
        assert 0 < np.abs(samples).max() <= 0.981


def test_a_scene_with_nothing_in_it_leaves_the_samples() -> None:
    speech = hum("one two three", None)  # type: ignore[arg-type]
    nothing = Scene(gain=0.0, distance=0.1, slope=0.5)  # chosen with every scene, used only with an echo and noise
    assert np.array_equal(record(speech, nothing, generator()), speech)


def test_the_noise_has_its_distance_to_speech() -> None:
    speech = hum("one two three four", None)  # type: ignore[arg-type]
    rest = record(speech, Scene(noise=20.0), generator()) - record(speech, CLEAN, generator())
    level = np.sqrt(np.mean(rest.astype(np.float64) ** 2))
    assert 20 * np.log10(0.1 / level) == pytest.approx(20, abs=0.2)


def test_an_echo_goes_on_after_the_sound_and_keeps_its_energy() -> None:
    click = np.zeros(RATE, np.float32)
    click[100] = 0.5
    samples = record(click, Scene(echo=0.3, distance=0.4), generator())
    energy = samples.astype(np.float64) ** 2
    assert energy.sum() == pytest.approx(0.25, rel=1e-3)
    late = energy[100 + RATE // 500 :]
    assert late.sum() == pytest.approx(0.25 * 0.4, rel=1e-2)
    assert late[: RATE // 10].sum() > 20 * late[RATE // 10 : RATE // 5].sum() > 0


def test_a_narrow_microphone_leaves_low_tones_and_takes_high_ones() -> None:
    times = np.arange(RATE) / RATE
    for hertz, left in ((500, 1.0), (4000, 0.5**0.5), (8000 / 1.25, 1 / np.sqrt(1 + 1.6**8))):
        tone = (0.1 * np.sin(2 * np.pi * hertz * times)).astype(np.float32)
        samples = record(tone, Scene(band=4000.0), generator())
        assert np.std(samples) / np.std(tone) == pytest.approx(left, abs=0.01)


def test_sizes_for_the_fourier_transform() -> None:
    for count in (1, 2, 3, 1000, 1025, 1281, 240_000):
        size = smooth_size(count)
        assert count <= size < 1.5 * count + 2


# -- windows


def test_an_example_is_the_same_each_time() -> None:
    for number in (0, 7):
        one, other = (maker().examples(number, Lesson(6.0, 1, takes=2)) for _ in range(2))
        for a, b in zip(one, other, strict=True):
            assert a.mel.tobytes() == b.mel.tobytes()
            assert (a.inputs, a.targets) == (b.inputs, b.targets)
        assert one[0].mel.tobytes() != one[1].mel.tobytes()  # another room


def test_shapes_and_tokens() -> None:
    kinds = set()
    for number in range(60):
        example = maker().examples(number, Lesson(8.0, 1, takes=1))[0]
        assert example.mel.shape == (80, 800) and example.mel.dtype == np.float32
        assert np.isfinite(example.mel).all()
        assert len(example.inputs) == len(example.targets)
        start = example.inputs.index(TOKENS.start)
        assert set(example.targets[:start]) <= {IGNORED}, "the text before is nothing to learn"
        kinds.add("prompt" if start else "no prompt")
        target = example.targets[start]
        kinds.add({TOKENS.no_speech: "silence", TOKENS.no_timestamps: "plain"}.get(target, "times"))
        times = [number - TOKENS.times for number in example.targets if number >= TOKENS.times]
        assert times == sorted(times) and all(0 <= time <= 400 for time in times)
        assert example.targets[-1] == TOKENS.end
    assert kinds == {"prompt", "no prompt", "silence", "plain", "times"}


def test_the_text_before_may_be_long() -> None:
    """Up to what the decoder keeps for it, with times that begin anew in each of its windows."""
    prompts = []
    for number in range(20):
        example = maker().examples(number, Lesson(8.0, 1, takes=1, before=12, prompted=1.0))[0]
        prompts.append(example.inputs[1 : example.inputs.index(TOKENS.start)])
    assert max(map(len, prompts)) == 448 // 2 - 1
    times = [[number - TOKENS.times for number in prompt if number >= TOKENS.times] for prompt in prompts]
    assert all(0 <= time <= 400 for prompt in times for time in prompt)
    assert any(before > after for prompt in times for before, after in zip(prompt, prompt[1:], strict=False))


def test_silence_has_no_text() -> None:
    inputs, targets = maker().token_rows(Window(np.zeros(16_000, np.float32)), [])
    assert inputs == [TOKENS.start, TOKENS.times]
    assert targets == [TOKENS.no_speech, TOKENS.end]


def test_a_phrase_that_is_cut_off_gives_its_start_alone() -> None:
    window = Window(np.zeros(0, np.float32), [Phrase(1.5, 2.5, "Yes.")], Phrase(3.0, 9.0, "Is it open?"))
    inputs, targets = maker().token_rows(window, [])
    later = [TOKENS.time(1.0), *TOKENS.encode("Yes."), TOKENS.time(2.5), TOKENS.time(3.0), TOKENS.end]
    assert targets == later, "the first time is never after 1.0 s"
    assert inputs == [TOKENS.start, *later[:-1]]


def test_speech_lies_where_the_tokens_say() -> None:
    """The sound is loud inside phrases, and silent in the pauses."""
    for number in range(20):
        lesson, chooser = Lesson(15.0, 1), Chooser("layout", number)
        window = maker().lay_out(chooser, maker().speech(chooser, training_sentences(5), lesson), lesson)
        assert window.phrases
        loud = np.abs(window.samples[: len(window.samples) // 160 * 160].reshape(-1, 160)).max(axis=1) > 0.01
        middle = np.arange(len(loud)) / 100 + 0.005  # seconds
        spoken = [*window.phrases, *([window.begun] if window.begun else [])]
        within = np.any([(middle > phrase.start) & (middle < phrase.end) for phrase in spoken], axis=0)
        assert np.mean(loud == within) > 0.99
        times = [time for phrase in spoken for time in (phrase.start, phrase.end)]
        assert times == sorted(times) and all(phrase.end <= 15 for phrase in window.phrases)


def test_live_sound_stops_and_begins_within_sentences() -> None:
    """Only words that are heard are written, and the first ones only where they were said before."""
    stopped = begun = 0
    for number in range(40):
        lesson, chooser = Lesson(15.0, 1, live=1.0), Chooser("live", number)
        spoken = maker().speech(chooser, training_sentences(number), lesson)
        whole = {one.text: one for one in spoken}
        window, before = maker().lay_out_live(chooser, spoken, lesson)
        assert len(window.samples) <= 15 * RATE and window.begun is None and window.phrases
        last, first = window.phrases[-1], window.phrases[0]
        assert last.end * RATE - 1 <= len(window.samples)
        if last.text not in whole and last is not first:
            sentence = next(one for one in spoken if one.text.startswith(last.text))
            stopped += 1
            assert len(words(last.text)) == sentence.words
            assert len(window.samples) == int(last.end * RATE), "the sound stops with the word"
        if before:
            begun += 1
            sentence = next(one for one in spoken if one.text.startswith(before))
            assert words(before) + words(first.text) == words(sentence.text)
            assert first.start == 0.0
    assert stopped > 10 and begun > 5


def test_a_broken_sentence_is_two_sounds() -> None:
    lesson = Lesson(8.0, 1, live=0.5)
    for number in range(20):
        spoken = maker().speech(Chooser("halves", number), training_sentences(number), lesson)
        assert not any(one.words for one in spoken[2:])
        for one in (one for one in spoken if one.words):
            said, rest = one.halves(Chooser(number))
            assert words(said.text) + words(rest.text) == words(one.text)
            assert np.array_equal(np.concatenate([said.samples, rest.samples]), one.samples)
            # A hum lasts as long within as at the end: it is cut by what a voice would have lengthened.
            assert 0.06 <= 0.2 * one.words - len(said.samples) / RATE <= 0.18


def test_the_text_before_may_have_no_times() -> None:
    kinds = set()
    for number in range(40):
        example = maker().examples(number, Lesson(8.0, 1, takes=1, prompted=1.0, live=0.5))[0]
        prompt = example.inputs[1 : example.inputs.index(TOKENS.start)]
        kinds.add(any(token >= TOKENS.times for token in prompt))
    assert kinds == {True, False}


def test_what_is_spelled_lies_within_what_is_heard() -> None:
    cut = 0
    for number in range(20):
        lesson, chooser = Lesson(8.0, 1), Chooser("letters", number)
        window = maker().lay_out(chooser, maker().speech(chooser, training_sentences(5), lesson), lesson)
        ids, heard = letters(window, 8.0)
        text = "".join(ALPHABET[letter - 1] for letter in ids)
        assert text.split() == [word for phrase in window.phrases for word in words(phrase.text)]
        cut += window.begun is not None
        assert heard == (400 if window.begun is None else int(window.begun.start / 0.02))
    assert 0 < cut < 20


def test_stretched_speech_is_longer_and_deeper() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE).astype(np.float32)
    for factor in (0.9, 1.1):
        longer = stretched(tone, factor)
        assert len(longer) == int(RATE * factor) and longer.dtype == np.float32
        peak = np.argmax(np.abs(np.fft.rfft(longer))) * RATE / len(longer)
        assert peak == pytest.approx(440 / factor, abs=2)
    assert np.array_equal(stretched(tone, 1.0), tone)


def test_placing_and_fragments() -> None:
    target = np.zeros(1000, np.float32)
    assert place(target, np.ones(2000, np.float32), 0.0, 0.0) and target[999] == 1
    assert not place(target, np.ones(2000, np.float32), 999 / RATE, 0.0), "a single sample is not begun"
    for number in range(50):
        part = fragment("Is the gate, please, open or closed?", Chooser(number))
        assert part and part in "Is the gate, please, open or closed?"


def test_features_are_filled_up_with_silence_or_zeros() -> None:
    speech = hum("one two", None)  # type: ignore[arg-type]
    ends = {round(float(features(speech, 300, Chooser(n))[:, -1].max()), 3) for n in range(30)}
    assert 0.0 in ends and len(ends) > 1


# -- the loader


def test_every_batch_has_its_place() -> None:
    loader = SpeechLoader(maker(), (Stage(0, Lesson(1.0, 2, takes=3)), Stage(50, Lesson(2.0, 2))), helpers=0)
    places = [loader.place(number) for number in range(50 + 4 * SPREAD)]
    assert len(set(places)) == len(places)
    assert {stage for stage, _, _ in places[:50]} == {0} and {stage for stage, _, _ in places[50:]} == {1}
    assert [take for _, _, take in places[: 3 * SPREAD]] == [0] * SPREAD + [1] * SPREAD + [2] * SPREAD
    assert [speech for _, speech, _ in places[: 2 * SPREAD]] == [*range(SPREAD)] * 2


@pytest.mark.parametrize("helpers", [0, 1])
def test_the_loader_goes_on_where_it_was(helpers: int) -> None:
    def loader() -> SpeechLoader:
        lessons = Lesson(1.2, 3, clear=True), Lesson(4.0, 2)
        return SpeechLoader(maker(), (Stage(0, lessons[0]), Stage(2 * SPREAD, lessons[1])), helpers)

    first = loader()
    batches = [first.batch() for _ in range(2 * SPREAD + 3)]
    assert first.position == 2 * SPREAD + 3
    assert [len(batch) for batch in batches] == [3] * (2 * SPREAD) + [2] * 3
    assert {batch[0].mel.shape[1] for batch in batches[: 2 * SPREAD]} == {120}
    assert batches[2 * SPREAD][0].mel.shape[1] == 400
    second = loader()
    for position in (SPREAD + 3, 2 * SPREAD + 1):  # in second takes, and in the other stage
        second.position = position
        again = second.batch()
        assert [example.mel.tobytes() for example in again] == [example.mel.tobytes() for example in batches[position]]
    for it in (first, second):
        it.close()
    assert not multiprocessing.active_children()


def test_ctrl_c_does_not_reach_the_helpers() -> None:
    """Not even while they are being imported: they would write tracebacks over the training's last words."""
    loader = SpeechLoader(maker(), (Stage(0, Lesson(1.0, 1)),), helpers=1)
    expected = SpeechLoader(maker(), (Stage(0, Lesson(1.0, 1)),), helpers=0).batch()
    try:
        loader._speak(0)
        (helper,) = multiprocessing.active_children()
        assert helper.pid is not None
        for _ in range(3):
            os.kill(helper.pid, signal.SIGINT)
            time.sleep(0.1)
        (found,) = loader.batch()
        os.kill(helper.pid, signal.SIGINT)
        assert found.mel.tobytes() == expected[0].mel.tobytes() and helper.is_alive()
    finally:
        loader.close()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == set()
