"""Trainings in Keras' style give Keras' numbers: losses, metrics and predictions, epoch by epoch (make_golden.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from tests.keras.scripts import SCRIPTS
from tests.together import fewer_in_browser

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())


def compare(found: Any, wanted: Any, path: str, tolerance: float = 1e-5) -> None:
    """Compares nested numbers, up to rounding in float32, or that of shorter floats with a larger `tolerance`."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), f"{path}: {sorted(found)} instead of {sorted(wanted)}"
        for key in wanted:
            compare(found[key], wanted[key], f"{path}.{key}", tolerance)
        return
    if isinstance(wanted, list) and isinstance(found, (list, tuple)):
        assert len(found) == len(wanted), path
        for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
            compare(a, b, f"{path}[{k}]", tolerance)
        return
    np.testing.assert_allclose(
        np.asarray(found, "float64"), np.asarray(wanted, "float64"), rtol=2 * tolerance, atol=tolerance, err_msg=path
    )


@pytest.mark.parametrize("name", fewer_in_browser(SCRIPTS))
def test_a_script_gives_the_numbers_of_keras(name: str) -> None:
    keras.utils.clear_session()
    compare(SCRIPTS[name](keras), GOLDEN[name], name, 5e-3 if name == "mixed_precision" else 1e-5)
