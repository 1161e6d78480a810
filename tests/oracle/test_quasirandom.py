"""Sobol sequences against torch's, where SciPy is installed, which computes ours."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("scipy")

from pyapp.quasirandom import SobolEngine  # noqa: E402

pytestmark = pytest.mark.native_only


@pytest.mark.parametrize("dimension", [1, 5, 300])
def test_points(dimension: int) -> None:
    ours, theirs = SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
    for step in (
        lambda e: e.draw(7), lambda e: e.draw(), lambda e: e.draw_base2(3), lambda e: e.fast_forward(5).draw(2),
        lambda e: e.reset().draw(4),
    ):  # fmt: skip
        np.testing.assert_array_equal(step(ours).numpy(), step(theirs).numpy())
        assert ours.num_generated == theirs.num_generated
    assert repr(ours) == repr(theirs)
    for engine in (ours, theirs):
        with pytest.raises(ValueError, match="power of"):
            engine.draw_base2(1)


def test_scrambled_points_fill_every_interval_once() -> None:
    points = SobolEngine(3, scramble=True, seed=1).draw(256)
    assert all(sorted((column * 256).long().tolist()) == list(range(256)) for column in points.T)
    assert not points.equal(SobolEngine(3, scramble=True).draw(256))
    with pytest.raises(ValueError, match="between 1 and 21,201"):
        SobolEngine(30000)
