"""Attributes of tensors and of the package that scripts use beside ops, as in torch."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
import pyapp.nn.functional as F

X = pyapp.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def test_where_and_what_a_tensor_is() -> None:
    assert X.is_cpu and not X.is_cuda and X.get_device() == -1
    assert X.itemsize == 4 and X.double().itemsize == 8
    assert X.type() == "torch.FloatTensor" and X.type(pyapp.int64).dtype is pyapp.int64
    for name in (pyapp.LongTensor, "torch.LongTensor", "LongTensor"):
        assert X.type(name).dtype is pyapp.int64
    assert X.H.tolist() == X.mH.tolist() == X.mT.tolist()
    with pytest.raises(RuntimeError, match="H: takes a matrix"):
        _ = X[None].H


def test_there_is_no_cuda() -> None:
    assert pyapp.cuda.is_available() is False and pyapp.cuda.device_count() == 0


def test_sum_to_size_is_the_gradient_of_broadcasting() -> None:
    assert X.sum_to_size(3).tolist() == [5.0, 3.0, -3.0]
    assert X.sum_to_size((2, 1)).tolist() == [[2.0], [3.0]]
    assert X.sum_to_size(2, 3).tolist() == X.tolist()
    with pytest.raises(RuntimeError, match="sum_to_size"):
        X.sum_to_size(2)


def test_random_numbers_in_place() -> None:
    generator = pyapp.Generator(7)
    waits = pyapp.zeros(4000).exponential_(2.0, generator=generator)
    assert float(waits.min()) >= 0 and abs(float(waits.mean()) - 0.5) < 0.03
    dice = pyapp.zeros(600, dtype=pyapp.int64).random_(1, 7, generator=generator)
    assert set(dice.tolist()) == {1, 2, 3, 4, 5, 6}
    assert set(pyapp.zeros(100).random_(2, generator=generator).tolist()) == {0.0, 1.0}
    assert int(pyapp.zeros(500, dtype=pyapp.uint8).random_(generator=generator).max()) > 200
    with pytest.raises(ValueError, match="above 0"):
        waits.exponential_(0.0)


def test_norms_take_the_shape_of_torch_at_the_top() -> None:
    weight, bias = pyapp.tensor([1.0, 2.0, 3.0]), pyapp.tensor([0.0, 1.0, 0.5])
    for made, expected in (
        (pyapp.layer_norm(X, (3,), weight, bias, 1e-3), F.layer_norm(X, (3,), weight, bias, 1e-3)),
        (pyapp.layer_norm(input=X, normalized_shape=(2, 3)), F.layer_norm(X, (2, 3))),
        (pyapp.layer_norm(X, weight, bias, 1e-3), F.layer_norm(X, (3,), weight, bias, 1e-3)),
        (pyapp.rms_norm(X, (3,), eps=1e-3), F.rms_norm(X, (3,), None, 1e-3)),
        (pyapp.rms_norm(X, weight, 1e-3), F.rms_norm(X, (3,), weight, 1e-3)),
    ):
        np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=1e-6)


def test_functions_of_nn_at_the_top() -> None:
    assert pyapp.dropout(X, 0.5, False).tolist() == X.tolist()
    assert pyapp.cosine_similarity(X, X, dim=1).tolist() == pytest.approx([1.0, 1.0])
    assert pyapp.relu_(X.clone()).tolist() == X.relu().tolist()


def test_methods_by_other_names() -> None:
    assert X.true_divide(2).tolist() == (X / 2).tolist()
    positive = X.abs()
    expected = pyapp.polygamma(2, positive)
    assert positive.polygamma(2).tolist() == expected.tolist()
    assert positive.clone().polygamma_(2).tolist() == expected.tolist()


def test_gradient_of_a_source_that_reaches_beyond_the_index() -> None:
    """torch refuses this; elements that the index does not read do not affect the result."""
    index = pyapp.tensor([[0], [1]])
    for name in ("scatter", "scatter_add"):
        source = pyapp.ones(2, 3, requires_grad=True)
        (getattr(pyapp.zeros(2, 3), name)(1, index, source) * 2).sum().backward()
        assert source.grad is not None
        assert source.grad.tolist() == [[2.0, 0.0, 0.0], [2.0, 0.0, 0.0]]


def test_an_index_that_is_the_same_for_whole_rows() -> None:
    """Expanded, so rows are moved as such: as with an index of as many elements, also in its errors."""
    rng = np.random.default_rng(0)
    for shape, dim in (((30, 3), 0), ((2, 30, 2), 1), ((3, 30), 1)):
        places = rng.integers(0, 30, 2000)
        wide = [2000 if i == dim else 1 for i in range(len(shape))]
        whole = [2000 if i == dim else n for i, n in enumerate(shape)]
        x = pyapp.from_numpy(rng.integers(0, 9, shape)).to("float32")
        source = pyapp.from_numpy(rng.integers(0, 9, whole)).to("float32")
        for dtype in ("int64", "int32"):
            index = pyapp.from_numpy(places.reshape(wide)).to(dtype).expand(*whole)
            read, written = x.gather(dim, index), x.scatter_add(dim, index, source)
            np.testing.assert_array_equal(read.numpy(), np.take(x.numpy(), places, dim))
            expected = x.numpy().copy()
            np.add.at(np.moveaxis(expected, dim, 0), places, np.moveaxis(source.numpy(), dim, 0))
            np.testing.assert_array_equal(written.numpy(), expected)
        places[7] = -1
        index = pyapp.from_numpy(places.reshape(wide)).expand(*whole)
        for call in (lambda i: x.gather(dim, i), lambda i: x.scatter_add(dim, i, source)):  # noqa: B023
            with pytest.raises(IndexError, match="outside 0 .. 29"):
                call(index)


def test_statistics_of_one_number_and_of_none() -> None:
    found = pyapp.tensor(3.0).mode()
    assert found.values.shape == found.indices.shape == () and float(found.values) == 3 and int(found.indices) == 0
    assert pyapp.nanmedian(pyapp.zeros(0)).isnan()
