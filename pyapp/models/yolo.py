"""YOLO as Ultralytics trains it, versions 3 (Redmon and Farhadi 2018, arXiv 1804.02767, with the head of version 8), 8
(2023) and 11 (2024; Khanam and Hussain, arXiv 2410.17725): objects in one look (Redmon et al. 2015, arXiv 1506.02640),
with their outlines, turned boxes or the points of a pose, and labels of pictures.

The backbone is of split filters (Wang et al. 2019, arXiv 1911.11929), pools of several sizes (He et al. 2014, arXiv
1406.4729) and, in version 11, attention; maps of three sizes are joined in both directions (Liu et al. 2018, arXiv
1803.01534). Each place of a map has a label, and a distribution of the distance to each side of the box (Li et al.
2020, arXiv 2006.04388). Outlines are sums of prototypes (Bolya et al. 2019, arXiv 1904.02689).

The configuration describes the layers in their order (loading/ultralytics.py reads them from a file's tensors), as
"sp_r2_i32_m16_c64_add". Parameters have the names of Ultralytics' files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import pi
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.errors import InputError, ModelError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Conv2d, ConvTranspose2d, Linear, MaxPool2d, Module, ModuleList, Sequential
from pyapp.nn.vision.boxes import non_max_suppression, turned_corners, turned_suppression
from pyapp.nn.vision.detection import Detector
from pyapp.nn.vision.mobile import FilterNorm, Style
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading import ultralytics
from .loading.config import DEEPEST, require
from .loading.pictures_config import SIDE_LIMIT, WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("yolo",)
IMAGE_PROCESSOR = "Yolo"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
LAYER = re.compile(
    r"cn_c(?P<filter>\d{1,5})|up|jn_(?P<other>\d{1,3})|pp_i(?P<pooled>\d{1,5})_c(?P<pool>\d{1,5})"
    r"|cv_k(?P<kernel>[135])_s(?P<stride>[12])_c(?P<filters>\d{1,5})(_f(?P<source>\d{1,3}))?"
    r"|bt_r(?P<times>\d{1,3})_m(?P<core>\d{1,5})_c(?P<out>\d{1,5})(?P<keeps>_add)?"
    r"|(?P<kind>sp|at)_r(?P<repeats>\d{1,3})_i(?P<inner>\d{1,5})(_m(?P<middle>\d{1,5}))?(_d(?P<deep>\d{1,2}))?"
    r"(_h(?P<heads>\d{1,4}))?_c(?P<width>\d{1,5})(?P<adds>_add)?"
)
HEADS = ("detect", "segment", "pose", "obb", "classify")
LAYERS = 256
POOL = 5  # pixels of a side
MOST = 300  # objects of a picture
CANDIDATES = 30_000  # boxes of a picture that are compared


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters. layers: cn is a filter of 3 x 3 pixels that halves the sides; cv one of `k` pixels and the
    stride `s`, of the map before it or that of layer `f`; bt are bottlenecks with `m` channels inside; sp splits the
    channels, and sends one half through such bottlenecks, or (d) through groups of so many; at does the same with
    attention; pp pools; up doubles the sides; jn joins the channels of an earlier layer to those before. reads:
    the numbers of the layers whose maps the head reads. The sizes are channels inside of the head: for boxes, labels,
    and outlines or points; separable: its filters for labels are of single channels first.
    """

    model_type = MODEL_TYPES[0]

    layers: tuple[str, ...]
    reads: tuple[int, ...]
    head: str = "detect"
    image_size: int = 640
    box_size: int = 64
    label_size: int = 64
    more_size: int = 32
    separable: bool = False
    bins: int = 16  # of the distribution of a distance
    prototypes: int = 32
    prototype_size: int = 64
    points: int = 17
    point_values: int = 3  # x, y and how surely it is visible
    head_size: int = 1280  # of "classify"
    iou_threshold: float = 0.7
    batch_norm_eps: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.head in HEADS, f"head is {self.head!r:.60}, expected one of {', '.join(HEADS)}")
        require(1 <= len(self.layers) <= LAYERS, f"there are {len(self.layers)} layers, expected 1 to {LAYERS}")
        check_numbers("reads", self.reads, len(self.layers) - 1, least=0)
        sizes = (self.box_size, self.label_size, self.more_size, self.prototypes, self.prototype_size, self.head_size)
        check_numbers("the sizes of the head", sizes, WIDEST)
        check_numbers("bins and points", (self.bins, self.points), 1 << 10)
        require(self.point_values in (2, 3), f"point_values is {self.point_values}, expected 2 or 3")
        require(self.image_size <= SIDE_LIMIT, f"image_size is {self.image_size:,}, expected at most {SIDE_LIMIT:,}")
        require(0 <= self.iou_threshold <= 1, f"iou_threshold is {self.iou_threshold}, expected 0 to 1")
        self.parsed()

    def parsed(self) -> list[Layer]:
        """The layers. ModelError for descriptions that cannot be."""
        found: list[Layer] = []
        width, scale = self.num_channels, 1.0
        for i, text in enumerate(self.layers):
            match = LAYER.fullmatch(text) if isinstance(text, str) else None
            require(match is not None, f"layer {i} is {text!r:.60}, which is not known", "As sp_r2_i32_m16_c64_add")
            assert match is not None
            numbers = {name: int(value) for name, value in match.groupdict().items() if value and value.isdigit()}
            least = all(value >= (0 if name in ("other", "source") else 1) for name, value in numbers.items())
            plausible = least and max([0, *(numbers.get(name, 0) for name in WIDTHS)]) <= WIDEST
            plausible = plausible and max(numbers.get("repeats", 1), numbers.get("times", 1)) <= DEEPEST
            if match["kind"] == "at":
                heads = numbers.get("heads", 0)
                plausible = plausible and heads > 0 and numbers["inner"] % (2 * heads) == 0 and "middle" in numbers
            elif match["kind"] == "sp":
                plausible = plausible and "middle" in numbers
            require(plausible, f"layer {i}, {text!r:.60}, has numbers that cannot be")
            kind, before = str(text)[:2], width
            if kind == "jn":
                require(numbers["other"] < i, f"layer {i} joins layer {numbers['other']}, which comes later")
                joined = found[numbers["other"]]
                require(joined.scale == scale, f"layer {i} joins maps of two sizes")
                width = before + joined.width
            else:
                if "source" in numbers:
                    require(numbers["source"] < i, f"layer {i} reads layer {numbers['source']}, which comes later")
                    before, scale = found[numbers["source"]].width, found[numbers["source"]].scale
                scale *= {"cn": 2.0, "up": 0.5}.get(kind, float(numbers.get("stride", 1)))
                width = next((numbers[name] for name in OUTPUTS if name in numbers), before)
            require(width <= WIDEST and 1 <= scale <= 1 << 10, f"layer {i}, {text!r:.60}, is too wide or too far")
            found.append(Layer(kind, before, width, scale, numbers, bool(match["adds"] or match["keeps"])))
        return found

    @property
    def divisor(self) -> int:
        """The pixels that the sides of pictures are multiples of."""
        return int(max(layer.scale for layer in self.parsed()))


