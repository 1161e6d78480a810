"""Compares layers with torch's values."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyapp
from pyapp import nn
from pyapp.engine.ops import from_numpy

from .training_cases import Case, values

Golden = dict[str, np.ndarray]


def leaf(array: np.ndarray) -> pyapp.Tensor:
    tensor = from_numpy(array.copy())
    return tensor.requires_grad_() if array.dtype == np.float32 else tensor


def given(value: Any) -> Any:
    """An argument: arrays as tensors."""
    return from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def tensors(value: Any) -> list[pyapp.Tensor]:
    if isinstance(value, pyapp.Tensor):
        return [value]
    return [t for part in value if part is not None for t in tensors(part)]


def close(golden: Golden, found: pyapp.Tensor | None, name: str) -> None:
    array = np.zeros_like(golden[name]) if found is None else found.detach().numpy()
    np.testing.assert_allclose(array, golden[name], rtol=2e-4, atol=2e-5, err_msg=name)


def weighted(outputs: list[pyapp.Tensor]) -> pyapp.Tensor:
    """A number whose gradient differs from element to element."""
    total = pyapp.zeros(())
    for i, output in enumerate(outputs):
        if output.is_floating_point():
            total = total + (output * from_numpy(values(i, *output.shape))).sum()
    return total


def load_state(golden: Golden, name: str, module: nn.Module) -> None:
    start = f"{name}/state/"
    state = {key.removeprefix(start): from_numpy(array) for key, array in golden.items() if key.startswith(start)}
    assert module.load_state_dict(state) == ([], [])


def check_outputs(golden: Golden, name: str, outputs: list[pyapp.Tensor], inputs: list[pyapp.Tensor]) -> None:
    """The outputs, and the gradients of the inputs after a backward from them."""
    assert len(outputs) == sum(key.startswith(f"{name}/output/") for key in golden)
    for i, output in enumerate(outputs):
        close(golden, output, f"{name}/output/{i}")
    weighted(outputs).backward()
    for i, x in enumerate(inputs):
        if x.is_floating_point():
            close(golden, x.grad, f"{name}/input/{i}")


def check_module(golden: Golden, name: str, case: Case) -> None:
    """State, outputs, gradients and buffers after a forward."""
    module = getattr(nn, case.kind)(**case.settings)
    load_state(golden, name, module)
    module.train(case.training)
    inputs = [leaf(array) for array in case.inputs]
    outputs = tensors(module(*inputs, **{key: given(value) for key, value in case.options.items()}))
    check_outputs(golden, name, outputs, inputs)
    for key, parameter in module.named_parameters():
        close(golden, parameter.grad, f"{name}/grad/{key}")
    for key, buffer in module.named_buffers():
        close(golden, buffer, f"{name}/after/{key}")
