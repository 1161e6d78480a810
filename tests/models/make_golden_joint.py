"""Makes golden_joint.json with diffusers:

    PYTHONPATH=. python tests/models/make_golden_joint.py

It has, for each configuration of joint_cases.py, the names and shapes of the parameters and some numbers of the output;
for each schedule the times and the latents after each step; and for each model the latents after each step and the
picture. Weights and noise are drawn from seeds, here and in the tests.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from pathlib import Path
from typing import Any

import diffusers
import PIL.Image
import torch
import transformers
from diffusers.loaders import lora_conversion_utils, single_file_utils

from tests.goldens import write_json
from tests.models.diffusion_cases import (
    LATENTS,
    MERGES,
    NEGATIVE,
    PROMPTS,
    network,
    numbers,
    start_picture,
    vocabulary,
)
from tests.models.joint_cases import (
    AUTOENCODER,
    CHANGES,
    CHAT,
    CHATS,
    CLASSES,
    CLIPS,
    EDIT_SIZES,
    EDITS,
    LANGUAGES,
    LORA_SCALE,
    LORAS,
    MARK,
    MODELS,
    NETWORKS,
    ORIGINALS,
    OTHER_AUTOENCODERS,
    OTHER_SCHEDULES,
    PACKED,
    PLACES,
    REFERENCES,
    SCHEDULES,
    SEEING,
    SHARED_AUTOENCODERS,
    T5,
    TESTED,
    TRUE_CFG_SCALE,
    autoencoder_weights,
    inputs,
    lora_state,
    seeing_tokenizer,
    tokenizer,
)
from tests.models.make_golden_diffusion import drawn, number_noise, shapes
from tests.models.seeded import picture_weights, rounded, shown


def persistent(model: Any) -> list[tuple[str, torch.Tensor]]:
    """The buffers that files have."""
    return [(name, value) for name, value in model.named_buffers() if name in model.state_dict()]


def made(name: str) -> Any:
    model = drawn(getattr(diffusers, CLASSES[name])(**NETWORKS[name]))
    for own, buffer in persistent(model):
        buffer.copy_(torch.from_numpy(picture_weights(own, tuple(buffer.shape))))
    return model


def packed(x: torch.Tensor) -> torch.Tensor:
    return diffusers.FluxPipeline._pack_latents(x, *x.shape)


def unpacked(x: torch.Tensor, height: int, width: int) -> torch.Tensor:
    return diffusers.FluxPipeline._unpack_latents(x, height, width, 1)


def output(model: Any, name: str) -> list[float]:
    given = {key: torch.from_numpy(value) for key, value in inputs(name).items()}
    if name == "zimage":
        texts = [states[:count] for states, count in zip(given["text"], given["pooled"].tolist(), strict=True)]
        with torch.no_grad():
            time = ((1000 - given["time"]) / 1000).expand(2)
            found = model(list(given["latents"].unsqueeze(2)), time, texts).sample
        return rounded(shown(-torch.stack(found).squeeze(2).numpy()))
    if name == "qwen":
        height, width = given["latents"].shape[2:]
        seen = torch.arange(given["text"].shape[1]) < given["pooled"][:, None]
        with torch.no_grad():
            found = model(
                packed(given["latents"]), given["text"], seen, given["time"] / 1000,
                [[(1, height // 2, width // 2)]] * 2,
            ).sample  # fmt: skip
        return rounded(shown(unpacked(found, height, width).numpy()))
    if name in ("pixart", "sana", "sana4k"):
        seen = (torch.arange(given["text"].shape[1]) < given["pooled"][:, None]).float()
        time = given["time"].expand(2) * getattr(model.config, "timestep_scale", 1.0)
        with torch.no_grad():
            found = model(
                given["latents"], encoder_hidden_states=given["text"], timestep=time, encoder_attention_mask=seen
            ).sample  # fmt: skip
        return rounded(shown(found[:, :4].numpy()))
    if name == "flux2":
        height, width = given["latents"].shape[2:]
        with torch.no_grad():
            found = model(
                packed(given["latents"]), given["text"], given["time"] / 1000,
                diffusers.Flux2KleinPipeline._prepare_latent_ids(given["latents"][:, :, ::2, ::2]),
                diffusers.Flux2KleinPipeline._prepare_text_ids(given["text"]), given["guidance"],
            ).sample  # fmt: skip
        return rounded(shown(unpacked(found, height, width).numpy()))
    more = {"encoder_hidden_states": given["text"], "pooled_projections": given["pooled"]}
    with torch.no_grad():
        if not CLASSES[name].startswith("Flux"):
            return rounded(shown(model(given["latents"], timestep=given["time"], **more).sample.numpy()))
        height, width = given["latents"].shape[2:]
        places = diffusers.FluxPipeline._prepare_latent_image_ids(2, height // 2, width // 2, "cpu", torch.float32)
        found = model(
            packed(given["latents"]), timestep=given["time"] / 1000, guidance=given.get("guidance"),
            img_ids=places, txt_ids=torch.zeros(given["text"].shape[1], 3), **more,
        ).sample  # fmt: skip
    return rounded(shown(unpacked(found, height, width).numpy()))


def one(name: str) -> dict[str, Any]:
    model = made(name)
    parameters = shapes(model) | {key: list(value.shape) for key, value in persistent(model)}
    return {"parameters": parameters, "output": output(model, name)}


def of_width(module: Any, name: str) -> Any:
    """A function of diffusers that knows networks of the width 3,072 alone, for our width 32."""
    source = inspect.getsource(getattr(module, name)).replace("3072", "32").replace("12288", "128")
    found = dict(vars(module))
    exec(source, found)
    return found[name]


def original(name: str) -> list[float]:
    """The output with a file of the makers' names."""
    state = {key: torch.from_numpy(picture_weights(key, shape)) for key, shape in ORIGINALS[name].items()}
    kind = {"dev": "flux", "sd35": "sd3", "zimage": "z_image", "flux2": "flux2"}[name]
    convert = of_width(single_file_utils, f"convert_{kind}_transformer_checkpoint_to_diffusers")
    model = getattr(diffusers, CLASSES[name])(**NETWORKS[name])
    model.load_state_dict(convert(state))
    return output(model, name)


