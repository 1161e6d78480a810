"""What torch's quantised types are called. The steps of each are whole numbers of a plain dtype."""

from __future__ import annotations

from ..engine import int8, int32, uint8
from ..engine.dtype import DType

__all__ = [
    "QScheme", "QuantizedType", "bounds_of", "per_channel_affine", "per_channel_affine_float_qparams",
    "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric", "qint32", "qint8", "quint4x2", "quint8",
    "storage_of",
]  # fmt: skip
__top_level__ = [
    "per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine",
    "per_tensor_symmetric", "qint32", "qint8", "quint4x2", "quint8",
]  # fmt: skip


class QuantizedType:
    """A type of torch's quantised tensors: `storage` is the dtype of its steps, which go from `low` to `high`."""

    def __init__(self, name: str, storage: DType, low: int, high: int) -> None:
        self.name, self.storage, self.low, self.high = name, storage, low, high

    def __repr__(self) -> str:
        return f"pyapp.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class QScheme:
    """How steps become numbers: with one scale or one for each channel, around 0 (symmetric) or not (affine)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_per_channel, self.is_symmetric = "per_channel" in name, "symmetric" in name

    def __repr__(self) -> str:
        return f"pyapp.{self.name}"

    def __reduce__(self) -> str:
        return self.name


qint8, quint8 = QuantizedType("qint8", int8, -128, 127), QuantizedType("quint8", uint8, 0, 255)
qint32 = QuantizedType("qint32", int32, -(2**31), 2**31 - 1)
quint4x2 = QuantizedType("quint4x2", uint8, 0, 15)  # two of them share a byte in torch; here each has one
per_tensor_affine, per_tensor_symmetric = QScheme("per_tensor_affine"), QScheme("per_tensor_symmetric")
per_channel_affine, per_channel_symmetric = QScheme("per_channel_affine"), QScheme("per_channel_symmetric")
per_channel_affine_float_qparams = QScheme("per_channel_affine_float_qparams")

_PLAIN = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1)}


def bounds_of(dtype: QuantizedType | DType) -> tuple[int, int]:
    """The least and the greatest step of a type. AssertionError for one that has no steps."""
    if isinstance(dtype, QuantizedType):
        return dtype.low, dtype.high
    if dtype.name not in _PLAIN:
        raise AssertionError(f"takes qint8, quint8, qint32 or a dtype of whole numbers, not {dtype}")
    return _PLAIN[dtype.name]


def storage_of(dtype: QuantizedType | DType) -> DType:
    """The plain dtype of a type's steps."""
    return dtype.storage if isinstance(dtype, QuantizedType) else dtype
