"""What torch has by other names: functions that are methods too, synonyms, plain data, questions about dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import dtype as _dtype
from .. import shape as _shape
from ..autograd import enable_grad, no_grad
from ..dtype import DType, as_dtype, get_default_dtype, promote  # noqa: F401 (the ops' table names it)
from ..lazy import np
from ..op import describe
from ..tensor import Tensor
from .base import common_dtype
from .create import from_numpy, tensor
from .index import getitem, setitem
from .linalg import addmm, outer
from .random import default_generator

# Functions that Tensor has as methods of the same name and arguments.
METHODS = """
    bitwise_and bitwise_not bitwise_or bitwise_xor clone detach eq floor_divide ge gt le log1p logical_and logical_not
    logical_or lt ne numel reciprocal remainder t
""".split()
# Synonyms: torch's other name -> the op.
SYNONYMS = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "chain_matmul": "multi_dot", "divide": "div", "fix": "trunc", "ger": "outer", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "row_stack": "vstack", "subtract": "sub", "trapz": "trapezoid", "vdot": "dot",
}  # fmt: skip
_OF_LINALG = {"multi_dot"}


def _find(name: str) -> Callable[..., Any]:
    from .. import ops

    if name in _OF_LINALG:
        from . import decompose

        return lambda *tensors: decompose.multi_dot(tensors)
    found = getattr(ops, name, None)
    return getattr(Tensor, name) if found is None else found


def select(x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at an index of a dim: a view without that dim."""
    d = dim + x.ndim if dim < 0 else dim
    if not 0 <= d < x.ndim:
        raise IndexError(f"select: dim {dim} is out of range for {describe(x)}")
    return getitem(x, (slice(None),) * d + (index,))


def argwhere(x: Tensor) -> Tensor:
    """Where the elements are not zero: (count, dims), int64."""
    return x.nonzero()


