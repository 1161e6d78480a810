"""Writes in place under autograd, and other uses of the tape: cases as the package describes them."""

from __future__ import annotations

from typing import Any

from . import Case


def turned(P: Any, x: Any) -> Any:
    """t_ of a tensor with views: the views keep their shapes and show later writes."""
    y = x * 1
    row = y[0]
    y.t_()
    y.mul_(P.arange(1.0, 5.0)[:, None])
    return y * y + row.sum() * 2 + row[1]


def turned_view(P: Any, x: Any) -> Any:
    """The same of a view of a tensor, and of views of that."""
    whole = x * 1
    y = whole[1:]
    corner = y[0, :2]
    y.t_()
    y[1] *= 3
    corner.add_(1)
    whole[:, 1] *= x[0, 0]
    return y.sum(1) @ whole[0] + corner * whole[1, :2]


def turned_buffer(P: Any, x: Any) -> Any:
    buffer = P.zeros(3, 4)
    side = buffer[:, 1]
    buffer.t_()
    buffer[1] = x[0, :3]
    buffer[0] *= x[0, 0]
    return buffer * x.mT + side


def reshaped(P: Any, x: Any) -> Any:
    y = (x * 1).unsqueeze_(1).transpose_(0, 2)
    y.squeeze_().mul_(P.arange(4.0)[:, None])
    return y.swapaxes_(0, 1) * x


def _siblings(P: Any, x: Any) -> Any:
    """Views made before a write show it, and their gradients go through it."""
    y = x * 1
    row, turned = y[0], y.transpose(0, 1)
    y.mul_(3)
    return row.sum() + (turned * turned).sum()


def _through_a_view(P: Any, x: Any) -> Any:
    y = x * 1
    y[1].mul_(x[0])
    y.transpose(0, 1)[::2].exp_()
    return y * y


def _view_of_view(P: Any, x: Any) -> Any:
    y = (x * 1).contiguous()
    flat = y.reshape(-1)
    part = flat[2:7]
    part[1:3] = x[0, :2]
    part += 1
    return y * flat.reshape(y.shape)


def _filled_buffer(P: Any, x: Any, a: Any) -> Any:
    rows = P.zeros(3, 4)
    for i in range(3):
        rows[i] = x[i] * a
    rows[:, ::2] += 1
    return rows * rows


def _view_of_buffer(P: Any, x: Any) -> Any:
    buffer = P.zeros(3, 4)
    row = buffer[1]
    row.copy_(x[0])
    row *= 2
    return buffer * x


def _mask(P: Any, x: Any, m: Any) -> Any:
    y = x * 2
    y[m] = 0.5
    return y * x


def _set(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def _saved_before(P: Any, x: Any) -> Any:
    """A write does not invalidate what an op saved of another tensor."""
    y = x.exp()
    z = y * x
    z.add_(y).mul_(2)
    return z * z


CASES: list[Case] = [
    ("t_", lambda P, x: (x * 1).t_() * 2, [(3, 4)]),
    ("t_vector", lambda P, x: (x * 1).t_() * 2, [(3,)]),
    ("t_views", turned, [(3, 4)]),
    ("t_view", turned_view, [(3, 4)]),
    ("t_buffer", turned_buffer, [(3, 4)]),
    ("t_twice", lambda P, x: (x * 1).t_().t_().mul_(2) * x, [(3, 4)]),
    ("reshaped_", reshaped, [(3, 4)]),
    *(
        (f"{n}_", lambda P, x, y, n=n: getattr(x * 1, n + "_")(y) * x, [("positive", (3, 4)), ("positive", (4,))])
        for n in ("add", "sub", "mul", "div", "pow")
    ),
    *(
        (f"{n}_", lambda P, x, n=n: getattr(x * 1, n + "_")() * x, [("positive", (3, 4))])
        for n in ("exp", "log", "sqrt", "tanh", "sigmoid", "abs", "neg", "relu", "square", "zero")
    ),
    ("add_alpha_", lambda P, x, y: (x * 1).add_(y, alpha=0.5).sub_(x, alpha=2), [(3, 4), (3, 4)]),
    ("add_alpha", lambda P, x, y: P.sub(P.add(x, y, alpha=0.5), 2.0, alpha=3), [(3, 4), (4,)]),
    ("clamp_", lambda P, x: (x * 2).clamp_(-1, 1) * x, [(3, 4)]),
    ("masked_fill_", lambda P, x, m: (x * 2).masked_fill_(m, 3.0) * x, [(3, 4), ("bools", (4,))]),
    ("fill_", lambda P, x: (x * 2).fill_(3.0) * x, [(3, 4)]),
    ("copy_", lambda P, x, y: (x * 2).copy_(y) * x, [(3, 4), (4,)]),
    ("siblings", _siblings, [(3, 4)]),
    ("through_a_view", _through_a_view, [(3, 4)]),
    ("view_of_view", _view_of_view, [(3, 4)]),
    ("filled_buffer", _filled_buffer, [(3, 4), (4,)]),
    ("view_of_buffer", _view_of_buffer, [(3, 4)]),
    ("mask", _mask, [(3, 4), ("bools", (3, 4))]),
    ("setitem_mixed", lambda P, x, i, y: _set(x * 1, (slice(None), i), y) * x, [(4, 6), ("ints", 6, (3,)), (4, 3)]),
    ("setitem_broadcast", lambda P, x, y: _set(x * 1, (slice(1, None), ...), y) * x, [(3, 4), (4,)]),
    ("saved_before", _saved_before, [(3, 4)]),
    ("division_floor", lambda P, x, y: P.div(x, y, rounding_mode="floor"), [(3, 4), ("positive", (4,))]),
    ("division_trunc", lambda P, x, y: P.div(x, y, rounding_mode="trunc"), [(3, 4), ("positive", (4,))]),
]
