"""Image processors against transformers (make_golden_processors.py), and settings that cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.vision.headers import header
from pyapp.vision.processors import ImageProcessor
from tests.models.seeded import shown
from tests.vision.processor_cases import CASES, TOGETHER, pictures

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_processors.json").read_text())


def processor(name: str, **changes: Any) -> ImageProcessor:
    kind, settings = CASES[name]
    return ImageProcessor.from_settings({"image_processor_type": f"{kind}ImageProcessor", **settings, **changes})


@pytest.mark.parametrize("name", CASES)
def test_pictures_are_prepared_as_by_transformers(name: str) -> None:
    images = [pyapp.from_numpy(picture) for picture in pictures(name)]
    made = processor(name)
    batches = [images] if name in TOGETHER else [[image] for image in images]
    for batch, (shape, numbers, seen) in zip(batches, GOLDEN[name], strict=True):
        if name.startswith(("lfm2_vl", "idefics2")):  # tiles, and the whole of another size
            parts = made.by_size(*batch)
            values = np.concatenate([part.numpy().reshape(-1) for part in parts])
            assert [sum(part.shape[0] for part in parts)] == shape
            np.testing.assert_allclose(shown(values, 96), numbers, atol=0.02, rtol=1e-5)
            continue
        found = made(batch)
        assert list(found.pixel_values.shape) == shape
        assert made.fixed_size in (None, tuple(shape[2:]))
        # Pillow 13, with which the newest cases were made, rounds bilinear means otherwise: by one of 255 levels.
        # So does torchvision, with which Llama 4's were.
        near = (
            0.02
            if name
            in (
                "mask2former",
                "grounding_dino",
                "llama4",
                "mllama",
                "nougat",
                "pvt",
                "glpn",
                "sam3",
                "eomt",
                "eomt_split",
                "cohere2_vision",
            )
            else 1e-4
        )
        np.testing.assert_allclose(shown(found.pixel_values.numpy(), 96), numbers, atol=near, rtol=1e-5)
        if seen is not None and seen != shape[0] * shape[2] * shape[3]:
            assert found.mask is not None and list(found.mask.shape) == [shape[0], *shape[2:]]
            assert int(found.mask.sum()) == seen
        assert found.sizes == tuple(tuple(image.shape[:2]) for image in batch)


@pytest.mark.native_only
def test_questions_stand_above_pictures(tmp_path: Path) -> None:
    font = tmp_path / "font.ttf"
    font.write_bytes(pytest.importorskip("PIL.ImageFont").load_default(36).path.getvalue())
    picture = pyapp.full((30, 40, 3), 200, dtype="uint8")
    long = header("What does the chart say of the years between the first and the last of its columns, and why?",
                  font)(picture).numpy()  # fmt: skip
    short = header("Why?", font)(picture).numpy()
    for whole in (long, short):
        high = int(30 * whole.shape[1] / 40)
        assert (whole[-high:] == 200).all() and (whole[0] == 255).all() and (whole[:-high] < 60).any()
    assert long.shape[1] > 1000 and short.shape[0] < 200
    made: Any = processor("pix2struct", is_vqa=True)
    with pytest.raises(ArgumentError, match="give a prompt"):
        made([picture])
    asked = replace(made, header=header("Why?", font))
    above = processor("pix2struct")([pyapp.from_numpy(short)]).pixel_values
    np.testing.assert_array_equal(asked([picture]).pixel_values.numpy(), above.numpy())
    for words, file, told in ((" ", font, "empty"), ("Why?", __file__, "cannot be read")):
        with pytest.raises(OptionError, match=told):
            header(words, file)


def test_tiles_of_pictures() -> None:
    """The sizes and numbers that transformers computes, of the longest side and of a tile's."""
    for height, width, longest, side, seen, tiles in (
        (1101, 4663, 2048, 512, (484, 2048), (1, 4)), (251, 183, 2048, 512, (2048, 1494), (4, 3)),
        (2090, 966, 5001, 400, (4096, 1893), (11, 6)), (5745, 5745, 5001, 400, (4096, 4095), (11, 11)),
        (1, 6000, 2048, 512, (1, 2048), (1, 4)), (300, 300, 512, 512, (512, 512), (0, 0)),
    ):  # fmt: skip
        made = processor("smolvlm", size={"longest_edge": longest}, max_image_size={"longest_edge": side})
        assert made.seen(height, width) == seen and made.tiles(height, width) == tiles
    assert processor("gemma3").tiles(100, 3) == (0, 0)
    for height, width, seen, tiles in (  # transformers' smart_resize
        (30, 41, (20, 30), (2, 3)), (5, 7, (20, 30), (2, 3)), (1, 200, (10, 290), (1, 29)), (24, 26, (20, 30), (2, 3)),
    ):  # fmt: skip
        made = processor("qwen2_vl")
        assert made.seen(height, width) == seen and made.tiles(height, width) == tiles
    with pytest.raises(ArgumentError, match="too narrow"):
        processor("qwen2_vl").seen(1, 201)
    for change in ({"patch_size": 0}, {"merge_size": "2"}, {"min_pixels": -1}, {"max_pixels": 1 << 40},
                   {"size": {"height": 4, "width": 4}}):  # fmt: skip
        with pytest.raises(ModelError, match="preprocessor_config.json"):
            processor("qwen2_vl", **change)
    for change in ({"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 8}}, {"size": square_of(24)},
                   {"max_image_size": square_of(24)}):  # fmt: skip
        with pytest.raises(ModelError, match="preprocessor_config.json"):
            processor("smolvlm", **change)
    assert processor("pixtral").tiles(30, 41) == (5, 7) and processor("pixtral", merge_size=2).tiles(30, 41) == (3, 4)
    for height, width, tiles in (  # transformers' get_optimal_tiled_canvas
        (400, 420, (3, 3)), (401, 2100, (1, 5)), (60, 60, (3, 3)), (9, 9, (0, 0)), (28, 14, (2, 1)),
    ):  # fmt: skip
        made = processor("internvl", size=square_of(14), min_patches=1, max_patches=12)
        assert made.tiles(height, width) == tiles
    for height, width, largest, tiles in (  # transformers' get_best_fit
        (300, 801, False, (1, 3)), (300, 300, True, (4, 4)), (336, 336, False, (0, 0)), (5000, 2500, False, (5, 3)),
        (12, 1500, False, (1, 5)), (700, 300, True, (5, 3)),
    ):  # fmt: skip
        made = processor("llama4", size=square_of(336), max_patches=16, resize_to_max_canvas=largest)
        assert made.tiles(height, width) == tiles, (height, width, made.tiles(height, width))
    for height, width, tiles in (  # transformers' get_optimal_tiled_canvas
        (300, 801, (1, 2)), (560, 560, (1, 1)), (561, 560, (2, 1)), (5000, 5000, (2, 2)), (9, 1500, (1, 3)),
        (1, 1, (1, 1)), (5000, 1000, (4, 1)), (700, 700, (2, 2)),
    ):  # fmt: skip
        made = processor("mllama", size=square_of(560))
        assert made.tiles(height, width) == tiles, (height, width, made.tiles(height, width))
    for name, changes in (
        ("mllama", [{"do_resize": False}, {"size": {"height": 4, "width": 8}}]),
        ("mllama", [{"max_image_tiles": 0}, {"max_image_tiles": 65}, {"max_image_tiles": "a"}]),
        ("lfm2_vl", [{"tile_size": 15}, {"min_tiles": 9}, {"max_image_tokens": 0}, {"encoder_patch_size": "a"}]),
        ("llama4", [{"do_resize": False}, {"max_patches": 0}, {"size": {"height": 4, "width": 8}}]),
        ("pixtral", [{"patch_size": {"height": 2, "width": 3}}, {"merge_size": 0}, {"size": {"shortest_edge": 4}}]),
        ("llava_next", [{"image_grid_pinpoints": sizes} for sizes in ([], [[14, 15]], [[14]], "many", [[9999, 14]])]),
        ("internvl", [{"max_patches": 0}, {"min_patches": 9}, {"max_patches": 1 << 20}, {"min_patches": "a"}]),
    ):  # fmt: skip
        for change in changes:
            with pytest.raises(ModelError, match="preprocessor_config.json"):
                processor(name, **change)
    with pytest.raises(ModelError, match="only Gemma 3's"):
        processor("siglip", do_pan_and_scan=True)


def test_crops_of_pictures() -> None:
    """Gemma 3's, by transformers' rules; nothing that is given for them counts without them."""
    usual = processor("gemma3", do_pan_and_scan=True, pan_and_scan_min_crop_size=None)
    for height, width, crops in (
        (256, 306, (0, 0)), (256, 512, (1, 2)), (1000, 3000, (1, 3)), (3000, 1000, (3, 1)), (600, 9000, (1, 4)),
        (512, 512, (0, 0)), (400, 500, (0, 0)), (500, 620, (1, 2)), (255, 1024, (0, 0)),
    ):  # fmt: skip
        assert usual.tiles(height, width) == crops, (height, width)
    assert processor("gemma3").tiles(1000, 3000) == (0, 0)
    small = processor("gemma3", do_pan_and_scan=True, pan_and_scan_min_crop_size=1)
    assert small.tiles(1, 5) == (1, 3)  # four crops of 2 would have nothing in the last one
    assert small([pyapp.zeros(1, 5, 3, dtype="uint8")]).pixel_values.shape == (4, 3, 24, 24)
    for change in ({"pan_and_scan_min_crop_size": 0}, {"pan_and_scan_max_num_crops": 33},
                   {"pan_and_scan_min_ratio_to_activate": 0}, {"do_pan_and_scan": "yes"}):  # fmt: skip
        with pytest.raises(ModelError, match="preprocessor_config.json"):
            processor("gemma3", **{"do_pan_and_scan": True, **change})


def test_older_files() -> None:
    """One number for the size, two for Donut's, the name of the feature extractor or none, one number for the mean."""
    old = ImageProcessor.from_settings
    assert old({"feature_extractor_type": "ViTFeatureExtractor", "size": 384}).size == {"height": 384, "width": 384}
    assert old({"size": 224, "crop_size": 200}, "CLIP").size == {"shortest_edge": 224}
    assert old({"crop_size": 200}, "CLIP").fixed_size == (200, 200)
    assert old({"image_processor_type": "DonutFeatureExtractor", "size": [960, 1280]}).fixed_size == (1280, 960)
    assert old({"size": 800, "max_size": 1333}, "Detr").size == {"shortest_edge": 800, "longest_edge": 1333}
    assert old({"image_mean": 0.5, "image_std": 0.25}, "ViT").image_std == (0.25,) * 3
    assert old({"image_processor_type": "ViTImageProcessorFast"}).kind == "ViT"
    assert old({}, "DeiT").do_center_crop and not old({}, "ViT").do_center_crop


def test_settings_that_cannot_be_are_refused() -> None:
    for change in (
        {"size": 0}, {"size": {"height": 3}}, {"size": {"height": 1 << 20, "width": 3}}, {"size": "large"},
        {"size": [1, 2, 3]}, {"resample": 9}, {"resample": True}, {"image_std": [0.5, 0, 0.5]}, {"image_mean": [1, 2]},
        {"image_mean": [1, 2, float("nan")]}, {"rescale_factor": 0}, {"rescale_factor": "1"}, {"do_resize": 1},
        {"crop_size": {"shortest_edge": 4}}, {"image_processor_type": "FluxImageProcessor"},
    ):  # fmt: skip
        with pytest.raises(ModelError, match="preprocessor_config.json"):
            processor("vit", **change)
    for name in ("owlv2", "llama4", "mllama", "depth_pro", "zoedepth"):  # whose pictures have one height and width
        with pytest.raises(ModelError, match="preprocessor_config.json: size"):
            processor(name, size={"shortest_edge": 24})
    with pytest.raises(ModelError, match="ViTImageProcessor has no crop_to_patches"):
        processor("vit").adapted(crop_to_patches=True)
    with pytest.raises(ModelError, match="image_processor_type"):
        ImageProcessor.from_settings({})
    images = [pyapp.from_numpy(picture) for picture in pictures()]
    with pytest.raises(ArgumentError, match="several sizes"):
        processor("vit", do_resize=False)(images)
    for wrong in ([], [images[0].float()], [images[0][:, :, :1]], [images[0][:0]]):
        with pytest.raises(ArgumentError, match="picture"):
            processor("vit")(wrong)
    with pytest.raises(ArgumentError, match="too narrow"):
        processor("dinov2")([pyapp.zeros(1, 60_000, 3, dtype="uint8")])
    with pytest.raises(ArgumentError, match="does not fit"):
        processor("sam", pad_size=square_of(16))(images)


def square_of(side: int) -> dict[str, int]:
    return {"height": side, "width": side}
