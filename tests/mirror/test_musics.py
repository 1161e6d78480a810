"""Models that make music, on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import pytest

import pyapp
from pyapp.audio.composing import ComposeOptions, written_codes
from tests.models.music_configs import MOMENTS, OTHER_DEVICE
from tests.models.test_musics import loaded_of, make

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_codes_and_sound_on_another_device(name: str) -> None:
    model = make(name)

    def results() -> object:
        *_, codes = written_codes(loaded_of(model), "any", MOMENTS, ComposeOptions(seed=3))
        assert codes is not None
        with pyapp.no_grad():
            return codes.cpu().tolist(), model.sound(codes).cpu().tolist()

    expected = results()
    move(model)
    assert model.device == pyapp.device("mirror") and results() == expected
