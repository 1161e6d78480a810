"""The loss of models that spell, with connectionist temporal classification (CTC, Graves et al. 2006,
https://doi.org/10.1145/1143844.1143891).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn.losses.ctc import ctc_loss

BLANK = 0  # letters count from 1


def spelling_loss(scores: Tensor, letters: Sequence[Sequence[int]], heard: Sequence[int]) -> Tensor:
    """The CTC loss in nats per letter, a scalar.

    `scores` are log-probabilities (B, positions, letters); `letters` are the targets of each row; `heard` is the number
    of its first positions that contain them.
    """
    lengths = np.array([len(row) for row in letters])
    flat = ops.from_numpy(np.array([letter for row in letters for letter in row], np.int32))
    total = ctc_loss(scores.transpose(0, 1), flat, np.array(heard), lengths, BLANK, reduction="sum", zero_infinity=True)
    return total / max(1, int(lengths.sum()))
