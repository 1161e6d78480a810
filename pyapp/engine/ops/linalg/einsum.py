"""Sums of products by subscripts: einsum, tensordot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

from ...declare import function
from ...dtype import int64
from ...operands import same_device
from ...shape import normalize_dim
from ...tensor import Tensor
from ...user_errors import describe
from ..diagonals import diagonal
from ..view import expanded, permute, reshape, reshaped
from .products import matmul


@function()
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums over the last `dims` of a and the first of b, or over the dims that two lists name."""
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: {describe(a)} and {describe(b)} have no {dims} dims to sum over")
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = ([normalize_dim(d, t.ndim, "tensordot") for d in ds] for ds, t in zip(dims, (a, b), strict=True))
    pairs = [(d, e, a._shape[d], b._shape[e]) for d, e in zip(left, right, strict=True)]
    if any(m != n and 1 not in (m, n) for _, _, m, n in pairs):
        raise ValueError(f"tensordot: dims {dims} of {describe(a)} and {describe(b)} differ")
    if wide := [d for d, _, m, n in pairs if n == 1 != m]:  # a dim of 1 stands for as many as the other has
        a = a.sum(wide, True, dtype=a.dtype)
    if wide := [e for _, e, m, n in pairs if m == 1 != n]:
        b = b.sum(wide, True, dtype=b.dtype)
    kept_a, kept_b = ([d for d in range(t.ndim) if d not in ds] for t, ds in ((a, left), (b, right)))
    sizes_a, sizes_b = tuple(a._shape[d] for d in kept_a), tuple(b._shape[d] for d in kept_b)
    inner = prod(a._shape[d] for d in left)
    rows = reshape(permute(a, (*kept_a, *left)), (prod(sizes_a), inner))
    return reshape(rows @ reshape(permute(b, (*right, *kept_b)), (inner, prod(sizes_b))), sizes_a + sizes_b)


def _letters(part: str, x: Tensor, hidden: int) -> list[str]:
    """The label of each dim; the `hidden` dims of the ellipsis are "0", "1", … counted from the right."""
    if part.count(".") not in (0, 3) or (part.count(".") and "..." not in part):
        raise ValueError(f"einsum: {part!r} has dots that are not an ellipsis")
    before, dots, after = part.partition("...")
    count = x.ndim - len(before) - len(after) if dots else 0
    labels = [*before, *(str(hidden - count + i) for i in range(max(count, 0))), *after]
    if len(labels) != x.ndim or count < 0:
        raise ValueError(f"einsum: {part!r} does not name the dims of {describe(x)}")
    return labels


