"""Models that write the text of what they hear, against transformers (make_golden_listeners.py): names, logits,
padding, the tokens that they write, and gradients; and their files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.processors.banks import CentredBankProcessor, StandardizedProcessor
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.audio.transcribe import transcribe_events
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.events import Segment
from pyapp.models.loading.sound import TASK
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn import functional
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from tests.models.listener_configs import BANKS, CONFIGS, MOST, QUANTISED, SAMPLES, tokens_of
from tests.models.seeded import shown, sound_weights
from tests.models.small_models import check_gradients, module_for, numbers, parity_case, shapes_in, shapes_of
from tests.models.sound_configs import recording
from tests.models.voice_folders import write_folder
from tests.text.tokenizer_documents import byte_pairs, document, numbered

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
# Words of 60 tokens: special ones, and two letters for each of the others.
WORDS = ["<unk>", "<s>", "</s>", *(f"▁{chr(97 + i // 20)}{chr(97 + i % 20)}" for i in range(57))]
golden, make, case = parity_case("golden_listeners", CONFIGS, TASK, sound_weights)


def inputs(*counts: int, name: str = "moonshine") -> Any:
    """Samples, filter banks or spectrograms, and their mask."""
    if name in ("canary", "cohere-asr"):
        return StandardizedProcessor.from_settings(BANKS)([recording(count) for count in counts])
    if name == "speech-to-text":
        return CentredBankProcessor.from_settings(BANKS)([recording(count) for count in counts])
    return SampleProcessor(normalize=False, masks=True)([recording(count) for count in counts])


def tokenizer_file(count: int = len(WORDS)) -> str:
    """A tokenizer.json of the first so many words."""
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}
    model = byte_pairs(numbered(WORDS[:count]), unknown="<unk>")
    return json.dumps(document(model, numbered(WORDS[:3]), pre_tokenizer=spaces, decoder=spaces))


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model."""
    settings = {"do_normalize": False, "return_attention_mask": True, "sampling_rate": 16000} | BANKS
    files = {"tokenizer": tokenizer_file(), "preprocessor_config": settings}
    return write_folder(folder, state, CONFIGS[name] | config, **files)


def test_names_and_shapes(case: Any) -> None:
    _, expected, model = case
    assert shapes_of(model) == shapes_in(expected)


def test_logits_alone_and_with_padding(case: Any) -> None:
    name, expected, model = case
    with pyapp.no_grad():
        values, mask = inputs(SAMPLES[0], name=name)
        logits = numbers(model(values, pyapp.tensor([tokens_of(name)]), mask))
        values, mask = inputs(*SAMPLES, name=name)
        padded = numbers(model(values, pyapp.tensor([tokens_of(name)] * 2), mask))
    np.testing.assert_allclose(shown(logits, 100), expected["logits"], **CLOSE)
    np.testing.assert_allclose(shown(padded, 100), expected["padded"], **CLOSE)


def test_what_is_written(case: Any) -> None:
    """Greedily, of a recording and of two together."""
    name, expected, model = case
    options = SearchOptions.from_files(CONFIGS[name], {}, {"max_new_tokens": MOST})
    for counts, rows in zip((SAMPLES[:1], SAMPLES), expected["written"], strict=True):
        *_, found = search(model, *inputs(*counts, name=name), options)
        assert found is not None
        for row, text in zip(rows, found, strict=True):
            assert [tokens_of(name)[0], *text] == row[: 1 + len(text)] and (text[-1] == 2 or len(text) == MOST)


def test_gradients(case: Any) -> None:
    name, expected, model = case
    model.requires_grad_()
    model.zero_grad()
    values, mask = inputs(SAMPLES[0], name=name)
    logits = model(values, pyapp.tensor([tokens_of(name)[:-1]]), mask)[0]
    loss = functional.cross_entropy(logits, pyapp.tensor(tokens_of(name)[1:]), reduction="sum")
    check_gradients(model, loss, expected)


def test_folders_load(case: Any, tmp_path: Path) -> None:
    name, expected, model = case
    module = module_for(CONFIGS[name])
    renamed, state = getattr(module, "renamed", str), dict(model.state_dict())
    files = {key: state.get(renamed(key), state.get(f"model.{renamed(key)}")) for key in expected["files"]}
    loaded = load_speech_model(write(tmp_path, name, {key: value for key, value in files.items() if value is not None}))
    values, mask = loaded.processor([recording(SAMPLES[0])])
    tokens = pyapp.tensor([tokens_of(name)])
    with pyapp.no_grad():
        assert loaded.model(values, tokens, mask).tolist() == model(values, tokens, mask).tolist()
    assert loaded.tokenizer.decode([1, 3, 4, 2]).strip() == "aa ab"


