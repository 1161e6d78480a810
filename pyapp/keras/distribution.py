"""keras.distribution: the devices that there are. Training over several of them is in `pyapp.distributed`."""

from __future__ import annotations

from typing import Any, NoReturn

import pyapp

__all__ = ["get_device_count", "list_devices"]


def list_devices(device_type: str | None = None) -> list[str]:
    """The names of the devices, "cpu:0" and "gpu:0" …; of one type, cpu or gpu."""
    if device_type not in (None, "cpu", "gpu", "CPU", "GPU"):
        raise ValueError(f"list_devices: there are no devices of the type {device_type!r:.40}, but cpu and gpu")
    kind = None if device_type is None else device_type.lower()
    gpus = [f"gpu:{number}" for number in range(pyapp.cuda.device_count())]
    return gpus if kind == "gpu" else ["cpu:0"] if kind == "cpu" or not gpus else gpus


def get_device_count(device_type: str | None = None) -> int:
    """How many devices there are."""
    return len(list_devices(device_type))


def _refused(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"keras.distribution.{name} is not there: pyapp.distributed trains over processes and devices "
            "(docs/distributed.md)"
        )

    refuse.__name__ = name
    return refuse


_REFUSED = (
    "DataParallel", "DeviceMesh", "LayoutMap", "ModelParallel", "TensorLayout", "distribute_tensor", "distribution",
    "initialize", "set_distribution",
)  # fmt: skip
globals().update({name: _refused(name) for name in _REFUSED})
