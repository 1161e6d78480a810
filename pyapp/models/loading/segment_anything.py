"""Files of Segment Anything as its authors publish them (sam_vit_b_01ec64.pth), those of MobileSAM (mobile_sam.pt), and
candle's of both (https://huggingface.co/lmz/candle-sam): weights without a config.json, whose configuration is read
from the tensors' names and shapes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import isqrt
from typing import Any

from pyapp.errors import ModelError
from pyapp.formats import Checkpoint
from pyapp.formats.checkpoint import TensorInfo

from .masks_config import LAYER_RATE
from .stored import Stored

OWN = "image_encoder."  # the first part of the names that Hugging Face's files do not have
UNSTRIDED = (320, 448, 576)  # channels of MobileSAM's stages that keep the sides of the one before
IGNORED = r"image_encoder\.(norm_head|head)\..*|vision_encoder\.(norm_head|head)\..*"  # of MobileSAM's first training
KNOWN = "Known: the files of SAM's ViT-B, ViT-L and ViT-H, and MobileSAM's"
PLACES = {"0": "conv1", "1": "layer_norm1", "2": "conv2", "3": "layer_norm2"}
RENAMES: tuple[tuple[str, Any], ...] = (
    (r"^image_encoder\.patch_embed\.proj\.", "vision_encoder.patch_embed.projection."),
    (r"^image_encoder\.patch_embed\.seq\.([02])\.", lambda found: "vision_encoder.patch_embed.conv"
     f"{1 + int(found[1]) // 2}."),
    (r"^image_encoder\.blocks\.(\d+)\.norm", r"vision_encoder.layers.\1.layer_norm"),
    (r"^image_encoder\.blocks\.", "vision_encoder.layers."),
    (r"^image_encoder\.layers\.(\d+)\.downsample\.",
     lambda found: f"vision_encoder.stages.{int(found[1]) + 1}.downsample."),
    (r"^image_encoder\.layers\.", "vision_encoder.stages."),
    (r"^image_encoder\.neck\.(\d)\.", lambda found: f"vision_encoder.neck.{PLACES.get(found[1], found[1])}."),
    (r"^image_encoder\.", "vision_encoder."),
    (r"^(vision_encoder\.(?:patch_embed|stages)\..*)\.c\.weight$", r"\1.conv.weight"),
    (r"^prompt_encoder\.pe_layer\.positional_encoding_gaussian_matrix$",
     "shared_image_embedding.positional_embedding"),
    (r"^prompt_encoder\.point_embeddings\.", "prompt_encoder.point_embed."),
    (r"^prompt_encoder\.mask_downscaling\.([01346])\.",
     lambda found: "prompt_encoder.mask_embed."
     + {"0": "conv1.", "1": "layer_norm1.", "3": "conv2.", "4": "layer_norm2.", "6": "conv3."}[found[1]]),
    (r"^mask_decoder\.transformer\.norm_final_attn\.", "mask_decoder.transformer.layer_norm_final_attn."),
    (r"^(mask_decoder\.transformer\.layers\.\d+)\.norm(\d)\.", r"\1.layer_norm\2."),
    (r"^mask_decoder\.output_upscaling\.([013])\.",
     lambda found: "mask_decoder." + {"0": "upscale_conv1.", "1": "upscale_layer_norm.", "3": "upscale_conv2."}[
         found[1]]),
)  # fmt: skip
_PATTERNS = tuple((re.compile(pattern), new) for pattern, new in RENAMES)
_HEAD = re.compile(r"(mask_decoder\.(?:output_hypernetworks_mlps\.\d+|iou_prediction_head)\.layers)\.(\d+)\.(\w+)")


def renamed(name: str) -> str:
    """The name of a tensor in Hugging Face's files; other names as they are."""
    for pattern, new in _PATTERNS:
        name = pattern.sub(new, name)
    return name


def is_sams(tensors: Mapping[str, TensorInfo]) -> bool:
    """Whether a file has the tensors of Segment Anything under its authors' names."""
    return {"mask_decoder.iou_token.weight", "image_encoder.neck.0.weight"} <= set(tensors)


def stored(names: Collection[str]) -> dict[str, Stored]:
    """Where the layers of the small networks of a file with the authors' names belong: there the first and the last
    have no names of their own.
    """
    if not any(name.startswith(OWN) for name in names):
        return {}
    found = [match for match in map(_HEAD.fullmatch, names) if match is not None]
    last: dict[str, int] = {}
    for match in found:
        last[match[1]] = max(last.get(match[1], 0), int(match[2]))
    own = {}
    for match in found:
        at, number = match[1].removesuffix(".layers"), int(match[2])
        part = "proj_in" if number == 0 else "proj_out" if number == last[match[1]] else f"layers.{number - 1}"
        own[f"{at}.{part}.{match[3]}"] = Stored((match[0],))
    return own


