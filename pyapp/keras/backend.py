"""keras.backend: what is left of it in Keras 3. Functions of tensors are in keras.ops."""

from __future__ import annotations

from functools import reduce
from typing import Any

from ..engine import as_dtype
from ..train.names import unique_name
from .arguments import common_dtype, number_dtype
from .config import (
    backend,
    epsilon,
    floatx,
    image_data_format,
    set_epsilon,
    set_floatx,
    set_image_data_format,
)
from .settings import clear_session
from .symbolic_tensors import KerasTensor

__all__ = [
    "backend", "clear_session", "epsilon", "floatx", "get_uid", "image_data_format", "is_float_dtype", "is_int_dtype",
    "is_keras_tensor", "result_type", "set_epsilon", "set_floatx", "set_image_data_format", "standardize_dtype",
]  # fmt: skip


def standardize_dtype(dtype: Any) -> str:
    """The name of a dtype of NumPy, Python or pyapp; that of `set_floatx` for None."""
    return floatx() if dtype is None else as_dtype(dtype).name


def is_float_dtype(dtype: Any) -> bool:
    """Whether a dtype is one of floats."""
    return as_dtype(dtype).is_floating_point


def is_int_dtype(dtype: Any) -> bool:
    """Whether a dtype is one of whole numbers."""
    return standardize_dtype(dtype).lstrip("u").startswith("int")


def is_keras_tensor(x: Any) -> bool:
    """Whether x is a symbolic tensor."""
    return isinstance(x, KerasTensor)


def result_type(*dtypes: Any) -> str:
    """The dtype of a result of operands of these dtypes. Python's types stand for its numbers, which do not widen what
    they meet."""
    tensors = [as_dtype(kind) for kind in dtypes if kind not in (bool, int, float)]
    if not tensors:
        kind = max(dtypes, key=(bool, int, float).index, default=float)
        return floatx() if kind is float else "int32" if kind is int else "bool"
    found = reduce(common_dtype, tensors)
    for number in dtypes:
        if number in (int, float):
            found = number_dtype(number, found)
    return found.name


def get_uid(prefix: str = "") -> int:
    """How often a name has been asked for: 1, 2, …"""
    found = unique_name(f"uid_of_{prefix}")
    end = found.rsplit("_", 1)[-1]
    return int(end) + 1 if end.isdigit() else 1
