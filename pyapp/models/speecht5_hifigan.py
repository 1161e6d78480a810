"""The vocoder of SpeechT5: HiFi-GAN (Kong et al. 2020, arXiv 2010.05646) for log-mel spectrograms.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn.audio.hifi_gan import HifiGan

from .loading.config import FileConfig, require
from .loading.hifi_gan_config import LARGEST, check_hifi_gan
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("speecht5_hifigan", "hifigan")  # the second is that of older files
BASE = ""


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json."""

    model_type = "speecht5_hifigan"

    model_in_dim: int = 80
    sampling_rate: int = 16000
    upsample_initial_channel: int = 512
    upsample_rates: list[int] = (4, 4, 4, 4)  # type: ignore[assignment]
    upsample_kernel_sizes: list[int] = (8, 8, 8, 8)  # type: ignore[assignment]
    resblock_kernel_sizes: list[int] = (3, 7, 11)  # type: ignore[assignment]
    resblock_dilation_sizes: list[list[int]] = ((1, 3, 5),) * 3  # type: ignore[assignment]
    leaky_relu_slope: float = 0.1
    normalize_before: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hifi_gan(self)
        require(self.model_in_dim <= LARGEST, f"model_in_dim is {self.model_in_dim}, expected at most {LARGEST}")
        require(100 <= self.sampling_rate <= 1_536_000, f"sampling_rate is {self.sampling_rate} Hz")


class Vocoder(HifiGan):
    """Spectrograms (B, bins, F) → samples (B, N)."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.model_in_dim, last_bias=True)
        self.register_buffer("mean", ops.zeros(config.model_in_dim))
        self.register_buffer("scale", ops.ones(config.model_in_dim))

    def prepared(self, frames: Tensor) -> Tensor:
        """frames (B, bins, F), standardised where the vocoder was trained so."""
        if not self.config.normalize_before:
            return frames
        return (frames - self.mean.reshape(-1, 1)) / self.scale.reshape(-1, 1)


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, "")


TASKS = {"vocoder": Vocoder}
