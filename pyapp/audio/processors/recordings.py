"""What processors take and give: recordings as arrays, and the mask of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPSILON = 1e-7  # added to the variance
MOST_FRAMES = 1 << 16  # of a spectrogram


def checked_recordings(recordings: Sequence[Any]) -> list[NDArray[np.float32]]:
    """Recordings as arrays. ArgumentError where one has no samples, or channels."""
    arrays = [np.asarray(recording, np.float32) for recording in recordings]
    if not arrays or any(array.ndim != 1 or not len(array) for array in arrays):
        raise ArgumentError(f"recordings are samples (N,), not {[array.shape for array in arrays]}")
    return arrays


def mask_of(counts: Sequence[int]) -> Tensor | None:
    """(B, F) int32, 0 after each of the counts; None where all are equal."""
    if len({*counts}) == 1:
        return None
    mask = np.arange(max(counts))[None, :] < np.array(counts)[:, None]
    return from_numpy(mask.astype(np.int32))
