"""A whole group of a module's members anew: imported when a module is given one."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .members import Members

if TYPE_CHECKING:
    from .module import Module


def replace_members(owner: Module, group: str, values: Mapping[str, Any]) -> None:
    """Gives a module a dict of members in place of the one before, whose attributes go."""
    before = owner.__dict__.get(group)
    if isinstance(before, Members):
        before._owners = [other for other in before._owners if other() not in (owner, None)]
        for name, value in before.items():
            if owner.__dict__.get(name) is value:
                del owner.__dict__[name]
    owner.__dict__[group] = made = Members()
    made._owners = [weakref.ref(owner)]
    made.update(values)
