"""Kokoro against its own program (make_golden_styled_voices.py): names, durations, curves, samples and gradients; its
files, the task and the command.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import hub, tasks
from pyapp.audio import read_wav
from pyapp.audio.speaking import speak
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.formats import write_npy, write_safetensors
from pyapp.hub.resolver import choose_model
from pyapp.models.loading.voice import FILES, TASK, load_voice
from pyapp.text import phonemes
from tests.models.seeded import direction, shown
from tests.models.small_models import golden_of, numbers, seeded_model
from tests.models.styled_voice_configs import CONFIGS, PHONEMES, VOCABULARY, noise, voice, weights

CLOSE = {"rtol": 2e-4, "atol": 2e-4}
RATES = {"usual": 1.0, "slow": 0.6}
NAME = "kokoro"


@pytest.fixture(scope="module")
def model() -> Any:
    return seeded_model(CONFIGS[NAME], TASK, weights)


def expected() -> dict[str, Any]:
    return golden_of("golden_styled_voices", NAME)


def given() -> tuple[pyapp.Tensor, pyapp.Tensor]:
    """The numbers of the phonemes, and the vector of a voice for them."""
    ids = [VOCABULARY[letter] for letter in PHONEMES]
    return pyapp.tensor([[0, *ids, 0]]), pyapp.from_numpy(voice())[len(ids) - 1]


def drawn(shape: tuple[int, ...]) -> pyapp.Tensor:
    return pyapp.from_numpy(noise(shape))


def test_parity(model: Any) -> None:
    """Names, and what the program computes; the gradients of the usual rate."""
    ids, style = given()
    wanted = expected()
    found = {key: list(parameter.shape) for key, parameter in model.named_parameters()}
    assert found == {k: shape for k, (shape, *_) in wanted["parameters"].items() if ".pooler." not in k}
    for run, rate in RATES.items():
        with pyapp.no_grad():
            encoded, durations = model.read(ids, style, rate)
            _, pitch, loudness = model.curves(encoded, durations, style)
        assert durations == wanted[run]["durations"]
        for key, values in (("pitch", pitch), ("loudness", loudness)):
            np.testing.assert_allclose(shown(numbers(values), 200), wanted[run][key], **CLOSE, err_msg=key)
    with pyapp.no_grad():
        samples = model(ids, style, RATES["slow"], drawn)
    assert samples.shape == (1, wanted["slow"]["length"])
    np.testing.assert_allclose(shown(numbers(samples), 200), wanted["slow"]["samples"], **CLOSE)
    model.requires_grad_()
    samples = model(ids, style, noise=drawn)
    np.testing.assert_allclose(shown(numbers(samples), 200), wanted["usual"]["samples"], **CLOSE)
    along = pyapp.from_numpy(direction("samples", (samples.shape[1],)).astype(np.float32))
    (samples[0] * along).sum().backward()
    for key, parameter in model.named_parameters():
        grad = numbers(parameter.grad) if parameter.grad is not None else np.zeros(parameter.shape)
        _, total, product = wanted["parameters"][key]
        scale = max(1.0, abs(grad).max() * 20)
        told = [grad.sum(), (grad * direction(key, grad.shape)).sum()]
        np.testing.assert_allclose(told, [total, product], rtol=5e-3, atol=5e-3 * scale, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)


def in_file(model: Any) -> dict[str, pyapp.Tensor]:
    """The tensors of a published file: with "module" in their names, the norms of weights apart, and no factors of
    norms over time, which are 1 here.
    """
    state, found = dict(model.state_dict()), {}
    for key, shape in expected()["filed"].items():
        own = key.replace(".gamma", ".weight").replace(".beta", ".bias")
        if ".pooler." in key or "position_ids" in key or "token_type_ids" in key:
            continue
        if key.endswith((".norm.weight", ".norm.bias")):
            continue
        if key.endswith(("weight_g", "weight_v")):
            weight = state[own[:-2]]
            norms = (weight * weight).sum(list(range(1, weight.ndim)), True).sqrt()
            value = norms if key.endswith("_g") else weight * (0.5 + norms)
        else:
            value = state[own]
        assert list(value.shape) == shape, key
        first, _, rest = key.partition(".")
        found[f"{first}.module.{rest}"] = value.contiguous()
    return found


def write(folder: Path, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model with two voices."""
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "kokoro-v1_0.safetensors", state)
    settings = {key: value for key, value in CONFIGS[NAME].items() if key not in ("model_type", "affine_norms")}
    (folder / "config.json").write_text(json.dumps(settings | config))
    pyapp.save(pyapp.from_numpy(voice()), folder / "voices" / "af_heart.pt")
    write_npy(folder / "voices" / "ef_dora.npy", pyapp.from_numpy(voice(1)))
    return folder


