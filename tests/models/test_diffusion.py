"""Stable Diffusion against diffusers (make_golden_diffusion.py): names, outputs of its parts, schedules step by step;
hostile configurations.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.formats.png import encode_png
from pyapp.formats.safetensors import write_safetensors
from pyapp.models.diffusion.adapter import PictureEncoder
from pyapp.models.diffusion.autoencoder import Autoencoder, AutoencoderConfig, renamed
from pyapp.models.diffusion.controlnet import ControlNet, ControlNetConfig
from pyapp.models.diffusion.load import load_diffusion
from pyapp.models.diffusion.read_schedule import NAMES, read_schedule
from pyapp.models.diffusion.sampling import Drawing, ImagineOptions
from pyapp.models.diffusion.texts import TextEncoder
from pyapp.models.diffusion.tiny_autoencoder import TinyAutoencoder, TinyAutoencoderConfig
from pyapp.models.diffusion.unet import UNet, UNetConfig
from pyapp.models.loading.config import read_config
from pyapp.models.loading.towers_config import ClipTextConfig
from pyapp.vision.reading import read_image
from tests.models.diffusion_cases import (
    ADAPTED,
    ADAPTER_SCALE,
    AUTOENCODERS,
    CHANGES,
    CLIP_SEES,
    CONTROL,
    CONTROL_SCALE,
    CONTROLLED,
    EIGHT,
    LATENTS,
    LORA_SCALE,
    LORAS,
    MERGES,
    MODELS,
    NEGATIVE,
    PROMPTS,
    SCHEDULES,
    TINY,
    UNETS,
    adapter_shapes,
    inputs,
    lora_state,
    network,
    numbers,
    start_picture,
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
    near = 1e-4 + 1e-5 * float(np.abs(expected["output"]).max())  # rounding of large outputs
    np.testing.assert_allclose(shown(output.numpy()), expected["output"], atol=near, rtol=1e-4)


@pytest.mark.parametrize("name", UNETS)
def test_unets_are_those_of_diffusers(name: str) -> None:
    model = drawn(UNet(UNetConfig.from_dict(UNETS[name])))
    with pyapp.no_grad():
        output = model(**{key: pyapp.from_numpy(value) for key, value in inputs(name).items()})
    check(model, golden()["unets"][name], output)


@pytest.mark.parametrize("name", [*AUTOENCODERS, "tiny"])
def test_autoencoders_are_those_of_diffusers(name: str) -> None:
    if name == "tiny":
        model: Any = drawn(TinyAutoencoder(TinyAutoencoderConfig.from_dict(TINY)))
    else:
        model = drawn(Autoencoder(AutoencoderConfig.from_dict(AUTOENCODERS[name])))
    expected = golden()["tiny"] if name == "tiny" else golden()["autoencoders"][name]
    with pyapp.no_grad():
        output = model(pyapp.from_numpy(numbers(5, 2, model.config.latent_channels, 3, 5)))
        pixels = pyapp.from_numpy(numbers(9, 1, 3, 8, 12))
        encoded = model.encode(pixels, lambda x: pyapp.from_numpy(numbers(11, *x.shape)))
    check(model, expected, output)
    np.testing.assert_allclose(shown(encoded.numpy()), expected["encoded"], atol=1e-4, rtol=1e-4)
    for wrong in (pyapp.zeros(1, 3, 8, 7), pyapp.zeros(1, 4, 8, 8), pyapp.zeros(3, 8, 8)):
        with pytest.raises(ArgumentError, match="multiples of"):
            model.encode(wrong, lambda x: x)
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
    assert made.times == pytest.approx(expected["times"], rel=1e-5, abs=1e-4)
    assert made.first == pytest.approx(expected["first"], rel=1e-4)
    x = pyapp.from_numpy(numbers(6, 1, 4, 2, 3)) * made.first

    def noise(x: pyapp.Tensor) -> pyapp.Tensor:
        return pyapp.from_numpy(numbers(10 + next(drawn_so_far), *x.shape))

    near = 1e-4 + 2e-7 * made.first  # rounding of the noise at the beginning
    for i, wanted in enumerate(expected["states"]):
        x = made.after(x, network(made.scaled(x, i), made.times[i]), i, noise)
        np.testing.assert_allclose(shown(x.numpy()), wanted, atol=near, rtol=1e-4, err_msg=f"step {i}")


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
    for change in ({"up_block_types": ["AttnUpDecoderBlock2D"]}, {"scaling_factor": 0}, {"norm_num_groups": 5},
                   {"down_block_types": ["DownBlock2D"]}, {"in_channels": 4}, {"latent_channels": 10**6}):  # fmt: skip
        with pytest.raises(ModelError):
            AutoencoderConfig.from_dict(AUTOENCODERS["plain"] | change)
    for change in ({"num_decoder_blocks": [1]}, {"num_encoder_blocks": [1, 10**6]}, {"act_fn": "gelu"},
                   {"decoder_block_out_channels": [6, 8]}, {"encoder_block_out_channels": [8, "8"]},
                   {"num_encoder_blocks": [], "num_decoder_blocks": []}):  # fmt: skip
        with pytest.raises(ModelError):
            TinyAutoencoderConfig.from_dict(TINY | change)
    for values in ({"_class_name": "FlowScheduler"}, {"_class_name": "DDIMScheduler", "beta_start": -1.0},
                   {"_class_name": "DDIMScheduler", "prediction_type": "flow"}, {},
                   {"_class_name": "EulerDiscreteScheduler", "use_beta_sigmas": True},
                   {"_class_name": "DPMSolverMultistepScheduler", "solver_order": 4},
                   {"_class_name": "DPMSolverMultistepScheduler", "algorithm_type": "dpmsolver"},
                   {"_class_name": "PNDMScheduler"},
                   {"_class_name": "UniPCMultistepScheduler", "predict_x0": False}):  # fmt: skip
        with pytest.raises(ModelError):
            kind, config = read_schedule(values)
            kind(config, 5)
    with pytest.raises(OptionError, match="schedule"):
        read_schedule({"_class_name": "DDIMScheduler"}, "heun++")
    for name in NAMES:  # of a file of any other
        kind, config = read_schedule({"_class_name": "DDIMScheduler", "clip_sample": False}, name)
        made = kind(config, 5)
        times = {"heun": 9, "dpm2": 9, "dpm2-ancestral": 9, "pndm": 6}
        assert len(made.times) == times.get(name.removesuffix("-karras"), 5)
        with pytest.raises(OptionError, match="strength"):
            made.begin(0.19)
    for name in ("unipc", "dpm++"):
        kind, config = read_schedule({"timestep_spacing": "leading"}, name)
        with pytest.raises(OptionError, match="steps"):
            kind(config, 1000)
    chosen, config = read_schedule({"_class_name": "LCMScheduler"})
    for steps in (0, 51, 2.5):
        with pytest.raises(OptionError, match="steps"):
            chosen(config, steps)  # type: ignore[arg-type]
    model = UNet(UNetConfig.from_dict(UNETS["one"]))
    with pytest.raises(ArgumentError, match="latents"):
        model(pyapp.zeros(1, 3, 8, 8), pyapp.zeros(1), pyapp.zeros(1, 3, 12))
    with pytest.raises(ArgumentError, match="text"):
        model(pyapp.zeros(1, 4, 8, 8), pyapp.zeros(1), pyapp.zeros(1, 3, 10))


def write_part(folder: Path, kind: str, config: dict[str, Any], model: Any) -> Path:
    """The folder of a part by itself."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"_class_name": kind, **config}))
    write_safetensors(folder / "diffusion_pytorch_model.safetensors", drawn(model).state_dict())
    return folder


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of CLIP's kind."""
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary()))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, MERGES)]) + "\n")
    named = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CLIPTokenizer", **named}))


