"""Linear algebra that the card computes itself: as on the CPU, and without a warning that the host helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, linalg
from pyapp.distributions import MultivariateNormal
from pyapp.engine import capture
from pyapp.engine.claims import linear_algebra
from pyapp.engine.gradcheck import gradcheck
from pyapp.errors import LinAlgError

from . import emulated
from .test_host_help import CASES, POSITIVE, SIDE, SQUARE, results

pytestmark = [pytest.mark.native_only, pytest.mark.filterwarnings("error:.*the host computes it from copies")]
BY_THE_CARD = (
    "cholesky cholesky_ex cholesky_inverse cholesky_solve cond det eigh inv inv_ex logdet lstsq lu lu_solve matrix_exp "
    "matrix_norm matrix_power matrix_rank pinv qr slogdet solve solve_triangular svd svdvals tensorinv"
).split()


@pytest.fixture(autouse=True)
def guards() -> Iterator[None]:
    yield
    emulated.check()


def on_card(x: Any) -> Tensor:
    return pyapp.from_numpy(np.ascontiguousarray(x)).to(emulated.DEVICE)


@pytest.mark.parametrize("name", BY_THE_CARD)
def test_the_host_does_not_help(name: str) -> None:
    function, arrays = CASES[name]
    assert dict(results(function, arrays, emulated.DEVICE))  # test_host_help compares the numbers


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b: linalg.solve(a.mT, b), [(3, 1, 4, 4), (2, 4, 3)]),
        (lambda a, b: linalg.solve(a, b), [(4, 4), (2, 4, 3)]),
        (lambda a, b: linalg.solve(a, b, left=False), [(4, 4), (2, 3, 4)]),
        (lambda a, b: linalg.solve(a, b), [(2, 4, 4), (4,)]),
        (lambda a, b: linalg.solve_triangular(a.mT, b, upper=True), [(4, 4), (2, 4, 3)]),
        (lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False), [(2, 4, 4), (3, 4)]),
        (lambda a, b: linalg.solve_triangular(a, b, upper=True, unitriangular=True), [(2, 4, 4), (2, 4, 1)]),
        (lambda a: linalg.inv(a[:, ::2, 1::2]), [(2, 8, 8)]),
        (lambda a: linalg.det(a * a.new_tensor([2, 0, 1, -1])), [(2, 4, 4)]),
        (lambda a: linalg.qr(a.mT), [(2, 4, 6)]),
        (lambda a: linalg.eigvalsh(a[:, ::2, 1::2], UPLO="U"), [(2, 8, 8)]),
        (lambda a: linalg.eigh(a).eigenvectors.square(), [(2, 1, 5, 5)]),
        (lambda a: linalg.qr(a), [(2, 4, 6)]),
        (lambda a: linalg.svd(a[..., ::2]).S, [(2, 4, 6)]),
        (lambda a: linalg.svd(a).U.square(), [(2, 3, 5)]),
        (lambda a: linalg.svd(a, False).Vh.square(), [(2, 3, 5)]),
        (lambda a: linalg.svd(a.mT, False).U.square(), [(1, 4, 4)]),
        (lambda a: linalg.polar(a), [(2, 5, 3)]),
        (lambda a: linalg.pinv(a), [(2, 1, 3, 5)]),
        (lambda a: linalg.cond(a), [(2, 3, 3)]),
        (lambda a: linalg.matrix_norm(a, 2, (0, 2)), [(5, 2, 3)]),
        (lambda a: linalg.lu(a), [(3, 5)]),
        (lambda a: linalg.lu_factor(a).LU, [(5, 3)]),
    ],
)
def test_shapes_and_layouts(function: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    arrays = tuple(np.random.default_rng(3).standard_normal(shape) for shape in shapes)
    found, expected = (dict(results(function, arrays, device)) for device in (emulated.DEVICE, "cpu"))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_gradients() -> None:
    x = on_card(POSITIVE[0, :3, :3].astype(float)).requires_grad_()
    b = on_card(SIDE[0, :3, :2].astype(float)).requires_grad_()
    for function in (
        lambda a, b: linalg.cholesky(a + a.mT),
        linalg.solve,
        lambda a, b: linalg.solve_triangular(a, b, upper=False),
        lambda a, b: linalg.qr(a),
        lambda a, b: linalg.eigvalsh(a + a.mT),
        lambda a, b: linalg.svd(a).U.square()[0, :2] + linalg.svd(b.mT, False).Vh.square()[0, :2] + linalg.svdvals(b),
        lambda a, b: linalg.eigh(a + a.mT)[1].square(),
        lambda a, b: linalg.slogdet(a).logabsdet + linalg.det(a) + linalg.inv(a).sum(),
    ):
        assert gradcheck(function, (x, b))


def test_singular_vectors_of_any_matrix() -> None:
    """Orthonormal, of matrices of no full rank too; of those with NaN all is NaN, as on the CPU."""
    for m, n, kind in ((7, 3, "float64"), (3, 7, "float32"), (5, 5, "float32")):
        x = np.random.default_rng(m).standard_normal((4, m, n)).astype(kind)
        x[1] = 0
        x[2] = np.outer(x[2, :, 0], x[2, 0])
        x[3, -1, -1] = np.nan
        for whole in (False, True):
            u, s, vh = (part.cpu().numpy() for part in linalg.svd(on_card(x), whole))
            expected = linalg.svd(pyapp.from_numpy(x), whole)
            assert [part.shape for part in (u, s, vh)] == [part.shape for part in expected]
            np.testing.assert_allclose(s, expected.S.numpy(), atol=1e-5, rtol=1e-5)
            k = s.shape[-1]
            np.testing.assert_allclose((u[:3, :, :k] * s[:3, None]) @ vh[:3, :k], x[:3], atol=2e-6)
            for basis in (u, vh.swapaxes(-1, -2)):
                product = basis[:3].swapaxes(-1, -2) @ basis[:3]
                np.testing.assert_allclose(
                    product, np.broadcast_to(np.eye(product.shape[-1]), product.shape), atol=2e-6
                )
                assert np.isnan(basis[3, :, :k]).all()
        np.testing.assert_array_equal(linalg.svdvals(on_card(x)).cpu().numpy(), s)
        assert linalg.matrix_rank(on_card(x[:3])).tolist() == [k, 0, 1]
    for shape in ((0, 3, 2), (2, 0, 3), (2, 3, 0)):
        nothing = pyapp.zeros(shape, device=emulated.DEVICE)
        for whole in (False, True):
            found, expected = (linalg.svd(x, whole) for x in (nothing, nothing.cpu()))
            for part, other in zip(found, expected, strict=True):
                assert part.shape == other.shape and part.tolist() == other.tolist()
    x = on_card(SIDE)
    graph = capture(lambda: linalg.svd(x)[0] @ linalg.pinv(x).mT)  # U (2, 4, 4), pinv(x)^T (2, 4, 3)
    first = graph.replay().cpu().numpy()
    x.copy_(on_card(SIDE[::-1].copy()))
    np.testing.assert_array_equal(graph.replay().cpu().numpy(), first[::-1])


def test_matrices_of_16_bits_and_of_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("float16", "bfloat16"):
        found = linalg.cholesky(on_card(POSITIVE).to(kind))
        assert found.dtype == getattr(pyapp, kind)
        expected = linalg.cholesky(pyapp.from_numpy(POSITIVE).to(kind)).float().numpy()
        np.testing.assert_allclose(found.float().cpu().numpy(), expected, rtol=1e-2)
    x = np.random.default_rng(1).standard_normal((2, 21, 21))
    x = x @ x.swapaxes(-1, -2) + np.eye(21)
    monkeypatch.setattr(linear_algebra, "MOST_ROWS", 8)
    np.testing.assert_allclose(linalg.cholesky(on_card(x)).cpu().numpy(), np.linalg.cholesky(x), rtol=1e-9, atol=1e-12)
    with pytest.warns(UserWarning, match="no kernel for 'svdvals'"):
        np.testing.assert_allclose(linalg.svdvals(on_card(x)).cpu().numpy(), np.linalg.svdvals(x), rtol=1e-9)


BY_LU: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "solve": (linalg.solve, [(2, 21, 21), (2, 21, 3)]),
    "solve of a transposed matrix for all": (lambda a, b: linalg.solve(a.mT, b), [(21, 21), (2, 21, 3)]),
    "solve from the right": (lambda a, b: linalg.solve(a[::2, 1::2], b, left=False), [(42, 42), (3, 21)]),
    "inv": (linalg.inv, [(2, 21, 21)]),
    "det": (linalg.det, [(2, 11, 11)]),
    "slogdet": (linalg.slogdet, [(2, 1, 21, 21)]),
    "logdet": (lambda a: linalg.slogdet(a @ a.mT).logabsdet, [(21, 21)]),
    "lu": (linalg.lu, [(2, 21, 21)]),
    "lu of a high matrix": (linalg.lu, [(27, 12)]),
    "lu of a wide matrix": (linalg.lu, [(2, 5, 23)]),
    "lu_factor": (linalg.lu_factor, [(2, 21, 21)]),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), [(2, 21, 21), (2, 21, 3)]),
    "matrix_exp": (lambda a: linalg.matrix_exp(a / 4), [(2, 10, 10)]),
}


@pytest.mark.parametrize("name", BY_LU)
def test_lu_by_panels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of matrices of more than 512 rows, with gradients, in float64 and float32."""
    monkeypatch.setattr(linear_algebra, "MOST_ROWS", 8)
    monkeypatch.setattr(linear_algebra, "PANEL", 8)
    function, shapes = BY_LU[name]
    arrays = tuple(np.random.default_rng(5).standard_normal(shape) for shape in shapes)
    expected = dict(results(function, arrays, "cpu"))
    for kind, limit in (("float64", 1e-9), ("float32", 1e-3)):
        found = dict(results(function, tuple(array.astype(kind) for array in arrays), emulated.DEVICE))
        assert found.keys() == expected.keys()
        for part, value in expected.items():
            size = max(abs(value).max(), 1)
            np.testing.assert_allclose(found[part], value, rtol=limit, atol=limit * size, err_msg=f"{part}, {kind}")


