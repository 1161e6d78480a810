"""Prepare pictures for a model as its preprocessor_config.json says: the steps of transformers' image processors, with
their defaults, and Pillow's numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import groupby
from math import ceil, floor, sqrt
from sys import float_info
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops import cat
from pyapp.errors import ArgumentError, ModelError

from .reading import grey_levels
from .resampling import NUMBERED, resize, smoothly_resized

ANY = 1, 1  # the only tile is the whole picture
LARGEST = 1 << 14  # pixels of a side
MOST = 4096  # pixels of a side of a picture with tiles
TILES = 32  # of a side
PIXELS = 1 << 27  # of a picture
GREY = 114  # of YOLO's frames
HINT = "Give the preprocessor_config.json that belongs to the weights"
HALF, IMAGENET = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SQUARE, SHORTEST = {"height": 224, "width": 224}, {"shortest_edge": 224}
PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))
GRIDS = tuple((384 * rows, 384 * columns) for rows in range(1, 7) for columns in range(1, 7))  # of LLaVA-OneVision
LONG = {"shortest_edge": 800, "longest_edge": 1333}

POINTS = "SuperPoint", "SuperGlue", "LightGlue"  # whose pictures may be grey


def _defaults(size: Mapping[str, int], resample: int, statistics: Any = HALF, **more: Any) -> dict[str, Any]:
    return {"size": size, "resample": resample, "image_mean": statistics[0], "image_std": statistics[1]} | more


# By the name without "ImageProcessor": what transformers takes where the file says nothing.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "ViT": _defaults(SQUARE, 2),
    "DeiT": _defaults({"height": 256, "width": 256}, 3, do_center_crop=True),
    "Beit": _defaults(SQUARE, 3),
    "Bit": _defaults(SHORTEST, 3, CLIP, do_center_crop=True),
    "CLIP": _defaults(SHORTEST, 3, CLIP, do_center_crop=True),
    "Siglip": _defaults(SQUARE, 3),
    "LayoutLMv3": _defaults(SQUARE, 2),
    "Siglip2": _defaults(SQUARE, 2, patch_size=16),
    "ChineseCLIP": _defaults(SHORTEST, 3, CLIP, do_center_crop=True),
    "OwlViT": _defaults({"height": 768, "width": 768}, 3, CLIP, crop_size={"height": 768, "width": 768}),
    "Owlv2": _defaults({"height": 960, "width": 960}, 2, CLIP, do_pad=True),
    "Blip": _defaults({"height": 384, "width": 384}, 3, CLIP),
    "ConvNext": _defaults({"shortest_edge": 384}, 3, crop_pct=224 / 256),
    "MobileNetV2": _defaults({"shortest_edge": 256}, 2, do_center_crop=True),
    "MobileNetV1": _defaults({"shortest_edge": 256}, 2, do_center_crop=True),
    "EfficientNet": _defaults(
        {"height": 346, "width": 346}, 3, crop_size={"height": 289, "width": 289}, include_top=True
    ),
    "Donut": _defaults({"height": 2560, "width": 1920}, 2, do_thumbnail=True, do_pad=True),
    "Nougat": _defaults(
        {"height": 896, "width": 672}, 2, IMAGENET, do_thumbnail=True, do_pad=True, do_crop_margin=True
    ),
    **dict.fromkeys(
        ("Detr", "ConditionalDetr", "DeformableDetr", "GroundingDino", "RfDetr", "Yolos"),
        _defaults(LONG, 2, IMAGENET, do_pad=True),
    ),
    "RTDetr": _defaults({"height": 640, "width": 640}, 2, IMAGENET, do_normalize=False),
    "MobileViT": _defaults(
        SHORTEST,
        3,
        do_center_crop=True,
        crop_size={"height": 256, "width": 256},
        do_normalize=False,
        do_flip_channel_order=True,
    ),
    "Pvt": _defaults(SQUARE, 3, IMAGENET),
    "Levit": _defaults(SHORTEST, 3, IMAGENET, do_center_crop=True),
    "PoolFormer": _defaults(SHORTEST, 3, IMAGENET, do_center_crop=True, crop_pct=0.9),
    "VideoMAE": _defaults(SHORTEST, 2, do_center_crop=True),
    "Timesformer": _defaults(SHORTEST, 2, IMAGENET, do_center_crop=True),
    "Vivit": _defaults({"shortest_edge": 256}, 2, do_center_crop=True, rescale_factor=1 / 127.5, rescale_offset=True),
    "VJEPA2": _defaults(
        {"shortest_edge": 292}, 2, IMAGENET, do_center_crop=True, crop_size={"height": 256, "width": 256}
    ),
    "Segformer": _defaults({"height": 512, "width": 512}, 2, IMAGENET),
    "DINOv3ViT": _defaults(SQUARE, 2, IMAGENET),
    "GLPN": _defaults(SQUARE, 2, do_normalize=False, size_divisor=32),
    "DPT": _defaults({"height": 384, "width": 384}, 3),
    "DepthPro": _defaults({"height": 1536, "width": 1536}, 2),
    "ZoeDepth": _defaults({"height": 384, "width": 512}, 2, do_pad=True, keep_aspect_ratio=True, ensure_multiple_of=32),
    "VitPose": _defaults({"height": 256, "width": 192}, 2, IMAGENET),
    "TimmWrapper": _defaults(SHORTEST, 2, IMAGENET, do_center_crop=True),
    "Llava": _defaults(SHORTEST, 3, CLIP, do_center_crop=True),
    "Gemma3": _defaults(SQUARE, 2),
    "LlavaNext": _defaults(SHORTEST, 3, CLIP, do_center_crop=True, image_grid_pinpoints=PINPOINTS),
    "LlavaOnevision": _defaults({"height": 384, "width": 384}, 3, CLIP, image_grid_pinpoints=GRIDS),
    "GotOcr2": _defaults({"height": 384, "width": 384}, 3, CLIP),
    "Idefics2": _defaults({"shortest_edge": 378, "longest_edge": 980}, 2, do_pad=True),
    "Lfm2Vl": _defaults({"height": 512, "width": 512}, 2, do_image_splitting=True),
    "Llama4": _defaults({"height": 336, "width": 336}, 2, max_patches=16),
    "Mllama": _defaults(SQUARE, 2, max_image_tiles=4),
    "Pixtral": _defaults({"longest_edge": 1024}, 3, CLIP, do_pad=True, patch_size=16, merge_size=1),
    "PaddleOCRVL": _defaults({"shortest_edge": 384 * 384, "longest_edge": 1536 * 1536}, 3, CLIP),
    "Janus": _defaults({"height": 384, "width": 384}, 3, CLIP, do_pad=True),
    "Glm4v": _defaults({"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 15000}, 3, CLIP),
    "Qwen2VL": _defaults({"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}, 3, CLIP),
    **dict.fromkeys(
        ("Idefics3", "SmolVLM"),
        _defaults({"longest_edge": 4 * 364}, 1, max_image_size={"longest_edge": 364}, do_image_splitting=True),
    ),
    "Yolo": _defaults({"longest_edge": 640}, 2, do_normalize=False, ensure_multiple_of=32),
    **dict.fromkeys(("MaskFormer", "Mask2Former"), _defaults(LONG, 2, IMAGENET, size_divisor=32)),
    "OneFormer": _defaults(LONG, 2, IMAGENET),
    "Vilt": _defaults({"shortest_edge": 384}, 3, size_divisor=32, do_pad=True),
    **dict.fromkeys(POINTS, _defaults({"height": 480, "width": 640}, 2, do_normalize=False)),
    "Swin2SR": _defaults(SQUARE, 2, do_resize=False, do_normalize=False, do_pad=True, size_divisor=8),
    "Sam2": _defaults({"height": 1024, "width": 1024}, 2, IMAGENET),
    "Sam": _defaults({"longest_edge": 1024}, 2, IMAGENET, do_pad=True, pad_size={"height": 1024, "width": 1024}),
}
# Other names of the same.
ALIASES = {"Glm46V": "Glm4v", "DeepseekVL": "Janus"}
# Processors whose single `size` is that of the shorter side.
KEEP_SHAPE = (
    "Levit",
    "MobileViT",
    "PoolFormer",
    "VideoMAE",
    "Timesformer",
    "Vivit",
    "VJEPA2",
    "TimmWrapper",
    "CLIP",
    "Bit",
    "ConvNext",
    "MobileNetV1",
    "MobileNetV2",
    "Detr",
    "ConditionalDetr",
    "DeformableDetr",
    "GroundingDino",
    "RfDetr",
    "Yolos",
    "RTDetr",
    "MaskFormer",
    "Mask2Former",
    "OneFormer",
    "Vilt",
    "Llava",
    "LlavaNext",
    "LlavaOnevision",
)
MASKED = ("MaskFormer", "Mask2Former")  # whose sides are rounded up to multiples
SQUARES = ("Llama4", "Mllama")  # whose tiles are squares of one size
TILED = ("LlavaNext", "LlavaOnevision")  # whose tiles are of the best of several sizes
DOCUMENTS = ("Donut", "Nougat")  # whose pictures are pages of one size
INK = 200  # of 255, between a page's darkest and lightest grey: what is darker is not margin
OF_PIXELS = ("Qwen2VL", "PaddleOCRVL", "Glm4v")  # whose size is a number of pixels, of which patches are made


@dataclass(frozen=True)
class Prepared:
    """pixel_values (B, 3, H, W) float32, of each picture its tiles, row by row, and the whole, if it has tiles, and the
    whole and its crops, if it has crops; mask
    (B, H, W) int64, 1 where a pixel is of its picture and 0 where it is padding, None if no picture is padded; the
    sizes (height, width) of the pictures as they were given.
    """

    pixel_values: Tensor
    mask: Tensor | None
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ImageProcessor:
    """The steps from pictures to a model's input, in this order, under the names of preprocessor_config.json."""

    kind: str
    size: Mapping[str, int]
    resample: int
    image_mean: tuple[float, ...]
    image_std: tuple[float, ...]
    crop_size: Mapping[str, int] = field(default_factory=lambda: SQUARE)
    pad_size: Mapping[str, int] | None = None
    max_image_size: Mapping[str, int] | None = None  # of a tile, in processors that make tiles
    rescale_factor: float = 1 / 255
    crop_pct: float = 224 / 256
    do_resize: bool = True
    do_center_crop: bool = False
    do_rescale: bool = True
    do_normalize: bool = True
    do_pad: bool = False
    do_thumbnail: bool = False
    do_align_long_axis: bool = False
    do_crop_margin: bool = False  # Nougat: whether the white around a page is left out
    rescale_offset: bool = False
    do_flip_channel_order: bool = False  # MobileViT: blue, green, red
    include_top: bool = False
    do_grayscale: bool | None = None  # SuperGlue: whether all channels have the grey of a picture; None: as usual
    do_image_splitting: bool = False
    keep_aspect_ratio: bool = False  # DPT: whether a picture is only scaled
    ensure_multiple_of: int = 1  # DPT and YOLO: of pixels, that each side has
    # MaskFormer: each side is rounded up to a multiple of it; Swin2SR: to the next larger one; GLPN and ViLT: down.
    size_divisor: int = 0
    patch_size: int = 14
    merge_size: int = 2  # rows, and columns, of patches that become one vector
    max_num_patches: int = 256  # SigLIP 2: of a picture
    image_grid_pinpoints: Any = None  # LLaVA-NeXT: the sizes of which the best one is that of a picture's tiles
    crop_to_patches: bool = False  # InternVL: whether a picture is cut into tiles
    min_patches: int = 1
    max_patches: int = 12
    resize_to_max_canvas: bool = False  # Llama 4: whether a picture becomes as large as its tiles allow
    min_size: int = 14  # Janus: pixels of the shorter side, at least
    max_image_tiles: int = 4  # Llama 3.2 Vision: of a picture
    # LFM2-VL: the tiles of a picture with more than so many times the pixels of max_image_tokens vectors, each of
    # downsample_factor² patches of encoder_patch_size pixels a side; and whether the whole is after them.
    tile_size: int = 512
    min_tiles: int = 2
    max_tiles: int = 10
    use_thumbnail: bool = True
    min_image_tokens: int = 64
    max_image_tokens: int = 256
    encoder_patch_size: int = 16
    downsample_factor: int = 2
    max_pixels_tolerance: float = 2.0
    do_pan_and_scan: bool = False  # whether a long picture is seen whole, and then in parts of its longer side
    pan_and_scan_min_crop_size: int = 256  # pixels of a part's shorter side
    pan_and_scan_max_num_crops: int = 4
    pan_and_scan_min_ratio_to_activate: float = 1.2  # of the longer to the shorter side

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], usual: str | None = None) -> ImageProcessor:
        """From the object of a preprocessor_config.json, or of a processor_config.json. usual: its kind where it says
        none, by its name in DEFAULTS. ModelError for an unknown processor and for values that cannot be.
        """
        own = settings.get("image_processor")
        settings = own if isinstance(own, dict) else settings
        kind = _kind(settings, usual)
        found = dict(DEFAULTS[kind])
        found |= {name: settings[name] for name in cls.__dataclass_fields__ if settings.get(name) is not None}
        old_pad = settings.get("pad_and_return_pixel_mask")
        if old_pad is not None and "do_pad" not in settings:
            found["do_pad"] = old_pad
        found["kind"] = kind
        found["size"] = _size(settings.get("size"), settings.get("max_size"), kind) or DEFAULTS[kind]["size"]
        if kind in OF_PIXELS:  # numbers of pixels, not of a side
            names = (("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels"))
            own = {edge: settings[name] for edge, name in names if settings.get(name) is not None}
            found["size"] = _size({**found["size"], **own}, None, kind)
        if kind in MASKED and "size_divisibility" in settings:  # of older files
            found["size_divisor"] = settings["size_divisibility"]
        if kind == "Swin2SR" and type(settings.get("pad_size")) is int:  # of older files
            found |= {"size_divisor": settings["pad_size"], "pad_size": None}
            settings = {**settings, "pad_size": None}
        sides = settings.get("patch_size")
        if kind == "Pixtral" and isinstance(sides, dict) and set(sides) == {"height", "width"}:
            found["patch_size"] = sides["height"] if sides["height"] == sides["width"] else sides
        for name, form in (("crop_size", ""), ("pad_size", ""), ("max_image_size", "Sam")):
            if settings.get(name) is not None:
                found[name] = _size(settings[name], None, form)
        if kind == "PoolFormer" and found.get("do_resize", True) is True:  # the crop is so much of the whole
            if "shortest_edge" not in found["size"] or not _is_number(found["crop_pct"]) or found["crop_pct"] <= 0:
                _wrong("size and crop_pct", (found["size"], found["crop_pct"]), "a shortest_edge, and a number above 0")
            found["size"] = {"shortest_edge": int(found["size"]["shortest_edge"] / found["crop_pct"])}
        if kind == "Levit" and "shortest_edge" in found["size"]:
            found["size"] = {"shortest_edge": int(found["size"]["shortest_edge"] * 256 / 224)}
        if kind == "VJEPA2":  # its size follows from that of the crop
            found["size"] = {"shortest_edge": int(found["crop_size"]["height"] * 256 / 224)}
        if settings.get("do_pan_and_scan") and kind != "Gemma3":
            _wrong("do_pan_and_scan", settings["do_pan_and_scan"], "false: only Gemma 3's pictures have crops")
        for name in ("image_mean", "image_std"):
            value = found[name]
            found[name] = (value,) * 3 if type(value) in (int, float) else tuple(value) if _is_list(value) else value
        made = cls(**found)
        made._check()
        return made

    def _check(self) -> None:
        for name, declared in self.__dataclass_fields__.items():
            value = getattr(self, name)
            if str(declared.type) == "bool" and type(value) is not bool:
                _wrong(name, value, "true or false")
            if str(declared.type) == "float" and not (_is_number(value) and value > 0):
                _wrong(name, value, "a number above 0")
        if type(self.resample) is not int or self.resample not in NUMBERED:
            _wrong("resample", self.resample, f"a filter's number, one of {', '.join(map(str, NUMBERED))}")
        both, multiple = ("patch_size", "merge_size"), ("ensure_multiple_of",)
        if type(self.size_divisor) is not int or not 0 <= self.size_divisor <= 256:
            _wrong("size_divisor", self.size_divisor, "a whole number from 0 to 256")
        if self.kind in ("Swin2SR", "GLPN") and not self.size_divisor:
            _wrong("size_divisor", self.size_divisor, "a whole number from 1 to 256")
        factors = {
            **dict.fromkeys((*OF_PIXELS, "Pixtral"), both),
            "Siglip2": ("patch_size",),
            "DPT": multiple,
            "ZoeDepth": multiple,
            "Yolo": multiple,
        }
        for name in factors.get(self.kind, ()):
            number = getattr(self, name)
            if type(number) is not int or not 1 <= number <= 256:
                _wrong(name, number, "a whole number from 1 to 256")
        if self.kind in TILED:
            self._check_pinpoints()
        if type(self.max_num_patches) is not int or not 1 <= self.max_num_patches <= 1 << 14:
            _wrong("max_num_patches", self.max_num_patches, "a whole number from 1 to 16,384")
        if self.kind in SQUARES and not (self.do_resize and len({*self.size.values()}) == 1):
            _wrong("do_resize and size", (self.do_resize, self.size), "true and a square")
        if type(self.min_size) is not int or not 1 <= self.min_size <= LARGEST:
            _wrong("min_size", self.min_size, f"a whole number from 1 to {LARGEST:,}")
        if self.kind == "Janus" and (len({*self.size.values()}) != 1 or self.min_size > self.size["height"]):
            _wrong("size and min_size", (self.size, self.min_size), "a square, and a side up to its own")
        if type(self.max_image_tiles) is not int or not 1 <= self.max_image_tiles <= 64:
            _wrong("max_image_tiles", self.max_image_tiles, "a whole number from 1 to 64")
        if self.crop_to_patches or self.kind == "Llama4":
            least, most = self.min_patches, self.max_patches
            if type(least) is not int or type(most) is not int or not 1 <= least <= most <= 1 << 10:
                _wrong("min_patches and max_patches", (least, most), "whole numbers from 1 to 1,024")
        if self.kind == "DPT" and (self.do_pad or self.do_center_crop):
            _wrong("do_pad or do_center_crop", True, "false: pictures for DPT are only resized")
        crops = (("pan_and_scan_min_crop_size", LARGEST), ("pan_and_scan_max_num_crops", TILES))
        for name, most in crops if self.do_pan_and_scan else ():
            number = getattr(self, name)
            if type(number) is not int or not 1 <= number <= most:
                _wrong(name, number, f"a whole number from 1 to {most:,}")
        side = (self.max_image_size or {}).get("longest_edge", LARGEST)
        if self.kind != "Lfm2Vl" and self.do_image_splitting and min(self.size["longest_edge"], MOST) > TILES * side:
            _wrong("max_image_size", side, f"at least 1 / {TILES} of the size")
        for name in ("image_mean", "image_std"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or len(value) != 3 or not all(map(_is_number, value)):
                _wrong(name, value, "three numbers")
        if not all(self.image_std):
            _wrong("image_std", self.image_std, "numbers other than 0")
        if self.kind == "Lfm2Vl":
            self._check_tiles()

    def _check_tiles(self) -> None:
        for name, most in (
            ("tile_size", LARGEST), ("min_tiles", 1 << 10), ("max_tiles", 1 << 10), ("min_image_tokens", 1 << 14),
            ("max_image_tokens", 1 << 14), ("encoder_patch_size", 256), ("downsample_factor", 16),
        ):  # fmt: skip
            number = getattr(self, name)
            if type(number) is not int or not 1 <= number <= most:
                _wrong(name, number, f"a whole number from 1 to {most:,}")
        side = self.encoder_patch_size * self.downsample_factor
        if self.tile_size % side:
            _wrong("tile_size", self.tile_size, f"a multiple of {side} pixels")
        if self.min_tiles > self.max_tiles or self.min_image_tokens > self.max_image_tokens:
            _wrong("min_tiles and min_image_tokens", (self.min_tiles, self.min_image_tokens), "less than the most")

    def _check_pinpoints(self) -> None:
        found, side = self.image_grid_pinpoints, self._tile
        plausible = _is_list(found) and 1 <= len(found) <= 256 and all(_is_list(one) and len(one) == 2 for one in found)
        if not plausible or not all(
            type(n) is int and 1 <= n // side <= TILES and n % side == 0 for one in found for n in one
        ):
            _wrong("image_grid_pinpoints", found, f"sizes in multiples of {side} pixels, up to {TILES}")
        if self.do_center_crop and self.crop_size["height"] != self.crop_size["width"]:
            _wrong("crop_size", self.crop_size, "a square")

    @property
    def _tile(self) -> int:
        """The pixels of a side of LLaVA-NeXT's tiles."""
        return self.crop_size["height"] if self.do_center_crop else [*self.size.values()][0]

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """(height, width) of every picture that it makes; None if that depends on the picture."""
        if self.max_image_size is not None:
            return (self.max_image_size["longest_edge"],) * 2
        if self.kind == "ConvNext" and self.do_resize:
            return (self.size["shortest_edge"],) * 2 if "shortest_edge" in self.size else None
        if self.kind in ("Pixtral", "Siglip2", "Lfm2Vl", "GLPN"):
            return None
        if self.kind in MASKED and self.do_resize:
            return self._target(1, 1) if "height" in self.size else None
        if self.kind in ("DPT", "ZoeDepth") and self.do_resize:
            return None if self.keep_aspect_ratio else self._target(1, 1)
        exact = self.crop_size if self.do_center_crop else self.size if self.do_resize else {}
        if self.do_pad and self.pad_size is not None:
            exact = self.pad_size
        return (exact["height"], exact["width"]) if {"height", "width"} <= set(exact) else None

    def __call__(self, images: Sequence[Tensor], device: Device | None = None) -> Prepared:
        """Pictures uint8 (H, W, 3) → the input of a model. ArgumentError for other tensors, and for pictures of several
        sizes if the processor pads none.
        """
        for image in images:
            if image.ndim != 3 or image.shape[2] != 3 or image.dtype.name != "uint8" or 0 in image.shape:
                raise ArgumentError(
                    f"a picture is uint8 (height, width, 3), not {image.dtype.name} {list(image.shape)}"
                )
        if not images:
            raise ArgumentError("there is no picture to prepare")
        found = [self._prepared(view) for image in images for view in self._views(image)]  # (3, h, w) each
        high, wide = (max(int(x.shape[i]) for x in found) for i in (1, 2))
        if self.do_pad and self.pad_size is not None:
            high, wide = self.pad_size["height"], self.pad_size["width"]
        same = all(tuple(x.shape[1:]) == (high, wide) for x in found)
        if not same and (not self.do_pad or self.kind == "Llava"):
            raise ArgumentError(
                f"the pictures have several sizes after their preparation, such as {list(found[0].shape[1:])}: "
                "give them one by one"
            )
        mask = None
        if not same:
            mask = cat([_padded(ops.ones(1, *x.shape[1:], dtype="int64"), high, wide) for x in found])  # (B, H, W)
            found = [_padded(x, high, wide) for x in found]
        values = ops.stack(found)  # (B, 3, H, W)
        if device is not None:
            values, mask = values.to(device), None if mask is None else mask.to(device)
        return Prepared(values, mask, tuple((int(x.shape[0]), int(x.shape[1])) for x in images))

    def by_size(self, image: Tensor) -> list[Tensor]:
        """The parts of a picture uint8 (H, W, 3) that a model sees, as its input (N, 3, h, w), those of one size
        together. ArgumentError as of a call.
        """
        if self.kind not in ("Lfm2Vl", "Idefics2") or 0 in image.shape:
            return [self([image]).pixel_values]
        views = [self._prepared(view) for view in self._views(image)]  # (3, h, w) each
        return [ops.stack(list(same)) for _, same in groupby(views, key=lambda view: tuple(view.shape))]

    def told(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture as it is given to a model: that of the whole before it, in LFM2-VL's."""
        return self.seen(height, width) if self.kind == "Lfm2Vl" else (height, width)

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of tiles, or of crops, that a picture is cut into; (0, 0): it stays whole. Of
        Qwen2-VL's and Pixtral's, the rows and columns of its vectors.
        """
        if self.do_pan_and_scan:
            return self._crops(height, width)
        if self.kind in (*OF_PIXELS, "Pixtral"):
            side, (high, wide) = self.patch_size * self.merge_size, self.seen(height, width)
            return high // side, wide // side
        if self.kind in TILED:
            high, wide = best_resolution((height, width), self.image_grid_pinpoints)
            return high // self._tile, wide // self._tile
        if self.kind == "Lfm2Vl":
            return self._tiles_of_large(height, width)
        if self.kind == "Idefics2":
            return (2, 2) if self.do_image_splitting and min(height, width) > 1 else (0, 0)
        if self.kind == "Llama4":
            both = least_canvas(height, width, self.size["height"], self.max_patches, self.resize_to_max_canvas)
            return both if both != ANY else (0, 0)
        if self.kind == "Mllama":
            return least_canvas(height, width, self.size["height"], self.max_image_tiles)
        if self.kind == "GotOcr2":
            sides = self.size["height"], self.size["width"]
            both = (
                _nearest_grid(height, width, sides, self.min_patches, self.max_patches) if self.crop_to_patches else ANY
            )
            return both if both != ANY else (0, 0)
        high, wide = self._in_tiles(height, width) if self.do_image_splitting else (0, 0)
        side = (self.max_image_size or {}).get("longest_edge", LARGEST)
        return (high // side, wide // side) if max(high, wide) > side else (0, 0)

    def _crops(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of a long picture's crops; one of them is 1."""
        long, short, least = max(height, width), min(height, width), self.pan_and_scan_min_crop_size
        if long / short < self.pan_and_scan_min_ratio_to_activate:
            return 0, 0
        count = min(max(2, min(long // least, floor(long / short + 0.5))), self.pan_and_scan_max_num_crops)
        size = ceil(long / count)
        if min(size, short) < least:
            return 0, 0
        count = ceil(long / size)
        return (1, count) if width >= height else (count, 1)

    def _tiles_of_large(self, height: int, width: int) -> tuple[int, int]:
        """LFM2-VL: the rows and columns of tiles of a picture that is too large for one."""
        side, patch = self.encoder_patch_size * self.downsample_factor, self.encoder_patch_size
        high, wide = (max(patch, round(n / side) * side) for n in (height, width))
        large = high * wide > self.max_image_tokens * side**2 * self.max_pixels_tolerance
        if not (self.do_image_splitting and large) or self.max_tiles == 1:
            return 0, 0
        tile = self.tile_size, self.tile_size
        both = _nearest_grid(height, width, tile, self.min_tiles, self.max_tiles)
        return both if both != ANY else (0, 0)

    def _in_tiles(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture before it is cut: multiples of a tile's."""
        assert self.max_image_size is not None
        side, (high, wide) = self.max_image_size["longest_edge"], self.seen(height, width)
        ratio = wide / high
        if wide >= high:
            wide = ceil(wide / side) * side
            return ceil(int(wide / ratio) / side) * side, wide
        high = ceil(high / side) * side
        return high, ceil(int(high * ratio) / side) * side

    def _views(self, image: Tensor) -> list[Tensor]:
        """The parts of a picture (H, W, 3) uint8 that a model sees: its tiles, and the whole; or the whole, and its
        crops.
        """
        if self.do_pan_and_scan:
            height, width = int(image.shape[0]), int(image.shape[1])
            rows, columns = self._crops(height, width)
            high, wide = (ceil(height / rows), ceil(width / columns)) if rows else (0, 0)
            places = [(row * high, column * wide) for row in range(rows) for column in range(columns)]
            return [image, *(image[top : top + high, left : left + wide] for top, left in places)]
        if self.kind in TILED:
            return self._whole_and_tiles(image)
        if self.kind in SQUARES:
            return self._tiles_and_whole(image)
        if self.kind == "Idefics2":
            high, wide = (int(side) // 2 for side in image.shape[:2])
            parts = [part for half in (image[:high], image[high:]) for part in (half[:, :wide], half[:, wide:])]
            return [*(parts if self.tiles(2 * high, 2 * wide)[0] else []), image]
        if self.kind == "Lfm2Vl":
            height, width, method = int(image.shape[0]), int(image.shape[1]), NUMBERED[self.resample]
            (rows, columns), side = self.tiles(height, width), self.tile_size
            larger = resize(image, rows * side, columns * side, method) if rows else image
            whole = [resize(image, *self.seen(height, width), method)] if self.use_thumbnail or not rows else []
            return [*_cut(larger, rows, columns, side, side), *whole]
        if self.kind == "GotOcr2":
            rows, columns = self.tiles(int(image.shape[0]), int(image.shape[1]))
            high, wide = self.size["height"], self.size["width"]
            larger = resize(image, rows * high, columns * wide, NUMBERED[self.resample]) if rows else image
            return [*_cut(larger, rows, columns, high, wide), image]
        if self.max_image_size is None:
            return [image]
        side, method = self.max_image_size["longest_edge"], NUMBERED[self.resample]
        height, width = int(image.shape[0]), int(image.shape[1])
        image = resize(image, *self.seen(height, width), method)
        found = []
        if self.do_image_splitting:
            image = resize(image, *self._in_tiles(height, width), method)
            rows, columns = self.tiles(height, width)
            found = _cut(image, rows, columns, side, side)
        return [*found, resize(image, side, side, method)]

    def _whole_and_tiles(self, image: Tensor) -> list[Tensor]:
        """LLaVA-NeXT: the whole as a square, and the tiles of what fits into the best of several sizes, on black."""
        side, method = self._tile, NUMBERED[self.resample]
        height, width = int(image.shape[0]), int(image.shape[1])
        high, wide = best_resolution((height, width), self.image_grid_pinpoints)
        by_height, by_width = high / height, wide / width
        inner = min(ceil(height * by_width), high), wide
        if by_width >= by_height:
            inner = high, min(ceil(width * by_height), wide)
        frame = ops.zeros(high, wide, 3, dtype="uint8", device=image.device)
        top, left = (high - inner[0]) // 2, (wide - inner[1]) // 2
        frame[top : top + inner[0], left : left + inner[1]] = resize(image, *inner, method)
        whole = [*self.size.values()] * 2
        return [resize(image, whole[0], whole[1], method), *_cut(frame, high // side, wide // side, side, side)]

    def _tiles_and_whole(self, image: Tensor) -> list[Tensor]:
        """The tiles of a picture, which is made larger up to a tile's side only, on black; and after several ones of
        Llama 4's the whole.
        """
        side, method = self.size["height"], NUMBERED[self.resample]
        height, width = int(image.shape[0]), int(image.shape[1])
        rows, columns = self.tiles(height, width)
        high, wide = side * max(rows, 1), side * max(columns, 1)
        most = high, wide
        if not self.resize_to_max_canvas:
            most = min(max(height, side), high), min(max(width, side), wide)
        by_height, by_width = most[0] / height, most[1] / width
        inner = most[0], min(floor(width * by_height), most[1])
        if by_width < by_height:
            inner = min(floor(height * by_width), most[0]), most[1]
        inner = max(inner[0], 1), max(inner[1], 1)
        frame = ops.zeros(high, wide, 3, dtype="uint8", device=image.device)
        frame[: inner[0], : inner[1]] = resize(image, *inner, method)
        if self.kind == "Mllama" or not rows:
            return _cut(frame, max(rows, 1), max(columns, 1), side, side)
        return [*_cut(frame, rows, columns, side, side), resize(image, side, side, method)]

    def _prepared(self, image: Tensor) -> Tensor:
        """(H, W, 3) uint8 → (3, h, w) float32."""
        method = NUMBERED[self.resample]
        if self.kind == "Llava" and self.do_pad:
            image = _as_square(image, [int(min(max(value, 0), 1) * 255) for value in self.image_mean])
        if self.max_image_size is not None or self.kind == "Lfm2Vl":
            pass  # _views has resized it
        elif self.kind == "Yolo":
            image = self._framed(image)
        elif self.kind in DOCUMENTS:
            image = self._as_document(image, method)
        elif self.do_resize and self.kind not in ("Owlv2", "DepthPro", "ZoeDepth"):
            high, wide = self._target(int(image.shape[0]), int(image.shape[1]))
            image = resize(image, high, wide, method)
            if self.kind == "Janus" and self.do_pad:
                image = _as_square(image, [int(min(max(value, 0), 1) * 255) for value in self.image_mean])
            if self.kind == "ConvNext" and self.size["shortest_edge"] < 384:
                image = _cropped(image, *(self.size["shortest_edge"],) * 2)
        if self.do_center_crop:
            sides = self.crop_size["height"], self.crop_size["width"]
            image = _cropped(image, *sides, to_even=self.kind == "TimmWrapper")
        x = image.permute(2, 0, 1).to("float32")  # (3, h, w)
        if self.do_rescale:
            x = x * self.rescale_factor
            if self.rescale_offset:
                x = x - 1
        if self.do_flip_channel_order:
            x = x.flip(0)
        if self.do_grayscale if self.do_grayscale is not None else self.kind in POINTS[1:]:
            x = _grey(x)
        if self.kind == "Owlv2" and self.do_resize:
            side = max(x.shape[1:]) if self.do_pad else None
            x = smoothly_resized(x, self.size["height"], self.size["width"], side)
        if self.kind == "ZoeDepth":
            x = self._with_margins(x)
        mean, std = (
            ops.tensor([*map(float, values)], dtype="float32").reshape(3, 1, 1)
            for values in (self.image_mean, self.image_std)
        )
        if self.kind == "Llama4" and self.do_rescale and self.do_normalize:
            x = _short(_short(_short(x) - _short(mean)) / _short(std))
        elif self.do_normalize:
            x = (x - mean) / std
        if self.kind == "DepthPro" and self.do_resize:  # between the nearest pixels, however much smaller it becomes
            size = self.size["height"], self.size["width"]
            x = ops.interpolate(x.unsqueeze(0), size=size, mode="bilinear", align_corners=False)[0]
        if self.kind == "Swin2SR" and self.do_pad:
            x = _mirrored(x, self.size_divisor)
        return x / std if self.include_top else x.contiguous()

    def margins(self, height: int, width: int) -> tuple[int, int]:
        """ZoeDepth: the rows above and below a picture, and the columns beside it, that are its reflection; else 0."""
        if self.kind != "ZoeDepth" or not self.do_pad:
            return 0, 0
        return int(sqrt(height / 2) * 3), int(sqrt(width / 2) * 3)

    def _with_margins(self, x: Tensor) -> Tensor:
        """A picture (3, H, W) with its margins → (3, h, w)."""
        high, wide = self.margins(int(x.shape[1]), int(x.shape[2]))
        if high >= x.shape[1] or wide >= x.shape[2]:
            raise ArgumentError(f"a picture of {x.shape[1]} x {x.shape[2]} pixels is too small to have margins")
        x = ops.pad(x.unsqueeze(0), (wide, wide, high, high), "reflect")
        if self.do_resize:
            size = self._target(int(x.shape[2]), int(x.shape[3]))
            x = ops.interpolate(x, size=size, mode="bilinear", align_corners=True)
        return x[0]

    def seen(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture (height, width) in the model's input, before it is cropped or padded."""
        return self._target(height, width) if self.do_resize else (height, width)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        """The size to resize a picture to."""
        size, short, long = self.size, self.size.get("shortest_edge"), self.size.get("longest_edge")
        if self.kind == "ConvNext":
            side = size["shortest_edge"]
            return _shortest(height, width, int(side / self.crop_pct)) if side < 384 else (side, side)
        if self.max_image_size is not None:
            return _longest(height, width, size["longest_edge"])
        if self.kind in OF_PIXELS:
            side = self.patch_size * self.merge_size
            least, most = float(size["shortest_edge"]), float(long or 1)
            if self.kind == "PaddleOCRVL":
                height, width = _at_least(height, width, side)
            if self.kind == "Glm4v":  # each picture counts as the two frames of a patch
                least, most = least / 2, most / 2
                if min(height, width) < side:
                    scale = max(side / height, side / width)
                    height, width = int(height * scale), int(width * scale)
            return _of_pixels(height, width, side, least, most)
        if self.kind == "Idefics2":
            high, wide = height, width
            if max(height, width) > (long or 1):
                high, wide = long or 1, int((long or 1) * (width / height))
                if width >= height:
                    high, wide = int((long or 1) / (width / height)), long or 1
            return _plausible(max(high, short or 1), max(wide, short or 1))
        if self.kind == "Janus":  # the longer side
            scale = size["height"] / max(height, width)
            return max(round(height * scale), self.min_size), max(round(width * scale), self.min_size)
        if self.kind == "Lfm2Vl":
            side = self.encoder_patch_size * self.downsample_factor
            return _of_tokens(height, width, side, self.min_image_tokens, self.max_image_tokens)
        if self.kind == "Siglip2":
            return _of_patches(height, width, self.patch_size, self.max_num_patches)
        if self.kind == "Pixtral":
            return _in_multiples(height, width, size, self.patch_size * self.merge_size)
        if self.kind in ("DPT", "ZoeDepth"):
            wanted = size["height"], size["width"]
            return _near(height, width, wanted, self.keep_aspect_ratio, self.ensure_multiple_of)
        if self.kind == "Vilt":
            return _of_pair(height, width, short or 1, self.size_divisor or 1)
        if self.kind in MASKED and self.size_divisor:
            own = size.get("height", 0), size.get("width", 0)
            found = own if all(own) else _between(height, width, short or 1, long or 1)
            high, wide = (side + -side % self.size_divisor for side in found)
            return _plausible(high, wide)
        if self.kind == "GLPN":
            high, wide = (side - side % self.size_divisor for side in (height, width))
            return _plausible(max(high, self.size_divisor), max(wide, self.size_divisor))
        if self.kind == "Yolo":
            scale = size["longest_edge"] / max(height, width)
            return _plausible(max(1, round(height * scale)), max(1, round(width * scale)))
        if self.kind == "Sam":
            scale = size["longest_edge"] / max(height, width)
            return max(1, int(height * scale + 0.5)), max(1, int(width * scale + 0.5))
        if short is not None and long is not None:
            found = _between(height, width, short, long)
            return (found[0] - found[0] % 16 or 16, found[1] - found[1] % 16 or 16) if self.kind == "Yolos" else found
        if short is not None:
            return _shortest(height, width, short)
        if "max_height" in size:
            scale = min(size["max_height"] / height, size["max_width"] / width)
            return max(1, int(height * scale)), max(1, int(width * scale))
        return size["height"], size["width"]

    def _framed(self, image: Tensor) -> Tensor:
        """YOLO: resized, in the middle of a grey frame whose sides are multiples. Values are interpolated between the
        nearest four, however much smaller the picture becomes.
        """
        high, wide = self._target(int(image.shape[0]), int(image.shape[1]))
        if (high, wide) != tuple(image.shape[:2]):
            x = image.permute(2, 0, 1).unsqueeze(0).to("float32")  # (1, 3, h, w)
            x = ops.interpolate(x, size=(high, wide), mode="bilinear", align_corners=False)
            image = ops.floor(x + 0.5).to("uint8")[0].permute(1, 2, 0)
        top, left, rows, columns = self._frame(high, wide)
        frame = ops.tensor([GREY], dtype="uint8").to(image.device).expand(rows, columns, 3).contiguous()
        frame[top : top + high, left : left + wide] = image
        return frame

    def _frame(self, high: int, wide: int) -> tuple[int, int, int, int]:
        """YOLO: where a resized picture lies in its frame (top, left), and the frame's size (height, width)."""
        rows, columns = (ceil(side / self.ensure_multiple_of) * self.ensure_multiple_of for side in (high, wide))
        return round((rows - high) / 2 - 0.1), round((columns - wide) / 2 - 0.1), rows, columns

    def area(self, height: int, width: int) -> tuple[float, float, float, float] | None:
        """The place of a picture in its frame: left, top, width and height as parts of the frame's sides. None if the
        model's input has no frame.
        """
        if self.kind == "Owlv2" and self.do_pad:
            return 0.0, 0.0, width / max(height, width), height / max(height, width)
        if self.kind != "Yolo":
            return None
        top, left, rows, columns = self._frame(*self._target(height, width))
        scale = self.size["longest_edge"] / max(height, width)
        return left / columns, top / rows, width * scale / columns, height * scale / rows

    def _as_document(self, image: Tensor, method: str) -> Tensor:
        """Donut and Nougat: turned if asked for, resized, made to fit into the page, and in the middle of it."""
        high, wide = self.size["height"], self.size["width"]
        if self.do_crop_margin:
            image = _without_margin(image)
        height, width = int(image.shape[0]), int(image.shape[1])
        if self.do_align_long_axis and (width - height) * (wide - high) < 0:
            image = image.transpose(0, 1).flip(1)  # a quarter turn to the right
        if self.do_resize:
            image = resize(image, *_shortest(int(image.shape[0]), int(image.shape[1]), min(high, wide)), method)
        if self.do_thumbnail:
            height, width = int(image.shape[0]), int(image.shape[1])
            to_height, to_width = min(height, high), min(width, wide)
            if (to_height, to_width) != (height, width):
                if height > width:
                    to_width = max(1, int(width * to_height / height))
                elif width > height:
                    to_height = max(1, int(height * to_width / width))
                image = resize(image, to_height, to_width, "bicubic" if self.kind == "Nougat" else method)
        if self.do_pad:
            top, left = (high - int(image.shape[0])) // 2, (wide - int(image.shape[1])) // 2
            if min(top, left) < 0:
                raise ArgumentError(
                    f"a picture of {list(image.shape[:2])} does not fit into the page of {high} x {wide}"
                )
            page = ops.zeros(high, wide, 3, dtype="uint8", device=image.device)
            page[top : top + image.shape[0], left : left + image.shape[1]] = image
            image = page
        return image


def _wrong(name: str, value: Any, expected: str) -> None:
    raise ModelError(f"{name} is {value!r:.60}, expected {expected}", where="preprocessor_config.json", hint=HINT)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= float_info.max


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _kind(settings: Mapping[str, Any], usual: str | None) -> str:
    """The processor's name in DEFAULTS."""
    names = ("image_processor_type", "feature_extractor_type", "video_processor_type")
    named = next((settings[name] for name in names if settings.get(name)), None)
    if named is None:
        if usual is not None:
            return usual
        raise ModelError("it does not say the image_processor_type", where="preprocessor_config.json", hint=HINT)
    short = str(named).removesuffix("Fast").removesuffix("Pil")
    for end in ("ImageProcessor", "FeatureExtractor", "VideoProcessor"):
        short = short.removesuffix(end)
    short = ALIASES.get(short, short)
    if short not in DEFAULTS:
        raise ModelError(
            f"the image processor {named!s:.60} is not known", where="preprocessor_config.json",
            hint=f"Known: {', '.join(f'{name}ImageProcessor' for name in DEFAULTS)}",
        )  # fmt: skip
    return short


def _mirrored(x: Tensor, divisor: int) -> Tensor:
    """A picture (3, H, W) whose sides become the next larger multiples of `divisor` → (3, h, w): after its last pixels
    is its reflection, which begins with them.
    """
    for dim in (1, 2):
        side = int(x.shape[dim])
        there_and_back = [*range(side), *reversed(range(side))]
        places = [there_and_back[i % (2 * side)] for i in range((side // divisor + 1) * divisor)]
        x = x.index_select(dim, ops.tensor(places, dtype="int64", device=x.device))
    return x


def _size(given: Any, longest: Any, kind: str) -> Mapping[str, int] | None:
    """A size as a mapping; older files have one number, or two."""
    if given is None:
        return None
    if type(given) is int:
        found: Any = {"height": given, "width": given}
        if kind in KEEP_SHAPE:
            found = {"shortest_edge": given} | ({} if longest is None else {"longest_edge": longest})
    elif _is_list(given) and len(given) == 2:
        found = dict(zip(("width", "height") if kind in DOCUMENTS else ("height", "width"), given, strict=True))
    elif isinstance(given, dict):
        found = {name: value for name, value in given.items() if value is not None}
        both = DEFAULTS.get(kind, {}).get("size") == LONG or kind == "RTDetr"
        if both and set(found) == {"shortest_edge"} and longest is not None:
            found["longest_edge"] = longest
    else:
        found = None
    wanted = {
        **dict.fromkeys(("ConvNext", "Vilt"), [{"shortest_edge"}]),
        **dict.fromkeys((*DOCUMENTS, "DPT", "Janus"), [{"height", "width"}]),
        **dict.fromkeys(("Sam", "Yolo", "Idefics3", "SmolVLM"), [{"longest_edge"}]),
        **dict.fromkeys(TILED, [{"shortest_edge"}, {"height", "width"}]), "GotOcr2": [{"height", "width"}],
        **dict.fromkeys(OF_PIXELS, [{"shortest_edge", "longest_edge"}]),
        "Pixtral": [{"longest_edge"}, {"height", "width"}], "Idefics2": [{"shortest_edge", "longest_edge"}],
        "": [{"height", "width"}],
    }.get(
        kind,
        [{"height", "width"}, {"shortest_edge"}, {"shortest_edge", "longest_edge"}, {"max_height", "max_width"}],
    )  # fmt: skip
    most = PIXELS if kind in OF_PIXELS else LARGEST
    plausible = found is not None and all(type(n) is int and 1 <= n <= most for n in found.values())
    if not plausible or set(found) not in wanted:
        _wrong("size", given, f"{' or '.join(' and '.join(sorted(names)) for names in wanted)}, from 1 to {most:,}")
    return dict(found)


def _of_pair(height: int, width: int, side: int, multiple: int) -> tuple[int, int]:
    """ViLT: the size of a picture whose shorter side is `side` and whose longer one has at most five thirds of it,
    rounded down to multiples.
    """
    longest, scale = int(LONG["longest_edge"] / LONG["shortest_edge"] * side), side / min(height, width)
    high, wide = (float(side), width * scale) if height < width else (height * scale, float(side))
    if max(high, wide) > longest:
        smaller = longest / max(high, wide)
        high, wide = high * smaller, wide * smaller
    high, wide = (max(int(part + 0.5) // multiple * multiple, multiple) for part in (high, wide))
    return _plausible(int(high), int(wide))


def _shortest(height: int, width: int, side: int) -> tuple[int, int]:
    """The size of a picture whose shorter side is `side`."""
    if width <= height:
        return _plausible(int(side * height / width), side)
    return _plausible(side, int(side * width / height))


def _longest(height: int, width: int, side: int) -> tuple[int, int]:
    """The size of a picture whose longer side is `side`, and at most MOST; of the shorter one an even number."""
    ratio = width / height
    short = int(side / ratio) if width >= height else int(side * ratio)
    short = max(1, short + short % 2)
    high, wide = (short, side) if width >= height else (side, short)
    ratio = wide / high
    if wide >= high and wide > MOST:
        return max(1, int(MOST / ratio)), MOST
    return (MOST, max(1, int(MOST * ratio))) if high > MOST else (high, wide)


def _of_patches(height: int, width: int, side: int, most: int) -> tuple[int, int]:
    """The size of a picture of at most so many patches that keeps its shape as far as whole patches allow (Dehghani et
    al. 2023, arXiv 2307.06304). The scale is found by halving, with transformers' bounds.
    """

    def at(scale: float) -> tuple[int, int]:
        return ceil(height * scale / side) or 1, ceil(width * scale / side) or 1

    low, high = 1e-6, 100.0
    while high - low >= 1e-5:
        scale = (low + high) / 2
        rows, columns = at(scale)
        low, high = (scale, high) if rows * columns <= most else (low, scale)
    rows, columns = at(low)
    if rows * columns > most:
        raise ArgumentError(f"a picture of {height:,} x {width:,} pixels is too narrow for {most:,} patches")
    return rows * side, columns * side


def _at_least(height: int, width: int, side: int) -> tuple[int, int]:
    """The size of a picture that is made larger until no side is smaller than `side`."""
    if height < side:
        height, width = side, round(width * side / height)
    return (round(height * side / width), side) if width < side else (height, width)


def _of_pixels(height: int, width: int, factor: int, least: float, most: float) -> tuple[int, int]:
    """The size of a picture whose sides are multiples of `factor`, with a number of pixels from `least` to `most`."""
    if max(height, width) > 200 * min(height, width):
        raise ArgumentError(
            f"a picture of {height:,} x {width:,} pixels is too narrow: a side is over 200 times the other"
        )
    high, wide = (round(side / factor) * factor for side in (height, width))
    if high * wide > most:
        scale = sqrt(height * width / most)
        return max(factor, floor(height / scale / factor) * factor), max(factor, floor(width / scale / factor) * factor)
    if high * wide < least:
        scale = sqrt(least / (height * width))
        return ceil(height * scale / factor) * factor, ceil(width * scale / factor) * factor
    return high, wide


def _of_tokens(height: int, width: int, side: int, least: int, most: int) -> tuple[int, int]:
    """The size of a picture of `least` to `most` squares of a side."""
    high, wide = (max(side, round(n / side) * side) for n in (height, width))
    if high * wide > most * side**2:
        scale = sqrt(height * width / (most * side**2))
        high, wide = (max(side, floor(n / scale / side) * side) for n in (height, width))
    elif high * wide < least * side**2:
        scale = sqrt(least * side**2 / (height * width))
        high, wide = (ceil(n * scale / side) * side for n in (height, width))
    return _plausible(high, wide)


def best_resolution(size: tuple[int, int], sizes: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Which of several sizes (height, width) shows the most of a picture, and of those that show the same has the least
    around it (Liu et al. 2024, LLaVA-NeXT).
    """
    (height, width), found, best = size, (sizes[0][0], sizes[0][1]), (0, 0)
    for high, wide in sizes:
        scale = min(wide / width, high / height)
        shown = min(int(width * scale) * int(height * scale), width * height)
        if (shown, shown - high * wide) > best or best == (0, 0):
            found, best = (high, wide), (shown, shown - high * wide)
    return found


def _nearest_grid(height: int, width: int, tile: tuple[int, int], least: int, most: int) -> tuple[int, int]:
    """The rows and columns, of `least` to `most` tiles, whose shape is nearest to that of a picture; of equally near
    ones the larger, while it has less than twice the picture's pixels (Chen et al. 2024, arXiv 2404.16821).
    """
    found, best = (1, 1), float("inf")
    grids = [(rows, columns) for columns in range(1, most + 1) for rows in range(1, most // columns + 1)]
    for rows, columns in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        if rows * columns < least:
            continue
        far = abs(width / height - columns / rows)
        if far < best:
            best, found = far, (rows, columns)
        elif far == best and width * height > 0.5 * tile[0] * tile[1] * rows * columns:
            found = rows, columns
    return found


def least_canvas(height: int, width: int, side: int, most: int, largest: bool = False) -> tuple[int, int]:
    """The rows and columns, of at most so many tiles, of the canvas that makes a picture larger the least, or smaller
    the least where none does not; of equal ones that of the fewest tiles. largest: that makes it the largest.
    """
    grids: dict[float, list[tuple[int, int]]] = {}  # by their shape, in the order of which the first counts
    for count in range(most, 0, -1):
        for rows in (rows for rows in range(1, count + 1) if count % rows == 0):
            grids.setdefault(rows / (count // rows), []).append((rows, count // rows))
    scales = {grid: min(grid[0] * side / height, grid[1] * side / width) for same in grids.values() for grid in same}
    larger = [scale for scale in scales.values() if scale >= 1]
    best = (max if largest else min)(larger) if larger else max(scales.values())
    return min((grid for grid, scale in scales.items() if scale == best), key=lambda grid: grid[0] * grid[1])


def _short(x: Tensor) -> Tensor:
    """The numbers rounded to 16 bits, bfloat16, with which Llama 4 was trained."""
    return x.to("bfloat16").to("float32")


def _cut(image: Tensor, rows: int, columns: int, high: int, wide: int) -> list[Tensor]:
    """The tiles (high, wide, 3) of a picture, row by row."""
    return [
        image[row * high : (row + 1) * high, column * wide : (column + 1) * wide]
        for row in range(rows) for column in range(columns)
    ]  # fmt: skip


def _in_multiples(height: int, width: int, most: Mapping[str, int], factor: int) -> tuple[int, int]:
    """The size of a picture that is made smaller to fit into `most`, with sides of the next multiples of `factor`."""
    limits = [most.get(name, most.get("longest_edge", LARGEST)) for name in ("height", "width")]
    ratio = max(height / limits[0], width / limits[1])
    high, wide = (floor(height / ratio), floor(width / ratio)) if ratio > 1 else (height, width)
    if min(high, wide) < 1:
        raise ArgumentError(f"a picture of {height:,} x {width:,} pixels is too narrow")
    return ceil(high / factor) * factor, ceil(wide / factor) * factor


def _near(height: int, width: int, wanted: tuple[int, int], scaled: bool, multiple: int) -> tuple[int, int]:
    """The `wanted` size of a picture, each side rounded to a multiple; `scaled`: both sides are scaled alike, by the
    factor that is nearer to 1.
    """
    by_height, by_width = wanted[0] / height, wanted[1] / width
    if scaled:
        by_height = by_width = min(by_height, by_width, key=lambda scale: abs(1 - scale))
    high, wide = (round(side / multiple) * multiple for side in (by_height * height, by_width * width))
    return _plausible(max(multiple, high), max(multiple, wide))


def _between(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """The size of a picture whose shorter side is `shortest`, but whose longer one is at most `longest`."""
    exact, low, high = float(shortest), min(height, width), max(height, width)
    if high / low * shortest > longest:
        exact = longest * low / high
        shortest = max(1, round(exact))
    if (height <= width and height == shortest) or (width <= height and width == shortest):
        return height, width
    if width < height:
        return _plausible(max(1, int(exact * height / width)), shortest)
    return _plausible(shortest, max(1, int(exact * width / height)))


def _plausible(height: int, width: int) -> tuple[int, int]:
    if max(height, width) > LARGEST * 8:
        raise ArgumentError(f"the picture is too narrow: it would become {height:,} x {width:,} pixels")
    return height, width


def _grey(x: Tensor) -> Tensor:
    """Red, green and blue (3, H, W) → their grey in all three."""
    weights = ops.tensor([0.2989, 0.587, 0.114], device=x.device).reshape(3, 1, 1)
    return (x * weights).sum(0, keepdim=True).expand(*x.shape)


def _cropped(image: Tensor, height: int, width: int, to_even: bool = False) -> Tensor:
    """The middle (height, width) of (H, W, 3), black outside of it. to_even: halves of a pixel are rounded as
    torchvision does, not down.
    """
    high, wide = int(image.shape[0]), int(image.shape[1])
    if high < height or wide < width:
        larger = ops.zeros(max(height, high), max(width, wide), 3, dtype="uint8", device=image.device)
        top, left = ceil((larger.shape[0] - high) / 2), ceil((larger.shape[1] - wide) / 2)
        larger[top : top + high, left : left + wide] = image
        # Both offsets of transformers: that of the crop in the picture, and that of the picture in its frame.
        top, left = top + (high - height) // 2, left + (wide - width) // 2
        image = larger
    elif to_even:
        top, left = round((high - height) / 2), round((wide - width) / 2)
    else:
        top, left = (high - height) // 2, (wide - width) // 2
    top, left = max(0, top), max(0, left)
    return image[top : top + height, left : left + width]


def _as_square(image: Tensor, colour: list[int]) -> Tensor:
    """(H, W, 3) → (S, S, 3): the picture in the middle of a colour, S is its longer side."""
    high, wide = int(image.shape[0]), int(image.shape[1])
    side = max(high, wide)
    if side > LARGEST and side > 8 * min(high, wide):
        raise ArgumentError(f"a picture of {high:,} x {wide:,} pixels is too narrow to lie on a square")
    frame = ops.tensor(colour, dtype="uint8").to(image.device).expand(side, side, 3).contiguous()
    top, left = (side - high) // 2, (side - wide) // 2
    frame[top : top + high, left : left + wide] = image
    return frame


def _padded(x: Tensor, height: int, width: int) -> Tensor:
    """(C, h, w) → (C, height, width), with zeros below and to the right."""
    if x.shape[1] > height or x.shape[2] > width:
        raise ArgumentError(f"a picture of {list(x.shape[1:])} does not fit into {height} x {width}")
    frame = ops.zeros(x.shape[0], height, width, dtype=x.dtype)
    frame[:, : x.shape[1], : x.shape[2]] = x
    return frame


def _without_margin(image: Tensor) -> Tensor:
    """A picture (H, W, 3) uint8 without the rows and columns around it that are nearly as light as its lightest."""
    grey = grey_levels(image).cpu().numpy()[:, :, 0].astype("float32")  # (H, W)
    least, most = float(grey.min()), float(grey.max())
    if least == most:
        return image
    dark = (grey - least) / (most - least) * 255 < INK
    rows, columns = np.flatnonzero(dark.any(1)), np.flatnonzero(dark.any(0))
    return image[int(rows[0]) : int(rows[-1]) + 1, int(columns[0]) : int(columns[-1]) + 1]
