"""Makes a layer of another class with the state of one that is there."""

from __future__ import annotations

from typing import Any

from ...nn.members import GROUPS

__all__ = ["adopted"]

_LEFT_OUT = ("qconfig", "activation_post_process", "weight_fake_quant")


def adopted(kind: type, layer: Any) -> Any:
    """A layer of `kind` that has the settings, parameters and buffers of `layer`, the same objects, but not its hooks
    and observers."""
    state = {name: value for name, value in vars(layer).items() if name not in _LEFT_OUT}
    for name, value in state.items():
        if name in GROUPS:
            state[name] = {key: part for key, part in value.items() if key not in _LEFT_OUT}
        elif "hooks" in name:
            state[name] = type(value)()
        elif isinstance(value, set):
            state[name] = set(value)
    made = kind.__new__(kind)
    made.__setstate__(state)
    return made
