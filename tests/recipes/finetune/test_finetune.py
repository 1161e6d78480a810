"""Fine-tuning small models end to end: what is learnt, interruptions, quantised bases, whole models, the commands."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp import cli, nn
from pyapp.adapters.files import read_config
from pyapp.errors import OptionError, PyappError, StorageFullError
from pyapp.events import Cancel, Done, Event, Item, Metric, Notice, Progress, Token
from pyapp.formats import open_checkpoint
from pyapp.models import load_model
from pyapp.recipes.finetune import finetune
from pyapp.recipes.finetune.steps import StepSettings, Trained, trainer_of
from pyapp.text.chat.chat import answer
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.session import Session
from tests.recipes.finetune.interrupted import trained
from tests.text.chat_model import write_chat_model

pytestmark = pytest.mark.native_only
pytest.importorskip("jinja2")

COLORS = {"sun": "yellow", "moon": "white"}
FAST: dict[str, Any] = {"rate": 1e-2, "length": 64, "rows": 4, "save_every": 3, "steps": 8, "held_out": 0.2}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finetune")
    write_chat_model(folder / "model", layers=1)
    with open(folder / "chat.jsonl", "w") as file:
        for i in range(20):
            thing = list(COLORS)[i % 2]
            turns = [("user", f"the {thing}"), ("assistant", COLORS[thing])]
            messages = [{"role": role, "content": text} for role, text in turns]
            file.write(json.dumps({"messages": messages}) + "\n")
    return folder


def run(place: Path, out: str, cancel: Cancel | None = None, **settings: Any) -> list[Event]:
    given = {**FAST, **settings}
    return list(finetune(place / "model", place / "chat.jsonl", place / out, cancel=cancel, **given))


def said(model: Any, question: str) -> str:
    template = ChatTemplate(model.tokenizer)
    messages = [{"role": "user", "content": question}]
    events = answer(Session(model.model), template, messages, SamplingOptions(max_new_tokens=12, temperature=0.0))
    return "".join(event.text for event in events if isinstance(event, Token))


def adapter_bytes(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def test_a_quantised_model_learns_to_answer_and_to_stop(place: Path) -> None:
    events = run(
        place, "chat", steps=30, evaluate_every=10, quantized="q8_0", whole="lm_head", bfloat16=True, eight_bits=True
    )
    losses = [event.value for event in events if isinstance(event, Metric) and event.name == "held_out_loss"]
    assert losses[-1] < 0.2
    samples = [event for event in events if isinstance(event, Item)]
    assert len(samples) == 3 and samples[-1].values["text"] in COLORS.values()
    assert isinstance(events[-1], Done) and events[-1].results["adapter"]
    assert (place / "chat" / "loss.png").is_file()
    for dtype in ("q8_0", None):
        model = load_model(place / "model", adapter=place / "chat", dtype=dtype)
        assert {thing: said(model, f"the {thing}") for thing in COLORS} == COLORS
    config = read_config(place / "chat")
    assert config.r == 8 and config.lora_alpha == 16 and config.base_model_name_or_path == str(place / "model")


def test_an_interrupted_run_gives_the_same_adapter(place: Path) -> None:
    settings = {"accumulate": 2, "dropout": 0.1, "rank": 2, "rows": 2, "steps": 6, "evaluate_every": 6}
    run(place, "whole", **settings)
    stops = 0
    while True:
        cancel = Cancel()
        events = []
        given = {**FAST, **settings}
        for event in finetune(place / "model", place / "chat.jsonl", place / "parts", cancel=cancel, **given):
            events.append(event)
            if isinstance(event, Progress) and event.what == "training" and event.done in (2, 4):
                cancel.set()
        if events[-1].reason == "complete":  # type: ignore[attr-defined]
            break
        stops += 1
        assert events[-1].results["resume"] == "run the same command again"  # type: ignore[attr-defined]
    assert stops == 2
    assert adapter_bytes(place / "whole") == adapter_bytes(place / "parts")
    with open_checkpoint(place / "parts" / "checkpoint.safetensors") as checkpoint:
        assert all("lora_" in name or name.startswith("optimizer.") for name in checkpoint.tensors)
    with pytest.raises(PyappError, match="rank"):
        run(place, "parts", **{**settings, "rank": 3})


def test_a_full_disk_leaves_no_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="checkpoint.safetensors: the disk is full"):
        run(place, "new/full", steps=1)
    assert not (place / "new").exists()


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_norms_and_biases_do_not_decay(kind: str) -> None:
    model = Trained(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)).to(kind))
    settings = StepSettings("model", "data", steps=1, weight_decay=0.1)
    groups = trainer_of(model, [0], lambda *_: (pyapp.zeros(()), 0.0), settings, 1e-3, len).optimizer.param_groups
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [(1, 0.1), (3, 0.0)]


def test_patience(place: Path) -> None:
    """The training ends, and the best weights are kept, where it learns what the held-out lines deny."""
    lines = (place / "chat.jsonl").read_text().splitlines()[:2]
    denied = place / "denied.jsonl"
    denied.write_text("".join(line.replace(COLORS["sun"], COLORS["moon"]) + "\n" for line in lines[:1]))
    settings: dict[str, Any] = {
        **FAST, "steps": 40, "evaluate_every": 2, "save_every": 5, "patience": 2, "held_out_data": denied
    }  # fmt: skip

    def part(out: str, stop: int = 0) -> list[Event]:
        return trained(place / "model", place / "chat.jsonl", place / out, stop, **settings)

    events = part("patient")
    losses = [(e.step, e.value) for e in events if isinstance(e, Metric) and e.name == "held_out_loss"]
    best, lowest = min(losses, key=lambda pair: pair[1])
    assert 0 < best < 36 and losses[-1][0] == best + 4
    results = events[-1].results  # type: ignore[attr-defined]
    assert (results["best_step"], results["held_out_loss"], results["steps"]) == (best, lowest, best + 4)
    kept = adapter_bytes(place / "patient")
    part("patient parts", best)
    assert adapter_bytes(place / "patient parts") == kept
    part("patient parts", best + 3)
    assert part("patient parts")[-1].results["best_step"] == best  # type: ignore[attr-defined]
    assert adapter_bytes(place / "patient parts") == kept
    again = part("patient")[-1]
    assert isinstance(again, Done) and again.results == results and adapter_bytes(place / "patient") == kept
    (place / "patient" / "best.safetensors").unlink()
    with pytest.raises(PyappError, match="lowest held-out loss are missing"):
        part("patient")
    with pytest.raises(OptionError, match="patience.*needs held-out examples"):
        run(place, "no", patience=1, held_out=0.0)


def test_a_whole_model(place: Path) -> None:
    events = run(place, "full", steps=30, full=True, rate=3e-3, checkpointing=True)
    assert events[-1].results["parameters"] > 40_000  # type: ignore[attr-defined]
    model = load_model(place / "full")
    assert {thing: said(model, f"the {thing}") for thing in COLORS} == COLORS
    with pytest.raises(OptionError, match="block-quantised weights have no gradients"):
        run(place, "no", full=True, quantized="q8_0")


def test_a_story_model_on_a_text(place: Path) -> None:
    """The embedded model, whose layers are llama2.c's, and whose matrices become float32."""
    text = place / "text.txt"
    text.write_text("Pim the penguin likes green umbrellas. " * 60)
    found = list(
        finetune("stories", text, place / "story", rate=1e-2, length=32, steps=4, rows=1, rank=4, evaluate_every=4)
    )
    losses = [event.value for event in found if isinstance(event, Metric) and event.name == "loss"]
    assert losses[-1] < 0.9 * losses[0]
    assert any(isinstance(event, Notice) for event in found) is False
    assert cli.run(["merge", "stories", str(place / "story"), str(place / "merged")]) == 0
    adapted, merged = load_model("stories", adapter=place / "story"), load_model(place / "merged")
    tokens = pyapp.tensor([adapted.tokenizer.encode("Pim the")])
    with pyapp.no_grad():
        outputs: list[Any] = [model.model(tokens).numpy() for model in (adapted, merged)]  # type: ignore[operator]
    assert abs(outputs[0] - outputs[1]).max() < 1e-3


