"""keras.ops have NumPy's numbers, and those of Keras (make_golden.py): values, shapes and dtypes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pyapp import Tensor, keras
from tests.keras.make_golden import GOLDEN_OPS, described
from tests.keras.ops_cases import CASES as CALLS
from tests.keras.ops_cases import run
from tests.together import check_each, fewer_in_browser

K: Any = keras.ops
_random = np.random.RandomState(0)
X, Y = _random.randn(3, 4).astype("float32"), _random.randn(3, 4).astype("float32")
CUBE = _random.randn(2, 3, 4).astype("float32")
SQUARE = _random.randn(3, 3).astype("float32") + 3 * np.eye(3, dtype="float32")
WHOLE = np.array([1, 2, 2, 0, 4], "int32")
ROW = np.array([0.5, -1.0, 2.0, 0.25], "float32")
LIMITS = np.array([-1.0, 0.0, 1.0], "float32")


def updated() -> Any:
    found = X.copy()
    found[0:2, 1:3] = 0
    return found


def placed() -> Any:
    found = X.copy()
    found[0, 1], found[2, 2] = 9, 8
    return found


CASES: dict[str, tuple[Any, Any]] = {
    "equal": (lambda: K.equal(X, X * (Y > 0)), lambda: np.equal(X, X * (Y > 0))),
    "not_equal": (lambda: K.not_equal(WHOLE, 2), lambda: WHOLE != 2),
    "divide_no_nan": (lambda: K.divide_no_nan(X, WHOLE[[3, 0, 1, 2]]), lambda: np.where(
        WHOLE[[3, 0, 1, 2]] == 0, 0, X / np.maximum(WHOLE[[3, 0, 1, 2]], 1))),
    "round": (lambda: K.round(X, 1), lambda: np.round(X, 1)),
    "clip": (lambda: K.clip(X, x_min=-0.5, x_max=0.5), lambda: np.clip(X, -0.5, 0.5)),
    "cbrt": (lambda: K.cbrt(X), lambda: np.cbrt(X)),
    "parts of complex numbers": (lambda: K.stack([K.real(X + 1j * Y), K.imag(X + 1j * Y)]), lambda: np.stack([X, Y])),
    "conjugate": (lambda: K.conjugate(X + 1j * Y), lambda: X - 1j * Y),
    "heaviside": (lambda: K.heaviside(X, 0.5), lambda: np.heaviside(X, 0.5)),
    "mean of integers": (lambda: K.mean(WHOLE), lambda: WHOLE.mean()),
    "mean": (lambda: K.mean(X, axis=(0, 1), keepdims=True), lambda: X.mean((0, 1), keepdims=True)),
    "prod": (lambda: K.prod(CUBE, axis=(0, 2)), lambda: CUBE.prod((0, 2))),
    "cumsum": (lambda: K.cumsum(X), lambda: X.cumsum()),
    "cumprod": (lambda: K.cumprod(X, axis=1), lambda: X.cumprod(1)),
    "median": (lambda: K.median(X, axis=1, keepdims=True), lambda: np.median(X, 1, keepdims=True)),
    "median of a number": (lambda: K.median(2.5, axis=0), lambda: 2.5),
    "median of all": (lambda: K.median(X), lambda: np.median(X)),
    "quantile": (lambda: K.quantile(X, [0.2, 0.7], axis=1), lambda: np.quantile(X, [0.2, 0.7], 1)),
    "quantile of dims": (lambda: K.quantile(CUBE, 0.3, axis=(0, 2)), lambda: np.quantile(CUBE, 0.3, (0, 2))),
    "percentile": (lambda: K.percentile(X, 30.0), lambda: np.percentile(X, 30)),
    "logsumexp": (lambda: K.logsumexp(X), lambda: np.log(np.exp(X).sum())),
    "norm": (lambda: K.norm(X, ord=1, axis=1, keepdims=True), lambda: abs(X).sum(1, keepdims=True)),
    "ptp": (lambda: K.ptp(X, axis=1), lambda: np.ptp(X, 1)),
    "nanmax": (lambda: K.nanmax(np.where(X > 0.5, np.float32("nan"), X), axis=1), lambda: np.nanmax(
        np.where(X > 0.5, np.nan, X), 1)),
    "digitize": (lambda: K.digitize(X, LIMITS), lambda: np.digitize(X, LIMITS)),
    "segment_max": (lambda: K.segment_max(X, [0, 1, 1], 2), lambda: np.stack([X[0], X[1:].max(0)])),
    "in_top_k": (lambda: K.in_top_k([0, 3, 1], X, 2), lambda: [
        k in np.argsort(-row)[:2] for k, row in zip([0, 3, 1], X, strict=True)]),
    "expand_dims": (lambda: K.expand_dims(X, (0, -1)), lambda: np.expand_dims(X, (0, -1))),
    "array_split": (lambda: K.concatenate(K.array_split(X, 3, axis=1)[1:], 1), lambda: X[:, 2:]),
    "pad": (lambda: K.pad(X, [[1, 1], [1, 2]], "symmetric"), lambda: np.pad(X, [[1, 1], [1, 2]], "symmetric")),
    "triu": (lambda: K.triu(X, k=1), lambda: np.triu(X, 1)),
    "tri": (lambda: K.tri(3, 4, 1), lambda: np.tri(3, 4, 1)),
    "eye": (lambda: K.eye(3, 5, k=-1), lambda: np.eye(3, 5, -1)),
    "take": (lambda: K.take(X, [-1, 0], axis=1), lambda: np.take(X, [-1, 0], 1)),
    "multi_hot": (lambda: K.multi_hot(WHOLE, 5), lambda: [1, 1, 1, 0, 1]),
    "slice_update": (lambda: K.slice_update(X, (0, 1), K.zeros((2, 2))), updated),
    "scatter_update": (lambda: K.scatter_update(X, [[0, 1], [2, 2]], [9.0, 8.0]), placed),
    "select": (lambda: K.select([X > 0, X < -1], [X, Y], 0.0), lambda: np.select([X > 0, X < -1], [X, Y], 0.0)),
    "tensordot": (lambda: K.tensordot(X, Y, axes=[[1], [1]]), lambda: np.tensordot(X, Y, [[1], [1]])),
    "tensordot of all": (lambda: K.tensordot(X, Y, axes=2), lambda: np.tensordot(X, Y, 2)),
    "inv": (lambda: K.inv(SQUARE), lambda: np.linalg.inv(SQUARE)),
    "solve": (lambda: K.solve(SQUARE, SQUARE), lambda: np.eye(3)),
    "singular values": (lambda: K.svd(X, full_matrices=False)[1], lambda: np.linalg.svd(X, False)[1]),
    "linspace": (lambda: K.linspace(0, 1, num=4, endpoint=False), lambda: np.linspace(0, 1, 4, False)),
    "nonzero": (lambda: K.stack(K.nonzero(X > 0)), lambda: np.stack(np.nonzero(X > 0))),
    "where": (lambda: K.stack(K.where(X > 0)), lambda: np.stack(np.where(X > 0))),
    "saturate_cast": (lambda: K.saturate_cast(X * 300, "uint8"), lambda: np.clip(X * 300, 0, 255).astype("uint8")),
    "softmax of dims": (lambda: K.softmax(X, axis=(0, 1)), lambda: np.exp(X) / np.exp(X).sum()),
    "normalize": (lambda: K.normalize(X, axis=0, order=1), lambda: X / abs(X).sum(0)),
    "map": (lambda: K.map(lambda row: row * 2, X), lambda: X * 2),
    "scan": (lambda: K.scan(lambda c, r: (c + r, c * r), K.zeros((4,)), X)[1], lambda: np.concatenate(
        [np.zeros((1, 4)), X.cumsum(0)[:-1]]) * X),
    "while_loop": (lambda: K.while_loop(lambda k: k < 5, lambda k: k + 2, (0,))[0], lambda: 6),
    "fori_loop": (lambda: K.fori_loop(0, 4, lambda k, v: v + k, 0), lambda: 6),
    "cond": (lambda: K.cond(K.sum(K.ones(2)) > 1, lambda: X, lambda: Y), lambda: X),
    "space_to_depth": (lambda: K.depth_to_space(K.space_to_depth(CUBE[None, :, :2], 2), 2), lambda: CUBE[None, :, :2]),
    "max_pool": (lambda: K.max_pool(CUBE[None], 2, padding="same"), lambda: np.stack(
        [CUBE[:, :2].max((0, 1)), CUBE[:, 2:].max((0, 1))])[None, None]),
    "average_pool": (lambda: K.average_pool(CUBE[None], 2, padding="same"), lambda: np.stack(
        [CUBE[:, :2].mean((0, 1)), CUBE[:, 2:].mean((0, 1))])[None, None]),
    "pools of integers": (lambda: K.concatenate(
        [pool(-WHOLE[None, :, None], 2, padding="same") for pool in (K.max_pool, K.average_pool)], -1),
        lambda: [[[-1, -1], [0, -1], [-4, -4]]]),
    "conv": (lambda: K.conv(CUBE[None], CUBE[:, :, :, None], padding="valid"), lambda: [[[[(CUBE * CUBE).sum()]]]]),
    "sparsemax": (lambda: K.sparsemax(np.float32([[0.1, 1.1, 0.3], [3, 0, 0]])), lambda: [[0, 0.9, 0.1], [1, 0, 0]]),
    "max_pool by names": (lambda: K.max_pool(inputs=CUBE[None], pool_size=2), lambda: K.max_pool(CUBE[None], 2)),
    "resize by names": (lambda: K.image.resize(images=CUBE, size=(2, 2)), lambda: K.image.resize(CUBE, (2, 2))),
    "after all and sum, arange": (lambda: (K.all(X > 0), K.sum(X), K.arange(1, 7, 2))[2], lambda: [1, 3, 5]),
}  # fmt: skip


def test_ops() -> None:
    def agrees(name: str, ours: Any, numpys: Any) -> None:
        found = ours()
        found = found.numpy() if isinstance(found, Tensor) else np.asarray(found)
        wanted = np.asarray(numpys())
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)

    check_each(agrees, [(name, *both) for name, both in CASES.items()])


def same(name: str, found: Any, wanted: Any) -> None:
    """Compares what `described` gives."""
    if wanted and isinstance(wanted[0], list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(name, one, other)
        return
    kind, shape, values = wanted
    assert (found[1], found[0] if kind else "") == (shape, kind)
    limit = 1e-3 if kind == "float16" else 2e-5  # a few of its last places
    np.testing.assert_allclose(found[2], values, limit, limit)


def test_ops_have_the_numbers_of_keras() -> None:
    golden = json.loads(GOLDEN_OPS.read_text())

    def agrees(call: str) -> None:
        same(call, described(run(call, K)), golden[call])

    assert list(golden) == CALLS
    check_each(agrees, [(call,) for call in fewer_in_browser(CALLS)])


def test_ops_take_symbols() -> None:
    inputs = keras.Input((6, 6, 2))
    pooled = K.image.resize(K.max_pool(inputs, 2), (4, 4), interpolation="nearest")
    pooled = K.add(x1=pooled, x2=K.zeros_like(x=pooled))
    outputs = K.softmax(K.mean(K.equal(pooled, pooled), axis=(1, 2)), axis=-1)
    model = keras.Model(inputs, outputs)
    assert model.output_shape == (None, 2)
    np.testing.assert_allclose(model.predict(np.zeros((1, 6, 6, 2), "float32"), verbose=0), [[0.5, 0.5]])


def test_wrong_sizes_of_pictures_are_named() -> None:
    pictures = np.zeros((2, 4, 5, 3), "float32")

    def raises(_: str, words: str, call: Any) -> None:
        with pytest.raises((ValueError, IndexError), match=words):
            call()

    check_each(raises, [
        ("windows of other dims", "is not an integer, nor 2 of them", lambda: K.max_pool(pictures, (2, 2, 2))),
        ("an axis of a number", "no axis 1", lambda: K.nansum(2.5, axis=(0, 1))),
        ("two of the sizes", "two of the sizes of a dim", lambda: K.image.pad_images(pictures, 1, 2)),
        ("too small a target", "pad_images: 1 before and -1 after a dim of 4", lambda: K.image.pad_images(
            pictures, 1, 1, target_height=4, target_width=9)),
        ("nothing left", "crop_images: .*4 x 5", lambda: K.image.crop_images(pictures, 2, 2, 2, 2)),
        ("a larger target", "crop_images: -", lambda: K.image.crop_images(
            pictures, bottom_cropping=0, left_cropping=0, target_height=6, target_width=3)),
        ("channels", "takes 1 or 3 channels, got 4", lambda: K.image.rgb_to_grayscale(np.zeros((2, 2, 4)))),
        ("one dim", "takes pictures", lambda: K.image.resize(np.zeros(3, "float32"), (2, 2))),
        ("a form of data", "data_format is channels_first or", lambda: K.image.resize(pictures, 2, data_format="x")),
    ])  # fmt: skip


def test_symbolic_results_of_matrices_lists_and_short_floats() -> None:
    square = keras.KerasTensor((None, 3, 3))
    for name in ("cholesky", "inv", "lu_factor", "qr", "svd", "eigh"):
        found = getattr(keras.ops, name)(square)
        first = found[0] if isinstance(found, (tuple, list)) else found
        assert first.shape == ((None, 3) if name == "eigh" else (None, 3, 3)), name
    assert keras.ops.solve(square, keras.KerasTensor((None, 3, 2))).shape == (None, 3, 2)
    half = keras.KerasTensor((None, 2), dtype="float16")
    assert (
        keras.ops.abs(half).dtype == keras.ops.add(half, keras.KerasTensor((None, 2), dtype="bool")).dtype == "float16"
    )
    assert keras.ops.size(half) is None and keras.ops.size(keras.KerasTensor((4, 2))) == 8
    assert keras.ops.triu([[1, 2], [3, 4]]).tolist() == [[1, 2], [0, 4]]
    assert keras.ops.in_top_k([1, 0], [[0.1, float("nan"), 0.5], [0.3, 0.2, 0.5]], 2).tolist() == [False, True]
    values = keras.ops.convert_to_tensor([-741.0, 353.2, 1099.0, -1807.0], "float16")
    assert float(keras.ops.moments(values, 0)[1]) == 65504  # as Keras cuts it
