"""Labels of pictures and the texts in them: loading, tasks and commands over small folders."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, tasks, vision
from pyapp.engine import ops
from pyapp.errors import ModelError
from pyapp.events import Cancel, Done, Error, Item, Progress
from pyapp.formats.png import encode_png
from pyapp.formats.safetensors import write_safetensors
from pyapp.formats.source import BytesSource
from pyapp.models.load import load_model
from pyapp.models.loading import timm_networks
from pyapp.models.loading.heads import own_task
from pyapp.models.loading.pictures import load_image_model
from pyapp.tasks.label_vectors import vectors_of_labels
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from pyapp.vision.headers import header
from pyapp.vision.poses import part_of, points_of
from tests.command_lines import lines
from tests.models.picture_configs import CONFIGS, FOUND
from tests.models.picture_folders import CLASSES, write_picture_folder
from tests.models.picture_text_configs import CONFIGS as SEEING
from tests.models.test_pictures import golden, make
from tests.tasks.test_texts import WORDS, tokenizer_json
from tests.together import collect
from tests.vision.processor_cases import pictures

Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.native_only  # needs Pillow, the tokenizers library, files


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as Hugging Face has them, with seeded weights, and two pictures."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("PIL")
    found = tmp_path_factory.mktemp("pictures")
    for name in CLASSES:
        write_picture_folder(found / name, name)
    for i, pixels in enumerate(pictures()):
        (found / f"{i}.png").write_bytes(encode_png(pixels))
    return found


@pytest.mark.parametrize("name", ["deit", "deit_teacher", "resnet"])
def test_labels_are_those_of_the_prepared_pictures(top: Path, name: str) -> None:
    loaded = load_image_model(top / name, "image-classification")
    images = [pyapp.from_numpy(pixels) for pixels in pictures()]
    with pyapp.no_grad():
        chances = make(name, "image-classification")(loaded.processor(images).pixel_values).softmax(1).numpy()
    events = collect(tasks.classify_images([top / "0.png", images[1]], model=str(top / name), top=2, batch_size=1))
    assert isinstance(events[-1], Done) and events[-1].results["count"] == 2
    for item in (event for event in events if isinstance(event, Item)):
        order = np.argsort(-chances[item.index])[:2]
        assert [entry["label"] for entry in item.values["labels"]] == [("no", "perhaps", "yes")[i] for i in order]
        np.testing.assert_allclose(
            [entry["score"] for entry in item.values["labels"]], chances[item.index][order], atol=1e-5
        )
    again = collect(tasks.classify_images((top / "1.png").read_bytes(), model=loaded))
    assert len(again[0].values["labels"]) == 3


def test_questions_about_pictures_are_answered(top: Path) -> None:
    """By ViLT, whose answers have probabilities of their own."""
    from click import testing

    from pyapp.cli import cli

    loaded = load_image_model(top / "vilt", "visual-question-answering")
    ids = pyapp.tensor([loaded.tokenizer.encode("the dog ?")])
    with pyapp.no_grad():
        model = make("vilt", "visual-question-answering")
        chances = [model(loaded.processor([pyapp.from_numpy(x)]).pixel_values, ids).sigmoid()[0] for x in pictures()]
    events = collect(tasks.answer_images([top / "0.png", top / "1.png"], "the dog ?", model=str(top / "vilt")))
    assert isinstance(events[-1], Done), events[-1]
    for found, item in zip(chances, [event for event in events if isinstance(event, Item)], strict=True):
        best = sorted(zip(("no", "perhaps", "yes"), found.tolist(), strict=True), key=lambda pair: -pair[1])
        assert [entry["label"] for entry in item.values["labels"]] == [label for label, _ in best]
        np.testing.assert_allclose(
            [entry["score"] for entry in item.values["labels"]], [chance for _, chance in best], atol=1e-5
        )
    for question, message in ((" ", "is empty"), ("the dog " * 9, "the model reads 8")):
        last = collect(tasks.answer_images(top / "0.png", question, model=loaded))[-1]
        assert isinstance(last, Error) and last.where == "question" and message in last.what, last
    call = ["answer-image", "the dog ?", str(top / "0.png"), "-m", str(top / "vilt")]
    answer = testing.CliRunner().invoke(cli, call, standalone_mode=False)
    assert answer.exit_code == 0 and answer.output.split()[0] in ("no", "perhaps", "yes"), answer.output


def test_points_and_their_matches_lie_in_the_pictures(top: Path, tmp_path: Path) -> None:
    """The processors bring both pictures to one size; places are in pixels of the pictures as they were given."""
    from click import testing

    from pyapp.cli import cli

    files, images = [str(top / "0.png"), str(top / "1.png")], [pyapp.from_numpy(pixels) for pixels in pictures()]
    loaded = load_image_model(top / "superpoint", "keypoint-detection")
    events = collect(tasks.detect_points(files, model=str(top / "superpoint"), top=4, descriptors=True))
    assert isinstance(events[-1], Done), events[-1]
    for image, item in zip(images, [event for event in events if isinstance(event, Item)], strict=True):
        with pyapp.no_grad():
            places, scores, looks = (part[0].numpy() for part in loaded.model(loaded.processor([image]).pixel_values))
        order, (height, width) = np.argsort(-scores, kind="stable")[:4], image.shape[:2]
        wanted = np.concatenate([places[order] * [width, height], scores[order][:, None]], 1)
        np.testing.assert_allclose(item.values["points"], wanted, rtol=1e-5)
        np.testing.assert_allclose(item.values["descriptors"], looks[order], rtol=1e-5)
        assert item.values["size"] == [height, width]
    matcher = load_image_model(top / "lightglue_whole", "keypoint-matching")
    [item] = [
        event for event in collect(tasks.match_points(files[0], files[1:], model=matcher)) if isinstance(event, Item)
    ]
    with pyapp.no_grad():
        pair = pyapp.cat([matcher.processor([image]).pixel_values for image in images]).unsqueeze(0)
        places, numbers, scores = (part[0].numpy() for part in matcher.model(pair))
    wanted = [
        [*(places[0, i] * images[0].shape[1::-1]), *(places[1, int(to)] * images[1].shape[1::-1]), scores[0, i]]
        for i, to in enumerate(numbers[0]) if to >= 0
    ]  # fmt: skip
    assert len(wanted) > 0 and item.values["sizes"] == [list(image.shape[:2]) for image in images]
    np.testing.assert_allclose(item.values["matches"], sorted(wanted, key=lambda match: -match[4]), rtol=1e-4)
    assert isinstance(collect(tasks.match_points(files[0], [], model=matcher))[-1], Error)
    for command, model, count in (("key-points", "superpoint", 2), ("match-points", "lightglue_whole", 1)):
        call = [command, *files, "-m", str(top / model), "-o", str(tmp_path), "--top", "1"]
        answer = testing.CliRunner().invoke(cli, call, standalone_mode=False)
        assert answer.exit_code == 0 and len(answer.output.splitlines()) == count, answer.output
        drawn = vision.read_image(tmp_path / "1.png")
        assert drawn.shape[1] == images[1].shape[1] + (images[0].shape[1] if count == 1 else 0)


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_pictures_and_texts_are_compared(top: Path, name: str) -> None:
    """The probabilities and vectors are those of the model for the padded tokens of the labels' texts."""
    model, labels, files = (
        make(name, "zero-shot-image-classification"),
        ["cat", "green dog"],
        [top / "0.png", top / "1.png"],
    )
    loaded = load_image_model(top / name, "zero-shot-image-classification")
    length = 8 if name == "siglip" else 5  # SigLIP's texts are padded to its largest length
    ids = [loaded.tokenizer.encode(text) for text in ("a cat", "a green dog")]
    tokens = pyapp.tensor([row + [0] * (length - len(row)) for row in ids])
    with pyapp.no_grad():
        pixels = loaded.processor([pyapp.from_numpy(image) for image in pictures()]).pixel_values
        logits = model(pixels, tokens)
        vectors = pyapp.cat([model.image_features(pixels), model.text_features(tokens)])
        vectors = (vectors / (vectors * vectors).sum(1, keepdim=True).sqrt()).numpy()
    chances = (logits.sigmoid() if name == "siglip" else logits.softmax(1)).numpy()
    events = collect(tasks.match_images(files, labels, template="a {}", model=str(top / name)))
    assert isinstance(events[-1], Done), events[-1]
    for item in (event for event in events if isinstance(event, Item)):
        found = {entry["label"]: entry["score"] for entry in item.values["labels"]}
        np.testing.assert_allclose([found[label] for label in labels], chances[item.index], atol=1e-5)
        assert list(found.values()) == sorted(found.values(), reverse=True)
    events = collect(tasks.embed_images(files, ["a cat", "a green dog"], model=loaded, batch_size=1))
    found = [event.values["embedding"] for event in events if isinstance(event, Item)]
    np.testing.assert_allclose(found, vectors, atol=1e-5)
    assert events[-1].results == {"count": 4, "dimensions": vectors.shape[1]}
    for arguments, message in (([[]], "label"), ([["a", " "]], "empty"), ([[3]], "not a text")):
        assert message in str(collect(tasks.match_images(files, *arguments, model=loaded))[-1])
    assert "no place" in str(collect(tasks.match_images(files, labels, template="cat", model=loaded))[-1])