def inner(x: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dims: (..., K), (..., K) → all other dims of both."""
    if not x.ndim or not other.ndim:
        return x * other
    if x.shape[-1] != other.shape[-1]:
        raise ValueError(f"inner: {describe(x)} and {describe(other)} differ in the last dim")
    flat = x.reshape(-1, x.shape[-1]) @ other.reshape(-1, other.shape[-1]).mT
    return flat.reshape(x.shape[:-1] + other.shape[:-1])


def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha times the sum of all batch1 @ batch2: (B, N, K), (B, K, M) → (N, M); x is broadcast to that.

    Where beta is 0, x is not read.
    """
    if batch1.ndim != 3 or batch2.ndim != 3 or (batch1.shape[0], batch1.shape[2]) != batch2.shape[:2]:
        raise ValueError(f"addbmm: takes (B, N, K) and (B, K, M), got {describe(batch1)} and {describe(batch2)}")
    side_by_side = batch1.transpose(0, 1).reshape(batch1.shape[1], -1 if batch1.numel() else 0)  # (N, B K)
    below = batch2.reshape(-1 if batch2.numel() else 0, batch2.shape[2])  # (B K, M)
    x = x.expand(batch1.shape[1], batch2.shape[2])
    return addmm(x, side_by_side, below, beta=beta, alpha=alpha)


def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha mat @ vec."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise ValueError(f"addmv: takes a matrix and a vector, not {describe(mat)} and {describe(vec)}")
    return addmm(x.unsqueeze(-1), mat, vec.unsqueeze(-1), beta=beta, alpha=alpha).squeeze(-1)


def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha vec1 ⊗ vec2."""
    return x * beta + outer(vec1, vec2) * alpha


def logdet(x: Tensor) -> Tensor:
    """log of the determinant; NaN where that is negative."""
    from .elementwise import where
    from .linalg import slogdet

    sign, size = slogdet(x)
    return where(sign < 0, float("nan"), size)


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The running trapezoidal rule along a dim."""
    from .shape_more import diff
    from .view import narrow

    size = y.shape[dim]
    means = (narrow(y, dim, 1, size - 1) + narrow(y, dim, 0, size - 1)) * 0.5
    return (means * (dx if x is None else diff(x, dim=dim))).cumsum(dim)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Places in a flattened shape as one int64 tensor for each dim."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        found = np.unravel_index(indices.array(), sizes)
    except ValueError as error:
        raise ValueError(f"unravel_index: {describe(indices)} does not fit the shape {sizes} ({error})") from None
    return tuple(from_numpy(np.asarray(part, dtype="int64")) for part in found)


# -- plain data


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that tensors of these shapes (tuples, or a number for one dim) have together."""
    sizes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    if any(size < 0 for shape in sizes for size in shape):
        raise ValueError(f"broadcast_shapes: sizes are not negative, got {sizes}")
    return _shape.broadcast_shapes(*sizes, op="broadcast_shapes")


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` itself where it is a tensor of that dtype; arrays share their memory, anything else is copied."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device) if dtype is not None or device is not None else data
    if isinstance(data, np.ndarray):
        found = from_numpy(data)
        return found if dtype is None and device is None else found.to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """as_tensor, or with `copy` a tensor of its own."""
    return tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device)


def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(x: Tensor) -> bool:
    """Whether its dtype is a float."""
    return x.dtype.is_floating_point


def is_complex(x: Tensor) -> bool:
    """False: pyapp's tensors are real."""
    if not isinstance(x, Tensor):
        raise TypeError(f"is_complex: takes a tensor, not {describe(x)}")
    return False


def is_nonzero(x: Tensor) -> bool:
    """Whether the one element is not zero."""
    return bool(x)


# -- dtypes


class finfo:
    """Limits of a floating dtype: bits, eps, max, min, smallest_normal (tiny), resolution."""

    def __init__(self, type: Any = _dtype.float32) -> None:
        kind = as_dtype(type)
        if kind.name not in _FLOATS:
            raise TypeError(f"finfo: {kind} is no floating dtype; see iinfo")
        mantissa, top, bottom = _FLOATS[kind.name]
        self.dtype = kind.name
        self.bits = kind.itemsize * 8
        self.eps = 2.0**-mantissa
        self.max = 1.75 * 2.0**8 if kind is _dtype.float8_e4m3fn else (2 - self.eps) * 2.0**top
        self.min = -self.max
        self.smallest_normal = self.tiny = 2.0**bottom
        self.resolution = float(f"1e-{math.floor(mantissa * math.log10(2))}")

    def __repr__(self) -> str:
        limits = f"resolution={self.resolution}, min={self.min}, max={self.max}, eps={self.eps}"
        return f"finfo({limits}, smallest_normal={self.smallest_normal}, tiny={self.tiny}, dtype={self.dtype})"


# Bits of the fraction, exponents of the largest and of the smallest normal number.
_FLOATS = {
    "float64": (52, 1023, -1022), "float32": (23, 127, -126), "bfloat16": (7, 127, -126), "float16": (10, 15, -14),
    "float8_e5m2": (2, 15, -14), "float8_e4m3fn": (3, 8, -6),
}  # fmt: skip


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type: Any) -> None:
        kind = as_dtype(type)
        if kind.category != 1:
            raise TypeError(f"iinfo: {kind} is no integer dtype; see finfo")
        signed = kind.name[0] != "u"
        self.bits = kind.itemsize * 8
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0
        self.dtype = kind.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def promote_types(type1: Any, type2: Any) -> DType:
    """The dtype in which tensors of two dtypes meet."""
    return promote(as_dtype(type1), as_dtype(type2))


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype in which two tensors or numbers meet."""
    for x in (tensor1, tensor2):
        if not isinstance(x, (Tensor, int, float)):
            raise TypeError(f"result_type: takes tensors and numbers, not {describe(x)}")
    return common_dtype(tensor1, tensor2)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a write in place may convert so: not from a float to an integer, nor from a number to bool."""
    return as_dtype(from_).category <= as_dtype(to).category


