"""ViLT (Kim et al. 2021, arXiv 2102.03334): one transformer over the words of a question and the patches of a picture,
which chooses one of the answers that it knows.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import GELU, Embedding, LayerNorm, Linear, Module, Sequential
from pyapp.nn.encoders.encoders import BertEmbeddings, Pooler
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import check_ids
from pyapp.nn.vision.vision import (
    ImageModel,
    PatchEmbeddings,
    PatchLayers,
    as_sequence,
    check_pictures,
    token,
    with_tokens,
)

from .loading.config import check_padding, require
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("vilt",)
IMAGE_PROCESSOR = "Vilt"  # of files that name none
BASE = "vilt"
IGNORED = r".*\.(position_ids|token_type_ids)"
KINDS = 2  # of what stands in the sequence: words and patches; more are of models that compare two pictures


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    image = 384
    patch = 32

    vocab_size: int = 30522
    type_vocab_size: int = 2
    modality_type_vocab_size: int = KINDS
    max_position_embeddings: int = 40
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)
        kinds = self.modality_type_vocab_size
        require(kinds >= KINDS, f"modality_type_vocab_size is {kinds}, expected {KINDS} or more")


class Embeddings(Module):
    """Words and patches in one sequence: each with its place and its kind."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.grid = config.grid
        self.text_embeddings = BertEmbeddings(config)
        self.cls_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width)
        self.token_type_embeddings = Embedding(config.modality_type_vocab_size, width)

    def forward(self, pixel_values: Tensor, ids: Tensor, type_ids: Tensor | None) -> Tensor:
        """pixel_values (B, C, H, W), ids and type_ids (B, T) → (B, T + 1 + patches, D)."""
        kinds = self.token_type_embeddings(ops.arange(KINDS, dtype="int32", device=ids.device))  # (2, D)
        words = self.text_embeddings(ids, type_ids) + kinds[0]
        x = self.patch_embeddings.projection(pixel_values)  # (B, D, rows, columns)
        x = with_tokens(as_sequence(x) + self._places(x.shape[2], x.shape[3]), self._first())
        return ops.cat([words, x + kinds[1]], 1)

    def _first(self) -> Tensor:
        """The class token at its place (1, 1, D)."""
        return self.cls_token + self.position_embeddings.narrow(1, 0, 1)

    def _places(self, rows: int, columns: int) -> Tensor:
        """The positions (1, rows * columns, D) of patches, stretched over the picture."""
        table = self.position_embeddings.narrow(1, 1, self.grid[0] * self.grid[1])
        square = table.reshape(1, *self.grid, table.shape[2]).permute(0, 3, 1, 2)
        return as_sequence(ops.interpolate(square, size=(rows, columns), mode="bilinear", align_corners=True))


class Vilt(ImageModel):
    """The encoder, for pictures of any size, with the layer over its first token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.encoder = PatchLayers(
            config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.intermediate_size,
            config.hidden_act, config.layer_norm_eps, config.qkv_bias,
        )  # fmt: skip
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.pooler = Pooler(config.hidden_size)

    def forward(self, pixel_values: Tensor, ids: Tensor, type_ids: Tensor | None = None) -> Tensor:
        """pixel_values (B, C, H, W), ids (B, T) of texts of one length → hidden states (B, T + 1 + patches, D)."""
        check_ids(self, ids, None)
        check_pictures("ViLT", pixel_values, self.config.num_channels, least=max(self.config.patch_size))
        return self.layernorm(self.encoder(self.embeddings(pixel_values, ids, type_ids)))


class ViltForQuestionAnswering(ImageModel):
    """Scores of the answers to questions about pictures."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width = config, config.hidden_size
        self.vilt = Vilt(config)
        self.classifier = Sequential(
            Linear(width, 2 * width), LayerNorm(2 * width), GELU(), Linear(2 * width, len(config.labels))
        )

    @property
    def most(self) -> int:
        """The largest number of tokens of a question."""
        return self.vilt.most

    def forward(self, pixel_values: Tensor, ids: Tensor, type_ids: Tensor | None = None) -> Tensor:
        """pixel_values (B, C, H, W), ids (B, T) of questions of one length → logits (B, answers)."""
        return self.classifier(self.vilt.pooler(self.vilt(pixel_values, ids, type_ids)))


TASKS: Mapping[str, Callable[[Config], Module]] = {"visual-question-answering": ViltForQuestionAnswering}
