"""The rest of torch's list of shapes: joining, splitting, rotating, grids, triangles, differences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as _combinations
from operator import index
from typing import Any

from ..dtype import Default, as_dtype, bool_
from ..lazy import np
from ..op import describe, view_op
from ..shape import as_shape, normalize_dim
from ..tensor import Tensor, make
from .base import tensor_of
from .create import arange, from_numpy, zeros
from .rearrange import diag_embed, meshgrid, movedim, pad
from .view import cat, flip, narrow, permute, reshape, split, stack, transpose


def _each(tensors: tuple[Any, ...], one: Any) -> Any:
    """One tensor for one, a tuple for several or a list."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(one(t) for t in tensors[0])
    return one(tensors[0]) if len(tensors) == 1 else tuple(one(t) for t in tensors)


def atleast_1d(*tensors: Any) -> Any:
    """With one dim at least."""
    return _each(tensors, lambda t: t if t.ndim else reshape(t, (1,)))


def atleast_2d(*tensors: Any) -> Any:
    """With two dims at least: vectors become rows."""
    return _each(tensors, lambda t: t if t.ndim > 1 else reshape(t, (1, t.numel())))


def atleast_3d(*tensors: Any) -> Any:
    """With three dims at least."""
    return _each(
        tensors, lambda t: t.unsqueeze(-1) if t.ndim == 2 else t if t.ndim > 2 else reshape(t, (1, t.numel(), 1))
    )


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 2."""
    return cat([atleast_3d(t) for t in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 1; vectors are columns."""
    return cat([t if t.ndim > 1 else reshape(t, (t.numel(), 1)) for t in tensors], 1)


def tensor_split(x: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces as equal as can be, or cut at the given indices."""
    size = x.shape[normalize_dim(dim, x.ndim, "tensor_split")]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise ValueError(f"tensor_split: {count} sections are none")
        return split(x, [size // count + (i < size % count) for i in range(count)], dim)
    cuts = [min(max(i + size if i < 0 else i, 0), size) for i in indices_or_sections]
    ends = [*cuts, size]
    return tuple(narrow(x, dim, a, max(b - a, 0)) for a, b in zip([0, *cuts], ends, strict=True))


def hsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along dim 1 (0 for vectors)."""
    return tensor_split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def vsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along dim 0."""
    return tensor_split(x, indices_or_sections, 0)


def ravel(x: Tensor) -> Tensor:
    """As a vector."""
    return reshape(x, -1)


def fliplr(x: Tensor) -> Tensor:
    """flip along dim 1."""
    return flip(x, 1)


def flipud(x: Tensor) -> Tensor:
    """flip along dim 0."""
    return flip(x, 0)


def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned k quarters, from the first of two dims to the second."""
    a, b = (normalize_dim(d, x.ndim, "rot90") for d in dims)
    if a == b:
        raise ValueError(f"rot90: dims {tuple(dims)} are the same")
    if k % 4 == 2:
        return flip(x, a, b)
    if k % 4 == 1:
        return transpose(flip(x, b), a, b)
    return x.clone() if k % 4 == 0 else flip(transpose(x, a, b), b)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of one."""
    parts = [atleast_2d(t) for t in tensors]
    width = sum(p.shape[1] for p in parts)
    rows, at = [], 0
    for part in parts:
        rows.append(pad(part, (at, width - at - part.shape[1])))
        at += part.shape[1]
    return cat(rows, 0)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every choice of one element of each vector, as rows."""
    for x in tensors:
        if not isinstance(x, Tensor) or x.ndim != 1:
            raise TypeError(f"cartesian_prod: takes vectors, not {describe(x)}")
    return tensors[0] if len(tensors) == 1 else stack([reshape(g, -1) for g in meshgrid(*tensors)], -1)


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of a vector, in order, as rows."""
    from itertools import combinations_with_replacement

    choose = combinations_with_replacement if with_replacement else _combinations
    rows = list(choose(range(x.numel()), r))
    index = tensor_of(np.array(rows, dtype=np.int64).reshape(len(rows), r))
    return x[index]


def tril_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """(2, count): rows and columns of a lower triangle."""
    return tensor_of(np.stack(np.tril_indices(row, offset, col)).astype("int64"))


def triu_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """(2, count): rows and columns of an upper triangle."""
    return tensor_of(np.stack(np.triu_indices(row, offset, col)).astype("int64"))


def logspace(start: float, end: float, steps: int, base: float = 10.0, dtype: Any = None) -> Tensor:
    """base^start … base^end."""
    return tensor_of(base ** np.linspace(start, end, steps), as_dtype(dtype or Default.dtype))


def scalar_tensor(value: Any, dtype: Any = None) -> Tensor:
    """A zero-dimensional tensor (float32 unless told)."""
    return tensor_of(np.asarray(value), as_dtype(dtype or Default.dtype))


def kron(a: Tensor, b: Tensor) -> Tensor:
    """The Kronecker product."""
    rank = max(a.ndim, b.ndim)
    a, b = (reshape(t, (1,) * (rank - t.ndim) + t.shape) for t in (a, b))
    wide = reshape(a, tuple(n for size in a.shape for n in (size, 1)))
    other = reshape(b, tuple(n for size in b.shape for n in (1, size)))
    return reshape(wide * other, tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)))


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums over the last `dims` of a and the first of b, or over the dims that two lists name."""
    if isinstance(dims, int):
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = ([d % t.ndim for d in ds] for ds, t in zip(dims, (a, b), strict=True))
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise ValueError(f"tensordot: dims {dims} of {describe(a)} and {describe(b)} differ")
    kept_a, kept_b = ([d for d in range(t.ndim) if d not in ds] for t, ds in ((a, left), (b, right)))
    shape = tuple(a.shape[d] for d in kept_a) + tuple(b.shape[d] for d in kept_b)
    inner = 1
    for d in left:
        inner *= a.shape[d]
    rows = reshape(permute(a, (*kept_a, *left)), (-1, inner)) if inner else zeros(0, 0)
    return reshape(rows @ reshape(permute(b, (*right, *kept_b)), (inner, -1)), shape)


def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along a dim, n times."""
    parts = [t for t in (prepend, x, append) if t is not None]
    x = cat(parts, dim) if len(parts) > 1 else x
    for _ in range(n):
        size = x.shape[dim]
        if not size:
            break
        after, before = narrow(x, dim, 1, size - 1), narrow(x, dim, 0, size - 1)
        x = after.ne(before) if x.dtype is bool_ else after - before
    return x if n else x.clone()


def trapezoid(y: Tensor, x: Tensor | None = None, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The trapezoidal rule along a dim, for points x or steps dx."""
    size = y.shape[dim]
    means = (narrow(y, dim, 1, size - 1) + narrow(y, dim, 0, size - 1)) * 0.5
    if x is None:
        return means.sum(dim) * dx
    steps = diff(x, dim=-1 if x.ndim == 1 else dim)
    if x.ndim == 1 and y.ndim > 1:
        steps = reshape(steps, tuple(-1 if d == dim % y.ndim else 1 for d in range(y.ndim)))
    return (means * steps).sum(dim)


def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """The matrix with the flattened x on a diagonal."""
    return diag_embed(reshape(x, -1), offset)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns."""
    if x.ndim != 1:
        raise ValueError(f"vander: takes a vector, got {describe(x)}")
    count = x.numel() if N is None else N
    powers = arange(count) if increasing else flip(arange(count), 0)
    return x.unsqueeze(-1) ** powers


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariances of variables (rows) over observations (columns), which may count several times (fweights, integers)
    or differ in weight (aweights).
    """
    if x.dtype is bool_:
        raise TypeError(f"cov: takes numbers, not {describe(x)}")
    if x.ndim < 2:
        x = reshape(x, (1, -1))
    if not x.dtype.is_floating_point:
        x = x.to("float32")
    if fweights is None and aweights is None:
        centred = x - x.mean(1, True)
        found = (centred @ centred.mT) / max(x.shape[1] - correction, 0)
    else:
        own = x.new_ones(x.shape[1]) if aweights is None else aweights.to(x.dtype)
        weights = own if fweights is None else own * fweights.to(x.dtype)
        total = weights.sum()
        centred = x - (x * weights).sum(1, True) / total
        lost = correction if aweights is None else correction * (weights * own).sum() / total
        found = ((centred * weights) @ centred.mT) / (total - lost).clamp(0)
    return found.squeeze() if found.shape == (1, 1) else found


def corrcoef(x: Tensor) -> Tensor:
    """Correlations of variables (rows)."""
    c = cov(x)
    if not c.ndim:
        return c / c
    spread = c.diagonal().sqrt()
    return (c / spread.unsqueeze(0) / spread.unsqueeze(1)).clamp(-1, 1)


def cdist(a: Tensor, b: Tensor, p: float = 2.0) -> Tensor:
    """p-norm distances of rows: (..., P, M), (..., R, M) → (..., P, R)."""
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"cdist: {describe(a)} and {describe(b)} have rows of different lengths")
    return (a.unsqueeze(-2) - b.unsqueeze(-3)).norm(p, -1)


