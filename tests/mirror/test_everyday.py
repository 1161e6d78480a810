"""Everyday programs on a device whose memory the host cannot see."""

from __future__ import annotations

import pytest

from . import device as _device  # noqa: F401 (registers the mirror)
from .everyday import CASES, check, check_numbers_of_the_cpu


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str) -> None:
    check("mirror", name)


def test_numbers_of_the_cpu_are_taken() -> None:
    check_numbers_of_the_cpu("mirror")
