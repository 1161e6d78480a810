"""One call on torch and on pyapp: same dtypes, shapes, values and gradients, or an error from both."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
LAYOUTS = ("dense", "transposed", "sliced", "expanded")
TOLERANCE = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-9}
# What torch's CPU kernels leave out; pyapp may do more.
LEFT_OUT = re.compile(
    r"not implemented for|not supported|does not support|must be either float or double|only support|[Uu]nsupported"
)


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0, positive: bool = False) -> np.ndarray:
    """Quarters (or integers) that every dtype holds exactly; with equals and zeros among them."""
    random = np.random.RandomState(seed)
    if dtype == "bool":
        return np.asarray(random.rand(*shape) > 0.4)
    whole = dtype in INTEGERS
    low, high = (1, 7) if positive else (0, 7) if dtype == "uint8" else (-4, 5) if whole else (-12, 13)
    found = random.randint(low, high, shape).astype(np.int64)
    return np.asarray(found if whole else found / 4)


def to_torch(array: np.ndarray, dtype: str) -> Any:
    return torch.from_numpy(array.copy()).to(getattr(torch, dtype))


def to_pyapp(array: np.ndarray, dtype: str, layout: str = "dense") -> Any:
    """The values in memory that is laid out otherwise."""
    x = pyapp.from_numpy(array.copy()).to(dtype)
    if layout == "transposed" and array.ndim >= 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "sliced" and array.ndim >= 1:
        wide = pyapp.zeros(*array.shape[:-1], array.shape[-1] * 2 + 1, dtype=dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]
    if layout == "expanded" and array.ndim >= 1:
        return x.unsqueeze(0).expand(2, *array.shape)[1]
    return x


def dtype_name(x: Any) -> str:
    return str(x.dtype).rpartition(".")[2]


def values(x: Any) -> np.ndarray:
    x = x.detach()
    if isinstance(x, torch.Tensor):
        return np.asarray(x.to(torch.float64).numpy(force=True))
    return np.asarray(x.to("float64").numpy())


def check_equal(ours: Any, theirs: Any, tolerance: float | None = None, what: str = "value") -> None:
    """Tensors, numbers, or nested tuples of them."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), what
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            check_equal(a, b, tolerance, f"{what} {i}")
        return
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs, what
        return
    assert dtype_name(ours) == dtype_name(theirs), f"dtype of {what}"
    assert tuple(ours.shape) == tuple(theirs.shape), f"shape of {what}"
    limit = TOLERANCE.get(dtype_name(theirs), 0.0) if tolerance is None else tolerance
    np.testing.assert_allclose(values(ours), values(theirs), rtol=limit, atol=limit, err_msg=what)


def outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error


def check_error(error: BaseException | None, refused: BaseException) -> None:
    """A handler for torch's error also catches pyapp's, which has a message."""
    assert error is not None, "torch refuses this, pyapp does not"
    kind = RuntimeError if isinstance(refused, RuntimeError) else type(refused)
    assert isinstance(error, kind), f"{error!r}, torch: {refused!r}"
    assert len(str(error)) > 10, repr(error)


def agree(
    function: Callable[..., Any],
    arrays: list[tuple[np.ndarray, str]],
    layout: str = "dense",
    gradient: bool = False,
    tolerance: float | None = None,
) -> bool:
    """Runs `function(P, *tensors)` on both. False where torch lacks a kernel, so that nothing was compared."""
    theirs = [to_torch(a, d) for a, d in arrays]
    ours = [to_pyapp(a, d, layout) for a, d in arrays]
    if gradient:
        for x in (*theirs, *ours):
            if x.is_floating_point():
                x.requires_grad_()
    expected, refused = outcome(lambda: function(torch, *theirs))
    if refused is not None and LEFT_OUT.search(str(refused)):
        return False
    found, error = outcome(lambda: function(pyapp, *ours))
    if refused is not None:
        check_error(error, refused)
        return True
    if error is not None:
        raise error
    check_equal(found, expected, tolerance)
    if gradient:
        check_gradients(found, expected, ours, theirs, tolerance)
    return True


def check_gradients(found: Any, expected: Any, ours: list[Any], theirs: list[Any], tolerance: float | None) -> None:
    pairs = list(zip(found, expected, strict=True)) if isinstance(expected, (tuple, list)) else [(found, expected)]
    pairs = [(a, b) for a, b in pairs if isinstance(b, torch.Tensor) and b.requires_grad]
    steady = [b for a, b in pairs if not a.requires_grad]  # without a gradient in pyapp: torch's is 0
    wanted = [x for x in theirs if x.requires_grad]
    for b in steady:
        found_there = torch.autograd.grad(b.sum(), wanted, allow_unused=True, retain_graph=True)
        assert not any(g is not None and values(g).any() for g in found_there), "pyapp has no gradient"
    pairs = [(a, b) for a, b in pairs if a.requires_grad]
    if not pairs:
        return
    losses = []
    for place, side in ((0, pyapp), (1, torch)):
        total: Any = 0
        for pair in pairs:
            weights = np.random.RandomState(7).randn(*pair[1].shape)
            made = to_torch if side is torch else to_pyapp
            total = total + (pair[place] * made(np.asarray(weights), dtype_name(pair[1]))).sum()
        losses.append(total)
    losses[0].backward()
    _, refused = outcome(losses[1].backward)
    if refused is not None:  # some of torch's formulas do not broadcast
        return
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if b.grad is None:
            assert a.grad is None or not values(a.grad).any(), f"gradient of input {i}"
        elif a.grad is None:
            assert not values(b.grad).any(), f"no gradient for input {i}"
        else:
            limit = 20 * (TOLERANCE[dtype_name(b.grad)] if tolerance is None else tolerance)
            check_equal(a.grad, b.grad, limit, f"gradient of input {i}")
