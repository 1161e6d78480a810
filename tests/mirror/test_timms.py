"""Models of timm's library on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import pytest

import pyapp
from tests.models.seeded import picture
from tests.models.test_timms import make
from tests.models.timm_configs import OTHER_DEVICE, SIZE

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_outputs_on_another_device(name: str) -> None:
    model, pictures = make(name).model, pyapp.from_numpy(picture(2, SIZE, SIZE))
    with pyapp.no_grad():
        expected = model(pictures).tolist()
        move(model)
        assert model.device == pyapp.device("mirror")
        assert model(pictures.to("mirror")).cpu().tolist() == expected
