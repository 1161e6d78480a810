"""Normalisations: cases as the package describes them."""

from __future__ import annotations

from . import Case, F, N

CASES: list[Case] = [
    ("normalize", lambda P, x: F(P).normalize(x, 3.0, 0), [(4, 5)]),
    ("layer_norm_dims", lambda P, x, w, b: N(P).layer_norm(x, (3, 4), w, b), [(2, 3, 4), (3, 4), (3, 4)]),
    ("layer_norm_plain", lambda P, x: N(P).layer_norm(x, [4]), [(2, 3, 4)]),
    ("layer_norm_last", lambda P, x, w, b: N(P).layer_norm(x, (4,), w, b, 1e-3), [(2, 3, 4), (4,), (4,)]),
    ("rms_norm_last", lambda P, x, w: N(P).rms_norm(x, (4,), w), [(2, 3, 4), (4,)]),
    ("rms_norm_dims", lambda P, x: N(P).rms_norm(x, (3, 4), eps=1e-2), [(2, 3, 4)]),
    ("group_norm", lambda P, x, w, b: N(P).group_norm(x, 2, w, b), [(2, 4, 5), (4,), (4,)]),
    ("batch_norm", lambda P, x, w, b: N(P).batch_norm(x, None, None, w, b, True), [(4, 3, 2), (3,), (3,)]),
    (
        "batch_norm_running",
        lambda P, x, m, v: N(P).batch_norm(x, m.detach(), v.detach()),
        [(4, 3), (3,), ("positive", (3,))],
    ),
    ("instance_norm", lambda P, x, w, b: N(P).instance_norm(x, weight=w, bias=b), [(2, 3, 4, 2), (3,), (3,)]),
    ("local_response_norm_empty", lambda P, x: N(P).local_response_norm(x, 3), [(0, 5, 4)]),
    ("local_response_norm", lambda P, x: N(P).local_response_norm(x, 3, 0.1, 0.5, 2.0), [(2, 5, 4)]),
]
