"""The configurations of encoders of sound."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

from pyapp.dataclass import dataclass

from .config import (
    FileConfig,
    check_depth,
    check_divides,
    check_heads,
    check_padding,
    check_token,
    read_config,
    require,
    rope_parameters,
)
from .labels import Labelled

CONVOLUTIONS = ("conv_dim", "conv_stride", "conv_kernel")
DELAYS = ("tdnn_dim", "tdnn_kernel", "tdnn_dilation")
MOST_LAYERS, LARGEST = 32, 1 << 13  # of convolutions, and their channels and samples
NORMS = ("group", "layer")


@dataclass(frozen=True, kw_only=True)
class SoundConfig(Labelled, FileConfig):
    """The fields of config.json. A model adds its own."""

    vocab_size: int = 32
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    feat_extract_norm: str = "group"
    feat_extract_activation: str = "gelu"
    conv_dim: list[int] = (512,) * 7  # type: ignore[assignment]
    conv_stride: list[int] = (5, 2, 2, 2, 2, 2, 2)  # type: ignore[assignment]
    conv_kernel: list[int] = (10, 3, 3, 3, 3, 2, 2)  # type: ignore[assignment]
    conv_bias: bool = False
    num_conv_pos_embeddings: int = 128
    num_conv_pos_embedding_groups: int = 16
    do_stable_layer_norm: bool = False
    mask_time_prob: float = 0.05
    mask_feature_prob: float = 0.0
    pad_token_id: int = 0
    use_weighted_layer_sum: bool = False
    classifier_proj_size: int = 256
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        lists: dict[str, Any] = {name: getattr(self, name) for name in CONVOLUTIONS}
        for name, values in lists.items():
            plausible = 0 < len(values) <= MOST_LAYERS and all(type(v) is int and 0 < v <= LARGEST for v in values)
            require(plausible, f"{name} is {values!r:.60}, expected whole numbers up to {LARGEST}")
        lengths = {name: len(values) for name, values in lists.items()}
        require(len({*lengths.values()}) == 1, f"the convolutions have different numbers of layers: {lengths}")
        require(
            self.feat_extract_norm in NORMS,
            f"feat_extract_norm is {self.feat_extract_norm!r:.40}, expected {' or '.join(NORMS)}",
        )
        for name in ("num_attention_heads", "num_conv_pos_embedding_groups"):
            check_divides(self, name, "hidden_size")
        size = self.classifier_proj_size
        require(size <= LARGEST, f"classifier_proj_size is {size}, expected at most {LARGEST}")
        limit = self.num_conv_pos_embeddings
        require(limit <= LARGEST, f"num_conv_pos_embeddings is {limit}, expected at most {LARGEST}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        require(
            not values.get("add_adapter"),
            "it has add_adapter true: convolutions after the encoder are not known",
            "Choose a model without them, such as facebook/wav2vec2-base-960h",
        )
        return read_config(cls, values)

    @property
    def adapter_size(self) -> int | None:
        """The features between the two matrices of the adapter in each layer; None: there are none."""
        return None

    @property
    def samples_per_moment(self) -> int:
        """The samples between two moments."""
        return prod(self.conv_stride)


@dataclass(frozen=True, kw_only=True)
class SpeakerConfig(SoundConfig):
    """The fields of encoders that may have layers of time delays for the vectors of voices."""

    tdnn_dim: list[int] = (512, 512, 512, 512, 1500)  # type: ignore[assignment]
    tdnn_kernel: list[int] = (5, 3, 3, 1, 1)  # type: ignore[assignment]
    tdnn_dilation: list[int] = (1, 2, 3, 1, 1)  # type: ignore[assignment]
    xvector_output_dim: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delays(self)


def check_delays(config: Any) -> None:
    """ModelError for layers of time delays, by the fields of SpeakerConfig, that no model has."""
    lists: dict[str, Any] = {name: getattr(config, name) for name in DELAYS}
    for name, values in lists.items():
        plausible = 0 < len(values) <= MOST_LAYERS and all(type(v) is int and 0 < v <= LARGEST for v in values)
        require(plausible, f"{name} is {values!r:.60}, expected whole numbers up to {LARGEST}")
    lengths = {name: len(values) for name, values in lists.items()}
    require(len({*lengths.values()}) == 1, f"the time delays have different numbers of layers: {lengths}")
    size = config.xvector_output_dim
    require(size <= LARGEST, f"xvector_output_dim is {size}, expected at most {LARGEST}")


@dataclass(frozen=True)
class WriterConfig(FileConfig):
    """What configurations of models have in common that write what they hear (Moonshine)."""

    rotated: ClassVar[float]  # the part of a head that is rotated, where a file does not say it

    vocab_size: int = 32768
    max_position_embeddings: int = 512
    rope_parameters: dict[str, Any] | None = None
    attention_bias: bool = False
    bos_token_id: int = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 1
    pad_token_id: int | None = None
    tie_word_embeddings: bool = True

    def check(self, heads: int, *layers: int) -> None:
        """ModelError for sizes that no model has."""
        own: Any = self
        check_depth(max(layers))
        check_heads(own.hidden_size, heads, heads, getattr(self, "head_dim", None), self.max_position_embeddings)
        check_padding(self.pad_token_id, self.vocab_size)
        check_token("decoder_start_token_id", self.decoder_start_token_id, self.vocab_size)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        rotary = {"partial_rotary_factor": cls.rotated} | rope_parameters(values)
        return read_config(cls, {**values, "rope_parameters": rotary})

    @property
    def head_size(self) -> int:
        """The features of a head."""
        own: Any = self
        found: int = getattr(self, "head_dim", None) or own.hidden_size // own.num_attention_heads
        return found

    @property
    def rotary(self) -> dict[str, Any]:
        """The settings of RotaryTable."""
        parameters = self.rope_parameters or {"partial_rotary_factor": self.rotated}
        positions = self.max_position_embeddings
        return {"head_dim": self.head_size, "max_position_embeddings": positions, "rope_parameters": parameters}
