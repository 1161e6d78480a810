"""Florence-2 (Xiao et al. 2023, arXiv 2311.06242): what DaViT (Ding et al. 2022, arXiv 2204.03645) sees of a picture
stands before the words of a task, BART reads both and writes the answer. Parameters have the names of Hugging Face's
files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.errors import InputError, OptionError
from pyapp.nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import Words
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import BartModel, Memory, SequenceToSequence
from pyapp.nn.vision.vision import as_sequence, check_pictures, over_channels

from .loading.architectures import architecture
from .loading.config import check_fields, object_of, read_config, require

MODEL_TYPES = ("florence2",)
IMAGE_PROCESSOR = "CLIP"  # of files that name none
BASE = ""
IGNORED = r".*visual_temporal_embed\.pos_idx_to_embed"  # computed
WIDEST = 1 << 14
WIDEST_WINDOW = 1 << 6
DEEPEST = 1 << 8
# What the names of tasks stand for in prompts, as in transformers' Florence2Processor.
TASK_PROMPTS = {
    "<OCR>": "What is the text in the image?",
    "<OCR_WITH_REGION>": "What is the text in the image, with regions?",
    "<CAPTION>": "What does the image describe?",
    "<DETAILED_CAPTION>": "Describe in detail what is shown in the image.",
    "<MORE_DETAILED_CAPTION>": "Describe with a paragraph what is shown in the image.",
    "<OD>": "Locate the objects with category name in the image.",
    "<DENSE_REGION_CAPTION>": "Locate the objects in the image, with their descriptions.",
    "<REGION_PROPOSAL>": "Locate the region proposals in the image.",
    "<CAPTION_TO_PHRASE_GROUNDING>": "Locate the phrases in the caption: {}",
    "<REFERRING_EXPRESSION_SEGMENTATION>": "Locate {} in the image with mask",
    "<REGION_TO_SEGMENTATION>": "What is the polygon mask of region {}",
    "<OPEN_VOCABULARY_DETECTION>": "Locate {} in the image.",
    "<REGION_TO_CATEGORY>": "What is the region {}?",
    "<REGION_TO_DESCRIPTION>": "What does the region {} describe?",
    "<REGION_TO_OCR>": "What text is in the region {}?",
}
# The numbers of a place in the answers of tasks: a box, or the four corners of a text.
NUMBERS = {
    **dict.fromkeys(
        ("<OD>", "<DENSE_REGION_CAPTION>", "<REGION_PROPOSAL>", "<CAPTION_TO_PHRASE_GROUNDING>",
         "<OPEN_VOCABULARY_DETECTION>"), 4,
    ),
    "<OCR_WITH_REGION>": 8,
}  # fmt: skip
PLACED = re.compile(r"([^<]*)((?:<loc_\d{1,3}>)+)")
BINS = 1000  # of each side of a picture


@dataclass(frozen=True, kw_only=True)
class TowerConfig:
    """The fields of vision_config; the lists have an entry for each stage."""

    in_channels: int = 3
    depths: list[int]
    patch_size: list[int]
    patch_stride: list[int]
    patch_padding: list[int]
    patch_prenorm: list[bool]
    embed_dim: list[int]
    num_heads: list[int]
    num_groups: list[int]
    window_size: int = 12
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    activation_function: str = "gelu"
    projection_dim: int = 1024
    max_position_embeddings: int = 50

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TowerConfig:
        """From the object of a config.json; other keys are ignored."""
        usual = {
            "depths": [1, 1, 9, 1], "patch_size": [7, 3, 3, 3], "patch_stride": [4, 2, 2, 2],
            "patch_padding": [3, 1, 1, 1], "patch_prenorm": [False, True, True, True],
            "embed_dim": [128, 256, 512, 1024], "num_heads": [4, 8, 16, 32], "num_groups": [4, 8, 16, 32],
        }  # fmt: skip
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return read_config(cls, usual | given)

    def __post_init__(self) -> None:
        check_fields(self)
        stages = len(self.embed_dim)
        limits = {
            "depths": DEEPEST, "patch_size": 64, "patch_stride": 64, "patch_padding": 64, "embed_dim": WIDEST,
            "num_heads": WIDEST, "num_groups": WIDEST,
        }  # fmt: skip
        for name, most in limits.items():
            given, least = getattr(self, name), 0 if name == "patch_padding" else 1
            plausible = 1 <= stages <= 16 and len(given) == stages
            plausible = plausible and all(type(n) is int and least <= n <= most for n in given)
            require(plausible, f"{name} is {given!r:.60}, expected {stages} whole numbers up to {most:,}")
        before = self.patch_prenorm
        plausible = len(before) == stages and all(type(one) is bool for one in before)
        require(plausible, f"patch_prenorm is {before!r:.60}, expected {stages} times true or false")
        for width, heads, groups in zip(self.embed_dim, self.num_heads, self.num_groups, strict=True):
            require(width % heads == 0 and width % groups == 0, f"{heads} heads or {groups} groups of {width} columns")
        require(
            self.window_size <= WIDEST_WINDOW, f"window_size is {self.window_size:,}, expected up to {WIDEST_WINDOW}"
        )
        sizes = self.in_channels, self.window_size, self.projection_dim, self.max_position_embeddings
        require(max(sizes) <= WIDEST and 0 < self.mlp_ratio <= 64, f"the sizes {sizes} of the tower are too large")

    @property
    def width(self) -> int:
        """The columns of a vector of the last stage."""
        return self.embed_dim[-1]


@dataclass(frozen=True)
class Config:
    """The configurations of both parts."""

    text_config: Any
    vision_config: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known."""
        text, vision = object_of(values, "text_config"), object_of(values, "vision_config")
        require(text.get("model_type", "bart") == "bart", f"text_config is of {text.get('model_type')!r:.50}, not BART")
        bart = architecture("bart").Config.from_dict(text)
        made = cls(bart, TowerConfig.from_dict(vision), dict(values))
        width = made.vision_config.projection_dim
        require(width == bart.d_model, f"the tower makes vectors of {width:,} numbers, the text has {bart.d_model:,}")
        return made

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"text_config": self.text_config.to_dict(), "vision_config": asdict(self.vision_config)}
        return {**self.values, "model_type": MODEL_TYPES[0], **own}

    @property
    def vocab_size(self) -> int:
        """The tokens of the text."""
        found: int = self.text_config.vocab_size
        return found

    @property
    def pad_token_id(self) -> int:
        """The token of padding."""
        found: int = self.text_config.pad_token_id
        return found


