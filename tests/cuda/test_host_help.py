"""What has no kernel for cards: the host computes it from copies, says so, and leaves the result on the card."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, linalg, nn, ops, special
from pyapp.engine import capture

from . import emulated

pytestmark = [pytest.mark.native_only, pytest.mark.filterwarnings("ignore:.*the host computes it from copies")]
Function = Callable[..., Any]


def numbers(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


SQUARE = numbers(2, 4, 4) + 4 * np.eye(4, dtype="float32")
POSITIVE = SQUARE @ SQUARE.transpose(0, 2, 1)
SIDE = numbers(2, 4, 3)
SIGNAL = numbers(3, 12)
CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "cholesky": (linalg.cholesky, (POSITIVE,)),
    "cholesky_ex": (linalg.cholesky_ex, (POSITIVE,)),
    "cholesky_inverse": (lambda x: pyapp.cholesky_inverse(linalg.cholesky(x)), (POSITIVE,)),
    "cholesky_solve": (lambda x, b: pyapp.cholesky_solve(b, linalg.cholesky(x)), (POSITIVE, SIDE)),
    "cond": (linalg.cond, (SQUARE,)),
    "det": (linalg.det, (SQUARE,)),
    "eigh": (lambda x: linalg.eigh(x)[0], (POSITIVE,)),
    "eigvals": (lambda x: linalg.eigvals(x).abs(), (POSITIVE,)),
    "householder_product": (lambda x: linalg.householder_product(*pyapp.geqrf(x)), (SIDE,)),
    "inv": (linalg.inv, (SQUARE,)),
    "inv_ex": (linalg.inv_ex, (SQUARE,)),
    "logdet": (pyapp.logdet, (POSITIVE,)),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[0], (SQUARE, SIDE)),
    "lu": (linalg.lu, (SQUARE,)),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), (SQUARE, SIDE)),
    "matrix_exp": (linalg.matrix_exp, (SQUARE * 0.1,)),
    "matrix_norm": (lambda x: linalg.matrix_norm(x, "nuc"), (SQUARE,)),
    "matrix_power": (lambda x: linalg.matrix_power(x, -2), (SQUARE,)),
    "matrix_power of 0": (lambda x: linalg.matrix_power(x, 0), (SQUARE,)),
    "matrix_rank": (linalg.matrix_rank, (SIDE,)),
    "multi_dot": (lambda a, b: linalg.multi_dot([a[0], b[0]]), (SQUARE, SIDE)),
    "pinv": (linalg.pinv, (SIDE,)),
    "qr": (linalg.qr, (SIDE,)),
    "qr complete": (lambda x: linalg.qr(x, "complete")[1], (SIDE,)),
    "slogdet": (linalg.slogdet, (SQUARE,)),
    "solve": (linalg.solve, (SQUARE, SIDE)),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a, b, upper=True), (SQUARE, SIDE)),
    "svd": (lambda x: linalg.svd(x)[1], (SIDE,)),
    "svdvals": (linalg.svdvals, (SIDE,)),
    "tensorinv": (lambda x: linalg.tensorinv(x.reshape(2, 2, 4), 2), (SQUARE[0],)),
    "i0": (special.i0, (SIGNAL,)),
    "i1e": (special.i1e, (SIGNAL,)),
    "bessel_j0": (special.bessel_j0, (SIGNAL,)),
    "multigammaln": (lambda x: special.multigammaln(x, 2), (abs(SIGNAL) + 1,)),
    "acosh of complex": (lambda x: pyapp.view_as_real(pyapp.complex(x, x + 1).acosh()), (SIGNAL,)),
}  # fmt: skip


def results(function: Function, arrays: tuple[Any, ...], device: str) -> Iterator[tuple[str, Any]]:
    """Names and values of results and gradients."""
    given = [pyapp.from_numpy(a.copy()).to(device) for a in arrays]
    given = [x.requires_grad_() if x.dtype.is_floating_point else x for x in given]
    found = function(*given)
    parts = [found] if isinstance(found, Tensor) else list(found)
    assert all(part.device == device for part in parts)
    yield from ((f"result {i}", part.detach().cpu().numpy()) for i, part in enumerate(parts))
    smooth = [part for part in parts if part.requires_grad]
    if smooth:
        sum((part * pyapp.arange(part.numel(), device=device).reshape(part.shape)).sum() for part in smooth).backward()
        for i, x in enumerate(given):
            assert x.grad is None or x.grad.device == device
            yield f"gradient {i}", None if x.grad is None else x.grad.cpu().numpy()


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str) -> None:
    function, arrays = CASES[name]
    found, expected = (dict(results(function, arrays, device)) for device in (emulated.DEVICE, "cpu"))
    assert found.keys() == expected.keys()
    for part, value in expected.items():
        if value is None:
            assert found[part] is None
        else:
            np.testing.assert_allclose(
                found[part], value, rtol=2e-4, atol=2e-4 * max(abs(value).max(), 1), err_msg=part
            )
    emulated.check()


def test_it_says_so_and_is_in_no_graph() -> None:
    x = pyapp.from_numpy(POSITIVE).to(emulated.DEVICE)
    with pytest.warns(UserWarning, match=r"no kernel for 'eig' with float32\[2, 4, 4\].*: the host computes it"):
        linalg.eig(x)
    with pytest.warns(UserWarning, match=r"has no kernel for 'geqrf' .*: the host computes it from copies"):
        pyapp.geqrf(x)
    with pytest.raises(RuntimeError, match="cannot be replayed"):
        capture(lambda: linalg.eig(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x @ x  # has a kernel


def test_errors_are_those_of_the_cpu() -> None:
    singular = pyapp.zeros(3, 3, device=emulated.DEVICE)
    with pytest.raises(RuntimeError, match="ingular"):
        linalg.inv(singular)
    with pytest.raises(ValueError, match="takes square matrices"):
        linalg.det(pyapp.zeros(2, 3, device=emulated.DEVICE))
    assert linalg.inv_ex(singular).info.item() == 1


def test_what_the_host_writes_into_a_tensor_is_there() -> None:
    """Also where no kernel takes the numbers, the positions or the cache's layout."""
    for kind, turned, whole in (("float16", False, "int32"), ("float32", True, "int32"), ("float32", False, "int64")):
        results = []
        for device in (emulated.DEVICE, "cpu"):
            memory = pyapp.zeros(2, 6, 4, dtype=kind, device=device)
            cache = memory.transpose(1, 2) if turned else memory
            tokens = pyapp.arange(1, 1 + 3 * cache.shape[0] * cache.shape[2], dtype=kind, device=device)
            position = pyapp.tensor([1], dtype=whole, device=device)
            written = ops.cache_write(cache, tokens.reshape(3, cache.shape[0], cache.shape[2]), position)
            assert written.device == device and written._storage is memory._storage
            results.append(memory.tolist())
        assert results[0] == results[1] != [[[0.0] * 4] * 6] * 2


def test_an_orthogonal_layer_learns() -> None:
    """As on the CPU; the parametrization solves for its matrix."""
    weights = []
    for device in (emulated.DEVICE, "cpu"):
        pyapp.manual_seed(2)
        layer = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)).to(device)
        optimizer = pyapp.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            layer(pyapp.from_numpy(SQUARE[0]).to(device)).square().sum().sqrt().backward()
            optimizer.step()
        weights.append(layer.weight.detach().cpu().numpy())
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-5)
    np.testing.assert_allclose(weights[0] @ weights[0].T, np.eye(4), atol=1e-5)
