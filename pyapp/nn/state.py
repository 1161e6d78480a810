"""The state of a module by name: collecting and loading it, hooks around both, and extra state that is not tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..engine import Tensor
from ..engine.autograd import RemovableHandle

if TYPE_CHECKING:
    from .module import Module

EXTRA = "_extra_state"  # the name of the result of get_extra_state


class IncompatibleKeys(NamedTuple):
    """The names that load_state_dict found missing in a state, and those that the module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def new_state() -> OrderedDict[str, Any]:
    """An empty state_dict. Its `_metadata` is for the versions of the modules' states, by path."""
    state: OrderedDict[str, Any] = OrderedDict()
    state._metadata = OrderedDict()  # type: ignore[attr-defined]
    return state


class StateHooks:
    """The hooks around a module's state, in the order of registration."""

    def __init__(self) -> None:
        self.before_saving: list[Any] = []
        self.after_saving: list[tuple[Any, bool]] = []  # (hook, whether its result replaces the state)
        self.before_loading: list[Any] = []
        self.after_loading: list[Any] = []


def register(hooks: list[Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Adds a hook after the others, or with `prepend` before them; the handle removes it again."""
    hooks.insert(0 if prepend else len(hooks), hook)
    return RemovableHandle(hooks, hook)


class WithoutModule:
    """A hook that is called without its first argument, the module."""

    def __init__(self, hook: Callable[..., None]) -> None:
        self.hook = hook

    def __call__(self, _: Any, *rest: Any) -> None:
        self.hook(*rest)


class OwnState:
    """What a module does with its own state, without that of its children: classes override it."""

    def get_extra_state(self) -> Any:
        """The extra state to save."""
        raise RuntimeError(f"get_extra_state: {type(self).__name__} does not override this, so it has no extra state")

    def set_extra_state(self, state: Any) -> None:
        """Restores the result of get_extra_state."""
        raise RuntimeError(f"set_extra_state: {type(self).__name__} does not override this, so it has no extra state")

    def _save_to_state_dict(self: Any, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Writes the tensors and the extra state into `destination`."""
        for name, value in own_tensors(self):
            destination[prefix + name] = value if keep_vars else value.detach()
        if overrides(self, "get_extra_state"):
            destination[prefix + EXTRA] = self.get_extra_state()

    def _load_from_state_dict(
        self: Any, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Takes this module's tensors and extra state from the entries below the prefix. Classes that read older states
        override it: they rename entries of `state_dict`, a copy, and call this one.
        """
        self._load_own(state_dict, prefix, local_metadata, missing_keys, unexpected_keys, error_msgs)


def overrides(module: Module, method: str) -> bool:
    """Whether a class has a method of its own in place of OwnState's."""
    return getattr(type(module), method) is not getattr(OwnState, method)


Renames: TypeAlias = "Mapping[str, str] | Callable[[str], str]"


def renamed(name: str, renames: Renames) -> str:
    """A dotted name with whole parts (or runs of parts, longest first) replaced, or the result of a function of the
    name.
    """
    if callable(renames):
        found = renames(name)
        if not isinstance(found, str):
            raise TypeError(f"renames({name!r}) returned {found!r:.50}, expected the name as a text")
        return found
    dotted = f".{name}."
    for old in sorted(renames, key=len, reverse=True):
        dotted = dotted.replace(f".{old}.", f".{renames[old]}.")
    return dotted.strip(".")


def own_tensors(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and persistent buffers of this module, without those of its children."""
    for name, value in (*module._parameters.items(), *module._buffers.items()):
        if name not in module._non_persistent_buffers_set:
            yield name, value


def all_tensors(module: Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers themselves, by dotted name."""
    return {
        f"{path}.{name}" if path else name: value
        for path, owner in module._paths()
        for name, value in own_tensors(owner)
    }


def collect(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> dict[str, Any]:
    """Module.state_dict: writes into `destination`, and returns it or its replacement by a hook."""
    hooks = module._state_hooks or StateHooks()
    for hook in tuple(hooks.before_saving):
        hook(module, prefix, keep_vars)
    versions = getattr(destination, "_metadata", None)
    if versions is not None:
        versions[prefix[:-1]] = {"version": module._version}
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook, replaces in tuple(hooks.after_saving):
        changed = hook(module, destination, prefix, {"version": module._version})
        if changed is not None and not replaces:
            raise RuntimeError(
                f"state_dict: a post-hook of {type(module).__name__} returned a {type(changed).__name__}; "
                "it must change the state in place and return None"
            )
        destination = destination if changed is None else changed
    return destination
