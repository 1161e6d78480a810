"""Weights that are computed: their names are torch's, their values are worked out with NumPy."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.nn import utils
from pyapp.nn.parameter import skip_initialization
from pyapp.nn.utils import parametrizations, parametrize
from tests.together import IN_BROWSER


def layer(kind: Any = nn.Linear, *sizes: int) -> Any:
    pyapp.manual_seed(4)
    return kind(*(sizes or (3, 4)))


def test_weights_that_will_be_read_take_no_memory() -> None:
    """The sizes are those of a file, before its tensors are compared with them: here 512 GiB."""
    size = 1 << (10 if IN_BROWSER else 17)
    with skip_initialization():
        made = parametrizations.weight_norm(nn.Conv1d(size, size, 128, groups=16), dim=2)
    shapes = {name: tuple(value.shape) for name, value in made.state_dict().items() if name != "bias"}
    parts = "parametrizations.weight."
    assert shapes == {f"{parts}original0": (1, 1, 128), f"{parts}original1": (size, size // 16, 128)}


@pytest.mark.parametrize(
    ("wrap", "names"),
    [
        (utils.weight_norm, ("weight_g", "weight_v")),
        (parametrizations.weight_norm, ("parametrizations.weight.original0", "parametrizations.weight.original1")),
    ],
)
def test_a_weight_has_its_norms_apart(wrap: Any, names: tuple[str, str]) -> None:
    plain, made = layer(), layer()
    assert wrap(made) is made and isinstance(made, nn.Linear)
    x = pyapp.randn(2, 3)
    np.testing.assert_allclose(made(x).detach().numpy(), plain(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert set(made.state_dict()) == {"bias", *names} and made.state_dict()[names[0]].shape == (4, 1)
    g, v = (made.get_parameter(name) for name in names)
    made(x).sum().backward()
    assert (g.grad.abs().sum() > 0) and abs(float((v.grad * v).sum())) < 1e-5  # a direction has no length
    with pyapp.no_grad():
        g.mul_(2.0)
    np.testing.assert_allclose(
        made(x).detach().numpy() - made.bias.detach().numpy(),
        2 * (plain(x) - plain.bias).detach().numpy(), rtol=1e-5, atol=1e-6,
    )  # fmt: skip
    assert made.weight.norm(2.0, 1).tolist() == pytest.approx(g.flatten().tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("wrap", "names"),
    [
        (utils.spectral_norm, ("weight_orig", "weight_u", "weight_v")),
        (
            parametrizations.spectral_norm,
            ("parametrizations.weight.original", "parametrizations.weight.0._u", "parametrizations.weight.0._v"),
        ),
    ],
)
def test_a_weight_of_spectral_norm_one(wrap: Any, names: tuple[str, ...]) -> None:
    made = wrap(layer(nn.ConvTranspose1d, 3, 4, 2), n_power_iterations=20)
    made(pyapp.randn(1, 3, 5)).sum().backward()
    weight = made.weight.detach().numpy()
    assert np.linalg.svd(weight.swapaxes(0, 1).reshape(4, -1))[1][0] == pytest.approx(1, rel=1e-4)
    assert set(made.state_dict()) == {"bias", *names} and made.get_parameter(names[0]).grad is not None
    made.eval()
    before = made.get_buffer(names[1]).clone()
    made(pyapp.randn(1, 3, 5))
    assert made.get_buffer(names[1]).tolist() == before.tolist()


def test_copies_compute_from_their_own() -> None:
    x = pyapp.ones(1, 3)
    for wrap, name in ((utils.weight_norm, "weight_g"), (parametrizations.weight_norm, "original0")):
        made = wrap(layer()).requires_grad_(False)
        made(x)
        copied = deepcopy(made)
        before = made(x).tolist()
        {n.rpartition(".")[2]: p for n, p in copied.named_parameters()}[name].zero_()
        assert copied(x).tolist() == [copied.bias.tolist()] and made(x).tolist() == before


def test_computed_weights_are_removed_and_assigned() -> None:
    plain = layer()
    made = parametrizations.weight_norm(layer())
    assert parametrize.is_parametrized(made, "weight") and not parametrize.is_parametrized(plain)
    made.weight = pyapp.full((4, 3), 2.0)
    assert made.weight.flatten().tolist() == pytest.approx([2.0] * 12)
    parametrize.remove_parametrizations(made, "weight")
    assert type(made) is nn.Linear and set(made.state_dict()) == {"weight", "bias"} and made.weight.requires_grad
    old = utils.remove_weight_norm(utils.weight_norm(layer()))
    np.testing.assert_allclose(old.weight.detach().numpy(), plain.weight.detach().numpy(), rtol=1e-6)
    assert set(old.state_dict()) == {"weight", "bias"}
    assert set(utils.remove_spectral_norm(utils.spectral_norm(layer())).state_dict()) == {"weight", "bias"}
    with pytest.raises(ValueError, match="has none"):
        utils.remove_weight_norm(plain)
    with pytest.raises(ValueError, match="no tensor 'gain'"):
        parametrizations.weight_norm(plain, "gain")


def test_parametrizations_of_your_own_follow_one_another() -> None:
    class Symmetric(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

    class Twice(nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x

    made = layer(nn.Linear, 3, 3)
    parametrize.register_parametrization(made, "weight", Symmetric())
    parametrize.register_parametrization(made, "weight", Twice())
    weight = made.weight.detach().numpy()
    assert (weight == weight.T).all() and weight[0, 1] == 2 * made.parametrizations.weight.original[0, 1].item()
    copied = deepcopy(made)
    made.weight.sum().backward()
    assert copied.parametrizations.weight.original.grad is None
    with pytest.raises(ValueError, match=r"would become float32\[3\]"):

        class Flat(nn.Module):
            def forward(self, x: Any) -> Any:
                return x[0]

        parametrize.register_parametrization(layer(nn.Linear, 3, 3), "weight", Flat())


def test_batch_norms_are_taken_into_convolutions() -> None:
    conv, norm = layer(nn.Conv2d, 3, 4, 2), nn.BatchNorm2d(4)
    norm(pyapp.randn(5, 4, 3, 3) * 2 + 1)
    with pyapp.no_grad():
        norm.weight.uniform_(0.5, 2.0)
    x = pyapp.randn(2, 3, 4, 4)
    fused = utils.fuse_conv_bn_eval(conv.eval(), norm.eval())
    np.testing.assert_allclose(fused(x).detach().numpy(), norm(conv(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="in evaluation"):
        utils.fuse_conv_bn_eval(conv.train(), norm)


def test_more_fillings() -> None:
    weight = nn.init.dirac_(pyapp.zeros(4, 2, 3), groups=2)
    x = pyapp.randn(1, 4, 6)
    assert nn.functional.conv1d(x, weight, padding=1, groups=2).tolist() == x.tolist()
    sparse = nn.init.sparse_(pyapp.zeros(10, 7), 0.25, std=2.0).numpy()
    assert ((sparse == 0).sum(0) == 3).all() and 1 < sparse[sparse != 0].std() < 3
    with pytest.raises(ValueError, match="dirac_"):
        nn.init.dirac_(pyapp.zeros(3, 2))


def test_norms_of_gradients() -> None:
    a = nn.Parameter(pyapp.zeros(2))
    a.grad = pyapp.tensor([3.0, 4.0])
    assert utils.get_total_norm([a.grad]) == 5 and utils.get_total_norm(a.grad, float("inf")) == 4
    utils.clip_grads_with_norm_(a, 1.0, 5.0)
    assert a.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)
    a.grad = pyapp.tensor([float("nan"), 1.0])
    with pytest.raises(RuntimeError, match="is nan"):
        utils.clip_grad_norm_(a, 1.0, error_if_nonfinite=True)


def test_a_value_without_a_way_back_is_refused() -> None:
    class Positive(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp()

    made = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Positive())
    before = made.weight.detach().tolist()
    with pytest.raises(RuntimeError, match="Positive has no right_inverse"):
        made.weight = pyapp.ones(2, 2)
    assert made.weight.tolist() == before
