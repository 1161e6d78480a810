"""Pick elements by index or mask: gather, index_select, take, masked_select, nonzero."""

from __future__ import annotations

from operator import index
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, int64_tensor, tensor_of
from ..op import primitive
from ..shape import broadcast_shapes, normalize_dim
from ..tensor import Tensor, adopt_array, empty_contiguous
from ..user_errors import describe
from .create import from_numpy
from .index import _take_back
from .padding import pad
from .view import expand, reshape, reshaped


def _index_array(name: str, x: Tensor, dim: int, index: Tensor) -> Any:
    """int64 indices of gather/scatter, checked. A number counts as a vector, and so do its index and its source."""
    if index.dtype.category != 1:
        raise TypeError(f"{name}: Expected dtype int64 for index: the index must be of integers, got {describe(index)}")
    if max(index.ndim, 1) != max(x.ndim, 1):
        raise ValueError(f"{name}: {describe(x)} and the index {describe(index)} have different numbers of dims")
    if index.numel() and any(n > m for d, (n, m) in enumerate(zip(index._shape, x._shape, strict=False)) if d != dim):
        raise IndexError(f"{name}: the index {describe(index)} is larger than {describe(x)} outside dim {dim}")
    array = np.atleast_1d(index.array().astype(np.int64))
    size = x._shape[dim] if x.ndim else 1
    if array.size and (array.min() < 0 or array.max() >= size):
        raise IndexError(
            f"{name}: index {array.max() if array.max() >= size else array.min()} is out of bounds for dimension {dim} "
            f"with size {size}: index values {array.min()} .. {array.max()} are outside 0 .. {size - 1}, dim {dim} of "
            f"{describe(x)}"
        )
    return array


def _grid(index: Any, dim: int) -> tuple[Any, ...]:
    """An advanced index that applies `index` along dim and keeps the other coordinates."""
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


def _d_gather(g: Tensor, _: Any, x: Tensor, dim: int, index: Tensor) -> tuple[Tensor]:
    zeros = g.new_zeros(x._shape)
    return (zeros.scatter_add(dim, index, g) if index.numel() else zeros,)


def _gather_by_name(x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    """The gradient is dense here, whatever `sparse_grad` says."""
    return gather(x, dim, index)


@function(method=True)
@primitive(vjp=_d_gather, saves="none")
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for dim 0, and so on, as torch.gather."""
    d = normalize_dim(dim, x.ndim, "gather")
    if not index.numel():  # of any number of dims, as in torch
        return empty_contiguous(index._shape, x.dtype, x.device)
    found = _index_array("gather", x, d, index)
    picked = np.atleast_1d(x.array())[_grid(found, d)]
    return adopt_array(picked.reshape(index._shape), x.dtype)  # bits stay bits


gather.by_name = _gather_by_name


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
    return _index_select(x, d, reshaped(index, (index.numel(),)))


def _d_index_select(g: Tensor, _: Any, x: Tensor, dim: int, index: Tensor) -> Any:
    return (_take_back(g, x._shape, (*(slice(None),) * dim, index, *(slice(None),) * (x.ndim - dim - 1))),)


@primitive(vjp=_d_index_select, saves="none", name="_index_select")
def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    array = index.array()
    if array.size and (array.min() < 0 or array.max() >= x._shape[dim]):
        raise IndexError(
            f"index_select: index out of range in self: index values {array.min()} .. {array.max()} are outside dim "
            f"{dim} of {describe(x)}"
        )
    return tensor_of(np.ascontiguousarray(array_of(x)[(slice(None),) * dim + (array,)]), x.dtype)


@function(method=True)
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather, with both broadcast outside dim; flattened without a dim. Negative indices count from the end."""
    if dim is None:
        return take_along_dim(reshape(x, -1), reshape(indices, -1), 0)
    d = normalize_dim(dim, x.ndim, "take_along_dim")
    if x.ndim != indices.ndim:
        raise ValueError(f"take_along_dim: {describe(x)} and {describe(indices)} have different numbers of dims")
    outside = [(*t._shape[:d], 1, *t._shape[d + 1 :]) for t in (x, indices)]
    common = broadcast_shapes(*outside, op="take_along_dim")
    whole = (expand(t, (*common[:d], t._shape[d], *common[d + 1 :])) for t in (x, indices))
    values, places = next(whole), next(whole)
    if places.dtype.category == 1 and places.numel() and int(places.min().item()) < 0:
        places = places + (places < 0).to(places.dtype) * x._shape[d]
    return values.gather(d, places)


@function(method=True)
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, as a vector; both broadcast."""
    if mask.dtype is not _dtype.bool_:
        raise TypeError(f"masked_select: the mask must be bool, got {describe(mask)}")
    shape = broadcast_shapes(x._shape, mask._shape, op="masked_select")
    return expand(x, shape)[expand(mask, shape)] if shape else reshape(x, 1)[reshape(mask, 1)]


def _places(array: Any) -> Any:
    """The indices of what is not zero (count, dims): those in the flat array, divided by the sizes, which takes a fifth
    of argwhere's time."""
    if array.ndim != 1 and array.size <= _FEW_PLACES:
        return np.argwhere(array)
    rest = np.flatnonzero(array if array.dtype == bool else array != 0)
    found = np.empty((len(rest), array.ndim), np.int64)
    for d in range(array.ndim - 1, 0, -1):
        above = rest // array.shape[d]
        np.subtract(rest, above * array.shape[d], out=found[:, d])
        rest = above
    if array.ndim:
        found[:, 0] = rest
    return found


_FEW_PLACES = 256  # elements, of which argwhere takes less time


@function(method=True)
def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """Indices (int64) of the elements that are not zero: (count, dims), or one vector for each dim."""
    array = array_of(reshape(x, 1) if as_tuple and not x.ndim else x)
    found = _places(array).astype(np.int64, copy=False)
    there = int64_tensor(found).to(x.device)
    return tuple(there.select(1, i).contiguous() for i in range(found.shape[1])) if as_tuple else there


@function(method=True)
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of nonzero(), filled up with `fill_value`: (size, dims), int64."""
    size = index(size)
    if size < 0:
        raise RuntimeError(f"nonzero_static: the size {size} is not 0 or more")
    found = nonzero(x)[:size]
    return pad(found, (0, 0, 0, size - found.shape[0]), value=fill_value)


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
