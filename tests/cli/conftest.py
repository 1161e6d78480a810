"""The command line in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator

import pytest

from pyapp import cli, tasks

Here = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """No test finds the models of another one loaded."""
    yield
    tasks.unload()


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Runs a command: exit code, stdout, stderr. `stdin`: what comes through a pipe."""

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = cli.run([str(argument) for argument in arguments])
        out, error = capsys.readouterr()
        return code, out, error

    return run
