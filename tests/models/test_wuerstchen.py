"""Würstchen against diffusers (make_golden_wuerstchen.py): names, the prior's numbers, latents step by step and
pictures; missing parts and hostile configurations.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.formats.safetensors import write_safetensors
from pyapp.models.diffusion.cascade import CascadeDrawing, begin_drawing
from pyapp.models.diffusion.load import CASCADE, COMBINED, load_diffusion
from pyapp.models.diffusion.load import PRIOR as PRIOR_PIPELINE
from pyapp.models.diffusion.paella import PaellaConfig
from pyapp.models.diffusion.sampling import ImagineOptions
from pyapp.models.diffusion.texts import TextEncoder
from pyapp.models.diffusion.wuerstchen import (
    WuerstchenConfig,
    WuerstchenDecoder,
    WuerstchenPrior,
    WuerstchenPriorConfig,
)
from pyapp.models.loading.config import read_config
from pyapp.models.loading.towers_config import ClipTextConfig
from pyapp.vision.reading import read_image
from tests.models.diffusion_cases import LATENTS, NEGATIVE, PROMPTS, numbers
from tests.models.seeded import picture_weights, shown
from tests.models.test_diffusion import drawn, write_tokenizer
from tests.models.wuerstchen_cases import (
    DECODER,
    DECODER_SETTINGS,
    GUIDANCE,
    HEIGHT,
    LAST,
    PRIOR,
    PRIOR_SETTINGS,
    SCHEDULES,
    STEPS,
    TEXTS,
    VQGAN,
    WIDTH,
)

NETWORKS = {"prior": PRIOR, "decoder": DECODER, "vqgan": VQGAN}


@cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("golden_wuerstchen.json").read_text())
    return found


def write_parts(folder: Path, pipeline: str, kinds: dict[str, str], reads: str, start: str = "", **more: Any) -> None:
    """Parts of a folder as diffusers writes it. kinds: the classes of its networks; start: of the parts' names."""
    index: dict[str, Any] = {"_class_name": pipeline, **more}
    encoder = drawn(TextEncoder(read_config(ClipTextConfig, TEXTS[reads]), None))
    states = {part: {name: pyapp.from_numpy(picture_weights(name, tuple(shape)))
                     for name, shape in golden()["parameters"][part].items() if shape} for part in kinds}  # fmt: skip
    if "prior" in states:
        states["prior"]["out.1.weight"] = states["prior"]["out.1.weight"] * LAST
    for part, kind, config, state in (
        ("text_encoder", "CLIPTextModel", TEXTS[reads], encoder.state_dict()),
        *((part, kind, NETWORKS[part], states[part]) for part, kind in kinds.items()),
    ):
        (folder / f"{start}{part}").mkdir(parents=True)
        stem = "model" if part == "text_encoder" else "diffusion_pytorch_model"
        (folder / f"{start}{part}" / "config.json").write_text(json.dumps(config))
        write_safetensors(folder / f"{start}{part}" / f"{stem}.safetensors", state)
        index[f"{start}{part}"] = ["library", kind]
    write_tokenizer(folder / f"{start}tokenizer")
    (folder / f"{start}scheduler").mkdir()
    schedule = json.dumps({"_class_name": "DDPMWuerstchenScheduler", **SCHEDULES[reads]})
    (folder / f"{start}scheduler" / "scheduler_config.json").write_text(schedule)
    path = folder / "model_index.json"
    (path).write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | index))


def write_model(folder: Path, combined: bool = False) -> Path:
    pipeline = (COMBINED, COMBINED) if combined else (CASCADE, PRIOR_PIPELINE)
    more, told = ({}, {}) if combined else (DECODER_SETTINGS, PRIOR_SETTINGS)
    write_parts(folder, pipeline[0], {"decoder": "WuerstchenDiffNeXt", "vqgan": "PaellaVQModel"}, "decoder", **more)
    beside, start = (folder, "prior_") if combined else (folder.with_name(f"{folder.name}-prior"), "")
    write_parts(beside, pipeline[1], {"prior": "WuerstchenPrior"}, "prior", start, **told)
    return folder


def options(**more: Any) -> ImagineOptions:
    told = {"negative_prompt": NEGATIVE, "steps": STEPS, "guidance": GUIDANCE, "height": HEIGHT, "width": WIDTH}
    return ImagineOptions(**told | more)


