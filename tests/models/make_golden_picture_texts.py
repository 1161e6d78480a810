"""Makes golden_picture_texts/NAME.json with transformers, one for each configuration of picture_text_configs.py:

    PYTHONPATH=. python tests/models/make_golden_picture_texts.py [NAME …]

A file has the names and shapes of the parameters as files have them, some of the logits for two texts with a picture
each, of which the second is padded; the product of each parameter's gradient with a fixed vector; and 24 greedy tokens
after the first text. The weights are not stored: seeded.py makes them here and in the tests.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

from tests.goldens import write_each
from tests.models.picture_text_configs import ANY_SIZE, CONFIGS, GRIDS, IMAGE, LOWEST, TILED, TOGETHER, tokens
from tests.models.seeded import direction, picture, picture_weights, rounded, shown
from tests.models.seeded_folders import along, configuration, load_seeded

# Janus's part that draws, and Chameleon's layer of it; Video-LLaVA's that sees videos.
APART = {
    "janus": ("model.vqmodel.", "model.generation_"), "video_llava": ("model.video_tower.", "video_tower."),
    "chameleon": ("model.vqmodel.post_quant_conv.",), "aria": ("vision_tower.post_layernorm.",),
}  # fmt: skip
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")  # of norms of batches
# Which Llama 4 of transformers 5.24 reads, and nothing sets.
transformers.modeling_outputs.MoeCausalLMOutputWithPast.image_outputs = None
CLASSES = {
    "qwen2_vl": "Qwen2VL",
    "qwen2_5_vl": "Qwen2_5_VL",
    "exaone4_5": "Exaone4_5_",
    "fuyu": "Fuyu",
    "aria": "Aria",
    "ovis2": "Ovis2",
    "chameleon": "Chameleon",
    "qwen3_vl": "Qwen3VL",
    "qwen3_vl_moe": "Qwen3VLMoe",
    "qwen3_5": "Qwen3_5",
    "qwen3_5_moe": "Qwen3_5Moe",
    "idefics3": "Idefics3",
    "smolvlm": "SmolVLM",
    "llava": "Llava",
    "gemma3": "Gemma3",
    "gemma4": "Gemma4",
    "gemma4_unified": "Gemma4Unified",
    "paligemma": "PaliGemma",
    "mistral3": "Mistral3",
    "lighton_ocr": "LightOnOcr",
    "llava_next": "LlavaNext",
    "llava_next_video": "LlavaNextVideo",
    "internvl": "InternVL",
    "blip-2": "Blip2",
    "aya_vision": "AyaVision",
    "cohere2_vision": "Cohere2Vision",
    "llava_onevision": "LlavaOnevision",
    "paddleocr_vl": "PaddleOCRVL",
    "got_ocr2": "GotOcr2",
    "llama4": "Llama4",
    "mllama": "Mllama",
    "idefics2": "Idefics2",
    "lfm2_vl": "Lfm2Vl",
    "glm4v": "Glm4v",
    "glm4v_moe": "Glm4vMoe",
    "glm46v": "Glm46V",
    "vipllava": "VipLlava",
    "video_llava": "VideoLlava",
    "fast_vlm": "FastVlm",
    "kosmos-2": "Kosmos2",
    "janus": "Janus",
    "deepseek_vl": "DeepseekVL",
    "glm_ocr": "GlmOcr",
}


def vectors(name: str) -> int:
    """The vectors of a picture."""
    if name in GRIDS:
        return GRIDS[name][0] * GRIDS[name][1]
    if name in TOGETHER:
        return len(TOGETHER[name])
    config = CONFIGS[name]
    if "perceiver_config" in config:
        return int(config["perceiver_config"]["resampler_n_latents"])
    if name == "aria":
        return 6  # of five columns of patches
    if "vq_config" in config and "vision_config" not in config:
        seen = config["vq_config"]
        return int((seen["resolution"] >> (len(seen["channel_multiplier"]) - 1)) ** 2)
    side = config["vision_config"]["image_size"] // config["vision_config"].get("patch_size", 64)
    if name == "llava_onevision":
        return 36  # 16 of the whole, and of 8 rows of 8, made smaller, four rows of four, each with its end
    if name in TILED:
        return 34  # 16 of the whole, and of the tiles two rows of eight, each with its end
    if config["model_type"] == "ovis2":
        return int((side // config["vision_config"].get("hidden_stride", 1)) ** 2)
    if config["model_type"] == "got_ocr2":
        return ((side + 3) // 4) ** 2
    if "latent_query_num" in config:
        return int(config["latent_query_num"])
    if "num_query_tokens" in config:
        return int(config["num_query_tokens"])
    if config["model_type"] in ("internvl", "aya_vision", "cohere2_vision", "llama4"):
        return side**2 // 4
    if "scale_factor" in config:
        return (side // config["scale_factor"]) ** 2
    return config.get("mm_tokens_per_image", side**2)


def patches(pictures: Any, plain: bool = False) -> Any:
    """(N, 3, H, W) → (patches, numbers of a patch), as Qwen2-VL's processor makes them: by squares, two frames. plain:
    row by row (patches, 3, 4, 4), as PaddleOCR-VL's.
    """
    if plain:
        return pictures.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).reshape(-1, 3, 4, 4)
    count, _, high, wide = pictures.shape
    x = pictures.reshape(count, 3, high // 8, 2, 4, wide // 8, 2, 4).permute(0, 2, 5, 3, 6, 1, 4, 7)
    return x.unsqueeze(6).expand(*x.shape[:6], 2, 4, 4).reshape(count * high * wide // 16, -1)


def tiles_of(name: str, ids: Any, side: int) -> tuple[Any, dict[str, Any]]:
    """The tiles (texts, pictures of each, tiles, 3, H, W) of mllama's pictures, empty ones after them, and what else
    its processor makes: MllamaProcessor's own functions, of the texts.
    """
    from transformers.models.mllama import image_processing_mllama as images
    from transformers.models.mllama import processing_mllama as processing

    most = CONFIGS[name]["vision_config"]["max_num_tiles"]
    canvases = [images.get_optimal_tiled_canvas(*size, most, side) for size in TOGETHER[name]]
    ratios = [[(int(high) // side, int(wide) // side) for high, wide in canvases]] * len(ids)
    counts = [[rows * columns for rows, columns in own] for own in ratios]
    every = iter(picture(sum(map(sum, counts)), side, side))
    tiles = np.zeros((len(ids), len(canvases), most, 3, side, side), np.float32)
    for text, own in enumerate(counts):
        for which, count in enumerate(own):
            for tile in range(count):
                tiles[text, which, tile] = next(every)
    spans = [processing.get_cross_attention_token_mask(row.tolist(), IMAGE) for row in ids]
    mask = processing.convert_sparse_cross_attention_mask_to_dense(spans, counts, most, ids.shape[1])
    return torch.from_numpy(tiles), {
        "aspect_ratio_ids": images.convert_aspect_ratios_to_ids(ratios, most),
        "aspect_ratio_mask": images.build_aspect_ratio_mask(ratios, most),
        "cross_attention_mask": torch.from_numpy(mask),
    }


def golden(name: str) -> dict[str, Any]:
    made = configuration(CONFIGS[name])
    end = "ForCausalLM" if made.model_type == "fuyu" else "ForConditionalGeneration"
    kind = getattr(transformers, CLASSES[made.model_type] + end)
    rows, count = tokens(name, vectors(name))
    ids = torch.tensor(rows)
    if name in GRIDS:
        high, wide = (8 * n for n in GRIDS[name])
    elif name in ANY_SIZE:
        high, wide = ANY_SIZE[name]
    else:
        size = made.vq_config.resolution if name.startswith("chameleon") else made.vision_config.image_size
        high, wide = (size, size) if isinstance(size, int) else size
    pictures = torch.from_numpy(picture(count, high, wide))
    more: dict[str, Any] = {}
    if made.model_type in ("idefics2", "idefics3", "smolvlm"):
        pictures = pictures.unsqueeze(1)  # (texts, pictures of each, 3, H, W)
    if name == "aria":  # whose processor makes squares, and a mask of the rest
        more["pixel_mask"] = torch.zeros(count, wide, wide, dtype=torch.bool)
        more["pixel_mask"][:, :high, :wide] = True
        pictures = torch.nn.functional.pad(pictures, (0, 0, 0, wide - high), value=-1.0)
    if made.model_type == "gemma3":
        more["token_type_ids"] = (ids == IMAGE).long()
    if made.model_type == "kosmos-2":
        more["image_embeds_position_mask"] = (ids == IMAGE).long()
    if made.model_type == "paligemma":
        more["token_type_ids"] = torch.zeros_like(ids)
    if name in TILED:
        (rows_of_tiles, columns), size = TILED[name]
        tiles = rows_of_tiles * columns + 1
        pictures = torch.from_numpy(picture(count * tiles, high, wide)).reshape(count, tiles, 3, high, wide)
        more["image_sizes"] = torch.tensor([size] * count)
    if name in ("mistral3", "lighton_ocr", "pixtral"):
        more["image_sizes"] = torch.tensor([[high, wide]] * count)
    elif name == "lfm2_vl":
        shape = count, 3, high // 4, 4, wide // 4, 4
        pictures = pictures.reshape(shape).permute(0, 2, 4, 3, 5, 1).reshape(count, high * wide // 16, 48)
        more["pixel_attention_mask"] = torch.ones(count, high * wide // 16, dtype=torch.long)
        more["spatial_shapes"] = torch.tensor([[high // 4, wide // 4]] * count)
    elif made.model_type.startswith("gemma4"):
        side = 8 if made.model_type == "gemma4_unified" else 4
        x = pictures.unfold(2, side, side).unfold(3, side, side).permute(0, 2, 3, 4, 5, 1)
        rows_of, columns = x.shape[1:3]
        pictures = x.reshape(count, rows_of * columns, -1)
        places = torch.meshgrid(torch.arange(columns), torch.arange(rows_of), indexing="xy")
        more["image_position_ids"] = torch.stack(places, -1).reshape(1, -1, 2).expand(count, -1, 2)
        more["mm_token_type_ids"] = (ids == IMAGE).long()
    elif name == "fuyu":
        pictures = pictures.unfold(2, 8, 8).unfold(3, 8, 8).permute(0, 2, 3, 4, 5, 1).reshape(count, -1, 192)
    elif name in GRIDS:
        pictures = patches(pictures, plain=made.model_type == "paddleocr_vl")
        more["image_grid_thw"] = torch.tensor([[1, high // 4, wide // 4]] * count)
        if made.model_type != "exaone4_5":  # whose text has plain positions
            more["mm_token_type_ids"] = (ids == IMAGE).long()
    if name in TOGETHER:
        pictures, more = tiles_of(name, ids, high)
    alone = {key: value[:1] for key, value in more.items()} | {"pixel_values": pictures[: len(pictures) // count]}
    return by_files(name, kind, made, picture_weights, ids, more | {"pixel_values": pictures}, alone)


def by_files(
    name: str, kind: Any, made: Any, weights: Any, ids: torch.Tensor, more: dict[str, Any], alone: dict[str, Any]
) -> dict[str, Any]:
    """The golden values of a class of transformers whose parameters are named as in its files: for the texts ids (B, T)
    with `more` inputs, and for the first of them with those that are `alone`.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, stored = load_seeded(kind(made), weights, lambda key: not key.endswith(BUFFERS), folder)
        apart = APART.get(made.model_type, ())
        stored = {
            key: value for key, value in stored.items() if not key.endswith(BUFFERS) and not key.startswith(apart)
        }
        model.requires_grad_(True)
        for module in model.modules():  # the token of padding also stands for pictures, in Gemma 4
            if isinstance(module, torch.nn.Embedding):
                module.padding_idx = None
        mask = (ids != 0).long()
        logits = model(input_ids=ids, attention_mask=mask, **more).logits
        logits = logits.clamp(min=LOWEST) * mask.unsqueeze(-1)  # those of padding mean nothing
        total = along(logits, name)
        with torch.no_grad():
            written = model.generate(
                input_ids=ids[:1], attention_mask=mask[:1], max_new_tokens=24, do_sample=False, eos_token_id=None,
                pad_token_id=0, **alone,
            )[0, ids.shape[1] :].tolist()  # fmt: skip
        total.backward()
        with torch.no_grad():  # the gradients take the places of the weights, so that they are stored by the same names
            for parameter in model.parameters():
                parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
            for buffer in model.buffers():  # whose values files have, too
                buffer.zero_()
        model.save_pretrained(folder)
        grads = load_file(folder / "model.safetensors")
        parameters = {
            key: [list(value.shape), *rounded([(grads[key].double().numpy() * direction(key, value.shape)).sum()])]
            for key, value in stored.items()
        }
    return {"outputs": rounded(shown(logits.detach().numpy(), 96)), "parameters": parameters, "tokens": written}


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
