"""Layers of pyapp.keras: the numbers of Keras for fixed weights and draws (make_golden.py), and random ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pyapp import Tensor, from_numpy, keras
from tests.keras.layer_cases import CASES, pictures
from tests.keras.make_golden import GOLDEN_LAYERS, described
from tests.keras.test_ops import same
from tests.together import check_each, fewer_in_browser

layers = keras.layers


def test_layers_have_the_numbers_of_keras() -> None:
    golden = json.loads(GOLDEN_LAYERS.read_text())
    assert list(golden) == list(CASES)
    check_each(
        lambda case: same(case, described(CASES[case](keras)), golden[case]),
        [(case,) for case in fewer_in_browser(CASES)],
    )


def random_layers(factor: float) -> list[Any]:
    """Layers that change pictures by at most `factor`."""
    coloured = {"brightness_factor": factor, "contrast_factor": factor, "hue_factor": factor}
    return [
        layers.RandomBrightness(factor, seed=1), layers.RandomContrast(factor, seed=1),
        layers.RandomColorDegeneration((0, factor), seed=1), layers.RandomHue(factor, seed=1),
        layers.RandomColorJitter(seed=1, **coloured), layers.RandomGrayscale(factor, seed=1),
        layers.RandomInvert((factor, factor), seed=1), layers.RandomGaussianBlur((factor, factor), seed=1),
        layers.RandomErasing((factor, factor), seed=1), layers.RandomPerspective((factor, factor), seed=1),
        layers.RandomElasticTransform((factor, factor), seed=1), layers.RandomShear(factor, factor, seed=1),
        layers.RandomRotation(factor, seed=1), layers.RandomZoom(factor, seed=1),
        layers.RandomTranslation(factor, factor, seed=1),
    ]  # fmt: skip


def test_random_layers_draw_by_their_seed_and_stop_at_factor_0() -> None:
    x = pictures(size=(4, 12, 9, 3))

    def check(_: str, layer: Any, again: Any, still: Any) -> None:
        y = layer(x).numpy()
        assert y.shape == x.shape and -1e-3 <= y.min() and y.max() <= 255.001
        np.testing.assert_array_equal(again(x).numpy(), y)
        assert any(abs(layer(x, training=True).numpy() - y).max() > 0.01 for _ in range(9))  # the next draws
        np.testing.assert_allclose(layer(x, training=False).numpy(), x, atol=1e-5)
        np.testing.assert_allclose(still(x).numpy(), x, rtol=1e-4, atol=1e-2)
        single = again(x[0]).numpy()
        assert single.shape == x[0].shape
        assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()

    every = zip(random_layers(0.5), random_layers(0.5), random_layers(0.0), strict=True)
    check_each(check, [(type(layer).__name__, layer, again, still) for layer, again, still in fewer_in_browser(every)])


def test_what_belongs_to_pictures_changes_with_them() -> None:
    x, labels = pictures(size=(6, 12, 9, 3)), np.eye(6, dtype="float32")
    masks = (np.arange(6 * 12 * 9).reshape(6, 12, 9, 1) % 4).astype("int32")
    data = {"images": x, "labels": labels, "segmentation_masks": masks}
    for layer in (layers.MixUp(0.4, seed=2), layers.CutMix(seed=2)):
        found = layer({"images": x, "labels": labels})
        mixed = found["labels"].numpy()
        np.testing.assert_allclose(mixed.sum(1), 1, rtol=1e-5)
        assert ((mixed > 0.01).sum(1) == 2).any()
        if isinstance(layer, layers.MixUp):  # the pictures are mixed by the shares of the labels
            np.testing.assert_allclose(found["images"].numpy(), np.einsum("bk,khwc->bhwc", mixed, x), rtol=1e-3)
    for layer in (layers.RandAugment(seed=4, num_ops=3), layers.RandomFlip(seed=1), layers.RandomShear(0.5, seed=1)):
        found = layer(data)
        assert set(np.unique(found["segmentation_masks"].numpy())) <= {0, 1, 2, 3}
        np.testing.assert_array_equal(found["labels"].numpy(), labels)
    flipped = layers.RandomFlip("horizontal", seed=1)({"images": x, "segmentation_masks": x[..., :1].astype("int32")})
    np.testing.assert_array_equal(
        flipped["segmentation_masks"].numpy(), flipped["images"].numpy()[..., :1].astype("int32")
    )
    assert layers.AugMix(seed=1)(x).shape == x.shape
    chain = layers.Pipeline([layers.RandomTranslation(0.3, 0.3, seed=1), layers.Resizing(4, 4)])
    assert layers.Pipeline.from_config(chain.get_config())(data)["segmentation_masks"].shape == (6, 4, 4, 1)
    with pytest.raises(NotImplementedError, match="bounding boxes do not move"):
        layers.RandomShear(0.1)({"images": x, "bounding_boxes": {"boxes": x}})
    with pytest.raises(ValueError, match="a dict of images, labels"):
        layers.MixUp()({"pictures": x})
    with pytest.raises(ValueError, match="one number for each class"):
        layers.MixUp()({"images": x, "labels": np.arange(6)})
    with pytest.raises(ValueError, match=r"factors are in \[0, 1\]"):
        layers.RandomShear(1.5)


def test_hashes_are_those_of_tensorflow() -> None:
    """The numbers come from Keras 3.15.1 on TensorFlow 2.21."""
    words = ["", "a", "omar", "skywalker", "x" * 24, "y" * 33, "z" * 64, "ü" * 40, "0123456789" * 7, "abc" * 50]
    found = layers.Hashing(1000)(np.array(words)).tolist()
    assert found == [263, 939, 986, 230, 91, 150, 872, 193, 136, 125]
    assert layers.Hashing(1000, salt=1337)(words[:8]).tolist() == [919, 34, 650, 697, 18, 149, 695, 185]
    assert layers.Hashing(1000, salt=[133, 137])(words[:4]).tolist() == [900, 354, 674, 792]
    assert layers.Hashing(7, mask_value="omar")(words[:4]).tolist() == [6, 4, 0, 1]
    assert layers.Hashing(1000)([0, 1, -5, 12345, 10**12]).tolist() == [735, 849, 816, 728, 412]
    assert layers.Hashing(4, output_mode="count")([["a", "b"], ["b", "b"]]).tolist() == [[0, 0, 1, 1], [0, 0, 2, 0]]
    names, numbers = np.array(["", "a", "A", "omar", "stringer"]), np.array([101, 101, 101, 102, -3])
    assert layers.HashedCrossing(1000)([names, numbers]).tolist() == [480, 162, 891, 692, 97]
    more = np.array(["marlo", "wire", "skywalker", "hello world this is 17+", "x" * 24])
    assert layers.HashedCrossing(1000)([names, numbers, more]).tolist() == [805, 643, 151, 721, 285]
    hot = layers.HashedCrossing(5, output_mode="one_hot")([np.array(["A", "B"]), np.array([101, 102])])
    assert hot.tolist() == [[0, 1, 0, 0, 0]] * 2
    with pytest.raises(ValueError, match="inputs have one shape"):
        layers.HashedCrossing(5)([names, numbers[:2]])


def test_weights_have_the_paths_of_keras() -> None:
    keras.utils.clear_session()
    inputs = keras.Input((4, 6))
    inner = keras.Sequential([keras.Input((4, 6)), layers.Bidirectional(layers.GRU(2)), layers.Dense(1)])
    hidden = layers.MultiHeadAttention(2, 3, name="heads")(inputs, inputs)
    model = keras.Model(inputs, [inner(inputs), layers.SpectralNormalization(layers.Dense(2))(hidden)])
    paths = [weight.path for weight in model.weights]
    heads = [f"heads/{part}/{kind}" for part in ("query", "key", "value", "attention_output")
             for kind in ("kernel", "bias")]  # fmt: skip
    gru = [f"sequential/bidirectional/{way}_gru/gru_cell/{kind}" for way in ("forward", "backward")
           for kind in ("kernel", "recurrent_kernel", "bias")]  # fmt: skip
    assert [path for path in paths if path.startswith("heads")] == heads
    assert [path for path in paths if path.startswith("seq")] == [
        *gru,
        *(f"sequential/dense/{k}" for k in ("kernel", "bias")),
    ]
    assert paths[-3:] == [f"spectral_normalization/{end}" for end in ("dense_1/kernel", "vector_u", "dense_1/bias")]

    class Made(layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(), name="scale")
            self.dense = layers.Dense(2)
            self.dense.build(shape)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs) * self.scale

    made = Made(name="made")
    made(np.ones((2, 3), "float32"))
    assert [weight.path for weight in made.weights] == ["made/scale", "made/dense_2/kernel", "made/dense_2/bias"]


def test_a_cell_of_ones_own_computes_its_steps() -> None:
    class Doubled(keras.layers.LSTMCell):
        def step(self, part: Tensor, states: list[Tensor]) -> list[Tensor]:
            h, c = super().step(part, states)
            return [2 * h, c]

    x = from_numpy(np.random.default_rng(0).standard_normal((2, 1, 3), np.float32))
    plain, doubled = keras.layers.RNN(keras.layers.LSTMCell(4)), keras.layers.RNN(Doubled(4))
    plain(x), doubled(x)
    doubled.set_weights(plain.get_weights())
    np.testing.assert_allclose(doubled(x).detach().numpy(), 2 * plain(x).detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["SimpleRNN", "GRU", "LSTM"])
def test_masked_sequences_in_one_op_have_the_numbers_of_single_steps(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    x, mask = random.normal(size=(5, 7, 4)).astype("float32"), random.random((5, 7)) > 0.4
    mask[0], mask[1], mask[2] = False, True, [1, 1, 1, 0, 0, 0, 0]
    count = 2 if kind == "LSTM" else 1
    first = [from_numpy(random.normal(size=(5, 3)).astype("float32")) for _ in range(count)]
    in_one_op: list[bool] = []
    cell = getattr(layers, f"{kind}Cell")
    whole = cell.all_steps
    monkeypatch.setattr(cell, "all_steps", lambda *args: [in_one_op.append(True), whole(*args)][1])

    def numbers(layer: Any, states: Any) -> list[Any]:
        inputs = from_numpy(x.copy()).requires_grad_()
        for weight in layer.weights:
            weight.grad = None
        found = layer(inputs, mask=mask, initial_state=states)
        total = found[0].sum() + sum((one * one).sum() for one in found)
        total.backward()
        return [*(one.detach().numpy() for one in found), *(one.grad.numpy() for one in (inputs, *layer.weights))]

    for number in range(16):
        sequences, backwards, zeros, begins = (bool(number >> bit & 1) for bit in range(4))
        layer = getattr(layers, kind)(3, return_sequences=sequences, return_state=True, go_backwards=backwards)
        layer.zero_output_for_mask = zeros
        layer(x)
        in_one_op.clear()
        fast = numbers(layer, first if begins else None)
        assert in_one_op
        with monkeypatch.context() as patch:
            patch.setattr(cell, "has_all_steps", lambda cell: False)
            slow = numbers(layer, first if begins else None)
        for one, other in zip(fast, slow, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=f"{sequences=} {backwards=} {zeros=}")


def test_layers_tell_what_their_cells_and_shapes_are() -> None:
    for kind, states in (("LSTM", 2), ("GRU", 1), ("SimpleRNN", 1)):
        layer = getattr(layers, kind)(3, dropout=0.1)
        assert (layer.units, layer.use_bias, layer.dropout, layer.recurrent_dropout) == (3, True, 0.1, 0.0)
        assert type(layer.kernel_initializer).__name__ == "GlorotUniform" and layer.bias_constraint is None
        assert [tuple(one.shape) for one in layer.get_initial_state(2)] == [(2, 3)] * states
        assert layer.cell.output_size == 3 and layer.cell.state_size == ([3, 3] if states == 2 else 3)
    stacked = layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)])
    assert stacked.cell.state_size == [[3, 3], 2]
    assert [[tuple(state.shape) for state in one] for one in stacked.get_initial_state(4)] == [
        [(4, 3), (4, 3)], [(4, 2)]
    ]  # fmt: skip
    attention = layers.MultiHeadAttention(2, 3, output_shape=7)
    assert attention.compute_output_shape((2, 4, 6), (2, 5, 6)) == (2, 4, 7)
    assert attention.compute_output_shape(query_shape=(None, 4, 6), value_shape=(None, 5, 6)) == (None, 4, 7)
    x = np.ones((2, 4), "float32")
    _, states = layers.GRUCell(3)(x, [np.zeros((2, 3), "float32")])
    _, state = layers.GRUCell(3)(x, np.zeros((2, 3), "float32"))
    assert isinstance(states, list) and tuple(state.shape) == (2, 3)
    cell = layers.LSTMCell(3)
    x = np.ones((2, 4), "float32")
    output, after = cell(x, [np.zeros((2, 3), "float32"), np.zeros((2, 3))])
    assert output.equal(after[0])


def test_signs_and_limits_of_losses_and_activations() -> None:
    """The values are those of Keras 3.15."""
    truth, guess = np.array([[0.0, 1.0, 0.0]], "float32"), np.array([[0.1, 0.9, 0.3]], "float32")
    for loss in (
        keras.losses.cosine_similarity,
        keras.losses.get("cosine_similarity"),
        keras.losses.CosineSimilarity(),
    ):
        assert float(loss(truth, guess)) == pytest.approx(-0.943456, abs=1e-5)
    assert float(keras.metrics.CosineSimilarity()(truth, guess)) == pytest.approx(0.943456, abs=1e-5)
    x = np.array([-1.0, 0.2, 0.5, 3.0], "float32")
    relu = keras.activations.relu
    np.testing.assert_allclose(relu(x, 0.1, 1.0, 0.2), [-0.12, 0.0, 0.5, 1.0], atol=1e-6)
    np.testing.assert_allclose(relu(x, max_value=1.0, threshold=-2.0), [0.0, 0.2, 0.5, 1.0], atol=1e-6)
