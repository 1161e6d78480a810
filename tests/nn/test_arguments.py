"""Layers take torch's arguments by torch's names. Values are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import pyapp
from pyapp import manual_seed, nn, ones, randn, tensor
from pyapp.errors import OperationError
from pyapp.nn import functional as F


def test_norms_over_several_dims_and_without_weights() -> None:
    x = tensor([[[3.0, 1.0], [1.0, 3.0]]])
    norm = nn.LayerNorm(normalized_shape=(2, 2), eps=0.0, elementwise_affine=False)
    assert norm(x).tolist() == [[[1, -1], [-1, 1]]] and not list(norm.parameters())
    without = nn.LayerNorm(2, eps=0.0, bias=False)
    assert [name for name, _ in without.named_parameters()] == ["weight"]
    assert without(x).tolist() == [[[1, -1], [-1, 1]]]
    root = nn.RMSNorm((2,), eps=0.0, elementwise_affine=False)
    assert root(tensor([[7.0, 1.0]])).flatten().tolist() == pytest.approx([1.4, 0.2])
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"


def test_a_padding_row_is_zero_and_stays() -> None:
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0, 0]
    layer(tensor([3, 1, 3, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]]
    with pytest.raises(ValueError, match="padding_idx 4 is outside 4 rows"):
        nn.Embedding(4, 2, padding_idx=4)


def test_gradients_of_rows_are_scaled_by_how_often_they_occur() -> None:
    """Once, also in bags, where torch's CPU kernel divides twice."""
    ids = tensor([[1, 1, 2], [1, 3, 3]])
    for layer in (
        nn.Embedding(4, 1, scale_grad_by_freq=True, padding_idx=2),
        nn.EmbeddingBag(4, 1, scale_grad_by_freq=True, mode="sum", padding_idx=2),
    ):
        layer(ids).sum().backward()
        assert layer.weight.grad.flatten().tolist() == pytest.approx([0, 1, 0, 1])
    with pytest.raises(ValueError, match="maximum's gradient"):
        nn.EmbeddingBag(4, 1, scale_grad_by_freq=True, mode="max")(ids)
    with pytest.raises(ValueError, match="a maximum has no sparse gradient"):
        nn.EmbeddingBag(4, 1, sparse=True, mode="max")(ids)


def test_long_rows_are_shrunk_where_they_are_looked_up() -> None:
    layer = nn.Embedding.from_pretrained(tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), max_norm=1.0)
    assert layer(tensor([[0, 1], [0, 1]]))[0].flatten().tolist() == pytest.approx([0.6, 0.8, 0.3, 0.4])
    assert layer.weight.flatten().tolist() == pytest.approx([0.6, 0.8, 0.3, 0.4, 6, 8])


def test_an_embedding_of_given_rows() -> None:
    layer = nn.Embedding.from_pretrained(tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert layer(tensor([1, 0])).tolist() == [[3, 4], [1, 2]] and not layer.weight.requires_grad
    assert nn.Embedding.from_pretrained(tensor([[1.0]]), freeze=False).weight.requires_grad
    assert not nn.Embedding(3, 2, _freeze=True).weight.requires_grad  # of positions in transformers' models


def test_modules_are_found_by_their_paths() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    assert net.get_submodule("1.1") is net[1][1] and net.get_submodule("") is net
    assert net.get_parameter("1.1.weight") is net[1][1].weight
    with pytest.raises(AttributeError, match="no module '1.7': there is no '7'"):
        net.get_submodule("1.7")
    with pytest.raises(AttributeError, match="no parameter '0.gain'"):
        net.get_parameter("0.gain")
    net.add_module("last", nn.Linear(1, 1))
    net.register_parameter("scale", nn.Parameter(tensor([1.0])))
    assert [name for name, _ in net.named_children()] == ["0", "1", "last"] and "scale" in net.state_dict()
    first = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.ReLU())[:2]
    assert isinstance(first, nn.Sequential) and len(first) == 2
    plain = nn.ModuleList([nn.ReLU()]).extend([nn.Tanh()])
    plain[0] = nn.Sigmoid()
    assert [type(m).__name__ for m in plain[:]] == ["Sigmoid", "Tanh"]


def test_what_is_shared_stays_shared_in_another_dtype() -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.weight = one.weight
    net = nn.ModuleList([one, two]).double()
    assert net[0].weight is net[1].weight and net[0].weight.dtype.name == "float64"
    assert net.half().float().cpu()[0].bias.dtype.name == "float32"


