"""The texts of modules and optimisers are torch's."""

from __future__ import annotations

import json
from pathlib import Path

import pyapp
from tests.nn.text_cases import TEXTS, text_of
from tests.together import check_each

GOLDEN = json.loads(Path(__file__).with_name("golden_texts.json").read_text())


def test_texts() -> None:
    def check(name: str) -> None:
        assert text_of(pyapp, name) == GOLDEN[name]

    check_each(check, [(name,) for name in TEXTS])


def test_settings_as_in_torch() -> None:
    """Settings that a layer fills in are there as torch has them."""
    nn = pyapp.nn
    assert nn.MaxPool2d((1, 2)).stride == (1, 2) and nn.AvgPool1d(2).kernel_size == (2,)
    assert nn.Upsample(scale_factor=2).scale_factor == 2.0 and nn.MaxUnpool3d(2).stride == (2, 2, 2)
    group = pyapp.optim.Adam([nn.Parameter(pyapp.ones(2))], fused=True).param_groups[0]
    assert (group["fused"], group["foreach"], group["capturable"], group["weight_decay"]) == (True, None, False, 0)
