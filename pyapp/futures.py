"""Results that come later, by torch.futures' names: concurrent.futures' Future with torch's methods."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that another thread sets, or an error. `devices` is accepted: values are ready when they are set."""

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._inner: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the value or an error is there."""
        return self._inner.done()

    def wait(self) -> T:
        """The value, once it is there. Raises the error that was set."""
        return self._inner.result()

    def value(self) -> T:
        """The value, without waiting. RuntimeError before it is there."""
        if not self.done():
            raise RuntimeError("value: the future has no value yet; wait() waits for it")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Sets the value, once. RuntimeError if there is one."""
        self._check_open("set_result")
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Sets an error, which wait() raises. RuntimeError if there is a value or an error."""
        if not isinstance(result, BaseException):
            raise TypeError(f"set_exception: takes an exception, not {type(result).__name__}")
        self._check_open("set_exception")
        self._inner.set_exception(result)

    def _check_open(self, what: str) -> None:
        if self.done():
            raise RuntimeError(f"{what}: the future has its result already")

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what the callback gives for this one, once it is done."""
        following: Future[S] = Future()

        def run(_: Any) -> None:
            try:
                found = callback(self)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(found)

        self._inner.add_done_callback(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls the callback with this future once it is done; at once if it is. Its errors are logged."""
        self._inner.add_done_callback(lambda _: callback(self))


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of the futures, done when all of them are."""
    collected: Future[list[Future[Any]]] = Future()
    waiting = [len(futures)]

    def one_done(_: Any) -> None:
        waiting[0] -= 1
        if not waiting[0]:
            collected.set_result(futures)

    if not futures:
        collected.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return collected


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The values of all, once they are there. Raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]
__top_level__ = ["Future"]
