"""Objects followed through videos: the task and `pyapp follow`, with the values of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.events import Done, Error, Item
from pyapp.formats.png import encode_png
from pyapp.formats.safetensors import write_safetensors
from pyapp.models.loading.pictures import load_image_model
from pyapp.models.sam2 import Config, Sam2Tracker
from pyapp.nn.vision.mask_memory import Track
from pyapp.vision.reading import read_image
from tests.models.test_diffusion import drawn
from tests.models.track_cases import CONFIG, RAISED
from tests.together import collect

pytestmark = pytest.mark.native_only  # needs files
FRAMES = 3


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and the frames of a video."""
    folder = tmp_path_factory.mktemp("following")
    model: Any = drawn(Sam2Tracker(Config.from_dict(CONFIG)))
    with pyapp.no_grad():
        model.mask_decoder.pred_obj_score_head.proj_out.bias += RAISED
    (folder / "model").mkdir()
    state = model.state_dict() | {"no_memory_positional_encoding": pyapp.zeros(1, 1, 128)}
    write_safetensors(folder / "model" / "model.safetensors", state)
    (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
    settings = {"image_processor_type": "Sam2ImageProcessorFast", "size": {"height": 32, "width": 32}}
    (folder / "model" / "preprocessor_config.json").write_text(json.dumps(settings))
    (folder / "frames").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (FRAMES, 20, 30, 3), np.uint8)
    for number, frame in enumerate(pixels):
        (folder / "frames" / f"{number}.png").write_bytes(encode_png(frame))
    return folder


def test_objects_are_followed_with_the_values_of_the_model(top: Path) -> None:
    loaded: Any = load_image_model(top / "model", "mask-tracking")
    shown = [{"points": [[6, 9], [20, 4]], "labels": [1, 0]}, {"box": [3, 2, 25, 18]}]
    events = collect(tasks.follow_objects(top / "frames", model=loaded, objects=shown, frame=1))
    assert isinstance(events[-1], Done), events[-1]
    items = {event.index: event.values for event in events if isinstance(event, Item)}
    assert [event.index for event in events if isinstance(event, Item)] == [1, 2, 0]
    tracks, model = [Track(1, FRAMES), Track(1, FRAMES)], loaded.model
    scale = np.array([32 / 30, 32 / 20], np.float32)
    for number in (1, 2, 0):
        prepared = loaded.processor([read_image(top / "frames" / f"{number}.png")], model.device)
        with pyapp.no_grad():
            seen, *finer = model.seen(prepared.pixel_values)
            points = pyapp.from_numpy((np.array(shown[0]["points"], np.float32) * scale)[None])
            box = pyapp.from_numpy((np.array(shown[1]["box"], np.float32).reshape(2, 2) * scale).reshape(1, 4))
            prompts = [
                model.prompts_of(points, pyapp.tensor([[1, 0]]), None), model.prompts_of(None, None, box)
            ]  # fmt: skip
            masks, own = [], {}
            for i, track in enumerate(tracks):
                told = {"prompts": prompts[i], "points": 2} if number == 1 else {"backward": number == 0}
                mask, score = model.followed(seen, finer, track, number, **told)
                for size in ((32, 32), (20, 30)):
                    mask = pyapp.nn.functional.interpolate(mask, size=size, mode="bilinear")
                masks.append(mask.numpy()[0, 0])
                if (masks[-1] > 0).any():
                    own[i + 1] = float((masks[-1] > 0).mean()), float(score.sigmoid().item())
        values = items[number]
        assert values["size"] == [20, 30]
        found = {entry["number"]: (entry["share"], entry["score"]) for entry in values["segments"]}
        assert found == pytest.approx(own) if not own else {*found} == {*own}
        for key, expected in own.items():
            assert found[key] == pytest.approx(expected, abs=1e-6)
        numbers, lengths = (np.array(part) for part in zip(*values["runs"], strict=True))
        areas = np.repeat(numbers, lengths).reshape(20, 30)
        np.testing.assert_array_equal(areas > 0, np.max(masks, 0) > 0)
    assert any(values["segments"] for values in items.values())
    for wrong, match in (
        ({}, "points or a box"), ({"objects": shown, "points": [[1, 1]]}, "of one"), ({"objects": []}, "0 objects"),
        ({"objects": [{"mask": 3}]}, "not an object"), ({"points": [[1, 2]], "frame": 3}, "has 3 frames"),
        ({"points": [[1, 2, 3]]}, "expected 2 numbers"), ({"points": [[1, 2]], "labels": [2]}, "1 or 0"),
        ({"box": [1, 2, 3]}, "expected 4 numbers"), ({"objects": [{"points": 3}]}, "expected a list"),
    ):  # fmt: skip
        (error,) = collect(tasks.follow_objects(top / "frames", model=loaded, **wrong))[-1:]
        assert isinstance(error, Error) and match in str(error), (wrong, error)
    plain = load_image_model(top / "model", "mask-generation")
    (error,) = collect(tasks.follow_objects(top / "frames", model=plain, points=[[1, 2]]))[-1:]
    assert "follows nothing" in str(error)


def test_the_command_writes_frames(top: Path, tmp_path: Path) -> None:
    pytest.importorskip("click")
    from pyapp.cli import cli

    command = ["follow", str(top / "frames"), "-m", str(top / "model"), "--point", "6,9", "-o", str(tmp_path / "drawn")]
    answer = pytest.importorskip("click.testing").CliRunner().invoke(cli, command)
    assert answer.exit_code == 0 and len(answer.stdout.splitlines()) == FRAMES, answer.output
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == ["0.png", "1.png", "2.png"]
    assert read_image(tmp_path / "drawn" / "1.png").shape == (20, 30, 3)
