"""tasks.cut_out_everything and `pyapp segment --everything` against transformers' pipeline
(make_golden_everything.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.events import Item
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.formats.png import encode_png
from tests.models.picture_folders import write_picture_folder
from tests.tasks.everything_cases import CASES, FACTOR, SCALED, photos
from tests.together import collect

GOLDEN = json.loads(Path(__file__).with_name("golden_everything.json").read_text())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_picture_folder(tmp_path_factory.mktemp("models") / "sam", "sam")
    with open_checkpoint(folder / "model.safetensors") as checkpoint:
        tensors = {
            key: checkpoint.read(key) * (FACTOR if re.fullmatch(SCALED, key) else 1) for key in checkpoint.tensors
        }
    write_safetensors(folder / "model.safetensors", tensors)
    return str(folder)


def test_all_objects_are_those_of_transformers(model: str) -> None:
    expected = iter(GOLDEN)
    for photo in photos():
        for case in CASES:
            wanted = next(expected)
            events = collect(tasks.cut_out_everything([pyapp.from_numpy(photo)], model=model, **case))
            [values] = [event.values for event in events if isinstance(event, Item)]
            segments, pixels = values["segments"], photo.shape[0] * photo.shape[1]
            np.testing.assert_allclose([one["score"] for one in segments], wanted["scores"], rtol=1e-4)
            assert [one["number"] for one in segments] == [*range(1, len(segments) + 1)]
            masks = [np.repeat(np.arange(len(one["runs"])) % 2, one["runs"]) for one in segments]
            assert [int(mask.sum()) for mask in masks] == wanted["areas"]
            assert [int(np.flatnonzero(mask).sum()) for mask in masks] == wanted["places"]
            numbers, lengths = np.array(values["runs"]).T
            shown = np.repeat(numbers, lengths)
            assert values["size"] == [*photo.shape[:2]] and len(shown) == pixels
            assert segments
            smallest = min(segments, key=lambda one: one["share"])
            assert np.array_equal(shown == smallest["number"], masks[smallest["number"] - 1] == 1)
            for one, mask in zip(segments, masks, strict=True):
                left, top, right, bottom = one["box"]
                rows, columns = np.nonzero(mask.reshape(values["size"]))
                assert [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] == [left, top, right, bottom]


def test_what_cannot_be_is_refused(model: str) -> None:
    photo = pyapp.from_numpy(photos()[0])
    for name, value in (("points_per_side", 0), ("score", 2), ("stability", "a"), ("overlap", float("nan"))):
        error = collect(tasks.cut_out_everything([photo], model=model, **{name: value}))[-1]
        assert error.type == "error" and name in f"{error.what} {error.where}", name


@pytest.mark.native_only
def test_the_command(model: str, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from pyapp.cli import cli

    file = tmp_path / "a.png"
    file.write_bytes(encode_png(photos()[0]))
    everything = ["segment", str(file), "-m", model, "--everything"]
    for more, code in (
        (["--points-per-side", "2", "-o", str(tmp_path / "o")], 0), (["--box", "1,1,5,5"], 2), (["--labels", "a"], 2)
    ):  # fmt: skip
        found = CliRunner().invoke(cli, [*everything, *more])
        assert (found.exit_code != 0) == bool(code), found.output
    assert (tmp_path / "o" / "a.png").is_file()
    assert CliRunner().invoke(cli, [*everything[:-1], "--points-per-side", "3"]).exit_code != 0
