"""Models that speak in a voice that a text describes, against the package parler_tts
(make_golden_described_voices.py): the tensors of their files, logits, the codes that they write, sound, and gradients;
their files, the task and the command.
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
from pyapp.audio.described_voice import DescribedVoice
from pyapp.audio.speaking import speak
from pyapp.errors import ModelError, OptionError
from pyapp.formats import write_safetensors
from pyapp.models.loading.codec import load_codec
from pyapp.models.loading.voice import load_voice
from pyapp.nn import functional
from pyapp.nn.audio.sound_codes import Codes
from tests.models.described_voice_configs import (
    CODES,
    CONFIGS,
    DESCRIPTION,
    DESCRIPTIONS,
    GENERATION,
    PROMPT,
    PROMPTS,
    PROMPTS_SHOWN,
    QUANTISED,
    SHOWN,
    weights,
)
from tests.models.encoder_configs import CONFIGS as ENCODERS
from tests.models.seeded import shown
from tests.models.small_models import check_gradients, golden_in, numbers
from tests.models.test_listeners import tokenizer_file
from tests.models.voice_folders import voice_case, write_folder
from tests.serve.in_process import serving
from tests.text.tokenizer_documents import template

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
golden = golden_in("golden_described_voices")


class Words:
    """A tokenizer that gives DESCRIPTION for every text."""

    def encode(self, text: str, **options: Any) -> list[int]:
        return DESCRIPTION


@cache
def state_of(name: str) -> dict[str, pyapp.Tensor]:
    """The tensors of a file that parler_tts wrote."""
    tensors = golden(name)["tensors"].items()
    return {key: pyapp.from_numpy(np.asarray(weights(key, tuple(shape)))) for key, shape in tensors}


def letters() -> str:
    """A tokenizer.json whose tokens are letters, with an end after each text."""
    document = json.loads(tokenizer_file(3))
    document["model"]["vocab"] |= {letter: 3 + i for i, letter in enumerate("▁abcdefghijklmnopqrstuvwxyz")}
    document["post_processor"] = template({"</s>": 2}, "$A </s>", "$A </s>")
    return json.dumps(document)


def write(folder: Path, name: str, state: Any = None, **config: Any) -> Path:
    """The folder of a model, with the tokenizers that it needs."""
    own = CONFIGS[name] | {"architectures": ["ParlerTTSForConditionalGeneration"]} | config
    write_folder(folder, state or state_of(name), own, generation_config=GENERATION, tokenizer=letters())
    if CONFIGS[name]["vocab_size"] != CONFIGS[name]["text_encoder"]["vocab_size"]:
        (folder / "description_tokenizer").mkdir(exist_ok=True)
        (folder / "description_tokenizer" / "tokenizer.json").write_text(letters())
    return folder


case = voice_case(CONFIGS, write, golden, load_voice)


def test_parity(case: Any) -> None:
    """Files give every parameter; logits, the codes that are written, and sound are those of parler_tts."""
    _, expected, loaded, _ = case
    voice: DescribedVoice = loaded.model
    model = voice.model
    own = {key for key, _ in model.named_parameters() if not key.startswith("audio_encoder.")}
    assert own == {*expected["parameters"]}
    ids, prompt = pyapp.tensor([DESCRIPTION]), pyapp.tensor([PROMPT])
    two = {"attention_mask": pyapp.tensor(SHOWN), "prompt_mask": pyapp.tensor(PROMPTS_SHOWN)}
    with pyapp.no_grad():
        logits = model(ids, pyapp.tensor(CODES), prompt=prompt)
        both = model(pyapp.tensor(DESCRIPTIONS), pyapp.tensor(CODES * 2), prompt=pyapp.tensor(PROMPTS), **two)
    np.testing.assert_allclose(shown(numbers(logits), 100), expected["logits"], **CLOSE)
    np.testing.assert_allclose(shown(numbers(both), 100), expected["logits of two"], **CLOSE)
    written = [*DescribedVoice(model, Words(), GENERATION).written(PROMPT, "any", lambda scores: int(scores.argmax()))]
    *steps, codes = written
    assert steps == [None] * len(steps) and codes is not None and codes[0].tolist() == expected["written"]
    with pyapp.no_grad():
        np.testing.assert_allclose(shown(numbers(model.sound(codes)), 60), expected["sound"], **CLOSE)


def test_gradients(case: Any) -> None:
    _, expected, loaded, _ = case
    model = loaded.model.model
    model.requires_grad_()
    model.audio_encoder.requires_grad_(False)
    codes = pyapp.tensor([row[:-1] for row in CODES])
    logits = model(pyapp.tensor([DESCRIPTION]), codes, prompt=pyapp.tensor([PROMPT]))
    wanted = pyapp.tensor([code for row in CODES for code in row[1:]])
    loss = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted, reduction="sum")
    codec = {key: ([], 0.0, 0.0) for key, _ in model.named_parameters() if key.startswith("audio_encoder.")}
    check_gradients(model, loss, expected | {"parameters": expected["parameters"] | codec})


def test_speech(case: Any) -> None:
    """The same with the same seed; another one of another voice; the most likely one without noise."""
    _, _, loaded, _ = case
    found, rate = speak(loaded, "it is so", {"seed": 4})
    assert rate == 1600 and len(found) and np.array_equal(found, speak(loaded, "it is so", {"seed": 4})[0])
    for other in ({"seed": 5}, {"seed": 4, "description": "jon is fast"}, {"seed": 4, "noise": 0}):
        assert not np.array_equal(found, speak(loaded, "it is so", other)[0]), other
    calm = {"noise": 0, "seed": 1}
    assert np.array_equal(speak(loaded, "it", calm)[0], speak(loaded, "it", calm | {"seed": 2})[0])
    for options, told in (({"rate": 2}, "its own"), ({"phonemes": True}, "letters"), ({"speaker": 1}, "one voice"),
                          ({"description": " "}, "1 to 2,000"), ({"voice": "Jon"}, "no names")):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            speak(loaded, "aa", options)
    with pytest.raises(OptionError, match="too many"):
        speak(loaded, "a" * 200)


def test_codecs_of_the_library(case: Any, tmp_path: Path) -> None:
    """The codec of a model by itself, as parler-tts/dac_44khZ_8kbps has it."""
    name, expected, loaded, _ = case
    own = {key.removeprefix("audio_encoder."): value for key, value in state_of(name).items() if "audio_enc" in key}
    write_safetensors(tmp_path / "model.safetensors", own)
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name]["audio_encoder"]))
    codes = pyapp.tensor([expected["written"]])
    with pyapp.no_grad():
        found = load_codec(tmp_path).model.decode(Codes((codes,), (None,)))
        assert np.array_equal(numbers(found), numbers(loaded.model.model.sound(codes)))


@pytest.mark.native_only
def test_the_command(case: Any, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    _, _, loaded, folder = case
    file, said = tmp_path / "speech.wav", "jon is fast"
    arguments = ["speak", "it is so", "-m", str(folder), "-o", str(file), "--voice-description", said]
    found = testing.CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert found.return_value == 0, found.output
    samples, rate = read_wav(file)
    assert rate == 1600 and np.array_equal(samples[:, 0], speak(loaded, "it is so", {"description": said})[0])


@pytest.mark.native_only
def test_a_tokenizer_of_descriptions_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a model's folder has none, it is that of the text encoder's origin, of which nothing else is read."""
    pytest.importorskip("huggingface_hub")
    from tests.hub_server import Hub

    reads = CONFIGS["parler_tts-cross"]["text_encoder"] | {"_name_or_path": "someone/reader"}
    wanted = speak(load_voice(write(tmp_path / "model", "parler_tts-cross")), "it", {"seed": 3})[0]
    folder = write(tmp_path / "model", "parler_tts-cross", text_encoder=reads)
    (folder / "description_tokenizer" / "tokenizer.json").unlink()
    remote = Hub({"someone/reader": {"tokenizer.json": letters().encode(), "model.safetensors": b"weights"}})
    remote.start()
    remote.use(monkeypatch, tmp_path / "cache")
    try:
        assert np.array_equal(speak(load_voice(folder), "it", {"seed": 3})[0], wanted)
        assert not any("safetensors" in request.path for request in remote.log)
    finally:
        remote.stop()


