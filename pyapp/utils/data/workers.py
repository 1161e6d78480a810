"""Worker processes of a DataLoader: each makes every n-th batch, and the batches come out in the sampler's order."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import random
import signal
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from multiprocessing import connection, resource_tracker
from typing import Any

from ...engine.lazy import np
from ...engine.native import set_num_threads
from ...engine.ops.random import manual_seed
from .fetching import EndOfStream, Fetcher
from .shared_memory import discard, pack, unpack
from .worker_info import WorkerInfo, set_worker_info

CHECK_SECONDS = 1.0  # between two looks of an idle worker whether its parent lives
END_SECONDS = 5.0  # that a worker has to finish its last batch before it is terminated


class WorkerTraceback(Exception):
    """The traceback of an error in a worker process, shown as the cause of that error."""

    def __init__(self, text: str) -> None:
        super().__init__(f"\n{text}")


# -- in the worker


def _work(
    info: WorkerInfo, base_seed: int, new_fetcher: Callable[[Any], Fetcher], init: Callable[[int], Any] | None,
    tasks: Any, results: Any, current: Any,
) -> None:  # fmt: skip
    """Answers tasks (pass, number, key) of the `current` pass with results (pass, number, kind, message) until a None
    comes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends its workers
    starter = os.getppid()  # the parent, or the process that starts workers for it and ends with it
    set_num_threads(1)
    set_worker_info(info)
    random.seed(info.seed)
    manual_seed(info.seed)
    words = [info.id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))
    failed: BaseException | None = None
    try:
        if init is not None:
            init(info.id)
    except Exception as error:
        failed = error
    fetch: Fetcher | None = None
    fetched_pass, ended = 0, False
    while (task := _next_task(tasks, starter)) is not None:
        number_of_pass, number, key = task
        if number_of_pass != current.value:
            continue
        try:
            if failed is not None:
                raise failed
            if number_of_pass != fetched_pass:
                fetched_pass, ended, fetch = number_of_pass, False, new_fetcher(info.dataset)
            if ended or fetch is None:
                raise EndOfStream
            answer: tuple[str, Any] = "batch", pack(fetch(key))
        except EndOfStream:
            ended = True
            answer = "end", None
        except Exception as error:
            answer = "error", _portable(error)
        try:
            results.send((number_of_pass, number, *answer))
        except OSError:  # the parent is gone
            if answer[0] == "batch":
                discard(answer[1])
            return


def _next_task(tasks: Any, starter: int) -> Any:
    """The next task; None at the end, and where the parent has died."""
    parent = multiprocessing.parent_process()
    while os.getppid() == starter and (parent is None or parent.is_alive()):
        with suppress(queue.Empty):
            return tasks.get(timeout=CHECK_SECONDS)
    return None


def _portable(error: BaseException) -> tuple[bytes | None, str, str]:
    """An error as bytes (None if it cannot be pickled), its summary, and its traceback."""
    text = "".join(traceback.format_exception(error))
    summary = "".join(traceback.format_exception_only(error)).strip()
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        return None, summary, text
    return data, summary, text


def _restored(portable: tuple[bytes | None, str, str], worker: int) -> Exception:
    data, summary, text = portable
    found = pickle.loads(data) if data else RuntimeError(summary)
    found.add_note(f"It was raised in worker process {worker} of a DataLoader; its traceback there is above.")
    found.__cause__ = WorkerTraceback(text)
    return found


# -- in the parent


