"""Texts by masked diffusion, against the published loops (make_golden_denoising.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.engine import Tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Draft, Error, Event, Token
from pyapp.formats import write_safetensors
from pyapp.nn.encoders.masked_diffusion import Denoising
from pyapp.text.generation.denoising import MASKED, denoise
from pyapp.text.generation.generate import Session, generate_from
from pyapp.text.generation.options import SamplingOptions
from tests.models.seeded import draw
from tests.models.small_models import module_for
from tests.tasks.test_texts import tokenizer_json
from tests.text.denoising_cases import CASES, MODELS, PROMPT
from tests.text.table_model import Config, TableModel, TableTokenizer
from tests.together import check_each, collect

GOLDEN = json.loads(Path(__file__).with_name("golden_denoising.json").read_text())
GREEDY = {"temperature": 0.0, "top_p": 1.0}


def make(name: str) -> Any:
    module = module_for(MODELS[name])
    model = module.TASKS["text-diffusion"](module.Config.from_dict(MODELS[name]))
    with pyapp.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(pyapp.from_numpy(draw(key, tuple(parameter.shape), GOLDEN["salt"])))
    return model


class Words:
    """A tokenizer of numbers."""

    vocab_size, bos_id, eos_ids = 96, 1, frozenset({90})
    stop_ids = eos_ids

    def decode(self, ids: Any) -> str:
        return "".join(f"{id} " for id in ids)

    def token_bytes(self, token: int) -> bytes:
        return f"{token} ".encode()

    def joiner(self, continuing: bool = False) -> Any:
        class Joiner:
            push = staticmethod(self.token_bytes)

            @staticmethod
            def finish() -> bytes:
                return b""

        return Joiner()


def tokens(events: list[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token) and event.id is not None]


def run(model: Any, count: int, denoising: dict[str, Any] | None = None, **settings: Any) -> list[Event]:
    options = SamplingOptions(**GREEDY | {"max_new_tokens": count, "denoising": denoising} | settings)
    return list(generate_from(Session(model), Words(), PROMPT, options))  # type: ignore[arg-type]


def test_published_loops() -> None:
    models = {name: make(name) for name in MODELS}

    def check(name: str, count: int, settings: dict[str, Any], expected: list[int]) -> None:
        events = run(models[name], count, settings)
        assert tokens(events) == expected
        assert isinstance(events[-1], Done) and events[-1].reason == "length"
        steps = sum(isinstance(event, Draft) for event in events)
        assert events[-1].results["steps"] == steps <= settings["steps"]

    check_each(check, [(*case, text) for case, text in zip(CASES, GOLDEN["texts"], strict=True)])


def test_tokens_appear_in_their_places() -> None:
    """What Tokens and the Draft behind them show is the text so far; a block is complete before the next begins."""
    name, count, settings = CASES[0]
    events, shown, seen = run(make(name), count, settings), "", []
    for event in events:
        if isinstance(event, Token):
            shown += event.text
        elif isinstance(event, Draft):
            seen.append(shown + event.text)
    assert shown == Words().decode(GOLDEN["texts"][0])
    assert [text.count(MASKED) for text in seen] == [7, 6, 5, 4, 3, 2, 1, 0] * 3
    for before, after in zip(seen, seen[1:], strict=False):
        known = [part for part in before.replace(MASKED, f"{MASKED} ").split() if part != MASKED]
        rest = iter(after.replace(MASKED, f"{MASKED} ").split())
        assert all(part in rest for part in known)  # nothing that is known changes


def test_ends() -> None:
    model, text = make("llada"), GOLDEN["texts"][0]
    settings = CASES[0][2]
    stop = run(model, 24, settings, stop_tokens=(text[4],))
    assert tokens(stop) == text[:4] and isinstance(stop[-1], Done) and stop[-1].reason == "stop"
    string = run(model, 24, settings, stop=(f"{text[3]} ",))
    assert isinstance(string[-1], Done) and string[-1].reason == "stop_string"
    full = run(model, 200, {"steps": 1})
    assert isinstance(full[-1], Done) and full[-1].reason == "context" and len(tokens(full)) == 122
    cancel = Cancel()
    cancel.set()
    options = SamplingOptions(**GREEDY)
    last = list(denoise(Session(model), Words(), PROMPT, options, cancel))[-1]  # type: ignore[arg-type]
    assert isinstance(last, Done) and last.reason == "cancelled" and last.results["new_tokens"] == 0


class Table:
    """The same logits at each place."""

    def __init__(self, logits: Any) -> None:
        self.config = Config(len(logits), 8192)
        self.denoising = Denoising(len(logits) - 1, block_length=None)
        self.device = pyapp.zeros(1).device
        self.logits = pyapp.tensor(logits)

    def new_cache(self, *arguments: Any, **settings: Any) -> None:
        return None

    def predictions(self, texts: Tensor, places: Tensor) -> Tensor:
        return self.logits.expand((texts.shape[0], places.shape[0], self.logits.shape[0]))


def test_draws_have_the_shares_of_the_logits() -> None:
    logits = np.linspace(-1, 1.5, 6).astype(np.float32)

    def check(settings: dict[str, Any], kept: int) -> None:
        events = run(Table(logits.tolist()), 4000, {"steps": 1}, **{"temperature": 0.7, "seed": 5} | settings)
        found = np.bincount(tokens(events), minlength=6) / 4000
        shares = np.exp(logits[:5] / np.float32(0.7))  # the last is the mask, which never comes
        shares[: 5 - kept] = 0
        np.testing.assert_allclose(found[:5], shares / shares.sum(), atol=0.03)
        assert not found[: 5 - kept].any() and not found[5]
        again = run(Table(logits.tolist()), 4000, {"steps": 1}, **{"temperature": 0.7, "seed": 5} | settings)
        assert tokens(again) == tokens(events)

    check_each(check, [({}, 5), ({"top_k": 2}, 2), ({"top_p": 0.6}, 2)])
    for remasking in ("random", "low_confidence"):
        steps = {"steps": 3, "remasking": remasking, "remasking_temperature": 0.5}
        assert len(tokens(run(Table(logits.tolist()), 9, steps, seed=1))) == 9
    chances = Table(logits.tolist())
    chances.denoising = Denoising(5, remasking="origin", least_time=1e-3)
    assert len(tokens(run(chances, 50, {"steps": 6}, seed=2))) == 50


def test_what_does_not_apply_is_refused() -> None:
    model = make("llada")

    def check(denoising: dict[str, Any] | None, settings: dict[str, Any], where: str) -> None:
        with pytest.raises(OptionError) as error:
            run(model, 8, denoising, **settings)
        assert error.value.where == where

    check_each(check, [
        ({"steps": 0}, {}, "denoising.steps"), ({"steps": 1 << 31}, {}, "denoising.steps"),
        ({"block_length": 1.5}, {}, "denoising.block_length"),
        ({"remasking": "odd"}, {}, "denoising.remasking"), ({"remasking": "origin"}, {}, "denoising.remasking"),
        ({"guidance_scale": 0.5}, {}, "denoising.guidance_scale"), ({"step": 3}, {}, "denoising.step"),
        (None, {"logprobs": 1}, "logprobs"), (None, {"min_p": 0.1}, "min_p"), (None, {"lookup": 4}, "lookup"),
        (None, {"repetition_penalty": 1.2}, "repetition_penalty"), (None, {"regex": "a"}, "regex"),
        (None, {"cache_type": "q8_0"}, "cache_type"),
    ])  # fmt: skip
    with pytest.raises(ModelError, match="masked diffusion"):
        Session(model).feed(PROMPT)
    with pytest.raises(ModelError, match="NaN"):
        run(Table([float("nan")] * 6), 4)


def folder_of(name: str, folder: Path) -> None:
    tensors = {key: value.detach() for key, value in make(name).state_dict().items()}
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(MODELS[name]))
    (folder / "tokenizer.json").write_text(tokenizer_json())


def test_a_folder_writes_and_answers(tmp_path: Path) -> None:
    folder_of("llada", tmp_path)
    settings = {"max_new_tokens": 12, "denoising": {"steps": 6}}
    events = collect(tasks.generate(str(tmp_path), "the cat", settings))
    assert any(isinstance(event, Draft) for event in events)
    assert isinstance(events[-1], Done) and events[-1].results["steps"] <= 6
    answer = collect(tasks.chat(str(tmp_path), [{"role": "user", "content": "the cat"}], settings, plain=True))
    assert isinstance(answer[-1], Done) and answer[-1].results["new_tokens"] <= 12
    several = collect(tasks.generate(str(tmp_path), "the cat", {"samples": 2}))
    assert isinstance(several[-1], Error) and several[-1].where == "samples"
    with pytest.raises(OptionError, match="token by token"):
        list(generate_from(Session(TableModel()), TableTokenizer(), [3], SamplingOptions(denoising={})))  # type: ignore[arg-type]


def test_texts_of_a_server_take_turns() -> None:
    pytest.importorskip("starlette")
    from pyapp.serve.denoiser import Denoiser
    from pyapp.serve.writing import Text

    runner = Denoiser(make("llada"), Words(), rows=2)  # type: ignore[arg-type]
    heard: list[list[Event]] = [[], [], []]
    name, count, settings = CASES[0]
    options = SamplingOptions(**GREEDY | {"max_new_tokens": count, "denoising": settings})
    for events, own in zip(heard, (options, options, SamplingOptions(logprobs=0)), strict=True):
        runner.add(Text(PROMPT, own, frozenset(), events.append))
    while runner.turn():
        pass
    assert tokens(heard[0]) == tokens(heard[1]) == GOLDEN["texts"][0]
    assert isinstance(heard[2][-1], Error) and heard[2][-1].where == "logprobs"
    assert runner.new_tokens == 48 and runner.load.running == 0 and name == "llada"