def lora(case: int) -> list[float]:
    """The output of "dev" with a LoRA file."""
    state: Any = {key: torch.from_numpy(value) for key, value in lora_state(case).items()}
    if case:
        state = of_width(lora_conversion_utils, "_convert_kohya_flux_lora_to_diffusers")(state)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = diffusers.FluxPipeline(**parts_of("dev", folder))
    pipeline.load_lora_weights(state)
    pipeline.fuse_lora(lora_scale=LORA_SCALE)
    return output(pipeline.transformer, "dev")


def schedule(settings: dict[str, Any], steps: int, even: bool) -> dict[str, Any]:
    built = diffusers.FlowMatchEulerDiscreteScheduler(**settings)
    config = built.config
    found: dict[str, Any] = {"sigmas": [1 - i / steps for i in range(steps)]} if even else {}
    if config.use_dynamic_shifting:
        shift = __import__(diffusers.FluxPipeline.__module__, fromlist=["x"]).calculate_shift
        found["mu"] = shift(
            PLACES, config.base_image_seq_len, config.max_image_seq_len, config.base_shift, config.max_shift
        )
    built.set_timesteps(steps, **found)
    x, states = torch.from_numpy(numbers(6, 1, 4, 2, 3)), []
    for time in built.timesteps:
        x = built.step(network(x, float(time)), time, x).prev_sample
        states.append(rounded(shown(x.numpy())))
    return {"times": rounded(built.timesteps.numpy()), "states": states}


