"""Language models that hear, against transformers (make_golden_sound_texts.py): spectrograms, names, logits, gradients
and the tokens that they write; their files, transcription, and questions in a conversation.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio import write_wav
from pyapp.audio.processors import SpectrogramProcessor
from pyapp.errors import FileFormatError, ModelError
from pyapp.events import Done, Error, Progress, Segment
from pyapp.formats import write_safetensors
from pyapp.models import _index, load_model, load_tokenizer
from pyapp.models.load import load_speech_model
from pyapp.models.loading.sound_text import renamed
from pyapp.nn.picture_text import Seen
from pyapp.text.options import SamplingOptions
from pyapp.text.pictures import Recording
from tests.models.seeded import direction, shown, sound_weights
from tests.models.small_models import golden_of, numbers
from tests.models.sound_configs import recording
from tests.models.sound_text_configs import CONFIGS, QUANTISED, SAMPLES, SETTINGS, SOUND, texts

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
SPECIAL = {"<s>": 1, "</s>": 2, "[INST]": 3, "[/INST]": 4, "[AUDIO]": SOUND, "[BEGIN_AUDIO]": 25, "[TRANSCRIBE]": 34}
SPECIAL_OF_QWEN = {"</s>": 2, "<|im_start|>": 3, "<|im_end|>": 4, "<|AUDIO|>": SOUND, "<|audio_bos|>": 25,
                   "<|audio_eos|>": 26, "<|de|>": 27}  # fmt: skip
RESERVED = 40
CLEAR = 14720  # samples after which no two tokens are nearly as likely
WORDS = (b"on", b"es", b" t")


@cache
def golden(name: str) -> dict[str, Any]:
    return golden_of("golden_sound_texts", name)


@cache
def make(name: str) -> Any:
    """The model with the weights of its golden file."""
    module = importlib.import_module(f"pyapp.models.{_index.MODEL_TYPES[name]}")
    model = module.TASKS["audio-text-to-text"](module.Config.from_dict(CONFIGS[name]))
    found = dict(model.named_parameters())
    with pyapp.no_grad():
        for key in golden(name)["parameters"]:
            value = found[renamed(key)]
            value.copy_(pyapp.from_numpy(sound_weights(key, tuple(value.shape))))
    return model.eval().requires_grad_(False)


def tekken(special: Mapping[str, int] = SPECIAL, **changed: Any) -> dict[str, Any]:
    """A vocabulary of all bytes and a few words, in Mistral's form."""
    pieces = [*(bytes([byte]) for byte in range(256)), *WORDS]
    names = {number: name for name, number in special.items()}
    return {
        "config": {
            "pattern": r"[^\s]+|\s+[^\s]*", "default_vocab_size": RESERVED + len(pieces),
            "default_num_special_tokens": RESERVED,
        },
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
            for i, piece in enumerate(pieces)
        ],
        "special_tokens": [
            {"rank": number, "token_str": names.get(number, f"<SPECIAL_{number}>"), "is_control": True}
            for number in range(RESERVED)
        ],
    } | changed  # fmt: skip


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with tensors as transformers names them."""
    folder.mkdir(exist_ok=True)
    found = dict(make(name).named_parameters())
    write_safetensors(folder / "model.safetensors", {key: found[renamed(key)] for key in golden(name)["parameters"]})
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | config))
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    (folder / "tekken.json").write_text(json.dumps(tekken()))
    return folder


def mel(*counts: int) -> tuple[pyapp.Tensor, list[tuple[int, int]]]:
    """The spectrograms of recordings, and their sizes."""
    processor = SpectrogramProcessor.from_settings(SETTINGS)
    return pyapp.cat([processor(recording(count)) for count in counts]), [processor.size(count) for count in counts]


@pytest.mark.parametrize("name", CONFIGS)
def test_spectrograms_logits_and_gradients_are_those_of_transformers(name: str) -> None:
    model, expected = make(name).requires_grad_(), golden(name)
    np.testing.assert_allclose(shown(numbers(mel(SAMPLES[0])[0]), 60), expected["mel"], **CLOSE)
    found, stored = dict(model.named_parameters()), expected["parameters"]
    assert {renamed(key): shape for key, (shape, _) in stored.items()} == {
        key: list(value.shape) for key, value in found.items()
    }
    ids = pyapp.tensor(texts(name), dtype="int32")
    logits = model(ids, ids != 0, *mel(*SAMPLES)) * (ids != 0).unsqueeze(-1)
    np.testing.assert_allclose(shown(numbers(logits), 96), expected["outputs"], **CLOSE)
    (logits * pyapp.tensor(direction(name, logits.shape).astype(np.float32))).sum().backward()
    for key, (_, product) in stored.items():
        grad = numbers(found[renamed(key)].grad)
        np.testing.assert_allclose(
            (grad * direction(key, grad.shape)).sum(), product, rtol=2e-3, atol=2e-3, err_msg=key
        )
    model.zero_grad()
    model.requires_grad_(False)


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_are_those_of_transformers(name: str) -> None:
    model, row = make(name), texts(name)[0]
    places = [i for i, token in enumerate(row) if token == SOUND]
    cache = model.new_cache(len(row) + 30)
    found: list[int] = []
    with pyapp.no_grad():
        features = model.vectors_of(*mel(SAMPLES[0]))
        logits = model.forward_cached(
            pyapp.tensor(row, dtype="int32"), pyapp.tensor([0], dtype="int32"), cache, seen=Seen(features, places)
        )
        for place in range(len(row), len(row) + 24):
            found.append(int(logits.reshape(-1).argmax()))
            at = pyapp.tensor([place], dtype="int32")
            logits = model.forward_cached(pyapp.tensor(found[-1:], dtype="int32"), at, cache)
    assert found == golden(name)["tokens"]


async def run(stream: Any) -> list[Any]:
    return [event async for event in stream]


def test_transcription_and_questions(tmp_path: Path) -> None:
    """What is written is what follows the prompts of mistral_common in the model itself."""
    folder = write(tmp_path / "model", "voxtral")
    file = tmp_path / "sound.wav"
    write_wav(file, recording(SAMPLES[1]), 16000)
    loaded = load_speech_model(folder)
    samples = next(iter(pyapp.audio.open_audio(file)))
    sound = Recording(loaded, samples, 1000)
    loaded.model.encoder.warm_up()
    assert len(sound.ids) == 20 and sound.text == "[AUDIO]" * 20

    def following(before: list[int], after: list[int], count: int) -> list[int]:
        """Greedily, without a cache."""
        row, found = [*before, *[SOUND] * 20, *after], []
        while len(found) < count and found[-1:] != [2]:
            logits = loaded.model(pyapp.tensor([[*row, *found]], dtype="int32"), None, loaded.processor(samples))
            found.append(int(logits[0, -1].argmax()))
        return [token for token in found if token != 2]

    language = [RESERVED + byte for byte in b"lang:de"]
    expected = following([1, 3, 25], [4, *language, 34], 7)  # 13 tokens a second
    events = asyncio.run(run(tasks.transcribe(file, {"language": "de"}, model=loaded, vad="energy")))
    written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
    assert written == expected and len(written) > 3
    assert [event.results["language"] for event in events if isinstance(event, Done)] == ["de"]

    whole = np.concatenate([recording(40000), np.zeros(16000, np.float32)] * 2)
    long = asyncio.run(run(tasks.transcribe(whole, {}, model=loaded, vad="energy")))
    spans = [(event.start, event.end) for event in long if isinstance(event, Segment)]
    assert isinstance(long[-1], Done) and len(spans) > 2, long
    assert all(0 < end - start <= 1 for start, end in spans) and spans == sorted(spans)

    text = load_model(folder)
    message = {"role": "user", "content": [{"type": "audio", "audio": str(file)}, {"type": "text", "text": "es?"}]}
    question = following([1, 3, 25], [RESERVED + 257, RESERVED + ord("?"), 4], 6)
    options = SamplingOptions(temperature=0.0, max_new_tokens=6)
    events = asyncio.run(run(tasks.chat(text, [message], options)))
    assert [event.id for event in events if event.type == "token" and event.id is not None] == question
    assert any(isinstance(event, Progress) and event.what == "hearing" for event in events)
    picture = {"role": "user", "content": [{"type": "image", "image": str(file)}]}
    last = asyncio.run(run(tasks.chat(text, [picture], options)))[-1]
    assert isinstance(last, Error) and "no pictures" in last.what


def test_prompts_of_qwen2_audio(tmp_path: Path) -> None:
    """As in its authors' evaluation; the model for conversations, which ends turns, is asked in one."""
    folder, samples = write(tmp_path / "model", "qwen2_audio"), recording(CLEAR)
    (folder / "tekken.json").write_text(json.dumps(tekken(SPECIAL_OF_QWEN)))
    spectrogram, sizes = mel(CLEAR)

    def spelled(*parts: str | int) -> list[int]:
        return [token for part in parts for token in ([part] if isinstance(part, int) else words.encode(part, False))]

    words = load_tokenizer(folder / "tekken.json")
    system, task = "system\nYou are a helpful assistant.", "Detect the language and recognize the speech:"
    heard = [25, *[SOUND] * 23, 26]
    prompts = [
        ({}, spelled(*heard, f"{task} ", 27)),
        ({"eos_token_id": [2, 4]},
         spelled(3, system, 4, "\n", 3, "user\nAudio 1: ", *heard, f"\n{task}", 4, "\n", 3, "assistant\n")),
    ]  # fmt: skip
    for generation, prompt in prompts:
        (folder / "generation_config.json").write_text(json.dumps(generation))
        loaded, row = load_speech_model(folder), [*prompt]
        for _ in range(6):
            logits = loaded.model(pyapp.tensor([row], dtype="int32"), None, spectrogram, sizes)
            row.append(int(logits[0, -1].argmax()))
        events = asyncio.run(run(tasks.transcribe(samples, {"language": "de"}, model=loaded, vad="energy")))
        written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
        assert written[:6] == row[len(prompt) :]


