"""wav2vec 2.0 BERT against transformers (make_golden_bank_sounds.py): filter banks, names, logits, padding, gradients;
its files and a transcription.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.errors import ArgumentError, ModelError
from pyapp.events import Done
from pyapp.models.loading.sound import TASK
from pyapp.models.loading.speech import load_speech_model
from pyapp.nn import functional
from tests.models.bank_sound_configs import CONFIGS, LABELS, SAMPLES, SETTINGS
from tests.models.parakeet_configs import sounds
from tests.models.seeded import shown, sound_weights
from tests.models.small_models import check_gradients, numbers, parity_case, shapes_in, shapes_of
from tests.models.sound_configs import VOCABULARY
from tests.models.voice_folders import write_folder

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
PROCESSOR = PairedBankProcessor(10)
golden, make, case = parity_case("golden_bank_sounds", CONFIGS, TASK, sound_weights)


def write(folder: Path, name: str, state: dict[str, Any], **config: Any) -> Path:
    """The folder of a model."""
    return write_folder(folder, state, CONFIGS[name] | config, vocab=VOCABULARY, preprocessor_config=SETTINGS)


def test_logits_padding_and_gradients(case: Any) -> None:
    _, expected, model = case
    assert shapes_of(model) == shapes_in(expected)
    values, mask = PROCESSOR([sounds(count) for count in SAMPLES])
    np.testing.assert_allclose(shown(numbers(values)), expected["input"], **CLOSE)
    with pyapp.no_grad():
        padded = numbers(model(values, mask))[1, :7]
    np.testing.assert_allclose(padded.reshape(-1), expected["padded"], **CLOSE)
    values, mask = PROCESSOR([sounds(SAMPLES[0])])
    assert mask is None
    model.requires_grad_()
    logits = model(values)
    np.testing.assert_allclose(shown(numbers(logits), 96), expected["logits"], **CLOSE)
    assert [model.encoder.moments(SAMPLES[0]), model.encoder.moments(559)] == [logits.shape[1], 0] == [11, 0]
    scores = logits.log_softmax(-1).transpose(0, 1)  # (T, 1, V)
    lengths = pyapp.tensor([scores.shape[0]]), pyapp.tensor([len(LABELS)])
    check_gradients(model, functional.ctc_loss(scores, pyapp.tensor([LABELS]), *lengths, reduction="sum"), expected)
    for wrong, mask in ((pyapp.zeros(1, 9, 7), None), (pyapp.zeros(1, 9, 20), pyapp.zeros(1, 8))):
        with pytest.raises(ArgumentError, match="B, F|attention_mask"):
            model(wrong, mask)
    with pytest.raises(ArgumentError, match="frames"):
        PROCESSOR([np.zeros(500, np.float32)])


def test_folders_load_and_transcribe(case: Any, tmp_path: Path) -> None:
    name, expected, model = case
    folder = write(tmp_path / "model", name, dict(model.state_dict()))
    loaded = load_speech_model(folder)
    loaded.model.encoder.warm_up()

    async def run() -> list[Any]:
        return [event async for event in tasks.transcribe(sounds(SAMPLES[0]), {}, model=loaded)]

    done = asyncio.run(run())[-1]
    assert isinstance(done, Done) and done.results["text"].strip() == loaded.tokenizer.decode(expected["numbers"]) != ""
    for changed, told in (
        ({"position_embeddings_type": "rotary"}, "rotary"), ({"num_attention_heads": 3}, "divide"),
        ({"feature_projection_input_dim": 22}, "20 numbers"), ({"adapter_stride": 1 << 20}, "adapter_stride"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=told):
            load_speech_model(write(tmp_path / "other", name, {"a": pyapp.ones(1)}, **changed))
