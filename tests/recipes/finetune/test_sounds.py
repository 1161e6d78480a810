"""Models of sound that are trained as classifiers of folders of recordings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import tasks
from pyapp.audio import write_wav
from pyapp.cli import run as run_command
from pyapp.errors import FileFormatError, ModelNotFoundError, OptionError
from pyapp.events import Done
from tests.models.test_sound_labels import make, write
from tests.recipes.finetune.test_pictures import run
from tests.together import values_of

pytestmark = pytest.mark.native_only
TONES = {"high": 2600, "low": 300}


def tone(pitch: float, count: int) -> Any:
    noise = np.random.default_rng(count).normal(0, 0.05, count)
    return (np.sin(2 * np.pi * pitch / 16000 * np.arange(count)) * 0.4 + noise).astype(np.float32)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tones in noise, of different lengths, in a folder for each."""
    place = tmp_path_factory.mktemp("recordings")
    for name, pitch in TONES.items():
        (place / name).mkdir()
        for i in range(4):
            write_wav(place / name / f"{i}.wav", tone(pitch, 5600 + 400 * i), 16000)
    return place


@pytest.mark.parametrize("name", ["wav2vec2", "spectrogram"])
def test_a_classifier_of_recordings(recordings: Path, tmp_path: Path, name: str) -> None:
    """It learns new classes, is the same after a break, and loads as any classifier; one hides stretches of time."""
    model = write(tmp_path / "model", name, make(name).state_dict())
    given: dict[str, Any] = {"rows": 4, "steps": 30, "evaluate_every": 30}
    given |= {"mask_time_prob": 0.1, "mask_time_length": 3} if name == "wav2vec2" else {}
    done = run(model, recordings, tmp_path / "out", **given)[-1]
    assert isinstance(done, Done) and done.results["held_out_accuracy"] == 1.0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "high", "1": "low"}
    hides = [config.get(field) for field in ("apply_spec_augment", "mask_time_prob", "mask_time_length")]
    assert hides == ([True, 0.1, 3] if name == "wav2vec2" else [None] * 3)
    run(model, recordings, tmp_path / "parts", 5, **given)
    run(model, recordings, tmp_path / "parts", **given)
    whole, parts = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("out", "parts"))
    assert whole == parts

    sounds = [recordings / "low" / "1.wav", tone(2500, 7000)]
    found = values_of(tasks.classify_sounds(sounds, model=tmp_path / "out"))
    assert [values["labels"][0]["label"] for values in found] == ["low", "high"]


def test_what_is_refused(recordings: Path, tmp_path: Path) -> None:
    model = write(tmp_path / "model", "wav2vec2", make("wav2vec2").state_dict())
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelNotFoundError, match="there is no recording"):
        run(model, tmp_path / "empty", tmp_path / "out")
    table = tmp_path / "data.csv"
    table.write_text("text,label\na,b\n")
    with pytest.raises(FileFormatError, match="line 2: the line is not a recording with its text"):
        run(model, table, tmp_path / "out")
    for settings, told in (
        ({"spec_augment": True, "mask_time_prob": 0}, "nothing would be hidden"),
        ({"mask_time_prob": 1.5}, "mask_time_prob: must be a number from 0 to 1"),
        ({"mask_feature_length": 0}, "mask_feature_length: must be a whole number"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            run(model, recordings, tmp_path / "out", **settings)
    spectrogram = write(tmp_path / "spectrogram", "spectrogram", make("spectrogram").state_dict())
    with pytest.raises(OptionError, match="Give a folder with a folder of recordings"):
        run(spectrogram, table, tmp_path / "out")
    with pytest.raises(OptionError, match="'audio-spectrogram-transformer' hide nothing"):
        run(spectrogram, recordings, tmp_path / "out", spec_augment=True)
    broken = tmp_path / "broken"
    for name in ("a", "b"):
        (broken / name).mkdir(parents=True)
        (broken / name / "1.wav").write_bytes(b"no sound")
    with pytest.raises(FileFormatError, match="1.wav"):
        run(model, broken, tmp_path / "out")
    for name in ("a", "b"):
        write_wav(broken / name / "1.wav", np.zeros(20, np.float32), 16000)
    with pytest.raises(FileFormatError, match=r"1\.wav: it is too short"):
        run(model, broken, tmp_path / "out")


def test_the_command(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a long recording as much as the model hears is heard, which is told."""
    data, out = tmp_path / "data", str(tmp_path / "out")
    shutil.copytree(recordings, data)
    write_wav(data / "low" / "long.wav", tone(300, 31 * 16000), 16000)
    model = write(tmp_path / "model", "spectrogram", make("spectrogram").state_dict())
    assert run_command(["finetune", str(model), str(data), "-o", out, "--steps", "1", "--eval", str(recordings)]) == 0
    told = capsys.readouterr()
    assert "of 1 of 17 recordings only the first 0.5 s are heard" in told.err + told.out
    assert "of the held-out recordings" in told.out and f"try it: pyapp classify-sound RECORDINGS -m {out}" in told.out
