"""gcd, lcm, frexp and special functions that NumPy computes for the CPU, on devices that have the kernel."""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..device import Device, cpu
from ..dtype import DType
from ..element_types import CODES, opcodes
from ..launch import KERNELS, capturing, constants
from ..lazy import np
from ..numpy_arrays import tensor_of
from ..op import OPS, claims
from ..operands import common_dtype, dense, same_device
from ..ops.elementwise.incomplete_gamma import temme_terms
from ..ops.elementwise.special import cotangent_derivative, ndtri64
from ..shape import broadcast_shapes
from ..tensor import Tensor, empty_contiguous
from .layouts import in_type

_SPECIAL = KERNELS["special"]
_OPCODES = opcodes("special")
_WORK = 16  # multiply-adds of an element, at least


def _run(
    name: str, kind: DType, a: Tensor, b: Tensor | None = None, table: Tensor | None = None, order: int = 0
) -> Any:
    """Of tensors of the same shape."""
    code, types, result = _OPCODES[name]
    if kind not in types:
        return NotImplemented
    a, other = dense(in_type(a, kind)), None if b is None else dense(in_type(b, kind))
    y = empty_contiguous(a._shape, _dtype.int32 if result == "int32" else kind, a.device)
    _SPECIAL.launch(a.numel() * _WORK >> 10, y, a, other, table, code, CODES[kind], a.numel(), order)
    return y


def _of_float(x: Tensor) -> DType:
    return x.dtype if x.dtype.has_gradient else _dtype.Default.dtype


@claims("_ndtri")
def _ndtri(x: Tensor) -> Any:
    if x.device is not cpu:
        return _run("ndtri", _of_float(x), x)
    if x.dtype is not _dtype.float32 or capturing():
        return NotImplemented
    y = OPS["erfinv"].forward(x * 2.0 - 1.0) * sqrt(2)
    p, found = x.array(), y.array()
    tail = ~((p >= 0.02) & (p <= 0.98))  # where 2 p - 1 loses digits
    if tail.any():
        with np.errstate(all="ignore"):
            found[tail] = ndtri64(p[tail].astype(np.float64))
    return y


@claims("_mantissa")
def _mantissa(x: Tensor) -> Any:
    return NotImplemented if x.device is cpu else _run("mantissa", x.dtype, x)


@claims("_exponent")
def _exponent(x: Tensor) -> Any:
    return NotImplemented if x.device is cpu else _run("exponent", x.dtype, x)


@constants(16)
def _cotangent(order: int, device: Device) -> Tensor:
    return tensor_of(cotangent_derivative(order), _dtype.float64).to(device)


@claims("_polygamma")
def _polygamma(x: Tensor, n: int) -> Any:
    if x.device is cpu:
        return NotImplemented
    kind = x.dtype if x.dtype.is_floating_point else _dtype.float32
    return _run("polygamma", kind, x, None, _cotangent(n, x.device), n)


@constants(4)
def _temme(device: Device) -> Tensor:
    return tensor_of(np.array(temme_terms()), _dtype.float64).to(device)


def _of_two(name: str) -> Any:
    def compute(a: Tensor, b: Any) -> Any:
        if a.device is cpu or not (isinstance(b, Tensor) or type(b) in (int, float)):
            return NotImplemented
        same_device(name, a, b)
        kind = common_dtype(a, b)
        if name not in ("gcd", "lcm") and not kind.has_gradient:
            kind = _dtype.Default.dtype
        if kind not in _OPCODES[name].types:
            return NotImplemented
        other = b if isinstance(b, Tensor) else a.new_full((), b, dtype=kind)
        shape = broadcast_shapes(a._shape, other._shape, op=name)
        table = _temme(a.device) if name.startswith("igamma") else None
        return _run(name, kind, a.expand(shape), other.expand(shape), table)

    return compute


for _name in ("igamma", "igammac", "zeta", "gcd", "lcm"):
    claims("_zeta" if _name == "zeta" else _name)(_of_two(_name))
