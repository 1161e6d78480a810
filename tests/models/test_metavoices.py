"""MetaVoice against torch (make_golden_metavoices.py): logits and gradients of both networks, the tokens and codes that
they write; its files, speech, and files that cannot be.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.speaking import speak
from pyapp.errors import ModelError
from pyapp.formats import write_safetensors
from pyapp.models.loading.voice import load_voice
from pyapp.text.generation.options import SamplingOptions
from tests.models.codec_configs import CONFIGS as CODECS
from tests.models.metavoice_configs import CONFIGS, TEXT, TOKENIZER, vector, weights
from tests.models.seeded import codec_weights, direction, shown
from tests.models.small_models import golden_of, numbers, seeded_model

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
EXPECTED = golden_of("golden_metavoices", "metavoice")


def write(folder: Path, tokenizer: Any = TOKENIZER) -> tuple[Path, Path]:
    """The folders of the model and of its codec."""
    folder.mkdir(exist_ok=True)
    for name in ("first", "second"):
        tensors = {key: pyapp.from_numpy(weights(key, tuple(shape))) for key, (shape, _) in EXPECTED[name].items()}
        write_safetensors(folder / f"{name}_stage.safetensors", tensors)
    (folder / "first_stage.meta.json").write_text(json.dumps({"tokenizer": tokenizer}))
    write_safetensors(folder / "spk_emb.safetensors", {"spk_emb": pyapp.from_numpy(vector())})
    codec = folder / "codec"
    codec.mkdir(exist_ok=True)
    own = seeded_model(CODECS["encodec"], "audio-codec", codec_weights)
    write_safetensors(codec / "model.safetensors", own.state_dict())
    (codec / "config.json").write_text(json.dumps(CODECS["encodec"]))
    return folder, codec


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write(tmp_path_factory.mktemp("model"))


def test_parity_and_speech(folders: tuple[Path, Path]) -> None:
    loaded = load_voice(folders[0], codec=folders[1])
    voice: Any = loaded.model
    model = voice.model
    wanted = {**CONFIGS["metavoice"], "num_attention_heads": 16, "finer_heads": 6}
    assert {name: value for name, value in model.config.to_dict().items() if name in wanted} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()
    }
    ids = list(loaded.tokenizer.read(TEXT).ids)
    assert ids == EXPECTED["text"]
    # Both networks, the first in the voice and in none.
    vectors = pyapp.from_numpy(vector())
    model.requires_grad_()
    model.first.speak_as(pyapp.cat([vectors, pyapp.zeros_like(vectors)]))
    first = model.first(pyapp.tensor([ids, ids], dtype="int32"))
    model.first.speak_as(None)
    rows = voice.rows(ids, EXPECTED["written"])
    full = [row + [voice.entries] * (model.config.finer_positions - len(row)) for row in rows]
    parts = [first, *model.second(pyapp.tensor([full]), vectors)]
    total = pyapp.tensor(0.0)
    for i, (part, logits) in enumerate(zip(parts, EXPECTED["logits"], strict=True)):
        np.testing.assert_allclose(shown(numbers(part)), logits, **CLOSE)
        total = total + (part * pyapp.tensor(direction(str(i), tuple(part.shape)).astype(np.float32))).sum()
    total.backward()
    for network, name in ((model.first, "first"), (model.second, "second")):
        found = {key.removeprefix("model."): parameter for key, parameter in network.named_parameters()}
        assert {*found} == {*EXPECTED[name]}
        for key, (shape, product) in EXPECTED[name].items():
            grad = (numbers(found[key].grad) * direction(key, tuple(shape))).sum()
            np.testing.assert_allclose(grad, product, rtol=2e-3, atol=2e-3, err_msg=key)
    model.requires_grad_(False)
    # What they write.
    assert [*voice.written(ids, vectors, SamplingOptions(temperature=0))] == EXPECTED["written"]
    codes = voice.finer(rows, vectors, lambda scores: scores.argmax(1).tolist())
    count = min(map(len, EXPECTED["codes"]))
    assert count > 2 and codes == [[row[:count] for row in EXPECTED["codes"]]]
    # A sentence: the same with the same seed.
    still, rate = speak(loaded, TEXT, {"noise": 0})
    assert rate == 1600 and len(still) == 8 * count
    drawn = [speak(loaded, TEXT, {"seed": seed})[0] for seed in (3, 3, 4)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])


def test_files_that_cannot_be_are_refused(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    for tokenizer, message in (
        ({}, "lacks pieces"), (TOKENIZER | {"offset": -1}, "lacks pieces"), (TOKENIZER | {"offset": 400}, "tokens"),
        (TOKENIZER | {"mergeable_ranks": {"th": 300}}, "gaps"),
    ):  # fmt: skip
        folder, codec = write(tmp_path / "model", tokenizer)
        with pytest.raises(ModelError, match=message):
            load_voice(folder, codec=codec)
    write(tmp_path / "model")
    write_safetensors(folder / "spk_emb.safetensors", {"spk_emb": pyapp.zeros(1, 7)})
    with pytest.raises(ModelError, match="vectors have 7 numbers"):
        load_voice(folder, codec=codec)
    (folder / "second_stage.safetensors").unlink()
    with pytest.raises(ModelError, match=r"second_stage\.safetensors are missing"):
        load_voice(folder, codec=codec)
