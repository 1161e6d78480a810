"""Speech of texts: sentences, settings, what is told, and the task."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio.replies import SentencesInParts, said_of
from pyapp.audio.sound_files import FORMATS, at_rate, encoded
from pyapp.audio.speaking import SpeakOptions, pieces, speak, speak_events
from pyapp.audio.wav import as_pcm, open_wav, wav_head
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Error, Notice, Progress, Sound
from pyapp.models.loading.voice import LoadedVoice, load_voice
from tests.models.test_voices import make, write
from tests.together import collect, fewer_in_browser

TEXT = "This is it. That one is not!\nA hen."


@pytest.fixture(scope="module", params=fewer_in_browser(["vits-speakers", "vits"]))
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedVoice:
    name: str = request.param
    return load_voice(write(tmp_path_factory.mktemp("voice") / name, name, dict(make(name).state_dict())))


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    return write(tmp_path / "voice", "vits", dict(make("vits").state_dict()))


def events_of(loaded: LoadedVoice, text: str, **options: Any) -> list[Any]:
    return [event for event in speak_events(loaded, text, SpeakOptions(**options), Cancel()) if event is not None]


def test_sentences_are_spoken_one_by_one(loaded: LoadedVoice) -> None:
    events = events_of(loaded, TEXT, pause=0.5)
    sounds = [event for event in events if isinstance(event, Sound)]
    rate = loaded.model.sample_rate
    assert [sound.text for sound in sounds] == ["This is it.", "That one is not!", "A hen."]
    assert all(sound.rate == rate and len(sound.pcm) % 2 == 0 for sound in sounds)
    assert [sound.start for sound in sounds[1:]] == [sound.end for sound in sounds[:-1]]
    assert [round((sound.end - sound.start) * rate) for sound in sounds] == [len(sound.pcm) // 2 for sound in sounds]
    pause = 2 * round(0.5 * rate)
    ends = [not any(sound.pcm[-pause:]) for sound in sounds]
    assert ends == [True, True, False]  # no pause after the last
    progress = [event.done for event in events if isinstance(event, Progress)]
    assert progress == [11, 27, 33] and events[-1] == Done(
        "complete", {"duration": sounds[-1].end, "rate": rate, "sentences": 3}
    )
    told = sounds[0].to_dict()
    assert base64.b64decode(told["pcm"]) == sounds[0].pcm and told["type"] == "sound" and told["text"] == "This is it."


def test_a_sentence_is_what_the_model_computes(loaded: LoadedVoice) -> None:
    """Without noise: the samples of the model, in 16 bits."""
    samples, rate = speak(loaded, "That's it", {"noise": 0, "noise_duration": 0, "speaker": 0})
    ids = loaded.tokenizer.read("That's it").ids
    with pyapp.no_grad():
        wanted, _ = loaded.model(pyapp.tensor([ids]), speaker=0, noise_scale=0.0, noise_scale_duration=0.0)
    assert rate == loaded.model.sample_rate and samples.dtype == np.float32
    np.testing.assert_allclose(samples, wanted[0].numpy(), atol=2e-5)


def test_settings(loaded: LoadedVoice) -> None:
    first, _ = speak(loaded, TEXT, {"seed": 1})
    again, _ = speak(loaded, TEXT, {"seed": 1})
    other, _ = speak(loaded, TEXT, {"seed": 2})
    np.testing.assert_array_equal(first, again)
    assert len(first) != len(other) or (first != other).any()
    quiet = {"noise": 0.0, "noise_duration": 0.0}
    slow, usual, fast = (len(speak(loaded, TEXT, {**quiet, "rate": rate})[0]) for rate in (0.5, 1.0, 4.0))
    assert slow > usual > fast
    if loaded.speakers > 1:
        voices = [speak(loaded, TEXT, {**quiet, "speaker": number})[0] for number in (0, 4)]
        assert len(voices[0]) != len(voices[1]) or (voices[0] != voices[1]).any()
        with pytest.raises(OptionError, match="5 is too large: the model has the voices 0 to 4"):
            speak(loaded, TEXT, {"speaker": 5})
    else:
        with pytest.raises(OptionError, match="the model has one voice"):
            speak(loaded, TEXT, {"speaker": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("speaker", -1), ("speaker", 1.5), ("rate", 0), ("rate", float("nan")), ("rate", "fast"), ("noise", -1),
        ("noise_duration", 99), ("seed", -1), ("pause", 1e9), ("phonemes", "yes"), ("speed", 1),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        SpeakOptions.from_dict({name: value})
    assert name in str(caught.value)


def test_what_is_not_spoken_is_told(loaded: LoadedVoice) -> None:
    events = events_of(loaded, "At 15 it is Zoë's.\n—\n15")
    notice = next(event for event in events if isinstance(event, Notice))
    assert notice.what == "characters that the model does not know are left out: 1 5 z ë"
    assert [event.text for event in events if isinstance(event, Sound)] == ["At 15 it is Zoë's."]
    for text, told in (("", "nothing to say"), (" \n", "nothing to say"), ("— 15 !", "nothing to say that the model")):
        with pytest.raises(OptionError, match=told):
            speak(loaded, text)
    with pytest.raises(OptionError, match="reads letters"):
        speak(loaded, "ðɪs", {"phonemes": True})


def test_long_sentences_are_divided() -> None:
    clauses = ", ".join(f"clause number {i} of this one" for i in range(20)) + "."
    found = pieces(clauses, 100)
    assert " ".join(found) == clauses and all(len(part) <= 100 for part in found)
    assert all(part.endswith((",", ".")) for part in found) and min(map(len, found)) > 30
    words = "word " * 100
    found = pieces(words, 60)
    assert " ".join(found) == words.strip() and all(20 < len(part) <= 60 for part in found)
    assert pieces("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert pieces("  One\ttwo \n\n three?  Four… five. ") == ["One two", "three?", "Four… five."]
    assert pieces(" \n ") == []


def test_cancel(loaded: LoadedVoice) -> None:
    cancel = Cancel()
    stream = speak_events(loaded, TEXT, SpeakOptions(), cancel)
    assert next(stream) is None
    cancel.set()
    with pytest.raises(Exception, match="stopped"):
        list(stream)


def test_samples_that_are_no_numbers_are_refused(loaded: LoadedVoice) -> None:
    weight = loaded.model.decoder.conv_post.weight
    before = weight.detach().clone()
    try:
        weight.data = weight.data * float("nan")
        with pytest.raises(ModelError, match="NaN"):
            speak(loaded, TEXT)
    finally:
        weight.data = before


def test_the_task(voice: Path) -> None:
    events = collect(tasks.speak(TEXT, {"seed": 3}, model=voice))
    kinds = [event.type for event in events]
    assert kinds.count("sound") == 3 and kinds[-1] == "done" and "metric" in kinds
    loaded = load_voice(voice)
    samples, _ = speak(loaded, TEXT, {"seed": 3})
    found = b"".join(event.pcm for event in events if isinstance(event, Sound))
    assert found == as_pcm(samples)
    again = collect(tasks.speak(TEXT, {"seed": 3}, model=voice))
    assert not any(event.type == "metric" for event in again)  # the model is kept
    assert [event for event in again if event.type == "sound"] == [event for event in events if event.type == "sound"]


def test_the_pipeline(voice: Path) -> None:
    said = pyapp.pipeline("speak", voice)
    samples, rate = said("It is so.", seed=4)
    wanted, _ = speak(load_voice(voice), "It is so.", {"seed": 4})
    assert rate == 16000
    np.testing.assert_array_equal(samples, wanted)
    assert [len(one) for one, _ in said(["It is so.", "it"], seed=4)][0] == len(wanted)
    with pytest.raises(OptionError, match="speed"):
        said("it", speed=2)


def test_errors_of_the_task(voice: Path) -> None:
    for text, options, told in (
        (" ", {}, "nothing to say"), ("a", {"speaker": 7}, "one voice"), ("a", {"speed": 2}, "no such setting"),
        ("a" * 1, {"phonemes": True}, "reads letters"),
    ):  # fmt: skip
        last = collect(tasks.speak(text, options, model=voice))[-1]
        assert isinstance(last, Error) and told in last.what
    last = collect(tasks.speak("a", model=voice / "config.json"))[-1]
    assert isinstance(last, Error)
    cancel = Cancel()
    cancel.set()
    assert collect(tasks.speak(TEXT, model=load_voice(voice), cancel=cancel))[-1] == Done("cancelled")


def test_files_of_samples() -> None:
    pcm = np.array([0, 1, -32768, 32767], "<i2").tobytes()
    with open_wav(encoded(pcm, 16000, "wav")) as wav:
        assert wav.rate == 16000 and as_pcm(wav.read()[:, 0]) == pcm
    with open_wav(wav_head(22050) + pcm) as wav:  # as it arrives: the length is not known
        assert wav.rate == 22050 and wav.frames == 4
    assert encoded(pcm, 16000, "pcm") == pcm


@pytest.mark.native_only
@pytest.mark.parametrize("rate", [16000, 22050, 50000])
@pytest.mark.parametrize("form", ["mp3", "flac", "opus"])
def test_compressed_files(form: str, rate: int) -> None:
    """A tone keeps its pitch, also at rates that a form lacks."""
    soundfile = pytest.importorskip("soundfile")
    tone = as_pcm(0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate))
    samples, found = soundfile.read(io.BytesIO(encoded(tone, rate, form)))
    assert found in (FORMATS[form].rates or (rate,)) and (found >= rate or rate > 48000)
    assert abs(len(samples) / found - 1) < 0.1
    spectrum = np.abs(np.fft.rfft(samples[: found // 2]))
    assert abs(spectrum.argmax() * found / (found // 2) - 440) < 4


def test_forms_that_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.audio.sound_files.find_spec", lambda name: None)
    with pytest.raises(OptionError, match="flac needs the package soundfile"):
        encoded(b"", 16000, "flac")
    assert len(at_rate(bytes(200), 16000, 24000)) == 300


def test_what_is_said_of_a_reply() -> None:
    """Marks of Markdown are not said; what is no mark is. Sentences of a text in parts are those of the whole."""
    for written, said in (
        ("## A **bold** and *thin* `word`", "A bold and thin word"), ("- one\n- two\n> three", "one\ntwo\nthree"),
        ("see [the page](https://a.b/c) ~~now~~", "see the page now"), ("a_b_c 2 * 3 * 4 -1", "a_b_c 2 * 3 * 4 -1"),
        ("```py\nx = 1\n```", "\nx = 1\n"), ("| a | b |\n|---|:-:|\n| 1 | 2 |", "a, b\n\n1, 2"), ("***\n", "\n"),
    ):  # fmt: skip
        assert said_of(written) == said
    text = 'It is so. He said "No." And then?\nYes! e.g. this one。次。 The end'
    for size in (1, 3, 100):
        reader = SentencesInParts()
        found = [one for start in range(0, len(text), size) for one in reader.push(text[start : start + size])]
        assert [*found, *reader.finish()] == pieces(text)
