"""Pipeline: every step beside plain Python, the same numbers under a seed, resumed at any place; augmentation."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import datasets, keras
from pyapp.datasets import Pipeline, augment
from pyapp.errors import OptionError
from pyapp.utils.data import DataLoader, TensorDataset


class Again:
    """A stream without length that begins anew each time."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


def noisy(x: int, generator: Any) -> float:
    return x + pyapp.rand((), generator=generator).item()


SOURCES = {"indexed": lambda: Pipeline(range(11)), "stream": lambda: Pipeline(Again(11))}


@pytest.mark.parametrize("kind", SOURCES)
def test_steps(kind: str) -> None:
    p = SOURCES[kind]()
    assert list(p.map(lambda x: 2 * x).skip(2).take(3)) == [4, 6, 8]
    assert [b.tolist() for b in p.batch(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert [b.tolist() for b in p.batch(4, drop_last=True)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(p.filter(lambda x: x % 5 == 0)) == [0, 5, 10] and list(p.take(2).repeat(2)) == [0, 1, 0, 1]
    assert list(islice(p.take(2).repeat(), 5)) == [0, 1, 0, 1, 0] and list(p.take(0).repeat()) == []
    assert list(p.zip(p.map(str), p.skip(9))) == [(0, "0", 9), (1, "1", 10)]
    assert list(p.prefetch(2).map(lambda x: -x)) == [-x for x in range(11)]
    for buffer in (1, 3, 100):
        order = list(p.shuffle(buffer, seed=4))
        assert sorted(order) == list(range(11)) and all(x < k + buffer for k, x in enumerate(order))
        assert (order == list(range(11))) == (buffer == 1)
    shuffled = p.shuffle(5, seed=4)
    first, second = list(shuffled), list(shuffled)
    assert first != second and first == list(p.shuffle(5, seed=4)) != list(p.shuffle(5, seed=5))
    same = p.shuffle(5, each_pass=False)
    assert list(same) == list(same)


def test_indexed_and_streamed_passes_agree() -> None:
    def steps(p: Pipeline) -> list[Any]:
        made = p.shuffle(6, seed=3).map(noisy, seed=8).take(9).repeat(2).batch(4)
        return [b.tolist() for _ in range(2) for b in made]

    assert steps(SOURCES["indexed"]()) == steps(SOURCES["stream"]())


@pytest.mark.parametrize("kind", SOURCES)
def test_a_pass_goes_on_where_it_was_left(kind: str) -> None:
    chains: list[Any] = [
        lambda p: p.shuffle(4, seed=1).map(noisy, seed=2).batch(3),
        lambda p: p.take(7).shuffle(20, seed=1).repeat(3).map(noisy, seed=5),
        lambda p: p.filter(lambda x: x % 3).cache().shuffle(3).prefetch(2).skip(1),
        lambda p: p.zip(p.shuffle(5, seed=9)).map(lambda pair: pair[1]),
        lambda p: p.map(str).tokens(lambda text: [ord(c) for c in text], 2, end=0),
    ]
    for chain in chains:
        whole = chain(SOURCES[kind]())
        expected = [[repr(x) for x in whole] for _ in range(3)]
        for stop in range(len(expected[1]) + 1):
            part = chain(SOURCES[kind]())
            list(part)
            outputs = iter(part)
            found = [repr(x) for x in islice(outputs, stop)]
            state = part.state_dict()
            if 0 < stop:
                assert state == {"epoch": 1, "position": stop}
            resumed = chain(SOURCES[kind]())
            resumed.load_state_dict(state)
            assert resumed.state_dict() == state
            found += [repr(x) for x in resumed]
            assert found == expected[1] and [repr(x) for x in resumed] == expected[2]


def test_lengths_and_refusals() -> None:
    p = Pipeline(range(11))
    assert [len(x) for x in (p, p.batch(4), p.batch(4, True), p.skip(9).repeat(3), p.take(50), p.zip(p.take(2)))] == [
        11, 3, 2, 6, 11, 2
    ]  # fmt: skip
    assert len(Pipeline(p)) == 11 and len(p.skip(20)) == 0 and list(p.skip(20)) == []
    for made, message in ((p.repeat(), "endless"), (p.filter(bool), "only a pass")):
        with pytest.raises(TypeError, match=message):
            len(made)
    for call, message in (
        (lambda: Pipeline(iter([1])), "only once"), (lambda: Pipeline(3), "dataset or an iterable"),
        (lambda: p.batch(0), "batch: size"), (lambda: Pipeline(Again(3)).shuffle(), "give a buffer"),
        (lambda: p.take(-1), "take: count"), (lambda: p.load_state_dict({"epoch": 1}), "what state_dict gave"),
        (lambda: p.load_state_dict({"epoch": -1, "position": 0}), "0 or more"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=message):
            call()


def test_errors_and_ends_of_prefetch() -> None:
    def fail(x: int) -> int:
        if x == 3:
            raise KeyError("row 3")
        return x

    found = []
    with pytest.raises(KeyError, match="row 3"):
        for x in Pipeline(range(9)).map(fail).prefetch(4):
            found.append(x)
    assert found == [0, 1, 2]
    endless = iter(Pipeline(range(3)).repeat().prefetch(2))
    assert [next(endless) for _ in range(4)] == [0, 1, 2, 0]
    endless.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name == "pyapp-prefetch"]


def test_loaders_and_fit_take_pipelines() -> None:
    made = Pipeline(range(20)).shuffle(seed=2).map(noisy, seed=1).batch(3)
    one = [b.tolist() for _ in range(2) for b in made]
    loader = DataLoader(Pipeline(range(20)).shuffle(seed=2).map(noisy, seed=1).batch(3), batch_size=None, num_workers=2)
    assert [b.tolist() for _ in range(2) for b in loader] == one  # workers natively, none in the page
    x = pyapp.rand(24, 4, generator=pyapp.Generator(0))
    rows = TensorDataset(x, x.sum(1, keepdim=True))

    def losses(data: Any, **settings: Any) -> list[float]:
        pyapp.manual_seed(3)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        return model.fit(data, epochs=2, verbose=0, **settings).history["loss"]

    found = losses(Pipeline(rows).shuffle(seed=7).batch(8).prefetch(2))
    assert found[1] < found[0] and found == losses(Pipeline(rows).shuffle(seed=7).batch(8))
    endless = Pipeline(rows).shuffle(seed=7).repeat().batch(8)
    assert len(losses(endless, steps_per_epoch=3)) == 2


def test_tokens() -> None:
    texts = Pipeline(["ab", "c", "", "defg"])
    windows = list(texts.tokens(lambda text: [ord(c) - 96 for c in text], 3, end=0))
    assert [(x.tolist(), y.tolist()) for x, y in windows] == [([1, 2, 0], [2, 0, 3]), ([3, 0, 0], [0, 0, 4]),
                                                             ([4, 5, 6], [5, 6, 7])]  # fmt: skip


# -- augmentation


def seeded(seed: int = 0) -> Any:
    return pyapp.Generator(seed)


def picture(height: int = 5, width: int = 7) -> Any:
    values = np.random.default_rng(3).integers(0, 256, (3, height, width)).astype(np.uint8)
    return pyapp.from_numpy(values)


def test_crops_and_flips() -> None:
    x = picture()
    parts = [x[:, i : i + 4, j : j + 5] for i in range(2) for j in range(3)]
    drawn = {tuple(augment.RandomCrop((4, 5))(x, seeded(k)).flatten().tolist()) for k in range(40)}
    assert drawn == {tuple(part.flatten().tolist()) for part in parts}
    assert augment.RandomCrop((9, 11), padding=2, fill=7)(x)[0, 0].tolist() == [7] * 11
    assert augment.CenterCrop((3, 3))(x).equal(x[:, 1:4, 2:5])
    assert augment.RandomHorizontalFlip(1.0)(x).equal(x.flip(2)) and augment.RandomVerticalFlip(1.0)(x).equal(x.flip(1))
    flips = [augment.RandomHorizontalFlip()(x, seeded(k)).equal(x) for k in range(200)]
    assert 70 < sum(flips) < 130
    made = augment.RandomResizedCrop(6)(x, seeded())
    assert made.shape == (3, 6, 6) and made.dtype is pyapp.uint8
    for call, message in (
        (lambda: augment.RandomCrop(6)(x), "5 x 7 pixels, fewer than 6 x 6"),
        (lambda: augment.CenterCrop(9)(x), "fewer"), (lambda: augment.RandomCrop(2)(x[0]), "takes pictures"),
        (lambda: augment.Normalize([0.5], [0.5])(x), "1 means"),
        (lambda: augment.RandomHorizontalFlip(2), "probability"), (lambda: augment.Resize(3, "cubic"), "bicubic"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=message):
            call()


def test_rotation() -> None:
    x = picture(6, 6)
    assert augment.RandomRotation((90, 90))(x).equal(pyapp.rot90(x, 1, (1, 2)))  # counter-clockwise
    wide = pyapp.zeros(1, 5, 9)
    wide[0, 2, 6] = 1.0
    turned = augment.RandomRotation((90, 90))(wide)
    assert turned[0, 0, 4].item() == pytest.approx(1.0, abs=1e-5) and turned.sum().item() == pytest.approx(
        1.0, abs=1e-5
    )
    assert augment.RandomRotation((45, 45), fill=9)(x)[0, 0, 0].item() == 9
    angles = {augment.RandomRotation(20)(x, seeded(k)).sum().item() for k in range(5)}
    assert len(angles) == 5


def test_sizes_are_those_of_pillow() -> None:
    image = pytest.importorskip("PIL.Image")
    x = picture(17, 23) // 2 + 64  # Pillow's bicubic sizes cut values off between rows and columns
    source = image.fromarray(x.permute(1, 2, 0).contiguous().numpy())
    for mode, code in (("bilinear", image.BILINEAR), ("bicubic", image.BICUBIC)):
        for size in ((8, 9), (30, 40)):
            expected = np.asarray(source.resize(size[::-1], code)).transpose(2, 0, 1).astype(int)
            found = augment.Resize(size, mode)(x).numpy().astype(int)
            assert abs(found - expected).max() <= 1
    assert augment.Resize(8)(x).shape == (3, 8, 10)  # the shorter side
    assert augment.Resize((8, 9), "nearest")(x).dtype is pyapp.uint8


def test_colours() -> None:
    import colorsys

    x = picture().float() / 255
    only = [augment.ColorJitter(**{name: (v, v)})(x) for name, v in
            {"brightness": 0.5, "contrast": 0.0, "saturation": 0.0, "hue": 0.25}.items()]  # fmt: skip
    assert only[0].numpy() == pytest.approx(x.numpy() * 0.5, abs=1e-6)
    weights = np.array([0.2989, 0.587, 0.114]).reshape(3, 1, 1)
    grey = (x.numpy() * weights).sum(0)
    assert only[1].numpy() == pytest.approx(np.full((3, 5, 7), grey.mean()), abs=1e-5)
    assert only[2].numpy() == pytest.approx(np.stack([grey] * 3), abs=1e-5)
    for row in range(5):
        h, s, v = colorsys.rgb_to_hsv(*x[:, row, 0].tolist())
        assert only[3][:, row, 0].tolist() == pytest.approx(colorsys.hsv_to_rgb((h + 0.25) % 1, s, v), abs=1e-5)
    jitter = augment.ColorJitter(0.4, 0.4, 0.4, 0.1)
    assert jitter(picture(), seeded(1)).equal(jitter(picture(), seeded(1)))
    assert not jitter(picture(), seeded(1)).equal(jitter(picture(), seeded(2)))
    assert augment.ColorJitter(0.2)(pyapp.full((1, 2, 2), 200, dtype=pyapp.uint8)).dtype is pyapp.uint8


def test_augmented_batches() -> None:
    change = augment.Compose(
        [
            augment.RandomRotation(10),
            augment.RandomCrop(8, padding=1),
            augment.ToFloat(),
            augment.Normalize([0.5], [0.5]),
        ]
    )
    made = Pipeline(datasets.digits()).take(40).shuffle(seed=1).map(augment.on_picture(change), seed=2).batch(16)
    batches = list(made)
    assert [tuple(x.shape) for x, _ in batches] == [(16, 1, 8, 8), (16, 1, 8, 8), (8, 1, 8, 8)]
    assert sum(int(y.sum()) for _, y in batches) == sum(label for _, label in Pipeline(datasets.digits()).take(40))
    assert math.isclose(float(batches[0][0].amin()), -1.0)
    again = list(Pipeline(datasets.digits()).take(40).shuffle(seed=1).map(augment.on_picture(change), seed=2).batch(16))
    assert all(a[0].equal(b[0]) for a, b in zip(batches, again, strict=True))
