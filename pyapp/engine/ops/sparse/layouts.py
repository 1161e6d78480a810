"""SparseTensor: the elements of a tensor that are kept, with their indices, in torch's layouts COO, CSR and CSC.

Its values are an ordinary dense tensor. Ops compute with them by other ops, so gradients, devices and graphs are those
of dense tensors. The indices are plain integers, with which NumPy computes on the host.

Ops of dense tensors do not ask whether a tensor is sparse. They read where its elements lie, which a SparseTensor does
not have: that raises a NotDense, and the op is computed by its form for sparse tensors instead (`form`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from ...device import Device
from ...dtype import bool_, int64, uint8
from ...grad_mode import STATE
from ...lazy import np
from ...memory_format import layout, sparse_coo, sparse_csc, sparse_csr
from ...numpy_arrays import int64_tensor
from ...op import OPS
from ...storage import Storage
from ...tensor import Tensor, set_attribute
from ...user_errors import MISTAKES, NotDense, tell
from ..create import zeros
from ..scattering import _index_add
from ..view import reshape

Form = TypeVar("Form", bound=Callable[..., Any])

FORMS: dict[str, Callable[..., Any]] = {}  # by the name of the operation: what computes it with sparse tensors
_NO_PLACE = frozenset(("address", "offset", "strides"))
_COLUMN_MAJOR = {sparse_coo: False, sparse_csr: False, sparse_csc: True}


def form(*names: str) -> Callable[[Form], Form]:
    """Registers what computes the operations of these names when an argument is a sparse tensor. It may return
    NotImplemented."""

    def register(function: Form) -> Form:
        FORMS.update((name, function) for name in names)
        return function

    return register


class SparseArgument(NotDense):
    """Raised where the memory of a sparse tensor is read; `run` computes the operation by its form."""

    def __init__(self) -> None:
        super().__init__(
            "there is no form of this operation for sparse tensors: use to_dense(), or the values() of a coalesced one"
        )

    def run(self, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
        importlib.import_module(".forms", __package__)  # registers all
        found = FORMS.get(name)
        if found is None:
            found = OPS[name].definition if STATE.enabled and name in OPS else None  # so its parts record their nodes
            found = found or _no_form
        try:
            result = found(*args, **kwargs)
            if result is NotImplemented and name[-1:] == "_" and name[:-1] in FORMS:
                return _in_place(name, args, kwargs)
            return result
        except NotDense:
            return NotImplemented
        except MISTAKES as error:
            tell(error, name, args, kwargs)
            raise error from None


def _no_form(*_: Any, **__: Any) -> Any:
    return NotImplemented


def _in_place(name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """`name_` of a sparse tensor, which takes the parts of the result, or of a dense one, into which it is copied."""
    x, found = next(iter(args)), FORMS[name[:-1]](*args, **kwargs)
    if found is NotImplemented:
        return found
    if not isinstance(x, SparseTensor):
        return x.copy_(found.to_dense() if isinstance(found, SparseTensor) else found)
    if found.shape != x.shape or not isinstance(found, SparseTensor) or found.dtype is not x.dtype:
        raise RuntimeError(f"{name}: the result {found.dtype.name}{list(found.shape)} does not fit into the tensor")
    if x.own and STATE.enabled:
        raise RuntimeError(f"{name}: cannot write in place into a leaf that requires a gradient")
    x.become(found)
    return x


class SparseTensor(Tensor):
    """A tensor of which only some elements are kept, the others are 0. Of the first `sparse_dim` dims the indices are
    kept: `places` (sparse_dim, n) int64, in the order of the layout; `elements` (n, ...) are the values, with the other
    dims. Equal indices add up, unless it is `coalesced`: then they differ and ascend. `pointers` of CSR and CSC say
    where each row, or column, begins.
    """

    __slots__ = ()
    dense = False

    places: Tensor
    elements: Tensor
    coalesced: bool
    pointers: Tensor | None
    own: bool  # a leaf: the values belong to it alone
    _layout: layout

    def __getattr__(self, name: str) -> Any:
        if name in _NO_PLACE:
            raise SparseArgument
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")

    @property
    def _storage(self) -> Storage:  # type: ignore[override]
        """That of the values, whose version counts what is written into them."""
        return self.elements._storage

    def become(self, other: SparseTensor) -> None:
        """Takes the parts of another one."""
        for name in _PARTS:
            set_attribute(self, name, getattr(other, name))

    if TYPE_CHECKING:

        def to(self, *args: Any, **kwargs: Any) -> SparseTensor: ...
        def clone(self, memory_format: Any = None) -> SparseTensor: ...

    # -- what Tensor's own methods do not know

    @property
    def layout(self) -> layout:
        return self._layout

    @property
    def is_sparse(self) -> bool:
        return self._layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        return self._layout is sparse_csr

    @property
    def nbytes(self) -> int:
        raise RuntimeError("nbytes: a sparse tensor has none; add those of its indices and values")

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return False

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("numpy: NumPy has no sparse arrays: use to_dense() first")

    def __getitem__(self, index: Any) -> Tensor:
        importlib.import_module(".forms", __package__)
        found: Tensor = FORMS["__getitem__"](self, index)
        return found

    def __repr__(self) -> str:
        text = str(importlib.import_module(".printing", __package__).sparse_repr(self))
        return f"Parameter containing:\n{text}" if self.is_parameter else text

    # -- gradients are those of the values

    @property
    def node(self) -> Any:  # type: ignore[override]
        """It takes no part in the graph; its values do."""
        raise SparseArgument

    @property
    def view_of(self) -> Any:  # type: ignore[override]
        raise SparseArgument

    @property
    def grad_fn(self) -> Any:
        return None if self.own else self.elements.grad_fn

    @property
    def is_leaf(self) -> bool:
        return self.own or not self.elements._requires_grad

    @property
    def requires_grad(self) -> bool:
        return self.elements._requires_grad

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        if not self.own:
            if not on and self.elements._requires_grad:
                raise RuntimeError("requires_grad: this tensor was computed from others that have gradients: detach()")
            set_attribute(self, "elements", self.elements.detach())
        self.elements.requires_grad = on
        set_attribute(self, "own", on)

    def requires_grad_(self, on: bool = True) -> Tensor:
        if on is not True or self.own or not self.elements._requires_grad:
            self.requires_grad = on
        return self

    @property
    def _requires_grad(self) -> bool:  # type: ignore[override]
        return self.elements._requires_grad

    @property
    def _grad(self) -> Tensor | None:
        """In the pattern of the tensor: what is not kept has no gradient."""
        if not self.own or self.elements._grad is None:
            return None
        found = sparse(self.places, self.elements._grad, self.shape, self.coalesced, self._layout, self.pointers)
        if self.coalesced or self._layout is not sparse_coo:
            return found
        _, first = np.unique(keys_of(found), return_index=True)  # equal indices have one gradient, that of their sum
        there = to_place(first, self.device)
        return sparse(self.places.index_select(1, there), found.elements.index_select(0, there), self.shape, True)

    @_grad.setter
    def _grad(self, gradient: Tensor | None) -> None:
        if gradient is None:
            self.elements._grad = None
            return
        if not isinstance(gradient, SparseTensor) or gradient.places._shape != self.places._shape:
            raise RuntimeError("grad: the gradient of a sparse tensor is a sparse tensor of the same indices")
        self.elements._grad = gradient.elements

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """As Tensor's: the gradient, sparse or dense, is read at the kept elements."""
        at = gradient
        if isinstance(gradient, Tensor):
            at = FORMS["sparse_mask"](gradient, self).elements
        self.elements.backward(at, retain_graph, create_graph, inputs)

    def detach(self) -> SparseTensor:
        return like(self, self.elements.detach())

    @property
    def data(self) -> SparseTensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, SparseTensor):
            raise TypeError(f"data: a sparse tensor takes another one, not {type(value).__name__}")
        own = self.own
        self.become(value.detach())
        self.requires_grad = own

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _PARTS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            set_attribute(self, name, value)