LAYERS = {
    "Linear": (3, 4), "Bilinear": (2, 3, 4), "Embedding": (5, 2), "EmbeddingBag": (5, 2), "LayerNorm": (4,),
    "RMSNorm": (4,), "GroupNorm": (2, 4), "BatchNorm1d": (4,), "InstanceNorm2d": (4, 1e-5, 0.1, True, True),
    "Conv1d": (2, 3, 2), "Conv3d": (2, 3, 2), "ConvTranspose2d": (2, 3, 2), "PReLU": (3,), "RNN": (2, 3),
    "LSTM": (2, 3), "GRU": (2, 3), "RNNCell": (2, 3), "LSTMCell": (2, 3), "GRUCell": (2, 3),
    "MultiheadAttention": (4, 2), "TransformerEncoderLayer": (4, 2, 8), "TransformerDecoderLayer": (4, 2, 8),
    "Transformer": (4, 2, 1, 1, 8), "AdaptiveLogSoftmaxWithLoss": (8, 9, [3, 6], 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_made_in_a_dtype_on_a_device(name: str) -> None:
    kind = getattr(nn, name)
    made = kind(*LAYERS[name], device="cpu", dtype="float64")
    floats = [t for t in (*made.parameters(), *made.buffers()) if t.is_floating_point()]
    assert floats and all(t.dtype.name == "float64" and t.numel() for t in floats)
    halves = list(kind(*LAYERS[name], dtype="bfloat16").parameters())
    assert all(p.dtype.name == "bfloat16" and p.requires_grad for p in halves)
    with pytest.raises(ValueError, match="no device 'cuda'"):
        kind(*LAYERS[name], device="cuda")
    with pytest.raises(TypeError, match="need a floating-point or complex dtype with arithmetic, not pyapp.int32"):
        kind(*LAYERS[name], dtype="int32")


def test_settings_are_attributes_and_tensors_have_names() -> None:
    assert nn.LeakyReLU(0.2).negative_slope == 0.2 and nn.MaxPool2d(2, return_indices=True).return_indices
    assert nn.MaxPool2d(3, 1, 1, 1, True).ceil_mode is False and nn.Dropout(0.3).p == 0.3
    x = tensor([[-1.0, 2.0]])
    for name in ("relu", "silu", "leaky_relu", "sigmoid", "tanhshrink", "normalize"):
        assert getattr(F, name)(input=x).tolist() == getattr(F, name)(x).tolist()
    assert F.linear(input=x, weight=tensor([[1.0, 1.0]])).tolist() == [[1.0]]
    assert F.max_pool1d(input=x, kernel_size=2).tolist() == [[2.0]]
    with pytest.warns(UserWarning, match="say along which dim"):
        assert F.softmax(x).tolist() == F.softmax(x, 1).tolist()


def test_activations_are_written_in_place() -> None:
    x = tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0, 2]
    leaf = tensor([-1.0, 2.0], requires_grad=True)
    y = leaf * 3
    F.leaky_relu_(y, 0.5).sum().backward()
    assert y.tolist() == [-1.5, 6] and leaf.grad.tolist() == [1.5, 3]
    with pytest.raises(RuntimeError, match="relu: a leaf .*cannot write in place into a leaf"):
        F.relu(leaf, inplace=True)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_channels_are_dropped_whole(dims: int) -> None:
    x = ones(3, 400, *(2,) * dims)
    dropped = getattr(nn, f"Dropout{dims}d")(0.25)(x).reshape(1200, -1)
    assert (dropped.amin(1) == dropped.amax(1)).all()
    assert sorted(set(dropped[:, 0].tolist())) == pytest.approx([0, 4 / 3])
    assert 0.2 < float((dropped[:, 0] == 0).to("float32").mean()) < 0.3
    assert getattr(nn, f"Dropout{dims}d")().eval()(x) is x
    if dims != 2:
        assert getattr(F, f"dropout{dims}d")(x[0], 0.5).shape == x[0].shape
    with pytest.raises(ValueError, match=f"dropout{dims}d: takes"):
        getattr(F, f"dropout{dims}d")(ones(2), 0.5)


def test_alpha_dropout_keeps_mean_and_deviation() -> None:
    manual_seed(3)
    x = nn.SELU()(randn(200, 500))
    for layer in (nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.2)):
        y = layer(x)
        assert abs(float(y.mean() - x.mean())) < 0.02 and abs(float(y.std() - x.std())) < 0.02
        assert (y != x).any() and layer.eval()(x) is x


def test_randomised_slopes_lie_between_their_limits() -> None:
    manual_seed(1)
    y = -nn.RReLU(0.2, 0.4)(-ones(1000))
    assert 0.2 <= float(y.amin()) < 0.21 and 0.39 < float(y.amax()) <= 0.4
    assert nn.RReLU(0.2, 0.4).eval()(-ones(1)).item() == pytest.approx(-0.3)


def test_fractional_pools_draw_where_they_look() -> None:
    manual_seed(2)
    x = randn(1, 2, 9, 9)
    first, second = (nn.FractionalMaxPool2d(2, output_ratio=0.5)(x) for _ in range(2))
    assert first.shape == (1, 2, 4, 4) and first.tolist() != second.tolist()
    values, places = F.fractional_max_pool2d_with_indices(x, 2, 4)
    assert x.flatten(2).gather(2, places.flatten(2)).tolist() == values.flatten(2).tolist()
    with pytest.raises(ValueError, match="output_size or output_ratio"):
        nn.FractionalMaxPool2d(2)(x)


