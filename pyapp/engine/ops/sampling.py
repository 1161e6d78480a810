"""Draw a token from a row of logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from struct import Struct
from typing import Any

from ...errors import KernelError
from .. import dtype as _dtype
from ..buffers import reader, writer
from ..declare import function
from ..device import Device, cpu
from ..launch import capture_or_run, refuse_capture
from ..op import op
from ..operands import dense
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous
from ..thread_local import ThreadLocal
from ..user_errors import describe
from .create import arange
from .elementwise.select import where


@op()
def _sample(
    token: Tensor, logits: Tensor, uniform: Tensor, candidates: Tensor, history: Tensor | None, history_count: int,
    temperature: float, top_k: int, top_p: float, min_p: float, typical: float, penalty: float,
) -> Tensor:  # fmt: skip
    """Writes the drawn id into `token` (1,) int32, by sorting all logits; returns it."""
    x = logits.detach().to(_dtype.float64)
    if history is not None and history_count:
        seen = history[:history_count].to(_dtype.int64)
        x[seen] = where(x[seen] < 0, x[seen] * penalty, x[seen] / penalty)
    largest = x.max()
    if bool(x.isnan().any()) or largest.item() == -inf:
        raise KernelError("sample: the logits are not numbers, or rule out every token")
    if temperature <= 0:
        return token.copy_(x.argmax().reshape(1))
    order = x.argsort(descending=True, stable=True)
    if top_k:
        order = order[:top_k]
    x = x[order]
    weights = where(x == largest, 0.0, (x - largest) / temperature).exp()  # in descending order
    first = arange(weights.shape[0], device=weights.device) == 0
    if 0 < top_p < 1:
        sums = weights.cumsum(0)
        weights = where(((sums - weights) < top_p * sums[-1]).logical_or(first), weights, 0.0)
    weights = where((weights >= min_p).logical_or(first), weights, 0.0)
    if 0 < typical < 1:
        weights = _typical(weights, typical)
    sums = weights.cumsum(0)
    place = (sums <= uniform.to(_dtype.float64) * sums[-1]).sum()
    return token.copy_(order[place.reshape(1)])


def _typical(weights: Tensor, typical: float) -> Tensor:
    """Weights (V,), 0 except for the smallest set of tokens that has the share `typical` of the mass, those first whose
    surprise -log p is closest to the entropy (Meister et al., 2023).
    """
    p = weights / weights.sum()
    surprise = -p.log()
    entropy = where(p > 0, p * surprise, 0.0).sum()
    away = (surprise - entropy).abs()
    nearest = away.argsort(stable=True)
    sums = p[nearest].cumsum(0)
    farthest = away[nearest][(sums < typical * sums[-1]).sum().reshape(1)]
    return where(away <= farthest, weights, 0.0)


@op()
def _peak(place: Tensor, excess: Tensor, logits: Tensor) -> Tensor:
    """Writes the index of the largest into `place` (1,) int32 and log(sum(exp(logits - largest))) into `excess`."""
    logits = logits.detach()
    place.copy_(logits.argmax().reshape(1))
    excess.copy_((logits.logsumexp(0) - logits.max()).reshape(1))
    return place


def _checked_logits(name: str, logits: Tensor) -> Tensor:
    refuse_capture(name)  # its result is a Python number
    if logits.dtype is not _dtype.float32 or len(logits._shape) != 1 or not logits._shape[0]:
        raise ValueError(f"{name}: takes logits (V,) in float32, got {describe(logits)}")
    return dense(logits)


class _PeakBuffers:
    """The outputs of `_peak` on one device."""

    __slots__ = ("excess", "place", "read_excess", "read_place")

    def __init__(self, device: Device) -> None:
        self.place = empty_contiguous((1,), _dtype.int32, device)
        self.excess = empty_contiguous((1,), _dtype.float32, device)
        self.read_place, self.read_excess = reader(self.place), reader(self.excess)


class _Peaks(ThreadLocal):
    """The buffers of this thread, by device."""

    def __init__(self) -> None:
        self.by_device: dict[Device, _PeakBuffers] = {}


_peaks = _Peaks()
_float = Struct("f")


@function()
def peak(logits: Tensor) -> tuple[int, float]:
    """The index of the first largest of logits (V,) float32, and log(sum(exp(logits))); -inf if all are -inf."""
    logits = _checked_logits("peak", logits)
    buffers = _peaks.by_device.get(logits.device)
    if buffers is None:
        buffers = _peaks.by_device[logits.device] = _PeakBuffers(logits.device)
    _peak(buffers.place, buffers.excess, logits)
    index = buffers.read_place()
    (largest,) = _float.unpack(logits._storage.read(4 * (logits.offset + index), 4))
    return index, largest if largest == -inf else largest + buffers.read_excess()


def peaks(rows: Sequence[Tensor]) -> list[int]:
    """The index of the first largest of each of these logits (V,) float32, with one wait for the device."""
    every = [_checked_logits("peak", logits) for logits in rows]
    device = every[0].device
    places = empty_contiguous((len(every),), _dtype.int32, device)
    excess = empty_contiguous((len(every),), _dtype.float32, device)
    for i, logits in enumerate(every):
        _peak(places.narrow(0, i, 1), excess.narrow(0, i, 1), logits)
    found: list[int] = places.tolist()
    return found


@function()
class SampleBuffers:
    """The memory of `sample` on the device of the logits, allocated once for a vocabulary. Draws from the same logits
    with the same settings, as a text's steps make them, become a Graph, whose replay takes half the time of the call.
    """

    __slots__ = ("before", "candidates", "read_token", "replay", "token", "uniform", "write_uniform")

    def __init__(self, vocabulary: int, device: Device = cpu) -> None:
        self.token = empty_contiguous((1,), _dtype.int32, device)
        self.uniform = empty_contiguous((1,), _dtype.float32, device)
        self.candidates = empty_contiguous((2 * vocabulary,), _dtype.int32, device)
        self.write_uniform, self.read_token = writer(self.uniform), reader(self.token)
        self.before: tuple[Tensor, Storage, tuple[float, ...]] | None = None  # logits and settings of the last draw
        self.replay: Callable[[], Any] | None = None  # does it again

    def draws_again(self, logits: Tensor, settings: tuple[float, ...]) -> bool:
        """Whether the last draw was from the same memory with the same settings."""
        before = self.before
        return (
            before is not None and before[0] is logits and before[1] is logits._storage and before[2] == settings
        )  # fmt: skip


@function()
def start_sample(
    logits: Tensor,
    buffers: SampleBuffers,
    uniform: float = 0.0,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    typical: float = 1.0,
    penalty: float = 1.0,
    history: Tensor | None = None,
    history_count: int = 0,
) -> None:
    """Begins to draw a token id from logits (V,) float32, which `buffers.read_token` waits for.

    In this order: the penalty of the int32 ids in `history`, temperature, top-k, top-p, min-p, typical. `uniform` in
    [0, 1) decides the draw; temperature 0 takes the largest. KernelError, here or there, for NaN logits, and where
    every logit is -inf.
    """
    settings = (temperature, top_k, top_p, min_p, typical, penalty)
    same = not history_count and buffers.draws_again(logits, settings)
    if same and buffers.replay is not None:
        refuse_capture("sample")
        if temperature > 0:  # else nothing is drawn
            buffers.write_uniform(uniform)
        buffers.replay()
        return
    row = _checked_logits("sample", logits)
    vocabulary = row._shape[0]
    if buffers.candidates._shape[0] < 2 * vocabulary:
        raise ValueError(f"sample: the buffers were made for {buffers.candidates.shape[0] // 2} of {vocabulary} logits")
    if row.device is not buffers.token.device:
        raise ValueError(
            f"sample: the logits are on {row.device}, the buffers on {buffers.token.device}; give them, or the "
            "Sampler, the device of the logits"
        )
    if history_count and (history is None or history.dtype is not _dtype.int32 or history.numel() < history_count):
        raise ValueError(f"sample: the history is {history_count} int32 ids, got {describe(history)}")
    if temperature > 0:
        buffers.write_uniform(uniform)

    def draw() -> None:
        _sample(
            buffers.token, row, buffers.uniform, buffers.candidates, history, history_count,
            temperature, top_k, top_p, min_p, typical, penalty,
        )  # fmt: skip

    if same:
        _, graph, _ = capture_or_run(draw)
        buffers.replay = graph.replay if graph is not None else None
    else:
        buffers.before, buffers.replay = None, None
        draw()
        if row is logits and not history_count:
            buffers.before = (logits, logits._storage, settings)


@function()
def sample(logits: Tensor, buffers: SampleBuffers, *settings: Any, **named: Any) -> int:
    """Draws a token id from logits (V,) float32 and waits for it: `start_sample` with its settings, then the read."""
    start_sample(logits, buffers, *settings, **named)
    token: int = buffers.read_token()
    return token