def test_objects_have_boxes_in_pixels(top: Path) -> None:
    model, loaded = make("yolos", "object-detection"), load_image_model(top / "yolos", "object-detection")
    files, images = [top / "0.png", top / "1.png"], [pyapp.from_numpy(pixels) for pixels in pictures()]
    events = collect(tasks.detect_objects(files, model=str(top / "yolos"), threshold=0.3))
    assert isinstance(events[-1], Done), events[-1]
    items = [event.values for event in events if isinstance(event, Item)]
    assert [values["size"] for values in items] == [[30, 41], [64, 23]]
    for image, values in zip(images, items, strict=True):
        with pyapp.no_grad():
            logits, boxes = model(loaded.processor([image]).pixel_values)
        chances, (x, y, w, h) = logits.softmax(2).numpy()[0, :, :-1], boxes.numpy()[0].T
        sides = np.array([image.shape[1], image.shape[0]] * 2)
        wanted = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1) * sides
        order = [i for i in np.argsort(-chances.max(1)) if chances[i].max() > 0.3]
        assert 0 < len(order) and len(values["objects"]) == len(order)
        for i, found in zip(order, values["objects"], strict=True):
            assert found["label"] == ("no", "perhaps", "yes")[chances[i].argmax()]
            np.testing.assert_allclose([found["score"], *found["box"]], [chances[i].max(), *wanted[i]], rtol=1e-3)
        drawn = vision.draw_boxes(image, values["objects"])
        assert drawn.shape == image.shape and (drawn != image).any()
    turned = {"label": "no", "score": 0.5, "box": [4, 4, 56, 56], "corners": [[30, 4], [56, 30], [30, 56], [4, 30]]}
    drawn = vision.draw_boxes(pyapp.zeros(60, 60, 3, dtype="uint8"), [turned]).numpy().any(2)
    assert drawn[43, 43] and drawn[43, 17] and not drawn[56].any(where=abs(np.arange(60) - 30) > 3)
    assert collect(tasks.detect_objects(files, model=loaded, threshold=1))[0].values["objects"] == []
    assert "threshold" in str(collect(tasks.detect_objects(files, model=loaded, threshold=2))[-1])


