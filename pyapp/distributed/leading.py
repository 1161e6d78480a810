"""One process leads: it runs a program as if the model were its own. The others follow: they make the same calls of
their parts of the model, which compute it together (nn/tensor_parallel.py).

    group = dist.init_process_group()
    if group.rank():
        follow(group, load_model)
    else:
        leader = Leader(group, load_model)
        loaded = leader.load("owner/model")       # a LoadedModel, for sessions, tasks and the server
        …
        leader.end()

The leader tells them each call by a broadcast: which model and cache, the tokens and their positions. In a Graph the
broadcast comes before the kernels, and the others replay a Graph of their own. One thread at a time may use a leader's
models. Objects are pickled: all processes must be trusted.
"""

from __future__ import annotations

import pickle
import signal
import threading
import traceback
import weakref
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import prod
from typing import Any

from ..engine import Tensor, capture, no_grad
from ..engine.buffers import int32_tensor
from ..engine.launch import capturing, run_in_order
from ..engine.processes.group import ProcessGroup
from ..errors import ModelError

__all__ = ["Leader", "OutOfStep", "follow"]

# The first number of a message. Steps, which come for every token, are numbers alone; the others are pickled.
_STEP, _CALL = 0, 1
Load = Callable[..., Any]


class OutOfStep(BaseException):
    """The processes have not made the same calls: one has failed in the middle. The program must end."""


class Leader:
    """Leads the processes of a group, as its first. `load(…)` is what all of them call, with `tensor_parallel`."""

    def __init__(self, group: ProcessGroup, load: Load) -> None:
        self.group, self._load = group, load
        self._keys = count()
        self._gone: deque[int] = deque()  # keys of objects that are not used any more
        self._broken: str | None = None

    def load(self, *args: Any, report: Any = None, cancel: Any = None, **settings: Any) -> Any:
        """Loads a model in all processes. ModelError names the processes that cannot."""
        key = self.tell("load", None, args, settings)
        told, loaded = b"", None
        try:
            loaded = self._load(*args, tensor_parallel=self.group, report=report, cancel=cancel, **settings)
        except BaseException as error:
            told = str(error).encode() or b"failed"
            raise
        finally:
            failed = self.group.member().all_gather_bytes(told)
        for rank, text in enumerate(failed):
            if text:
                raise ModelError(f"rank {rank} cannot load the model: {text.decode()[:500]}")
        return replace(loaded, model=LeadingModel(self, key, loaded.model))

    def end(self) -> None:
        """Lets the others return from `follow`."""
        if self._broken is None:
            self._send(_CALL, pickle.dumps(("end", 0, None, (), {}, [])))

    # -- messages

    def tell(self, what: str, of: int | None, args: Any = (), settings: Any = None) -> int:
        """Tells the others a call; returns the key of its result."""
        key = next(self._keys)
        gone = [self._gone.popleft() for _ in range(len(self._gone))]
        self._send(_CALL, pickle.dumps((what, key, of, args, settings or {}, gone)))
        return key

    def step(self, key: int, numbers: list[int]) -> None:
        """Tells the others to run a Graph with these tokens and positions."""
        self._send(_STEP, array("i", [key, *numbers]).tobytes())

    def _send(self, kind: int, data: bytes) -> None:
        self.check()
        self.group.member().announce(bytes((kind,)) + data)

    def forget(self, key: int) -> None:
        """The others need not keep an object any more. May be called at any time, by any thread."""
        self._gone.append(key)

    def check(self) -> None:
        if self._broken is not None:
            raise OutOfStep(self._broken)

    def fail(self, error: BaseException) -> OutOfStep:
        """The error after which the processes are not in step."""
        self._broken = f"a call failed in one process only: {error}"
        return OutOfStep(self._broken)


class LeadingModel:
    """A model of a leader, as text.generation.session.LanguageModel; its other attributes are those of its part
    here."""

    def __init__(self, leader: Leader, key: int, model: Any) -> None:
        self._leader, self._key, self._model = leader, key, model
        weakref.finalize(self, leader.forget, key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def new_cache(self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None) -> LeadingCache:
        """As the model's, in all processes."""
        made = self._model.new_cache(capacity, dtype=dtype, texts=texts)  # first: its errors are those of the arguments
        key = self._leader.tell("new_cache", self._key, (capacity,), {"dtype": dtype, "texts": texts})
        return LeadingCache(self._leader, key, made)

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: LeadingCache, last_only: bool = True) -> Tensor:
        """As the model's, in all processes."""
        leader, model = self._leader, self._model
        numbers = _Numbers(tokens, position)
        settings = {"shape": tuple(tokens.shape), "last_only": last_only, "cache": cache.key}
        if capturing():
            call = _Repeated(leader, self._key, numbers, settings)
            run_in_order(lambda: call, (tokens, position))
        else:
            leader.tell("forward", self._key, (numbers.read(),), settings)
        try:
            y: Tensor = model.forward_cached(tokens, position, cache.own, last_only)
            return y
        except Exception as error:
            raise leader.fail(error) from error


