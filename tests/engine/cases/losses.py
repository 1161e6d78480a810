"""Losses that broadcast: cases as the package describes them."""

from __future__ import annotations

import warnings
from typing import Any

from . import Case


def loss(P: Any, name: str, x: Any, y: Any, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(P.nn.functional, name)(x, y, **settings)


CASES: list[Case] = [
    *(
        (f"{name}_{i}_{reduction}", lambda P, x, y, n=name, r=reduction: loss(P, n, x, y, reduction=r), shapes)
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
        for i, shapes in enumerate(([(3, 4), (4,)], [(3, 1), (1, 4)], [(2,), ()]))
        for reduction in ("mean", "none")
    ),
    ("mse_loss_weight", lambda P, x, y, w: loss(P, "mse_loss", x, y, weight=w), [(3, 4), (4,), (3, 4)]),
    ("smooth_l1_loss_beta_0", lambda P, x, y: loss(P, "smooth_l1_loss", x, y, beta=0.0), [(3, 1), (4,)]),
]