def test_poses_of_the_persons_that_a_detector_finds(top: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["vitpose"]))
    model = make("vitpose", "pose-estimation")
    write_safetensors(tmp_path / "model.safetensors", model.state_dict())
    processor = {"image_processor_type": "VitPoseImageProcessor", "size": {"height": 24, "width": 16}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    loaded, files = load_image_model(tmp_path, "pose-estimation"), [top / "0.png", top / "1.png"]
    boxes = [[[3.0, 2.0, 30.0, 28.0], [0.0, 0.0, 41.0, 30.0]], []]
    events = collect(tasks.estimate_poses(files, model=loaded, boxes=boxes))
    assert isinstance(events[-1], Done), events[-1]
    first, second = (event.values for event in events if isinstance(event, Item))
    assert second["objects"] == [] and first["points"] == ["no", "perhaps", "yes"] and first["size"] == [30, 41]
    image = vision.read_image(files[0])
    for found, box in zip(first["objects"], boxes[0], strict=True):
        with pyapp.no_grad():
            heat = model(loaded.processor([part_of(image, box, 24, 16)]).pixel_values).numpy()[0]
        assert found["points"] == points_of(heat, box, 24, 16) and found["box"] == box
    whole = next(iter(collect(tasks.estimate_poses(files[0], model=loaded))))
    assert isinstance(whole, Item) and whole.values["objects"] == first["objects"][1:]
    for wrong, message in (([boxes[0]], "of each of 2"), ([[[3, 2, 1, 5]], []], "not a box"), ([[3], []], "not a box")):
        last = collect(tasks.estimate_poses(files, model=loaded, boxes=wrong))[-1]
        assert isinstance(last, Error) and message in last.what, last
    pose = partial(lines, "pose", str(files[0]), "-m", str(tmp_path))
    drawn = pose("--box", "3,2,30,28", "-o", str(tmp_path / "drawn"))
    assert len(drawn) == 3 and re.fullmatch(rf"1\tno\t-?\d+\.\d+\t-?[\d.]+ -?[\d.]+\t{files[0]}", drawn[0])
    assert (vision.read_image(tmp_path / "drawn" / "0.png") != image).any()
    assert pose("--detector", str(top / "yolos"), "--threshold", "0") == []  # whose objects are not persons
    pose("--detector", str(top / "yolos"), "--box", "3,2,30,28", code=1)


def test_larger_pictures(tmp_path: Path, top: Path) -> None:
    """Pictures become larger, alike in parts and as a whole; what is after their ends is cut off."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["swin2sr_light"]))
    model = make("swin2sr_light", "image-to-image")
    write_safetensors(tmp_path / "model.safetensors", model.state_dict())
    processor = {"image_processor_type": "Swin2SRImageProcessor", "do_pad": True, "pad_size": 8}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    image, loaded = pyapp.from_numpy(pictures()[1]), load_image_model(tmp_path, "image-to-image")
    with pyapp.no_grad():
        whole = model(loaded.processor([image]).pixel_values)[0].permute(1, 2, 0).numpy()
    expected = (whole[:128, :46].clip(0, 1) * 255).round()
    for tile in (0, 16):
        events = collect(tasks.upscale_images([image], model=loaded, tile=tile))
        assert isinstance(events[-1], Done), events[-1]
        found = next(event.values for event in events if isinstance(event, Item))
        pixels = np.asarray(Image.open(BytesIO(base64.b64decode(found["png"]))))
        assert found["scale"] == 2 and found["size"] == [128, 46] and np.abs(pixels - expected).max() <= 1
        assert [event.total for event in events if isinstance(event, Progress)][0] == (8 if tile else 1)
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    target = tmp_path / "large.png"
    call = ["upscale", str(top / "0.png"), "-m", str(tmp_path), "-o", str(target)]
    answer = testing.CliRunner().invoke(cli, call, standalone_mode=False)
    assert answer.stdout == f"82 x 60\t{target}\n", answer.output
    assert vision.read_image(target).shape == (60, 82, 3)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "ViTImageProcessor"}))
    for wrong, told in ({"model": str(tmp_path)}, "changes the sizes"), ({"model": loaded, "tile": -1}, "tile"):
        last = collect(tasks.upscale_images([image], **wrong))[-1]
        assert isinstance(last, Error) and told in str(last)


def test_depths_have_no_margins(tmp_path: Path) -> None:
    """ZoeDepth's pictures get margins, which are taken away again."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["zoedepth"]))
    model = make("zoedepth", "depth-estimation")
    write_safetensors(tmp_path / "model.safetensors", model.state_dict())
    processor = {"image_processor_type": "ZoeDepthImageProcessor", "size": {"height": 24, "width": 24}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor | {"ensure_multiple_of": 4}))
    image, loaded = pyapp.from_numpy(pictures()[0]), load_image_model(tmp_path, "depth-estimation")
    events = collect(tasks.estimate_depth([image], model=loaded))
    assert isinstance(events[-1], Done), events[-1]
    found = next(event.values for event in events if isinstance(event, Item))
    height, width = image.shape[:2]
    above, beside = int(3 * (height / 2) ** 0.5), int(3 * (width / 2) ** 0.5)
    with pyapp.no_grad():
        depths = model(loaded.processor([image]).pixel_values).unsqueeze(1)
        depths = ops.interpolate(depths, size=(height + 2 * above, width + 2 * beside), mode="bicubic")
    depths = depths.numpy()[0, 0, above:-above, beside:-beside]
    assert found["metric"] and found["size"] == [height, width]
    np.testing.assert_allclose([found["least"], found["most"]], [depths.min(), depths.max()], rtol=1e-4)
    tiny = [pyapp.zeros(2, 3, 3, dtype="uint8")]
    last = collect(tasks.estimate_depth(tiny, model=loaded))[-1]
    assert isinstance(last, Error) and "too small" in last.what


