"""pyapp/nn/_index.py lists the names that the files of layers and losses declare, and every name exists."""

from __future__ import annotations

import pickle

import pytest

import pyapp
from pyapp import nn, optim
from pyapp.nn import _index, functional, utils


@pytest.mark.native_only
def test_the_index_is_what_the_files_declare() -> None:
    from scripts.nn_index import TARGET, source, stubs

    assert TARGET.read_text() == source(), "run python -m scripts.nn_index"
    assert all(path.read_text() == text for path, text in stubs().items()), "run python -m scripts.nn_index"


def test_no_name_is_declared_twice() -> None:
    for names in (_index.MODULES, _index.FUNCTIONS, _index.UTILITIES):
        every = " ".join(names.values()).split()
        assert len(every) == len(set(every))


@pytest.mark.parametrize("package", [nn, functional, utils, optim])
def test_every_public_name_is_there(package: object) -> None:
    names = package.__all__  # type: ignore[attr-defined]
    assert len(names) > 10 and set(names) <= set(dir(package))
    assert all(getattr(package, name) is not None for name in names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="pyapp.optim"):
        nn.AdamW  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        functional.nonsense  # noqa: B018


@pytest.mark.parametrize("layer", [
    nn.ReLU(), nn.MSELoss(), nn.MaxPool2d(2), nn.ZeroPad2d(1), nn.Dropout(0.5), nn.TransformerEncoderLayer(8, 2, 4),
])  # fmt: skip
def test_layers_of_functions_can_be_pickled(layer: nn.Module) -> None:
    """pickle finds a class, and an op that a layer has, by its module and name."""
    again = pickle.loads(pickle.dumps(layer))
    assert type(again) is type(layer) and repr(again) == repr(layer)
    assert pyapp.nn.__name__ in type(layer).__module__
