"""How ops are written as ONNX's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, pi, prod
from typing import Any, TypeVar

from pyapp.engine import Tensor, as_dtype
from pyapp.engine.dtype import DType, promote
from pyapp.engine.lazy import np
from pyapp.engine.op import Op

from .graph import Graph, element_code

Writer = TypeVar("Writer", bound=Callable[..., Any])

# by the op: writer(graph, result, *arguments) → the output's name, or None
WRITERS: dict[str, Callable[..., Any]] = {}


def writes(*names: str) -> Callable[[Writer], Writer]:
    """Declares how an op is written. A writer that gives None leaves it to the op's definition."""

    def declare(function: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(names, function))
        return function

    return declare


def _unary(op: str) -> Callable[..., str]:
    return lambda g, y, x: g.node(op, [g.operand(x, y.dtype)])


for (
    _name
) in "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log neg reciprocal relu round sigmoid".split():
    WRITERS[_name] = _unary(_name.capitalize())
for _name in "sign sin sinh sqrt tan tanh".split():
    WRITERS[_name] = _unary(_name.capitalize())
WRITERS["clone"] = WRITERS["contiguous"] = _unary("Identity")
WRITERS["_move"] = lambda g, y, x, device: g.node("Identity", [g.named(x)])
WRITERS["rsqrt"] = lambda g, y, x: g.node("Reciprocal", [g.node("Sqrt", [g.named(x)])])
WRITERS["square"] = lambda g, y, x: g.node("Mul", [g.named(x)] * 2)
WRITERS["log1p"] = lambda g, y, x: g.node("Log", [g.node("Add", [g.named(x), g.operand(1.0, y.dtype)])])
WRITERS["expm1"] = lambda g, y, x: g.node("Sub", [g.node("Exp", [g.named(x)]), g.operand(1.0, y.dtype)])
WRITERS["log2"] = lambda g, y, x: g.node("Div", [g.node("Log", [g.named(x)]), g.operand(log(2), y.dtype)])
WRITERS["log10"] = lambda g, y, x: g.node("Div", [g.node("Log", [g.named(x)]), g.operand(log(10), y.dtype)])
WRITERS["exp2"] = lambda g, y, x: g.node("Exp", [g.node("Mul", [g.named(x), g.operand(log(2), y.dtype)])])
WRITERS["erfc"] = lambda g, y, x: g.node("Sub", [g.operand(1.0, y.dtype), g.node("Erf", [g.named(x)])])
WRITERS["trunc"] = lambda g, y, x: g.node(
    "Mul", [g.node("Sign", [g.named(x)]), g.node("Floor", [g.node("Abs", [g.named(x)])])]
)
WRITERS["frac"] = lambda g, y, x: g.node("Sub", [g.named(x), WRITERS["trunc"](g, y, x)])
WRITERS["isfinite"] = lambda g, y, x: g.node(
    "Not", [g.node("Or", [g.node("IsNaN", [g.named(x)]), g.node("IsInf", [g.named(x)])])]
)
WRITERS["isnan"] = lambda g, y, x: g.node("IsNaN", [g.named(x)])
WRITERS["isinf"] = lambda g, y, x: g.node("IsInf", [g.named(x)])
WRITERS["bitwise_not"] = lambda g, y, x: g.node("Not" if x.dtype.name == "bool" else "BitwiseNot", [g.named(x)])
WRITERS["logical_not"] = lambda g, y, x: g.node("Not", [g.operand(x, as_dtype("bool"))])


def _binary(op: str) -> Callable[..., str]:
    return lambda g, y, a, b: g.node(op, [g.operand(a, y.dtype), g.operand(b, y.dtype)])


for _name, _op in {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "maximum": "Max", "minimum": "Min",
}.items():  # fmt: skip
    WRITERS[_name] = _binary(_op)


WRITERS["fmod"] = lambda g, y, a, b: g.node("Mod", [g.operand(a, y.dtype), g.operand(b, y.dtype)], fmod=1)


@writes("hypot")
def _hypot(g: Graph, y: Tensor, a: Any, b: Any) -> str:
    squares = [g.node("Mul", [g.operand(x, y.dtype)] * 2) for x in (a, b)]
    return g.node("Sqrt", [g.node("Add", squares)])


@writes("atan2")
def _atan2(g: Graph, y: Tensor, a: Any, b: Any) -> str:
    """The angle of the half-plane on the right, and half a turn more on the left."""
    up, right, zero = g.operand(a, y.dtype), g.operand(b, y.dtype), g.operand(0.0, y.dtype)
    angle = g.node("Atan", [g.node("Div", [up, right])])
    angle = g.node("Where", [g.node("IsNaN", [angle]), g.node("Mul", [up, right]), angle])  # 0 / 0, and NaN
    below, left = (g.node("Less", [g.node("Reciprocal", [x]), zero]) for x in (up, right))  # -0 too
    half = g.node("Where", [below, g.operand(-pi, y.dtype), g.operand(pi, y.dtype)])
    return g.node("Add", [angle, g.node("Where", [left, half, zero])])


