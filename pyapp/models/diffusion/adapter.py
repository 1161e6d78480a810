"""IP-Adapter (Ye et al. 2023, arXiv 2308.06721): pictures as prompts. CLIP sees a picture, a projection makes tokens of
it, and each attention of the U-Net to the text attends to these tokens too, by matrices of its own.

Parameters have the names of the authors' files, of the plain form and of "plus", whose projection asks all patches
(Jaegle et al. 2021, arXiv 2103.03206).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import Checkpoint
from pyapp.nn import LayerNorm, Linear, Module, ModuleDict, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.parameter import new_parameter, skip_initialization
from pyapp.nn.vision.towers import ClipTower
from pyapp.vision.processors import ImageProcessor

from ..loading.config import require
from ..loading.towers_config import ClipVisionConfig
from .unet import TextAttention, TransformerBlock, UNet

TOKENS = 4  # of a picture, in the plain form
HEAD = 64  # columns of a head of "plus"
MOST = 1 << 16
HINT = "Give an IP-Adapter of Stable Diffusion 1.5 or XL, plain or plus, as safetensors"
KEYS = re.compile(r"ip_adapter\.(\d{1,4})\.to_[kv]_ip\.weight")


class PictureEncoder(Module):
    """CLIP's Vision Transformer and the projection into the common space."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__()
        self.config: ClipVisionConfig = ClipVisionConfig.from_dict(values)
        width = values.get("projection_dim", 512)
        require(type(width) is int and 1 <= width <= MOST, f"projection_dim is {width!r:.60}")
        self.vision_model = ClipTower(self.config)
        self.visual_projection = Linear(self.config.hidden_size, width, bias=False)

    @property
    def processor(self) -> ImageProcessor:
        """What prepares pictures."""
        high, wide = self.config.image_size
        size = {"crop_size": {"height": high, "width": wide}, "size": {"shortest_edge": min(high, wide)}}
        return ImageProcessor.from_settings({"image_processor_type": "CLIPImageProcessor", **size})

    def width_for(self, projection: ImageProjection | Resampler) -> int:
        """The numbers of what a projection reads."""
        found: int = self.visual_projection.out_features if projection.whole else self.config.hidden_size
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, width)."""
        return self.visual_projection(self.vision_model(pixel_values))

    def patches(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → the states (B, T, D) before the last layer."""
        return self.vision_model.states(pixel_values, self.config.num_hidden_layers - 1)


class ImageProjection(Module):
    """Tokens of a picture's vector."""

    whole = True  # what is read is the vector

    def __init__(self, seen: int, width: int) -> None:
        super().__init__()
        self.seen = seen
        self.proj, self.norm = Linear(seen, TOKENS * width), LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, seen) → (B, TOKENS, width)."""
        return self.norm(self.proj(x).reshape(x.shape[0], TOKENS, -1))


class ResamplerAttention(Module):
    """Attention of queries to patches and to themselves."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)
        self.to_q, self.to_kv = Linear(width, inner, bias=False), Linear(width, 2 * inner, bias=False)
        self.to_out = Linear(inner, width, bias=False)

    def forward(self, queries: Tensor, x: Tensor) -> Tensor:
        """queries (B, Q, D), x (B, T, D) → (B, Q, D)."""
        own = self.norm2(queries)
        k, v = ops.chunk(self.to_kv(ops.cat([self.norm1(x), own], 1)), 2, -1)
        parts = [y.reshape(*y.shape[:2], -1, HEAD) for y in (self.to_q(own), k, v)]
        return queries + self.to_out(attend(parts[0], parts[1], parts[2], None))


class FeedForward(Module):
    """A norm and two layers; files number them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        parts = (LayerNorm(width), Linear(width, inner, bias=False), Linear(inner, width, bias=False))
        for name, part in zip("013", parts, strict=True):
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, Q, D) → (B, Q, D)."""
        norm, first, last = (self._modules[name] for name in "013")
        found: Tensor = last(ops.gelu(first(norm(x))))
        return x + found


