"""wav2vec 2.0 BERT (Seamless Communication 2023, arXiv 2312.05187), which names a character or labels for each moment,
labels of a recording, or the vector of a voice: layers
that attend, by content and near distances (Shaw et al. 2018, arXiv 1803.02155), and convolve over what was before
(Gulati et al. 2020, arXiv 2005.08100), over pairs of frames of log-mel filter banks.

`attention_mask` (B, F) is 0 where a frame is padding, which stands at the end. Parameters have the names of Hugging
Face's files.
"""

from __future__ import annotations

from pyapp.audio.processors.banks import PairedBankProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.nn import Linear, Module
from pyapp.nn.audio.near_conformer import NearConformer
from pyapp.nn.audio.sound import MomentLabels, SoundClassifier
from pyapp.nn.audio.speakers import SpeakerEncoder

from .loading.config import FileConfig, require
from .loading.labels import Labelled
from .loading.sound_config import check_delays

MODEL_TYPES = ("wav2vec2-bert",)
BASE = "wav2vec2_bert"
PROCESSOR = PairedBankProcessor
LARGEST = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, FileConfig):
    """The fields of config.json."""

    model_type = "wav2vec2-bert"

    vocab_size: int = 32
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    feature_projection_input_dim: int = 160
    hidden_act: str = "swish"
    layer_norm_eps: float = 1e-5
    mask_time_prob: float = 0.05
    mask_feature_prob: float = 0.0
    pad_token_id: int = 0
    add_adapter: bool = False
    adapter_kernel_size: int = 3
    adapter_stride: int = 2
    num_adapter_layers: int = 1
    adapter_act: str = "relu"
    use_intermediate_ffn_before_adapter: bool = False
    output_hidden_size: int | None = None
    position_embeddings_type: str | None = "relative_key"
    left_max_position_embeddings: int = 64
    right_max_position_embeddings: int = 8
    conv_depthwise_kernel_size: int = 31
    use_weighted_layer_sum: bool = False
    classifier_proj_size: int = 768
    tdnn_dim: list[int] = (512, 512, 512, 512, 1500)  # type: ignore[assignment]
    tdnn_kernel: list[int] = (5, 3, 3, 1, 1)  # type: ignore[assignment]
    tdnn_dilation: list[int] = (1, 2, 3, 1, 1)  # type: ignore[assignment]
    xvector_output_dim: int = 512
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for width in (self.hidden_size, self.output_size):
            heads = self.num_attention_heads
            require(width <= LARGEST and width % heads == 0, f"num_attention_heads {heads} does not divide {width}")
        kind = self.position_embeddings_type
        require(kind == "relative_key", f"position_embeddings_type is {kind!r:.40}, expected 'relative_key'")
        for name in ("left_max_position_embeddings", "right_max_position_embeddings", "feature_projection_input_dim",
                     "conv_depthwise_kernel_size", "adapter_kernel_size", "adapter_stride"):  # fmt: skip
            require(getattr(self, name) <= LARGEST, f"{name} is {getattr(self, name):,}, expected at most {LARGEST:,}")
        require(self.num_adapter_layers <= 64, f"num_adapter_layers is {self.num_adapter_layers}")
        size = self.classifier_proj_size
        require(size <= LARGEST, f"classifier_proj_size is {size:,}, expected at most {LARGEST:,}")
        check_delays(self)

    @property
    def output_size(self) -> int:
        """The features of what the adapter gives."""
        return self.output_hidden_size or self.hidden_size

    @property
    def samples_per_moment(self) -> int:
        """The samples between two moments."""
        pooled = self.adapter_stride**self.num_adapter_layers if self.add_adapter else 1
        return PairedBankProcessor.samples * pooled


def encoder(config: Config) -> NearConformer:
    """The encoder of a configuration."""
    return NearConformer(config)


class Wav2Vec2BertForCTC(Module):
    """Scores of characters for each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.wav2vec2_bert = NearConformer(config)
        self.lm_head = Linear(config.output_size if config.add_adapter else config.hidden_size, config.vocab_size)

    @property
    def encoder(self) -> NearConformer:
        """The encoder below the head."""
        return self.wav2vec2_bert

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.lm_head.weight.device

    def forward(self, input_features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features (B, F, C), attention_mask (B, F) → logits (B, T, V)."""
        return self.lm_head(self.wav2vec2_bert(input_features, attention_mask))


def labelling(config: Config) -> NearConformer:
    """The encoder below a head for labels, or for vectors."""
    require(not config.add_adapter, "wav2vec 2.0 BERT with labels and with an adapter (add_adapter) is not supported")
    return encoder(config)


class Wav2Vec2BertForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, labelling(config))


class Wav2Vec2BertForAudioFrameClassification(MomentLabels):
    """Scores of the labels of each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, labelling(config))


class Wav2Vec2BertForXVector(SpeakerEncoder):
    """Vectors of voices."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, labelling(config))


TASKS = {
    "speech-recognition": Wav2Vec2BertForCTC,
    "audio-classification": Wav2Vec2BertForSequenceClassification,
    "audio-frame-classification": Wav2Vec2BertForAudioFrameClassification,
    "audio-xvector": Wav2Vec2BertForXVector,
}
