"""Models that hear a moment with each token that they write, against transformers
(make_golden_synchronous_listeners.py): the tensors of their files, what is prepared of a recording, logits, and the
tokens that they write; transcription.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio.live import live_transcriber
from pyapp.audio.resampling import resample
from pyapp.audio.streaming import LiveOptions
from pyapp.audio.transcribe import transcribe_events
from pyapp.errors import Cancelled, ModelError, OptionError
from pyapp.events import Cancel, Done, Segment
from pyapp.formats import write_safetensors
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn.audio.synchronous import Writer
from tests.models.codec_configs import sound
from tests.models.seeded import shown
from tests.models.small_models import golden_in, module_for, numbers
from tests.models.sound_configs import recording
from tests.models.synchronous_listener_configs import (
    AT_CODEC,
    CONFIGS,
    PADDING,
    QUANTISED,
    SAMPLES,
    SETTINGS,
    TOKENS,
    weights,
)
from tests.models.test_listeners import tokenizer_file
from tests.models.test_sound_texts import run, tekken

CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}
golden = golden_in("golden_synchronous_listeners")


def write(folder: Path, name: str, **config: Any) -> Path:
    """The folder of a model, with tensors as transformers names them, and a tokenizer."""
    folder.mkdir(exist_ok=True)
    tensors = golden(name)["tensors"].items()
    write_safetensors(
        folder / "model.safetensors", {key: pyapp.from_numpy(np.asarray(weights(key, tuple(s)))) for key, s in tensors}
    )
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | config))
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS[name]))
    if name == "kyutai":
        (folder / "tokenizer.json").write_text(tokenizer_file(40))
    else:
        special = {"<s>": 1, "</s>": 2, "[STREAMING_PAD]": PADDING, "[STREAMING_WORD]": 33}
        (folder / "tekken.json").write_text(json.dumps(tekken(special)))
    return folder


@pytest.fixture(scope="module", params=CONFIGS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    folder = write(tmp_path_factory.mktemp("model"), request.param)
    return request.param, load_speech_model(folder), folder


def prepared(name: str, loaded: Any) -> pyapp.Tensor:
    """What is prepared of the recording of the golden file."""
    if name == "voxtral":
        return loaded.model.prepared(loaded.processor, recording(SAMPLES))
    own = loaded.processor
    before, behind = int(own.before * own.rate), int((own.delay + 1) * own.rate)
    return pyapp.from_numpy(np.pad(sound(1, AT_CODEC)[0, 0], (before, behind))[None, None])


def test_logits_and_tokens_are_those_of_transformers(case: Any) -> None:
    name, loaded, _ = case
    model, expected = loaded.model, golden(name)
    values = prepared(name, loaded)
    np.testing.assert_allclose(shown(numbers(values), 60), expected["values"], **CLOSE)
    with pyapp.no_grad():
        heard = model.heard(values)
        if name == "kyutai":
            assert model.codes(values)[0].tolist() == expected["codes"]
        tokens = pyapp.arange(5, 5 + TOKENS).unsqueeze(0)
        logits = model(tokens, heard[:, :TOKENS])
        np.testing.assert_allclose(shown(numbers(logits), 100), expected["logits"], **CLOSE)
        prompt = model.prompt(loaded.tokenizer, loaded.generation)
        found = [*model.written(prompt, heard[0])]
        start = 1 if name == "kyutai" else 0  # transformers returns the prompt too
        assert found[: len(expected["written"]) - start] == expected["written"][start:]
        whole = model(pyapp.tensor([[*prompt, *found[:-1]]]), heard)[0, len(prompt) - 1 :]
        assert whole.argmax(-1).tolist() == found  # what is cached is as the whole


def test_transcription(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written of an utterance is what the model writes of it; it can be cancelled."""
    name, loaded, _ = case
    samples, heard_samples, model = recording(SAMPLES), [], type(loaded.model)
    prepare = model.prepared

    def watched(own: Any, processor: Any, part: Any) -> pyapp.Tensor:
        heard_samples.append(np.array(part))
        return prepare(own, processor, part)

    monkeypatch.setattr(model, "prepared", watched)
    events = asyncio.run(run(tasks.transcribe(samples, {}, model=loaded, vad="energy")))
    [segment] = [event for event in events if isinstance(event, Segment)]
    [part] = heard_samples
    assert len(part) > SAMPLES / 2
    with pyapp.no_grad():
        heard = loaded.model.heard(loaded.model.prepared(loaded.processor, part))[0]
        assert list(segment.tokens) == [
            *loaded.model.written(loaded.model.prompt(loaded.tokenizer, loaded.generation), heard)
        ]
    assert isinstance(events[-1], Done)
    if name == "kyutai":
        rate = SETTINGS[name]["sampling_rate"]
        own = numbers(loaded.processor(samples))[0, 0]
        np.testing.assert_allclose(own[32:-1760], resample(samples, 16000, rate)[: len(own) - 1792], **CLOSE)
        assert not own[:32].any() and not own[-1760:].any()
    assert loaded.model.prompt(loaded.tokenizer, {"bos_token_id": 7})[0] == (7 if name == "kyutai" else 1)
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        list(transcribe_events(loaded, samples, cancel=cancel))


