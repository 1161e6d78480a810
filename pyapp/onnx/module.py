"""ONNX models as modules."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter, is_
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.budget import within
from pyapp.engine.device import as_device, cpu, get_default_device
from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError, ModelError, OptionError, shown
from pyapp.formats.onnx_file import HINT, OnnxFile, ValueInfo
from pyapp.formats.opening import looks_like_onnx, sniff
from pyapp.formats.source import AnySource, ByteSource, close_source, open_source
from pyapp.nn import Module, Parameter

from .limits import LOOP_LIMIT, RunBudget
from .program import Builder
from .values import DENSE, ForeignArray, element_of, from_stored, made_of

_STATE = attrgetter("_storage.version", "requires_grad")


class OnnxModule(Module):
    """A model of an ONNX file. Its floating-point tensors are parameters, without gradients until `requires_grad_()`.

    Call it with the inputs in order, or by their names: tensors, NumPy arrays, numbers or texts; sequences are lists.
    It gives its output, or a tuple of its outputs; texts and complex numbers as NumPy arrays. `inputs` and `outputs`
    have their names and types, `metadata` what else the file says of the model.

    A call takes at most `memory_limit` bytes for tensors beside the parameters (None: half of the machine's memory, in
    the browser 2 GiB), and its loops make at most `loop_limit` steps. ModelError names the node that would need more.
    """

    def __init__(
        self, file: OnnxFile, device: Any = None, memory_limit: int | None = None, loop_limit: int = LOOP_LIMIT
    ) -> None:  # fmt: skip
        super().__init__()
        for name, limit in (("memory_limit", memory_limit), ("loop_limit", loop_limit)):
            if limit is not None and (not isinstance(limit, int) or limit < 0):
                raise OptionError(f"{name} is {shown(limit)}, expected a whole number of 0 or more")
        self.memory_limit, self.loop_limit = memory_limit, loop_limit
        model = file.model
        builder = Builder(model, file.source.name, device)
        self._program = builder.program(model.graph, model.opsets, set(), main=True)
        self._where = file.source.name
        self._packed = builder.packed
        self._device = device
        self._plans: dict[Any, Any] = {}
        self._found: list[Any] = []  # the parameters at the last call
        self._state: list[Any] = []  # their versions, and which of them learn
        self._kept: tuple[dict[str, Any], frozenset[str]] | None = None  # see _held
        self._others: dict[str, Any] = {}  # tensors that are not parameters
        self._places: dict[str, tuple[dict[str, Tensor], str]] = {}  # the dict and the key of each parameter
        for name, stored in builder.weights.items():
            value = from_stored(stored, device)
            if isinstance(value, Tensor) and value.dtype.is_floating_point:
                self._add(name, Parameter(value, requires_grad=False))
            else:
                self._others[name] = value
        defaults = builder.weights.keys()
        self.inputs: list[ValueInfo] = [info for info in model.graph.inputs if info.name not in defaults]
        self.defaults: list[ValueInfo] = [info for info in model.graph.inputs if info.name in defaults]
        self.outputs: list[ValueInfo] = list(model.graph.outputs)
        self.metadata: dict[str, str] = dict(file.metadata)

    def _add(self, name: str, value: Parameter) -> None:
        """Registers a parameter under the path that its name is."""
        parts = [part for part in name.split(".") if part] or ["_"]
        owner: Module = self
        for part in parts[:-1]:
            inner = owner._modules.get(part)
            if inner is None:
                if part in owner._parameters or hasattr(owner, part):
                    owner, parts = self, ["_".join(parts)]
                    break
                inner = Module()
                owner.add_module(part, inner)
            owner = inner
        key = parts[-1]
        while key in owner._parameters or key in owner._modules or hasattr(owner, key):
            key += "_"
        owner.register_parameter(key, value)
        self._places[name] = owner._parameters, key

    def forward(self, *args: Any, **named: Any) -> Any:
        outputs = tuple(_shown(value) for value in self.values(*args, **named))
        return outputs[0] if len(outputs) == 1 else outputs

    def values(self, *args: Any, **named: Any) -> list[Any]:
        """The outputs as the graph makes them: element types without a pyapp dtype as ForeignArrays."""
        given = self._given(args, named)
        held, known = self._held()
        if not held.keys().isdisjoint(given):
            held, known = {name: value for name, value in held.items() if name not in given}, known - given.keys()
        try:
            with within(RunBudget(self.memory_limit, self.loop_limit)):
                found = self._program.run({**given, **held}, known, self._plans)
        except ModelError as error:
            if error.where is None:
                raise ModelError(error.what, where=self._where, hint=error.hint) from error
            raise
        if self._packed:  # what was packed is needed no more as it is in the file
            taken = self._program.taken()
            self._others = {name: value for name, value in self._others.items() if name in taken}
            self._packed.clear()
            self._kept = None
        return found

    def _held(self) -> tuple[dict[str, Any], frozenset[str]]:
        """Parameters and other tensors by name, and the names of those that stay as they are. Plans that were made with
        other values are forgotten.
        """
        found = [parameters[key] for parameters, key in self._places.values()]
        # Hundreds of parameters that are not in the processor's caches: each is looked at once, by C.
        try:
            state = list(map(_STATE, found))
        except AttributeError:  # one is None
            state = [None if w is None else _STATE(w) for w in found]
        if state != self._state or not all(map(is_, found, self._found)):
            self._plans.clear()
            self._state, self._found, self._kept = state, found, None
        if self._kept is None:
            weights = dict(zip(self._places, found, strict=True))
            known = {name for name, w in weights.items() if w is not None and not w.requires_grad}
            self._kept = {**self._others, **weights}, frozenset(self._others.keys() | known)
        return self._kept

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The inputs by name, checked."""
        if len(args) > len(self.inputs) + len(self.defaults):
            raise OptionError(f"the model has {len(self.inputs)} inputs, not {len(args)}", where=self._where)
        every = [*self.inputs, *self.defaults]
        found = {info.name: value for info, value in zip(every, args, strict=False)}
        known = {info.name for info in every}
        for name, value in named.items():
            if name not in known:
                raise OptionError(
                    f"there is no input {name!r}; the inputs are {_listed(self.inputs)}", where=self._where
                )
            if name in found:
                raise OptionError(f"the input {name!r} is given twice", where=self._where)
            found[name] = value
        sizes: dict[str, int] = {}
        for info in every:
            if info.name not in found:
                if info in self.defaults:
                    continue
                raise OptionError(
                    f"the input {info.name!r} is missing; the inputs are {_listed(self.inputs)}", where=self._where
                )
            found[info.name] = self._checked(info, found[info.name], sizes)
        return found

    def _checked(self, info: ValueInfo, value: Any, sizes: dict[str, int]) -> Any:
        kind = info.type
        if kind.kind == "optional":
            if value is None or kind.inner is None:
                return value
            kind = kind.inner
        if kind.kind == "sequence":
            if not isinstance(value, (list, tuple)):
                raise OptionError(
                    f"the input {info.name!r} is a sequence, not {type(value).__name__}", where=self._where
                )
            return [_value(part, kind.inner.element if kind.inner else "", self._device) for part in value]
        if kind.kind in ("map", "unknown"):
            return value
        try:
            made = _value(value, kind.element, self._device)
        except (ValueError, TypeError, OverflowError) as error:
            raise OptionError(
                f"the input {info.name!r} cannot be made of {shown(value)} ({error})", where=self._where,
                hint=f"Give a tensor, an array or numbers{f' of {kind.element}' if kind.element else ''}",
            ) from None  # fmt: skip
        if kind.element and element_of(made) != kind.element:
            raise OptionError(
                f"the input {info.name!r} is {kind.element}, not {element_of(made)}", where=self._where,
                hint=f"Convert it with .to({kind.element!r})",
            )  # fmt: skip
        if kind.shape is None:
            return made
        fits = len(kind.shape) == made.ndim
        for wanted, have in zip(kind.shape, made.shape, strict=False):
            if isinstance(wanted, str):
                fits = fits and sizes.setdefault(wanted, have) == have
            elif wanted is not None:
                fits = fits and wanted == have
        if not fits:
            wanted = ", ".join("?" if n is None else f"{n} = {sizes[n]}" if n in sizes else str(n) for n in kind.shape)
            raise OptionError(
                f"the input {info.name!r} has the shape {tuple(made.shape)}, expected ({wanted})", where=self._where
            )
        return made

    def extra_repr(self) -> str:
        return f"inputs: {_listed(self.inputs)}; outputs: {_listed(self.outputs)}"


