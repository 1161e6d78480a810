"""keras.ops that arrange elements: by a pattern, on a diagonal, as elements of another dtype; functions over slices."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pyapp

from ..engine import Tensor, as_dtype, ops
from ..train.floats import floatx
from .arguments import as_tensor, sum_dtype
from .structures import flatten, map_structure

__all__ = [
    "broadcast_to", "diag", "diagflat", "diagonal", "dstack", "get_item", "hstack", "rearrange", "rot90", "swapaxes",
    "tile", "trace", "vectorize", "view", "vstack",
]  # fmt: skip


def get_item(x: Any, key: Any) -> Tensor:
    """x[key]."""
    return as_tensor(x)[key]


def broadcast_to(x: Any, shape: Any) -> Tensor:
    """x repeated along dims of size 1, and along new ones in front."""
    return as_tensor(x).expand(tuple(shape))


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """x with two dims exchanged."""
    return as_tensor(x).transpose(axis1, axis2)


def tile(x: Any, repeats: Any) -> Tensor:
    """x repeated along its axes."""
    return pyapp.tile(as_tensor(x), (repeats,) if isinstance(repeats, int) else tuple(int(n) for n in repeats))


def rot90(array: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """Turned k times by 90 degrees, from the first of the axes to the second."""
    return pyapp.rot90(as_tensor(array), k, tuple(axes))


def hstack(xs: Any) -> Tensor:
    """Joined along the second axis; vectors along their only one."""
    return pyapp.hstack([as_tensor(x) for x in xs])


def vstack(xs: Any) -> Tensor:
    """Joined along the first axis; vectors are rows."""
    return pyapp.vstack([as_tensor(x) for x in xs])


def dstack(xs: Any) -> Tensor:
    """Joined along the third axis."""
    return pyapp.dstack([as_tensor(x) for x in xs])


def diag(x: Any, k: int = 0) -> Tensor:
    """A matrix with a vector on its k-th diagonal, or that diagonal of a matrix."""
    return pyapp.diag(as_tensor(x), k)


def diagflat(x: Any, k: int = 0) -> Tensor:
    """A matrix with all elements of x on its k-th diagonal."""
    return pyapp.diag(as_tensor(x).reshape(-1), k)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of matrices that two axes span; they lie along the last axis of the result."""
    return pyapp.diagonal(as_tensor(x), offset, axis1, axis2)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sums of diagonals."""
    values = as_tensor(x)
    return diagonal(values, offset, axis1, axis2).sum(-1, dtype=sum_dtype(values))


def view(x: Any, dtype: Any = None) -> Tensor:
    """The same bytes as elements of another dtype; the size of the last axis changes with theirs."""
    return as_tensor(x).contiguous().view(as_dtype(dtype or floatx()))


def _groups(pattern: str, side: str) -> list[list[str]]:
    """The axes of one side of a pattern, with those in brackets together."""
    found: list[list[str]] = []
    for word in re.findall(r"\([^()]*\)|[^\s()]+", side):
        names = word.strip("()").split()
        if not all(name == "1" or name.isidentifier() for name in names):
            raise ValueError(f"rearrange: the pattern {pattern!r:.80} has {word!r:.40}; axes have names, or are 1")
        found.append([name for name in names if name != "1"])
    if sum(side.count(bracket) for bracket in "()") != 2 * len(re.findall(r"\([^()]*\)", side)):
        raise ValueError(f"rearrange: the brackets of the pattern {pattern!r:.80} do not fit")
    return found


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Tensor:
    """Axes split, moved and joined by a pattern such as "b (h w) c -> b c h w" with h=2 (einops)."""
    x, sides = as_tensor(tensor), pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: a pattern has one '->', not {pattern!r:.80}")
    before, after = (_groups(pattern, side) for side in sides)
    names = [name for group in before for name in group]
    if sorted(names) != sorted(name for group in after for name in group) or len(set(names)) != len(names):
        raise ValueError(f"rearrange: each axis stands once on both sides, not as in {pattern!r:.80}")
    if len(before) != x.ndim:
        raise ValueError(f"rearrange: the pattern {pattern!r:.80} has {len(before)} axes, x {tuple(x.shape)}")
    if unknown := sorted(axes_lengths.keys() - set(names)):
        raise ValueError(f"rearrange: the pattern {pattern!r:.80} has no axis {unknown[0]!r:.40}")
    sizes: dict[str, int] = {}
    for group, size in zip(before, x.shape, strict=True):
        known = 1
        for name in group:
            known *= int(axes_lengths.get(name, 1))
        open_names = [name for name in group if name not in axes_lengths]
        if len(open_names) > 1 or known < 1 or size % known or (not open_names and known != size):
            raise ValueError(f"rearrange: an axis of {size} does not split into ({' '.join(group)}) {axes_lengths}")
        sizes.update({name: int(axes_lengths.get(name, size // known)) for name in group})
    whole = x.reshape([sizes[name] for name in names])
    moved = whole.permute(*(names.index(name) for group in after for name in group)) if names else whole
    shape = []
    for group in after:
        shape.append(1)
        for name in group:
            shape[-1] *= sizes[name]
    return moved.reshape(shape)


def _core(signature: str) -> list[int]:
    """How many axes at the end of each argument the function takes whole."""
    parts = re.findall(r"\(([^()]*)\)", signature.split("->")[0])
    return [len([name for name in part.split(",") if name.strip()]) for part in parts]


def vectorize(pyfunc: Callable[..., Any], *, excluded: Any = None, signature: str | None = None) -> Callable[..., Any]:
    """A function of tensors that calls `pyfunc` for every element, or for every slice that the signature, such as
    "(n),(n)->()", names. Arguments whose places or names are `excluded` go to it as they are."""
    left = set(excluded or ())

    def call(*args: Any, **kwargs: Any) -> Any:
        taken = [k for k in range(len(args)) if k not in left]
        named = [key for key in kwargs if key not in left]
        given = [as_tensor(args[k]) for k in taken] + [as_tensor(kwargs[key]) for key in named]
        core = [0] * len(given) if signature is None else _core(signature)
        if len(core) != len(given):
            raise ValueError(f"vectorize: the signature {signature!r:.60} has {len(core)} arguments, got {len(given)}")
        if any(x.ndim < n for x, n in zip(given, core, strict=True)):
            raise ValueError(f"vectorize: {[tuple(x.shape) for x in given]} do not fit the signature {signature!r:.60}")
        batch = pyapp.broadcast_shapes(*(x.shape[: x.ndim - n] for x, n in zip(given, core, strict=True)))
        given = [x.expand(*batch, *x.shape[x.ndim - n :]) for x, n in zip(given, core, strict=True)]
        results = []
        for place in itertools.product(*(range(n) for n in batch)):
            values: list[Any] = list(args)
            slices = [x[place] for x in given]
            for k, one in zip(taken, slices, strict=False):
                values[k] = one
            more = {**kwargs, **dict(zip(named, slices[len(taken) :], strict=True))}
            results.append(pyfunc(*values, **more))
        if not results:
            raise ValueError("vectorize: the arguments have no elements")
        columns = iter(
            ops.stack([as_tensor(x) for x in same]).reshape(*batch, *as_tensor(same[0]).shape)
            for same in zip(*map(flatten, results), strict=True)
        )
        return map_structure(lambda _: next(columns), results[0])

    return call
