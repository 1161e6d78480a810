"""Makes golden_diffusion.json with diffusers:

    PYTHONPATH=. python tests/models/make_golden_diffusion.py

It has, for each configuration of diffusion_cases.py, the names and shapes of the parameters and some numbers of the
output, and for each schedule the times and the latents after each step. Weights and noise are drawn from seeds, here
and in the tests.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
import transformers

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


def rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in np.asarray(values, np.float64).reshape(-1)]


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


def decoder(name: str) -> dict[str, Any]:
    model = drawn(diffusers.AutoencoderKL(**DECODERS[name]))
    with torch.no_grad():
        found = model.decode(torch.from_numpy(numbers(5, 2, 4, 3, 5)) / model.config.scaling_factor).sample
    return {"parameters": shapes(model, ("decoder.", "post_quant_conv.")), "output": rounded(shown(found.numpy()))}


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


def pipeline(name: str) -> dict[str, Any]:
    """The ids of the prompts, and their latents after all steps."""
    unet_name, texts, (kind, settings), guidance, steps = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
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
        "vae": drawn(diffusers.AutoencoderKL(**DECODERS["plain"])), "tokenizer": tokenizer,
        "unet": drawn(diffusers.UNet2DConditionModel(**UNETS[unet_name])), "text_encoder": encoders[0],
        "scheduler": getattr(diffusers, kind)(**settings),
    }  # fmt: skip
    count = iter(range(100))
    module = __import__(getattr(diffusers, kind).__module__, fromlist=["x"])
    if hasattr(module, "randn_tensor"):
        module.randn_tensor = lambda shape, **more: torch.from_numpy(numbers(20 + next(count), *shape))
    if len(encoders) > 1:
        made = diffusers.StableDiffusionXLPipeline(**parts, text_encoder_2=encoders[1], tokenizer_2=tokenizer)
    else:
        made = diffusers.StableDiffusionPipeline(**parts, safety_checker=None, feature_extractor=None)
    side = UNETS[unet_name]["sample_size"]
    found = made(
        PROMPTS, negative_prompt=[NEGATIVE] * 2, latents=torch.from_numpy(numbers(LATENTS, 2, 4, side, side)),
        num_inference_steps=steps, guidance_scale=guidance, output_type="latent",
    ).images  # fmt: skip
    return {"ids": tokenizer(PROMPTS)["input_ids"], "latents": rounded(shown(found.detach().numpy()))}


if __name__ == "__main__":
    found = {
        "unets": {name: unet(name) for name in UNETS},
        "decoders": {name: decoder(name) for name in DECODERS},
        "schedules": [schedule(*case) for case in SCHEDULES],
        "models": {name: pipeline(name) for name in MODELS},
    }
    path = Path(__file__).with_name("golden_diffusion.json")
    path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(path.name, path.stat().st_size)
