"""PyTorch's files that hold more than tensors and plain data: a whole model, torch.save(model), or other objects.

Their pickles name classes and functions. None of them is imported and no code runs: each object becomes an
InertObject, which has the name of its class and the attributes that were saved. The tensors of a module are found in
the attributes `_parameters`, `_buffers` and `_modules`, as torch.nn.Module keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from pyapp.errors import FileFormatError

from .pytorch import DEPTH_LIMIT, NAME_LIMIT, NOTES_LIMIT, TENSORS_LIMIT, VISITS_LIMIT, PyTorchFile
from .safe_pickle import Builder, Class, Stateful

if TYPE_CHECKING:
    from .archive import Archive
    from .source import ByteSource

MODELS = ("ema", "model")  # keys of a checkpoint's dict that hold a model, the preferred first
PARTS = ("_parameters", "_buffers")  # of a module, by name


class InertObject(Stateful):
    """An object of a class that a pickle names: `kind` is the class, `attributes` what was saved of it."""

    __slots__ = ("attributes", "kind")

    def __init__(self, kind: str, *_: Any) -> None:
        self.kind = kind
        self.attributes: dict[str, Any] = {}

    def set_state(self, state: Any) -> None:
        if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:  # those of __slots__ come second
            state = {**(state[0] if type(state[0]) is dict else {}), **state[1]}
        if type(state) is dict and all(type(name) is str for name in state):
            self.attributes = state


class AnyName(dict[str, Any]):
    """The names that PyTorchFile knows, and a class of InertObjects for every other; `asked` are these names."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.asked: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return type(name) is str

    def __missing__(self, name: str) -> Class:
        if len(self.asked) < NOTES_LIMIT:
            self.asked.add(name)
        return Class(name, partial(InertObject, name))


def _collection(*values: Any) -> list[Any]:
    """A set or a deque of a list's values."""
    return list(values[0]) if values and type(values[0]) is list else []


# Containers of Python's that whole objects keep beside dicts and lists.
_CONTAINERS = {
    "collections.defaultdict": Builder("defaultdict", lambda *_: {}),
    "collections.deque": Builder("deque", _collection),
    **{f"{module}.set": Builder("set", _collection) for module in ("builtins", "__builtin__")},
}


def is_module(value: Any) -> TypeGuard[InertObject]:
    """Whether an object has what torch.nn.Module keeps."""
    return type(value) is InertObject and "_modules" in value.attributes


class PyTorchObjects(PyTorchFile):
    """A file of a whole model, or of a dict that holds one as "ema" or "model". `tensors` has the names of the model's
    state_dict; `model` is the object, `objects` those of its modules by their names; `asked` are the names of classes
    and functions in the pickle that are neither tensors nor plain data, sorted. FileFormatError where there is no
    model.
    """

    def __init__(self, source: ByteSource, archive: Archive | None = None) -> None:
        self.known = names = AnyName({**PyTorchFile.known, **_CONTAINERS})
        super().__init__(source, archive)
        self.asked = sorted(names.asked)

    def _unwrap(self, value: Any) -> Any:
        found = (
            next((value[key] for key in MODELS if value.get(key) is not None), None) if type(value) is dict else value
        )
        if not is_module(found):
            raise FileFormatError("the file holds no model of PyTorch", where=self.source.name)
        self.model: InertObject = found
        return self._state(found)

    def _state(self, model: InertObject) -> dict[str, Any]:
        """The state_dict of a model."""
        self.objects: dict[str, InertObject] = {}
        tensors: dict[str, Any] = {}
        waiting, visits = [("", model, 0)], 0
        while waiting:
            name, module, depth = waiting.pop()
            visits += 1 + sum(len(part) for part in self._dicts(module, (*PARTS, "_modules")))
            if depth > DEPTH_LIMIT or visits > VISITS_LIMIT or len(tensors) > TENSORS_LIMIT or len(name) > NAME_LIMIT:
                self._broken("its modules are nested too deeply, hold themselves, or have too many or too long names")
            self.objects[name] = module
            prefix = f"{name}." if name else ""
            for key, part in self._parts(module, PARTS):
                tensors[prefix + key] = part
            for key, part in reversed(self._parts(module, ("_modules",))):
                if type(part) is InertObject:
                    waiting.append((prefix + key, part, depth + 1))
        return {name: value for name, value in tensors.items() if value is not None}

    def _dicts(self, module: InertObject, names: tuple[str, ...]) -> list[dict[Any, Any]]:
        """The dicts of a module by their names."""
        found = [module.attributes.get(name, {}) for name in names]
        if not all(type(part) is dict for part in found):
            self._broken("its modules are not as PyTorch keeps them")
        return found

    def _parts(self, module: InertObject, names: tuple[str, ...]) -> list[tuple[str, Any]]:
        """What a module keeps in dicts by name."""
        found = self._dicts(module, names)
        if not all(type(key) is str and len(key) <= NAME_LIMIT for part in found for key in part):
            self._broken(f"its modules have names that are no texts of at most {NAME_LIMIT:,} characters")
        return [pair for part in found for pair in part.items()]


class InspectedFile(PyTorchObjects):
    """A file with any objects, of which the tensors that are in models, dicts and lists can be seen: a whole model is
    its state_dict, other objects are left out. `metadata` has the class of a whole model.
    """

    def _unwrap(self, value: Any) -> Any:
        if is_module(value):
            self.metadata["class"] = value.kind
            return self._state(value)
        if type(value) is dict:
            value = {key: self._state(inner) if is_module(inner) else inner for key, inner in value.items()}
        return PyTorchFile._unwrap(self, value)
