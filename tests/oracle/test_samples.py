"""The samples with which torch tests its own ops and modules (OpInfo, ModuleInfo): the same values, dtypes, shapes and
gradients, or an error where torch has one. Some 45,000 calls; needs the package expecttest beside torch.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyapp

pytest.importorskip("expecttest")
torch = pytest.importorskip("torch")
op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
module_db = pytest.importorskip("torch.testing._internal.common_modules").module_db

DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "int64", "int32", "uint8", "bool")
TOLERANCE = {
    "float64": (1e-6, 1e-8), "float32": (2e-4, 2e-5), "float16": (2e-2, 2e-3), "bfloat16": (6e-2, 2e-2),
    "complex64": (2e-4, 2e-5), "complex128": (1e-6, 1e-8),
}  # fmt: skip
MOST = 40  # samples of an op in a dtype
# Shapes and dtypes are compared, the numbers are drawn.
DRAWN = (
    "bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial "
    "new_empty new_empty_strided normal pca_lowrank rand_like randint randint_like randn randn_like svd_lowrank uniform"
).split()
DRAWN_FUNCTIONS = (
    "alpha_dropout dropout dropout2d dropout3d feature_alpha_dropout fractional_max_pool2d fractional_max_pool3d "
    "multi_head_attention_forward rrelu scaled_dot_product_attention"
).split()
# Why an op differs, by name.
KNOWN = {
    "as_strided.partial_views": "the views are copies here",
    "as_strided_scatter": "torch's gradient of the input is one of the source's places",
    "cholesky_inverse": "torch's gradient reaches the triangle that is not read",
    "cholesky_solve": "torch's gradient reaches the triangle that is not read",
    "linalg.eig": "vectors up to a factor", "linalg.eigh": "vectors up to a factor",
    "nn.functional.ctc_loss": "torch's gradient is of log_softmax and the loss together",
    "quantile": "q has no gradient", "nanquantile": "q has no gradient",
    "special.bessel_j0": "torch's has seven digits", "special.bessel_y1": "torch's has seven digits",
    "sum_to_size": "torch converts what it does not add",
    "nn.functional.softmin.with_dtype": "torch negates bytes before it converts them",
    "matrix_exp": "torch overflows in halves", "cov": "torch adds weights in their own dtype",
    "linalg.vander": "not of tensors without dims",
    "nn.functional.batch_norm": "not of vectors",
    "nn.KLDivLoss": "both arguments are one tensor",
    "nn.LinearCrossEntropyLoss": "its options are an object of torch's",
    **dict.fromkeys(("chalf", "complex", "polar", "view_as_complex"), "there are no complex numbers of 32 bits"),
    **dict.fromkeys(
        ("__rmatmul__", "lu", "max_pool2d_with_indices_backward", "nn.functional.linear_cross_entropy", "to_sparse"),
        "the call is made of torch's own objects",
    ),
    **dict.fromkeys(
        ("nn.functional.bilinear", "nn.functional.local_response_norm"), "integers have another dtype here"
    ),
    **dict.fromkeys(("trapz", "trapezoid", "cumulative_trapezoid"), "torch's bytes wrap around"),
    **dict.fromkeys(("kthvalue", "topk", "mode", "sort", "argsort"), "which of equal elements it is"),
}  # fmt: skip
# Ops that add many rounded products: not to be compared in halves.
ROUGH = (
    "addbmm addcdiv addr conv_transpose2d conv_transpose3d embedding_bag gradient histc instance_norm soft_margin_loss"
).split()


def name_of(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def attribute(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part, None)
    return root


def names_of_functions() -> Iterator[tuple[int, str]]:
    for place in (
        "",
        "nn.functional",
        "linalg",
        "special",
        "masked",
        "fft",
        "signal.windows",
        "nn.utils.rnn",
        "Tensor",
    ):
        module = attribute(torch, place) if place else torch
        for name in dir(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = getattr(module, name, None)
            if callable(found):
                yield id(found), f"{place}.{name}" if place else name


NAMES = dict(names_of_functions())


class NotHere(Exception):
    """pyapp has no such thing, and the tests of names say so."""


def here(x: Any, gradients: bool = True) -> Any:
    """What stands for an argument of torch's in pyapp."""
    if isinstance(x, torch.Tensor):
        if x.layout is not torch.strided or x.is_meta:
            raise NotHere(x.layout)
        plain = x.detach().resolve_conj().resolve_neg()
        wide = plain.float() if x.dtype is torch.bfloat16 else plain
        y = pyapp.tensor(wide.numpy(force=True).copy(), dtype=str(x.dtype).removeprefix("torch."))
        return y.requires_grad_(x.requires_grad and gradients)
    if isinstance(x, (torch.dtype, torch.layout, torch.memory_format)):
        return attribute(pyapp, str(x).removeprefix("torch."))
    if isinstance(x, (torch.device, torch.Generator)):
        return "cpu" if isinstance(x, torch.device) else None
    if isinstance(x, (list, tuple)):
        parts = [here(part, gradients) for part in x]
        return (
            type(x)(*parts) if hasattr(x, "_fields") else tuple(parts) if isinstance(x, torch.Size) else type(x)(parts)
        )
    if isinstance(x, dict):
        return {key: here(value, gradients) for key, value in x.items()}
    return function_of(x) if callable(x) else x