def test_live_speech(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written while it is said is what is written of the whole; each push writes moments of its own."""
    name, loaded, _ = case
    model, rows, parts = loaded.model, list[int](), list[np.ndarray]()
    prepare, written = type(model).prepared, Writer.written

    def watched(own: Any, processor: Any, part: Any) -> pyapp.Tensor:
        parts.append(np.array(part))
        return prepare(own, processor, part)

    def counted(own: Writer, heard: pyapp.Tensor) -> Iterator[int]:
        rows.append(heard.shape[0])
        return written(own, heard)

    monkeypatch.setattr(type(model), "prepared", watched)
    monkeypatch.setattr(Writer, "written", counted)
    sound = np.concatenate([recording(SAMPLES), np.zeros(SAMPLES, np.float32), recording(2 * SAMPLES)])
    live = live_transcriber(loaded, live=LiveOptions(interval=0.1, pause=0.3))
    told: list[list[Segment]] = [[]]
    for at in range(0, len(sound), 1600):
        told[-1] += [event for event in live.push(sound[at : at + 1600]) if isinstance(event, Segment)]
        if told[-1] and not live.speaking:
            told.append([])
    told[-1] += [event for event in live.finish() if isinstance(event, Segment)]
    following = [*parts[1:], parts[0][:0]]
    utterances = [part for part, after in zip(parts, following, strict=True) if len(after) < len(part)]
    assert live.seconds == len(sound) / 16000 and len(told) == len(utterances) == 2
    prompt, total = model.prompt(loaded.tokenizer, loaded.generation), 0
    for segments, part in zip(told, utterances, strict=True):
        with pyapp.no_grad():
            heard = model.heard(prepare(model, loaded.processor, part))[0]
        total += len(heard)
        said = "".join(segment.text for segment in segments)
        assert said.strip() == loaded.tokenizer.decode([*model.written(prompt, heard)]).strip()
        assert [bool(segment.continues) for segment in segments] == [at > 0 for at in range(len(segments))]
        assert all(segment.start <= segment.end for segment in segments)
    assert sum(rows[:-2]) == total and len(rows) > 6  # the last ones are those of the wholes
    for count in (3001, 5280):
        settled = model.settled(loaded.processor, count)
        with pyapp.no_grad():
            found = model.heard(prepare(model, loaded.processor, sound[:count]))[0]
            later = model.heard(prepare(model, loaded.processor, sound))[0]
        assert 2 < settled < len(found)
        np.testing.assert_allclose(numbers(found[:settled]), numbers(later[:settled]), **CLOSE)
        assert np.abs(numbers(found[settled + 1 :]) - numbers(later[settled + 1 : len(found)])).max() > 0.01
    with pytest.raises(OptionError, match="samples"):
        live.push(np.zeros((2, 9), np.float32))


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, case: Any, tmp_path: Path) -> None:
    if case[0] != name:
        return
    _, loaded, folder = case
    found = load_speech_model(folder, dtype="q8_0").model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    tokens, values = pyapp.arange(5, 5 + TOKENS).unsqueeze(0), prepared(name, loaded)
    with pyapp.no_grad():
        heard = loaded.model.heard(values)[:, :TOKENS]
        expected, other = (numbers(one(tokens, heard)) for one in (loaded.model, found))
    assert np.abs(other - expected).mean() < 0.08 * expected.std()


AUDIO, TEXT = CONFIGS["voxtral"]["audio_config"], CONFIGS["voxtral"]["text_config"]
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("kyutai", {"codec_config": {"model_type": "llama"}}, "'llama'"), ("kyutai", {"codec_config": 3}, "codec_config"),
    ("kyutai", {"num_codebooks": 9}, "the codec has 3"), ("kyutai", {"codebook_vocab_size": 8}, "codebook_vocab_size"),
    ("kyutai", {"ffn_dim": 7}, "ffn_dim"), ("kyutai", {"bos_token_id": 92}, "bos_token_id is 92"),
    ("kyutai", {"audio_bos_token_id": -1}, "audio_bos_token_id"),
    ("kyutai", {"tie_word_embeddings": True}, "tie_word_embeddings"),
    ("voxtral", {"downsample_factor": 3}, "expected 2 times 3"), ("voxtral", {"audio_config": None}, "audio_config"),
    ("voxtral", {"default_num_delay_tokens": 1 << 20}, "default_num_delay_tokens"),
    ("voxtral", {"audio_config": AUDIO | {"head_dim": 7}}, "rotated"),
    ("voxtral", {"text_config": TEXT | {"num_key_value_heads": 3}}, "num_key_value_heads"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "told"), HOSTILE)
def test_hostile_configurations(name: str, changed: dict[str, Any], told: str) -> None:
    module = module_for(CONFIGS[name])
    with pytest.raises(ModelError, match=told):
        module.Config.from_dict(CONFIGS[name] | changed)
    wrong = {"kyutai": {"audio_delay_seconds": -1}, "voxtral": {"global_log_mel_max": "x"}}[name]
    for settings in ({"sampling_rate": 5}, wrong):
        with pytest.raises(ModelError, match="sampling_rate|samples a second|silence|global_log_mel_max"):
            module.PROCESSOR.from_settings(settings)
