"""Calls on masked tensors, for `cases`: what torch prints of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MASK = [[True, False, True], [False, False, False]]


def _made(t: Any, requires_grad: bool = False) -> Any:
    """[[0.5, --, 2.5], [--, --, --]]."""
    masked = import_module(f"{t.__name__}.masked")
    data = t.arange(6, dtype=t.float32).reshape(2, 3) + 0.5
    return masked.masked_tensor(data, t.tensor(_MASK), requires_grad=requires_grad)


def _gradient(t: Any, function: Any) -> str:
    x = _made(t, True)
    function(x).backward()
    return repr(x.grad)


def _of_data(t: Any) -> list[Any]:
    """Gradients of the data itself, without those of what is masked, which is 0 / 0."""
    x = t.tensor([1.0, 0.0, 3.0], requires_grad=True)
    masked = import_module(f"{t.__name__}.masked")
    y = masked.as_masked_tensor(x * 1, t.tensor([True, False, True]))
    (y * y / y).sum().backward()
    return [x.grad.to_tensor(0.0) if masked.is_masked_tensor(x.grad) else x.grad, y.requires_grad]


def _refused(t: Any) -> list[str]:
    x, found = _made(t), []
    masked = t.masked
    for call in (
        lambda: x + masked.masked_tensor(x.get_data(), ~x.get_mask()), lambda: t.linalg.inv(x), lambda: x.sort(),
        lambda: masked.masked_tensor(x.get_data(), t.ones(2, 3)), lambda: masked.masked_tensor(1.0, x.get_mask()),
        lambda: masked.masked_tensor(x.get_data(), t.tensor([True, False, True])),
    ):  # fmt: skip
        try:
            call()
            found.append("none")
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            found.append(next(name for name in ("TypeError", "ValueError") if name in kinds))
    return found


_SHOWN: dict[str, Any] = {
    "masked tensor": lambda t, x: x,
    "masked integers": lambda t, x: t.masked.masked_tensor(t.tensor([1, 20]), t.tensor([True, False])),
    "masked number": lambda t, x: t.masked.masked_tensor(t.tensor(1.5), t.tensor(False)),
    "masked elements": lambda t, x: [t.sin(x), x + 1, 1 / x, x * x, -x, x > 1, x.clamp(1, 2), x * t.ones(3), x.half()],
    "masked in place": lambda t, x: x.clone().add_(1),
    "masked shapes": lambda t, x: [
        x.reshape(3, 2), x.view(-1), x[0], x[:, 1:], *x.split(1), t.cat([x, x]), t.stack([x, x]), x[0].expand(2, 3),
    ],
    "masked reductions": lambda t, x: [
        reduced for name in ("sum", "mean", "amax", "amin", "prod", "argmax", "argmin", "std", "all")
        for reduced in (getattr(x, name)(), getattr(x, name)(dim=1), getattr(x, name)(dim=0, keepdim=True))
    ],
    "masked softmax": lambda t, x: x.softmax(1),
}  # fmt: skip
_CALLS: dict[str, Any] = {
    "masked parts": lambda t: [(x := _made(t)).get_data(), x.get_mask(), x.to_tensor(-1.0), x.sum().item(), len(x)],
    "masked gradients": lambda t: [
        _gradient(t, lambda x: x.mean()), _gradient(t, lambda x: x.sin().amax(1).sum()),
        _gradient(t, lambda x: x.prod()),
    ],
    "masked gradients of data": _of_data,
    "masked refused": _refused,
}  # fmt: skip


def _texts(value: Any) -> list[str]:
    return [repr(one) for one in (value if isinstance(value, list) else [value])]


def calls() -> dict[str, Any]:
    """The cases by name."""
    return {name: lambda t, f=call: _texts(f(t, _made(t))) for name, call in _SHOWN.items()} | _CALLS
