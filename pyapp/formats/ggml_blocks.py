"""GGML's block types as file formats need them; the engine knows what they mean (pyapp/engine/blocks)."""

from pyapp.engine.blocks.layout import BLOCK_TYPES, BlockType, GgmlBlocks, block_bytes
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.engine.blocks.writing import QUANTIZABLE, quantize_blocks

__all__ = [
    "BLOCK_TYPES",
    "QUANTIZABLE",
    "BlockType",
    "GgmlBlocks",
    "block_bytes",
    "dequantize_blocks",
    "quantize_blocks",
]
