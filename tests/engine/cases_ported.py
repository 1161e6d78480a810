"""What ports of models met: losses that broadcast, least squares, matrix exponentials, tensors that change their shape
in place, strides of one's own, parts written out of place.
"""

from __future__ import annotations

import warnings
from typing import Any

from .cases import Case


def loss(P: Any, name: str, x: Any, y: Any, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(P.nn.functional, name)(x, y, **settings)


LOSSES: list[Case] = [
    *(
        (f"{name}_{i}_{reduction}", lambda P, x, y, n=name, r=reduction: loss(P, n, x, y, reduction=r), shapes)
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
        for i, shapes in enumerate(([(3, 4), (4,)], [(3, 1), (1, 4)], [(2,), ()]))
        for reduction in ("mean", "none")
    ),
    ("mse_loss_weight", lambda P, x, y, w: loss(P, "mse_loss", x, y, weight=w), [(3, 4), (4,), (3, 4)]),
    ("smooth_l1_loss_beta_0", lambda P, x, y: loss(P, "smooth_l1_loss", x, y, beta=0.0), [(3, 1), (4,)]),
]


def solved(P: Any, a: Any, b: Any, driver: str | None = None) -> Any:
    found = P.linalg.lstsq(a, b, driver=driver)
    return found.solution if not found.residuals.numel() else found.solution.sum(-2) + found.residuals


def told(P: Any, a: Any, b: Any, driver: str, name: str, rcond: float | None = None) -> Any:
    return getattr(P.linalg.lstsq(a.detach(), b.detach(), rcond, driver=driver), name)


def flat(P: Any, x: Any, scales: list[float]) -> Any:
    """A matrix with these singular values."""
    u, v = P.linalg.qr(x)[0], P.linalg.qr(x.mT)[0]
    return u * P.tensor(scales) @ v.mT


LINALG: list[Case] = [
    ("lstsq", solved, [(5, 3), (5, 2)]),
    ("lstsq_wide", solved, [(3, 5), (3, 2)]),
    ("lstsq_batch", solved, [(2, 4, 3), (2, 4, 1)]),
    ("lstsq_vector", solved, [(4, 4), (4,)]),
    ("lstsq_vectors", solved, [(2, 5, 3), (2, 5)]),
    ("lstsq_gels", lambda P, a, b: solved(P, a, b, "gels"), [(5, 3), (5, 2)]),
    ("lstsq_gelsd", lambda P, a, b: solved(P, a, b, "gelsd"), [(2, 5, 3), (2, 5, 2)]),
    *(
        (f"lstsq_{driver}_{n}", lambda P, a, b, d=driver, n=n: told(P, a, b, d, n), [(2, 5, 3), (2, 5, 2)])
        for driver, names in (("gels", ["rank"]), ("gelsy", ["rank", "residuals"]), ("gelss", ["singular_values"]))
        for n in names
    ),
    (
        "lstsq_short",  # of rank 2: the shortest of many, and how many dims there are
        lambda P, x, b: P.linalg.lstsq(flat(P, x, [2.0, 0.5, 0.0]).detach(), b).solution,
        [(3, 3), (3, 2)],
    ),
    ("lstsq_rank", lambda P, x, b: told(P, flat(P, x, [2.0, 0.5, 0.0]), b, "gelsy", "rank"), [(3, 3), (3, 2)]),
    (
        "lstsq_rcond",  # without gradients: in torch they do not know of rcond
        lambda P, x, b: told(P, flat(P, x, [2.0, 0.5, 0.1]), b, "gelsd", "solution", 0.1),
        [(3, 3), (3, 2)],
    ),
    ("pinv_wide", lambda P, x: P.linalg.pinv(x), [(2, 3, 4)]),
    ("pinv_equal_values", lambda P, x: P.linalg.pinv(x * 0 + P.eye(4)[:, :3] * 2), [(4, 3)]),
    *((f"cond_{p}", lambda P, x, p=p: P.linalg.cond(x, p), [(2, 3, 3)]) for p in (None, 2, -2, "nuc")),
    *(  # torch 2.13 has no gradient of these: it writes into the inverse that it needs
        (f"cond_{p}", lambda P, x, p=p: P.linalg.cond(x.detach(), p), [(2, 3, 3)])
        for p in (1, -1, "fro", float("inf"))
    ),
    ("cond_wide", lambda P, x: P.linalg.cond(x), [(2, 3, 5)]),
    (
        "cond_singular",
        lambda P, x: P.linalg.cond(P.stack([P.ones(3, 3), x.detach()]), 1),
        [(3, 3)],
    ),
    ("cond_empty", lambda P, x: P.linalg.cond(x.detach(), "fro"), [(2, 0, 0)]),
    *((f"matrix_exp_{k}", lambda P, x, k=k: P.linalg.matrix_exp(x * k), [(2, 3, 3)]) for k in (0.0, 0.1, 1.0, 3.0)),
    ("matrix_exp_turn", lambda P, x: P.linalg.matrix_exp((x - x.mT) * 20), [(4, 4)]),
    ("matrix_exp_method", lambda P, x: x.matrix_exp() + P.matrix_exp(x), [(1, 1)]),
    ("matrix_exp_empty", lambda P, x: P.matrix_exp(x), [(2, 0, 0)]),
    ("addbmm", lambda P, x, a, b: P.addbmm(x, a, b), [(2, 3), (4, 2, 5), (4, 5, 3)]),
    ("addbmm_scaled", lambda P, x, a, b: x.addbmm(a, b, beta=0.5, alpha=2), [(3,), (4, 2, 5), (4, 5, 3)]),
    ("addbmm_unread", lambda P, x, a, b: P.addbmm(x.detach() / 0, a, b, beta=0).sum(0), [(2, 3), (4, 2, 5), (4, 5, 3)]),
    ("addbmm_none", lambda P, x, a, b: P.addbmm(x, a, b), [(2, 3), (0, 2, 5), (0, 5, 3)]),
    ("addbmm_", lambda P, x, a, b: (x * 1).addbmm_(a, b) * x, [(2, 3), (4, 2, 5), (4, 5, 3)]),
    *(
        (f"renorm_{p}", lambda P, x, p=p: P.renorm(x, p, 1, 1.5), [(3, 4, 2)])
        for p in (1, 2, 3, 0.5, float("inf"))
    ),
    ("renorm_last", lambda P, x: x.renorm(2, -1, 1.0), [(3, 4)]),
    ("renorm_of_0", lambda P, x: x.renorm(2, 0, 0.0), [(3, 4)]),
    ("renorm_", lambda P, x: (x * 1).renorm_(2, 0, 1.0) * x, [(3, 4)]),
]  # fmt: skip


def turned(P: Any, x: Any) -> Any:
    """t_ of a tensor with views, which stay what they are and see what is written later."""
    y = x * 1
    row = y[0]
    y.t_()
    y.mul_(P.arange(1.0, 5.0)[:, None])
    return y * y + row.sum() * 2 + row[1]


def turned_view(P: Any, x: Any) -> Any:
    """The same of a view of a tensor, and of views of that."""
    whole = x * 1
    y = whole[1:]
    corner = y[0, :2]
    y.t_()
    y[1] *= 3
    corner.add_(1)
    whole[:, 1] *= x[0, 0]
    return y.sum(1) @ whole[0] + corner * whole[1, :2]


def turned_buffer(P: Any, x: Any) -> Any:
    buffer = P.zeros(3, 4)
    side = buffer[:, 1]
    buffer.t_()
    buffer[1] = x[0, :3]
    buffer[0] *= x[0, 0]
    return buffer * x.mT + side


def reshaped(P: Any, x: Any) -> Any:
    y = (x * 1).unsqueeze_(1).transpose_(0, 2)
    y.squeeze_().mul_(P.arange(4.0)[:, None])
    return y.swapaxes_(0, 1) * x


IN_PLACE: list[Case] = [
    ("t_", lambda P, x: (x * 1).t_() * 2, [(3, 4)]),
    ("t_vector", lambda P, x: (x * 1).t_() * 2, [(3,)]),
    ("t_views", turned, [(3, 4)]),
    ("t_view", turned_view, [(3, 4)]),
    ("t_buffer", turned_buffer, [(3, 4)]),
    ("t_twice", lambda P, x: (x * 1).t_().t_().mul_(2) * x, [(3, 4)]),
    ("reshaped_", reshaped, [(3, 4)]),
]


def strides(P: Any, x: Any, size: Any, stride: Any, offset: int | None = None) -> Any:
    return P.as_strided((x * 1).contiguous(), size, stride, offset)


def strides_of_expanded(P: Any, x: Any) -> Any:
    return P.as_strided((x * 1).contiguous().expand(2, 5), (2, 3), (1, 1), 1)


def written_by_strides(P: Any, x: Any) -> Any:
    y = (x * 1).contiguous()
    P.as_strided(y, (2, 2), (5, 2), 1).mul_(x[0, 0])
    return y * y


PARTS: list[Case] = [
    ("diagonal_scatter", lambda P, x, y: P.diagonal_scatter(x, y, 1), [(3, 3), (2,)]),
    ("diagonal_scatter_dims", lambda P, x, y: x.diagonal_scatter(y, -1, 2, 0), [(2, 3, 4), (3, 2)]),
    ("diagonal_scatter_ints", lambda P, i, y: P.diagonal_scatter(i, y.detach() * 3), [("ints", 9, (3, 4)), (3,)]),
    ("select_scatter", lambda P, x, y: P.select_scatter(x, y, 1, -1), [(3, 4), (3,)]),
    ("slice_scatter", lambda P, x, y: P.slice_scatter(x, y, 1, 1, step=2), [(3, 4), (3, 2)]),
    ("as_strided", lambda P, x: strides(P, x, (2, 3), (4, 1)), [(3, 4)]),
    ("as_strided_overlapping", lambda P, x: strides(P, x, (4, 4), (2, 1), 1), [(3, 4)]),
    ("as_strided_same", lambda P, x: strides(P, x, (3, 2), (0, 1)), [(4,)]),
    ("as_strided_one", lambda P, x: strides(P, x, (), (), 2), [(4,)]),
    ("as_strided_none", lambda P, x: strides(P, x, (0, 2), (1, 1)), [(4,)]),
    ("as_strided_turned", lambda P, x: P.as_strided((x * 1).contiguous().mT, (2, 2), (1, 0), 1), [(3, 4)]),
    ("as_strided_part", lambda P, x: (x * 1).contiguous()[1:].as_strided((3,), (1,)), [(5,)]),
    ("as_strided_outside", lambda P, x: (x * 1).contiguous()[2:].as_strided((3,), (1,), 0), [(5,)]),
    ("as_strided_expanded", strides_of_expanded, [(5,)]),
    ("as_strided_written", written_by_strides, [(3, 4)]),
    *(
        (
            f"grid_sample_nearest_{padding}",
            lambda P, x, grid, p=padding: P.nn.functional.grid_sample(x, grid, "nearest", p, align_corners=False),
            [(2, 2, 4, 5), (2, 3, 3, 2)],
        )
        for padding in ("zeros", "border", "reflection")
    ),
    (
        "grid_sample_nearest_volume",
        lambda P, x, grid: P.nn.functional.grid_sample(x, grid, "nearest", align_corners=True),
        [(1, 2, 3, 4, 5), (1, 2, 2, 2, 3)],
    ),
]
CASES: list[Case] = LOSSES + LINALG + IN_PLACE + PARTS
