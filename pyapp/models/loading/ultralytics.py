"""Files of Ultralytics' YOLO: weights without a config.json, whose layers are read from the tensors' names and shapes.

A .pt file is a pickle of the whole model. It is read as inert objects (formats/pytorch_objects.py): no code of it runs.
A .safetensors file has the same names, or those of candle's examples (https://huggingface.co/lmz/candle-yolo-v8).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import ModelError
from pyapp.formats import Checkpoint, open_checkpoint
from pyapp.formats.checkpoint import TensorInfo
from pyapp.formats.opening import sniff
from pyapp.formats.pytorch_objects import PyTorchObjects
from pyapp.formats.source import close_source, open_source

from .labels import LARGEST
from .pictures_config import SIDE_LIMIT

NAME = re.compile(r"(?:model\.){0,2}(model\.(?P<layer>\d{1,3})\.(?P<part>\w+)\..+)")
# candle's names of the layers of version 8.
CANDLE = re.compile(r"(?:net\.(b\d\.\d)|fpn\.(n\d)|(head))\.(.+)")
CANDLES = {
    "b1.0": 0, "b1.1": 1, "b2.0": 2, "b2.1": 3, "b2.2": 4, "b3.0": 5, "b3.1": 6, "b4.0": 7, "b4.1": 8, "b5.0": 9,
    "n1": 12, "n2": 15, "n3": 16, "n4": 18, "n5": 19, "n6": 21, "head": 22,
}  # fmt: skip
MODEL_TYPE = "yolo"  # of their configurations here
PARTS = {  # of layers, by kind
    "cn": {"conv", "bn"}, "sp": {"cv1", "cv2", "m"}, "at": {"cv1", "cv2", "m"}, "pp": {"cv1", "cv2"},
    "detect": {"cv2", "cv3", "dfl"}, "segment": {"cv2", "cv3", "cv4", "dfl", "proto"},
    "pose": {"cv2", "cv3", "cv4", "dfl"}, "bt": {"cv1", "cv2"}, "classify": {"conv", "linear"},
}  # fmt: skip
HEAD_WIDTH = 64  # channels of a head of attention
KNOWN = "Known: YOLOv8 and YOLO11 for objects, outlines, poses, turned boxes and labels, and YOLOv3u"
# The layers of version 3: filters (the stride, and the layer that they read), bottlenecks, and those without tensors.
THIRD = (
    "cv_1 cv_2 bt cv_2 bt cv_2 bt cv_2 bt cv_2 bt bt cv_1 cv_1 cv_1 cv_1 cv_1_f14 up jn_8 bt bt cv_1 cv_1 cv_1_f21 up "
    "jn_6 bt bt"
).split()
THIRD_BACKBONE, THIRD_READS = 11, (27, 22, 15)
COCO = (
    "person|bicycle|car|motorcycle|airplane|bus|train|truck|boat|traffic light|fire hydrant|stop sign|parking meter|"
    "bench|bird|cat|dog|horse|sheep|cow|elephant|bear|zebra|giraffe|backpack|umbrella|handbag|tie|suitcase|frisbee|"
    "skis|snowboard|sports ball|kite|baseball bat|baseball glove|skateboard|surfboard|tennis racket|bottle|"
    "wine glass|cup|fork|knife|spoon|bowl|banana|apple|sandwich|orange|broccoli|carrot|hot dog|pizza|donut|cake|"
    "chair|couch|potted plant|bed|dining table|toilet|tv|laptop|mouse|remote|keyboard|cell phone|microwave|oven|"
    "toaster|sink|refrigerator|book|clock|vase|scissors|teddy bear|hair drier|toothbrush"
).split("|")  # the 80 labels of COCO (Lin et al. 2014, arXiv 1405.0312)


def renamed(name: str) -> str:
    """The name of a tensor in Ultralytics' files; other names as they are."""
    found = NAME.fullmatch(name)
    if found is not None:
        return found[1]
    found = CANDLE.fullmatch(name)
    layer = None if found is None else CANDLES.get(next(filter(None, found.groups()[:3])))
    if found is None or layer is None:
        return name
    return f"model.{layer}.{found[4].replace('bottleneck.', 'm.')}"


def open_weights(source: Any) -> Checkpoint:
    """A file of weights; of a model that was saved whole, its tensors. Errors are those of open_checkpoint."""
    opened = open_source(source)
    try:
        return PyTorchObjects(opened) if sniff(opened) == "pytorch" else open_checkpoint(opened)
    except BaseException:
        if opened is not source:
            close_source(opened)
        raise


def is_yolos(tensors: Mapping[str, TensorInfo]) -> bool:
    """Whether a file has the tensors of YOLO's first layers."""
    names = {renamed(name) for name in tensors}
    return {"model.0.conv.weight", "model.1.conv.weight", "model.2.cv1.conv.weight"} <= names