PIPELINES = {
    "FluxTransformer2DModel": "Flux", "SD3Transformer2DModel": "StableDiffusion3", "ZImageTransformer2DModel": "ZImage",
    "Flux2Transformer2DModel": "Flux2Klein", "QwenImageTransformer2DModel": "QwenImage",
    "PixArtTransformer2DModel": "PixArtSigma", "SanaTransformer2DModel": "Sana",
}  # fmt: skip


def autoencoder(name: str) -> Any:
    """The autoencoder of a model."""
    name = SHARED_AUTOENCODERS.get(name, name)
    if name not in OTHER_AUTOENCODERS:
        return drawn(diffusers.AutoencoderKL(**AUTOENCODER))
    kind, config = OTHER_AUTOENCODERS[name]
    model = getattr(diffusers, kind)(**config).eval()
    for own, value in model.state_dict().items():
        if value.ndim:
            value.copy_(torch.from_numpy(autoencoder_weights(own, tuple(value.shape))))
    return model


def of_autoencoder(name: str) -> dict[str, Any]:
    """The shapes of the parameters, and what it makes of latents and pixels, as the pipelines bring both to scale."""
    model, latents, pixels = autoencoder(name), numbers(5, 1, 4, 4, 6), torch.from_numpy(numbers(9, 1, 3, 8, 12))
    config, x = model.config, torch.from_numpy(latents)
    with torch.no_grad():
        if name == "qwen":
            mean, deviation = (
                torch.tensor(config[key]).reshape(1, -1, 1, 1, 1) for key in ("latents_mean", "latents_std")
            )
            decoded = model.decode(x.unsqueeze(2) * deviation + mean).sample[:, :, 0]
            encoded = ((model.encode(pixels.unsqueeze(2)).latent_dist.mode() - mean) / deviation)[:, :, 0]
        elif name == "klein":
            mean = model.bn.running_mean.reshape(1, -1, 1, 1)
            deviation = (model.bn.running_var.reshape(1, -1, 1, 1) + config.batch_norm_eps).sqrt()
            own = diffusers.Flux2KleinPipeline
            decoded = model.decode(own._unpatchify_latents(own._patchify_latents(x) * deviation + mean)).sample
            encoded = own._patchify_latents(model.encode(pixels).latent_dist.mode())
            encoded = own._unpatchify_latents((encoded - mean) / deviation)
        else:
            decoded = model.decode(x / config.scaling_factor).sample
            encoded = model.encode(pixels).latent * config.scaling_factor
    shapes = {key: list(value.shape) for key, value in model.state_dict().items()}
    return {
        "parameters": shapes, "decoded": rounded(shown(decoded.numpy())), "encoded": rounded(shown(encoded.numpy())),
    }  # fmt: skip


def language(name: str) -> Any:
    """The language model of a model, whose weights have the names of its own parts."""
    config = LANGUAGES[name]
    if name == "zimage":
        return drawn(transformers.Qwen3Model(transformers.Qwen3Config(**config)))
    if name == "sana":
        return drawn(transformers.Gemma2Model(transformers.Gemma2Config(**config)))
    if name == "flux2":
        seeing: Any = transformers.Mistral3ForConditionalGeneration(transformers.Mistral3Config(**config)).eval()
        drawn(seeing.model.language_model)
        return seeing
    if name == "klein":
        model: Any = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**config)).eval()
        drawn(model.model)
        return model
    model = transformers.Qwen2_5_VLForConditionalGeneration(transformers.Qwen2_5_VLConfig(**config)).eval()
    if name in EDITS:
        model.register_forward_pre_hook(with_kinds, with_kwargs=True)
    drawn(model if name in EDITS else model.model.language_model)
    return model