class ConvEmbed(Module):
    """Patches of patches, normalised before or after."""

    def __init__(self, config: TowerConfig, stage: int) -> None:
        super().__init__()
        before = config.embed_dim[stage - 1] if stage else config.in_channels
        width, self.first = config.embed_dim[stage], config.patch_prenorm[stage]
        sizes = config.patch_size[stage], config.patch_stride[stage], config.patch_padding[stage]
        self.conv = Conv2d(before, width, *sizes)
        self.norm = LayerNorm(before if self.first else width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, D, rows, columns)."""
        x = self.conv(over_channels(x, self.norm) if self.first else x)
        return x if self.first else over_channels(x, self.norm)


class Attention(Module):
    """The projections of an attention: q, k and v, and the result's."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.qkv = Linear(width, 3 * width, bias=bias)
        self.proj = Linear(width, width)


class WindowAttention(Attention):
    """Attention of patches to those of their window; windows at the edges are filled with zeros."""

    def __init__(self, config: TowerConfig, stage: int) -> None:
        super().__init__(config.embed_dim[stage], config.qkv_bias)
        self.side, self.heads = config.window_size, config.num_heads[stage]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, rows, columns, D) → (B, rows, columns, D)."""
        count, rows, columns, width = x.shape
        side = self.side
        x = ops.pad(x, [0, 0, 0, -columns % side, 0, -rows % side])
        down, across = x.shape[1] // side, x.shape[2] // side
        x = x.reshape(count, down, side, across, side, width).transpose(2, 3).reshape(-1, side * side, width)
        q, k, v = self.qkv(x).reshape(x.shape[0], side * side, 3, self.heads, -1).unbind(2)
        y = self.proj(ops.attention(q, k, v, causal=False).reshape(x.shape[0], side * side, width))
        y = y.reshape(count, down, across, side, side, width).transpose(2, 3)
        return y.reshape(count, down * side, across * side, width)[:, :rows, :columns]


class ChannelAttention(Attention):
    """Attention of channels to those of their group, over all patches."""

    def __init__(self, config: TowerConfig, stage: int) -> None:
        super().__init__(config.embed_dim[stage], config.qkv_bias)
        self.groups = config.num_groups[stage]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, rows, columns, D) → (B, rows, columns, D)."""
        count, rows, columns, width = x.shape
        qkv = self.qkv(x).reshape(count, rows * columns, 3, self.groups, width // self.groups)
        q, k, v = qkv.permute(2, 0, 3, 4, 1).unbind(0)  # (B, G, D / G, T)
        scores = (q @ k.transpose(2, 3)) * (rows * columns) ** -0.5
        y = (scores.softmax(-1) @ v).permute(0, 3, 1, 2)  # (B, T, G, D / G)
        return self.proj(y.reshape(count, rows, columns, width))


class Mixing(Module):
    """Attention and a feed-forward part, with a filter of each channel before them, a norm and a residual."""

    def __init__(
        self, config: TowerConfig, stage: int, name: str, attention: Callable[[TowerConfig, int], Module]
    ) -> None:
        super().__init__()
        width, self.name = config.embed_dim[stage], name
        self.conv1, self.conv2 = (Conv2d(width, width, 3, padding=1, groups=width) for _ in range(2))
        self.norm1, self.norm2 = LayerNorm(width), LayerNorm(width)
        self.add_module(name, attention(config, stage))
        self.ffn = FeedForward(width, int(width * config.mlp_ratio), config.activation_function)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, rows, columns) → (B, D, rows, columns)."""
        x = (self.conv1(x) + x).permute(0, 2, 3, 1)
        x = (x + self._modules[self.name](self.norm1(x))).permute(0, 3, 1, 2)
        x = (self.conv2(x) + x).permute(0, 2, 3, 1)
        return (x + self.ffn(self.norm2(x))).permute(0, 3, 1, 2)


class Block(Module):
    """Patches attend to each other, then channels do."""

    def __init__(self, config: TowerConfig, stage: int) -> None:
        super().__init__()
        self.spatial_block = Mixing(config, stage, "window_attn", WindowAttention)
        self.channel_block = Mixing(config, stage, "channel_attn", ChannelAttention)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, rows, columns) → (B, D, rows, columns)."""
        return self.channel_block(self.spatial_block(x))


