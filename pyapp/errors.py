"""Errors that a user of the package is meant to read: each says what, where and what to do.

Wrong arguments to tensor operations raise the built-in ValueError, TypeError or IndexError, as in PyTorch.
"""

from __future__ import annotations


class PyappError(Exception):
    """Base of the errors below. `what` happened, `where` (a file, an address, a setting) and a `hint` what to do."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(self.message)

    @property
    def message(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}. {self.hint}" if self.hint else text


class FileFormatError(PyappError, ValueError):
    """A file is truncated, hostile or of an unknown kind."""


class OptionError(PyappError, ValueError):
    """A setting is out of its range."""


class ModelError(PyappError, ValueError):
    """A model cannot be used: unknown architecture, tokenizer that does not match, NaN weights."""


class ModelNotFoundError(PyappError, LookupError):
    """No model has that name."""


class DownloadError(PyappError, OSError):
    """A download failed or was not what it should have been."""


class StorageFullError(PyappError, OSError):
    """The disk, or the browser's storage, is full."""


class KernelError(PyappError, RuntimeError):
    """The native library is missing, of another version, or refused a call."""


class Cancelled(PyappError):
    """The user stopped it."""