OUTPUTS = ("filter", "filters", "pool", "width", "out")  # numbers of a layer that are channels after it
WIDTHS = (*OUTPUTS, "pooled", "inner", "middle", "core")  # numbers of a layer that are channels


@dataclass(frozen=True)
class Layer:
    """A layer as it was described: its kind, the channels before it and after it, and how many pixels of a side of the
    picture a place of it is.
    """

    kind: str
    before: int
    width: int
    scale: float
    numbers: Mapping[str, int]
    adds: bool


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> Mapping[str, Any]:
    """The settings with the layers, of a file that says them by its tensors only."""
    return settings if "layers" in settings else {**ultralytics.described(tensors), **settings}


def renamed(name: str) -> str:
    """The name of a tensor in Ultralytics' files, of those of other programs."""
    return ultralytics.renamed(name)


class Bottleneck(Module):
    """Two filters of 3 x 3, the first with `middle` channels; adds: to the input. before: the channels of the input,
    if they are not `width`.
    """

    def __init__(self, width: int, middle: int, adds: bool, style: Style, before: int | None = None) -> None:
        super().__init__()
        self.adds = adds
        self.cv1 = FilterNorm(width if before is None else before, middle, style, 3, activation="silu")
        self.cv2 = FilterNorm(middle, width, style, 3, activation="silu")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        y = self.cv2(self.cv1(x))
        return x + y if self.adds else y