def test_depths_of_inverse_ones_are_metres(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["depth_pro"]))
    model = make("depth_pro", "depth-estimation")
    write_safetensors(tmp_path / "model.safetensors", model.state_dict())
    processor = {"image_processor_type": "DepthProImageProcessorFast", "size": {"height": 24, "width": 24}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    image = pyapp.from_numpy(pictures()[0])
    events = collect(tasks.estimate_depth([image], model=str(tmp_path)))
    assert isinstance(events[-1], Done), events[-1]
    found = next(event.values for event in events if isinstance(event, Item))
    x = image.permute(2, 0, 1).unsqueeze(0).to("float32") / 127.5 - 1
    with pyapp.no_grad():
        inverse = model(ops.interpolate(x, size=(24, 24), mode="bilinear")).unsqueeze(1)
        metres = 1 / ops.interpolate(inverse, size=image.shape[:2], mode="bilinear").clamp(1e-4, 1e4).numpy()
    assert found["metric"] and found["size"] == list(image.shape[:2])
    np.testing.assert_allclose([found["least"], found["most"]], [metres.min(), metres.max()], rtol=1e-3)


def test_a_folder_of_open_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its configuration, preparation and tensors; texts are padded to their largest length with zeros."""
    own = CONFIGS["mobileclip"]
    vision = own["vision_config"]
    monkeypatch.setitem(timm_networks.FASTVIT, "mci0", (vision["depths"], vision["hidden_sizes"][0], 2, True))
    words = {"context_length": 8, "vocab_size": 40, "width": 12, "heads": 2, "layers": 2, "mlp_ratio": 5 / 3}
    seen = {"timm_model_name": "fastvit_mci0", "timm_pool": "avg", "timm_proj": None, "image_size": 32}
    config: dict[str, Any] = {
        "model_cfg": {"embed_dim": 10, "vision_cfg": seen, "text_cfg": words | {"no_causal_mask": True}},
        "preprocess_cfg": {"mean": [0, 0, 0], "std": [1, 1, 1], "interpolation": "bilinear", "resize_mode": "shortest"},
    }
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text(tokenizer_json())
    model = make("mobileclip", "zero-shot-image-classification")
    tensors = {
        name: value.reshape(-1, 1, 1) if name.endswith(".gamma") else value
        for name, value in model.state_dict().items()
    }
    write_safetensors(tmp_path / "open_clip_model.safetensors", tensors)
    (tmp_path / "open_clip_pytorch_model.bin").write_bytes(b"the same")
    loaded = load_image_model(tmp_path, "zero-shot-image-classification")
    assert loaded.processor.fixed_size == (32, 32) and loaded.processor.resample == 2
    ids = loaded.tokenizer.encode("a cat")
    with pyapp.no_grad():
        vector = model.text_features(pyapp.tensor([ids + [0] * (8 - len(ids))])).numpy()[0]
    *_, item, done = collect(tasks.embed_images([pyapp.from_numpy(pictures()[0])], ["a cat"], model=loaded))
    assert done.results == {"count": 2, "dimensions": 10}
    np.testing.assert_allclose(item.values["embedding"], vector / np.linalg.norm(vector), atol=1e-5)
    for part, change, message in (
        ("vision_cfg", {"timm_model_name": "vit_base_patch16_224"}, "vit_base_patch16_224 are not known"),
        ("vision_cfg", {"timm_model_name": None}, "a network of its own"),
        ("text_cfg", {"hf_model_name": "x"}, "hf_model_name"),
        ("vision_cfg", {"timm_pool": "map"}, "timm_pool is 'map'"), ("text_cfg", {"width": "wide"}, "width is 'wide'"),
    ):  # fmt: skip
        changed = config["model_cfg"] | {part: config["model_cfg"][part] | change}
        (tmp_path / "open_clip_config.json").write_text(json.dumps(config | {"model_cfg": changed}))
        with pytest.raises(ModelError, match=message):
            load_image_model(tmp_path, "zero-shot-image-classification")


def test_objects_of_given_labels_have_boxes_in_the_picture(top: Path) -> None:
    """The picture lies in the upper left of a square."""
    model, loaded = (
        make("owlv2", "zero-shot-object-detection"),
        load_image_model(top / "owlv2", "zero-shot-object-detection"),
    )
    files, labels, images = [top / "0.png", top / "1.png"], ["cat", "green dog"], [*map(pyapp.from_numpy, pictures())]
    ids = [loaded.tokenizer.encode(text) for text in ("a cat", "a green dog")]
    tokens = pyapp.tensor([row + [0] * (5 - len(row)) for row in ids])
    events = collect(tasks.detect_labels(files, labels, template="a {}", model=str(top / "owlv2"), threshold=0.3))
    assert isinstance(events[-1], Done), events[-1]
    for image, values in zip(images, [event.values for event in events if isinstance(event, Item)], strict=True):
        with pyapp.no_grad():
            logits, boxes = model(loaded.processor([image]).pixel_values, tokens)
        chances, (x, y, w, h) = logits.sigmoid().numpy()[0], boxes.numpy()[0].T
        corners = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1) * max(image.shape[:2])
        corners = np.clip(corners, 0, [image.shape[1], image.shape[0]] * 2)
        order = [i for i in np.argsort(-chances.max(1)) if chances[i].max() > 0.3]
        assert 0 < len(order) == len(values["objects"])
        for i, found in zip(order, values["objects"], strict=True):
            assert found["label"] == labels[chances[i].argmax()]
            np.testing.assert_allclose([found["score"], *found["box"]], [chances[i].max(), *corners[i]], atol=1e-3)
    assert "label" in str(collect(tasks.detect_labels(files, [], model=loaded))[-1])


def test_objects_of_phrases_are_those_of_transformers(top: Path) -> None:
    """Boxes, scores and texts are those of transformers' processor for Grounding DINO; the label is the likeliest."""
    folder, task, files = top / "mm_grounding_dino", "zero-shot-object-detection", [top / "0.png", top / "1.png"]
    loaded, (labels, least, text_least) = load_image_model(folder, task), FOUND
    found = collect(tasks.detect_labels(files, labels, model=str(folder), threshold=least, text_threshold=text_least))
    assert isinstance(found[-1], Done), found[-1]
    items = [event.values["objects"] for event in found if isinstance(event, Item)]
    for wanted, objects, image in zip(golden("mm_grounding_dino")[task]["objects"], items, pictures(), strict=True):
        wanted = sorted(wanted, key=lambda entry: -entry["score"])
        assert [entry["text"] for entry in objects] == [entry["text"].removesuffix(" [SEP]") for entry in wanted]
        for entry, other in zip(objects, wanted, strict=True):
            np.testing.assert_allclose([entry["score"], *entry["box"]], [other["score"], *other["box"]], atol=2e-3)
        with pyapp.no_grad():
            ids = pyapp.tensor([[101, *loaded.tokenizer.encode("a cat. green dog.", bos=False, eos=False), 102]])
            scores = loaded.model(loaded.processor([pyapp.from_numpy(image)]).pixel_values, ids)[0].numpy()[0]
        best = sorted(scores.tolist(), key=lambda row: -max(row))  # of [CLS] a cat . green dog . [SEP]
        nearest = [labels[max(row[4:6]) > max(row[1:3])] for row in best][: len(objects)]
        assert [entry["label"] for entry in objects] == nearest
    assert {entry["label"] for objects in items for entry in objects} == {*labels}
    usual = collect(tasks.detect_labels(files[0], ["a cat. green dog."], model=loaded))[0].values["objects"]
    assert len(usual) == 6 and {entry["label"] for entry in usual} == {"a cat", "green dog"}
    for given, options, message in (
        (["a cat"] * 6, {}, "20 tokens, the model reads 16"), (["a cat", "?"], {}, "2 phrases"),
        (["cat", ""], {}, "empty"), (["cat"], {"text_threshold": 2}, "text_threshold"),
        (["cat"], {"template": "a"}, "no place"),
    ):  # fmt: skip
        last = collect(tasks.detect_labels(files, given, model=loaded, **options))[-1]
        assert isinstance(last, Error) and message in str(last), last
    last = collect(tasks.detect_labels(files, ["cat"], model=str(top / "owlv2"), text_threshold=0.3))[-1]
    assert isinstance(last, Error) and last.where == "text_threshold"


def test_boxes_show_what_to_find(top: Path) -> None:
    """SAM 3 reads boxes beside texts, or alone; from Python and at the command line."""
    loaded, file = load_image_model(top / "sam3", "zero-shot-object-detection"), top / "0.png"
    height, width = pictures()[0].shape[:2]
    boxes, kinds = [[1.0, 2.0, width - 2.0, height - 1.0], [0, 0, 4, 5]], [1, 0]

    def objects(labels: list[str], **more: Any) -> list[Any]:
        found = collect(tasks.detect_labels(file, labels, model=loaded, threshold=0.0, **more))
        assert isinstance(found[-1], Done), found[-1]
        [item] = (event for event in found if isinstance(event, Item))
        return [(entry["label"], entry["score"]) for entry in item.values["objects"]]

    image = loaded.processor([pyapp.from_numpy(pictures()[0])]).pixel_values
    left, up, right, down = (np.array(boxes) / [width, height, width, height]).T
    parts = np.stack([(left + right) / 2, (up + down) / 2, right - left, down - up], 1)
    steps = vectors_of_labels(loaded, ["visual"], None)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            texts = end.value
            break
    with pyapp.no_grad():
        shown = pyapp.tensor(parts[None], dtype="float32")
        outputs = loaded.model.found(image, texts, shown, pyapp.tensor([kinds]))
        wanted = loaded.model.objects(outputs, 0.0, ["visual"])[0]
    found = objects([], boxes=boxes, box_labels=kinds)
    np.testing.assert_allclose([score for _, score in found], [entry["score"] for entry in wanted], rtol=1e-4)
    assert {label for label, _ in found} == {"visual"}
    assert objects(["cat"]) != objects(["cat"], boxes=boxes) != objects(["cat"], boxes=boxes, box_labels=kinds)
    for more, told in (
        ({"boxes": [[5, 5, 1, 9]]}, "is not a box"), ({"boxes": []}, "0 boxes"),
        ({"boxes": boxes, "box_labels": [1, 2]}, "0 or 1 for each box"),
    ):  # fmt: skip
        assert told in str(collect(tasks.detect_labels(file, ["cat"], model=loaded, **more))[-1])
    both = collect(tasks.detect_labels([file, file], [], model=loaded, boxes=boxes))[-1]
    assert "of one picture" in str(both)
    other = load_image_model(top / "owlv2", "zero-shot-object-detection")
    assert "take SAM 3" in str(collect(tasks.detect_labels(file, ["cat"], model=other, boxes=boxes))[-1])
    call = [
        "detect",
        str(file),
        "-m",
        str(top / "sam3"),
        "--box",
        "1,2,9,9",
        "--not-box",
        "0,0,4,5",
        "--threshold",
        "0",
    ]
    click = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    result = click.CliRunner().invoke(cli, call)
    assert result.exit_code == 0 and result.output.startswith("visual\t"), result.output


def test_areas_of_given_labels_are_those_of_the_resized_scores(top: Path) -> None:
    task, labels = "zero-shot-semantic-segmentation", ["cat", "green dog"]
    loaded, image = load_image_model(top / "clipseg", task), pyapp.from_numpy(pictures()[0])
    with pyapp.no_grad():
        pixels = loaded.processor([image, image]).pixel_values
        ids = [loaded.tokenizer.encode(text) for text in ("a cat", "a green dog")]
        tokens = pyapp.tensor([row + [0] * (5 - len(row)) for row in ids])
        chances = make("clipseg", task)(pixels, tokens).sigmoid().unsqueeze(0)
        chances = nn.functional.interpolate(chances, size=(30, 41), mode="bilinear").numpy()[0]
    middle = float(np.median(chances.max(0)))
    item, _, done = collect(
        tasks.segment_labels([top / "0.png"], labels, template="a {}", model=loaded, threshold=middle)
    )[-3:]
    assert isinstance(done, Done) and item.values["size"] == [30, 41]
    numbers, lengths = zip(*item.values["runs"], strict=True)
    wanted = np.where(chances.max(0) > middle, chances.argmax(0) + 1, 0)
    assert (np.repeat(numbers, lengths).reshape(30, 41) != wanted).mean() < 0.01
    for segment in item.values["segments"]:
        assert segment["label"] == labels[segment["number"] - 1]
        assert abs(segment["share"] - (wanted == segment["number"]).mean()) < 0.01


@pytest.mark.parametrize("name", ["segformer", "oneformer"])
def test_areas_are_those_of_the_resized_scores(top: Path, name: str) -> None:
    loaded = load_image_model(top / name, "semantic-segmentation")
    events = collect(tasks.segment_images([top / "0.png", top / "1.png"], model=str(top / name)))
    assert isinstance(events[-1], Done), events[-1]
    for item in (event for event in events if isinstance(event, Item)):
        image = pyapp.from_numpy(pictures()[item.index])
        with pyapp.no_grad():
            model = make(name, "semantic-segmentation")
            if name == "oneformer":  # which reads the task, of words that the tokenizer does not know
                model.take_task([2, 1, 1, 1, 1, 3])
            logits = model(loaded.processor([image]).pixel_values)
            logits = nn.functional.interpolate(logits, size=tuple(image.shape[:2]), mode="bilinear")
        wanted = logits.numpy()[0].argmax(0)
        numbers, lengths = np.array(item.values["runs"]).T
        assert np.array_equal(np.repeat(numbers, lengths).reshape(item.values["size"]), wanted)
        assert (np.diff(numbers) != 0).all() and len(set(numbers)) > (name == "segformer")
        shares = {entry["label"]: entry["share"] for entry in item.values["segments"]}
        assert shares == {("no", "perhaps", "yes")[i]: (wanted == i).mean() for i in set(wanted.flat)}
        assert list(shares.values()) == sorted(shares.values(), reverse=True)
    if name == "oneformer":
        narrow = top / "narrow.png"
        narrow.write_bytes(encode_png(np.zeros((20, 2000, 3), np.uint8)))
        last = collect(tasks.segment_images([top / "0.png", narrow], model=loaded))[-1]
        assert isinstance(last, Error) and last.where == str(narrow) and "16 pixels a side" in last.what


def test_areas_of_squares_are_put_together(top: Path) -> None:
    """EoMT sees squares of a picture, whose scores are averaged where they overlap, or a picture in a frame."""
    loaded = load_image_model(top / "eomt", "semantic-segmentation")
    events = collect(tasks.segment_images([top / "0.png"], model=loaded))
    height, width = pictures()[0].shape[:2]
    [item] = (event for event in events if isinstance(event, Item))
    assert isinstance(events[-1], Done) and item.values["size"] == [height, width]
    assert sum(count for _, count in item.values["runs"]) == height * width
    processor = loaded.processor
    high, wide = processor.seen(30, 41)
    assert (high, wide) == (24, 32) and processor.starts(high, wide) == [0, 8]
    found = processor.whole_map(pyapp.tensor([1.0, 3.0]).reshape(2, 1, 1, 1), 30, 41).numpy()[0, 0]
    assert (found == np.array([1.0] * 8 + [2.0] * 16 + [3.0] * 8)).all() and found.shape == (24, 32)
    framed = replace(processor, do_split_image=False, do_pad=True, size={"shortest_edge": 24, "longest_edge": 24})
    assert framed.whole_map(pyapp.zeros(1, 2, 6, 6), 30, 41).shape == (1, 2, *framed.seen(30, 41))


def test_depths_are_those_of_the_resized_picture(top: Path) -> None:
    loaded = load_image_model(top / "depth_anything", "depth-estimation")
    events = collect(tasks.estimate_depth([top / "0.png", top / "1.png"], model=str(top / "depth_anything")))
    assert isinstance(events[-1], Done), events[-1]
    items = [event for event in events if isinstance(event, Item)]
    assert [item.values["size"] for item in items] == [[30, 41], [64, 23]]
    for item in items:
        image, values = pyapp.from_numpy(pictures()[item.index]), item.values
        with pyapp.no_grad():
            found = make("depth_anything", "depth-estimation")(loaded.processor([image]).pixel_values).unsqueeze(1)
            wanted = nn.functional.interpolate(found, size=tuple(image.shape[:2]), mode="bicubic").numpy()[0, 0]
        grey = np.asarray(Image.open(BytesIO(base64.b64decode(values["png"]))), np.float64)
        assert grey.min() == 0 and grey.max() == 65535 and values["metric"] is False
        depths = values["least"] + (values["most"] - values["least"]) * grey / 65535
        np.testing.assert_allclose(depths, wanted, atol=1e-4 * (values["most"] - values["least"]))


def test_masks_of_points_and_boxes(top: Path) -> None:
    """The mask of the best score, brought to the picture's own size without the padding."""
    files, loaded = [top / "0.png", top / "1.png"], load_image_model(top / "sam", "mask-generation")
    prompts = {"points": [[3, 4], [9, 2]], "labels": [1, 0], "box": [1, 1, 10, 12]}
    events = collect(tasks.cut_out_objects(files, model=str(top / "sam"), **prompts))
    assert isinstance(events[-1], Done), events[-1]
    shares = []
    for item in (event for event in events if isinstance(event, Item)):
        image = pyapp.from_numpy(pictures()[item.index])
        high, wide = image.shape[:2]
        prepared = loaded.processor([image])
        assert prepared.pixel_values.shape == (1, 3, 20, 20)
        scale = 20 / max(high, wide)
        size = [max(1, int(side * scale + 0.5)) for side in (high, wide)]
        moved = pyapp.tensor([size[1] / wide, size[0] / high])
        with pyapp.no_grad():
            masks, scores = loaded.model(
                prepared.pixel_values, (pyapp.tensor([[3.0, 4.0], [9.0, 2.0]]) * moved).reshape(1, 1, 2, 2),
                pyapp.tensor([[[1, 0]]]), (pyapp.tensor([[1.0, 1.0], [10.0, 12.0]]) * moved).reshape(1, 1, 4),
                several=False,
            )  # fmt: skip
            mask = nn.functional.interpolate(masks[0], size=(20, 20), mode="bilinear")[:, :, : size[0], : size[1]]
            wanted = nn.functional.interpolate(mask, size=(high, wide), mode="bilinear").numpy()[0, 0] > 0
        numbers, lengths = np.array(item.values["runs"]).T
        assert np.array_equal(np.repeat(numbers, lengths).reshape(item.values["size"]), wanted)
        (segment,) = item.values["segments"]
        assert segment["share"] == pytest.approx(wanted.mean()) and segment["score"] == pytest.approx(scores.item())
        shares.append(segment["share"])
    for options, message in (
        ({}, "points or a box"), ({"points": [[1, 2]], "labels": [2]}, "1 or 0"), ({"box": [1, 2, 3]}, "4 numbers"),
        ({"points": [["a", 2]]}, "points"), ({"points": [[float("nan"), 2]]}, "points"),
        ({"points": [[1, 2]], "labels": [1, 0]}, "each of 1 points"),
    ):  # fmt: skip
        (error,) = (event for event in collect(tasks.cut_out_objects(files, model=loaded, **options)) if event.what)
        assert message in str(error)


def test_a_named_picture_is_seen_once(top: Path) -> None:
    """What other points show in it is computed from what was seen; another name, and no name, look anew."""
    loaded = load_image_model(top / "sam2", "mask-generation")

    def cut(image: Any, **options: Any) -> tuple[Any, list[int]]:
        events = collect(tasks.cut_out_objects(image, model=loaded, **options))
        assert isinstance(events[-1], Done), events[-1]
        layers = [event.done for event in events if isinstance(event, Progress) and event.what == "seeing"]
        return next(event.values for event in events if isinstance(event, Item)), layers

    first, second = {"points": [[3, 4]]}, {"points": [[3, 4], [20, 20]], "labels": [1, 0]}
    assert cut(top / "0.png", picture="a", **first)[1] == [1, 2, 3, 4, 5]
    again, layers = cut(None, picture="a", **second)
    assert layers == [] and again == cut(top / "0.png", **second)[0]
    other, layers = cut(top / "1.png", picture="b", **first)
    assert layers == [1, 2, 3, 4, 5] and other["size"] == [64, 23] and list(loaded.seen) == ["b"]
    (error,) = collect(tasks.cut_out_objects([top / "0.png", top / "1.png"], model=loaded, picture="c", **first))
    assert "a name of one image" in str(error)


def test_the_tables_of_prompts_may_be_quantised(top: Path, tmp_path: Path) -> None:
    """The page makes the matrices of large models 8-bit: SAM reads whole tables, not only rows of them."""
    sizes = {"hidden_size": 32, "mlp_dim": 32}
    config = CONFIGS["sam"] | {
        part: CONFIGS["sam"][part] | more
        for part, more in (
            ("vision_config", {"output_channels": 32, "num_pos_feats": 16}),
            ("prompt_encoder_config", {"hidden_size": 32}), ("mask_decoder_config", sizes),
        )
    }  # fmt: skip
    model = make("sam", "mask-generation", **config)
    for path in (top / "sam").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    write_safetensors(tmp_path / "model.safetensors", model.state_dict())
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = []
    for dtype in (None, "q8_0"):
        loaded = load_image_model(tmp_path, "mask-generation", dtype=dtype)
        assert (loaded.model.mask_decoder.mask_tokens.weight.dtype is pyapp.float32) == (dtype is None)
        events = collect(tasks.cut_out_objects(top / "0.png", model=loaded, points=[[3, 4], [9, 2]], labels=[1, 0]))
        assert isinstance(events[-1], Done), events[-1]
        found.append(next(event.values["segments"][0] for event in events if isinstance(event, Item)))
    assert found[0]["score"] == pytest.approx(found[1]["score"], abs=0.02)
    assert found[0]["share"] == pytest.approx(found[1]["share"], abs=0.05)


def test_texts_and_quantised_weights(top: Path) -> None:
    events = collect(tasks.read([top / "0.png", top / "1.png"], model=str(top / "trocr"), num_beams=2))
    texts = [event.values["text"] for event in events if isinstance(event, Item)]
    assert len(texts) == 2 and all(set(text.split()) <= set(WORDS) for text in texts)
    files = {path.name: BytesSource(path.read_bytes(), path.name) for path in (top / "trocr").iterdir()}
    loaded = load_image_model(files, "image-to-text", dtype="float16")
    assert loaded.model.decoder.output_projection.weight.dtype is pyapp.float16
    assert isinstance(collect(tasks.read(str(top / "0.png"), model=loaded))[-1], Done)
    features = load_image_model(top / "deit", "image-features").model
    assert features.pooler is None and features(pyapp.zeros(1, 3, 12, 12)).shape == (1, 11, 16)


def test_a_question_about_a_picture(top: Path, tmp_path: Path) -> None:
    """InstructBLIP reads it twice, with a tokenizer each: before T5's end of text, and beside the queries."""
    loaded = load_image_model(top / "instructblip", "image-to-text")
    asked = loaded.model.prompted("the cat", lambda words: loaded.tokenizer.encode(words, bos=False, eos=False))
    assert (asked.prompt, asked.question, loaded.model.question) == ((5, 7, 5), (2, 5, 7, 3, 3), ())
    options = SearchOptions(decoder_start_token_id=2, eos_token_ids=(3,), max_new_tokens=5)
    *_, [ids] = search(asked, loaded.processor([pyapp.from_numpy(pictures()[0])]).pixel_values, None, options)
    usual, found = (
        collect(tasks.read_images(top / "0.png", model=str(top / "instructblip"), **more))[-3].values["text"]
        for more in ({}, {"prompt": "the cat"})
    )
    assert found == loaded.tokenizer.decode(ids).strip() != usual
    last = collect(tasks.read_images(top / "0.png", model=loaded, prompt="the cat " * 6))[-1]
    assert isinstance(last, Error) and (last.where, "the model reads 12" in last.what) == ("prompt", True), last
    files = {path.relative_to(top / "instructblip").as_posix(): path for path in (top / "instructblip").rglob("*.json")}
    files["model.safetensors"] = top / "instructblip" / "model.safetensors"
    given = {name: BytesSource(path.read_bytes(), name) for name, path in files.items()}
    assert load_image_model(given, "image-to-text").model.reader("cat") == [2, 7, 3, 3]
    with pytest.raises(ModelError, match="qformer_tokenizer/tokenizer is missing"):
        load_image_model({name: file for name, file in given.items() if "/" not in name}, "image-to-text")
    for path in (top / "instructblip").glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "qformer_tokenizer").mkdir()
    for path in (top / "instructblip" / "qformer_tokenizer").iterdir():
        (tmp_path / "qformer_tokenizer" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | {"image_token_index": None}))  # of older files
    assert load_image_model(tmp_path, "image-to-text").model.config.instructs
    assert (own_task(config), own_task(SEEING["blip2"])) == ("image-to-text", "image-text-to-text")
    opt = {"text_config": SEEING["blip2"]["text_config"]}
    for change, message in (({}, "does not chat"), (opt, "decoder is not supported")):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ModelError, match=message):
            load_model(tmp_path)