def write_model(folder: Path, name: str) -> Path:
    """A folder as diffusers writes it."""
    unet, texts, (schedule, settings), _, _ = MODELS[name]
    parts: dict[str, tuple[str, dict[str, Any], Any]] = {
        "unet": ("UNet2DConditionModel", UNETS[unet], UNet(UNetConfig.from_dict(UNETS[unet]))),
        "vae": (
            "AutoencoderKL",
            AUTOENCODERS["plain"],
            Autoencoder(AutoencoderConfig.from_dict(AUTOENCODERS["plain"])),
        ),
    }
    index: dict[str, Any] = {
        "_class_name": f"StableDiffusion{'XL' if len(texts) > 1 else 'Inpaint' if name == 'fills' else ''}Pipeline",
        "scheduler": ["diffusers", schedule], "safety_checker": [None, None],
    }  # fmt: skip
    for i, config in enumerate(texts):
        projection = config.get("projection_dim")
        kind = "CLIPTextModel" if projection is None else "CLIPTextModelWithProjection"
        end = "_2" if i else ""
        parts[f"text_encoder{end}"] = (kind, config, TextEncoder(read_config(ClipTextConfig, config), projection))
        write_tokenizer(folder / f"tokenizer{end}")
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
@pytest.mark.parametrize("name", [name for name in MODELS if name != "fills"])
def test_pictures_are_those_of_diffusers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    _, _, _, guidance, steps = MODELS[name]
    loaded = load_diffusion(write_model(tmp_path, name))
    assert [loaded.tokenizer.encode_batch([text])[0].ids for text in PROMPTS] == golden()["models"][name]["ids"]
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


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("name", CONTROLLED)
def test_controlnets_are_those_of_diffusers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    unet, _, _, guidance, steps = MODELS[name]
    expected, config = golden()["controlled"][name], UNETS[unet] | CONTROL
    network = ControlNet(ControlNetConfig.from_dict(config))
    own = {key: list(value.shape) for key, value in network.named_parameters() if key.startswith("controlnet_")}
    assert own == expected["parameters"]
    loaded = load_diffusion(
        write_model(tmp_path / "model", name),
        vae=write_part(tmp_path / "vae", "AutoencoderKL", EIGHT, Autoencoder(AutoencoderConfig.from_dict(EIGHT))),
        control=write_part(tmp_path / "control", "ControlNetModel", config, network),
    )
    options = ImagineOptions(
        negative_prompt=NEGATIVE, steps=steps, guidance=guidance, height=32, width=40, control_scale=CONTROL_SCALE
    )
    picture = pyapp.from_numpy(start_picture()[0])
    drawing = Drawing(
        loaded, PROMPTS, options, lambda shape: pyapp.from_numpy(numbers(LATENTS, *shape)), control=picture
    )
    for i in range(drawing.steps):
        drawing.step(i)
    np.testing.assert_allclose(shown(drawing.latents.numpy()), expected["latents"], atol=3e-4, rtol=3e-4)
    with pytest.raises(OptionError, match="go together"):
        Drawing(loaded, PROMPTS, options)
    # As a pipeline with a ControlNet among its parts is stored.
    (tmp_path / "control").rename(tmp_path / "model" / "controlnet")
    index = json.loads((tmp_path / "model" / "model_index.json").read_text())
    index |= {"controlnet": ["diffusers", "ControlNetModel"]}
    index["_class_name"] = index["_class_name"].replace("Pipeline", "ControlNetPipeline")
    (tmp_path / "model" / "model_index.json").write_text(json.dumps(index))
    again = load_diffusion(tmp_path / "model", vae=tmp_path / "vae").control
    assert again is not None and loaded.control is not None
    for own, other in zip(again.parameters(), loaded.control.parameters(), strict=True):
        np.testing.assert_array_equal(own.numpy(), other.numpy())
    for change in ({"conditioning_embedding_out_channels": [4]}, {"conditioning_channels": 1}, {"down_block_types": 5},
                   {"global_pool_conditions": True}):  # fmt: skip
        with pytest.raises(ModelError):
            ControlNetConfig.from_dict(config | change)
    if name == CONTROLLED[0]:
        with pytest.raises(ArgumentError, match="the picture is"):
            network(pyapp.zeros(1, 4, 4, 4), pyapp.zeros(1), pyapp.zeros(1, 3, 12), pyapp.zeros(1, 3, 16, 32))


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("case", range(len(LORAS)))
def test_loras_are_those_of_diffusers(tmp_path: Path, case: int) -> None:
    pytest.importorskip("tokenizers")
    (name, _, names), expected = LORAS[case], golden()["loras"][case]
    folder, file = write_model(tmp_path / "model", name), tmp_path / "lora.safetensors"
    state = {key: pyapp.from_numpy(value) for key, value in lora_state(case, expected["shapes"]).items()}
    write_safetensors(file, state)
    loaded = load_diffusion(folder, lora=[(file, LORA_SCALE)])
    _, _, _, guidance, steps = MODELS[name]
    options = ImagineOptions(negative_prompt=NEGATIVE, steps=steps, guidance=guidance, width=16, height=16)
    drawing = Drawing(loaded, PROMPTS, options, lambda shape: pyapp.from_numpy(numbers(LATENTS, *shape)))
    for i in range(drawing.steps):
        drawing.step(i)
    np.testing.assert_allclose(shown(drawing.latents.numpy()), expected["latents"], atol=3e-4, rtol=3e-4)
    half = load_diffusion(folder, lora=[str(file), (file, 0.1)], dtype="float16")
    assert half.network.mid_block.attentions[0].transformer_blocks[0].attn1.to_q.weight.dtype is pyapp.float16
    if case:
        return
    first = next(iter(state))
    for change in ({first: pyapp.zeros(2, 5)}, {first: pyapp.zeros(3, 8)}, {"unet.nothing.lora_A.weight": state[first]},
                   {f"{names[0]}.dora_scale": state[first]}):  # fmt: skip
        write_safetensors(file, state | change)
        with pytest.raises(ModelError, match=r"LoRA|to_q"):
            load_diffusion(folder, lora=file)
    write_safetensors(tmp_path / "model" / "other.safetensors", state)
    load_diffusion(folder, lora=f"{folder}:other.safetensors")
    with pytest.raises(ModelError, match="no such LoRA"):
        load_diffusion(folder, lora=f"{folder}:nothing.safetensors")


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("name", ADAPTED)
def test_pictures_as_prompts_are_those_of_diffusers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    expected = golden()["adapted"][name]
    _, _, _, guidance, steps = MODELS[name]
    folder, file, clip = write_model(tmp_path / "model", name), tmp_path / "ip.safetensors", tmp_path / "image_encoder"
    shapes = adapter_shapes(name, expected["widths"])
    state = {key: pyapp.from_numpy(picture_weights(key, shape)) for key, shape in shapes.items()}
    write_safetensors(file, state)
    clip.mkdir()
    (clip / "config.json").write_text(json.dumps(CLIP_SEES))
    write_safetensors(clip / "model.safetensors", drawn(PictureEncoder(CLIP_SEES)).state_dict())
    loaded = load_diffusion(folder, adapter=[(file, ADAPTER_SCALE)])
    options = ImagineOptions(negative_prompt=NEGATIVE, steps=steps, guidance=guidance, width=16, height=16)
    picture = pyapp.from_numpy(np.ascontiguousarray(start_picture()[0][:16, :16]))
    drawing = Drawing(
        loaded, PROMPTS, options, lambda shape: pyapp.from_numpy(numbers(LATENTS, *shape)), prompt=picture
    )
    for i in range(drawing.steps):
        drawing.step(i)
    np.testing.assert_allclose(shown(drawing.latents.numpy()), expected["latents"], atol=3e-4, rtol=3e-4)
    with pytest.raises(OptionError, match="go together"):
        Drawing(loaded, PROMPTS, options)
    again = load_diffusion(folder, adapter=f"{tmp_path}:ip.safetensors", image_encoder=clip, dtype="float16")
    assert again.pictures is not None
    first = next(iter(state))
    for change, message in (
        ({first: pyapp.zeros(3, 5)}, "no IP-Adapter of this U-Net"),
        ({key: pyapp.zeros(2) for key in state if key.startswith("image_proj.")}, "is not known"),
    ):
        write_safetensors(file, state | change)
        with pytest.raises(ModelError, match=message):
            load_diffusion(folder, adapter=file)
    with pytest.raises(ModelError, match="image_encoder is of"):
        load_diffusion(folder, image_encoder=clip)


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize(("dtype", "error"), [("q8_0", 0.02), ("float16", 2e-3)])
def test_weights_of_another_type_draw_nearly_the_same(tmp_path: Path, dtype: str, error: float) -> None:
    """Convolutions are converted too, and LoRA files are added to what is converted."""
    pytest.importorskip("tokenizers")
    folder, file = write_model(tmp_path / "model", "one"), tmp_path / "lora.safetensors"
    path, shape = "unet.up_blocks.0.resnets.0.conv1", (16, 32, 3, 3)
    change = {f"{path}.lora_A.weight": numbers(1, 2, *shape[1:]), f"{path}.lora_B.weight": numbers(2, 16, 2, 1, 1)}
    write_safetensors(file, {name: pyapp.from_numpy(value) for name, value in change.items()})
    found = []
    for kind in (None, dtype):
        loaded = load_diffusion(folder, dtype=kind, lora=[(file, 0.05)])
        text, _ = loaded.texts(PROMPTS)
        with pyapp.no_grad():
            given = {key: pyapp.from_numpy(value) for key, value in inputs("one").items()}
            found.append(loaded.network(given["latents"], given["time"], text).numpy())
    weight = loaded.network.up_blocks[0].resnets[0].conv1.weight
    assert weight.dtype.name == dtype and weight.nbytes < 0.55 * 4 * np.prod(shape)
    difference = np.linalg.norm(found[1] - found[0]) / np.linalg.norm(found[0])
    assert 0 < difference < error
    with pytest.raises(OptionError, match="q9_0"):
        load_diffusion(folder, dtype="q9_0")


