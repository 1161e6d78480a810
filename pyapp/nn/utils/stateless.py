"""Calling a module with other parameters and buffers, by torch.nn.utils.stateless's name; pyapp.func has it too."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from ...engine import Tensor
from ...errors import StateError
from ..module import Module


def functional_call(
    module: Module, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Calls a module with its parameters, buffers and other tensors replaced, by dotted name (a mapping, or several);
    those that are not named are kept. Other names are left out; with `strict` StateError for them and for missing ones.
    A mapping that is alone gets what the module assigns to these names meanwhile. ValueError for two values of a name,
    or, unless `tie_weights` is False, of a tensor that has several names.
    """
    given: dict[str, Tensor] = {}
    dicts = parameter_and_buffer_dicts
    for part in (dicts,) if isinstance(dicts, Mapping) else dicts:
        if twice := [name for name in part if name in given]:
            raise ValueError(f"functional_call: {twice} are in several mappings")
        given.update(part)
    state: Any = (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
    known: dict[str, Tensor] = {name: tensor for named in state for name, tensor in named}
    if tie_weights:
        _tie(given, known)
    missing = [name for name in known if name not in given]
    known |= {name: found for name in given if name not in known and (found := _other_tensor(module, name)) is not None}
    unknown = [name for name in given if name not in known]
    if strict and (unknown or missing):
        raise StateError(f"functional_call: unexpected {unknown or 'nothing'}, missing {missing or 'nothing'}")
    places = []
    for name, value in given.items():
        if name in known:
            path, _, last = name.rpartition(".")
            places.append((name, module.get_submodule(path), last, value))
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for _, owner, last, value in places:
            _put(owner, last, value)
        return module(*positional, **(kwargs or {}))
    finally:
        for name, owner, last, value in places:
            now = getattr(owner, last, None)
            if now is not value and isinstance(dicts, MutableMapping) and name in dicts:
                dicts[name] = now
            _put(owner, last, known[name])


def _tie(given: dict[str, Tensor], known: dict[str, Tensor]) -> None:
    """Gives the other names of a tensor the value that one of its names has."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in known.items():
        names_of.setdefault(id(tensor), []).append(name)
    for names in names_of.values():
        values = [given[name] for name in names if name in given]
        if any(value is not values[0] for value in values):
            raise ValueError(f"functional_call: {names} are names of one tensor, and got several values")
        if values:
            given.update(dict.fromkeys(names, values[0]))


def _other_tensor(module: Module, name: str) -> Tensor | None:
    """A tensor of a module that is neither a parameter nor a buffer."""
    path, _, last = name.rpartition(".")
    for part in path.split(".") if path else ():
        inner = module._modules.get(part)
        if inner is None:
            return None
        module = inner
    found = module.__dict__.get(last)
    return found if isinstance(found, Tensor) else None


def _put(owner: Module, name: str, value: Tensor) -> None:
    """Replaces a parameter, a buffer or another tensor by any tensor."""
    for group in (owner._parameters, owner._buffers):
        if name in group:
            group[name] = value
    object.__setattr__(owner, name, value)
