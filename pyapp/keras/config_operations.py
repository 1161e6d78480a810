"""Functions of keras.ops in the configurations of functional models, to JSON and back.

Source: files of Keras 3.15.1.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any

from ..engine.ops import _index
from ..train.names import snake_case
from . import activations, ops
from .lookup import as_json
from .structures import flatten
from .symbolic_tensors import Call, KerasTensor

_OPERANDS = (  # what Keras' operations are called with; other arguments are theirs from the start
    "x", "x1", "x2", "xs", "y", "a", "condition", "key", "other", "indices", "values", "condlist", "choicelist",
    "default", "q", "updates",
)  # fmt: skip
_OPERATION_CLASSES = {  # where Keras has the classes of its operations; the others are in numpy
    "nn": "Relu Relu6 Sigmoid SparseSigmoid Softplus Softsign SoftShrink SparsePlus Silu Squareplus LogSigmoid "
    "LeakyRelu HardSigmoid HardSilu Elu Selu Gelu Celu Glu TanhShrink HardTanh HardShrink Threshold Softmax LogSoftmax "
    "Sparsemax MaxPool AdaptiveMaxPool AveragePool AdaptiveAveragePool Conv DepthwiseConv SeparableConv ConvTranspose "
    "OneHot BinaryCrossentropy CategoricalCrossentropy SparseCategoricalCrossentropy MultiHot Moments BatchNorm "
    "CTCLoss CTCDecode Normalize PSNR DotProductAttention RMSNorm LayerNorm Unfold Fold DepthToSpace SpaceToDepth",
    "core": "Scatter ScatterUpdate Slice SliceUpdate StopGradient Unstack Cast SaturateCast ConvertToTensor",
    "linalg": "Cholesky CholeskyInverse Det Eigh Inv LuFactor Norm Qr Solve SolveTriangular SVD Lstsq MatrixRank Pinv",
    "math": "SegmentSum SegmentMax SegmentMin SegmentProd TopK InTopK Logsumexp CDist ExtractSequences FFT FFT2 IFFT2 "
    "RFFT IRFFT STFT ISTFT Rsqrt Erf Erfc Erfinv Logdet",
    "image": "RGBToGrayscale RGBToHSV HSVToRGB Resize AffineTransform ExtractPatches MapCoordinates PadImages "
    "CropImages PerspectiveTransform GaussianBlur ElasticTransform ScaleAndTranslate SobelEdges SSIM",
}  # fmt: skip
_OPERATION_PLACES = {
    snake_case(title): (place, title) for place, titles in _OPERATION_CLASSES.items() for title in titles.split()
}


def describe_operation(call: Call) -> tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]:
    """The entry of a function of keras.ops in a functional model, and what it is called with. TypeError where it has no
    name by which it can be found again."""
    layer = call.layer
    name = getattr(layer, "operation", None)
    if name is None:
        raise TypeError(f"{layer.name} cannot be written to a file: it is a function without a name")
    args, kwargs = call.args, dict(call.kwargs)
    try:
        bound = inspect.signature(layer.function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = None
    config: dict[str, Any] = {}
    if bound is not None and name != "get_item":
        operands: list[Any] = []
        for key, value in bound.items():
            has_tensor = any(isinstance(leaf, KerasTensor) for leaf in flatten(value))
            if has_tensor or key in _OPERANDS:
                operands.append(value)
            else:
                config[key] = as_json(value)
        args, kwargs = tuple(operands), {}
    if name == "einsum":
        config, args, kwargs = {"subscripts": call.args[0]}, call.args[1:], {}
    place, title = _OPERATION_PLACES.get(name, ("numpy", "".join(part.capitalize() for part in name.split("_"))))
    made = {
        "module": f"keras.src.ops.{place}", "class_name": title, "config": {"name": layer.name, **config},
        "registered_name": title,
    }  # fmt: skip
    return made, args, kwargs


def operation_named(name: str) -> Any:
    """A function of keras.ops by its name: one of tensors, none that reads or writes files. None for another name."""
    if name == "get_item":
        return lambda x, key: x[key]
    if name[:1] == "_" or name[-1:] == "_" or not (name in _OPERATIONS or name in _index.FUNCTION_MODULES):
        return None
    found = getattr(ops, name, None)
    return found if callable(found) and not isinstance(found, type) else None


_OPERATIONS = frozenset(
    name for name, value in {**vars(activations), **vars(ops)}.items()
    if isinstance(value, types.FunctionType) and value.__module__.startswith("pyapp.")
)  # fmt: skip


def call_operation(name: str, settings: dict[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The symbolic result of a function of keras.ops by its name, with the settings of its entry and the operands of a
    call. None for an unknown name."""
    function = operation_named(name)
    if function is None:
        return None
    if name == "get_item":
        return args[0][_key(args[1])]
    if name == "einsum" and "subscripts" in settings:
        return function(settings["subscripts"], *args)
    return function(*args, **settings, **{key: value for key, value in kwargs.items() if value is not None})


def _key(value: Any) -> Any:
    return tuple(_key(inner) for inner in value) if isinstance(value, list) else value
