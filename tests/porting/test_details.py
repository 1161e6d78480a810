"""Details of torch that programs meet: values and kinds of errors are those of torch 2.14."""

from __future__ import annotations

import io
import pickle
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.autograd import Function
from pyapp.autograd.function import once_differentiable
from pyapp.nn.attention import flex_attention as flex
from pyapp.optim.lr_scheduler import CosineAnnealingWarmRestarts, SequentialLR, StepLR
from pyapp.optim.swa_utils import AveragedModel
from pyapp.utils.data import TensorDataset, WeightedRandomSampler


class Double(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


def test_once_differentiable() -> None:
    x = pyapp.ones(2, requires_grad=True)
    (gradient,) = pyapp.autograd.grad(Double.apply(x).sum(), x, create_graph=True)
    assert gradient.tolist() == [2.0, 2.0] and not gradient.requires_grad
    weights = pyapp.ones(2, requires_grad=True)
    (gradient,) = pyapp.autograd.grad(Double.apply(x), x, weights, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match="second derivative"):
        gradient.sum().backward()


def test_objects_in_saved_files() -> None:
    value = {
        "set": {1, "a"}, "complex": 1 + 2j, "bytes": bytearray(b"\xff\0"), "f": np.arange(6.0).reshape(2, 3).T,
        "bool": np.array([True]), "number": np.array(3, np.int16), "empty": np.zeros((0, 2), np.complex64),
    }  # fmt: skip
    value["again"] = value["f"]
    file = io.BytesIO()
    pyapp.save(value, file)
    found = pyapp.load(file.getvalue())
    assert list(found) == list(value) and found["again"] is not None
    for name, own in value.items():
        if isinstance(own, np.ndarray):
            assert found[name].dtype == own.dtype and np.array_equal(found[name], own)
        else:
            assert type(found[name]) is type(own) and found[name] == own
    for wrong in (np.array(["a"]), np.zeros(2 << 20)):
        with pytest.raises(TypeError, match="from_numpy"):
            pyapp.save(wrong, io.BytesIO())


def test_modules() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state: Any = model.state_dict()
    assert type(state) is OrderedDict
    assert dict(state._metadata) == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 2}}
    for name, value in (("0", 5), ("0", "a")):
        with pytest.raises(TypeError, match="cannot assign .* as module '0'"):
            setattr(model, name, value)
    with pytest.raises(TypeError, match="cannot assign .* as parameter 'weight'"):
        model[0].weight = 5
    with pytest.raises(AssertionError):
        nn.MultiheadAttention(7, 2)
    assert "NonDynamicallyQuantizableLinear(in_features=4" in repr(nn.MultiheadAttention(4, 2))
    assert "(0): _WeightNorm()" in repr(nn.utils.parametrizations.weight_norm(nn.Linear(1, 1)))


def test_averaged_buffers_of_integers() -> None:
    model = nn.BatchNorm1d(1)
    average = AveragedModel(model, use_buffers=True, avg_fn=lambda mean, value, _: 0.5 * mean + 0.5 * value)
    counts: Any = average.module.num_batches_tracked
    found = []
    for count in range(1, 6):
        model.num_batches_tracked.fill_(count)
        average.update_parameters(model)
        found.append(int(counts))
    assert found == [1, 1, 2, 3, 4]


