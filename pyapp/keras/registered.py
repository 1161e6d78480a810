"""Objects as JSON values and back: keras.saving.serialize_keras_object, and the names that are registered."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..engine import Tensor
from ..engine import ops as engine_ops
from . import activations, dtype_policies, losses, metrics, ops
from .core import Layer, restored
from .lookup import BY_MODULE, CLASSES, registered, serialize_whole
from .lookup import registered_name as get_registered_name

__all__ = [
    "deserialize_keras_object", "get_registered_name", "get_registered_object", "serialize_keras_object",
]  # fmt: skip


def get_registered_object(
    name: str, custom_objects: Mapping[str, Any] | None = None, module_objects: Mapping[str, Any] | None = None
) -> Any:
    """The class or function of a name; None for an unknown one."""
    for known in (custom_objects or {}, CLASSES, module_objects or {}):
        if name in known:
            return known[name]
        if f"Custom>{name}" in known:
            return known[f"Custom>{name}"]
    return registered(name) or CLASSES.get(name.rsplit(">", 1)[-1])


def serialize_keras_object(obj: Any) -> Any:
    """{"module", "class_name", "config", "registered_name"} of a layer, model, loss or another object with get_config,
    and of a function; numbers, texts, lists and dicts as they are; tensors as lists. TypeError for what has no form in
    JSON."""
    if isinstance(obj, Tensor):
        return {"class_name": "__tensor__", "config": {"value": obj.tolist(), "dtype": obj.dtype.name}}
    if isinstance(obj, slice):
        ends = {"start": obj.start, "stop": obj.stop, "step": obj.step}
        return {"class_name": "__slice__", "config": {key: serialize_keras_object(end) for key, end in ends.items()}}
    if isinstance(obj, (list, tuple)):
        return [serialize_keras_object(one) for one in obj]
    if isinstance(obj, Mapping):
        return {str(key): serialize_keras_object(one) for key, one in obj.items()}
    return serialize_whole(obj)


def _function_named(name: str, custom_objects: Mapping[str, Any] | None) -> Any:
    """A function of one's own, or of Keras, by its name. ValueError for another name."""
    found = get_registered_object(name, custom_objects)
    for part in () if found is not None else (activations, losses, metrics, ops):
        found = None if name[:1] == "_" else getattr(part, name, None)
        if callable(found) and not isinstance(found, type):
            break
    if not callable(found) or isinstance(found, type):
        raise ValueError(f"the function {name!r:.60} is not known: register it, or give it in custom_objects")
    return found


def _loaded(module: str, name: str) -> Any:
    """A class with a configuration, of a module that is imported already; None for anything else."""
    found = vars(sys.modules.get(module, object)).get(name)
    fits = isinstance(found, type) and all(callable(getattr(found, one, None)) for one in ("get_config", "from_config"))
    return found if fits else None


def deserialize_keras_object(
    config: Any, custom_objects: Mapping[str, Any] | None = None, safe_mode: bool = True, *,
    module_objects: Mapping[str, Any] | None = None, printable_module_name: str = "object",
) -> Any:  # fmt: skip
    """The object of `serialize_keras_object`. ValueError for an unknown class; classes of modules that are not imported
    yet are unknown. Code is never run. `module_objects` are more classes and functions, by the names that `config` may
    be or have; errors call them `printable_module_name`."""
    if not safe_mode:
        raise NotImplementedError("deserialize_keras_object: code in files is never run; give custom_objects")
    if module_objects is not None:
        custom_objects = {**module_objects, **(custom_objects or {})}
        if isinstance(config, str):
            found = get_registered_object(config, custom_objects)
            if found is None:
                raise ValueError(
                    f"there is no {printable_module_name} {config!r:.60}; there are {', '.join(module_objects)}"
                )
            return found() if isinstance(found, type) else found
    if isinstance(config, (list, tuple)):
        return [deserialize_keras_object(value, custom_objects) for value in config]
    if not isinstance(config, Mapping):
        return config
    if "class_name" not in config:
        return {key: deserialize_keras_object(value, custom_objects) for key, value in config.items()}
    name = str(config["class_name"])
    settings = config.get("config", {})
    if name == "__tensor__":
        return engine_ops.tensor(settings["value"], dtype=settings["dtype"])
    if name == "__slice__":
        return slice(*(deserialize_keras_object(settings.get(key)) for key in ("start", "stop", "step")))
    if name == "function":
        return _function_named(str(settings), custom_objects)
    if config.get("module") in ("keras", "keras.dtype_policies") and name.endswith("DTypePolicy"):
        return dtype_policies.deserialize(config)
    full = str(config.get("registered_name") or name)
    found = (custom_objects or {}).get(name) or BY_MODULE.get((str(config.get("module")), name))
    found = found or get_registered_object(full, custom_objects) or get_registered_object(name, custom_objects)
    if found is None:
        found = _loaded(str(config.get("module")), name)
    if found is None:
        raise ValueError(f"{name!r} is not known: register its class, or give it in custom_objects")
    if not isinstance(found, type):
        return found
    if issubclass(found, Layer) and "input_layers" in settings:  # a functional model makes its layers itself
        made: Any = found.from_config
        return made(settings) if custom_objects is None else made(settings, custom_objects)
    if issubclass(found, Layer):
        settings = {key: restored(value) for key, value in settings.items()}
    elif issubclass(found, metrics.MeanMetricWrapper):
        settings = {key: deserialize_keras_object(value, custom_objects) for key, value in settings.items()}
    return found.from_config(settings) if hasattr(found, "from_config") else found(**settings)


def serialize_keras_object_of_keras_2(instance: Any) -> Any:
    """The form of Keras 2, which keras.utils.legacy has: the name of a function, or {"class_name", "config"}."""
    if instance is None:
        return None
    if hasattr(instance, "get_config"):
        return {"class_name": get_registered_name(type(instance)), "config": instance.get_config()}
    if hasattr(instance, "__name__"):
        return get_registered_name(instance)
    raise ValueError(f"{instance!r:.60} has neither get_config() nor a name")


def deserialize_keras_object_of_keras_2(
    identifier: Any, module_objects: Mapping[str, Any] | None = None, custom_objects: Mapping[str, Any] | None = None,
    printable_module_name: str = "object",
) -> Any:  # fmt: skip
    """The object of such a form; `module_objects` and `custom_objects` are the classes and functions, by name."""
    return deserialize_keras_object(
        identifier, custom_objects, module_objects=module_objects or {}, printable_module_name=printable_module_name
    )