@pytest.mark.native_only
def test_the_commands(tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder = write(tmp_path / "model", "voxtral")
    file = str(tmp_path / "sound.wav")
    write_wav(file, recording(SAMPLES[1]), 16000)
    runner = testing.CliRunner()
    options = ["--audio", file, "--temperature", "0", "-n", "3"]
    found = runner.invoke(cli, ["chat", str(folder), *options], input="es?\n", standalone_mode=False)
    assert found.return_value == 0 and "3 tokens" in found.stderr, found.output
    found = runner.invoke(cli, ["transcribe", file, "--model", str(folder)], standalone_mode=False)
    assert found.return_value == 0, found.output


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"audio_config": None}, "audio_config"), ({"text_config": {"model_type": "bert"}}, "'bert'"),
    ({"audio_token_id": -1}, "audio_token_id"),
    ({"audio_config": CONFIGS["voxtral"]["audio_config"] | {"intermediate_size": 70}}, "cannot be joined"),
    ({"audio_config": CONFIGS["voxtral"]["audio_config"] | {"max_source_positions": 1 << 20}}, "reads|max_source"),
    ({"audio_config": CONFIGS["voxtral"]["audio_config"] | {"num_attention_heads": 5}}, "divide"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "told"), HOSTILE)
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "model", "voxtral", **changed)
    with pytest.raises(ModelError, match=told):
        load_speech_model(folder)