class Group(Module):
    """Bottlenecks over a part of the channels, beside another part."""

    def __init__(self, width: int, middle: int, count: int, adds: bool, style: Style) -> None:
        super().__init__()
        self.cv1 = FilterNorm(width, middle, style, activation="silu")
        self.cv2 = FilterNorm(width, middle, style, activation="silu")
        self.cv3 = FilterNorm(2 * middle, width, style, activation="silu")
        self.m = Sequential(*(Bottleneck(middle, middle, adds, style) for _ in range(count)))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.cv3(ops.cat([self.m(self.cv1(x)), self.cv2(x)], 1))


class Split(Module):
    """Two halves of the channels, and what each part makes of the one before it, side by side."""

    def __init__(self, layer: Layer, style: Style) -> None:
        super().__init__()
        numbers = layer.numbers
        self.inner, repeats, middle = numbers["inner"], numbers["repeats"], numbers["middle"]
        self.cv1 = FilterNorm(layer.before, 2 * self.inner, style, activation="silu")
        self.cv2 = FilterNorm((2 + repeats) * self.inner, layer.width, style, activation="silu")
        self.m = ModuleList(
            Group(self.inner, middle, numbers["deep"], layer.adds, style) if "deep" in numbers
            else Bottleneck(self.inner, middle, layer.adds, style)
            for _ in range(repeats)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        x = self.cv1(x)
        parts = [x.narrow(1, 0, self.inner), x.narrow(1, self.inner, self.inner)]  # (B, inner, H, W) each
        for part in self.m:
            parts.append(part(parts[-1]))
        return self.cv2(ops.cat(parts, 1))


class Pools(Module):
    """The largest values of 5 x 5, 9 x 9 and 13 x 13 places, side by side."""

    def __init__(self, layer: Layer, style: Style) -> None:
        super().__init__()
        inner = layer.numbers["pooled"]
        self.cv1 = FilterNorm(layer.before, inner, style, activation="silu")
        self.cv2 = FilterNorm(4 * inner, layer.width, style, activation="silu")
        self.m = MaxPool2d(POOL, 1, POOL // 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(self.m(parts[-1]))
        return self.cv2(ops.cat(parts, 1))


class PlacesAttention(Module):
    """Attention of places, whose queries and keys are half as wide as its values, and a filter of each channel of the
    values, by which places know where they are.
    """

    def __init__(self, width: int, heads: int, style: Style) -> None:
        super().__init__()
        self.heads, self.width = heads, width // heads
        self.qkv = FilterNorm(width, 2 * width, style)
        self.proj = FilterNorm(width, width, style)
        self.pe = FilterNorm(width, width, style, 3, each=True)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        batch, channels, rows, columns = x.shape
        parts = self.qkv(x).reshape(batch, self.heads, 2 * self.width, rows * columns)  # (B, heads, 2 * d, T)
        half = self.width // 2
        query, key, value = (
            parts.narrow(2, first, count) for first, count in ((0, half), (half, half), (2 * half, self.width))
        )
        y = ops.scaled_dot_product_attention(query.transpose(2, 3), key.transpose(2, 3), value.transpose(2, 3))
        shape = batch, channels, rows, columns
        return self.proj(y.transpose(2, 3).reshape(shape) + self.pe(value.reshape(shape)))


class AttentionBlock(Module):
    """Attention and a feed-forward part, each added to its input."""

    def __init__(self, width: int, middle: int, heads: int, style: Style) -> None:
        super().__init__()
        self.attn = PlacesAttention(width, heads, style)
        self.ffn = Sequential(FilterNorm(width, middle, style, activation="silu"), FilterNorm(middle, width, style))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        x = x + self.attn(x)
        return x + self.ffn(x)


class SplitAttention(Module):
    """One half of the channels as it is, and the other after attention, side by side."""

    def __init__(self, layer: Layer, style: Style) -> None:
        super().__init__()
        numbers = layer.numbers
        self.inner = numbers["inner"]
        self.cv1 = FilterNorm(layer.before, 2 * self.inner, style, activation="silu")
        self.cv2 = FilterNorm(2 * self.inner, layer.width, style, activation="silu")
        self.m = Sequential(*(
            AttentionBlock(self.inner, numbers["middle"], numbers["heads"], style) for _ in range(numbers["repeats"])
        ))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        x = self.cv1(x)
        rest = x.narrow(1, self.inner, self.inner)  # (B, inner, H, W)
        return self.cv2(ops.cat([x.narrow(1, 0, self.inner), self.m(rest)], 1))


class Upsample(Module):
    """Each place four times."""

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, 2 * H, 2 * W)."""
        return ops.interpolate(x, scale_factor=2, mode="nearest")


class Join(Module):
    """The channels of an earlier layer after those of the last."""

    def __init__(self, other: int) -> None:
        super().__init__()
        self.other = other

    def forward(self, x: Tensor, earlier: Tensor) -> Tensor:
        """x (B, C, H, W), earlier (B, C', H, W) → (B, C + C', H, W)."""
        return ops.cat([x, earlier], 1)


def _made(layer: Layer, style: Style) -> Module:
    """The module of a layer."""
    if layer.kind == "cn":
        return FilterNorm(layer.before, layer.width, style, 3, 2, activation="silu")
    if layer.kind == "jn":
        return Join(layer.numbers["other"])
    numbers = layer.numbers
    if layer.kind == "cv":
        return FilterNorm(layer.before, layer.width, style, numbers["kernel"], numbers["stride"], activation="silu")
    if layer.kind == "bt":
        parts = [
            Bottleneck(layer.width, numbers["core"], layer.adds, style, layer.width if i else layer.before)
            for i in range(numbers["times"])
        ]
        return Sequential(*parts) if len(parts) > 1 else parts[0]
    kinds: Mapping[str, Callable[[Layer, Style], Module]] = {"sp": Split, "at": SplitAttention, "pp": Pools}
    return Upsample() if layer.kind == "up" else kinds[layer.kind](layer, style)


class Layers(ModuleList):
    """The layers by their numbers, and after them the head."""

    def maps(
        self, x: Tensor, joined: Sequence[int], reads: Sequence[int], count: int, sources: Mapping[int, int]
    ) -> list[Tensor]:
        """pictures (B, C, H, W) → the maps of the layers `reads` among the first `count`. sources: the layers whose
        maps others read, by those.
        """
        kept: dict[int, Tensor] = {}
        for i in range(count):
            layer, x = self[i], kept[sources[i]] if i in sources else x
            x = layer(x, kept[layer.other]) if isinstance(layer, Join) else layer(x)
            if i in joined or i in reads:
                kept[i] = x
        return [kept[i] for i in reads]


class Network(ImageModel):
    """The layers below `model`, for pictures whose sides are multiples of 32 pixels."""

    def __init__(self, config: Config, head: Callable[[list[Layer], Style], Module]) -> None:
        super().__init__()
        self.config = config
        style, parsed = Style(epsilon=config.batch_norm_eps), config.parsed()
        self.sources = {i: layer.numbers["source"] for i, layer in enumerate(parsed) if "source" in layer.numbers}
        self.joined = [layer.numbers["other"] for layer in parsed if layer.kind == "jn"] + [*self.sources.values()]
        self.divisor = config.divisor
        self.model = Layers(
            [*(_made(layer, style) for layer in parsed), head([parsed[i] for i in config.reads], style)]
        )

    def maps(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the maps (B, C', H', W') that the head reads. InputError for other sizes."""
        check_pictures("YOLO", pixel_values, self.config.num_channels, least=self.divisor)
        sides = pixel_values.shape[2], pixel_values.shape[3]
        if any(side % self.divisor for side in sides):
            raise InputError(
                f"YOLO: the pictures have {sides[0]} x {sides[1]} pixels, but the sides are multiples of "
                f"{self.divisor}: use the image processor of the model"
            )
        layers = len(self.config.layers)
        return self.model.maps(pixel_values, self.joined, self.config.reads, layers, self.sources)


def _branch(before: int, middle: int, width: int, style: Style, separable: bool = False) -> Sequential:
    """Two filters of 3 x 3 and one of a place; separable: each of the two is one of each channel, and one of a
    place.
    """
    if not separable:
        return Sequential(
            FilterNorm(before, middle, style, 3, activation="silu"),
            FilterNorm(middle, middle, style, 3, activation="silu"), Conv2d(middle, width, 1),
        )  # fmt: skip
    pairs = (
        Sequential(
            FilterNorm(channels, channels, style, 3, activation="silu", each=True),
            FilterNorm(channels, middle, style, activation="silu"),
        )
        for channels in (before, middle)
    )
    return Sequential(*pairs, Conv2d(middle, width, 1))


class Prototypes(Module):
    """Outlines of whole pictures, of which those of objects are sums."""

    def __init__(self, before: int, config: Config, style: Style) -> None:
        super().__init__()
        width = config.prototype_size
        self.cv1 = FilterNorm(before, width, style, 3, activation="silu")
        self.upsample = ConvTranspose2d(width, width, 2, 2)
        self.cv2 = FilterNorm(width, width, style, 3, activation="silu")
        self.cv3 = FilterNorm(width, config.prototypes, style, activation="silu")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, prototypes, 2 * H, 2 * W)."""
        return self.cv3(self.cv2(self.upsample(self.cv1(x))))


class Head(Module):
    """The labels and boxes of each place of each map (`cv3`, `cv2`), and more of it (`cv4`): the parts of prototypes
    that make its outline, the angle of its box, or the points of its pose.
    """

    def __init__(self, config: Config, layers: Sequence[Layer], style: Style) -> None:
        super().__init__()
        self.config = config
        labels = len(config.labels)
        self.cv2 = ModuleList(_branch(layer.width, config.box_size, 4 * config.bins, style) for layer in layers)
        self.cv3 = ModuleList(
            _branch(layer.width, config.label_size, labels, style, config.separable) for layer in layers
        )
        self.dfl = Module()
        self.dfl.conv = Conv2d(config.bins, 1, 1, bias=False)  # 0, 1, 2 …: the distance that each bin stands for
        points = config.points * config.point_values
        more = {"segment": config.prototypes, "pose": points, "obb": 1}.get(config.head)
        if more is not None:
            self.cv4 = ModuleList(_branch(layer.width, config.more_size, more, style) for layer in layers)
        if config.head == "segment":
            self.proto = Prototypes(layers[0].width, config, style)

    def forward(self, maps: Sequence[Tensor], sides: tuple[int, int]) -> tuple[Tensor, ...]:
        """maps (B, C, H, W) of pictures with `sides` (height, width) → logits (B, Q, labels) and boxes (B, Q, 4) of all
        places, map by map; then for outlines parts (B, Q, prototypes) and prototypes (B, prototypes, H', W'), for poses
        points (B, Q, points, values), for turned boxes their angles (B, Q, 1) and the sides (2,) in pixels. Places are
        parts of the picture's sides.
        """
        places = _places(maps, sides)
        centres, sizes = (ops.tensor(part, device=maps[0].device) for part in places)  # (Q, 2): x and y
        logits = _all_places(self.cv3, maps)
        distances = self._distances(_all_places(self.cv2, maps))  # (B, Q, 4): to the left, top, right and bottom
        if self.config.head == "obb":
            return self._turned(logits, distances, _all_places(self.cv4, maps), centres, sizes, sides)
        low = centres - distances.narrow(2, 0, 2) * sizes
        high = centres + distances.narrow(2, 2, 2) * sizes
        boxes = ops.cat([(low + high) / 2, high - low], 2)  # (B, Q, 4)
        if self.config.head == "detect":
            return logits, boxes
        more = _all_places(self.cv4, maps)
        if self.config.head == "segment":
            return logits, boxes, more, self.proto(maps[0])
        points = more.reshape(*more.shape[:2], self.config.points, self.config.point_values)
        at = centres.unsqueeze(1) + (points.narrow(3, 0, 2) * 2 - 0.5) * sizes.unsqueeze(1)  # (B, Q, points, 2)
        if self.config.point_values == 3:
            at = ops.cat([at, ops.sigmoid(points.narrow(3, 2, 1))], 3)
        return logits, boxes, at

    def _turned(
        self, logits: Tensor, distances: Tensor, turns: Tensor, centres: Tensor, sizes: Tensor, sides: tuple[int, int]
    ) -> tuple[Tensor, ...]:
        """What `forward` gives of turned boxes: distances (B, Q, 4) are those to the sides of the turned box, in
        places; turns (B, Q, 1) say the angles, from -pi / 4 to 3 / 4 * pi.
        """
        angles = (ops.sigmoid(turns) - 0.25) * pi
        low, high = distances.narrow(2, 0, 2), distances.narrow(2, 2, 2)
        x, y = ops.chunk((high - low) / 2, 2, 2)  # (B, Q, 1) each, of the turned box's centre
        cosine, sine = angles.cos(), angles.sin()
        moved = ops.cat([x * cosine - y * sine, x * sine + y * cosine], 2)  # (B, Q, 2)
        boxes = ops.cat([centres + moved * sizes, (low + high) * sizes], 2)  # (B, Q, 4)
        return logits, boxes, angles, ops.tensor([float(side) for side in sides], device=logits.device)

    def _distances(self, bins: Tensor) -> Tensor:
        """(B, Q, 4 * bins) → (B, Q, 4): the means of the distributions, in places."""
        chances = ops.softmax(bins.reshape(*bins.shape[:2], 4, self.config.bins), 3)
        return (chances * self.dfl.conv.weight.reshape(self.config.bins)).sum(3)


def _all_places(branches: ModuleList, maps: Sequence[Tensor]) -> Tensor:
    """What each map's branch says of its places: (B, Q, C)."""
    found = [branch(x) for branch, x in zip(branches, maps, strict=True)]
    return ops.cat([x.reshape(x.shape[0], x.shape[1], x.shape[2] * x.shape[3]) for x in found], 2).transpose(1, 2)


