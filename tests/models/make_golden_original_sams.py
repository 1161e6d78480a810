"""Makes golden_original_sams/NAME.json with the libraries segment_anything and, for MobileSAM's Vision Transformer,
ultralytics; one for each configuration of original_sam_configs.py:

    PYTHONPATH=. python tests/models/make_golden_original_sams.py [NAME …]

A file has the names and shapes of the tensors, some numbers of the masks and scores for points and for a box in one
picture, and the product of each parameter's gradient with a fixed vector. seeded.py makes the weights.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import Any

os.environ["YOLO_CONFIG_DIR"] = tempfile.mkdtemp()

import torch
from segment_anything.modeling import ImageEncoderViT, MaskDecoder, PromptEncoder, Sam, TwoWayTransformer
from ultralytics.models.sam.modules.tiny_encoder import TinyViT

from tests.goldens import write_each
from tests.models.original_sam_configs import BOX, CONFIGS, LABELS, POINTS, SIDES
from tests.models.seeded import direction, picture, picture_weights, rounded, shown
from tests.models.seeded_folders import along

HEADS = 8  # of the decoder, which no file says


def made(config: dict[str, Any], side: int) -> Any:
    """The model of a configuration."""
    vision, prompts, masks = (config[f"{part}_config"] for part in ("vision", "prompt_encoder", "mask_decoder"))
    if config["model_type"] == "sam":
        patch, width = vision["patch_size"], vision["hidden_size"]
        encoder: Any = ImageEncoderViT(
            depth=vision["num_hidden_layers"], embed_dim=width, img_size=side, mlp_ratio=vision["mlp_dim"] / width,
            norm_layer=partial(torch.nn.LayerNorm, eps=1e-6), num_heads=vision["num_attention_heads"],
            patch_size=patch, qkv_bias=True, use_rel_pos=True, global_attn_indexes=vision["global_attn_indexes"],
            window_size=vision["window_size"], out_chans=vision["output_channels"],
        )  # fmt: skip
    else:
        patch = 16
        encoder = TinyViT(
            img_size=side, in_chans=3, num_classes=5, embed_dims=vision["embed_dims"], depths=vision["depths"],
            num_heads=vision["num_heads"], window_sizes=vision["window_sizes"], drop_path_rate=0.0,
        )  # fmt: skip
        encoder.neck[0] = torch.nn.Conv2d(vision["embed_dims"][-1], 32, 1, bias=False)
        encoder.neck[1] = type(encoder.neck[1])(32)
        encoder.neck[2] = torch.nn.Conv2d(32, 32, 3, padding=1, bias=False)
        encoder.neck[3] = type(encoder.neck[3])(32)
    width = masks["hidden_size"]
    return Sam(
        encoder,
        PromptEncoder(width, (side // patch,) * 2, (side, side), prompts["mask_input_channels"]),
        MaskDecoder(
            transformer_dim=width,
            transformer=TwoWayTransformer(masks["num_hidden_layers"], width, HEADS, masks["mlp_dim"]),
            iou_head_depth=masks["iou_head_depth"], iou_head_hidden_dim=masks["iou_head_hidden_dim"],
        ),
    )  # fmt: skip


def golden(name: str) -> dict[str, Any]:
    config, side = CONFIGS[name], SIDES[name]
    model = made(config, side).eval()
    state = model.state_dict()
    for key, value in state.items():
        if value.is_floating_point():
            value.copy_(torch.from_numpy(picture_weights(f"net.{key}", tuple(value.shape))))
    model.train().eval()  # MobileSAM keeps its biases
    seen = model.image_encoder(torch.from_numpy(picture(1, side, side)))
    outputs = []
    for points, box in ((POINTS, None), (None, BOX)):
        given = None if points is None else (torch.tensor([points]), torch.tensor([LABELS]))
        sparse, dense = model.prompt_encoder(given, None if box is None else torch.tensor([box]), None)
        places = model.prompt_encoder.get_dense_pe()
        outputs += model.mask_decoder(seen, places, sparse, dense, multimask_output=box is None)
    sum(along(part, name) for part in outputs).backward()
    parameters = dict(model.named_parameters())

    def of(key: str, value: Any) -> list[Any]:
        grad = None if key not in parameters else parameters[key].grad
        more = [] if grad is None else rounded([(grad.double().numpy() * direction(key, grad.shape)).sum()])
        return [list(value.shape), *more]

    return {
        "outputs": [rounded(shown(part.detach().numpy())) for part in outputs],
        "tensors": {key: of(key, value) for key, value in state.items()},
    }


if __name__ == "__main__":
    write_each(__file__, CONFIGS, golden)
