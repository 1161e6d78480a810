"""What training hides at random, against transformers (make_golden_spec_augment.py): masks, losses of models that name
characters, and spectrograms of Whisper.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio.mel import HOP, log_mel_spectrogram, pad_or_trim
from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.errors import ModelError
from pyapp.models.loading.sound import TASK
from pyapp.nn import functional
from pyapp.nn.audio.spec_augment import Spans, SpecAugment
from tests.models import bank_sound_configs as banks
from tests.models.parakeet_configs import sounds
from tests.models.seeded import direction, shown, sound_weights
from tests.models.small_models import numbers, seeded_model
from tests.models.sound_configs import CONFIGS, SAMPLES, recording
from tests.models.spec_augment_cases import HIDDEN, MASKS, MODELS, SEED, WHISPER
from tests.models.spec_augment_cases import SAMPLES as HEARD
from tests.models.whisper_model import SMALL

GOLDEN = json.loads(Path(__file__).with_name("golden_spec_augment.json").read_text())


def seeded(settings: dict[str, Any]) -> SpecAugment:
    found = SpecAugment.from_settings(settings)
    assert found is not None
    return replace(found, random=lambda: np.random.RandomState(SEED))


def test_masks() -> None:
    """Those of transformers with the same random numbers, and by the definition: the share, the lengths, the ends."""
    for (counts, size, probability, length, least, seed), expected in zip(MASKS, GOLDEN["masks"], strict=True):
        found = Spans(probability, length, least).drawn(counts, size, np.random.RandomState(seed))
        assert [np.flatnonzero(row).tolist() for row in found] == expected
    random = np.random.RandomState(1)
    found = Spans(0.3, 7).drawn([300] * 400 + [90], 300, random)
    assert not found[-1, 90:].any()
    starts = np.diff(found.astype(int), prepend=0, append=0)
    runs = np.flatnonzero(starts.ravel() == -1) - np.flatnonzero(starts.ravel() == 1)
    assert runs.min() == 7  # stretches overlap, none is shorter
    hidden = 1 - (1 - 7 / 300) ** (0.3 * 300 / 7)  # were the starts independent and the ends as likely
    assert abs(found[:-1].mean() - hidden) < 0.01
    assert not Spans(1.0, 11, 2).drawn([10, 10], 10, random).any()


@pytest.mark.parametrize("name", MODELS)
def test_losses_with_hidden_stretches(name: str) -> None:
    more, texts = MODELS[name]
    config = (CONFIGS | banks.CONFIGS)[name] | HIDDEN | more
    model = seeded_model(config, TASK, sound_weights)
    model.train().encoder.hide_in_training(seeded(config))
    model.requires_grad_()
    if name in banks.CONFIGS:
        values, mask = PairedBankProcessor(10)([sounds(count) for count in banks.SAMPLES])
        lengths = [model.encoder.moments(count) for count in banks.SAMPLES]
    else:
        heard = [recording(count) for count in SAMPLES]
        values, mask = SampleProcessor(masks=config.get("feat_extract_norm") == "layer")(heard)
        counts = SAMPLES if mask is not None else [max(SAMPLES)] * 2
        lengths = [model.encoder.moments(count) for count in counts]
    loss = functional.ctc_loss(
        model(values, mask).log_softmax(-1).transpose(0, 1), pyapp.tensor([token for text in texts for token in text]),
        lengths, [len(text) for text in texts], 0, more["ctc_loss_reduction"], more.get("ctc_zero_infinity", False),
    )  # fmt: skip
    loss.backward()
    assert float(loss.item()) == pytest.approx(GOLDEN["models"][name]["loss"], rel=1e-4)
    grad = model.encoder.masked_spec_embed.grad
    found = np.zeros(config["hidden_size"]) if grad is None else numbers(grad)
    products = [found.sum(), (found * direction("masked_spec_embed", found.shape)).sum()]
    np.testing.assert_allclose(products, GOLDEN["models"][name]["embed"], rtol=5e-3, atol=5e-3)
    model.eval()
    with pyapp.no_grad():
        whole = numbers(model(values, mask))
        model.encoder.hide_in_training(None)
        np.testing.assert_array_equal(numbers(model.train()(values, mask)), whole)


def test_spectrograms() -> None:
    spectra = [
        log_mel_spectrogram(pad_or_trim(recording(count), 2 * SMALL.n_audio_ctx * HOP), SMALL.n_mels) for count in HEARD
    ]
    mel = pyapp.tensor(np.stack(spectra)).transpose(1, 2)
    hidden = seeded(WHISPER)(mel, [-(-count // HOP) for count in HEARD], pyapp.zeros(SMALL.n_mels))
    np.testing.assert_allclose(shown(numbers(hidden.transpose(1, 2)), 120), GOLDEN["spectrograms"], atol=1e-4)


def test_settings() -> None:
    """Own random numbers are the default generator's; nothing is hidden where the shares are 0."""
    assert SpecAugment.from_settings({"mask_time_prob": 0, "mask_feature_prob": 0.0}) is None
    masking = SpecAugment.from_settings({})
    assert masking is not None and (masking.time, masking.features) == (Spans(0.05, 10, 2), Spans(0.0, 10, 0))
    drawn = []
    for seed in (1, 1, 2):
        pyapp.manual_seed(seed)
        drawn.append(masking.masks([200], 200, 8)[0].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    for field, value in (("mask_time_prob", 2), ("mask_time_length", 0), ("mask_feature_min_masks", "x")):
        with pytest.raises(ModelError, match=field):
            SpecAugment.from_settings({field: value})
