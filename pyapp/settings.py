"""torch's switches of the whole process. What has no meaning here is accepted, kept where it can be asked for, and said
to do nothing.
"""

from __future__ import annotations

from typing import Any

from .engine import get_num_threads
from .engine.autograd import is_grad_enabled
from .engine.device import Device, as_device
from .engine.device import cpu as _cpu
from .engine.dtype import set_default_dtype
from .engine.tensor import Tensor

OutOfMemoryError = MemoryError  # what torch raises by this name


class _Kept:
    """What scripts set and may ask for again."""

    precision = "highest"
    deterministic = True


def set_float32_matmul_precision(precision: str) -> None:
    """Kept, and changes nothing: products of float32 are computed in float32. ValueError for another than "highest",
    "high" or "medium".
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: takes highest, high or medium, not {precision!r}")
    _Kept.precision = precision


def get_float32_matmul_precision() -> str:
    """What was set."""
    return _Kept.precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Kept, and changes nothing: every op gives the same numbers each time."""
    _Kept.deterministic = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """What was set."""
    return _Kept.deterministic


def get_default_device() -> Device:
    """Where new tensors are: on the CPU."""
    return _cpu


def set_default_device(device: Any) -> None:
    """Accepts the CPU, where new tensors are. NotImplementedError for another device, ValueError for none of this
    build.
    """
    if device is not None and as_device(device) is not _cpu:
        raise NotImplementedError(f"set_default_device: new tensors begin on the CPU; move them with .to({device!r})")


def set_default_tensor_type(t: Any) -> None:
    """set_default_dtype() of FloatTensor or DoubleTensor."""
    name = t.rpartition(".")[2] if isinstance(t, str) else t.__name__
    from .engine import typed_tensors

    set_default_dtype(getattr(typed_tensors, name).kind)


def set_num_interop_threads(num: int) -> None:
    """Changes nothing: ops run one after another."""


def get_num_interop_threads() -> int:
    """How many ops run beside each other: one."""
    return 1


def is_inference_mode_enabled() -> bool:
    """Whether ops leave no nodes: inference_mode is no_grad here."""
    return not is_grad_enabled()


def is_autocast_enabled(device_type: Any = None) -> bool:
    """Whether ops change their operands' dtypes: no, see pyapp.amp."""
    return False


is_anomaly_enabled = is_autocast_cpu_enabled = is_autocast_enabled


def is_storage(obj: Any) -> bool:
    """Whether it is a tensor's storage."""
    from .engine.storage import Storage

    return isinstance(obj, Storage)


def typename(obj: Any) -> str:
    """The name of a tensor's type, or of an object's class."""
    if isinstance(obj, Tensor):
        return f"pyapp.{obj.dtype.name}"
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


__all__ = [
    "are_deterministic_algorithms_enabled", "get_default_device", "get_float32_matmul_precision", "get_num_threads",
    "is_autocast_enabled", "set_default_device", "set_float32_matmul_precision", "use_deterministic_algorithms",
]  # fmt: skip
__top_level__ = [
    "OutOfMemoryError", "are_deterministic_algorithms_enabled", "get_default_device", "get_float32_matmul_precision",
    "get_num_interop_threads", "is_anomaly_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
    "is_inference_mode_enabled", "is_storage", "set_default_device", "set_default_tensor_type",
    "set_float32_matmul_precision", "set_num_interop_threads", "typename", "use_deterministic_algorithms",
]  # fmt: skip
