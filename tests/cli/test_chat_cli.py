"""`pyapp chat`: through pipes, and in a terminal with Ctrl-C and Ctrl-D."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyapp import cli, tasks
from pyapp.audio import read_wav
from pyapp.formats.png import encode_png
from tests.cli.conftest import Here
from tests.models.projector_files import PROJECTOR, write_both
from tests.models.test_voices import make as make_voice
from tests.models.test_voices import write as write_voice
from tests.text.picture_chat_model import photo, write_picture_chat_model
from tests.text.small_model import write_model

pytest.importorskip("jinja2")
pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
QUICK = ["--temperature", "0", "-n", "6", "--threads", "1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The arguments: a small model and a template."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "chat.jinja").write_text(TEMPLATE)
    return [str(write_model(folder)), "--template", str(folder / "chat.jinja")]


@pytest.fixture
def talk(here: Here) -> Here:
    """Runs `pyapp chat` in this process, with a text through a pipe: exit code, stdout, stderr."""
    return lambda model, text, *arguments: here("chat", *model, *QUICK, *arguments, stdin=text.encode())


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def test_lines_of_a_pipe(model: list[str], talk: Here, tmp_path: Path) -> None:
    saved = tmp_path / "talk.json"
    lines = [
        "/system Be kind.", "Once upon \\", "a time", '"""', "She said", "", 'hello"""', "/undo", "/regenerate",
        "/save",
        f"/save {saved}", "/nothing", "/help", "/exit", "never read",
    ]  # fmt: skip
    command, text = [sys.executable, "-m", "pyapp", "chat", *model, *QUICK], "\n".join(lines) + "\n"
    result = subprocess.run(command, input=text, capture_output=True, timeout=120, text=True, env=environment())
    messages = json.loads(saved.read_text())["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant"]
    assert messages[0]["content"] == "Be kind." and messages[1]["content"] == "Once upon \na time"
    answers = result.stdout.splitlines()
    assert messages[2]["content"] in result.stdout and len(answers) == 3  # two messages, one of them twice
    assert answers[0] == answers[2]
    notes = result.stderr
    assert (
        "removed: She said" in notes and "there is no command /nothing" in notes and "give the name of a file" in notes
    )
    assert "context" in notes and "/regenerate    answer" in notes
    assert result.returncode == 1  # of the wrong command
    code, out, _ = talk(model, "/regenerate\n", "--load", saved)
    assert code == 0 and out.strip() == answers[0].strip()


def test_json_lines(model: list[str], talk: Here) -> None:
    code, out, _ = talk(model, "Once upon a time\nShe said\n", "--json")
    events = [json.loads(line) for line in out.splitlines()]
    loaded, *ends = [event for event in events if event["type"] == "done"]
    assert "name" in loaded and len(ends) == 2 and code == 0
    assert ends[0]["context_size"] == 4096 and ends[1]["reused_tokens"] >= ends[0]["prompt_tokens"] - 3
    text = "".join(event["text"] for event in events if event["type"] == "token")
    assert text == ends[0]["text"] + ends[1]["text"]


def test_a_full_disk_keeps_the_old_conversation(
    model: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/save writes a file as a whole, or leaves what was there."""
    from pyapp.cli.chat import Talk
    from pyapp.text.chat.chat import Conversation

    class Full(Conversation):
        def to_json(self) -> str:
            return "\ud800"  # fails while the file is being written

    path = tmp_path / "talk.json"
    path.write_text("old")
    saving = Talk.__new__(Talk)
    saving.conversation = Full()
    with pytest.raises(UnicodeEncodeError):
        saving._save(str(path))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_what_goes_wrong(model: list[str], talk: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = talk([model[0]], "")  # before there is a message
    assert code == 1 and error.startswith("error: chat template: the model has no")
    missing = cli.run(["chat", str(tmp_path / "missing.bin")])
    assert missing == 1 and "missing.bin" in capsys.readouterr().err
    (tmp_path / "talk.json").write_text("{}")
    assert cli.run(["chat", *model, "--load", str(tmp_path / "talk.json")]) == 1
    assert "not a conversation that pyapp saved" in capsys.readouterr().err
    assert cli.run(["chat", *model, "--regex", "a", "--choice", "b"]) == 1
    assert "regex: excludes choice" in capsys.readouterr().err
    (tmp_path / "talk.json").write_bytes(b"\xff")
    commands = ("/save", "no/talk.json"), ("/load", "none.json"), ("/load", "talk.json")
    told = talk(model, "".join(f"{name} {tmp_path}/{file}\n" for name, file in commands))[2]
    for line in ("no/talk.json: there is no folder", "none.json: no such file", "talk.json: this is not UTF-8 text"):
        assert f"{tmp_path}/{line}" in told, told
    assert "Errno" not in told


def test_spoken_answers(model: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each answer has a file of its own, which replaces none."""
    voice = write_voice(tmp_path / "voice", "vits", dict(make_voice("vits").state_dict()))
    (tmp_path / "answer-1.wav").write_bytes(b"old")
    spoken = [*model, "--voice", str(voice), "--speech", str(tmp_path)]
    asked = ["chat", *spoken, *QUICK, "--choice", "it"]
    told = pytest.importorskip("click.testing").CliRunner().invoke(cli.cli, asked, input="so\nit\n")
    assert told.exit_code == 0 and told.stdout == "it\nit\n", told.output
    assert (tmp_path / "answer-1.wav").read_bytes() == b"old"
    for number in (2, 3):
        samples, rate = read_wav(tmp_path / f"answer-{number}.wav")
        assert len(samples) and rate == 16000 and f"answer-{number}.wav" in told.stderr
    for more, wrong in (
        (["--voice-name", "9"], "one voice"), (["--voice-name", "ann"], "no names"),
        (["--voice", str(tmp_path / "none")], "none"),
    ):  # fmt: skip
        assert cli.run(["chat", *spoken, *more]) == 1 and wrong in capsys.readouterr().err
    assert cli.run(["chat", *model, "--speech", str(tmp_path)]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal(model: list[str]) -> None:
    """Ctrl-C stops the answer and the conversation goes on; Ctrl-D leaves."""
    import pty

    terminal, inner = pty.openpty()
    long = ["--temperature", "1", "--seed", "1", "--logit-bias", "1=-100", "--logit-bias", "2=-100", "--threads", "1"]
    command = [sys.executable, "-m", "pyapp", "chat", *model, *long]
    process = subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env=environment(), start_new_session=True
    )
    os.close(inner)
    seen = ""

    def read_until(condition: Callable[[], bool]) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while not condition():
            readable, _, _ = select.select([terminal], [], [], 1)
            assert time.monotonic() < end, seen
            seen += os.read(terminal, 4096).decode("utf-8", "replace") if readable else ""

    def until(text: str) -> None:
        """Reads on to this text, and forgets what came before."""
        nonlocal seen
        read_until(lambda: text in seen)
        seen = seen.partition(text)[2]

    try:
        until("> ")
        os.write(terminal, b"Once upon a time\n")
        until("Once upon a time")
        # The answer has begun; a fast machine ends it in a quarter of a second.
        read_until(lambda: len(seen.strip()) > 10)
        process.send_signal(signal.SIGINT)
        until("stopped]")
        until("> ")
        os.write(terminal, b"/undo\n")
        until("removed: Once upon a time")
        until("> ")
        os.write(terminal, b"\x04")
        assert process.wait(30) == 0
    finally:
        process.kill()
        os.close(terminal)


def test_help_shows_groups(capsys: pytest.CaptureFixture[str]) -> None:
    for command, groups in (
        ("chat", ["Form of the text"]),
        ("generate", ["Several texts", "Speculation", "Repetition"]),
    ):
        assert cli.run([command, "--help"]) == 0
        text: Any = capsys.readouterr().out
        assert all(f"\n{group}:\n" in text for group in ["Options", "Choice of tokens", *groups]), text


def test_generate_takes_the_new_settings(model: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}')
    assert cli.run(["generate", model[0], "--no-echo", "--json-schema", str(schema), "--seed", "1"]) == 0
    assert all(isinstance(entry, bool) for entry in json.loads(capsys.readouterr().out))
    assert cli.run(["generate", model[0], "-p", "Once", "--beams", "3", "--samples", "2", "-n", "4"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("Once") == 2 and "log-probability" in shown.err
    for wrong in (["--logit-bias", "x"], ["--json-schema", "{"], ["--keep", "-1"]):
        assert cli.run(["generate", model[0], *wrong]) == 2, wrong
        assert wrong[0] in capsys.readouterr().err


def test_a_model_in_two_files(here: Here, talk: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyapp chat and pyapp generate with --projector and --image; without it, what lies beside the model."""
    monkeypatch.chdir(tmp_path)
    folder, both = write_both(tmp_path, "idefics3")
    shown = tmp_path / "shown.png"
    shown.write_bytes(encode_png(photo(20, 30)))

    def told(command: str, model: Path, *more: str, text: str = "") -> list[dict[str, Any]]:
        code, out, error = here(command, model, *QUICK, *more, "--json", stdin=text.encode())
        assert code == 0, out + error
        return [json.loads(line) for line in out.splitlines()]

    away = tmp_path / "away.gguf"
    shutil.move(both / PROJECTOR, away)
    asked = "--image", str(shown)
    expected = told("chat", folder, *asked, text="What is it?\n")[-1]["text"]
    assert told("chat", both, "--projector", str(away), *asked, text="What is it?\n")[-1]["text"] == expected
    lines = (
        told("generate", folder, *asked, "-p", "It is"),
        told("generate", both, "--projector", str(away), *asked, "-p", "It is"),
    )
    written = ["".join(event["text"] for event in own if event["type"] == "token") for own in lines]
    assert written[0] == written[1] != ""
    tasks.unload()
    code, _, error = talk([str(both)], "What is it?\n", *asked)
    assert code == 1 and "this model reads no pictures" in error
    tasks.unload()
    shutil.move(away, both / "mmproj-model.gguf")
    assert told("chat", both, *asked, text="What is it?\n")[-1]["text"] == expected


def test_pictures(talk: Here, tmp_path: Path) -> None:
    """--image shows a picture with the first message, /image with the next one; /save and /load keep their names."""
    folder = write_picture_chat_model(tmp_path / "llava", "llava")
    first, second, saved = tmp_path / "first.png", tmp_path / "second.png", tmp_path / "talk.json"
    for seed, path in enumerate((first, second)):
        path.write_bytes(encode_png(photo(20, 30, seed)))
    lines = ["What is it?", f"/image {tmp_path / 'none.png'}", f"/image {second}", "And this?", "", "/undo",
             f"/save {saved}", "/regenerate"]  # fmt: skip
    _, out, error = talk([str(folder)], "\n".join(lines) + "\n", "--image", first, "--json")
    ends = [event for line in out.splitlines() if (event := json.loads(line))["type"] == "done"][1:]
    assert len(ends) == 3 and ends[0]["text"] == ends[2]["text"]
    assert ends[1]["prompt_tokens"] >= ends[0]["prompt_tokens"] + 16 + 6 and ends[1]["reused_tokens"] > 16
    assert "none.png: no such file" in error and f"{second} goes with the next message" in error
    assert "removed: And this?" in error
    messages = json.loads(saved.read_text())["messages"]
    shown = {"type": "image", "image": str(first)}
    assert messages[0]["content"] == [shown, {"type": "text", "text": "What is it?"}]
    again = talk([str(folder)], "/regenerate\n", "--load", saved, "--json")[1]
    assert json.loads(again.splitlines()[-1])["text"] == ends[0]["text"]
    saved.write_text(json.dumps({"format": "pyapp chat", "version": 1, "messages": [
        {"role": "user", "content": [{"type": "image", "image": 3}]}
    ]}))  # fmt: skip
    code, _, error = talk([str(folder)], "", "--load", saved)
    assert code == 1 and "messages[0] has no role and content" in error
