"""Functions that become one call: `compile` records the kernels of a function of tensors, such as a training step, and
replays them. With the names of torch.compile and torch.compiler.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import update_wrapper, wraps
from typing import Any, TypeAlias
from weakref import WeakSet

from .engine import Graph, Tensor, no_grad
from .engine.autocast import STATE as AUTOCAST
from .engine.autograd import is_grad_enabled
from .engine.device import cpu
from .engine.dtype import Default
from .engine.launch import capture_or_run, capturing, stop_capture
from .engine.tensor import empty_contiguous

_KINDS = 256  # of inputs that are remembered
_GRAPHS = 8  # that are kept for each function
_CHANGES = 4  # Graphs of the same inputs; with more, what they depend on changes from call to call
_TRIES = 3  # captures of the same inputs that may fail for a passing reason
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_MISSING = object()
_Values: TypeAlias = tuple[tuple[str, Any], ...]  # names and values


class Compiled:
    """`function` as one call into the kernels, where its inputs have been seen before.

    The first call with inputs of a kind (shapes, dtypes, devices, other arguments) runs as it is; the second one is
    recorded, and later ones replay the record. The results are the same, and gradients, optimisers, schedules and
    random numbers go on as if the function had run. Results are new tensors without a gradient history.

    Everything that changes from call to call must be an argument. The function is recorded again after a change of the
    numbers and objects that it takes by name from around it, the modes of its modules, or the settings of its
    optimiser. Other effects of Python code, such as `print` or a list that grows, do not happen in a replay.

    `reason` says why calls run eagerly: the function reads a value (`item`, `if loss < 1`), or computes something
    outside kernels. A call that cannot be recorded runs to its end, once. `warns`: a warning says so, once. `at_once`:
    the first call is recorded, of a function that has run before.
    """

    def __init__(self, function: Callable[..., Any], warns: bool = True, at_once: bool = False) -> None:
        self.function, self.warns, self.at_once = function, warns, at_once
        self.reason: str | None = None
        self._entries: dict[Any, _Entry] = {}
        self._surroundings = _Surroundings(function)
        update_wrapper(self, function, updated=())
        _EVERY.add(self)

    @property
    def captured(self) -> bool:
        """Whether a record is kept."""
        return any(entry.replays for entry in self._entries.values())

    def reset(self) -> None:
        """Forgets all records."""
        self._entries, self.reason = {}, None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: each object has records of its own."""
        if instance is None:
            return self
        name = f"_compiled_{self.function.__name__}"
        made = vars(instance).get(name)
        if made is None or getattr(made.function, "__self__", None) is not instance:  # a copy has its own
            made = Compiled(self.function.__get__(instance, owner), self.warns, self.at_once)
            object.__setattr__(instance, name, made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if capturing():  # it becomes part of the outer record
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        try:
            region = AUTOCAST.dtype, AUTOCAST.device, AUTOCAST.caches
            key = (_kind((args, kwargs), tensors), is_grad_enabled(), Default.dtype, region)
            entry = self._entries.get(key)
        except TypeError as error:
            self._explain(f"an argument is {error}")
            return self.function(*args, **kwargs)
        if entry is None:
            if len(self._entries) == _KINDS:
                self._explain(
                    f"its arguments are of more than {_KINDS} kinds: give shapes that repeat, and tensors for numbers "
                    "that change"
                )
                del self._entries[next(iter(self._entries))]
            entry = self._entries[key] = _Entry()
        if entry.reason is None:
            for replay in entry.replays:
                if replay.fits():
                    return replay(tensors)
            if entry.calls or self.at_once:
                return self._record(entry, args, kwargs, tensors)
        entry.calls += 1
        return self.function(*args, **kwargs)

    def _record(self, entry: _Entry, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        if any(x.requires_grad for x in tensors):
            self._give_up(entry, "an argument requires a gradient, which would stay with a copy of it")
            return self.function(*args, **kwargs)
        if len(entry.replays) >= _CHANGES:
            changed = self._surroundings.difference(entry.replays[-1].around, entry.replays[-2].around)
            self._give_up(entry, f"{changed or 'what it depends on'} changes from call to call")
            return self.function(*args, **kwargs)
        with no_grad():
            held = [x.clone() for x in tensors]
        versions = [x._storage.version for x in held]
        given, kept = _with(args, iter(held)), _with(kwargs, iter(held[_count(args) :]))

        def run() -> Any:
            outputs = self.function(*given, **kept)
            if any(x.node is not None and not x.node.passed for x in _tensors(outputs)):
                stop_capture(
                    "its result still needs its gradient: compile the whole step (forward, backward, optimiser), "
                    "return loss.detach(), or call it inside no_grad()"
                )
            return outputs

        around = self._surroundings.now()
        copied = {id(x._storage): own for x, own in zip(held, tensors, strict=True)}
        outputs, graph, recorder = capture_or_run(run, copied)
        changed = self._surroundings.difference(around, self._surroundings.now())
        places = {id(x): own for x, own in zip(held, tensors, strict=True)}
        if [x._storage.version for x in held] != versions:
            with no_grad():
                for place, own in zip(held, tensors, strict=True):
                    own.copy_(place)
            self._give_up(entry, "it writes its argument in place")
        elif changed:
            self._give_up(entry, f"it changes {changed}, which a replay would not")
        elif graph is None:
            entry.tries += 1
            if not recorder.passing or entry.tries == _TRIES:
                self._give_up(entry, str(recorder.reason))
        else:
            replay = _Replay(graph, held, outputs, self._surroundings, around)
            self._make_room()
            entry.replays.append(replay)
            return replay.results(tensors)
        return _mapped(outputs, lambda x: places.get(id(x), x))

    def _make_room(self) -> None:
        kept = [entry for entry in self._entries.values() if entry.replays]
        if sum(len(entry.replays) for entry in kept) >= _GRAPHS:
            kept[0].replays.pop(0)

    def _give_up(self, entry: _Entry, reason: str) -> None:
        entry.reason, entry.replays = reason, []
        self._explain(reason)

    def _explain(self, reason: str) -> None:
        if self.reason is None and self.warns:
            name = getattr(self.function, "__qualname__", type(self.function).__name__)
            warnings.warn(f"compile: {name} runs eagerly: {reason}", stacklevel=4)
        self.reason = reason

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return Compiled(deepcopy(self.function, memo), self.warns, self.at_once)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Compiled, (self.function, self.warns, self.at_once)

    def __repr__(self) -> str:
        how = f"eager: {self.reason}" if self.reason else "captured" if self.captured else "not captured yet"
        return f"<compiled {self.function!r}, {how}>"


_EVERY: WeakSet[Compiled] = WeakSet()


class _Entry:
    """What is known of calls with inputs of one kind."""

    def __init__(self) -> None:
        self.calls = self.tries = 0
        self.replays: list[_Replay] = []
        self.reason: str | None = None


class _Replay:
    """A Graph, the places of its inputs, and what the function returned."""

    def __init__(
        self, graph: Graph, held: list[Tensor], outputs: Any, surroundings: _Surroundings, around: _Values
    ) -> None:
        self.graph, self.held, self.outputs = graph, held, outputs
        self.surroundings, self.around = surroundings, around
        self._copies = [_copier(x) for x in held]
        places = {id(x): at for at, x in enumerate(held)}
        self._results = {id(x): self._result_of(x, places.get(id(x))) for x in _tensors(outputs)}
        self._only = self._results[id(outputs)] if isinstance(outputs, Tensor) else None

    def fits(self) -> bool:
        return self.surroundings.same(self.around) and self.graph.fits()

    def __call__(self, tensors: list[Tensor]) -> Any:
        for copy, x in zip(self._copies, tensors, strict=True):
            copy(x)
        self.graph.replay()
        return self.results(tensors)

    def results(self, tensors: list[Tensor]) -> Any:
        """What the function returned, in memory of its own; arguments as they were given."""
        if self._only is not None:
            return self._only(tensors)
        return _mapped(self.outputs, lambda x: self._results[id(x)](tensors))

    def _result_of(self, x: Tensor, place: int | None) -> Callable[[list[Tensor]], Tensor]:
        """What gives a result, of the arguments' tensors; `place` is its own among them."""
        if place is not None:
            return lambda tensors: tensors[place]
        if not self.graph.owns(x) and all(x._storage is not held._storage for held in self.held):
            return lambda _: x
        shape, dtype, device, count = x.shape, x.dtype, x.device, x.numel()
        address, nbytes, dense = x.address, count * dtype.itemsize, x.is_contiguous()

        def copied(_: list[Tensor]) -> Tensor:
            if not dense:
                with no_grad():
                    return x.detach().clone()
            made = empty_contiguous(shape, dtype, device)
            if device is cpu:
                ctypes.memmove(made.address, address, nbytes)
            elif nbytes:
                device.backend.copy(made.address, address, nbytes)
            return made

        return copied


def _copier(place: Tensor) -> Callable[[Tensor], None]:
    """Writes a tensor of the place's shape into it."""
    strides, plain = place.strides, place.is_contiguous() and place.device is cpu
    address, nbytes = place.address, place.numel() * place.dtype.itemsize

    def copy(x: Tensor) -> None:
        if plain and x.strides == strides:
            ctypes.memmove(address, x.address, nbytes)
        else:
            with no_grad():
                place.copy_(x)

    return copy


class _Surroundings:
    """What a function takes by name from around it: variables of enclosing functions and of its module, and the
    attributes of its object."""

    def __init__(self, function: Any) -> None:
        owner = getattr(function, "__self__", None)
        code = getattr(function, "__code__", None)
        if code is None and not isinstance(function, type):  # an object that can be called
            owner, code = function, getattr(type(function).__call__, "__code__", None)
        names = () if code is None else code.co_names
        cells = getattr(function, "__closure__", None) or ()
        self._cells = dict(zip(code.co_freevars, cells, strict=True)) if cells and code is not None else {}
        self._globals = getattr(function, "__globals__", {}) if names else {}
        self._names = [name for name in names if name in self._globals]
        self._own = getattr(owner, "__dict__", {})
        self._attributes = [name for name in names if name in self._own]

    def _values(self) -> list[Any]:
        found: list[Any] = []
        for cell in self._cells.values():
            try:
                found.append(cell.cell_contents)
            except ValueError:  # not assigned yet
                found.append(_MISSING)
        for name in self._names:
            found.append(self._globals.get(name, _MISSING))
        for name in self._attributes:
            found.append(self._own.get(name, _MISSING))
        return found

    def now(self) -> _Values:
        """Names and values."""
        names = [*self._cells, *self._names, *(f"self.{name}" for name in self._attributes)]
        return tuple(zip(names, self._values(), strict=True))

    def same(self, before: _Values) -> bool:
        """Whether nothing has changed since `before`, what `now` gave."""
        for value, (_, then) in zip(self._values(), before, strict=True):
            if value is not then:
                return self.difference(before, self.now()) is None  # an equal number or text is the same, too
        return True

    @staticmethod
    def difference(one: _Values, other: _Values) -> str | None:
        """The first name with another object, or another number or text."""
        for (name, x), (_, y) in zip(one, other, strict=True):
            if x is not y and not (type(x) is type(y) and isinstance(x, _PLAIN) and x == y):
                return name
        return None


def _kind(x: Any, tensors: list[Tensor]) -> Any:
    """What calls must have in common to be the same function of tensors, which are added to `tensors`. TypeError for
    what cannot be compared."""
    if isinstance(x, Tensor):
        tensors.append(x)
        return Tensor, x.shape, x.dtype, x.device, x._requires_grad
    if isinstance(x, (list, tuple)):
        return (type(x), *[_kind(part, tensors) for part in x])
    if isinstance(x, dict):
        return (dict, *[(name, _kind(part, tensors)) for name, part in x.items()])
    if isinstance(x, _PLAIN):
        return type(x), x
    if type(x).__hash__ is None or hasattr(x, "__array__"):
        raise TypeError(f"of type {type(x).__name__}: give a tensor, or a number")
    return x


def _mapped(x: Any, function: Callable[[Tensor], Any]) -> Any:
    """The same structure of lists, tuples and dicts with other tensors."""
    if isinstance(x, Tensor):
        return function(x)
    if isinstance(x, dict):
        made = [(name, _mapped(part, function)) for name, part in x.items()]
        return type(x)(made)
    if isinstance(x, (list, tuple)):
        parts = [_mapped(part, function) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x


def _with(x: Any, tensors: Iterator[Tensor]) -> Any:
    return _mapped(x, lambda _: next(tensors))


def _tensors(x: Any) -> list[Tensor]:
    found: list[Tensor] = []
    _mapped(x, lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return found


def _count(x: Any) -> int:
    return len(_tensors(x))


def compile(model: Any = None, *, disable: bool = False, **_: Any) -> Any:
    """A function as one call into the kernels (`Compiled`); a decorator with or without settings. A module is returned
    as it is, because its backward pass would be outside: compile the step that trains it. torch's other settings have
    no effect."""
    if model is None:
        return lambda function: compile(function, disable=disable)
    if disable or isinstance(model, Compiled) or hasattr(model, "parameters") or not callable(model):
        return model
    return Compiled(model)


def disable(fn: Any = None, recursive: bool = True, reason: str | None = None) -> Any:
    """The function, which compiled functions run eagerly, and so are themselves."""
    if fn is None:
        return lambda function: disable(function, recursive, reason)
    if hasattr(fn, "parameters"):
        return fn

    @wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        stop_capture(reason or f"compiler.disable: {getattr(fn, '__qualname__', fn)} is not compiled")
        return fn(*args, **kwargs)

    return wrapped


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def is_compiling() -> bool:
    """Whether a function is being recorded."""
    return capturing()


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Forgets the records of all compiled functions."""
    for compiled in list(_EVERY):
        compiled.reset()


__all__ = ["Compiled", "allow_in_graph", "compile", "disable", "is_compiling", "reset"]
__top_level__ = ["compile"]
