"""The lines that a command writes, in the process of a test."""

from __future__ import annotations

import pytest


def lines(*arguments: str, code: int = 0, stdin: str | None = None) -> list[str]:
    """The lines on standard output of `pyapp ARGUMENTS`, which must end with `code`. Skips the test without click."""
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    found = testing.CliRunner().invoke(cli, arguments, input=stdin, standalone_mode=False)
    assert (found.return_value if found.exception is None else found.exit_code) == code, found.output
    return str(found.stdout).splitlines()