@writes("bitwise_left_shift")
def _left_shift(g: Graph, y: Tensor, a: Any, b: Any) -> str:
    return g.node("Mul", [g.operand(a, y.dtype), g.node("Pow", [g.operand(2, y.dtype), g.operand(b, y.dtype)])])


@writes("remainder")
def _remainder(g: Graph, y: Tensor, a: Any, b: Any) -> str:
    first, second = g.operand(a, y.dtype), g.operand(b, y.dtype)
    if y.dtype.category == 1:
        return g.node("Mod", [first, second])
    return g.node("Sub", [first, g.node("Mul", [g.node("Floor", [g.node("Div", [first, second])]), second])])


@writes("floor_divide")
def _floor_divide(g: Graph, y: Tensor, a: Any, b: Any) -> str:
    if y.dtype.category == 2:
        return g.node("Floor", [g.node("Div", [g.operand(a, y.dtype), g.operand(b, y.dtype)])])
    first, second = g.operand(a, y.dtype), g.operand(b, y.dtype)  # ONNX divides whole numbers towards zero
    return g.node("Div", [g.node("Sub", [first, g.node("Mod", [first, second])]), second])


def _comparison(op: str) -> Callable[..., str]:
    def write(g: Graph, y: Tensor, a: Any, b: Any) -> str:
        kind = a.dtype
        if isinstance(b, Tensor):
            kind = promote(a.dtype, b.dtype)
        elif isinstance(b, float) and kind.category < 2:
            kind = as_dtype("float32")
        if kind.category == 0:
            kind = as_dtype("int32") if op not in ("Equal",) else kind
        found = g.node(op.removeprefix("Not"), [g.operand(a, kind), g.operand(b, kind)])
        return g.node("Not", [found]) if op == "NotEqual" else found

    return write


for _name, _op in {
    "eq": "Equal", "ne": "NotEqual", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
}.items():  # fmt: skip
    WRITERS[_name] = _comparison(_op)


def _logical(op: str, bitwise: bool) -> Callable[..., str]:
    def write(g: Graph, y: Tensor, a: Any, b: Any) -> str:
        kind = y.dtype if bitwise else as_dtype("bool")
        name = op if kind.name == "bool" else f"Bitwise{op}"
        return g.node(name, [g.operand(a, kind), g.operand(b, kind)])

    return write


for _name in ("and", "or", "xor"):
    WRITERS["logical_" + _name] = _logical(_name.capitalize(), False)
    WRITERS["bitwise_" + _name] = _logical(_name.capitalize(), True)


@writes("cast")
def _cast(g: Graph, y: Tensor, x: Tensor, dtype: Any, device: Any = None) -> str:
    return g.node("Cast", [g.named(x)], to=element_code(y.dtype))


@writes("_where")
def _where(g: Graph, y: Tensor, condition: Tensor, a: Any, b: Any) -> str:
    chosen, first, second = g.operand(condition, as_dtype("bool")), g.operand(a, y.dtype), g.operand(b, y.dtype)
    if y.dtype.name != "bool":
        return g.node("Where", [chosen, first, second])
    others = g.node("And", [g.node("Not", [chosen]), second])  # onnxruntime has no Where of bools
    return g.node("Or", [g.node("And", [chosen, first]), others])


@writes("_clamp", "hardtanh")
def _clamp(g: Graph, y: Tensor, x: Tensor, low: Any = -1.0, high: Any = 1.0) -> str:
    name = g.operand(x, y.dtype)
    if y.dtype.is_floating_point and not isinstance(low, Tensor) and not isinstance(high, Tensor):
        return g.node("Clip", [name, *("" if limit is None else g.operand(limit, y.dtype) for limit in (low, high))])
    name = name if low is None else g.node("Max", [name, g.operand(low, y.dtype)])
    return name if high is None else g.node("Min", [name, g.operand(high, y.dtype)])


