"""What torch.__config__ tells: how the package is built and how many threads compute."""

from __future__ import annotations

import os
import sys

from .backends.cpu import get_cpu_capability
from .engine.native import get_num_threads

_VERSION: str = sys.modules[__name__.partition(".")[0]].__version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The version, and the processor's instructions that the kernels use, as text."""
    return f"pyapp {_VERSION} built with:\n  - its own kernels in C\n  - CPU capability usage: {get_cpu_capability()}\n"


def parallel_info() -> str:
    """The numbers of threads, as text."""
    told = [f"pyapp.get_num_threads() : {get_num_threads()}", f"os.cpu_count() : {os.cpu_count()}"]
    return "\n".join([*told, f"OMP_NUM_THREADS : {os.environ.get('OMP_NUM_THREADS', '[not set]')}"]) + "\n"
