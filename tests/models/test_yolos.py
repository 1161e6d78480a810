"""YOLO against Ultralytics' library (make_golden_yolos.py): its files, outputs, gradients, objects and pictures; files
of other programs; files and configurations that cannot be.
"""

from __future__ import annotations

import base64
import json
import zipfile
import zlib
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import FileFormatError, InputError, ModelError
from pyapp.formats.pytorch_objects import PyTorchObjects
from pyapp.formats.safetensors import write_safetensors
from pyapp.formats.source import BytesSource
from pyapp.models.loading import bare_files, ultralytics
from pyapp.models.loading.pictures import load_image_model
from pyapp.models.yolo import Config
from pyapp.nn.vision.boxes import non_max_suppression
from pyapp.tasks.detection import find_objects
from pyapp.vision.processors import ImageProcessor
from tests.hostile import damaged_texts, survives
from tests.models.seeded import direction, picture, picture_weights, shown
from tests.models.small_models import along, golden_in
from tests.models.yolo_configs import CONFIGS, LABELS, PICKLED, SEEN, SIZE, THRESHOLD, seen_picture
from tests.together import fewer_in_browser

golden = golden_in("golden_yolos")


@cache
def weights_of(name: str) -> dict[str, np.ndarray]:
    """The tensors by the names that Ultralytics' files have."""
    found: dict[str, np.ndarray] = {}
    for key, shape in golden(name)["tensors"].items():
        if not shape:
            found[key] = np.array(0, np.int64)
        elif "dfl" in key:
            found[key] = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        else:
            found[key] = picture_weights(f"net.{key}", tuple(shape)).astype(np.float16).astype(np.float32)
    return found


@cache
def pickled(name: str, program: bytes | None = None) -> bytes:
    """The .pt file that Ultralytics wrote, with seeded weights; or with another pickle."""
    file, wanted = BytesIO(), golden(name)
    with zipfile.ZipFile(file, "w") as archive:
        saved = zlib.decompress(base64.b64decode(wanted["pickle"]))
        archive.writestr("net/data.pkl", saved if program is None else program)
        archive.writestr("net/byteorder", b"little")
        for number, value in zip(wanted["keys"], weights_of(name).values(), strict=True):
            archive.writestr(f"net/data/{number}", (value.astype(np.float16) if value.ndim else value).tobytes())
        for key, text in wanted["others"].items():
            archive.writestr(f"net/{key}", bytes.fromhex(text))
    return file.getvalue()


def exported(tensors: dict[str, np.ndarray]) -> bytes:
    file = BytesIO()
    write_safetensors(file, {key: pyapp.from_numpy(value) for key, value in tensors.items()})
    return file.getvalue()


@cache
def file_of(name: str) -> tuple[str, bytes]:
    return ("net.pt", pickled(name)) if name in PICKLED else ("net.safetensors", exported(weights_of(name)))


def make(name: str) -> Any:
    """The model that is loaded from a file of weights without a config.json."""
    file, data = file_of(name)
    task = "image-classification" if CONFIGS[name]["task"] == "classify" else "object-detection"
    files = {file: BytesSource(data, file)}
    if file.endswith(".safetensors") and task == "object-detection":  # which does not say the size of pictures
        settings = {"image_processor_type": "YoloImageProcessor", "size": {"longest_edge": max(SEEN)}}
        files["preprocessor_config.json"] = BytesSource(json.dumps(settings).encode(), "preprocessor_config.json")
    return load_image_model(files, task)


@pytest.mark.parametrize("name", fewer_in_browser(list(CONFIGS), every=2))
def test_outputs_and_gradients_are_those_of_ultralytics(name: str) -> None:
    model, expected = make(name).model.requires_grad_(), golden(name)
    outputs = model(pyapp.from_numpy(picture(2, *SIZE)))
    parts = [outputs] if isinstance(outputs, pyapp.Tensor) else raw(model, outputs)
    for part, values in zip(parts, expected["outputs"], strict=True):
        np.testing.assert_allclose(shown(part.detach().numpy(), 96), values, atol=2e-4, rtol=2e-4)
    sum(along(part, "") for part in parts).backward()
    for layer, product in expected["gradients"].items():
        found = sum(
            float((value.grad.numpy().astype(np.float64) * direction(key, tuple(value.shape))).sum())
            for key, value in model.named_parameters() if key.startswith(f"{layer}.") and "dfl" not in key
        )  # fmt: skip
        np.testing.assert_allclose(found, product, rtol=2e-3, atol=2e-2, err_msg=layer)


def raw(model: Any, outputs: tuple[pyapp.Tensor, ...]) -> list[pyapp.Tensor]:
    """The outputs in Ultralytics' form: the boxes in pixels, the labels' probabilities, and more, (B, C, Q)."""
    logits, boxes, *more = outputs
    height, width = SIZE
    rows = [boxes * pyapp.tensor([width, height, width, height]), pyapp.sigmoid(logits)]
    if model.config.head == "obb":
        rows.append(more[0])
    if model.config.head == "pose":
        rows.append((more[0] * pyapp.tensor([width, height, 1])).reshape(*boxes.shape[:2], -1))
    if model.config.head == "segment":
        return [pyapp.cat([*rows, more[0]], 2).transpose(1, 2), more[1]]
    return [pyapp.cat(rows, 2).transpose(1, 2)]


