"""Losses against torch's values and gradients (make_golden_training.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.engine.ops import from_numpy
from pyapp.nn import functional
from tests.nn.training_cases import LOSSES, WEIGHT, classes, load_golden, values

GOLDEN = load_golden()


def close(found: pyapp.Tensor, name: str) -> None:
    np.testing.assert_allclose(found.detach().numpy(), GOLDEN[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "batchmean"])
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients_are_those_of_torch(name: str, reduction: str) -> None:
    function, arrays, settings = LOSSES[name]
    if reduction == "batchmean" and function != "kl_div":
        with pytest.raises(ValueError, match="reduction must be"):
            getattr(functional, function)(*map(from_numpy, arrays), reduction=reduction)
        return
    arguments = [from_numpy(array.copy()) for array in arrays]
    for argument in arguments:
        if argument.is_floating_point():
            argument.requires_grad_()
    named = {key: from_numpy(v) if isinstance(v, np.ndarray) else v for key, v in settings.items()}
    result = getattr(functional, function)(*arguments, **named, reduction=reduction)
    close(result, f"{name}/{reduction}")
    (result * from_numpy(values(1, *result.shape))).sum().backward()
    for i, argument in enumerate(arguments[:2]):
        # The gradient of a target of 0 in kl_div is NaN in torch; here it is a number.
        if f"{name}/{reduction}/{i}" in GOLDEN and (name, i) != ("kl zeros", 1):
            close(argument.grad, f"{name}/{reduction}/{i}")


def test_modules_are_the_functions() -> None:
    x, y, labels = from_numpy(values(0, 4, 5)), from_numpy(values(1, 4, 5)), from_numpy(classes(0, 5, 4))
    weight, sign = from_numpy(WEIGHT), from_numpy(np.array([1, -1, 1, 1], np.float32))
    p = y.sigmoid()
    pairs = [
        (nn.MSELoss(), "mse_loss", (x, y), {}),
        (nn.L1Loss(reduction="sum"), "l1_loss", (x, y), {"reduction": "sum"}),
        (nn.HuberLoss(delta=0.5), "huber_loss", (x, y), {"delta": 0.5}),
        (nn.SmoothL1Loss(beta=0.3), "smooth_l1_loss", (x, y), {"beta": 0.3}),
        (nn.NLLLoss(weight, ignore_index=1), "nll_loss", (x, labels), {"weight": weight, "ignore_index": 1}),
        (nn.CrossEntropyLoss(label_smoothing=0.1), "cross_entropy", (x, labels), {"label_smoothing": 0.1}),
        (nn.BCELoss(weight), "binary_cross_entropy", (x.sigmoid(), p), {"weight": weight}),
        (
            nn.BCEWithLogitsLoss(pos_weight=weight, reduction="none"),
            "binary_cross_entropy_with_logits", (x, p), {"pos_weight": weight, "reduction": "none"},
        ),
        (nn.KLDivLoss(reduction="batchmean"), "kl_div", (x, p), {"reduction": "batchmean"}),
        (nn.CosineEmbeddingLoss(0.2), "cosine_embedding_loss", (x, y, sign), {"margin": 0.2}),
        (nn.HingeEmbeddingLoss(0.7), "hinge_embedding_loss", (x, y.sign()), {"margin": 0.7}),
        (nn.MarginRankingLoss(0.4), "margin_ranking_loss", (x, y, y.sign()), {"margin": 0.4}),
        (nn.MultiMarginLoss(p=2, margin=0.5), "multi_margin_loss", (x, labels), {"p": 2, "margin": 0.5}),
    ]  # fmt: skip
    for module, name, arguments, settings in pairs:
        wanted = getattr(functional, name)(*arguments, **settings)
        assert module(*arguments).tolist() == wanted.tolist(), name
    assert list(nn.CrossEntropyLoss(weight).state_dict()) == ["weight"]
    assert nn.HuberLoss(delta=0.5).delta == 0.5


def test_a_mean_over_nothing_is_nan() -> None:
    ignored = from_numpy(np.full(3, -100, np.int64))
    for weight in (None, from_numpy(WEIGHT)):
        assert np.isnan(functional.cross_entropy(from_numpy(values(0, 3, 5)), ignored, weight).item())


def test_logits_of_any_size_have_finite_loss_and_gradient() -> None:
    x = pyapp.tensor([-1e4, -50.0, 0.0, 50.0, 1e4], requires_grad=True)
    functional.binary_cross_entropy_with_logits(x, pyapp.ones(5), reduction="sum").backward()
    np.testing.assert_allclose(x.grad.numpy(), [-1, -1, -0.5, 0, 0], atol=1e-7)


def test_cosine_similarity() -> None:
    a, b = values(0, 3, 4), values(1, 3, 4)
    wanted = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(functional.cosine_similarity(from_numpy(a), from_numpy(b)).numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_mean_squared_error_has_second_derivatives(reduction: str) -> None:
    """Against what the loss is made of: values, gradients of both arguments, and the gradient of a gradient."""
    numbers = [values(seed, 3, 4) for seed in (0, 1)]

    def derivatives(loss: Any) -> list[np.ndarray]:
        x, y = (from_numpy(n.copy()).requires_grad_() for n in numbers)
        result = loss(x * x, y)
        first = pyapp.autograd.grad(result, [x, y], create_graph=True)
        (first[0] * first[1]).sum().backward()
        return [result.detach().numpy(), *(g.detach().numpy() for g in first), x.grad.numpy(), y.grad.numpy()]

    found = derivatives(lambda x, y: functional.mse_loss(x, y, reduction=reduction))
    wanted = derivatives(lambda x, y: getattr((x - y) ** 2, reduction)())
    for mine, its in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-6)
    empty = functional.mse_loss(pyapp.ones(0), pyapp.ones(0, requires_grad=True), reduction=reduction)
    empty.backward()
    assert np.isnan(empty.item()) if reduction == "mean" else empty.item() == 0


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_that_broadcast_warn_where_they_are_called(name: str) -> None:
    """The values are those of tests/engine/cases_ported.py."""
    x, y = from_numpy(values(0, 2, 3)), from_numpy(values(1, 3))
    loss = getattr(functional, name)
    with pytest.warns(
        UserWarning, match=rf"{name}: Using a target size .*: the target float32\[3\].* float32\[2, 3\]"
    ) as caught:
        assert loss(x, y).item() == pytest.approx(loss(x, y.expand(2, 3)).item())
    assert len(caught) == 1 and caught[0].filename == __file__
    with (
        pytest.warns(UserWarning),
        pytest.raises(ValueError, match=f"{name}: The size of tensor a .* do not broadcast"),
    ):
        loss(x, y[:2])


def test_what_does_not_fit_is_named() -> None:
    x = pyapp.ones(2, 3)
    with pytest.raises(ValueError, match="mse_loss: the weight"):
        functional.mse_loss(x, x, weight=pyapp.ones(3))
    with pytest.raises(ValueError, match="weight .* does not fit 3 classes"):
        functional.cross_entropy(x, from_numpy(classes(0, 3, 2)), pyapp.ones(4))
    with pytest.raises(IndexError, match="outside 0 .. 2"):
        functional.cross_entropy(x, pyapp.tensor([0, 3]), label_smoothing=0.1)
    with pytest.raises(ValueError, match="nll_loss: Expected input batch_size .* targets"):
        functional.nll_loss(x, pyapp.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        functional.binary_cross_entropy(x * 2, x)
    with pytest.raises(ValueError, match="unknown reduction 'batchmean'"):
        nn.MSELoss(reduction="batchmean")


def linear_case(places: tuple[int, ...], probable: bool) -> dict[str, Any]:
    """10 rows of 4 numbers and 7 classes; four of the rows are ignored."""
    target = values(5, 10, 7, *places) if probable else classes(6, 7, 10, *places)
    if not probable:
        target[2:6] = -100
    arrays = {
        "input": values(1, 10, 4), "linear_weight": values(2, 7, *places, 4), "linear_bias": values(3, 7, *places),
        "weight": np.abs(values(4, 7)), "target": target,
    }  # fmt: skip
    return {name: from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("places", [(), (3,)])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("probable", [True, False])
def test_linear_cross_entropy_in_pieces(
    probable: bool, plain: bool, places: tuple[int, ...], reduction: str
) -> None:  # fmt: skip
    """It is the cross entropy of the linear layer's outputs."""
    settings: dict[str, Any] = {"reduction": reduction, "label_smoothing": 0.0 if plain else 0.1}
    found = []
    for size in (None, 3):
        case = linear_case(places, probable)
        if plain:
            case["weight"] = None
        leaves = [case[name].requires_grad_() for name in ("input", "linear_weight", "linear_bias")]
        if size is None:
            matrix, bias = leaves[1].reshape(-1, 4), leaves[2].reshape(-1)
            logits = functional.linear(leaves[0], matrix, bias).reshape(10, 7, *places)
            loss = functional.cross_entropy(logits, case["target"], case["weight"], **settings)
        else:
            options = nn.LinearCrossEntropyOptions(batch_chunk_size=size)
            loss = functional.linear_cross_entropy(**case, **settings, options=options)
        (loss * 2).sum().backward()
        found.append([loss.detach(), *(leaf.grad for leaf in leaves)])
    for right, mine in zip(*found, strict=True):
        np.testing.assert_allclose(mine.numpy(), right.numpy(), rtol=1e-4, atol=1e-5)


