"""Pictures with classes: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100, and the small digits that ship with pyapp."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pyapp.engine.ops import cat
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError, OptionError
from pyapp.utils.data import Dataset

from .archives import members
from .files import AnyFolder, DataFile, obtain
from .idx import read_idx

DIGITS = 1797
FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")

MNIST_HOSTS = ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/")
FASHION_HOSTS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
)


def _files(hosts: Sequence[str], *rows: tuple[str, int, str]) -> dict[str, DataFile]:
    return {name: DataFile(name, tuple(host + name for host in hosts), size, sha256) for name, size, sha256 in rows}


IDX_FILES = {
    "mnist": _files(
        MNIST_HOSTS,
        ("train-images-idx3-ubyte.gz", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ("train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ("t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ("t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    "fashion-mnist": _files(
        FASHION_HOSTS,
        ("train-images-idx3-ubyte.gz", 26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        ("train-labels-idx1-ubyte.gz", 29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ("t10k-images-idx3-ubyte.gz", 4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        ("t10k-labels-idx1-ubyte.gz", 5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
}
# The binary files: plain records, no pickles.
CIFAR_FILES = _files(
    ("https://www.cs.toronto.edu/~kriz/",),
    ("cifar-10-binary.tar.gz", 170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    ("cifar-100-binary.tar.gz", 168513733, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),
)


class Pictures(Dataset[tuple[Any, int]]):
    """Examples (picture, class): pictures uint8 (C, H, W), or what `transform` makes of them, and the class's number.

    images uint8 (N, C, H, W), labels int64 (N,), `classes` the names by number.
    """

    def __init__(
        self, images: Tensor, labels: Tensor, classes: Sequence[str], transform: Callable[[Tensor], Any] | None = None
    ) -> None:
        if images.shape[0] != labels.shape[0]:
            raise OptionError(f"Pictures: {images.shape[0]:,} pictures, but {labels.shape[0]:,} labels")
        self.images, self.labels, self.classes, self.transform = images, labels, tuple(classes), transform
        self._labels = labels.tolist()

    def __len__(self) -> int:
        return int(self.images.shape[0])

    def __getitem__(self, index: int) -> tuple[Any, int]:
        picture = self.images[index]
        return (picture if self.transform is None else self.transform(picture)), self._labels[index]

    def __repr__(self) -> str:
        size = "x".join(map(str, self.images.shape[1:]))
        return f"<Pictures: {len(self):,} of {size} in {len(self.classes)} classes>"


def _part(split: str, dataset: str) -> bool:
    """Whether it is the training part. OptionError."""
    if split not in ("train", "test"):
        raise OptionError(f"split is 'train' or 'test', not {split!r}", where=dataset)
    return split == "train"


def _checked(labels: Tensor, classes: int, where: Any) -> Tensor:
    if labels.numel() and int(labels.amax()) >= classes:
        raise FileFormatError(f"a label is {int(labels.amax())}, there are {classes} classes", where=str(where))
    return labels.long()


def _idx_pictures(
    dataset: str, split: str, classes: Sequence[str], transform: Callable[[Tensor], Any] | None, folder: AnyFolder
) -> Pictures:
    part = "train" if _part(split, dataset) else "t10k"
    files = IDX_FILES[dataset]
    of_images = obtain(dataset, files[f"{part}-images-idx3-ubyte.gz"], folder)
    of_labels = obtain(dataset, files[f"{part}-labels-idx1-ubyte.gz"], folder)
    images = read_idx(of_images, (None, 28, 28)).unsqueeze(1)  # (N, 1, 28, 28)
    labels = read_idx(of_labels, (images.shape[0],))  # (N,)
    return Pictures(images, _checked(labels, 10, of_labels), classes, transform)


def mnist(
    split: str = "train", *, transform: Callable[[Tensor], Any] | None = None, folder: AnyFolder = None
) -> Pictures:
    """Handwritten digits (LeCun, Cortes and Burges): 60,000 ("train") or 10,000 ("test") pictures (1, 28, 28), 12 MB.

    The files are in `folder`, or downloaded to the cache (PYAPP_DATASETS) and verified. OptionError, FileFormatError,
    DownloadError, StorageFullError.
    """
    return _idx_pictures("mnist", split, [str(k) for k in range(10)], transform, folder)


def fashion_mnist(
    split: str = "train", *, transform: Callable[[Tensor], Any] | None = None, folder: AnyFolder = None
) -> Pictures:
    """Clothes in MNIST's form (Xiao, Rasul and Vollgraf 2017): 60,000 or 10,000 pictures (1, 28, 28), 31 MB; as
    `mnist`.
    """
    return _idx_pictures("fashion-mnist", split, FASHION, transform, folder)


def cifar10(
    split: str = "train", *, transform: Callable[[Tensor], Any] | None = None, folder: AnyFolder = None
) -> Pictures:
    """CIFAR-10 (Krizhevsky 2009): 50,000 or 10,000 photographs (3, 32, 32) of ten kinds, 170 MB; as `mnist`."""
    names = [f"data_batch_{k}.bin" for k in range(1, 6)] if _part(split, "cifar10") else ["test_batch.bin"]
    return _cifar("cifar-10-binary.tar.gz", names, "batches.meta.txt", 1, 0, 10, transform, folder)


def cifar100(
    split: str = "train", *, coarse: bool = False, transform: Callable[[Tensor], Any] | None = None,
    folder: AnyFolder = None,
) -> Pictures:  # fmt: skip
    """CIFAR-100 (Krizhevsky 2009): 50,000 or 10,000 photographs (3, 32, 32) of a hundred kinds, or with `coarse` of
    twenty groups, 169 MB; as `mnist`.
    """
    names = ["train.bin"] if _part(split, "cifar100") else ["test.bin"]
    meta = "coarse_label_names.txt" if coarse else "fine_label_names.txt"
    return _cifar(
        "cifar-100-binary.tar.gz", names, meta, 2, 0 if coarse else 1, 20 if coarse else 100, transform, folder
    )


def _cifar(
    archive: str, names: list[str], meta: str, label_bytes: int, label: int, classes: int,
    transform: Callable[[Tensor], Any] | None, folder: AnyFolder,
) -> Pictures:  # fmt: skip
    """Reads records of `label_bytes` bytes and a picture of 3,072 bytes. Byte `label` of a record is the class."""
    path = obtain(archive.split("-binary")[0], CIFAR_FILES[archive], folder)
    width = label_bytes + 3072
    found = _members(path, [*names, meta], 10_000 * width if label_bytes == 1 else 50_000 * width)
    parts = []
    for name in names:
        data = found[name]
        if not data or len(data) % width:
            raise FileFormatError(f"{name} has {len(data):,} bytes, records have {width:,}", where=str(path))
        parts.append(Tensor.from_buffer(data, (len(data) // width, width), "uint8"))  # (n, width)
    rows = cat(parts)  # (N, width)
    labels = _checked(rows[:, label], classes, path)
    texts = [line.strip() for line in found[meta].decode("utf-8", "replace").splitlines() if line.strip()]
    if len(texts) != classes:
        raise FileFormatError(f"{meta} has {len(texts)} names, expected {classes}", where=str(path))
    return Pictures(rows[:, label_bytes:].reshape(-1, 3, 32, 32), labels, texts, transform)


def _members(path: Path, names: list[str], limit: int) -> dict[str, bytes]:
    """Files of an archive by the last part of their names, each of at most `limit` bytes; nothing is unpacked to disk.
    FileFormatError."""
    found: dict[str, bytes] = {}
    for name, data in members(path, lambda name: name.rsplit("/", 1)[-1] in names, limit):
        found[name.rsplit("/", 1)[-1]] = data
        if len(found) == len(names):
            break
    for name in names:
        if name not in found:
            raise FileFormatError(f"the archive has no {name}", where=str(path), hint="Download it again")
    return found


def digits(*, transform: Callable[[Tensor], Any] | None = None) -> Pictures:
    """Small handwritten digits: 1,797 pictures (1, 8, 8) with values 0 to 16. They are part of pyapp.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits (1998), UCI Machine Learning
    Repository, doi 10.24432/C50P49, CC BY 4.0; the test part, in the order of scikit-learn's `load_digits`.
    """
    packed = resources.files("pyapp.datasets").joinpath("digits.bin").read_bytes()
    data = zlib.decompress(packed)
    images = Tensor.from_buffer(data[DIGITS:], (DIGITS, 1, 8, 8), "uint8")
    labels = Tensor.from_buffer(data[:DIGITS], (DIGITS,), "uint8").long()
    return Pictures(images, labels, [str(k) for k in range(10)], transform)