def _listed(infos: list[ValueInfo]) -> str:
    parts = []
    for info in infos:
        shape = (
            "" if info.type.shape is None else f"[{', '.join('?' if n is None else str(n) for n in info.type.shape)}]"
        )
        parts.append(f"{info.name} {info.type.element or info.type.kind}{shape}")
    return ", ".join(parts) or "none"


def _value(x: Any, element: str, device: Any) -> Any:
    """A value of what users give."""
    if isinstance(x, Tensor):
        return x if device is None or x.device is device else x.to(device)
    if isinstance(x, ForeignArray):
        return x
    if isinstance(x, (bool, int, float, str, bytes, list, tuple)):
        x = np.array(
            x, object if element == "string" else element if element in DENSE and element != "bfloat16" else None
        )
    array = np.asarray(x)
    if array.dtype.kind in "OUS":
        return ForeignArray("string", array.astype(object))
    if element and element not in DENSE and array.dtype.name != element:
        return ForeignArray(element, array)
    return made_of(array, device=device)


def _shown(value: Any) -> Any:
    """A result as users get it."""
    if isinstance(value, ForeignArray):
        return value.array
    return [_shown(part) for part in value] if isinstance(value, list) else value


def _other_file(source: ByteSource) -> FileFormatError:
    """What to say of a file that is not an ONNX model."""
    try:
        kind = sniff(source)
    except FileFormatError:
        return FileFormatError("this is not an ONNX model", where=source.name, hint=HINT)
    return FileFormatError(
        f"this is not an ONNX model, but a file of weights ({kind})", where=source.name,
        hint="Weights do not say how to compute with them: take the model's .onnx file, or export the model to one",
    )  # fmt: skip