def test_lu_of_more_than_512_rows() -> None:
    x = np.random.default_rng(2).standard_normal((600, 600)).astype("float32")
    b = x @ np.ones((600, 1), "float32")
    backend: Any = pyapp.Device(emulated.DEVICE).backend
    launched = [] if emulated.REAL else backend.card.launched
    before = len(launched)
    found = linalg.solve(on_card(x), on_card(b)).cpu().numpy()
    counts = [launched[before:].count(name) for name in ("lu_factor_step1", "lu_factor_step2", "lu_factor")]
    assert emulated.REAL or counts == [10, 10, 9]  # panels of 64 columns
    residual = x.astype("float64") @ found - b
    assert abs(residual).max() < 20 * np.finfo("float32").eps * abs(x).sum(-1).max()  # of LAPACK's solution 18.5


def test_graphs_and_singular_matrices_by_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_algebra, "MOST_ROWS", 8)
    monkeypatch.setattr(linear_algebra, "PANEL", 5)
    x = np.random.default_rng(12).standard_normal((2, 12, 12))
    several = on_card(x)
    graph = capture(lambda: linalg.inv(several) @ several + linalg.det(several)[:, None, None])
    expected = np.eye(12) + np.linalg.det(x)[:, None, None]
    np.testing.assert_allclose(graph.replay().cpu().numpy(), expected, rtol=1e-9, atol=1e-9)
    several.copy_(on_card(x[::-1].copy()))
    np.testing.assert_allclose(graph.replay().cpu().numpy(), expected[::-1], rtol=1e-9, atol=1e-9)
    singular = x.copy()
    singular[1, :, 9] = singular[0, 3] = 0
    assert linalg.det(on_card(singular)).tolist() == [0, 0]
    assert linalg.slogdet(on_card(singular)).logabsdet.tolist() == [-np.inf, -np.inf]
    with pytest.raises(LinAlgError, match="singular"):
        linalg.inv(on_card(singular))
    singular[1, 2, 3] = np.nan
    assert linalg.det(on_card(singular)).isnan().tolist() == [False, True]