def with_kinds(model: Any, arguments: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Tells the language model which tokens are a picture's, as it needs it for the positions of their rows and
    columns. diffusers does not pass it on; without it transformers 5 counts positions as in texts, unlike transformers
    4, with which the networks were made.
    """
    return arguments, given | {"mm_token_type_ids": (given["input_ids"] == 19).int()}


def parts_of(name: str, folder: str) -> dict[str, Any]:
    """The parts of a pipeline."""
    settings, _, _, reads_t5 = MODELS[name]
    flux = CLASSES[name].startswith("Flux")
    Path(folder, "vocab.json").write_text(json.dumps(vocabulary()))
    Path(folder, "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, MERGES)]) + "\n")
    Path(folder, "tokenizer.json").write_text(json.dumps(tokenizer()))
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_file=f"{folder}/tokenizer.json", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    Path(folder, "tokenizer.json").unlink()
    parts: dict[str, Any] = {
        "vae": autoencoder(name), "transformer": made(name),
        "scheduler": getattr(diffusers, OTHER_SCHEDULES.get(name, "FlowMatchEulerDiscreteScheduler"))(**settings),
    }  # fmt: skip
    if name in EDITS:
        Path(folder, "tokenizer.json").write_text(json.dumps(seeing_tokenizer()))
        words = transformers.PreTrainedTokenizerFast(
            tokenizer_file=f"{folder}/tokenizer.json", pad_token="<pad>", unk_token="<unk>"
        )
        words.image_token, words.video_token = MARK, "</s>"
        settings = dict(SEEING)
        processor = transformers.Qwen2_5_VLProcessor(
            transformers.Qwen2VLImageProcessor(**settings), words, transformers.Qwen2VLVideoProcessor(**settings)
        )
        return parts | {"text_encoder": language(name), "tokenizer": words, "processor": processor}
    if name in LANGUAGES:
        kept = tokenizer() | {"post_processor": None}
        Path(folder, "tokenizer.json").write_text(json.dumps(kept))
        parts["tokenizer"] = transformers.PreTrainedTokenizerFast(
            tokenizer_file=f"{folder}/tokenizer.json", pad_token="<pad>", **CHATS.get(name, {"chat_template": CHAT})
        )
        return parts | {"text_encoder": language(name)}
    for i, config in enumerate([] if name == "pixart" else CLIPS["flux" if flux else "sd3"]):
        kind = transformers.CLIPTextModelWithProjection if "projection_dim" in config else transformers.CLIPTextModel
        end = f"_{i + 1}" if i else ""
        parts[f"tokenizer{end}"] = transformers.CLIPTokenizer.from_pretrained(folder, model_max_length=16)
        parts[f"text_encoder{end}"] = drawn(kind(transformers.CLIPTextConfig(**config)))
    end = "" if name == "pixart" else "_2" if flux else "_3"
    parts[f"tokenizer{end}"] = words if reads_t5 else None
    encoder = drawn(transformers.T5EncoderModel(transformers.T5Config(**T5))) if reads_t5 else None
    return parts | {f"text_encoder{end}": encoder}


def drawing(
    name: str, steps: int, guidance: float, kind: str = "", count: int = 2, **told: Any
) -> dict[str, Any]:  # fmt: skip
    """The latents after each step, and the picture."""
    flux = CLASSES[name].startswith(PACKED)
    with tempfile.TemporaryDirectory() as folder:
        parts = parts_of(name, folder)
    start = "Flux2" if name == "flux2" else PIPELINES[CLASSES[name]]
    pipeline = getattr(diffusers, f"{start}{kind}Pipeline")(**parts)
    number_noise()
    states: list[list[float]] = []
    height, width = (20, 16) if "height" not in told else (told["height"], told["width"])

    def keep(_: Any, i: int, time: Any, found: dict[str, Any]) -> dict[str, Any]:
        x = found["latents"]
        states.append(rounded(shown((unpacked(x, height // 2, width // 2) if flux else x).numpy())))
        return {}

    if name in OTHER_SCHEDULES:
        told |= {"negative_prompt": [NEGATIVE] * 2, "use_resolution_binning": False}
        pipeline.check_inputs = lambda *arguments, **more: None
        if name == "pixart":
            told["callback"] = lambda i, time, x: keep(None, i, time, {"latents": x})
    elif name in ("klein", "flux2"):
        x = told["latents"]
        told["latents"] = pipeline._patchify_latents(x)
    elif name == "qwen" or name in EDITS:
        told |= {"negative_prompt": [NEGATIVE] * count, "true_cfg_scale": guidance}
        if "latents" in told:
            told["latents"] = packed(told["latents"])
    elif flux:
        told["max_sequence_length"] = 512 if NETWORKS[name]["guidance_embeds"] else 256
        if "latents" in told:
            told["latents"] = packed(told["latents"])
    else:
        told["negative_prompt"] = [NEGATIVE] * 2
    found = pipeline(
        prompt=list(PROMPTS)[:count],
        num_inference_steps=steps,
        **({} if name == "qwen" or name in EDITS else {"guidance_scale": guidance}),
        output_type="np",
        **({} if name == "pixart" else {"callback_on_step_end": keep}),
        **told,
    ).images
    return {"latents": states, "pictures": rounded(shown(found))}


def change(name: str, steps: int, strength: float | None, masked: bool) -> dict[str, Any]:
    """A picture that is changed."""
    picture, mask = (PIL.Image.fromarray(array) for array in start_picture())
    told: dict[str, Any] = {"mask_image": mask} if masked else {}
    if name == "klein":
        diffusers.Flux2KleinPipeline.__init__.__globals__["Flux2ImageProcessor"].check_image_input = staticmethod(print)
        return drawing(name, steps, MODELS[name][2], image=picture, latents=torch.from_numpy(numbers(20, 2, 4, 10, 8)))
    if name in EDITS:
        kind = EDITS[name]
        module = __import__(getattr(diffusers, f"QwenImage{kind}Pipeline").__module__, fromlist=["x"])
        large, small = EDIT_SIZES[name]
        module.calculate_dimensions = lambda area, _: (
            (small if area == 384 * 384 else large) if kind == "EditPlus" else (*large, None)
        )
        return drawing(
            name, steps, MODELS[name][2], kind, image=picture, height=20, width=16, count=1,
            latents=torch.from_numpy(numbers(20, 1, 4, 10, 8)),
        )  # fmt: skip
    kind = {"fill": "Fill", "kontext": "Kontext"}.get(name, "Inpaint" if masked else "Img2Img")
    if strength is None:
        module = __import__(diffusers.FluxKontextPipeline.__module__, fromlist=["x"])
        module.PREFERRED_KONTEXT_RESOLUTIONS = REFERENCES
        told |= {"true_cfg_scale": TRUE_CFG_SCALE, "negative_prompt": [NEGATIVE] * 2, "max_area": 20 * 16}
    else:
        told["strength"] = strength
    return drawing(name, steps, MODELS[name][2], kind, image=picture, height=20, width=16, **told)


if __name__ == "__main__":
    golden = {
        "networks": {name: one(name) for name in NETWORKS if name in TESTED},
        "originals": {name: original(name) for name in ORIGINALS},
        "loras": [lora(case) for case in range(len(LORAS))],
        "schedules": [schedule(*case) for case in SCHEDULES],
        "models": {
            name: drawing(
                name, steps, guidance, height=16, width=12, latents=torch.from_numpy(numbers(LATENTS, 2, 4, 8, 6))
            )
            for name, (_, steps, guidance, _) in MODELS.items()
            if name not in ("fill", "kontext", *EDITS)
        },
        "seeing": shapes(language("edit")),
        "autoencoders": {name: of_autoencoder(name) for name in OTHER_AUTOENCODERS},
        "changes": [change(*case) for case in CHANGES],
    }
    path = Path(__file__).with_name("golden_joint.json")
    write_json(path, golden, separators=(",", ":"))
    print(path.name, path.stat().st_size)