def open_onnx(source: AnySource, external: Mapping[str, Any] | None = None) -> OnnxFile:
    """The ONNX file of a path, bytes or a ByteSource. FileFormatError for other files."""
    opened: ByteSource = open_source(source)
    try:
        head = bytes(opened.read(0, min(16, opened.size)))
        if not looks_like_onnx(head, opened.size):
            raise _other_file(opened)
        return OnnxFile(
            opened, None if external is None else {name: open_source(file) for name, file in external.items()}
        )
    except BaseException:
        if opened is not source:
            close_source(opened)
        raise


def load(
    file: AnySource, *, device: Any = None, external: Mapping[str, Any] | None = None, memory_limit: int | None = None,
    loop_limit: int = LOOP_LIMIT,
) -> OnnxModule:  # fmt: skip
    """The model of an ONNX file: a path, bytes or a ByteSource.

    Tensors outside of the file are read from its folder, or from `external`: paths, bytes or sources by the names in
    the file. On a `device`, by default the default one, constants and inputs are put there, too. `memory_limit` and
    `loop_limit` are those of the OnnxModule: raise them for files that you trust. FileFormatError: the file is damaged.
    ModelError: it uses what pyapp cannot run; the error names the node.
    """
    place = get_default_device() if device is None else as_device(device)
    with open_onnx(file, external) as opened:
        return OnnxModule(opened, None if place is cpu else place, memory_limit, loop_limit)