@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("voices") / NAME, dict(model.state_dict()))


@pytest.mark.native_only  # the same work of Python takes long there; other tests load a folder
def test_files(model: Any, folder: Path, tmp_path: Path) -> None:
    """A folder as the model's state is saved, one of torch's pickle of dicts as published, and files by their paths."""
    names = ["kokoro-v1_0.pth", "config.json", "voices/af_heart.pt", "voices/af_sky.safetensors"]
    assert choose_model(names, "hub") == names[0]
    assert {name for name in names if FILES.fullmatch(name)} == {*names[1:]}
    for key, value in load_voice(folder).model.model.state_dict().items():
        np.testing.assert_array_equal(numbers(value), numbers(model.state_dict()[key]), err_msg=key)
    published = write(tmp_path / "published", {})
    (published / "kokoro-v1_0.safetensors").unlink()
    state, parts = in_file(model), {}
    for key, value in state.items():
        first, _, rest = key.partition(".")
        parts.setdefault(first, {})[rest] = value
    pyapp.save(parts, published / "kokoro-v1_0.pth")
    told: list[Any] = []
    loaded = load_voice(published, report=told.append)
    assert not [event for event in told if event.type == "notice"]
    assert not loaded.model.config.affine_norms
    own = dict(model.state_dict())
    for key, value in loaded.model.model.state_dict().items():
        np.testing.assert_allclose(numbers(value), numbers(own[key]), rtol=1e-5, atol=1e-7, err_msg=key)
    found = hub.resolve(folder, also=FILES).files
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found.values()}
    sources = {path: pyapp.formats.open_source(data) for path, data in files.items()}
    assert load_voice(sources).voices == ("af_heart", "ef_dora")