@pytest.mark.native_only  # needs the tokenizers library and files
def test_pictures_are_those_of_diffusers(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    loaded = load_diffusion(write_model(tmp_path / "model"))
    drawing = begin_drawing(
        loaded, PROMPTS, options(), lambda shape: pyapp.from_numpy(numbers(LATENTS, *shape))
    )  # fmt: skip
    assert isinstance(drawing, CascadeDrawing) and drawing.steps == 2 * STEPS and len(loaded.modules) == 5
    wanted = golden()
    for i in range(drawing.steps):
        drawing.step(i)
        if i + 1 == STEPS:
            np.testing.assert_allclose(shown(drawing.small.numpy()), wanted["small"], atol=1e-3, rtol=1e-3)
        elif i >= STEPS:
            np.testing.assert_allclose(
                shown(drawing.latents.numpy()), wanted["latents"][i - STEPS], atol=1e-3, rtol=1e-3, err_msg=str(i)
            )
    pictures = np.stack([picture.numpy() for picture in drawing.pictures()])
    assert pictures.shape == (2, HEIGHT, WIDTH, 3)
    np.testing.assert_allclose(shown(pictures) / 255, wanted["pictures"], atol=3e-3)
    assert begin_drawing(loaded, PROMPTS[:1], ImagineOptions(guidance=1.0)).height == 1024
    picture = pyapp.zeros(32, 16, 3, dtype="uint8")
    for told, more, match in (
        ({"height": 40}, {}, "nearest side is 32"), ({"schedule": "ddim"}, {}, "its own schedule"),
        ({"true_cfg_scale": 2.0}, {}, "one guidance"), ({}, {"picture": picture}, "of texts alone"),
        ({"strength": 0.5}, {}, "of texts alone"), ({"steps": 2000}, {}, "1,000"),
    ):  # fmt: skip
        with pytest.raises(OptionError) as caught:
            begin_drawing(loaded, PROMPTS, options(**told), **more)
        assert any(part in f"{caught.value.what} {caught.value.hint}" for part in match.split("|")), caught.value


@pytest.mark.native_only  # needs the tokenizers library, files and a command
def test_one_folder_and_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder, target = write_model(tmp_path / "both", combined=True), tmp_path / "drawn.png"
    command = ["imagine", "a red cat", "-s", "1", "--height", "128", "--width", "128", "-o", str(target)]
    answer = testing.CliRunner().invoke(cli, [*command, "-m", str(folder), "--type", "float16"])
    assert answer.exit_code == 0 and read_image(target).shape == (128, 128, 3), answer.output
    apart = write_model(tmp_path / "model")
    first = apart.with_name("model-prior").rename(tmp_path / "first")
    for given, more, match in (
        (apart, {}, "model-prior"), (first, {}, "draws no pictures"), (apart, {"prior": folder}, "no Wuerst"),
        (apart, {"prior": first, "lora": "x"}, "takes no lora"),
    ):  # fmt: skip
        with pytest.raises((ModelError, OSError), match=match):
            load_diffusion(given, **more)
    answer = testing.CliRunner().invoke(
        cli,
        [*command[:4], "--height", "32", "--width", "32", *command[-2:], "-m", str(apart), "--prior", str(first)],
    )
    assert answer.exit_code == 0 and read_image(target).shape == (32, 32, 3), answer.output
    for part, change, match in (
        ("decoder", {"effnet_embd": 3}, "effnet_mappers"), ("vqgan", {"levels": 9}, "levels"),
        ("text_encoder", {"hidden_size": 12}, "another shape"),
    ):  # fmt: skip
        path = apart / part / "config.json"
        kept = path.read_text()
        path.write_text(json.dumps(json.loads(kept) | change))
        with pytest.raises(ModelError, match=match):
            load_diffusion(apart, prior=first)
        path.write_text(kept)
    (first / "scheduler" / "scheduler_config.json").unlink()
    with pytest.raises(ModelError, match=r"scheduler_config\.json is missing"):
        load_diffusion(apart, prior=first)


def test_hostile_configurations() -> None:
    for kind, own, changes in (
        (WuerstchenPriorConfig, PRIOR, ({"nhead": 3}, {"c": 1 << 20}, {"depth": 1000}, {"c_r": 2}, {"c_in": "a"})),
        (WuerstchenConfig, DECODER, (
            {"level_config": ["CT", "CX"]}, {"level_config": ["TC", "CTA"]}, {"nhead": [-1, 3]}, {"blocks": [1]},
            {"c_hidden": [4, 1 << 20]}, {"blocks": [1, 1000]}, {"kernel_size": 4}, {"c_out": 3}, {"c_hidden": 5},
            {"inject_effnet": [0, 1]}, {"patch_size": 17},
        )),
        (PaellaConfig, VQGAN, (
            {"levels": 9}, {"embed_dim": 1}, {"scale_factor": 0.0}, {"out_channels": 4}, {"bottleneck_blocks": 257},
        )),
    ):  # fmt: skip
        for change in changes:
            with pytest.raises(ModelError):
                kind.from_dict(own | change)
    decoder = WuerstchenDecoder(WuerstchenConfig.from_dict(DECODER))
    prior, time = WuerstchenPrior(WuerstchenPriorConfig.from_dict(PRIOR)), pyapp.zeros(1)
    small = pyapp.zeros(1, 2, 2, 2)
    for call in (
        lambda: decoder(pyapp.zeros(1, 4, 6, 8), time, small, pyapp.zeros(1, 3, 10)),
        lambda: decoder(pyapp.zeros(1, 4, 8, 8), time, small, pyapp.zeros(1, 3, 9)),
        lambda: prior(pyapp.zeros(1, 3, 8, 8), time, pyapp.zeros(1, 3, 12)),
    ):
        with pytest.raises(ArgumentError):
            call()
