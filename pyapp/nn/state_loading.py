"""Loading a module's state by name, with the hooks around it: imported by the first load_state_dict, as the page's
start does without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, no_grad
from ..engine.lazy import np
from ..engine.user_errors import describe
from ..errors import StateError
from .state import EXTRA, IncompatibleKeys, overrides, own_tensors, renamed

if TYPE_CHECKING:
    from .module import Module


def take(module: Any, prefix: str, own: Mapping[str, Tensor], state: Mapping[str, Any], assign: bool) -> None:
    """Writes values of a state into tensors of a module; `own`: by name with the prefix."""
    with no_grad():
        for name, target in own.items():
            if name in state and assign:
                module._assign(name.removeprefix(prefix), state[name])
            elif name in state:
                target.copy_(state[name].to(target.device))


def report(
    module: Module, names: Iterable[str], state_dict: Mapping[str, Any], prefix: str, missing_keys: list[str],
    unexpected_keys: list[str],
) -> None:  # fmt: skip
    """Adds to the lists which of a module's own `names` a state lacks, and its entries there that are none of them."""
    own = list(names)
    missing_keys.extend(name for name in own if name not in state_dict)
    unexpected_keys.extend(
        name for name in state_dict
        if name.startswith(prefix) and name not in own and name[len(prefix) :].split(".")[0] not in module._modules
    )  # fmt: skip


def load_own(
    module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], missing_keys: list[str],
    unexpected_keys: list[str], error_msgs: list[str],
) -> None:  # fmt: skip
    """Module._load_from_state_dict."""
    own = {prefix + name: value for name, value in own_tensors(module)}
    extra = prefix + EXTRA if overrides(module, "set_extra_state") else None
    report(module, [*own, *([extra] if extra else [])], state_dict, prefix, missing_keys, unexpected_keys)
    wrong = misfits(own, state_dict)
    error_msgs.extend(wrong)
    if not wrong:
        take(module, prefix, own, state_dict, local_metadata.get("assign_to_params_buffers", False))
        if extra in state_dict:
            module.set_extra_state(state_dict[extra])


def path_of_owner(module: Module, name: str) -> str:
    """The path of the module to which the entry `name` of a state belongs: the longest that there is."""
    path: list[str] = []
    for part in name.split("."):
        if module._modules.get(part) is None:
            break
        path, module = [*path, part], module._modules[part]
    return ".".join(path)


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
        loads = overrides(owner, "_load_from_state_dict")
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
        if child is not None:
            _run_after(child, found)
    for hook in tuple(module._state_hooks.after_loading) if module._state_hooks is not None else ():
        if hook(module, found) is not None:
            raise RuntimeError(f"load_state_dict: a post-hook of {type(module).__name__} must return None")


def _check(module: Module, found: IncompatibleKeys, strict: bool, wrong: list[str]) -> None:
    """StateError that lists every mismatch, in torch's words."""
    kinds = ("Missing", found.missing_keys), ("Unexpected", found.unexpected_keys)
    reports = [
        f"{kind} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + "."
        for kind, names in kinds
        if strict and names
    ]
    if reports or wrong:
        told = "".join(f"\n\t{report}" for report in reports + wrong)
        raise StateError(
            f"load_state_dict: Error(s) in loading state_dict for {type(module).__name__}:{told}{_hint(found, strict)}"
        )


def _hint(found: IncompatibleKeys, strict: bool) -> str:
    """What to do where the names differ by a prefix, as those of DataParallel and of compiled modules do."""
    for name in found.unexpected_keys if strict else ():
        for missing in found.missing_keys:
            if name.endswith(f".{missing}"):
                prefix = name.removesuffix(missing)
                return f"\n\tTake the prefix away: renames=lambda name: name.removeprefix({prefix!r})"
    return ""


def _held(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"a NumPy array {value.dtype}{list(value.shape)}: make tensors of arrays with pyapp.from_numpy"
    return f"{describe(value):.80}"


def misfits(own: Mapping[str, Tensor], state: Mapping[str, Any]) -> list[str]:
    """Descriptions of the values that are not tensors or have another shape."""
    return [
        f"size mismatch for {name}: the module has {describe(target)}, the state holds {_held(state[name])}."
        for name, target in own.items()
        if name in state and (not isinstance(state[name], Tensor) or state[name].shape != target.shape)
    ]


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
        f"{path}.{EXTRA}" if path else EXTRA: owner for path, owner in paths if overrides(owner, "set_extra_state")
    }
    newer = {f"{path}.{name}" if path else name for path, owner in paths for name in owner.lacking_in_older_states}
    found.missing_keys.extend(name for name in (*own, *extra) if name not in state and name not in newer)
    others = [name for name in state if name not in own and name not in extra]
    if loaded:  # entries of those modules are reported by themselves
        others = [name for name in others if path_of_owner(module, name) not in loaded]
    found.unexpected_keys.extend(others)
    excusing = any(m._state_hooks is not None and m._state_hooks.after_loading for m in module.modules())
    _check(module, found, strict and not excusing, misfits(own, state))
    take(module, "", own, state, assign)
    for name, owner in extra.items():
        if name in state:
            owner.set_extra_state(state[name])
    if excusing:
        _run_after(module, found)
        _check(module, found, strict, [])
    return found