def settings_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The fields of a config.json of a file of weights: those that its tensors say, and the labels and the size of
    pictures of a whole model. ModelError for another model than YOLOv3, YOLOv8 and YOLO11.
    """
    where = checkpoint.source.name
    if not is_yolos(checkpoint.tensors):
        raise ModelError(
            "its config.json is missing", where=where, hint="Give the folder that has it, or the hub's name"
        )
    try:
        found = {"model_type": MODEL_TYPE, **described(checkpoint.tensors)}
    except ModelError as error:
        raise ModelError(error.what, where=where, hint=error.hint) from error
    if isinstance(checkpoint, PyTorchObjects):
        found |= _said(checkpoint, found)
    return found


def _said(checkpoint: PyTorchObjects, found: Mapping[str, Any]) -> dict[str, Any]:
    """What the attributes of a whole model say."""
    said: dict[str, Any] = {}
    model = checkpoint.model.attributes
    names = model.get("names")
    names = dict(enumerate(names)) if type(names) is list else names
    count = found["num_labels"]
    if type(names) is dict and len(names) == count and set(names) == set(range(count)):
        said["id2label"] = {str(i): str(names[i]) for i in range(count)}
    arguments = model.get("args")
    size = arguments.get("imgsz") if type(arguments) is dict else None
    if type(size) is int and 1 <= size <= SIDE_LIMIT:
        said["image_size"] = size
    norm = checkpoint.objects.get("model.0.bn")
    epsilon = None if norm is None else norm.attributes.get("eps")
    if type(epsilon) is float and 0 < epsilon < 1:
        said["batch_norm_eps"] = epsilon
    head = checkpoint.objects.get(f"model.{len(found['layers'])}")
    shape = None if head is None else head.attributes.get("kpt_shape")
    if found["head"] == "pose" and type(shape) in (list, tuple) and len(shape) == 2:  # type: ignore[arg-type]
        points, values = shape  # type: ignore[misc]
        if type(points) is int and values in (2, 3) and points * values == found["points"] * found["point_values"]:
            said |= {"points": points, "point_values": values}
    return said


def processor_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a preprocessor_config.json of a YOLO: pictures are made to fit into a square, or for labels of
    whole pictures, their middle is cut out.
    """
    if settings.get("head") != "classify":
        return {"image_processor_type": "YoloImageProcessor", "size": {"longest_edge": settings.get("image_size", 640)}}
    side = settings.get("image_size", 224)
    return {
        "image_processor_type": "TimmWrapperImageProcessor", "size": {"shortest_edge": side}, "resample": 2,
        "crop_size": {"height": side, "width": side}, "do_normalize": False,
    }  # fmt: skip


def described(tensors: Mapping[str, TensorInfo]) -> dict[str, Any]:
    """The fields of models/yolo.py's configuration that a file's tensors say. ModelError for other networks."""
    shapes = {renamed(name): tuple(info.shape) for name, info in tensors.items()}
    parts: dict[int, set[str]] = {}
    for name in shapes:
        found = NAME.fullmatch(name)
        if found is not None:
            parts.setdefault(int(found["layer"]), set()).add(found["part"])
    if not parts:
        raise ModelError("the file has no layers of YOLO", hint=KNOWN)
    last = max(parts)
    kind = next((kind for kind in ("classify", "segment", "pose", "detect") if PARTS[kind] == parts[last]), None)
    if kind is None:
        raise ModelError(f"its head has the parts {', '.join(sorted(parts[last])):.100}", hint=KNOWN)
    try:
        described = (_third if _is_third(shapes) else _layers)(shapes, parts, last)
        return described | _head(shapes, kind, f"model.{last}")
    except ModelError:
        raise
    except (KeyError, IndexError, ValueError) as error:
        raise ModelError("its layers are not those of YOLO", hint=KNOWN) from error


def _layers(shapes: Mapping[str, Sequence[int]], parts: Mapping[int, set[str]], last: int) -> dict[str, Any]:
    """The descriptions of the layers before the head. ModelError for unknown ones."""
    attends = any(name.endswith(".attn.qkv.conv.weight") for name in shapes)
    layers: list[str] = []
    blocks: list[int] = []  # the numbers of blocks of the backbone
    outputs: list[int] = []  # those of the maps to join on the way to larger places
    reads: list[int] = []
    for i in range(last):
        own = parts.get(i, set())
        if not own:
            if not outputs:
                outputs.append(i - 1)
            coming = not parts.get(i + 1)  # two layers without tensors: one enlarges the maps, one joins them
            if coming:
                layers.append("up")
            elif layers[-1] == "up":
                layers.append(f"jn_{blocks[-1 - len(outputs)]}")
            else:
                layers.append(f"jn_{outputs[-1 - len(reads)]}")
            continue
        layers.append(_layer(shapes, own, i, attends or not outputs))
        if layers[-1][:2] != "sp":
            continue
        if not outputs:
            blocks.append(i)
        elif layers[-3 if len(layers) > 2 else 0] == "up":
            outputs.append(i)
            reads = [i]
        else:
            reads.append(i)
    return {"layers": layers, "reads": reads or [last - 1]}