@pytest.mark.native_only
def test_instructions_of_requests(case: Any) -> None:
    """/v1/audio/speech takes the description as `instructions`."""

    _, _, loaded, folder = case
    with serving(str(folder)) as client:
        asked = {"input": "it is so", "voice": "alloy", "response_format": "wav", "instructions": "jon is fast"}
        answer = client.post("/v1/audio/speech", json=asked)
        for wrong in (" ", "fast " * 500):
            refused = client.post("/v1/audio/speech", json=asked | {"instructions": wrong})
            assert refused.status_code == 400 and refused.json()["error"]["param"] == "instructions", refused.text
    wanted = speak(loaded, "it is so", {"description": "jon is fast"})[0]
    assert answer.status_code == 200 and np.array_equal(read_wav(answer.content)[0][:, 0], wanted), answer.text


SMALL = CONFIGS["parler_tts"]
DECODER, CODEC = SMALL["decoder"], SMALL["audio_encoder"]
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"text_encoder": None}, "text_encoder"), ({"text_encoder": ENCODERS["bert"]}, "'bert' is not a T5"),
    ({"audio_encoder": {"model_type": "t5"}}, "not known for audio-codec"),
    ({"audio_encoder": CODEC | {"latent_dim": 20}}, "latent_dim"),
    ({"audio_encoder": CODEC | {"num_codebooks": "3"}}, "n_codebooks"),
    ({"decoder": DECODER | {"num_codebooks": 4}}, "the codec has 3"),
    ({"decoder": DECODER | {"vocab_size": 9}}, "above vocab_size"),
    ({"decoder": DECODER | {"num_attention_heads": 5}}, "5 heads"),
    ({"decoder": DECODER | {"num_key_value_heads": 4}}, "num_key_value_heads|kv|heads"),
    ({"decoder": DECODER | {"max_position_embeddings": 1 << 23}}, "max_position_embeddings"),
    ({"decoder": DECODER | {"cross_attention_hidden_size": 16}}, "cross_attention_hidden_size"),
    ({"vocab_size": 20}, "tokenizer of descriptions"), ({"prompt_cross_attention": 1}, "prompt_cross_attention"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_voice(write(tmp_path / "model", "parler_tts", {"a": pyapp.ones(1)}, **changed))


def test_settings_of_generation(case: Any) -> None:
    """What is not followed is refused by name, and so is what cannot be; weights that give no numbers are told."""
    model = case[2].model.model
    for changed in ({"guidance_scale": 3}, {"top_p": 0.9}, {"num_beams": 4}, {"temperature": -1}, {"max_length": "9"},
                    {"eos_token_id": 19}, {"bos_token_id": 1.5}):  # fmt: skip
        with pytest.raises(ModelError, match=next(iter(changed))):
            DescribedVoice(model, Words(), GENERATION | changed)
    norm = model.decoder.model.decoder.layer_norm.bias
    kept = norm.clone()
    norm.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        speak(case[2], "it")
    norm.copy_(kept)


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", name)
    model, found = (load_voice(folder, dtype=dtype).model.model for dtype in (None, "q8_0"))
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    with pyapp.no_grad():
        asked = pyapp.tensor([DESCRIPTION]), pyapp.tensor(CODES)
        expected, other = (numbers(one(*asked, prompt=pyapp.tensor([PROMPT]))) for one in (model, found))
    assert np.abs(other - expected).mean() < 0.06 * expected.std()
