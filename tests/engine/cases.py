"""Op cases that run on torch (make_golden.py) and on pyapp (test_ops.py) alike: `P` is either package.

(name, function(P, *tensors), inputs): an input is a shape of floats, or ("ints", high, shape), ("positive", shape),
("bools", shape).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = tuple[str, Callable[..., Any], list[Any]]

UNARY = ["exp", "sin", "cos", "tanh", "sigmoid", "abs", "sign", "neg", "relu", "floor", "ceil", "square"]
POSITIVE = ["log", "sqrt", "rsqrt", "reciprocal", "log1p"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "remainder", "eq", "ne", "lt", "le", "gt", "ge"]
SHAPES = [[(3, 4), (3, 4)], [(3, 4), (4,)], [(2, 1, 3), (4, 1)], [(2, 3), ()], [(0, 3), (1, 3)]]

CASES: list[Case] = [
    *((n, lambda P, x, n=n: getattr(x, n)(), [(3, 5)]) for n in UNARY),
    *((n, lambda P, x, n=n: getattr(x, n)(), [("positive", (4, 3))]) for n in POSITIVE),
    *(
        (
            f"{n}{i}",
            lambda P, a, b, n=n: getattr(a, n)(b),
            [("positive", s) for s in shapes] if n in ("pow", "remainder") else shapes,
        )
        for n in BINARY
        for i, shapes in enumerate(SHAPES)
    ),
    (
        "silu",
        lambda P, x: P.nn.functional.silu(x) if hasattr(P, "nn") and hasattr(P.nn, "functional") else x.silu(),
        [(3, 5)],
    ),
    ("scalar_left", lambda P, x: 2 - x * 3 + 1 / (x * x + 1), [(3, 4)]),
    ("pow_scalar", lambda P, x: x**3, [(3, 4)]),
    ("clamp", lambda P, x: x.clamp(-0.5, 0.7), [(3, 7)]),
    ("where", lambda P, c, a, b: P.where(c, a, b), [("bools", (3, 4)), (3, 4), (4,)]),
    ("masked_fill", lambda P, x, m: x.masked_fill(m, -2.0), [(3, 4), ("bools", (4,))]),
    ("sum_all", lambda P, x: x.sum(), [(3, 4)]),
    ("sum_dim", lambda P, x: x.sum(1), [(3, 4, 2)]),
    ("sum_keep", lambda P, x: x.sum((0, 2), keepdim=True), [(3, 4, 2)]),
    ("sum_empty", lambda P, x: x.sum(0), [(0, 4)]),
    ("mean", lambda P, x: x.mean(-1, True), [(3, 4)]),
    ("var", lambda P, x: x.var(-1), [(3, 6)]),
    ("std0", lambda P, x: x.std(0, correction=0), [(5, 3)]),
    ("amax", lambda P, x: x.amax(1), [(3, 4)]),
    ("amin", lambda P, x: x.amin((0, 1)), [(3, 4)]),
    ("max_dim", lambda P, x: x.max(1)[0], [(3, 4)]),
    ("argmax", lambda P, x: x.argmax(-1), [(3, 4)]),
    ("argmin", lambda P, x: x.argmin(), [(3, 4)]),
    ("any", lambda P, x: (x > 1).any(0), [(3, 4)]),
    ("all", lambda P, x: (x > -1).all(), [(3, 4)]),
    ("cumsum", lambda P, x: x.cumsum(1), [(3, 4)]),
    ("logsumexp", lambda P, x: x.logsumexp(-1), [(3, 4)]),
    ("sort", lambda P, x: x.sort(-1, descending=True)[0], [(3, 6)]),
    ("argsort", lambda P, x: x.argsort(0), [(5, 3)]),
    ("topk", lambda P, x: x.topk(2)[0], [(3, 6)]),
    ("softmax", lambda P, x: x.softmax(-1), [(3, 33)]),
    ("softmax0", lambda P, x: x.softmax(0), [(4, 3)]),
    ("log_softmax", lambda P, x: x.log_softmax(-1), [(3, 17)]),
    ("matmul", lambda P, a, b: a @ b, [(3, 5), (5, 2)]),
    ("matmul_big", lambda P, a, b: a @ b, [(33, 65), (65, 17)]),
    ("matmul_vec", lambda P, a, b: a @ b, [(3, 5), (5,)]),
    ("vec_matmul", lambda P, a, b: a @ b, [(5,), (5, 3)]),
    ("dot", lambda P, a, b: a @ b, [(5,), (5,)]),
    ("matmul_batch", lambda P, a, b: a @ b, [(2, 1, 3, 4), (5, 4, 2)]),
    ("matmul_shared", lambda P, a, b: a @ b, [(2, 3, 4), (4, 5)]),
    ("matmul_zero", lambda P, a, b: a @ b, [(3, 0), (0, 2)]),
    ("reshape", lambda P, x: x.reshape(2, -1) * 2, [(3, 4)]),
    ("reshape_permuted", lambda P, x: x.permute(2, 0, 1).reshape(6, -1), [(3, 4, 2)]),
    ("transpose", lambda P, x: x.transpose(0, -1) * x.permute(2, 1, 0), [(3, 4, 2)]),
    ("expand", lambda P, x: x.expand(2, 3, 4) * 1.5, [(3, 1)]),
    ("squeeze", lambda P, x: x.squeeze(1).unsqueeze(0), [(3, 1, 4)]),
    ("flatten", lambda P, x: x.flatten(1), [(2, 3, 4)]),
    ("cat", lambda P, a, b: P.cat([a, b, a], 1), [(2, 3), (2, 1)]),
    ("stack", lambda P, a, b: P.stack([a, b], -1), [(2, 3), (2, 3)]),
    ("split", lambda P, x: x.split([1, 3], 1)[1] * 2, [(3, 4)]),
    ("chunk", lambda P, x: x.chunk(3, 0)[2], [(7, 2)]),
    ("flip", lambda P, x: x.flip(0, 1), [(3, 4)]),
    ("repeat", lambda P, x: x.repeat(2, 1, 3), [(2, 3)]),
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
    ("tril", lambda P, x: x.tril(-1), [(4, 4)]),
    ("triu", lambda P, x: x.triu(), [(3, 5)]),
    ("chain", lambda P, x, w: ((x @ w).tanh().softmax(-1).log() * x.mean()).sum(1), [(3, 4), (4, 5)]),
    ("shared_twice", lambda P, x: x * x + x.exp() * x[0], [(3, 4)]),
]
LAYOUTS = ("dense", "transposed", "sliced", "expanded")


def make_inputs(name: str, specs: list[Any]) -> list[np.ndarray]:
    """The same arrays everywhere: RandomState's stream is fixed."""
    random = np.random.RandomState(sum(map(ord, name)))
    return [_make(random, spec) for spec in specs]


def _make(random: np.random.RandomState, spec: Any) -> np.ndarray:
    if spec and spec[0] == "ints":
        return random.randint(0, spec[1], spec[2]).astype(np.int64)
    if spec and spec[0] == "bools":
        return random.rand(*spec[1]) > 0.5
    if spec and spec[0] == "positive":
        return np.asarray(random.rand(*spec[1]) + 0.25, dtype=np.float32)
    return np.asarray(random.randn(*spec), dtype=np.float32)


def weights_for(shape: tuple[int, ...]) -> np.ndarray:
    """What an output is multiplied with before its sum is differentiated."""
    return np.asarray(np.random.RandomState(7).randn(*shape), dtype=np.float32)
