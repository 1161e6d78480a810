"""What torch's own tests found: empty indices, numbers beyond a dtype, `out` of another shape, NaN, masks of bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from .cases_samples import ramp

INF, NAN = float("inf"), float("nan")
NAMES = "sum prod mean amax amin norm var std logsumexp cumsum cumprod softmax log_softmax softmin normalize".split()


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    function(x.requires_grad_()).sum().backward()
    return x.grad


def filled(P: Any, function: Any, x: Any) -> Any:
    """x after a function wrote to columns of it."""
    function(x.narrow(1, 1, 2))
    return x


def scattered(P: Any, name: str, more: tuple[str, ...] = ()) -> Any:
    return getattr(ramp(P, 2, 2), name)(0, P.zeros(0, dtype=P.int64), P.ones(2, 2), *more)


def symmetric(P: Any, *shape: int, dtype: Any = None) -> Any:
    x = ramp(P, *shape).to(dtype or P.float64)
    x = x.sin() * 3 if not x.is_complex() else x * (1 + 0.5j)
    return x + x.mT


def solved(P: Any, x: Any, hermitian: bool = False) -> Any:
    factors, pivots = P.linalg.ldl_factor(x, hermitian=hermitian)
    b = ramp(P, *x.shape[:-1], 2).to(x.dtype)
    found = P.linalg.ldl_solve(factors, pivots, b, hermitian=hermitian)
    return (P.view_as_real(found) if x.is_complex() else found), pivots


def retained(P: Any) -> Any:
    x = P.ones(2, requires_grad=True).clone()
    x.retain_grad()
    view = x[:1]
    view *= 2
    x *= 3
    x.sum().backward()
    return x.grad


def accumulated(P: Any) -> Any:
    x, seen = P.ones(2, requires_grad=True), []
    node = x.expand_as(x).grad_fn.next_functions[0][0]
    handle = node.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    return seen


def masked(P: Any, name: str) -> Any:
    function = getattr(import_module(f"{P.__name__}.masked"), name)
    x, mask = ramp(P, 3, 4), ramp(P, 3, 4) > 0
    more = {"norm": (3.0, 1), "normalize": (2.0, 1)}.get(name, (1,))
    return function(x, *more, mask=mask)


def grouped(P: Any, a: Any, b: Any, ends: Any) -> Any:
    offs = None if ends is None else P.tensor(ends, dtype=P.int32)
    return P.nn.functional.grouped_mm(ramp(P, *a), ramp(P, *b), offs=offs)


BESIDE_NUMBERS: dict[str, Callable[[Any, float], Any]] = {
    "sums": lambda x, s: (x + s, x - s, s - x),
    "quotients": lambda x, s: (x / s, s / x, x.div(s, rounding_mode="trunc")),
    "powers": lambda x, s: (x**s, s**x), "remainders": lambda x, s: (x.fmod(s), x % s, x // s),
    "comparisons": lambda x, s: (x == s, x != s, x < s, x <= s, x > s, x >= s),
    "limits": lambda x, s: (x * s, x.clamp(min=s), x.clone().add_(s)),
}  # fmt: skip


def beside_numbers(P: Any, kind: str, name: str) -> Any:
    """Of which ops torch rounds the number first."""
    x = P.cat([P.tensor([0.1, 2.3]), ramp(P, 3).abs() + 0.2]).to(getattr(P, kind))
    return tuple(part for s in (0.1, 2.3) for part in BESIDE_NUMBERS[name](x, s))


DETAILS: dict[str, Callable[[Any], Any]] = {
    "round to thousands": lambda P: P.round(P.tensor([1200.1235, -3550.0]), decimals=-3),
    "entr of 0": lambda P: 1 / P.special.entr(P.tensor([0.0])),
    "index_add with a float alpha": lambda P: P.zeros(4, dtype=P.int32).index_add(
        0, P.tensor([1, 1, 2]), P.tensor([1, 2, 3], dtype=P.int32), alpha=2.5
    ),
    "a mask of one byte": lambda P: ramp(P, 2, 3)[P.tensor(1, dtype=P.uint8)],
    "bytes accumulate nothing": lambda P: P.ones(4, 2).index_put_(
        (P.zeros(4, dtype=P.uint8),), P.ones(0, 2), accumulate=True
    ),
    **{f"{name} nowhere": partial(scattered, name=name) for name in ("scatter", "scatter_add_")},
    **{f"{how} nowhere": partial(scattered, name="scatter_reduce", more=(how,)) for how in ("mean", "amax")},
    "complex means": lambda P: P.zeros(2, dtype=P.complex64).scatter_reduce(
        0, P.tensor([0, 0]), P.tensor([1j, 2.0]), "mean"
    ).abs(),
    "gather by name": lambda P: P.gather(ramp(P, 2, 2), 1, P.tensor([[0], [1]]), sparse_grad=False),
    "arange into columns": lambda P: filled(P, lambda out: P.arange(4.0, out=out), P.zeros(2, 3)),
    "linspace into columns": lambda P: filled(P, lambda out: P.linspace(0, 3, 4, out=out), P.zeros(2, 3)),
    "another dtype than out's": lambda P: P.zeros(3, dtype=P.int64, out=P.empty(3)),
    "out and a gradient": lambda P: float(P.full((2,), 2.0, out=P.empty(2), requires_grad=True).requires_grad),
    "complex linspace": lambda P: P.view_as_real(P.linspace(1j, 2, 3)),
    "real numbers from complex ones": lambda P: P.linspace(1j, 2, 3, dtype=P.float32),
    "no blocks": lambda P: P.block_diag(), "empty vectors along dim 1": lambda P: P.cat([P.zeros(0), P.zeros(0)], 1),
    "an integer beyond int64": lambda P: P.tensor([2**64, 1], dtype=P.float32),
    "hsplit into unequal parts": lambda P: P.hsplit(ramp(P, 2, 3), 2),
    "vsplit a vector": lambda P: P.vsplit(P.ones(3), 3),
    "random bits up to 3": lambda P: P.zeros(3, dtype=P.bool).random_(0, 3),
    "random bytes up to 300": lambda P: P.zeros(3, dtype=P.uint8).random_(0, 300),
    "large random numbers": lambda P: float(P.zeros(1000, dtype=P.float64).random_().max() > 2**50),
    "random from below 0": lambda P: float(P.zeros(100, dtype=P.int64).random_(-5, None).min() >= -5),
    "bytes in another order": lambda P: P.randperm(300, dtype=P.uint8),
    "windows of integers": lambda P: P.hann_window(3, dtype=P.int64), "flip nothing": lambda P: ramp(P, 2).flip(),
    "repeat by halves": lambda P: P.repeat_interleave(P.ones(2), P.tensor([1.0, 2.0])),
    "elements of a buffer": lambda P: P.asarray(bytearray(b"abcd"), dtype=P.int16),
    "a copy where none may be": lambda P: P.asarray([1, 2], copy=False),
    "asarray in the graph": lambda P: float(P.asarray(P.ones(2, requires_grad=True), dtype=P.float64).requires_grad),
    "slopes beside NaN": lambda P: P.gradient(P.tensor([INF, 1.0, 2.0, NAN, 3.0])),
    "slopes of complex steps": lambda P: P.view_as_real(P.gradient(ramp(P, 5), spacing=2 + 1j)[0]),
    "norms below 1": lambda P: gradient(lambda x: x.norm(0.5), P.tensor([1.0, 0.0])),
    "distances below 1": lambda P: gradient(lambda x: P.cdist(x, P.ones(1, 2), p=0.5), P.tensor([[1.0, 3.0]])),
    "draws of no rows": lambda P: P.multinomial(P.ones(0, 3), 1, replacement=True), "no quantile": lambda P: P.quantile(
        ramp(P, 3, 2), P.zeros(0), dim=0
    ),
    "reversed": lambda P: reversed(ramp(P, 2, 2)), "axes by name": lambda P: ramp(P, 2, 3).swapaxes(axis0=0, axis1=1),
    "the largest row of no rows": lambda P: gradient(
        lambda w: P.nn.functional.embedding_bag(P.tensor([1]), w, P.tensor([0]), mode="max", padding_idx=1),
        ramp(P, 3, 2),
    ),
    "running sums of complex powers": lambda P: P.view_as_real(
        P.logcumsumexp(P.tensor([1 + 1j, 2.0, -INF, 3 - 2j]), 0)
    ),
    "order of dims": lambda P: P.empty(2, 3, 4).transpose(0, 1).dim_order(),
    "several orders of dims": lambda P: P.empty(1, 2).dim_order(ambiguity_check=True),
    "three arguments": lambda P: P.zeros(2).map2_(P.ones(2), P.ones(2), lambda a, b, c: a + b * c),
    "the grad that is retained": retained, "hooks at a leaf": accumulated,
    **{f"masked {name}": partial(masked, name=name) for name in NAMES},
    "ldl": lambda P: P.linalg.ldl_factor(symmetric(P, 2, 7, 7)),
    "ldl_solve": lambda P: solved(P, symmetric(P, 2, 7, 7)),
    "ldl of complex numbers": lambda P: solved(P, symmetric(P, 4, 4, dtype=P.complex128)),
    "ldl of 0": lambda P: P.linalg.ldl_factor_ex(P.zeros(2, 2)).info, "lu": lambda P: P.lu(symmetric(P, 3, 3)),
    **{
        f"grouped_mm {len(a)}-{len(b)}": partial(grouped, a=a, b=b, ends=ends)
        for a, b, ends in (
            ((2, 4, 8), (2, 8, 8), None), ((2, 4, 8), (8, 8), [4, 8]), ((4, 8), (8, 8), [4, 8]),
            ((6, 8), (2, 8, 8), [2, 6]),
        )
    },
    **{
        f"{kind} and numbers, {name}": partial(beside_numbers, kind=kind, name=name)
        for kind in ("bfloat16", "float16") for name in BESIDE_NUMBERS
    },
    "lu of a tall matrix of rank 1": lambda P: P.linalg.lu_factor_ex(P.tensor([[1.0, 2], [2, 4], [3, 6]])),
    "nuclear norms": lambda P: P.nuclear_norm(ramp(P, 2, 3, 3), dim=(0, 1)),
    "eigh by a small letter": lambda P: P.linalg.eigh(P.eye(2), UPLO="u")[0],
    "a source of another dtype": lambda P: P.zeros(2).scatter_add(0, P.tensor([0]), P.ones(1, dtype=P.float64)),
    "a filling with dims": lambda P: P.zeros(2).masked_fill(P.tensor([True, False]), P.ones(1)),
    "a filling beyond int64": lambda P: P.zeros(2, dtype=P.int64).masked_fill(P.tensor(True), P.tensor(1e20)),
    "scatter by bytes": lambda P: P.zeros(2).masked_scatter(P.tensor([1, 0], dtype=P.uint8), P.ones(2)),
    "negative padding": lambda P: P.nn.functional.conv1d(P.ones(1, 1, 4), P.ones(1, 1, 2), padding=-1),
    "negative padding of a pool": lambda P: P.nn.functional.max_pool1d(P.ones(1, 1, 4), 2, padding=-1),
    "groups without ends": partial(grouped, a=(6, 8), b=(2, 8, 8), ends=None),
}  # fmt: skip