class Resampler(Module):
    """Queries that ask the patches."""

    whole = False

    def __init__(self, seen: int, width: int, queries: int, inner: int, heads: int, further: int, depth: int) -> None:
        super().__init__()
        self.seen = seen
        self.latents = new_parameter(ops.zeros, 1, queries, inner)
        self.proj_in, self.proj_out = Linear(seen, inner), Linear(inner, width)
        self.norm_out = LayerNorm(width)
        self.layers = ModuleList(
            ModuleList([ResamplerAttention(inner, heads * HEAD), FeedForward(inner, further)]) for _ in range(depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, seen) → (B, Q, width)."""
        x, queries = self.proj_in(x), self.latents.expand(x.shape[0], *self.latents.shape[1:])
        for asking, further in self.layers:
            queries = further(asking(queries, x))
        return self.norm_out(self.proj_out(queries))


class Adapter(Module):
    """The projection, and the matrices of keys and values of each attention, by their numbers in files."""

    def __init__(self, projection: ImageProjection | Resampler, widths: Mapping[str, int], width: int) -> None:
        super().__init__()
        self.image_proj = projection
        self.ip_adapter = ModuleDict()
        for number, made in widths.items():
            part = Module()
            part.to_k_ip, part.to_v_ip = Linear(width, made, bias=False), Linear(width, made, bias=False)
            self.ip_adapter[number] = part


@dataclass(frozen=True)
class PicturePrompts:
    """What makes tokens of pictures."""

    encoder: PictureEncoder
    adapter: Adapter

    def tokens(self, picture: Tensor, with_none: bool) -> Tensor:
        """The tokens (1, N, D) of a picture uint8 (H, W, 3); with_none: after those of no picture (2, N, D)."""
        pixels = self.encoder.processor([picture], self.encoder.visual_projection.weight.device).pixel_values
        projection = self.adapter.image_proj
        if projection.whole:
            seen = self.encoder(pixels)
            nothing = ops.zeros_like(seen)
        else:
            seen = self.encoder.patches(pixels)
            nothing = self.encoder.patches(ops.zeros_like(pixels)) if with_none else seen
        found: Tensor = projection(ops.cat([nothing, seen]) if with_none else seen)
        return found


def attentions(unet: UNet) -> Iterator[TextAttention]:
    """The attentions of a U-Net to the text, in the order of files: on the way down, on the way up, in the middle."""
    for part in (unet.down_blocks, unet.up_blocks, unet.mid_block):
        for module in part.modules():
            if isinstance(module, TransformerBlock):
                yield module.attn2


def adapter_for(unet: Any, checkpoint: Checkpoint) -> Adapter:
    """The modules of an adapter, without weights. ModelError for one of another kind, or of another U-Net."""
    where = checkpoint.source.name
    if not isinstance(unet, UNet):
        raise ModelError("IP-Adapters are for the U-Nets of Stable Diffusion 1, 2 and XL alone", where=where, hint=HINT)
    shapes = {name: tuple(info.shape) for name, info in checkpoint.tensors.items()}
    wanted = [attention.to_q.weight.shape[0] for attention in attentions(unet)]
    numbers = sorted({int(found[1]) for found in map(KEYS.fullmatch, shapes) if found})
    width = unet.config.cross_attention_dim
    fits = len(numbers) == len(wanted) and all(
        shapes.get(f"ip_adapter.{number}.to_{kind}_ip.weight") == (made, width)
        for number, made in zip(numbers, wanted, strict=True) for kind in "kv"
    )  # fmt: skip
    if not fits:
        raise ModelError("this is no IP-Adapter of this U-Net", where=where, hint=HINT)
    widths = {str(number): made for number, made in zip(numbers, wanted, strict=True)}
    with skip_initialization():
        return Adapter(_projection(shapes, width, where), widths, width)


def _projection(shapes: Mapping[str, tuple[int, ...]], width: int, where: str) -> ImageProjection | Resampler:
    """The projection by the shapes of its tensors. ModelError for another kind."""
    own = {name.removeprefix("image_proj."): shape for name, shape in shapes.items() if name.startswith("image_proj.")}
    try:
        if "proj.weight" in own and own["norm.weight"] == (width,):
            return ImageProjection(own["proj.weight"][1], width)
        _, queries, inner = own["latents"]
        depth = 1 + max(int(name.split(".")[1]) for name in own if name.startswith("layers."))
        heads, further = own["layers.0.0.to_q.weight"][0] // HEAD, own["layers.0.1.1.weight"][0]
        if depth <= 1 << 10 and heads >= 1 and own["proj_out.weight"][0] == width:
            return Resampler(own["proj_in.weight"][1], width, queries, inner, heads, further, depth)
    except (KeyError, ValueError, IndexError):
        pass
    raise ModelError("the projection of this IP-Adapter is not known", where=where, hint=HINT)


def attach(unet: UNet, adapter: Adapter, tokens: int, scale: float) -> None:
    """Lets the attentions of a U-Net to the text read `tokens` tokens of a picture after it, `scale` times."""
    for attention, part in zip(attentions(unet), adapter.ip_adapter.values(), strict=True):
        attention.to_k_ip, attention.to_v_ip = part.to_k_ip, part.to_v_ip
        attention.pictured, attention.share = tokens, scale


def tokens_of(adapter: Adapter) -> int:
    """The tokens of a picture."""
    projection = adapter.image_proj
    return TOKENS if isinstance(projection, ImageProjection) else int(projection.latents.shape[1])
