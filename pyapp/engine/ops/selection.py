"""Pick elements by index or mask: gather, index_select, take, masked_select, nonzero."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..launch import capturing
from ..lazy import np
from ..numpy_arrays import array_of, int64_tensor
from ..op import primitive
from ..shape import broadcast_shapes, normalize_dim
from ..tensor import Tensor, adopt_array
from ..user_errors import describe
from .create import from_numpy
from .index import getitem
from .view import expand, reshape


def _index_array(name: str, x: Tensor, dim: int, index: Tensor) -> Any:
    """int64 indices of gather/scatter, checked."""
    if index.dtype.category != 1:
        raise TypeError(f"{name}: the index must be of integers, got {describe(index)}")
    if index.ndim != x.ndim:
        raise ValueError(f"{name}: {describe(x)} and the index {describe(index)} have different numbers of dims")
    array = index.array().astype(np.int64)
    size = x.shape[dim] if x.ndim else 1
    if array.size and (array.min() < 0 or array.max() >= size):
        raise IndexError(
            f"{name}: index values {array.min()} .. {array.max()} are outside 0 .. {size - 1}, "
            f"dim {dim} of {describe(x)}"
        )
    return array


def _grid(index: Any, dim: int) -> tuple[Any, ...]:
    """An advanced index that applies `index` along dim and keeps the other coordinates."""
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


@function(method=True)
@primitive(vjp=lambda g, _, x, dim, index: (g.new_zeros(x.shape).scatter_add(dim, index, g),), saves="none")
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for dim 0, and so on, as torch.gather."""
    d = normalize_dim(dim, x.ndim, "gather")
    found = _index_array("gather", x, d, index)
    picked = x.array()[_grid(found, d)] if x.ndim else x.array().reshape(1)[found]
    return adopt_array(np.asarray(picked), x.dtype)  # copies bits unchanged


@function(method=True)
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Entries of a dim by a 1-dim tensor of integers."""
    d = normalize_dim(dim, x.ndim, "index_select")
    if not x.ndim:
        return reshape(index_select(reshape(x, 1), 0, reshape(index, -1)), ())
    if index.dtype not in (_dtype.int32, _dtype.int64) or index.ndim > 1:
        raise (IndexError if index.ndim > 1 else TypeError)(
            f"index_select: the index is a vector of int32 or int64, not {describe(index)}"
        )
    if not capturing() and index.numel() and int(index.amin()) < 0:
        raise IndexError(f"index_select: the index has negative values, to {int(index.amin())} ({describe(x)})")
    return getitem(x, (slice(None),) * d + (reshape(index, -1),))


@function(method=True)
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather, with both broadcast outside dim; flattened without a dim."""
    if dim is None:
        return reshape(x, -1).gather(0, reshape(indices, -1))
    d = normalize_dim(dim, x.ndim, "take_along_dim")
    if x.ndim != indices.ndim:
        raise ValueError(f"take_along_dim: {describe(x)} and {describe(indices)} have different numbers of dims")
    outside = [(*t.shape[:d], 1, *t.shape[d + 1 :]) for t in (x, indices)]
    common = broadcast_shapes(*outside, op="take_along_dim")
    whole = (expand(t, (*common[:d], t.shape[d], *common[d + 1 :])) for t in (x, indices))
    return next(whole).gather(d, next(whole))


@function(method=True)
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector; both broadcast."""
    if mask.dtype is not _dtype.bool_:
        raise TypeError(f"masked_select: the mask must be bool, got {describe(mask)}")
    shape = broadcast_shapes(x.shape, mask.shape, op="masked_select")
    return expand(x, shape)[expand(mask, shape)] if shape else reshape(x, 1)[reshape(mask, 1)]


@function(method=True)
def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """Indices (int64) of the elements that are not zero: (count, dims), or one vector for each dim."""
    found = np.argwhere(array_of(x)).astype(np.int64)
    return tuple(int64_tensor(np.ascontiguousarray(c)) for c in found.T) if as_tuple else int64_tensor(found)


@function(method=True)
def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened x."""
    return x.reshape(-1)[index]


@function(method=True)
def argwhere(x: Tensor) -> Tensor:
    """The indices of the elements that are not zero: (count, dims), int64."""
    return x.nonzero()


@function()
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Indices into a flattened shape as one int64 tensor for each dim."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        found = np.unravel_index(indices.array(), sizes)
    except ValueError as error:
        raise ValueError(f"unravel_index: {describe(indices)} does not fit the shape {sizes} ({error})") from None
    return tuple(from_numpy(np.asarray(part, dtype="int64")) for part in found)
