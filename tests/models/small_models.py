"""What tests of models with seeded weights have in common."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.models._index import MODEL_TYPES
from tests.models.seeded import direction


def golden_of(folder: str, name: str) -> dict[str, Any]:
    """What a golden file beside this one says."""
    found: dict[str, Any] = json.loads((Path(__file__).with_name(folder) / f"{name}.json").read_text())
    return found


def golden_in(folder: str) -> Callable[[str], dict[str, Any]]:
    """golden(name), which reads each file of a folder beside this file once."""
    return cache(partial(golden_of, folder))


def module_for(config: Mapping[str, Any]) -> Any:
    """The module of a configuration's architecture."""
    return importlib.import_module(f"pyapp.models.{MODEL_TYPES[config['model_type']]}")


def seeded_model(config: Mapping[str, Any], task: str, weights: Callable[[str, tuple[int, ...]], Any]) -> Any:
    """The model of a configuration, with weights by their names and shapes, and statistics of batches."""
    module = module_for(config)
    model = module.TASKS[task](module.Config.from_dict(config)).eval()
    state = model.state_dict()
    with pyapp.no_grad():
        for key, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.is_floating_point() and key in state:
                value.copy_(pyapp.from_numpy(np.asarray(weights(key, tuple(value.shape)))))
    return model


def parity_case(
    folder: str, configs: Mapping[str, Any], task: str, weights: Callable[..., Any]
) -> tuple[Any, Any, Any]:
    """What tests of a task begin with: `golden(name)`, what a configuration's golden file in the folder says;
    `make(name, **changed)`, its model with seeded weights; and the fixture with a name and both, for each of them.
    """

    def golden(name: str) -> dict[str, Any]:
        return golden_of(folder, name)

    def make(name: str, **changed: Any) -> Any:
        return seeded_model(configs[name] | changed, task, weights)

    @pytest.fixture(scope="module", params=configs)
    def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], Any]:
        return request.param, golden(request.param), make(request.param)

    return golden, make, case


def numbers(x: pyapp.Tensor) -> np.ndarray:
    """float64 values of a tensor on any device."""
    return np.asarray(x.detach().cpu().numpy(), np.float64)


def exported(model: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Tensors by the names of parameters as transformers has them."""
    return model.exported(tensors) if hasattr(model, "exported") else tensors


def along(x: pyapp.Tensor, name: str) -> pyapp.Tensor:
    """The product of a tensor with a fixed vector, as a loss."""
    return (x * pyapp.from_numpy(direction(name, tuple(x.shape)).astype(np.float32))).sum()


def check_gradients(
    model: Any, loss: pyapp.Tensor, expected: Mapping[str, Any], rtol: float = 5e-3, atol: float = 5e-3
) -> None:
    """Compares the loss and the gradient of each parameter with a golden file's: its sum and its product with a fixed
    vector. Codebooks, which transformers trains otherwise, only have one.
    """
    assert abs(loss.item() - expected["loss"]) < 2e-3
    loss.backward()
    for key, parameter in model.named_parameters():
        if key.endswith(".embed"):
            continue
        grad = numbers(parameter.grad) if parameter.grad is not None else np.zeros(parameter.shape)
        _, total, product = expected["parameters"][key]
        found = [grad.sum(), (grad * direction(key, grad.shape)).sum()]
        np.testing.assert_allclose(found, [total, product], rtol=rtol, atol=atol, err_msg=key)
    model.zero_grad()
    model.requires_grad_(False)


def shapes_of(model: Any) -> dict[str, list[int]]:
    """The shapes of a model's parameters, but for codebooks."""
    return {key: list(value.shape) for key, value in model.named_parameters() if not key.endswith(".embed")}


def shapes_in(expected: Mapping[str, Any]) -> dict[str, list[int]]:
    """Those of a golden file."""
    return {key: shape for key, (shape, *_) in expected["parameters"].items()}
