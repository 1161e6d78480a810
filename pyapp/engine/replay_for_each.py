"""A Graph's records for many examples in one call: before those of each example its inputs are copied to where the
records read them, and after them the outputs to their places among the results.
"""

from __future__ import annotations

from typing import NamedTuple

from .device import cpu
from .launch import KERNELS, Recorder
from .lazy import np
from .native import POINTER_BYTES, RECORD_BYTES, fail
from .tensor import Tensor

_COPY = KERNELS["copy_bytes"]
_POINTERS_AT = 8  # of a record: after the kernel's index and the work
_TO, _FROM = 0, 1  # slots of copy_bytes
_MOST_BYTES = 1 << 20  # of the records of one call


class Copy(NamedTuple):
    """`source` is copied to `to` for the first example; for each further one the one of the two that moves lies `step`
    bytes further. Both are dense and of one size."""

    to: Tensor
    source: Tensor
    step: int


def replay_for_each(recorder: Recorder, inputs: list[Copy], outputs: list[Copy], count: int) -> bool:
    """Runs what was recorded for `count` examples. The sources of `inputs` move, and the places of `outputs`. False,
    and nothing has run, where the records are not the CPU's alone."""
    if len(recorder.parts) != 1 or recorder.actions or recorder.conditions:
        return False
    part = recorder.parts[0]
    if callable(part) or part[0] is not cpu or any(x.device is not cpu for c in (*inputs, *outputs) for x in c[:2]):
        return False
    before, after = ([_COPY.record(0, c.to, c.source, _nbytes(c.to)) for c in of] for of in (inputs, outputs))
    names = [_COPY.name] * len(before) + part[2] + [_COPY.name] * len(after)
    one = np.frombuffer(b"".join([*before, bytes(part[1]), *after]), np.uint8).reshape(-1, RECORD_BYTES)
    # (record, slot, bytes from one example to the next) of the pointers that move
    moving = [(i, _FROM, c.step) for i, c in enumerate(inputs)]
    moving += [(len(one) - len(after) + i, _TO, c.step) for i, c in enumerate(outputs)]
    each = max(1, _MOST_BYTES // one.nbytes)
    for begin in range(0, count, each):
        examples = np.arange(begin, min(begin + each, count))  # (examples,)
        records = np.broadcast_to(one, (len(examples), *one.shape)).copy()  # (examples, records, bytes)
        for i, slot, step in moving:
            at = slice(_POINTERS_AT + slot * POINTER_BYTES, _POINTERS_AT + (slot + 1) * POINTER_BYTES)
            first = int(one[i, at].copy().view(np.uintp)[0])
            records[:, i, at] = (first + examples * step).astype(np.uintp).view(np.uint8).reshape(-1, POINTER_BYTES)
        status = cpu.backend.run(bytearray(records.data.cast("B")), len(examples) * len(one))
        if status:
            fail(status, names[(status >> 8) % len(one)])
    return True


def _nbytes(x: Tensor) -> int:
    return x.numel() * x.dtype.itemsize
