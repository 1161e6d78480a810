"""Stable Diffusion against diffusers (make_golden_diffusion.py): names, outputs of its parts, schedules step by step;
hostile configurations.
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
from pyapp.models.diffusion.autoencoder import Autoencoder, AutoencoderConfig, renamed
from pyapp.models.diffusion.load import TextEncoder, load_diffusion
from pyapp.models.diffusion.sampling import Drawing, ImagineOptions
from pyapp.models.diffusion.schedules import read_schedule
from pyapp.models.diffusion.unet import UNet, UNetConfig
from pyapp.models.loading.config import read_config
from pyapp.models.loading.towers_config import ClipTextConfig
from pyapp.vision.reading import read_image
from tests.models.diffusion_cases import (
    DECODERS,
    LATENTS,
    MERGES,
    MODELS,
    NEGATIVE,
    PROMPTS,
    SCHEDULES,
    UNETS,
    inputs,
    network,
    numbers,
    vocabulary,
)
from tests.models.seeded import picture_weights, shown


@cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("golden_diffusion.json").read_text())
    return found


def drawn(model: Any) -> Any:
    with pyapp.no_grad():
        for name, value in model.named_parameters():
            value.copy_(pyapp.from_numpy(picture_weights(name, tuple(value.shape))))
    return model.eval()


def check(model: Any, expected: dict[str, Any], output: pyapp.Tensor) -> None:
    assert {name: list(value.shape) for name, value in model.named_parameters()} == expected["parameters"]
    np.testing.assert_allclose(shown(output.numpy()), expected["output"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", UNETS)
def test_unets_are_those_of_diffusers(name: str) -> None:
    model = drawn(UNet(UNetConfig.from_dict(UNETS[name])))
    with pyapp.no_grad():
        output = model(**{key: pyapp.from_numpy(value) for key, value in inputs(name).items()})
    check(model, golden()["unets"][name], output)


def test_the_decoder_is_that_of_diffusers() -> None:
    model = drawn(Autoencoder(AutoencoderConfig.from_dict(DECODERS["plain"])))
    with pyapp.no_grad():
        output = model(pyapp.from_numpy(numbers(5, 2, 4, 3, 5)))
    check(model, golden()["decoders"]["plain"], output)
    assert (
        renamed("decoder.mid_block.attentions.0.proj_attn.weight") == "decoder.mid_block.attentions.0.to_out.0.weight"
    )


def test_a_unet_trains() -> None:
    model = drawn(UNet(UNetConfig.from_dict(UNETS["one"]))).requires_grad_()
    model(**{key: pyapp.from_numpy(value) for key, value in inputs("one").items()}).square().mean().backward()
    grads = [parameter.grad for parameter in model.parameters()]
    assert all(grad is not None and bool(grad.isfinite().all()) and float(grad.abs().max()) > 0 for grad in grads)


@pytest.mark.parametrize("case", range(len(SCHEDULES)))
def test_schedules_are_those_of_diffusers(case: int) -> None:
    (kind, settings, steps), expected = SCHEDULES[case], golden()["schedules"][case]
    chosen, config = read_schedule({"_class_name": kind, **settings})
    made, drawn_so_far = chosen(config, steps), iter(range(100))
    assert made.times == pytest.approx(expected["times"]) and made.first == pytest.approx(expected["first"])
    x = pyapp.from_numpy(numbers(6, 1, 4, 2, 3)) * made.first

    def noise(x: pyapp.Tensor) -> pyapp.Tensor:
        return pyapp.from_numpy(numbers(10 + next(drawn_so_far), *x.shape))

    for i, wanted in enumerate(expected["states"]):
        x = made.after(x, network(made.scaled(x, i), made.times[i]), i, noise)
        np.testing.assert_allclose(shown(x.numpy()), wanted, atol=1e-4, rtol=1e-4)


def test_what_is_not_supported_is_refused() -> None:
    for change in (
        {"act_fn": "gelu"}, {"down_block_types": ["AttnDownBlock2D", "DownBlock2D"]}, {"block_out_channels": []},
        {"block_out_channels": [8]}, {"block_out_channels": [8, 10**9]}, {"norm_num_groups": 3}, {"norm_num_groups": 0},
        {"attention_head_dim": [2, 4, 8]}, {"attention_head_dim": 3}, {"layers_per_block": 10**9},
        {"cross_attention_dim": "12"}, {"addition_embed_type": "text_time"}, {"class_embed_type": "timestep"},
        {"transformer_layers_per_block": [[1]]}, {"block_out_channels": "8"},
    ):  # fmt: skip
        with pytest.raises(ModelError):
            UNetConfig.from_dict(UNETS["one"] | change)
    for change in ({"up_block_types": ["AttnUpDecoderBlock2D"]}, {"scaling_factor": 0}, {"norm_num_groups": 5}):
        with pytest.raises(ModelError):
            AutoencoderConfig.from_dict(DECODERS["plain"] | change)
    for values in ({"_class_name": "HeunDiscreteScheduler"}, {"_class_name": "DDIMScheduler", "beta_start": -1.0},
                   {"_class_name": "DDIMScheduler", "prediction_type": "flow"}, {},
                   {"_class_name": "EulerDiscreteScheduler", "use_karras_sigmas": True}):  # fmt: skip
        with pytest.raises(ModelError):
            read_schedule(values)
    with pytest.raises(OptionError, match="schedule"):
        read_schedule({"_class_name": "DDIMScheduler"}, "heun")
    chosen, config = read_schedule({"_class_name": "LCMScheduler"})
    for steps in (0, 51, 2.5):
        with pytest.raises(OptionError, match="steps"):
            chosen(config, steps)  # type: ignore[arg-type]
    model = UNet(UNetConfig.from_dict(UNETS["one"]))
    with pytest.raises(ArgumentError, match="multiples of 2"):
        model(pyapp.zeros(1, 4, 7, 8), pyapp.zeros(1), pyapp.zeros(1, 3, 12))
    with pytest.raises(ArgumentError, match="text"):
        model(pyapp.zeros(1, 4, 8, 8), pyapp.zeros(1), pyapp.zeros(1, 3, 10))


def write_model(folder: Path, name: str) -> Path:
    """A folder as diffusers writes it."""
    unet, texts, (schedule, settings), _, _ = MODELS[name]
    parts: dict[str, tuple[str, dict[str, Any], Any]] = {
        "unet": ("UNet2DConditionModel", UNETS[unet], UNet(UNetConfig.from_dict(UNETS[unet]))),
        "vae": ("AutoencoderKL", DECODERS["plain"], Autoencoder(AutoencoderConfig.from_dict(DECODERS["plain"]))),
    }
    index: dict[str, Any] = {
        "_class_name": "StableDiffusionXLPipeline" if len(texts) > 1 else "StableDiffusionPipeline",
        "scheduler": ["diffusers", schedule], "safety_checker": [None, None],
    }  # fmt: skip
    for i, config in enumerate(texts):
        projection = config.get("projection_dim")
        kind = "CLIPTextModel" if projection is None else "CLIPTextModelWithProjection"
        end = "_2" if i else ""
        parts[f"text_encoder{end}"] = (kind, config, TextEncoder(read_config(ClipTextConfig, config), projection))
        tokenizer = folder / f"tokenizer{end}"
        tokenizer.mkdir(parents=True)
        (tokenizer / "vocab.json").write_text(json.dumps(vocabulary()))
        (tokenizer / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, MERGES)]) + "\n")
        named = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
        (tokenizer / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CLIPTokenizer", **named}))
    for part, (kind, config, model) in parts.items():
        (folder / part).mkdir()
        (folder / part / "config.json").write_text(json.dumps(config))
        stem = "model" if part.startswith("text") else "diffusion_pytorch_model"
        state = drawn(model).state_dict()
        if part == "text_encoder_2":  # as newer files have them
            state = {key.removeprefix("text_model."): value for key, value in state.items()}
        write_safetensors(folder / part / f"{stem}.safetensors", state)
        index[part] = ["library", kind]
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps({"_class_name": schedule, **settings}))
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("name", MODELS)
def test_pictures_are_those_of_diffusers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    _, _, _, guidance, steps = MODELS[name]
    loaded = load_diffusion(write_model(tmp_path, name))
    assert [loaded.tokenizers[0].encode_batch([text])[0].ids for text in PROMPTS] == golden()["models"][name]["ids"]
    count = iter([LATENTS, *range(20, 40)])
    options = ImagineOptions(negative_prompt=NEGATIVE, steps=steps, guidance=guidance, width=16, height=16)
    drawing = Drawing(loaded, PROMPTS, options, lambda shape: pyapp.from_numpy(numbers(next(count), *shape)))
    for i in range(drawing.steps):
        drawing.step(i)
    np.testing.assert_allclose(
        shown(drawing.latents.numpy()), golden()["models"][name]["latents"], atol=2e-4, rtol=2e-4
    )
    pictures = list(drawing.pictures())
    assert [picture.shape for picture in pictures] == [(16, 16, 3)] * 2 and pictures[0].dtype is pyapp.uint8


@pytest.mark.native_only  # needs the tokenizers library, files and a command
def test_the_command_draws_and_says_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    folder = write_model(tmp_path / "model", "one")

    def run(*arguments: str, code: int = 0) -> Any:
        found = testing.CliRunner().invoke(cli, ["imagine", *arguments], standalone_mode=False)
        assert (found.return_value if found.exception is None else found.exit_code) == code, found.output
        return found

    size = ["--width", "16", "--height", "32", "-s", "2", "-m", str(folder)]
    target = tmp_path / "a.png"
    for seed in ("3", "3", "4"):
        run("a red cat", "cat", *size, "--seed", seed, "-o", str(tmp_path / f"{seed}.png"))
    assert (tmp_path / "3-1.png").read_bytes() != (tmp_path / "4-1.png").read_bytes()
    assert read_image(tmp_path / "3-2.png").shape == (32, 16, 3)
    assert run("cat", *size, "-o", str(target), "--schedule", "lcm").stdout.split() == [str(target)]
    for arguments, message in (
        (["--width", "17"], "multiple of 4"), (["--steps", "2000"], "1,000"),
        (["--schedule", "lcm", "--steps", "60"], "50 steps"), (["-m", str(tmp_path)], "model_index.json"),
    ):  # fmt: skip
        assert message in run("cat", *size, *arguments, code=1).output
    for part, message in (("unet/config.json", "unet/config.json"), ("tokenizer", "tokenizer"),
                          ("vae/diffusion_pytorch_model.safetensors", "vae")):  # fmt: skip
        place = folder / part
        place.rename(tmp_path / "away")
        with pytest.raises(ModelError, match=message):
            load_diffusion(folder)
        (tmp_path / "away").rename(place)
    schedule = folder / "scheduler" / "scheduler_config.json"
    schedule.write_text(schedule.read_text().replace("DDIMScheduler", "PNDMScheduler"))
    assert "DDIM takes its place" in run("cat", *size, "-o", str(target)).output
    assert "DDIM takes its place" not in run("cat", *size, "-o", str(target), "--schedule", "euler").output
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": "FluxPipeline"}))
    with pytest.raises(ModelError, match="FluxPipeline"):
        load_diffusion(folder)
