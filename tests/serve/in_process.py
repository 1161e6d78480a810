"""Servers in the process of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def serving(*models: str, **settings: Any) -> Iterator[Any]:
    """A client of a server of its own, which loads models when they are asked for. `client.context` is the server's
    state. Skips the test without the server's packages.
    """
    for name in ("starlette", "multipart"):
        pytest.importorskip(name)
    from starlette.testclient import TestClient

    from pyapp.serve.app import make_app
    from pyapp.serve.context import Context
    from pyapp.serve.settings import Settings

    context = Context(Settings(models=models, **{"preload": False, **settings}))
    with TestClient(make_app(context), raise_server_exceptions=False) as client:
        client.context = context  # type: ignore[attr-defined]
        yield client
