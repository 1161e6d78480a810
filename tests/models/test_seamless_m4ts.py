"""SeamlessM4T, both versions, against transformers (make_golden_seamless_m4ts.py), of texts and of speech: names,
logits, padding, what is written in a language, and gradients; its files.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.audio.transcribe import transcribe_events
from pyapp.errors import ArgumentError, ModelError
from pyapp.events import Segment
from pyapp.formats import write_safetensors
from pyapp.models._index import MODEL_TYPES
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn import functional
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from tests.models.seamless_m4t_configs import BANKS, CONFIGS, IDS, MOST, SAMPLES, TEXT
from tests.models.seeded import direction, shown, sound_weights
from tests.models.small_models import golden_of, numbers
from tests.models.sound_configs import recording
from tests.models.test_listeners import WORDS, tokenizer_file

CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}
CLASSES = {"seamless_m4t": "SeamlessM4TModel", "seamless_m4t_v2": "SeamlessM4Tv2Model"}
TEXTS, SPEECH = "seq2seq-lm", "speech-recognition"
NAME = "seamless_m4t_v2"
MODULE = importlib.import_module(f"pyapp.models.{MODEL_TYPES[NAME]}")
each = pytest.mark.parametrize("name", CONFIGS)


@cache
def golden(name: str, task: str) -> dict[str, Any]:
    found: dict[str, Any] = golden_of("golden_seamless_m4ts", name)[task]
    return found


def shapes(name: str, task: str) -> dict[str, list[int]]:
    """Those of the parameters and of the statistics of batches, by their names in files."""
    found = golden(name, task)
    return {key: shape for key, (shape, *_) in found["parameters"].items()} | found.get("statistics", {})


@cache
def make(name: str, task: str) -> Any:
    """The model with the weights of its golden file."""
    model = MODULE.TASKS[task](MODULE.Config.from_dict(CONFIGS[name])).eval()
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with pyapp.no_grad():
        for key, shape in shapes(name, task).items():
            own[MODULE.renamed(key)].copy_(pyapp.from_numpy(np.asarray(sound_weights(key, tuple(shape)))))
    return model


def sources(task: str, both: bool) -> tuple[Any, Any]:
    if task == TEXTS:
        ids = pyapp.tensor(IDS if both else IDS[:1])
        return ids, (ids != 0).to("int32")
    prepares = PairedBankProcessor.from_settings(BANKS)
    values, mask = prepares([recording(count) for count in (SAMPLES if both else SAMPLES[:1])])
    return values, mask


@each
@pytest.mark.parametrize("task", [TEXTS, SPEECH])
def test_logits_and_gradients(name: str, task: str) -> None:
    model, expected = make(name, task).requires_grad_(), golden(name, task)
    own = dict(model.named_parameters())
    stored = {MODULE.renamed(key): values for key, values in expected["parameters"].items()}
    assert {key: list(value.shape) for key, value in own.items()} == {key: shape for key, (shape, *_) in stored.items()}
    values, mask = sources(task, True)
    with pyapp.no_grad():
        padded = numbers(model(values, pyapp.tensor([TEXT, TEXT]), mask))
    np.testing.assert_allclose(shown(padded, 80), expected["padded"], **CLOSE)
    values, mask = sources(task, False)
    logits = model(values, pyapp.tensor([TEXT]), mask)
    np.testing.assert_allclose(shown(numbers(logits), 80), expected["logits"], **CLOSE)
    loss = functional.cross_entropy(logits[0, :-1], pyapp.tensor(TEXT[1:]), reduction="sum")
    assert abs(loss.item() - expected["loss"]) < 1e-3
    loss.backward()
    for key, (_, total, product) in expected["parameters"].items():
        grad = numbers(own[MODULE.renamed(key)].grad)
        found = [grad.sum(), (grad * direction(key, grad.shape)).sum()]
        np.testing.assert_allclose(found, [total, product], rtol=5e-3, atol=5e-3, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)


@each
@pytest.mark.parametrize("task", [TEXTS, SPEECH])
def test_what_is_written_in_a_language(name: str, task: str) -> None:
    options = SearchOptions.from_files(CONFIGS[name], {}, {"max_new_tokens": MOST + 1, "forced_bos_token_id": 8})
    *_, found = search(make(name, task), *sources(task, True), options)
    assert found is not None
    for row, text in zip(golden(name, task)["written"], found, strict=True):
        assert row[: 1 + len(text)] == [3, *text] and (text[-1] == 3 or len(text) == MOST + 1)


def write(folder: Path, name: str = NAME, **config: Any) -> Path:
    """The folder of a model that reads and hears."""
    folder.mkdir(exist_ok=True)
    files = shapes(name, TEXTS) | shapes(name, SPEECH)
    tensors = {key: pyapp.from_numpy(np.asarray(sound_weights(key, tuple(shape)))) for key, shape in files.items()}
    write_safetensors(
        folder / "model.safetensors", tensors | {"vocoder.x": pyapp.ones(2), "t2u_model.y": pyapp.ones(2)}
    )
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | {"architectures": [CLASSES[name]]} | config))
    (folder / "preprocessor_config.json").write_text(json.dumps(BANKS))
    document = json.loads(tokenizer_file())
    for number, content in ((8, "__eng__"), (9, "__deu__")):
        document["model"]["vocab"].pop(WORDS[number])
        document["model"]["vocab"][content] = number
        document["added_tokens"].append(document["added_tokens"][0] | {"id": number, "content": content})
    (folder / "tokenizer.json").write_text(json.dumps(document))
    return folder


@each
def test_files_read_and_hear(name: str, tmp_path: Path) -> None:
    """One file is for both; a transcript is in the language that is asked for, a translation in English."""
    folder = write(tmp_path / "model", name)
    text, speech = load_task_model(folder, TEXTS), load_speech_model(folder)
    ids, mask = sources(TEXTS, False)
    tokens = pyapp.tensor([TEXT])
    with pyapp.no_grad():
        assert text.model(ids, tokens, mask).tolist() == make(name, TEXTS)(ids, tokens, mask).tolist()
    samples = np.pad(recording(30000), 2000)
    for asked, first in (({"language": "de"}, 9), ({}, 8), ({"language": "de", "task": "translate"}, 8)):
        loaded = replace(speech, generation={"max_length": 7, "no_repeat_ngram_size": 1})
        events = list(transcribe_events(loaded, samples, TranscribeOptions(**asked)))  # type: ignore[arg-type]
        written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
        assert written[0] == first and len(written) > 2
    if name == "seamless_m4t":  # which has no such limit
        return
    with pytest.raises(ArgumentError, match="longer than 20,000"):
        speech.model(pyapp.zeros(1, 20001, 16), tokens)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"speech_encoder_attention_heads": 5}, "divide"), ({"position_embeddings_type": "rotary"}, "rotary"),
        ({"num_adapter_layers": 2}, "num_adapter_layers"), ({"feature_projection_input_dim": 18}, "18"),
        ({"pad_token_id": 60}, "pad_token_id"), ({"hidden_size": 33}, "divide"),
    ],
)  # fmt: skip
def test_hostile_configurations(changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_speech_model(write(tmp_path / "model", **changed))
