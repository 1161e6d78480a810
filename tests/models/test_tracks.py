"""Objects followed through a video, against transformers (make_golden_tracks.py)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError
from pyapp.models.sam2 import Config, Sam2Tracker
from pyapp.nn.vision.mask_memory import Track
from tests.models.seeded import shown
from tests.models.test_diffusion import drawn
from tests.models.track_cases import CASES, CONFIG, FIRST, FRAMES, OBJECTS, RAISED, video
from tests.together import check_each

UNREAD = ("no_memory_positional_encoding", "mask_downsample.weight", "mask_downsample.bias")


@cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("golden_tracks.json").read_text())
    return found


@pytest.mark.parametrize("name", CASES)
def test_tracks_are_those_of_transformers(name: str) -> None:
    model: Any = drawn(Sam2Tracker(Config.from_dict(CASES[name])))
    with pyapp.no_grad():
        model.mask_decoder.pred_obj_score_head.proj_out.bias += RAISED
    expected = golden()[name]
    shapes = {key: list(value.shape) for key, value in model.state_dict().items()}
    assert shapes == {key: shape for key, shape in expected["parameters"].items() if key not in UNREAD}
    frames = pyapp.from_numpy(video())
    tracks = [Track(FIRST, FRAMES) for _ in OBJECTS]
    with pyapp.no_grad():
        for step, number in enumerate(expected["frames"]):
            seen, *finer = model.seen(frames[number : number + 1])
            for i, (points, labels, box) in enumerate(OBJECTS):
                told: dict[str, Any] = {"backward": number < FIRST}
                if number == FIRST:
                    given = (pyapp.tensor([points]), pyapp.tensor([labels])) if points else (None, None)
                    shape = None if box is None else pyapp.tensor([box])
                    told = {"prompts": model.prompts_of(*given, shape), "points": len(points) + 2 * (box is not None)}
                mask, score = model.followed(seen, finer, tracks[i], number, **told)
                wanted = np.asarray(expected["masks"][step][i])
                near = 2e-3 * float(np.abs(wanted).max())  # maps are remembered as bfloat16
                np.testing.assert_allclose(shown(mask.numpy()[0]), wanted, atol=near, err_msg=f"{number} {i}")
                assert float(score.item()) == pytest.approx(expected["scores"][step][i], abs=2e-2)
    assert all(len(track.kept) <= 10 for track in tracks)


def test_memories_of_other_kinds_are_refused() -> None:
    def refused(change: dict[str, Any]) -> None:
        with pytest.raises(ModelError):
            Sam2Tracker(Config.from_dict(CONFIG | change))

    changes: list[dict[str, Any]] = [
        {"memory_attention_hidden_size": 64}, {"memory_encoder_output_channels": 48}, {"num_maskmem": 10**6},
        {"memory_attention_rope_feat_sizes": [64, 64]}, {"mask_downsampler_total_stride": 8}, {"rope_parameters": 3},
        {"mask_downsampler_kernel_size": 5}, {"memory_fuser_kernel_size": 4}, {"memory_attention_num_layers": 10**9},
        {"memory_attention_num_attention_heads": 3}, {"memory_fuser_hidden_act": "x"}, {"max_cond_frame_num": "all"},
    ]  # fmt: skip
    check_each(refused, ((change,) for change in changes))