def test_vocabularies_of_mistral(tmp_path: Path) -> None:
    def load(**changed: Any) -> Any:
        (tmp_path / "tekken.json").write_text(json.dumps(tekken(**changed)))
        return load_tokenizer(tmp_path)

    words = load()
    assert words.encode("es on") == [1, RESERVED + 257, RESERVED + ord(" "), RESERVED + 256]
    assert words.encode("[INST] t[/INST]", bos=False) == [3, RESERVED + 258, 4]
    assert words.decode(words.encode("es tö")) == "es tö" and words.bos_id == 1 and words.eos_ids == {2}
    config = tekken()["config"]
    for changed in (
        {"config": config | {"default_vocab_size": None}}, {"config": config | {"default_num_special_tokens": 1 << 40}},
        {"vocab": [{"rank": 0, "token_bytes": "é"}]}, {"vocab": [1]}, {"special_tokens": [{"rank": 99}]},
        {"special_tokens": [{"rank": 99, "token_str": "x"}]}, {"vocab": []},
        {"special_tokens": [{"rank": 1, "token_str": "a"}]},
    ):  # fmt: skip
        with pytest.raises(FileFormatError):
            load(**changed)


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    found = load_speech_model(write(tmp_path / "model", name), dtype="q8_0").model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    ids = pyapp.tensor(texts(name), dtype="int32")
    with pyapp.no_grad():
        expected = numbers(make(name)(ids, ids != 0, *mel(*SAMPLES)))
        assert np.abs(numbers(found(ids, ids != 0, *mel(*SAMPLES))) - expected).mean() < 0.06 * expected.std()
