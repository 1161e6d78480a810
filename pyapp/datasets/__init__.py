"""Data to train with: named datasets, which are downloaded and verified once; pictures in folders, tables, texts."""

from . import augment
from .folders import ImageFolder, read_picture
from .parquet import read_parquet
from .pictures import Pictures, cifar10, cifar100, digits, fashion_mnist, mnist
from .pipeline import Pipeline
from .tables import Table, TensorShards, read_csv, table_of
from .texts import Reviews, Stories, TextLines, TokenWindows, imdb, tiny_stories

__all__ = [
    "ImageFolder", "Pictures", "Pipeline", "Reviews", "Stories", "Table", "TensorShards", "TextLines", "TokenWindows",
    "augment", "cifar10", "cifar100", "digits", "fashion_mnist", "imdb", "mnist", "read_csv", "read_parquet",
    "read_picture", "table_of", "tiny_stories",
]  # fmt: skip
