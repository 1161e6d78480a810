"""Lists and dicts of a node's arguments, which cannot be changed: `node.args = ...` gives a node others."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(
        f"{type(self).__name__}: the arguments of a node cannot be changed in place; assign node.args or node.kwargs"
    )


class immutable_list(list[Any]):
    """A list that cannot be changed."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that cannot be changed."""

    clear = pop = popitem = setdefault = update = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (dict(self),)


__all__ = ["immutable_dict", "immutable_list"]
