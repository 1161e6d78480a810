"""Reverse-mode differentiation: the graph of nodes that ops record, and the backward pass over it."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ..errors import ArgumentError
from .device import cpu
from .dtype import float32
from .grad_mode import ANOMALY, GROUPS, STATE, WATCHERS
from .launch import KERNELS, note_gradient
from .shape import Shape, dense_layout, is_packed
from .storage import CAPTURES
from .tensor import Tensor, empty_contiguous, set_attribute
from .thread_local import ThreadLocal

if TYPE_CHECKING:
    from typing import Self

    from .op import Op

Function = TypeVar("Function", bound=Callable[..., Any])


_YIELDS = 0x20  # the flag of a generator function's code


class _GradMode:
    """Context manager and decorator that turns the recording of the graph on or off."""

    target = False

    if TYPE_CHECKING:

        @overload
        def __new__(cls) -> Self: ...
        @overload
        def __new__(cls, function: Any, /) -> Any: ...

    def __new__(cls, *given: Any, **_: Any) -> Any:
        """`@no_grad` works as a decorator without parentheses too."""
        made = object.__new__(cls)
        return made(given[0]) if given and callable(given[0]) else made

    def __enter__(self) -> None:
        self.before = STATE.enabled
        STATE.enabled = self.target or STATE.traced  # views are shown to what traces a call only while nodes are

    def __exit__(self, *_: object) -> None:
        STATE.enabled = self.before

    def _again(self) -> _GradMode:
        return type(self)()

    def __call__(self, function: Function) -> Function:
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _YIELDS:
            return self._around_steps(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _around_steps(self, function: Any) -> Any:
        """Wraps a generator function: its steps run in this mode, and its consumer keeps its mode."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            steps, sent = function(*args, **kwargs), None
            try:
                while True:
                    with self._again():
                        value = steps.send(sent)
                    sent = yield value
            except StopIteration as end:
                return end.value
            finally:
                steps.close()

        return wrapped


class no_grad(_GradMode):
    """A context in which ops record no nodes: `with no_grad(): …` or `@no_grad()`."""


class enable_grad(_GradMode):
    """A context in which ops record nodes again, inside no_grad."""

    target = True


