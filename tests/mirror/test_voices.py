"""Models that speak, on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import pytest

import pyapp
from tests.models.test_voices import batch, drawn, make, speaker_of
from tests.models.voice_configs import OTHER_DEVICE

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_samples_on_another_device(name: str) -> None:
    model = make(name)

    def results(device: str) -> tuple[object, object]:
        ids, mask = (x.to(device) for x in batch())
        samples, lengths = model(ids, mask, speaker_of(name), noise=drawn)
        return samples.cpu().tolist(), lengths

    expected = results("cpu")  # with gradients: the processor's own kernels for sound are other ones
    move(model)
    assert model.device == pyapp.device("mirror") and results("mirror") == expected