def test_a_prompt_beside_a_picture(top: Path) -> None:
    """Florence-2's tasks have names. The places that it writes stay in the text."""
    folder = str(top / "florence2")
    first, again, other = (
        [event.values["text"] for event in collect(tasks.read_images(top / "0.png", model=folder, **more))
         if isinstance(event, Item)]
        for more in ({}, {"prompt": "<CAPTION>"}, {"prompt": "the cat"})
    )  # fmt: skip
    assert first == again and len(first) == len(other) == 1
    loaded = load_image_model(folder, "image-to-text")
    encode = {"What does the image describe?": [7], "Locate a cat in the image.": [8]}.__getitem__
    assert loaded.model.prompted("<CAPTION>", encode).prompt == (0, 7, 2) and loaded.model.prompt == ()
    assert loaded.model.prompted("<OPEN_VOCABULARY_DETECTION>a cat", encode).prompt == (0, 8, 2)
    words = loaded.tokenizer
    special = next(i for i in range(3, 40) if words.piece(i) in words.special_names)
    plain = next(i for i in range(3, 40) if words.piece(i) not in words.special_names)
    text = loaded.model.text_of([0, plain, special, plain, 2], words)
    assert text == f"{words.decode([plain])}{words.piece(special)}{words.decode([plain])}"
    # transformers' Florence2PostProcessor gives these places.
    finds, reads = (loaded.model.prompted(name, lambda words: []) for name in ("<OD>", "<OCR_WITH_REGION>"))
    assert finds.objects_of(
        "a car<loc_52><loc_332><loc_932><loc_774>door handle<loc_425><loc_504><loc_474><loc_516><loc_10><loc_20>"
        "<loc_999><loc_0>", (480, 641),
    ) == [
        {"label": "a car", "box": [33, 159, 597, 371]}, {"label": "door handle", "box": [272, 242, 304, 247]},
        {"label": "door handle", "box": [6, 9, 640, 0]},
    ]  # fmt: skip
    bare = "<loc_52><loc_332><loc_932><loc_774><loc_1><loc_2><loc_3><loc_4><loc_9>"
    assert [one["box"] for one in finds.objects_of(bare, (480, 641))] == [[33, 159, 597, 371], [0, 1, 2, 2]]
    assert reads.objects_of(
        "STOP now<loc_1><loc_2><loc_3><loc_4><loc_500><loc_600><loc_700><loc_800>Exit 3<loc_9><loc_8><loc_7><loc_6>"
        "<loc_5><loc_4><loc_3><loc_2>", (480, 641),
    ) == [
        {"label": "STOP now", "corners": [0, 1, 2, 2, 320, 288, 449, 384]},
        {"label": "Exit 3", "corners": [6, 4, 4, 3, 3, 2, 2, 1]},
    ]  # fmt: skip
    assert loaded.model.objects_of("a<loc_1><loc_1><loc_1><loc_1>", (9, 9)) == []
    found = [event for event in collect(tasks.read_images(top / "0.png", model=folder, prompt="<OD>"))
             if isinstance(event, Item)]  # fmt: skip
    assert found[0].values["objects"] == [] and len(found[0].values["size"]) == 2
    for model, prompt, message in (
        ("florence2", "<OD> cat", "takes no words"), ("florence2", "<REGION_TO_OCR>", "needs words"),
        ("blip", "the cat", "takes none"),
    ):  # fmt: skip
        last = collect(tasks.read_images(top / "0.png", model=str(top / model), prompt=prompt))[-1]
        assert isinstance(last, Error) and last.where == "prompt" and message in last.what, last