class set_grad_enabled(_GradMode):
    """Turns the recording of nodes on or off at once; as a context manager, until its end."""

    def __init__(self, mode: bool) -> None:
        self.before = STATE.enabled
        self.target = mode
        STATE.enabled = mode or STATE.traced

    def __enter__(self) -> None:
        STATE.enabled = self.target or STATE.traced

    def _again(self) -> _GradMode:
        return set_grad_enabled(self.target)

    def __call__(self, function: Function) -> Function:
        STATE.enabled = self.before
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether ops record nodes now."""
    return STATE.enabled


_SERIAL = count().__next__


class _Extensions:
    """What modules that build on this one do in a node, and in a backward pass. They write it here when they are
    imported, which they are before there is any hook, group or search: so the start of the page does without them.
    """

    note_calls: Any = None  # anomalies.py: while ANOMALY.on
    checked_gradients: Any = None
    pack_saved: Any = None  # saved_tensors.py: while there are WATCHERS
    run_hooks: Any = None  # gradient_hooks.py: for a node or leaf that has hooks
    run_after: Any = None
    begin_pass: Any = None  # while there are GROUPS
    end_pass: Any = None
    leave: Any = None  # left_nodes.py, which a pass imports that leaves nodes for others
    freed_before: Any = None
    level: Any = None  # flat_gradients.py, which a pass imports that records a graph through relu or its like
    reach: Any = None
    extend_mode: Any = None  # subclasses.py: the mode of a pass, and what classes of tensors add to it


EXTENSIONS = _Extensions()


class Described:
    """The attributes that a node reads of an op, for what is not in the registry: a Function, an alias."""

    slices = saves_inputs = saves_output = reads_layout = flat = False
    reads = None

    def __init__(self, name: str, vjp: Callable[..., Any] | None) -> None:
        self.name = name
        self.vjp = vjp


LEVEL = Described("Level", lambda gradient, *_: (gradient,))  # of flat_gradients.py

_references = sys.getrefcount


class _Counted:
    pass


def _count_one() -> int:
    node = _Counted()
    return _references(node)


_ALONE = _count_one()  # references to a node that a backward pass alone still holds
SERVED: tuple[int, ...] = ()  # the versions of a node that a pass has left for later ones
_MOST_LEFT = 500  # nodes that a pass leaves for later ones: a chain of them is freed by recursion


def _left_nodes() -> Any:
    return importlib.import_module(".left_nodes", __package__)


class Node:
    """A node of the graph: the op, its arguments, and the versions of the memory of the saved tensors.

    `edges` are aligned with the arguments: the node that computed the argument, or the leaf itself; None if it needs no
    gradient. They are fixed when the op runs: a tensor that is written in place gets another node.
    """

    __slots__ = ("__weakref__", "args", "edges", "hooks", "op", "output", "read", "retained", "serial", "versions")

    if TYPE_CHECKING:  # what graph_nodes.py gives it, which is imported when a user first gets a node

        @property
        def next_functions(self) -> tuple[tuple[Any, int], ...]: ...
        @property
        def metadata(self) -> dict[str, Any]: ...
        def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle: ...
        def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle: ...

    def __init__(self, op: Op, args: tuple[Any, ...], output: Tensor) -> None:
        self.op = op
        self.args: tuple[Any, ...] | None = args
        edges: list[Edge | None] = []
        versions: list[int] = []
        for a in args:  # one loop for both: each node runs this
            if isinstance(a, Tensor):
                edges.append((a.node or a) if a._requires_grad else None)
                versions.append(a._storage.version)
            else:
                edges.append(None)
        self.edges: tuple[Edge | None, ...] = tuple(edges)
        self.read = None if op.reads is None else op.reads(self.edges)  # the saved arguments; None: all
        # detached: the output refers to this node, and a cycle would keep its memory alive
        self.output: Any = None  # a tensor; under hooks Saved
        if op.saves_output:
            self.output = output.detach()
            self.versions: Sequence[int] = self._versions() if op.saves_inputs else [output._storage.version]
        elif not op.saves_inputs:
            self.versions = ()
        else:
            self.versions = versions if self.read is None else self._versions()
        self.hooks: list[Any] | None = None
        self.retained: Any = None  # a weak reference to the tensor whose `grad` is wanted
        self.serial = _SERIAL()
        if WATCHERS.count:
            if ANOMALY.on:
                EXTENSIONS.note_calls(self)
            EXTENSIONS.pack_saved(self)

    def name(self) -> str:
        """torch's name: "MulBackward0"; of a Function its own name and "Backward"."""
        if isinstance(self.op, Described):
            return f"{self.op.name}Backward"
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def _versions(self) -> list[int]:
        found: list[int] = []  # by loops: each node runs this
        args = self.args if self.op.saves_inputs else None
        if args and self.read is None:
            for a in args:
                if isinstance(a, Tensor):
                    found.append(a._storage.version)
        elif args:
            for i in self.read:  # type: ignore[union-attr]
                if i < len(args) and isinstance(args[i], Tensor):
                    found.append(args[i]._storage.version)
        if self.output is not None:
            found.append(self.output._storage.version)
        return found

    def gradients(self, gradient: Tensor, create_graph: bool) -> Iterable[tuple[Edge, Tensor | None]]:
        """(edge, gradient) for each input that needs a gradient."""
        if self.args is None:
            raise self._freed()
        if self.versions and self.versions != self._versions():
            raise self._changed()
        vjp = self.op.vjp
        assert vjp is not None
        output = self.output
        if create_graph and output is not None:  # connected to the graph again: the arguments may be written since
            output = output.detach()
            output._requires_grad, output.node = True, self
        found = vjp(gradient, output, *self.args)
        if create_graph and self.op.flat:
            if EXTENSIONS.level is None:
                importlib.import_module(".flat_gradients", __package__)
            found = [None if g is None else EXTENSIONS.level(g, self) for g in found]
        return [(edge, g) for edge, g in zip(self.edges, found, strict=False) if edge is not None]

    def _changed(self) -> RuntimeError:
        return RuntimeError(
            "backward: one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: a tensor that '{self.op.name}' needs for its gradient was changed in place since; use an "
            "out-of-place operation or clone() it first"
        )

    def _freed(self) -> RuntimeError:
        return RuntimeError(
            "backward: Trying to backward through the graph a second time: the saved values of "
            f"'{self.op.name}' were freed by an earlier backward(); pass retain_graph=True to it"
        )

    @property
    def passed(self) -> bool:  # by a backward pass that keeps no graph
        return self.args is None or self.versions is SERVED

    def release(self) -> bool:
        # After a pass through a node that saves no elements, and to which something leads: whether it serves others.
        if self.op.reads_layout or self.args is None:
            self.drop()
            return False
        (EXTENSIONS.leave or _left_nodes().leave)(self)
        return True

    def drop(self) -> None:
        """Frees the saved tensors and the edges, so that a long chain is not freed by recursion."""
        self.args = self.output = None
        self.edges = ()


