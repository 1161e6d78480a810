"""GGML's block types with NumPy: what they hold, to float32, and from it."""

from .layout import BLOCK_TYPES, BlockType, GgmlBlocks, block_bytes
from .reading import dequantize_blocks
from .writing import QUANTIZABLE, quantize_blocks

__all__ = [
    "BLOCK_TYPES",
    "QUANTIZABLE",
    "BlockType",
    "GgmlBlocks",
    "block_bytes",
    "dequantize_blocks",
    "quantize_blocks",
]
