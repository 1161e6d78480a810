"""Models that hear, on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import pytest

import pyapp
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from tests.models import listener_configs, sound_label_configs, test_listeners, test_sound_labels
from tests.models.sound_configs import OTHER_DEVICE, SAMPLES, recording
from tests.models.test_sounds import make

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_logits_on_another_device(name: str) -> None:
    model = make(name)
    values, mask = SampleProcessor(masks="large" in name)([recording(count) for count in SAMPLES])

    def results(device: str) -> list[object]:
        with pyapp.no_grad():
            found: list[object] = model(values.to(device), None if mask is None else mask.to(device)).cpu().tolist()
        return found

    expected = results("cpu")
    move(model)
    assert model.device == pyapp.device("mirror") and results("mirror") == expected


@pytest.mark.parametrize("name", listener_configs.OTHER_DEVICE)
def test_texts_on_another_device(name: str) -> None:
    model = test_listeners.make(name)
    values, mask = test_listeners.inputs(*listener_configs.SAMPLES, name=name)
    options = SearchOptions.from_files(listener_configs.CONFIGS[name], {}, {"max_new_tokens": listener_configs.MOST})

    def results(device: str) -> object:
        tokens = pyapp.tensor([listener_configs.tokens_of(name)] * 2, device=device)
        with pyapp.no_grad():
            logits = model(values.to(device), tokens, mask.to(device)).cpu().tolist()
        *_, found = search(model, values.to(device), mask.to(device), options)
        return logits, found

    expected = results("cpu")
    move(model)
    assert model.device == pyapp.device("mirror") and results("mirror") == expected


@pytest.mark.parametrize("name", sound_label_configs.OTHER_DEVICE)
def test_labels_on_another_device(name: str) -> None:
    model = test_sound_labels.make(name)
    values, _ = test_sound_labels.processor_of(name)([recording(sound_label_configs.SAMPLES[0])])
    with pyapp.no_grad():
        expected = model(values).tolist()
        move(model)
        assert model(values.to("mirror")).cpu().tolist() == expected
