"""The tape: nodes left by ops, and the backward walk over them (reverse-mode differentiation)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .local import ThreadLocal
from .tensor import Tensor

if TYPE_CHECKING:
    from .op import Op

Function = TypeVar("Function", bound=Callable[..., Any])


class _State(ThreadLocal):
    """Whether ops leave nodes."""

    enabled = True


STATE = _State()


class _GradMode:
    """Context manager and decorator that turns the tape on or off."""

    target = False

    def __enter__(self) -> None:
        self.before = STATE.enabled
        STATE.enabled = self.target

    def __exit__(self, *_: object) -> None:
        STATE.enabled = self.before

    def __call__(self, function: Function) -> Function:
        mode = type(self)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with mode():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_GradMode):
    """Inside, ops leave no nodes: `with no_grad(): …` or `@no_grad()`."""


class enable_grad(_GradMode):
    """Turns the tape on again inside no_grad."""

    target = True


def is_grad_enabled() -> bool:
    """Whether ops leave nodes now."""
    return STATE.enabled


class Node:
    """How one output came to be: the op, its arguments, and the version of each saved tensor's memory."""

    __slots__ = ("args", "op", "output", "versions")

    def __init__(self, op: Op, args: tuple[Any, ...], output: Tensor) -> None:
        self.op = op
        self.args: tuple[Any, ...] | None = args
        # a detached twin: the output itself holds this node, and a cycle would keep its memory
        self.output: Tensor | None = output.detach() if op.saves_output else None
        self.versions = self._versions() if op.saves_inputs else None

    def _versions(self) -> list[int]:
        return [a.storage.version for a in self.args or () if isinstance(a, Tensor)]

    def inputs(self) -> list[Tensor]:
        return [a for a in self.args or () if isinstance(a, Tensor) and a.requires_grad]

    def gradients(self, gradient: Tensor, create_graph: bool) -> list[tuple[Tensor, Tensor | None]]:
        """(input, its gradient) for each input that wants one."""
        if self.args is None:
            raise RuntimeError(
                f"backward: the saved values of '{self.op.name}' were freed by an earlier backward(); "
                "pass retain_graph=True to it"
            )
        if self.versions is not None and self.versions != self._versions():
            raise RuntimeError(
                f"backward: a tensor that '{self.op.name}' needs for its gradient was changed in place since; "
                "use an out-of-place operation or clone() it first"
            )
        vjp = self.op.vjp
        assert vjp is not None
        output = self.output
        if create_graph and output is not None:  # the twin must lead back into the graph
            output = self.op(*self.args)
        found = vjp(gradient, output, *self.args)
        return [(a, g) for a, g in zip(self.args, found, strict=False) if isinstance(a, Tensor) and a.requires_grad]


def _order(roots: Sequence[Tensor]) -> list[Tensor]:
    """Every tensor with a node that the roots depend on, users before what they use."""
    order: list[Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(root, False) for root in roots]
    while stack:
        tensor, done = stack.pop()
        if done:
            order.append(tensor)
        elif tensor.node is not None and id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            stack.extend((source, False) for source in tensor.node.inputs())
    order.reverse()
    return order


