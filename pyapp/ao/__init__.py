"""torch.ao: quantisation of modules by observers (`quantization`), and the layers that it makes (`nn`)."""

from . import nn, quantization

__all__ = ["nn", "quantization"]