def test_eigenvalues_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of matrices of more than 512 rows: four blocks, three rounds in a sweep, five further rows of zeros."""
    monkeypatch.setattr(linear_algebra, "MOST_ROWS", 8)
    monkeypatch.setattr(linear_algebra, "JACOBI_BLOCK", 4)
    for kind, large in (("float64", 1e200), ("float32", 1e30)):
        x = np.random.default_rng(9).standard_normal((5, 11, 11))
        x = x + x.swapaxes(-1, -2)
        x[1] = 3 * np.eye(11)  # equal eigenvalues
        x[2] = np.outer(x[2, 0], x[2, 0]) * large  # of rank 1; squares overflow
        x[3] = 0
        x[4, 0, 10] = np.nan  # in the triangle that is not used
        values, vectors = (part.cpu().numpy() for part in linalg.eigh(on_card(x.astype(kind))))
        assert np.isnan(values[4]).all() and np.isnan(vectors[4]).all()
        limit = 64 * np.finfo(kind).eps
        for i, size in enumerate((1.0, 1.0, large, 1.0)):
            wide, found, own = x[i] / size, values[i] / size, vectors[i].astype("float64")
            expected = np.linalg.eigvalsh(wide)
            np.testing.assert_allclose(found, expected, rtol=0, atol=limit * abs(expected).max())
            assert (np.diff(found) >= 0).all() and abs(own.T @ own - np.eye(11)).max() < limit
            assert abs(wide @ own - own * found).max() <= limit * abs(expected).max()
    x = x[0] + np.triu(np.ones((11, 11)), 1)  # not symmetric
    for name in ("L", "U"):

        def smooth(a: Tensor, name: str = name) -> Any:
            values, vectors = linalg.eigh(a, name)
            return values, vectors.square()

        found, expected = (dict(results(smooth, (x,), device)) for device in (emulated.DEVICE, "cpu"))
        for part, value in expected.items():
            np.testing.assert_allclose(found[part], value, rtol=1e-8, atol=1e-8, err_msg=part)
    with pytest.raises(RuntimeError, match="cannot be replayed"):
        capture(lambda: linalg.eigvalsh(on_card(x)))


@pytest.mark.parametrize("upper", [False, True])
def test_few_sides_of_a_large_triangle_are_for_all_blocks(upper: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of parts of its rows, one block solves them and all take them from the rows that are left."""
    monkeypatch.setattr(linear_algebra, "MOST_ROWS", 40)
    monkeypatch.setattr(linear_algebra, "SOLVED_ROWS", 32)
    generator = np.random.default_rng(4)
    a = generator.standard_normal((2, 150, 150)) + 30 * np.eye(150)
    b = generator.standard_normal((2, 150, 2))
    a = np.triu(a) if upper else np.tril(a)
    backend: Any = pyapp.device(emulated.DEVICE).backend
    before = 0 if emulated.REAL else len(backend.card.launched)
    found = linalg.solve_triangular(on_card(a), on_card(b), upper=upper).cpu().numpy()
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-9)
    if not emulated.REAL:
        names = backend.card.launched[before:]
        assert names == ["solve_triangular_step1", "solve_triangular"] * 4 + ["solve_triangular_step1"]


