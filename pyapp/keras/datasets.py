"""Datasets by Keras' names: `keras.datasets.mnist.load_data()`. More are in `pyapp.datasets`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import datasets
from ..datasets import Pictures
from ..datasets.arrays import read_arrays
from ..datasets.files import AnyFolder, DataFile, obtain
from ..engine.lazy import np
from ..errors import FileFormatError
from ..formats.safe_json import parse_json
from .importable import importable

__all__ = [
    "boston_housing", "california_housing", "cifar10", "cifar100", "fashion_mnist", "imdb", "mnist", "reuters",
]  # fmt: skip

Arrays = tuple[tuple[Any, Any], tuple[Any, Any]]
_PLACE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_TOPICS = (
    "cocoa grain veg-oil earn acq wheat copper housing money-supply coffee sugar trade reserves ship cotton carcass "
    "crude nat-gas cpi money-fx interest gnp meal-feed alum oilseed gold tin strategic-metal livestock retail ipi "
    "iron-steel rubber heat jobs lei bop zinc orange pet-chem dlr gas silver wpi hog lead"
)  # of the classes of Reuters, by their numbers


class _Named:
    """A dataset of Keras. `load_data()` gives ((x, y), (x, y)) of NumPy arrays, for training and for tests."""

    def __init__(self, load: Callable[..., Pictures], colour: bool) -> None:
        self._load, self._colour = load, colour

    def load_data(self, **settings: Any) -> Arrays:
        """uint8 arrays: pictures (N, 28, 28) and labels (N,) of MNIST and Fashion-MNIST, pictures (N, 32, 32, 3) and
        labels (N, 1) of CIFAR. cifar100 takes label_mode="fine" or "coarse"; `folder` has the files, or they are
        downloaded and verified.
        """
        if self is cifar100:
            mode = settings.pop("label_mode", "fine")
            if mode not in ("fine", "coarse"):
                raise ValueError(f"load_data: label_mode is 'fine' or 'coarse', not {mode!r}")
            settings["coarse"] = mode == "coarse"
        train, test = (self._arrays(self._load(part, **settings)) for part in ("train", "test"))
        return train, test

    def _arrays(self, pictures: Pictures) -> tuple[Any, Any]:
        labels = pictures.labels.numpy().astype("uint8")
        if self._colour:
            return pictures.images.permute(0, 2, 3, 1).contiguous().numpy(), labels.reshape(-1, 1)
        return pictures.images[:, 0].contiguous().numpy(), labels


class _Files:
    """The files of a dataset: an archive of arrays, and what belongs to it."""

    def __init__(self, name: str, sha256: str, words_md5: str = "") -> None:
        self.name = name
        self.archive = DataFile(f"{name}.npz", (f"{_PLACE}{name}.npz",), sha256=sha256)
        index = f"{name}_word_index.json"
        self.index = DataFile(index, (_PLACE + index,), sha256="", md5=words_md5)

    def arrays(self, names: str, folder: AnyFolder) -> list[Any]:
        return read_arrays(obtain(self.name, self.archive, folder), tuple(names.split()))

    def word_index(self, folder: AnyFolder) -> dict[str, int]:
        path = obtain(self.name, self.index, folder)
        try:
            found = parse_json(path.read_bytes())
        except ValueError as error:
            raise FileFormatError("it is no JSON", where=path.name, hint="Download it again") from error
        if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
            raise FileFormatError("it is no index of words", where=path.name, hint="Download it again")
        return found


class _Texts:
    """Texts as lists of the numbers of their words, most frequent first, with a class each."""

    def __init__(self, files: _Files) -> None:
        self._files = files

    def get_word_index(self, path: str | None = None, folder: AnyFolder = None) -> dict[str, int]:
        """The number of each word, without `index_from`. `path`, a name in Keras' cache, has no effect."""
        return self._files.word_index(folder)


def _shuffled(seed: int, *arrays: Any) -> list[Any]:
    """Arrays in the order that Keras gives them."""
    order = np.arange(len(arrays[0]))
    np.random.RandomState(seed).shuffle(order)
    return [array[order] for array in arrays]


def _begun(rows: Any, labels: Any, start_char: int | None, index_from: int, maxlen: int | None) -> tuple[Any, Any]:
    """Rows with the number of their beginning, those of words later by `index_from`; of those shorter than maxlen."""
    first = [] if start_char is None else [start_char]
    rows = [first + [number + index_from for number in row] for row in rows]
    if maxlen is None:
        return rows, labels
    kept = [place for place, row in enumerate(rows) if len(row) < maxlen]
    if not kept:
        raise ValueError(f"load_data: no text is shorter than maxlen={maxlen}")
    return [rows[place] for place in kept], labels[kept]


def _limited(rows: list[Any], num_words: int | None, skip_top: int, oov_char: int | None) -> list[Any]:
    """Rows with `oov_char` in place of words that are too rare, or too frequent; without them, if it is None."""
    most = max(max(row, default=0) for row in rows) if not num_words else num_words
    if oov_char is None:
        return [[number for number in row if skip_top <= number < most] for row in rows]
    return [[number if skip_top <= number < most else oov_char for number in row] for row in rows]


