"""PyTorch's files that hold a whole model, not its state_dict: torch.save(model).

Their pickles name the classes of the model. None of them is imported and no code runs: each object becomes an
InertObject, which has the name of its class and the attributes that were saved. The tensors of a module are found in
the attributes `_parameters`, `_buffers` and `_modules`, as torch.nn.Module keeps them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyapp.errors import FileFormatError

from .pytorch import DEPTH_LIMIT, TENSORS_LIMIT, VISITS_LIMIT, PyTorchFile
from .safe_pickle import Class, Stateful

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


class _AnyName(dict[str, Any]):
    """The names that PyTorchFile knows, and a class of InertObjects for every other."""

    def __contains__(self, name: object) -> bool:
        return type(name) is str

    def __missing__(self, name: str) -> Class:
        return Class(name, partial(InertObject, name))


class PyTorchObjects(PyTorchFile):
    """A file of a whole model, or of a dict that holds one as "ema" or "model". `tensors` has the names of the model's
    state_dict; `model` is the object, `objects` those of its modules by their names. FileFormatError where there is
    none.
    """

    known = _AnyName(PyTorchFile.known)

    def _unwrap(self, value: Any) -> Any:
        found = (
            next((value[key] for key in MODELS if value.get(key) is not None), None) if type(value) is dict else value
        )
        if type(found) is not InertObject or "_modules" not in found.attributes:
            raise FileFormatError("the file holds no model of PyTorch", where=self.source.name)
        self.model = found
        self.objects: dict[str, InertObject] = {}
        tensors: dict[str, Any] = {}
        waiting = [("", found, 0)]
        while waiting:
            name, module, depth = waiting.pop()
            if depth > DEPTH_LIMIT or len(self.objects) > VISITS_LIMIT or len(tensors) > TENSORS_LIMIT:
                self._broken("its modules are nested too deeply, hold themselves, or are too many")
            self.objects[name] = module
            prefix = f"{name}." if name else ""
            for key, part in self._parts(module, PARTS):
                tensors[prefix + key] = part
            for key, part in self._parts(module, ("_modules",)):
                if type(part) is InertObject:
                    waiting.append((prefix + key, part, depth + 1))
        return {name: value for name, value in tensors.items() if value is not None}

    def _parts(self, module: InertObject, names: tuple[str, ...]) -> list[tuple[str, Any]]:
        """What a module keeps in dicts by name."""
        found = [module.attributes.get(name, {}) for name in names]
        if not all(type(part) is dict and all(type(key) is str for key in part) for part in found):
            self._broken("its modules are not as PyTorch keeps them")
        return [pair for part in found for pair in part.items()]
