"""Models of pictures that timm's library (PyTorch Image Models) made: the config.json of its repositories, which names
an architecture, the names of its tensors, and how pictures are prepared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import floor, log, prod
from typing import Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat, zeros
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Module
from pyapp.nn.vision.detection import from_timm

from . import imagenet, timm_networks
from .config import as_object, optional_object, require
from .labels import LARGEST
from .pictures_config import TIMM_RESNETS, WIDTHS
from .stored import Stored
from .timm_blocks import described

RESAMPLING = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "random": 2}
# Arguments that change training only, or that config.json says elsewhere.
IGNORED_ARGUMENTS = re.compile(r"num_classes|in_chans|img_size|global_pool|.*drop.*|.*init.*|pretrained.*|dynamic_.*")
PREPARATION = "pretrained_cfg"  # what config.json calls the training, and the preparation of pictures
WRAPPED, INSIDE = "timm_wrapper", "timm_model."  # transformers' model_type of such models, and where they lie in it
RESNETS = "conv_encoder.model."  # what stands before the names that from_timm knows
VIT_WIDTHS = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16),
              "huge": (1280, 32, 16)}  # fmt: skip
CONVNEXT = {
    "zepto": ((2, 2, 4, 2), 32), "atto": ((2, 2, 6, 2), 40), "femto": ((2, 2, 6, 2), 48), "pico": ((2, 2, 6, 2), 64),
    "nano": ((2, 2, 8, 2), 80), "tiny": ((3, 3, 9, 3), 96), "small": ((3, 3, 27, 3), 96), "base": ((3, 3, 27, 3), 128),
    "large": ((3, 3, 27, 3), 192), "xlarge": ((3, 3, 27, 3), 256), "huge": ((3, 3, 27, 3), 352),
}  # fmt: skip
SWIN = {"tiny": (96, (2, 2, 6, 2), 3), "small": (96, (2, 2, 18, 2), 3), "base": (128, (2, 2, 18, 2), 4),
        "large": (192, (2, 2, 18, 2), 6)}  # fmt: skip
_TWO, _THREE, _FOUR = ([[width] * count for width in (256, 512, 512)] for count in (2, 3, 4))
VGG = {
    "11": [[64], [128], *_TWO], "13": [[64] * 2, [128] * 2, *_TWO], "16": [[64] * 2, [128] * 2, *_THREE],
    "19": [[64] * 2, [128] * 2, *_FOUR],
}  # fmt: skip
# DenseNet's channels that a layer adds, and the layers of each block.
DENSENET = {
    "121": (32, (6, 12, 24, 16)), "161": (48, (6, 12, 36, 24)), "169": (32, (6, 12, 32, 32)),
    "201": (32, (6, 12, 48, 32)),
}  # fmt: skip
# RegNet's first width, its slope, its factor, the channels of a group and the layers (arXiv 2003.13678).
REGNET = {
    "x_002": (24, 36.44, 2.49, 8, 13), "x_004": (24, 24.48, 2.54, 16, 22), "x_006": (48, 36.97, 2.24, 24, 16),
    "x_008": (56, 35.73, 2.28, 16, 16), "x_016": (80, 34.01, 2.25, 24, 18), "x_032": (88, 26.31, 2.25, 48, 25),
    "x_040": (96, 38.65, 2.43, 40, 23), "x_064": (184, 60.83, 2.07, 56, 17), "x_080": (80, 49.56, 2.88, 120, 23),
    "x_120": (168, 73.36, 2.37, 112, 19), "x_160": (216, 55.59, 2.1, 128, 22), "x_320": (320, 69.86, 2.0, 168, 23),
    "y_002": (24, 36.44, 2.49, 8, 13), "y_004": (48, 27.89, 2.09, 8, 16), "y_006": (48, 32.54, 2.32, 16, 15),
    "y_008": (56, 38.84, 2.4, 16, 14), "y_016": (48, 20.71, 2.65, 24, 27), "y_032": (80, 42.63, 2.66, 24, 21),
    "y_040": (96, 31.41, 2.24, 64, 22), "y_064": (112, 33.22, 2.27, 72, 25), "y_080": (192, 76.82, 2.19, 56, 17),
    "y_120": (168, 73.36, 2.37, 112, 19), "y_160": (200, 106.23, 2.48, 112, 18), "y_320": (232, 115.89, 2.53, 232, 20),
}  # fmt: skip

Rename: TypeAlias = "tuple[str, str | Callable[[re.Match[str]], str]]"  # a pattern, and what takes its place


@dataclass(frozen=True)
class Family:
    """Architectures of one kind: the names that `pattern` matches. `settings` makes the fields of the config.json that
    pyapp reads, of the match and the arguments in `arguments`; `renames` gives the tensors the names that
    Hugging Face's files have.
    """

    title: str
    pattern: str
    settings: Callable[[re.Match[str], Mapping[str, Any]], dict[str, Any] | None]
    renames: tuple[Rename, ...] = ()
    arguments: tuple[str, ...] = ()
    pools: str = "avg"


def is_timms(settings: Mapping[str, Any]) -> bool:
    """Whether a config.json is one of timm's."""
    return "architecture" in settings and settings.get("model_type", WRAPPED) == WRAPPED


