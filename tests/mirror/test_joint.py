"""FLUX.1 and Stable Diffusion 3 give the same bits on a device whose memory the host cannot see as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from tests.models.test_joint import given, made

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", ["dev", "sd35"])
def test_transformers(name: str) -> None:
    model, inputs = made(name), given(name)
    with pyapp.no_grad():
        expected = model(**inputs).numpy()
        move(model)
        found = model(**{key: value.to("mirror") for key, value in inputs.items()})
    assert str(found.device) == "mirror"
    np.testing.assert_array_equal(found.cpu().numpy(), expected)
