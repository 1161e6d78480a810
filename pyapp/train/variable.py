"""Weights that layers and metrics of one's own write: tensors with Keras' methods of variables."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad, ops
from .stateless import about_to_write

__all__ = ["Variable", "as_variable"]


class Variable(Tensor):
    """A tensor that `assign`, `assign_add` and `assign_sub` write in place; a captured step repeats them."""

    __slots__ = ()
    _path: str  # the name of the layer, a slash, that of the weight
    _regularizer: Any
    _constraint: Any

    def assign(self, value: Any) -> Tensor:  # type: ignore[override]
        """Writes a tensor, an array or a number, which is broadcast to the shape."""
        about_to_write(self)
        with no_grad():
            return self.copy_(ops.as_tensor(value).to(self.device, self.dtype).expand(self.shape))

    def assign_add(self, value: Any) -> Tensor:
        """Adds a tensor, an array or a number."""
        about_to_write(self)
        with no_grad():
            return self.add_(ops.as_tensor(value).to(self.device, self.dtype))

    def assign_sub(self, value: Any) -> Tensor:
        """Subtracts a tensor, an array or a number."""
        about_to_write(self)
        with no_grad():
            return self.sub_(ops.as_tensor(value).to(self.device, self.dtype))

    def numpy(self, *, force: bool = False) -> Any:
        """The value as a NumPy array of its own, which later steps of a training do not change."""
        return self.detach().numpy(force=force).copy()

    def __repr__(self) -> str:
        value = self.numpy()
        return f"<Variable path={self.path}, shape={tuple(self.shape)}, dtype={self.dtype.name}, value={value}>"

    @property
    def path(self) -> str:
        """The name of the layer, a slash, that of the weight."""
        return getattr(self, "_path", "variable")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The weight's own name in its layer."""
        return self.path.rpartition("/")[2]

    @property
    def trainable(self) -> bool:
        """Whether an optimiser changes it."""
        return bool(getattr(self, "is_parameter", False) and self.requires_grad)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        if not getattr(self, "is_parameter", False):
            raise TypeError("a weight that was made with trainable=False cannot be trained")
        self.requires_grad_(bool(value))

    @property
    def regularizer(self) -> Any:
        """What gives the weight's part of the loss; None: nothing."""
        return getattr(self, "_regularizer", None)

    @property
    def constraint(self) -> Any:
        """What the weight becomes after each step of an optimiser; None: it stays as it is."""
        return getattr(self, "_constraint", None)

    @constraint.setter
    def constraint(self, value: Any) -> None:
        self._constraint = value

    @property
    def value(self) -> Tensor:
        """The tensor itself."""
        return self


def as_variable(tensor: Tensor) -> Variable:
    """The same tensor, with the methods of a variable."""
    tensor.__class__ = Variable
    assert isinstance(tensor, Variable)
    return tensor