def function_of(function: Any) -> Any:
    """The function of pyapp with the name of torch's; one that torch's tests define, with pyapp in torch's place."""
    found = attribute(pyapp, NAMES[id(function)]) if id(function) in NAMES else None
    if found is None and isinstance(function, types.FunctionType):
        names = {**function.__globals__, "torch": pyapp, "F": pyapp.nn.functional}
        cells = [
            types.CellType(function_of(c.cell_contents) if callable(c.cell_contents) else c.cell_contents)
            for c in function.__closure__ or ()
        ]
        defaults = function.__defaults__
        found = types.FunctionType(function.__code__, names, function.__name__, defaults, tuple(cells) or None)
        found.__kwdefaults__ = function.__kwdefaults__
    if found is None:
        raise NotHere(function)
    return found


def leaves(x: Any) -> list[Any]:
    """Tensors and numbers of nested results and arguments, in order."""
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in leaves(part)]
    if isinstance(x, dict):
        return leaves(list(x.values()))
    return [x] if isinstance(x, (torch.Tensor, pyapp.Tensor, bool, int, float, complex)) else []


def numbers(x: Any) -> np.ndarray:
    x = x.detach()
    halves = str(x.dtype).endswith("float16")
    if isinstance(x, torch.Tensor):
        return np.asarray((x.double() if halves else x).resolve_conj().resolve_neg().numpy(force=True))
    return np.asarray((x.to("float64") if halves else x).numpy())


def check_equal(theirs: Any, ours: Any, drawn: bool) -> None:
    if not isinstance(theirs, torch.Tensor):
        assert not isinstance(ours, pyapp.Tensor)
        assert drawn or np.allclose(theirs, ours, 1e-5, 1e-6, equal_nan=True)
        return
    kind = str(theirs.dtype).removeprefix("torch.")
    assert (ours.dtype.name, tuple(ours.shape)) == (kind, tuple(theirs.shape))
    if not drawn:
        relative, absolute = TOLERANCE.get(kind, (0, 0))
        np.testing.assert_allclose(numbers(ours), numbers(theirs), relative, absolute)


def check_gradients(theirs: list[Any], ours: list[Any], given: list[Any], own: list[Any]) -> None:
    """The gradients of results in what they were computed from, for the same random weights."""
    pairs = [(a, b) for a, b in zip(theirs, ours, strict=True) if isinstance(a, torch.Tensor) and a.requires_grad]
    pairs = [(a, b) for a, b in pairs if b.requires_grad]
    if not pairs or not given:
        return
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(a.shape, generator=generator, dtype=torch.float64).to(a.dtype) for a, _ in pairs]
    try:
        expected = torch.autograd.grad([a for a, _ in pairs], given, weights, allow_unused=True)
    except RuntimeError:
        return
    found = pyapp.autograd.grad([b for _, b in pairs], own, here(weights), allow_unused=True)
    for a, b in zip(expected, found, strict=True):
        if a is not None and b is not None:
            check_equal(a, b, False)
        elif (rest := a if a is not None else b) is not None:
            assert not numbers(rest).any()