_OWN_GRADIENTS = Node.gradients  # what profiling.py replaces while it listens
Edge = Node | Tensor


def edge_of(tensor: Any) -> Edge:
    """The edge to a tensor, or of a GradientEdge: the node that computed it, or the leaf itself."""
    found: Edge = (tensor.node or tensor) if isinstance(tensor, Tensor) else tensor.edge
    return found


def _order(roots: Sequence[Edge], stop: frozenset[int], uses: dict[int, int]) -> list[Node]:
    """Every node that the roots depend on, in topological order with the roots last; ancestors of the nodes in `stop`
    are left out. `uses` gets the number of gradients that add up to those of each leaf with hooks for its `grad`."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[Any] = []  # nodes to look at, and above None one whose sources are all in order
    for root in roots:
        if not isinstance(root, Tensor):
            stack.append(root)
        elif root.after_hooks:
            uses[id(root)] = uses.get(id(root), 0) + 1
    while stack:
        node = stack.pop()
        if node is None:
            order.append(stack.pop())
            continue
        key = id(node)
        if key in seen:
            continue
        seen.add(key)
        stack += (node, None)
        if key not in stop:
            for source in node.edges:
                if source is None:
                    continue
                if isinstance(source, Tensor):
                    if source.after_hooks:
                        uses[id(source)] = uses.get(id(source), 0) + 1
                elif id(source) not in seen:
                    stack.append(source)
    return order


def _needed(order: Sequence[Node], wanted: Sequence[Edge]) -> tuple[set[int], set[int]]:
    """The nodes and leaves on the paths to the wanted ones; and those nodes from which a path leads on. `order`: with
    the roots last."""
    found = {id(edge) for edge in wanted}
    leading: set[int] = set()
    for node in order:
        for edge in node.edges:
            if id(edge) in found:
                found.add(id(node))
                leading.add(id(node))
                break
    return found, leading


def _seed(tensor: Tensor, gradient: Tensor | None) -> Tensor:
    if not isinstance(tensor, Tensor):
        if gradient is None:
            raise RuntimeError("backward: a GradientEdge needs a gradient argument, because it has no shape")
        return gradient
    if (
        gradient is None
        and not tensor._shape
        and tensor._requires_grad
        and tensor.dtype is float32
        and tensor.device is cpu
        and type(tensor) is Tensor
    ):  # the usual loss, without the frames of new_ones
        one = empty_contiguous((), float32)
        KERNELS["fill_f32"].launch(0, one, 1, 1.0)
        return one
    if not tensor.requires_grad:
        raise RuntimeError(
            "backward: element 0 of tensors does not require grad and does not have a grad_fn: no requires_grad_() of "
            "what it was computed from, or computed inside no_grad(), or after detach()"
        )
    if gradient is None:
        if tensor.numel() != 1:
            raise RuntimeError(
                f"backward: grad can be implicitly created only for scalar outputs: a tensor of shape {tensor.shape} "
                "needs a gradient argument; take its sum() or mean(), or pass one"
            )
        if tensor.dtype.is_complex:
            raise RuntimeError(
                "backward: a complex number needs a gradient argument; only real ones do not (take .abs(), .real …)"
            )
        return tensor.new_ones(tensor._shape)
    if gradient._shape != tensor._shape:
        raise ArgumentError(f"backward: the gradient has shape {gradient.shape}, the tensor {tensor.shape}")
    return gradient


class RemovableHandle:
    """Removes a hook: `handle.remove()`, or `with handle:`. `id` is another number for each."""

    next_id = 0

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self._hooks, self._hook = hooks, hook
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        for i, known in enumerate(self._hooks):
            if known is self._hook:
                del self._hooks[i]
                return

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class _Slices:
    """Gradients of slices that share no element, before they are copied to that of their source: zeros are written only
    where the slices leave something out.
    """

    MOST = 16  # each is compared with those before it

    def __init__(self, whole: Tensor) -> None:
        self.whole = whole  # uninitialised, without gaps
        self.parts: list[tuple[Tensor, Tensor]] = []  # a view of it, its gradient
        self._boxes: list[tuple[tuple[int, int], ...]] = []

    def take(self, part: Tensor, gradient: Tensor) -> bool:
        """Whether this slice can wait beside the others."""
        whole = self.whole
        box = _box(part.offset - whole.offset, part._shape, part.strides, whole._shape, whole.strides)
        if box is None or len(self.parts) == self.MOST or gradient._shape != part._shape:
            return False
        for other in self._boxes:
            for (start, end), (first, last) in zip(box, other):  # noqa: B905 (as many dims; `strict` takes time)
                if end <= first or last <= start:
                    break
            else:
                return False
        self._boxes.append(box)
        self.parts.append((part, gradient))
        return True

    def complete(self) -> Tensor:
        """The gradient of the source."""
        whole = self.whole
        if sum([part.numel() for part, _ in self.parts]) < whole.numel():
            if whole.dtype is float32:  # without gaps, and of nobody else
                KERNELS["fill_f32"].launch(whole.numel() >> 10, whole, whole.numel(), 0.0)
            else:
                whole.fill_(0)
        for part, gradient in self.parts:
            part.copy_(gradient)
        return whole


@lru_cache(4096)
def _box(
    at: int, shape: Shape, strides: Shape, whole_shape: Shape, whole_strides: Shape
) -> tuple[tuple[int, int], ...] | None:
    """Which elements of a tensor without gaps a view of it has that begins at element `at`: a range for each dim, the
    outermost in memory first. None where they are no such ranges."""
    sizes: dict[int, int] = {}
    box: list[tuple[int, int]] = []
    if 0 in whole_shape:
        return None
    for n, step in zip(shape, strides, strict=True):
        if n != 1:
            sizes[step] = n
    for step, n in sorted(zip(whole_strides, whole_shape, strict=True), reverse=True):
        if n == 1:
            continue
        first, at = divmod(at, step)
        last = first + sizes.pop(step, 1)
        if last > n:
            return None
        box.append((first, last))
    return None if sizes else tuple(box)


def _empty_as(source: Tensor, gradient: Tensor) -> Tensor:
    """Memory for the gradient of `source`, laid out as it is: what it is a view of gets its gradient without a copy."""
    layout = (source.numel(), source.strides) if is_packed(source._shape, source.strides) else None
    return empty_contiguous(source._shape, gradient.dtype, gradient.device, layout)


class _Pending:
    """Pending gradients, by node or leaf. A sum gets new memory, which is private until the sum is complete, so further
    terms are added in place. A backward pass that records a graph writes nothing in place.
    """

    def __init__(self, create_graph: bool) -> None:
        self.in_place = not create_graph
        self.leaves: dict[int, Tensor] = {}
        self.sums: dict[int, Tensor] = {}
        self.slices: dict[int, tuple[Edge, _Slices]] = {}
        self.own: set[int] = set()

    def add(self, edge: Edge, gradient: Tensor) -> None:
        key = id(edge)
        if self.slices and key in self.slices:
            self.complete(key)
        known = self.sums.get(key)
        if known is None:
            self.sums[key] = gradient
            if isinstance(edge, Tensor):
                self.leaves[key] = edge
        elif key in self.own and known.dtype is gradient.dtype:
            known._accumulate(gradient)
        else:
            self.sums[key] = total = known + gradient
            if self.in_place and total.dense:
                self.own.add(key)

    def add_slice(self, node: Node, gradient: Tensor) -> bool:
        """Adds the gradient of a slice to that of its source, without a tensor of zeros for each slice; False where
        that cannot be done.
        """
        if not (self.in_place and node.args):
            return False
        source, *where = node.args
        edge = node.edges[0]
        assert edge is not None
        key = id(edge)
        if key in self.slices:
            slices = self.slices[key][1]
            if slices.whole.dtype is gradient.dtype and slices.take(node.op.forward(slices.whole, *where), gradient):
                return True
            self.complete(key)
        known = self.sums.get(key)
        if known is not None and known.dtype is not gradient.dtype:
            return False
        if key in self.own and known is not None and (known.is_contiguous() or known.strides == source.strides):
            node.op.forward(known, *where)._accumulate(gradient)  # by the strides of the source, perhaps
            return True
        if known is None:
            slices = _Slices(_empty_as(source, gradient))
            if slices.take(node.op.forward(slices.whole, *where), gradient):
                self.slices[key] = edge, slices
                if isinstance(edge, Tensor):
                    self.leaves[key] = edge
                return True
        whole = gradient.new_zeros(source._shape)
        node.op.forward(whole, *where).copy_(gradient)
        self.add(edge, whole)
        self.own.add(key)
        return True

    def complete(self, key: int) -> None:
        """Turns waiting slices into a sum."""
        edge, slices = self.slices.pop(key)
        self.add(edge, slices.complete())
        self.own.add(key)

    def take(self, edge: Edge) -> Tensor | None:
        """The complete gradient; afterwards other code may share it."""
        key = id(edge)
        if self.slices and key in self.slices:
            self.complete(key)
        self.own.discard(key)
        return self.sums.pop(key, None)


def _walk(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool,
    create_graph: bool,
    deliver: Callable[[Edge, Tensor], None],
    wanted: Sequence[Edge] | None = None,
    stop: frozenset[int] = frozenset(),
    silent: frozenset[int] = frozenset(),
) -> dict[int, Edge]:
    """Propagates gradients from the roots; calls `deliver(edge, gradient)` once for each leaf, and for each node whose
    tensor retains its gradient, when the gradient is complete. With `wanted`, for every node, and only along the paths
    that lead there. The hooks of the edges in `silent` do not run: their gradients are parts of those of another pass,
    which runs them. Returns what gets zeros for a gradient: the nodes and leaves, by their ids, that are reached only
    by gradients that do not change with them.
    """
    pending = _Pending(create_graph)
    flat: dict[int, Edge] = {}
    ends = []
    for root, gradient in zip(roots, gradients, strict=True):
        ends.append(edge_of(root))
        pending.add(ends[-1], _seed(root, gradient))
    uses: dict[int, int] = {}
    order = _order(ends, stop, uses)
    needed, leading = (None, None) if wanted is None else _needed(order, wanted)
    grouped = GROUPS.count > 0
    around = EXTENSIONS.begin_pass(ends, order, needed) if grouped else None
    sums, slices, own, leaves = pending.sums, pending.slices, pending.own, pending.leaves
    # Most nodes of most passes need nothing but their op's vjp: for these the loop makes no calls of its own.
    plain = wanted is None and not create_graph and not ANOMALY.on and Node.gradients is _OWN_GRADIENTS
    left = 0  # nodes that serve later passes
    del ends
    while order:
        node = order.pop()
        key = id(node)
        if slices and key in slices:
            pending.complete(key)
        own.discard(key)
        taken = sums.pop(key, None)  # complete; afterwards other code may share it
        if taken is None:
            continue
        if node.hooks and id(node) not in silent:
            taken = EXTENSIONS.run_hooks(node, taken)
        if wanted is not None or node.retained:
            deliver(node, taken)
        if flat:
            flat.pop(key, None)
        if node.op is LEVEL:  # type: ignore[comparison-overlap]
            EXTENSIONS.reach(node.edges[1:], flat)
        if key in stop or (leading is not None and key not in leading):
            continue
        if plain and type(node) is Node and not node.hooks:
            if not node.op.slices or not pending.add_slice(node, taken):
                if node.args is None:
                    raise node._freed()
                if node.versions and node.versions != node._versions():
                    raise node._changed()
                found: Any = node.op.vjp(taken, node.output, *node.args)  # type: ignore[misc]
                for edge, its in zip(node.edges, found, strict=False):
                    if edge is None or its is None:
                        continue
                    key = id(edge)
                    if key in sums or key in slices:
                        pending.add(edge, its)
                        continue
                    sums[key] = its
                    if isinstance(edge, Tensor):
                        leaves[key] = edge
        elif not node.op.slices or node.hooks or ANOMALY.on or not pending.add_slice(node, taken):
            if ANOMALY.on:
                found = EXTENSIONS.checked_gradients(node, taken, create_graph)
            else:
                found = node.gradients(taken, create_graph)
            if node.hooks:
                found = EXTENSIONS.run_after(node, taken, found)
            for edge, its in found:
                if its is not None and (needed is None or id(edge) in needed):
                    pending.add(edge, its)
        if uses:
            _deliver_complete(node, uses, pending, deliver, silent, flat)
        if not retain_graph:
            if node.versions or _references(node) <= _ALONE or left >= _MOST_LEFT:
                node.drop()
            else:
                left += node.release()
    for key, leaf in list(leaves.items()):
        if slices and key in slices:
            pending.complete(key)
        whole = sums.pop(key)
        if leaf.hooks and key not in silent:
            whole = EXTENSIONS.run_hooks(leaf, whole)
        deliver(leaf, whole)
        if flat:
            flat.pop(key, None)
    if grouped:
        EXTENSIONS.end_pass(around)
    return flat


def _deliver_complete(
    node: Node,
    uses: dict[int, int],
    pending: _Pending,
    deliver: Callable[[Edge, Tensor], None],
    silent: frozenset[int],
    flat: dict[int, Edge],
) -> None:
    """Delivers the gradients of leaves with hooks that this node has completed: what runs there need not wait for
    the end of the backward pass."""
    for edge in node.edges:
        left = uses.get(id(edge)) if isinstance(edge, Tensor) else None
        if left is None or edge is None:
            continue
        uses[id(edge)] = left - 1
        if left == 1:
            whole = pending.take(edge)
            if whole is not None:
                del pending.leaves[id(edge)]
                flat.pop(id(edge), None)
                if edge.hooks and id(edge) not in silent:
                    whole = EXTENSIONS.run_hooks(edge, whole)
                deliver(edge, whole)


class _Delivery:
    """Adds to the `grad` of leaves, and of tensors that retain it: in place, unless a graph is recorded. A `grad` never
    shares memory; other gradients, and the arguments of `backward`, may.
    """

    def __init__(self, given: Sequence[Tensor | None]) -> None:
        self._seen = {id(t._storage): t._storage for t in given if t is not None}

    def add(self, tensor: Tensor, gradient: Tensor) -> None:
        known = tensor._grad
        if CAPTURES.count:
            note_gradient(tensor, known)
        if known is None:
            hooks = (tensor.node or tensor).hooks  # hooks may have kept the gradient
            own = gradient if STATE.enabled else self._own(gradient.clone() if hooks else gradient)
            set_attribute(tensor, "_grad", own)
        elif STATE.enabled or known._requires_grad or known.dtype is not gradient.dtype or not known.is_contiguous():
            tensor._grad = known + gradient
        else:
            known._accumulate(gradient)

    def accumulate(self, edge: Edge, gradient: Tensor) -> None:
        """Adds to the `grad` of a leaf, or of a tensor that retains it."""
        if isinstance(edge, Tensor):
            self.add(edge, gradient)
            if edge.after_hooks:
                for hook in tuple(edge.after_hooks):
                    hook(edge)
        else:
            tensor = edge.retained and edge.retained()
            if tensor is not None:
                self.add(tensor, gradient)

    def to(self, wanted: dict[int, Tensor]) -> Callable[[Edge, Tensor], None]:
        """What delivers to these tensors alone, by the ids of their edges, and to those on the paths to them that
        retain their `grad`."""

        def deliver(edge: Edge, gradient: Tensor) -> None:
            if id(edge) in wanted:
                self.add(wanted[id(edge)], gradient)
            elif isinstance(edge, Node):
                self.accumulate(edge, gradient)

        return deliver

    def _own(self, gradient: Tensor) -> Tensor:
        storage = gradient._storage
        row_major = gradient.dense and gradient.strides == dense_layout(gradient._shape)[1]
        if id(storage) in self._seen or not (row_major or gradient.is_contiguous()):
            gradient = gradient.clone()
            storage = gradient._storage
        self._seen[id(storage)] = storage
        return gradient


def _several(given: Any) -> list[Any]:
    """Tensors and GradientEdges, of which one may be given alone."""
    return [given] if isinstance(given, Tensor) or hasattr(given, "edge") else list(given)


def _zeros(tensor: Tensor) -> Tensor:
    return tensor.new_zeros(tensor._shape)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds the gradients of `tensors` to the `grad` of every leaf (or of `inputs` alone), and of tensors that retain
    it.
    """
    roots = _several(tensors)
    weights = [grad_tensors] if isinstance(grad_tensors, Tensor) else list(grad_tensors or [None] * len(roots))
    delivery = _Delivery(weights)
    deliver: Callable[[Edge, Tensor], None] = delivery.accumulate
    only, wanted = None, None
    if inputs is not None:
        only = _several(inputs)
        wanted = {id(edge_of(t)): (t if isinstance(t, Tensor) else t.leaf()) for t in only}
        deliver = delivery.to(wanted)
    mode = enable_grad() if create_graph else no_grad()
    with mode if EXTENSIONS.extend_mode is None else EXTENSIONS.extend_mode(mode):
        kept = create_graph if retain_graph is None else retain_graph
        flat = _walk(roots, weights, kept, create_graph, deliver, only and [edge_of(t) for t in only])
        for key, edge in flat.items():
            tensor = edge if wanted is None else wanted.get(key)
            if isinstance(tensor, Tensor) and tensor._requires_grad:
                delivery.accumulate(tensor, _zeros(tensor))


