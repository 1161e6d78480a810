"""CLIP (Radford et al. 2021, arXiv 2103.00020): a Vision Transformer and a transformer of texts, trained to give a
picture and its text the same direction. MetaCLIP 2 (Chuang et al. 2025, arXiv 2507.22062) reads 300 languages.

Parameters have the names of Hugging Face's files. OpenCLIP's (loading/open_clip.py) have others (`renamed`, `stored`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.vision.towers import ClipClassifier, ProjectedTowers, TextTower, at_ends

from .loading.stored import Stored, cut_apart
from .loading.towers_config import ClipTextConfig, ClipVisionConfig, ProjectedConfig

MODEL_TYPES = ("clip", "metaclip_2")
IMAGE_PROCESSOR = "CLIP"  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids|(text\.)?attn_mask"
# The names of OpenCLIP's files: what a name begins with, and what takes its place.
_LAYER = r"((?:vision|text)_model\.encoder\.layers\.\d+\.)"
OLDER_NAMES = {
    r"visual\.class_embedding$": "vision_model.embeddings.class_embedding",
    r"visual\.positional_embedding$": "vision_model.embeddings.position_embedding.weight",
    r"visual\.conv1\.": "vision_model.embeddings.patch_embedding.", r"visual\.ln_pre\.": "vision_model.pre_layrnorm.",
    r"visual\.ln_post\.": "vision_model.post_layernorm.",
    r"visual\.transformer\.resblocks\.": "vision_model.encoder.layers.",
    r"(text\.)?token_embedding\.": "text_model.embeddings.token_embedding.",
    r"(text\.)?positional_embedding$": "text_model.embeddings.position_embedding.weight",
    r"(text\.)?ln_final\.": "text_model.final_layer_norm.", r"text\.text_projection$": "text_projection",
    r"(text\.)?transformer\.resblocks\.": "text_model.encoder.layers.",
    rf"{_LAYER}ln_([12])\.": r"\1layer_norm\2.", rf"{_LAYER}attn\.": r"\1self_attn.",
    rf"{_LAYER}mlp\.c_fc\.": r"\1mlp.fc1.", rf"{_LAYER}mlp\.c_proj\.": r"\1mlp.fc2.",
}  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a tensor of OpenCLIP's files."""
    for old, new in OLDER_NAMES.items():
        if re.match(old, name):
            name = re.sub(rf"^{old}", new, name)
    return name


def _transposed(parts: Sequence[Tensor]) -> Tensor:
    return parts[0].T.contiguous()


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """The projections of OpenCLIP's files, which are transposed, and the parts of its matrices of queries, keys and
    values.
    """
    if "visual.proj" not in names:
        return {}
    found = {
        "visual_projection.weight": Stored(("visual.proj",), join=_transposed),
        "text_projection.weight": Stored(("text_projection",), join=_transposed),
    }
    for tower, own in (("vision_model", config.vision_config), ("text_model", config.text_config)):
        for layer in range(own.num_hidden_layers):
            start = f"{tower}.encoder.layers.{layer}.self_attn."
            for kind in ("weight", "bias"):
                parts = [f"{start}{part}_proj.{kind}" for part in "qkv"]
                found |= cut_apart(f"{start}in_proj_{kind}", parts, own.hidden_size)
    return found


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = ClipTextConfig
    vision_class = ClipVisionConfig


class Clip(ProjectedTowers):
    """Both transformers, and projections into the common space."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, TextTower(config.text_config, causal=True))

    def text_features(self, ids: Tensor) -> Tensor:
        x = self.text_model(ids)  # (N, T, D)
        end, kind = self.config.text_config.eos_token_id, self.config.values.get("model_type")
        return self.text_projection(at_ends(x, ids, end, older=kind != MODEL_TYPES[1]))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "zero-shot-image-classification": Clip,
    "image-classification": ClipClassifier,
}
