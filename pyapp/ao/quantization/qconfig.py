"""Which observers a layer gets: a QConfig has one for what it gives and one for its weight."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...engine import float16, float32
from ..types import qint8
from .fake_quantize import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
)
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    PlaceholderObserver,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)

__all__ = [
    "QConfig", "QConfigAny", "default_activation_only_qconfig", "default_debug_qconfig", "default_dynamic_qconfig",
    "default_embedding_qat_qconfig", "default_embedding_qat_qconfig_4bit", "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig", "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig",
    "default_quint8_weight_qconfig", "default_reuse_input_qconfig", "default_symmetric_qnnpack_qconfig",
    "default_weight_only_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig",
    "float_qparams_weight_only_qconfig", "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig",
    "get_default_qconfig", "per_channel_dynamic_qconfig", "qconfig_equals",
]  # fmt: skip


class QConfig(NamedTuple):
    """What makes the observers: classes, or classes `with_args`."""

    activation: Any
    weight: Any


QConfigAny = QConfig | None
_BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")

default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=float16, is_dynamic=True), PlaceholderObserver.with_args(dtype=float16)
)
float16_static_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=float16), PlaceholderObserver.with_args(dtype=float16)
)
per_channel_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
float_qparams_weight_only_qconfig = QConfig(default_placeholder_observer, default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(default_placeholder_observer, default_float_qparams_observer_4bit)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_weight_only_qconfig = QConfig(PlaceholderObserver, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, PlaceholderObserver)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(default_reuse_input_observer, NoopObserver)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)
default_symmetric_qnnpack_qconfig = QConfig(
    HistogramObserver.with_args(dtype=qint8, reduce_range=False, eps=2**-12), weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    default_symmetric_qnnpack_qconfig.activation, per_channel_weight_observer_range_neg_127_to_127
)
default_embedding_qat_qconfig = QConfig(NoopObserver.with_args(dtype=float32), default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(NoopObserver.with_args(dtype=float32), default_embedding_fake_quant_4bit)


def _check(backend: str) -> None:
    if backend not in _BACKENDS:
        raise AssertionError(f"backend: {backend} not supported. backend must be one of {list(_BACKENDS)}")


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The observers that torch takes for a backend after training. The backend has no other effect here."""
    _check(backend)
    if version != 0:
        raise AssertionError(f"Version number: {version} in get_default_qconfig is not supported: it is 0")
    weight = default_weight_observer if backend == "qnnpack" else default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=backend in ("fbgemm", "x86")), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The modules that round while a model is trained for a backend."""
    _check(backend)
    if version not in (0, 1):
        raise AssertionError(f"Version number: {version} in get_default_qat_qconfig is not supported: it is 0 or 1")
    half = backend in ("fbgemm", "x86")
    kind = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    if backend == "qnnpack":
        weight = default_fused_wt_fake_quant if version else default_weight_fake_quant
    else:
        weight = default_fused_per_channel_wt_fake_quant if version else default_per_channel_weight_fake_quant
    rounding = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, reduce_range=half)
    return QConfig(rounding, weight)


def qconfig_equals(q1: QConfigAny, q2: QConfigAny) -> bool:
    """Whether two make the same observers."""
    return q1 == q2
