"""Models that name a character for each moment of speech, against transformers (make_golden_sounds.py): names, samples,
logits, padding, texts, times of words, and gradients; and their files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.errors import ArgumentError, InputError, ModelError
from pyapp.models.loading.sound import TASK
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn import functional
from pyapp.text.tokenization.ctc_tokenizer import CTCTokenizer
from tests.models.seeded import shown, sound_weights
from tests.models.small_models import check_gradients, numbers, parity_case, shapes_in, shapes_of
from tests.models.sound_configs import CONFIGS, LABELS, QUANTISED, SAMPLES, VOCABULARY, recording
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
OLDER = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
golden, make, case = parity_case("golden_sounds", CONFIGS, TASK, sound_weights)


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model."""
    settings = {"do_normalize": True, "return_attention_mask": golden(name)["masks"], "sampling_rate": 16000}
    return write_folder(folder, state, CONFIGS[name] | config, vocab=VOCABULARY, preprocessor_config=settings)


def test_names_and_shapes(case: Any) -> None:
    _, expected, model = case
    assert shapes_of(model) == shapes_in(expected)
    assert {*model.state_dict()} == {*shapes_of(model), *expected["state"]}


def test_logits_texts_and_times(case: Any) -> None:
    _, expected, model = case
    values, _ = SampleProcessor()([recording(SAMPLES[0])])
    with pyapp.no_grad():
        logits = numbers(model(values))
    np.testing.assert_allclose(shown(logits, 200), expected["logits"], **CLOSE)
    found = logits[0].argmax(-1).tolist()
    assert found == expected["numbers"]
    tokenizer = CTCTokenizer.from_files(VOCABULARY)
    assert tokenizer.decode(found) == expected["text"]
    assert [[word.text, word.first, word.end] for word in tokenizer.words(found)] == expected["words"]


