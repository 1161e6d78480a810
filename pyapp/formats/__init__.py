"""File formats: bytes to names, tensors and metadata, and back."""

from .checkpoint import Checkpoint, TensorInfo, check_finite, open_checkpoint
from .ggml_blocks import GgmlBlocks, dequantize_blocks, quantize_blocks
from .gguf import GgufFile
from .gguf_writer import write_gguf
from .inspect import inspect
from .llama2c import write_llama2c
from .numpy_files import map_npy, write_npy, write_npz
from .safetensors import write_safetensors
from .sharded import ShardedFile, write_sharded_safetensors
from .source import ByteSource, BytesSource, FileSource, open_source
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
