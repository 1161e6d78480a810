"""Who speaks when: filter banks beside torchaudio, clusters beside SciPy, hand-made networks for speakers, turns, and
whose the words of a transcript are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import onnx
from pyapp.audio.activity import EnergyDetector
from pyapp.audio.clustering import average_linkage, cluster, cosine_distances, labels_of, numbered
from pyapp.audio.filter_banks import filter_bank
from pyapp.audio.speakers import SpeakerFinder, SpeakerNetwork, _Window, turns_of
from pyapp.audio.turns import Turn, Turns
from pyapp.audio.windows import Samples
from pyapp.audio.word_times import Draft, WordTime
from pyapp.errors import Cancelled, ModelError, OptionError
from pyapp.events import Cancel
from tests.audio.make_golden_turns import COUNTS, THRESHOLDS
from tests.audio.networks import speaker_network
from tests.audio.sounds import noise, place, silence, syllable
from tests.audio.speaker_sounds import SOUNDS, vectors_of


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).with_name("golden_turns.npz")) as file:
        return dict(file)


@pytest.mark.parametrize("window", ["povey", "hamming"])
@pytest.mark.parametrize("name", SOUNDS)
def test_filter_banks_are_kaldis(golden: dict[str, np.ndarray], name: str, window: str) -> None:
    made, wanted = filter_bank(SOUNDS[name](), 80, window), golden[f"bank {name} {window}"]
    assert made.shape == wanted.shape
    audible = (
        wanted > wanted.max(axis=1, keepdims=True) - 18
    )  # below it the rounding of torch's float32 is all there is
    assert np.abs(made - wanted)[audible].max() < 2e-3 and audible.mean() > 0.2


def test_filter_banks_of_little_and_wrong() -> None:
    assert filter_bank(noise(0.024), 80).shape == (0, 80)
    for bins, window in ((0, "povey"), (1000, "povey"), (80, "square")):
        with pytest.raises(OptionError):
            filter_bank(noise(0.1), bins, window)


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_scipys(golden: dict[str, np.ndarray], seed: int) -> None:
    vectors = vectors_of(seed)
    merges = average_linkage(cosine_distances(vectors))
    assert np.allclose([merge[0] for merge in merges], golden[f"heights {seed}"], atol=1e-5)
    for threshold in THRESHOLDS:
        labels = labels_of([merge for merge in merges if merge[0] <= threshold], len(vectors))
        assert np.array_equal(labels, numbered(golden[f"cut {seed} {threshold}"])), threshold
    for count in COUNTS:
        labels = labels_of(merges[: len(vectors) - count], len(vectors))
        assert np.array_equal(labels, numbered(golden[f"count {seed} {count}"])), count


def test_small_clusters_join_large_ones() -> None:
    first, second, odd = np.eye(3, dtype=np.float32)
    vectors = np.stack([first] * 30 + [second] * 30 + [odd + 0.1 * second])
    for wanted in (None, 2):
        labels = cluster(vectors, 0.5, wanted)
        assert labels.tolist() == [0] * 30 + [1] * 31
    assert set(cluster(vectors, 0.5, 3)) == {0, 1, 2}
    assert cluster(vectors[:1], 0.5).tolist() == [0] and cluster(vectors[:0], 0.5).tolist() == []
    assert cluster(vectors[:2], 0.5, 5).tolist() == [0, 1]  # there are no more
    with pytest.raises(OptionError):
        cluster(vectors, 0.0)


def test_more_vectors_than_distances_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.audio.clustering.MOST", 20)
    vectors = vectors_of(0)
    labels = cluster(vectors, 0.6)
    monkeypatch.undo()
    assert np.array_equal(labels, cluster(vectors, 0.6))


# -- networks


def network(**changes: Any) -> SpeakerNetwork:
    return SpeakerNetwork(onnx.load(speaker_network(**changes)), "voices.onnx")


LOW, HIGH = 110.0, 240.0


def voice(seconds: float, pitch: float) -> np.ndarray:
    """Syllables of one pitch, whose harmonics are its own."""
    return np.concatenate([syllable(0.25, pitch) for _ in range(round(seconds / 0.25))])


def dialogue() -> np.ndarray:
    return place(14.0, (0.5, voice(4, LOW)), (5.0, voice(4, HIGH)), (9.5, voice(4, LOW))) + noise(14.0, 1e-4)


def listen(net: SpeakerNetwork, sound: Any, wanted: int | None = None, threshold: float = 0.6) -> Turns:
    finder = SpeakerFinder(net, wanted, threshold)
    for _ in finder.listen(Samples(sound), EnergyDetector(), Cancel()):
        pass
    return finder.turns()


UNCENTRED = {"framework": "wespeaker", "feature_normalize_type": "", "sample_rate": "16000", "normalize_samples": "0"}
VOICES = {"metadata": UNCENTRED, "spectrum": True}


def test_two_voices() -> None:
    net = network(**VOICES)
    vectors = net.vectors(np.stack([voice(1.5, LOW), voice(1.5, HIGH), voice(1.5, LOW)]))
    assert vectors.shape == (3, 80)
    expected = np.exp(filter_bank(voice(1.5, LOW) * np.float32(32768), 80, "hamming") / 2).mean(axis=0)
    assert np.allclose(vectors[0], expected, rtol=1e-3)
    near = listen(net, dialogue(), 2)
    assert [turn.speaker for turn in merged(near)] == [0, 1, 0]
    for (start, end), speaker in (((0.6, 4.4), 0), ((5.1, 8.9), 1), ((9.6, 13.4), 0)):
        assert near.speaker(start, end) == speaker
    blocks: Iterator[np.ndarray] = iter(np.array_split(dialogue(), 9))
    assert listen(net, blocks, 2).turns == near.turns
    assert {turn.speaker for turn in listen(net, dialogue(), None, 1.0).turns} == {0}
    assert listen(net, dialogue(), 1).speakers == 1


def merged(turns: Turns) -> list[Turn]:
    return [turn for at, turn in enumerate(turns.turns) if at == 0 or turn.speaker != turns.turns[at - 1].speaker]


def test_kinds_of_networks() -> None:
    window = voice(1.5, LOW)[None]
    povey = filter_bank(window[0], 80)
    centred = network(input="feature").vectors(window)  # 3D-Speaker's
    assert np.abs(centred).max() < 1e-3  # a mean without itself
    assert np.allclose(
        network(input="feature", metadata=UNCENTRED | {"framework": "3d-speaker", "normalize_samples": "1"}).vectors(
            window
        ),
        povey.mean(axis=0),
        atol=1e-3,
    )
    for shape in (("batch", "samples"), ("batch", 1, "samples"), (1, 24000)):
        made = network(shape=shape).vectors(np.repeat(window, 3, axis=0))
        assert made.shape[0] == 3 and np.allclose(made[:, -1], (window**2).mean(), atol=1e-6)
    assert network(shape=(1, 98, 80)).samples == 400 + 97 * 160
    assert network(shape=(1, 98, 80), **VOICES).vectors(voice(1.0, LOW)[None, : 400 + 97 * 160]).shape == (1, 80)
    assert network(logits=True, **VOICES).vectors(window).shape == (1, 80)  # the vector is the last output


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"second": True}, "it takes feats, length, expected one input"),
        ({"shape": ("batch", "frames", 7)}, "it reads float32 ('batch', 'frames', 7)"),
        ({"shape": ("batch", 3, 224, 224)}, "it reads float32"),
        ({"shape": ("batch", "frames", 80), "element": "float64"}, "it reads float64"),
        ({"metadata": {"sample_rate": "8000"}}, "for sound of 8000 Hz"),
        ({"shape": (1, 1 << 40)}, "it reads float32"),
    ],
)
def test_other_networks(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError) as error:
        network(**changes)
    assert says in error.value.what and error.value.where == "voices.onnx" and error.value.hint


@pytest.mark.parametrize(
    ("wrong", "says"), [("nan", "not finite"), ("zero", "zeros"), ("frames", "expected (1, size)")]
)
def test_wrong_vectors(wrong: str, says: str) -> None:
    with pytest.raises(ModelError) as error:
        listen(network(wrong=wrong, **VOICES), place(3.0, (0.5, voice(2, LOW))), 2)
    assert says in error.value.what.replace("2 windows, expected (2", "1 windows, expected (1").replace("(3,", "(1,")


def test_silence_and_little_speech() -> None:
    net = network(**VOICES)
    for sound in (silence(3.0), silence(0.0), silence(0.01), place(2.0, (1.0, syllable(0.05)))):
        assert listen(net, sound, 2).turns == []
    short = listen(net, place(2.0, (0.7, voice(0.5, LOW))), 2)
    assert [turn.speaker for turn in short.turns] == [0] and short.speakers == 1
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        net.vectors(np.zeros((2, net.samples), np.float32), cancel)
    with pytest.raises(Cancelled):
        list(SpeakerFinder(net).listen(Samples(dialogue()), EnergyDetector(), cancel))


def test_long_speech_is_reported_as_it_is_heard() -> None:
    sound = np.concatenate([voice(30, LOW), silence(0.5)])
    finder = SpeakerFinder(network(**VOICES))
    steps = [step.done for step in finder.listen(Samples(sound), EnergyDetector(), Cancel(), 30.5)]
    assert len(steps) >= 2 and steps == sorted(steps) and 29 < steps[-1] <= 30.5
    assert finder.turns().speakers == 1


# -- turns


def test_a_lone_window_belongs_to_those_around() -> None:
    windows = [_Window(0, 0.75 * at, 0.75 * at + 1.5) for at in range(6)]
    assert turns_of(windows, [4, 4, 7, 4, 4, 4]) == [Turn(0.0, 5.25, 0)]
    assert turns_of(windows, [4, 4, 4, 7, 7, 7]) == [Turn(0.0, 2.625, 0), Turn(2.625, 5.25, 1)]
    apart = [_Window(at, 2.0 * at, 2.0 * at + 1) for at in range(3)]
    assert turns_of(apart, [1, 0, 1]) == [Turn(0.0, 1.0, 0), Turn(2.0, 3.0, 1), Turn(4.0, 5.0, 0)]


TALK = Turns([Turn(0.0, 2.0, 0), Turn(2.0, 4.0, 1), Turn(6.0, 8.0, 0)])


def test_speakers_of_times() -> None:
    for start, end, speaker in (
        (0.5, 1.0, 0), (1.5, 2.2, 0), (1.8, 2.4, 1), (3.9, 4.5, 1), (4.2, 4.4, 1), (5.8, 5.9, 0), (9.0, 9.5, 0),
        (0.0, 8.0, 0), (1.0, 1.0, 0), (3.0, 3.0, 1),
    ):  # fmt: skip
        assert TALK.speaker(start, end) == speaker, (start, end)
    assert Turns([]).speaker(0.0, 1.0) is None and Turns([]).speakers == 0 and TALK.speakers == 2


def said(*words: tuple[str, float, float]) -> list[WordTime]:
    return [WordTime(word, [10 + at], start, end, 0.9) for at, (word, start, end) in enumerate(words)]


def test_a_change_moves_to_a_pause_or_the_end_of_a_sentence() -> None:
    words = said((" so", 1.2, 1.4), (" it", 1.4, 1.6), (" is.", 1.6, 2.2), (" Yes", 2.3, 2.6), (" well", 2.6, 3.0))
    assert TALK.of_words(words) == [0, 0, 0, 1, 1]
    late = said((" a", 1.0, 1.5), (" b", 1.55, 1.7), (" c", 2.0, 2.4), (" d", 2.4, 2.8))
    assert TALK.of_words(late) == [0, 0, 1, 1]
    early = said((" a", 1.0, 1.4), (" b?", 1.4, 1.65), (" c", 1.7, 1.95), (" d", 2.0, 2.4))
    assert TALK.of_words(early) == [0, 0, 1, 1]
    assert TALK.of_words([]) == []


def test_segments_are_cut_where_the_speaker_changes() -> None:
    words = said((" one", 1.0, 1.5), (" two.", 1.5, 2.0), (" three", 2.2, 2.6), ("", 2.6, 2.6), (" four", 2.6, 3.0))
    words[3].tokens = []
    draft = Draft(0, 0.9, 3.2, " one two. three four", [100, 10, 11, 12, 14, 101], words)
    first, second = TALK.parts(draft, 100)
    assert (first.text, first.start, first.end, first.tokens) == (" one two.", 0.9, 2.0, [100, 10, 11])
    assert (second.text, second.start, second.end, second.tokens) == (" three four", 2.2, 3.2, [12, 14, 101])
    assert (first.speaker, second.speaker) == ("Speaker 1", "Speaker 2")
    assert [word.word for word in second.words] == [" three", " four"]
    (whole,) = TALK.parts(Draft(0, 0.0, 1.0, " one", [100, 10, 101]), 100)
    assert whole.speaker == "Speaker 1" and whole.tokens == [100, 10, 101]
    (unknown,) = Turns([]).parts(draft, 100)
    assert unknown.speaker is None and unknown.text == draft.text
