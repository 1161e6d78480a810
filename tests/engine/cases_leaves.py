"""Assignments to a tensor's gradient, flag and data, and their effects; retained gradients. Part of
cases_corners.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def assigned(x: Any, name: str, value: Any) -> Any:
    setattr(x, name, value)
    return getattr(x, name)


def leaf(P: Any, *shape: int) -> Any:
    return P.ones(*(shape or (3,)), requires_grad=True)


def computed(P: Any) -> Any:
    return leaf(P) * 2


def flag(x: Any, on: Any) -> int:
    return int(assigned(x, "requires_grad", on))


def forgotten(P: Any) -> Any:
    x = leaf(P)
    x.grad = P.ones(3)
    del x.grad
    (x * 3).sum().backward()
    return x.grad


def in_no_grad(P: Any, x: Any) -> Any:
    with P.no_grad():
        return float(x.numpy().sum())


def summed(x: Any, **settings: Any) -> float:
    return float(x.numpy(**settings).sum())


ASSIGNED: dict[str, Callable[[Any], Any]] = {
    "grad of another shape": lambda P: assigned(leaf(P), "grad", P.ones(2)),
    "grad of a shape that broadcasts": lambda P: assigned(leaf(P), "grad", P.ones(1)),
    "grad of another dtype": lambda P: assigned(leaf(P), "grad", P.ones(3, dtype=P.float64)),
    "grad that is a number": lambda P: assigned(leaf(P), "grad", 3),
    "grad that is the tensor": lambda P: (lambda x: assigned(x, "grad", x))(leaf(P)),
    "grad that fits": lambda P: assigned(leaf(P), "grad", P.full((3,), 2.0)),
    "grad of what wants none": lambda P: assigned(P.ones(3), "grad", P.full((3,), 2.0)),
    "grad of a computed tensor": lambda P: assigned(computed(P), "grad", P.full((3,), 2.0)),
    "grad of nothing": lambda P: float(assigned(leaf(P), "grad", None) is None),
    "grad deleted": forgotten,
    "requires_grad of a computed tensor": lambda P: flag(computed(P), True),
    "requires_grad of a computed tensor, off": lambda P: flag(computed(P), False),
    "requires_grad of integers": lambda P: flag(P.ones(3, dtype=P.int64), True),
    "requires_grad of integers, off": lambda P: flag(P.ones(3, dtype=P.int64), False),
    "requires_grad that is a number": lambda P: flag(P.ones(3), 1),
    "requires_grad that is None": lambda P: flag(P.ones(3), None),
    "requires_grad of a leaf": lambda P: (flag(P.ones(3), True), flag(leaf(P), False)),
    "requires_grad_ of a computed tensor": lambda P: int(computed(P).requires_grad_().requires_grad),
    "numpy of a leaf": lambda P: summed(leaf(P)),
    "numpy of a computed tensor": lambda P: summed(computed(P)),
    "numpy in no_grad": lambda P: (in_no_grad(P, leaf(P)), in_no_grad(P, computed(P))),
    "numpy by force": lambda P: (summed(leaf(P), force=True), summed(computed(P), force=True)),
    "numpy of what wants none": lambda P: summed(P.ones(3)),
}


def versions(P: Any) -> Any:
    x = P.ones(3)
    start, shown, beside = x._version, x.data, x.detach()
    shown.add_(1)
    x.mul_(2)
    beside.add_(1)
    own = x._version - start, beside._version - start
    return x, own, tuple(t._version for t in (shown, x.data, shown.detach(), shown.data, shown.view(3)))


def unnoticed(P: Any) -> Any:
    """Saved tensors do not notice a write through `data`."""
    x = leaf(P)
    y = x.exp()
    y.data.mul_(2)
    y.sum().backward()
    return x.grad


def noticed(P: Any) -> Any:
    x = leaf(P)
    y = x.exp()
    y.detach().mul_(2)
    y.sum().backward()
    return x.grad


def initialized(P: Any) -> Any:
    """Ways in which ported code writes weights."""
    x = leaf(P, 2, 3)
    x.data[0] = 5
    x.data *= 2
    x.data.clamp_(max=7)
    (x * x).sum().backward()
    return x.detach(), x.grad, int(x.is_leaf), int(x.data.requires_grad)


def replaced(P: Any, value: Any) -> Any:
    x = leaf(P)
    start, x.data = x._version, value
    return x.detach(), int(x.requires_grad), int(x.is_leaf), x._version - start


def replaced_twice(P: Any) -> Any:
    x, other = leaf(P), P.arange(6.0)
    start, other_start = x._version, other._version
    x.mul(2).sum().backward()
    x.data = other[1:4]
    other += 1
    x.data = x.data * 2
    (x * x).sum().backward()
    return x.detach(), x.grad, other, x._version - start, other._version - other_start


DATA: dict[str, Callable[[Any], Any]] = {
    "versions of data": versions, "written unnoticed": unnoticed, "written and noticed": noticed,
    "weights written through data": initialized, "data replaced twice": replaced_twice,
    "data of another shape": lambda P: replaced(P, P.zeros(5)),
    "data of another dtype": lambda P: replaced(P, P.zeros(3, dtype=P.float64)),
    "data of integers": lambda P: replaced(P, P.zeros(3, dtype=P.int64)),
    "data of nothing": lambda P: replaced(P, None),
}  # fmt: skip


def told(*tensors: Any) -> Any:
    """The gradients; -1 for a tensor without one."""
    return tuple(-1 if t.grad is None else t.grad for t in tensors)


def retained(P: Any, run: Callable[..., Any]) -> Any:
    """Leaves x, w; h, y and s retain their gradients on the way from x, k beside it."""
    x, w = leaf(P), leaf(P)
    h, k = x * 2, w * 3
    y = h * h * k
    s = (y + h).sum()
    for t in (h, k, y, s):
        t.retain_grad()
    found = run(s, x, w, h, k, y)
    return found, told(h, k, y, s)


def twice(P: Any) -> Any:
    def run(s: Any, x: Any, w: Any, h: Any, k: Any, y: Any) -> Any:
        first = P.autograd.grad(s, h, retain_graph=True)
        return first + P.autograd.grad(s, y)

    return retained(P, run)


def hooked(P: Any) -> Any:
    def run(s: Any, x: Any, w: Any, h: Any, k: Any, y: Any) -> Any:
        h.register_hook(lambda g: g * 10)
        return P.autograd.grad(s, x)

    return retained(P, run)


def of_inputs(P: Any, *names: str) -> Any:
    def run(s: Any, x: Any, w: Any, h: Any, k: Any, y: Any) -> Any:
        known = {"x": x, "w": w, "h": h}
        s.backward(inputs=[known[name] for name in names])
        return told(x, w)

    return retained(P, run)


def differentiated_again(P: Any) -> Any:
    x = leaf(P)
    h = x * 2
    h.retain_grad()
    (found,) = P.autograd.grad((h * h * h).sum(), x, create_graph=True)
    return found.detach(), h.grad.detach(), P.autograd.grad(h.grad.sum(), x)


RETAINED: dict[str, Callable[[Any], Any]] = {
    "grad and retained gradients": lambda P: retained(P, lambda s, x, w, h, k, y: P.autograd.grad(s, x)),
    "grad of a retained one": lambda P: retained(P, lambda s, x, w, h, k, y: P.autograd.grad(s, h)),
    "grad of all": lambda P: retained(P, lambda s, x, w, h, k, y: P.autograd.grad(s, [x, w, h, k, y, s])),
    "grad twice": twice, "grad and hooks": hooked, "grad that is differentiated": differentiated_again,
    "backward of inputs and retained": lambda P: of_inputs(P, "x"),
    "backward of inputs that are retained": lambda P: of_inputs(P, "x", "h"),
    "backward of all inputs": lambda P: of_inputs(P, "w", "x"),
}  # fmt: skip
LEAVES = {**ASSIGNED, **DATA, **RETAINED}
