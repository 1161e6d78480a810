"""Models of pictures, and the texts that they write, on a device whose memory the host cannot see: the CPU's bits."""

from __future__ import annotations

import pytest

import pyapp
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from tests.models.picture_configs import OTHER_DEVICE, sizes
from tests.models.seeded import picture
from tests.models.test_pictures import CASES, make, run

from . import device as _device  # noqa: F401 (registers the mirror)
from .test_models import move


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_outputs_on_another_device(name: str) -> None:
    task = dict(CASES)[name]  # its last one
    model = make(name, task)
    options = SearchOptions.from_files({"decoder_start_token_id": 2, "eos_token_id": 5}, {}, {"max_new_tokens": 4})

    def results(device: str) -> list[object]:
        found: list[object] = []
        with pyapp.no_grad():
            for size in sizes(name):
                found.append([part.cpu().tolist() for part in run(model, task, size, device)])
                if task == "image-to-text":
                    *_, texts = search(model, pyapp.from_numpy(picture(2, *size)).to(device), None, options)
                    found.append(texts)
        return found

    expected = results("cpu")
    move(model)
    assert model.device == pyapp.device("mirror") and results("mirror") == expected
