"""torch.nn.modules.utils: one number for each dim, and names in states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(count: int, name: str = "") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a number `n` times, or makes a tuple of an iterable."""

    def each(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * count

    return each


_single, _pair, _triple, _quadruple = (_ntuple(count) for count in (1, 2, 3, 4))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes `prefix` from the names of a state that begin with it, in place.

    Those of a model in DataParallel or DistributedDataParallel begin with "module.".
    """
    versions: dict[str, Any] = getattr(state_dict, "_metadata", {})  # by the modules' names, without a dot at the end
    if prefix.endswith(".") and prefix[:-1] in versions:
        versions[""] = versions.pop(prefix[:-1])
    for names in (state_dict, versions):
        for name in [name for name in names if name.startswith(prefix)]:
            names[name.removeprefix(prefix)] = names.pop(name)


__all__ = ["_ntuple", "_pair", "_quadruple", "_single", "_triple", "consume_prefix_in_state_dict_if_present"]
