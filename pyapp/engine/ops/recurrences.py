"""Linear recurrences along a dim: the states of state space models (Gu and Dao 2023, arXiv 2312.00752)."""

from __future__ import annotations

from ..declare import function
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from .stacking import cat


def _check(a: Tensor, b: Tensor, start: Tensor | None) -> None:
    if a._shape != b._shape or a.ndim < 2 or a._shape[1] < 1:
        raise ValueError(f"takes a and b (B, T, ...) of one shape, T at least 1, got {a.shape} and {b.shape}")
    if start is not None and start._shape != (a._shape[0], *a._shape[2:]):
        raise ValueError(f"start is {start.shape}, expected {(a.shape[0], *a.shape[2:])}")


@function()
@op(saves="both")
def linear_scan(a: Tensor, b: Tensor, start: Tensor | None = None, reverse: bool = False) -> Tensor:
    """y[:, t] = a[:, t] * y[:, t - 1] + b[:, t], with y[:, -1] = `start` (0 without): a and b (B, T, ...), start (B,
    ...) → (B, T, ...). `reverse`: from the last t to the first. The definition doubles the steps that it joins (Hillis
    and Steele 1986, "Data parallel algorithms").
    """
    _check(a, b, start)
    length = a._shape[1]
    if start is not None:
        place = length - 1 if reverse else 0
        first = b.narrow(1, place, 1) + a.narrow(1, place, 1) * start.unsqueeze(1)
        rest = b.narrow(1, 1 - reverse, length - 1)
        b = cat([rest, first] if reverse else [first, rest], 1)
    step = 1
    while step < length:
        early, late = (step, 0) if reverse else (0, step)  # where the steps before, and those that take them in, begin
        count = length - step
        kept = b.narrow(1, length - step if reverse else 0, step), a.narrow(1, length - step if reverse else 0, step)
        own = a.narrow(1, late, count)
        joined = own * b.narrow(1, early, count) + b.narrow(1, late, count), own * a.narrow(1, early, count)
        b, a = (cat([new, old] if reverse else [old, new], 1) for old, new in zip(kept, joined, strict=True))
        step *= 2
    return b


@linear_scan.gradient
def _d_linear_scan(
    g: Tensor, y: Tensor, a: Tensor, b: Tensor, start: Tensor | None = None, reverse: bool = False
) -> tuple[Tensor | None, ...]:
    length = a._shape[1]
    edge = y.new_zeros((y._shape[0], 1, *y._shape[2:]))
    begin = edge if start is None else start.unsqueeze(1)
    if reverse:
        following, before = cat([edge, a.narrow(1, 0, length - 1)], 1), cat([y.narrow(1, 1, length - 1), begin], 1)
    else:
        following, before = cat([a.narrow(1, 1, length - 1), edge], 1), cat([begin, y.narrow(1, 0, length - 1)], 1)
    total = linear_scan(following, g, None, not reverse)
    first = None
    if start is not None:
        place = length - 1 if reverse else 0
        first = (a.narrow(1, place, 1) * total.narrow(1, place, 1)).squeeze(1)
    return total * before, total, first


@op(saves="none")
def _advance_states(
    state: Tensor, x: Tensor, steps: Tensor, inward: Tensor, outward: Tensor, decay: Tensor
) -> Tensor:  # fmt: skip
    kept = (steps.unsqueeze(-1) * decay).exp()  # (B, T, C, N)
    added = (steps * x).unsqueeze(-1) * inward.unsqueeze(2)
    tokens = x._shape[1]
    states = kept * state.unsqueeze(1) + added if tokens == 1 else linear_scan(kept, added, state)
    state.copy_(states.select(1, tokens - 1))
    return (states * outward.unsqueeze(2)).sum(-1)


def advance_states(
    state: Tensor, x: Tensor, steps: Tensor, inward: Tensor, outward: Tensor, decay: Tensor
) -> Tensor:  # fmt: skip
    """Mamba's recurrence, without gradients: h = exp(steps decay) h + steps inward x and y = outward h, a state h of N
    numbers for each channel. x and steps (B, T, C), inward and outward (B, T, N), decay (C, N), state (B, C, N), which
    is changed in place → (B, T, C).
    """
    (texts, tokens, channels), size = x._shape, decay._shape[-1]
    shapes = {
        "state": (texts, channels, size), "steps": x._shape, "inward": (texts, tokens, size),
        "outward": (texts, tokens, size), "decay": (channels, size),
    }  # fmt: skip
    for (name, shape), t in zip(shapes.items(), (state, steps, inward, outward, decay), strict=True):
        if t._shape != shape or tokens < 1:
            raise ValueError(f"advance_states: {name} is {describe(t)}, expected {list(shape)}, and T at least 1")
    if any(t.requires_grad for t in (state, x, steps, inward, outward, decay)):
        raise ValueError("advance_states: changes the state in place, so it takes tensors without gradients")
    return _advance_states(state, x, steps, inward, outward, decay)
