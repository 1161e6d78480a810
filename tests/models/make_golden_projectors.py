"""Makes golden_projectors/mmproj-KIND.gguf with the gguf package: what sees pictures of the folders of
tests/text/picture_chat_model.py, as llama.cpp stores it, with the package's names of tensors and keys.

    PYTHONPATH=. python tests/models/make_golden_projectors.py [KIND …]

LLaVA's file is what llama.cpp's converter of LLaVA 1.5 writes: names of its own, which call the layers of feed-forward
parts by each other's names, and no layers after those that are read.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

from tests.text.picture_chat_model import IDS, PROCESSORS, config_of, write_picture_chat_model

FOLDER = Path(__file__).with_name("golden_projectors")
TYPES = {
    "llava": "mlp", "idefics3": "idefics3", "gemma3": "gemma3", "qwen2_vl": "qwen2vl_merger",
    "qwen2_5_vl": "qwen2.5vl_merger", "qwen3_vl_moe": "qwen3vl_merger", "mistral3": "pixtral", "internvl": "internvl",
    "qwen3_5": "qwen3vl_merger",
}  # fmt: skip
DEEP = ("qwen3_vl_moe", "qwen3_5")  # with the tower of Qwen3-VL
CLIP = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
HALF = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]
SEES = ("vision_tower.", "multi_modal_projector.", "visual.", "model.vision", "model.connector", "model.visual")
OF_LLAVA = {
    "encoder.layers": "blk", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_out", "layer_norm": "ln", "mlp.fc1": "ffn_down", "mlp.fc2": "ffn_up",
    "embeddings.": "", "embedding": "embd", "pre_layrnorm": "pre_ln",
}  # fmt: skip

MERGER = {
    "visual.merger.norm": "v.post_ln", "visual.merger.linear_fc1": "mm.0", "visual.merger.linear_fc2": "mm.2",
}  # fmt: skip
# What llama.cpp's converters name by themselves.
OWN_NAMES = {
    "qwen3_5": MERGER,
    "qwen3_vl_moe": {
        **MERGER,
        **{f"deepstack_merger_list.{number}.{name}": f"v.deepstack.{layer}.{name.removeprefix('linear_')}"
           for number, layer in enumerate(config_of("qwen3_vl_moe")["vision_config"]["deepstack_visual_indexes"])
           for name in ("norm", "linear_fc1", "linear_fc2")},
    },
    "internvl": {
        "multi_modal_projector.layer_norm": "mm.model.mlp.0", "multi_modal_projector.linear_1": "mm.model.mlp.1",
        "multi_modal_projector.linear_2": "mm.model.mlp.3",
    },
}  # fmt: skip


def llava_name(name: str) -> str | None:
    """None for what the file leaves out."""
    if "post_layernorm" in name or ".layers.1." in name:
        return None
    name = re.sub(r"^multi_modal_projector\.linear_(\d)", lambda found: f"mm.{2 * int(found[1]) - 2}", name)
    name = name.replace("vision_tower.", "v.")
    for old, new in OF_LLAVA.items():
        name = name.replace(old, new)
    return name


def package_name(name: str) -> str:
    """The name of the gguf package, which knows those of older files."""
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 8)
    name = name.replace("mm_input_projection_weight", "mm_input_projection.weight")
    if name.endswith(("lambda_1", "lambda_2", "position_embeddings")):
        name += ".weight"
    for form in (
        name,
        name.removeprefix("model."),
        f"model.{name}",
        name.replace("vision_tower.", "vision_tower.vision_model."),
    ):
        found = known.get_name(form, (".weight", ".bias"))
        if found is not None:
            return found
    raise KeyError(name)


def tensors_of(kind: str, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name, value in values.items():
        if kind == "mistral3" and name.endswith("embed_tokens.weight"):
            found["v.token_embd.img_break"] = value[IDS["[IMG_BREAK]"]]
        if not name.startswith(SEES):
            continue
        if kind == "llava":
            own = llava_name(name)
            found |= {} if own is None else {own: value}
        elif any(part in name for part in OWN_NAMES.get(kind, {})):
            part = next(part for part in OWN_NAMES[kind] if part in name)
            found[OWN_NAMES[kind][part] + name[name.index(part) + len(part) :]] = value
        elif kind == "mistral3" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config_of(kind)["vision_config"]["num_attention_heads"]
            pairs = value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2)  # as LlamaModel.permute
            found[package_name(name)] = pairs.reshape(value.shape)
        elif kind not in DEEP and name.endswith(("attn.qkv.weight", "attn.qkv.bias")):
            parts = zip("qkv", np.split(value, 3), strict=True)
            found |= {package_name(name.replace("attn.qkv", f"attn.{part}")): own for part, own in parts}
        elif name.endswith("patch_embed.proj.weight"):
            own = package_name(name)
            found |= {own: value[:, :, 0], f"{own}.1": value[:, :, 1]}
        else:
            found[package_name(name)] = value + 1.0 if "soft_emb_norm" in name else value
    return found


def write(kind: str) -> None:
    config: dict[str, Any] = config_of(kind)
    vision, width = config["vision_config"], config["text_config"]["hidden_size"]
    with tempfile.TemporaryDirectory() as place:
        values = load_file(write_picture_chat_model(Path(place), kind) / "model.safetensors")
    writer = gguf.GGUFWriter(FOLDER / f"mmproj-{kind}.gguf", "clip")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(TYPES[kind])
    qwen, gated = kind.startswith("qwen"), kind == "qwen2_5_vl"
    writer.add_vision_embedding_length(vision["embed_dim"] if kind == "qwen2_vl" else vision["hidden_size"])
    # The converter of Qwen2-VL writes another number here.
    writer.add_vision_feed_forward_length(vision.get("intermediate_size", width))
    writer.add_vision_block_count(1 if kind == "llava" else vision.get("depth", vision.get("num_hidden_layers")))
    writer.add_vision_head_count(vision.get("num_heads", vision.get("num_attention_heads")))
    writer.add_vision_projection_dim(width)
    writer.add_vision_image_size(32 if kind == "mistral3" else vision.get("image_size", 560))
    writer.add_vision_patch_size(vision["patch_size"])
    writer.add_vision_attention_layernorm_eps(1e-5 if kind == "llava" else 1e-6)
    mean, deviation = HALF if kind in ("idefics3", "gemma3", *DEEP) else CLIP
    writer.add_vision_image_mean(mean)
    writer.add_vision_image_std(deviation)
    if kind in ("idefics3", "gemma3", "mistral3", "internvl", *DEEP):
        writer.add_vision_use_gelu(True)
    if kind in ("idefics3", "gemma3", "internvl"):
        writer.add_vision_projector_scale_factor(2)
    if kind == "idefics3":
        writer.add_vision_preproc_image_size(PROCESSORS[kind]["size"]["longest_edge"])
    if kind == "internvl":
        writer.add_vision_preproc_max_tiles(PROCESSORS[kind]["max_patches"])
    if kind in DEEP:
        writer.add_vision_is_deepstack_layers(
            [layer in vision.get("deepstack_visual_indexes", ()) for layer in range(vision["depth"])]
        )
    if qwen or kind == "mistral3":
        writer.add_vision_spatial_merge_size(2)
    if qwen:
        writer.add_vision_min_pixels(PROCESSORS["qwen2_vl"]["min_pixels"])
        writer.add_vision_max_pixels(PROCESSORS["qwen2_vl"]["max_pixels"])
    if gated:
        writer.add_vision_use_silu(True)
        writer.add_vision_n_wa_pattern(vision["fullatt_block_indexes"][0] + 1)
        writer.add_vision_window_size(vision["window_size"])
    for name, value in tensors_of(kind, values).items():
        writer.add_tensor(name, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for kind in sys.argv[1:] or TYPES:
        write(kind)