def test_what_has_no_factor() -> None:
    """The error is that of the call, as in torch; that of a Graph comes one call later."""
    zero, negative = pyapp.zeros(2, 3, 3, device=emulated.DEVICE), on_card(-POSITIVE)
    for function in (linalg.inv, lambda x: linalg.solve(x, x)):
        with pytest.raises(LinAlgError, match="singular"):
            function(zero)
    assert linalg.solve_triangular(zero, zero + 1, upper=True)[1].tolist()[2] == [np.inf] * 3
    assert linalg.det(zero).tolist() == [0, 0]
    assert [x.tolist() for x in linalg.slogdet(zero)] == [[0, 0], [-np.inf, -np.inf]]
    with pytest.raises(LinAlgError, match="not positive-definite"):
        linalg.cholesky(negative)
    mixed = on_card(np.stack([POSITIVE[0], -POSITIVE[0]]))
    factor, info = linalg.cholesky_ex(mixed)
    assert info.tolist() == [0, 1] and factor[1].isnan().all()
    minors = np.stack([np.diag([1, 2, 3, 4, sign]) for sign in (5, -5)] + [np.diag([1, 0, 3, -4, 5])]).astype("float32")
    assert linalg.cholesky_ex(on_card(minors)).info.tolist() == [0, 5, 2]
    np.testing.assert_allclose(factor[0].cpu().numpy(), np.linalg.cholesky(POSITIVE[0]), rtol=1e-5)
    assert linalg.lu_factor_ex(zero).info.tolist() == [1, 1]
    with pytest.raises(TypeError, match="floating-point"), pytest.warns(UserWarning, match="no kernel"):
        linalg.inv(zero.to("int32"))
    with pytest.raises(ValueError, match="square"):
        linalg.cholesky(on_card(SIDE))
    x = on_card(POSITIVE)
    values = capture(lambda: linalg.eigvalsh(x)).replay().cpu().numpy()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(POSITIVE), rtol=1e-4, atol=1e-4)
    graph = capture(lambda: linalg.cholesky(x) @ linalg.inv(x))
    expected = np.linalg.cholesky(POSITIVE) @ np.linalg.inv(POSITIVE)
    np.testing.assert_allclose(graph.replay().cpu().numpy(), expected, rtol=1e-3, atol=1e-4)
    x.copy_(negative)
    with pytest.raises(LinAlgError, match="found by the kernel cholesky"):
        graph.replay().tolist()


