"""Convolutions, pools, norms, bags, CTC against torch; weights by path, renames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, tensor
from pyapp.engine.ops import from_numpy
from pyapp.errors import ModelError
from pyapp.nn import functional as F
from pyapp.nn.weights import NORM_RENAMES

from .layer_cases import CTC, LAYERS
from .training_cases import values

GOLDEN = np.load(Path(__file__).with_name("golden_layers.npz"))


def leaf(array: np.ndarray) -> pyapp.Tensor:
    x = from_numpy(array.copy())
    return x.requires_grad_() if array.dtype == np.float32 else x


def close(found: Any, name: str) -> None:
    np.testing.assert_allclose(found.detach().numpy(), GOLDEN[name], rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_torchs(name: str) -> None:
    case = LAYERS[name]
    layer = getattr(nn, case.kind)(**case.settings).train(case.training)
    start = f"{name}/state/"
    state = {key.removeprefix(start): from_numpy(GOLDEN[key]) for key in GOLDEN.files if key.startswith(start)}
    assert layer.load_state_dict(state) == ([], [])
    inputs = [leaf(array) for array in case.inputs]
    options = {k: from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in case.options.items()}
    output = layer(*inputs, **options)
    close(output, f"{name}/output")
    (output * from_numpy(values(0, *output.shape))).sum().backward()
    for i, x in enumerate(inputs):
        if x.is_floating_point():
            close(x.grad, f"{name}/input/{i}")
    for key, parameter in layer.named_parameters():
        close(parameter.grad, f"{name}/grad/{key}")
    for key, buffer in layer.named_buffers():
        close(buffer, f"{name}/after/{key}")


def test_layers_start_within_torchs_bounds_and_show_their_settings() -> None:
    layer = nn.ConvTranspose2d(4, 6, 3, groups=2)
    bound = (3 * 9) ** -0.5
    assert layer.weight.shape == (4, 3, 3, 3) and 0.8 * bound < float(layer.weight.abs().max()) <= bound
    assert repr(nn.Conv1d(2, 4, 3, padding=1, bias=False)) == (
        "Conv1d(2, 4, kernel_size=(3,), stride=(1,), padding=(1,), bias=False)"
    )
    assert repr(nn.Hardtanh(-2)) == "Hardtanh(min_val=-2, max_val=1.0)"
    assert repr(nn.ReLU(True)) == "ReLU(inplace=True)" and repr(nn.ReLU()) == "ReLU()"
    with pytest.raises(TypeError, match="MaxPool1d: got an unexpected keyword argument 'size'"):
        nn.MaxPool1d(2, size=3)
    with pytest.raises(ValueError, match="groups"):
        nn.Conv1d(3, 4, 2, groups=2)


@pytest.mark.parametrize("name", CTC)
def test_ctc_is_torchs(name: str) -> None:
    array, targets, inputs, lengths, settings = CTC[name]
    logits = leaf(array)
    sizes = (tensor(inputs), tensor(lengths))
    loss = F.ctc_loss(logits.log_softmax(-1), from_numpy(targets), *sizes, **settings)
    close(loss, f"ctc {name}/loss")
    loss.sum().backward()
    close(logits.grad, f"ctc {name}/grad")


def test_ctc_says_what_does_not_fit() -> None:
    scores, targets = pyapp.zeros(4, 2, 3), tensor([[1, 2], [1, 1]])
    assert float(nn.CTCLoss(reduction="sum")(scores.log_softmax(-1), targets, [4, 2], [2, 2])) == float("inf")
    with pytest.raises(ValueError, match="input_lengths"):
        F.ctc_loss(scores, targets, [5, 4], [2, 2])
    with pytest.raises(ValueError, match="targets 1 .. 7"):
        F.ctc_loss(scores, targets + tensor([[0, 0], [6, 6]]), [4, 4], [2, 2])


def test_embedding_hides_the_padding() -> None:
    weight = leaf(values(0, 4, 2))
    F.embedding(tensor([1, 0, 1]), weight, padding_idx=1).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]


# -- weights by path


def test_states_are_loaded_under_other_names() -> None:
    block = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    state = {
        ("1.gamma" if k == "1.weight" else "1.beta" if k == "1.bias" else k): v for k, v in block.state_dict().items()
    }
    state["1.gamma"] = tensor([2.0, 3.0, 4.0])
    other = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    with pytest.raises(KeyError, match=r"Missing.*1.weight.*\n\tUnexpected.*1.gamma"):
        other.load_state_dict(state)
    assert other.load_state_dict(state, renames=NORM_RENAMES) == ([], [])
    assert other[1].weight.tolist() == [2, 3, 4]
    with pytest.raises(KeyError, match="same name"):
        other.load_state_dict({**state, "1.weight": state["1.gamma"]}, renames=NORM_RENAMES)


def test_weights_by_path() -> None:
    source = {
        "model.layers.0.norm.gamma": pyapp.ones(3), "model.layers.0.norm.beta": pyapp.zeros(3),
        "model.layers.1.weight": pyapp.ones(2, 3), "extra": pyapp.ones(1),
    }  # fmt: skip
    weights = nn.Weights(source, renames={**NORM_RENAMES, "model.layers": "blocks"})
    block = weights / "blocks" / 0
    assert block.names() == ["norm.weight", "norm.bias"] and "norm.weight" in block and "norm.gamma" not in block
    assert (block / "norm").get("weight", (3,), dtype="float64").dtype is pyapp.float64
    with pytest.raises(ModelError, match=r"'blocks.1.weight' has the shape \(2, 3\), expected \(3, 2\)"):
        weights.at("blocks.1").get("weight", (3, 2))
    with pytest.raises(ModelError, match="no tensor 'blocks.0.bias'. There are norm.weight, norm.bias"):
        block.get("bias", (3,))
    norm = nn.LayerNorm(3)
    assert (block / "norm").load(norm) == ([], [])
    linear = nn.Linear(3, 2)
    assert weights.at("blocks.1").load(linear, strict=False) == (["blocks.1.bias"], [])
    with pytest.raises(ModelError, match="missing tensors: blocks.1.bias; unexpected: none"):
        weights.at("blocks.1").load(linear)
    assert weights.left_over() == ["extra"]
    with pytest.raises(ModelError, match="unexpected tensors: extra"):
        weights.finish()
    with pytest.raises(ModelError, match="after renaming"):
        nn.Weights({"a.gamma": 1, "a.weight": 2}, renames=NORM_RENAMES)
