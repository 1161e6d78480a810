"""Nyströmformer (Xiong et al. 2021, arXiv 2102.03902): BERT's layers with attention by way of a few landmarks, the
means of stretches of the text, whose cost grows with the length and not with its square; beside it a convolution of
values.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
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

from .loading.config import check_divides, require
from .loading.encoder_config import BertConfig

MODEL_TYPES = ("nystromformer",)
BASE = "nystromformer"  # the encoder's name in files with a head
POSITION_OFFSET = 2  # rows of the table of positions before the first position
STEPS = 6  # towards the inverse of a matrix
WIDEST_KERNEL = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. Texts that are not as long as `segment_means_seq_len` are
    filled up to it, unless there are as many landmarks: then attention is the usual one.
    """

    model_type = "nystromformer"

    hidden_act: str = "gelu_new"
    layer_norm_eps: float = 1e-5
    max_position_embeddings: int = 510
    segment_means_seq_len: int = 64
    num_landmarks: int = 64
    conv_kernel_size: int | None = 65
    inv_coeff_init_option: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        length, landmarks, kernel = self.segment_means_seq_len, self.num_landmarks, self.conv_kernel_size
        check_divides(self, "num_landmarks", "segment_means_seq_len")
        require(
            length == landmarks or length <= self.max_position_embeddings,
            f"segment_means_seq_len is {length}, of {self.max_position_embeddings} positions",
        )
        require(
            kernel is None or (kernel % 2 == 1 and kernel < WIDEST_KERNEL),
            f"conv_kernel_size is {kernel}, expected an odd number below {WIDEST_KERNEL:,}",
        )
        require(not self.inv_coeff_init_option, "Nyströmformer with inv_coeff_init_option is not known")

    @property
    def length(self) -> int | None:
        """The only number of tokens of attention by landmarks; None: there are none."""
        return None if self.segment_means_seq_len == self.num_landmarks else self.segment_means_seq_len


class LandmarkAttention(SelfAttention):
    """Attention by way of landmarks, or to all tokens, with a convolution of the values."""

    def __init__(self, config: Config) -> None:
        heads, kernel = config.num_attention_heads, config.conv_kernel_size
        super().__init__(config.hidden_size, heads)
        self.landmarks = None if config.length is None else config.num_landmarks
        self.conv: Conv2d | None = None
        if kernel is not None:
            self.conv = Conv2d(heads, heads, (kernel, 1), padding=(kernel // 2, 0), groups=heads, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        batch, tokens, width = x.shape
        qkv = self.joined(self, x).reshape(batch, tokens, 3 * self.heads, -1)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads).transpose(1, 2) for i in range(3))  # (B, H, T, D / H)
        y = ops.scaled_dot_product_attention(q, k, v, mask) if self.landmarks is None else self._near(q, k, v, mask)
        if self.conv is not None:
            y = y + self.conv(v.contiguous())
        return y.transpose(1, 2).reshape(batch, tokens, width)

    def _near(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """q, k and v (B, H, T, D / H) → (B, H, T, D / H)."""
        assert self.landmarks is not None
        size = q.shape[3]
        q, k = q * size**-0.25, k * size**-0.25
        means_q, means_k = (part.reshape(*part.shape[:2], self.landmarks, -1, size).mean(3) for part in (q, k))
        first = (q @ means_k.transpose(2, 3)).softmax(-1)  # (B, H, T, L)
        middle = (means_q @ means_k.transpose(2, 3)).softmax(-1)  # (B, H, L, L)
        last = ops.scaled_dot_product_attention(means_q, k, v, mask, scale=1.0)  # (B, H, L, D / H)
        return first @ _inverse(middle) @ last


def _inverse(x: Tensor) -> Tensor:
    """The pseudo-inverse (B, H, L, L) of attention's probabilities, nearly, by iteration (Razavi et al. 2014)."""
    unit = ops.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    y = x.transpose(2, 3) / x.sum(2).amax()
    for _ in range(STEPS):
        z = x @ y
        y = 0.25 * y @ (13 * unit - z @ (15 * unit - z @ (7 * unit - z)))
    return y


class Nystromformer(Encoder):
    """The encoder."""

    hides_padding = False  # the convolutions and the landmarks read it

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings if config.length is None else config.length
        self.embeddings = BertEmbeddings(config, more=POSITION_OFFSET)
        self.encoder = BertLayers(config, LandmarkAttention)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        tokens = ids.shape[1]
        missing = 0 if self.config.length is None else self.config.length - tokens
        if missing:
            mask = ops.ones(*ids.shape, dtype="int32", device=ids.device) if attention_mask is None else attention_mask
            attention_mask = ops.pad(mask, (0, missing))
            ids = ops.pad(ids, (0, missing), value=self.config.pad_token_id or 0)
            type_ids = None if type_ids is None else ops.pad(type_ids, (0, missing))
        positions = ops.arange(ids.shape[1], dtype="int32", device=ids.device) + POSITION_OFFSET
        x = self.encoder(self.embeddings(ids, type_ids, positions), visible_keys(attention_mask))
        return x.narrow(1, 0, tokens) if missing else x


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Nystromformer,
    "masked-lm": headed(PredictionsHead, BASE, Nystromformer),
    "sequence-classification": headed(DenseClassifierHead, BASE, Nystromformer),
    "token-classification": headed(TokenLabelsHead, BASE, Nystromformer),
    "question-answering": headed(AnswersHead, BASE, Nystromformer),
    "multiple-choice": choosing(BASE, Nystromformer, ActivatedChoiceHead, "pre_classifier", "relu"),
}
