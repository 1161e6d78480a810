"""Models that speak in stages, against transformers (make_golden_staged_voices.py): names, logits, gradients, the
tokens and codes that are written, and sound, with a voice and without; their files and the command.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import read_wav
from pyapp.audio.speaking import speak
from pyapp.audio.staged_voice import StagedVoice
from pyapp.engine.ops.random import Generator
from pyapp.errors import ModelError, OptionError
from pyapp.models.loading.voice import load_voice
from tests.models.seeded import direction, frame_weights, shown
from tests.models.small_models import along, golden_in, numbers
from tests.models.staged_voice_configs import CONFIGS, GENERATION, IDS, QUANTISED, history
from tests.models.test_listeners import tokenizer_file
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
golden = golden_in("golden_staged_voices")


@cache
def state_of(name: str) -> dict[str, pyapp.Tensor]:
    """The tensors of a file, as transformers names them."""
    tensors = golden(name)["tensors"].items()
    return {key: pyapp.from_numpy(np.asarray(frame_weights(key, tuple(shape)))) for key, shape in tensors}


def write(folder: Path, name: str, generation: Any = None, **config: Any) -> Path:
    """The folder of a model, with a tokenizer of 40 tokens, and a voice."""
    own, says = CONFIGS[name] | {"architectures": ["BarkModel"]} | config, GENERATION | (generation or {})
    write_folder(folder, state_of(name), own, generation_config=says, tokenizer=tokenizer_file(40))
    (folder / "voices").mkdir(exist_ok=True)
    paths = {}
    for part, values in history().items():
        paths[part] = f"voices/low_{part}.npy"
        np.save(folder / paths[part], values)
    (folder / "speaker_embeddings_path.json").write_text(json.dumps({"repo_or_path": "a/b", "low": paths}))
    return folder


@pytest.fixture(scope="module", params=CONFIGS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any, Path]:
    folder = write(tmp_path_factory.mktemp("model"), request.param)
    return golden(request.param), load_voice(folder), folder


def test_logits_and_gradients(case: Any) -> None:
    """Files give every parameter."""
    expected, loaded, _ = case
    model = loaded.model.model.requires_grad_()
    codes = pyapp.arange(60).reshape(1, 15, 4) * 7 % 17
    found = {
        "semantic": model.semantic(pyapp.tensor([[3, 50, 97, 11, 19]])),
        "coarse": model.coarse_acoustics(pyapp.tensor([[3, 21, 37, 56, 19]])),
        "fine": model.fine_acoustics(codes, 2),
    }
    total = pyapp.zeros(())
    for key, value in found.items():
        np.testing.assert_allclose(shown(numbers(value), 80), expected["logits"][key], **CLOSE)
        total = total + along(value, key)
    total.backward()
    own = {
        key.replace("semantic.model.", "semantic.").replace("coarse_acoustics.model.", "coarse_acoustics."): value
        for key, value in model.named_parameters(remove_duplicate=False)
    }
    for key, product in expected["gradients"].items():
        grad = np.zeros(own[key].shape) if own[key].grad is None else numbers(own[key].grad)
        found_product = (grad * direction(key, grad.shape)).sum()
        np.testing.assert_allclose(found_product, product, rtol=2e-3, atol=2e-3, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)


@pytest.mark.parametrize("kind", ["alone", "voice"])
def test_what_is_written(kind: str, case: Any) -> None:
    """Tokens, codes and sound, of the best each time."""
    wanted, loaded = case[0][kind], case[1]
    voice: StagedVoice = loaded.model
    before = voice.history("low") if kind == "voice" else None
    meaning = list(voice.meanings(IDS, before, lambda scores: int(scores.argmax())))
    assert meaning == wanted["meaning"]
    codes = list(voice.codes(meaning, before, lambda scores: int(scores.argmax())))
    assert codes == wanted["codes"]
    *_, rows = voice.refined(codes, before, 0.0, Generator())
    assert rows is not None and rows[0].tolist() == wanted["rows"]
    with pyapp.no_grad():
        np.testing.assert_allclose(shown(numbers(voice.model.sound(rows))[0], 60), wanted["sound"], **CLOSE)


@pytest.mark.native_only
def test_speech_and_the_command(case: Any, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    _, loaded, folder = case
    drawn = {key: {**GENERATION[key], "do_sample": True, "temperature": 0.7} for key in GENERATION if "config" in key}
    voice = StagedVoice(loaded.model.model, GENERATION | drawn)
    assert loaded.voices == ("low",) and voice.names == ()
    found, rate = speak(loaded, "aa ab", {"voice": "low", "noise": 1.0, "seed": 4})
    assert rate == 1600 and len(found)
    assert np.array_equal(found, speak(loaded, "aa ab", {"noise": 1.0, "seed": 4})[0])
    assert not np.array_equal(found, speak(loaded, "aa ab", {"noise": 1.0, "seed": 5})[0])
    for options, told in (({"rate": 2}, "its own"), ({"phonemes": True}, "letters"), ({"voice": "high"}, "no voice")):
        with pytest.raises(OptionError, match=told):
            speak(loaded, "aa", options)
    file = tmp_path / "speech.wav"
    arguments = ["speak", "aa ab", "-m", str(folder), "--voice", "low", "-o", str(file)]
    result = testing.CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.return_value == 0 and read_wav(file)[1] == 1600, result.output


PART = CONFIGS["bark"]["coarse_acoustics_config"]
HISTORY = GENERATION["coarse_acoustics_config"]
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"codec_config": {"model_type": "llama"}}, "'llama'"), ({"semantic_config": None}, "semantic_config"),
    ({"coarse_acoustics_config": PART | {"num_heads": 5}}, "divide"),
    ({"fine_acoustics_config": PART | {"n_codes_total": 9}}, "codebooks"),
    ({"generation": {"coarse_acoustics_config": HISTORY | {"max_coarse_history": 60}}}, "a window of 81 tokens"),
    ({"generation": {"codebook_size": 8}}, "codebook_size"),
    ({"generation": {"semantic_config": GENERATION["semantic_config"] | {"text_pad_token": 100}}}, "the token 100"),
    ({"generation": {"semantic_config": {"temperature": -1}}}, "temperature"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_voice(write(tmp_path / "model", "bark", **changed))


def test_hostile_voices(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", "bark")
    loaded = load_voice(folder)
    np.save(folder / "voices/low_fine_prompt.npy", np.full((4, 3), 99))
    with pytest.raises(ModelError, match="fine_prompt has the number 99"):
        speak(loaded, "aa")
    (folder / "voices/low_coarse_prompt.npy").unlink()
    with pytest.raises(ModelError, match="coarse_prompt.npy of the voice low is missing"):
        speak(loaded, "aa")
    paths = {part: f"../{part}.npy" for part in history()}
    (folder / "speaker_embeddings_path.json").write_text(json.dumps({"low": paths}))
    with pytest.raises(ModelError, match="has the file"):
        load_voice(folder)


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, case: Any) -> None:
    """Rows of 24 numbers stay as they are: those of the feed-forward parts are blocks."""
    _, loaded, folder = case
    model, found = loaded.model.model, load_voice(folder, dtype="q8_0").model.model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    ids = pyapp.tensor([[3, 50, 97, 11, 19]])
    with pyapp.no_grad():
        expected, other = (numbers(one.semantic(ids)) for one in (model, found))
    assert np.abs(other - expected).mean() < 0.06 * expected.std()
