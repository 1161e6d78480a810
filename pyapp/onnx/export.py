"""Writes modules as ONNX files: the ops that a call with example inputs runs.

Sizes, and numbers that Python reads from tensors, are those of the example. The operators are of opset 20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log, pi, prod
from typing import IO, Any, TypeVar

from pyapp.engine import Tensor, as_dtype, no_grad, quant
from pyapp.engine.dtype import DType, promote
from pyapp.engine.lazy import np
from pyapp.engine.op import Op
from pyapp.engine.tracing import observed
from pyapp.errors import ModelError
from pyapp.formats.onnx_file import ELEMENT_CODES
from pyapp.formats.protobuf import bytes_field, bytes_head, float_field, int_field
from pyapp.formats.sink import AnySink, open_sink

OPSET, IR_VERSION = 20, 9
LARGEST = 2_000_000_000  # bytes of a file; protobuf's limit is 2^31 - 1
Writer = TypeVar("Writer", bound=Callable[..., Any])


class _Graph:
    """The nodes so far, and the names of tensors. `parameters`: names by the identity of tensors."""

    def __init__(self, parameters: Mapping[int, str]) -> None:
        self.nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = []
        self.tensors: dict[str, Tensor] = {}  # of the file, by name
        self.kept: list[tuple[Tensor, int]] = []  # constants, and the versions of their memory
        self._versions: dict[int, int] = {}  # of what depends on the inputs
        self._alive: list[Tensor] = []  # so that no identity is used twice
        self._computed: dict[int, str] = {}  # names of inputs, and of what was computed from them
        self._constants: dict[int, str] = {}
        self._numbers: dict[tuple[Any, ...], str] = {}
        self._parameters = parameters
        self._count = 0

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def give(self, x: Tensor, name: str) -> None:
        """Names a tensor that depends on the inputs."""
        self._computed[id(x)] = name
        self._versions[id(x)] = x.storage.version
        self._alive.append(x)

    def written(self, x: Tensor, value: Tensor) -> None:
        """Gives a tensor that was written in place the name of its new value."""
        name = self._computed.get(id(value))
        if name is not None:
            self.check_unchanged(value)
            self.give(x, name)

    def check_unchanged(self, x: Tensor) -> None:
        """ModelError for a tensor that depends on the inputs, whose memory was written through another one."""
        if x.storage.version != self._versions[id(x)]:
            raise ModelError(
                "a tensor is read whose memory was written in place through another one, which ONNX cannot say",
                hint="Compute a new tensor instead",
            )

    def is_computed(self, value: Any) -> bool:
        """Whether a value depends on the inputs."""
        if isinstance(value, (list, tuple)):
            return any(self.is_computed(part) for part in value)
        return isinstance(value, Tensor) and id(value) in self._computed

    def named(self, x: Tensor) -> str:
        """The name of a tensor; one that does not depend on the inputs becomes a tensor of the file."""
        known = self._computed.get(id(x))
        if known is not None:
            self.check_unchanged(x)
            return known
        known = self._constants.get(id(x))
        if known is not None:
            return known
        name = self._constants[id(x)] = self._parameters.get(id(x)) or self.fresh("constant")
        self.kept.append((x, x.storage.version))
        self.tensors[name] = x
        return name

    def array(self, values: Any, kind: str = "int64") -> str:
        """A constant of numbers."""
        array = np.asarray(values, kind)
        key = (kind, array.shape, array.tobytes())
        if key not in self._numbers:
            name = self._numbers[key] = self.fresh("constant")
            self.tensors[name] = Tensor.from_buffer(key[2], array.shape, kind)
        return self._numbers[key]

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node; the name of its output."""
        name = self.fresh(op.lower())
        self.nodes.append((op, list(inputs), [name], attributes))
        return name

    def nodes_last(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> str:
        """Adds a node of `count` outputs; the name of the last one."""
        names = [self.fresh(op.lower()) for _ in range(count)]
        self.nodes.append((op, list(inputs), names, attributes))
        return names[-1]

    def operand(self, value: Any, kind: DType) -> str:
        """A tensor or a number in an element type."""
        if isinstance(value, Tensor):
            name = self.named(value)
            return name if value.dtype is kind else self.node("Cast", [name], to=_code(kind))
        if kind.name == "bfloat16":
            return self.node("Cast", [self.array(value, "float32")], to=_code(kind))
        return self.array(value, kind.name)


def _code(kind: DType) -> int:
    return ELEMENT_CODES[kind.name]


_WRITERS: dict[
    str, Callable[..., Any]
] = {}  # by the op: writer(graph, result, *arguments) → the output's name, or None


def writes(*names: str) -> Callable[[Writer], Writer]:
    """Declares how an op is written. A writer that gives None leaves it to the op's definition."""

    def declare(function: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(names, function))
        return function

    return declare


def _unary(op: str) -> Callable[..., str]:
    return lambda g, y, x: g.node(op, [g.operand(x, y.dtype)])


for (
    _name
) in "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log neg reciprocal relu round sigmoid".split():
    _WRITERS[_name] = _unary(_name.capitalize())
for _name in "sign sin sinh sqrt tan tanh".split():
    _WRITERS[_name] = _unary(_name.capitalize())
_WRITERS["clone"] = _unary("Identity")
_WRITERS["_move"] = lambda g, y, x, device: g.node("Identity", [g.named(x)])
_WRITERS["rsqrt"] = lambda g, y, x: g.node("Reciprocal", [g.node("Sqrt", [g.named(x)])])
_WRITERS["square"] = lambda g, y, x: g.node("Mul", [g.named(x)] * 2)
_WRITERS["log1p"] = lambda g, y, x: g.node("Log", [g.node("Add", [g.named(x), g.operand(1.0, y.dtype)])])
_WRITERS["expm1"] = lambda g, y, x: g.node("Sub", [g.node("Exp", [g.named(x)]), g.operand(1.0, y.dtype)])
_WRITERS["log2"] = lambda g, y, x: g.node("Div", [g.node("Log", [g.named(x)]), g.operand(log(2), y.dtype)])
_WRITERS["log10"] = lambda g, y, x: g.node("Div", [g.node("Log", [g.named(x)]), g.operand(log(10), y.dtype)])
_WRITERS["exp2"] = lambda g, y, x: g.node("Exp", [g.node("Mul", [g.named(x), g.operand(log(2), y.dtype)])])
_WRITERS["erfc"] = lambda g, y, x: g.node("Sub", [g.operand(1.0, y.dtype), g.node("Erf", [g.named(x)])])
_WRITERS["trunc"] = lambda g, y, x: g.node(
    "Mul", [g.node("Sign", [g.named(x)]), g.node("Floor", [g.node("Abs", [g.named(x)])])]
)
_WRITERS["frac"] = lambda g, y, x: g.node("Sub", [g.named(x), _WRITERS["trunc"](g, y, x)])
_WRITERS["isfinite"] = lambda g, y, x: g.node(
    "Not", [g.node("Or", [g.node("IsNaN", [g.named(x)]), g.node("IsInf", [g.named(x)])])]
)
_WRITERS["isnan"] = lambda g, y, x: g.node("IsNaN", [g.named(x)])
_WRITERS["isinf"] = lambda g, y, x: g.node("IsInf", [g.named(x)])
_WRITERS["bitwise_not"] = lambda g, y, x: g.node("Not" if x.dtype.name == "bool" else "BitwiseNot", [g.named(x)])
_WRITERS["logical_not"] = lambda g, y, x: g.node("Not", [g.operand(x, as_dtype("bool"))])


def _binary(op: str) -> Callable[..., str]:
    return lambda g, y, a, b: g.node(op, [g.operand(a, y.dtype), g.operand(b, y.dtype)])


for _name, _op in {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "maximum": "Max", "minimum": "Min",
}.items():  # fmt: skip
    _WRITERS[_name] = _binary(_op)


_WRITERS["fmod"] = lambda g, y, a, b: g.node("Mod", [g.operand(a, y.dtype), g.operand(b, y.dtype)], fmod=1)


@writes("hypot")
def _hypot(g: _Graph, y: Tensor, a: Any, b: Any) -> str:
    squares = [g.node("Mul", [g.operand(x, y.dtype)] * 2) for x in (a, b)]
    return g.node("Sqrt", [g.node("Add", squares)])


@writes("atan2")
def _atan2(g: _Graph, y: Tensor, a: Any, b: Any) -> str:
    """The angle of the half-plane on the right, and half a turn more on the left."""
    up, right, zero = g.operand(a, y.dtype), g.operand(b, y.dtype), g.operand(0.0, y.dtype)
    angle = g.node("Atan", [g.node("Div", [up, right])])
    angle = g.node("Where", [g.node("IsNaN", [angle]), g.node("Mul", [up, right]), angle])  # 0 / 0, and NaN
    below, left = (g.node("Less", [g.node("Reciprocal", [x]), zero]) for x in (up, right))  # -0 too
    half = g.node("Where", [below, g.operand(-pi, y.dtype), g.operand(pi, y.dtype)])
    return g.node("Add", [angle, g.node("Where", [left, half, zero])])


@writes("bitwise_left_shift")
def _left_shift(g: _Graph, y: Tensor, a: Any, b: Any) -> str:
    return g.node("Mul", [g.operand(a, y.dtype), g.node("Pow", [g.operand(2, y.dtype), g.operand(b, y.dtype)])])


@writes("remainder")
def _remainder(g: _Graph, y: Tensor, a: Any, b: Any) -> str:
    first, second = g.operand(a, y.dtype), g.operand(b, y.dtype)
    if y.dtype.category == 1:
        return g.node("Mod", [first, second])
    return g.node("Sub", [first, g.node("Mul", [g.node("Floor", [g.node("Div", [first, second])]), second])])


@writes("floor_divide")
def _floor_divide(g: _Graph, y: Tensor, a: Any, b: Any) -> str:
    if y.dtype.category == 2:
        return g.node("Floor", [g.node("Div", [g.operand(a, y.dtype), g.operand(b, y.dtype)])])
    first, second = g.operand(a, y.dtype), g.operand(b, y.dtype)  # ONNX divides whole numbers towards zero
    return g.node("Div", [g.node("Sub", [first, g.node("Mod", [first, second])]), second])


def _comparison(op: str) -> Callable[..., str]:
    def write(g: _Graph, y: Tensor, a: Any, b: Any) -> str:
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
    _WRITERS[_name] = _comparison(_op)


def _logical(op: str, bitwise: bool) -> Callable[..., str]:
    def write(g: _Graph, y: Tensor, a: Any, b: Any) -> str:
        kind = y.dtype if bitwise else as_dtype("bool")
        name = op if kind.name == "bool" else f"Bitwise{op}"
        return g.node(name, [g.operand(a, kind), g.operand(b, kind)])

    return write


for _name in ("and", "or", "xor"):
    _WRITERS["logical_" + _name] = _logical(_name.capitalize(), False)
    _WRITERS["bitwise_" + _name] = _logical(_name.capitalize(), True)


@writes("cast")
def _cast(g: _Graph, y: Tensor, x: Tensor, dtype: Any, device: Any = None) -> str:
    return g.node("Cast", [g.named(x)], to=_code(y.dtype))


@writes("_where")
def _where(g: _Graph, y: Tensor, condition: Tensor, a: Any, b: Any) -> str:
    return g.node("Where", [g.operand(condition, as_dtype("bool")), g.operand(a, y.dtype), g.operand(b, y.dtype)])


@writes("_clamp", "hardtanh")
def _clamp(g: _Graph, y: Tensor, x: Tensor, low: Any = -1.0, high: Any = 1.0) -> str:
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
    def write(g: _Graph, y: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> str:
        if not x.ndim:
            return g.node("Identity", [g.operand(x, y.dtype)])
        kind = as_dtype("int32") if y.dtype.name == "bool" else y.dtype
        truth = g.operand(x, as_dtype("bool")) if y.dtype.name == "bool" else ""
        name = g.node("Cast", [truth], to=_code(kind)) if truth else g.operand(x, kind)
        dims = _dims(() if dim is None else dim, x.ndim) or list(range(x.ndim))
        found = g.node(op, [name, g.array(dims)], keepdims=int(keepdim))
        return g.node("Cast", [found], to=_code(y.dtype)) if truth else found

    return write


for _name, _op in {
    "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "all": "ReduceMin",
    "any": "ReduceMax",
}.items():  # fmt: skip
    _WRITERS[_name] = _reduction(_op)
_WRITERS["_prod"] = lambda g, y, x, dim, keepdim: _reduction("ReduceProd")(g, y, x, dim, keepdim)


def _extreme(op: str) -> Callable[..., str]:
    def write(g: _Graph, y: Tensor, x: Tensor, dim: int | None = None, keepdim: bool = False) -> str:
        if dim is None:
            return g.node(op, [g.node("Reshape", [g.named(x), g.array([-1])])], axis=0, keepdims=0)
        return g.node(op, [g.named(x)], axis=dim % x.ndim, keepdims=int(keepdim))

    return write


_WRITERS["argmax"], _WRITERS["argmin"] = _extreme("ArgMax"), _extreme("ArgMin")
_WRITERS["softmax"] = lambda g, y, x, dim=-1: (
    g.node("Softmax", [g.named(x)], axis=dim % max(x.ndim, 1)) if x.ndim else None
)
_WRITERS["log_softmax"] = lambda g, y, x, dim=-1: (
    g.node("LogSoftmax", [g.named(x)], axis=dim % max(x.ndim, 1)) if x.ndim else None
)
_WRITERS["gelu"] = lambda g, y, x, approximate="none": g.node("Gelu", [g.named(x)], approximate=approximate)
_WRITERS["cumsum"] = lambda g, y, x, dim: g.node("CumSum", [g.operand(x, y.dtype), g.array(dim % max(x.ndim, 1))])
_WRITERS["det"] = lambda g, y, x: g.node("Det", [g.named(x)])
_WRITERS["tril"] = lambda g, y, x, diagonal=0: g.node("Trilu", [g.named(x), g.array(diagonal)], upper=0)
_WRITERS["triu"] = lambda g, y, x, diagonal=0: g.node("Trilu", [g.named(x), g.array(diagonal)], upper=1)


@writes("matmul")
def _matmul(g: _Graph, y: Tensor, a: Tensor, b: Tensor) -> str:
    return g.node("MatMul", [g.operand(a, y.dtype), g.operand(b, y.dtype)])


@writes("_linear")
def _linear(g: _Graph, y: Tensor, x: Tensor, weight: Tensor, bias: Any = None, residual: Any = None) -> str:
    w = g.named(weight)
    if x.ndim == 2:
        name = g.node("Gemm", [g.named(x), w, *([] if bias is None else [g.named(bias)])], transB=1)
    else:
        name = g.node("MatMul", [g.named(x), g.node("Transpose", [w], perm=[1, 0])])
        name = name if bias is None else g.node("Add", [name, g.named(bias)])
    return name if residual is None else g.node("Add", [name, g.named(residual)])


@writes("_embedding")
def _embedding(g: _Graph, y: Tensor, weight: Tensor, ids: Tensor) -> str:
    return g.node("Gather", [g.named(weight), g.named(ids)], axis=0)


_WRITERS["_index_select"] = lambda g, y, x, dim, index: g.node(
    "Gather", [g.named(x), g.operand(index, as_dtype("int64"))], axis=dim % max(x.ndim, 1)
)
_WRITERS["gather"] = lambda g, y, x, dim, index: (
    g.node("GatherElements", [g.named(x), g.operand(index, as_dtype("int64"))], axis=dim % x.ndim) if x.ndim else None
)


def _sorted_places(g: _Graph, x: Tensor, count: int, dim: int, descending: bool) -> str:
    """The places of the first elements along a dim; the first of equal ones come first."""
    kind = as_dtype("int32") if x.dtype.category == 0 else x.dtype
    return g.nodes_last("TopK", [g.operand(x, kind), g.array([count])], 2, axis=dim, largest=int(descending))


_WRITERS["argsort"] = lambda g, y, x, dim=-1, descending=False: (
    _sorted_places(g, x, x.shape[dim], dim % x.ndim, descending) if x.ndim else None
)
_WRITERS["_first_indices"] = lambda g, y, x, count, dim, descending: (
    _sorted_places(g, x, count, dim, descending) if x.ndim else None
)
_WRITERS["_one_hot"] = lambda g, y, x, classes: g.node(
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

    def places(self, g: _Graph) -> str:
        """(the dims of the tensors, number of tensors)."""
        parts = []
        for t in self.tensors:
            name = g.operand(t, as_dtype("int64"))
            name = name if list(t.shape) == self.shape else g.node("Expand", [name, g.array(self.shape)])
            parts.append(g.node("Unsqueeze", [name, g.array([len(self.shape)])]))
        return parts[0] if len(parts) == 1 else g.node("Concat", parts, axis=len(self.shape))


def _transposed(g: _Graph, name: str, order: list[int]) -> str:
    return name if order == sorted(order) else g.node("Transpose", [name], perm=order)


@writes("_take")
def _take(g: _Graph, y: Tensor, x: Tensor, entries: tuple[Any, ...]) -> str | None:
    indexed = _Indexed(x, entries) if any(g.is_computed(entry) for entry in entries) else None
    if indexed is None or not indexed.possible:
        return None
    if len(indexed.tensors) == 1:
        return g.node("Gather", [g.named(x), g.operand(indexed.tensors[0], as_dtype("int64"))], axis=indexed.dims[0])
    found = g.node("GatherND", [_transposed(g, g.named(x), indexed.order), indexed.places(g)])
    return _transposed(g, found, indexed.result)


def _numbers_of(x: Tensor) -> Any:
    """The elements' numbers, in the order of memory of a dense tensor."""
    return np.arange(prod(x.shape), dtype=np.int64).reshape(x.shape)


def _as_array(entry: Any) -> Any:
    return entry.numpy() if isinstance(entry, Tensor) else entry


def _put_at(g: _Graph, y: Tensor, x: Tensor, source: Any, places: Any) -> str:
    """x with a source, broadcast, in the places of these numbers."""
    new = g.node("Expand", [g.operand(source, y.dtype), g.array(list(places.shape))])
    if places.shape == tuple(x.shape) and (places == _numbers_of(x)).all():
        return new
    flat, new = (g.node("Reshape", [name, g.array([-1])]) for name in (g.operand(x, y.dtype), new))
    found = g.node("ScatterElements", [flat, g.array(places.reshape(-1)), new], axis=0)
    return g.node("Reshape", [found, g.array(list(x.shape))])


@writes("_put_view")
def _put_view(g: _Graph, y: Tensor, x: Tensor, part: Tensor, view: Op, rest: tuple[Any, ...]) -> str | None:
    if not x.is_contiguous():
        return None
    return _put_at(g, y, x, part, _viewed(view, x, rest))


@writes("_put")
def _put_entries(g: _Graph, y: Tensor, x: Tensor, source: Any, entries: tuple[Any, ...]) -> str | None:
    entries = entries if isinstance(entries, tuple) else (entries,)
    if not any(g.is_computed(entry) for entry in entries):
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
def _index_add(g: _Graph, y: Tensor, x: Tensor, dim: int, index: Tensor, source: Tensor) -> str:
    shape = [-1 if at == dim else 1 for at in range(source.ndim)]
    places = g.node("Reshape", [g.operand(index, as_dtype("int64")), g.array(shape)])
    places = g.node("Expand", [places, g.array(list(source.shape))])
    new = g.operand(source, y.dtype)
    return g.node("ScatterElements", [g.operand(x, y.dtype), places, new], axis=dim, reduction="add")


@writes("_scatter_extreme")
def _scatter_extreme(
    g: _Graph, y: Tensor, x: Tensor, source: Tensor, dim: int, index: Tensor, reduce: str, include_self: bool
) -> str | None:
    if not include_self or not x.ndim:
        return None
    new = g.operand(source, y.dtype)
    if source.shape != index.shape:
        new = g.node("Slice", [new, g.array([0] * index.ndim), g.array(list(index.shape))])
    how = {"prod": "mul", "amax": "max", "amin": "min"}[reduce]
    places = g.operand(index, as_dtype("int64"))
    return g.node("ScatterElements", [g.operand(x, y.dtype), places, new], axis=dim % x.ndim, reduction=how)


@writes("scatter")
def _scatter(g: _Graph, y: Tensor, x: Tensor, dim: int, index: Tensor, source: Any) -> str:
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
def _scatter_add(g: _Graph, y: Tensor, x: Tensor, dim: int, index: Tensor, src: Tensor) -> str:
    new = g.operand(src, y.dtype)
    if src.shape != index.shape:
        new = g.node("Slice", [new, g.array([0] * index.ndim), g.array(list(index.shape))])
    return g.node("ScatterElements", [g.named(x), g.operand(index, as_dtype("int64")), new], axis=dim, reduction="add")


@writes("_cat")
def _cat(g: _Graph, y: Tensor, tensors: Sequence[Tensor], dim: int) -> str:
    return g.node("Concat", [g.operand(x, y.dtype) for x in tensors], axis=dim % y.ndim)


@writes("_stack")
def _stack(g: _Graph, y: Tensor, tensors: Sequence[Tensor], dim: int) -> str:
    axis = g.array([dim % y.ndim])
    return g.node("Concat", [g.node("Unsqueeze", [g.operand(x, y.dtype), axis]) for x in tensors], axis=dim % y.ndim)


@writes("_pad")
def _pad(g: _Graph, y: Tensor, x: Tensor, widths: Any, value: float) -> str:
    before, after = [b for b, _ in widths], [a for _, a in widths]
    return g.node("Pad", [g.named(x), g.array([*before, *after]), g.operand(value, y.dtype)])


@writes("layer_norm")
def _layer_norm(g: _Graph, y: Tensor, x: Tensor, weight: Any, bias: Any, epsilon: float = 1e-5) -> str | None:
    if weight is None:
        return None
    inputs = [g.named(x), g.named(weight), *([] if bias is None else [g.named(bias)])]
    return g.node("LayerNormalization", inputs, axis=-1, epsilon=float(epsilon))


@writes("_batch_norm")
def _batch_norm(
    g: _Graph, y: Tensor, x: Tensor, mean: Tensor, var: Tensor, weight: Any, bias: Any, epsilon: float
) -> str:
    count = mean.numel()
    scale = g.array([1.0] * count, mean.dtype.name) if weight is None else g.named(weight)
    shift = g.array([0.0] * count, mean.dtype.name) if bias is None else g.named(bias)
    return g.node("BatchNormalization", [g.named(x), scale, shift, g.named(mean), g.named(var)], epsilon=float(epsilon))


def _sides(sides: Any) -> list[int]:
    return [*(b for b, _ in sides), *(a for _, a in sides)]


@writes("_convolution")
def _convolution(
    g: _Graph, y: Tensor, x: Tensor, weight: Tensor, bias: Any, stride: Any, sides: Any, dilation: Any, groups: int
) -> str | None:
    if min(_sides(sides), default=0) < 0:
        return None
    inputs = [g.named(x), g.named(weight), *([] if bias is None else [g.named(bias)])]
    return g.node(
        "Conv", inputs, strides=list(stride), pads=_sides(sides), dilations=list(dilation), group=groups,
        kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip


@writes("_convolution_transpose")
def _convolution_transpose(
    g: _Graph, y: Tensor, x: Tensor, weight: Tensor, bias: Any, stride: Any, sides: Any, dilation: Any, groups: int
) -> str:
    inputs = [g.named(x), g.named(weight), *([] if bias is None else [g.named(bias)])]
    more = [max(0, -a) for _, a in sides]
    return g.node(
        "ConvTranspose", inputs, strides=list(stride), pads=_sides([(b, max(0, a)) for b, a in sides]),
        output_padding=more, dilations=list(dilation), group=groups, kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip


def _pool(g: _Graph, x: Tensor, windows: Any, op: str, **attributes: Any) -> str | None:
    if not hasattr(windows, "beyond") or x.ndim != windows.dims + 2:
        return None
    pads = [*windows.padding, *(p + b for p, b in zip(windows.padding, windows.beyond, strict=True))]
    if any(p >= k for p, k in zip(pads, windows.kernel * 2, strict=True)):
        return None
    return g.node(
        op, [g.named(x)], kernel_shape=list(windows.kernel), strides=list(windows.stride), pads=pads,
        dilations=list(windows.dilation), **attributes,
    )  # fmt: skip


@writes("_max_of_windows")
def _max_of_windows(g: _Graph, y: Tensor, x: Tensor, windows: Any) -> str | None:
    return _pool(g, x, windows, "MaxPool")


@writes("_mean_of_windows")
def _mean_of_windows(g: _Graph, y: Tensor, x: Tensor, windows: Any) -> str | None:
    if windows.divisor or any(getattr(windows, "beyond", [1])):
        return None
    return _pool(g, x, windows, "AveragePool", count_include_pad=int(windows.counted))


_WRITERS["_reshape"] = lambda g, y, x, shape: g.node(
    "Reshape", [g.named(x), g.array(list(y.shape))], allowzero=int(0 in y.shape)
)
_WRITERS["_permute"] = lambda g, y, x, dims: g.node(
    "Transpose", [g.named(x)], perm=[int(d) % max(x.ndim, 1) for d in dims]
)
_WRITERS["_expand"] = lambda g, y, x, shape: g.node("Expand", [g.named(x), g.array(list(y.shape))])
_WRITERS["_narrow"] = lambda g, y, x, dim, start, length: g.node(
    "Slice", [g.named(x), g.array([start]), g.array([start + length]), g.array([dim % x.ndim])]
)


@writes("_index_view")
def _index_view(g: _Graph, y: Tensor, x: Tensor, entries: tuple[Any, ...]) -> str | None:
    """Slices and numbers, with new dims."""
    if any(not isinstance(e, (int, slice)) and e is not None and e is not Ellipsis for e in entries):
        return None
    at, starts, ends, steps, axes = 0, [], [], [], []
    taken = sum(e is not None and e is not Ellipsis for e in entries)
    for entry in entries:
        if entry is None:
            continue
        if entry is Ellipsis:
            at += x.ndim - taken
            continue
        if isinstance(entry, slice):
            first, last, step = entry.indices(x.shape[at])
        else:
            first, step = int(entry) % x.shape[at], 1
            last = first + 1
        if (first, last, step) != (0, x.shape[at], 1):
            starts.append(first)
            ends.append(max(first, last))
            steps.append(step)
            axes.append(at)
        at += 1
    name = g.named(x)
    if axes:
        name = g.node("Slice", [name, g.array(starts), g.array(ends), g.array(axes), g.array(steps)])
    return g.node("Reshape", [name, g.array(list(y.shape))], allowzero=int(0 in y.shape))


# Ops that only move elements: any of them is a Gather of the flattened input.
_MOVES = ("_as_strided", "_diagonal", "_strided", "_windows", "_flip", "_roll", "_take", "_further_columns")


def _viewed(op: Op, x: Tensor, rest: tuple[Any, ...]) -> Any:
    """The numbers of the elements of a dense x that an op gives."""
    numbers = Tensor.from_buffer(_numbers_of(x).tobytes(), x.shape, "int64")
    found: Tensor = (op.definition or op.host)(numbers, *rest)  # type: ignore[misc]
    return found.numpy().astype(np.int64)


def _moved(g: _Graph, op: Op, y: Tensor, x: Tensor, rest: tuple[Any, ...]) -> str:
    flat = g.node("Reshape", [g.named(x), g.array([-1])])
    return g.node("Gather", [flat, g.array(_viewed(op, x, rest))], axis=0)


def _refuse_complex(op: Op, y: Any) -> None:
    if isinstance(y, Tensor) and y.dtype.is_complex:
        raise ModelError(
            f"the op {op.name.strip('_')!r} gives complex numbers, which ONNX cannot compute with",
            hint="Compute with their real and imaginary parts",
        )


def traced(
    function: Callable[..., Any], inputs: Sequence[Tensor], names: Mapping[int, str], given: Sequence[str]
) -> Any:
    """(graph, outputs): what the function computes of the inputs, which have the names `given`."""
    graph = _Graph(names)
    for x, name in zip(inputs, given, strict=True):
        graph.give(x, name)

    def observe(op: Op, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if not any(graph.is_computed(argument) for argument in args):
            return run()
        writer, before = _WRITERS.get(op.name), len(graph.nodes)
        if op.name in _MOVES or op.view:
            computed = any(graph.is_computed(argument) for argument in args[1:])
            if computed and writer is not _take:
                raise ModelError(
                    f"{op.name.strip('_')} with places that depend on the inputs cannot be written as ONNX"
                )
            y = run()
            _refuse_complex(op, y)
            name = writer(graph, y, *args) if writer else None
            if name is None and computed:
                raise ModelError(
                    f"{op.name.strip('_')} by bools, or by tensors beside numbers, that depend on the inputs cannot be "
                    "written as ONNX"
                )
            if name is None:
                x = args[0] if args[0].is_contiguous() or op.name not in ("_as_strided", "_strided") else None
                if x is None:
                    raise ModelError(f"{op.name.strip('_')} of a view cannot be written as ONNX")
                name = _moved(graph, op, y, args[0], args[1:])
            graph.give(y, name)
            return y
        if writer is None:
            if op.definition is not None:
                return NotImplemented
            raise ModelError(
                f"the op {op.name.strip('_')!r} cannot be written as ONNX", hint="Export a part of the model without it"
            )
        y = run()
        _refuse_complex(op, y)
        name = writer(graph, y, *args)
        if name is None:
            del graph.nodes[before:]
            if op.definition is not None:
                return NotImplemented
            raise ModelError(f"the op {op.name.strip('_')!r} cannot be written as ONNX with these arguments")
        graph.give(y, name)
        return y

    with observed(observe, graph.written):
        outputs = function()
    for x, version in graph.kept:
        if x.storage.version != version:
            raise ModelError(
                "a constant is written in place, which ONNX cannot say", hint="Compute a new tensor instead"
            )
    return graph, outputs


def _tensors(found: Any) -> list[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(found, Tensor):
        return [found]
    parts = found.values() if isinstance(found, Mapping) else found if isinstance(found, (list, tuple)) else None
    if parts is None:
        raise TypeError(f"export: the module gives {type(found).__name__}, expected tensors, or lists or dicts of them")
    return [x for part in parts if part is not None for x in _tensors(part)]


def export(
    module: Any, inputs: Tensor | Sequence[Tensor], file: AnySink, *, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Writes a module (or a function of tensors) as an ONNX file, which has the sizes of the example `inputs`.

    Parameters keep their names; block-quantised weights become float32. What Python decides by the values of tensors is
    decided as for the example. What is written in place becomes a new tensor. ModelError: an op has no form in ONNX.
    Modules should be in evaluation mode: dropout would be a constant mask.
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    names = list(input_names or [f"input_{at}" for at in range(len(given))])
    if len(names) != len(given) or len(set(names)) != len(names):
        raise ValueError(f"export: {len(given)} inputs and the names {names}")
    given = [x.detach().clone() for x in given]
    parameters: dict[int, str] = {}
    learning: list[Tensor] = []
    if hasattr(module, "named_parameters"):
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            parameters[id(tensor)] = name if name not in names else f"{name}_parameter"
            if tensor.requires_grad:
                learning.append(tensor)
                tensor.requires_grad_(False)
    try:
        graph, found = traced(lambda: module(*given), given, parameters, names)
    finally:
        for tensor in learning:
            tensor.requires_grad_(True)
    outputs = _tensors(found)
    titles = list(output_names or [f"output_{at}" for at in range(len(outputs))])
    if len(titles) != len(outputs):
        raise ValueError(f"export: {len(outputs)} outputs and the names {titles}")
    for x, title in zip(outputs, titles, strict=True):
        graph.nodes.append(("Identity", [graph.named(x)], [title], {}))
    with no_grad():
        _write(graph, list(zip(names, given, strict=True)), list(zip(titles, outputs, strict=True)), file)


# -- the file


def _attribute(name: str, value: Any) -> bytes:
    head = bytes_field(1, name)
    if isinstance(value, str):
        return head + bytes_field(4, value) + int_field(20, 3)
    if isinstance(value, float):
        return head + float_field(2, value) + int_field(20, 1)
    if isinstance(value, int):
        return head + int_field(3, value) + int_field(20, 2)
    return head + b"".join(int_field(8, part) for part in value) + int_field(20, 7)


def _info(name: str, x: Tensor) -> bytes:
    shape = b"".join(bytes_field(1, int_field(1, size)) for size in x.shape)
    kind = bytes_field(1, int_field(1, _code(x.dtype)) + bytes_field(2, shape))
    return bytes_field(1, name) + bytes_field(2, kind)


def _data(x: Tensor) -> Any:
    """The bytes of a dense tensor."""
    flat = x.detach().cpu().contiguous()
    return flat.storage.bytes_view()[flat.offset * flat.dtype.itemsize :][: flat.numel() * flat.dtype.itemsize]


def _live(graph: _Graph, outputs: Sequence[str]) -> list[Any]:
    """The nodes whose results are used."""
    wanted, kept = set(outputs), []
    for node in reversed(graph.nodes):
        if wanted & set(node[2]):
            kept.append(node)
            wanted |= set(node[1])
    graph.tensors = {name: x for name, x in graph.tensors.items() if name in wanted}
    return kept[::-1]


def _write(graph: _Graph, inputs: list[Any], outputs: list[Any], file: AnySink) -> None:
    nodes = _live(graph, [name for name, _ in outputs])
    dense = {name: quant.dequantize(x) if x.dtype.is_quantized else x for name, x in graph.tensors.items()}
    parts: list[bytes] = []
    for op, taken, made, attributes in nodes:
        body = b"".join(bytes_field(1, name) for name in taken) + b"".join(bytes_field(2, name) for name in made)
        body += bytes_field(3, made[0]) + bytes_field(4, op)
        body += b"".join(bytes_field(5, _attribute(name, value)) for name, value in attributes.items())
        parts.append(bytes_field(1, body))
    parts.append(bytes_field(2, "pyapp"))
    parts += [bytes_field(11, _info(name, x)) for name, x in inputs]
    parts += [bytes_field(12, _info(name, x)) for name, x in outputs]
    heads = {}
    size = sum(len(part) for part in parts)
    for name, x in dense.items():
        fields = b"".join(int_field(1, n) for n in x.shape) + int_field(2, _code(x.dtype)) + bytes_field(8, name)
        nbytes = x.numel() * x.dtype.itemsize
        inner = fields + bytes_head(9, nbytes)
        heads[name] = bytes_head(5, len(inner) + nbytes) + inner
        size += len(heads[name]) + nbytes
    if size > LARGEST:
        raise ModelError(f"the model has {size:,} bytes, an ONNX file at most {LARGEST:,}", hint="Export a part of it")
    start = int_field(1, IR_VERSION) + bytes_field(2, "pyapp")
    opset = bytes_field(8, bytes_field(1, "") + int_field(2, OPSET))
    with open_sink(file) as sink:
        _put(sink, start, bytes_head(7, size), *parts)
        for name, x in dense.items():
            _put(sink, heads[name], _data(x))
        _put(sink, opset)


def _put(sink: IO[bytes], *parts: Any) -> None:
    for part in parts:
        sink.write(part)
