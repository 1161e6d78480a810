"""Calls on nested tensors, for `cases`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np


def _rows(t: Any, *shape: int, seed: int = 0) -> Any:
    return t.from_numpy(np.random.RandomState(seed).randn(*shape).astype("float32"))


def _batch(t: Any) -> Any:
    """Sequences of 2 and 3 rows of 4 numbers (2, j, 4)."""
    import_module(f"{t.__name__}.nested")
    return t.nested.nested_tensor([_rows(t, 2, 4), _rows(t, 3, 4, seed=1)], layout=t.jagged)


def _parts(nested: Any) -> list[Any]:
    return list(nested.unbind())


def _heads(t: Any) -> Any:
    return _batch(t).unflatten(-1, (2, 2)).transpose(1, 2)


def _attended(t: Any, **settings: Any) -> list[Any]:
    """Attention within sequences. torch's own asks a graphics card first, so it gets each sequence alone."""
    attend, q = t.nn.functional.scaled_dot_product_attention, _heads(t)
    if t.__name__ == "torch":
        return [attend(*[part[None]] * 3, **settings)[0] for part in q.unbind()]
    return _parts(attend(q, q, q, **settings))


def _attention_layer(t: Any) -> list[Any]:
    """An encoder layer for sequences; in torch for each alone."""
    layer = t.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
    with t.no_grad():
        for k, p in enumerate(layer.parameters()):
            p.copy_(_rows(t, *p.shape, seed=k))
    batch = _batch(t)
    if t.__name__ == "torch":
        return [layer(part[None], is_causal=False)[0] for part in batch.unbind()]
    return _parts(layer(batch))


def _reduced_heads(t: Any) -> list[Any]:
    """What is left of the dims before the ragged one and behind it, of which torch takes few of nested tensors."""
    x = _heads(t)
    if t.__name__ == "torch":
        return [y for part in x.unbind() for y in (part.logsumexp(0), part.std(2), part.amax((0, 2)))]
    several = (x.logsumexp(1), x.std((3,)), x.amax((1, 3)))
    return [y for parts in zip(*(one.unbind() for one in several), strict=True) for y in parts]


def _leaf(t: Any) -> list[Any]:
    parts = [_rows(t, 2, 3).requires_grad_(), _rows(t, 1, 3).requires_grad_()]
    whole = t.nested.as_nested_tensor(parts, layout=t.jagged)
    (whole * whole).values().sum().backward()
    leaf = t.nested.nested_tensor(parts, layout=t.jagged, requires_grad=True)
    (leaf * 2).sum().backward()
    return [parts[0].grad, leaf.grad.values(), leaf.is_leaf]


def _refused(*calls: Any) -> list[bool]:
    found = []
    for call in calls:
        try:
            call()
            found.append(False)
        except RuntimeError:
            found.append(True)
    return found


_OF_ROWS: dict[str, Any] = {
    "arithmetic": lambda t, x: 1 - x * 2 + x / 3,
    "a layer": lambda t, x: t.nn.functional.linear(x, _rows(t, 3, 4), _rows(t, 3)),
    "activations": lambda t, x: t.nn.functional.gelu(t.relu(x)) + x.sigmoid(),
    "norms": lambda t, x: t.nn.functional.rms_norm(t.nn.functional.layer_norm(x, (4,)), (4,)),
    "softmax": lambda t, x: t.softmax(x, -1) + x.log_softmax(dim=2),
    "of each tensor": lambda t, x: x * _rows(t, 2, 1, 4) + _rows(t, 4),
    "choice": lambda t, x: t.where(x > 0, x, x * 0.5).clamp(-1, 1),
    "product": lambda t, x: x @ _rows(t, 4, 2),
    "sums of rows": lambda t, x: x.sum(-1) + x.mean(dim=2),
    "kept sums": lambda t, x: x.sum(-1, keepdim=True),
    "forms": lambda t, x: x.unsqueeze(-1).double().flatten(-2),
    "parts": lambda t, x: x.chunk(2, dim=-1)[1],
}
_CALLS: dict[str, Any] = {
    "what it is": lambda t: [(x := _batch(t)).is_nested, x.dim(), x.size(0), x.size(2), x.numel(), len(x), x.offsets()],
    "heads": lambda t: _parts(_heads(t)),
    "heads and back": lambda t: _parts(_heads(t).transpose(1, 2).flatten(-2)),
    "dims": lambda t: _parts(_batch(t).view(2, -1, 2, 2).transpose(2, 3)),
    "fewer dims": _reduced_heads,
    "two dims on": lambda t: _parts(_heads(t).transpose(2, 3)),
    "attention": _attended,
    "causal attention": lambda t: _attended(t, is_causal=True),
    "an encoder layer": _attention_layer,
    "gradients": _leaf,
    "sums of tensors": lambda t: [(x := _batch(t)).sum(), x.sum(1), x.mean(1), x.amax(1), x.mean()],
    "padding": lambda t: t.nested.to_padded_tensor(_batch(t), -1.0),
    "a padded strided one": lambda t: t.nested.nested_tensor([_rows(t, 1, 2), _rows(t, 3, 2)]).to_padded_tensor(
        0.0, (2, 4, 3)
    ),
    "offsets": lambda t: _parts(t.nested.nested_tensor_from_jagged(_rows(t, 4, 2), t.tensor([0, 1, 4]))),
    "lengths": lambda t: t.nested.nested_tensor_from_jagged(_rows(t, 4, 2), lengths=t.tensor([1, 3])).offsets(),
    "narrow": lambda t: _parts(t.nested.narrow(_rows(t, 2, 5), 1, t.tensor([0, 1]), t.tensor([2, 3]), layout=t.jagged)),
    "masked": lambda t: _parts(
        t.nested.masked_select(_rows(t, 2, 3), t.tensor([[True, False, True], [False, False, True]]))
    ),
    "refused": lambda t: _refused(
        lambda: t.nested.nested_tensor([t.ones(2, 3), t.ones(2, 3, 1)]),
        lambda: _batch(t) + t.nested.nested_tensor([t.ones(1, 4), t.ones(4, 4)], layout=t.jagged),
        lambda: t.nested.nested_tensor_from_jagged(t.ones(4, 2)),
        lambda: t.nested.nested_tensor([t.ones(2, 3), t.ones(1, 3)]).size(1),
        lambda: t.nn.functional.linear(_batch(t), t.ones(2, 5)),
    ),
}


def calls() -> dict[str, Any]:
    """The cases by name."""
    found = {f"nested {name}": lambda t, f=call: _parts(f(t, _batch(t))) for name, call in _OF_ROWS.items()}
    return found | {f"nested tensors: {name}": call for name, call in _CALLS.items()}