@pytest.mark.parametrize("name", fewer_in_browser([name for name in CONFIGS if "classify" not in name], every=2))
def test_objects_are_those_of_ultralytics(name: str) -> None:
    loaded, expected = make(name), golden(name)
    steps = find_objects(loaded, [pyapp.from_numpy(seen_picture(*SEEN))], threshold=THRESHOLD)
    found = next(step for step in steps if step is not None).values["objects"]
    names, masks = loaded.model.config.labels, expected.get("masks", [[1, 0]] * len(expected["objects"]))
    rows = [
        [*np.reshape(entry.get("corners", entry["box"]), -1), entry["score"], names.index(entry["label"])]
        for entry in found
    ]
    wanted = [
        row for row, mask in zip(expected["objects"], masks, strict=True) if mask[0]
    ]  # with pixels in the picture
    np.testing.assert_allclose(rows, wanted, atol=0.02)
    assert len(rows) > 5 and len({row[-1] for row in rows}) > 1
    assert all(("points" in entry, "runs" in entry) == ("points" in expected, "masks" in expected) for entry in found)
    for entry, points in zip(found, expected.get("points", ()), strict=False):
        np.testing.assert_allclose(np.array(entry["points"]).reshape(-1), points, atol=0.02)
    for entry, mask in zip(found, [mask for mask in masks if mask[0]], strict=True):
        runs = entry.get("runs", [0, 1])
        inside = np.repeat(np.arange(len(runs)) % 2, runs)
        assert [inside.sum(), (inside * np.arange(inside.size)).sum()] == pytest.approx(mask, rel=2e-3)
        assert "runs" not in entry or inside.size == np.prod(SEEN)


def test_pictures_are_framed_as_by_ultralytics() -> None:
    """OpenCV rounds sums of integers, so that a value may differ by one."""
    processor = ImageProcessor.from_settings({"size": {"longest_edge": max(SEEN)}}, "Yolo")
    for case in golden("framed")["cases"]:
        found = processor([pyapp.from_numpy(seen_picture(*case["size"]))]).pixel_values.numpy()[0]
        found = found.transpose(1, 2, 0) * 255
        assert list(found.shape) == case["shape"]
        np.testing.assert_allclose(shown(found), case["values"], atol=1.01)


def test_a_whole_model_is_read_without_its_code() -> None:
    """Its labels, the size of its pictures and its points are those that it says; nothing in the pickle is run."""
    name = PICKLED[0]
    loaded, file = make(name), PyTorchObjects(BytesSource(pickled(name), "net.pt"))
    assert loaded.model.config.labels == LABELS and loaded.processor.size == {"longest_edge": max(SEEN)}
    assert (loaded.model.config.points, loaded.model.config.batch_norm_eps) == (5, 1e-3)
    assert set(file.tensors) == set(golden(name)["tensors"])
    assert file.model.kind == "ultralytics.nn.tasks.PoseModel"
    assert file.objects["model.0"].kind == "ultralytics.nn.modules.conv.Conv"
    with pytest.raises(FileFormatError, match="asks for ultralytics"):  # where no model is expected
        pyapp.load(BytesIO(pickled(name)))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"cos\nsystem\n(X\x04\0\0\0exittR.", "no model"),
        (b"}X\x05\0\0\0modelcos\nsystem\n(tRs.", "no model"),
        (b"cnet\nModel\n)\x81}X\x08\0\0\0_modulesK\x01sb.", "as PyTorch keeps them"),
        (b"cnet\nModel\n)\x81q\0}X\x08\0\0\0_modules}X\x01\0\0\0mh\0ssb.", "hold themselves"),
        (b"cnet\nModel\n)\x81}X\x08\0\0\0_modules}sb.", "no tensor"),
        (b"cnet\nModel\nK\x01K\x02s.", "needs a dict"),
        (b"cnet\nModel\n)\x81K\x01\x93.", "asks for"),
    ],
)
def test_pickles_that_are_no_models_are_refused(program: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        PyTorchObjects(BytesSource(pickled(PICKLED[0], program), "net.pt"))


def test_damaged_files_are_refused_or_read() -> None:
    """Of a file without weights: what says them, cut off and with other bits."""
    program = zlib.decompress(base64.b64decode(golden(PICKLED[0])["pickle"]))

    def read(data: bytes) -> None:
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("net/data.pkl", data)
        bare_files.settings_in(BytesSource(file.getvalue(), "net.pt"))

    assert not any(survives(read, data) for data in damaged_texts(program, 3))
    stored = pickled(PICKLED[0])
    for at in range(0, len(program), len(program) // 5):  # of the whole file
        damaged = bytearray(program)
        damaged[at] ^= 16
        survives(bare_files.settings_in, BytesSource(stored.replace(program, bytes(damaged), 1), "net.pt"))


def test_a_file_of_candle_has_other_names() -> None:
    """https://huggingface.co/lmz/candle-yolo-v8: names of version 8 by the part of the network."""
    numbers = {number: name for name, number in ultralytics.CANDLES.items()}
    tensors = {}
    for key, value in weights_of("yolov8").items():
        layer, _, rest = key.removeprefix("model.").partition(".")
        name = numbers[int(layer)]
        before = "" if name == "head" else "fpn." if name[0] == "n" else "net."
        tensors[f"{before}{name}.{rest.replace('m.', 'bottleneck.', 1) if rest[:2] == 'm.' else rest}"] = value
    data = BytesSource(exported(tensors), "yolov8n.safetensors")
    found = load_image_model({"yolov8n.safetensors": data}, "object-detection").model
    pictures = pyapp.from_numpy(picture(1, 64, 64))
    with pyapp.no_grad():
        assert np.array_equal(found(pictures)[0].numpy(), make("yolov8").model(pictures)[0].numpy())


def test_boxes_that_overlap_a_better_one_are_left_out() -> None:
    """Two thirds, and exactly a half, of two boxes' area in common; a box without area; equal scores."""
    corners = np.array([[0, 0, 4, 4], [0, 0, 4, 6], [0, 0, 4, 2], [9, 9, 9, 9], [5, 5, 6, 6], [5, 5, 6, 6]], float)
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.5])
    assert non_max_suppression(corners, scores, 0.5, 10) == [0, 2, 3, 4]
    assert non_max_suppression(corners, scores, 0.7, 10) == [0, 1, 2, 3, 4]
    assert non_max_suppression(corners, scores, 0.5, 2) == [0, 2]
    assert non_max_suppression(corners[:0], scores[:0], 0.5, 2) == []


