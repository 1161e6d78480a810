"""What the language models that see pictures, or hear, share: their configuration, whose parts are other architectures,
and the names of their tensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.nn.decoders.decoder import CausalLanguageModel

from .architectures import architecture, architecture_for
from .config import as_object, object_of, require
from .towers_config import ClipVisionConfig, SiglipVisionConfig

TASK = "image-text-to-text"
TOWERS: Mapping[str, Any] = {"clip_vision_model": ClipVisionConfig, "siglip_vision_model": SiglipVisionConfig}
POOLING = r"(model\.)?vision_tower\.(vision_model\.)?head\..*"  # of SigLIP, which gives features of whole pictures
# The names of files, old and new, and those of the parts here.
NAMES = (
    (r"model\.(vision_model|vision_tower|connector|multi_modal_projector)\.", r"\1."),
    (r"(model\.projector|mlp_AR)\.", "multi_modal_projector."),
    (r"model\.image_newline$", "image_newline"),
    (r"model\.(text_model|language_model)\.", "language_model.model."),
    (r"model\.(embed_tokens|layers|norm)\.", r"language_model.model.\1."),
    (r"(model\.)?visual\.", "vision_tower."),
    (r"lm_head\.", "language_model.lm_head."),
    (r"(query_tokens$|qformer\.|language_projection\.)", r"multi_modal_projector.\1"),
    (r"vision_(model|tower)\.(vision_model\.)?", "vision_tower."),
    (r"connector\.modality_projection\.", "multi_modal_projector."),
)


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        name = re.sub(rf"^{old}", new, name)
    return name


@dataclass(frozen=True)
class MixedTextConfig:
    """The configuration of a language model in whose text something else stands: that of the language model, and
    `values`, the whole object of the config.json. `text`: the model_type of a language model that does not say it.
    """

    text: ClassVar[str] = "llama"
    usual: ClassVar[Mapping[str, Any]] = {}  # what a text_config leaves out, besides the architecture's own defaults
    token: ClassVar[tuple[str, int]]  # the field with the token of what stands in the text, and its usual value

    text_config: Any
    values: Mapping[str, Any]

    @classmethod
    def parts(cls, values: Mapping[str, Any], other: str) -> tuple[Any, Mapping[str, Any]]:
        """The configuration of the language model, and the object of the `other` part. ModelError for a language model
        that is not known.
        """
        text, found = (object_of(values, name) for name in ("text_config", other))
        return cls.text_of(text, values.get("tie_word_embeddings") is True), found

    @classmethod
    def text_of(cls, text: Mapping[str, Any], tied: bool) -> Any:
        """The configuration of the language model from its object; `tied`: its head is the table of tokens, whatever
        that says. ModelError for one that is not known.
        """
        kind = text.get("model_type", cls.text)
        module = architecture_for(kind, "causal-lm")
        if module is None:
            raise ModelError(f"the language model {kind!r:.50} in text_config is not known")
        usual = getattr(module, "NESTED_DEFAULTS", {}) | dict(cls.usual)
        own = {name: value for name, value in text.items() if name != "kind"}  # the model_type says it
        return module.Config.from_dict({**usual, **own, **({"tie_word_embeddings": True} if tied else {})})

    def check(self) -> None:
        """ModelError for values that cannot be."""
        self.check_token()

    def check_token(self) -> None:
        """ModelError for a token, of what stands in the text, that cannot be."""
        number = self.values.get(*self.token)
        require(type(number) is int and number >= 0, f"{self.token[0]} is {number!r:.60}, expected a token")

    def language_model(self) -> CausalLanguageModel:
        """The model of text_config, with empty weights."""
        module = architecture(self.text_config.to_dict()["model_type"])
        found: CausalLanguageModel = module.TASKS["causal-lm"](self.text_config)
        return found

    @property
    def image_token_id(self) -> int:
        """The token of a picture's, or a recording's, vectors."""
        found: int = self.values.get(self.token[0], self.token[1])
        return found

    @property
    def vocab_size(self) -> int:
        """The tokens of the language model."""
        found: int = self.text_config.vocab_size
        return found

    @property
    def max_seq_len(self) -> int:
        """The tokens that the language model can read."""
        found: int = self.text_config.max_seq_len
        return found

    @property
    def usual_seq_len(self) -> int:
        """The tokens for which a cache has memory unless more are asked for."""
        found: int = self.text_config.usual_seq_len
        return found


@dataclass(frozen=True)
class PictureTextConfig(MixedTextConfig):
    """The configurations of both parts. `tower`: the model_type of one that does not say it."""

    model_type: ClassVar[str]
    tower: ClassVar[str] = "siglip_vision_model"
    towers: ClassVar[Mapping[str, Any]] = TOWERS

    vision_config: Any

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        text, vision = cls.parts(values, "vision_config")
        kind = vision.get("model_type", cls.tower)
        tower = cls.towers.get(kind) if isinstance(kind, str) else None
        if tower is None:
            raise ModelError(
                f"the tower {kind!r:.50} in vision_config is not known", hint=f"Known: {', '.join(cls.towers)}"
            )
        made = cls(text, dict(values), tower.from_dict(vision))
        made.check()
        return made

    def check(self) -> None:
        """ModelError for values that cannot be."""
        super().check()
        grid = self.vision_config.grid
        require(grid[0] == grid[1], f"the tower has {grid[0]} x {grid[1]} patches, expected as many rows as columns")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"model_type": self.values.get("model_type", self.model_type), "text_config": self.text_config.to_dict()}
        return {**self.values, **own, "vision_config": self.vision_config.to_dict()}


def without_mrope(text: Mapping[str, Any]) -> dict[str, Any]:
    """The object of a text_config whose rotary positions are those of a plain language model, besides their
    mrope_section. ModelError for rotary positions that are not an object.
    """
    rotary = as_object(text.get("rope_parameters") or text.get("rope_scaling") or {}, "rope_parameters")
    form = rotary.get("rope_type", rotary.get("type", "mrope"))
    rotary = {**rotary, "rope_type": "default" if form == "mrope" else form, "type": None}
    return {**text, "rope_parameters": rotary, "rope_scaling": None}


@dataclass(frozen=True)
class GridConfig(PictureTextConfig):
    """As PictureTextConfig, of models whose text has three rotary positions."""

    @property
    def usual_sections(self) -> tuple[int, ...]:
        """The sections where the file says none."""
        return 16, 24, 24

    def check_sections(self) -> None:
        """ModelError for sections that are not those of a head."""
        share = self.text_config.rope_parameters.get("partial_rotary_factor", 1.0)
        plausible = type(share) in (int, float) and 0 < share <= 1
        require(plausible, f"partial_rotary_factor is {share!r:.60}, expected a number up to 1")
        given, half = self._given_sections, int(self.text_config.head_dim * share) // 2
        plausible = isinstance(given, list | tuple) and all(type(n) is int and n > 0 for n in given)
        require(
            plausible and sum(given) == half, f"mrope_section is {given!r:.60}, expected numbers that add up to {half}"
        )

    @property
    def _given_sections(self) -> Any:
        """How many pairs of a head's columns turn by the positions of time, rows and columns."""
        return self.text_config.rope_parameters.get("mrope_section", self.usual_sections)

    @property
    def sections(self) -> tuple[int, ...]:
        """Those of GridRotation."""
        return tuple(self._given_sections)