def _as_objects(rows: list[Any]) -> Any:
    found = np.empty(len(rows), dtype=object)
    found[:] = rows
    return found


class _Imdb(_Texts):
    def load_data(
        self, path: str | None = None, num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None,
        seed: int = 113, start_char: int | None = 1, oov_char: int | None = 2, index_from: int = 3,
        folder: AnyFolder = None,
    ) -> Arrays:  # fmt: skip
        """25,000 film reviews for training and as many for tests (Maas and others 2011), as lists of numbers of words
        in arrays (N,) of dtype object, and labels (N,): 1 for positive ones. 0 is for padding, `start_char` the
        beginning, `oov_char` a word from number `num_words` on, or one before `skip_top`. `folder` has imdb.npz, or it
        is downloaded and verified; `path`, a name in Keras' cache, has no effect.
        """
        parts = self._files.arrays("x_train y_train x_test y_test", folder)
        random = np.random.RandomState(seed)  # one for both parts, as in Keras
        found = []
        for rows, labels in (parts[:2], parts[2:]):
            order = np.arange(len(rows))
            random.shuffle(order)
            found.append(_begun(rows[order], labels[order], start_char, index_from, maxlen))
        (train, y_train), (test, y_test) = found
        rows = _limited([*train, *test], num_words, skip_top, oov_char)
        return (_as_objects(rows[: len(train)]), y_train), (_as_objects(rows[len(train) :]), y_test)


class _Reuters(_Texts):
    def load_data(
        self, path: str | None = None, num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None,
        test_split: float = 0.2, seed: int = 113, start_char: int | None = 1, oov_char: int | None = 2,
        index_from: int = 3, folder: AnyFolder = None,
    ) -> Arrays:  # fmt: skip
        """11,228 news of 46 topics (Reuters 1987), as lists of numbers of words in arrays (N,) of dtype object, and
        topics (N,). The numbers are those of `imdb`. `folder` has reuters.npz, or it is downloaded and verified.
        """
        rows, labels = _shuffled(seed, *self._files.arrays("x y", folder))
        rows, labels = _begun(rows, labels, start_char, index_from, maxlen)
        rows = _limited(rows, num_words, skip_top, oov_char)
        cut = int(len(rows) * (1 - test_split))
        return (_as_objects(rows[:cut]), labels[:cut]), (_as_objects(rows[cut:]), labels[cut:])

    def get_label_names(self) -> tuple[str, ...]:
        """The topics by their numbers."""
        return tuple(_TOPICS.split())


class _Houses:
    """Districts or suburbs with the prices of their houses."""

    def __init__(self, files: _Files) -> None:
        self._files = files

    def _parts(self, rows: Any, prices: Any, test_split: float, seed: int) -> Arrays:
        if not 0 <= test_split < 1:
            raise ValueError(f"load_data: test_split is from 0 to below 1, not {test_split!r}")
        rows, prices = _shuffled(seed, rows, prices)
        cut = int(len(rows) * (1 - test_split))
        return (rows[:cut], prices[:cut]), (rows[cut:], prices[cut:])


class _California(_Houses):
    def load_data(
        self, version: str = "large", path: str | None = None, test_split: float = 0.2, seed: int = 113,
        folder: AnyFolder = None,
    ) -> Arrays:  # fmt: skip
        """20,640 districts of California in 1990 (version="small": 600 of them): float32 (N, 8) and the median prices
        (N,) in dollars. `folder` has california_housing.npz, or it is downloaded and verified.
        """
        if version not in ("small", "large"):
            raise ValueError(f"load_data: version is 'small' or 'large', not {version!r}")
        rows, prices = self._files.arrays("x y", folder)
        count = 600 if version == "small" else len(rows)
        return self._parts(rows[:count], prices[:count], test_split, seed)


class _Boston(_Houses):
    def load_data(
        self, path: str | None = None, test_split: float = 0.2, seed: int = 113, folder: AnyFolder = None
    ) -> Arrays:
        """506 suburbs of Boston in 1978: (N, 13) and the median prices (N,) in thousands of dollars. One column codes
        how many residents are Black: take `california_housing` for lessons. `folder` has boston_housing.npz, or it is
        downloaded and verified.
        """
        rows, prices = self._files.arrays("x y", folder)
        return self._parts(rows, prices, test_split, seed)


mnist, fashion_mnist = _Named(datasets.mnist, False), _Named(datasets.fashion_mnist, False)
cifar10, cifar100 = _Named(datasets.cifar10, True), _Named(datasets.cifar100, True)
imdb = _Imdb(
    _Files(
        "imdb", "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f", "bfafd718b763782e994055a2d397834f"
    )
)
reuters = _Reuters(
    _Files(
        "reuters", "d6586e694ee56d7a4e65172e12b3e987c03096cb01eab99753921ef915959916",
        "4d44cc38712099c9e383dc6e5f11a921",
    )
)  # fmt: skip
california_housing = _California(
    _Files("california_housing", "1a2e3a52e0398de6463aebe6f4a8da34fb21fbb6b934cf88c3425e766f2a1a6f")
)
boston_housing = _Boston(_Files("boston_housing", "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5"))
importable(__name__, **{_name: globals()[_name] for _name in __all__})
