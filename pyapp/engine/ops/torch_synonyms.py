"""torch's function names for methods of Tensor, for dtypes and numbers, and functions of shapes."""

from __future__ import annotations

import gc
import math
import sys
from typing import Any

from .. import dtype as _dtype
from .. import shape as _shape
from ..autograd import enable_grad, no_grad
from ..declare import constant, function, method
from ..tensor import Tensor
from .linalg.products import multi_dot


@function()
def detach(x: Tensor) -> Tensor:
    """A tensor of the same memory, outside the graph."""
    return x.detach()


@method()
def detach_(x: Tensor) -> Tensor:
    """Removes x from the graph. RuntimeError for a view of a tensor that anything else holds."""
    if x.view_of is not None:
        if _is_held(x):
            raise RuntimeError("detach_: Can't detach views in-place: this tensor is a view; use detach()")
        x.view_of = None
    x._requires_grad, x.node = False, None
    return x


def _is_held(view: Tensor) -> bool:
    """Whether the tensor of which this one is a view is known to others than views and nodes. Some results are views of
    what an op has made for them alone.
    """
    assert view.view_of is not None
    owner = view.view_of[2]
    others = sys.getrefcount(owner) - _ALONE
    for each in gc.get_referrers(owner):
        if type(each) is tuple:
            for part in each:  # no generator: a variable that it reads counts in another way
                others -= part is owner
    return others > 0


def _count_one() -> int:
    alone = set[int]()
    return sys.getrefcount(alone)


_ALONE = _count_one()  # references to what one variable holds: how many, the version of Python decides


@function()
def numel(x: Tensor) -> int:
    """The number of elements."""
    return x.numel()


@method()
def nelement(x: Tensor) -> int:
    """The same as numel."""
    return x.numel()


@method()
def ndimension(x: Tensor) -> int:
    """The number of dims."""
    return x.ndim


@function()
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, in the cheapest order; see linalg.multi_dot."""
    return multi_dot(matrices)


@function()
def broadcast_shapes(*shapes: Any) -> _shape.Size:
    """The common broadcast shape of these shapes (tuples, or a number for one dim)."""
    sizes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    if any(size < 0 for shape in sizes for size in shape):
        raise ValueError(f"broadcast_shapes: sizes are not negative, got {sizes}")
    return _shape.Size(_shape.broadcast_shapes(*sizes, op="broadcast_shapes"))


@function()
def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


@function(method=True)
def is_nonzero(x: Tensor) -> bool:
    """Whether the one element is not zero."""
    return bool(x)


@function()
def inference_mode(mode: Any = True) -> Any:
    """no_grad under torch's name for inference: `with inference_mode():`, `@inference_mode()` or `@inference_mode`."""
    if callable(mode):
        return no_grad()(mode)
    return no_grad() if mode else enable_grad()


function()(_dtype.get_default_dtype)
constant("float", _dtype.float32)
constant("double", _dtype.float64)
constant("half", _dtype.float16)
constant("cfloat", _dtype.complex64)
constant("cdouble", _dtype.complex128)
constant("long", _dtype.int64)
constant("int", _dtype.int32)
constant("short", _dtype.int16)
constant("dtype", _dtype.DType)
constant("pi", math.pi)
constant("e", math.e)
constant("inf", math.inf)
constant("nan", math.nan)
constant("newaxis", None)