def _seed(tensor: Tensor, gradient: Tensor | None) -> Tensor:
    from .ops.create import ones

    if not tensor.requires_grad:
        raise RuntimeError(
            "backward: this tensor does not require a gradient and has no gradient computation behind it"
        )
    if gradient is None:
        if tensor.numel() != 1:
            raise RuntimeError(
                f"backward: a tensor of shape {tensor.shape} needs a gradient argument; only one element does not"
            )
        return ones(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if gradient.shape != tensor.shape:
        raise ValueError(f"backward: the gradient has shape {gradient.shape}, the tensor {tensor.shape}")
    return gradient


def _run_hooks(tensor: Tensor, gradient: Tensor) -> Tensor:
    for hook in tensor.hooks or ():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


class _Pending:
    """Gradients on their way, by tensor. A sum is made in memory of its own, which nobody else sees before it is whole:
    what follows is added to it in place. In a walk that records a graph nothing is written in place.
    """

    def __init__(self, create_graph: bool) -> None:
        self.in_place = not create_graph
        self.leaves: dict[int, Tensor] = {}
        self._sums: dict[int, Tensor] = {}
        self._own: set[int] = set()

    def add(self, tensor: Tensor, gradient: Tensor) -> None:
        key = id(tensor)
        known = self._sums.get(key)
        if tensor.node is None:
            self.leaves[key] = tensor
        if known is None:
            self._sums[key] = gradient
        elif key in self._own and known.dtype is gradient.dtype:
            from .ops.index import add_into

            add_into(known, gradient)
        else:
            self._sums[key] = known + gradient
            if self.in_place:
                self._own.add(key)

    def add_slice(self, node: Node, gradient: Tensor) -> bool:
        """Adds the gradient of a slice to that of its source, without a tensor of zeros for each slice; False for other
        nodes.
        """
        if not (node.op.slices and self.in_place and node.args):
            return False
        from .ops.create import zeros
        from .ops.index import add_into

        source, *where = node.args
        key = id(source)
        known = self._sums.get(key)
        if known is not None and known.dtype is not gradient.dtype:
            return False
        if key in self._own and known is not None:
            add_into(node.op.forward(known, *where), gradient)
            return True
        whole = zeros(source.shape, dtype=gradient.dtype, device=gradient.device)
        node.op.forward(whole, *where).copy_(gradient)
        self.add(source, whole)
        self._own.add(key)
        return True

    def take(self, tensor: Tensor) -> Tensor | None:
        """The whole gradient; from here on others may see it."""
        self._own.discard(id(tensor))
        return self._sums.pop(id(tensor), None)


def _walk(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool,
    create_graph: bool,
    deliver: Callable[[Tensor, Tensor], None],
) -> None:
    """Carries gradients from the roots down; `deliver(tensor, gradient)` once for each tensor, when its gradient is
    whole.
    """
    pending = _Pending(create_graph)
    for root, gradient in zip(roots, gradients, strict=True):
        pending.add(root, _seed(root, gradient))
    order = _order(roots)
    order.reverse()
    while order:
        tensor = order.pop()
        gradient = pending.take(tensor)
        if gradient is None:
            continue
        gradient = _run_hooks(tensor, gradient)
        deliver(tensor, gradient)
        node = tensor.node
        assert node is not None
        if not pending.add_slice(node, gradient):
            for source, its in node.gradients(gradient, create_graph):
                if its is not None:
                    pending.add(source, its)
        if not retain_graph:
            node.args = node.output = None
    for leaf in pending.leaves.values():
        whole = pending.take(leaf)
        assert whole is not None
        deliver(leaf, _run_hooks(leaf, whole))


def backward(
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> None:
    """Adds the gradients of `tensors` to the `grad` of every leaf (and of tensors with `retains_grad`)."""

    def deliver(tensor: Tensor, gradient: Tensor) -> None:
        if tensor.node is None or getattr(tensor, "retains_grad", False):
            tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient

    mode = enable_grad() if create_graph else no_grad()
    with mode:
        _walk(tensors, gradients or [None] * len(tensors), retain_graph, create_graph, deliver)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of `outputs` with respect to `inputs`, as torch.autograd.grad; `grad` of the leaves is left alone."""
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    found: dict[int, Tensor] = {}
    mode = enable_grad() if create_graph else no_grad()
    with mode:
        _walk(
            roots,
            grad_outputs or [None] * len(roots),
            retain_graph or create_graph,
            create_graph,
            lambda tensor, gradient: found.__setitem__(id(tensor), gradient),
        )
    missing = [i for i, t in enumerate(wanted) if id(t) not in found]
    if missing and not allow_unused:
        raise RuntimeError(
            f"grad: inputs {missing} do not take part in the outputs; pass allow_unused=True to get None for them"
        )
    return tuple(found.get(id(t)) for t in wanted)
