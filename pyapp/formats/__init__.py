"""File formats: bytes to names, tensors and metadata, and back."""

from .checkpoint import Checkpoint, TensorInfo, check_finite, open_checkpoint
from .inspect import inspect
from .llama2c import write_llama2c
from .numpy_files import write_npy, write_npz
from .safetensors import write_safetensors
from .source import ByteSource, BytesSource, FileSource, open_source
from .tokenizer_bin import TokenizerBin, read_tokenizer_bin, write_tokenizer_bin

__all__ = [
    "ByteSource",
    "BytesSource",
    "Checkpoint",
    "FileSource",
    "TensorInfo",
    "TokenizerBin",
    "check_finite",
    "inspect",
    "open_checkpoint",
    "open_source",
    "read_tokenizer_bin",
    "write_llama2c",
    "write_npy",
    "write_npz",
    "write_safetensors",
    "write_tokenizer_bin",
]
