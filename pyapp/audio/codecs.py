"""Sound as codes and back, by a codec that pyapp.models.loading.codec has loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ArgumentError
from pyapp.nn.audio.sound_codes import Codes

from .resampling import resample

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode_sound(loaded: Any, samples: Any, rate: int, **settings: Any) -> Codes:
    """The codes of samples, floats (N,) or (channels, N), `rate` of them a second. One channel stands for all of the
    model's. Settings: of EnCodec `bandwidth`, in kilobits a second, one of the configuration's (by default the
    smallest); of the others `codebooks`, how many (by default all). ArgumentError for other samples and settings.
    """
    model = loaded.model
    array, channels = np.atleast_2d(np.asarray(samples, np.float32)), model.config.audio_channels
    if array.ndim != 2 or array.shape[0] not in (1, channels):
        raise ArgumentError(f"encode_sound: samples have (N,) or ({channels} channels, N), not {array.shape}")
    if not array.size or not np.isfinite(array).all():
        raise ArgumentError("encode_sound: samples are finite numbers, at least one")
    if rate != model.sample_rate:
        array = np.stack([resample(row, rate, model.sample_rate) for row in array])
    array = np.ascontiguousarray(np.broadcast_to(array, (channels, array.shape[1])))
    with no_grad():
        found: Codes = model.encode(from_numpy(array).unsqueeze(0).to(model.device), **settings)
    return found


def decode_sound(loaded: Any, codes: Codes, length: int | None = None) -> tuple[NDArray[np.float32], int]:
    """The sound of the codes of one recording: float32 (channels, N), at most `length` long, and samples a second."""
    with no_grad():
        samples: NDArray[np.float32] = loaded.model.decode(codes, length)[0].cpu().numpy()
    return samples, loaded.model.sample_rate
