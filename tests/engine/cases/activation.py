"""Activation functions and softmax: cases as the package describes them."""

from __future__ import annotations

from . import Case, F

ACTIVATIONS = ["gelu", "softplus", "mish", "elu", "leaky_relu", "hardtanh"]


CASES: list[Case] = [
    (
        "silu",
        lambda P, x: P.nn.functional.silu(x) if hasattr(P, "nn") and hasattr(P.nn, "functional") else x.silu(),
        [(3, 5)],
    ),
    ("softmax", lambda P, x: x.softmax(-1), [(3, 33)]),
    ("softmax0", lambda P, x: x.softmax(0), [(4, 3)]),
    ("log_softmax", lambda P, x: x.log_softmax(-1), [(3, 17)]),
    *((n, lambda P, x, n=n: getattr(F(P), n)(x), [(4, 5)]) for n in ACTIVATIONS),
    ("gelu_tanh", lambda P, x: F(P).gelu(x, approximate="tanh"), [(4, 5)]),
    ("softplus_beta", lambda P, x: F(P).softplus(x * 5, 2.0, 4.0), [(4, 5)]),
    ("elu_alpha", lambda P, x: F(P).elu(x, 0.5), [(4, 5)]),
    ("leaky_relu_slope", lambda P, x: F(P).leaky_relu(x, 0.3), [(4, 5)]),
    ("hardtanh_limits", lambda P, x: F(P).hardtanh(x, -0.3, 0.6), [(4, 5)]),
    *(
        (n, lambda P, x, n=n: getattr(F(P), n)(x * 3), [(4, 5)])
        for n in ("relu6", "hardsigmoid", "hardswish", "celu", "selu", "logsigmoid", "softsign", "tanhshrink")
    ),
    ("celu_alpha", lambda P, x: F(P).celu(x, 0.5), [(4, 5)]),
    ("glu", lambda P, x: F(P).glu(x, 0), [(4, 5)]),
    ("softshrink", lambda P, x: F(P).softshrink(x, 0.3), [(4, 5)]),
    ("hardshrink", lambda P, x: F(P).hardshrink(x, 0.3), [(4, 5)]),
    ("threshold", lambda P, x: F(P).threshold(x, 0.2, 7.0), [(4, 5)]),
    ("prelu", lambda P, x, w: F(P).prelu(x, w), [(2, 3, 4), (3,)]),
    ("prelu_one", lambda P, x, w: F(P).prelu(x, w), [(4, 5), (1,)]),
    ("rrelu", lambda P, x: F(P).rrelu(x), [(4, 5)]),
    ("softmin", lambda P, x: F(P).softmin(x, dim=0), [(4, 5)]),
    ("softmax_dtype", lambda P, x: F(P).softmax(x, dim=-1, dtype=P.float64).to(P.float32), [(4, 5)]),
]
