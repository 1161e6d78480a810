"""Layers of a model that was quantised. Between them run float32 tensors whose numbers lie on steps."""

from . import dynamic
from .layers import *  # noqa: F403
from .layers import __all__ as _layers

__all__ = ["dynamic", *_layers]