class _Numbers:
    """The tokens and positions that a call reads."""

    def __init__(self, tokens: Tensor, position: Tensor) -> None:
        self._tokens, self._position = tokens, position

    def read(self) -> list[int]:
        """Tokens, then positions."""
        return [int(value) for x in (self._tokens, self._position) for value in x.reshape(-1).read_values()]


class _Repeated:
    """What a Graph tells the others before its kernels: at first what to record, then which numbers to run it with."""

    def __init__(self, leader: Leader, model: int, numbers: _Numbers, settings: dict[str, Any]) -> None:
        self._leader, self._model, self._numbers, self._settings = leader, model, numbers, settings
        self._key: int | None = None

    def __call__(self) -> None:
        if self._key is None:
            self._key = self._leader.tell("record", self._model, (self._numbers.read(),), self._settings)
            weakref.finalize(self, self._leader.forget, self._key)
        else:
            self._leader.step(self._key, self._numbers.read())


class LeadingCache:
    """A cache of a leader's model. What its class names in CHANGES and VIEWS happens in all processes; its other
    attributes are those of its part here.
    """

    def __init__(self, leader: Leader, key: int, own: Any) -> None:
        self.leader, self.key, self.own = leader, key, own
        weakref.finalize(self, leader.forget, key)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.own, name)
        if name in getattr(type(self.own), "VIEWS", ()):
            return lambda *args: self._view(name, found, args)
        if name in getattr(type(self.own), "CHANGES", ()):
            return lambda *args: self._change(name, found, args)
        return found

    def _view(self, name: str, function: Any, args: tuple[Any, ...]) -> LeadingCache:
        own = function(*args)
        return LeadingCache(self.leader, self.leader.tell("view", self.key, (name, args)), own)

    def _change(self, name: str, function: Any, args: tuple[Any, ...]) -> Any:
        keys = tuple(_Key(arg.key) if isinstance(arg, LeadingCache) else arg for arg in args)
        self.leader.tell("change", self.key, (name, keys))
        try:
            return function(*(arg.own if isinstance(arg, LeadingCache) else arg for arg in args))
        except Exception as error:
            raise self.leader.fail(error) from error


class _Key(int):
    """A cache, by its key, in a message."""


# -- the others


def follow(group: ProcessGroup, load: Load) -> None:
    """Makes the leader's calls in this process, until it ends. `load` is what the leader's `load` calls."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):  # the leader decides when to end
            signal.signal(number, signal.SIG_IGN)
    _Follower(group, load).run()


class _Follower:
    def __init__(self, group: ProcessGroup, load: Load) -> None:
        self._group, self._load = group, load
        self._objects: dict[int, Any] = {}  # models, caches and Graphs, by their keys

    def run(self) -> None:
        caller = self._group.member()
        while True:
            message = caller.announce(None)
            if message[0] == _STEP:
                key, *numbers = array("i", message[1:])
                self._objects[key](numbers)
                continue
            what, key, of, args, settings, gone = pickle.loads(message[1:])
            for old in gone:
                self._objects.pop(old, None)
            if what == "end":
                return
            if what == "load":
                made = self._loaded(args, settings)
            else:
                with no_grad():
                    made = getattr(self, f"_{what}")(self._objects.get(of), *args, **settings)
            if made is not None:
                self._objects[key] = made

    def _loaded(self, args: Any, settings: Any) -> Any:
        """The model; None if it cannot be loaded, which the leader is told."""
        told, model = b"", None
        try:
            model = self._load(*args, tensor_parallel=self._group, **settings).model
        except Exception as error:
            told = (str(error) or traceback.format_exc()).encode()
        self._group.member().all_gather_bytes(told)
        return model

    def _new_cache(self, model: Any, capacity: int | None, **settings: Any) -> Any:
        return model.new_cache(capacity, **settings)

    def _view(self, cache: Any, name: str, args: tuple[Any, ...]) -> Any:
        return getattr(cache, name)(*args)

    def _change(self, cache: Any, name: str, args: tuple[Any, ...]) -> None:
        getattr(cache, name)(*(self._objects[arg] if isinstance(arg, _Key) else arg for arg in args))

    def _forward(self, model: Any, numbers: list[int], shape: tuple[int, ...], last_only: bool, cache: int) -> None:
        tokens, position, _ = _inputs(model, numbers, shape)
        model.forward_cached(tokens, position, self._objects[cache], last_only)

    def _record(self, model: Any, numbers: list[int], shape: tuple[int, ...], last_only: bool, cache: int) -> Any:
        tokens, position, inputs = _inputs(model, numbers, shape)
        graph = capture(lambda: model.forward_cached(tokens, position, self._objects[cache], last_only))

        def run(numbers: list[int]) -> None:
            inputs.assign(numbers)
            graph.replay()

        return run


def _inputs(model: Any, numbers: list[int], shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of a shape, positions, and the tensor that both lie in."""
    inputs = int32_tensor(numbers, model.device)
    words = prod(shape)
    return inputs.narrow(0, 0, words).reshape(shape), inputs.narrow(0, words, len(numbers) - words), inputs
