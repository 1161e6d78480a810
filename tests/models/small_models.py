"""What tests of models with seeded weights have in common."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pyapp
from pyapp.models._index import MODEL_TYPES


def golden_of(folder: str, name: str) -> dict[str, Any]:
    """What a golden file beside this one says."""
    found: dict[str, Any] = json.loads((Path(__file__).with_name(folder) / f"{name}.json").read_text())
    return found


def seeded_model(config: Mapping[str, Any], task: str, weights: Callable[[str, tuple[int, ...]], Any]) -> Any:
    """The model of a configuration, with weights by their names and shapes, and statistics of batches."""
    module = importlib.import_module(f"pyapp.models.{MODEL_TYPES[config['model_type']]}")
    model = module.TASKS[task](module.Config.from_dict(config)).eval()
    state = model.state_dict()
    with pyapp.no_grad():
        for key, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.is_floating_point() and key in state:
                value.copy_(pyapp.from_numpy(np.asarray(weights(key, tuple(value.shape)))))
    return model


def numbers(x: pyapp.Tensor) -> np.ndarray:
    """float64 values of a tensor on any device."""
    return np.asarray(x.detach().cpu().numpy(), np.float64)