_PARTS = ("_shape", "dtype", "device", "places", "elements", "coalesced", "pointers", "own", "_layout")


def sparse(
    places: Tensor, elements: Tensor, shape: Sequence[int], coalesced: bool = False, kind: layout = sparse_coo,
    pointers: Tensor | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse tensor of its parts, which the caller has checked."""
    made = object.__new__(SparseTensor)
    parts = (tuple(shape), elements.dtype, elements.device, places, elements, coalesced, pointers, False, kind)
    for name, value in zip(_PARTS, parts, strict=True):
        set_attribute(made, name, value)
    return made


def like(x: SparseTensor, elements: Tensor) -> SparseTensor:
    """x with other values at the same indices."""
    return sparse(x.places, elements, x.shape, x.coalesced, x._layout, x.pointers)


def sparse_sizes(x: SparseTensor) -> tuple[int, ...]:
    """The sizes of the dims whose indices are kept."""
    return x.shape[: x.places._shape[0]]


def dense_sizes(x: SparseTensor) -> tuple[int, ...]:
    """The sizes of the other dims."""
    return x.shape[x.places._shape[0] :]


def count_of(x: SparseTensor) -> int:
    """The number of kept elements."""
    return x.places._shape[1]


def array(x: Tensor) -> Any:
    """The integers of a tensor in NumPy."""
    return x.detach().array()


def to_place(indices: Any, device: Device) -> Tensor:
    """An array of integers as an int64 tensor on a device."""
    return int64_tensor(np.ascontiguousarray(indices, dtype=np.int64)).to(device)


def keys(places: Any, sizes: Sequence[int]) -> Any:
    """Indices (dims, n) as one number each, in the order of rows: (n,). ValueError where int64 does not hold them."""
    if prod(sizes) >= 1 << 63:
        raise ValueError(f"the sizes {tuple(sizes)} are too large: int64 cannot number the elements")
    found = np.zeros(places.shape[1], np.int64)
    for index, size in zip(places, sizes, strict=True):
        found *= size
        found += index
    return found


def keys_of(x: SparseTensor) -> Any:
    return keys(array(x.places), sparse_sizes(x))


def indices_of(found: Any, sizes: Sequence[int]) -> Any:
    """The reverse of `keys`: (n,) → (dims, n)."""
    places = np.empty((len(sizes), len(found)), np.int64)
    for dim in range(len(sizes) - 1, -1, -1):
        found, places[dim] = np.divmod(found, max(sizes[dim], 1))
    return places


def added(elements: Tensor, groups: Any, count: int) -> Tensor:
    """Sums of the values (n, ...) by the number of their group: (count, ...). Bools: whether any of them holds."""
    shape, kind = elements._shape[1:], elements.dtype
    rows = reshape(elements, (elements._shape[0], prod(shape)))  # (n, w)
    where = to_place(groups, elements.device)
    if kind is bool_:
        rows = rows.to(int64)
    total = _index_add(zeros(count, prod(shape), dtype=rows.dtype, device=rows.device), 0, where, rows)
    total = total != 0 if kind is bool_ else total
    return reshape(total, (count, *shape))


def coalesced(x: SparseTensor) -> SparseTensor:
    """In COO, with indices that differ and ascend."""
    if x.coalesced:
        return x if x._layout is sparse_coo else sparse(x.places, x.elements, x.shape, True)
    places, sizes = array(x.places), sparse_sizes(x)
    found = keys(places, sizes)
    step = np.diff(found)
    if (step > 0).all():
        return sparse(x.places, x.elements, x.shape, True)
    order = np.argsort(found, kind="stable")
    found = found[order]
    first = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=first[1:])
    chosen = to_place(places[:, order[first]], x.device)
    if first.all():
        return sparse(chosen, x.elements.index_select(0, to_place(order, x.device)), x.shape, True)
    groups = np.empty(len(found), np.int64)
    groups[order] = np.cumsum(first) - 1
    return sparse(chosen, added(x.elements, groups, chosen._shape[1]), x.shape, True)


def in_layout(x: SparseTensor, kind: layout) -> SparseTensor:
    """In another layout. ValueError for CSR and CSC of what is not a matrix."""
    if x._layout is kind:
        return x
    if kind is sparse_coo:
        return coalesced(x)
    if x.places._shape[0] != 2:
        raise ValueError(f"{kind}: takes matrices, the tensor has {x.places.shape[0]} sparse dims")
    x = coalesced(x)
    places, elements, major = x.places, x.elements, 0
    if _COLUMN_MAJOR[kind]:
        order = to_place(np.argsort(array(places)[1], kind="stable"), x.device)
        places, elements, major = places.index_select(1, order), elements.index_select(0, order), 1
    starts = np.searchsorted(array(places)[major], np.arange(x.shape[major] + 1))
    return sparse(places, elements, x.shape, kind is sparse_csr, kind, to_place(starts, x.device))


def dense_of(x: SparseTensor) -> Tensor:
    """All elements, those that are 0 too."""
    if x.dtype.is_storage_only:
        return dense_of(like(x, x.elements.view(uint8))).view(x.dtype)
    return reshape(added(x.elements, keys_of(x), prod(sparse_sizes(x))), x.shape)