def inference_mode(mode: Any = True) -> Any:
    """no_grad, by the name that torch has for inference: `with inference_mode():`, `@inference_mode()` or
    `@inference_mode`.
    """
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else enable_grad()


def seed() -> int:
    """Seeds the default generator by the system's randomness, and returns the seed."""
    import secrets

    found = secrets.randbits(63)
    default_generator.manual_seed(found)
    return found


def initial_seed() -> int:
    """What the default generator was seeded with."""
    return default_generator.initial_seed()


DTYPES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16"}
CONSTANTS: dict[str, Any] = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "newaxis": None,
    "dtype": DType,
}


def __getattr__(name: str) -> Any:
    if name in DTYPES:
        return as_dtype(DTYPES[name])
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name in METHODS:
        return getattr(Tensor, name)
    if name in SYNONYMS:
        return _find(SYNONYMS[name])
    raise AttributeError(f"module 'pyapp' has no attribute {name!r}")


def _type_as(x: Tensor, other: Tensor) -> Tensor:
    return x.to(other.dtype)


def _new_tensor(x: Tensor, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return tensor(data, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def _reshape_as(x: Tensor, other: Tensor) -> Tensor:
    return x.reshape(other.shape)


def _fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Writes a number where all indices are equal; with `wrap` the diagonal of a tall matrix begins again below."""
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ValueError(f"fill_diagonal_: takes a matrix, or more dims of one size, not {describe(x)}")
    if wrap and x.ndim == 2:
        flat = np.arange(0, x.numel(), x.shape[1] + 1, dtype=np.int64)
        at = [flat // max(x.shape[1], 1), flat % max(x.shape[1], 1)]
    else:
        at = [np.arange(min(x.shape), dtype=np.int64)] * x.ndim
    setitem(x, tuple(from_numpy(part) for part in at), fill_value)
    return x


def _detach_(x: Tensor) -> Tensor:
    if x.seen_through is not None:
        raise RuntimeError("detach_: this tensor is a view; use detach()")
    x._requires_grad, x.node = False, None
    return x


TENSOR_METHODS: dict[str, Any] = {
    "select": select, "argwhere": argwhere, "inner": inner, "addmv": addmv, "addr": addr, "logdet": logdet,
    "addbmm": addbmm,
    "type_as": _type_as, "new_tensor": _new_tensor, "reshape_as": _reshape_as, "fill_diagonal_": _fill_diagonal_,
    "detach_": _detach_, "nelement": Tensor.numel, "ndimension": Tensor.dim, "is_complex": is_complex,
    "is_nonzero": is_nonzero, "cpu": lambda x: x.to("cpu"), "storage_offset": lambda x: x.offset,
    "is_signed": lambda x: x.dtype.name[0] != "u" and x.dtype.category > 0,
    "split_with_sizes": lambda x, split_sizes, dim=0: x.split(list(split_sizes), dim),
    "multinomial": lambda x, *args, **kwargs: _find("multinomial")(x, *args, **kwargs),
    "diagflat": lambda x, offset=0: _find("diagflat")(x, offset),
    "stft": lambda x, *args, **kwargs: _find("stft")(x, *args, **kwargs),
    "istft": lambda x, *args, **kwargs: _find("istft")(x, *args, **kwargs),
}  # fmt: skip
for _name, _function in TENSOR_METHODS.items():
    setattr(Tensor, _name, _function)
for _name, _of in SYNONYMS.items():
    if _name not in ("chain_matmul", "row_stack", "trapz"):
        setattr(Tensor, _name, lambda x, *args, _of=_of, **kwargs: getattr(x, _of)(*args, **kwargs))
        if hasattr(Tensor, _of + "_"):
            setattr(Tensor, _name + "_", getattr(Tensor, _of + "_"))
