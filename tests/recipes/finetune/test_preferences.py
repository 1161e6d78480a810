"""Preferences: losses of trl's trainers, and a model that learns which answers are better."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import no_grad, tensor
from pyapp.adapters.adapting import adapter_state
from pyapp.errors import FileFormatError, OptionError
from pyapp.events import Done, Event, Metric, Notice, Progress
from pyapp.models import load_model
from pyapp.recipes.finetune import FinetuneSettings
from pyapp.recipes.finetune.examples import read_examples
from pyapp.recipes.finetune.preferring import PreferenceTraining, training_for
from pyapp.train.preferences import dpo_loss, reference_free_loss, reward_loss
from tests.models.seeded import draw
from tests.recipes.finetune.interrupted import trained, write_lines
from tests.recipes.finetune.preference_case import (
    BETA,
    GAMMA,
    KINDS,
    LABELLED,
    PAIRS,
    REFERENCE_FREE,
    SCORES,
    SMOOTHING,
    UNPAIRED,
    WEIGHTS,
)
from tests.text.chat_model import write_chat_model
from tests.together import check_each

pytest.importorskip("jinja2")

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("preferences")
    write_chat_model(folder / "model", layers=1)
    write_lines(folder / "pairs.jsonl", PAIRS)
    write_lines(folder / "labelled.jsonl", LABELLED)
    return folder


def test_losses_are_those_of_trl(place: Path) -> None:
    """Of pairs, and of single answers with labels, some of which are mismatched with prompts."""
    loaded: Any = load_model(place / "model")
    pairs, labelled = (read_examples(place / f"{name}.jsonl", loaded.tokenizer, 64) for name in ("pairs", "labelled"))
    settings = FinetuneSettings(
        "model", "", steps=1, rank=4, alpha=8, length=64, beta=BETA, gamma=GAMMA, label_smoothing=SMOOTHING, rows=2,
        desirable_weight=WEIGHTS[0], undesirable_weight=WEIGHTS[1],
    )  # fmt: skip
    training: Any = PreferenceTraining(place / "losses", settings, loaded, pairs, pairs.rows)
    with no_grad():
        for name, value in adapter_state(loaded.model, "default").items():
            value.copy_(tensor(draw(name, tuple(value.shape))))

    def check(kind: str) -> None:
        training.__class__ = training_for(pairs, replace(settings, preference=kind))
        training.settings = replace(settings, preference=kind)
        expected = pytest.approx(GOLDEN["preferences"][kind], abs=2e-5)
        assert training._loss(training.model, training.held_out_rows)[1] == expected
        assert training.held_out_loss() == expected

    check_each(check, [(kind,) for kind in (*KINDS, *REFERENCE_FREE)])
    pairs, training.held_out_rows, training._reference = labelled, labelled.rows, {}
    check_each(check, [(kind,) for kind in UNPAIRED])


def test_rewards_are_those_of_trl() -> None:
    chosen, rejected, margin = map(tensor, SCORES)
    found = [reward_loss(chosen, rejected), reward_loss(chosen, rejected, margin)]
    found.append(reward_loss(chosen, rejected, center=0.01))
    assert [loss.item() for loss in found] == pytest.approx(GOLDEN["reward"], abs=1e-6)


def messages(*turns: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turns)]


def test_conversations(place: Path) -> None:
    """Prompts as messages, or as what both conversations begin with, are the same pair."""
    tokenizer: Any = load_model(place / "model").tokenizer
    path = place / "chats.jsonl"
    lines: list[Any] = [
        {"prompt": messages("hi"), "chosen": messages("", "a b")[1:], "rejected": messages("", "c")[1:]},
        {"chosen": messages("hi", "a b"), "rejected": messages("hi", "c")},
    ]
    first, second = read_examples(write_lines(path, lines), tokenizer, 64).rows
    assert (first.chosen, first.rejected) == (second.chosen, second.rejected)
    learnt = [token for token, wanted in zip(first.chosen.ids, first.chosen.wanted, strict=True) if wanted]
    assert tokenizer.decode(learnt[:-1]) == "a b" and learnt[-1] == 257  # up to the token that ends the turn
    with pytest.raises(FileFormatError, match="line 3: the file has both preferences and other examples"):
        path.write_text(path.read_text() + '{"text": "a"}\n')
        read_examples(path, tokenizer, 64)
    for wrong in (
        {"chosen": "b", "rejected": 3},
        {"chosen": "b", "completion": "c"},
        {"completion": [], "label": True},
    ):
        with pytest.raises(FileFormatError, match="the line is not an example"):
            read_examples(write_lines(path, [{"prompt": "a", **wrong}]), tokenizer, 64)
    line = {"prompt": messages("hi"), "completion": messages("", "a b")[1:], "label": False}
    found = read_examples(write_lines(path, [line]), tokenizer, 64)
    assert (found.rows[0].row, found.rows[0].good, found.chats) == (first.chosen, False, True)


def run(place: Path, out: str, stop: int = 0, data: str = "pairs.jsonl", **settings: Any) -> list[Event]:
    given = {"rate": 5e-3, "length": 64, "rows": 2, "steps": 8, "rank": 2, "evaluate_every": 8, **settings}
    held_out = place / data
    return trained(place / "model", held_out, place / out, stop, held_out_data=held_out, save_every=50, **given)


def test_a_model_learns_which_answers_are_better(place: Path) -> None:
    events = run(place, "whole", rslora=True)
    losses = losses_of(events)
    assert losses[0] == pytest.approx(0.6931, abs=1e-4) and losses[-1] < 0.4  # nothing has been learnt at first
    done = events[-1]
    assert isinstance(done, Done) and done.results["held_out_accuracy"] == 1.0
    stopped = run(place, "parts", 3, rslora=True)[-1]
    assert isinstance(stopped, Done) and stopped.reason == "cancelled"
    run(place, "parts", rslora=True)
    whole, parts = ((place / name / "adapter_model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts
    assert json.loads((place / "whole" / "adapter_config.json").read_text())["use_rslora"] is True


def test_losses_without_a_reference_teach_the_answers(place: Path) -> None:
    """The loss falls, also in a whole model, and preferred answers become the likelier ones."""
    for kind, settings in (("orpo", {}), ("simpo", {"beta": 2.0, "gamma": 1.0}), ("cpo", {"full": True, "rate": 1e-3})):
        events = run(place, kind, preference=kind, **settings)
        losses = losses_of(events)
        done = events[-1]
        assert isinstance(done, Done) and done.results["held_out_accuracy"] == 1.0
        assert losses[-1] < 0.9 * losses[0], kind


def test_odds_of_likely_answers() -> None:
    """log(p / (1 - p)) where p is near 1 and where it is near 0."""
    chosen, rejected = tensor([-1e-6, -20.0]), tensor([-2e-6, -21.0])
    margin = np.array([np.log(2.0) + 0.5e-6, 1.0])  # of the log odds
    expected = np.log1p(np.exp(-margin)).mean()
    assert reference_free_loss(chosen, rejected, "orpo", beta=1.0).item() == pytest.approx(expected, abs=2e-6)


def losses_of(events: list[Event]) -> list[float]:
    return [event.value for event in events if isinstance(event, Metric) and event.name == "held_out_loss"]


def test_a_whole_model_keeps_its_reference_when_it_continues(place: Path) -> None:
    """What it says of pairs, and of prompts with the answers to others."""
    for name, settings, most in (
        ("full", {}, 0.65),
        ("full kto", {"data": "labelled.jsonl", "preference": "kto", "beta": 0.5}, 0.48),
    ):
        given: dict[str, Any] = {"full": True, "rate": 1e-3, "steps": 4, **settings}
        events = run(place, name, **given)
        whole = losses_of(events)[-1]
        asked = [event for event in events if isinstance(event, Progress) and event.what == "asking the reference"]
        assert asked and asked[-1].done == asked[-1].total  # it takes time, so it is told
        run(place, f"{name} parts", 2, **given)
        assert losses_of(run(place, f"{name} parts", **given))[-1] == whole < most


def test_a_model_learns_which_single_answers_are_good(place: Path) -> None:
    given: dict[str, Any] = {"data": "labelled.jsonl", "preference": "kto", "beta": 0.5}
    events = run(place, "kto", **given)
    losses = losses_of(events)
    assert losses[0] == 0.5 and losses[-1] < 0.3  # nothing has been learnt at first
    done = events[-1]
    assert isinstance(done, Done) and done.results["held_out_accuracy"] == 1.0 and done.results["examples"] == 3
    assert any(
        isinstance(event, Notice)
        and event.what.startswith("2 answers are desirable, 1 are not")
        and event.hint == "Give --desirable-weight from 0.5 to 0.67, or --undesirable-weight from 1.5 to 2"
        for event in events
    )
    run(place, "kto parts", 3, **given)
    run(place, "kto parts", **given)
    whole, parts = ((place / name / "adapter_model.safetensors").read_bytes() for name in ("kto", "kto parts"))
    assert whole == parts
    pairs = run(place, "kto pairs", preference="kto", steps=1)  # each is a good answer and one that is not
    assert isinstance(pairs[-1], Done) and pairs[-1].results["examples"] == 4
    assert not any(isinstance(event, Notice) and "desirable" in event.what for event in pairs)


def test_settings_are_checked(place: Path) -> None:
    with pytest.raises(OptionError, match=r"kind.*is one of sigmoid, hinge"):
        run(place, "no", preference="simple")
    with pytest.raises(OptionError, match="gamma.*from 0 on"):
        run(place, "no", preference="simpo", gamma=-1.0)
    with pytest.raises(OptionError, match=r"beta.*above 0"):
        run(place, "no", beta=0.0)
    with pytest.raises(OptionError, match="rows: KTO compares the answers of a batch"):
        run(place, "no", preference="kto", rows=1)
    with pytest.raises(OptionError, match="desirable_weight"):
        run(place, "no", desirable_weight=-1.0)
    with pytest.raises(FileFormatError, match="its answers have labels, which the loss sigmoid does not read"):
        run(place, "no", data="labelled.jsonl")
    write_lines(place / "plain.jsonl", [{"text": "a b c d e f g h"}])
    with pytest.raises(FileFormatError, match="the file has no answers with labels"):
        run(place, "no", data="plain.jsonl", preference="kto")
    one = tensor([1.0])
    with pytest.raises(OptionError, match="lengths"):
        dpo_loss(one, one, one, one, kind="ipo")
    with pytest.raises(OptionError, match="is one of sigmoid"):
        dpo_loss(one, one, one, one, kind="orpo")
    with pytest.raises(OptionError, match="is one of cpo, simpo, orpo"):
        reference_free_loss(one, one, kind="sigmoid")
