"""`pyapp train SCRIPT.py`: exit codes, seeds, Ctrl-C, and going on as if nothing had happened."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pyapp import cli, nn
from pyapp.errors import FileFormatError, OptionError, PyappError
from pyapp.formats.torch_files import load, save
from pyapp.nn.part import Part
from pyapp.train.script import FILE_NAME, Run

pytestmark = pytest.mark.native_only

SCRIPT = """
import os, signal, sys
import pyapp
from pyapp import nn, optim
from pyapp.train.script import current_run

run = current_run()
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to(run.device)
optimizer = optim.AdamW(model.parameters(), lr=0.05)
schedule = optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
for step in run.steps(12, save_every=100, model=model, optimizer=optimizer, schedule=schedule):
    loss = (model(pyapp.randn(16, 4)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    run.log(loss=loss)
    if str(step) in sys.argv[1:]:
        os.kill(os.getpid(), signal.SIGINT if step % 2 else signal.SIGTERM)
print("trained", step, run.seed)
"""


def test_an_interrupted_script_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL")
    script = tmp_path / "small.py"
    script.write_text(SCRIPT)

    def run(folder: str, *more: str) -> int:
        return cli.run(["train", str(script), "-o", str(tmp_path / folder), "--seed", "3", *more])

    assert run("whole") == 0
    assert capsys.readouterr().out == "trained 12 3\n"
    assert run("parts", "5") == 130
    told = capsys.readouterr()
    assert told.out == "" and "stopped at step 5" in told.err and "the same command continues" in told.err
    assert run("parts") == 0
    whole, parts = (load(tmp_path / folder / "checkpoint.pt") for folder in ("whole", "parts"))
    assert whole["values"]["loss"].equal(parts["values"]["loss"]) and whole["values"]["loss"].shape == (12, 2)
    assert whole["step"] == 12
    for name, value in whole["parts"]["model"].items():
        assert value.tolist() == parts["parts"]["model"][name].tolist()
    assert (tmp_path / "parts" / "loss.png").stat().st_size > 1000
    assert run("parts", "--no-resume", "2") == 130
    assert (tmp_path / "parts" / "checkpoint.previous").is_file()
    assert load(tmp_path / "parts" / "checkpoint.pt")["step"] == 2

    settings = tmp_path / "small.toml"
    settings.write_text('command = "small.py"\nseed = 4\nresume = false\n')
    assert cli.run(["train", str(settings), "-o", str(tmp_path / "toml")]) == 0
    assert capsys.readouterr().out.endswith("trained 12 4\n")

    other = tmp_path / "other.py"
    other.write_text(SCRIPT.replace("nn.Linear(8, 1)", "nn.Linear(8, 2)"))
    assert cli.run(["train", str(other), "-o", str(tmp_path / "parts")]) == 1
    assert "checkpoint" in capsys.readouterr().err


def test_a_run_has_its_folder_for_itself_and_saves_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.train.folders.FREED_SECONDS", 0.0)
    monkeypatch.setattr("pyapp.train.script.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("pyapp.train.script.SAVE_SHARE", float("inf"))
    run, model = Run(tmp_path), nn.Linear(2, 2)
    steps = run.steps(9, model=model)
    assert [next(steps), next(steps)] == [1, 2] and load(run.checkpoint)["step"] == 1
    if sys.platform != "win32":
        with pytest.raises(PyappError, match="another training uses this folder"):
            next(Run(tmp_path).steps(9, model=model))
    steps.close()
    assert next(Run(tmp_path).steps(9, model=model)) == 2
    model.weight.part = Part((4, 2), 0, ((0, 2),))
    with pytest.raises(OptionError, match="several processes divide") as caught:
        next(Run(tmp_path / "new").steps(9, model=model))
    assert "distributed.checkpoint" in (caught.value.hint or "")


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(text: str, *more: str) -> int:
        script = tmp_path / "script.py"
        script.write_text(text)
        return cli.run(["train", str(script), *more])

    assert run("pass") == 0
    assert run("import sys; sys.exit(7)") == 7
    assert run("raise SystemExit('no data')") == 1
    assert capsys.readouterr().err == "no data\n"
    assert run("1 / 0") == 1
    assert "script.py" in (told := capsys.readouterr().err) and "ZeroDivisionError" in told
    assert run("raise KeyboardInterrupt") == 130
    assert run("from pyapp.errors import ModelError; raise ModelError('wrong', hint='Do this')") == 1
    assert "error: wrong" in capsys.readouterr().err
    assert run("pass", "--device", "cuda") == 2
    assert "no device 'cuda" in capsys.readouterr().err
    assert cli.run(["train", str(tmp_path / "none.py")]) == 2
    assert cli.run(["train", str(tmp_path / "none.toml")]) == 2
    (tmp_path / "bad.toml").write_text("= 3")
    assert cli.run(["train", str(tmp_path / "bad.toml")]) == 1
    assert "not valid TOML" in capsys.readouterr().err
    (tmp_path / "bad.toml").write_text("steps = 3")
    assert cli.run(["train", str(tmp_path / "bad.toml")]) == 1
    assert "which command to run" in capsys.readouterr().err
    with pytest.raises(OptionError):
        next(Run(tmp_path).steps(-1))


@pytest.mark.parametrize("damage", [{"step": float("inf")}, {"step": -1}, {"values": {"loss": "a"}}, {"random": []}])
def test_a_state_that_cannot_be_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    state = {"step": 1, "values": {"loss": [(1, 0.5)]}, "random": [1, 0], "parts": {}}
    save(state, tmp_path / FILE_NAME)
    assert next(Run(tmp_path).steps(3)) == 2
    save(state | damage, tmp_path / FILE_NAME)
    with pytest.raises(FileFormatError, match="does not continue this script"):
        next(Run(tmp_path).steps(3))