def family_of(name: str) -> Family | None:
    """The family of an architecture's name."""
    return next((family for family in FAMILIES if re.fullmatch(family.pattern, name)), None)


def settings_of(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a config.json that pyapp reads, of one of timm's; they keep `architecture` and `pretrained_cfg`.
    ModelError for an unknown architecture, and for arguments that cannot be.
    """
    try:
        return _settings(config)
    except ModelError as error:
        raise ModelError(error.what, where=error.where or where, hint=error.hint) from error


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    name, made = config.get("architecture"), optional_object(config, "pretrained_cfg")
    require(isinstance(name, str), f"architecture is {name!r:.60}, expected a name of timm's")
    assert isinstance(name, str)
    name = name.split(".")[0]
    family = family_of(name)
    match = None if family is None else re.fullmatch(family.pattern, name)
    arguments = config.get("model_args") or {}
    arguments = as_object(arguments, "model_args")
    found = None if family is None or match is None else family.settings(match, {**made, **config, **arguments})
    if family is None or found is None:
        raise ModelError(
            f"timm's architecture {name!r:.60} is not known",
            hint=f"Known families: {', '.join(family.title for family in FAMILIES)}",
        )
    for key, value in arguments.items():
        known = key in family.arguments or IGNORED_ARGUMENTS.fullmatch(str(key))
        require(bool(known), f"the argument {key!r:.40} = {value!r:.40} of {name} is not supported")
    pool = config.get("global_pool", arguments.get("global_pool", family.pools))
    require(pool == family.pools, f"global_pool is {pool!r:.40}, {name} supports {family.pools!r} only")
    return {
        **found, "architecture": name, PREPARATION: made,
        "num_channels": arguments.get("in_chans", _input(made)[0]), **_labels(config, made, arguments),
    }  # fmt: skip


def _labels(config: Mapping[str, Any], made: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The names of the outputs, those of ImageNet if there are 1,000 without names, or their number; without a head
    neither.
    """
    count = next((part["num_classes"] for part in (config, arguments, made) if "num_classes" in part), 1000)
    require(type(count) is int and 0 <= count <= LARGEST,
            f"num_classes is {count!r:.40}, expected a whole number up to {LARGEST:,}")  # fmt: skip
    names, told = (config.get(key, made.get(key)) for key in ("label_names", "label_descriptions"))
    if count and names is None and config.get("model_type") == WRAPPED and isinstance(config.get("id2label"), dict):
        return {"id2label": config["id2label"]}
    if names is None and count == imagenet.CLASSES:  # as timm decides
        return {"id2label": {str(i): name for i, name in enumerate(imagenet.labels())}}
    if count == 0 or names is None:
        return {"num_labels": count or None}
    require(isinstance(names, list) and len(names) == count, f"label_names does not name the {count:,} outputs")
    told = told if isinstance(told, dict) else {}
    return {"id2label": {str(i): str(told.get(str(name), name)) for i, name in enumerate(names)}}


def check_head(settings: Mapping[str, Any], task: str, where: str) -> None:
    """ModelError for a model without a head that is to name what pictures show."""
    if task == "image-classification" and settings.get("num_labels", 1) is None:
        raise ModelError(
            "this model has no head (num_classes is 0): it gives features of pictures", where=where,
            hint="Load it for image-features, or choose a model with a head",
        )  # fmt: skip


def _input(made: Mapping[str, Any]) -> tuple[int, int, int]:
    """The channels, height and width of a picture as the model was trained for it."""
    given = made.get("input_size", (3, 224, 224))
    plausible = isinstance(given, list | tuple) and len(given) == 3 and all(type(n) is int and n > 0 for n in given)
    require(plausible, f"input_size is {given!r:.60}, expected the channels, height and width of a picture")
    return given[0], given[1], given[2]


def processor_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a preprocessor_config.json: resized so that the middle is crop_pct of it, cropped, normalised, as
    timm does for evaluation. ModelError for a preparation that pyapp does not know.
    """
    made = settings[PREPARATION]
    _, high, wide = _input(made)
    part, mode, method = (made.get(key) for key in ("crop_pct", "crop_mode", "interpolation"))
    part = 0.875 if part is None else part
    require(type(part) in (int, float) and 0.01 <= part <= 8, f"crop_pct is {part!r:.40}, expected a number")
    require(mode in (None, "center", "squash"), f"crop_mode is {mode!r:.40}, expected center or squash")
    require(method is None or (isinstance(method, str) and method in RESAMPLING),
            f"interpolation is {method!r:.40}, expected one of {', '.join(RESAMPLING)}")  # fmt: skip
    require(mode == "squash" or high == wide, f"input_size is {high} x {wide}: pictures that are cropped are square")
    size = {"height": floor(high / part), "width": floor(wide / part)}
    found = {
        "image_processor_type": "TimmWrapperImageProcessor", "crop_size": {"height": high, "width": wide},
        "size": size if mode == "squash" else {"shortest_edge": size["height"]},
        "resample": RESAMPLING[method or "bilinear"],
    }  # fmt: skip
    return found | {f"image_{key}": made[key] for key in ("mean", "std") if made.get(key) is not None}


def renamed(architecture: str) -> Callable[[str], str]:
    """How tensors of an architecture are called here."""
    family = family_of(architecture)
    rules = () if family is None else family.renames
    patterns = [(re.compile(pattern), new) for pattern, new in rules]

    def rename(name: str) -> str:
        name = name.removeprefix(INSIDE)
        if family is not None and family.title == "resnet":
            name = from_timm(RESNETS + name).removeprefix(RESNETS)
        for pattern, new in patterns:
            name = pattern.sub(new, name)
        return _earlier(name) if family is not None and family.title == "swin" else name

    return rename


def _earlier(name: str) -> str:
    """Swin: timm halves the sides at the start of a stage, Hugging Face at the end of the one before."""
    return re.sub(r"layers\.(\d+)\.downsample", lambda found: f"layers.{int(found[1]) - 1}.downsample", name)


def stored(model: Module, tensors: Mapping[str, TensorInfo], rename: Callable[[str], str]) -> dict[str, Stored]:
    """Tensors that have another form in timm's files: queries, keys and values in one, filters of one pixel, and
    positions without that of the class token.
    """
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    found = {}
    for name, info in tensors.items():
        if ".attn.qkv." in name:
            for i, part in enumerate(("query", "key", "value")):
                own = _own(shapes, rename(name.replace(".attn.qkv.", f".attn.{part}.")))
                if own is not None and info.shape[:1] == (3 * shapes[own][0],):
                    found[own] = Stored((rename(name),), values=_third(i))
            continue
        own = _own(shapes, rename(name))
        if own is None or shapes[own] == tuple(info.shape):
            continue
        wanted = shapes[own]
        if prod(wanted) == prod(info.shape):
            found[own] = Stored((rename(name),), values=_shaped(wanted))
        elif own.endswith("position_embeddings") and len(info.shape) == 3 and info.shape[1] + 1 == wanted[1]:
            found[own] = Stored((rename(name),), values=_with_place)
    return found


def _own(shapes: Mapping[str, Any], name: str) -> str | None:
    """The name of a parameter, below the network's name or without it."""
    return next((own for own in shapes if own == name or own.partition(".")[2] == name), None)


def _third(i: int) -> Callable[[Tensor], Tensor]:
    return lambda value: value.narrow(0, i * (value.shape[0] // 3), value.shape[0] // 3)


def _shaped(shape: Sequence[int]) -> Callable[[Tensor], Tensor]:
    return lambda value: value.reshape(*shape)


def _with_place(value: Tensor) -> Tensor:
    """(1, T, D) → (1, 1 + T, D): the class token has no position."""
    return cat([zeros(1, 1, value.shape[2], dtype=value.dtype, device=value.device), value], 1)


# -- the families


def _resnet(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    if match[0] not in TIMM_RESNETS:
        return None
    kind, depths = TIMM_RESNETS[match[0]]
    widths, expansion = given.get("channels"), WIDTHS[kind][0] // 64
    if widths is not None:
        plausible = isinstance(widths, list | tuple) and all(type(width) is int for width in widths)
        require(plausible, f"channels is {widths!r:.60}, expected a list of whole numbers")
    return {
        "model_type": "resnet", "layer_type": kind, "depths": given.get("layers", depths),
        "hidden_sizes": WIDTHS[kind] if widths is None else [width * expansion for width in widths],
        "embedding_size": given.get("stem_width", 64),
    }  # fmt: skip


def _vit(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    if match["width"] not in VIT_WIDTHS:
        return None
    width, depth, heads = VIT_WIDTHS[match["width"]]
    width = given.get("embed_dim", width)
    require(type(width) is int and width > 0, f"embed_dim is {width!r:.40}, expected a whole number")
    size = given.get("img_size")
    found = {
        "hidden_size": width, "num_hidden_layers": given.get("depth", depth),
        "num_attention_heads": given.get("num_heads", heads), "intermediate_size": 4 * width, "layer_norm_eps": 1e-6,
        "image_size": list(_input(given)[1:]) if size is None else size,
        "patch_size": given.get("patch_size", int(match["patch"])),
    }  # fmt: skip
    if "dinov2" in match[0]:
        registers = "reg4" in match[0]
        kind = {"model_type": "dinov2_with_registers", "num_register_tokens": 4} if registers else {
            "model_type": "dinov2"
        }  # fmt: skip
        return found | kind | {"mlp_ratio": 4}
    return found | {"model_type": "vit"}


def _vit_clip(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    found = _vit(match, given)
    own = {"pre_norm": True, "layer_norm_eps": 1e-5, "hidden_act": "quick_gelu" if match["quick"] else "gelu"}
    return None if found is None else found | own


def _convnext(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    if match["width"] not in CONVNEXT:
        return None
    depths, width = CONVNEXT[match["width"]]
    return {
        "model_type": "convnextv2" if match["second"] else "convnext", "depths": given.get("depths", depths),
        "hidden_sizes": given.get("dims", [width << i for i in range(4)]), "layer_norm_eps": 1e-6,
    }  # fmt: skip


def _swin(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    width, depths, heads = SWIN[match["width"]]
    size = given.get("img_size")
    return {
        "model_type": "swin", "embed_dim": given.get("embed_dim", width), "depths": given.get("depths", depths),
        "num_heads": given.get("num_heads", [heads << i for i in range(4)]),
        "window_size": given.get("window_size", int(match["window"])), "patch_size": given.get("patch_size", 4),
        "image_size": list(_input(given)[1:]) if size is None else size,
    }  # fmt: skip


def _regnet(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    if match["width"] not in REGNET:
        return None
    first, slope, factor, group, layers = REGNET[match["width"]]
    widths = []
    for i in range(layers):
        exponent = round(log((first + i * slope) / first) / log(factor))
        widths.append(round(first * factor**exponent / 8) * 8)
    sizes = sorted(set(widths))
    depths = [widths.count(size) for size in sizes]
    groups = [min(group, size) for size in sizes]
    sizes = [max(own, round(size / own) * own) for size, own in zip(sizes, groups, strict=True)]
    return {
        "model_type": "regnet", "layer_type": match["width"][0], "hidden_sizes": sizes, "depths": depths,
        "groups_width": group, "embedding_size": 32,
    }  # fmt: skip


def _vgg(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    if match["depth"] not in VGG:
        return None
    return {"model_type": "vgg", "layers": VGG[match["depth"]], "has_norms": bool(match["norms"])}


def _densenet(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    growth, layers = DENSENET[match["depth"]]
    found = {"growth_rate": growth, "block_config": layers}
    return {"model_type": "densenet", **{name: given.get(name, value) for name, value in found.items()}}


def _blocks(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    return described(match[0])


def _beit(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    found = _vit(match, given)
    return None if found is None else found | {"model_type": "beit", "use_relative_position_bias": True}


def _dinov3(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    found = _vit(match, given)
    if found is None:
        return None
    biases = dict.fromkeys(("query_bias", "key_bias", "value_bias"), False)
    return found | biases | {"model_type": "dinov3_vit", "layer_norm_eps": 1e-5, "num_register_tokens": 4}


def _eva02(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    found = _vit(match, {**given, "img_size": given.get("img_size") or int(match["side"])})
    if found is None:
        return None
    inner, packed = int(found["hidden_size"] * (4 * 2 / 3)), match["width"] in ("tiny", "small")
    return found | {"model_type": "eva02", "intermediate_size": inner, "packed": packed}


_PARTS = (
    (r"patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"\.attn\.(query|key|value)\.", r".attention.\1."),
    (r"\.attn\.proj\.", ".attention.output.dense."),
)
_VIT = (
    _PARTS[0],
    (r"^(cls_token|pos_embed)$", r"embeddings.\1"), (r"^embeddings\.pos_embed$", "embeddings.position_embeddings"),
    (r"^reg_token$", "embeddings.register_tokens"), (r"^blocks\.", "encoder.layer."),
    (r"\.attn\.(query|key|value)\.", r".attention.attention.\1."), _PARTS[2],
    (r"^norm\.", "layernorm."), (r"^head\.", "classifier."),
)  # fmt: skip
_PLAIN_VIT = (
    *_VIT, (r"\.norm1\.", ".layernorm_before."), (r"\.norm2\.", ".layernorm_after."),
    (r"\.mlp\.fc1\.", ".intermediate.dense."), (r"\.mlp\.fc2\.", ".output.dense."),
)  # fmt: skip
_SWIN = (
    _PARTS[0], (r"^patch_embed\.norm\.", "embeddings.norm."), (r"^layers\.", "encoder.layers."),
    (r"\.attn\.(query|key|value|relative_position_bias_table)", r".attention.self.\1"), _PARTS[2],
    (r"\.norm1\.", ".layernorm_before."), (r"\.norm2\.", ".layernorm_after."),
    (r"\.mlp\.fc1\.", ".intermediate.dense."), (r"\.mlp\.fc2\.", ".output.dense."),
    (r"^norm\.", "layernorm."), (r"^head\.(fc\.)?", "classifier."),
)  # fmt: skip
_CONVNEXT = (
    (r"^stem\.0\.", "embeddings.patch_embeddings."), (r"^stem\.1\.", "embeddings.layernorm."),
    (r"^stages\.(\d+)\.downsample\.", r"encoder.stages.\1.downsampling_layer."),
    (r"^stages\.(\d+)\.blocks\.(\d+)\.", r"encoder.stages.\1.layers.\2."),
    (r"\.conv_dw\.", ".dwconv."), (r"\.norm\.", ".layernorm."), (r"\.mlp\.fc([12])\.", r".pwconv\1."),
    (r"\.mlp\.grn\.", ".grn."), (r"\.gamma$", ".layer_scale_parameter"), (r"^head\.layernorm\.", "layernorm."),
    (r"^(head|norm)\.norm\.", "layernorm."), (r"^head\.fc\.", "classifier."),
)  # fmt: skip
_REGNET: tuple[Rename, ...] = (
    (r"^stem\.", "embedder.embedder."),
    (r"^s(\d)\.b(\d+)\.", lambda found: f"encoder.stages.{int(found[1]) - 1}.layers.{int(found[2]) - 1}."),
    (r"\.conv1\.", ".layer.0."), (r"\.conv2\.", ".layer.1."), (r"\.downsample\.", ".shortcut."),
    (r"\.se\.fc1\.", ".layer.2.attention.0."), (r"\.se\.fc2\.", ".layer.2.attention.2."),
    (r"\.conv\.", ".convolution."), (r"\.bn\.", ".normalization."), (r"^head\.fc\.", "classifier.1."),
)  # fmt: skip
_EVA02 = (
    (r"\.attn\.q_bias$", ".attn.query.bias"), (r"\.attn\.v_bias$", ".attn.value.bias"),
    (r"\.attn\.q_proj\.", ".attn.query."), (r"\.attn\.k_proj\.", ".attn.key."), (r"\.attn\.v_proj\.", ".attn.value."),
)  # fmt: skip
_BEIT = (
    *_EVA02[:2], (r"\.attn\.relative_position", ".attention.attention.relative_position_bias.relative_position"),
    *_PLAIN_VIT,
    (r"\.gamma_([12])$", r".lambda_\1"), (r"^fc_norm\.", "pooler.layernorm."),
)  # fmt: skip
_DINOV3 = (
    (r"^(cls_token)$", r"embeddings.\1"), (r"^reg_token$", "embeddings.register_tokens"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings."), (r"^blocks\.", "layer."),
    (r"\.attn\.(q|k|v)\w+\.", r".attention.\1_proj."), (r"\.attn\.proj\.", ".attention.o_proj."),
    (r"\.gamma_([12])$", r".layer_scale\1.lambda1"), (r"\.mlp\.fc1\.", ".mlp.up_proj."),
    (r"\.mlp\.fc2\.", ".mlp.down_proj."),
)  # fmt: skip
_VIT_ARGUMENTS = ("embed_dim", "depth", "num_heads", "patch_size")
FAMILIES = (
    Family("resnet", r"resnet\d+", _resnet, ((r"^fc\.", "classifier.1."),), ("layers", "channels")),
    Family("mobilenetv2, mobilenetv3, mobilenetv4, efficientnet, efficientnetv2",
           r"(tf_)?(mobilenetv|efficientnet).*", _blocks),
    Family("repvgg", r"repvgg_(?P<size>[abd]\d)(g(?P<groups>4))?(?P<squeezed>se)?", timm_networks.repvgg),
    Family("mobileone", r"mobileone_(?P<size>s[0-4])", timm_networks.mobileone),
    Family("convmixer", r"convmixer_(?P<width>768|1024|1536)_(?P<depth>20|32)(_ks9_p(?P<patch>14))?",
           timm_networks.convmixer),
    Family("fastvit", r"fastvit_(?P<size>t8|t12|s12|sa12|sa24|sa36|ma36|mci[0-4])", timm_networks.fastvit, (),
           ("layers", "embed_dims", "mlp_ratios")),
    Family("efficientvit", r"efficientvit_(?P<size>b[0-3]|l[1-3])", timm_networks.efficientvit, (),
           ("widths", "depths", "head_dim", "head_widths")),
    Family("efficientvit_m", r"efficientvit_m(?P<size>[0-5])", timm_networks.efficientvit_msra, (),
           ("embed_dim", "depth", "num_heads", "window_size", "kernels")),
    Family("tiny_vit", r"tiny_vit_(?P<size>5m|11m|21m)_(?P<side>224|384|512)", timm_networks.tiny_vit, (),
           ("embed_dims", "depths", "num_heads", "window_sizes")),
    Family("beit", r"beit(v2)?_(?P<width>base|large)_patch(?P<patch>16)_(224|384|512)", _beit, _BEIT, _VIT_ARGUMENTS),
    Family("eva02", r"eva02_(?P<width>tiny|small|base|large)_patch(?P<patch>14)_(?P<side>224|336|448)", _eva02, _EVA02,
           _VIT_ARGUMENTS),
    Family("hiera", r"hiera_(?P<size>tiny|small|base|base_plus|large|huge)(?P<windows>_abswin)?_(?P<side>224|256)",
           timm_networks.hiera, ((r"\.ls([12])\.gamma$", r".ls\1.lambda1"),),
           ("embed_dim", "num_heads", "stages", "patch_stride", "global_pos_size")),
    Family("densenet", r"densenet(?P<depth>121|161|169|201)", _densenet, (), ("growth_rate", "block_config")),
    Family("vgg", r"vgg(?P<depth>\d+)(?P<norms>_bn)?", _vgg),
    Family("vit", r"(vit|deit)_(?P<width>[a-z]+)_patch(?P<patch>\d+)_\d+", _vit, _PLAIN_VIT, _VIT_ARGUMENTS, "token"),
    Family("vit_clip", r"vit_(?P<width>base|large|huge)_patch(?P<patch>\d+)_clip_(?P<quick>quickgelu_)?\d+", _vit_clip,
           (*_PLAIN_VIT, (r"^norm_pre\.", "embeddings.norm_pre.")), _VIT_ARGUMENTS, "token"),
    Family("dinov3", r"vit_(?P<width>small|base|large)_patch(?P<patch>16)_dinov3", _dinov3, _DINOV3,
           _VIT_ARGUMENTS),
    Family("dinov2", r"vit_(?P<width>[a-z]+)_patch(?P<patch>\d+)(_reg4)?_dinov2", _vit,
           (*_VIT, (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1")), _VIT_ARGUMENTS, "token"),
    Family("convnext, convnextv2", r"convnext(?P<second>v2)?_(?P<width>[a-z]+)", _convnext, _CONVNEXT,
           ("depths", "dims")),
    Family("swin", r"swin_(?P<width>tiny|small|base|large)_patch4_window(?P<window>\d{1,3})_\d+", _swin, _SWIN,
           ("embed_dim", "depths", "num_heads", "window_size", "patch_size")),
    Family("regnetx", r"regnet(?P<width>x_\d+)", _regnet, (*_REGNET, (r"\.conv3\.", ".layer.2."))),
    Family("regnety", r"regnet(?P<width>y_\d+)", _regnet, (*_REGNET, (r"\.conv3\.", ".layer.3."))),
)  # fmt: skip
