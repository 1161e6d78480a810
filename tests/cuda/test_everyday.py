"""Everyday programs on the CUDA device, in the emulator."""

from __future__ import annotations

import pytest

from tests.mirror.everyday import CASES, check, check_numbers_of_the_cpu

from . import emulated

pytestmark = pytest.mark.native_only


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str) -> None:
    check(emulated.DEVICE, name)
    emulated.check()


def test_numbers_of_the_cpu_are_taken() -> None:
    check_numbers_of_the_cpu(emulated.DEVICE)
    emulated.check()
