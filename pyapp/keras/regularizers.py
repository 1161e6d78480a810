"""Penalties on weights and activations, by Keras' names."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, ops
from .lookup import Configured, Lookup
from .lookup import serialize as serialize


class Regularizer(Configured):
    """Base: `regularizer(x)` gives a scalar that is added to the loss. One of your own may write `__call__` as well."""

    keras_module = "keras.regularizers"

    def __call__(self, x: Any) -> Tensor:
        """The penalty for weights or activations, a tensor or an array."""
        return self.penalty(ops.as_tensor(x))

    def penalty(self, x: Tensor) -> Tensor:
        """The penalty, a scalar."""
        raise NotImplementedError


class L1L2(Regularizer):
    """l1 * sum |x| + l2 * sum x²."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        for name, value in (("l1", l1), ("l2", l2)):
            if not 0 <= float(value) < float("inf"):
                raise ValueError(f"{type(self).__name__}: {name} is a number >= 0, not {value}")
        self.l1, self.l2 = float(l1), float(l2)

    def penalty(self, x: Tensor) -> Tensor:
        total = ops.zeros((), device=x.device)
        if self.l1:
            total = total + self.l1 * x.abs().sum()
        if self.l2:
            total = total + self.l2 * (x * x).sum()
        return total


class L1(L1L2):
    """l1 times the sum of absolute values."""

    def __init__(self, l1: float = 0.01) -> None:
        super().__init__(l1=l1)


class L2(L1L2):
    """l2 times the sum of squares."""

    def __init__(self, l2: float = 0.01) -> None:
        super().__init__(l2=l2)


class OrthogonalRegularizer(Regularizer):
    """factor * the mean of |cos| between pairs of rows (or columns)."""

    def __init__(self, factor: float = 0.01, mode: str = "rows") -> None:
        if mode not in ("rows", "columns"):
            raise ValueError(f"OrthogonalRegularizer: mode is rows or columns, not {mode!r}")
        self.factor, self.mode = float(factor), mode

    def penalty(self, x: Tensor) -> Tensor:
        if x.ndim != 2:
            raise ValueError(f"OrthogonalRegularizer: takes a matrix, not {x.ndim} dims")
        rows = x if self.mode == "rows" else x.T
        rows = rows / (rows * rows).sum(1, keepdim=True).clamp(min=1e-12).sqrt()
        n = rows.shape[0]
        products = (rows @ rows.T) * (1 - ops.eye(n, device=x.device))
        return 0.5 * self.factor * products.abs().sum() / (n * (n - 1) / 2)


l1, l2, l1_l2, orthogonal_regularizer = L1, L2, L1L2, OrthogonalRegularizer
_lookup = Lookup("regularizer", globals(), Regularizer, {"l1": "L1", "l2": "L2", "l1_l2": "L1L2"})
get, deserialize = _lookup.get, _lookup.deserialize
