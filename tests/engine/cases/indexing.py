"""Picking and writing elements by index: cases as the package describes them."""

from __future__ import annotations

from . import Case, F

CASES: list[Case] = [
    ("index_slice", lambda P, x: x[1:, ::2], [(3, 5)]),
    ("index_int", lambda P, x: x[-1, :, None, 2:], [(3, 4, 5)]),
    ("index_ellipsis", lambda P, x: x[..., 1], [(3, 4)]),
    ("index_mask", lambda P, x: x[x > 0], [(3, 5)]),
    ("index_tensor", lambda P, x, i: x[i], [(4, 3), ("ints", 4, (2, 5))]),
    ("index_mixed", lambda P, x, i: x[:, i], [(4, 6), ("ints", 6, (3,))]),
    ("gather", lambda P, x, i: x.gather(1, i), [(3, 5), ("ints", 5, (3, 2))]),
    ("scatter_add", lambda P, x, i, s: x.scatter_add(0, i, s), [(4, 3), ("ints", 4, (2, 3)), (2, 3)]),
    ("scatter", lambda P, x, s: x.scatter(0, P.tensor([[0, 2, 1]]), s), [(4, 3), (1, 3)]),
    ("index_select", lambda P, x, i: x.index_select(1, i), [(3, 4), ("ints", 4, (6,))]),
    ("take_along_dim", lambda P, x, i: x.take_along_dim(i, 1), [(3, 5), ("ints", 5, (1, 2))]),
    ("take_along_flat", lambda P, x, i: P.take_along_dim(x, i), [(3, 5), ("ints", 15, (4,))]),
    ("index_add", lambda P, x, i, s: x.index_add(1, i, s, alpha=2), [(2, 4), ("ints", 4, (6,)), (2, 6)]),
    ("masked_select", lambda P, x, m: x.masked_select(m), [(3, 4), ("bools", (4,))]),
    ("nonzero", lambda P, m: m.nonzero(), [("bools", (3, 4))]),
    ("nonzero_static", lambda P, m: P.cat([P.nonzero_static(m, size=n) for n in (2, 20)]), [("bools", (3, 4))]),
    ("nonzero_tuple", lambda P, m: P.nonzero(m, as_tuple=True)[1], [("bools", (3, 4))]),
    ("one_hot", lambda P, i: F(P).one_hot(i, 6), [("ints", 5, (2, 3))]),
    ("index_fill", lambda P, x: x.index_fill(1, P.tensor([0, 2]), 5.0), [(3, 4)]),
    ("index_copy", lambda P, x, y: x.index_copy(0, P.tensor([2, 0]), y), [(3, 4), (2, 4)]),
    ("index_put", lambda P, x, y: x.index_put((P.tensor([0, 2]), P.tensor([1, 1])), y), [(3, 4), (2,)]),
    (
        "index_put_add",
        lambda P, x, y: P.index_put(x, (P.tensor([0, 2, 0]), P.tensor([1, 1, 1])), y, accumulate=True),
        [(3, 4), (3,)],
    ),
    ("masked_scatter", lambda P, x, m, y: x.masked_scatter(m, y), [(3, 4), ("bools", (3, 4)), (12,)]),
    ("take", lambda P, x, i: P.take(x, i), [(3, 4), ("ints", 12, (2, 3))]),
    *(
        (
            f"scatter_reduce_{r}_{own}",
            lambda P, x, i, s, r=r, own=own: x.scatter_reduce(0, i, s, r, include_self=own),
            [("positive", (4, 3)), ("ints", 4, (5, 3)), ("positive", (5, 3))],
        )
        for r in ("sum", "mean", "prod", "amax", "amin")
        for own in (True, False)
    ),
    ("scatter_value", lambda P, x, i: x.scatter(1, i, 3.0), [(3, 5), ("ints", 5, (3, 2))]),
    ("scatter_", lambda P, x, i, s: (x * 1).scatter_(0, i, s), [(1, 3), ("ints", 1, (1, 3)), (1, 3)]),
    ("searchsorted", lambda P, x, v: P.searchsorted(x.sort(-1)[0], v, right=True), [(2, 6), (2, 3)]),
    ("bucketize", lambda P, x: P.bucketize(x, P.tensor([-1.0, 0.0, 0.5])), [(3, 4)]),
    ("isin", lambda P, i: P.isin(i, P.tensor([1, 3])), [("ints", 5, (3, 4))]),
    ("diagonal_scatter", lambda P, x, y: P.diagonal_scatter(x, y, 1), [(3, 3), (2,)]),
    ("diagonal_scatter_dims", lambda P, x, y: x.diagonal_scatter(y, -1, 2, 0), [(2, 3, 4), (3, 2)]),
    ("diagonal_scatter_ints", lambda P, i, y: P.diagonal_scatter(i, y.detach() * 3), [("ints", 9, (3, 4)), (3,)]),
    (
        "as_strided_scatter",
        lambda P, x, y: x.detach().contiguous().as_strided_scatter(y, (2, 2), (3, 1), 1),
        [(3, 4), (2, 2)],
    ),
    ("select_scatter", lambda P, x, y: P.select_scatter(x, y, 1, -1), [(3, 4), (3,)]),
    ("slice_scatter", lambda P, x, y: P.slice_scatter(x, y, 1, 1, step=2), [(3, 4), (3, 2)]),
]
