"""Makes golden_wuerstchen.json with diffusers:

    PYTHONPATH=. python tests/models/make_golden_wuerstchen.py

It has the names and shapes of the parameters of each part of wuerstchen_cases.py, the numbers that the prior draws, the
latents after each step, and the pictures.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from diffusers import DDPMWuerstchenScheduler, WuerstchenDecoderPipeline, WuerstchenPriorPipeline
from diffusers.pipelines.deprecated.wuerstchen import PaellaVQModel, WuerstchenDiffNeXt, WuerstchenPrior

from tests.goldens import write_json
from tests.models.diffusion_cases import LATENTS, MERGES, NEGATIVE, PROMPTS, numbers, vocabulary
from tests.models.make_golden_diffusion import drawn
from tests.models.seeded import picture_weights, rounded, shown
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

picture: int | None = None  # the number of the one that is decoded: diffusers decodes one prompt alone


def draw(shape: Any, **more: Any) -> torch.Tensor:
    found = torch.from_numpy(numbers(LATENTS, len(PROMPTS), *shape[1:]))
    return found if picture is None else found[picture : picture + 1]


def reads(name: str) -> dict[str, Any]:
    """The reader of texts of a pipeline, and its schedule."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vocab.json").write_text(json.dumps(vocabulary()))
        Path(folder, "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, MERGES)]) + "\n")
        tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, model_max_length=16)
    return {
        "tokenizer": tokenizer, "scheduler": DDPMWuerstchenScheduler(**SCHEDULES[name]),
        "text_encoder": drawn(transformers.CLIPTextModel(transformers.CLIPTextConfig(**TEXTS[name]))),
    }  # fmt: skip


if __name__ == "__main__":
    parts = {"prior": drawn(WuerstchenPrior(**PRIOR)), "decoder": drawn(WuerstchenDiffNeXt(**DECODER))}
    with torch.no_grad():
        parts["prior"].out[1].weight *= LAST
    vqgan = drawn(PaellaVQModel(**VQGAN))
    for name, buffer in vqgan.named_buffers():
        if buffer.ndim:
            buffer.copy_(torch.from_numpy(picture_weights(name, tuple(buffer.shape))))
    parts["vqgan"] = vqgan
    prior = WuerstchenPriorPipeline(prior=parts["prior"], **reads("prior"), **PRIOR_SETTINGS)
    decoder = WuerstchenDecoderPipeline(decoder=parts["decoder"], vqgan=vqgan, **reads("decoder"), **DECODER_SETTINGS)
    for name, module in list(sys.modules.items()):
        if name.startswith("diffusers.") and "randn_tensor" in vars(module):
            module.randn_tensor = draw  # type: ignore[attr-defined]
    small = prior(
        list(PROMPTS), negative_prompt=[NEGATIVE] * 2, height=HEIGHT, width=WIDTH, num_inference_steps=STEPS,
        guidance_scale=GUIDANCE,
    ).image_embeddings  # fmt: skip
    states: list[list[Any]] = [[] for _ in range(STEPS)]

    def keep(_: Any, i: int, time: Any, found: dict[str, Any]) -> dict[str, Any]:
        states[i].append(found["latents"])
        return {}

    pictures = []
    for picture in range(len(PROMPTS)):
        pictures += list(decoder(
            small[picture : picture + 1], PROMPTS[picture], num_inference_steps=STEPS, output_type="np",
            callback_on_step_end=keep,
        ).images)  # fmt: skip
    golden = {
        "parameters": {
            part: {name: list(value.shape) for name, value in model.state_dict().items()}
            for part, model in parts.items()
        },
        "small": rounded(shown(small.numpy())), "latents": [rounded(shown(torch.cat(x).numpy())) for x in states],
        "pictures": rounded(shown(np.stack(pictures))),
    }  # fmt: skip
    path = Path(__file__).with_name("golden_wuerstchen.json")
    write_json(path, golden, separators=(",", ":"))
    print(path.name, path.stat().st_size)
