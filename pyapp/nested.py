"""Batches of tensors of different lengths, by torch.nested's names, without padding.

    batch = pyapp.nested.nested_tensor([pyapp.rand(2, 8), pyapp.rand(5, 8)], layout=pyapp.jagged)   # (2, j, 8)
    layer(batch)                                     # of all 7 rows at once
    pyapp.nested.to_padded_tensor(batch, 0.0)        # (2, 5, 8)

A NestedTensor is no Tensor, but functions, operators and layers take it: those that treat rows alike run once for all
rows, attention and sums over the ragged dim for each sequence alone. The rows (`values()`) are an ordinary tensor, with
gradients. What has no meaning for ragged rows raises a NotImplementedError.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from .engine import ops
from .engine.dtype import int64
from .engine.memory_format import jagged, layout, strided
from .engine.tensor import Tensor
from .engine.user_errors import describe
from .nn import functional as F

__all__ = [
    "NestedTensor", "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip


class Ragged:
    """A size that differs from tensor to tensor, in `shape`. Nested tensors with the same offsets have the same."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self._number = next(self._numbers)

    def __repr__(self) -> str:
        return f"j{self._number}"


class NestedTensor:
    """Tensors (L_b, …) of a batch with equal sizes after the first, in one tensor (Σ L_b, …) of all rows.

    `dim` counts the batch. `ragged` is the dim with the lengths: 1, unless `transpose` has moved it.
    """

    is_nested = True
    is_sparse = is_quantized = False

    def __init__(
        self, values: Tensor, offsets: Tensor, kind: layout = jagged, size: Ragged | None = None, moved: int = 1
    ) -> None:
        self._values, self._offsets, self.layout = values, offsets, kind
        self._size = size or Ragged()
        self._ragged = moved  # where the ragged dim is shown; `values` have it first

    # -- what it is

    @property
    def shape(self) -> tuple[Any, ...]:
        """The batch, the sizes, and a `Ragged` for the dim with lengths."""
        sizes: list[Any] = list(self._values.shape[1:])
        sizes.insert(self._ragged - 1, self._size)
        return (len(self._offsets) - 1, *sizes)

    _shape = shape  # as the engine reads it

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it; RuntimeError for the ragged one of a strided layout."""
        if dim is not None and self.layout is strided and self._place(dim) == self._ragged:
            raise RuntimeError(f"size: dim {dim} of this nested tensor has a size for each tensor; see unbind()")
        return self.shape if dim is None else self.shape[self._place(dim)]

    @property
    def ndim(self) -> int:
        return self._values.ndim + 1

    def dim(self) -> int:
        """The number of dims, the batch among them."""
        return self.ndim

    def numel(self) -> int:
        """The number of elements of all tensors."""
        return self._values.numel()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    dtype = property(lambda self: self._values.dtype)
    device = property(lambda self: self._values.device)
    requires_grad = property(lambda self: self._values.requires_grad)
    grad_fn = property(lambda self: self._values.grad_fn)
    is_leaf = property(lambda self: self._values.is_leaf)

    @property
    def grad(self) -> NestedTensor | None:
        """The gradient of the rows."""
        found = self._values.grad
        return None if found is None else self._with(found)

    def requires_grad_(self, requires_grad: bool = True) -> NestedTensor:
        """Lets the rows keep their gradient."""
        self._values.requires_grad_(requires_grad)
        return self

    def values(self) -> Tensor:
        """All rows (Σ L_b, …)."""
        return self._shown(self._values)

    def offsets(self) -> Tensor:
        """Where each tensor begins among the rows, and where the last ends (B + 1,) int64."""
        return self._offsets

    def lengths(self) -> None:
        """None: the rows have no gaps."""

    def _lengths(self) -> list[int]:
        ends = self._offsets.tolist()
        return [b - a for a, b in itertools.pairwise(ends)]

    def _shown(self, rows: Tensor) -> Tensor:
        return rows if self._ragged == 1 else rows.movedim(0, self._ragged - 1)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The tensors of the batch, which share its memory."""
        if self._place(dim):
            raise RuntimeError(f"unbind: of nested tensors along dim 0 alone, not {dim}")
        return tuple(self._shown(part) for part in self._values.split(self._lengths()))

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __getitem__(self, index: Any) -> Tensor:
        if not isinstance(index, int):
            raise UnsupportedError("nested tensors take one whole number as an index, that of a tensor in the batch")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a batch of {len(self)} tensors")
        return self.unbind()[index]

    def __repr__(self) -> str:
        if self.layout is strided:
            inside = ",\n".join("  " + repr(part).replace("\n", "\n  ") for part in self.unbind())
            return f"nested_tensor([\n{inside}\n])"
        return f"NestedTensor(size={self.shape}, offsets={self._offsets}, contiguous={self._ragged == 1})"

    # -- forms

    def _with(self, rows: Tensor) -> NestedTensor:
        """The same lengths with other rows."""
        return NestedTensor(rows, self._offsets, self.layout, self._size, self._ragged)

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """(B, longest, …), or of `output_size`, with `padding` behind the shorter ones."""
        lengths = self._lengths()
        longest = max(lengths, default=0)
        if output_size is not None:
            wanted = tuple(output_size)
            fits = len(wanted) == self.ndim and all(
                isinstance(own, Ragged) or given >= own for given, own in zip(wanted, self.shape, strict=True)
            )
            if not fits or wanted[self._ragged] < longest:
                raise RuntimeError(f"to_padded_tensor: {self.shape} does not fit into output_size {wanted}")
        parts = [
            F.pad(part, (0, 0) * (part.ndim - 1) + (0, longest - count), value=padding)
            for part, count in zip(self._values.split(lengths), lengths, strict=True)
        ]
        found = ops.stack(parts) if parts else self._values.new_zeros((0, 0, *self._values.shape[1:]))
        found = found if self._ragged == 1 else found.movedim(1, self._ragged)
        if output_size is not None:
            after = [(0, given - own) for given, own in zip(wanted, found.shape, strict=True)]
            found = F.pad(found, tuple(side for pair in reversed(after) for side in pair), value=padding)
        return found

    def _place(self, dim: int) -> int:
        """A dim from 0 on. IndexError for one that there is not."""
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"there is no dim {dim}: this nested tensor has {self.ndim} dims")
        return dim % self.ndim

    def _dim(self, dim: int) -> int:
        """The dim of the rows for one of the nested tensor. NotImplementedError for the batch and the ragged one."""
        d = self._place(dim)
        if d in (0, self._ragged):
            raise UnsupportedError(f"dim {dim} of a nested tensor has a size for each tensor: use unbind()")
        return d if d < self._ragged else d - 1

    def transpose(self, dim0: int, dim1: int) -> NestedTensor:
        """Two dims in each other's place; not the batch."""
        a, b = sorted((self._place(dim0), self._place(dim1)))
        if a == 0:
            raise UnsupportedError("transpose: the batch of a nested tensor stays first")
        if self._ragged not in (a, b):
            return self._with(self._values.transpose(self._dim(a), self._dim(b)))
        other = b if a == self._ragged else a
        rows = self._values.movedim(self._dim(other), self._ragged if other > self._ragged else self._ragged - 1)
        rows = rows if abs(other - self._ragged) > 1 else self._values
        return NestedTensor(rows, self._offsets, self.layout, self._size, other)

    def unflatten(self, dim: int, sizes: Any) -> NestedTensor:
        """One dim as several."""
        self._must_be_first("unflatten")
        return self._with(self._values.unflatten(self._dim(dim), sizes))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
        """Several dims behind the ragged one as one."""
        self._must_be_first("flatten")
        return self._with(self._values.flatten(self._dim(start_dim), self._dim(end_dim)))

    def view(self, *shape: Any) -> NestedTensor:
        """Other sizes behind the ragged dim, which is -1 or its size: `x.view(x.size(0), -1, heads, width)`."""
        self._must_be_first("view")
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if len(wanted) < 2 or wanted[0] not in (-1, len(self)) or wanted[1] not in (-1, self._size):
            raise RuntimeError(f"view: a nested tensor keeps its batch and its ragged dim, {self.shape}, not {wanted}")
        return self._with(self._values.reshape(self._values.shape[0], *wanted[2:]))

    reshape = view

    def _must_be_first(self, name: str) -> None:
        if self._ragged != 1:
            raise UnsupportedError(f"{name}: transpose the ragged dim back to 1 first")

    def unsqueeze(self, dim: int) -> NestedTensor:
        """A new dim of size 1 behind the ragged one."""
        d = dim if dim >= 0 else dim + self.ndim + 1
        if not self._ragged < d <= self.ndim:
            raise UnsupportedError(f"unsqueeze: new dims of a nested tensor come behind dim {self._ragged}, not {dim}")
        return self._with(self._values.unsqueeze(d - 1))

    def attend(self, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False) -> NestedTensor:
        """Attention within each sequence; queries, keys and values (B, heads, j, width)."""
        return _attention(self, key, value, dropout_p=dropout_p, is_causal=is_causal)

    def contiguous(self, **_: Any) -> NestedTensor:
        """Rows in their order in memory."""
        return self._with(self._values.contiguous())

    def is_contiguous(self, **_: Any) -> bool:
        """Whether the ragged dim is where it was made."""
        return self._ragged == 1 and self._values.is_contiguous()

    def to(self, *args: Any, **kwargs: Any) -> NestedTensor:
        """Another dtype or device."""
        rows = self._values.to(*args, **kwargs)
        return NestedTensor(rows, self._offsets.to(rows.device), self.layout, self._size, self._ragged)

    def sum(self, dim: Any = None, keepdim: bool = False, **settings: Any) -> Any:
        """The sum of all elements, of each tensor's rows (the ragged dim), or of another dim."""
        return self._reduced("sum", dim, keepdim, settings)

    def mean(self, dim: Any = None, keepdim: bool = False, **settings: Any) -> Any:
        """The mean of all elements, of each tensor's rows (the ragged dim), or of another dim."""
        return self._reduced("mean", dim, keepdim, settings)

    def amax(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The largest of all elements, of each tensor's rows (the ragged dim), or of another dim."""
        return self._reduced("amax", dim, keepdim, {})

    def amin(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest of all elements, of each tensor's rows (the ragged dim), or of another dim."""
        return self._reduced("amin", dim, keepdim, {})

    def _reduced(self, name: str, dim: Any, keepdim: bool, settings: dict[str, Any]) -> Any:
        if dim is None:
            return getattr(self._values, name)(**settings)
        dims = [dim] if isinstance(dim, int) else list(dim)
        if [self._place(d) for d in dims] == [self._ragged]:
            parts = [getattr(part, name)(0, keepdim, **settings) for part in self._values.split(self._lengths())]
            found = ops.stack(parts)
            return found.movedim(1, self._ragged) if keepdim else found
        moved = [self._dim(d) for d in dims]
        ragged = self._ragged if keepdim else self._ragged - sum(d % self.ndim < self._ragged for d in dims)
        rows = getattr(self._values, name)(moved, keepdim, **settings)
        return NestedTensor(rows, self._offsets, self.layout, self._size, ragged)

    # -- functions

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A function of nested tensors, for all rows at once."""
        return _apply(func.__name__, func, args, dict(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not callable(getattr(Tensor, name, None)):
            raise AttributeError(f"'NestedTensor' object has no attribute {name!r}")
        return lambda *args, **kwargs: _apply(name, getattr(Tensor, name), (self, *args), kwargs)


def _operator(name: str) -> Any:
    def call(self: NestedTensor, *args: Any) -> Any:
        return _apply(name, getattr(Tensor, name), (self, *args), {})

    call.__name__ = name
    return call


_OPERATORS = tuple(
    f"__{_name}__"
    for _name in (
        "add radd sub rsub mul rmul truediv rtruediv floordiv mod pow rpow neg abs matmul eq ne lt le gt ge and or xor "
        "invert"
    ).split()
)
for _name in _OPERATORS:
    setattr(NestedTensor, _name, _operator(_name))
NestedTensor.__hash__ = object.__hash__  # type: ignore[method-assign]

# Functions that treat rows alike, or elements.
_OF_DIMS = frozenset(
    "softmax log_softmax softmin cumsum cumprod logsumexp argmax argmin max min sort topk normalize glu var std any "
    "all prod chunk split".split()
)
_OWN = frozenset("sum mean amax amin transpose unflatten flatten view reshape unbind size unsqueeze".split())
_OF_ROWS = frozenset(
    # layers
    "linear matmul layer_norm rms_norm embedding dropout alpha_dropout relu relu6 gelu silu mish elu selu celu "
    "leaky_relu prelu rrelu hardswish hardtanh hardsigmoid softplus softsign softshrink hardshrink tanhshrink "
    "threshold logsigmoid log_sigmoid sigmoid tanh "
    # elements
    "abs neg negative sign sgn square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos "
    "atan atan2 sinh cosh asinh acosh atanh erf erfc erfinv lgamma digamma round floor ceil trunc frac clamp clip "
    "clamp_min clamp_max nan_to_num isnan isinf isfinite add sub subtract mul multiply div divide true_divide "
    "floor_divide remainder fmod pow maximum minimum fmax fmin hypot lerp addcmul addcdiv where masked_fill eq ne lt "
    "le gt ge logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_not isclose heaviside "
    "xlogy logit sinc angle real imag "
    # forms
    "to float double half bfloat16 int long bool type_as detach clone contiguous zeros_like ones_like full_like "
    "empty_like rand_like randn_like".split()
) | _OF_DIMS  # fmt: skip


class UnsupportedError(NotImplementedError, TypeError):
    """A function that nested tensors do not have. As a TypeError it lets the function around it be asked."""


def _apply(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if name == "scaled_dot_product_attention":
        return _attention(*args, **kwargs)
    if name in _OWN and isinstance(args[0], NestedTensor):
        return getattr(args[0], name)(*args[1:], **kwargs)
    if name.strip("_") not in _OF_ROWS and name not in _OPERATORS:
        _refuse(name)
    every = [*args, *kwargs.values()]
    nested = [value for value in every if isinstance(value, NestedTensor)]
    if not nested:
        _refuse(name)
    first = nested[0]
    for other in nested[1:]:
        alike = other._size is first._size or other._offsets.tolist() == first._offsets.tolist()
        if not alike or other._ragged != first._ragged:
            raise RuntimeError(
                f"{name}: nested tensors with different lengths or dims: {first.shape} ({first._lengths()}) and "
                f"{other.shape} ({other._lengths()})"
            )
    before = 0
    if name in _OF_DIMS:
        args, kwargs, before = _dims_of_rows(name, first, list(args), kwargs)

    def rows(value: Any) -> Any:
        if isinstance(value, NestedTensor):
            return value._values
        if isinstance(value, Tensor) and value.ndim == first.ndim:  # (B, 1, …), spread over the rows of each
            if first._ragged != 1 or value.shape[0] not in (1, len(first)) or value.shape[1] != 1:
                raise RuntimeError(f"{name}: {describe(value)} does not fit the nested tensor {first.shape}")
            spread = value.expand(len(first), *value.shape[1:])[:, 0]
            return ops.repeat_interleave(spread, ops.tensor(first._lengths()).to(value.device), dim=0)
        return value

    if first._ragged != 1 and name in ("linear", "layer_norm", "matmul", "__matmul__", "rms_norm"):
        _refuse(f"{name} after transpose")
    made = function(*map(rows, args), **{key: rows(value) for key, value in kwargs.items()})
    return _nested_again(name, first, made, before)


def _nested_again(name: str, first: NestedTensor, made: Any, before: int) -> Any:
    """Results of all rows as nested tensors; `before`: how many of the dims that may be gone come before the ragged
    one.
    """
    if isinstance(made, (tuple, list)):
        parts = [_nested_again(name, first, one, before) for one in made]
        return type(made)(*parts) if hasattr(made, "_fields") else type(made)(parts)
    if not isinstance(made, Tensor):
        return made
    if not made.ndim or made.shape[0] != first._values.shape[0]:
        _refuse(name)
    ragged = first._ragged - (before if made.ndim < first._values.ndim else 0)
    return NestedTensor(made, first._offsets, first.layout, first._size, ragged)


def _dims_of_rows(name: str, first: NestedTensor, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any, int]:
    """The arguments with the dims of the rows in place of those of the nested tensor, and how many of these come before
    the ragged one.
    """
    place = {"split": 2, "chunk": 2, "topk": 2, "normalize": 2}.get(name, 1)
    positional = "dim" not in kwargs and len(args) > place and args[place] is not None
    given: Any = args[place] if positional else kwargs.get("dim")
    if given is None:
        given = {"normalize": 1, "sort": -1, "topk": -1, "glu": -1}.get(name)
    several = isinstance(given, (tuple, list))
    dims: list[Any] = list(given) if several else [given]
    if not all(type(dim) is int for dim in dims):
        if name in ("softmax", "log_softmax", "softmin"):
            _refuse(f"{name} without dim")
        return args, kwargs, 0  # of all elements, or another argument
    rows = [first._dim(dim) for dim in dims]
    moved = rows if several else rows[0]
    if positional:
        args = [*args[:place], moved, *args[place + 1 :]]
    else:
        kwargs = {**kwargs, "dim": moved}
    return args, kwargs, sum(dim % first.ndim < first._ragged for dim in dims)


def _refuse(name: str) -> NoReturn:
    raise UnsupportedError(
        f"{name}: is not there for nested tensors; unbind() gives the tensors, and to_padded_tensor() one tensor"
    )


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> NestedTensor:  # fmt: skip
    """Attention within each sequence: q (B, H, j, D), k and v (B, H, k, D) nested."""
    for one in (query, key, value):
        if not isinstance(one, NestedTensor) or one.ndim != 4 or one._ragged != 2 or len(one) != len(query):
            raise RuntimeError(
                "scaled_dot_product_attention: nested tensors are (batch, heads, ragged, width), all three of one batch"
            )
    if attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: takes no attn_mask with nested tensors, only is_causal")
    parts = [
        F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        ).movedim(1, 0)
        for q, k, v in zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
    ]
    return query._with(ops.cat(parts))


def _of_parts(parts: Sequence[Tensor], kind: layout) -> NestedTensor:
    if kind not in (strided, jagged):
        raise RuntimeError(f"nested_tensor: layout is strided or jagged, not {kind}")
    if not parts:
        return NestedTensor(ops.zeros(0), ops.zeros(1, dtype=int64), kind)
    if any(part.ndim != parts[0].ndim for part in parts):
        dims = [part.ndim for part in parts]
        raise RuntimeError(f"nested_tensor: all tensors have the same number of dims, got {dims}")
    if any(part.ndim < 1 or part.shape[1:] != parts[0].shape[1:] for part in parts):
        shapes = [tuple(part.shape) for part in parts]
        raise RuntimeError(f"nested_tensor: the tensors differ in their first size alone, got {shapes}")
    ends = list(itertools.accumulate((part.shape[0] for part in parts), initial=0))
    return NestedTensor(ops.cat(list(parts)), ops.tensor(ends, dtype=int64).to(parts[0].device), kind)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: layout | None = None) -> NestedTensor:
    """Tensors (L_b, …) of equal sizes after the first, or a tensor (B, L, …), as one NestedTensor (B, j, …), with
    gradients. RuntimeError for other shapes."""
    if isinstance(ts, NestedTensor):
        return ts.to(dtype=dtype or ts.dtype, device=device or ts.device)
    parts = [part if isinstance(part, Tensor) else ops.tensor(part) for part in ts]
    if dtype is not None or device is not None:
        parts = [part.to(dtype=dtype or part.dtype, device=device or part.device) for part in parts]
    return _of_parts(parts, strided if layout is None else layout)


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: layout | None = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> NestedTensor:  # fmt: skip
    """As `as_nested_tensor`, of copies: a leaf without the gradients of the tensors that it is made of."""
    parts = [part.detach() if isinstance(part, Tensor) else part for part in tensor_list]
    return as_nested_tensor(parts, dtype, device, layout).requires_grad_(requires_grad)


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None, jagged_dim: int | None = None,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> NestedTensor:  # fmt: skip
    """Rows (Σ L_b, …) that are there, with where each tensor begins (B + 1,) or with the lengths (B,)."""
    if jagged_dim not in (None, 1):
        raise NotImplementedError(f"nested_tensor_from_jagged: the ragged dim is 1, not {jagged_dim}")
    if (offsets is None) == (lengths is None):
        raise RuntimeError("nested_tensor_from_jagged: takes offsets, or lengths of rows without gaps")
    if offsets is None:
        assert lengths is not None
        offsets = F.pad(ops.cumsum(lengths, 0), (1, 0))
    ends = offsets.reshape(-1).tolist()
    if offsets.ndim != 1 or offsets.is_floating_point():
        raise RuntimeError(
            f"nested_tensor_from_jagged: offsets and lengths are a row of integers, not {describe(offsets)}"
        )
    if not ends or ends[0] != 0 or ends[-1] != values.shape[0] or any(a > b for a, b in itertools.pairwise(ends)):
        raise RuntimeError(f"nested_tensor_from_jagged: offsets go from 0 to {values.shape[0]} rows, got {ends[:8]}")
    return NestedTensor(values, offsets)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: layout = strided) -> NestedTensor:
    """From a tensor (B, L, …), for each of the batch the `length[b]` rows from `start[b]`."""
    if dim != 1:
        raise RuntimeError(f"narrow: the ragged dim is 1, not {dim}")

    def numbers(name: str, given: Any) -> list[int]:
        found = given.tolist() if isinstance(given, Tensor) else given
        found = [found] * tensor.shape[0] if isinstance(found, int) else [int(n) for n in found]
        if len(found) != tensor.shape[0]:
            raise RuntimeError(f"narrow: {name} has {len(found)} numbers for a batch of {tensor.shape[0]}")
        return found

    pieces = zip(tensor, numbers("start", start), numbers("length", length), strict=True)
    return _of_parts([part.narrow(0, begin, count) for part, begin, count in pieces], layout)


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """The elements (B, j) that a mask of the shape (B, L) selects."""
    spread = mask.expand(tensor.shape)
    return _of_parts([part[chosen] for part, chosen in zip(tensor, spread, strict=True)], jagged)


def to_padded_tensor(
    input: NestedTensor, padding: float, output_size: Sequence[int] | None = None, out: Tensor | None = None
) -> Tensor:
    """A nested tensor as one tensor, with `padding` behind the shorter ones: (B, longest, …), or of `output_size`."""
    if not isinstance(input, NestedTensor):
        raise TypeError(f"to_padded_tensor: takes a nested tensor, not {describe(input)}")
    found = input.to_padded_tensor(padding, output_size)
    return found if out is None else out.resize_(found.shape).copy_(found)
