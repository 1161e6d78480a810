"""The fuzzer of a card (fuzz.py): a call of each kind, some programs, and that it notices what differs."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import pyapp

from . import emulated, fuzz

pytestmark = pytest.mark.native_only


def test_a_call_of_each_kind_and_programs_give_the_cpus_results() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = [fuzz.compare_call(7, [name], emulated.DEVICE) for name in fuzz.CALLS if name != "many_rows"]
        wrong += [fuzz.compare_program(seed, emulated.DEVICE) for seed in range(40)]
    emulated.check()
    assert not any(wrong), [told for told in wrong if told]


def test_what_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def there(x: Any) -> bool:
        return bool(x.device != "cpu")

    def refused(x: Any) -> Any:
        raise ValueError("here")

    wrong = {
        "1 of 6 differ": lambda x: x + pyapp.arange(6, device=x.device).eq(3) * 0.01 if there(x) else x,
        "on the CPU pyapp.float32[6]": lambda x: x.double() if there(x) else x + 0,
        "ValueError: here; on the CPU works": lambda x: refused(x) if there(x) else x,
    }
    for told, function in wrong.items():
        monkeypatch.setitem(fuzz.CALLS, "wrong", lambda r, of=function: (of, [r.laid((6,), learns=False)]))
        assert told in fuzz.compare_call(3, ["wrong"], emulated.DEVICE).replace("[6]):", "):")
    monkeypatch.setitem(fuzz.CALLS, "right", lambda r: (refused, [r.laid((6,))]))
    assert not fuzz.compare_call(3, ["right"], emulated.DEVICE)
