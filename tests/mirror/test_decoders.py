"""Language models on a device whose memory the host cannot see give the bits that they give on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from pyapp.models.loading.joining import join
from pyapp.nn import quantize
from pyapp.text.generation.generate import Session
from tests.models.decoder_configs import OTHER_DEVICE
from tests.models.test_decoders import BATCH, MASK, TEXT, golden, make

from . import device as _device  # noqa: F401 (registers the mirror)


def results(model: Any) -> list[Any]:
    """Logits of a batch with padding, and of a text that is fed and then continued by Graph."""
    with pyapp.no_grad():
        ids, mask = (pyapp.tensor(rows, dtype="int32").to(model.device) for rows in (BATCH, MASK))
        found = [model(ids, mask).cpu().tolist()]
    session = Session(model, capacity=24)
    logits = session.feed(TEXT)
    for token in (5, 80, 33):
        found.append(list(logits.read_values()))
        logits = session.step(token)
    return [*found, list(logits.read_values())]


@pytest.mark.parametrize("kind", [None, "q8_0"])
@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_decoders(name: str, kind: str | None) -> None:
    model = make(name, golden(name)["salt"])
    model.requires_grad_(False)
    if kind is not None:
        quantize(model, kind)
    join(model)
    expected = results(model)
    model.to("mirror")
    assert str(model.device) == "mirror" and results(model) == expected


@pytest.mark.parametrize("name", ["llama", "gemma3", "mixtral"])
def test_training(name: str) -> None:
    model = make(name, golden(name)["salt"])
    found = []
    for place in ("cpu", "mirror"):
        model.to(place)
        model.requires_grad_()
        model.zero_grad()
        ids = pyapp.tensor([TEXT], dtype="int32").to(place)
        model(ids).pow(2).mean().backward()
        found.append({key: p.grad.cpu().tolist() for key, p in model.named_parameters() if p.grad is not None})
    assert found[0] == found[1]
