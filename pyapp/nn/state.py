"""The state of a module by name: collecting and loading it, hooks around both, and extra state that is not tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..engine import Tensor, no_grad
from ..engine.autograd import RemovableHandle
from ..engine.user_errors import describe
from ..errors import StateError

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
    """Adds a hook behind the others, or with `prepend` before them; the handle removes it again."""
    hooks.insert(0 if prepend else len(hooks), hook)
    return RemovableHandle(hooks, hook)


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
        if _overrides(self, "get_extra_state"):
            destination[prefix + EXTRA] = self.get_extra_state()

    def _load_from_state_dict(
        self: Any, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Takes this module's tensors and extra state from the entries below the prefix. Classes that read older states
        override it: they rename entries of `state_dict`, a copy, and call this one.
        """
        own = {prefix + name: value for name, value in own_tensors(self)}
        extra = [prefix + EXTRA] if _overrides(self, "set_extra_state") else []
        names = [*own, *extra]
        missing_keys.extend(name for name in names if name not in state_dict)
        unexpected_keys.extend(
            name for name in state_dict
            if name.startswith(prefix) and name not in names and name[len(prefix) :].split(".")[0] not in self._modules
        )  # fmt: skip
        wrong = _misfits(own, state_dict)
        error_msgs.extend(wrong)
        if not wrong:
            _take(self, prefix, own, state_dict, local_metadata.get("assign_to_params_buffers", False))
            for name in extra:
                if name in state_dict:
                    self.set_extra_state(state_dict[name])


def _overrides(module: Module, method: str) -> bool:
    """Whether a class has a method of its own in place of OwnState's."""
    return getattr(type(module), method) is not getattr(OwnState, method)


def _take(module: Any, prefix: str, own: Mapping[str, Tensor], state: Mapping[str, Any], assign: bool) -> None:
    """Writes values of a state into tensors of a module; `own`: by name with the prefix."""
    with no_grad():
        for name, target in own.items():
            if name in state and assign:
                module._assign(name.removeprefix(prefix), state[name])
            elif name in state:
                target.copy_(state[name].to(target.device))


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
        if name not in module._transient:
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


def _renamed(state: Mapping[str, Any], renames: Mapping[str, str] | None) -> dict[str, Any]:
    if not renames:
        return dict(state)
    named = {renamed(name, renames): value for name, value in state.items()}
    if len(named) != len(state):
        raise StateError(f"load_state_dict: renames {dict(renames)} give two tensors the same name")
    return named


def _run_before(
    module: Module, state: dict[str, Any], metadata: Mapping[str, Any], assign: bool, found: IncompatibleKeys,
    errors: list[str],
) -> list[str]:  # fmt: skip
    """Runs the hooks before loading, and classes' own _load_from_state_dict, from the top down. Each gets the entries
    below its module, and may change them. Returns the paths of the modules that have loaded themselves.
    """
    loaded = []
    for path, owner in module._paths():
        hooks = () if owner._state_hooks is None else tuple(owner._state_hooks.before_loading)
        loads = _overrides(owner, "_load_from_state_dict")
        if not hooks and not loads:
            continue
        prefix = f"{path}." if path else ""
        part = {name: value for name, value in state.items() if name.startswith(prefix)}
        before = list(part)
        own = metadata.get(path, {}) | ({"assign_to_params_buffers": True} if assign else {})
        for hook in hooks:
            hook(owner, part, prefix, own, True, *found, errors)
        if loads:
            owner._load_from_state_dict(part, prefix, own, True, *found, errors)
            loaded.append(path)
        for name in before:
            del state[name]
        state.update(part)
    return loaded


def _run_after(module: Module, found: IncompatibleKeys) -> None:
    """Runs the hooks after loading, from the bottom up. They may remove names from the lists."""
    for child in module._modules.values():
        _run_after(child, found)
    for hook in tuple(module._state_hooks.after_loading) if module._state_hooks is not None else ():
        if hook(module, found) is not None:
            raise RuntimeError(f"load_state_dict: a post-hook of {type(module).__name__} must return None")


def _check(module: Module, found: IncompatibleKeys, strict: bool, wrong: list[str]) -> None:
    """StateError that lists every mismatch."""
    kinds = ("missing", found.missing_keys), ("unexpected", found.unexpected_keys)
    reports = [f"{kind} {', '.join(map(repr, names))}" for kind, names in kinds if strict and names]
    if reports or wrong:
        raise StateError(f"load_state_dict: {type(module).__name__}: {'; '.join(reports + wrong)}")


def _misfits(own: Mapping[str, Tensor], state: Mapping[str, Any]) -> list[str]:
    """Descriptions of the values that are not tensors or have another shape."""
    return [
        f"{name!r} is {describe(target)}, the state holds {describe(state[name]):.80}"
        for name, target in own.items()
        if name in state and (not isinstance(state[name], Tensor) or state[name].shape != target.shape)
    ]


def _owner(module: Module, name: str) -> str:
    """The path of the module to which the entry `name` of a state belongs: the longest that there is."""
    path: list[str] = []
    for part in name.split("."):
        if part not in module._modules:
            break
        path, module = [*path, part], module._modules[part]
    return ".".join(path)


def load(
    module: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool, renames: Mapping[str, str] | None
) -> IncompatibleKeys:
    """Module.load_state_dict. Nothing is written if something does not fit, except names that hooks after loading may
    still excuse, and by classes with their own _load_from_state_dict.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"load_state_dict: takes a dict of tensors by name, not {describe(state_dict):.80}")
    state, found, errors = _renamed(state_dict, renames), IncompatibleKeys([], []), list[str]()
    metadata = getattr(state_dict, "_metadata", None) or {}
    loaded = _run_before(module, state, metadata, assign, found, errors)
    if errors:
        raise StateError(f"load_state_dict: {type(module).__name__}: {'; '.join(errors)}")
    paths = [(path, owner) for path, owner in module._paths() if path not in loaded]
    own = {f"{path}.{name}" if path else name: value for path, owner in paths for name, value in own_tensors(owner)}
    extra = {
        f"{path}.{EXTRA}" if path else EXTRA: owner for path, owner in paths if _overrides(owner, "set_extra_state")
    }
    newer = {f"{path}.{name}" if path else name for path, owner in paths for name in owner.lacking_in_older_states}
    found.missing_keys.extend(name for name in (*own, *extra) if name not in state and name not in newer)
    others = [name for name in state if name not in own and name not in extra]
    if loaded:  # entries of those modules are reported by themselves
        others = [name for name in others if _owner(module, name) not in loaded]
    found.unexpected_keys.extend(others)
    excusing = any(m._state_hooks is not None and m._state_hooks.after_loading for m in module.modules())
    _check(module, found, strict and not excusing, _misfits(own, state))
    _take(module, "", own, state, assign)
    for name, owner in extra.items():
        if name in state:
            owner.set_extra_state(state[name])
    if excusing:
        _run_after(module, found)
        _check(module, found, strict, [])
    return found
