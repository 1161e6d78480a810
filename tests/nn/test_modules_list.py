"""Cells, packed sequences, transformers, pools and further losses against torch's values, gradients and states."""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from pyapp import nn, tensor
from pyapp.nn import functional as F
from pyapp.nn.utils import rnn

from .checks import check_module, check_outputs, close, given, leaf, load_state, tensors
from .module_cases import FUNCTIONS, LOSSES, MODULES, PACKED
from .training_cases import load_golden, values

GOLDEN = load_golden("golden_modules.npz")


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_torchs(name: str) -> None:
    check_module(GOLDEN, name, MODULES[name])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_torchs(name: str, reduction: str) -> None:
    function, arrays, settings = LOSSES[name]
    arguments = [leaf(array) for array in arrays]
    named = {key: given(value) for key, value in settings.items()}
    result = getattr(F, function)(*arguments, **named, reduction=reduction)
    close(GOLDEN, result, f"{name}/{reduction}")
    (result * given(values(1, *result.shape))).sum().backward()
    for i, x in enumerate(arguments[:2]):
        if f"{name}/{reduction}/{i}" in GOLDEN:
            close(GOLDEN, x.grad, f"{name}/{reduction}/{i}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_torchs(name: str) -> None:
    function, arrays, settings = FUNCTIONS[name]
    leaves = [leaf(array) for array in arrays]
    inputs = [x * 1 for x in leaves]
    outputs = tensors(getattr(F, function)(*inputs, **{key: given(value) for key, value in settings.items()}))
    assert (outputs[0] is inputs[0]) == settings.get("inplace", False)
    assert outputs[0].dtype.name == settings.get("dtype", "float32")
    check_outputs(GOLDEN, name, outputs, leaves)


@pytest.mark.parametrize("name", PACKED)
def test_packed_sequences_are_torchs(name: str) -> None:
    kind, settings, lengths, states = PACKED[name]
    layer = getattr(nn, kind)(**settings)
    load_state(GOLDEN, f"packed {name}", layer)
    first = settings.get("batch_first", False)
    shape = (len(lengths), max(lengths)) if first else (max(lengths), len(lengths))
    x = leaf(values(0, *shape, 3))
    sequence = rnn.pack_padded_sequence(x, lengths, first, enforce_sorted=False)
    hidden: Any = None
    if states:
        _, last = layer(x.detach())
        made = [given(values(1 + i, *s.shape)) for i, s in enumerate(tensors(last))]
        hidden = tuple(made) if kind == "LSTM" else made[0]
    output, last = layer(sequence, hidden)
    padded, counts = rnn.pad_packed_sequence(output, first, -1.0)
    assert counts.tolist() == lengths and counts.dtype is pyapp.int64
    found = [padded, *tensors(last), counts, sequence.batch_sizes, sequence.sorted_indices]
    check_outputs(GOLDEN, f"packed {name}", found, [x])
    for key, parameter in layer.named_parameters():
        close(GOLDEN, parameter.grad, f"packed {name}/grad/{key}")


def test_sequences_are_padded_and_packed() -> None:
    every = [tensor([1.0]), tensor([2.0, 3.0, 4.0]), tensor([5.0, 6.0])]
    assert rnn.pad_sequence(every, True, -1.0).tolist() == [[1, -1, -1], [2, 3, 4], [5, 6, -1]]
    assert rnn.pad_sequence(every, padding_side="left").tolist() == [[0, 2, 0], [0, 3, 5], [1, 4, 6]]
    packed = rnn.pack_sequence(every, enforce_sorted=False)
    assert packed.data.tolist() == [2, 5, 1, 3, 6, 4] and packed.batch_sizes.tolist() == [3, 2, 1]
    assert [x.tolist() for x in rnn.unpack_sequence(packed)] == [x.tolist() for x in every]
    assert rnn.pad_packed_sequence(packed, total_length=4)[0].shape == (4, 3)
    with pytest.raises(ValueError, match=r"lengths \[1, 3, 2\] must not increase"):
        rnn.pack_sequence(every)
    with pytest.raises(ValueError, match="lengths are 2 numbers of at least 1"):
        rnn.pack_padded_sequence(pyapp.zeros(3, 2), [3, 0])
    with pytest.raises(ValueError, match="do not fit"):
        rnn.pack_padded_sequence(pyapp.zeros(3, 2), [4, 1])
    with pytest.raises(ValueError, match="below the longest"):
        rnn.pad_packed_sequence(packed, total_length=2)
    with pytest.raises(ValueError, match="may differ in their first dim"):
        rnn.pad_sequence([pyapp.zeros(2, 3), pyapp.zeros(2, 4)])
