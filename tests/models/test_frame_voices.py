"""Language models that write the codes of moments, against transformers (make_golden_frame_voices.py): names, codes of
an earlier turn, logits, the codes that are written, and sound; their files, the task and the command.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import read_wav
from pyapp.audio.frame_voice import FrameVoice
from pyapp.audio.speaking import speak
from pyapp.errors import ModelError, OptionError
from pyapp.models.loading.voice import load_voice
from tests.models.codec_configs import sound
from tests.models.frame_voice_configs import CONFIGS, IDS, MOMENTS, QUANTISED, SAMPLES
from tests.models.seeded import frame_weights, shown
from tests.models.small_models import golden_in, numbers
from tests.models.test_listeners import tokenizer_file
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
golden = golden_in("golden_frame_voices")


@cache
def state_of(name: str) -> dict[str, pyapp.Tensor]:
    """The tensors of a file, as transformers names them."""
    tensors = golden(name)["tensors"].items()
    return {key: pyapp.from_numpy(np.asarray(frame_weights(key, tuple(shape)))) for key, shape in tensors}


def write(folder: Path, name: str, state: Any = None, **config: Any) -> Path:
    """The folder of a model, with a tokenizer of 40 tokens."""
    own = CONFIGS[name] | {"architectures": ["CsmForConditionalGeneration"]} | config
    return write_folder(folder, state or state_of(name), own, tokenizer=tokenizer_file(40))


@pytest.fixture(scope="module", params=CONFIGS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any, Path]:
    folder = write(tmp_path_factory.mktemp("model"), request.param)
    return golden(request.param), load_voice(folder), folder


def test_parity(case: Any) -> None:
    """Files give every parameter; codes, logits and sound are those of transformers."""
    expected, loaded, _ = case
    voice: FrameVoice = loaded.model
    model = voice.model
    voice.turns = []
    voice.hear("any", sound(1, SAMPLES)[0, 0], 3)
    [(_, codes)] = voice.turns
    assert codes is not None and codes.tolist() == expected["codes"]
    voice.turns = [(IDS[0], codes)]
    with pyapp.no_grad():
        states, logits = model(model.embedded([*voice.turns, (IDS[1], None)]).unsqueeze(0))
        others = model.other_codes(states[:, -1], pyapp.tensor([[7, 11]]))
    np.testing.assert_allclose(shown(numbers(logits), 100), expected["logits"], **CLOSE)
    np.testing.assert_allclose(numbers(others).reshape(-1), expected["others"], **CLOSE)
    with pyapp.no_grad():
        writer = model.writer([*voice.turns, (IDS[1], None)], MOMENTS)
        written = [writer.write(lambda x: int(x.argmax())) for _ in range(MOMENTS)]
        rows = pyapp.tensor(written).transpose(0, 1)
        assert rows.tolist() == expected["written"]
        samples = model.sound(rows.clamp(max=15).unsqueeze(0))
    np.testing.assert_allclose(shown(numbers(samples), 60), expected["sound"], **CLOSE)
    voice.turns = []


def test_speech(case: Any) -> None:
    """The same with the same seed; another one of another speaker, or after another turn."""
    _, loaded, _ = case
    found, rate = speak(loaded, "aa ab", {"seed": 4})
    assert rate == 1600 and len(found) and np.array_equal(found, speak(loaded, "aa ab", {"seed": 4})[0])
    assert not np.array_equal(found, speak(loaded, "aa ab", {"seed": 5})[0])
    loaded.model.hear("ac", sound(1, SAMPLES)[0, 0])
    assert not np.array_equal(found, speak(loaded, "aa ab", {"seed": 4})[0])
    loaded.model.turns *= 4
    with pytest.raises(OptionError, match="too long"):
        speak(loaded, "aa ab")
    loaded.model.turns = []
    for options, told in (({"rate": 2}, "its own"), ({"phonemes": True}, "letters"), ({"speaker": 10}, "too large")):
        with pytest.raises(OptionError, match=told):
            speak(loaded, "aa", options)


@pytest.mark.native_only
def test_the_command(case: Any, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    file = tmp_path / "speech.wav"
    arguments = ["speak", "aa ab", "-m", str(case[2]), "-o", str(file)]
    found = testing.CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert found.return_value == 0 and read_wav(file)[1] == 1600, found.output


DEPTH = CONFIGS["csm"]["depth_decoder_config"]
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"codec_config": None}, "codec_config"), ({"codec_config": {"model_type": "llama"}}, "'llama'"),
    ({"num_codebooks": 9}, "codebooks|does not fit"), ({"num_codebooks": 1}, "num_codebooks"),
    ({"depth_decoder_config": DEPTH | {"backbone_hidden_size": 16}}, "does not fit"),
    ({"depth_decoder_config": DEPTH | {"max_position_embeddings": 3}}, "small decoder"),
    ({"codebook_eos_token_id": 19}, "codebook_eos"), ({"text_vocab_size": -1}, "text_vocab_size"),
    ({"text_vocab_size": 30}, "tokens|shape"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_voice(write(tmp_path / "model", "csm", **changed))


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, case: Any) -> None:
    _, loaded, folder = case
    model, found = loaded.model.model, load_voice(folder, dtype="q8_0").model.model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    turns = [(IDS[0], pyapp.tensor([[7, 7], [7, 4], [10, 8]])), (IDS[1], None)]
    with pyapp.no_grad():
        expected, other = (numbers(one(one.embedded(turns).unsqueeze(0))[1]) for one in (model, found))
    assert np.abs(other - expected).mean() < 0.06 * expected.std()
