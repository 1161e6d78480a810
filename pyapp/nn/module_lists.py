"""Modules in a list, and modules one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..engine.op import describe
from .module import Module


class ModuleList(Module):
    """Modules in a list, named by position."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        for module in modules or ():
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}: takes modules, got {describe(module)}")
        setattr(self, str(len(self._modules)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        for module in list(modules):
            self.append(module)
        return self

    def _refill(self, modules: list[Module]) -> None:
        """Other modules, named anew."""
        for name in list(self._modules):
            delattr(self, name)
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def insert(self, index: int, module: Module) -> ModuleList:
        """Before the one at a position."""
        every = list(self)
        every.insert(index, module)
        self._refill(every)
        return self

    def pop(self, key: int = -1) -> Module:
        """Takes one out."""
        every = list(self)
        taken = every.pop(key)
        self._refill(every)
        return taken

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        """A module, or by a slice a list of the same kind."""
        found = list(self._modules.values())[index]
        return type(self)._of(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, module: Module) -> None:
        name = list(self._modules)[index]
        self._modules[name] = module  # in its place, where setattr would put it last
        object.__setattr__(self, name, module)

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

    def __init__(self, *modules: Any) -> None:
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], Mapping) else None
        super().__init__(None if named is not None else modules)
        for name, module in (named or {}).items():
            setattr(self, name, module)

    @classmethod
    def _of(cls, modules: list[Module]) -> ModuleList:
        return cls(*modules)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input
