"""Fuyu (Adept 2023, https://www.adept.ai/blog/fuyu-8b): the patches of a picture of any size, projected by one layer,
stand row by row before Persimmon's text, and a token ends each row. There is no tower.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear
from pyapp.nn.vision_language.picture_text import ANY, GridPictures, Size

from .loading import picture_text
from .loading.config import FileConfig, require
from .loading.picture_text import PictureTextConfig

MODEL_TYPES = ("fuyu",)
IMAGE_PROCESSOR = "Fuyu"  # of files that name none
THETA = 25000.0  # of the text's rotary positions, where files say none
# What files leave out, or have beside each other with the fields of pictures.
TEXT = {
    "vocab_size": 262144, "max_position_embeddings": 16384, "hidden_size": 4096, "intermediate_size": 16384,
    "num_hidden_layers": 36, "num_attention_heads": 64, "hidden_act": "relu2", "layer_norm_eps": 1e-5,
    "qk_layernorm": True,
}  # fmt: skip
ROTARY = ("rope_scaling", "rope_theta", "rope_parameters", "partial_rotary_factor")


@dataclass(frozen=True, kw_only=True)
class PatchesConfig(FileConfig):
    """The fields of pictures; hidden_size is that of the text."""

    model_type = "fuyu"
    spatial_merge_size = 1

    hidden_size: int
    patch_size: int = 30
    num_channels: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.patch_size <= 256, f"patch_size is {self.patch_size:,}, expected at most 256")
        require(self.num_channels == 3, f"num_channels is {self.num_channels:,}, expected 3")


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "fuyu"
    text = "persimmon"
    token = ("image_token_id", 71011)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; older ones have the fields of the text in it."""
        own = values.get("text_config")
        if own is None:
            own = {name: values[name] for name in (*TEXT, *ROTARY) if values.get(name) is not None}
        if isinstance(own, dict):
            rotary = {} if own.get("rope_parameters") else {"rope_theta": THETA}
            own = {**TEXT, **rotary, "model_type": cls.text, **own}
        text, _ = cls.parts({**values, "text_config": own, "patches": {}}, "patches")
        fields = ("patch_size", "num_channels")
        sees = {name: values[name] for name in fields if values.get(name) is not None}
        made = cls(text, dict(values), PatchesConfig.from_dict({**sees, "hidden_size": text.hidden_size}))
        made.check_token()
        return made

    @property
    def sections(self) -> tuple[int, ...]:
        """The text has plain positions."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": self.model_type, "text_config": self.text_config.to_dict()}


class Patches(Linear):
    """A vector of the text's size of each patch."""

    def __init__(self, config: PatchesConfig) -> None:
        super().__init__(config.num_channels * config.patch_size**2, config.hidden_size)
        self.side = config.patch_size

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, rows * columns, D), row by row."""
        count, channels, side = int(x.shape[0]), int(x.shape[1]), self.side
        rows, columns = int(x.shape[2]) // side, int(x.shape[3]) // side
        x = x.reshape(count, channels, rows, side, columns, side).permute(0, 2, 4, 3, 5, 1)
        return super().forward(x.reshape(count, rows * columns, side * side * channels))


class FuyuForCausalLM(GridPictures):
    """Pictures and text to text."""

    name = "Fuyu"
    placeholder = part = "|SPEAKER|"
    prompt_form = ("<s>", "<0x04>")
    tower_class = Patches

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return (self.part * columns + "|NEWLINE|") * rows


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return picture_text.renamed(re.sub(r"^(model\.)?vision_embed_tokens\.", "vision_tower.", name))


TASKS: Mapping[str, Any] = {picture_text.TASK: FuyuForCausalLM}
