"""Makes golden_diffusion.json with diffusers:

    PYTHONPATH=. python tests/models/make_golden_diffusion.py

It has, for each configuration of diffusion_cases.py, the names and shapes of the parameters and some numbers of the
output, and for each schedule the times and the latents after each step. Weights and noise are drawn from seeds, here
and in the tests.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import diffusers
import PIL.Image
import safetensors.torch
import torch
import transformers

from tests.goldens import write_json
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
from tests.models.seeded import picture_weights, rounded, shown


def drawn(model: Any) -> Any:
    text = type(model).__name__.startswith("CLIPText")
    with torch.no_grad():
        for name, value in model.named_parameters():
            if text and not name.startswith(("text_model.", "text_projection.")):
                name = f"text_model.{name}"  # as older files have it
            value.copy_(torch.from_numpy(picture_weights(name, tuple(value.shape))))
    return model.eval()


def shapes(model: Any, prefixes: tuple[str, ...] = ("",)) -> dict[str, list[int]]:
    return {name: list(value.shape) for name, value in model.named_parameters() if name.startswith(prefixes)}


def unet(name: str) -> dict[str, Any]:
    model, given = drawn(diffusers.UNet2DConditionModel(**UNETS[name])), inputs(name)
    tensors = {key: torch.from_numpy(value) for key, value in given.items()}
    added = {"text_embeds": tensors["pooled"], "time_ids": tensors["sizes"]} if "pooled" in tensors else None
    with torch.no_grad():
        found = model(
            tensors["latents"], tensors["time"][0], tensors["text"], timestep_cond=tensors.get("guidance"),
            added_cond_kwargs=added,
        ).sample  # fmt: skip
    return {"parameters": shapes(model), "output": rounded(shown(found.numpy()))}


def autoencoder(name: str) -> dict[str, Any]:
    model = drawn(diffusers.AutoencoderKL(**AUTOENCODERS[name]))
    config, channels = model.config, AUTOENCODERS[name]["latent_channels"]
    latents = torch.from_numpy(numbers(5, 2, channels, 3, 5)) / config.scaling_factor + (config.shift_factor or 0)
    pixels = torch.from_numpy(numbers(9, 1, 3, 8, 12))
    with torch.no_grad():
        found, likely = model.decode(latents).sample, model.encode(pixels).latent_dist
        latents = likely.mean + likely.std * torch.from_numpy(numbers(11, *likely.mean.shape))
        encoded = (latents - (config.shift_factor or 0)) * config.scaling_factor
    return {"parameters": shapes(model), "output": rounded(shown(found.numpy())), "encoded": rounded(shown(encoded))}


def tiny() -> dict[str, Any]:
    model = drawn(diffusers.AutoencoderTiny(**TINY))
    with torch.no_grad():
        found = model.decode(torch.from_numpy(numbers(5, 2, 4, 3, 5)) / model.config.scaling_factor).sample
        encoded = model.encode(torch.from_numpy(numbers(9, 1, 3, 8, 12))).latents * model.config.scaling_factor
    return {"parameters": shapes(model), "output": rounded(shown(found.numpy())), "encoded": rounded(shown(encoded))}


def schedule(kind: str, settings: dict[str, Any], steps: int) -> dict[str, Any]:
    count = iter(range(100))
    module = __import__(getattr(diffusers, kind).__module__, fromlist=["x"])
    if hasattr(module, "randn_tensor"):
        module.randn_tensor = lambda shape, **more: torch.from_numpy(numbers(10 + next(count), *shape))
    made = getattr(diffusers, kind)(**settings)
    made.set_timesteps(steps)
    x = torch.from_numpy(numbers(6, 1, 4, 2, 3)) * made.init_noise_sigma
    states = []
    for time in made.timesteps:
        seen = made.scale_model_input(x, time)
        x = made.step(network(seen, float(time)), time, x).prev_sample
        states.append(rounded(shown(x.numpy())))
    return {"first": float(made.init_noise_sigma), "times": rounded(made.timesteps.numpy()), "states": states}


def parts_of(name: str, folder: str) -> dict[str, Any]:
    """The parts of a pipeline but its schedule."""
    unet_name, texts, _, _, _ = MODELS[name]
    Path(folder, "vocab.json").write_text(json.dumps(vocabulary()))
    Path(folder, "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, MERGES)]) + "\n")
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, model_max_length=16)
    encoders = [
        drawn(
            (transformers.CLIPTextModelWithProjection if "projection_dim" in config else transformers.CLIPTextModel)(
                transformers.CLIPTextConfig(**config)
            )
        )
        for config in texts
    ]
    parts = {
        "vae": drawn(diffusers.AutoencoderKL(**AUTOENCODERS["plain"])), "tokenizer": tokenizer,
        "unet": drawn(diffusers.UNet2DConditionModel(**UNETS[unet_name])), "text_encoder": encoders[0],
    }  # fmt: skip
    if len(encoders) > 1:
        return parts | {"text_encoder_2": encoders[1], "tokenizer_2": tokenizer}
    return parts | {"safety_checker": None, "feature_extractor": None}


def number_noise() -> None:
    """Lets all modules of diffusers draw our numbers, one after the other."""
    count = iter(range(100))

    def draw(shape: Any, **more: Any) -> torch.Tensor:
        return torch.from_numpy(numbers(20 + next(count), *shape))

    for name, module in list(sys.modules.items()):
        if name.startswith("diffusers.") and "randn_tensor" in vars(module):
            module.randn_tensor = draw  # type: ignore[attr-defined]


def pipeline(name: str) -> dict[str, Any]:
    """The ids of the prompts, and their latents after all steps."""
    unet_name, texts, (kind, settings), guidance, steps = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        parts = parts_of(name, folder) | {"scheduler": getattr(diffusers, kind)(**settings)}
    made = getattr(diffusers, "StableDiffusionXLPipeline" if len(texts) > 1 else "StableDiffusionPipeline")(**parts)
    number_noise()
    side = UNETS[unet_name]["sample_size"]
    found = made(
        PROMPTS, negative_prompt=[NEGATIVE] * 2, latents=torch.from_numpy(numbers(LATENTS, 2, 4, side, side)),
        num_inference_steps=steps, guidance_scale=guidance, output_type="latent",
    ).images  # fmt: skip
    return {"ids": parts["tokenizer"](PROMPTS)["input_ids"], "latents": rounded(shown(found.detach().numpy()))}


def change(name: str, kind: str, steps: int, strength: float, masked: bool) -> list[float]:
    """The latents of a start picture after all steps."""
    settings = next(settings for known, settings, _ in SCHEDULES if known == kind)
    with tempfile.TemporaryDirectory() as folder:
        parts = parts_of(name, folder) | {"scheduler": getattr(diffusers, kind)(**settings)}
    picture, mask = (PIL.Image.fromarray(array) for array in start_picture())
    told: dict[str, Any] = {"mask_image": mask, "height": 20, "width": 18} if masked else {}
    part = "Inpaint" if masked else "Img2Img"
    made = getattr(diffusers, f"StableDiffusion{'XL' if len(MODELS[name][1]) > 1 else ''}{part}Pipeline")(**parts)
    number_noise()
    found = made(
        PROMPTS, negative_prompt=[NEGATIVE] * 2, image=picture, strength=strength, num_inference_steps=steps,
        guidance_scale=4.0, output_type="latent", **told,
    ).images  # fmt: skip
    return rounded(shown(found.detach().numpy()))


SGM = {  # of the matrices of XL in LORAS
    "input_blocks_4_1_transformer_blocks_0_attn1_to_q": "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q",
    "input_blocks_5_0_emb_layers_1": "down_blocks.1.resnets.1.time_emb_proj",
    "output_blocks_3_0_skip_connection": "up_blocks.1.resnets.0.conv_shortcut",
    "output_blocks_2_1_proj_out": "up_blocks.0.attentions.2.proj_out",
    "middle_block_1_proj_in": "mid_block.attentions.0.proj_in",
    "output_blocks_5_2_conv": "up_blocks.1.upsamplers.0.conv",
    "input_blocks_3_0_op": "down_blocks.0.downsamplers.0.conv",
}


def weight_of(own: str, whole: dict[str, Any]) -> str:
    """The weight of a pipeline that a LoRA file means by a name."""
    plain = own.replace(".processor", "").replace("to_out", "to_out.0")
    if own.startswith("lora_unet_") and own.removeprefix("lora_unet_") in SGM:
        plain = f"unet.{SGM[own.removeprefix('lora_unet_')]}"
    for start, part in (("lora_unet_", "unet_"), ("lora_te_", "text_encoder_"), ("lora_te1_", "text_encoder_"),
                        ("lora_te2_", "text_encoder_2_")):  # fmt: skip
        plain = part + plain.removeprefix(start) if plain.startswith(start) else plain
    flat = plain.replace(".", "_").replace("_text_model", "")
    return next(key for key in whole if key.replace(".", "_").replace("_text_model", "") == f"{flat}_weight")


def lora(case: int) -> dict[str, Any]:
    """The latents of a pipeline with a LoRA file."""
    name, form, names = LORAS[case]
    _, texts, (kind, settings), guidance, steps = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        parts = parts_of(name, folder) | {"scheduler": getattr(diffusers, kind)(**settings)}
        made = getattr(diffusers, "StableDiffusionXLPipeline" if len(texts) > 1 else "StableDiffusionPipeline")(**parts)
        whole = {f"{part}.{key}": value for part, module in made.components.items() if hasattr(module, "state_dict")
                 for key, value in module.state_dict().items()}  # fmt: skip
        shapes = {own: tuple(whole[weight_of(own, whole)].shape) for own in names}
        state = {key: torch.from_numpy(value) for key, value in lora_state(case, shapes).items()}
        safetensors.torch.save_file(state, f"{folder}/lora.safetensors")
        made.load_lora_weights(folder, weight_name="lora.safetensors")
    made.fuse_lora(lora_scale=LORA_SCALE)
    side = UNETS[MODELS[name][0]]["sample_size"]
    found = made(
        PROMPTS, negative_prompt=[NEGATIVE] * 2, latents=torch.from_numpy(numbers(LATENTS, 2, 4, side, side)),
        num_inference_steps=steps, guidance_scale=guidance, output_type="latent",
    ).images  # fmt: skip
    return {"shapes": shapes, "latents": rounded(shown(found.detach().numpy()))}


def controlled(name: str) -> dict[str, Any]:
    """The parameters of a ControlNet, and the latents of a pipeline with it."""
    unet_name, texts, (kind, settings), guidance, steps = MODELS[name]
    own = {
        key: value
        for key, value in UNETS[unet_name].items()
        if key not in ("up_block_types", "out_channels", "sample_size")
    }
    network = drawn(diffusers.ControlNetModel(**own, **CONTROL))
    with tempfile.TemporaryDirectory() as folder:
        parts = parts_of(name, folder) | {"scheduler": getattr(diffusers, kind)(**settings), "controlnet": network}
    parts["vae"] = drawn(diffusers.AutoencoderKL(**EIGHT))
    made = getattr(diffusers, f"StableDiffusion{'XL' if len(texts) > 1 else ''}ControlNetPipeline")(**parts)
    picture = PIL.Image.fromarray(start_picture()[0])
    found = made(
        PROMPTS, negative_prompt=[NEGATIVE] * 2, image=picture, height=32, width=40, num_inference_steps=steps,
        latents=torch.from_numpy(numbers(LATENTS, 2, 4, 4, 5)), guidance_scale=guidance, output_type="latent",
        controlnet_conditioning_scale=CONTROL_SCALE,
    ).images  # fmt: skip
    return {"parameters": shapes(network, ("controlnet_",)), "latents": rounded(shown(found.detach().numpy()))}


def adapted(name: str) -> dict[str, Any]:
    """The widths of a U-Net's attentions to the text, and the latents of a pipeline with an IP-Adapter."""
    _, texts, (kind, settings), guidance, steps = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        parts = parts_of(name, folder) | {"scheduler": getattr(diffusers, kind)(**settings)}
        made = getattr(diffusers, "StableDiffusionXLPipeline" if len(texts) > 1 else "StableDiffusionPipeline")(**parts)
        unet = parts["unet"]
        own = [key for key in unet.attn_processors if "attn2" in key]
        widths = [unet.get_submodule(key.removesuffix(".processor")).to_q.out_features for key in own]
        state = {
            key: torch.from_numpy(picture_weights(key, shape)) for key, shape in adapter_shapes(name, widths).items()
        }
        encoder = transformers.CLIPVisionModelWithProjection(transformers.CLIPVisionConfig(**CLIP_SEES))
        with torch.no_grad():
            for key, value in encoder.named_parameters():
                if not key.startswith(("vision_model.", "visual_projection.")):
                    key = f"vision_model.{key}"  # as older files have it
                value.copy_(torch.from_numpy(picture_weights(key, tuple(value.shape))))
        Path(folder, "models").mkdir()
        encoder.save_pretrained(f"{folder}/models/image_encoder")
        safetensors.torch.save_file(state, f"{folder}/models/adapter.safetensors")
        made.load_ip_adapter(folder, subfolder="models", weight_name="adapter.safetensors")
    made.set_ip_adapter_scale(ADAPTER_SCALE)
    side = UNETS[MODELS[name][0]]["sample_size"]
    size = {"height": 16, "width": 16}
    pixels = transformers.CLIPImageProcessorPil(
        size=size, crop_size=size
    )(  # already of that size
        PIL.Image.fromarray(start_picture()[0][:16, :16]), return_tensors="pt"
    ).pixel_values
    found = made(
        PROMPTS, negative_prompt=[NEGATIVE] * 2, latents=torch.from_numpy(numbers(LATENTS, 2, 4, side, side)),
        num_inference_steps=steps, guidance_scale=guidance, output_type="latent", ip_adapter_image=pixels,
    ).images  # fmt: skip
    return {"widths": widths, "latents": rounded(shown(found.detach().numpy()))}


if __name__ == "__main__":
    found = {
        "unets": {name: unet(name) for name in UNETS},
        "autoencoders": {name: autoencoder(name) for name in AUTOENCODERS},
        "tiny": tiny(),
        "schedules": [schedule(*case) for case in SCHEDULES],
        "models": {name: pipeline(name) for name in MODELS if name != "fills"},
        "controlled": {name: controlled(name) for name in CONTROLLED},
        "loras": [lora(case) for case in range(len(LORAS))],
        "changes": [change(*case) for case in CHANGES],
        "adapted": {name: adapted(name) for name in ADAPTED},
    }
    path = Path(__file__).with_name("golden_diffusion.json")
    write_json(path, found, separators=(",", ":"))
    print(path.name, path.stat().st_size)
