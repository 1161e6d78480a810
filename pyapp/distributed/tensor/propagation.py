"""Ops of DTensors, from the parts that the processes have.

A rule gives each dim of an op's tensors a label, as einsum does. Along a label of the result all processes can compute
with parts; along one that the op sums over, they get summands. For each dim of the mesh the cheapest choice is taken,
and what does not fit is redistributed before. An op without a rule is computed by its definition in other ops, or else
with the whole, by every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf, prod
from typing import Any

from ...engine import Tensor, enable_grad, no_grad, ops
from ...engine.declare import FUNCTIONS, METHODS
from ...engine.dtype import float32, int64
from ...engine.grad_mode import STATE
from ...engine.op import OPS, Op
from ...engine.processes.differentiable import share_of, sum_of_gradients
from ...engine.processes.mesh import DeviceMesh
from ...engine.shape import broadcast_shapes, normalize_dim
from ...engine.user_errors import NotDense, describe
from ...errors import ArgumentError
from .dtensor import (
    THREAD,
    DistributedArgument,
    DTensor,
    distributed,
    implicit_replication,
)
from .placement_types import Partial, Placement, Replicate, Shard
from .redistribution import Placements, local_shape, redistributed

Labels = Sequence[Any]  # one for each dim; None: the op needs all of it
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
_ELEMENTWISE = ("elementwise", "activation", "shrinking")  # modules of pyapp.engine.ops whose ops are so


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers what computes the operations of these names: `function(name, *args)`. It may return NotImplemented."""

    def register(function: Rule) -> Rule:
        RULES.update((name, function) for name in names)
        return function

    return register


# -- finding what computes an operation


