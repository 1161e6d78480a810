"""File formats: reading and writing names, tensors and metadata. Each name is imported from its file on first use, so
that the command line's help imports none of them.
"""

from typing import TYPE_CHECKING

from pyapp.engine.lazy import late_names

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import GgmlBlocks
    from pyapp.engine.blocks.reading import dequantize_blocks
    from pyapp.engine.blocks.writing import quantize_blocks

    from .checkpoint import Checkpoint, TensorInfo
    from .finite import check_finite
    from .gguf import GgufFile
    from .gguf_writer import write_gguf
    from .llama2c import write_llama2c
    from .numpy_files import map_npy, write_npy, write_npz
    from .opening import open_checkpoint
    from .safetensors import write_safetensors
    from .sharded import ShardedFile, write_sharded_safetensors
    from .source import ByteSource, BytesSource, FileSource, open_source
    from .summary import inspect
    from .tokenizer_bin import TokenizerBin, read_tokenizer_bin, write_tokenizer_bin

__all__ = [
    "ByteSource",
    "BytesSource",
    "Checkpoint",
    "FileSource",
    "GgmlBlocks",
    "GgufFile",
    "ShardedFile",
    "TensorInfo",
    "TokenizerBin",
    "check_finite",
    "dequantize_blocks",
    "inspect",
    "map_npy",
    "open_checkpoint",
    "open_source",
    "quantize_blocks",
    "read_tokenizer_bin",
    "write_gguf",
    "write_llama2c",
    "write_npy",
    "write_npz",
    "write_safetensors",
    "write_sharded_safetensors",
    "write_tokenizer_bin",
]

__getattr__ = late_names(
    __name__,
    {
        ".engine.blocks.layout": "GgmlBlocks",
        ".engine.blocks.reading": "dequantize_blocks",
        ".engine.blocks.writing": "quantize_blocks",
        "checkpoint": "Checkpoint TensorInfo",
        "finite": "check_finite",
        "gguf": "GgufFile",
        "gguf_writer": "write_gguf",
        "llama2c": "write_llama2c",
        "numpy_files": "map_npy write_npy write_npz",
        "opening": "open_checkpoint",
        "safetensors": "write_safetensors",
        "sharded": "ShardedFile write_sharded_safetensors",
        "source": "ByteSource BytesSource FileSource open_source",
        "summary": "inspect",
        "tokenizer_bin": "TokenizerBin read_tokenizer_bin write_tokenizer_bin",
    },
)