def settings_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The fields of models/sam.py's config.json that a file's tensors say. ModelError for other networks."""
    shapes = {name: tuple(info.shape) for name, info in checkpoint.tensors.items()}
    try:
        tiny = "image_encoder.patch_embed.seq.0.c.weight" in shapes
        vision = _tiny(shapes) if tiny else _plain(shapes)
        mask, width = "mask_decoder.", shapes["mask_decoder.iou_token.weight"][1]
        inner = shapes["mask_decoder.transformer.final_attn_token_to_image.q_proj.weight"][0]
        channels = shapes["prompt_encoder.mask_downscaling.6.weight"][1]
        return {
            "model_type": "mobile_sam" if tiny else "sam",
            "vision_config": {
                **vision, "output_channels": shapes["image_encoder.neck.0.weight"][0],
                "num_pos_feats": shapes["prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"][1],
            },
            "prompt_encoder_config": {"hidden_size": width, "mask_input_channels": channels},
            "mask_decoder_config": {
                "hidden_size": width, "mlp_dim": shapes[f"{mask}transformer.layers.0.mlp.lin1.weight"][0],
                "num_hidden_layers": _count(shapes, f"{mask}transformer.layers."),
                "attention_downsample_rate": width // inner if inner else LAYER_RATE,
                "num_multimask_outputs": shapes[f"{mask}mask_tokens.weight"][0] - 1,
                "iou_head_depth": _count(shapes, f"{mask}iou_prediction_head.layers."),
                "iou_head_hidden_dim": shapes[f"{mask}iou_prediction_head.layers.0.weight"][0],
            },
        }  # fmt: skip
    except (KeyError, IndexError, ValueError, ZeroDivisionError) as error:
        raise ModelError(
            "its layers are not those of Segment Anything", where=checkpoint.source.name, hint=KNOWN
        ) from error


def _count(shapes: Mapping[str, Any], before: str) -> int:
    """How many parts a list of modules has."""
    return 1 + max(int(name.removeprefix(before).partition(".")[0]) for name in shapes if name.startswith(before))


def _plain(shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """The fields of vision_config of a Vision Transformer."""
    _, rows, _, width = shapes["image_encoder.pos_embed"]
    _, channels, patch, _ = shapes["image_encoder.patch_embed.proj.weight"]
    depth = _count(shapes, "image_encoder.blocks.")
    spans = [shapes[f"image_encoder.blocks.{i}.attn.rel_pos_h"] for i in range(depth)]
    sides = [(span[0] + 1) // 2 for span in spans]
    return {
        "model_type": "sam_vision_model", "image_size": rows * patch, "patch_size": patch, "num_channels": channels,
        "hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": width // spans[0][1],
        "mlp_dim": shapes["image_encoder.blocks.0.mlp.lin1.weight"][0],
        "qkv_bias": "image_encoder.blocks.0.attn.qkv.bias" in shapes, "window_size": min(sides),
        "global_attn_indexes": [i for i, side in enumerate(sides) if side == rows],
    }  # fmt: skip


def _tiny(shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """The fields of vision_config of a TinyViT. A file does not say the size of its pictures: it is the usual one."""
    stages = range(_count(shapes, "image_encoder.layers."))
    depths = [_count(shapes, f"image_encoder.layers.{i}.blocks.") for i in stages]
    first = shapes["image_encoder.layers.0.blocks.0.conv1.c.weight"][1]
    biases = [shapes[f"image_encoder.layers.{i}.blocks.0.attn.attention_biases"] for i in stages[1:]]
    widths = [shapes[f"image_encoder.layers.{i}.downsample.conv1.c.weight"][0] for i in stages[:-1]]
    return {
        "model_type": "tiny_vit", "num_channels": shapes["image_encoder.patch_embed.seq.0.c.weight"][1],
        "embed_dims": [first, *widths], "depths": depths, "num_heads": [1, *(heads for heads, _ in biases)],
        "window_sizes": [1, *(isqrt(pairs) for _, pairs in biases)],
        "strides": [1 if width in UNSTRIDED else 2 for width in widths],
    }  # fmt: skip
