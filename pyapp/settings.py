"""torch's settings of the process. Settings without effect are stored and documented as no-ops."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .engine import autocast as _autocast
from .engine import get_num_threads
from .engine.anomalies import set_anomalies
from .engine.autograd import is_grad_enabled
from .engine.device import Device, get_default_device, set_default_device
from .engine.dtype import DType, bfloat16, float16, set_default_dtype
from .engine.gpu.precision import precision as matmul_precision
from .engine.grad_mode import ANOMALY
from .engine.native import library
from .engine.storage import Storage
from .engine.tensor import Tensor

OutOfMemoryError = MemoryError  # torch's name for this error


class _Kept:
    """Settings that scripts set and may read."""

    precision = "highest"
    deterministic = True
    only_warns = False


def set_float32_matmul_precision(precision: str) -> None:
    """ "highest": products of float32 matrices are computed in float32; else cards may take TF32. ValueError unless
    "highest", "high" or "medium".
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: takes highest, high or medium, not {precision!r}")
    _Kept.precision = precision
    matmul_precision.allow_tf32 = precision != "highest"


def get_float32_matmul_precision() -> str:
    """The stored value."""
    return _Kept.precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Stored, without effect: every op is deterministic."""
    _Kept.deterministic, _Kept.only_warns = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """The stored value."""
    return _Kept.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """The stored `warn_only`."""
    return _Kept.only_warns


_MODES = {"default": 0, "warn": 1, "error": 2}


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """use_deterministic_algorithms by torch's other name: "default" or 0, "warn" or 1, "error" or 2. RuntimeError for
    others."""
    mode = _MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(f"set_deterministic_debug_mode: takes default, warn, error, 0, 1 or 2, not {debug_mode!r}")
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """The stored mode: 0, 1 or 2."""
    return 0 if not _Kept.deterministic else 1 if _Kept.only_warns else 2


def get_device_module(device: Any = None) -> Any:
    """The module of a device's type, such as pyapp.cuda; of the default device, unless one is given. RuntimeError for
    a type that has none."""
    kind = (get_default_device() if device is None else Device(device)).type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"get_device_module: there is no module for {kind!r}; cpu, cuda, mps and xpu have one")
    return importlib.import_module(f".{kind}", __package__)


def set_flush_denormal(mode: bool) -> bool:
    """Has kernels take denormal numbers (of float32 below 1.2e-38) for zero, or not. False in a browser, where they
    cannot be taken for zero.
    """
    library.pyapp_flush_denormals(int(bool(mode)))
    return sys.platform != "emscripten"


def set_default_tensor_type(t: Any) -> None:
    """set_default_dtype() of FloatTensor or DoubleTensor."""
    from .engine import typed_tensors  # late: old programs use them

    name = t.rpartition(".")[2] if isinstance(t, str) else t.__name__
    set_default_dtype(getattr(typed_tensors, name).kind)


def set_num_interop_threads(num: int) -> None:
    """No effect: ops run one after another."""


def get_num_interop_threads() -> int:
    """The number of ops that run concurrently: one."""
    return 1


def is_inference_mode_enabled() -> bool:
    """Whether ops record no nodes: inference_mode is no_grad."""
    return not is_grad_enabled()


def is_autocast_enabled(device_type: Any = None) -> bool:
    """Whether operations on a device (the CPU, unless given) convert their operands, see pyapp.amp."""
    device = _autocast.STATE.device if _autocast.STATE.dtype is not None else None
    return device is not None and device.type == ("cpu" if device_type is None else Device(device_type).type)


is_autocast_cpu_enabled = is_autocast_enabled


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype to which autocast converts on a device: that of the region, or the one of a region without `dtype`."""
    if is_autocast_enabled(device_type) and _autocast.STATE.dtype is not None:
        return _autocast.STATE.dtype
    return bfloat16 if Device(device_type).type == "cpu" else float16


def get_autocast_cpu_dtype() -> DType:
    """The dtype to which autocast converts on the CPU."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """The dtype to which autocast converts on cards."""
    return get_autocast_dtype("cuda")


def is_anomaly_enabled() -> bool:
    """Whether the search for anomalies is on: see autograd.set_detect_anomaly."""
    return ANOMALY.on


def is_anomaly_check_nan_enabled() -> bool:
    """Whether that search, where it is on, looks for NaN."""
    return ANOMALY.check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Turns the search for anomalies on or off: see autograd.set_detect_anomaly."""
    set_anomalies(mode, check_nan)


def is_storage(obj: Any) -> bool:
    """Whether it is a tensor's storage."""
    return isinstance(obj, Storage)


def typename(obj: Any) -> str:
    """The name of a tensor's type, or of an object's class."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


__all__ = [
    "are_deterministic_algorithms_enabled", "get_autocast_cpu_dtype", "get_autocast_dtype",
    "get_autocast_gpu_dtype", "get_default_device", "get_float32_matmul_precision", "get_num_threads",
    "is_autocast_enabled", "set_default_device", "set_float32_matmul_precision", "use_deterministic_algorithms",
]  # fmt: skip
__top_level__ = [
    "OutOfMemoryError", "are_deterministic_algorithms_enabled", "get_autocast_cpu_dtype", "get_autocast_dtype",
    "get_autocast_gpu_dtype", "get_default_device", "get_deterministic_debug_mode", "get_device_module",
    "get_float32_matmul_precision", "get_num_interop_threads", "is_anomaly_check_nan_enabled", "is_anomaly_enabled",
    "is_autocast_cpu_enabled", "is_autocast_enabled", "is_deterministic_algorithms_warn_only_enabled",
    "is_inference_mode_enabled", "is_storage", "set_anomaly_enabled", "set_default_device", "set_default_tensor_type",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
    "typename", "use_deterministic_algorithms",
]  # fmt: skip
