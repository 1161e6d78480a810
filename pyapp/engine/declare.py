"""Public names, declared where a function is defined.

    @function(method=True, in_place=True, synonyms="arccos")
    @primitive(...)
    def acos(x): ...

gives `pyapp.acos`, `Tensor.acos`, `Tensor.acos_` and the same under `arccos`. Code of the engine calls the function
that is defined; users get it wrapped once: errors bear its name, and torch's names for arguments are taken.

`FUNCTIONS` and `METHODS` hold what was declared so far. `scripts/op_index.py` imports every module of ops and writes
what they declare to `ops/_index.py`, so that a module is imported when one of its names is first asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from .in_place import in_place as _in_place
from .in_place import shape_in_place as _shape_in_place
from .op import Op
from .tensor import Tensor
from .torch_arguments import as_factory, by_torch_names
from .user_errors import named

Value = TypeVar("Value")
_TOP = __name__.partition(".")[0]  # the package, which has every public name


class Declaration:
    """A public name: the function or plain value of that name, and the module that declares it."""

    __slots__ = ("_public", "arguments", "factory", "module", "name", "value")

    def __init__(self, name: str, value: Any, module: str, arguments: tuple[str, ...], factory: bool) -> None:
        self.name = name
        self.value = value
        self.module = module
        self.arguments = arguments
        self.factory = factory
        self._public: Any = None

    @property
    def public(self) -> Any:
        """The function as users call it: its errors have its name, and it accepts torch's names for arguments."""
        if self._public is None:
            found = by_torch_names(self.value, self.name, self.arguments)
            self._public = as_factory(found) if self.factory else found
            if isinstance(self._public, FunctionType) and self._public is not self.value:
                self._public.__module__, self._public.__qualname__ = _TOP, self.name  # where pickle finds it
            for guard in GUARDS:
                self._public = guard(self.name, self._public)
        return self._public


FUNCTIONS: dict[str, Declaration] = {}  # by public name
GUARDS: list[Callable[[str, Any], Any]] = []  # of subclasses.py: what every method goes through
METHODS: dict[str, str] = {}  # of Tensor, properties too: the module that declares each


def _caller() -> str:
    """The module that declares."""
    name: str = sys._getframe(2).f_globals["__name__"]
    return name


def function(
    name: str | None = None, *, method: bool = False, in_place: bool | str = False, arguments: str = "",
    synonyms: str = "", factory: bool = False, module: str | None = None,
) -> Callable[[Value], Value]:  # fmt: skip
    """Gives a function, or a plain value, a public name: its own unless `name` says otherwise.

    `method`: Tensor has it, too. `in_place`: Tensor has `name_`; "shape" where the function gives a view of all
    elements, whose shape the tensor takes. `arguments`: torch's names for the first arguments, where the function calls
    them otherwise (a first argument x is called `input` in any case). `synonyms`: further public names. `factory`: the
    function makes tensors, and takes torch's settings about memory.
    """
    module = module or _caller()

    def declare(value: Value) -> Value:
        own = name or value.__name__  # type: ignore[attr-defined]
        for public in (own, *synonyms.split()):
            known = FUNCTIONS.get(public)
            if known is not None and known.module != module:
                raise ValueError(f"{public}: {module} declares what {known.module} declares")
            declaration = Declaration(public, value, module, tuple(arguments.split()), factory)
            FUNCTIONS[public] = declaration
            if method:
                attach(public, _as_method(declaration), module)
            if in_place:
                shape = in_place == "shape"
                written = _shape_in_place(public, value) if shape else _in_place(public, value, declaration.public)
                attach(public + "_", written, module)
        return value

    return declare


def _as_method(declaration: Declaration) -> Any:
    """Functions that add their name to errors themselves are called often: they are methods as they are."""
    found = declaration.value
    own = hasattr(found, "names_itself") and found.__name__ == declaration.name
    return found if own else declaration.public


def method(name: str | None = None, *, in_place: bool = False) -> Callable[[Value], Value]:
    """Gives Tensor a method that is not a public function; with `in_place` `name_` as well."""
    module = _caller()

    def declare(value: Value) -> Value:
        own = name or value.__name__  # type: ignore[attr-defined]
        found: Any = value.call if isinstance(value, Op) else value
        plain = type(found) is FunctionType and not hasattr(found, "names_itself")
        attach(own, named(found, own.strip("_") if own.startswith("__") else own) if plain else found, module)
        if in_place:
            attach(own + "_", _in_place(own, value, value), module)
        return value

    return declare


def attribute(name: str) -> Callable[[Value], Value]:
    """Gives Tensor a property."""
    module = _caller()

    def declare(value: Value) -> Value:
        attach(name, property(value), module)  # type: ignore[arg-type]
        return value

    return declare


def constant(name: str, value: Any) -> Any:
    """Gives a plain value a public name."""
    FUNCTIONS[name] = declaration = Declaration(name, value, _caller(), (), False)
    declaration._public = value
    return value


def publish(namespace: dict[str, Any], names: list[str], also: str | None = None) -> None:
    """Wraps functions of a module for users; `also`: one more name for each first argument."""
    for name in names:
        found = namespace[name]
        declared = next((d for d in FUNCTIONS.values() if d.value is found), None)
        made = by_torch_names(found, name, declared.arguments if declared else (), also)
        if (
            isinstance(made, FunctionType)
            and made is not found
            and not (name in FUNCTIONS and made is FUNCTIONS[name].public)
        ):
            made.__module__, made.__qualname__ = namespace["__name__"], name  # where pickle finds it
        namespace[name] = made


def attach(name: str, found: Any, module: str) -> None:
    """Makes it an attribute of Tensor."""
    METHODS[name] = module
    for guard in GUARDS:
        found = guard(name, found)
    setattr(Tensor, name, found)
