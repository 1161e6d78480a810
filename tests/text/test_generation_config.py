"""The settings of a model's generation_config.json, and what a caller's own do to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyapp import tasks
from pyapp.events import Done, Event, Notice, Token
from pyapp.text.generation.generation_config import generation_settings, with_model_settings
from pyapp.text.generation.options import SamplingOptions
from tests.text.chat_model import write_chat_model
from tests.together import collect


def test_what_the_file_says() -> None:
    notices: list[Any] = []
    found = generation_settings(
        {
            "do_sample": False, "temperature": 0.6, "top_k": -1, "top_p": 7, "no_repeat_ngram_size": 3.0,
            "bad_words_ids": None, "suppress_tokens": [1, 2], "forced_eos_token_id": [2, 5], "min_length": "x",
            "eos_token_id": 2, "max_length": 20, "transformers_version": "5.0",
        },
        report=notices.append,
    )  # fmt: skip
    assert found == {
        "temperature": 0.0, "no_repeat_ngram": 3, "suppress_tokens": [1, 2], "forced_eos_token_id": 2
    }  # fmt: skip
    assert [notice.what.partition(":")[0] for notice in notices] == ["top_p", "min_length"]
    assert all(isinstance(notice, Notice) and notice.where == "generation_config.json" for notice in notices)


def test_which_settings_go_first() -> None:
    model = {"temperature": 0.6, "top_k": 20, "suppress_tokens": [7]}
    given = SamplingOptions(temperature=1.0, suppress_tokens=(1,))
    assert with_model_settings(given, {}) is given
    named = with_model_settings(given, model, ["temperature", "suppress_tokens"])
    assert (named.temperature, named.top_k, named.suppress_tokens) == (1.0, 20, (1,))
    whole = with_model_settings(SamplingOptions(), model)  # whole options of Python's: only rules are added
    assert (whole.temperature, whole.top_k, whole.suppress_tokens) == (0.8, 0, (7,))


def text_of(events: list[Event]) -> str:
    assert isinstance(events[-1], Done), events[-1]
    return "".join(event.text for event in events if isinstance(event, Token))


@pytest.mark.native_only  # a folder
def test_a_folder_with_the_file(tmp_path: Path) -> None:
    write_chat_model(tmp_path, dim=32)
    plain = text_of(collect(tasks.generate(str(tmp_path), "hello", {"temperature": 0, "max_new_tokens": 8})))
    rules = {"do_sample": False, "suppress_tokens": [ord(plain[0])], "max_new_tokens": 5}
    (tmp_path / "generation_config.json").write_text(json.dumps(rules))
    tasks.unload()
    own = collect(tasks.generate(str(tmp_path), "hello"))
    assert plain[0] not in text_of(own)
    ids = [event.id for event in own if isinstance(event, Token)]
    assert ids == [event.id for event in collect(tasks.generate(str(tmp_path), "hello")) if isinstance(event, Token)]
    assert len(ids) == 5
    longer = collect(tasks.generate(str(tmp_path), "hello", {"max_new_tokens": 9, "suppress_tokens": []}))
    assert text_of(longer)[:8] == plain
    question = [{"role": "user", "content": "hello"}]
    talk = [collect(tasks.chat(str(tmp_path), question)) for _ in range(2)]
    assert text_of(talk[0]) == text_of(talk[1]) and plain[0] not in text_of(talk[0])
    tasks.unload()
