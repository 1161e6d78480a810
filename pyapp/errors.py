"""Errors for users of the package: each says what is wrong, where, and what to do.

Wrong arguments to operations on tensors raise an OperationError that is also the built-in ValueError, TypeError or
IndexError of the mistake, and a RuntimeError, which PyTorch raises for many of them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

# Numbers of an OSError: the disk is full, or the user's share of it, or the file would be too large.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LONGEST = 2000  # characters of what happened: names in hostile files are as long as the files


class PyappError(Exception):
    """Base of the errors below. `what` happened, `where` (a file, an address, a setting) and a `hint` what to do."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what if len(what) <= LONGEST else f"{what[: LONGEST // 2]} … {what[-LONGEST // 2 :]}"
        self.where = where
        self.hint = hint
        super().__init__(self.message)

    @property
    def message(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}. {self.hint}" if self.hint else text


def shown(value: object, most: int = 80) -> str:
    """A value in a message, at most so many characters; a whole number that Python refuses to write, too."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"{'an' if isinstance(value, int) else 'a'} {type(value).__name__} too large to show"
    return text if len(text) <= most else f"{text[:most]}…"


class FileFormatError(PyappError, ValueError):
    """A file is truncated, hostile or of an unknown kind."""


class OptionError(PyappError, ValueError):
    """A setting is out of its range."""


def check_settings(given: Iterable[str], known: Iterable[str], of: str = "") -> None:
    """OptionError for the name of a setting that is not among `known`. of: what stands before the name, as "audio."."""
    names = list(known)
    for name in given:
        if name not in names:
            raise OptionError("no such setting", where=f"{of}{name!s:.60}", hint=f"Settings are: {', '.join(names)}")


class ModelError(PyappError, ValueError):
    """A model cannot be used: unknown architecture, tokenizer that does not match, NaN weights."""


class ModelNotFoundError(PyappError, LookupError):
    """No model has that name."""


class DownloadError(PyappError, OSError):
    """A download failed or its content is wrong."""


class ServerError(PyappError, OSError):
    """A server cannot be reached, or refuses a request."""


class LatePartError(PyappError, ImportError):
    """A part of the page's Python that was not needed until now could not be fetched."""


class StorageFullError(PyappError, OSError):
    """The disk, or the browser's storage, is full."""


class KernelError(PyappError, RuntimeError):
    """The native library is missing, of another version, or refused a call."""


class ProcessError(PyappError, RuntimeError):
    """The processes of a group cannot work together: one is missing, or has ended; a library is missing."""


class Cancelled(PyappError):
    """The user stopped it."""


class OperationError(PyappError, RuntimeError):
    """Wrong arguments of an operation on tensors. `where` is the function that was called, `call` its arguments:
    shapes, dtypes and device of tensors; `layer` is the path and settings of the layer of a Sequential that called it.
    """

    layer: tuple[str, str] | None = None

    def __init__(self, what: str, *, where: str | None = None, call: str | None = None) -> None:
        self.call = call
        super().__init__(what, where=where)

    @property
    def message(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        text = f"{text}; in {self.call}" if self.call else text
        return f"{text}, called by layer {self.layer[0]} of the Sequential, {self.layer[1]}" if self.layer else text

    def pass_layer(self, name: str, settings: str) -> None:
        """Records the layer `name` that the error passes on its way up; inner layers were recorded before."""
        self.layer = (f"{name}.{self.layer[0]}", self.layer[1]) if self.layer else (name, settings)
        self.args = (self.message,)

    def __str__(self) -> str:
        return self.message


class ArgumentError(OperationError, ValueError):
    """Shapes that do not fit together, a number out of its range, an unknown mode."""


class AssertedError(ArgumentError, AssertionError):
    """What torch asserts: a size divides into equal parts, sizes are equal."""


class InputError(ArgumentError):
    """An input of a model that it does not take, such as a picture of another size."""


class ArgumentTypeError(OperationError, TypeError):
    """An argument that must be a tensor and is not, an unsupported dtype, an unknown argument."""


class ArgumentIndexError(OperationError, IndexError):
    """A dim or an index that the tensor does not have."""


class OperationNotImplementedError(OperationError, NotImplementedError):
    """The operation does not exist for this dtype, device or mode."""


class UnsupportedValueError(ArgumentError, NotImplementedError):
    """An unsupported mode, or unsupported dims for it."""


class UnsupportedTypeError(ArgumentTypeError, NotImplementedError):
    """A dtype for which the operation does not exist."""


class LinAlgError(OperationError):
    """A matrix that cannot be inverted or factorised."""


class StateError(OperationError, KeyError, ValueError):
    """A state does not fit a module: names that are missing or unexpected, other shapes."""
