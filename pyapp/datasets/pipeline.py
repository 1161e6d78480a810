"""Steps over examples, one after another: map, shuffle, batch and others, the same under a seed, and resumable.

A Pipeline is lazy and never changes: each method gives a new one. Where the source has examples by index and no step
needs the ones before, each output is made alone: passes then resume at once, and worker processes share the work.
"""

from __future__ import annotations

import math
import queue
import struct
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any

from pyapp.engine.native import IN_BROWSER
from pyapp.engine.ops.random import Generator
from pyapp.engine.tensor import Tensor
from pyapp.errors import OptionError
from pyapp.utils.data import IterableDataset, default_collate, get_worker_info

MASK = (1 << 64) - 1


def _mixed(*numbers: int) -> int:
    """A 64-bit seed from several numbers, by a hash: near numbers give unrelated seeds."""
    data = struct.pack(f"<{len(numbers)}Q", *(number & MASK for number in numbers))
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


class _Step:
    """A step. `size`: outputs of a pass, None if unknown, math.inf if endless; `indexed`: whether `at` makes any output
    alone.
    """

    size: float | None = None
    indexed = False

    def at(self, epoch: int, number: int) -> Any:
        """Output `number` of pass `epoch`."""
        raise NotImplementedError

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        """The outputs of a pass from number `skip` on."""
        assert self.indexed and self.size is not None
        number = skip
        while number < self.size:
            yield self.at(epoch, number)
            number += 1


class _Indexed(_Step):
    indexed = True

    def __init__(self, source: Any) -> None:
        self.source, self.size = source, len(source)

    def at(self, epoch: int, number: int) -> Any:
        return self.source[number]


class _Streamed(_Step):
    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        yield from islice(iter(self.source), skip, None)


class _Map(_Step):
    def __init__(self, step: _Step, function: Callable[..., Any], seed: int | None) -> None:
        self.step, self.function, self.seed = step, function, seed
        self.size, self.indexed = step.size, step.indexed

    def _apply(self, example: Any, epoch: int, number: int) -> Any:
        if self.seed is None:
            return self.function(example)
        return self.function(example, generator=Generator(_mixed(self.seed, epoch, number)))

    def at(self, epoch: int, number: int) -> Any:
        return self._apply(self.step.at(epoch, number), epoch, number)

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        for number, example in enumerate(self.step.run(epoch, skip), skip):
            yield self._apply(example, epoch, number)


class _Filter(_Step):
    def __init__(self, step: _Step, keep: Callable[[Any], Any]) -> None:
        self.step, self.keep = step, keep

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        yield from islice(filter(self.keep, self.step.run(epoch, 0)), skip, None)


class _Batch(_Step):
    def __init__(self, step: _Step, size: int, drop_last: bool, collate: Callable[[list[Any]], Any]) -> None:
        self.step, self.batch, self.drop_last, self.collate = step, size, drop_last, collate
        self.indexed = step.indexed
        if step.size is not None:
            whole = step.size if step.size == math.inf else step.size // size
            self.size = whole if drop_last or step.size == math.inf else math.ceil(step.size / size)

    def at(self, epoch: int, number: int) -> Any:
        first = number * self.batch
        assert self.step.size is not None
        last = min(first + self.batch, self.step.size)
        return self.collate([self.step.at(epoch, k) for k in range(first, int(last))])

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        examples = self.step.run(epoch, skip * self.batch)
        while batch := list(islice(examples, self.batch)):
            if len(batch) < self.batch and self.drop_last:
                return
            yield self.collate(batch)


class _Shuffle(_Step):
    """Takes a random one of the next `buffer` examples, again and again. Of an indexed step only numbers wait in the
    buffer."""

    def __init__(self, step: _Step, buffer: int, seed: int, each_pass: bool) -> None:
        self.step, self.buffer, self.seed, self.each_pass = step, buffer, seed, each_pass
        self.size = step.size
        self.indexed = step.indexed and step.size != math.inf
        self._order: tuple[int, array[int]] = (-1, array("q"))

    def _shuffled(self, items: Iterator[Any], epoch: int) -> Iterator[Any]:
        state = _mixed(self.seed, epoch if self.each_pass else 0)
        waiting = list(islice(items, self.buffer))
        while waiting:
            state = (state * 6364136223846793005 + 1442695040888963407) & MASK  # Knuth's linear congruential generator
            chosen = ((state >> 32) * len(waiting)) >> 32
            yield waiting[chosen]
            for item in items:
                waiting[chosen] = item
                break
            else:
                last = waiting.pop()
                if chosen < len(waiting):
                    waiting[chosen] = last

    def at(self, epoch: int, number: int) -> Any:
        if self._order[0] != epoch:
            assert self.step.size is not None
            self._order = epoch, array("q", self._shuffled(iter(range(int(self.step.size))), epoch))
        return self.step.at(epoch, self._order[1][number])

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        if self.indexed:
            return super().run(epoch, skip)
        return islice(self._shuffled(self.step.run(epoch, 0), epoch), skip, None)


