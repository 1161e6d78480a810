"""Ovis 2 (Lu et al. 2024, arXiv 2405.20797; AIDC 2025): AIMv2's tower says of each square of patches how probable each
word of a visual vocabulary is, and the mean of the words' vectors stands before a language model such as Qwen2.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.aimv2 import Aimv2Vision
from pyapp.nn.vision.vision import squares
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import PictureTextConfig
from .loading.towers_config import Aimv2VisionConfig

MODEL_TYPES = ("ovis2",)
IMAGE_PROCESSOR = "Ovis2"  # of files that name none
MARKS = (151666, 151667, 151668, 151669, 151670)  # the usual tokens around pictures and tiles
CHOICES = ("softmax", "st_argmax")  # how words of the visual vocabulary are chosen


@dataclass(frozen=True, kw_only=True)
class TowerConfig(Aimv2VisionConfig):
    """The fields of vision_config."""

    model_type = "ovis2_vision"

    use_head: bool = False
    vocab_size: int = 16384
    hidden_stride: int = 1
    num_visual_indicator_tokens: int = 5
    tokenize_function: str = "softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not (self.use_head or self.is_native), "use_head or is_native is true, expected false")
        side, marks, chosen = self.grid[0], self.num_visual_indicator_tokens, self.tokenize_function
        fits = side % self.hidden_stride == 0
        require(fits, f"hidden_stride is {self.hidden_stride}, expected one that divides {side} rows of patches")
        require(marks < min(self.vocab_size, 1 << 10), f"num_visual_indicator_tokens is {marks:,}")
        require(chosen in CHOICES, f"tokenize_function is {chosen!r:.40}, expected {' or '.join(CHOICES)}")


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "ovis2"
    text = "qwen2"
    tower = "ovis2_vision"
    towers = {"ovis2_vision": TowerConfig}
    token = ("image_token_id", 151665)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, whose head is the table of tokens where it does not say so."""
        return super().from_dict({"tie_word_embeddings": True, **values})

    def check(self) -> None:
        super().check()
        marks, count = self.marks, self.vision_config.num_visual_indicator_tokens
        plausible = isinstance(marks, list | tuple) and all(type(n) is int and 0 <= n < 1 << 31 for n in marks)
        require(
            plausible and len(marks) <= count,
            f"visual_indicator_token_ids is {marks!r:.60}, expected at most {count} tokens",
        )

    @property
    def marks(self) -> Any:
        """The tokens around pictures and tiles, whose vectors are those of the last words of the visual vocabulary."""
        return self.values.get("visual_indicator_token_ids", MARKS)


class Tower(Module):
    """AIMv2's tower, and how probable each word is."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        words, self.config = config.vocab_size - config.num_visual_indicator_tokens, config
        self.transformer = Aimv2Vision(config)
        self.head_linear = Linear(config.hidden_size * config.hidden_stride**2, words, bias=False)
        self.head_norm = LayerNorm(words)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, squares, words), each with the sum 1."""
        config, x = self.config, self.transformer(pixel_values)  # (B, T, D)
        x = squares(x.reshape(x.shape[0], *config.grid, x.shape[2]), config.hidden_stride)
        found = self.head_norm(self.head_linear(x)).softmax(-1)
        if config.tokenize_function == "softmax":
            return found
        best = ops.one_hot(found.argmax(-1), found.shape[-1]).to(found.dtype)
        return best + (found - found.detach())  # with the gradient of the probabilities


class Ovis2ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder, part = "<image>", "<IMG_ATOM>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = Tower(config.vision_config)
        self.visual_embeddings_table = Module()
        width = config.text_config.hidden_size
        self.visual_embeddings_table.weight = new_parameter(ops.empty, config.vision_config.vocab_size, width)
        self.register_buffer("marks", ops.tensor(list(config.marks), dtype="int64"), persistent=False)

    @property
    def picture_tokens(self) -> int:
        seen = self.config.vision_config
        return int(seen.patches // seen.hidden_stride**2)

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        tile = self.part * self.picture_tokens
        tiles = "<IMG_ROW>".join("<IMG_COL>".join([tile] * columns) for _ in range(rows))
        return f"<IMG_START>{tile}<IMG_GRID>{tiles}<IMG_END>"

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        x, table = self.vision_tower(pixel_values), self.visual_embeddings_table.weight
        return x @ table.narrow(0, 0, x.shape[2])

    def embedded(self, tokens: Tensor, text: Any) -> Tensor:
        x, table = super().embedded(tokens, text), self.visual_embeddings_table.weight  # (..., T, D), (V, D)
        first = table.shape[0] - self.config.vision_config.num_visual_indicator_tokens
        marked = (tokens.unsqueeze(-1) == self.marks).to(x.dtype)  # (..., T, marks)
        own = marked @ table.narrow(0, first, len(self.config.marks))  # (..., T, D)
        return own + x * (1 - marked.sum(-1, keepdim=True))


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    name = re.sub(r"^model\.visual_embeddings_table\.", "visual_embeddings_table.", picture_text.renamed(name))
    return name.replace(".embeddings.patch_embedding.", ".embeddings.patch_embed.")


TASKS: Mapping[str, Any] = {picture_text.TASK: Ovis2ForConditionalGeneration}