def test_texts_are_spoken(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_voice(folder)
    assert loaded.speakers == 2 and loaded.voices == ("af_heart", "ef_dora")
    first, rate = speak(loaded, PHONEMES, {"phonemes": True, "seed": 3})
    assert rate == 24000 and len(first)
    np.testing.assert_array_equal(first, speak(loaded, PHONEMES, {"phonemes": True, "seed": 3, "voice": "af_heart"})[0])
    others = [{"seed": 4}, {"seed": 3, "voice": "ef_dora"}, {"seed": 3, "rate": 0.5}, {"voice": "af_heart,ef_dora"}]
    for changed in others:
        found = speak(loaded, PHONEMES, {"phonemes": True, **changed})[0]
        assert len(found) != len(first) or (found != first).any(), changed
    # The vector is that of the number of phonemes, or the mean of two.
    rows = [numbers(pyapp.from_numpy(voice(number)))[3] for number in (0, 1)]
    np.testing.assert_allclose(numbers(loaded.model.style(loaded.voices, 4)), np.mean(rows, 0), rtol=1e-6)
    np.testing.assert_array_equal(numbers(loaded.model.style(["ef_dora"], 99)), numbers(pyapp.from_numpy(voice(1)))[-1])
    assert list(loaded.model.divided([4] * 7 + [3] + [5] * 12)) == [[4] * 7 + [3], [5] * 10, [5] * 2]
    long = speak(loaded, "ta" * 8, {"phonemes": True})[0]  # 16 phonemes, of which the model reads 10 at once
    assert len(long) > len(first)
    # A library makes phonemes of texts, in the language of the voice.
    made = ModuleType("misaki.espeak")
    made.EspeakG2P = lambda language: lambda text: (f"hita {language}"[:4], None)  # type: ignore[attr-defined]
    made.EspeakFallback = lambda british: lambda word: ("", 2)  # type: ignore[attr-defined]
    for name, module in (("misaki", ModuleType("misaki")), ("misaki.espeak", made)):
        monkeypatch.setitem(sys.modules, name, module)
    english = SimpleNamespace(read=lambda text: PHONEMES)
    monkeypatch.setattr(phonemes.EnglishReader, "of_dialect", lambda dialect, unknown: english)
    phonemes._reader.cache_clear()
    np.testing.assert_array_equal(first, speak(loaded, "Hello there", {"seed": 3})[0])
    assert loaded.reader(1).read("x").ids == tuple(VOCABULARY[letter] for letter in "hita")
    monkeypatch.setitem(sys.modules, "misaki.espeak", None)
    monkeypatch.setattr(phonemes.EnglishReader, "of_dialect", lambda dialect, unknown: import_module("misaki.data"))
    phonemes._reader.cache_clear()
    for options, told in (
        ({}, "misaki.*not installed"), ({"voice": "bob"}, "no voice 'bob'"), ({"speaker": 2}, "voices 0 to 1"),
        ({"noise": 0.5, "phonemes": True}, "noise"), ({"voice": ","}, "voice"),
        ({"voice": "ef_dora", "speaker": 1}, "two choices"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            speak(loaded, "ta", options)
    monkeypatch.undo()

    async def run() -> list[Any]:
        stream = tasks.speak("ta.\nta.", {"phonemes": True, "voice": "ef_dora"}, model=str(folder))
        return [event async for event in stream]

    last = asyncio.run(run())[-1]
    assert last.type == "done" and last.results["sentences"] == 2, last
    tasks.unload()


@pytest.mark.native_only
def test_the_command(folder: Path, tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    output = tmp_path / "sound.wav"
    asked = ["speak", "həˈta.", "--phonemes", "--voice", "ef_dora", "-m", str(folder), "-o", str(output)]
    result = testing.CliRunner().invoke(cli, asked, standalone_mode=False)
    assert result.return_value == 0, result.output
    assert len(read_wav(output)[0])
    tasks.unload()


def test_what_is_wrong_is_told(
    model: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    generator, bert = CONFIGS[NAME]["istftnet"], CONFIGS[NAME]["plbert"]
    hostile: list[tuple[dict[str, Any], str]] = [
        ({"hidden_dim": 1 << 40}, "hidden_dim"), ({"hidden_dim": 15}, "even"), ({"n_layer": 1 << 20}, "n_layer"),
        ({"vocab": {"a": 12}}, "'a' is 12"), ({"vocab": []}, "vocab"), ({"max_dur": 1 << 30}, "max_dur"),
        ({"istftnet": generator | {"gen_istft_hop_size": 5}}, "hop_size 5"), ({"plbert": {}}, "hidden_size"),
        ({"istftnet": generator | {"upsample_rates": [1, 2]}}, "above 1"), ({"style_dim": 5}, r"\[|shape|style"),
        ({"istftnet": generator | {"upsample_rates": [8192, 8192]}}, "taps|samples"), ({"n_token": -1}, "n_token"),
        ({"plbert": bert | {"embedding_size": 1 << 30}}, "embedding_size"),
        ({"plbert": bert | {"num_attention_heads": 3}}, "attention_heads 3"),
        ({"text_encoder_kernel_size": 4}, "odd"),
    ]  # fmt: skip
    place = write(tmp_path / "hostile", dict(model.state_dict()))
    usual = json.loads((place / "config.json").read_text())
    for changed, told in hostile:
        (place / "config.json").write_text(json.dumps(usual | changed))
        with pytest.raises(ModelError, match=told):
            load_voice(place)
    (place / "config.json").write_text(json.dumps(usual))
    pyapp.save(pyapp.zeros(3, 1, 7), place / "voices" / "af_heart.pt")
    with pytest.raises(ModelError, match=r"\[3, 1, 7\], expected one of \[lengths, 1, 12\]"):
        speak(load_voice(place), "ta", {"phonemes": True})
    for file in (place / "voices").iterdir():
        file.unlink()
    with pytest.raises(ModelError, match="has none"):
        load_voice(place)
    ids, style = given()
    for wrong in ((ids[0], style), (ids, style[:, :5]), (pyapp.cat([ids, ids], 1), style)):
        with pytest.raises(ArgumentError):
            model(*wrong)
    monkeypatch.setattr(type(model.predictor), "durations", lambda self, encoded: encoded[:, :, 0] * float("nan"))
    with pytest.raises(ModelError, match="frames"):
        model.read(ids, style)