class _Repeat(_Step):
    def __init__(self, step: _Step, count: int | None) -> None:
        self.step, self.count = step, count
        if count is None:
            self.size = math.inf
        elif step.size is not None:
            self.size = step.size * count
        self.indexed = step.indexed and bool(step.size) and step.size != math.inf

    def _pass(self, epoch: int, repetition: int) -> int:
        return repetition if self.count is None else epoch * self.count + repetition

    def at(self, epoch: int, number: int) -> Any:
        assert self.step.size is not None
        repetition, within = divmod(number, int(self.step.size))
        return self.step.at(self._pass(epoch, repetition), within)

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        known = self.step.size is not None
        if self.step.size == 0:
            return
        repetition = 0
        if self.indexed:
            repetition, skip = divmod(skip, int(self.step.size or 1))
        while self.count is None or repetition < self.count:
            some = False
            for example in self.step.run(self._pass(epoch, repetition), skip if known else 0):
                some = True
                if known or not skip:
                    yield example
                else:
                    skip -= 1
            if not some and not known:
                return  # an empty source repeats nothing
            if known:
                skip = 0
            repetition += 1


class _Part(_Step):
    """Outputs `first` … `stop` - 1; stop None: all others."""

    def __init__(self, step: _Step, first: int, stop: int | None) -> None:
        self.step, self.first, self.stop, self.indexed = step, first, stop, step.indexed
        if step.size is not None:
            self.size = max(0, (step.size if stop is None else min(stop, step.size)) - first)
            self.indexed = step.indexed

    def at(self, epoch: int, number: int) -> Any:
        return self.step.at(epoch, self.first + number)

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        left = None if self.stop is None else max(0, self.stop - self.first - skip)
        return islice(self.step.run(epoch, self.first + skip), left)


class _Cache(_Step):
    """Keeps the outputs of the first complete pass."""

    def __init__(self, step: _Step) -> None:
        self.step, self.size, self.indexed = step, step.size, step.indexed
        self._by_number: dict[int, Any] = {}
        self._all: list[Any] | None = None

    def at(self, epoch: int, number: int) -> Any:
        if number not in self._by_number:
            self._by_number[number] = self.step.at(0, number)
        return self._by_number[number]

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        if self.indexed:
            yield from super().run(epoch, skip)
            return
        if self._all is None:
            found = []
            for number, example in enumerate(self.step.run(0, 0)):
                found.append(example)
                if number >= skip:
                    yield example
            self._all = found
            return
        yield from islice(self._all, skip, None)


class _Zip(_Step):
    def __init__(self, steps: list[_Step]) -> None:
        self.steps = steps
        sizes = [step.size for step in steps]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            self.size = min(known)
        self.indexed = all(step.indexed for step in steps)

    def at(self, epoch: int, number: int) -> Any:
        return tuple(step.at(epoch, number) for step in self.steps)

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        return zip(*(step.run(epoch, skip) for step in self.steps), strict=False)


class _Prefetch(_Step):
    """Makes outputs in a thread, up to `count` ahead."""

    def __init__(self, step: _Step, count: int) -> None:
        self.step, self.count, self.size, self.indexed = step, count, step.size, step.indexed

    def at(self, epoch: int, number: int) -> Any:
        return self.step.at(epoch, number)

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        outputs = self.step.run(epoch, skip)
        if IN_BROWSER or get_worker_info() is not None:  # no threads; workers are ahead anyway
            yield from outputs
            return
        ready: queue.Queue[tuple[str, Any]] = queue.Queue(self.count)
        stop = threading.Event()

        def put(item: tuple[str, Any]) -> bool:
            while not stop.is_set():
                try:
                    ready.put(item, timeout=0.1)
                except queue.Full:
                    continue
                return True
            return False

        def work() -> None:
            try:
                for output in outputs:
                    if not put(("output", output)):
                        return
                put(("end", None))
            except BaseException as error:
                put(("error", error))

        thread = threading.Thread(target=work, name="pyapp-prefetch", daemon=True)
        thread.start()
        try:
            while True:
                kind, value = ready.get()
                if kind == "error":
                    raise value
                if kind == "end":
                    return
                yield value
        finally:
            stop.set()
            thread.join(5.0)


