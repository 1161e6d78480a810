"""Read element types without a pyapp dtype as tensors of another dtype.

- 8-bit floats without infinities (…fnuz), scales (e8m0fnu) and 4-bit floats: float32, which holds each of them exactly.
  Two 4-bit floats share a byte, the first in its lower half. Sources: the OCP Microscaling Formats specification 1.0,
  5.3 and 5.4; Noune et al. 2022, arXiv 2206.02915 (fnuz).
- 6-bit floats: the bytes of the file, a flat uint8 tensor, because no specification defines their order in bytes.
"""

from __future__ import annotations

from typing import Any

from pyapp.engine.device import Device
from pyapp.engine.dtype import DTYPES
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor

from .checkpoint import TensorInfo
from .finite import check_finite

# Bits of the exponent, bits of the fraction, bias of the exponent.
_FNUZ = {"float8_e4m3fnuz": (4, 3, 8), "float8_e5m2fnuz": (5, 2, 16)}
_LAYOUTS = {
    **_FNUZ, "float8_e4m3fn": (4, 3, 7), "float8_e5m2": (5, 2, 15), "float6_e2m3fn": (2, 3, 1),
    "float6_e3m2fn": (3, 2, 3), "float4_e2m1fn": (2, 1, 1),
}  # fmt: skip
_BYTES = ("float6_e2m3fn", "float6_e3m2fn")
READABLE = dict.fromkeys((*_FNUZ, "float8_e8m0fnu", "float4_e2m1fn"), "float32")
READABLE |= dict.fromkeys(_BYTES, "uint8")


def element_bits(dtype: str) -> int:
    """Bits of an element: of a dtype, or of a type in READABLE."""
    if dtype in DTYPES:
        return 8 * DTYPES[dtype].itemsize
    exponent, fraction, _ = _LAYOUTS.get(dtype, (7, 0, 127))  # float8_e8m0fnu has no sign
    return 1 + exponent + fraction


def read_foreign(data: Any, info: TensorInfo, finite: bool, device: Device | None, where: str) -> Tensor:
    """The tensor of a type in READABLE from its little-endian bytes, on `device` (None: the CPU). With `finite`,
    ModelError for NaN and infinity.
    """
    kind, shape = READABLE[info.dtype], info.shape
    if info.dtype in _BYTES:
        shape = (info.nbytes,)
    else:
        data = _values(info.dtype, np.frombuffer(data, np.uint8)).tobytes()
    if finite:
        check_finite(data, kind, info.name, where)
    tensor = Tensor.from_buffer(data, shape, kind)
    return tensor if device is None else tensor.to(device)


def _values(dtype: str, codes: Any) -> Any:
    if dtype == "float4_e2m1fn":
        return code_table(dtype)[np.stack([codes & 15, codes >> 4], -1).reshape(-1)]
    return code_table(dtype)[codes]


def code_table(dtype: str) -> Any:
    """The value of each code of a float type of 8 bits and fewer, in float32."""
    if dtype == "float8_e8m0fnu":
        codes = np.arange(256, dtype=np.int64)
        return np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127)).astype(np.float32)
    exponent_bits, fraction_bits, bias = _LAYOUTS[dtype]
    half = 1 << (exponent_bits + fraction_bits)
    codes = np.arange(2 * half, dtype=np.int64)
    exponent, fraction = (codes & (half - 1)) >> fraction_bits, codes & ((1 << fraction_bits) - 1)
    part = fraction / (1 << fraction_bits)
    size = np.where(exponent == 0, np.ldexp(part, 1 - bias), np.ldexp(1 + part, exponent - bias))
    if dtype == "float8_e5m2":
        size = np.where(exponent == 31, np.where(fraction == 0, np.inf, np.nan), size)
    elif dtype == "float8_e4m3fn":
        size = np.where((codes & (half - 1)) == half - 1, np.nan, size)
    signed = np.where(codes < half, size, -size)
    if dtype in _FNUZ:
        signed = np.where(codes == 128, np.nan, signed)  # the code of -0 is the only NaN
    return signed.astype(np.float32)
