"""YOSO (Zeng et al. 2021, arXiv 2111.09714): BERT's layers whose attention is the chance that random hashes of a query
and a key are the same. The authors draw hashes; here the chance itself is computed, which their draws estimate.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.nn import Conv2d, Module
from pyapp.nn.encoders.encoders import (
    ActivatedChoiceHead,
    AnswersHead,
    BertEmbeddings,
    BertLayers,
    DenseClassifierHead,
    Encoder,
    PredictionsHead,
    SelfAttention,
    TokenLabelsHead,
    choosing,
    headed,
    visible_keys,
)  # fmt: skip

from .loading.config import require
from .loading.encoder_config import BertConfig

MODEL_TYPES = ("yoso",)
BASE = "yoso"  # the encoder's name in files with a head
POSITION_OFFSET = 2  # rows of the table of positions before the first position
LONGEST_CODE = 64
WIDEST_KERNEL = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. hash_code_len: the bits of a hash."""

    model_type = "yoso"

    max_position_embeddings: int = 4096
    type_vocab_size: int = 1
    pad_token_id: int | None = 1
    hash_code_len: int = 9
    conv_window: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        bits, kernel = self.hash_code_len, self.conv_window
        require(bits <= LONGEST_CODE, f"hash_code_len is {bits:,}, expected at most {LONGEST_CODE}")
        require(
            kernel is None or (kernel % 2 == 1 and kernel < WIDEST_KERNEL),
            f"conv_window is {kernel}, expected an odd number below {WIDEST_KERNEL:,}",
        )


class CollisionAttention(SelfAttention):
    """Attention by the chance of equal hashes, with a convolution of the values where `conv_window` says one."""

    def __init__(self, config: Config) -> None:
        heads, kernel = config.num_attention_heads, config.conv_window
        super().__init__(config.hidden_size, heads)
        self.bits = config.hash_code_len
        self.conv: Conv2d | None = None
        if kernel is not None:
            self.conv = Conv2d(heads, heads, (kernel, 1), padding=(kernel // 2, 0), groups=heads, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T) → (B, T, D)."""
        batch, tokens, width = x.shape
        qkv = self.joined(self, x).reshape(batch, tokens, 3 * self.heads, -1)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads).transpose(1, 2) for i in range(3))  # (B, H, T, D / H)
        seen = v if mask is None else v * mask.transpose(2, 3).to(v.dtype)  # (B, H, T, D / H), zeros for padding
        alike = ops.normalize(q, dim=-1) @ ops.normalize(k, dim=-1).transpose(2, 3)  # (B, H, T, T), cosines
        y = ops.normalize(self._chances(alike) @ seen, dim=-1)
        if self.conv is not None:
            y = y + self.conv(seen.contiguous())
        return y.transpose(1, 2).reshape(batch, tokens, width)

    def _chances(self, alike: Tensor) -> Tensor:
        """The chances of equal hashes (B, H, T, T) of cosines. Their slope is infinite where the cosine is 1; as in the
        paper (section 3.3), it is replaced by its lower bound, half the bits times the chance.
        """
        with no_grad():
            chances = (1 - alike.detach().clamp(-1, 1).acos() / pi) ** self.bits
        if not alike.requires_grad:
            return chances
        return chances * (1 + self.bits / 2 * (alike - alike.detach()))


class Yoso(Encoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(config, more=POSITION_OFFSET)
        self.encoder = BertLayers(config, CollisionAttention)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        positions = ops.arange(ids.shape[1], dtype="int32", device=ids.device) + POSITION_OFFSET
        return self.encoder(self.embeddings(ids, type_ids, positions), visible_keys(attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Yoso,
    "masked-lm": headed(PredictionsHead, BASE, Yoso),
    "sequence-classification": headed(DenseClassifierHead, BASE, Yoso),
    "token-classification": headed(TokenLabelsHead, BASE, Yoso),
    "question-answering": headed(AnswersHead, BASE, Yoso),
    "multiple-choice": choosing(BASE, Yoso, ActivatedChoiceHead, "pre_classifier", "relu"),
}