def test_padding_after_the_fast_path() -> None:
    """torch's nested tensors give zeros where padding was, in evaluation without gradients."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1).eval()
    x, padding = pyapp.ones(1, 3, 4), pyapp.tensor([[False, False, True]])
    assert encoder(x, src_key_padding_mask=padding)[0, 2].abs().sum() > 0
    with pyapp.no_grad():
        assert encoder(x, src_key_padding_mask=padding)[0, 2].tolist() == [0.0] * 4
        assert encoder(x, src_key_padding_mask=padding.flip(1))[0, 0].abs().sum() > 0


def test_small_things() -> None:
    with pytest.raises(AssertionError):
        TensorDataset(pyapp.ones(2), pyapp.ones(3))
    with pytest.raises(ValueError, match="num_samples"):
        WeightedRandomSampler([1.0], 0)
    assert isinstance(pyapp.gradient(pyapp.ones(3)), tuple)
    assert pyapp.get_autocast_dtype("cpu") is pyapp.bfloat16 and pyapp.get_autocast_gpu_dtype() is pyapp.float16
    with pyapp.autocast("cpu", dtype=pyapp.float16):
        assert pyapp.get_autocast_dtype("cpu") is pyapp.float16


def test_flex_attention() -> None:
    values = [pyapp.from_numpy(np.random.RandomState(i).randn(2, 4, 5, 8).astype(np.float32)) for i in range(3)]
    (q, k, v), slopes = values, pyapp.tensor([0.5, 0.25, 0.125, 0.0])

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j

    def near(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i - j <= 2

    distance = pyapp.arange(5).unsqueeze(1) - pyapp.arange(5)
    mask = flex.create_block_mask(flex.and_masks(causal, near), None, None, 5, 5)
    found = flex.flex_attention(q, k, v, lambda s, b, h, i, j: s - slopes[h] * (i - j), mask)
    bias = (-slopes.reshape(4, 1, 1) * distance).masked_fill((distance < 0) | (distance > 2), -pyapp.inf)
    expected = nn.functional.scaled_dot_product_attention(q, k, v, bias)
    assert pyapp.allclose(found, expected, atol=1e-6)
    shared = flex.flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True, scale=0.3)
    expected = nn.functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], scale=0.3, enable_gqa=True)
    assert pyapp.allclose(shared, expected, atol=1e-6)
    with pytest.raises(ValueError, match="enable_gqa"):
        flex.flex_attention(q, k[:, :2], v[:, :2])
    nothing = flex.create_block_mask(lambda b, h, i, j: (i < 3) | (j < 0), 1, 1, 5, 5)
    output, aux = flex.flex_attention(q, k, v, block_mask=nothing, return_aux=flex.AuxRequest(lse=True))
    assert output[:, :, 3:].abs().sum() == 0 and aux.lse[0, 0].isneginf().tolist() == [False] * 3 + [True] * 2
    blocks = flex.create_block_mask(causal, 1, 1, 300, 300)
    assert blocks.kv_num_blocks.tolist() == [[[1, 1, 3]]] and blocks.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert blocks.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]] and blocks.sparsity() == pytest.approx(
        100 / 3
    )
    assert flex.create_mask(lambda s, b, h, i, j: s.masked_fill(i < j, -pyapp.inf), 1, 1, 2, 2).tolist() == [
        [[[True, False], [True, True]]]
    ]


def test_warnings_of_what_has_no_effect() -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        with pytest.warns(UserWarning, match="no effect with one layer"):
            kind(2, 3, dropout=0.5)
    optimizer = pyapp.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    optimizer.step()  # one before the schedule is made does not count
    early = StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        early.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.LSTM(2, 3, 2, dropout=0.5)
        early.step()  # warned once
        resumed = pyapp.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        later = StepLR(resumed, 1)
        later.load_state_dict(early.state_dict())
        later.step()
        usual = pyapp.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        both = SequentialLR(usual, [StepLR(usual, 1), StepLR(usual, 1)], [1])
        usual.step()
        both.step()
        CosineAnnealingWarmRestarts(pyapp.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), 2).step(0.5)


def test_scatter_reduce_by_the_short_names() -> None:
    x, index, source = pyapp.tensor([0.0, 5.0, -1.0]), pyapp.tensor([0, 0, 1]), pyapp.tensor([1.0, 2.0, 3.0])
    assert x.scatter_reduce(0, index, source, "max").tolist() == [2.0, 5.0, -1.0]
    assert x.scatter_reduce(0, index, source, "min").tolist() == [0.0, 3.0, -1.0]
    assert x.scatter_reduce(0, index, source, "min", include_self=False).tolist() == [1.0, 3.0, -1.0]
    with pytest.raises(RuntimeError, match="'max'"):  # torch takes them in scatter_reduce alone
        x.index_reduce(0, index, source, "max")


def _sum_times(number: int, x: Any, results: Any) -> None:
    if number == 2:
        raise ValueError("no luck")
    results.put((number, (x * number).sum().item()))


@pytest.mark.native_only
def test_functions_in_processes() -> None:
    from pyapp import multiprocessing  # a browser has none

    results = multiprocessing.get_context("fork").SimpleQueue()
    multiprocessing.start_processes(_sum_times, (pyapp.ones(3), results), 2, start_method="fork")
    assert sorted(results.get() for _ in range(2)) == [(0, 0.0), (1, 3.0)]
    with pytest.raises(multiprocessing.ProcessRaisedException, match="no luck") as caught:
        multiprocessing.start_processes(_sum_times, (pyapp.ones(3), results), 3, start_method="fork")
    assert caught.value.error_index == 2


def test_layers_that_are_pickled() -> None:
    x = pyapp.ones(2, 3)
    for layer in (nn.utils.spectral_norm(nn.Linear(3, 4)).eval(), nn.LazyLinear(4)):
        copy = pickle.loads(pickle.dumps(layer))
        if isinstance(layer, nn.LazyLinear):
            layer(x)
            copy.load_state_dict(pickle.loads(pickle.dumps(layer)).state_dict())
        np.testing.assert_array_equal(copy(x).detach().numpy(), layer(x).detach().numpy())


def test_members_that_change() -> None:
    module = nn.Module()
    module.register_buffer("kept", pyapp.ones(2), persistent=False)
    module.kept = nn.Parameter(pyapp.ones(2))
    assert list(module.state_dict()) == ["kept"]
    module.part = nn.Module()
    module.set_submodule("part.last", nn.ReLU())
    assert isinstance(module.get_submodule("part.last"), nn.ReLU)
    with pytest.raises(AttributeError):
        module.set_submodule("part.first", nn.ReLU(), strict=True)
    with pytest.raises(IndexError):
        nn.Sequential(nn.ReLU()).insert(-2, nn.ReLU())
    assert list(reversed(nn.ParameterDict({"a": pyapp.ones(1), "b": pyapp.ones(1)}))) == ["b", "a"]
    assert nn.TransformerEncoderLayer(8, 2)(pyapp.ones(3, 0, 8)).shape == (3, 0, 8)
    embedding = nn.Embedding.from_pretrained(pyapp.tensor([[1, 2], [3, 4]], dtype=pyapp.uint8))
    assert embedding(pyapp.tensor([1])).tolist() == [[3, 4]]


def test_classes_of_tensors_are_not_written_in_silence() -> None:
    class Mine(pyapp.Tensor):
        pass

    file = io.BytesIO()
    with pytest.warns(UserWarning, match="the class Mine of a tensor is not written"):
        pyapp.save({"x": pyapp.ones(2).as_subclass(Mine)}, file)
    file.seek(0)
    assert type(pyapp.load(file)["x"]) is pyapp.Tensor


def test_names_of_sharing_are_checked() -> None:
    sharing = pyapp.multiprocessing
    before = sharing.get_sharing_strategy()
    sharing.set_sharing_strategy("file_system")
    assert sharing.get_sharing_strategy() == "file_system" and before in sharing.get_all_sharing_strategies()
    sharing.set_sharing_strategy(before)
    with pytest.raises(ValueError, match="file_descriptor or file_system"):
        sharing.set_sharing_strategy("memory")


def test_cond_runs_one_branch() -> None:
    x = pyapp.tensor([2.0], requires_grad=True)
    found = pyapp.cond(x.sum() > 1, lambda a: a * 3, lambda a: a.missing, (x,))
    found.backward()
    assert found.item() == 6 and x.grad is not None and x.grad.tolist() == [3]
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        pyapp.cond(pyapp.ones(2) > 0, abs, abs, (x,))
