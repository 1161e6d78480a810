"""What errors say of recordings that cannot be read."""

from __future__ import annotations

import shlex

from pyapp.errors import FileFormatError

OF_MODELS = (".gguf", ".safetensors", ".onnx", ".pt", ".pth", ".keras")  # endings of files' names


def conversion(name: str) -> str:
    """The command that converts any recording to a WAVE file."""
    known = not name.startswith("<") and name != "stdin"
    return f"ffmpeg -i {shlex.quote(name) if known else 'RECORDING'} -ac 1 -ar 16000 recording.wav"


def unreadable(name: str, kind: str, why: str) -> FileFormatError:
    what = f"this is {kind}, but it is damaged" if kind else "this is not a recording that can be read"
    hint = f"If it plays elsewhere, convert it: {conversion(name)}"
    if not kind and name.lower().endswith(OF_MODELS):
        hint = "Its name is that of a model: give a recording here, and the model as the model"
    return FileFormatError(f"{what} ({why})", where=name, hint=hint)
