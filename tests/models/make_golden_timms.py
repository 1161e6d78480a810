"""Makes golden_timms/NAME.json with timm, one for each configuration of timm_configs.py, golden_timms/names.json,
which has the number of numbers in the tensors of every architecture that pyapp knows by its name, and
golden_timms/pictures.json, which has pictures as timm prepares them:

    PYTHONPATH=. python tests/models/make_golden_timms.py [NAME …]

A file has the config.json that timm saves, the names and shapes of its tensors, some numbers of the outputs for two
pictures, and the product of each parameter's gradient with a fixed vector. seeded.py makes the weights.
"""

from __future__ import annotations

import json
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from PIL import Image
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD, create_transform
from timm.layers import get_act_layer
from timm.models import save_for_hf
from timm.models._efficientnet_blocks import SqueezeExcite
from timm.models._efficientnet_builder import decode_arch_def, round_channels
from timm.models.byobnet import ByoBlockCfg, ByobNet, ByoModelCfg
from timm.models.convmixer import ConvMixer
from timm.models.efficientnet import EfficientNet
from timm.models.mobilenetv3 import MobileNetV3
from timm.models.vgg import VGG, ConvMlp

from pyapp.models.loading.timm import settings_of
from tests.goldens import write_each
from tests.models.seeded import direction, picture, picture_weights, rounded, shown
from tests.models.seeded_folders import along
from tests.models.timm_configs import CONFIGS, FEATURES, LABELS, PREPARED, seeded_picture, side_of

ACTIVATIONS = {"hardswish": "hard_swish", "silu": "silu", "gelu": "gelu", "relu": "relu"}


def vgg(config: dict[str, Any]) -> Any:
    """VGG with a head of other sizes than timm's only one."""
    layers = [part for stage in config["layers"] for part in (*stage, "M")]
    norm = torch.nn.BatchNorm2d if config["has_norms"] else None
    model = VGG(layers, num_classes=len(LABELS), norm_layer=norm, mlp_ratio=0.01)
    ratio = config["inner_size"] / config["head_size"]
    model.pre_logits = ConvMlp(config["layers"][-1][-1], config["head_size"], 7, ratio)
    model.head.fc = torch.nn.Linear(config["head_size"], len(LABELS))
    return model


def from_blocks(config: dict[str, Any]) -> Any:
    """The network of a configuration that describes blocks."""
    act = get_act_layer(ACTIVATIONS[config["hidden_act"]])
    norm = partial(torch.nn.BatchNorm2d, eps=config.get("layer_norm_eps", 1e-5))
    same = {
        "block_args": decode_arch_def([[f"{block}_e1" if "_e" not in block else block for block in stage]
                                       for stage in config["blocks"]]),
        "num_classes": len(LABELS), "stem_size": config["stem_size"], "num_features": config["head_size"],
        "act_layer": act, "norm_layer": norm, "pad_type": "same" if config.get("tf_padding") else "",
    }  # fmt: skip
    if config["head"] == "before":
        return EfficientNet(**same)
    squeeze = partial(
        SqueezeExcite, gate_layer="hard_sigmoid", force_act_layer=torch.nn.ReLU, rd_round_fn=round_channels
    )
    return MobileNetV3(
        **same, head_bias=config["head"] == "after", head_norm=config["head"] == "normed", se_layer=squeeze,
        layer_scale_init_value=1e-5 if config.get("layer_scale") else None,
    )  # fmt: skip


def branches(config: dict[str, Any]) -> Any:
    """RepVGG or MobileOne of a configuration that describes blocks."""
    stages = [
        [re.fullmatch(
            r"(rep|one)_r(\d)_k(\d)_s(\d)(?:_g(\d)|_(each))?(?:_b(\d))?_c(\d+)(?:_se([\d.]+))?", block
        ) for block in stage]
        for stage in config["blocks"]
    ]  # fmt: skip
    parts = []
    before = int(stages[0][0][8])
    for stage in stages[1:]:
        blocks = []
        for kind, repeats, kernel, stride, groups, each, count, width, _ in (block.groups() for block in stage):
            for i in range(int(repeats)):
                more = {"num_conv_branches": int(count), "kernel_size": int(kernel)} if kind == "one" else {}
                size = 1 if each else before // int(groups) if groups else 0
                blocks.append(ByoBlockCfg(
                    type=kind, d=1, c=int(width), s=int(stride) if i == 0 else 1, gs=size, block_kwargs=more
                ))  # fmt: skip
                before = int(width)
        parts.append(blocks)
    kind, squeeze = stages[0][0][1], stages[0][0][9]
    attention = {"attn_layer": "se", "attn_kwargs": {"rd_ratio": float(squeeze), "rd_divisor": 1}} if squeeze else {}
    made = ByoModelCfg(blocks=tuple(parts), stem_type=kind, stem_chs=int(stages[0][0][8]), **attention)
    return ByobNet(made, num_classes=len(LABELS))