def test_rare_classes_stand_in_clusters() -> None:
    manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], 2.0)
    x = randn(5, 8)
    every = layer.log_prob(x)
    assert every.exp().sum(1).tolist() == pytest.approx([1] * 5, rel=1e-5)
    wanted = tensor([0, 9, 4, 2, 6])
    found = layer(x, wanted)
    assert found.output.tolist() == pytest.approx(every.gather(1, wanted.unsqueeze(1)).flatten().tolist(), rel=1e-5)
    assert float(found.loss) == pytest.approx(-float(found.output.mean())) and layer(x[0], wanted[0]).output.shape == ()
    assert layer.predict(x).tolist() == every.argmax(1).tolist()
    with pytest.raises(IndexError, match="outside 0 .. 9"):
        layer(x, wanted + 1)


def test_transformers_take_layers_of_your_own_and_masks() -> None:
    class Adds(nn.Module):
        def forward(self, src: object, src_mask: object = None, **_: object) -> object:
            return src + 1

    assert nn.TransformerEncoder(Adds(), 3)(ones(1)).item() == 4
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0, float("-inf"), float("-inf")], [0, 0, float("-inf")], [0, 0, 0]]
    manual_seed(0)
    net = nn.Transformer(8, 2, 1, 1, 16).eval()
    x, y = randn(4, 2, 8), randn(3, 2, 8)
    masked, causal = net(x, y, tgt_mask=mask), net(x, y, tgt_is_causal=True)
    assert masked.flatten().tolist() == pytest.approx(causal.flatten().tolist(), rel=1e-5)
    with pytest.raises(ValueError, match="same batch"):
        net(x, randn(3, 3, 8))
    with pytest.raises(ValueError, match="takes 8 features"):
        net(randn(4, 2, 6), randn(3, 2, 6))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: F.gaussian_nll_loss(ones(2), ones(2), -1.0), "negative elements"),
        (lambda: F.gaussian_nll_loss(ones(2, 3), ones(2, 3), ones(3, 2)), "the variance float32"),
        (lambda: F.triplet_margin_loss(ones(2, 3), ones(3), ones(2, 3)), "differ in dims"),
        (lambda: F.triplet_margin_loss(ones(2), ones(2), ones(2), margin=0.0), "margin must be above 0"),
        (lambda: F.multilabel_margin_loss(ones(2, 3), ones(2, 3)), "integer targets"),
        (lambda: F.mse_loss(ones(2), ones(2), weight=ones(3)), "mse_loss: the weight"),
        (lambda: F.channel_shuffle(ones(1, 4, 2), 3), "must be a multiple of 3"),
        (lambda: nn.ConvTranspose1d(2, 2, 2, padding_mode="reflect"), "padding_mode is one of zeros"),
        (lambda: nn.ReflectionPad2d((1, 2)), "one number or 4"),
        (lambda: nn.LSTMCell(2, 3)(ones(4, 3)), "the last 2, got"),
        (lambda: nn.GRUCell(2, 3)(ones(4, 2), ones(4, 2)), r"a state must be \[4, 3\]"),
        (lambda: nn.EmbeddingBag(4, 2)(tensor([1, 2]), tensor([1])), "starts at 0"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [6, 3]), "cutoffs must rise"),
        (lambda: nn.Softmax2d()(ones(2, 2)), "Softmax2d: takes"),
        (lambda: F.embedding(tensor([0]), ones(2, 2), padding_idx=2), "outside 2 rows"),
    ],
)
def test_what_does_not_fit_is_named(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_errors_of_layers_are_torchs_kinds() -> None:
    """What a layer cannot take is a RuntimeError, as in torch, and names the layer; the user's errors stay."""
    cases = [
        (nn.Conv2d(1, 2, 3), pyapp.ones(1, 2, 5, 5)), (nn.ConvTranspose2d(1, 2, 3), pyapp.ones(1, 2, 5, 5)),
        (nn.Conv1d(1, 2, 3), pyapp.ones(2, 3, 4, 5)), (nn.LayerNorm((2, 3)), pyapp.ones(3, 2)),
        (nn.Flatten(3), pyapp.ones(2)), (nn.GRU(2, 3), pyapp.ones(5)), (nn.Bilinear(2, 2, 2), None),
    ]  # fmt: skip
    for layer, given in cases:
        for module in (layer, nn.Sequential(layer)):
            with pytest.raises((RuntimeError, TypeError), match=type(layer).__name__) as caught:
                module(given)
            assert isinstance(caught.value, OperationError)

    class Refuses(nn.Module):
        def forward(self, x: object) -> object:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="^mine$") as mine:
        nn.Sequential(Refuses())(1)
    assert type(mine.value) is ValueError
