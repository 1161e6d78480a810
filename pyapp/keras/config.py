"""keras.config: settings of the whole session. Settings that pyapp does not have are refused by name."""

from __future__ import annotations

from typing import Any, NoReturn

from ..engine import as_dtype
from ..train import floats, progress
from ..train.floats import floatx
from . import dtype_policies
from .settings import SETTINGS

__all__ = [
    "backend", "disable_flash_attention", "disable_interactive_logging", "disable_traceback_filtering", "dtype_policy",
    "enable_flash_attention", "enable_interactive_logging", "enable_traceback_filtering",
    "enable_unsafe_deserialization", "epsilon", "floatx", "image_data_format", "is_flash_attention_enabled",
    "is_interactive_logging_enabled", "is_nnx_enabled", "is_traceback_filtering_enabled", "max_epochs",
    "max_steps_per_epoch", "set_backend", "set_dtype_policy", "set_epsilon", "set_floatx", "set_image_data_format",
    "set_max_epochs", "set_max_steps_per_epoch",
]  # fmt: skip


def backend() -> str:
    """ "pyapp": what computes."""
    return "pyapp"


def set_backend(backend: str) -> None:
    """ValueError for another than "pyapp"."""
    if backend != "pyapp":
        raise ValueError(f"set_backend: pyapp computes by itself, there is no backend {backend!r:.40}")


def set_floatx(value: str) -> None:
    """Sets the dtype of layers, losses, metrics, arrays of data and functions of keras.ops that are given none, from
    now on: bfloat16, float16, float32 or float64. A policy of `set_dtype_policy` goes before it for layers."""
    floats.set_floatx(value)


def epsilon() -> float:
    """The small number of losses and normalisations."""
    return 1e-7


def set_epsilon(value: float) -> None:
    """NotImplementedError for another number than 1e-7."""
    if float(value) != 1e-7:
        raise NotImplementedError(f"set_epsilon: it is 1e-7, and cannot be {value!r}")


def image_data_format() -> str:
    """Where channels are in layers that are given no data_format."""
    return SETTINGS.data_format


def set_image_data_format(data_format: str) -> None:
    """Sets where channels are in layers that are made from now on without a data_format. Functions of keras.ops do not
    follow it."""
    if data_format not in ("channels_first", "channels_last"):
        raise ValueError(f"set_image_data_format: it is channels_first or channels_last, not {data_format!r:.40}")
    SETTINGS.data_format = data_format


def dtype_policy() -> dtype_policies.DTypePolicy:
    """The dtypes of weights and computation of layers that are given no `dtype`."""
    return dtype_policies.get(None)


def set_dtype_policy(policy: Any) -> None:
    """Sets them for layers that are made from now on: "mixed_bfloat16", "mixed_float16", a dtype, or a DTypePolicy."""
    found = dtype_policies.get(policy)
    if isinstance(found, dtype_policies.DTypePolicyMap) or not as_dtype(found.variable_dtype).is_floating_point:
        raise ValueError(f"set_dtype_policy: takes a policy of floating-point numbers, not {policy!r:.60}")
    SETTINGS.dtype_policy = found.name


def enable_flash_attention() -> None:
    """Attention layers refuse what flash attention has not: dropout, and scores."""
    SETTINGS.flash_attention = True


def disable_flash_attention() -> None:
    """Attention layers choose how they compute."""
    SETTINGS.flash_attention = False


def is_flash_attention_enabled() -> bool:
    """What enable_ and disable_flash_attention have set."""
    return SETTINGS.flash_attention


def enable_interactive_logging() -> None:
    """Progress is printed."""
    progress.set_logger(None)


def disable_interactive_logging() -> None:
    """Progress goes to the logger "pyapp.keras", one line for each epoch, at the level INFO."""
    progress.set_logger("pyapp.keras")


def is_interactive_logging_enabled() -> bool:
    """Whether progress is printed."""
    return not progress.is_logged()


def disable_traceback_filtering() -> None:
    """Errors have all lines of Python; they always have."""


def enable_traceback_filtering() -> NoReturn:
    """NotImplementedError: errors have all lines."""
    raise NotImplementedError("enable_traceback_filtering: errors have all lines of Python")


def is_traceback_filtering_enabled() -> bool:
    """False: errors have all lines."""
    return False


def enable_unsafe_deserialization() -> NoReturn:
    """NotImplementedError: each file is trusted by itself."""
    raise NotImplementedError(
        "enable_unsafe_deserialization: trust a file by itself, with load_model(…, safe_mode=False)"
    )


def is_nnx_enabled() -> bool:
    """False: NNX is JAX's."""
    return False


def max_epochs() -> int | None:
    """The most epochs of any `fit`; None: as many as it is told."""
    return SETTINGS.max_epochs


def set_max_epochs(max_epochs: int | None) -> None:
    """Sets the most epochs of any `fit`."""
    SETTINGS.max_epochs = _count("set_max_epochs", max_epochs)


def max_steps_per_epoch() -> int | None:
    """The most steps of an epoch, of `evaluate` and of `predict`."""
    return SETTINGS.max_steps_per_epoch


def set_max_steps_per_epoch(max_steps_per_epoch: int | None) -> None:
    """Sets the most steps of an epoch, of `evaluate` and of `predict`."""
    SETTINGS.max_steps_per_epoch = _count("set_max_steps_per_epoch", max_steps_per_epoch)


def _count(name: str, value: int | None) -> int | None:
    if value is not None and (not isinstance(value, int) or value < 1):
        raise ValueError(f"{name}: takes a positive integer or None, not {value!r}")
    return value
