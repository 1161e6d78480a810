"""Elementwise ops: cases as the package describes them."""

from __future__ import annotations

from . import Case

UNARY = ["exp", "sin", "cos", "tanh", "sigmoid", "abs", "sign", "neg", "relu", "floor", "ceil", "square"]
POSITIVE = ["log", "sqrt", "rsqrt", "reciprocal", "log1p"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "remainder", "eq", "ne", "lt", "le", "gt", "ge"]
BROADCASTS = [[(3, 4), (3, 4)], [(3, 4), (4,)], [(2, 1, 3), (4, 1)], [(2, 3), ()], [(0, 3), (1, 3)]]
FUNCTIONS = [
    "erf", "expm1", "exp2", "tan", "atan", "sinh", "cosh", "asinh", "trunc", "frac", "digamma", "signbit",
]  # fmt: skip
PAIRS = ["fmod", "atan2", "hypot", "logaddexp"]


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
        for i, shapes in enumerate(BROADCASTS)
    ),
    ("scalar_left", lambda P, x: 2 - x * 3 + 1 / (x * x + 1), [(3, 4)]),
    ("pow_scalar", lambda P, x: x**3, [(3, 4)]),
    ("clamp", lambda P, x: x.clamp(-0.5, 0.7), [(3, 7)]),
    ("where", lambda P, c, a, b: P.where(c, a, b), [("bools", (3, 4)), (3, 4), (4,)]),
    ("masked_fill", lambda P, x, m: x.masked_fill(m, -2.0), [(3, 4), ("bools", (4,))]),
    ("chain", lambda P, x, w: ((x @ w).tanh().softmax(-1).log() * x.mean()).sum(1), [(3, 4), (4, 5)]),
    ("shared_twice", lambda P, x: x * x + x.exp() * x[0], [(3, 4)]),
    *((n, lambda P, x, n=n: getattr(P, n)(x), [(3, 5)]) for n in FUNCTIONS),
    *((n, lambda P, x, n=n: getattr(x, n)(), [("positive", (4, 5))]) for n in ("log2", "log10")),
    *(
        (n, lambda P, x, n=n: getattr(x * 0.7, n)(), [("positive", (4, 5))])
        for n in ("erfinv", "asin", "acos", "atanh")
    ),
    *((n, lambda P, a, b, n=n: getattr(a, n)(b), [(3, 4), (4,)]) for n in PAIRS),
    *((f"{n}_empty", lambda P, a, b, n=n: getattr(a, n)(b), [(0, 3), (1, 3)]) for n in PAIRS),
    ("erfinv_negative", lambda P, x: (-0.79 * x).erfinv(), [("positive", (4, 5))]),
    ("erf_empty", lambda P, x: x.erf(), [(0, 3)]),
    ("acosh", lambda P, x: (x + 1).acosh(), [("positive", (4, 5))]),
    ("lgamma", lambda P, x: x.lgamma(), [("positive", (4, 5))]),
    ("lgamma_wide", lambda P, x: (x * 20 + 0.3).lgamma(), [(4, 5)]),
    ("lerp", lambda P, a, b, w: P.lerp(a, b, w), [(3, 4), (3, 4), (4,)]),
    ("addcmul", lambda P, a, b, c: P.addcmul(a, b, c, value=0.5), [(3, 4), (3, 1), (4,)]),
    ("addcmul_of_ranks", lambda P, a, b, c: P.addcmul(a, b, c), [(1,), (1,), (1, 1, 1)]),
    ("addcdiv", lambda P, a, b, c: P.addcdiv(a, b, c, value=2.0), [(3, 4), (3, 1), ("positive", (4,))]),
    ("nan_to_num", lambda P, x: (x / P.where(x > 0.8, x * 0, x * 0 + 1)).nan_to_num(1.0, 9.0, -9.0), [(3, 5)]),
    ("logical_xor", lambda P, a, b: P.logical_xor(a, b), [("bools", (3, 4)), ("bools", (4,))]),
    ("left_shift", lambda P, a, b: a << b, [("ints", 9, (3, 4)), ("ints", 5, (4,))]),
    ("right_shift", lambda P, a, b: P.bitwise_right_shift(a - 40, b), [("ints", 99, (3, 4)), ("ints", 5, (4,))]),
    ("i0", lambda P, x: P.i0(x * 4), [(4, 5)]),
    ("igamma", lambda P, a, x: P.igamma(a.detach() * 8, x * 8), [("positive", (3, 4)), ("positive", (4,))]),
    ("igammac", lambda P, a, x: P.igammac(a.detach() * 8, x * 8), [("positive", (3, 4)), ("positive", (4,))]),
    ("igamma_large", lambda P, a, x: P.igamma(a.detach() * 90, x * 90), [("positive", (3, 4)), ("positive", (3, 4))]),
    ("mvlgamma", lambda P, x: P.mvlgamma(x + 1, 3), [("positive", (3, 4))]),
    *(
        (n, lambda P, x, n=n: getattr(P, n)(x * 2), [(4, 5)])
        for n in ("deg2rad", "rad2deg", "sinc", "absolute", "sgn", "positive", "isposinf")
    ),
    ("erfc", lambda P, x: (x * 4).erfc(), [(4, 5)]),
    ("copysign", lambda P, a, b: P.copysign(a, b), [(3, 4), (4,)]),
    ("gcd", lambda P, a, b: P.gcd(a, b), [("ints", 40, (3, 4)), ("ints", 40, (4,))]),
    ("lcm", lambda P, a, b: P.lcm(a, b), [("ints", 40, (3, 4)), ("ints", 40, (4,))]),
    ("heaviside", lambda P, a, b: P.heaviside(a.detach(), b.detach()), [(3, 4), (4,)]),
    ("fmax", lambda P, a, b: P.fmax((a * 3).log().detach(), b) + P.fmax(a, a.detach()), [(3, 4), (4,)]),
    ("fmin", lambda P, a, b: P.fmin(a, (b * 3).log().detach()) + P.fmin(b.detach(), b), [(3, 4), (4,)]),
    ("ldexp", lambda P, a, i: P.ldexp(a, i), [(3, 4), ("ints", 5, (4,))]),
    ("logaddexp2", lambda P, a, b: P.logaddexp2(a, b), [(3, 4), (4,)]),
    ("logit", lambda P, x: P.logit(x * 0.7, eps=0.2), [("positive", (3, 4))]),
    ("xlogy", lambda P, a, b: P.xlogy(a * (a > 0.5), b), [("positive", (3, 4)), ("positive", (4,))]),
    ("polygamma", lambda P, x: P.polygamma(1, x), [("positive", (3, 4))]),
    ("polygamma_3", lambda P, x: P.polygamma(3, x), [("positive", (3, 4))]),
    ("isclose", lambda P, a: P.isclose(a, a * 1.00001, rtol=1e-4), [(3, 4)]),
    ("clip", lambda P, x: P.clip(x, -0.5, max=0.5), [(3, 4)]),
    ("clamp_tensors", lambda P, x, a: P.clamp(x, min=a, max=a + 1), [(3, 4), (4,)]),
    ("rsub", lambda P, x: P.rsub(x, 3.0, alpha=2), [(3, 4)]),
    ("dist", lambda P, a, b: P.dist(a, b, 3.0), [(3, 4), (3, 4)]),
    ("float_power", lambda P, x: P.float_power(x, 1.5).to(P.float32), [("positive", (3, 4))]),
    ("frexp", lambda P, x: P.frexp(x.detach())[1], [(3, 4)]),
    ("round_decimals", lambda P, x: P.round(x * 10, decimals=1).detach(), [(3, 4)]),
    ("eq_tensor", lambda P, a: a.eq(a.round()), [(3, 4)]),
    ("hermite_degrees", lambda P, x, n: P.special.hermite_polynomial_h(x.detach().half(), n * 3), [(3, 4), (4,)]),
    ("entr", lambda P, x: P.special.entr(x), [("positive", (3, 4))]),
    ("entr_of_bytes", lambda P, x: P.special.entr((x * 9).detach().to(P.uint8)), [("positive", (3, 4))]),
    ("ndtr", lambda P, x: P.special.ndtr(x * 3), [(3, 4)]),
    ("log_ndtr", lambda P, x: P.special.log_ndtr(x * 8), [(3, 40)]),
    ("ndtri", lambda P, x: P.special.ndtri(x.sigmoid()), [(3, 4)]),
    ("xlog1py", lambda P, x, y: P.special.xlog1py(x, y), [(3, 4), ("positive", (4,))]),
    ("expit", lambda P, x: P.special.expit(x) + P.special.gammaln(x.exp()) + P.special.psi(x.exp()), [(3, 4)]),
]