def test_nan_and_nothing() -> None:
    x = np.full((3, 3), np.nan, np.float32)
    for function in (linalg.inv, linalg.det, lambda x: linalg.qr(x).R.diagonal(), linalg.eigvalsh):
        assert function(on_card(x)).isnan().any()
    several = np.stack([x, np.zeros((3, 3), np.float32), np.diag([9, -1, 30]).astype(np.float32)])
    expected = linalg.matrix_exp(pyapp.from_numpy(several)).numpy()
    np.testing.assert_allclose(linalg.matrix_exp(on_card(several)).cpu().numpy(), expected, rtol=1e-5)
    for shape in ((0, 3, 3), (2, 0, 0)):
        empty = pyapp.zeros(shape, device=emulated.DEVICE)
        for square in (
            linalg.inv,
            linalg.cholesky,
            lambda x: linalg.solve(x, x),
            lambda x: linalg.qr(x).R,
            lambda x: linalg.eigh(x)[1],
        ):
            assert square(empty).shape == shape
        assert linalg.det(empty).tolist() == [1.0] * shape[0] and linalg.slogdet(empty)[1].tolist() == [0.0] * shape[0]


def _process(device: str) -> list[float]:
    """Three steps of fitting a Gaussian process by its likelihood (Rasmussen and Williams 2006, algorithm 2.1)."""
    x = pyapp.linspace(0, 1, 12, dtype="float64").to(device)
    y = (x * 6).sin()
    logs = pyapp.zeros(2, dtype="float64", device=device, requires_grad=True)
    optimizer = pyapp.optim.Adam([logs], lr=0.1)
    losses = []
    for _ in range(3):
        scale, noise = logs.exp().unbind(0)
        kernel = (-((x[:, None] - x) / scale).square() / 2).exp()
        factor = linalg.cholesky(kernel + noise * pyapp.eye(12, dtype="float64", device=device))
        loss = (y * pyapp.cholesky_solve(y[:, None], factor)[:, 0]).sum() / 2 + factor.diagonal().log().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _normal(device: str) -> list[float]:
    """log_prob, a sample with its gradient, and entropy of a normal distribution."""
    covariance = pyapp.from_numpy(POSITIVE).to(device).requires_grad_()
    mean = pyapp.from_numpy(SIDE[..., 0].copy()).to(device).requires_grad_()
    normal = MultivariateNormal(mean, covariance)
    pyapp.manual_seed(5)
    found = normal.log_prob(mean.detach() * 2).sum() + normal.rsample((3,)).square().sum() + normal.entropy().sum()
    found.backward()
    assert covariance.grad is not None and mean.grad is not None
    return [found.item(), *covariance.grad.flatten().tolist(), *mean.grad.flatten().tolist()]


def _flow(device: str) -> list[float]:
    """An invertible layer: what comes back, and the logarithm of its volume."""
    weight = pyapp.from_numpy(SQUARE).to(device).requires_grad_()
    x = pyapp.from_numpy(SIDE).to(device)
    y = weight @ x
    back = linalg.solve(weight, y)
    np.testing.assert_allclose(back.detach().cpu().numpy(), SIDE, atol=1e-4)
    (y.square().sum() - linalg.slogdet(weight).logabsdet.sum()).backward()
    assert weight.grad is not None
    return weight.grad.flatten().tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("program", [_process, _normal, _flow])
def test_programs(program: Callable[[str], list[float]]) -> None:
    np.testing.assert_allclose(program(emulated.DEVICE), program("cpu"), rtol=1e-3, atol=1e-4)