def test_the_commands(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data, out = (str(place / name) for name in ("model", "chat.jsonl", "commands"))
    usual = ["--steps", "4", "--rate", "1e-2", "--length", "64"]
    assert cli.run(["finetune", model, data, "-o", out, "--lora", "4", *usual]) == 0
    told = capsys.readouterr()
    assert "held-out loss" in told.out and f"--adapter {out}" in told.out and "→" in told.err
    assert cli.run(["generate", model, "-p", "the", "--adapter", out, "--max-new-tokens", "4", "--seed", "1"]) == 0
    settings = place / "settings.toml"
    values = f"model = {model!r}\ndata = {data!r}\nout-dir = {out!r}\nlora = 4\nsteps = 4\n"
    settings.write_text(f'command = "finetune"\n{values}')
    assert cli.run(["train", str(settings), "--rate", "1e-2", "--length", "64"]) == 0  # it is finished already
    assert cli.run(["finetune", model, data, "-o", out, "--lora", "0"]) == 2
    assert cli.run(["finetune", model, data, "-o", out, "--length", "9999"]) == 1
    assert "reads up to 512 tokens" in capsys.readouterr().err
    assert cli.run(["generate", model, "--adapter", str(place)]) == 1
    assert "no adapter_config.json" in capsys.readouterr().err
    settings.write_text('command = "finetune"\nlorra = 4\n')
    assert cli.run(["train", str(settings)]) == 1
    assert "unknown setting 'lorra'" in capsys.readouterr().err