def without(name: str, *parts: str, **more: np.ndarray) -> dict[str, np.ndarray]:
    return {key: value for key, value in weights_of(name).items() if not any(part in key for part in parts)} | more


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"a.weight": np.ones((2, 2), np.float32)}, "config.json is missing"),
        (without("yolov8", ".22."), "its head has the parts cv1, cv2, m"),
        (without("yolov8", **{"model.22.one2one_cv2.0.bias": np.ones(3, np.float32)}), "its head has the parts"),
        (without("yolov8", **{"model.4.cv3.conv.weight": np.ones(3, np.float32)}), "layer 4 has the parts"),
        (without("yolov8", "model.4."), "not those of YOLO|do not fit|joins|has the parts"),
        (without("yolov8", "model.8.m.0.cv2.conv"), "missing: model.8.m.0.cv2.conv.weight"),
        (without("yolov8", "model.8.m.0.cv2.bn.running"), "running_mean"),
        (without("yolov8", "model.22.cv3.0.2"), "not those of YOLO"),
    ],
)  # fmt: skip
def test_files_of_other_models_are_refused(tensors: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_image_model({"net.safetensors": BytesSource(exported(tensors), "net.safetensors")}, "object-detection")


def test_a_yolo_does_one_task() -> None:
    for name, task in (("yolov8", "image-classification"), ("yolov8_classify", "object-detection")):
        file, data = file_of(name)
        with pytest.raises(ModelError, match="this YOLO"):
            load_image_model({file: BytesSource(data, file)}, task)
    model = make("yolov8").model
    for shape in ((1, 3, 64, 70), (1, 3, 32, 0), (1, 1, 64, 64)):
        with pytest.raises(InputError, match="YOLO"):
            model(pyapp.zeros(*shape))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": ()}, "layers"), ({"layers": ("cn_c8", "xx")}, "layer 1 is 'xx'"), ({"layers": (3,)}, "layer 0"),
        ({"layers": ("cn_c0",)}, "cannot be"), ({"layers": ("cn_c99999",)}, "cannot be"),
        ({"layers": ("sp_r1_i8_c8",)}, "cannot be"), ({"layers": ("at_r1_i8_m8_h3_c8",)}, "cannot be"),
        ({"layers": ("at_r1_i8_m8_c8",)}, "cannot be"), ({"layers": ("cn_c8", "jn_1")}, "comes later"),
        ({"layers": ("cn_c8", "cn_c8", "jn_0")}, "two sizes"), ({"layers": ("up",)}, "too far"),
        ({"layers": ("cn_c8", "cv_k1_s1_c8_f1")}, "comes later"), ({"layers": ("bt_r0_m8_c8",)}, "cannot be"),
        ({"layers": ("cn_c8",) * 11}, "too far"), ({"layers": ("cn_c60000", "jn_0")}, "too wide"),
        ({"reads": (1,)}, "reads"), ({"head": "boxes"}, "head"), ({"bins": 0}, "bins"), ({"point_values": 4}, "point"),
        ({"image_size": 1 << 20}, "image_size"), ({"iou_threshold": 2.0}, "iou"), ({"box_size": 0}, "box_size"),
    ],
)  # fmt: skip
def test_configurations_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Config.from_dict({"layers": ("cn_c8",), "reads": (0,), **changes})