def run(error: DistributedArgument, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operation that has read the memory of a DTensor; NotImplemented where it has none."""
    args = tuple(args)
    if not any(True for _ in _every((args, kwargs))):
        return NotImplemented
    own = name.strip("_") if name.startswith("__") else name
    found = RULES.get(own)
    if found is None and _is_elementwise(own):
        found = _elementwise
    if found is not None and not kwargs:
        result = found(own, *args)
        if result is not NotImplemented:
            return result
    if own.endswith("_") and not own.startswith("_"):
        return _in_place(own, args, kwargs)
    _refuse_plain((args, kwargs))
    result = _by_parts(own, args, kwargs)
    return _with_wholes(own, args, kwargs) if result is NotImplemented else result


def _is_elementwise(name: str) -> bool:
    operation = OPS.get(name)
    if operation is None or not operation.module.startswith("pyapp.engine.ops.") or name.startswith("_move"):
        return False
    return operation.module.split(".")[3] in _ELEMENTWISE and name not in ("glu",) and not name.endswith("_backward")


def _every(value: Any) -> Iterable[DTensor]:
    """The DTensors among arguments."""
    if isinstance(value, DTensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _every(each)
    elif isinstance(value, dict):
        yield from _every(tuple(value.values()))


def _changed(value: Any, change: Callable[[Any], Any], kind: type = DTensor) -> Any:
    """Arguments in which each tensor of a kind is replaced."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, (list, tuple)):
        made = [_changed(each, change, kind) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return {key: _changed(each, change, kind) for key, each in value.items()} if isinstance(value, dict) else value


def _by_parts(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result by the op's definition in other ops, or by the function's own body; else NotImplemented."""
    operation = OPS.get(name)
    compute: Any = None
    if operation is not None:
        compute = None if operation.view else operation.definition
    elif name in FUNCTIONS and not isinstance(FUNCTIONS[name].value, Op):
        compute = FUNCTIONS[name].value
    if compute is None:
        return NotImplemented
    if not STATE.enabled:  # views take other ways without gradients, which read memory
        args, kwargs = _changed((args, kwargs), lambda x: x.detach())
    with enable_grad(), implicit_replication():
        try:
            return compute(*args, **kwargs)
        except NotDense:
            return NotImplemented


def _with_wholes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result from whole tensors, by every process: replicated."""
    function = _function(name)
    if function is None:
        return NotImplemented
    mesh = _mesh_of(list(_every((args, kwargs))))
    args, kwargs = _changed((args, kwargs), lambda x: x.full_tensor())
    found = function(*args, **kwargs)
    whole = (Replicate(),) * mesh.ndim
    return _changed(found, lambda x: distributed(x, mesh, whole, x.shape), Tensor)


def _function(name: str) -> Callable[..., Any] | None:
    """The operation of a name, as an error tells it."""
    if name in OPS:
        return OPS[name].call
    if name in FUNCTIONS:
        return FUNCTIONS[name].value
    for known in (name, f"__{name}__"):
        if known in METHODS and callable(found := getattr(Tensor, known, None)):
            return found
    return None


def _mesh_of(tensors: Sequence[DTensor]) -> DeviceMesh:
    """The mesh of all. ArgumentError where they are on several."""
    mesh = tensors[0].device_mesh
    for other in tensors[1:]:
        if mesh != other.device_mesh:
            raise ArgumentError(f"DTensors of one operation are on one mesh, not on {mesh!r} and {other.device_mesh!r}")
    return mesh


def _refuse_plain(values: Any) -> None:
    """An error for a plain tensor, of which nothing says how the processes have it. One number is the same for all."""

    def check(value: Tensor) -> None:
        if not isinstance(value, DTensor) and (value.numel() != 1 or value.requires_grad):
            raise DistributedArgument(
                f"{describe(value)} is a plain tensor beside a DTensor: make it one with distribute_tensor or "
                "DTensor.from_local, or compute inside implicit_replication()"
            )

    if not THREAD.replicates:
        _changed(values, check, Tensor)


def _lifted(args: Sequence[Any]) -> tuple[DeviceMesh, list[Any]]:
    """The arguments with plain tensors as replicated DTensors. An error for those that need a decision."""
    mesh = _mesh_of(list(_every(tuple(args))))
    _refuse_plain(tuple(args))
    whole = (Replicate(),) * mesh.ndim
    return mesh, [
        distributed(x, mesh, whole, x.shape) if isinstance(x, Tensor) and not isinstance(x, DTensor) else x
        for x in args
    ]


# -- planning


class _Plan:
    """Along which label each dim of the mesh divides an operation, and where every tensor must be for it."""

    def __init__(
        self, mesh: DeviceMesh, tensors: Sequence[tuple[DTensor, Labels]], result: Labels, summed: Labels = (),
        sums: Sequence[frozenset[int]] = (),
    ) -> None:  # fmt: skip
        self.mesh, self.tensors = mesh, tensors
        self.chosen: list[Any] = []  # by dim of the mesh: a label, the tensors that are summands, or None
        self.placements: list[Placement] = []
        wanted: list[list[Placement]] = [[] for _ in tensors]
        free = {label for label in (*result, *summed) if label is not None}
        for at in range(mesh.ndim):
            options: list[Any] = []  # of equally cheap ones the first is taken: parts before summands
            partial = frozenset(i for i, (x, _) in enumerate(tensors) if x.placements[at] == Partial())
            for x, labels in tensors:
                place = x.placements[at]
                if isinstance(place, Shard) and labels[place.dim] in free and labels[place.dim] not in options:
                    options.append(labels[place.dim])
            options.sort(key=lambda label: label in summed)
            if partial and partial in sums:
                options.append(partial)
            options.append(None)
            best = min(options, key=lambda option: self._cost(option, at))
            for i in range(len(tensors)):
                wanted[i].append(self._target(best, i, at))
            self.chosen.append(best)
            self.placements.append(
                Replicate() if best is None else Partial() if isinstance(best, frozenset) or best in summed
                else Shard(list(result).index(best))
            )  # fmt: skip
        self.wanted = [tuple(places) for places in wanted]

    def _target(self, option: Any, i: int, at: int) -> Placement:
        """The placement of a tensor on a dim of the mesh."""
        x, labels = self.tensors[i]
        if isinstance(option, frozenset):
            return Partial() if i in option else Replicate()
        return Shard(list(labels).index(option)) if option is not None and option in labels else Replicate()

    def _cost(self, option: Any, at: int) -> int:
        """The elements that are sent."""
        total = 0
        for i, (x, _) in enumerate(self.tensors):
            own, target = x.placements[at], self._target(option, i, at)
            if own != target and not isinstance(own, Replicate):
                total += x.numel() * (2 if isinstance(own, Partial) and isinstance(target, Replicate) else 1)
        return total

    def locals(self) -> list[Tensor]:
        """What this process computes with."""
        found = []
        for (x, _), wanted in zip(self.tensors, self.wanted, strict=True):
            local = redistributed(x._local_tensor, x.shape, self.mesh, x.placements, wanted)
            if STATE.enabled and local.requires_grad:
                for at, (place, option) in enumerate(zip(wanted, self.chosen, strict=True)):
                    if option is not None and isinstance(place, Replicate):  # each meets a part of what follows
                        local = sum_of_gradients(local, self.mesh.get_group(at))
            found.append(local)
        return found

    def result(self, local: Tensor, shape: Sequence[int]) -> DTensor:
        return distributed(local, self.mesh, tuple(self.placements), shape)


def _planned(
    name: str, args: Sequence[Any], labels: Mapping[int, Labels], result: Labels, shape: Sequence[int],
    summed: Labels = (), sums: Sequence[frozenset[int]] = (), compute: Callable[..., Tensor] | None = None,
) -> Any:  # fmt: skip
    """The result of an op whose arguments with these places are tensors with these labels."""
    mesh, args = _lifted(args)
    at = [i for i in labels if isinstance(args[i], Tensor)]
    plan = _Plan(mesh, [(args[i], labels[i]) for i in at], result, summed, sums)
    for i, local in zip(at, plan.locals(), strict=True):
        args[i] = local
    return plan.result((compute or OPS[name].call)(*args), shape)


# -- elementwise

_SUM_OF_BOTH = (frozenset((0, 1)),)
_LINEAR: dict[str, tuple[frozenset[int], ...]] = {  # which summands may stay summands
    "add": _SUM_OF_BOTH, "sub": _SUM_OF_BOTH, "mul": (frozenset((0,)), frozenset((1,))), "div": (frozenset((0,)),),
    "neg": (frozenset((0,)),), "clone": (frozenset((0,)),), "contiguous": (frozenset((0,)),),
}  # fmt: skip


def _aligned(shape: Sequence[int], whole: Sequence[int]) -> list[Any]:
    """The labels of a tensor that is broadcast to a shape: the dims of the result."""
    extra = len(whole) - len(shape)
    return [i + extra if n == whole[i + extra] else None for i, n in enumerate(shape)]


def _elementwise(name: str, *args: Any) -> Any:
    tensors = {i: x for i, x in enumerate(args) if isinstance(x, Tensor)}
    if any(isinstance(x, (list, tuple)) for x in args):
        return NotImplemented
    shape = broadcast_shapes(*(x.shape for x in tensors.values()), op=name)
    labels = {i: _aligned(x.shape, shape) for i, x in tensors.items()}
    sums = _LINEAR.get(name, ())
    if name in ("add", "sub") and len(tensors) < 2:  # a number is added once
        sums = ()
    return _planned(name, args, labels, range(len(shape)), shape, sums=sums)


@rule("contiguous")
def _contiguous(name: str, x: DTensor, *_: Any) -> DTensor:
    return x


@rule("_prelu")
def _prelu(name: str, x: Tensor, weight: Tensor, *rest: Any) -> Any:
    return NotImplemented if weight.numel() != 1 else _planned(
        name, (x, weight, *rest), {0: range(x.ndim), 1: [None] * weight.ndim}, range(x.ndim), x.shape
    )  # fmt: skip


# -- products


@rule("matmul")
def _matmul(name: str, a: Tensor, b: Tensor) -> Any:
    """(..., m, k) @ (..., k, n)."""
    if min(a.ndim, b.ndim) < 1:
        return NotImplemented
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], op=name)
    of_a = [*_aligned(a.shape[:-2], batch), *(["m"] if a.ndim > 1 else []), "k"]
    of_b = [*_aligned(b.shape[:-2], batch), "k", *(["n"] if b.ndim > 1 else [])]
    result = [*range(len(batch)), *(["m"] if a.ndim > 1 else []), *(["n"] if b.ndim > 1 else [])]
    shape = (*batch, *(a.shape[-2:-1] if a.ndim > 1 else ()), *(b.shape[-1:] if b.ndim > 1 else ()))
    return _planned(name, (a, b), {0: of_a, 1: of_b}, result, shape, ("k",), (frozenset((0,)), frozenset((1,))))


@rule("_linear")
def _linear(name: str, x: Tensor, weight: Tensor, bias: Any = None, residual: Any = None) -> Any:
    """x (..., k), weight (n, k), bias (n,), residual (..., n). Bias and residual are added once, after the sum."""
    if weight.dtype.is_quantized:
        return NotImplemented
    rows = [*range(x.ndim - 1)]
    shape = (*x.shape[:-1], weight.shape[0])
    labels: dict[int, Labels] = {0: [*rows, "k"], 1: ["n", "k"]}
    mesh, args = _lifted([x, weight, bias, residual])
    sums = (frozenset((0,)), frozenset((1,)))
    plan = _Plan(mesh, [(args[i], labels[i]) for i in labels], [*rows, "n"], ("k",), sums)
    if any(isinstance(place, Partial) for place in plan.placements):
        y: Any = plan.result(OPS[name].call(*plan.locals()), shape)
        y = y if bias is None else y + args[2]
        return y if residual is None else y + args[3]
    return _planned(name, args, labels | {2: ["n"], 3: [*rows, "n"]}, [*rows, "n"], shape)


@rule("_linear_activated")
def _linear_activated(name: str, *args: Any) -> Any:
    definition: Any = OPS[name].definition
    return definition(*args)


@rule("_embedding")
def _embedding(name: str, weight: Any, ids: Any) -> Any:
    """weight (V, D), ids (...) → (..., D). Of rows of the weight each process looks up its own; the whole is a sum."""
    mesh, (weight, ids) = _lifted((weight, ids))
    shape = (*ids.shape, weight.shape[1])
    rows = [at for at, place in enumerate(weight.placements) if place == Shard(0)]
    labels = {0: [None, "d"], 1: range(ids.ndim)}
    if len(rows) != 1:
        return _planned(name, (weight, ids), labels, [*range(ids.ndim), "d"], shape)
    (at,) = rows
    kept = tuple(Replicate() if i == at else place for i, place in enumerate(weight.placements))
    ids = ids.redistribute(placements=[Replicate() if i == at else p for i, p in enumerate(ids.placements)])
    group, total = mesh.get_group(at), local_shape(weight.shape, mesh, weight.placements[:at] + kept[at:])[0]
    first, count = share_of(total, group)
    plan = _Plan(mesh, [(distributed(weight._local_tensor, mesh, kept, weight.shape), labels[0]), (ids, labels[1])],
                 [*range(ids.ndim), "d"])  # fmt: skip
    local, own = plan.locals()
    own = own - first
    here = (own >= 0).logical_and(own < count)  # (...)
    if count:
        found = OPS[name].call(local, ops.where(here, own, 0).to(ids.dtype)) * here.unsqueeze(-1)
    else:  # more processes than rows
        found = local.new_zeros(*own.shape, local.shape[1]) + local.sum()
    plan.placements[at] = Partial()
    return plan.result(found, shape)


# -- reductions


def _dims(name: str, x: Tensor, dim: Any) -> list[int]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return [*range(x.ndim)]
    return [normalize_dim(d, x.ndim, name) for d in (dim if isinstance(dim, (list, tuple, range)) else (dim,))]


def _reduced(name: str, x: Tensor, dim: Any, keepdim: bool, rest: Sequence[Any], adds: bool) -> Any:
    gone = _dims(name, x, dim)
    labels = [i if adds or i not in gone else None for i in range(x.ndim)]
    if keepdim:
        result = [None if i in gone else i for i in range(x.ndim)]
        shape = [1 if i in gone else n for i, n in enumerate(x.shape)]
    else:
        result = [i for i in range(x.ndim) if i not in gone]
        shape = [x.shape[i] for i in result]  # type: ignore[index]
    summed, sums = (gone, (frozenset((0,)),)) if adds else ((), ())
    return _planned(name, (x, dim, keepdim, *rest), {0: labels}, result, shape, summed, sums)


@rule("sum")
def _sum(name: str, x: Tensor, dim: Any = None, keepdim: bool = False, *rest: Any) -> Any:
    return _reduced(name, x, dim, keepdim, rest, x.dtype.is_floating_point or x.dtype.category == 1)


@rule("amax", "amin", "any", "all")
def _extreme(name: str, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    return _reduced(name, x, dim, keepdim, (), False)


# -- along one dim


def _along(name: str, x: Tensor, dims: Iterable[int], *rest: Any) -> Any:
    """An op that needs whole dims, and keeps the shape."""
    whole = {normalize_dim(d, x.ndim, name) for d in dims} if x.ndim else set()
    labels = [None if i in whole else i for i in range(x.ndim)]
    return _planned(name, (x, *rest), {0: labels}, labels, x.shape)


@rule("softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp")
def _along_dim(name: str, x: Tensor, dim: Any = -1, *rest: Any) -> Any:
    return NotImplemented if not isinstance(dim, int) else _along(name, x, (dim,), dim, *rest)


@rule("tril", "triu")
def _triangle(name: str, x: Tensor, diagonal: int = 0) -> Any:
    return _along(name, x, (-1, -2), diagonal)


@rule("_flip")
def _flip(name: str, x: Tensor, dims: Sequence[int]) -> Any:
    return _along(name, x, dims, dims)


@rule("layer_norm", "_rms_norm")
def _norm(name: str, x: Tensor, *rest: Any) -> Any:
    """x (..., D), weight and bias (D,)."""
    labels = [*range(x.ndim - 1), None]
    of_weights = {i: [None] for i, value in enumerate(rest, 1) if isinstance(value, Tensor)}
    with implicit_replication():  # the weights of a norm without any are plain tensors of the engine
        return _planned(name, (x, *rest), {0: labels} | of_weights, labels, x.shape)


@rule("_attention", "_masked_attention")
def _attention(name: str, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Any:
    """q (B, T, H, D), k and v (B, S, KV, D), divided along batch and, as far as groups stay together, heads."""
    heads, kv = q.shape[2], k.shape[2]
    mesh = _mesh_of(list(_every((q, k, v))))
    together = heads == kv or all(kv % n == 0 for n in mesh.shape)
    head = "h" if together else None
    labels: dict[int, Labels] = {0: ["b", None, head, None], 1: ["b", None, head, None], 2: ["b", None, head, None]}
    if name == "_masked_attention" and isinstance(rest[0], Tensor):
        mask = rest[0]
        labels[3] = ["b" if mask.shape[0] == q.shape[0] else None, head if mask.shape[1] == heads else None, None, None]
    shape = (*q.shape[:3], v.shape[3])
    return _planned(name, (q, k, v, *rest), labels, ["b", None, head, None], shape)


@rule("_rope")
def _rope(name: str, x: Tensor, table: Tensor, position: Any, interleaved: bool) -> Any:
    """x (..., T, H, D)."""
    if isinstance(position, Tensor) and position.numel() > 1:
        return NotImplemented
    labels = [*range(x.ndim - 3), None, "h", None]
    others = {i: [None] * value.ndim for i, value in ((1, table), (2, position)) if isinstance(value, Tensor)}
    with implicit_replication():
        return _planned(name, (x, table, position, interleaved), {0: labels} | others, labels, x.shape)


@rule("gather")
def _gather(name: str, x: Tensor, dim: int, index: Tensor) -> Any:
    d = normalize_dim(dim, x.ndim, name)
    same = [i != d and n == m for i, (n, m) in enumerate(zip(x.shape, index.shape, strict=True))]
    labels = [i if fits else None for i, fits in enumerate(same)]
    return _planned(name, (x, dim, index), {0: labels, 2: labels}, labels, index.shape)


@rule("_cross_entropy")
def _cross_entropy(name: str, logits: Any, targets: Any, ignore_index: int, wide: bool) -> Any:
    """logits (N, C), targets (N,) → (). Of classes that one dim of the mesh divides, each process computes its summand
    of the softmax; the whole logits are nowhere."""
    mesh, (logits, targets) = _lifted((logits, targets))
    divided = [at for at, place in enumerate(logits.placements) if place == Shard(1)]
    if len(divided) != 1:
        return NotImplemented
    (at,) = divided
    kept = [place if place.is_shard() else Replicate() for place in logits.placements]
    logits = logits.to(float32) if wide else logits
    local = logits.redistribute(placements=kept).to_local()  # (n, c)
    of_rows = [Replicate() if i == at else place for i, place in enumerate(kept)]
    targets = targets.redistribute(placements=of_rows)
    group = mesh.get_group(at)
    first, count = share_of(local_shape(logits.shape, mesh, of_rows)[1], group)
    with no_grad():
        most = local.amax(1) if count else local.new_full((local.shape[0],), -inf)  # (n,)
        most = group.combined(most.detach(), "MAX")
    shifted = local - most.unsqueeze(1)  # (n, c)
    own = targets.to_local().to(int64) - first  # (n,)
    here = (own >= 0).logical_and(own < count)
    if count:
        chosen = shifted.gather(1, ops.where(here, own, 0).unsqueeze(1)).squeeze(1)  # (n,)
        chosen = ops.where(here, chosen, 0.0)
    else:  # more processes than classes
        chosen = shifted.sum(1)
    summand, rows = [Partial() if i == at else place for i, place in enumerate(kept)], logits.shape[:1]
    total, found = (
        distributed(x, mesh, tuple(summand), rows).redistribute(placements=of_rows)
        for x in (shifted.exp().sum(1), chosen)
    )
    ignored = targets == ignore_index
    losses = (total.log() - found).masked_fill(ignored, 0.0)
    return losses.sum() / (~ignored).to(losses.dtype).sum()


# -- views


@rule("_permute")
def _permute(name: str, x: DTensor, dims: tuple[int, ...]) -> Any:
    shape = tuple(x.shape[d] for d in dims)
    return _planned(name, (x, dims), {0: range(x.ndim)}, dims, shape, sums=(frozenset((0,)),))


@rule("_expand")
def _expand(name: str, x: DTensor, shape: tuple[int, ...]) -> Any:
    labels = _aligned(x.shape, shape)
    result = [i if i in labels else None for i in range(len(shape))]
    return _viewed(name, x, labels, result, shape)


def _viewed(name: str, x: DTensor, labels: Labels, result: Labels, shape: Sequence[int]) -> Any:
    """A view op whose one argument beside x is the shape of the result."""
    mesh = x.device_mesh
    plan = _Plan(mesh, [(x, labels)], result, sums=(frozenset((0,)),))
    (local,) = plan.locals()
    return plan.result(OPS[name].call(local, local_shape(shape, mesh, plan.placements)), shape)


def _kept_dims(before: Sequence[int], after: Sequence[int], mesh: DeviceMesh) -> list[int | None]:
    """For each dim of `before` the dim of `after` that has its parts, where a reshape divides both alike. Of dims that
    are joined or split, that is the first one of each side."""
    found: list[int | None] = [None] * len(before)
    i = j = 0
    while i < len(before) and j < len(after):
        first, second = i, j
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while left != right and (i < len(before) if left < right else j < len(after)):
            if left < right:
                left, i = left * before[i], i + 1
            else:
                right, j = right * after[j], j + 1
        if left != right:
            return found
        # dims of size one before the group's first large one divide nothing
        while first < i - 1 and before[first] == 1:
            first += 1
        while second < j - 1 and after[second] == 1:
            second += 1
        one = first == i - 1 and second == j - 1
        whole = prod(mesh.shape)
        even = before[first] % whole == 0 and after[second] % whole == 0
        if one or (even and before[first] and after[second]):
            found[first] = second
    return found


@rule("_reshape")
def _reshape(name: str, x: DTensor, shape: tuple[int, ...]) -> Any:
    kept = _kept_dims(x.shape, shape, x.device_mesh) if x.numel() else [None] * x.ndim
    return _viewed(name, x, kept, [i if i in kept else None for i in range(len(shape))], shape)


@rule("_narrow", "narrow")
def _narrow(name: str, x: DTensor, dim: int, start: int, length: int) -> Any:
    d = normalize_dim(dim, x.ndim, name)
    start = start + x.shape[d] if start < 0 else start
    if (start, length) == (0, x.shape[d]):
        return x
    if not 0 <= start <= start + length <= x.shape[d]:
        raise IndexError(f"narrow: {start} .. {start + length} is outside dim {dim} of {describe(x)}")
    labels = [None if i == d else i for i in range(x.ndim)]
    shape = (*x.shape[:d], length, *x.shape[d + 1 :])
    return _planned(
        name, (x, d, start, length), {0: labels}, labels, shape, sums=(frozenset((0,)),), compute=ops.narrow
    )  # fmt: skip


def indexed(x: DTensor, index: Any) -> Tensor:
    """x[index]: integers, slices, None and an ellipsis of parts; anything else of the whole."""
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    plain = all(
        entry is None or entry is Ellipsis or (type(entry) is int)
        or (isinstance(entry, slice) and entry.step in (None, 1)) for entry in entries
    )  # fmt: skip
    if not plain or used > x.ndim or entries.count(Ellipsis) > 1:
        return _with_wholes("getitem", (x, index), {})
    at = entries.index(Ellipsis) if Ellipsis in entries else len(entries)
    entries[at : at + 1] = [slice(None)] * (x.ndim - used)
    found: Tensor = x
    shape: list[int] = []
    dim = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        size = x.shape[dim]
        if isinstance(entry, slice):
            start, stop, _ = entry.indices(size)
            found = _narrow("narrow", found, dim, start, max(stop - start, 0))
            shape.append(max(stop - start, 0))
        else:
            if not -size <= entry < size:
                raise IndexError(f"index: {entry} is out of range for dim {dim} of {describe(x)}")
            found = _narrow("narrow", found, dim, entry % size, 1)
        dim += 1
    return found if tuple(shape) == found.shape else _reshape("_reshape", found, tuple(shape))


def assign(x: DTensor, index: Any, value: Any) -> None:
    """x[index] = value, by the whole."""
    index, value = _changed((index, value), lambda given: given.full_tensor())
    whole = x.full_tensor().clone()
    whole[index] = value
    write(x, x._beside(whole))  # type: ignore[arg-type]


@rule("select")
def _select(name: str, x: DTensor, dim: int, index: int) -> Any:
    return indexed(x, (slice(None),) * normalize_dim(dim, x.ndim, name) + (index,))


@rule("_cat", "_stack")
def _joined(name: str, tensors: Sequence[Tensor], dim: int) -> Any:
    mesh, every = _lifted(tensors)
    rank = every[0].ndim + (name == "_stack")
    d = normalize_dim(dim, rank, name)
    if any(x.ndim != every[0].ndim for x in every):
        return NotImplemented
    if name == "_cat":
        labels: list[Any] = [None if i == d else i for i in range(rank)]
        result = labels
        shape = [sum(x.shape[i] for x in every) if i == d else n for i, n in enumerate(every[0].shape)]
    else:
        labels = [*range(rank - 1)]
        result = [*labels[:d], None, *labels[d:]]
        shape = [*every[0].shape[:d], len(every), *every[0].shape[d:]]
    plan = _Plan(mesh, [(x, labels) for x in every], result, sums=(frozenset(range(len(every))),))
    return plan.result(OPS[name].call(plan.locals(), dim), shape)


# -- writing in place


def _in_place(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`name_` of a DTensor: the result of `name`, in its placements, written into its part."""
    x = args[0]
    if not isinstance(x, DTensor):
        raise DistributedArgument("a DTensor is not written into a plain tensor: use its full_tensor()")
    if name == "zero_":
        x._local_tensor.zero_()
        return x
    found: Any
    if name == "copy_" and isinstance(args[1], Tensor):
        found = args[1]
        if not isinstance(found, DTensor):  # a whole, of which the first process's counts: it may be random
            found = x._beside(found, random=not (STATE.enabled and found.requires_grad))
    else:
        base = name[:-1]
        function = getattr(x, base, None)
        if base in ("fill", "copy"):
            function = partial(ops.full_like, x)
        if function is None:
            return NotImplemented
        found = function(*args[1:], **kwargs)
    if not isinstance(found, DTensor):
        return NotImplemented
    return write(x, found if found.shape == x.shape else found.expand(x.shape))  # type: ignore[arg-type]


def write(x: DTensor, found: DTensor) -> DTensor:
    """Writes a tensor of the same shape into another one's part."""
    wanted: Placements = x.placements
    x._local_tensor.copy_(redistributed(found._local_tensor, x.shape, x.device_mesh, found.placements, wanted))
    return x


__all__ = ["assign", "indexed", "run"]
