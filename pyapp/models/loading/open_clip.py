"""OpenCLIP's repositories: open_clip_config.json, whose form is that of its `model_configs`, beside
open_clip_model.safetensors. Models that see by timm's FastViT are read: MobileCLIP and MobileCLIP2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.errors import ModelError

from .config import require
from .timm import RESAMPLING, family_of

MODEL_TYPE = "mobileclip"
PREPARATION = "preprocess_cfg"
NETWORK = re.compile(r"fastvit_mci[0-2]")
HINT = "MobileCLIP S0 to S2 are read so; of other models take a repository in transformers' form"
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
# What a part may say besides its sizes, and the only values that are known.
VISION = {
    "timm_pool": ("avg",), "timm_proj": ("", None), "timm_proj_bias": (False,), "timm_model_pretrained": (False, True)
}  # fmt: skip
TEXT = {"pool_type": ("argmax",), "proj_type": ("linear",), "proj_bias": (False,), "embed_cls": (False,),
        "ls_init_value": (None,),
        "no_ln_final": (False,), "output_tokens": (False,), "eos_id": (2,), "pad_id": (0,)}  # fmt: skip
SIZES = ("context_length", "vocab_size", "width", "heads", "layers", "mlp_ratio", "no_causal_mask")


def is_open_clips(settings: Mapping[str, Any]) -> bool:
    """Whether an object is that of an open_clip_config.json."""
    return isinstance(settings.get("model_cfg"), dict) and "model_type" not in settings


def settings_of(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a config.json that pyapp reads, of an open_clip_config.json. ModelError for models that are not
    known.
    """
    try:
        return _settings(config)
    except ModelError as error:
        raise ModelError(error.what, where=error.where or where, hint=error.hint) from error


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    own = config["model_cfg"]
    vision, text = own.get("vision_cfg"), own.get("text_cfg")
    require(isinstance(vision, dict) and isinstance(text, dict), "model_cfg has no vision_cfg, or no text_cfg")
    name = vision.get("timm_model_name")
    if not isinstance(name, str) or not NETWORK.fullmatch(name):
        raise ModelError(
            f"OpenCLIP's models that see by {name or 'a network of its own'!s:.60} are not known", hint=HINT
        )
    for part, known in ((vision, VISION), (text, TEXT)):
        for field, values in known.items():
            given = part.get(field, values[0])
            require(given in values, f"{field} is {given!r:.60}, expected {values[0]!r}")
    more = [field for field in text if field not in SIZES and field not in TEXT]
    require(not more, f"text_cfg has {', '.join(more)!s:.60}, which is not known")
    family = family_of(name)
    assert family is not None
    match = re.fullmatch(family.pattern, name)
    assert match is not None
    width, ratio = text.get("width", 512), text.get("mlp_ratio", 4.0)
    require(type(width) is int and type(ratio) in (int, float), f"width is {width!r:.40}, mlp_ratio {ratio!r:.40}")
    return {
        "model_type": MODEL_TYPE, "embed_dim": own.get("embed_dim"), "image_size": vision.get("image_size", 224),
        "vision_config": family.settings(match, {}),
        "text_config": {
            "vocab_size": text.get("vocab_size", 49408), "hidden_size": width, "intermediate_size": int(width * ratio),
            "num_hidden_layers": text.get("layers", 12), "num_attention_heads": text.get("heads", 8),
            "max_position_embeddings": text.get("context_length", 77), "causal": not text.get("no_causal_mask", False),
            "hidden_act": "quick_gelu" if own.get("quick_gelu") else "gelu",
        },
        PREPARATION: config.get(PREPARATION) or {},
    }  # fmt: skip


def processor_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The preprocessor_config.json of a model's preprocess_cfg. ModelError for pictures that are not cropped."""
    given, side = settings.get(PREPARATION), settings["image_size"]
    require(isinstance(given, dict), f"{PREPARATION} is {given!r:.60}, expected an object")
    assert isinstance(given, dict)
    mode, filter_ = given.get("resize_mode", "shortest"), given.get("interpolation", "bicubic")
    require(mode == "shortest", f"resize_mode is {mode!r:.60}, expected 'shortest'")
    require(filter_ in RESAMPLING, f"interpolation is {filter_!r:.60}")
    return {
        "image_processor_type": "TimmWrapperImageProcessor", "size": {"shortest_edge": side},
        "crop_size": {"height": side, "width": side}, "resample": RESAMPLING[filter_],
        "image_mean": given.get("mean", CLIP[0]), "image_std": given.get("std", CLIP[1]),
    }  # fmt: skip