def test_batch_norms_without_statistics_are_refused(top: Path, tmp_path: Path) -> None:
    for path in (top / "resnet").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tensors = dict(make("resnet", "image-classification").state_dict())
    name = "resnet.encoder.stages.1.layers.0.shortcut.normalization.running_mean"

    def load(task: str, changed: Any) -> Any:
        write_safetensors(tmp_path / "model.safetensors", changed)
        return load_image_model(tmp_path, task).model

    for task, kept in (("image-classification", name), ("image-features", name.removeprefix("resnet."))):
        buffer = dict(load(task, tensors).named_buffers())[kept]
        assert np.array_equal(buffer.numpy(), tensors[name].numpy()) and buffer.abs().max().item() > 0
        with pytest.raises(ModelError, match=rf"statistics of batch norms are missing: {re.escape(kept)}\."):
            load(task, {key: x for key, x in tensors.items() if key != name})
        with pytest.raises(ModelError, match=r"\[3\] in the file, the configuration asks for \[16\]"):
            load(task, tensors | {name: pyapp.zeros(3)})
    load("image-features", {key: x for key, x in tensors.items() if "num_batches" not in key})  # older files have none


def test_what_does_not_fit_is_refused(top: Path, tmp_path: Path) -> None:
    def copy(name: str, **changes: Any) -> Path:
        folder = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for path in (top / name).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        for file, change in changes.items():
            path = folder / f"{file}.json"
            if change is None:
                path.unlink()
            else:
                path.write_text(json.dumps(json.loads(path.read_text()) | change))
        return folder

    for folder, task, message in (
        (copy("deit", preprocessor_config={"size": 24}), "image-classification", "pictures of 24 x 24 pixels"),
        (copy("deit", preprocessor_config=None), "image-classification", "224 x 224"),
        (copy("deit", preprocessor_config={"image_processor_type": "X"}), "image-classification", "'?X'? is not known"),
        (copy("deit", config=None), "image-classification", "config.json is missing"),
        (copy("trocr", tokenizer=None), "image-to-text", "tokenizer is missing"),
        (top / "deit", "image-to-text", "not for image-to-text"),
        (top / "trocr", "image-classification", "not for image-classification"),
        (copy("deit", config={"image_size": 16}), "image-classification", "do not fit the configuration|12 x 12"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=message):
            load_image_model(folder, task)
    narrow = np.zeros((1, 20_000, 3), np.uint8)
    path = tmp_path / "narrow.png"
    path.write_bytes(encode_png(narrow))
    cropped = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 12}, "crop_size": 12}
    keeps_shape = copy("clip", preprocessor_config=cropped | {"do_center_crop": True})
    last = collect(tasks.match_images([path], ["the cat"], model=str(keeps_shape)))[-1]
    assert isinstance(last, Error) and (last.where, "too narrow" in last.what) == (str(path), True), last
    tiny = copy("yolos", preprocessor_config={"do_resize": False, "image_processor_type": "ViTImageProcessor"})
    last = collect(tasks.detect_objects([pyapp.zeros(1, 1, 3, dtype="uint8")], model=str(tiny)))[-1]
    assert isinstance(last, Error) and "pixels a side" in last.what and last.where == "the picture", last
    for broken in (b"", b"no picture", (top / "0.png").read_bytes()[:200]):
        assert isinstance(collect(tasks.classify_images([broken], model=str(top / "deit")))[-1], Error)
    cancel = Cancel()
    cancel.set()
    assert collect(tasks.classify_images([top / "0.png"], model=str(top / "deit"), cancel=cancel))[-1] == Done(
        "cancelled"
    )
    assert "top" in str(collect(tasks.classify_images([top / "0.png"], model=str(top / "deit"), top=0))[-1])


