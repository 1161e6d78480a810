"""Codecs of sound, on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import pytest

import pyapp
from tests.models.codec_configs import OTHER_DEVICE, sound
from tests.models.test_codecs import make

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_codes_and_samples_on_another_device(name: str) -> None:
    model = make(name)
    samples = pyapp.from_numpy(sound(model.config.audio_channels))

    def results(device: str) -> list[object]:
        pyapp.manual_seed(0)  # of the noise in SNAC
        with pyapp.no_grad():
            codes, found = model(samples.to(device), getattr(model.config, "target_bandwidths", [None])[-1])
        return [found.cpu().tolist(), *(chunk.cpu().tolist() for chunk in codes.chunks)]

    expected = results("cpu")
    move(model)
    assert model.device == pyapp.device("mirror") and results("mirror") == expected
