"""The reader of printed lines: shapes, the norms folded into filters, its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ArgumentError, ModelError
from pyapp.formats import BytesSource
from pyapp.models.ctc_reader import Config, CtcReader
from pyapp.models.loading.text_readers import LoadedReader, load_reading_model
from pyapp.recipes.reader.export import export

SMALL = {"channels": (4, 6, 8, 8), "width": 12, "layers": 2}


def model(**changes: Any) -> CtcReader:
    pyapp.manual_seed(4)
    return CtcReader(Config("ab é", normalized=True, **{**SMALL, **changes}))


def test_two_places_for_four_columns() -> None:
    found = model().eval()(pyapp.rand(2, 1, 32, 64))
    assert found.shape == (2, 32, 5)
    with pytest.raises(ArgumentError):
        model()(pyapp.rand(2, 3, 32, 64))


def test_folded_norms_compute_the_same(tmp_path: Path) -> None:
    trained = model()
    x = pyapp.rand(3, 1, 32, 48)
    for _ in range(3):  # the running statistics move
        trained(x)
    for norm in (module for module in trained.modules() if hasattr(module, "running_var")):
        pyapp.nn.init.uniform_(norm.weight, 0.5, 1.5)
    trained.eval()
    with pyapp.no_grad():
        wanted = trained(x).numpy()
        assert np.abs(trained.folded()(x).numpy() - wanted).max() < 1e-4
        export(tmp_path, trained)
        sources = {path.name: BytesSource(path.read_bytes(), path.name) for path in tmp_path.iterdir()}
        loaded = load_reading_model(sources)
        assert isinstance(loaded, LoadedReader)
        assert np.abs(loaded.model(x).numpy() - wanted).max() < 0.02  # float16 weights
    assert loaded.config["alphabet"] == "ab é" and not loaded.config["normalized"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"alphabet": ""}, {"alphabet": "aa"}, {"channels": [1, 2, 3]}, {"channels": "1234"}, {"height": 30},
        {"kernel": 4}, {"width": 1 << 20}, {"layers": 0}, {"channels": [1, 2, 3, 1 << 20]},
    ],
    ids=str,
)  # fmt: skip
def test_implausible_configurations_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        Config.from_dict({"alphabet": "abc", **wrong})


def test_a_configuration_is_what_it_writes() -> None:
    config = Config("abc", **SMALL)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
