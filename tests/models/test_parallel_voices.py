"""FastSpeech 2 against transformers (make_golden_parallel_voices.py): the tensors of its files, the frames of each
sound, the spectrogram and the sound; English in its signs, files and refusals.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.speaking import speak
from pyapp.errors import ModelError, OptionError
from pyapp.models.loading.voice import load_voice
from pyapp.text.arpabet import SpokenSounds, sounds
from tests.models.parallel_voice_configs import CONFIGS, SOUNDS, SPEAKER, TEXT, weights
from tests.models.seeded import shown
from tests.models.small_models import golden_in, numbers
from tests.models.voice_folders import drawn, write_folder
from tests.together import fewer_in_browser

CLOSE: Any = {"rtol": 2e-4, "atol": 2e-4}
VOCABULARY = {sign: number for number, sign in enumerate(SOUNDS)} | {"<sos/eos>": 18}
golden = golden_in("golden_parallel_voices")


@pytest.fixture(scope="module", params=fewer_in_browser(CONFIGS, 2))
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any], Any, Path]:
    name, folder = request.param, tmp_path_factory.mktemp("model")
    write_folder(folder, drawn(golden(name)["tensors"], weights), CONFIGS[name], vocab=VOCABULARY)
    return name, golden(name), load_voice(folder), folder


def test_parity(case: Any) -> None:
    """Files give every parameter, and the model says what that of transformers says, in parts as in one."""
    _, expected, loaded, _ = case
    voice, config = loaded.model, loaded.model.config
    assert {name.removeprefix("model.") for name in expected["tensors"]} == {
        name for name, value in voice.model.state_dict().items() if value.is_floating_point()
    }
    with pyapp.no_grad():
        known, frames = voice.model.read(pyapp.tensor([TEXT]), SPEAKER)
        assert numbers(frames).tolist() == expected["frames"] and 8 < sum(expected["frames"]) < 100
        spectrogram = voice.model.spectrogram(known, (frames * config.speaking_speed).round().to("int64"))
    np.testing.assert_allclose(shown(numbers(spectrogram), 96), expected["spectrogram"], **CLOSE)
    options = {"phonemes": True} | ({"speaker": SPEAKER} if config.num_speakers else {})
    samples, rate = speak(loaded, "HH AH0 L OW1 , IH1 Z", options)
    assert rate == 22050
    np.testing.assert_allclose(shown(samples, 120), expected["sound"], rtol=0, atol=2e-4)
    slow, _ = speak(loaded, "HH AH0 L OW1 , IH1 Z", {**options, "rate": 0.5})
    assert 1.7 * len(samples) < len(slow) < 2.3 * len(samples)


def test_sounds_of_english() -> None:
    """misaki's signs and CMU's dictionary."""
    for read, wanted in (
        ("həlˈO, wˈɜɹld!", "HH AH0 L OW1 , W ER1 L D !"), ("ðə ʤˈʌʤ", "DH AH0 JH AH1 JH"),
        ("mˈɛʒəɹ; bˈʌtn", "M EH1 ZH ER0 , B AH1 T AH0 N"), ("wˈɪtnəs lˈɪTᵊl", "W IH1 T N AH0 S L IH1 T AH0 L"),
        ("jˌunəvˈɜɹsəTi", "Y UW2 N AH0 V ER1 S AH0 T IY0"),
    ):  # fmt: skip
        assert " ".join(sounds(read)) == wanted
    reader = SpokenSounds(VOCABULARY, 18)
    assert reader.read("HH AH0 L OW1 , IH1 Z", True).ids == tuple(TEXT)
    assert reader.read("HH EY1 .", True) == reader.read("HH EY1 EY1 .", True)
    assert reader.read("EY1", True).ids == () and reader.read("EY1", True).unknown == ("EY1",)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"encoder_concat_after": True}, "concat_after"), ({"hidden_size": 15}, "divide"),
    ({"decoder_kernel_size": 6}, "decoder_kernel_size"), ({"num_languages": 4}, "num_languages"),
    ({"num_mel_bins": 7}, "6 bins"), ({"speaking_speed": -1.0}, "speaking_speed"), ({"vocab_size": 5}, "embed"),
]  # fmt: skip


@pytest.mark.native_only
def test_files_and_refusals(case: Any, tmp_path: Path) -> None:
    """The model and the vocoder in files of their own; what is refused."""
    name, expected, loaded, folder = case
    own, state = CONFIGS[name], drawn(expected["tensors"], weights)
    parts: dict[str, dict[str, Any]] = {"model": {}, "vocoder": {}}
    for key, value in state.items():
        part, _, rest = key.partition(".")
        parts[part][rest] = value
    write_folder(tmp_path / "model", parts["model"], own["model_config"], vocab=VOCABULARY)
    write_folder(tmp_path / "vocoder", parts["vocoder"], own["vocoder_config"])
    apart = load_voice(tmp_path / "model", codec=tmp_path / "vocoder")
    text, options = "HH AH0 L OW1", {"phonemes": True}
    assert np.array_equal(speak(apart, text, options)[0], speak(loaded, text, options)[0])
    for said, changed, told in (
        (text, {"noise": 1}, "its own"), (text, {"speaker": 3}, "voice"), ("x y", {}, "nothing to say"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            speak(loaded, said, {**options, **changed})
    for changed, told in HOSTILE:
        (folder / "config.json").write_text(json.dumps(own | {"model_config": own["model_config"] | changed}))
        with pytest.raises(ModelError, match=told):
            load_voice(folder)
    (folder / "vocab.json").unlink()
    with pytest.raises(ModelError, match="sounds are missing"):
        load_voice(folder)
