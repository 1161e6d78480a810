"""What older scripts write: keywords that torch keeps, and the keywords of calls of layers."""

from __future__ import annotations

import pytest

import pyapp
import pyapp.nn.functional as F
from pyapp import nn

X, Y = pyapp.tensor([[0.2, 0.7], [0.9, 0.4]]), pyapp.tensor([[0.5, 0.5], [0.1, 0.3]])
LABELS = pyapp.tensor([1, 0])
OF_VALUES = """
    mse_loss l1_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div poisson_nll_loss
    soft_margin_loss hinge_embedding_loss multilabel_soft_margin_loss
""".split()
MODULES = """
    MSELoss L1Loss SmoothL1Loss BCELoss BCEWithLogitsLoss KLDivLoss PoissonNLLLoss SoftMarginLoss HingeEmbeddingLoss
    MultiLabelSoftMarginLoss
""".split()
OLD = [
    ({"size_average": False}, "sum"), ({"size_average": True}, "mean"), ({"reduce": False}, "none"),
    ({"reduce": True, "size_average": False}, "sum"), ({"reduce": False, "size_average": False}, "none"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_losses_take_the_old_reduction() -> None:
    for old, reduction in OLD:
        for name, module in zip(OF_VALUES, MODULES, strict=True):
            expected = getattr(F, name)(X, Y, reduction=reduction).tolist()
            assert getattr(F, name)(X, Y, **old).tolist() == expected, name
            assert getattr(nn, module)(**old)(X, Y).tolist() == expected, module
        for name, module in (
            ("cross_entropy", "CrossEntropyLoss"),
            ("nll_loss", "NLLLoss"),
            ("multi_margin_loss", "MultiMarginLoss"),
        ):
            expected = getattr(F, name)(X, LABELS, reduction=reduction).tolist()
            assert getattr(F, name)(X, LABELS, **old).tolist() == expected, name
            assert getattr(nn, module)(**old)(X, LABELS).tolist() == expected, module
        triplet = nn.TripletMarginLoss(**old)(X, Y, X * 2).tolist()
        assert triplet == F.triplet_margin_loss(X, Y, X * 2, reduction=reduction).tolist()


def test_the_old_reduction_warns() -> None:
    with pytest.warns(UserWarning, match="use reduction='sum'"):
        F.mse_loss(X, Y, size_average=False)
    with pytest.raises(TypeError, match="size"):
        F.mse_loss(X, Y, sizes=False)


def test_layers_take_their_input_by_name() -> None:
    layers = [
        nn.Linear(2, 3), nn.LayerNorm(2), nn.Identity(), nn.Flatten(0), nn.Bilinear(2, 2, 1), nn.BatchNorm1d(2),
        nn.RMSNorm(2), nn.Softmax(-1), nn.Embedding(3, 2), nn.GroupNorm(1, 2), nn.Conv1d(1, 1, 1),
        nn.ConvTranspose1d(1, 1, 1), nn.InstanceNorm1d(2),
    ]  # fmt: skip
    for layer in layers:
        if isinstance(layer, nn.Bilinear):
            assert layer(input1=X, input2=Y).shape == (2, 1)
            continue
        x = (
            LABELS
            if isinstance(layer, nn.Embedding)
            else X[:, None]
            if isinstance(layer, (nn.Conv1d, nn.ConvTranspose1d))
            else X
        )
        x = X[None] if isinstance(layer, nn.InstanceNorm1d) else x
        assert layer(input=x).tolist() == layer(x).tolist(), type(layer)


def test_small_names() -> None:
    x = pyapp.ones(2, requires_grad=True)
    assert pyapp.autograd.grad((x * 2).sum(), x, only_inputs=True)[0].tolist() == [2.0, 2.0]
    layer = nn.Linear(1, 1)
    twice = nn.Sequential(layer, layer)
    assert len(list(twice.modules())) == 2 and len(list(twice.modules(remove_duplicate=False))) == 3
    assert not twice.requires_grad_(requires_grad=False)[0].weight.requires_grad and twice._get_name() == "Sequential"
    optimizer = pyapp.optim.SGD([nn.Parameter(x)], 0.1)
    schedule = pyapp.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, cooldown=2)
    assert not schedule.in_cooldown
    for metric in (1.0, 2.0):
        schedule.step(metric)
    assert schedule.in_cooldown and pyapp.cdist(x1=X, x2=Y).shape == (2, 2)


def test_no_examples_cannot_be_shuffled() -> None:
    """As in torch, whose error shows an empty folder at once."""
    with pytest.raises(ValueError, match="no examples"):
        pyapp.utils.data.DataLoader([], shuffle=True)
    assert list(pyapp.utils.data.DataLoader([])) == []


def test_settings_that_torch_refuses() -> None:
    with pytest.raises(ValueError, match="padding 'same' takes a stride of 1"):
        nn.Conv2d(1, 1, 3, padding="same", stride=2)
    for lengths in ([1, 3], [3, 0]):
        with pytest.raises(RuntimeError, match="pack_padded_sequence"):
            nn.utils.rnn.pack_padded_sequence(pyapp.ones(3, 2, 1), pyapp.tensor(lengths))


def test_hardtanh_takes_the_old_limits() -> None:
    with pytest.warns(FutureWarning, match="use min_val"):
        layer = nn.Hardtanh(max_val=5.0, min_value=-2.0)
    assert (layer.min_val, layer.max_val) == (-2.0, 5.0)
    assert layer(pyapp.tensor([-3.0, -1.5, 7.0])).tolist() == [-2.0, -1.5, 5.0]
    with pytest.warns(FutureWarning, match="use max_val"), pytest.raises(ValueError, match="not above"):
        nn.Hardtanh(max_value=-1.0)


def test_distributions_take_the_old_name_of_a_number_of_draws() -> None:
    with pytest.warns(FutureWarning, match="use sample"):
        draws = pyapp.distributions.MultivariateNormal(pyapp.zeros(2), pyapp.eye(2)).sample_n(4)
    assert draws.shape == (4, 2)
