"""Members of modules by name: what is written into the dict is the module's attribute at once, as in torch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .module import Module

GROUPS = "_parameters", "_buffers", "_modules"
_MISSING: Any = object()


class Members(dict[str, Any]):
    """Parameters, buffers or children of a module, which has each as an attribute of that name, so that reading one
    costs no search. Shallow copies of a module share the dict, as in torch, so that it may belong to several.
    """

    __slots__ = ("_owners",)
    _owners: list[weakref.ref[Module]]

    def belong_to(self, owner: Module) -> None:
        """Writes into the dict reach this module, too."""
        own = weakref.ref(owner)
        if own not in self._owners:
            self._owners = [other for other in self._owners if other() is not None]
            self._owners.append(own)

    def __setitem__(self, name: str, value: Any) -> None:
        optional = False
        for reference in self._owners:
            owner = reference()
            if owner is None:
                continue
            if value is None and owner._modules is not self:
                optional = True
                _forget(owner, name, self.get(name, _MISSING))
                if owner._buffers is self:
                    owner._absent.add(name)
            else:
                owner._absent.discard(name)
            owner.__dict__[name] = value
        if optional:  # only attributes tell of a parameter or buffer that is None
            super().pop(name, None)
        else:
            super().__setitem__(name, value)

    def __missing__(self, name: str) -> None:
        """None for a parameter or buffer that is None, as in torch."""
        for reference in self._owners:
            owner = reference()
            if owner is not None and owner._modules is not self and owner.__dict__.get(name, _MISSING) is None:
                return
        raise KeyError(name)

    def __delitem__(self, name: str) -> None:
        value = self[name]
        super().pop(name, None)
        for reference in self._owners:
            owner = reference()
            if owner is not None:
                if owner._buffers is self:
                    owner._absent.discard(name)
                _forget(owner, name, value)

    def pop(self, name: str, *default: Any) -> Any:
        if default and name not in self:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        last = name, value = super().popitem()
        super().__setitem__(name, value)
        del self[name]
        return last

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    update, setdefault = MutableMapping.update, MutableMapping.setdefault  # dict's do not call __setitem__

    def __ior__(self, values: Any) -> Members:  # type: ignore[override, misc]
        self.update(values)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A plain dict, also in a copy: the module that takes it makes it its own."""
        return dict, (), None, None, iter(self.items())

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return self.__reduce__()


def _forget(owner: Module, name: str, value: Any) -> None:
    if owner.__dict__.get(name, _MISSING) is value:
        del owner.__dict__[name]


def new_members(owner: Module) -> None:
    """Gives a module that is being made its empty groups."""
    reference = weakref.ref(owner)
    for group in GROUPS:
        owner.__dict__[group] = made = Members()
        made._owners = [reference]


def adopt_members(owner: Module) -> None:
    """Makes the groups in a module's attributes its own, where they came from elsewhere, as in copies and pickles."""
    for group in GROUPS:
        given = owner.__dict__.get(group)
        if type(given) is dict:
            owner.__dict__[group] = given = Members(given)
            given._owners = []
        if isinstance(given, Members):
            given.belong_to(owner)


def replace_members(owner: Module, group: str, values: Mapping[str, Any]) -> None:
    """Gives a module a dict of members in place of the one before, whose attributes go."""
    before = owner.__dict__.get(group)
    if isinstance(before, Members):
        before._owners = [other for other in before._owners if other() not in (owner, None)]
        for name, value in before.items():
            _forget(owner, name, value)
    owner.__dict__[group] = made = Members()
    made._owners = [weakref.ref(owner)]
    made.update(values)


def adopting(take: Callable[..., None]) -> Callable[..., None]:
    """A class's own __setstate__, which need not call that of Module."""

    def __setstate__(self: Module, state: Any) -> None:
        take(self, state)
        adopt_members(self)

    return __setstate__
