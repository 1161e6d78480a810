"""Adam for sparse gradients."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from ..engine import Tensor
from .optimizer import Group, Optimizer, counted, with_values

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam in which a step changes only the elements that a sparse gradient keeps, their moments too, as
    torch.optim.SparseAdam. For embeddings with sparse=True: a step costs as much as the rows that were looked up.
    """

    saves_tensors = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps}, maximize)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        raise RuntimeError("SparseAdam: takes sparse gradients, which embeddings with sparse=True have; use Adam")

    def _update_kept(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry, (beta1, beta2) = self.state[parameter], group["betas"]
        means, squares = (self._new(entry, name, parameter) for name in ("exp_avg", "exp_avg_sq"))
        step, grad = counted(entry), grad.coalesce()
        values = grad.values()
        mean, square = (state.sparse_mask(grad).values() for state in (means, squares))
        of_mean, of_square = (values - mean) * (1 - beta1), (values * values - square) * (1 - beta2)
        means.add_(with_values(grad, of_mean))
        squares.add_(with_values(grad, of_square))
        rate = group["lr"] * sqrt(1 - beta2**step) / (1 - beta1**step)
        change = (mean + of_mean) / ((square + of_square).sqrt() + group["eps"])
        parameter.add_(with_values(grad, change * -rate))
