"""Errors of requests in OpenAI's form: what is wrong, the field, and the status of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.errors import ModelNotFoundError, OperationError, OptionError, PyappError
from pyapp.events import Error
from pyapp.tasks import error_event

# By status: OpenAI's type of the error.
TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "invalid_request_error",
    405: "invalid_request_error", 408: "timeout_error", 413: "invalid_request_error", 415: "invalid_request_error",
    429: "rate_limit_error", 499: "cancelled", 500: "server_error", 503: "server_error", 504: "timeout_error",
}  # fmt: skip


class PromptTooLong(OptionError):
    """A prompt that the model's context does not hold."""


class Problem(Exception):
    """A request that is refused. `param` is the field, `code` OpenAI's short name of the problem."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message, self.status, self.param, self.code = message, status, param, code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The error in OpenAI's form."""
        kind = TYPES.get(self.status, "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def of_exception(error: Exception, names: Mapping[str, str] | None = None) -> Problem:
    """The problem of an exception. `names` are the interface's names of settings."""
    if isinstance(error, Problem):
        return error
    status = 500
    if isinstance(error, ModelNotFoundError):
        status = 404
    elif isinstance(error, PyappError) and isinstance(error, ValueError) and not isinstance(error, OperationError):
        status = 400
    problem = of_event(error_event(error), status, names)
    if isinstance(error, PromptTooLong):
        problem.code = "context_length_exceeded"
    return problem


def of_event(event: Error, status: int | None = None, names: Mapping[str, str] | None = None) -> Problem:
    """The problem of an Error event. Without a status: the request's fault, unless it is a defect of pyapp."""
    if status is None:
        status = 500 if event.what.startswith("unexpected ") or "memory" in event.what else 400
    if status >= 500:  # what is inside the server stays there; its log has it
        return Problem("the server failed: its log says why", status=status, code="server_error")
    setting, colon, place = (event.where or "").partition(": ")  # a schema's errors name the place in it
    names = names or {}
    own = names.get(event.where or "")  # of the whole place
    param = own or names.get(setting, setting) or None
    where = f"{param}{colon}{place}" if param and not own else param
    message = f"{where}: {event.what}" if where else event.what
    return Problem(f"{message}. {event.hint}" if event.hint else message, status=status, param=param)