def leaves_with_gradients(*x: Any) -> list[Any]:
    return [leaf for leaf in leaves(x) if hasattr(leaf, "requires_grad") and leaf.requires_grad]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", op_db, ids=name_of)
def test_ops(info: Any) -> None:
    if (why := KNOWN.get(name_of(info), KNOWN.get(info.name))) is not None:
        pytest.skip(why)
    drawn = info.name in DRAWN or info.name.removeprefix("nn.functional.") in DRAWN_FUNCTIONS
    rough = info.name.rpartition(".")[2] in ROUGH
    try:
        own = function_of(info.op)
    except NotHere:
        own = attribute(pyapp, info.name)
    if own is None:
        pytest.skip("pyapp does not have it")
    failed: list[Exception] = []
    for dtype in DTYPES:
        kind = getattr(torch, dtype)
        if kind not in info.dtypes or (rough and dtype in ("float16", "bfloat16")):
            continue
        slopes = dtype == "float64" and info.supports_autograd
        for sample, _ in zip(info.sample_inputs("cpu", kind, requires_grad=slopes), range(MOST), strict=False):
            given = [sample.input, *sample.args]
            if info.name == "histogramdd" and isinstance(given[1][0], torch.Tensor):  # torch's edges have no order
                given[1] = [edges.sort().values for edges in given[1]]
            try:
                arguments, settings = here(given), here(sample.kwargs)
                expected = info.op(*given, **sample.kwargs)
            except Exception:  # torch refuses what another of its devices takes
                continue
            try:
                found = own(*arguments, **settings)
                theirs, ours = leaves(expected), leaves(found)
                assert len(theirs) == len(ours)
                for a, b in zip(theirs, ours, strict=True):
                    check_equal(a, b, drawn)
                if slopes and not drawn:
                    ours_given = leaves_with_gradients(arguments, settings)
                    check_gradients(theirs, ours, leaves_with_gradients(given, sample.kwargs), ours_given)
            except (NotImplementedError, NotHere):
                continue  # what pyapp says that it does not do
            except Exception as error:
                error.add_note(f"{name_of(info)} of {dtype}: {sample.summary()}"[:600])
                failed.append(error)
    if failed:
        raise ExceptionGroup(f"{len(failed)} samples", failed[:5])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", module_db, ids=lambda info: str(info.name))
def test_modules(info: Any) -> None:
    own = getattr(pyapp.nn, info.module_cls.__name__, None)
    if own is None or info.name in KNOWN:
        pytest.skip(KNOWN.get(info.name, "pyapp does not have it"))
    failed: list[Exception] = []
    for training in (True, False):
        drawn = training and any(part in info.name for part in ("Dropout", "RReLU", "Transformer", "Multihead"))
        settings = {"device": "cpu", "dtype": torch.float64, "requires_grad": True, "training": training}
        for sample in info.module_inputs_func(info, **settings):
            made, call = sample.constructor_input, sample.forward_input
            try:
                theirs = info.module_cls(*made.args, **made.kwargs).double().train(training)
                state = {name: here(value, False) for name, value in theirs.state_dict().items()}
                ours = own(*here(made.args), **here(made.kwargs)).double().train(training)
                args, kwargs = here(call.args), here(call.kwargs)
                expected = leaves(theirs(*call.args, **call.kwargs))
            except (NotHere, ValueError, RuntimeError, AttributeError):  # lazy modules, what torch refuses
                continue
            try:
                ours.load_state_dict(state)
                found = leaves(ours(*args, **kwargs))
                assert len(expected) == len(found)
                for a, b in zip(expected, found, strict=True):
                    check_equal(a, b, drawn or "Fractional" in info.name)
                if not drawn and "CTC" not in info.name and "Fractional" not in info.name:
                    given = leaves_with_gradients(call.args, call.kwargs) + list(theirs.parameters())
                    check_gradients(
                        expected, found, given, leaves_with_gradients(args, kwargs) + list(ours.parameters())
                    )
            except Exception as error:
                error.add_note(f"{info.name}{made.args}{made.kwargs}: {call.args} {call.kwargs}"[:600])
                failed.append(error)
    if failed:
        raise ExceptionGroup(f"{len(failed)} samples", failed[:5])
