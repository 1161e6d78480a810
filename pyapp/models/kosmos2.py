"""Kosmos-2 (Peng et al. 2023, arXiv 2306.14824): learned queries ask what CLIP's tower sees, and their answers stand
before a decoder that writes texts and the places of things in the picture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.nn import Linear, Module
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Attention
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size
from pyapp.text.tokenization.tokenizer import Tokenizer

from .loading import picture_text
from .loading.config import require, stated
from .loading.picture_text import PictureTextConfig
from .loading.towers_config import ClipVisionConfig

MODEL_TYPES = ("kosmos-2",)
IMAGE_PROCESSOR = "CLIP"  # of files that name none
IGNORED = r".*\.embeddings\.position_ids"
NAMES = {
    "text_model.": "language_model.", "vision_model.model.": "vision_tower.",
    "image_to_text_projection.": "multi_modal_projector.",
}  # fmt: skip


PLACEHOLDER, PART, END = "<image>", "</chunk>", "</image>"


def with_tokens(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer of files, in which the tokens around pictures are ordinary words, with these as special tokens.
    ModelError for one without them.
    """
    document, missing = json.loads(tokenizer.to_json()), {PLACEHOLDER, PART, END}
    for entry in document.get("added_tokens") or []:
        if entry.get("content") in missing:
            entry["special"] = True
            missing.remove(entry["content"])
    if missing:
        raise ModelError(
            f"its tokenizer has no token {', '.join(sorted(missing))}", hint="Take the files of kosmos-2-patch14-224"
        )
    return Tokenizer(document, tokenizer.settings)


@dataclass(frozen=True, kw_only=True)
class TowerConfig(ClipVisionConfig):
    """The fields of vision_config."""

    model_type = "kosmos_2_vision_model"
    patch = 14

    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 24
    num_attention_heads: int = 16


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json. Its files say no token of a picture's vectors: it is one that
    ends chunks of documents, and that no prompt has.
    """

    model_type = "kosmos-2"
    text = "kosmos_2_text_model"
    tower = "kosmos_2_vision_model"
    towers = {"kosmos_2_vision_model": TowerConfig}
    token = ("image_token_id", 64005)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        return super().from_dict({cls.token[0]: cls.token[1], **values})

    def check(self) -> None:
        super().check()
        count = self.values.get("latent_query_num", 64)
        known = type(count) is int and 1 <= count <= 1 << 14
        require(known, f"latent_query_num is {count!r:.60}, expected 1 to 16,384")
        heads, width = self.text_config.num_attention_heads, self.text_config.hidden_size
        require(width % heads == 0, f"{heads} heads do not divide {width}")

    count = stated("latent_query_num", 64)  # the number of queries


class Projector(Module):
    """The queries' answers: they read what is seen, and themselves."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.text_config.hidden_size
        self.dense = Linear(config.vision_config.hidden_size, width)
        self.latent_query = new_parameter(ops.zeros, config.count, width)
        self.x_attn = Attention(width, config.text_config.num_attention_heads)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, S, W) → (B, N, D)."""
        x = self.dense(x)
        queries = self.latent_query.to(x.dtype).unsqueeze(0).expand(x.shape[0], *self.latent_query.shape)
        attention = self.x_attn
        q = attention.q_proj(queries).reshape(*queries.shape[:2], attention.heads, -1)  # (B, N, H, D / H)
        k, v = attention.project(ops.cat([x, queries], 1))
        found: Tensor = attention.out_proj(attend(q, k, v, None))
        return found


class Kosmos2ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder, part = PLACEHOLDER, PART

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = VisionTower(config.vision_config, class_token=True)
        self.multi_modal_projector = Projector(config)

    @property
    def picture_tokens(self) -> int:
        return self.config.count

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        x = ops.normalize(self.vision_tower(pixel_values), dim=-1)  # (B, S, W)
        found: Tensor = self.multi_modal_projector(x)
        return found * self.language_model.stack.scale

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return f"{PLACEHOLDER}{super().picture_text(rows, columns, size)}{END}"


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for own, ours in NAMES.items():
        if name.startswith(own):
            return ours + name.removeprefix(own)
    return name


TASKS: Mapping[str, Any] = {picture_text.TASK: Kosmos2ForConditionalGeneration}
