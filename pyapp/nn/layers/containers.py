"""Containers of modules and parameters: lists, dictionaries and sequences."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from operator import itemgetter
from typing import Any

from ...engine import Tensor
from ...engine.device import cpu
from ...engine.user_errors import describe
from ...errors import OperationError
from ..module import Module
from ..parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class ModuleList(Module):
    """Modules in a list, named by position; None keeps a place free."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        for module in modules or ():
            self.append(module)

    def __repr__(self) -> str:
        """Neighbours that look alike are shown once, with their number, as in torch: (0-11): 12 x Block."""
        runs: list[list[Any]] = []  # names, text
        for name, module in self._modules.items():
            text = repr(module)
            if name.isdigit() and runs and runs[-1][1] == text and runs[-1][0][-1].isdigit():
                runs[-1][0].append(name)
            else:
                runs.append([[name], text])
        if not runs:
            return f"{type(self).__name__}()"
        lines = [
            f"({names[0]}): {text}" if len(names) == 1 else f"({names[0]}-{names[-1]}): {len(names)} x {text}"
            for names, text in runs
        ]
        return f"{type(self).__name__}(\n  " + "\n  ".join(line.replace("\n", "\n  ") for line in lines) + "\n)"

    def append(self, module: Module) -> ModuleList:
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"{type(self).__name__}: {type(module).__name__} is not a Module subclass: takes modules, got "
                f"{describe(module)}"
            )
        self.add_module(str(len(self._modules)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        for module in list(modules):
            self.append(module)
        return self

    def _refill(self, modules: list[Module]) -> None:
        """Replaces the modules and renumbers them."""
        for name in list(self._modules):
            delattr(self, name)
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def insert(self, index: int, module: Module) -> ModuleList:
        """Inserts a module before the one at a position."""
        every = list(self)
        every.insert(index, module)
        self._refill(every)
        return self

    def pop(self, key: int = -1) -> Module:
        """Removes the module at a position and returns it."""
        every = list(self)
        taken = every.pop(key)
        self._refill(every)
        return taken

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:  # of modules: Any, because what they have and take is their own
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        """A module; for a slice, a container of the same type."""
        found = list(self._modules.values())[index]
        return type(self)._of(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[index], module)

    def __delitem__(self, index: Any) -> None:
        every = list(self)
        del every[index]
        self._refill(every)

    def __add__(self, other: Iterable[Module]) -> Any:
        return type(self)._of([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    @classmethod
    def _of(cls, modules: list[Module]) -> ModuleList:
        return cls(modules)


class Sequential(ModuleList):
    """Modules applied one after another, named by position, or by a mapping's names."""

    __repr__ = Module.__repr__

    def insert(self, index: int, module: Module) -> Sequential:
        """Inserts a module before the one at a position. IndexError for a position beyond the ends."""
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Sequential: there is no position {index} among {len(self)} modules")
        super().insert(index, module)
        return self

    def __init__(self, *modules: Any) -> None:
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], Mapping) else None
        super().__init__(None if named is not None else modules)
        for name, module in (named or {}).items():
            setattr(self, name, module)

    @classmethod
    def _of(cls, modules: list[Module]) -> ModuleList:
        return cls(*modules)

    def __getitem__(self, index: Any) -> Any:
        """A module; for a slice, a Sequential of the modules under the names that they have."""
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def __mul__(self, times: int) -> Any:
        """The modules so many times, one round after the other; they are not copied."""
        if not isinstance(times, int) or times < 1:
            raise (ValueError if isinstance(times, int) else TypeError)(
                f"{type(self).__name__}: takes a whole number of rounds above 0, got {times!r}"
            )
        return type(self)._of([module for _ in range(times) for module in self])

    __rmul__ = __mul__

    def forward(self, input: Any) -> Any:
        for name, module in self._modules.items():
            try:
                input = module(input)
            except OperationError as error:
                error.pass_layer(name, f"{type(module).__name__}({module.extra_repr()})")
                raise
        return input


def _check_key(owner: _Dict, key: Any) -> None:
    if not isinstance(key, str):
        raise TypeError(f"{type(owner).__name__}: keys are strings, got {key!r}")
    own = key in owner.__dict__ and key not in owner
    if not key or "." in key or hasattr(type(owner), key) or own:
        raise KeyError(f"{type(owner).__name__}: {key!r} cannot be a key: empty, dotted, or an attribute of the class")


def _pairs(given: Any) -> Iterable[tuple[str, Any]]:
    return given.items() if isinstance(given, Mapping) or hasattr(given, "items") else given


class _Dict(Module):
    """Base of ModuleDict and ParameterDict: one group of the module's members, by key."""

    def __init__(self, group: str, values: Any) -> None:
        super().__init__()
        object.__setattr__(self, "_group", group)
        if values is not None:
            self.update(values)

    @property
    def _held(self) -> dict[str, Any]:
        found: dict[str, Any] = self.__dict__[self._group]
        return found

    def _accept(self, key: str, value: Any) -> Any:
        raise NotImplementedError

    def update(self, values: Any) -> None:
        """Adds from a mapping or from pairs."""
        for key, value in _pairs(values):
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        _check_key(self, key)
        value = self._accept(key, value)
        if value is None:
            self._held.setdefault(key, None)
        setattr(self, key, value)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._held)

    def __delitem__(self, key: str) -> None:
        del self._held[key]

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def keys(self) -> KeysView[str]:
        return self._held.keys()

    def values(self) -> ValuesView[Any]:
        return self._held.values()

    def items(self) -> ItemsView[str, Any]:
        return self._held.items()

    def pop(self, key: str) -> Any:
        """Removes and returns."""
        value = self._held[key]
        del self[key]
        return value

    def clear(self) -> None:
        for key in list(self._held):
            del self[key]


class ModuleDict(_Dict):
    """Modules by key, in order; None keeps a place free."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__("_modules", modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def _accept(self, key: str, value: Any) -> Module | None:
        if value is not None and not isinstance(value, Module):
            raise TypeError(f"ModuleDict: {key!r} must be a module, got {describe(value)}")
        return value


class ParameterDict(_Dict):
    """Parameters by key, in order; other tensors become parameters. What is no tensor is kept as it is; modules are
    members. A plain dict is read in the order of its sorted keys, all else in its own, as in torch.
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        self.__dict__["_keys"] = {}
        super().__init__("_keys", parameters)

    @property
    def _held(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.__dict__["_keys"]}

    def update(self, values: Any) -> None:
        in_order = isinstance(values, (OrderedDict, ParameterDict)) or not isinstance(values, Mapping)
        super().update(values if in_order else sorted(values.items(), key=itemgetter(0)))

    def __getitem__(self, key: str) -> Any:
        if key not in self.__dict__["_keys"]:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        _check_key(self, key)
        setattr(self, key, _as_parameter(value))
        self.__dict__["_keys"][key] = None

    def __delitem__(self, key: str) -> None:
        del self.__dict__["_keys"][key]
        delattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._held.get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value at a key; `default` is stored first if the key is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Removes the last entry and returns (key, value)."""
        key = list(self._held)[-1]
        return key, self.pop(key)

    def __or__(self, other: Any) -> ParameterDict:
        found = self.copy()
        found.update(other)
        return found

    def __ror__(self, other: Any) -> ParameterDict:
        found = ParameterDict(other)
        found.update(self)
        return found

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Another ParameterDict of the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A ParameterDict of one value at several keys."""
        return ParameterDict((key, default) for key in keys)

    def extra_repr(self) -> str:
        return _texts(self.items(), lambda value: value.type())


def _texts(entries: Iterable[tuple[Any, Any]], kind_of: Callable[[Tensor], Any]) -> str:
    """A line for each entry, in the text of their container; `kind_of`: what it says of a tensor's numbers."""
    texts = []
    for key, value in entries:
        if isinstance(value, Tensor):
            place = "" if value.device is cpu else f" ({value.device})"
            size = "x".join(map(str, value.shape))
            texts.append(f"  ({key}): Parameter containing: [{kind_of(value)} of size {size}{place}]")
        else:
            texts.append(f"  ({key}): Object of type: {type(value).__name__}")
    return "\n".join(texts)


def _as_parameter(value: Any) -> Any:
    if not isinstance(value, Tensor) or getattr(value, "is_parameter", False):
        return value
    return Parameter(value)


class ParameterList(Module):
    """Parameters in a list, named by position; other tensors become parameters. What is no tensor is kept as it is."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def append(self, value: Any) -> ParameterList:
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        for value in values:
            self.append(value)
        return self

    def _name(self, index: int) -> str:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"ParameterList: index {index} is outside a list of {len(self)}")
        return str(position)

    def __getitem__(self, index: Any) -> Any:
        """A parameter; for a slice, a list of them."""
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._name(index))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(index)) for index in range(self._size))

    def extra_repr(self) -> str:
        return _texts(enumerate(self), lambda value: value.dtype)
