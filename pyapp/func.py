"""Functions of functions, by torch.func's names: gradients, Jacobians, vmap; and calling a module with other weights.

They can be nested. vmap computes one example after the other and stacks the results. Where it can, it calls the
function for the first two only, and runs the kernels of the second call for the others. jacrev does so with the rows of
a Jacobian. What vmap then gives has its gradients from engine/late_gradients.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from .engine import autograd
from .engine.late_gradients import Examples, differentiable, is_small
from .engine.launch import capture_or_run, recorder
from .engine.ops import empty, stack, zeros, zeros_like
from .engine.ops.random import default_generator
from .engine.replay_for_each import Copy, replay_for_each
from .engine.tensor import Tensor
from .engine.user_errors import describe
from .nn.layers.channel_normalization import BatchNorm
from .nn.module import Module
from .nn.utils.stateless import functional_call
from .utils._pytree import tree_leaves, tree_map

Function = Callable[..., Any]


# -- nested containers: dicts, lists, tuples and those that utils._pytree.register_pytree_node was told of


def _like(value: Any, leaves: Iterator[Any]) -> Any:
    """The same containers with their elements replaced from an iterator."""
    return tree_map(lambda _: next(leaves), value)


# -- gradients


class _Inputs:
    """Copies of a function's inputs at which its gradient is taken: new nodes for inputs that an outer function
    differentiates, new leaves for others.
    """

    def __init__(self, value: Any, name: str) -> None:
        given = tree_leaves(value)
        if any(not isinstance(x, Tensor) or not x.dtype.has_gradient for x in given):
            shown = ", ".join(map(describe, given))
            raise TypeError(f"{name}: differentiates floating-point and complex tensors, got {shown}")
        with autograd.enable_grad():
            self.tensors = [x.view_as(x) if x._requires_grad else x.detach().requires_grad_() for x in given]
        self.value = _like(value, iter(self.tensors))
        self._own = {id(x) for x in self.tensors if x.node is None}

    def close(self) -> None:
        """Ends the function: gradients of outer functions do not depend on these leaves."""
        for x in self.tensors:
            if x.node is None:
                x.is_closed = True

    def finish(self, results: Any) -> Any:
        """Results without their graph, unless the graph leads to other tensors than these inputs."""
        self.close()
        return tree_map(lambda x: x if not isinstance(x, Tensor) or leads_out(x, self._own) else x.detach(), results)


def leads_out(result: Tensor, own: set[int]) -> bool:
    """Whether a tensor's graph leads to leaves other than those with these ids and those of functions that have
    ended."""
    if not result._requires_grad:
        return False
    seen: set[int] = set()
    stack: list[Any] = [autograd.edge_of(result)]
    while stack:
        edge = stack.pop()
        if edge is None or id(edge) in seen:
            continue
        seen.add(id(edge))
        if isinstance(edge, Tensor):
            if id(edge) not in own and not getattr(edge, "is_closed", False):
                return True
        else:
            stack.extend(edge.edges)
    return False


def _picked(argnums: int | tuple[int, ...], args: tuple[Any, ...], name: str) -> tuple[tuple[int, ...], Any]:
    every = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not -len(args) <= i < len(args) for i in every):
        raise RuntimeError(f"{name}: there is no argument {argnums} among {len(args)}")
    chosen = tuple(args[i] for i in every)
    return tuple(i % len(args) for i in every), chosen[0] if isinstance(argnums, int) else chosen


def _call(func: Function, args: tuple[Any, ...], kwargs: Any, every: tuple[int, ...], inputs: Any, single: bool) -> Any:
    changed = list(args)
    for i, value in zip(every, (inputs,) if single else inputs, strict=True):
        changed[i] = value
    with autograd.enable_grad():
        return func(*changed, **kwargs)


def _vjp(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], create_graph: bool = True
) -> list[Tensor]:
    """Gradients of the outputs; zeros for inputs that are not used."""
    taken = [(y, v) for y, v in zip(outputs, cotangents, strict=True) if y._requires_grad]
    if not taken:
        return [zeros_like(x) for x in inputs]
    found = autograd.grad(
        [y for y, _ in taken], inputs, [v for _, v in taken], retain_graph=True,
        create_graph=create_graph, materialize_grads=True,
    )  # fmt: skip
    return list(found)  # type: ignore[arg-type]


def grad_and_value(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """A function of the same arguments that returns (gradients, value) of `func`, which must return one number, ();
    with `has_aux` `func` returns (number, anything), and the result is (gradients, (number, anything)).
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        every, chosen = _picked(argnums, args, "grad")
        inputs = _Inputs(chosen, "grad")
        result = _call(func, args, kwargs, every, inputs.value, isinstance(argnums, int))
        value, aux = result if has_aux else (result, None)
        if not isinstance(value, Tensor) or value.ndim:
            raise RuntimeError(f"grad: takes functions that give one number, (); this one gave {describe(value)}")
        differentiated = leads_out(value, inputs._own)
        found = _vjp([value], inputs.tensors, [zeros_like(value) + 1], differentiated)
        gradients = inputs.finish(_like(chosen, iter(found)))
        value, aux = inputs.finish(value), inputs.finish(aux)
        return (gradients, (value, aux)) if has_aux else (gradients, value)

    return wrapped


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of `func`, which must return one number, with respect to the arguments
    `argnums` (tensors, or containers of them); with `has_aux` (gradient, second result of `func`).
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapped


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """(value, function): the function takes weights of the value's elements and returns the gradients of all `primals`
    (for a single one, its gradient); with `has_aux` also the second result of `func`.
    """
    inputs = _Inputs(primals, "vjp")
    with autograd.enable_grad():
        result = func(*inputs.value)
    value, aux = result if has_aux else (result, None)
    _require_gradients("vjp", value)

    def pull(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        found = _vjp(tree_leaves(value), inputs.tensors, tree_leaves(given))
        return inputs.finish(_like(primals, iter(found)))

    shown = inputs.finish(value)
    return (shown, pull, inputs.finish(aux)) if has_aux else (shown, pull)


def _require_gradients(name: str, value: Any) -> None:
    """RuntimeError for results without gradients: integers and bools."""
    for y in tree_leaves(value):
        if isinstance(y, Tensor) and not y.dtype.has_gradient:
            raise RuntimeError(f"{name}: All outputs of f must be floating-point or complex Tensors, got {describe(y)}")


class _Forward:
    """Derivatives of a function's value along tangents, from one run of it. The gradient of the value is linear in the
    weights of the value's elements; its own gradient in these weights, along the tangents, is the derivative.
    """

    def __init__(self, func: Function, primals: tuple[Any, ...], has_aux: bool, name: str) -> None:
        self.name = name
        self.inputs = _Inputs(primals, name)
        with autograd.enable_grad():
            result = func(*self.inputs.value)
            self.value: Any = result[0] if has_aux else result
            self.aux: Any = result[1] if has_aux else None
            self.outputs = tree_leaves(self.value)
            self.moving = [y for y in self.outputs if y.dtype.has_gradient]  # not integers and bools
            self.weights = [zeros_like(y).requires_grad_() for y in self.moving]
            self.found = _vjp(self.moving, self.inputs.tensors, self.weights)

    def require_dependence(self) -> None:
        """RuntimeError where an output depends on no input."""
        for at, y in enumerate(self.outputs):
            if not y._requires_grad:
                raise RuntimeError(f"{self.name}: output {at}, {describe(y)}, does not depend on the inputs")

    def along(self, tangents: tuple[Any, ...]) -> Any:
        """The derivative, in the structure of the value."""
        given = tree_leaves(tangents)
        shapes, ours = [getattr(t, "_shape", None) for t in given], [x._shape for x in self.inputs.tensors]
        if shapes != ours:
            raise RuntimeError(f"{self.name}: the tangents have the shapes {shapes}, the primals {ours}")
        moved = {id(y): zeros_like(y) for y in self.outputs}
        with autograd.enable_grad():
            pairs = [(g, t) for g, t in zip(self.found, given, strict=True) if g._requires_grad]
            if pairs:
                ways, by = [g for g, _ in pairs], [t for _, t in pairs]
                further: Any = autograd.grad(
                    ways, self.weights, by, retain_graph=True, create_graph=True, materialize_grads=True
                )
                moved.update(zip(map(id, self.moving), further, strict=True))
        self.inputs._own.update(id(w) for w in self.weights)
        return self.inputs.finish(_like(self.value, iter([moved[id(y)] for y in self.outputs])))


def jvp(
    func: Function, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> Any:
    """(value, derivative of the value along `tangents`): the gradient of a gradient, by reverse mode twice, so every op
    on the way needs a second derivative. With `strict` RuntimeError where an output depends on no input.
    """
    forward = _Forward(func, primals, has_aux, "jvp")
    if strict:
        forward.require_dependence()
    derivative = forward.along(tangents)
    shown = forward.inputs.finish(forward.value)
    return (shown, derivative, forward.inputs.finish(forward.aux)) if has_aux else (shown, derivative)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(value, function): the function takes tangents, one for each of `primals`, and gives the derivative of the value
    along them. `func` runs once; the derivatives come from what it left, by reverse mode twice.
    """
    forward = _Forward(func, primals, False, "linearize")
    return forward.inputs.finish(forward.value), lambda *tangents: forward.along(tangents)


def jacrev(func: Function, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, **_: Any) -> Function:
    """A function that gives the Jacobian of `func`: for each output and each argument in `argnums` a tensor of the
    shapes of both, one after the other. One backward pass for each element of the outputs. All are real.
    """

    return _jacobian("jacrev", func, argnums, has_aux)


def _jacobian(name: str, func: Function, argnums: int | tuple[int, ...], has_aux: bool) -> Function:
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        every, chosen = _picked(argnums, args, name)
        inputs = _Inputs(chosen, name)
        result = _call(func, args, kwargs, every, inputs.value, isinstance(argnums, int))
        value, aux = result if has_aux else (result, None)
        if name == "jacrev":
            _require_gradients(name, value)
        for y in (*inputs.tensors, *tree_leaves(value)):
            if isinstance(y, Tensor) and y.dtype.is_complex:
                raise RuntimeError(f"{name}: takes real inputs and outputs, not {describe(y)}; use jvp or vjp")

        def rows(y: Tensor) -> Any:
            if not y.dtype.has_gradient:
                return _like(chosen, iter([y.new_zeros((*y.shape, *x.shape)) for x in inputs.tensors]))
            parts = _rows_of_jacobian(y, inputs)
            shaped = [p.reshape((*y.shape, *x.shape)) for p, x in zip(parts, inputs.tensors, strict=True)]
            return _like(chosen, iter(shaped))

        jacobian = inputs.finish(tree_map(rows, value))
        return (jacobian, inputs.finish(aux)) if has_aux else jacobian

    return wrapped


def _rows_of_jacobian(y: Tensor, inputs: _Inputs) -> list[Tensor]:
    """The gradients of each element of y, stacked: (elements, *shape) for each input."""
    count, differentiated = y.numel(), leads_out(y, inputs._own)
    if not count:
        return [x.new_zeros((0, *x.shape)) for x in inputs.tensors]
    if count >= _FROM and y._requires_grad and not differentiated and recorder() is None:
        parts = _rows_by_kernels(y, inputs.tensors)
        if parts is not None:
            return parts
    found = [_vjp([y], inputs.tensors, [_unit(y, i)], differentiated) for i in range(count)]
    return [stack(list(part), 0) for part in zip(*found, strict=True)]


def _rows_by_kernels(y: Tensor, tensors: list[Tensor]) -> list[Tensor] | None:
    """The same by the kernels of the first row. None where they cannot be run for others."""
    count = y.numel()
    cotangent = zeros(y.shape, dtype=y.dtype, device=y.device)
    cotangent.reshape(-1)[0] = 1
    line = zeros(2 * count - 1, dtype=y.dtype, device=y.device)  # that of element i begins at count - 1 - i
    line[count - 1] = 1
    found, graph, recording = capture_or_run(
        lambda: [x.contiguous() for x in _vjp([y], tensors, [cotangent], create_graph=False)]
    )
    if graph is None or recording.gradients:
        return None
    parts = [empty((count, *x.shape), dtype=x.dtype, device=x.device) for x in found]
    given = [Copy(cotangent, line[count - 1 :], -y.dtype.itemsize)]
    taken = [_rows_to(part, x, 0) for part, x in zip(parts, found, strict=True)]
    return parts if replay_for_each(recording, given, taken, count) else None


def _rows_to(rows: Tensor, x: Tensor, first: int) -> Copy:
    """x becomes the rows of a dense tensor, from `first` on."""
    return Copy(rows[first], x, rows.strides[0] * rows.dtype.itemsize)


def _unit(like: Tensor, i: int) -> Tensor:
    """Zeros with a one at a flat index."""
    found = zeros(like.numel(), dtype=like.dtype, device=like.device)
    found[i] = 1
    return found.reshape(like.shape)


def jacfwd(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, **_: Any) -> Function:
    """The Jacobian, computed as jacrev does: there is no forward mode. That of integers and bools is 0."""
    return _jacobian("jacfwd", func, argnums, has_aux)


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """A function that gives the second derivatives of `func`."""
    return jacrev(jacrev(func, argnums), argnums)


# -- many examples


def _sizes(value: Any, dims: Any) -> list[tuple[Any, int | None]]:
    """(leaf, batch dim) for everything in an argument; one dim may apply to a whole container."""
    if isinstance(value, (list, tuple, dict)) and not isinstance(dims, (int, type(None))):
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        if len(dims) != len(value):
            raise ValueError(f"vmap: in_dims {dims!r} do not have the structure of the arguments")
        return [pair for key in keys for pair in _sizes(value[key], dims[key])]
    return [(leaf, dims if isinstance(leaf, Tensor) else None) for leaf in tree_leaves(value)]


def vmap(
    func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """A function over whole batches: what `func` gives for each example along `in_dims` (None: the same for all; one
    number for all arguments, or in their structure), stacked along `out_dims`. Gradients pass through.
    Keyword arguments are the same for all examples. `func` may not be called for every example: it should do nothing
    beside its results.
    With randomness="same" each call draws the same numbers, with "different" others; with "error" it is a RuntimeError
    to draw any, in the first call already.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness is 'error', 'different' or 'same', not {randomness!r:.40}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not isinstance(in_dims, (int, tuple, list)):
            raise ValueError(f"vmap: in_dims is a number, or a tuple with one for each argument, not {in_dims!r:.40}")
        pairs = _sizes(args, in_dims if isinstance(in_dims, int) else tuple(in_dims))
        for leaf, dim in pairs:
            if dim is not None and not -leaf.ndim <= dim < leaf.ndim:
                raise ValueError(f"vmap: in_dims {dim} of {describe(leaf)}, which has {leaf.ndim} dims")
        counts = {leaf.shape[dim] for leaf, dim in pairs if dim is not None}
        if len(counts) != 1:
            raise ValueError(f"vmap: the arguments have {sorted(counts) or 'no'} examples, not one number")
        count, state = counts.pop(), default_generator.get_state()
        if not count:
            raise ValueError("vmap: there is no example, so the shape of the results is not known")

        def example(i: int) -> Any:
            if randomness == "same":
                default_generator.set_state(state)
            leaves = iter([leaf if dim is None else leaf.select(dim, i) for leaf, dim in pairs])
            given = _like(args, leaves)
            with autograd.keep_graphs() if i < count - 1 else nullcontext():  # made outside, they serve all examples
                found = func(*given, **kwargs)
            if randomness == "error" and default_generator.get_state() != state:
                default_generator.set_state(state)
                raise RuntimeError("vmap: random numbers are drawn: say randomness='different' or randomness='same'")
            return found

        def again() -> list[Tensor]:
            nonlocal state
            state = default_generator.get_state()
            return _rows([example(i) for i in range(count)])

        versions = [leaf._storage.version if dim is not None and leaf.dense else 0 for leaf, dim in pairs]
        start = autograd._SERIAL()
        made = [example(0)]
        if count >= _FROM and randomness == "error" and _may_be_recorded(pairs, versions, made[0]):
            examples = Examples(lambda given: tree_leaves(func(*_like(args, iter(given)), **kwargs)), pairs, count)
            results = tree_leaves(made[0])
            edges = examples.learnt(results, start) if any(x._requires_grad for x in results) else []
            if edges is not None:
                others = _of_the_others(lambda given: func(*_like(args, given), **kwargs), examples, edges)
                if others.rows is not None:
                    rows = [*map(_with_first, others.rows, results)]
                    if edges:
                        needs = [x._requires_grad for x in results]
                        rows = differentiable(examples, edges, rows, needs, again)
                    return _arranged(made[0], rows, out_dims)
                made += others.made
        made += [example(i) for i in range(len(made), count)]
        return _arranged(made[0], _rows(made), out_dims)

    return wrapped


_FROM = 6  # examples, from which a recording takes less time than calls


def _may_be_recorded(pairs: list[tuple[Any, int | None]], versions: list[int], first: Any) -> bool:
    """Whether the kernels of one call can serve other examples, after the first gave `first`: tensors, and no example
    was written."""
    for (leaf, dim), version in zip(pairs, versions, strict=True):
        if dim is not None and (not leaf.dense or leaf.dtype.is_quantized or leaf._storage.version != version):
            return False
    results = tree_leaves(first)
    return recorder() is None and all(isinstance(x, Tensor) and x.dense for x in results)


class _Others(NamedTuple):
    """Results for examples after the first: one after the other, or where there are `rows` stacked, (examples, ...) for
    each leaf, without values for the first."""

    made: list[Any]
    rows: list[Tensor] | None = None


def _of_the_others(call: Function, examples: Examples, edges: list[Any]) -> _Others:
    """What `call(leaves)` gives for the examples from the second on, by its kernels; for the second alone where it
    computes anything without them. Where results have gradients, those of `edges`, they come from their rows alone.
    """
    pairs, count = examples.arguments, examples.size
    held = [leaf if dim is None else leaf.detach().select(dim, 1).clone().contiguous() for leaf, dim in pairs]
    if edges:
        with examples.constant(edges), autograd.keep_graphs():
            try:
                outputs, graph, recording = capture_or_run(lambda: tree_map(_dense, call(iter(held))))
            except RuntimeError:  # the function asks for gradients of learnt tensors itself
                return _Others([])
    else:
        outputs, graph, recording = capture_or_run(lambda: tree_map(_dense, call(iter(held))))
    leaves = tree_leaves(outputs)
    if graph is None or recording.gradients or any(not isinstance(x, Tensor) or x._requires_grad for x in leaves):
        return _Others([] if edges else [outputs])
    if edges and not (is_small(recording) and all(x.is_contiguous() for x in leaves)):
        return _Others([])
    moving = [(to, leaf.detach(), dim) for to, (leaf, dim) in zip(held, pairs, strict=True) if dim is not None]
    if all(x.is_contiguous() for x in leaves):
        rows = [empty((count, *x.shape), dtype=x.dtype, device=x.device) for x in leaves]
        sources = [leaf.movedim(dim, 0).contiguous() for _, leaf, dim in moving]
        given = [
            Copy(to, source[1], source.strides[0] * source.dtype.itemsize)
            for (to, *_), source in zip(moving, sources, strict=True)
        ]
        if replay_for_each(recording, given, [*map(_rows_to, rows, leaves, [1] * len(rows))], count - 1):
            return _Others([], rows)
    if edges:
        return _Others([])
    found = [_like(outputs, iter([x.clone() for x in leaves]))]
    with autograd.no_grad():
        for i in range(2, count):
            for to, leaf, dim in moving:
                to.copy_(leaf.select(dim, i))
            graph.replay()
            found.append(_like(outputs, iter([x.clone() for x in leaves])))
    return _Others(found)


def _dense(x: Any) -> Any:
    """A tensor row-major in memory; what is no tensor as it is."""
    return x.contiguous() if isinstance(x, Tensor) and x.dense else x


def _with_first(rows: Tensor, first: Tensor) -> Tensor:
    rows[0].copy_(first)
    return rows


def _rows(made: list[Any]) -> list[Tensor]:
    """The results of all examples, stacked: (examples, ...) for each leaf."""
    columns = list(zip(*map(tree_leaves, made), strict=True))
    for column in columns:
        if not all(isinstance(x, Tensor) for x in column):
            raise ValueError(f"vmap: the function must give tensors, not {type(column[0]).__name__}")
    return [stack(list(column), 0) for column in columns]


def _arranged(like: Any, rows: list[Tensor], out_dims: Any) -> Any:
    """Results (examples, ...) with the examples along `out_dims`, in the containers of those of one example."""
    dims = [out_dims] * len(rows) if isinstance(out_dims, (int, type(None))) else tree_leaves(out_dims)
    if len(dims) != len(rows):
        raise ValueError(f"vmap: out_dims {out_dims!r} for {len(rows)} results")
    found = [x[0] if dim is None else x if dim == 0 else x.movedim(0, dim) for x, dim in zip(rows, dims, strict=True)]
    return _like(like, iter(found))


# -- modules as functions


def functionalize(func: Function, *, remove: str = "mutations") -> Function:
    """`func` itself: torch's turns writes in place into ops with new results, for tracers that know no writes; here
    they are recorded as they are. `remove`: "mutations" or "mutations_and_views", as in torch.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove is 'mutations' or 'mutations_and_views', not {remove!r:.40}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Has every batch normalisation in `root` normalise by the batch and keep no averages, so that it writes no buffer
    inside `vmap` and functional_call. In place; returns `root`.
    """
    for module in root.modules():
        if isinstance(module, BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The stacked parameters and buffers of modules of one kind, for vmap of functional_call."""
    if not models:
        raise RuntimeError("stack_module_state: takes at least one module")
    if len({type(m) for m in models}) > 1 or len({tuple(m.state_dict()) for m in models}) > 1:
        kinds = ", ".join(sorted({type(m).__name__ for m in models}))
        raise RuntimeError(f"stack_module_state: takes modules of one class with the same parameters, not {kinds}")
    parameters = {
        name: stack([dict(m.named_parameters())[name].detach() for m in models]).requires_grad_()
        for name, _ in models[0].named_parameters()
    }
    buffers = {n: stack([dict(m.named_buffers())[n] for m in models]) for n, _ in models[0].named_buffers()}
    return parameters, buffers


__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
__top_level__ = ["vmap"]
