"""Calls in which pyapp once differed from torch on the larger samples that torch compares its ops with NumPy by
(OpInfo's reference_inputs), and in longer programs. Each case is `function(P)` for P = pyapp or torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def triangle(P: Any, *diagonal: float) -> Any:
    """An upper triangle with ones, and below it numbers that are not read."""
    return P.ones(len(diagonal), len(diagonal)).triu(1) + P.diag(P.tensor(diagonal)) + P.ones(3, 3).tril(-1) * 5


def gradient_of_what_needs_none(P: Any) -> Any:
    """A function that gives a gradient of another shape for an argument without one."""

    class Scaled(P.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, times: Any) -> Any:
            return x * times.sum()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2, g.new_ones(4, 4)

    x = P.tensor([1.0, 2.0], requires_grad=True)
    Scaled.apply(x, P.tensor([0.5, 0.5, 1.0])).sum().backward()
    return x.grad


def similar(P: Any, first: tuple[int, ...], second: tuple[int, ...], target: list[float]) -> Any:
    one = P.arange(15.0).reshape(5, 3)[: first[0]] - 3
    other = P.ones(second) + P.arange(3.0)
    return P.nn.functional.cosine_embedding_loss(one, other, P.tensor(target), reduction="none")


REFERENCES: dict[str, Callable[[Any], Any]] = {
    "a triangle with 0": lambda P: P.linalg.solve_triangular(triangle(P, 2, 0, 1), P.ones(3, 2), upper=True),
    "a triangle with 0, from the right": lambda P: P.linalg.solve_triangular(
        triangle(P, 0, 2, 1).double(), P.ones(2, 3, dtype=P.float64), upper=True, left=False
    ),
    "a batch with one such triangle": lambda P: P.linalg.solve_triangular(
        P.stack([triangle(P, 2, 4, 1), triangle(P, 1, 1, 0)]).mT, P.ones(3, 1), upper=False
    ),
    "its older form": lambda P: P.triangular_solve(P.ones(3, 1), triangle(P, 0, 0, 1))[0],
    "a factor with 0": lambda P: P.cholesky_solve(P.ones(2, 1), P.tensor([[1.0, 0.0], [0.0, 0.0]])),
    "two numbers": lambda P: (P.add(2, 3), P.mul(2.0, 3), P.sub(1.5, 2, alpha=3), P.add(True, True)),
    "two numbers divided": lambda P: (
        P.div(3, 2), P.floor_divide(7, 2), P.div(-7.5, 2, rounding_mode="trunc"), P.div(7, 2, rounding_mode="floor")
    ),
    "bools and an integer alpha": lambda P: P.add(P.tensor([True, False]), P.tensor([False, True]), alpha=2),
    "a complex alpha": lambda P: P.add(P.tensor([1.0]), P.tensor([1.0]), alpha=1j),
    "one target for all pairs": lambda P: similar(P, (5, 3), (5, 3), [1.0]),
    "one vector for all": lambda P: similar(P, (5, 3), (1, 3), [1.0, -1.0, 1.0, -1.0, -1.0]),
    "one pair": lambda P: similar(P, (1, 3), (1, 3), [1.0, -1.0]),
    "pairs of other dims": lambda P: similar(P, (5,), (3,), [1.0]),
    "more margins than scores": lambda P: P.nn.functional.soft_margin_loss(P.arange(4.0), P.tensor([[1.0], [-1.0]])),
    "broadcast ranks": lambda P: P.nn.functional.margin_ranking_loss(
        P.arange(6.0).reshape(3, 2), P.ones(3, 1), P.tensor([[1.0, -1.0]]), 0.5, reduction="none"
    ),
    "ranks of other dims": lambda P: P.nn.functional.margin_ranking_loss(P.ones(3), P.ones(3), P.ones(3, 1)),
    "broadcast hinges": lambda P: P.nn.functional.hinge_embedding_loss(P.arange(4.0), P.tensor([[1.0], [-1.0]])),
    "broadcast margins": lambda P: (
        P.nn.functional.soft_margin_loss(P.arange(8.0).reshape(2, 4), P.tensor([[1.0], [-1.0]])),
        P.nn.functional.multilabel_soft_margin_loss(P.arange(6.0).reshape(2, 3), P.tensor([[1.0, 0.0, 1.0]])),
    ),
    "values of one example": lambda P: P.nn.functional.multi_margin_loss(
        P.arange(5.0), P.tensor([1]), reduction="none"
    ),
    "groups of nothing": lambda P: P.native_group_norm(P.ones(0, 2), P.ones(2), P.ones(2), 0, 2, 1, 1, 1e-5),
    "a gradient of what needs none": gradient_of_what_needs_none,
    "the gradient of a convolution": lambda P: P.nn.grad.conv2d_weight(
        P.arange(16.0).reshape(1, 1, 4, 4), (1, 1, 3, 3), P.ones(1, 1, 2, 2)
    ),
}  # fmt: skip
