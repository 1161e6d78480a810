"""Modules, layers, optimisers and schedules."""

from .layers import Embedding, KVCache, LayerNorm, Linear, RMSNorm
from .module import Module, ModuleList, Parameter, Sequential

__all__ = ["Embedding", "KVCache", "LayerNorm", "Linear", "Module", "ModuleList", "Parameter", "RMSNorm", "Sequential"]