def test_a_batch_with_padding(case: Any) -> None:
    _, expected, model = case
    values, mask = SampleProcessor(masks=expected["masks"])([recording(count) for count in SAMPLES])
    assert (mask is not None) == expected["masks"]
    np.testing.assert_allclose(shown(numbers(values)), expected["input"], **CLOSE)
    with pyapp.no_grad():
        logits = numbers(model(values, mask))
    np.testing.assert_allclose(shown(logits[:, :: max(1, logits.shape[1] // 8)], 200), expected["padded"], **CLOSE)
    tokenizer = CTCTokenizer.from_files(VOCABULARY)
    assert [tokenizer.decode(row.argmax(-1).tolist()) for row in logits] == expected["texts"]


def test_gradients(case: Any) -> None:
    _, expected, model = case
    model.requires_grad_()
    model.zero_grad()
    values, _ = SampleProcessor()([recording(SAMPLES[0])])
    scores = model(values).log_softmax(-1).transpose(0, 1)  # (T, 1, V)
    loss = functional.ctc_loss(
        scores, pyapp.tensor([LABELS]), pyapp.tensor([scores.shape[0]]), pyapp.tensor([len(LABELS)]), reduction="sum"
    )
    check_gradients(model, loss, expected)


def test_folders_load(case: Any, tmp_path: Path) -> None:
    """With the names of today's files and of older ones, and without what the first training needs."""
    name, expected, model = case
    state = dict(model.state_dict())
    older = {key: value for key, value in state.items() if not key.endswith("masked_spec_embed")}
    for new, old in OLDER.items():
        older = {key.replace(new, old): value for key, value in older.items()}
    for names in (state, older | {"masked_spec_embed": pyapp.zeros(32)} if "masked" in " ".join(state) else older):
        loaded = load_speech_model(write(tmp_path / "folder", name, names))
        assert loaded.processor.masks == expected["masks"]
        values, _ = loaded.processor([recording(SAMPLES[0])])
        with pyapp.no_grad():
            found = numbers(loaded.model(values))[0].argmax(-1).tolist()
        assert loaded.tokenizer.decode(found) == expected["text"]


@pytest.mark.parametrize("name", QUANTISED)
def test_block_quantised(name: str, tmp_path: Path) -> None:
    model = make(name)
    folder = write(tmp_path, name, dict(model.state_dict()))
    values, _ = SampleProcessor()([recording(SAMPLES[0])])
    for dtype, most in (("q8_0", 0.06), ("q4_0", 0.5)):
        found = load_speech_model(folder, dtype=dtype).model
        assert any(parameter.dtype.is_quantized for parameter in found.parameters())
        with pyapp.no_grad():
            expected = numbers(model(values))
            assert np.abs(numbers(found(values)) - expected).mean() < most * np.abs(expected).mean()


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("wav2vec2", {"conv_dim": [16, -1, 24]}, "conv_dim"), ("wav2vec2", {"conv_stride": [5, 2]}, "different numbers"),
    ("wav2vec2", {"conv_kernel": "x"}, "conv_kernel"), ("wav2vec2", {"hidden_size": 1 << 40}, "hidden_size"),
    ("wav2vec2", {"feat_extract_norm": "batch"}, "feat_extract_norm"), ("hubert", {"num_attention_heads": 5}, "divide"),
    ("wav2vec2", {"num_conv_pos_embedding_groups": 5}, "divide"), ("wav2vec2", {"add_adapter": True}, "add_adapter"),
    ("hubert", {"num_conv_pos_embeddings": 1 << 20}, "num_conv_pos_embeddings"), ("wavlm", {"num_buckets": 1}, "num"),
    ("conformer", {"position_embeddings_type": "x"}, "position_emb"), ("sew", {"squeeze_factor": 999}, "squeeze_fac"),
    ("conformer", {"conv_depthwise_kernel_size": 4}, "odd"), ("sew", {"use_weighted_layer_sum": True}, "no SEW has"),
    ("wav2vec2", {"hidden_act": "exec"}, "activation"), ("wav2vec2", {"adapter_attn_dim": 1 << 20}, "adapter"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "told"), HOSTILE)
def test_hostile_configurations(name: str, changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told):
        load_speech_model(write(tmp_path, name, {"a": pyapp.ones(1)}, **changed))


def test_what_is_wrong_with_the_files_is_told(tmp_path: Path) -> None:
    folder = write(tmp_path, "wav2vec2", dict(make("wav2vec2").state_dict()))
    for file, text, told in (
        ("preprocessor_config.json", '{"sampling_rate": 8000}', "8000 samples"),
        ("vocab.json", '{"A": 3}', "no '<pad>'"), ("vocab.json", '{"<pad>": "x"}', "number of '<pad>'"),
        ("vocab.json", '{"<pad>": 0, "Z": 99}', "100 characters"), ("vocab.json", "[]", "JSON object"),
        ("tokenizer_config.json", '{"target_lang": "eng"}', "language 'eng'"),
    ):  # fmt: skip
        before = (folder / file).read_text() if (folder / file).exists() else None
        (folder / file).write_text(text)
        with pytest.raises(ModelError, match=told):
            load_speech_model(folder)
        (folder / file).unlink() if before is None else (folder / file).write_text(before)
    (folder / "vocab.json").unlink()
    with pytest.raises(ModelError, match="characters are missing"):
        load_speech_model(folder)


def test_wrong_samples_are_refused() -> None:
    model = make("wav2vec2")
    for values, mask, told in (
        (pyapp.zeros(900), None, "B, N"), (pyapp.zeros(1, 20), None, "enough"),
        (pyapp.zeros(1, 900), pyapp.zeros(1, 800), "attention_mask"),
    ):  # fmt: skip
        with pytest.raises(InputError if told == "enough" else ArgumentError, match=told):
            model(values, mask)
    with pytest.raises(ArgumentError, match="samples"):
        SampleProcessor()([np.zeros((2, 3))])


def test_characters() -> None:
    """Settings of tokenizer_config.json: small letters, another delimiter, a language of several, added tokens."""
    settings = {"do_lower_case": True, "word_delimiter_token": {"content": "_"}, "pad_token": "[PAD]",
                "target_lang": "de", "added_tokens_decoder": {"4": {"content": "[PAD]"}}}  # fmt: skip
    tokenizer = CTCTokenizer.from_files({"de": {"Ä": 0, "_": 1, "B": 2}, "en": {"A": 0}}, settings, {"[UNK]": 3})
    assert tokenizer.decode([4, 0, 0, 4, 0, 1, 1, 4, 2, 3, 4]) == "ää b[unk]" and tokenizer.vocab_size == 5
    assert [(word.text, word.first, word.end, word.tokens) for word in tokenizer.words([4, 0, 0, 1, 2, 2], 10)] == [
        ("ä", 11, 13, (0,)), ("b", 14, 16, (2,)),
    ]  # fmt: skip
    assert tokenizer.fitted(" äb\n b") == "ÄB B" and tokenizer.encode("ÄB B") == [0, 2, 1, 2]
    assert tokenizer.missing("Ä_[PAD]") == {*"_[PAD]"}
