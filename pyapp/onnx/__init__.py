"""ONNX models: `load` gives a module that runs and trains like any other, `export` writes one."""

from .export import export, is_in_onnx_export
from .module import OnnxModule, load

__all__ = ["OnnxModule", "export", "is_in_onnx_export", "load"]