def gradients_at(
    edges: Sequence[Edge],
    roots: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    retain_graph: bool,
    create_graph: bool,
    stop: frozenset[int] = frozenset(),
    own: bool = False,
) -> dict[int, Tensor | None]:
    """Gradients by id of the nodes and leaves that the roots depend on; the pass does not continue beyond `stop`. None:
    it is zero everywhere.

    `own`: this is a pass of the user's own: tensors on the paths that retain their `grad` get it too, and the hooks
    of `edges` run. Otherwise it is a part of another pass, which does both.
    """
    found: dict[int, Tensor | None] = {}
    delivery = _Delivery(weights)

    def deliver(edge: Edge, gradient: Tensor) -> None:
        found[id(edge)] = gradient
        if own and isinstance(edge, Node):
            delivery.accumulate(edge, gradient.clone() if edge.retained else gradient)

    mode = enable_grad() if create_graph else no_grad()
    with mode if EXTENSIONS.extend_mode is None else EXTENSIONS.extend_mode(mode):
        silent = frozenset() if own else frozenset(map(id, edges))
        flat = _walk(roots, weights, retain_graph, create_graph, deliver, edges, stop, silent)
        found.update(dict.fromkeys(flat))
    return found


class _KeepsGraphs(ThreadLocal):
    """Whether `grad` keeps every graph."""

    on = False


