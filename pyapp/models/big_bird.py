"""BigBird (Zaheer et al. 2020, arXiv 2007.14062): BERT whose long texts are read in blocks: a block attends to its
neighbours, to the first and the last block, and to some others.

The other blocks are random while a model is trained; afterwards transformers takes the first block for each of them,
and so does this module. Texts that are not longer than all these blocks attend to themselves whole. Parameters have the
names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.encoders.block_attention import BlockAttention, in_whole_blocks, longest_whole
from pyapp.nn.encoders.encoders import (
    BertEmbeddings,
    BertLayers,
    Chooser,
    DenseClassifierHead,
    Encoder,
    Headed,
    Intermediate,
    NormedResidual,
    PredictionsHead,
    TokenLabelsHead,
    choosing,
    first_token,
    headed,
    visible_keys,
)  # fmt: skip

from .loading.config import require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("big_bird",)
BASE = "bert"  # the encoder's name in files with a head
FULL, SPARSE = "original_full", "block_sparse"


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "big_bird"

    hidden_act: str = "gelu_new"
    max_position_embeddings: int = 4096
    type_vocab_size: int = 2
    pad_token_id: int | None = 0
    sep_token_id: int = 66
    attention_type: str = SPARSE
    block_size: int = 64
    num_random_blocks: int = 3
    use_bias: bool = True
    rescale_embeddings: bool = False
    is_decoder: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = (FULL, SPARSE)
        require(
            self.attention_type in kinds,
            f"attention_type is {self.attention_type!r:.40}, expected {' or '.join(kinds)}",
        )
        require(self.num_random_blocks >= 1, f"num_random_blocks is {self.num_random_blocks}, expected 1 or more")
        require(not self.is_decoder, "BigBird as a decoder is not known")

    @property
    def whole(self) -> int:
        """The largest number of tokens of a text that attends to itself whole."""
        if self.attention_type == FULL:
            return self.max_position_embeddings
        return longest_whole(self.block_size, self.num_random_blocks)


def block_attention(config: Config) -> BlockAttention:
    """The self-attention of a layer."""
    sizes = config.block_size, config.num_random_blocks, config.whole
    return BlockAttention(config.hidden_size, config.num_attention_heads, *sizes, config.use_bias)


class Embeddings(BertEmbeddings):
    """BERT's embeddings, whose words may be scaled by the root of their size."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.word_scale = sqrt(config.hidden_size) if config.rescale_embeddings else None


class BigBird(Encoder):
    """The encoder; with `pooler`, also a layer over the first token, which no task here reads."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.hides_padding = config.attention_type == FULL
        self.embeddings = Embeddings(config)
        self.encoder = BertLayers(config, block_attention)
        self.pooler = Linear(config.hidden_size, config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x, mask = self.embeddings(ids, type_ids), visible_keys(attention_mask)
        if ids.shape[1] > self.config.whole:
            x, mask = in_whole_blocks(x, mask, self.config.block_size)
        return self.encoder(x, mask).narrow(1, 0, ids.shape[1])


class Answers(Module):
    """BERT's feed-forward part and a linear layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.output = NormedResidual(config.intermediate_size, config.hidden_size, config.layer_norm_eps)
        self.qa_outputs = Linear(config.hidden_size, 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, 2)."""
        return self.qa_outputs(self.output(self.intermediate(x), x))


class BigBirdForQuestionAnswering(Headed):
    """Scores of an answer's start and end at each token, but for those of the question, up to the first separator."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, BigBird(config, pooler=False))
        self.qa_classifier = Answers(config)

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None, *page: Tensor | None
    ) -> Tensor:
        """ids (B, T) → (B, T, 2). Without `type_ids`, the question's tokens have the type 0, others 1."""
        places = ops.arange(ids.shape[1], dtype="int32", device=ids.device)  # (T,)
        ends = (ids == self.config.sep_token_id).to("int32").argmax(1).unsqueeze(1)  # (B, 1)
        question = (places <= ends).to("int32")  # (B, T)
        x = self.encoder(ids, attention_mask, 1 - question if type_ids is None else type_ids)
        asked = (question * (places > 0).to("int32")).to(x.dtype).unsqueeze(-1)  # (B, T, 1)
        return self.qa_classifier(x) - asked * 1e6


class BigBirdChoiceHead(Chooser):
    """Scores of several texts, of which one is right."""

    def __init__(self, name: str, encoder: BigBird) -> None:
        super().__init__(name, encoder)
        self.classifier = Linear(encoder.config.hidden_size, 1)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → scores (B, 1)."""
        return self.classifier(ops.tanh(self.encoder.pooler(first_token(x))))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": BigBird,
    "masked-lm": headed(PredictionsHead, BASE, BigBird),
    "sequence-classification": headed(DenseClassifierHead, BASE, BigBird),
    "token-classification": headed(TokenLabelsHead, BASE, BigBird),
    "question-answering": BigBirdForQuestionAnswering,
    "multiple-choice": choosing(BASE, BigBird, BigBirdChoiceHead),
}
