"""Models of pictures that are trained as classifiers of folders of pictures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import tasks
from pyapp.cli import run as run_command
from pyapp.errors import FileFormatError, ModelError, ModelNotFoundError, OptionError
from pyapp.events import Done, Event
from pyapp.formats import open_checkpoint
from pyapp.formats.png import encode_png
from tests.models.picture_folders import write_picture_folder
from tests.recipes.finetune.interrupted import trained
from tests.together import values_of

pytestmark = pytest.mark.native_only

COLOURS = {"red": (200, 20, 20), "green": (20, 200, 20), "grey": (120, 120, 120)}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise around three colours, of odd sizes, in a folder for each."""
    place = tmp_path_factory.mktemp("pictures")
    numbers = np.random.default_rng(1)
    for name, colour in COLOURS.items():
        (place / name).mkdir()
        for i in range(5):
            pixels = np.clip(np.array(colour) + numbers.normal(0, 20, (10 + i, 14 - i, 3)), 0, 255).astype(np.uint8)
            (place / name / f"{i}.png").write_bytes(encode_png(pixels))
    return place


def run(model: Path | str, data: Path, out: Path, stop: int = 0, **settings: Any) -> list[Event]:
    given = {"rate": 1e-2, "rows": 6, "steps": 20, "evaluate_every": 20, "held_out_data": data, **settings}
    return trained(model, data, out, stop, **given)


@pytest.mark.parametrize("name", ["deit", "resnet"])
def test_a_classifier_of_pictures(pictures: Path, tmp_path: Path, name: str) -> None:
    """It learns new classes, is the same after a break, and loads as any classifier."""
    model = write_picture_folder(tmp_path / "model", name)
    done = run(model, pictures, tmp_path / "out")[-1]
    assert isinstance(done, Done) and done.results["held_out_accuracy"] == 1.0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "green", "1": "grey", "2": "red"}
    stopped = run(model, pictures, tmp_path / "parts", 5)[-1]
    assert isinstance(stopped, Done) and stopped.reason == "cancelled"
    run(model, pictures, tmp_path / "parts")
    whole, parts = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("out", "parts"))
    assert whole == parts

    [found] = values_of(tasks.classify_images(pictures / "red" / "1.png", model=tmp_path / "out"))
    assert found["labels"][0]["label"] == "red"
    if name == "resnet":
        with open_checkpoint(model / "model.safetensors") as before, open_checkpoint(
            tmp_path / "out" / "model.safetensors"
        ) as after:  # fmt: skip
            statistics = [key for key in before.tensors if key.endswith("running_mean")]
            assert statistics
            for key in statistics:
                assert before.read(key).tolist() == after.read(key).tolist()


def test_what_is_refused(pictures: Path, tmp_path: Path) -> None:
    model = write_picture_folder(tmp_path / "model", "deit")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelNotFoundError, match="there is no picture"):
        run(model, tmp_path / "empty", tmp_path / "out")
    damaged = shutil.copytree(pictures, tmp_path / "damaged")
    (damaged / "red/1.png").write_bytes((pictures / "red/1.png").read_bytes()[:-50])
    with pytest.raises(FileFormatError, match=r"red.1\.png"):  # before the first step
        run(model, damaged, tmp_path / "out")
    (damaged / "grey/2.png").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"2 of 15 pictures cannot be read: .*grey.2\.png \(.*red.1\.png"):
        run(model, damaged, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    table = tmp_path / "data.csv"
    table.write_text("text,label\na,b\n")
    with pytest.raises(OptionError, match="Give a folder with a folder of pictures"):
        run(model, table, tmp_path / "out")
    with pytest.raises(OptionError, match="folders for models of pictures"):
        run("stories", pictures, tmp_path / "out")
    broken = tmp_path / "broken"
    for name in ("a", "b"):
        (broken / name).mkdir(parents=True)
        (broken / name / "1.png").write_bytes(b"no picture")
    with pytest.raises(FileFormatError, match="1.png"):
        run(model, broken, tmp_path / "out")
    with pytest.raises(ModelError, match="get no new head"):
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"model_type": "hiera"}))
        run(model, pictures, tmp_path / "out")


def test_the_command(pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = write_picture_folder(tmp_path / "model", "deit"), str(tmp_path / "out")
    assert run_command(["finetune", str(model), str(pictures), "-o", out, "--steps", "2"]) == 0
    told = capsys.readouterr().out
    assert "of the held-out pictures" in told and f"try it: pyapp classify-image PICTURES -m {out}" in told