class Tower(Module):
    """DaViT."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        stages = range(len(config.embed_dim))
        self.convs = ModuleList(ConvEmbed(config, stage) for stage in stages)
        self.blocks = ModuleList(
            ModuleList(Block(config, stage) for _ in range(config.depths[stage])) for stage in stages
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, D, rows, columns)."""
        for conv, blocks in zip(self.convs, self.blocks, strict=True):
            x = conv(x)
            for block in blocks:
                x = block(x)
        return x


class Positions(Module):
    """Learned positions: the columns' beside the rows'."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        most, half = config.max_position_embeddings, config.width // 2
        self.row_embeddings = Embedding(most, half)
        self.column_embeddings = Embedding(most, config.width - half)

    def forward(self, rows: int, columns: int) -> Tensor:
        """(rows * columns, D)."""
        most = self.row_embeddings.num_embeddings
        if max(rows, columns) > most:
            raise InputError(f"Florence-2: a picture of {rows} x {columns} vectors, the model knows {most} places")
        device = self.row_embeddings.weight.device
        down, across = (ops.arange(count, dtype="int32", device=device) for count in (rows, columns))
        x = self.column_embeddings(across).unsqueeze(0).expand(rows, columns, -1)
        y = self.row_embeddings(down).unsqueeze(1).expand(rows, columns, -1)
        return ops.cat([x, y], 2).reshape(rows * columns, -1)


class Projector(Module):
    """The mean of a picture's vectors, and each of them, projected and normalised."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.image_projection = Linear(config.width, config.projection_dim, bias=False)
        self.image_proj_norm = LayerNorm(config.projection_dim)
        self.image_position_embed = Positions(config)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, rows, columns) → (B, 1 + rows * columns, P)."""
        places = self.image_position_embed(x.shape[2], x.shape[3])
        first = (
            ops.arange(x.shape[1], device=x.device).to(x.dtype).remainder(2.0)
        )  # the sinusoids of a film's first picture
        x = as_sequence(x) + places + first  # (B, T, D)
        return self.image_proj_norm(self.image_projection(ops.cat([x.mean(1, True), x], 1)))


class Florence2ForConditionalGeneration(SequenceToSequence):
    """Pictures and the words of a task to text. `prompt`: the ids of these words; `numbers`: those of a place in its
    answer, 0: it has none.
    """

    prompt: tuple[int, ...] = ()
    numbers = 0
    pixels = None  # any size
    usual_prompt = "<CAPTION>"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.text_config.max_position_embeddings
        self.model = Module()
        self.model.vision_tower = Tower(config.vision_config)
        self.model.multi_modal_projector = Projector(config.vision_config)
        self.model.language_model = BartModel(config.text_config)
        table = self.model.language_model.shared if config.values.get("tie_word_embeddings", True) else None
        self.lm_head = Words(config.text_config.d_model, config.vocab_size, table, bias=False)

    @property
    def device(self) -> Device:
        found: Device = self.model.language_model.shared.weight.device
        return found

    def prompted(self, prompt: str, encode: Callable[[str], Sequence[int]]) -> Florence2ForConditionalGeneration:
        """The same model for a prompt: the name of a task, with more words after it where the task needs some, or any
        text. `encode` gives the ids of a text.
        """
        numbers = 0
        for name, words in TASK_PROMPTS.items():
            if name in prompt:
                numbers = NUMBERS.get(name, 0)
                rest = prompt.replace(name, "").strip()
                if bool(rest) != ("{}" in words):
                    needs = "needs words" if "{}" in words else "takes no words"
                    raise OptionError(f"the task {name} {needs} after it, not {rest!r:.60}", where="prompt")
                prompt = words.replace("{}", rest)
                break
        text, found = self.config.text_config, copy(self)
        found.prompt, found.numbers = (text.bos_token_id, *encode(prompt), text.eos_token_id), numbers
        return found

    def text_of(self, ids: Sequence[int], tokenizer: Any) -> str:
        """The text of an answer's ids, in which the tokens of places (<loc_0> … <loc_999>: thousandths of the picture's
        width and height) stay.
        """
        own, found = self.config.text_config, ""
        words: list[int] = []
        left_out = {own.bos_token_id, own.eos_token_id, own.pad_token_id}
        for id in ids:
            name = tokenizer.piece(id)
            if name in tokenizer.special_names and id not in left_out:
                found, words = f"{found}{tokenizer.decode(words)}{name}", []
            else:
                words.append(id)
        return f"{found}{tokenizer.decode(words)}"

    def objects_of(self, text: str, size: tuple[int, int]) -> list[dict[str, Any]]:
        """What an answer about a picture of a size (height, width) places, by its task: each has `label`, and `box`
        (left, top, right, bottom) or, of a text, `corners` (x, y, x, y …), in pixels.
        """
        found, step = [], self.numbers
        for match in PLACED.finditer(text) if step else ():
            numbers = [int(number) for number in re.findall(r"\d+", match[2])]
            for first in range(0, len(numbers) - step + 1, step):
                part = numbers[first : first + step]
                place = [int((number + 0.5) * size[1 - i % 2] / BINS) for i, number in enumerate(part)]
                found.append({"label": match[1].strip(), "box" if step == 4 else "corners": place})
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Pictures (B, C, H, W) → hidden states (B, S, D) of them and of the prompt after them."""
        encoder = self.model.language_model.encoder
        words = self.model.multi_modal_projector(self.model.vision_tower(ids))  # (B, T, D)
        if self.prompt:
            prompt = ops.tensor([list(self.prompt)], dtype="int32", device=ids.device)
            own = encoder.embed_tokens(prompt) * encoder.scale
            words = ops.cat([words, own.to(words.dtype).expand(ids.shape[0], *own.shape[1:])], 1)
        if words.shape[1] > self.most:
            raise InputError(
                f"Florence-2: a picture and its prompt of {words.shape[1]:,} vectors, the model reads {self.most:,}"
            )
        found: Tensor = encoder(words, None)
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.lm_head(self.model.language_model.decoder(tokens, memory))

    def check(self, ids: Tensor, mask: Tensor | None) -> None:
        """As SequenceToSequence.check, of texts and of pictures."""
        if ids.dtype.is_floating_point:
            check_pictures("Florence-2", ids, self.config.vision_config.in_channels)
        else:
            super().check(ids, mask)


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-to-text": Florence2ForConditionalGeneration}