@pytest.mark.native_only  # needs the tokenizers library and files
def test_changed_pictures_are_those_of_diffusers(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    loaded = {name: load_diffusion(write_model(tmp_path / name, name)) for name in {name for name, *_ in CHANGES}}
    picture, mask = map(pyapp.from_numpy, start_picture())
    for (name, kind, steps, strength, masked), expected in zip(CHANGES, golden()["changes"], strict=True):
        settings = next(settings for known, settings, _ in SCHEDULES if known == kind)
        model = replace(loaded[name], schedule={"_class_name": kind, **settings})
        count = iter(range(20, 40))
        options = ImagineOptions(negative_prompt=NEGATIVE, steps=steps, guidance=4.0, strength=strength)
        drawing = Drawing(
            model, PROMPTS, options, lambda shape, count=count: pyapp.from_numpy(numbers(next(count), *shape)),
            picture, mask.unsqueeze(2) if masked else None,
        )  # fmt: skip
        assert (drawing.height, drawing.width) == (20, 18)
        for i in range(drawing.steps):
            drawing.step(i)
        np.testing.assert_allclose(
            shown(drawing.latents.numpy()), expected, atol=3e-4, rtol=3e-4, err_msg=f"{name} {kind} {strength}"
        )
    large, one = ImagineOptions(), loaded["one"]
    for arguments, match in (
        ((loaded["fills"], PROMPTS, large), "fills in"), ((one, PROMPTS, large, None, None, mask), "mask is of"),
        ((one, PROMPTS, ImagineOptions(strength=0.5)), "strength is of"),
        ((one, PROMPTS, ImagineOptions(strength=0.1, steps=5), None, picture), "strength of 0.1"),
        ((one, PROMPTS, large, None, picture[:1]), "must be a multiple of 2, not 0"),
        ((one, PROMPTS, large, None, pyapp.zeros(2, 5000, 3, dtype=pyapp.uint8)), "too many"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=match):
            Drawing(*arguments)


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
        (["--width", "17"], "multiple of 2"), (["--steps", "2000"], "1,000"),
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
    # Changed pictures: the white part of the mask alone is new.
    picture, mask = start_picture()
    for name, pixels in (("start", picture), ("mask", np.repeat(mask[..., None], 3, 2))):
        (tmp_path / f"{name}.png").write_bytes(encode_png(pixels))
    more = ["-m", str(folder), "-o", str(target), "-s", "5", "--image", str(tmp_path / "start.png")]
    found = run("cat", *more, "--strength", "0.6", "--json")
    assert [
        event["total"] for event in map(json.loads, found.stdout.splitlines()) if event.get("what") == "drawing"
    ] == [3] * 3
    changed = target.read_bytes()
    assert read_image(changed).shape == (20, 18, 3)
    run("cat", *more, "--strength", "0.6", "--mask", str(tmp_path / "mask.png"))
    assert target.read_bytes() != changed
    assert "takes none" in run("cat", *more, "--strength", "0.1", code=1).output
    assert "no.png" in testing.CliRunner().invoke(cli, ["imagine", "cat", *more, "--mask", "no.png"]).output
    # Another autoencoder.
    tiny = tmp_path / "tiny"
    tiny.mkdir()
    assert "config.json" in run("cat", *size, "--vae", str(tiny), code=1).output
    tiny.rmdir()
    write_part(tiny, "AutoencoderTiny", TINY, TinyAutoencoder(TinyAutoencoderConfig.from_dict(TINY)))
    before = target.read_bytes()
    run("cat", *more, "--strength", "0.6", "--vae", str(tiny))
    assert read_image(target).shape == (20, 18, 3) and target.read_bytes() != before
    # A ControlNet.
    config = {key: value for key, value in UNETS["one"].items() if key != "up_block_types"} | CONTROL
    network = ControlNet(ControlNetConfig.from_dict(config))
    control = write_part(tmp_path / "control", "ControlNetModel", config, network)
    eight = write_part(tmp_path / "eight", "AutoencoderKL", EIGHT, Autoencoder(AutoencoderConfig.from_dict(EIGHT)))
    more = ["-m", str(folder), "-o", str(target), "-s", "2", "--control", str(control), "--vae", str(eight)]
    picked = ["--control-image", str(tmp_path / "start.png")]
    run("cat", *more, *picked)
    before = target.read_bytes()
    assert read_image(before).shape == (16, 16, 3)
    run("cat", *more, *picked, "--control-scale", "0.1")
    assert target.read_bytes() != before
    assert "go together" in run("cat", *more, code=1).output
    assert "2 pixels a latent" in run("cat", *size, "--control", str(control), *picked, code=1).output
    assert "is not a ControlNet" in run("cat", *size, "--control", str(eight), *picked, code=1).output
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": "FluxPipeline"}))
    with pytest.raises(ModelError, match="FluxPipeline"):
        load_diffusion(folder)