def test_linear_cross_entropy_loss() -> None:
    layer = nn.LinearCrossEntropyLoss(4, 7, out_features=(3,), bias=True, ignore_index=2)
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == {
        "linear.weight": (21, 4), "linear.bias": (21,),
    }  # fmt: skip
    assert "num_classes=7, out_features=(3,)" in repr(layer) and "ignore_index=2" in repr(layer)
    case = linear_case((3,), False)
    logits = layer.linear(case["input"]).reshape(10, 7, 3)
    target = case["target"].clamp(0)
    wanted = functional.cross_entropy(logits, target, ignore_index=2)
    assert layer(case["input"], target).item() == pytest.approx(wanted.item(), rel=1e-6)


def test_options_of_linear_cross_entropy() -> None:
    options, cpu = nn.LinearCrossEntropyOptions, pyapp.device("cpu")
    assert options(chunking_method="aspect_ratio:2").rows(1024, 64, 4096, cpu) == 8
    assert options().rows(1024, 64, 1 << 20, cpu) == 16
    assert options(chunking_method=None).rows(1024, 64, 1 << 20, cpu) == 1024
    for wrong in ({"acc_policy": "fast"}, {"chunking_method": "aspect_ratio:0"}, {"batch_chunk_size": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            options(**wrong)
    with pytest.raises(ValueError, match="not both"):
        options(batch_chunk_size=3, chunking_method="aspect_ratio")
    case = linear_case((), True)
    with pytest.raises(ValueError, match="ignore_index is for targets"):
        functional.linear_cross_entropy(**case, ignore_index=3)
    with pytest.raises(ValueError, match="do not fit an input"):
        functional.linear_cross_entropy(**case | {"target": case["target"][:4]}, options=options())
    with pytest.raises(ValueError, match="takes an input"):
        functional.linear_cross_entropy(case["input"], case["linear_weight"][:, :3], case["target"])