class _Tokens(_Step):
    def __init__(self, step: _Step, encode: Callable[[str], Iterable[int]], length: int, end: int | None) -> None:
        self.step, self.encode, self.length, self.end = step, encode, length, end

    def run(self, epoch: int, skip: int) -> Iterator[Any]:
        return islice(self._windows(epoch), skip, None)

    def _windows(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        waiting = array("q")
        for text in self.step.run(epoch, 0):
            ids = self.encode(text)
            waiting.extend(getattr(ids, "ids", ids))  # the Encoding of the library tokenizers has .ids
            if self.end is not None:
                waiting.append(self.end)
            start = 0
            while len(waiting) - start > self.length:
                part = waiting[start : start + self.length + 1]
                window = Tensor.from_buffer(part.tobytes(), (self.length + 1,), "int64")  # (length + 1,)
                yield window[:-1], window[1:]
                start += self.length
            del waiting[:start]


class Pipeline(IterableDataset[Any]):
    """The examples of a source, and the steps over them. The source: a dataset with examples by index (a list, an
    array, a TensorDataset, `datasets.mnist()` …), or anything that can be iterated over again and again.

    >>> train = Pipeline(datasets.digits()).shuffle(seed=1).map(augmented, seed=2).batch(32).prefetch(2)
    >>> for pictures, labels in train: ...

    Each iteration is a pass, with its own order and its own random numbers; both depend on the seeds and the number of
    the pass alone. `state_dict()` says where the pass under way is; `load_state_dict` makes the next iteration go on
    there. `len()` is the number of outputs of a pass. For `keras` models: `model.fit(train)`. With
    `DataLoader(train, batch_size=None, num_workers=2)` the outputs come in the same order from worker processes; if a
    step needs all examples before it (`filter`, `tokens`, `shuffle` of a stream), each worker reads them all.
    """

    def __init__(self, source: Any) -> None:
        if isinstance(source, Iterator):
            raise OptionError(
                "Pipeline: an iterator can be read only once; give a list, a dataset, or an object whose __iter__ "
                "begins anew"
            )
        by_index = hasattr(source, "__getitem__") and hasattr(source, "__len__")
        streams = isinstance(source, IterableDataset) or isinstance(source, (dict, set))
        if not by_index and not hasattr(source, "__iter__"):
            raise OptionError(f"Pipeline: takes a dataset or an iterable, not {type(source).__name__}")
        self._begin(source._step if isinstance(source, Pipeline) else
                    _Indexed(source) if by_index and not streams else _Streamed(source))  # fmt: skip

    def _begin(self, step: _Step) -> None:
        self._step = step
        self._epoch = 0  # the number of the next pass
        self._under_way: tuple[int, int] | None = None  # pass and outputs so far
        self._resume: tuple[int, int] | None = None

    @classmethod
    def _of(cls, step: _Step) -> Pipeline:
        made = cls.__new__(cls)
        made._begin(step)
        return made

    # -- steps

    def map(self, function: Callable[..., Any], seed: int | None = None) -> Pipeline:
        """function(example) of each example. With a `seed` it is function(example, generator=…), with a generator for
        each example and pass: so augmentations are reproducible.
        """
        return self._of(_Map(self._step, _callable("map", function), seed))

    def filter(self, keep: Callable[[Any], Any]) -> Pipeline:
        """The examples for which keep(example) is true."""
        return self._of(_Filter(self._step, _callable("filter", keep)))

    def batch(
        self, size: int, drop_last: bool = False, collate: Callable[[list[Any]], Any] = default_collate
    ) -> Pipeline:
        """`size` examples together, by `collate` (see `utils.data.default_collate`); the last batch may be smaller."""
        return self._of(_Batch(self._step, _positive("batch", "size", size), drop_last, collate))

    def shuffle(self, buffer: int | None = None, seed: int = 0, each_pass: bool = True) -> Pipeline:
        """Another order: each output is a random one of the next `buffer` examples (None: of all, for a source with a
        known number). A new order for each pass, unless `each_pass` is False.
        """
        if buffer is None:
            if self._step.size in (None, math.inf):
                raise OptionError("shuffle: how many examples come is not known, so give a buffer")
            buffer = max(1, int(self._step.size or 1))
        return self._of(_Shuffle(self._step, _positive("shuffle", "buffer", buffer), seed, each_pass))

    def repeat(self, count: int | None = None) -> Pipeline:
        """All outputs `count` times, or without end. Each repetition has its own order and random numbers."""
        return self._of(_Repeat(self._step, count if count is None else _positive("repeat", "count", count)))

    def take(self, count: int) -> Pipeline:
        """The first `count` outputs."""
        return self._of(_Part(self._step, 0, _positive("take", "count", count, 0)))

    def skip(self, count: int) -> Pipeline:
        """All outputs but the first `count`."""
        return self._of(_Part(self._step, _positive("skip", "count", count, 0), None))

    def cache(self) -> Pipeline:
        """Keeps what was made in the first pass in memory; random steps before it are not drawn again."""
        return self._of(_Cache(self._step))

    def prefetch(self, count: int = 2) -> Pipeline:
        """Makes up to `count` outputs ahead in a thread. In a browser tab, which has none, they are made when they are
        asked for.
        """
        return self._of(_Prefetch(self._step, _positive("prefetch", "count", count)))

    def zip(self, *others: Any) -> Pipeline:
        """Tuples of an output of this pipeline and of each other one (or other source), until the shortest ends."""
        steps = [(other if isinstance(other, Pipeline) else Pipeline(other))._step for other in others]
        return self._of(_Zip([self._step, *steps]))

    def tokens(self, tokenizer: Any, length: int, end: int | None = None) -> Pipeline:
        """The ids of all texts in one row, with the id `end` after each text, in windows: (ids, the ids that follow),
        both int64 (length,). `tokenizer` is a function of a text, or has `encode`. What is left at the end is dropped.
        """
        encode = getattr(tokenizer, "encode", tokenizer)
        if not callable(encode):
            raise OptionError("tokens: the tokenizer is a function of a text, or has encode(text)")
        return self._of(_Tokens(self._step, encode, _positive("tokens", "length", length), end))

    # -- passes

    def __iter__(self) -> Iterator[Any]:
        epoch, skip = self._resume or (self._epoch, 0)
        self._resume, self._epoch = None, epoch + 1
        self._under_way = epoch, skip
        worker = get_worker_info()
        return self._outputs(epoch, skip) if worker is None else self._share(epoch, worker.id, worker.num_workers)

    def _outputs(self, epoch: int, skip: int) -> Iterator[Any]:
        for number, output in enumerate(self._step.run(epoch, skip), skip + 1):
            self._under_way = epoch, number
            yield output
        self._under_way = None

    def _share(self, epoch: int, worker: int, workers: int) -> Iterator[Any]:
        if not self._step.indexed:
            yield from islice(self._step.run(epoch, 0), worker, None, workers)
            return
        number = worker
        while number < (self._step.size or 0):
            yield self._step.at(epoch, number)
            number += workers

    def end_pass(self) -> None:
        """Counts a pass whose outputs worker processes make: a DataLoader calls it."""
        self._epoch += 1

    def __len__(self) -> int:
        size = self._step.size
        if size is None or size == math.inf:
            raise TypeError(f"this Pipeline has no length: {'it is endless' if size else 'only a pass shows how many'}")
        return int(size)

    def state_dict(self) -> dict[str, int]:
        """The number of the pass under way, or of the next one, and how many outputs of it were given."""
        epoch, position = self._resume or self._under_way or (self._epoch, 0)
        return {"epoch": epoch, "position": position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The next iteration goes on where `state` was taken. OptionError for anything else."""
        try:
            epoch, position = int(state["epoch"]), int(state["position"])
        except (TypeError, KeyError, ValueError) as error:
            raise OptionError(f"load_state_dict: takes what state_dict gave, not {state!r:.60}") from error
        if epoch < 0 or position < 0:
            raise OptionError(f"load_state_dict: the pass {epoch} and the position {position} are 0 or more")
        self._resume = epoch, position


def _callable(step: str, function: Any) -> Callable[..., Any]:
    """OptionError for what cannot be called."""
    if not callable(function):
        raise OptionError(f"{step}: takes a function of an example, not {type(function).__name__}")
    found: Callable[..., Any] = function
    return found


def _positive(step: str, name: str, value: Any, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{step}: {name} is a whole number of {least} or more, not {value!r}")
    return value