def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows."""
    rows, columns = triu_indices(x.shape[0], x.shape[0], 1)
    return (x[rows] - x[columns]).norm(p, -1)


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    """Where in the storage each element lies: int64, flat."""
    found = np.full((), offset, np.int64)
    for n, step in zip(size, stride, strict=True):
        found = found[..., None] + np.arange(n, dtype=np.int64) * step
    return found.reshape(-1)


def _d_as_strided(
    g: Tensor, _: Any, x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> tuple[Tensor]:
    """The gradients of one place in memory add up, and are shared by the elements of x that lie there, as in torch."""
    theirs, own = _places(size, stride, offset), _places(x.shape, x.strides, x.offset)
    memory = g.new_zeros(max(theirs.max(initial=-1), own.max(initial=-1)) + 1)
    memory = memory.index_add(0, from_numpy(theirs), g.reshape(-1))
    counts = np.bincount(own, minlength=1)
    found = memory.index_select(0, from_numpy(own))
    if counts.max() > 1:
        found = found / from_numpy(counts[own]).to(g.dtype)
    return (found.reshape(x.shape),)


@view_op(_d_as_strided)
def _as_strided(x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Tensor:
    return make(x.storage, size, stride, x.dtype, offset, x.device)


def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view by sizes and strides (elements) from an offset into the storage (by default that of x)."""
    size, stride = as_shape((size,)), as_shape((stride,))
    start = x.offset if storage_offset is None else index(storage_offset)
    last = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    outside = min(stride, default=0) < 0 or start < 0 or (last + 1) * x.dtype.itemsize > x.storage.nbytes
    if 0 not in size and outside:
        raise ValueError(
            f"as_strided: {tuple(size)} with strides {tuple(stride)} from {start} is outside the memory of "
            f"{describe(x)}"
        )
    return _as_strided(x, size, stride, start)


for _function in (
    tensor_split, hsplit, vsplit, ravel, fliplr, flipud, rot90, diff, as_strided, corrcoef, cov, kron,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)
moveaxis = Tensor.moveaxis = movedim  # type: ignore[attr-defined]
concat = concatenate = cat
