"""Encoders, and models with an encoder and a decoder, on a device with memory of its own: the CPU's results, bit for
bit, with gradients, quantised weights, and searches by Graph.
"""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from pyapp.nn import quantize
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from tests.models import sequence_configs, test_sequences
from tests.models.encoder_configs import CONFIGS, OTHER_DEVICE, WIDE, batch, page
from tests.models.test_encoders import make, module_of

from . import device as _device  # noqa: F401 (registers the mirror)

TASKS = ("sequence-classification", "token-classification", "features")  # the first that a model has


def outputs(model: Any, name: str, place: str) -> pyapp.Tensor:
    ids, mask, types = (
        None if rows is None else pyapp.tensor(rows, dtype="int32").to(place) for rows in batch(CONFIGS[name])
    )
    more = (pyapp.from_numpy(values).to(place) for values in page(CONFIGS[name]))
    found: pyapp.Tensor = model(ids, mask, types, *more)
    return found


def gradients(model: Any) -> dict[str, Any]:
    return {key: p.grad.cpu().tolist() for key, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_encoders(name: str) -> None:
    task = next(one for one in TASKS if one in module_of(name).TASKS)
    model, found = make(name, task), []
    for place in ("cpu", "mirror"):
        model.to(place)
        model.requires_grad_()
        model.zero_grad()
        logits = outputs(model, name, place)
        logits.pow(2).sum().backward()
        found.append((logits.detach().cpu().tolist(), gradients(model)))
    assert found[0] == found[1] and len(found[0][1]) > 15
    wide = make(name, task, **WIDE[name]).requires_grad_(False)
    assert quantize(wide, "q8_0")
    with pyapp.no_grad():
        expected = outputs(wide, name, "cpu").tolist()
        assert outputs(wide.to("mirror"), name, "mirror").cpu().tolist() == expected


@pytest.mark.parametrize("name", sequence_configs.OTHER_DEVICE)
def test_encoders_with_decoders(name: str) -> None:
    model, found = test_sequences.make(name), []
    end = {"eos_token_id": 1 if name == "t5" else 2}
    options = SearchOptions.from_files(model.config.to_dict() | end, {}, {"max_new_tokens": 6, "num_beams": 3})
    for place in ("cpu", "mirror"):
        model.to(place)
        model.requires_grad_()
        model.zero_grad()
        ids, mask = (x.to(place) for x in test_sequences.sources())
        tokens = pyapp.tensor(sequence_configs.TEXTS, dtype="int32").to(place)
        logits = model(ids, tokens, mask)
        logits.pow(2).mean().backward()
        *_, texts = search(model, ids, mask, options)
        found.append((logits.detach().cpu().tolist(), texts, gradients(model)))
    assert found[0] == found[1] and len(found[0][2]) > 15