def _dims(dim: Any, rank: int) -> list[int]:
    if dim is None:
        return list(range(rank))
    return [int(d) % max(rank, 1) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def _reduction(op: str) -> Callable[..., Any]:
    def write(g: Graph, y: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> str:
        if not x.ndim:
            return g.node("Identity", [g.operand(x, y.dtype)])
        kind = as_dtype("int32") if y.dtype.name == "bool" else y.dtype
        truth = g.operand(x, as_dtype("bool")) if y.dtype.name == "bool" else ""
        name = g.node("Cast", [truth], to=element_code(kind)) if truth else g.operand(x, kind)
        dims = _dims(() if dim is None else dim, x.ndim) or list(range(x.ndim))
        if g.opset < 18 and op != "ReduceSum":
            found = g.node(op, [name], axes=dims, keepdims=int(keepdim))
        else:
            found = g.node(op, [name, g.array(dims)], keepdims=int(keepdim))
        return g.node("Cast", [found], to=element_code(y.dtype)) if truth else found

    return write


for _name, _op in {
    "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "all": "ReduceMin",
    "any": "ReduceMax",
}.items():  # fmt: skip
    WRITERS[_name] = _reduction(_op)
WRITERS["_prod"] = lambda g, y, x, dim, keepdim: _reduction("ReduceProd")(g, y, x, dim, keepdim)


def _extreme(op: str) -> Callable[..., str]:
    def write(g: Graph, y: Tensor, x: Tensor, dim: int | None = None, keepdim: bool = False) -> str:
        if dim is None:
            return g.node(op, [g.node("Reshape", [g.named(x), g.array([-1])])], axis=0, keepdims=0)
        return g.node(op, [g.named(x)], axis=dim % x.ndim, keepdims=int(keepdim))

    return write


WRITERS["argmax"], WRITERS["argmin"] = _extreme("ArgMax"), _extreme("ArgMin")
WRITERS["softmax"] = lambda g, y, x, dim=-1: (
    g.node("Softmax", [g.named(x)], axis=dim % max(x.ndim, 1)) if x.ndim else None
)
WRITERS["log_softmax"] = lambda g, y, x, dim=-1: (
    g.node("LogSoftmax", [g.named(x)], axis=dim % max(x.ndim, 1)) if x.ndim else None
)
WRITERS["gelu"] = lambda g, y, x, approximate="none": (
    g.node("Gelu", [g.named(x)], approximate=approximate) if g.opset >= 20 else None
)
WRITERS["cumsum"] = lambda g, y, x, dim: g.node("CumSum", [g.operand(x, y.dtype), g.array(dim % max(x.ndim, 1))])
WRITERS["det"] = lambda g, y, x: g.node("Det", [g.named(x)])
WRITERS["tril"] = lambda g, y, x, diagonal=0: g.node("Trilu", [g.named(x), g.array(diagonal)], upper=0)
WRITERS["triu"] = lambda g, y, x, diagonal=0: g.node("Trilu", [g.named(x), g.array(diagonal)], upper=1)


@writes("matmul")
def _matmul(g: Graph, y: Tensor, a: Tensor, b: Tensor) -> str:
    return g.node("MatMul", [g.operand(a, y.dtype), g.operand(b, y.dtype)])


@writes("_linear")
def _linear(g: Graph, y: Tensor, x: Tensor, weight: Tensor, bias: Any = None, residual: Any = None) -> str:
    inputs = [g.operand(x, y.dtype), _weight(g, weight, y.dtype)]
    more = [] if bias is None else [g.operand(bias, y.dtype)]
    if x.ndim == 2:
        name = g.node("Gemm", [*inputs, *more], transB=1)
    else:
        name = g.node("MatMul", [inputs[0], g.node("Transpose", [inputs[1]], perm=[1, 0])])
        name = g.node("Add", [name, *more]) if more else name
    return name if residual is None else g.node("Add", [name, g.operand(residual, y.dtype)])


def _weight(g: Graph, weight: Tensor, kind: DType) -> str:
    """A weight in the type that is computed with, which has more bits than one of 16. Blocks are written as float32."""
    return g.named(weight) if weight.dtype.is_quantized else g.operand(weight, kind)


@writes("_embedding")
def _embedding(g: Graph, y: Tensor, weight: Tensor, ids: Tensor) -> str:
    found = g.node("Gather", [g.named(weight), g.named(ids)], axis=0)
    stays = weight.dtype.is_quantized or weight.dtype is y.dtype
    return found if stays else g.node("Cast", [found], to=element_code(y.dtype))


WRITERS["_index_select"] = lambda g, y, x, dim, index: g.node(
    "Gather", [g.named(x), g.operand(index, as_dtype("int64"))], axis=dim % max(x.ndim, 1)
)
WRITERS["gather"] = lambda g, y, x, dim, index: (
    g.node("GatherElements", [g.named(x), g.operand(index, as_dtype("int64"))], axis=dim % x.ndim) if x.ndim else None
)


def _sorted_places(g: Graph, x: Tensor, count: int, dim: int, descending: bool) -> str:
    """The places of the first elements along a dim; the first of equal ones come first."""
    kind = as_dtype("int32") if x.dtype.category == 0 else x.dtype
    return g.nodes_of("TopK", [g.operand(x, kind), g.array([count])], 2, axis=dim, largest=int(descending))[-1]


WRITERS["argsort"] = lambda g, y, x, dim=-1, descending=False: (
    _sorted_places(g, x, x.shape[dim], dim % x.ndim, descending) if x.ndim else None
)
WRITERS["_first_indices"] = lambda g, y, x, count, dim, descending: (
    _sorted_places(g, x, count, dim, descending) if x.ndim else None
)
WRITERS["_one_hot"] = lambda g, y, x, classes: g.node(
    "OneHot", [g.operand(x, as_dtype("int64")), g.array(classes), g.array([0, 1])], axis=-1
)


class _Indexed:
    """x[entries] with tensors of whole numbers and whole dims: the dims of the tensors are moved to the front."""

    def __init__(self, x: Tensor, entries: tuple[Any, ...]) -> None:
        entries = (*entries, *[slice(None)] * (x.ndim - len(entries)))
        self.dims = [at for at, entry in enumerate(entries) if isinstance(entry, Tensor)]
        self.tensors: list[Tensor] = [entry for entry in entries if isinstance(entry, Tensor)]
        whole = all(isinstance(e, Tensor) or (type(e) is slice and e == slice(None)) for e in entries)
        self.possible = whole and len(entries) == x.ndim and all(t.dtype.category == 1 for t in self.tensors)
        if not self.possible:
            return
        rest = [at for at in range(x.ndim) if at not in self.dims]
        self.order = [*self.dims, *rest]
        self.back = [self.order.index(at) for at in range(x.ndim)]
        self.shape = list(np.broadcast_shapes(*(t.shape for t in self.tensors)))
        together = self.dims == list(range(self.dims[0], self.dims[0] + len(self.dims)))
        at, count, others = (self.dims[0] if together else 0), len(self.shape), len(rest)
        # how the result of x[entries] comes from (the dims of the tensors, the others), and the other way round
        self.result = [*range(count, count + at), *range(count), *range(count + at, count + others)]
        self.update = [self.result.index(at) for at in range(count + others)]

    def places(self, g: Graph) -> str:
        """(the dims of the tensors, number of tensors)."""
        parts = []
        for t in self.tensors:
            name = g.operand(t, as_dtype("int64"))
            name = name if list(t.shape) == self.shape else g.node("Expand", [name, g.array(self.shape)])
            parts.append(g.node("Unsqueeze", [name, g.array([len(self.shape)])]))
        return parts[0] if len(parts) == 1 else g.node("Concat", parts, axis=len(self.shape))


def _transposed(g: Graph, name: str, order: list[int]) -> str:
    return name if order == sorted(order) else g.node("Transpose", [name], perm=order)


@writes("_take")
def _take(g: Graph, y: Tensor, x: Tensor, entries: tuple[Any, ...]) -> str | None:
    if not any(isinstance(entry, Tensor) for entry in entries):
        return None
    indexed = _Indexed(x, entries)
    if not indexed.possible:
        return None
    if len(indexed.tensors) == 1:
        return g.node("Gather", [g.named(x), g.operand(indexed.tensors[0], as_dtype("int64"))], axis=indexed.dims[0])
    found = g.node("GatherND", [_transposed(g, g.named(x), indexed.order), indexed.places(g)])
    return _transposed(g, found, indexed.result)


def _by_numbers(entries: tuple[Any, ...]) -> bool:
    return any(isinstance(entry, Tensor) and entry.dtype.category == 1 for entry in entries)


def _taken(g: Graph, part: Part, x: Tensor) -> str:
    known = g.part_of(x)
    return part.taken(g, g.named(x)) if known is None else known(part)


def _numbers_of(x: Tensor) -> Any:
    """The elements' numbers, in the order of memory of a dense tensor."""
    return np.arange(prod(x.shape), dtype=np.int64).reshape(x.shape)


def _as_array(entry: Any) -> Any:
    return entry.numpy() if isinstance(entry, Tensor) else entry


def _put_at(g: Graph, y: Tensor, x: Tensor, source: Any, places: Any) -> str:
    """x with a source, broadcast, in the places of these numbers."""
    new = g.node("Expand", [g.operand(source, y.dtype), g.array(list(places.shape))])
    if places.shape == tuple(x.shape) and (places == _numbers_of(x)).all():
        return new
    flat, new = (g.node("Reshape", [name, g.array([-1])]) for name in (g.operand(x, y.dtype), new))
    found = g.node("ScatterElements", [flat, g.array(places.reshape(-1)), new], axis=0)
    return g.node("Reshape", [found, g.array(list(x.shape))])


@writes("_spread")
def _spread(g: Graph, y: Tensor, part: Tensor, size: Any, shape: Any, strides: Any, offset: int) -> str:
    """Zeros, with a part in the places that strides say."""
    steps = [8 * stride for stride in strides]
    places = np.lib.stride_tricks.as_strided(np.arange(prod(size), dtype="int64")[offset:], shape, steps)
    zeros = g.node("Expand", [g.operand(0, y.dtype), g.array([prod(size)])])
    new = g.node("Reshape", [g.named(part), g.array([-1])])
    found = g.node("ScatterElements", [zeros, g.array(places.reshape(-1)), new], axis=0)
    return g.node("Reshape", [found, g.array(list(size))])


@writes("_put_view")
def _put_view(g: Graph, y: Tensor, x: Tensor, part: Tensor, view: Op, rest: tuple[Any, ...]) -> str | None:
    place = _part_of(x, view, rest)
    found = place.put(g, g.operand(x, y.dtype), g.operand(part, y.dtype)) if place else None
    if found is None and x.is_contiguous():
        return _put_at(g, y, x, part, _viewed(view, x, rest))
    return found


@writes("_put")
def _put_entries(g: Graph, y: Tensor, x: Tensor, source: Any, entries: tuple[Any, ...]) -> str | None:
    entries = entries if isinstance(entries, tuple) else (entries,)
    place = Part.of_entries(x, entries)
    if place is not None and all(step == 1 for step in place.steps):
        new = g.operand(source, y.dtype)
        lacking = len(place.result) - (source.ndim if isinstance(source, Tensor) else 0)
        if lacking < 0:
            new = g.node("Squeeze", [new, g.array(list(range(-lacking)))])
        elif lacking:
            new = g.node("Unsqueeze", [new, g.array(list(range(lacking)))])
        return place.put(g, g.operand(x, y.dtype), new, getattr(source, "shape", None) != place.shape)
    if not any(g.is_computed(entry) for entry in entries) and not (g.sized and _by_numbers(entries)):
        return _put_at(g, y, x, source, _numbers_of(x)[tuple(map(_as_array, entries))])
    mask = entries[0]
    if len(entries) == 1 and mask.dtype.name == "bool" and (not isinstance(source, Tensor) or source.numel() == 1):
        whole = g.node("Reshape", [g.named(mask), g.array([*mask.shape, *[1] * (x.ndim - mask.ndim)])])
        new = g.operand(source, y.dtype)
        new = g.node("Reshape", [new, g.array([1])]) if isinstance(source, Tensor) else new
        return g.node("Where", [whole, new, g.operand(x, y.dtype)])
    indexed = _Indexed(x, entries)
    if not indexed.possible or not indexed.tensors:
        return None
    sizes = [*indexed.shape, *(x.shape[at] for at in indexed.order[len(indexed.dims) :])]
    given = g.node("Expand", [g.operand(source, y.dtype), g.array([sizes[at] for at in indexed.result])])
    whole = _transposed(g, g.operand(x, y.dtype), indexed.order)
    found = g.node("ScatterND", [whole, indexed.places(g), _transposed(g, given, indexed.update)])
    return _transposed(g, found, indexed.back)


@writes("_index_add")
def _index_add(g: Graph, y: Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor) -> str:
    shape = [-1 if at == dim else 1 for at in range(source.ndim)]
    places = g.node("Reshape", [g.operand(index, as_dtype("int64")), g.array(shape)])
    places = g.node("Expand", [places, g.array(list(source.shape))])
    new = g.operand(source, y.dtype)
    return g.node("ScatterElements", [g.operand(x, y.dtype), places, new], axis=dim, reduction="add")


@writes("_scatter_extreme")
def _scatter_extreme(
    g: Graph, y: Tensor, x: Tensor, source: Tensor, dim: int, index: Tensor, reduce: str, include_self: bool
) -> str | None:
    if not include_self or not x.ndim or g.opset < 18 and reduce != "prod":
        return None
    new = g.operand(source, y.dtype)
    if source.shape != index.shape:
        new = g.node("Slice", [new, g.array([0] * index.ndim), g.array(list(index.shape))])
    how = {"prod": "mul", "amax": "max", "amin": "min"}[reduce]
    places = g.operand(index, as_dtype("int64"))
    return g.node("ScatterElements", [g.operand(x, y.dtype), places, new], axis=dim % x.ndim, reduction=how)


@writes("scatter")
def _scatter(g: Graph, y: Tensor, x: Tensor, dim: int, index: Tensor, source: Any) -> str:
    places = g.operand(index, as_dtype("int64"))
    if not isinstance(source, Tensor):
        new = g.node("Expand", [g.operand(source, y.dtype), g.array(list(index.shape))])
    elif source.shape == index.shape:
        new = g.operand(source, y.dtype)
    else:
        zeros, ends = [0] * index.ndim, list(index.shape)
        new = g.node("Slice", [g.operand(source, y.dtype), g.array(zeros), g.array(ends)])
    return g.node("ScatterElements", [g.named(x), places, new], axis=dim)


@writes("scatter_add")
def _scatter_add(g: Graph, y: Tensor, x: Tensor, dim: int, index: Tensor, src: Tensor) -> str:
    new = g.operand(src, y.dtype)
    if src.shape != index.shape:
        new = g.node("Slice", [new, g.array([0] * index.ndim), g.array(list(index.shape))])
    return g.node("ScatterElements", [g.named(x), g.operand(index, as_dtype("int64")), new], axis=dim, reduction="add")


@writes("_cat")
def _cat(g: Graph, y: Tensor, tensors: Sequence[Tensor], dim: int) -> str:
    return g.node("Concat", [g.operand(x, y.dtype) for x in tensors], axis=dim % y.ndim)


@writes("_stack")
def _stack(g: Graph, y: Tensor, tensors: Sequence[Tensor], dim: int) -> str:
    axis = g.array([dim % y.ndim])
    return g.node("Concat", [g.node("Unsqueeze", [g.operand(x, y.dtype), axis]) for x in tensors], axis=dim % y.ndim)


@writes("_pad")
def _pad(g: Graph, y: Tensor, x: Tensor, widths: Any, value: float) -> str:
    before, after = [b for b, _ in widths], [a for _, a in widths]
    return g.node("Pad", [g.named(x), g.array([*before, *after]), g.operand(value, y.dtype)])


@writes("layer_norm")
def _layer_norm(g: Graph, y: Tensor, x: Tensor, weight: Any, bias: Any, epsilon: float = 1e-5) -> str | None:
    if weight is None:
        return None
    inputs = [g.operand(value, y.dtype) for value in (x, weight, bias) if value is not None]
    return g.node("LayerNormalization", inputs, axis=-1, epsilon=float(epsilon))


@writes("_batch_norm")
def _batch_norm(
    g: Graph, y: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Any, bias: Any, epsilon: float
) -> str:
    count = mean.numel()
    scale = g.array([1.0] * count, mean.dtype.name) if weight is None else g.named(weight)
    shift = g.array([0.0] * count, mean.dtype.name) if bias is None else g.named(bias)
    return g.node("BatchNormalization", [g.named(x), scale, shift, g.named(mean), g.named(var)], epsilon=float(epsilon))


def _sides(sides: Any) -> list[int]:
    return [*(b for b, _ in sides), *(a for _, a in sides)]


@writes("_convolution")
def _convolution(
    g: Graph, y: Tensor, x: Tensor, weight: Tensor, bias: Any, stride: Any, sides: Any, dilation: Any, groups: int
) -> str | None:
    if min(_sides(sides), default=0) < 0:
        return None
    inputs = [g.operand(x, y.dtype), _weight(g, weight, y.dtype)]
    inputs += [] if bias is None else [g.operand(bias, y.dtype)]
    return g.node(
        "Conv", inputs, strides=list(stride), pads=_sides(sides), dilations=list(dilation), group=groups,
        kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip


@writes("_convolution_transpose")
def _convolution_transpose(
    g: Graph, y: Tensor, x: Tensor, weight: Tensor, bias: Any, stride: Any, sides: Any, dilation: Any, groups: int
) -> str:
    inputs = [g.named(x), g.named(weight), *([] if bias is None else [g.named(bias)])]
    more = [max(0, -a) for _, a in sides]
    return g.node(
        "ConvTranspose", inputs, strides=list(stride), pads=_sides([(b, max(0, a)) for b, a in sides]),
        output_padding=more, dilations=list(dilation), group=groups, kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip


def _pool(g: Graph, x: Tensor, windows: Any, op: str, **attributes: Any) -> str | None:
    if not hasattr(windows, "beyond") or x.ndim != windows.dims + 2:
        return None
    pads = [*windows.padding, *(p + b for p, b in zip(windows.padding, windows.beyond, strict=True))]
    if any(p >= k for p, k in zip(pads, windows.kernel * 2, strict=True)):
        return None
    if set(windows.dilation) != {1}:
        if g.opset < 19 and op == "AveragePool":
            return None
        attributes["dilations"] = list(windows.dilation)
    return g.node(
        op, [g.named(x)], kernel_shape=list(windows.kernel), strides=list(windows.stride), pads=pads, **attributes
    )


@writes("_max_of_windows")
def _max_of_windows(g: Graph, y: Tensor, x: Tensor, windows: Any) -> str | None:
    return _pool(g, x, windows, "MaxPool")


@writes("_mean_of_windows")
def _mean_of_windows(g: Graph, y: Tensor, x: Tensor, windows: Any) -> str | None:
    if windows.divisor or any(getattr(windows, "beyond", [1])):
        return None
    return _pool(g, x, windows, "AveragePool", count_include_pad=int(windows.counted))


WRITERS["_reshape"] = lambda g, y, x, shape: g.node(
    "Reshape", [g.named(x), g.array(list(y.shape))], allowzero=int(0 in y.shape)
)
WRITERS["_permute"] = lambda g, y, x, dims: g.node(
    "Transpose", [g.named(x)], perm=[int(d) % max(x.ndim, 1) for d in dims]
)
WRITERS["_expand"] = lambda g, y, x, shape: g.node("Expand", [g.named(x), g.array(list(y.shape))])


class Part:
    """What ints, slices and None take of a tensor: for each dim the first element, the place after the last one, and
    the step; and which dims the result has: numbers of dims, and None for new ones."""

    def __init__(self, x: Tensor) -> None:
        self.sizes = tuple(x.shape)
        self.starts, self.ends, self.steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
        self._whole: set[int] = set()  # dims that are whole whatever their sizes are
        self.result: list[int | None] = []

    @staticmethod
    def of_entries(x: Tensor, entries: Any) -> Part | None:
        """By an index; None where it has other entries."""
        entries = entries if isinstance(entries, tuple) else (entries,)
        if any(type(e) not in (int, slice) and e is not None and e is not Ellipsis for e in entries):
            return None
        part, at = Part(x), 0
        taken = sum(e is not None and e is not Ellipsis for e in entries)
        if Ellipsis not in entries:
            entries = (*entries, Ellipsis)
        for entry in entries:
            if entry is None:
                part.result.append(None)
            elif entry is Ellipsis:
                part.result += range(at, at + x.ndim - taken)
                part._whole.update(range(at, at + x.ndim - taken))
                at += x.ndim - taken
            elif isinstance(entry, slice):
                if entry == slice(None):
                    part._whole.add(at)
                first, last, part.steps[at] = entry.indices(x.shape[at])
                part.starts[at], part.ends[at] = first, max(first, last)
                part.result.append(at)
                at += 1
            else:
                part.starts[at] = entry % x.shape[at]
                part.ends[at] = part.starts[at] + 1
                at += 1
        return part

    @staticmethod
    def of_strides(x: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int) -> Part | None:
        """By strides and an offset, of a dense tensor; None where they are not those of an index."""
        if not x.is_contiguous() or 0 in x.shape:
            return None
        part, at = Part(x), 0
        for dim, (size, own) in enumerate(zip(x.shape, x.strides, strict=True)):
            while at < len(shape) and shape[at] == 1 and strides[at] == 0:
                part.result.append(None)
                at += 1
            first, offset = divmod(offset, own) if own else (0, offset)
            # Of a dim without others of its size and a whole one of size 1 after it, the latter is the result's.
            dropped = size > 1 and x.shape[dim + 1 : dim + 2] == (1,) and len(shape) - at < x.ndim - dim
            if dropped and at < len(shape) and shape[at] == 1 and first < size:
                part.starts[dim], part.ends[dim] = first, first + 1
                continue
            step = strides[at] // own if at < len(shape) and strides[at] % own == 0 else 0
            count = shape[at] if at < len(shape) else 0
            if step and 0 < count and first + (count - 1) * step < size:
                part.starts[dim], part.steps[dim] = first, step
                part.ends[dim] = size if first + count * step >= size else first + (count - 1) * step + 1
                part.result.append(dim)
                at += 1
            elif first < size:
                part.starts[dim], part.ends[dim] = first, first + 1
            else:
                return None
        while at < len(shape) and shape[at] == 1:
            part.result.append(None)
            at += 1
        return part if at == len(shape) and not offset else None

    def _is_taken_from(self, g: Graph, dim: int) -> bool:
        """Whether a dim needs nodes."""
        return dim not in self._whole and (g.sized or not self.is_whole(dim))

    def is_whole(self, dim: int) -> bool:
        return (self.starts[dim], self.ends[dim], self.steps[dim]) == (0, self.sizes[dim], 1)

    def taken(self, g: Graph, name: str) -> str:
        """Nodes that take the part."""
        axes = [dim for dim in range(len(self.sizes)) if self._is_taken_from(g, dim)]
        if axes:
            arrays = ([of[dim] for dim in axes] for of in (self.starts, self.ends, range(len(self.sizes)), self.steps))
            name = g.node("Slice", [name, *map(g.array, arrays)])
        left_out = [dim for dim in range(len(self.sizes)) if dim not in self.result]
        new = [at for at, dim in enumerate(self.result) if dim is None]
        name = g.node("Squeeze", [name, g.array(left_out)]) if left_out else name
        name = g.node("Unsqueeze", [name, g.array(new)]) if new else name
        return name if axes or left_out or new else g.node("Identity", [name])

    @property
    def shape(self) -> tuple[int, ...]:
        """What the result has."""
        counts = [-((a - b) // step) for a, b, step in zip(self.starts, self.ends, self.steps, strict=True)]
        return tuple(1 if dim is None else counts[dim] for dim in self.result)

    def put(self, g: Graph, name: str, new: str, expand: bool = False) -> str | None:
        """Nodes that give a tensor with another part, of this result's shape; with `expand` some dims may be of size
        one. None for slices with steps."""
        if any(step != 1 for step in self.steps):
            return None
        left_out = [dim for dim in range(len(self.sizes)) if dim not in self.result]
        added = [at for at, dim in enumerate(self.result) if dim is None]
        new = g.node("Squeeze", [new, g.array(added)]) if added else new
        new = g.node("Unsqueeze", [new, g.array(left_out)]) if left_out else new
        if expand and not any(self._is_taken_from(g, dim) for dim in range(len(self.sizes))):
            return g.node("Expand", [new, g.array(list(self.sizes))])  # without the old elements, which may be anything
        return self._put(g, name, new, expand, 0)

    def _put(self, g: Graph, name: str, new: str, expand: bool, dim: int) -> str:
        if dim == len(self.sizes):
            return g.node("Expand", [new, g.node("Shape", [name])]) if expand else new
        if not self._is_taken_from(g, dim):
            return self._put(g, name, new, expand, dim + 1)
        start, end, size, axis = self.starts[dim], self.ends[dim], self.sizes[dim], g.array([dim])
        one = g.array([1])
        before, own, after = (
            g.node("Slice", [name, g.array([a]), g.array([b]), axis, one])
            for a, b in ((0, start), (start, end), (end, size))
        )
        return g.node("Concat", [before, self._put(g, own, new, expand, dim + 1), after], axis=dim)


@writes("_index_view")
def _index_view(g: Graph, y: Tensor, x: Tensor, entries: tuple[Any, ...]) -> str | None:
    """Slices and numbers, with new dims."""
    part = Part.of_entries(x, entries)
    return None if part is None else _taken(g, part, x)


@writes("_strided")
def _strided(g: Graph, y: Tensor, x: Tensor, shape: Any, strides: Any, offset: int) -> str | None:
    part = Part.of_strides(x, shape, strides, offset)
    return None if part is None else _taken(g, part, x)


@writes("_narrow")
def _narrow(g: Graph, y: Tensor, x: Tensor, dim: int, start: int, length: int) -> str:
    return _narrowed(x, dim, start, length).taken(g, g.named(x))


def _narrowed(x: Tensor, dim: int, start: int, length: int) -> Part:
    part = Part(x)
    part.starts[dim], part.ends[dim], part.result = start, start + length, list(range(x.ndim))
    return part


def _part_of(x: Tensor, view: Op, rest: tuple[Any, ...]) -> Part | None:
    """The part that a view takes, where it takes one."""
    makers: dict[str, Callable[..., Part | None]] = {
        "_index_view": Part.of_entries, "_strided": Part.of_strides, "_narrow": _narrowed,
    }  # fmt: skip
    return makers[view.name](x, *rest) if view.name in makers else None


@writes("_flip")
def _flip(g: Graph, y: Tensor, x: Tensor, dims: tuple[int, ...]) -> str:
    arrays = ([-1] * len(dims), [-(1 << 62)] * len(dims), list(dims), [-1] * len(dims))
    return g.node("Slice", [g.named(x), *map(g.array, arrays)])


@writes("_roll")
def _roll(g: Graph, y: Tensor, x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> str | None:
    """The last elements of each dim before the others."""
    if not dims:
        return None
    name = g.named(x)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if not size or not shift or not (g.sized or shift % size):
            continue
        place, axis = size - shift % size, g.array([dim])
        parts = (g.array([place]), g.array([1 << 62])), (g.array([0]), g.array([place]))
        name = g.node("Concat", [g.node("Slice", [name, a, b, axis]) for a, b in parts], axis=dim)
    return g.node("Identity", [name])


@writes("_windows")
def _windows(g: Graph, y: Tensor, x: Tensor, dim: int, size: int, step: int, dilation: int) -> str:
    """Gather by the places (count, size), of which the second dim goes to the end."""
    count = y.shape[dim]
    first = g.node("Range", [g.array(0), g.array(count), g.array(1)])
    first = g.node("Mul", [first, g.array(step)]) if step != 1 else first
    places = g.node("Add", [g.node("Unsqueeze", [first, g.array([1])]), g.array(np.arange(size) * dilation)])
    found = g.node("Gather", [g.named(x), places], axis=dim)
    order = [d for d in range(x.ndim + 1) if d != dim + 1] + [dim + 1]
    return _transposed(g, found, order)


@writes("_diagonal")
def _diagonal(g: Graph, y: Tensor, x: Tensor, offset: int, a: int, b: int) -> str:
    """GatherND by the places (length, 2) in the two dims."""
    first = g.node("Range", [g.array(0), g.array(y.shape[-1]), g.array(1)])
    first = g.node("Unsqueeze", [first, g.array([1])])
    places = g.node("Add", [first, g.array([max(-offset, 0), max(offset, 0)])])
    kept = [d for d in range(x.ndim) if d not in (a, b)]
    found = g.node("GatherND", [_transposed(g, g.named(x), [a, b, *kept]), places])
    return _transposed(g, found, [*range(1, len(kept) + 1), 0])


@writes("_resampled")
def _resampled(g: Graph, y: Tensor, x: Tensor, dim: int, taps: Any) -> str | None:
    """Resize along one dim."""
    if taps.sampling is None:
        return None
    size, out, scale, kind, align_corners, antialias = taps.sampling
    if antialias:
        return None
    settings: dict[str, Any] = {"mode": kind, "cubic_coeff_a": -0.75} if kind == "cubic" else {"mode": kind}
    settings["coordinate_transformation_mode"] = "align_corners" if align_corners else "half_pixel"
    if scale and not align_corners:
        scales = [scale if d == dim else 1.0 for d in range(x.ndim)]
        return g.node("Resize", [g.named(x), "", g.array(scales, "float32")], **settings)
    return g.node("Resize", [g.named(x), "", "", g.array(list(y.shape))], **settings)


# Ops that only move elements: any of them is a Gather of the flattened input.
MOVES = ("_as_strided", "_diagonal", "_strided", "_windows", "_flip", "_roll", "_take", "_further_columns")
TAKING = ("_take",)  # the views whose places may depend on the inputs


def _viewed(op: Op, x: Tensor, rest: tuple[Any, ...]) -> Any:
    """The numbers of the elements of a dense x that an op gives."""
    numbers = Tensor.from_buffer(_numbers_of(x).tobytes(), x.shape, "int64")
    found: Tensor = (op.definition or op.host)(numbers, *rest)  # type: ignore[misc]
    return found.numpy().astype(np.int64)


def moved(g: Graph, op: Op, y: Tensor, x: Tensor, rest: tuple[Any, ...]) -> str:
    """A move of elements by their numbers."""
    flat = g.node("Reshape", [g.named(x), g.array([-1])])
    return g.node("Gather", [flat, g.array(_viewed(op, x, rest))], axis=0)