def _is_third(shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether a file has bottlenecks as its third layer, as version 3 has."""
    return "model.2.cv2.conv.weight" in shapes and not any(name.startswith("model.2.m.") for name in shapes)


def _third(shapes: Mapping[str, Sequence[int]], parts: Mapping[int, set[str]], last: int) -> dict[str, Any]:
    """As `_layers`, of version 3."""
    layers: list[str] = []
    for i, form in enumerate(THIRD if last == len(THIRD) else ()):
        kind, _, stride = form.partition("_")
        own, at = parts.get(i, set()), f"model.{i}."
        if kind == "cv" and own == PARTS["cn"]:
            width, _, size, _ = shapes[f"{at}conv.weight"]
            stride, _, source = stride.partition("_")
            layers.append(f"cv_k{size}_s{stride}_c{width}{source and f'_{source}'}")
        elif kind == "bt" and (own == PARTS["bt"] or own == {str(n) for n in range(len(own))} != set()):
            first = at if own == PARTS["bt"] else f"{at}0."
            width, middle = shapes[f"{first}cv2.conv.weight"][:2]
            times = 1 if own == PARTS["bt"] else len(own)
            layers.append(f"bt_r{times}_m{middle}_c{width}{'_add' if i < THIRD_BACKBONE else ''}")
        elif kind in ("up", "jn") and not own:
            layers.append(form)
        else:
            break
    if len(layers) != len(THIRD):
        raise ModelError(f"layer {len(layers)} is not that of YOLOv3", hint=KNOWN)
    return {"layers": layers, "reads": THIRD_READS}


def _layer(shapes: Mapping[str, Sequence[int]], own: set[str], i: int, adds: bool) -> str:
    """The description of layer i."""
    at = f"model.{i}."
    if own == PARTS["cn"] and tuple(shapes[f"{at}conv.weight"][2:]) == (3, 3):
        return f"cn_c{shapes[f'{at}conv.weight'][0]}"
    if own != PARTS["pp"] and own != PARTS["sp"]:
        raise ModelError(f"layer {i} has the parts {', '.join(sorted(own)):.100}", hint=KNOWN)
    inner, width = shapes[f"{at}cv1.conv.weight"][0], shapes[f"{at}cv2.conv.weight"][0]
    if own == PARTS["pp"]:
        return f"pp_i{inner}_c{width}"
    repeats = _count(shapes, f"{at}m.")
    if f"{at}m.0.attn.qkv.conv.weight" in shapes:
        heads = max(1, inner // 2 // HEAD_WIDTH)
        return f"at_r{repeats}_i{inner // 2}_m{shapes[f'{at}m.0.ffn.0.conv.weight'][0]}_h{heads}_c{width}"
    first = shapes[f"{at}m.0.cv1.conv.weight"]
    deep = f"_d{_count(shapes, f'{at}m.0.m.')}" if f"{at}m.0.cv3.conv.weight" in shapes else ""
    if not deep and tuple(first[2:]) != (3, 3):
        raise ModelError(f"layer {i} has bottlenecks of {first[2]} x {first[3]} pixels", hint=KNOWN)
    return f"sp_r{repeats}_i{inner // 2}_m{first[0]}{deep}_c{width}{'_add' if adds else ''}"


def _count(shapes: Mapping[str, Any], before: str) -> int:
    """How many parts a list of modules has."""
    return 1 + max(int(name.removeprefix(before).partition(".")[0]) for name in shapes if name.startswith(before))


def _head(shapes: Mapping[str, Sequence[int]], kind: str, at: str) -> dict[str, Any]:
    """The fields of the head below the name `at`."""
    if kind == "classify":
        labels, width = shapes[f"{at}.linear.weight"]
        return {"head": kind, "image_size": 224, "head_size": width, "batch_norm_eps": 1e-5, **_labels(labels)}
    separable = f"{at}.cv3.0.0.0.conv.weight" in shapes
    found = {
        "head": kind, "separable": separable, "box_size": shapes[f"{at}.cv2.0.0.conv.weight"][0],
        "bins": shapes[f"{at}.dfl.conv.weight"][1], "label_size": shapes[f"{at}.cv3.0.2.weight"][1],
        **_labels(shapes[f"{at}.cv3.0.2.weight"][0]),
    }  # fmt: skip
    if kind == "detect":
        return found
    more, found["more_size"] = shapes[f"{at}.cv4.0.2.weight"][:2]
    if kind == "segment":
        return found | {"prototypes": more, "prototype_size": shapes[f"{at}.proto.cv1.conv.weight"][0]}
    if more == 1:
        return found | {"head": "obb"}
    values = 3 if more % 3 == 0 else 2
    return found | {"points": more // values, "point_values": values}


def _labels(count: int) -> dict[str, Any]:
    """The names of the labels, those of COCO if there are 80, or their number."""
    if not 1 <= count <= LARGEST:
        raise ModelError(f"it has {count:,} labels, expected up to {LARGEST:,}")
    if count == len(COCO):
        return {"num_labels": count, "id2label": {str(i): name for i, name in enumerate(COCO)}}
    return {"num_labels": count}
