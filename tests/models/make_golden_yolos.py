"""Makes golden_yolos/NAME.json with Ultralytics' library, one for each configuration of yolo_configs.py:

    PYTHONPATH=. python tests/models/make_golden_yolos.py [NAME …]

A file has the names and shapes of the tensors, some numbers of the outputs for two pictures, the product of each
layer's gradients with fixed vectors, and what the library finds in one picture. Of PICKLED it also has the pickle of
the .pt file, compressed, the numbers of the tensors' storages, and what is in other storages. "framed" has pictures as
the library prepares them. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import base64
import os
import pickle
import tempfile
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

os.environ["YOLO_CONFIG_DIR"] = tempfile.mkdtemp()

import numpy as np
import torch
import yaml
from ultralytics import YOLO
from ultralytics.data.augment import LetterBox

from tests.goldens import write_each
from tests.models.seeded import direction, picture, picture_weights, rounded, shown
from tests.models.seeded_folders import along
from tests.models.yolo_configs import CONFIGS, FRAMED, LABELS, PICKLED, SEEN, SIZE, THRESHOLD, seen_picture

HEADS = {"detect": 0, "obb": 0, "segment": 1, "pose": 0, "classify": 1}


def tensors_of(outputs: Any) -> list[torch.Tensor]:
    """The tensors of nested tuples, in order."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [part for output in outputs for part in tensors_of(output)] if isinstance(outputs, tuple | list) else []


def keys_of(file: Path) -> dict[str, list[Any]]:
    """Of each tensor in a .pt file, by its address, the key of its storage."""
    found = {}

    class Reader(pickle.Unpickler):
        def persistent_load(self, saved: Any) -> Any:
            return saved[2]

        def find_class(self, module: str, name: str) -> Any:
            if name.startswith("_rebuild_tensor"):
                return lambda key, offset, shape, *_: (key, list(shape))
            if name == "_rebuild_parameter":
                return lambda data, *_: data
            return super().find_class(module, name) if module in ("collections", "__builtin__") else Inert

    class Inert:
        def __init__(self, *_: Any) -> None: ...

    with zipfile.ZipFile(file) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        saved = Reader(archive.open(name)).load()

    def walk(module: Any, name: str) -> None:
        own = vars(module)
        for key, value in [*own["_parameters"].items(), *own["_buffers"].items()]:
            if value is not None:
                found[name + key] = value
        for key, value in own["_modules"].items():
            walk(value, f"{name}{key}.")

    walk(saved["model"], "")
    return found


def golden(name: str) -> dict[str, Any]:
    config = CONFIGS[name]
    with tempfile.TemporaryDirectory() as place:
        written = Path(place) / f"{config['task']}.yaml"
        written.write_text(yaml.safe_dump(config["yaml"]))
        made = YOLO(str(written), task=config["task"])
        model = made.model
        model.names = dict(enumerate(LABELS))
        model.args["imgsz"] = max(SEEN)
        state = model.state_dict()
        for key, value in state.items():
            if value.is_floating_point() and "dfl" not in key:
                value.copy_(torch.from_numpy(picture_weights(f"net.{key}", tuple(value.shape))).half())
        file = Path(place) / "net.pt"
        made.save(file)
        found: dict[str, Any] = {"tensors": {key: list(value.shape) for key, value in state.items()}}
        if name in PICKLED:
            found["keys"] = [int(keys_of(file)[key][0]) for key in state]
            with zipfile.ZipFile(file) as archive:
                data = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
            saved = data["data.pkl"]
            found["others"] = {
                key: data[key].hex()
                for key in data
                if key.startswith("data/") and int(key.removeprefix("data/")) not in found["keys"]
            }
            found["pickle"] = base64.b64encode(zlib.compress(saved, 9)).decode()
        loaded = YOLO(str(file))
        result = loaded.predict(seen_picture(*SEEN)[:, :, ::-1], conf=THRESHOLD, imgsz=max(SEEN), verbose=False)[0]
    model.float().eval()
    pictures = torch.from_numpy(picture(2, *SIZE))
    outputs = tensors_of(model(pictures))
    chosen = outputs[1:] if config["task"] == "classify" else outputs[: 1 + HEADS[config["task"]]]
    found["outputs"] = [rounded(shown(part.detach().numpy(), 96)) for part in chosen]
    gradients: Counter[str] = Counter()
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    chosen = tensors_of(model(pictures))
    chosen = chosen[1:] if config["task"] == "classify" else chosen[: 1 + HEADS[config["task"]]]
    sum(along(part, "") for part in chosen).backward()
    for key, parameter in model.named_parameters():
        if parameter.grad is not None and "dfl" not in key:
            layer = ".".join(key.split(".")[:2])
            gradients[layer] += float((parameter.grad.double().numpy() * direction(key, parameter.shape)).sum())
    found["gradients"] = {key: rounded([value])[0] for key, value in gradients.items()}
    if result.probs is not None:
        return found | {"probabilities": rounded(result.probs.data)}
    if result.obb is not None:
        corners = result.obb.xyxyxyxy.reshape(-1, 8)
        rows = torch.cat([corners, result.obb.conf[:, None], result.obb.cls[:, None]], 1)
        return found | {"objects": [rounded(row) for row in rows]}
    found["objects"] = [rounded(row) for row in result.boxes.data]
    if result.keypoints is not None:
        found["points"] = [rounded(row) for row in result.keypoints.data]
    if result.masks is not None:
        top = (result.masks.data.shape[1] - SEEN[0]) // 2  # of the picture in its frame
        masks = result.masks.data.numpy()[:, top : top + SEEN[0], : SEEN[1]]
        places = np.arange(masks[0].size).reshape(masks[0].shape)
        found["masks"] = [[int(mask.sum()), int((mask * places).sum())] for mask in masks]
    return found


def framed() -> dict[str, Any]:
    """Some numbers of pictures in their frames."""
    found = []
    for size in FRAMED:
        image = LetterBox(max(SEEN), auto=True, stride=32)(image=seen_picture(*size))
        found.append({"size": size, "shape": list(image.shape), "values": shown(image).tolist()})
    return {"cases": found}


if __name__ == "__main__":
    write_each(__file__, [*CONFIGS, "framed"], lambda name: framed() if name == "framed" else golden(name))
