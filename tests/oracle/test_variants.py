"""torch's own samples (OpInfo) in the other ways to call an op: without gaps in memory or with, as a method, in place,
into `out`, with arguments that are errors; with gradients of complex numbers, second ones, and along tangents.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

import pyapp

from . import test_samples as samples
from .test_samples import (
    DRAWN,
    DRAWN_FUNCTIONS,
    KNOWN,
    NotHere,
    attribute,
    check_equal,
    function_of,
    here,
    leaves,
    name_of,
)

torch = pytest.importorskip("torch")
op_db = samples.op_db

DTYPES = "float32 float64 complex64 complex128 int64 int32 int16 int8 uint8 bool".split()
MOST = 6  # samples of an op in a dtype
Way = Callable[[Any, Any, list[Any], list[Any], dict[str, Any], dict[str, Any]], None]

CALLS = ("laid", "method", "out")
# Why an op differs in a way, by (way, name) or by the way and the beginning of the name.
DIFFERENT = {
    ("laid", "as_strided"): "it reads the memory itself",
    **{(way, name): "poles of short integers" for way in CALLS for name in ("polygamma", "special.polygamma")},
    **{(way, "histogramdd"): "torch's edges have no order" for way in (*CALLS, "twice", "along")},
    ("in_place", "addbmm"): "the first matrix does not grow",
    ("in_place", "float_power"): "the result is rounded to the dtype that is there",
    ("out", "nonzero"): "the tuple may have an out, too", ("out", "normal"): "out takes the shape of the result",
    ("out", "nn.functional.linear"): "out may have gaps",
    ("out", "nn.functional.avg_pool3d"): "torch writes an out with gaps in another order",
    ("along", "nn.functional.embedding"): "torch moves the row of padding_idx, too",
    ("along", "nn.functional.max_unpool"): "equal places add up",
    ("along", "nextafter"): "torch has no derivative", ("along", "logcumsumexp"): "torch's has seven digits",
    ("along", "triangular_solve"): "torch reads both triangles of a tangent",
    **{("along", f"linalg.{n}"): "of symmetric tangents alone" for n in ("cholesky", "matrix_sqrth", "polar")},
    ("along", "special."): "torch has no derivative", ("along", "scatter_reduce.prod"): "torch gives 0",
    ("twice", "linalg.norm.subgradients_at_zero"): "torch gives NaN",
    ("twice", "scatter_reduce.prod"): "no second derivative at 0",
    ("twice", "index_reduce.prod"): "no second derivative at 0",
}  # fmt: skip
# What is computed where torch refuses.
LENIENT = (
    "__radd__ __rand__ __rmul__ __ror__ __rxor__ aminmax atan2 bernoulli cat copysign eq fmax fmin fmod gather gcd "
    "ge gt hypot igamma igammac index_select lcm le logical_and logical_or logical_xor lt masked_fill masked_select "
    "max.binary maximum min.binary minimum multinomial ne nextafter nn.functional.group_norm nn.functional.max_pool1d "
    "nn.functional.max_pool3d narrow rsub take __rdiv__"
).split()


def reason(way: str, info: Any) -> str | None:
    name = name_of(info)
    if (why := KNOWN.get(name, KNOWN.get(info.name))) is not None:
        return why
    if info.name in DRAWN or info.name.removeprefix("nn.functional.") in DRAWN_FUNCTIONS:
        return "its numbers are drawn"
    return next((why for (at, of), why in DIFFERENT.items() if at == way and name.startswith(of)), None)


def check_way(way: str, info: Any, compare: Way, dtypes: list[str], gradients: bool = False) -> None:
    """Every sample of an op in some dtypes, where torch gives a result."""
    if (why := reason(way, info)) is not None:
        pytest.skip(why)
    try:
        own = function_of(info.op)
    except NotHere:
        own = attribute(pyapp, info.name)
    if own is None:
        pytest.skip("pyapp does not have it")
    failed: list[Exception] = []
    for dtype in dtypes:
        kind = getattr(torch, dtype)
        if kind not in info.dtypes:
            continue
        for sample in islice(info.sample_inputs("cpu", kind, requires_grad=gradients), MOST):
            given, settings = [sample.input, *sample.args], sample.kwargs
            try:
                arguments, ours = here(given), here(settings)
                info.op(*copy.deepcopy(given), **settings)
            except Exception:  # torch refuses, or pyapp has no such argument
                continue
            try:
                compare(info, own, given, arguments, settings, ours)
            except (NotImplementedError, NotHere):
                continue
            except Exception as error:
                error.add_note(f"{way} of {name_of(info)}, {dtype}: {sample.summary()}"[:500])
                failed.append(error)
    if failed:
        raise ExceptionGroup(f"{len(failed)} samples", failed[:5])


def check_all(theirs: Any, ours: Any) -> None:
    a, b = leaves(theirs), leaves(ours)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        check_equal(x, y, False)


def laid_with_gaps(x: Any, theirs: Any) -> Any:
    """Tensors whose elements have gaps between them, others as they are."""
    if isinstance(theirs, torch.Tensor) and theirs.ndim and theirs.numel():
        wide = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))
        return wide[..., ::2].copy_(x)
    if isinstance(theirs, (list, tuple)) and not hasattr(theirs, "_fields"):
        return type(x)(laid_with_gaps(a, b) for a, b in zip(x, theirs, strict=True))
    return x


def _laid(info: Any, own: Any, given: Any, arguments: Any, settings: Any, ours: Any) -> None:
    expected = info.op(*given, **settings)
    check_all(expected, own(*laid_with_gaps(arguments, given), **ours))


def _method(info: Any, own: Any, given: Any, arguments: Any, settings: Any, ours: Any) -> None:
    name = getattr(info.method_variant, "__name__", "<lambda>")
    if hasattr(torch.Tensor, name) and name != "__rdiv__":
        check_all(info.method_variant(*given, **settings), getattr(pyapp.Tensor, name)(*arguments, **ours))


def _in_place(info: Any, own: Any, given: Any, arguments: Any, settings: Any, ours: Any) -> None:
    name = getattr(info.inplace_variant, "__name__", None)
    if name is None or not hasattr(torch.Tensor, name):
        return
    try:
        expected = info.inplace_variant(*given, **settings)
    except Exception:
        return
    found = getattr(pyapp.Tensor, name)(*arguments, **ours)
    check_all([expected, given], [found, arguments])
    assert found is arguments[0]


def _out(info: Any, own: Any, given: Any, arguments: Any, settings: Any, ours: Any) -> None:
    expected = info.op(*given, **settings)
    single = isinstance(expected, torch.Tensor)
    every = [expected] if single else list(expected)
    if not info.supports_out or not all(isinstance(x, torch.Tensor) for x in every):
        return
    for shape_of in (lambda x: x.shape, lambda x: (0,), lambda x: (*x.shape, 2)):
        into = [pyapp.ones(tuple(shape_of(x)), dtype=str(x.dtype).removeprefix("torch.")) for x in every]
        own(*arguments, **ours, out=into[0] if single else tuple(into))
        check_all(every, into)


def _pairs(theirs: Any, ours: Any) -> list[tuple[Any, Any]]:
    both = zip(leaves(theirs), leaves(ours), strict=True)
    return [(a, b) for a, b in both if isinstance(a, torch.Tensor) and a.requires_grad and b.requires_grad]


def _twice(info: Any, own: Any, given: Any, arguments: Any, settings: Any, ours: Any) -> None:
    """Gradients, and those of the gradients."""
    inputs = samples.leaves_with_gradients(given, settings)
    own_inputs = samples.leaves_with_gradients(arguments, ours)
    pairs = _pairs(info.op(*given, **settings), own(*arguments, **ours))
    for last in (False, True):
        if not pairs or not inputs:
            return
        generator = torch.Generator().manual_seed(0)
        weights = [torch.randn(a.shape, generator=generator, dtype=a.dtype) for a, _ in pairs]
        try:
            expected = torch.autograd.grad(
                [a for a, _ in pairs], inputs, weights, allow_unused=True, create_graph=not last
            )
        except RuntimeError:
            return
        found = pyapp.autograd.grad(
            [b for _, b in pairs], own_inputs, here(weights), allow_unused=True, create_graph=not last
        )
        for a, b in zip(expected, found, strict=True):
            if a is not None and b is not None:
                check_equal(a.detach(), b.detach(), False)
            else:
                assert all(x is None or not samples.numbers(x).any() for x in (a, b))
        pairs = [
            (a, b)
            for a, b in zip(expected, found, strict=True)
            if a is not None and b is not None and a.requires_grad and b.requires_grad
        ]


def _along(info: Any, own: Any, given: Any, arguments: Any, settings: Any, ours: Any) -> None:
    """The derivative along random tangents of all arguments that have one."""
    at = [i for i, x in enumerate(given) if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())]
    generator = torch.Generator().manual_seed(0)
    tangents = [torch.randn(given[i].shape, generator=generator, dtype=given[i].dtype) for i in at]

    def function(op: Any, args: list[Any], kwargs: Any) -> Callable[..., tuple[Any, ...]]:
        def call(*moved: Any) -> tuple[Any, ...]:
            changed = list(args)
            for i, x in zip(at, moved, strict=True):
                changed[i] = x
            every = leaves(op(*changed, **kwargs))
            return tuple(y for y in every if hasattr(y, "is_complex") and (y.is_floating_point() or y.is_complex()))

        return call

    try:
        expected = torch.func.jvp(function(info.op, given, settings), tuple(given[i] for i in at), tuple(tangents))[1]
    except Exception:
        return
    found = pyapp.func.jvp(function(own, arguments, ours), tuple(arguments[i] for i in at), tuple(here(tangents)))[1]
    check_all(expected, found)


WAYS: dict[str, tuple[Way, list[str], bool]] = {
    "laid": (_laid, DTYPES, False), "method": (_method, DTYPES, False), "in_place": (_in_place, DTYPES, False),
    "out": (_out, DTYPES, False), "twice": (_twice, ["float64", "complex128"], True),
    "along": (_along, ["float64", "complex128"], False),
}  # fmt: skip


def cases() -> Iterator[Any]:
    for way in WAYS:
        for info in op_db:
            yield pytest.param(way, info, id=f"{way}-{name_of(info)}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("way", "info"), cases())
def test_ways(way: str, info: Any) -> None:
    compare, dtypes, gradients = WAYS[way]
    check_way(way, info, compare, dtypes, gradients)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", [i for i in op_db if i.error_inputs_func is not None], ids=name_of)
def test_errors(info: Any) -> None:
    """What torch refuses is refused, by an error that says something."""
    if name_of(info) in LENIENT or reason("errors", info):
        pytest.skip("what torch refuses is computed here")
    try:
        own = function_of(info.op)
        every = list(info.error_inputs("cpu"))
    except Exception:  # pyapp does not have it, or torch's list needs another device
        pytest.skip("not to be compared")
    for error in every:
        sample = error.sample_input
        given = [sample.input, *sample.args]
        try:
            arguments, ours = here(given), here(sample.kwargs)
        except Exception:
            continue
        try:
            info.op(*given, **sample.kwargs)
        except Exception:
            with pytest.raises((TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)) as caught:
                own(*arguments, **ours)
            assert len(str(caught.value)) > 10
