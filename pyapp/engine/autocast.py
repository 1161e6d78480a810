"""Automatic mixed precision: inside a region, ops of products run in a smaller type, and losses in float32.

The lists are those of torch.amp on the CPU. `region` is what pyapp.amp.autocast enters. Ops are changed when the first
region of the process begins, so that code outside of regions does not look for one.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .device import Device
from .dtype import DType, float32, float64
from .grad_mode import STATE as GRADIENTS
from .launch import capturing
from .op import OPS, Op
from .tensor import Tensor
from .thread_local import ThreadLocal

F = TypeVar("F", bound=Callable[..., Any])

# Ops that run in the region's type, and those that run in float32; by the module that defines them.
_LOWER = {
    "linalg.products": ("_linear", "matmul"),
    "conv": ("_convolution", "_conv1d", "_convolution_transpose"),
    "full_attention": ("_attention", "_masked_attention"),
}
_FULL = {
    "products": ("_prod",),
    "linalg.factor": ("cholesky",),
    "linalg.eigen": ("_eigh",),
    "linalg.svd": ("_svd", "_svdvals"),
    "linalg.solve": ("inverse", "_pinv"),
}


class _State(ThreadLocal):
    """The region of a thread; `dtype` None: none."""

    dtype: DType | None = None
    device: Device | None = None
    caches = True
    depth = 0
    # by the id of a weight: the weight, the version of its memory, whether gradients were recorded, the converted one
    cache: dict[int, tuple[Tensor, int, bool, Tensor]] | None = None


STATE = _State()
_changed: set[str] = set()


@contextmanager
def region(dtype: DType | None, device: Device | None, caches: bool = True) -> Iterator[None]:
    """A region in which tensors of a device are converted to `dtype` (None: no tensors are)."""
    if dtype is not None and not _changed:
        _change_ops()
    before = STATE.dtype, STATE.device, STATE.caches
    STATE.dtype, STATE.device, STATE.caches = dtype, device, caches
    STATE.depth += 1
    try:
        yield
    finally:
        STATE.dtype, STATE.device, STATE.caches = before
        STATE.depth -= 1
        if not STATE.depth:
            STATE.cache = None


def _fits(value: Any) -> bool:
    """Whether autocast may convert a value: floating point, but not float64, on the region's device."""
    if not isinstance(value, Tensor) or value.device is not STATE.device:
        return False
    kind = value.dtype
    return kind.is_floating_point and kind is not float64 and not kind.is_storage_only


def _converted(value: Any, dtype: DType) -> Any:
    """A tensor in `dtype`, if autocast may convert it; parameters are converted once in a region."""
    if not _fits(value) or value.dtype is dtype:
        return value
    leaf = value.dtype is float32 and value.requires_grad and value.node is None and dtype is not float32
    if not leaf or not STATE.caches or capturing():  # a record must convert the weight as it is at each replay
        return value.to(dtype)
    if STATE.cache is None:
        STATE.cache = {}
    found = STATE.cache.get(id(value))
    state = value.storage.version, GRADIENTS.enabled
    if found is None or found[1:3] != state:
        found = STATE.cache[id(value)] = value, *state, value.to(dtype)
    return found[3]


def _all_converted(values: tuple[Any, ...], dtype: DType) -> tuple[Any, ...]:
    return tuple(_converted(value, dtype) for value in values)


def _run_lower(op: Op, args: tuple[Any, ...], dtype: DType) -> Any:
    return op.call(*_all_converted(args, dtype))


def _run_linear(op: Op, args: tuple[Any, ...], dtype: DType) -> Any:
    """A residual is added in its own type, as by torch, where it is a sum of its own. Products with block-quantised
    weights run in float32: their activations are int8.
    """
    x, weight, *rest = args
    bias, residual = (*rest, None, None)[:2]
    if weight.dtype.is_quantized:
        return op.call(*_all_converted(args, float32))
    y = op.call(*_all_converted((x, weight, bias), dtype))
    return y if residual is None else residual + y


def _run_full(op: Op, args: tuple[Any, ...], dtype: DType) -> Any:
    return op.call(*_all_converted(args, float32))


def _change_ops() -> None:
    """Changes the ops of the lists: they look for a region of their thread first."""
    importlib.import_module(".claims", __package__)
    special = {"_linear": _run_linear}
    for files, default in ((_LOWER, _run_lower), (_FULL, _run_full)):
        for file, names in files.items():
            importlib.import_module(f".ops.{file}", __package__)
            for name in names:
                _change(OPS[name], special.get(name, default))
                _changed.add(name)


def _change(op: Op, run: Callable[[Op, tuple[Any, ...], DType], Any]) -> None:
    claim, with_gradient, without_claim = op.claim, op._with_gradient, op._without_claim

    def inside(args: tuple[Any, ...]) -> Any:
        dtype, STATE.dtype = STATE.dtype, None  # the op's own ops stay as they are
        assert dtype is not None
        try:
            return run(op, args, dtype)
        finally:
            STATE.dtype = dtype

    def changed_claim(*args: Any, **kwargs: Any) -> Any:
        if STATE.dtype is None:
            return NotImplemented if claim is None else claim(*args, **kwargs)
        return inside(args)

    def changed_gradient(args: tuple[Any, ...]) -> Any:
        return with_gradient(args) if STATE.dtype is None else inside(args)

    def changed_rest(device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return without_claim(device, args, kwargs) if STATE.dtype is None or kwargs else inside(args)

    op.claim = changed_claim
    op._with_gradient = changed_gradient  # type: ignore[method-assign]
    op._without_claim = changed_rest  # type: ignore[method-assign]


def _decorated(function: F, full: bool) -> F:
    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        dtype = STATE.dtype
        if dtype is None:
            return function(*args, **kwargs)
        kind = float32 if full else dtype
        STATE.dtype = None
        try:
            named = {name: _converted(value, kind) for name, value in kwargs.items()}
            return function(*_all_converted(args, kind), **named)
        finally:
            STATE.dtype = dtype

    return changed  # type: ignore[return-value]


def in_lower_precision(function: F) -> F:
    """A decorator of functions that run in the region's type."""
    return _decorated(function, full=False)


def in_full_precision(function: F) -> F:
    """A decorator of functions that run in float32 inside a region: losses."""
    return _decorated(function, full=True)
