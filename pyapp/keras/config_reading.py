"""Configurations as Keras writes them (config.json of a `.keras` file): JSON to layers, models and other objects.

Reading makes objects of this package's classes, and of those that are registered or in custom_objects: no module is
imported, and no code of a file runs (unless a lambda is asked for with `safe_mode=False`).
Source: the documents of `keras.saving`, and files of Keras 3.15.1.
"""

from __future__ import annotations

import base64
import functools
import inspect
import marshal
import math
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine import as_dtype
from ..engine import ops as engine_ops
from ..engine.budget import Budget, current, half_of_memory, within
from ..engine.lazy import np
from ..errors import FileFormatError, OperationError
from ..train.names import snake_case
from . import (
    activations,
    constraints,
    dtype_policies,
    initializers,
    layers,
    losses,
    metrics,
    ops,
    optimizers,
    quantizers,
    regularizers,
    schedules,
)
from .config_operations import call_operation
from .core import Layer
from .lookup import CLASSES, Configured
from .other_layers import InputLayer
from .structures import flatten
from .symbolic_tensors import KerasTensor, infer, record

if TYPE_CHECKING:
    from .trainer import Trainer

_PARTS: dict[str, Any] = {  # keras.NAME
    "layers": layers, "initializers": initializers, "losses": losses, "metrics": metrics, "optimizers": optimizers,
    "regularizers": regularizers, "constraints": constraints, "schedules": schedules, "activations": activations,
    "quantizers": quantizers,
}  # fmt: skip
_BY_END = {"initializer": initializers, "regularizer": regularizers, "constraint": constraints}
_FIXED = {
    "dtype": "float32",
    "renorm_momentum": 0.99,
    "axis": -1,
    "oov_method": "floormod",
}  # settings that a class here lacks, at their only value
_MOST_INPUT = 1 << 28  # elements of one example of an input
_MODELS = ("Functional", "Model", "Sequential")
_PLAIN_POLICIES = (dtype_policies.DTypePolicy, dtype_policies.FloatDTypePolicy)
_UNFIT = (
    KeyError, IndexError, AttributeError, TypeError, ValueError, RecursionError, OverflowError, MemoryError,
    NotImplementedError, ArithmeticError, AssertionError, OperationError, StopIteration,
)  # fmt: skip


class _WrittenCall(NamedTuple):
    """A call in the file of a functional model: the layer, or the entry of a function of keras.ops, which call of it
    this is, and what it is called with.
    """

    name: str
    layer: Any
    number: int
    node: Mapping[str, Any]


_OF_FUNCTIONAL = ("name", "trainable", "layers", "input_layers", "output_layers", "dtype")


