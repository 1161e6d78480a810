"""The last of torch's elementwise list: Bessel's I, incomplete gamma functions, differences along dims."""

from __future__ import annotations

from .cases import Case

CASES: list[Case] = [
    ("i0", lambda P, x: P.i0(x * 4), [(4, 5)]),
    ("igamma", lambda P, a, x: P.igamma(a.detach() * 8, x * 8), [("positive", (3, 4)), ("positive", (4,))]),
    ("igammac", lambda P, a, x: P.igammac(a.detach() * 8, x * 8), [("positive", (3, 4)), ("positive", (4,))]),
    ("igamma_large", lambda P, a, x: P.igamma(a.detach() * 90, x * 90), [("positive", (3, 4)), ("positive", (3, 4))]),
    ("mvlgamma", lambda P, x: P.mvlgamma(x + 1, 3), [("positive", (3, 4))]),
    ("gradient", lambda P, x: P.gradient(x, spacing=0.5, dim=1)[0], [(4, 5)]),
    ("gradient_dims", lambda P, x: P.gradient(x, spacing=(2.0, 3.0), edge_order=2)[0], [(4, 5)]),
    (
        "gradient_coordinates",
        lambda P, x, at: P.gradient(x, spacing=(at.detach().cumsum(0),), dim=0, edge_order=2)[0],
        [(4, 5), ("positive", (4,))],
    ),
]
