"""Models as files for inference: `model.export`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, no_grad, ops
from ..errors import ModelError
from ..export import Dim
from ..onnx import export as write_onnx
from ..train.floats import floatx
from .call_state import training_mode
from .structures import flatten, unflatten
from .symbolic_tensors import InputSpec, KerasTensor

if TYPE_CHECKING:
    from .models import Model

_ELSEWHERE = {  # the formats that Keras has beside ONNX, and what they need
    "tf_saved_model": "TensorFlow", "openvino": "OpenVINO", "litert": "LiteRT", "torch": "torch",
}  # fmt: skip


def export_model(
    model: Model, filepath: str | Path, format: str, verbose: bool | None, input_signature: Any,
    settings: dict[str, Any],
) -> None:  # fmt: skip
    """Writes an ONNX file, in which the sizes that the inputs leave open may differ from call to call. ValueError for
    an unknown format, or a model without inputs; NotImplementedError for Keras' other formats, with the way to them."""
    if format in _ELSEWHERE:
        raise NotImplementedError(
            f'export: format={format!r} needs {_ELSEWHERE[format]}: pass format="onnx", or save the model as .keras '
            "and export it with Keras 3"
        )
    if format != "onnx":
        raise ValueError(f'export: format is "onnx" here, not {format!r:.60}; Keras has {", ".join(_ELSEWHERE)} too')
    opset = settings.pop("opset_version", None)
    if settings:
        raise TypeError(f"export: has no argument {', '.join(map(repr, sorted(settings)))}")
    structure = _signature(model) if input_signature is None else input_signature
    if isinstance(structure, (list, tuple)) and len(structure) == 1:
        structure = structure[0]  # the arguments of the call, as Keras writes them
    leaves = flatten(structure)
    inputs = [_example(leaf) for leaf in leaves]
    names = [getattr(leaf, "name", None) or f"input_{at}" for at, leaf in enumerate(leaves)]
    free = {name: _free_sizes(leaf) for name, leaf in zip(names, leaves, strict=True)}

    def computed(*given: Tensor) -> Any:
        values: Iterator[Tensor] = iter(given)
        return model(unflatten(structure, values))

    path = os.fspath(filepath)
    with no_grad(), training_mode(False):
        try:
            write_onnx(_Named(model, computed), inputs, path, input_names=names, opset_version=opset, dynamic_axes=free)
        except ModelError as error:
            if any(free.values()):
                error.hint = "Pass input_signature with numbers in place of None: InputSpec(shape=(1, 28, 28))"
            raise
    if verbose is None or verbose:
        sizes = ", ".join(
            f"{name} {tuple(None if dim in free[name] else size for dim, size in enumerate(x.shape))}"
            for name, x in zip(names, inputs, strict=True)
        )
        print(f"Saved artifact at '{path}': an ONNX file with the inputs {sizes}")


class _Named:
    """A function of a model's inputs, with the names of the model's weights for the file."""

    def __init__(self, model: Model, function: Any) -> None:
        self.named_parameters, self.named_buffers = model.named_parameters, model.named_buffers
        self._function = function

    def __call__(self, *inputs: Tensor) -> Any:
        return self._function(*inputs)


def _signature(model: Model) -> Any:
    """The inputs of a model, as KerasTensors or InputSpecs in its structure."""
    if not model.built:
        raise ValueError(f"export: {model.name} has no weights yet: call it, or build(input_shape), first")
    if model.inputs:
        return model.inputs[0] if model.graph is None else model.graph.inputs
    if model._first_inputs is None:
        raise ValueError(
            f"export: the inputs of {model.name} are not known: call it once, or pass input_signature, such as "
            '[keras.InputSpec(shape=(1, 28, 28), dtype="float32")]'
        )
    return _specs(model._first_inputs)


def _specs(first: Any) -> Any:
    """What a model keeps of its first inputs, as InputSpecs."""
    if isinstance(first, dict) and "batch_shape" in first:
        return InputSpec(shape=(None, *first["batch_shape"][1:]), dtype=first["dtype"])
    if isinstance(first, dict):
        return {key: _specs(value) for key, value in first.items()}
    return [_specs(value) for value in first]


def _free_sizes(spec: Any) -> dict[int, Dim]:
    """The sizes that an InputSpec or a KerasTensor leaves open: by dim, the first of which counts the batch."""
    return {dim: Dim.AUTO if dim else Dim("batch") for dim, size in enumerate(spec.shape) if size is None}


def _example(spec: Any) -> Tensor:
    """Zeros of the shape and dtype of an InputSpec, a KerasTensor or a tensor, with 2 for sizes that are not known."""
    shape = getattr(spec, "shape", None)
    if shape is None or getattr(spec, "dtype", None) == "string":
        raise ValueError(
            f"export: an input is an InputSpec with a shape, a KerasTensor or a tensor of numbers, not {spec!r:.60}"
        )
    dtype = spec.dtype if isinstance(spec, (InputSpec, KerasTensor)) else ops.as_tensor(spec).dtype
    return ops.zeros([2 if size is None else int(size) for size in shape], dtype=dtype or floatx())
