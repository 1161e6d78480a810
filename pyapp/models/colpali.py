"""ColPali and ColQwen2 (Faysse et al. 2024, arXiv 2407.01449): a language model that sees pictures gives a vector for
each part of a page and for each token of a query, which late interaction compares.

ColPali is PaliGemma, whose tokens attend to the whole text. ColQwen2 is Qwen2-VL with one position for each token, as
transformers reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.errors import ModelError
from pyapp.nn import Linear, Module
from pyapp.nn.vision_language.picture_text import PictureTextModel

from .loading import picture_text
from .loading.architectures import seeing_architecture
from .loading.config import object_of, require, stated

MODEL_TYPES = ("colpali", "colqwen2")
IMAGE_PROCESSOR = {"colpali": "Siglip", "colqwen2": "Qwen2VL"}  # of files that name none
BASE = ""
IGNORED = rf"vlm\.(language_model\.)?lm_head\..*|vlm\.{picture_text.POOLING}"
TASK = "visual-document-retrieval"
WIDEST = 1 << 16  # numbers of a vector
# By the model_type: those of the language models that see, and what stands before a query, and with a page.
FORMS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "colpali": (("paligemma",), "Question: ", "Describe the image."),
    "colqwen2": (
        ("qwen2_vl", "qwen2_5_vl"),
        "Query: ",
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|><|endoftext|>",
    ),
}
ADDED = 10  # padding tokens after a query, whose vectors are compared too


def renamed(name: str) -> str:
    """The model's name of a file's tensor, new or old."""
    own = name.removeprefix("vlm.")
    if own == name:
        return name
    own = own.removeprefix("model.").removeprefix("language_model.").removeprefix("model.")
    of_text = own.startswith(("embed_tokens.", "layers.", "norm."))
    return "vlm." + ("language_model.model." + own if of_text else picture_text.renamed(own))


@dataclass(frozen=True)
class Config:
    """The configuration of the language model that sees, and `values`, the whole object of the config.json."""

    vlm_config: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for a language model that is not known."""
        own, kinds = object_of(values, "vlm_config"), FORMS[values["model_type"]][0]
        kind = own.get("model_type", kinds[0])
        require(kind in kinds, f"the model {kind!r:.50} in vlm_config is not known: expected {' or '.join(kinds)}")
        width = values.get("embedding_dim", 128)
        require(type(width) is int and 1 <= width <= WIDEST, f"embedding_dim is {width!r:.60}")
        module = seeing_architecture(kind)
        return cls(module.Config.from_dict({**own, "model_type": kind}), dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "vlm_config": self.vlm_config.to_dict()}

    embedding_dim = stated("embedding_dim", 128)  # the numbers of a vector

    @property
    def vocab_size(self) -> int:
        """The tokens that files have vectors of: more than the language model's, where it has none for pictures."""
        found: int = max(self.vlm_config.vocab_size, self.vlm_config.image_token_id + 1)
        return found


class PageEmbedder(Module):
    """Pages and queries to vectors of their parts. query_prefix, page_prompt: what stands before a query, and with the
    picture of a page; files may say others.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        seen = config.vlm_config
        module = seeing_architecture(seen.to_dict()["model_type"])
        self.vlm: PictureTextModel = module.TASKS[picture_text.TASK](seen)
        self.vlm.sections = ()
        del self.vlm.language_model.lm_head  # files have none
        self.embedding_proj_layer = Linear(seen.text_config.hidden_size, config.embedding_dim)
        _, self.query_prefix, self.page_prompt = FORMS[config.values["model_type"]]

    def take_prompts(self, settings: Mapping[str, Any]) -> None:
        """Sets the prompts that the object of a processor_config.json says. ModelError for those that cannot be."""
        for name, own in (("query_prefix", "query_prefix"), ("visual_prompt_prefix", "page_prompt")):
            given = settings.get(name)
            if given is None:
                continue
            places = 1 if not self.vlm.whole_prompt and own == "page_prompt" else 0
            plausible = isinstance(given, str) and len(given) <= WIDEST
            if not plausible or given.count(self.vlm.placeholder) != places:
                raise ModelError(
                    f"{name} is {given!r:.60}, expected a text with {places} {self.vlm.placeholder}",
                    where="processor_config.json",
                )  # fmt: skip
            setattr(self, own, given)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.vlm.device

    @property
    def pixels(self) -> tuple[int, int] | None:
        """The only size (height, width) of pictures that the model takes."""
        return self.vlm.pixels

    @property
    def most(self) -> int:
        """The largest number of tokens of a text."""
        found: int = self.vlm.config.max_seq_len
        return found

    def query_text(self, query: str, start: str, padding: str) -> str:
        """What the model reads of a query. `start`, `padding`: the tokens at the start of texts, and of padding."""
        start = start if self.vlm.whole_prompt else ""
        return f"{start}{self.query_prefix}{query}{padding * ADDED}\n"

    def page_text(self, rows: int, columns: int, start: str) -> str:
        """What the model reads of a page with these numbers of rows and columns of vectors (ImageProcessor.tiles)."""
        seen = self.vlm.picture_text(rows, columns)
        if self.vlm.whole_prompt:
            return f"{seen}{start}{self.page_prompt}\n"
        return self.page_prompt.replace(self.vlm.placeholder, seen, 1)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, pixel_values: Tensor | None = None) -> Tensor:
        """ids (B, T), in which the image token stands for each vector of a picture, and the pictures pixel_values (N,
        C, H, W) → vectors (B, T, embedding_dim) of length 1. attention_mask (B, T): 0 where a token is padding.
        """
        x = self.vlm.states(ids, attention_mask, pixel_values)  # (B, T, D)
        x = self.embedding_proj_layer(self.vlm.language_model.stack.normalized(x))  # (B, T, embedding_dim)
        return x / (x * x).sum(-1, keepdim=True).sqrt()


TASKS: Mapping[str, Any] = {TASK: PageEmbedder}