def test_commands(top: Path) -> None:
    files = [str(top / f"{i}.png") for i in range(2)]
    labelled = lines("classify-image", *files, "-m", str(top / "deit"), "--top", "1")
    assert [line.split("\t")[1] for line in labelled] == files
    assert len(lines("read", *files, "-m", str(top / "trocr"), "-n", "3")) == 2
    events = [json.loads(line) for line in lines("classify-image", files[0], "-m", str(top / "deit"), "--json")]
    assert events[-1]["type"] == "done" and sum(event["type"] == "item" for event in events) == 1
    matched = lines("classify-image", files[0], "-m", str(top / "clip"), "--labels", "cat, dog,", "--top", "1")
    assert re.fullmatch(rf"(cat|dog) [01]\.\d{{4}}\t{re.escape(files[0])}", matched[0]) and len(matched) == 1
    vectors = lines("embed-image", files[0], "-m", str(top / "siglip"), "--text", "a cat", "--text", "dog")
    assert [len(json.loads(line)) for line in vectors] == [16] * 3
    drawn = top / "drawn"
    boxes = lines("detect", *files, "-m", str(top / "yolos"), "--threshold", "0.3", "-o", str(drawn))
    assert (
        all(re.fullmatch(r"\w+\t0\.\d{4}(\t| )" + r"-?\d+\.\d[ \t]" * 4 + r".*\.png", line) for line in boxes) and boxes
    )
    for model, more in (("owlv2", ["--threshold", "0.2"]), ("mm_grounding_dino", [])):
        named = lines("detect", files[0], "-m", str(top / model), "--labels", "cat, dog", *more)
        assert named and {line.split("\t")[0] for line in named} <= {"cat", "dog"}
    sky = lines(
        "segment", files[0], "-m", str(top / "clipseg"), "--labels", "cat,dog", "--threshold", "1", "-o", str(drawn)
    )
    assert sky == [f"\t{files[0]}"]
    for i, pixels in enumerate(pictures()):
        assert vision.read_image(drawn / f"{i}.png").shape == pixels.shape
    lines("detect", files[0], files[0], "-m", str(top / "yolos"), "-o", str(drawn), code=1)
    assert len(lines("segment", *files, "-m", str(top / "segformer"), "-o", str(drawn))) == 2
    cut = lines(
        "segment", files[0], "-m", str(top / "sam"), "--point", "3,4", "--not-point", "9,2", "-o", str(drawn / "c")
    )
    assert re.fullmatch(r"object [01]\.\d{4}\t.*0\.png", cut[0]) and (drawn / "c" / "0.png").is_file()
    lines("segment", files[0], "-m", str(top / "sam"), "--box", "3,4", code=1)
    lines("depth", files[0], "-m", str(top / "depth_anything"), code=1)
    depths = lines("depth", *files, "-m", str(top / "depth_anything"), "-o", str(drawn / "d"))
    one = drawn / "depth.png"
    lines("depth", *files, "-m", str(top / "depth_anything"), "-o", str(one), code=1)
    lines("depth", files[0], "-m", str(top / "depth_anything"), "-o", str(top / "none" / "depth.png"), code=1)
    assert lines("depth", files[0], "-m", str(top / "depth_anything"), "-o", str(one))[0].endswith(f"\t{one}")
    assert one.read_bytes() == (drawn / "d" / "0.png").read_bytes()
    for line, name, pixels in zip(depths, ("0.png", "1.png"), pictures(), strict=True):
        assert re.fullmatch(rf"-?[\d.]+ [\d.]+\t{re.escape(str(drawn / 'd' / name))}", line)
        with Image.open(drawn / "d" / name) as drawn_depths:
            assert drawn_depths.mode == "I;16" and drawn_depths.size == pixels.shape[1::-1]
    assert len(lines("caption", *files, "-m", str(top / "blip"), "-n", "3")) == 2
    assert len(lines("caption", files[0], "-m", str(top / "florence2"), "--prompt", "<OCR>", "-n", "3")) == 1
    assert lines("detect", files[0], "-m", str(top / "detr"), "--threshold", "0")
    for i, pixels in enumerate(pictures()):
        found = vision.read_image(drawn / f"{i}.png").numpy()
        assert found.shape == pixels.shape and (abs(found - 0.5 * pixels) <= 128).all() and (found != pixels).any()
    assert lines("read", str(top / "none.png"), "-m", str(top / "trocr"), code=1) == []


