"""Automatic mixed precision: inside a region, ops of products run in a smaller type, and losses in float32.

An op says what a region does to it where it is defined, `@op(autocast=lower_precision)`, and the dispatch of ops asks
for it. The choice of ops is that of torch.amp: on other devices than the CPU more of them run in float32, by their
names. `region` is what pyapp.amp.autocast enters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .device import Device, cpu
from .dtype import DType, float32, float64
from .grad_mode import STATE as GRADIENTS
from .launch import capturing
from .tensor import Tensor
from .thread_local import ThreadLocal, Users

F = TypeVar("F", bound=Callable[..., Any])
Rule = Callable[[Callable[..., Any], tuple[Any, ...], DType], Any]  # (op, arguments, the region's type) → result


class _State(ThreadLocal):
    """The region of a thread; `dtype` None: none."""

    dtype: DType | None = None
    device: Device | None = None
    caches = True
    depth = 0
    # by the id of a weight and the type: the weight, the version of its memory, whether gradients were recorded, the
    # converted one
    cache: dict[tuple[int, DType], tuple[Tensor, int, bool, Tensor]] | None = None


STATE = _State()
REGIONS = Users()  # regions of all threads, nested ones too
_FULL_ON_CARDS = frozenset(
    "exp expm1 log log10 log1p log2 pow reciprocal rsqrt acos asin cosh sinh tan erfinv softmax log_softmax softplus "
    "layer_norm sum cumsum cumprod".split()
)


@contextmanager
def region(dtype: DType | None, device: Device | None, caches: bool = True) -> Iterator[None]:
    """A region in which tensors of a device are converted to `dtype`. None: no tensors of this device are (device
    None: of any); what holds for another device goes on to hold."""
    before = STATE.dtype, STATE.device, STATE.caches
    if dtype is not None or device in (None, STATE.device):
        STATE.dtype, STATE.device, STATE.caches = dtype, device, caches
    STATE.depth += 1
    REGIONS.add(1)
    try:
        yield
    finally:
        STATE.dtype, STATE.device, STATE.caches = before
        STATE.depth -= 1
        REGIONS.add(-1)
        if not STATE.depth:
            STATE.cache = None


def run_by_rule(rule: Rule, op: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """An op inside a region; the ops that it is made of run as outside."""
    dtype, STATE.dtype = STATE.dtype, None
    assert dtype is not None
    try:
        return rule(op, args, dtype)
    finally:
        STATE.dtype = dtype


def _fits(value: Any) -> bool:
    """Whether autocast may convert a value: floating point, but not float64, on the region's device."""
    if not isinstance(value, Tensor) or value.device is not STATE.device:
        return False
    kind = value.dtype
    return kind.is_floating_point and kind is not float64 and not kind.is_storage_only


def in_regions_type(values: tuple[Any, ...], on_cpu: bool) -> tuple[Any, ...]:
    """Results of what runs in the region's type as one kernel: in that type, on the CPU only where `on_cpu` holds."""
    if not REGIONS.count or STATE.dtype is None or (STATE.device is cpu and not on_cpu):
        return values
    return converted(values, STATE.dtype)


def would_widen(value: Any) -> bool:
    """Whether a region is entered that converts a value to float32 for an op that runs in it: one of 16 bits."""
    return REGIONS.count > 0 and STATE.dtype is not None and _fits(value) and value.dtype is not float32


def _converted(value: Any, dtype: DType) -> Any:
    """A tensor in `dtype`, if autocast may convert it; parameters are converted once in a region."""
    if not _fits(value) or value.dtype is dtype:
        return value
    leaf = value.dtype is float32 and value.requires_grad and value.node is None and dtype is not float32
    if not leaf or not STATE.caches or capturing():  # a record must convert the weight as it is at each replay
        return value.to(dtype)
    if STATE.cache is None:
        STATE.cache = {}
    key = id(value), dtype
    found = STATE.cache.get(key)
    state = value._storage.version, GRADIENTS.enabled
    if found is None or found[1:3] != state:
        found = STATE.cache[key] = value, *state, value.to(dtype)
    return found[3]


def converted(values: tuple[Any, ...], dtype: DType) -> tuple[Any, ...]:
    """The arguments of an op, with the tensors among them in `dtype` where autocast may convert them."""
    return tuple(_converted(value, dtype) for value in values)


def lower_precision(op: Callable[..., Any], args: tuple[Any, ...], dtype: DType) -> Any:
    """The rule of ops that run in the region's type."""
    return op(*converted(args, dtype))


def full_precision(op: Callable[..., Any], args: tuple[Any, ...], dtype: DType) -> Any:
    """The rule of ops that run in float32."""
    return op(*converted(args, float32))


def _full_on_cards(op: Callable[..., Any], args: tuple[Any, ...], dtype: DType) -> Any:
    """The rule of ops that run in float32 on other devices than the CPU."""
    return op(*(args if STATE.device is cpu else converted(args, float32)))


def _widest(op: Callable[..., Any], args: tuple[Any, ...], dtype: DType) -> Any:
    """The rule of ops of tensors of one type: float32 where one of them has it."""
    wide = any(_fits(value) and value.dtype is float32 for value in args)
    return op(*(converted(args, float32) if wide else args))


def rule_of(name: str) -> Rule | None:
    """The rule of an op of that name, where it has none of its own."""
    if name == "scatter_add":
        return _widest
    return _full_on_cards if name.lstrip("_") in _FULL_ON_CARDS else None


def _decorated(function: F, full: bool, cards_alone: bool = False) -> F:
    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        dtype = STATE.dtype if REGIONS.count else None
        if dtype is None or (cards_alone and STATE.device is cpu):
            return function(*args, **kwargs)
        kind = float32 if full else dtype
        STATE.dtype = None
        try:
            named = {name: _converted(value, kind) for name, value in kwargs.items()}
            return function(*converted(args, kind), **named)
        finally:
            STATE.dtype = dtype

    return changed  # type: ignore[return-value]


def in_lower_precision(function: F) -> F:
    """A decorator of functions that run in the region's type."""
    return _decorated(function, full=False)


def in_full_precision(function: F) -> F:
    """A decorator of functions that run in float32 inside a region: losses."""
    return _decorated(function, full=True)


def in_full_precision_on_cards(function: F) -> F:
    """A decorator of functions that run in float32 inside a region of another device than the CPU: norms."""
    return _decorated(function, full=True, cards_alone=True)
