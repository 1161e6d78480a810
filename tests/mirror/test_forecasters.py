"""Models that forecast series on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp.nn.forecasting import Wanted
from tests.models.forecaster_configs import CONFIGS, OTHER_DEVICE, series
from tests.models.test_forecasters import make, outputs, run

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_forecasts_on_another_device(name: str) -> None:
    model = make(name)
    horizon = 4 if CONFIGS[name]["model_type"].startswith("patch") else 8

    def results(device: str) -> list[np.ndarray]:
        with pyapp.no_grad():
            found = [part.cpu().numpy() for part in outputs(model, name, device)]
            return [*found, *run(model, series(model.together, model.reads), Wanted(horizon))]

    expected = results("cpu")
    move(model)
    assert model.device == pyapp.device("mirror")
    for found, wanted in zip(results("mirror"), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