def _parse(equation: str, operands: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(operands):
        raise ValueError(f"einsum: {equation!r} names {len(parts)} operands, got {len(operands)}")
    if not all(c.isascii() and c.isalpha() or c == "." for part in (*parts, output) for c in part):
        raise ValueError(f"einsum: {equation!r} may hold letters, commas, '...' and one '->'")
    hidden = max([x.ndim - len(p) + 3 for p, x in zip(parts, operands, strict=True) if "..." in p], default=0)
    labels = [_letters(p, x, hidden) for p, x in zip(parts, operands, strict=True)]
    dots = [str(i) for i in range(hidden)]
    every = [c for letters in labels for c in letters]
    if arrow:
        before, ellipsis, after = output.partition("...")
        result = [*before, *(dots if ellipsis else []), *after]
    else:
        result = dots + sorted(c for c in set(every) if c.isalpha() and every.count(c) == 1)
    if len(set(result)) != len(result) or not set(result) <= set(every):
        raise ValueError(f"einsum: the output of {equation!r} must name dims of the inputs, each once")
    return labels, result


def _one_each(x: Tensor, labels: list[str]) -> tuple[Tensor, list[str]]:
    """Labels that occur twice become diagonals."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x._shape[first] != x._shape[second]:
                raise ValueError(f"einsum: {label!r} names dims of different sizes in {describe(x)}")
            x = diagonal(x, 0, first, second)
            labels = [c for i, c in enumerate(labels) if i not in (first, second)] + [label]
    return x, labels


def _in_order(x: Tensor, labels: list[str], order: list[str]) -> Tensor:
    """The dims with these labels in another order."""
    return x if labels == order else permute(x, tuple([labels.index(c) for c in order]))


def _contract(
    a: Tensor, la: list[str], b: Tensor, lb: list[str], kept: set[str], sizes: dict[str, int], result: list[str]
) -> tuple[Tensor, list[str]]:
    """One product of two operands as a batched matrix product; labels outside `kept` are summed over."""
    a, la = _summed(a, la, kept | set(lb))
    b, lb = _summed(b, lb, kept | set(la))
    if a.dtype is not b.dtype and a.dtype.category == b.dtype.category == 1:  # one is the sum of narrower integers
        a, b = a.to(int64), b.to(int64)
    batch = [c for c in la if c in lb and c in kept]
    inner = [c for c in la if c in lb and c not in kept]
    if not inner:  # nothing is summed over
        names = [c for c in result if c in la or c in lb]
        names += [c for c in dict.fromkeys([*la, *lb]) if c not in names]
        return _spread(a, la, names) * _spread(b, lb, names), names
    left, right = _outer(la, lb, result)
    if set(batch) <= set(result):
        batch.sort(key=result.index)
    if _ends_with(result, right, left):
        a, la, left, b, lb, right = b, lb, right, a, la, left

    def arranged(x: Tensor, labels: list[str], *groups: list[str]) -> Tensor:
        order = [c for group in groups for c in group]
        x = _in_order(x, labels, order)
        own = {*batch, *inner}
        x = expanded(x, tuple([sizes[c] if c in own else n for c, n in zip(order, x._shape, strict=True)]))
        counts = []
        for group in groups:
            count = 1
            for c in group:
                count *= sizes[c] if c in own else x._shape[order.index(c)]
            counts.append(count)
        return reshaped(x, tuple(counts))

    product = matmul(arranged(a, la, batch, left, inner), arranged(b, lb, batch, inner, right))
    outside = [a._shape[la.index(c)] for c in left] + [b._shape[lb.index(c)] for c in right]
    return reshaped(product, (*[sizes[c] for c in batch], *outside)), batch + left + right


def _spread(x: Tensor, labels: list[str], names: list[str]) -> Tensor:
    """The dims in the order of `names`, with one of size 1 for each other name."""
    x = _in_order(x, labels, [c for c in names if c in labels])
    sizes = iter(x._shape)
    return reshaped(x, tuple([next(sizes) if c in labels else 1 for c in names]))


class _Product(NamedTuple):
    """How two operands make a batched matrix product: the order of the dims of each (None: as they are) and the shape
    of its matrices, the shape of the result and the order of its dims.
    """

    orders: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    matrices: tuple[tuple[int, ...], tuple[int, ...]]
    shape: tuple[int, ...]
    order: tuple[int, ...] | None
    turned: bool  # whether the second operand is the left matrix


@lru_cache(256)
def _product_of(equation: str, a: tuple[int, ...], b: tuple[int, ...]) -> _Product | None:
    """For operands of these shapes; None where it is not one product of every dim as it is."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    la, _, lb = inputs.partition(",")
    sizes = dict(zip(la + lb, a + b, strict=False))
    every = (la, lb, output)
    if not all(part.isascii() and part.isalpha() and len(set(part)) == len(part) for part in every):
        return None
    if (len(la), len(lb)) != (len(a), len(b)) or set(la + lb) < set(output):
        return None
    if any(sizes[c] != n for c, n in zip(la + lb, a + b, strict=True)):
        return None
    batch, inner = ([c for c in la if c in lb and (c in output) is kept] for kept in (True, False))
    left, right = _outer(la, lb, output)
    if not {*batch, *left, *right} == set(output) or not (left and right and inner):
        return None
    batch.sort(key=output.index)
    turned = _ends_with(output, right, left)
    if turned:
        la, lb, left, right = lb, la, right, left
    groups = ((la, batch, left, inner), (lb, batch, inner, right))
    orders = [tuple([own.index(c) for group in parts for c in group]) for own, *parts in groups]
    matrices = [tuple([prod([sizes[c] for c in group]) for group in parts[not batch :]]) for _, *parts in groups]
    names = batch + left + right
    order = tuple([names.index(c) for c in output])
    return _Product(
        tuple([None if order == tuple(range(len(order))) else order for order in orders]),  # type: ignore[arg-type]
        tuple(matrices),  # type: ignore[arg-type]
        tuple([sizes[c] for c in names]),
        None if order == tuple(range(len(order))) else order,
        turned,
    )


def _outer(la: Sequence[str], lb: Sequence[str], result: Sequence[str]) -> tuple[list[str], list[str]]:
    """The labels of one operand alone, in the order of the result, where they are there: so that it has no gaps."""

    def place(label: str) -> int:
        return result.index(label) if label in result else len(result)

    return sorted([c for c in la if c not in lb], key=place), sorted([c for c in lb if c not in la], key=place)


def _ends_with(result: Sequence[str], first: list[str], last: list[str]) -> bool:
    """Whether the result has all of `first` before all of `last`; none of them is empty."""
    if not (first and last and {*first, *last} <= {*result}):
        return False
    return max(map(result.index, first)) < min(map(result.index, last))


def _multiplied(plan: _Product, a: Tensor, b: Tensor) -> Tensor:
    parts = [
        reshaped(x if order is None else permute(x, order), shape)
        for x, order, shape in zip((b, a) if plan.turned else (a, b), plan.orders, plan.matrices, strict=True)
    ]
    y = reshaped(matmul(*parts), plan.shape)
    return y if plan.order is None else permute(y, plan.order)


def _cheapest(operands: list[list[str]], result: set[str], sizes: dict[str, int]) -> tuple[int, int]:
    """Which two operands to contract next: those whose product adds the fewest elements to what is there."""

    def count(labels: set[str]) -> int:
        return prod(sizes[c] for c in labels)

    def growth(pair: tuple[int, int]) -> int:
        a, b = (set(operands[i]) for i in pair)
        others = result.union(*(names for i, names in enumerate(operands) if i not in pair))
        return count((a | b) & others) - count(a) - count(b)

    return min(combinations(range(len(operands)), 2), key=growth)


def _summed(x: Tensor, labels: list[str], kept: set[str]) -> tuple[Tensor, list[str]]:
    gone = [i for i, c in enumerate(labels) if c not in kept]
    return (x.sum(gone), [c for c in labels if c in kept]) if gone else (x, labels)


def _from_lists(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) in letters."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def spelt(places: Any) -> str:
        return "".join("..." if place is Ellipsis else letters[place] for place in places)

    result = "->" + spelt(operands[-1]) if len(operands) % 2 else ""
    pairs = operands[: len(operands) // 2 * 2]
    return ",".join(map(spelt, pairs[1::2])) + result, list(pairs[::2])


@function()
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products in Einstein's notation, as torch.einsum: letters, "...", repeated letters, "->" or none; or each
    operand followed by a list of numbers, and one for the result.
    """
    if isinstance(equation, Tensor):
        return einsum(*_from_lists((equation, *operands)))
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    tensors = list(given)
    same_device("einsum", *tensors)
    if len(tensors) == 2 and tensors[0].dtype is tensors[1].dtype and type(equation) is str:
        plan = _product_of(equation, tensors[0]._shape, tensors[1]._shape)
        if plan is not None:
            return _multiplied(plan, *tensors)
    labels, result = _parse(equation, tensors)
    pairs = [_one_each(x, names) for x, names in zip(tensors, labels, strict=True)]
    sizes: dict[str, int] = {}
    for x, names in pairs:
        for c, n in zip(names, x._shape, strict=True):
            if sizes.get(c, 1) not in (1, n) and n != 1:
                raise ValueError(f"einsum: {c!r} of {equation!r} is {sizes[c]} in one operand, {n} in {describe(x)}")
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    while len(pairs) > 1:
        first, second = (0, 1) if len(pairs) == 2 else _cheapest([names for _, names in pairs], set(result), sizes)
        left, right = pairs[first], pairs[second]
        pairs = [pair for i, pair in enumerate(pairs) if i not in (first, second)]
        kept = set(result).union(*(names for _, names in pairs))
        pairs.insert(0, _contract(*left, *right, kept, sizes, result))
    x, names = pairs[0]
    count = len(names)
    x, names = _summed(x, names, set(result))
    if names != result and len(names) < count:  # a sum is row-major, as in torch
        x, names = _in_order(x, names, result).contiguous(), result
    if len(tensors) > 1 and names == result:
        return x
    return permute(x, tuple([names.index(c) for c in result]))  # a new tensor in any case