def mixer(config: dict[str, Any]) -> Any:
    """ConvMixer."""
    return ConvMixer(
        config["hidden_size"], config["num_hidden_layers"], config["kernel_size"], config["patch_size"],
        num_classes=len(LABELS),
    )  # fmt: skip


def golden(name: str) -> dict[str, Any]:
    config, saved = CONFIGS[name], None
    if "timm" in config:
        architecture, arguments = config["timm"]
        model = timm.create_model(architecture, num_classes=0 if name in FEATURES else len(LABELS), **arguments)
        with tempfile.TemporaryDirectory() as folder:
            save_for_hf(model, folder, model_args=arguments, model_config={
                "label_names": list(LABELS), "label_descriptions": {label: f"{label}!" for label in LABELS},
            })  # fmt: skip
            saved = json.loads((Path(folder) / "config.json").read_text())
    else:
        model = {"vgg": vgg, "repvgg": branches, "convmixer": mixer}.get(config["model_type"], from_blocks)(config)
    model.eval()
    state = model.state_dict()
    for key, value in state.items():
        if value.is_floating_point():
            value.copy_(torch.from_numpy(picture_weights(f"net.{key}", tuple(value.shape))))
    pictures = torch.from_numpy(picture(2, side_of(name), side_of(name)))
    output = model.forward_features(pictures) if name in FEATURES else model(pictures)
    along(output, name).backward()
    parameters = dict(model.named_parameters())
    tensors = {
        key: [list(value.shape)] if key not in parameters else [list(value.shape), *rounded(
            [(parameters[key].grad.double().numpy() * direction(key, tuple(value.shape))).sum()]
        )]
        for key, value in state.items()
    }  # fmt: skip
    return {"config": saved, "output": rounded(shown(output.detach().numpy())), "tensors": tensors}


def known_names() -> list[str]:
    """The architectures of timm that pyapp loads."""
    found = []
    for name in timm.list_models():
        try:
            settings_of({"architecture": name, "global_pool": None} | {"global_pool": _pool(name)}, "")
        except Exception:
            continue
        found.append(name)
    return found


def _pool(name: str) -> str:
    return "token" if name.startswith(("vit_", "deit_")) else "avg"


def names() -> dict[str, Any]:
    """How many numbers each architecture's tensors have, and its usual pictures."""
    found = {}
    for name in known_names():
        with torch.device("meta"):
            model = timm.create_model(name, num_classes=0 if "dinov2" in name else 1000)
        numbers = sum(value.numel() for value in model.state_dict().values() if value.ndim)
        found[name] = {"numbers": numbers, "input_size": model.pretrained_cfg["input_size"]}
    return found


def prepared() -> dict[str, Any]:
    """Some numbers of pictures as timm prepares them."""
    found = []
    for config, (height, width) in PREPARED:
        usual = {"mean": IMAGENET_DEFAULT_MEAN, "std": IMAGENET_DEFAULT_STD, "interpolation": "bilinear"}
        transform = create_transform(**(usual | config), is_training=False)
        values = transform(Image.fromarray(seeded_picture(height, width))).numpy()
        found.append({
            "config": config, "size": [height, width], "shape": list(values.shape), "values": rounded(shown(values)),
        })  # fmt: skip
    return {"cases": found}


MORE = {"names": names, "pictures": prepared}

if __name__ == "__main__":
    write_each(__file__, [*CONFIGS, *MORE], lambda name: MORE[name]() if name in MORE else golden(name))