class _Wires:
    """The symbolic tensors of a functional model, by what its file calls them: a layer, which call of it, and which of
    the call's outputs.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.tensors: dict[tuple[str, int, int], KerasTensor] = {}

    def have(self, value: Any) -> bool:
        """Whether all tensors in the arguments of a call are there."""
        if isinstance(value, Mapping):
            if value.get("class_name") == "__keras_tensor__":
                return _place(value["config"]["keras_history"]) in self.tensors
            return all(self.have(inner) for inner in value.values())
        return all(self.have(inner) for inner in value) if isinstance(value, (list, tuple)) else True

    def argument(self, value: Any) -> Any:
        """Arguments of a call with the tensors and objects that they describe."""
        if isinstance(value, Mapping):
            if value.get("class_name") == "__keras_tensor__":
                return self.tensors[_place(value["config"]["keras_history"])]
            if "class_name" in value:
                return self._reading.object(value)
            return {key: self.argument(inner) for key, inner in value.items()}
        return [self.argument(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    def ends(self, value: Any) -> Any:
        """The inputs or outputs of the model."""
        if isinstance(value, Mapping):
            return {key: self.ends(inner) for key, inner in value.items()}
        if isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and isinstance(value[1], int):
            return self.tensors[_place(value)]
        return type(value)(self.ends(inner) for inner in value)


class Reading:
    """Reads configurations. `keeps_training`: whether the argument `training` of calls is the file's own (Keras writes
    one for every dropout)."""

    def __init__(self, where: str, safe_mode: bool = True, keeps_training: bool = False) -> None:
        self.where, self.safe_mode, self.keeps_training = where, safe_mode, keeps_training
        self.shared: dict[Any, Any] = {}

    def problem(self, what: str, hint: str = "Save the model again in Keras") -> FileFormatError:
        return FileFormatError(f"{self.where}: {what}", hint=hint)

    def object(self, given: Any, owner: str = "") -> Any:
        """The object that a value of a configuration describes; other values as they are."""
        if isinstance(given, list):
            return [self.object(value, owner) for value in given]
        if not isinstance(given, Mapping):
            return given
        if "class_name" not in given or "config" not in given:
            return {key: self.object(value, str(key)) for key, value in given.items()}
        name, config = str(given["class_name"]), given["config"]
        if name in ("function", "__lambda__"):
            return self._function(name, given)
        if not isinstance(config, Mapping):
            raise self.problem(f"the configuration of {name!r:.60} is no JSON object")
        special = getattr(self, f"_read{name}", None) if name.startswith("__") and name.endswith("__") else None
        if special is not None:
            return special(config)
        if name.endswith("DTypePolicy") or name == "DTypePolicyMap":
            try:
                found = dtype_policies.deserialize({"class_name": name, "config": config})
            except _UNFIT as error:
                raise self.problem(
                    f"it has the dtype policy {name!r:.60} ({error!s:.100})", "Save a model without it"
                ) from error
            return found.name if type(found) in _PLAIN_POLICIES else found
        kind = self.class_of(given, owner)
        number = given.get("shared_object_id")
        key = (kind, number)
        if number is not None and not issubclass(kind, Layer) and key in self.shared:
            return self.shared[key]
        try:
            made = self._made(kind, given, config)
        except FileFormatError:
            raise
        except _UNFIT as error:
            what = f"{type(error).__name__}: {error!s:.200}"
            raise self.problem(f"{name!r:.60} cannot be made of its configuration ({what})") from error
        if number is not None:
            self.shared[key] = made
        return made

    def class_of(self, given: Mapping[str, Any], owner: str = "") -> Any:
        """The class that an object of a file names: of those that are registered, or of this package."""
        name, title = str(given["class_name"]), given.get("registered_name")
        for known in (title, name):
            found = None if known is None else CLASSES.get(str(known)) or _by_end(str(known))
            if isinstance(found, type) and not found.__module__.startswith("pyapp."):
                return found
        module = given.get("module")
        parts = str(module or "").split(".")
        found = None
        if module is None or parts[0] == "keras":
            known = CLASSES.get(name)
            if module is not None and getattr(known, "keras_module", None) == module:
                found = known
            elif module is None and isinstance(known, type) and "keras_name" in vars(known):
                found = known  # .h5 files have the names that Keras' own code has
            elif name in _MODELS:
                found = CLASSES[name]
            else:
                places = [_PARTS[part] for part in reversed(parts) if part in _PARTS]
                places += [part for end, part in _BY_END.items() if module is None and owner.endswith(end)]
                places += [] if places or module is not None else [layers, optimizers, schedules, losses, metrics]
                found = next((kind for place in places if isinstance(kind := _public(place, name), type)), None)
        if not isinstance(found, type):
            raise self.problem(
                f"it names {name!r:.60}, which is not known; pass it in custom_objects (its module is {module!r:.80})",
                "Register its class, or take it out of the model",
            )
        return found

    def _function(self, name: str, given: Mapping[str, Any]) -> Any:
        """A function: its name, if it is Keras' own; one that is registered; or that of a lambda."""
        if name == "__lambda__":
            return self._lambda(given["config"])
        label = str(given["config"])
        for known in (given.get("registered_name"), label):
            found = None if known is None else CLASSES.get(str(known)) or _by_end(str(known))
            if found is not None and not isinstance(found, type) and not found.__module__.startswith("pyapp."):
                return found
        if str(given.get("module") or "builtins").split(".")[0] not in ("keras", "builtins"):
            raise self.problem(
                f"it names the function {label!r:.60}, which is not known; pass it in custom_objects",
                "Register the function",
            )
        return label

    def _lambda(self, config: Any) -> Any:
        if self.safe_mode:
            raise self.problem(
                "it has a lambda: Python code of the file that would run here",
                "If you trust where the file comes from, pass safe_mode=False",
            )
        value = config.get("value", config) if isinstance(config, Mapping) else config
        if not isinstance(value, Mapping):
            value = dict(zip(("code", "defaults", "closure"), value, strict=True))
        try:
            code = marshal.loads(base64.b64decode(value["code"]))
            cells = tuple(types.CellType(self.object(inner)) for inner in value.get("closure") or ())
            defaults = tuple(self.object(inner) for inner in value.get("defaults") or ())
            return types.FunctionType(code, {"ops": ops, "np": np}, "lambda", defaults, cells)
        except (ValueError, EOFError, TypeError) as error:
            raise self.problem(
                f"its lambda was written by another version of Python ({error!s:.80})",
                "Write the function with a name, and register it",
            ) from error

    # values that JSON does not have

    def _read__tensor__(self, config: Mapping[str, Any]) -> Any:
        return engine_ops.tensor(config["value"], dtype=as_dtype(str(config["dtype"])))

    def _read__numpy__(self, config: Mapping[str, Any]) -> Any:
        return np.array(config["value"], as_dtype(str(config["dtype"])).name)

    def _read__slice__(self, config: Mapping[str, Any]) -> slice:
        parts = [config.get(part) for part in ("start", "stop", "step")]
        if not all(part is None or isinstance(part, int) for part in parts):
            raise self.problem("the ends of a slice are not whole numbers")
        return slice(*parts)

    def _read__ellipsis__(self, config: Mapping[str, Any]) -> Any:
        return Ellipsis

    def _read__bytes__(self, config: Mapping[str, Any]) -> bytes:
        return str(config["value"]).encode()

    # layers and others

    def _made(self, kind: Any, given: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
        if issubclass(kind, CLASSES["Model"]):
            if "input_layers" in config:
                return self.functional(kind, config)
            if "layers" in config and hasattr(kind, "add"):
                return self.sequential(kind, given, config)
        if not kind.__module__.startswith("pyapp."):
            reads = hasattr(kind, "from_config") and not kind.from_config.__module__.startswith("pyapp.")
            values = {key: self._of_own(value, reads) for key, value in config.items()}
            made = kind.from_config(values) if hasattr(kind, "from_config") else kind(**values)
        else:
            settings = {key: _tuples(self.object(value, key)) for key, value in config.items()}
            if issubclass(kind, InputLayer) and _elements(settings.get("batch_shape") or ()) > _MOST_INPUT:
                raise self.problem(f"an input has the shape {settings['batch_shape']}")
            made = kind(**self._accepted(kind, settings))
            size = settings.get("vocabulary_size")
            if size is not None and hasattr(made, "expected_size"):
                if not isinstance(size, int) or not 0 < size < _MOST_INPUT:
                    raise self.problem(f"{kind.__name__} has the vocabulary_size {size!r:.40}")
                made.expected_size = size
        self._build(made, given)
        return made

    def _of_own(self, value: Any, reads: bool) -> Any:
        """A setting of a class of a user's own: layers are made, other objects are left to its constructor; functions
        too, where it has a `from_config` of its own (`reads`)."""
        if isinstance(value, list):
            return [self._of_own(inner, reads) for inner in value]
        if not isinstance(value, Mapping):
            return value
        if str(value.get("class_name")).endswith(("DTypePolicy", "DTypePolicyMap")) and "config" in value:
            return self.object(value)
        if "class_name" in value and "config" in value:
            try:
                is_layer = issubclass(self.class_of(value), Layer)
            except (ValueError, TypeError):
                is_layer = False
            is_function = value["class_name"] == "function" and not reads
            return self.object(value) if is_layer or is_function else value
        return {key: self._of_own(inner, reads) for key, inner in value.items()}

    def _accepted(self, kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings that the constructor of a class takes. FileFormatError for one that matters and is not there."""
        taken = _arguments(kind)
        found = {}
        for key, value in settings.items():
            if key in taken:
                found[key] = value
            elif key == "vocabulary_size":
                continue  # the vocabulary is in a file beside
            elif value and _FIXED.get(key) != value:
                raise self.problem(f"{kind.__name__} has the setting {key}={value!r:.60}, which pyapp does not have")
        return found

    def _build(self, layer: Any, given: Mapping[str, Any]) -> None:
        """Makes the weights of a subclass, for the shapes that the file says, or of a layer that does it by itself."""
        known = given.get("build_config")
        if not isinstance(layer, Layer) or layer.built or not isinstance(known, Mapping):
            return
        if not isinstance(layer, CLASSES["Model"]):
            if max(map(_elements, _shapes_in(known)), default=0) > _MOST_INPUT:
                raise self.problem(f"{layer.name!r:.60} is built for inputs of the shapes {known!s:.80}")
            with within(current() or Budget(half_of_memory())):  # files say sizes
                layer.build_from_config(dict(known))
            return
        if "inputs" in known:  # written here, with the dtypes
            layer._first_inputs = known["inputs"]
            call_with_zeros(layer, known["inputs"])
        elif known.get("input_shape") is not None:
            layer.build(_tuples(known["input_shape"]))

    def sequential(self, kind: Any, given: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
        """A Sequential model of `sequential_config`; `given` is what that is the configuration in."""
        model = kind(name=config.get("name"))
        made: dict[str, Any] = {}  # by their configurations: a layer that is there twice is one layer
        for layer in config["layers"]:
            key = repr(layer)
            if key not in made:
                made[key] = self.object(layer)
            model.add(made[key])
        shape = config.get("build_input_shape") or (given.get("build_config") or {}).get("input_shape")
        if shape is not None and not model.built:
            model.build(_tuples(shape))
        if config.get("trainable") is False:
            model.trainable = False
        return model

    def functional(self, kind: Any, config: Mapping[str, Any]) -> Any:
        """A functional model of `functional_config`."""
        wires = _Wires(self)
        waiting = self._calls(config["layers"], wires)
        while waiting:
            later = []
            for call in waiting:
                if not (wires.have(call.node["args"]) and wires.have(call.node["kwargs"])):
                    later.append(call)
                    continue
                for index, leaf in enumerate(flatten(self._called(call, wires))):
                    wires.tensors[call.name, call.number, index] = leaf
            if len(later) == len(waiting):
                raise self.problem(f"the layer {later[0].name!r:.60} takes the output of a layer that is not there")
            waiting = later
        ends = [wires.ends(config[key]) for key in ("input_layers", "output_layers")]
        if kind.__module__.startswith("pyapp."):
            model = kind(*ends, name=config.get("name"))
        else:
            own = {key: value for key, value in config.items() if key not in _OF_FUNCTIONAL}
            model = kind(inputs=ends[0], outputs=ends[1], name=config.get("name"), **own)
        if config.get("trainable") is False:
            model.trainable = False
        return model

    def _calls(self, entries: Any, wires: _Wires) -> list[_WrittenCall]:
        """The calls of a functional model's layers, which are made here; inputs become symbolic tensors at once."""
        found: list[_WrittenCall] = []
        for entry in entries:
            name, nodes = str(entry.get("name") or entry["config"]["name"]), entry["inbound_nodes"]
            if str(entry.get("module")).startswith("keras.src.ops."):
                found += [_WrittenCall(name, entry, number, node) for number, node in enumerate(nodes)]
                continue
            layer = self.object({key: value for key, value in entry.items() if key not in ("name", "inbound_nodes")})
            if isinstance(layer, InputLayer):
                wires.tensors[name, 0, 0] = layer.tensor
                continue
            if not isinstance(layer, Layer):
                raise self.problem(f"{name!r:.60} is not a layer")
            layer.name = name
            found += [_WrittenCall(name, layer, number, node) for number, node in enumerate(nodes)]
        return found

    def _called(self, call: _WrittenCall, wires: _Wires) -> Any:
        """The symbolic outputs of a call whose inputs are there."""
        args, kwargs = tuple(wires.argument(call.node["args"])), wires.argument(call.node["kwargs"])
        if isinstance(call.layer, Mapping):
            return self._operation(call.name, call.layer, args, kwargs)
        kwargs = {k: v for k, v in kwargs.items() if v is not None and (k != "training" or self.keeps_training)}
        return record(call.layer, args, kwargs)

    def _operation(self, name: str, entry: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The symbolic result of a function of keras.ops."""
        label = snake_case(str(entry["class_name"]))
        settings = {key: _tuples(self.object(value)) for key, value in entry["config"].items() if key != "name"}
        made = None
        if any(isinstance(leaf, KerasTensor) for leaf in flatten([list(args), kwargs])):
            made = call_operation(label, settings, args, kwargs)
        if made is None:
            raise self.problem(f"it has the operation {entry['class_name']!r:.60}, which is not known")
        for leaf in flatten(made):
            leaf.call.layer.name = name
        return made

    def compile(self, model: Trainer, given: Mapping[str, Any]) -> None:
        """Compiles a model as the file says."""
        try:
            settings = {
                key: self.object(given[key])
                for key in ("optimizer", "loss", "loss_weights", "metrics", "weighted_metrics", "run_eagerly")
                if given.get(key) is not None
            }
            model.compile(**settings)
            if model.built:
                model.optimizer.build(model.trainable_weights)
        except FileFormatError:
            raise
        except _UNFIT as error:
            what = f"{type(error).__name__}: {error!s:.200}"
            raise self.problem(f"the model cannot be compiled as it says ({what})", "Pass compile=False") from error


def call_with_zeros(model: Any, given: Any) -> None:
    """Makes the weights of a subclass by a call: `given` are inputs with {"batch_shape", "dtype"} for each tensor."""

    def symbol(value: Any) -> Any:
        if isinstance(value, Mapping) and "batch_shape" in value:
            return KerasTensor(value["batch_shape"], value["dtype"])
        if isinstance(value, Mapping):
            return {key: symbol(inner) for key, inner in value.items()}
        return [symbol(inner) for inner in value]

    infer(model, (symbol(given),), {})


@functools.cache
def _arguments(kind: Any) -> frozenset[str]:
    """The names of the arguments of a class's constructor, those that it passes on included."""
    found: set[str] = set()
    for one in kind.__mro__:
        if "__init__" not in one.__dict__:
            continue
        parameters = inspect.signature(one.__init__).parameters
        found |= {
            name for name, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and name != "self"
        }
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            break
    return frozenset(found) | (_arguments(kind.kind) if isinstance(getattr(kind, "kind", None), type) else frozenset())


def _public(part: Any, name: str) -> Any:
    """A class of this package that files may name; None for anything else."""
    kind = getattr(part, name, None) if name[:1] != "_" else None
    return kind if isinstance(kind, type) and hasattr(kind, "get_config") and kind is not Configured else None


def _by_end(name: str) -> Any:
    """What is registered as "package>name"."""
    return next((found for key, found in CLASSES.items() if ">" in key and key.rsplit(">", 1)[-1] == name), None)


def _shapes_in(value: Any) -> Iterator[Any]:
    """The shapes, lists of numbers and None, that a value of a configuration has inside."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        if all(n is None or isinstance(n, int) for n in value):
            yield value
            return
        for inner in value:
            yield from _shapes_in(inner)


def _elements(shape: Any) -> int:
    """The elements of one example; sizes that are not known count once."""
    return math.prod(n or 1 for n in shape)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(inner) for inner in value) if isinstance(value, (list, tuple)) else value


def _place(history: Any) -> tuple[str, int, int]:
    name, node, index = history
    return str(name), int(node), int(index)
