"""Objects by name, as Keras accepts them everywhere: "relu", {"class_name": …, "config": …}, a class, an object; and
objects that remember the arguments they were made with, so that files can describe them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..train.metrics import MeanMetricWrapper
from ..train.names import snake_case

CLASSES: dict[str, Any] = {}  # what files may name: the classes of this package, and those that users register
BY_MODULE: dict[tuple[str, str], type] = {}  # the classes of this package by Keras' module and name


def registered(name: str) -> Any:
    """The class or function that is registered under a name, or under "package>name"; None for an unknown one."""
    if name in CLASSES:
        return CLASSES[name]
    return next((found for key, found in CLASSES.items() if key.rsplit(">", 1)[-1] == name), None)


def described(kind: type, config: Any) -> dict[str, Any]:
    """An object of a class as Keras writes it: its module, class, configuration, and the name it is registered by."""
    module, name, own = str(kind.__module__), str(kind.__name__), None
    if module.startswith("pyapp."):
        module = getattr(kind, "keras_module", "keras")
        own = name if module.startswith("keras.src.") else None
        name = getattr(kind, "keras_name", name)
    else:
        own = registered_name(kind)
    return {"module": module, "class_name": name, "config": config, "registered_name": own}


def registered_name(obj: Any) -> str:
    """The name under which a class or function is registered, or its own."""
    return next((key for key, known in CLASSES.items() if known is obj), str(obj.__name__))


class Configured:
    """Base of objects whose `get_config` gives the arguments of their constructor, as JSON values."""

    _arguments: dict[str, Any] | None = None
    keras_module = "keras"  # where Keras has the class

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if cls.__module__.startswith(__package__):
            CLASSES[cls.__name__] = cls
            BY_MODULE[cls.keras_module, cls.__dict__.get("keras_name", cls.__name__)] = cls
        if "__init__" in cls.__dict__:
            cls.__init__ = _remembering(cls.__init__)  # type: ignore[method-assign]

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {name: as_json(value) for name, value in (self._arguments or {}).items()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """An object made with these arguments."""
        return cls(**config)


def _remembering(construct: Callable[..., None]) -> Callable[..., None]:
    """The constructor, which keeps the arguments of the outermost call."""
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if self.__dict__.get("_arguments") is None:
            try:
                bound = signature.bind(self, *args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}: {error}") from None
            given = dict(list(bound.arguments.items())[1:])
            for name, parameter in signature.parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    given |= given.pop(name, {})
            in_order = {
                name: given.pop(name, parameter.default) for name, parameter in signature.parameters.items()
                if name in given or parameter.default is not parameter.empty
            }  # fmt: skip
            self.__dict__["_arguments"] = in_order | given
        construct(self, *args, **kwargs)

    return __init__


def function_as_json(function: Any) -> dict[str, Any]:
    """A function as an object of its own, where Keras does not write its name alone. TypeError for a lambda."""
    return {"module": "builtins", "class_name": "function", "config": as_json(function), "registered_name": "function"}


def as_json(value: Any) -> Any:
    """A value of a configuration as JSON. TypeError for what has no form there."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(inner) for inner in value]
    if hasattr(value, "get_config"):
        config = value.get_config()
        if isinstance(value, MeanMetricWrapper) and callable(config.get("fn")):
            config = {**config, "fn": function_as_json(config["fn"])}
        made = described(type(value), as_json(config))
        built = value.get_build_config() if hasattr(value, "get_build_config") else None
        return made if built is None else {**made, "build_config": as_json(built)}
    if hasattr(value, "tolist"):
        return value.tolist()
    name = getattr(value, "__name__", "<lambda>")
    if callable(value) and name != "<lambda>":
        return name if str(value.__module__).startswith("pyapp.keras.") else registered_name(value)
    raise TypeError(f"{value!r:.60} cannot be written to a file: a function has to have a name")


def serialize(instance: Any) -> Any:
    """The name of a function, or {"module", "class_name", "config", "registered_name"} of an object."""
    return as_json(instance)


def serialize_whole(instance: Any) -> Any:
    """As `serialize`; functions of losses and metrics are objects of their own too."""
    found = as_json(instance)
    return function_as_json(instance) if callable(instance) and isinstance(found, str) else found


class Lookup:
    """Finds objects of one kind among the names of a module: instances of subclasses of `base`, made without
    arguments, and functions."""

    def __init__(
        self, kind: str, names: Mapping[str, Any], base: type, aliases: Mapping[str, str] | None = None
    ) -> None:
        self.kind, self.names, self.base, self.aliases = kind, names, base, aliases or {}

    def _named(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in self.names.items():
            if name[0] == "_" or value is self.base:
                continue
            if isinstance(value, type):
                if issubclass(value, self.base):
                    found[name] = found[snake_case(name)] = value
            elif callable(value) and getattr(value, "__module__", "") == self.names["__name__"] and name != "get":
                found.setdefault(name, value)
        return found

    def deserialize(self, config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """The object that `serialize` described; classes of one's own are in `custom_objects`, by name."""
        made = (
            None
            if custom_objects is None or not isinstance(config, Mapping)
            else custom_objects.get(config.get("class_name", ""))
        )
        return self.get(config) if made is None else made(**config.get("config", {}))

    def get(self, identifier: Any) -> Any:
        """The object that `identifier` names. ValueError for an unknown name, with the names that there are."""
        if identifier is None:
            return None
        if isinstance(identifier, str):
            named = self._named()
            found = named.get(self.aliases.get(identifier, identifier))
            if found is None:
                found = named.get(identifier.lower())
            if found is None:
                found = registered(identifier)
            if found is None:
                raise ValueError(
                    f"Could not interpret {self.kind} identifier {identifier!r}: there is no {self.kind} "
                    f"{identifier!r}; there are {', '.join(sorted(named))}, and what is registered or in custom_objects"
                )
            return found() if isinstance(found, type) else found
        if isinstance(identifier, Mapping):
            name = str(identifier.get("class_name", ""))
            if name == "function":
                return self.get(str(identifier.get("config")))
            named = self._named()
            made = named.get(name) or named.get(self.aliases.get(name, name)) or registered(name)
            if made is None:
                raise ValueError(f"there is no {self.kind} {identifier.get('class_name')!r}")
            return made(**identifier.get("config", {})) if isinstance(made, type) else made
        if isinstance(identifier, type) and issubclass(identifier, self.base):
            return identifier()
        if callable(identifier) or isinstance(identifier, self.base):
            return identifier
        raise TypeError(
            f"Could not interpret {self.kind} identifier: takes a name, an object or None, not {identifier!r:.60}"
        )
