"""Calling a module with other parameters and buffers, by torch.nn.utils.stateless's name; pyapp.func has it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...engine import Tensor
from ...errors import StateError
from ..module import Module


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Calls a module with its parameters and buffers replaced by other tensors, by dotted name (a mapping, or several);
    those that are not named are kept. Other names are left out; with `strict` StateError for them and for missing ones.
    """
    given: dict[str, Tensor] = {}
    dicts = parameter_and_buffer_dicts
    for part in (dicts,) if isinstance(dicts, Mapping) else dicts:
        given.update(part)
    known = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    unknown = [name for name in given if name not in known]
    missing = [name for name in known if name not in given]
    if strict and (unknown or missing):
        raise StateError(f"functional_call: unexpected {unknown or 'nothing'}, missing {missing or 'nothing'}")
    given = {name: value for name, value in given.items() if name in known}
    if tie_weights:
        by_id = {id(known[name]): value for name, value in given.items()}
        given.update({n: by_id[id(t)] for n, t in known.items() if n not in given and id(t) in by_id})
    places = []
    for name, value in given.items():
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        places.append((owner, last, known[name], value))
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for owner, last, _, value in places:
            _put(owner, last, value)
        return module(*positional, **(kwargs or {}))
    finally:
        for owner, last, own, _ in places:
            _put(owner, last, own)


def _put(owner: Module, name: str, value: Tensor) -> None:
    """Replaces a parameter or buffer by any tensor."""
    group = owner._parameters if name in owner._parameters else owner._buffers
    group[name] = value
    object.__setattr__(owner, name, value)
