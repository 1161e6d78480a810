"""Adapters that pyapp made, read by peft: the same logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.adapters import LoraConfig, add_adapter, load_adapter, save_adapter
from tests.adapters.cases import CASES, TEXT
from tests.models.test_decoders import make

torch: Any = pytest.importorskip("torch")
peft: Any = pytest.importorskip("peft")


@pytest.mark.parametrize("name", CASES)
def test_peft_reads_our_adapters(name: str, tmp_path: Path) -> None:
    from tests.models.make_golden_decoders import model_of

    base, settings = CASES[name]
    ours = make(base, 0)
    add_adapter(ours, LoraConfig(**{key: value for key, value in settings.items() if key != "fan_in_fan_out"}))
    pyapp.manual_seed(0)
    with pyapp.no_grad():
        for parameter in ours.parameters():
            if parameter.requires_grad:
                parameter.add_(pyapp.randn(*parameter.shape) * 0.1)
        expected = ours(pyapp.tensor([TEXT])).numpy()
    save_adapter(ours, tmp_path / "ours")
    theirs = peft.PeftModel.from_pretrained(model_of(base, 0), tmp_path / "ours").eval()
    with torch.no_grad():
        found = theirs(torch.tensor([TEXT])).logits.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    theirs.save_pretrained(tmp_path / "theirs")
    again = make(base, 0)
    load_adapter(again, tmp_path / "theirs")
    with pyapp.no_grad():
        np.testing.assert_allclose(again(pyapp.tensor([TEXT])).numpy(), expected, rtol=1e-4, atol=1e-4)
