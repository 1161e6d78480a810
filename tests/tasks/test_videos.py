"""Labels of videos: the task, the pipeline, `pyapp classify-video` and the server, with the values of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import ModelError
from pyapp.events import Error, Item, Notice
from pyapp.formats.png import encode_png
from pyapp.formats.safetensors import write_safetensors
from pyapp.models.loading.videos import load_video_model
from pyapp.vision.videos import chosen
from tests.models.picture_configs import CONFIGS
from tests.models.test_pictures import make
from tests.serve.in_process import serving
from tests.together import collect
from tests.vision.test_videos import encoded, moving

PROCESSORS: dict[str, Any] = {
    "videomae": {
        "image_processor_type": "VideoMAEImageProcessor", "size": {"shortest_edge": 14},
        "crop_size": {"height": 12, "width": 8},
    },
    "vjepa2": {"video_processor_type": "VJEPA2VideoProcessor", "crop_size": 12},
}  # fmt: skip
CLASSES = {"videomae": "VideoMAEForVideoClassification", "vjepa2": "VJEPA2ForVideoClassification"}


def write(folder: Path, name: str, **changed: Any) -> Path:
    """The folder of a model."""
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", make(name, "video-classification").state_dict())
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | {"architectures": [CLASSES[name]]}))
    file = "video_preprocessor_config.json" if name == "vjepa2" else "preprocessor_config.json"
    (folder / file).write_text(json.dumps(PROCESSORS[name] | changed))
    return folder


def events_of(videos: Any, **options: Any) -> list[Any]:
    return collect(tasks.classify_videos(videos, **options))


def expected(loaded: Any, frames: np.ndarray) -> list[dict[str, Any]]:
    """The labels of the model's own numbers."""
    seen = [pyapp.from_numpy(frames[number]) for number in chosen(len(frames), loaded.model.frames)]
    with pyapp.no_grad():
        chances = loaded.model(loaded.processor(seen).pixel_values.unsqueeze(0)).softmax(-1)[0].tolist()
    pairs = sorted(zip(loaded.model.config.labels, chances, strict=True), key=lambda pair: -pair[1])
    return [{"label": label, "score": chance} for label, chance in pairs]


@pytest.mark.parametrize("name", CLASSES)
def test_folders_load_and_label(name: str, tmp_path: Path) -> None:
    folder, frames = write(tmp_path / name, name), moving(11)
    loaded = load_video_model(folder)
    events = events_of([pyapp.from_numpy(frames), pyapp.from_numpy(frames[:2])], model=str(folder), top=2)
    items = [event.values["labels"] for event in events if isinstance(event, Item)]
    for found, given in zip(items, (frames, frames[:2]), strict=True):
        wanted = expected(loaded, given)[:2]
        assert [entry["label"] for entry in found] == [entry["label"] for entry in wanted]
        np.testing.assert_allclose([e["score"] for e in found], [e["score"] for e in wanted], rtol=1e-5)
    [told] = [event.what for event in events if isinstance(event, Notice)]
    assert told == "it has 2 frames, the model sees 4: some are seen several times"
    again = pyapp.pipeline("video-classification", loaded)(pyapp.from_numpy(frames))
    assert [entry["label"] for entry in again] == [entry["label"] for entry in expected(loaded, frames)]
    assert again[:2] == items[0]


def test_processors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="8 x 8 pixels, the model takes 12 x 8"):
        load_video_model(write(tmp_path / "a", "videomae", crop_size={"height": 8, "width": 8}))
    with pytest.raises(ModelError, match="several sizes"):
        load_video_model(write(tmp_path / "b", "videomae", do_center_crop=False))
    *_, last = events_of(["none.mp4"], model=str(tmp_path / "a"))
    assert isinstance(last, Error) and last.where == "none.mp4"
    *_, last = events_of(3, model=str(tmp_path / "a"))
    assert isinstance(last, Error) and "int is not a video" in last.what


@pytest.mark.native_only
def test_the_command_and_the_server(tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")

    from pyapp.cli import cli

    model, frames = write(tmp_path / "model", "videomae"), moving(9)
    [best, *_] = wanted = expected(load_video_model(model), frames)
    data = encoded(frames, "matroska", "ffv1")
    film, folder = tmp_path / "film.mkv", tmp_path / "frames"
    film.write_bytes(data)
    folder.mkdir()
    for number, frame in enumerate(frames):
        (folder / f"{number}.png").write_bytes(encode_png(frame))
    runner = testing.CliRunner()
    found = runner.invoke(cli, ["classify-video", str(film), str(folder), "-m", str(model), "--top", "1"])
    line = f"{best['label']} {best['score']:.4f}"
    assert found.stdout == f"{line}\t{film}\n{line}\t{folder}\n"
    wrong = runner.invoke(cli, ["classify-video", str(model / "config.json"), "-m", str(model)])
    assert wrong.stdout == "" and "not a video that is known" in wrong.stderr
    with serving(f"films={model}") as client:
        answer = client.post("/models/films", content=data, headers={"content-type": "video/x-matroska"})
        assert answer.status_code == 200, answer.text
        np.testing.assert_allclose([e["score"] for e in answer.json()], [e["score"] for e in wanted], rtol=1e-5)
        assert [e["label"] for e in answer.json()] == [e["label"] for e in wanted]
        refused = client.post("/models/films", content=b"nothing", headers={"content-type": "video/mp4"})
        assert refused.status_code == 400 and "not a video" in refused.json()["error"]["message"]
