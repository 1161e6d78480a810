"""Distances of many rows: by a product of matrices, in pieces, and with little memory."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp.engine.ops import distances


def rows(count: int, seed: int) -> pyapp.Tensor:
    return pyapp.from_numpy(np.random.default_rng(seed).standard_normal((2, count, 6)).astype(np.float32))


@pytest.mark.parametrize("mode", distances.MODES)
def test_many_rows(mode: str) -> None:
    a, b = rows(30, 0).requires_grad_(), rows(40, 1).requires_grad_()
    expected = np.sqrt(((a.detach().numpy()[:, :, None] - b.detach().numpy()[:, None]) ** 2).sum(-1))
    found = pyapp.cdist(a, b, compute_mode=mode)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    found.sum().backward()
    slopes = (a.detach().numpy()[:, :, None] - b.detach().numpy()[:, None]) / expected[..., None]
    np.testing.assert_allclose(a.grad.numpy(), slopes.sum(2), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(b.grad.numpy(), -slopes.sum(1), rtol=1e-3, atol=1e-3)


def test_equal_rows_have_no_gradient() -> None:
    a = pyapp.ones(30, 3, requires_grad=True)
    pyapp.cdist(a, a).sum().backward()
    assert not a.grad.any()


@pytest.mark.parametrize("p", [0.0, 1.0, 3.0, float("inf")])
def test_pieces_are_the_whole(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = rows(30, 0), rows(9, 1)
    whole = pyapp.cdist(a, b, p=p).numpy()
    monkeypatch.setattr(distances, "DIFFERENCES", 2 * 9 * 6 * 7 + 5)  # seven rows of both
    np.testing.assert_array_equal(pyapp.cdist(a, b, p=p).numpy(), whole)


def test_what_has_no_distances() -> None:
    with pytest.raises(ValueError, match="compute_mode 'fast'"):
        pyapp.cdist(rows(3, 0), rows(3, 0), compute_mode="fast")
    with pytest.raises(ValueError, match="not rows of one length"):
        pyapp.cdist(pyapp.ones(3), pyapp.ones(3))
    assert pyapp.cdist(pyapp.ones(0, 3), pyapp.ones(30, 3)).shape == (0, 30)


def test_pairs_are_a_triangle_of_all_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(30, 0)[0]
    monkeypatch.setattr(distances, "DIFFERENCES", 30 * 6 * 4)  # four rows of the table at once
    whole = pyapp.cdist(x, x, compute_mode=distances.MODES[2])
    np.testing.assert_array_equal(pyapp.pdist(x).numpy(), whole.numpy()[np.triu_indices(30, 1)])
    with pytest.raises(ValueError, match=r"pdist: takes rows \(N, M\)"):
        pyapp.pdist(rows(3, 0))
