"""keras.ops' loops and branches. They run as Python, so they differentiate; a captured step does not hold those that
depend on numbers of tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from ..engine import Tensor, ops
from .arguments import as_tensor, dim_of
from .structures import flatten, map_structure

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "vectorized_map", "while_loop"]


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """true_fn() if pred, else false_fn()."""
    return true_fn() if bool(pred) else false_fn()


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    """The result of the branch of that number."""
    return branches[builtins.max(0, builtins.min(int(index), len(branches) - 1))](*operands)


def _tensors(values: Any) -> Any:
    return map_structure(as_tensor, list(values))


def while_loop(cond: Any, body: Any, loop_vars: Any, maximum_iterations: int | None = None) -> Any:
    """The variables after body(*variables) while cond(*variables)."""
    alone = not isinstance(loop_vars, (list, tuple))
    values, count = tuple(_tensors((loop_vars,) if alone else loop_vars)), 0
    while (maximum_iterations is None or count < maximum_iterations) and bool(cond(*values)):
        found = body(*values)
        values = tuple(_tensors(found if isinstance(found, (list, tuple)) else (found,)))
        count += 1
    return values[0] if alone else values


def fori_loop(lower: int, upper: int, body_fun: Any, init_val: Any) -> Any:
    """The value after body_fun(k, value) for each k."""
    for k in range(int(lower), int(upper)):
        init_val = body_fun(k, init_val)
    return init_val


def _stacked(results: list[Any]) -> Any:
    rows = zip(*builtins.map(flatten, results), strict=True)
    columns = iter([ops.stack([ops.as_tensor(x) for x in same]) for same in rows])
    return map_structure(lambda _: next(columns), results[0])


def _slice(xs: Any, k: int) -> Any:
    return map_structure(lambda x: x[k], xs)


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """f of each slice along the first dim, stacked."""
    count = flatten(xs)[0].shape[0]
    return _stacked([f(_slice(xs, k)) for k in range(count)])


def vectorized_map(function: Callable[[Any], Any], elements: Any) -> Any:
    """As map."""
    return map(function, elements)


def scan(
    f: Callable[[Any, Any], Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    unroll: Any = 1,
) -> Any:  # fmt: skip
    """(carry, results) of carry, result = f(carry, slice) along the first dim."""
    count = flatten(xs)[0].shape[0] if length is None else length
    found = []
    for k in range(count - 1, -1, -1) if reverse else range(count):
        init, result = f(init, None if xs is None else _slice(xs, k))
        found.append(result)
    found = found[::-1] if reverse else found
    return init, None if builtins.all(result is None for result in found) else _stacked(found)


def associative_scan(f: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """The results of f over the first element, the first two, three … along an axis. f combines two slices of several
    elements each and must be associative; it is called about 2 log2 n times."""
    whole = map_structure(as_tensor, elems)
    sizes = {x.shape[axis] for x in flatten(whole)}
    if len(sizes) != 1:
        raise ValueError(f"associative_scan: the tensors have the sizes {sorted(sizes)} along the axis {axis}")

    def each(function: Callable[..., Tensor], *values: Any) -> Any:
        """The function over the leaves of structures of one form."""
        rows = iter(builtins.zip(*builtins.map(flatten, values), strict=True))
        return map_structure(lambda _: function(*next(rows)), values[0])

    def steps(x: Tensor, start: int, end: int, step: int) -> Tensor:
        return x.index_select(axis, ops.arange(start, end, step, device=x.device))

    def joined(even: Tensor, odd: Tensor) -> Tensor:
        """Their slices in turn."""
        place = dim_of(axis, even.ndim)
        count = odd.shape[place]
        pairs = ops.stack([even.narrow(place, 0, count), odd], place + 1).flatten(place, place + 1)
        return ops.cat([pairs, even.narrow(place, count, even.shape[place] - count)], place)

    def scanned(values: Any) -> Any:
        n = flatten(values)[0].shape[axis]
        if n < 2:
            return values
        pairs = f(each(lambda x: steps(x, 0, n - 1, 2), values), each(lambda x: steps(x, 1, n, 2), values))
        odd = scanned(pairs)  # the results at 1, 3, 5 …
        first = each(lambda x: x.narrow(axis, 0, 1), values)
        if n == 2:
            return each(joined, first, odd)
        before = each(lambda x: x.narrow(axis, 0, (n - 1) // 2), odd)
        later = f(before, each(lambda x: steps(x, 2, n, 2), values))
        return each(joined, each(lambda a, b: ops.cat([a, b], axis), first, later), odd)

    if not reverse:
        return scanned(whole)
    return each(lambda x: x.flip(axis), scanned(each(lambda x: x.flip(axis), whole)))