def test_the_tokens_that_ask(tmp_path: Path) -> None:
    """Canary's, as the processors of transformers write them before the text; German is translated into English."""
    model = make("canary")
    folder = write(tmp_path, "canary", dict(model.state_dict()))
    document, asked = json.loads(tokenizer_file()), model.prompt_tokens("de", "translate")
    assert asked[1:6] == ["<|startoftranscript|>", "<|emo:undefined|>", "<|de|>", "<|en|>", "<|pnc|>"]
    for number, content in enumerate(asked, 3):
        document["model"]["vocab"].pop(WORDS[number])
        document["model"]["vocab"][content] = number
        document["added_tokens"].append(document["added_tokens"][0] | {"id": number, "content": content})
    (folder / "tokenizer.json").write_text(json.dumps(document))
    loaded, row = load_speech_model(folder), [1, *range(3, 3 + len(asked))]
    start = len(row)
    samples = np.pad(recording(30000), 2000)
    events = list(transcribe_events(loaded, samples, TranscribeOptions(language="de", task="translate")))
    written = [token for event in events if isinstance(event, Segment) for token in event.tokens]
    assert len(written) > 3
    [(first, last)] = [(event.start, event.end) for event in events if isinstance(event, Segment)]
    values, mask = loaded.processor([samples[round(first * 16000) : round(last * 16000)]])
    with pyapp.no_grad():
        for _ in written:
            row.append(int(model(values, pyapp.tensor([row]), mask)[0, -1].argmax()))
    assert row[start:] == written
    with pytest.raises(OptionError, match="does not know 'fr'"):
        list(transcribe_events(loaded, samples, TranscribeOptions(language="fr")))


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    model = make(name)
    folder = write(tmp_path, name, dict(model.state_dict()))
    values, mask = inputs(SAMPLES[0])
    found = load_speech_model(folder, dtype="q8_0").model
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    with pyapp.no_grad():
        expected = numbers(model(values, pyapp.tensor([tokens_of(name)]), mask))
        assert (
            np.abs(numbers(found(values, pyapp.tensor([tokens_of(name)]), mask)) - expected).mean()
            < 0.06 * expected.std()
        )


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("moonshine", {"encoder_num_key_value_heads": 1}, "heads"), ("moonshine", {"hidden_size": 37}, "divide"),
    ("moonshine", {"max_position_embeddings": 1 << 24}, "positions"), ("moonshine", {"pad_token_id": 60}, "pad_token"),
    ("moonshine", {"encoder_num_hidden_layers": 1 << 12}, "layers"), ("moonshine", {"decoder_hidden_act": "x"}, "'x'"),
    ("moonshine-streaming", {"encoder_config": {"sliding_windows": [[0, 1]]}}, "sliding_windows"),
    ("moonshine-streaming", {"encoder_config": {"frame_ms": 1e-9}}, "frame_ms"),
    ("moonshine-streaming", {"encoder_config": {"sample_rate": 8000}}, "sample_rate"),
    ("moonshine-streaming", {"num_key_value_heads": 1}, "num_key_value_heads"),
    ("speech-to-text", {"conv_kernel_sizes": [4]}, "conv_kernel_sizes"), ("speech-to-text", {"d_model": 33}, "divide"),
    ("speech-to-text", {"max_source_positions": 1 << 24}, "max_source_positions"),
    ("speech-to-text", {"input_feat_per_channel": 9}, "makes 8 bins"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "told"), HOSTILE)
def test_hostile_configurations(name: str, changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_speech_model(write(tmp_path, name, {"a": pyapp.ones(1)}, **changed))


def test_wrong_samples_are_refused() -> None:
    model, tokens = make("moonshine"), pyapp.tensor([tokens_of("moonshine")])
    for values, mask, told in (
        (pyapp.zeros(900), None, "B, N"), (pyapp.zeros(1, 200), None, "enough"),
        (pyapp.zeros(1, 5000), pyapp.zeros(1, 800), "attention_mask"),
        (pyapp.zeros(1, 5000, dtype="int32"), None, "B, N"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=told):
            model(values, tokens, mask)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    folder = write(tmp_path, "moonshine", dict(make("moonshine").state_dict()))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="tokenizer is missing"):
        load_speech_model(folder)


def test_warm_up(case: Any) -> None:
    _, _, model = case
    encoder = model.encoder
    assert encoder.moments(encoder.shortest) == 1 and encoder.moments(encoder.shortest - 1) in (0, 1)
    encoder.warm_up()
