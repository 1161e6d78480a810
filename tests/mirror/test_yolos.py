"""YOLO on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import pytest

import pyapp
from tests.models.seeded import picture
from tests.models.test_yolos import make
from tests.models.yolo_configs import OTHER_DEVICE, SIZE

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_outputs_on_another_device(name: str) -> None:
    model, pictures = make(name).model, pyapp.from_numpy(picture(1, *SIZE))
    with pyapp.no_grad():
        expected = [part.tolist() for part in model(pictures)]
        move(model)
        outputs = model(pictures.to("mirror"))
        assert [part.cpu().tolist() for part in outputs] == expected
        assert len(model.objects(outputs, 0.4)[0]) == len(model.objects([part.cpu() for part in outputs], 0.4)[0]) > 0