class Workers:
    """The processes of a loader, their tasks and their results."""

    def __init__(
        self, count: int, dataset: Any, new_fetcher: Callable[[Any], Fetcher], init: Callable[[int], Any] | None,
        context: Any, base_seed: int, timeout: float,
    ) -> None:  # fmt: skip
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.timeout = timeout
        _ = np.random  # imported once, not by each forked worker
        if os.name == "posix":  # one for all processes: it knows which shared memory is in use
            resource_tracker.ensure_running()
        self.tasks: list[Any] = []
        self.results: list[Any] = []
        self.processes: list[Any] = []
        self.current = context.RawValue("q", 0)  # the number of the pass; -1 at the end
        # Also at the end of this process; a forked copy of this object in a worker must not end anything.
        self.close = weakref.finalize(self, _end, self.tasks, self.results, self.processes, self.current, os.getpid())
        try:
            for number in range(count):
                tasks, (receiver, sender) = context.Queue(), context.Pipe(duplex=False)
                info = WorkerInfo(number, count, base_seed + number, dataset)
                process = context.Process(
                    target=_work, args=(info, base_seed, new_fetcher, init, tasks, sender, self.current),
                    name=f"DataLoader worker {number}", daemon=True,
                )  # fmt: skip
                self.tasks.append(tasks)
                self.results.append(receiver)
                _start(process)
                self.processes.append(process)
                sender.close()
        except BaseException:
            self.close()
            raise

    def batches(self, keys: Iterator[Any], ahead: int, in_order: bool) -> Iterator[Any]:
        """The batches of the keys, `ahead` of them for each worker under way; closes nothing at its end."""
        mine = self.current.value = self.current.value + 1
        active = dict.fromkeys(range(len(self.processes)))  # workers whose stream goes on
        turns = cycle(range(len(self.processes)))
        waiting: dict[int, int] = {}  # the number of a task → its worker, in the order of the tasks
        arrived: dict[int, tuple[str, Any, int]] = {}  # the number of a task → its result
        sent = 0

        def send_next() -> None:
            nonlocal sent
            if not active:
                return
            worker = next(turn for turn in turns if turn in active)
            try:
                key = next(keys)
            except StopIteration:
                return
            self.tasks[worker].put((mine, sent, key))
            waiting[sent] = worker
            sent += 1

        try:
            for _ in range(ahead * len(self.processes)):
                send_next()
            while waiting:
                if self.current.value != mine:
                    raise RuntimeError(
                        "DataLoader: a later pass has begun, and persistent workers serve one at a time; finish this "
                        "pass first, or use another loader"
                    )
                number = next(iter(waiting))
                if in_order and number not in arrived:
                    self._receive(arrived)
                    continue
                if not in_order:
                    while not arrived:
                        self._receive(arrived)
                    number = next(iter(arrived))
                kind, message, worker = arrived.pop(number)
                del waiting[number]
                if kind == "end":
                    active.pop(worker, None)
                send_next()
                if kind == "error":
                    raise _restored(message, worker)
                if kind == "batch":
                    yield unpack(message)
        finally:
            for kind, message, _ in arrived.values():
                if kind == "batch":
                    discard(message)

    def _receive(self, arrived: dict[int, tuple[str, Any, int]]) -> None:
        """Waits for results of this pass. RuntimeError after the timeout, or where a worker has died."""
        end = time.monotonic() + self.timeout
        while True:
            left = max(0.0, end - time.monotonic()) if self.timeout else None
            sentinels = {process.sentinel: number for number, process in enumerate(self.processes)}
            ready = connection.wait([*self.results, *sentinels], left)
            if not ready:
                raise RuntimeError(
                    f"DataLoader: no batch came within {self.timeout} s, the timeout; the dataset is slower than "
                    "that, or waits for something"
                )
            known = len(arrived)
            for number, results in enumerate(self.results):
                if results in ready:
                    self._take(number, arrived)
            if len(arrived) > known:
                return
            for sentinel in ready:
                if sentinel in sentinels:
                    raise self._death(sentinels[sentinel])

    def _take(self, worker: int, arrived: dict[int, tuple[str, Any, int]]) -> None:
        try:
            number_of_pass, number, kind, message = self.results[worker].recv()
        except (EOFError, OSError):
            raise self._death(worker) from None
        if number_of_pass == self.current.value:
            arrived[number] = kind, message, worker
        elif kind == "batch":
            discard(message)

    def _death(self, worker: int) -> RuntimeError:
        process = self.processes[worker]
        process.join(END_SECONDS)
        code = process.exitcode
        how = f"was ended by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
        hint = "; the system ends processes that take too much memory: use fewer workers or smaller batches" if (
            code == -getattr(signal, "SIGKILL", 9)) else "; run it with num_workers=0 to see why"  # fmt: skip
        return RuntimeError(f"DataLoader: worker process {worker} (pid {process.pid}) {how}{hint}")


def _end(tasks: list[Any], results: list[Any], processes: list[Any], current: Any, owner: int) -> None:
    """Ends the processes, and removes the batches that nobody took."""
    if os.getpid() != owner:
        return
    current.value = -1
    for worker_tasks in tasks:
        worker_tasks.put(None)
    end = time.monotonic() + END_SECONDS
    waiting = results[: len(processes)]
    while waiting and (left := end - time.monotonic()) > 0:
        ready: Any
        for ready in connection.wait(waiting, left):
            try:
                *_, kind, message = ready.recv()
            except (EOFError, OSError):
                waiting.remove(ready)
            else:
                if kind == "batch":
                    discard(message)
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
    for worker_tasks, worker_results in zip(tasks, results, strict=True):
        worker_tasks.cancel_join_thread()
        worker_tasks.close()
        worker_results.close()
    tasks.clear()
    results.clear()
    processes.clear()


def _start(process: Any) -> None:
    """Starts a process; an error says what must be picklable."""
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        error.add_note(
            "With this start method the dataset, collate_fn and worker_init_fn go to the workers by pickle: define "
            "them at the top of a module, or give multiprocessing_context='fork'."
        )
        raise