@dataclass(frozen=True)
class LayeredConfig(PictureTextConfig):
    """As PictureTextConfig, of models that say which of the tower's layers they read. `layer`: the usual one."""

    layer: ClassVar[int] = -2

    def check(self) -> None:
        super().check()
        self.check_layers()

    def check_layers(self) -> None:
        """ModelError for layers that the tower does not have."""
        given = self.values.get("vision_feature_layer", self.layer)
        counts, layers = self.counts, self.vision_config.num_hidden_layers
        plausible = 1 <= len(counts) <= 64 and all(type(count) is int and 0 <= count <= layers for count in counts)
        require(plausible, f"vision_feature_layer is {given!r:.60}, expected numbers of the tower's {layers} layers")
        kind = self.values.get("vision_feature_select_strategy", "default")
        require(kind in ("default", "full"), f"vision_feature_select_strategy is {kind!r:.60}")

    @property
    def counts(self) -> list[Any]:
        """After how many of the tower's layers the states are read."""
        given, last = self.values.get("vision_feature_layer", self.layer), self.vision_config.num_hidden_layers + 1
        return [i + last if type(i) is int and i < 0 else i for i in (given if isinstance(given, list) else [given])]

    @property
    def without_first(self) -> bool:
        """Whether the first vector, that of the class token, is left out."""
        found: bool = self.values.get("vision_feature_select_strategy", "default") == "default"
        return found