@pytest.mark.native_only
def test_questions_that_are_drawn(tmp_path: Path) -> None:
    """What is written of a question is that of a picture with the question above it."""
    font = tmp_path / "font.ttf"
    font.write_bytes(pytest.importorskip("PIL.ImageFont").load_default(36).path.getvalue())
    loaded: Any = load_image_model(write_picture_folder(tmp_path / "model", "pix2struct"), "image-to-text")
    plain = replace(loaded, processor=replace(loaded.processor, is_vqa=False))
    picture, texts = pyapp.zeros((30, 40, 3), dtype="uint8"), set()

    def written(picture: Any, model: Any, **more: Any) -> str:
        events = collect(tasks.read_images([picture], model=model, max_new_tokens=8, **more))
        [text] = [event.values["text"] for event in events if isinstance(event, Item)]
        return str(text)

    for question in ("Why?", "What else is there in this long question?"):
        text = written(picture, loaded, prompt=question, font=font)
        assert text == written(header(question, font)(picture), plain)
        texts.add(text)
    assert len(texts) == 2
    for more, where in (({}, "prompt"), ({"prompt": "Why?", "font": tmp_path / "none.ttf"}, "font")):
        last = collect(tasks.read_images([picture], model=loaded, **more))[-1]
        assert isinstance(last, Error) and last.where == where