def _places(maps: Sequence[Tensor], sides: tuple[int, int]) -> tuple[Any, Any]:
    """The centres of all places, and their sizes, as parts of the picture's sides: x and y, (Q, 2) float32 each."""
    centres, sizes = [], []
    for x in maps:
        rows, columns = int(x.shape[2]), int(x.shape[3])
        row, column = np.divmod(np.arange(rows * columns), columns)
        centres.append(np.stack([(column + 0.5) / columns, (row + 0.5) / rows], 1))
        sizes.append(np.broadcast_to([1 / columns, 1 / rows], (rows * columns, 2)))
    return np.concatenate(centres).astype("float32"), np.concatenate(sizes).astype("float32")


class Yolo(Network, Detector):
    """Objects, their boxes, and outlines or poses where the head has them."""

    background = False

    def __init__(self, config: Config) -> None:
        if config.head == "classify":
            raise ModelError(
                "this YOLO names what pictures show: it finds no objects", hint="Use it with classify-image"
            )
        super().__init__(config, lambda layers, style: Head(config, layers, style))

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B, C, H, W) → what Head gives."""
        sides = int(pixel_values.shape[2]), int(pixel_values.shape[3])
        return self.model[len(self.config.layers)](self.maps(pixel_values), sides)

    def objects(self, outputs: Sequence[Tensor], threshold: float) -> list[list[dict[str, Any]]]:
        """As of every Detector, without boxes that overlap a better one of the same label; with `mask`, an array (H',
        W') of the whole picture that is above 0 inside of the object, `points`, [x, y, how surely it is visible], or
        the four `corners` [x, y] of a turned box, which `box` surrounds.
        """
        logits, boxes, *more = outputs
        scores = ops.sigmoid(logits.to("float32")).cpu().numpy()  # (B, Q, labels)
        places = boxes.to("float32").cpu().numpy().astype("float64")
        corners = np.concatenate(
            [places[..., :2] - places[..., 2:] / 2, places[..., :2] + places[..., 2:] / 2], -1
        )  # (B, Q, 4)
        extras = [part.to("float32").cpu().numpy() for part in more]
        if self.config.head == "obb":
            return [
                self._turned(scores[i], places[i], extras[0][i, :, 0], extras[1], threshold) for i in range(len(scores))
            ]
        found = []
        for i in range(len(scores)):
            own = self._kept(scores[i], corners[i], threshold)
            entries = [
                {"label": self.config.labels[label], "score": float(scores[i, q, label]), "box": corners[i, q].tolist()}
                for q, label in own
            ]
            for entry, (q, _) in zip(entries, own, strict=True):
                if self.config.head == "segment":
                    entry["mask"] = np.tensordot(extras[0][i, q], extras[1][i], 1)
                elif self.config.head == "pose":
                    entry["points"] = extras[0][i, q].tolist()
            found.append(entries)
        return found

    def _turned(self, scores: Any, boxes: Any, angles: Any, sides: Any, threshold: float) -> list[dict[str, Any]]:
        """The objects of a picture: scores (Q, labels), turned boxes (Q, 4) with their angles (Q,)."""
        pixels = np.concatenate([boxes * np.tile(sides[::-1], 2), angles[:, None]], 1)  # (Q, 5)
        found = []
        for q, label in self._kept(scores, pixels, threshold):
            corners = turned_corners(pixels[q]) / sides[::-1]  # (4, 2)
            found.append(
                {
                    "label": self.config.labels[label], "score": float(scores[q, label]),
                    "box": [*corners.min(0).tolist(), *corners.max(0).tolist()], "corners": corners.tolist(),
                }
            )  # fmt: skip
        return found

    def _kept(self, scores: Any, corners: Any, threshold: float) -> list[tuple[int, int]]:
        """The places and labels of a picture's objects, the best first: boxes (Q, 4) by their corners, or turned ones
        (Q, 5).
        """
        suppressed = turned_suppression if corners.shape[1] == 5 else non_max_suppression
        labels, best = scores.argmax(-1), scores.max(-1)
        chosen = np.flatnonzero(best > threshold)
        chosen = chosen[np.argsort(-best[chosen], kind="stable")][:CANDIDATES]
        kept: list[int] = []
        for label in np.unique(labels[chosen]):
            own = chosen[labels[chosen] == label]
            kept += [int(own[i]) for i in suppressed(corners[own], best[own], self.config.iou_threshold, MOST)]
        kept.sort(key=lambda q: -best[q])
        return [(q, int(labels[q])) for q in kept[:MOST]]


class LabelHead(Module):
    """A filter of each place, the mean of all places, and the labels' scores."""

    def __init__(self, config: Config, before: int, style: Style) -> None:
        super().__init__()
        self.conv = FilterNorm(before, config.head_size, style, activation="silu")
        self.linear = Linear(config.head_size, len(config.labels))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → logits (B, labels)."""
        return self.linear(mean_of_places(self.conv(x)))


class YoloClassifier(Network):
    """Scores of the labels of a picture."""

    def __init__(self, config: Config) -> None:
        require(
            config.head == "classify",
            "this YOLO finds objects: it has no scores of whole pictures",
            "Use it with detect",
        )
        super().__init__(config, lambda layers, style: LabelHead(config, layers[-1].width, style))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        return self.model[len(self.config.layers)](self.maps(pixel_values)[-1])


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "object-detection": Yolo,
    "image-classification": YoloClassifier,
}