_Keeping = _KeepsGraphs()


@contextmanager
def keep_graphs() -> Iterator[None]:
    """Inside, `grad` frees no graph: it is called again for other examples."""
    before, _Keeping.on = _Keeping.on, True
    try:
        yield
    finally:
        _Keeping.on = before


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    *,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of `outputs` with respect to `inputs`, as torch.autograd.grad. It does not change the `grad` of leaves;
    intermediate tensors that retain their `grad` get it.

    An unused input raises an error; it gives None with `allow_unused`, zeros with `materialize_grads`.
    """
    roots, wanted = _several(outputs), _several(inputs)
    weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or [None] * len(roots))
    edges = [edge_of(t) for t in wanted]
    kept = (create_graph if retain_graph is None else retain_graph) or _Keeping.on
    ends = [edge for edge in map(edge_of, roots) if isinstance(edge, Node)]
    freed = (EXTENSIONS.freed_before or _left_nodes().freed_before)(ends)
    found = gradients_at(edges, roots, weights, kept, create_graph, own=True)
    missing = [i for i, edge in enumerate(edges) if id(edge) not in found]
    if missing and not allow_unused and not materialize_grads:
        if freed is not None:  # the way to the inputs was freed with it
            raise freed._freed()
        raise RuntimeError(
            f"grad: One of the differentiated Tensors appears to not have been used in the graph: inputs {missing} do "
            "not take part in the outputs; pass allow_unused=True to get None for them"
        )
    gradients = [found.get(id(edge)) for edge in edges]
    for i, gradient in enumerate(gradients):
        if gradient is None and (materialize_grads or id(edges[i]) in found):
            tensor = wanted[i]
            gradients[i] = _zeros(tensor if isinstance(tensor, Tensor) else tensor.leaf())
    return tuple(gradients)


# -- the method of Tensor


def _backward_of(
    tensor: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds d(tensor)/d(leaf), weighted by `gradient` (shape of tensor; 1 for one element), to each leaf's `grad`, or to
    that of `inputs` alone.
    """
    backward([tensor], [gradient], retain_graph, create_graph, inputs)


_backward_of.__name__ = _backward_of.__qualname__ = "backward"
Tensor.backward = _backward_of  # type: ignore[assignment, method-assign]
