"""The numbers of an optimiser (its learning rate, its steps) with the methods of Keras' variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, ops
from ..engine.lazy import np
from ..train.variable import Variable

if TYPE_CHECKING:
    from .optimizer_base import Optimizer


class Setting(float):
    """The learning rate of an optimiser as a number that can be written: `optimizer.learning_rate.assign(0.1)`."""

    _optimizer: Optimizer

    def __new__(cls, optimizer: Optimizer, value: float) -> Setting:
        found = super().__new__(cls, value)
        found._optimizer = optimizer
        return found

    def __reduce__(self) -> Any:
        """A copy is a number."""
        return float, (float(self),)

    def assign(self, value: Any) -> None:
        """Sets the optimiser's learning rate."""
        self._optimizer.learning_rate = value

    def numpy(self) -> Any:
        """The number as a NumPy scalar."""
        return np.float32(self)

    @property
    def value(self) -> float:
        return float(self)


class Count(int):
    """The number of an optimiser's steps, with the methods of Keras' variables."""

    _optimizer: Optimizer

    def __new__(cls, optimizer: Optimizer, value: int) -> Count:
        found = super().__new__(cls, value)
        found._optimizer = optimizer
        return found

    def __reduce__(self) -> Any:
        """A copy is a number."""
        return int, (int(self),)

    def assign(self, value: Any) -> None:
        """Sets the number of steps."""
        self._optimizer.iterations = int(value)

    def assign_add(self, value: Any) -> None:
        """Adds to the number of steps."""
        self._optimizer.iterations = int(self + value)

    def numpy(self) -> Any:
        """The number as a NumPy scalar."""
        return np.int32(self)

    @property
    def value(self) -> int:
        return int(self)


class _NumberVariable(Variable):
    """A number of an optimiser among its variables: what is assigned to it is set in the optimiser too."""

    _write: Callable[[Any], None]

    def assign(self, value: Any) -> Tensor:  # type: ignore[override]
        found = super().assign(value)
        self._write(self.item())
        return found

    def assign_add(self, value: Any) -> Tensor:
        return self.assign(self.item() + ops.as_tensor(value).item())

    def assign_sub(self, value: Any) -> Tensor:
        return self.assign(self.item() - ops.as_tensor(value).item())


def number_variable(value: float, dtype: Any, path: str, write: Callable[[Any], None]) -> Variable:
    """A number as a variable of this path; `write` gets what is assigned to it."""
    found: Any = ops.full((), value, dtype=dtype)
    found.__class__ = _NumberVariable
    found._path, found._write = path, write
    return found
