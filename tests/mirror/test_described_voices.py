"""Models that speak in a voice that a text describes, on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyapp
from pyapp.audio.speaking import speak
from pyapp.models.loading.voice import load_voice
from tests.models.described_voice_configs import OTHER_DEVICE
from tests.models.test_described_voices import write

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_speech_on_another_device(name: str, tmp_path: Path) -> None:
    loaded = load_voice(write(tmp_path / "model", name))
    expected = speak(loaded, "it is so", {"seed": 3})[0].tolist()
    move(loaded.model.model)
    assert loaded.model.device == pyapp.device("mirror")
    assert speak(loaded, "it is so", {"seed": 3})[0].tolist() == expected
