"""Segment Anything and MobileSAM against their authors' libraries (make_golden_original_sams.py): files without a
config.json, outputs and gradients.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError
from pyapp.formats.safetensors import write_safetensors
from pyapp.formats.source import BytesSource
from pyapp.models.loading import bare_files, segment_anything
from pyapp.models.loading.pictures import load_image_model
from tests.models.original_sam_configs import BOX, CONFIGS, LABELS, POINTS, SIDES
from tests.models.seeded import direction, picture, picture_weights, shown
from tests.models.small_models import along, golden_in

golden = golden_in("golden_original_sams")


def file_of(name: str, without: str = "-") -> BytesSource:
    """The file of the tensors whose names do not begin with `without`."""
    tensors = {
        key: picture_weights(f"net.{key}", tuple(shape)) if shape else np.array(0, np.int64)
        for key, (shape, *_) in golden(name)["tensors"].items()
        if not key.startswith(without)
    }
    file = BytesIO()
    write_safetensors(file, {key: pyapp.from_numpy(value) for key, value in tensors.items()})
    return BytesSource(file.getvalue(), f"{name}.safetensors")


@pytest.mark.parametrize("name", CONFIGS)
def test_outputs_and_gradients_are_those_of_the_authors(name: str) -> None:
    config, side = CONFIGS[name], SIDES[name]
    expected, file = golden(name), file_of(name)
    settings = bare_files.settings_in(file)
    assert json.loads(json.dumps(settings)) == config
    settings["vision_config"]["image_size"] = side  # which MobileSAM's files do not say
    frame = {"height": side, "width": side}
    written = {"config.json": settings, "preprocessor_config.json": {"pad_size": frame, "size": {"longest_edge": side}}}
    files = {key: BytesSource(json.dumps(value).encode(), key) for key, value in written.items()}
    model: Any = load_image_model(files | {"model.safetensors": file}, "mask-generation").model
    model.requires_grad_()
    seen = model.features(pyapp.from_numpy(picture(1, side, side)))
    outputs = [
        *model.masks(seen, pyapp.tensor([[POINTS]]), pyapp.tensor([[LABELS]])),
        *model.masks(seen, boxes=pyapp.tensor([[BOX]]), several=False),
    ]
    total = pyapp.tensor(0.0)
    for output, wanted in zip(outputs, expected["outputs"], strict=True):
        own = output.squeeze(0)
        np.testing.assert_allclose(shown(own.detach().numpy()), wanted, atol=1e-4, rtol=1e-4)
        total = total + along(own, name)
    total.backward()
    parameters = dict(model.named_parameters())
    places = {entry.names[0]: own for own, entry in segment_anything.stored(expected["tensors"]).items()}
    compared = 0
    for key, (shape, *product) in expected["tensors"].items():
        if product:
            grad = parameters[places.get(key) or segment_anything.renamed(key)].grad.numpy().astype(np.float64)
            found = (grad.reshape(shape) * direction(key, tuple(shape))).sum()
            np.testing.assert_allclose(found, product[0], rtol=2e-3, atol=2e-3, err_msg=key)
            compared += 1
    assert compared > 80


def test_files_that_are_not_whole_are_refused() -> None:
    for without, message in (
        ("image_encoder.blocks", "not those of Segment Anything"), ("mask_decoder.iou_token", "config.json is missing"),
        ("mask_decoder.output_upscaling.1", "missing: mask_decoder.upscale_layer_norm"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=message):
            load_image_model({"sam.safetensors": file_of("sam", without)}, "mask-generation")
