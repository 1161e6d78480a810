"""The command line in separate processes: its output on stdout and stderr, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from pyapp import cli, tasks
from pyapp.cli.finetune import TRIES
from pyapp.cli.views import COMMANDS_OF
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Error, Event, Metric, Notice, Progress
from pyapp.formats import write_safetensors
from pyapp.models._index import TASKS
from pyapp.serve.served import TASK_OF
from tests.cli.conftest import Here
from tests.text.small_model import write_model

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def environment(**changes: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONIOENCODING", "PYTHONUTF8")}
    return plain | {"PYTHONPATH": str(ROOT)} | changes


def test_help_imports_no_models() -> None:
    """Help is quick because it imports none of the large packages, and no other command."""
    command = [sys.executable, "-X", "importtime", "-m", "pyapp", "generate", "--help"]
    result = subprocess.run(command, capture_output=True, timeout=60, env=environment(), text=True)
    assert result.returncode == 0 and "generate" in result.stdout
    names = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines() if line.startswith("import time:")}
    assert {"pyapp.cli", "pyapp.cli.together"} <= names  # of which generate imports the second
    assert not [name for name in names if name.startswith("pyapp.cli.") and name.endswith(("transcribe", "texts"))]
    heavy = ("numpy", "tokenizers", "safetensors", "pyapp.nn", "pyapp.models", "pyapp.recipes")
    assert not [name for name in names if name.startswith((*heavy, "pyapp.train."))]


def test_the_index_of_commands_is_current() -> None:
    from scripts.command_index import TARGET, source

    assert TARGET.read_text() == source(), "run python -m scripts.command_index"


def test_version_and_usage(here: Here) -> None:
    from pyapp import __version__

    assert here("--version") == (0, f"pyapp, version {__version__}\n", "")
    for arguments in (["nothing"], ["generate", "-n", "0"], ["generate", "--temperature", "warm"], ["inspect"]):
        code, out, error = here(*arguments)
        assert code == 2 and not out and error.startswith("Usage: pyapp") and "Error:" in error
    for command in ("generate", "models", "inspect", "train"):
        assert here(command, "--help")[0] == 0
    assert here("genrate")[2].endswith("Did you mean generate?\n")
    own = Path(__file__).parent
    assert f"`pyapp finetune MODEL {own} -o OUT` trains a model on your own data" in here("train", str(own))[2]
    assert here("serve", "--port", "99999")[2].endswith("it must be from 0 to 65535, not 99999.\n")
    assert here("generate", "-n", "0")[2].endswith("it must be at least 1, not 0.\n")


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


def test_the_help_has_ranges_in_words(here: Here) -> None:
    helps = {names: " ".join(here(*names, "--help")[1].split()) for names in (*commands(cli.cli), ("train", "a.py"))}
    assert len(helps) > 20
    for names, text in helps.items():
        assert not re.search(r"RANGE|INTEGER|FLOAT|x[<>]|[<>]=?x", text), names
    for command in ("generate", "serve", "finetune", "embed"):
        assert "--threads NUMBER" in helps[command,] and "[from 1 to 64]" in helps[command,]
    computing = {names for names, text in helps.items() if "--threads" in text and names[0] != "train"}
    assert not [names for names in computing if "--device" not in helps[names]] and len(computing) > 30
    assert "[above 0]" in helps["finetune",] and "[at least 0 and below 1]" in helps["finetune",]
    assert "same model. [at least 0]" in helps["train", "story"] and "[at least 1]" in helps["train", "reader"]
    assert "[default: the model's own, else 0.9; from 0 to 1]" in helps["generate",]


def test_generate(model: Path, here: Here) -> None:
    code, out, error = here("generate", model, "-p", "Once", "-n", "20", "--temperature", "0")
    assert code == 0 and out.startswith("Once") and out.endswith("\n")
    assert "[20 tokens, " in error and "tokens/s" in error and "reached the length" in error
    assert here("generate", model, "-p", "Once", "-n", "20", "--temperature", "0", "--eager")[1] == out
    alone = here("generate", model, "-p", "Once", "-n", "20", "--temperature", "0", "--no-echo")[1]
    assert "Once" + alone == out


def test_the_seed_repeats_a_text(model: Path, here: Here) -> None:
    _, first, error = here("generate", model, "-n", "30")
    seed = error.split("seed ")[1].split(",")[0]
    assert here("generate", model, "-n", "30", "--seed", seed)[1] == first
    assert here("generate", model, "-n", "30", "--seed", "1")[1] != first


def test_json_lines(model: Path, here: Here) -> None:
    code, out, error = here(
        "generate", model.parent, "--json", "-n", "5", "--seed", "3", "--top-k", "40", "--min-p", "0.01"
    )
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and not error
    assert [event["index"] for event in events if event["type"] == "token"] == list(range(5))
    assert events[-1] == {"type": "done", "reason": "length", "prompt_tokens": 1, "new_tokens": 5, "seed": 3}
    code, out, error = here("generate", "no/such/model.bin", "--json")
    assert code == 1 and not error and json.loads(out)["type"] == "error"


def test_real_story(here: Here) -> None:
    files = DATA / "stories260K.bin", DATA / "tok512.bin"
    if not all(file.exists() for file in files):
        pytest.skip("stories260K is not here")
    code, out, _ = here("generate", files[0], "--tokenizer", files[1], "--temperature", "0", "-n", "256")
    assert code == 0 and out.encode() == (DATA / "stories260K.txt").read_bytes()


def test_prompt_from_stdin(model: Path, here: Here) -> None:
    arguments = ("generate", str(model), "-p", "-", "-n", "3", "--seed", "1")
    command = [sys.executable, "-m", "pyapp", *arguments]
    text = "\ufeffÄpfel 😀\n".encode()
    result = subprocess.run(command, input=text, capture_output=True, timeout=60, env=environment())
    assert result.returncode == 0 and result.stdout.decode().startswith("Äpfel 😀")
    code, _, error = here(*arguments, stdin=b"a\xff")
    assert code == 2 and "not UTF-8 text (invalid start byte at byte 1)" in error


def test_prompt_that_is_no_text(here: Here) -> None:
    code, _, error = here("generate", "-p", "a\udcff")
    assert code == 2 and "not valid text at character 1" in error


def test_prompt_that_is_too_long(model: Path, here: Here) -> None:
    code, out, error = here("generate", model, "-p", "-", stdin=b"the dog and " * 9000)
    assert code == 1 and "tokens are too long: there is room for 4,096" in error
    assert "Shorten it" in error and "Traceback" not in error and not out


def test_errors(model: Path, tmp_path: Path, here: Here) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "tokenizer.bin").write_bytes((model.parent / "tokenizer.bin").read_bytes())
    (damaged / "model.bin").write_bytes(model.read_bytes()[:-10])
    (tmp_path / "tok.bin").write_bytes((model.parent / "tokenizer.bin").read_bytes()[:50])
    empty = tmp_path / "empty"
    empty.mkdir()
    cases: list[tuple[list[object], str]] = [
        (["generate", tmp_path / "nothing.bin"], "no such file"),
        (["generate", "storys"], "no model has this name"),
        (["generate", "https://huggingface.co/a/b/blob/v1/c/d.gguf?x=1"], "Give its name on the hub: a/b@v1:c/d.gguf"),
        (["generate", "https://example.org/d.gguf"], "addresses are not opened"),
        (["generate", damaged], "model.bin"),
        (["generate", model, "--tokenizer", tmp_path / "tok.bin"], "tok.bin"),
        (["inspect", tmp_path / "nothing.bin"], "no such file"),
        (["quantize", "nothing.gguf", tmp_path / "x.gguf", "-t", "q8_0"], "no such file"),
        (["inspect", empty], "there is no file of weights"),
        (["inspect", __file__], "test_cli.py"),
        (["generate", model, "--temperature", "nan"], "temperature"),
    ]
    for arguments, message in cases:
        code, out, error = here(*arguments)
        assert code == 1 and not out and error.startswith("error: ") and message in error, (arguments, error)
        assert "Traceback" not in error and "unexpected" not in error


def test_weights_with_nan(tmp_path: Path, here: Here) -> None:
    path = write_model(tmp_path)
    data = bytearray(path.read_bytes())
    data[-400:-396] = b"\x00\x00\xc0\x7f"
    path.write_bytes(data)
    code, out, error = here("generate", path, "--temperature", "0", "-n", "5")
    assert code == 1 and "NaN" in error and not out


def test_inspect(model: Path, here: Here) -> None:
    code, out, error = here("inspect", model)
    assert code == 0 and not error
    assert "n_kv_heads   2" in out and "tok_embeddings.weight" in out and "× 32" in out and "parameters" in out
    code, out, _ = here("inspect", model, "--json")
    event = json.loads(out)
    assert code == 0 and event["type"] == "done" and event["config"]["dim"] == 32
    assert here("inspect", model.parent / "tokenizer.bin")[0] == 0


def test_named_models_are_inspected_and_converted(tmp_path: Path, here: Here) -> None:
    code, out, error = here("inspect", "stories")
    assert code == 0 and not error and "llama2.c" in out and "tok_embeddings.weight" in out
    target = tmp_path / "stories.gguf"
    assert here("quantize", "stories", target, "-t", "q8_0")[0] == 0 and "q8_0" in here("inspect", target)[1]
    texts = [here("generate", model, "-p", "Once", "-n", "4", "--seed", "1") for model in ("stories", target)]
    assert [(code, out) for code, out, _ in texts] == [(0, texts[0][1])] * 2  # with its tokenizer
    for arguments in (["inspect", "storys"], ["quantize", "storys", target, "-t", "q8_0"]):
        code, _, error = here(*arguments)
        assert code == 1 and "no model has this name" in error and "Did you mean stories?" in error


def test_inspect_a_folder(tmp_path: Path, here: Here) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"lm_head.weight": np.zeros((4, 2), np.float32)})
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 2}')
    code, out, error = here("inspect", tmp_path)
    assert code == 0 and not error
    assert "model.safetensors: safetensors" in out and "hidden_size  2" in out and "lm_head.weight" in out


def test_models(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = here("models")
    assert code == 0 and "stories15M" in out
    entries = json.loads(here("models", "--json")[1])["models"]
    assert {"id", "title", "kind", "bytes"} <= set(entries[0])
    monkeypatch.setattr(cli, "show_text_only", lambda: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")
    narrow = here("models")[1]
    assert max(map(len, narrow.splitlines())) <= 70 and narrow.split() != out.split()
    monkeypatch.setenv("COLUMNS", "5000")
    assert here("models")[1] == out


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_stops_cleanly(model: Path) -> None:
    command = [sys.executable, "-m", "pyapp", "generate", str(model), "--eager", "--json"]
    command += ["-n", "1000000", "--min-new-tokens", "1000000"]  # which nothing ends before the key does
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        while json.loads(process.stdout.readline())["type"] != "token":
            pass
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        last = process.stdout.read().splitlines()[-1]
        assert process.wait(10) == 130
        assert time.perf_counter() - start < 8
        assert json.loads(last)["reason"] == "cancelled"
        assert process.stderr.read() == b""


LAUNCHERS = {
    "as a module": ["-m", "pyapp"],
    "as the installed command": ["-c", "import sys; sys.argv[0] = '/bin/pyapp'; from pyapp.cli import main; main()"],
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("moment", ["pyapp.errors", "click.core"])
@pytest.mark.parametrize("launcher", list(LAUNCHERS))
def test_ctrl_c_while_the_command_is_imported(launcher: str, moment: str) -> None:
    """Python's -X importtime says when a module was imported: a line each on stderr. On a busy machine the command may
    be further when the key comes: it waits for a recording, and says that it stopped.
    """
    command = [sys.executable, "-X", "importtime", *LAUNCHERS[launcher], "transcribe", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        for line in lines:
            if line.split(b"|")[-1].strip() == moment.encode():
                process.send_signal(signal.SIGINT)
                break
        else:
            pytest.fail(f"{moment} was not imported")
        others = [line for line in lines if not line.startswith(b"import time:")]
        assert process.wait(20) == 130
        assert others in ([], [b"[stdin: stopped]\n"])


def test_ctrl_c_is_quiet_before_anything_else_is_imported() -> None:
    program = f"""
import sys, _signal
sys.path.insert(0, {str(ROOT)!r})
sys.argv = ["/bin/pyapp"]
class Watch:
    def find_spec(self, name, *rest):
        if name not in ("pyapp", "pyapp.interrupts"):
            print(name, _signal.getsignal(_signal.SIGINT).__name__)
            raise SystemExit
sys.meta_path.insert(0, Watch())
import pyapp
"""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[1:] == ["_end"], done


def test_only_the_command_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that imports the package keeps its KeyboardInterrupt."""
    from pyapp.interrupts import is_command

    for argv, original, expected in [
        (["/usr/bin/pyapp", "models"], [], True),
        (["C:/Scripts/pyapp.exe"], [], True),
        (["-m"], ["python", "-m", "pyapp", "models"], True),
        (["-m"], ["python", "-X", "dev", "-m", "pyapp"], True),
        (["-m"], ["python", "-m", "pytest", "pyapp"], False),
        (["-m"], ["python", "-m"], False),
        (["-c"], ["python", "-c", "import pyapp"], False),
        (["train.py", "-m", "pyapp"], ["python", "train.py", "-m", "pyapp"], False),
        ([""], ["python"], False),
        ([], ["python"], False),
    ]:
        monkeypatch.setattr(sys, "argv", argv)
        monkeypatch.setattr(sys, "orig_argv", original)
        assert is_command() is expected, (argv, original)
    program = "import signal, pyapp; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment(), timeout=60)
    assert done.stdout.strip() == b"True"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_the_reader_leaves(model: Path) -> None:
    command = [sys.executable, "-m", "pyapp", "generate", str(model), "-n", "3000", "--seed", "2", "--eager"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(20) == 141 and b"Traceback" not in error and b"Exception" not in error


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_the_reader_of_the_help_leaves() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pyapp", "--help"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment(), timeout=60)
    os.close(writing)
    assert ended.returncode == 141 and not ended.stderr


BARE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    "changes", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, BARE], ids=str
)
def test_locales_without_utf8(changes: dict[str, str], model: Path) -> None:
    twice = "import sys; from pyapp import cli; sys.exit(cli.run(sys.argv[1:]) or cli.run([*sys.argv[1:], '--json']))"
    command = [sys.executable, "-c", twice, "generate", str(model), "-n", "40", "--seed", "5", "-p", "Ä😀"]
    result = subprocess.run(command, capture_output=True, timeout=60, env=environment(**changes))
    assert result.returncode == 0 and b"Traceback" not in result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines() if line.startswith(b"{")]
    assert len(events) > 40 and "".join(event.get("text", "") for event in events)


def test_training_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here: Here) -> None:
    """The adapter alone: the training itself has its own tests."""
    asked: dict[str, Any] = {}

    def train_story(out: Path, *, cancel: Cancel, **settings: Any) -> Iterator[Event]:
        asked.update(settings, out=out)
        yield Progress("preparing", 0, 1)
        yield Notice("no curve", hint="take another")
        for step in (1, 2):
            yield Progress("training", step, 2, "steps")
            yield Metric("loss", 3.0 / step, "nats/token", step)
            yield Metric("time_left", 60 * (2 - step), "s", step)
        if settings["seed"] == 9:
            yield Done("cancelled", {"step": 2})
            return
        loss = {"nats_per_token": 1.25, "nats_per_byte": 0.5}
        names = ("parameters", "steps", "tokens", "stories", "size")
        yield Done("complete", {"held_out_losses": {"int8": loss}, "folder": str(out)} | dict.fromkeys(names, 1000))

    from pyapp.recipes import story

    monkeypatch.setattr(story, "train_story", train_story, raising=False)
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(b"x")
    code, out, error = here("train", "story", "--out-dir", tmp_path, "--seed", "4", "--steps", "2")
    assert code == 0 and asked == {"seed": 4, "steps": 2, "out": tmp_path} and checkpoint.exists()
    assert "note: no curve\n  take another\n" in error
    assert "preparing …" in error and "step 1 of 2  loss 3.000  1.0 min left" in error
    assert "1,000 parameters" in out and "1.2500 per token" in out
    code, out, error = here("train", "story", "-o", tmp_path, "--seed", "9", "--no-resume")
    assert code == 130 and "stopped at step 2; the same command continues" in error
    assert not checkpoint.exists() and len(list(tmp_path.iterdir())) == 1


def test_a_bar_where_someone_watches(monkeypatch: pytest.MonkeyPatch, here: Here) -> None:
    pytest.importorskip("tqdm")

    async def models() -> Any:
        for done in (0, 500, 1000):
            yield Progress("download", done, 1000, "bytes")
        yield Progress("search", 0)
        yield Error("lost", "hub", "Try again")

    monkeypatch.setattr(tasks, "models", models)
    monkeypatch.setattr("pyapp.cli.models.ModelsView.patience", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    code, out, error = here("models")
    assert code == 1 and not out and "download: " in error and "1.00k" in error
    assert "hub: lost" in error and "Try again" in error


@pytest.mark.skipif(sys.platform == "win32", reason="terminals")
def test_a_terminal_gets_no_control_characters(model: Path, tmp_path: Path) -> None:
    """A model may write any; a script of the user's own keeps its colours."""

    def shown(*arguments: str) -> bytes:
        ours, theirs = os.openpty()
        command = [sys.executable, "-m", "pyapp", *arguments]
        ended = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=environment(), timeout=60)
        os.close(theirs)
        found = os.read(ours, 4096)
        os.close(ours)
        assert ended.returncode == 0, ended.stderr
        return found

    text = shown("generate", str(model), "--choice", "a\x1b[31mb", "--no-echo")
    assert b"\x1b" not in text and "\ufffd[31m".encode() in text
    script = tmp_path / "script.py"
    script.write_text("print('\\x1b[31mred')")
    assert b"\x1b[31mred" in shown("train", str(script), "--out-dir", str(tmp_path / "run"))


def test_no_color(monkeypatch: pytest.MonkeyPatch, here: Here) -> None:
    """NO_COLOR, or a terminal without them, takes the colours away, also those of errors outside of commands."""
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda stream=None, color=None: color is False)
    for asked, terminal, colored in (("", "xterm", True), ("1", "xterm", False), ("", "dumb", False)):
        monkeypatch.setenv("NO_COLOR", asked)
        monkeypatch.setenv("TERM", terminal)
        code, _, error = here("generate", "nofile")
        assert code == 1 and ("\x1b[" in error) is colored, (asked, terminal, error)


def test_errors_of_the_adapter_itself(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(threads: int) -> None:
        raise OptionError("too many", where="threads")

    monkeypatch.setattr(tasks, "set_threads", refuse)
    code, _, error = here("generate", "--threads", "3")
    assert code == 1 and "threads: too many" in error


def test_quantize(here: Here, model: Path, tmp_path: Path) -> None:
    code, out, _ = here("quantize", model, tmp_path / "out.gguf", "--type", "q8_0")
    assert code == 0 and out.startswith(f"{tmp_path / 'out.gguf'}: ") and "q8_0" in out
    tokenizer = model.with_name("tokenizer.bin")
    options = ("-p", "a", "-n", "5", "--temperature", "0", "--json")
    texts = [here("generate", path, "--tokenizer", tokenizer, *options) for path in (model, tmp_path / "out.gguf")]
    assert [code for code, _, _ in texts] == [0, 0]
    lines = here("quantize", model, tmp_path / "b.gguf", "-t", "f16", "--json")[1].splitlines()
    events = [json.loads(line) for line in lines]
    assert events[0]["type"] == "progress" and events[-1]["types"]["float16"] > 0
    code, _, error = here("quantize", model, tmp_path / "out.gguf", "--type", "q9")
    assert code == 1 and "unknown type 'q9'" in error and "Types and mixtures: q4_0" in error


# -- closed streams, and paths that are not files


def shell(command: str) -> subprocess.CompletedProcess[bytes]:
    """A command of a shell in which `pyapp` is ours."""
    ours = f'pyapp() {{ "{sys.executable}" -m pyapp "$@"; }}; '
    return subprocess.run(["sh", "-c", ours + command], capture_output=True, timeout=60, env=environment())


@pytest.mark.parametrize(
    "command,code",
    [
        ("pyapp models >&-", 0),
        ("pyapp models --json >&-", 0),
        ("pyapp generate -n 2 >&-", 0),
        ("pyapp generate -n 2 2>&-", 0),
        ("pyapp generate -n 2 <&- >&- 2>&-", 0),
        ("pyapp inspect nothing.gguf >&- 2>&-", 1),
        ("pyapp generate -p - -n 2 <&-", 2),
        ("pyapp transcribe - <&-", 2),
    ],
)
def test_closed_streams(command: str, code: int) -> None:
    done = shell(command)
    assert done.returncode == code, done.stderr
    assert b"defect" not in done.stderr and b"Traceback" not in done.stderr
    if code == 2:
        assert b"stdin is closed" in done.stderr or b"pipe it in" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("models",), ("models", "--json"), ("generate", "-n", "2"), ("--help",)])
@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_full_disk_behind_stdout(arguments: tuple[str, ...], unbuffered: bool) -> None:
    changes = {"PYTHONUNBUFFERED": "1" if unbuffered else ""}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pyapp", *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60,
            env=environment(**changes), text=True,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: standard output: no space left on device",
        "  Free some space, or send the output to another place",
    ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments,code",
    [
        (("models",), 0), (("generate", "-n", "2"), 1), (("inspect", "nothing.gguf"), 1), (("nonsense",), 2),
        (("generate", "-n", "x"), 2),
    ],
)  # fmt: skip
def test_a_full_disk_behind_stderr_changes_no_exit_code(arguments: tuple[str, ...], code: int) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "pyapp", *arguments]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=full, timeout=60, env=environment())
    assert done.returncode == code


def test_a_file_that_may_not_grow_is_named(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    done = shell(f"ulimit -f 1; pyapp quantize {model} {target} -t q8_0")
    assert done.returncode == 1 and f"error: {target}: file too large".encode() in done.stderr
    assert not target.exists() and os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", ""), ("quantize", "", "out.gguf", "-t", "q8_0"), ("transcribe", ""), ("read", ""),
        ("classify-image", "", "-m", "none"), ("generate", "MODEL", "--tokenizer", ""), ("embed", "", "-m", "none"),
    ],
)  # fmt: skip
def test_an_empty_name_is_not_the_present_folder(here: Here, model: Path, arguments: tuple[str, ...]) -> None:
    code, _, error = here(*(str(model) if argument == "MODEL" else argument for argument in arguments))
    assert code in (1, 2) and '"": no such file or directory' in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["generate", "Once upon a time"], "The prompt follows -p."),
        (["chat", "Hello there"], "Each line of standard input is a message."),
        (
            ["detect", "street.jpg"],
            "Missing option '-m' / '--model': A folder, or a name on the hub such as hustvl/yolos-",
        ),
        (
            ["speak", "Hello"],
            "Missing option '-m' / '--model': A folder, or a name on the hub such as facebook/mms-tts-",
        ),
        (["train", "nothing"], "nothing is no model that can be trained: give reader, speech, story, a script (.py)"),
    ],
)
def test_usual_mistakes_are_told_with_what_to_write(here: Here, arguments: list[str], told: str) -> None:
    code, out, error = here(*arguments)
    assert code == 2 and not out and told in error


def test_pictures_are_looked_for_before_the_model(here: Here, tmp_path: Path) -> None:
    for command in ("detect", "caption", "read", "segment", "classify-image", "embed-image", "embed-pages", "depth",
                    "upscale"):  # fmt: skip
        more = ["-o", str(tmp_path / "drawn")] if command in ("depth", "upscale") else []
        code, _, error = here(command, str(tmp_path / "none.png"), "-m", str(tmp_path / "no model"), *more)
        assert code == 1 and f"{tmp_path / 'none.png'}: no such file or directory" in error


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("cat.jpg", "name it cat.png"), ("none/cat.png", "there is no folder 'none'"), (".", "is a directory"),
        ("locked/cat.png", "'locked/cat.png' cannot be written to"),
    ],
)  # fmt: skip
def test_where_imagined_pictures_go_is_checked_first(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("locked").mkdir()
    access = os.access  # root may write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked" and access(path, mode))
    code, _, error = here("imagine", "a cat", "-m", str(tmp_path / "no model"), "-o", output)
    assert code == 2 and told in error


def test_a_file_is_not_written_to_as_stdout(model: Path, tmp_path: Path) -> None:
    """Where stdout is closed, the next file that is opened would have its number."""
    target = tmp_path / "out.gguf"
    done = shell(f"pyapp quantize {model} {target} -t q8_0 >&-")
    assert done.returncode == 0 and target.read_bytes()[:4] == b"GGUF"
    assert b"MB, from" not in target.read_bytes()


def test_an_endless_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    done = shell("head -c 20000000 /dev/zero | pyapp generate -p - -n 2")
    assert done.returncode == 2 and b"stdin has more than 16,777,216 bytes" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "PIPE"), ("quantize", "PIPE", "out.gguf", "-t", "q8_0"), ("generate", "PIPE"),
        ("transcribe", "PIPE"), ("generate", "MODEL", "--tokenizer", "PIPE"),
        ("quantize", "MODEL", "out.gguf", "-t", "q8_0", "--imatrix", "PIPE"),
    ],
)  # fmt: skip
def test_pipes_are_refused(model: Path, tmp_path: Path, here: Here, arguments: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    names = {"PIPE": str(tmp_path / "pipe"), "MODEL": str(model), "out.gguf": str(tmp_path / "out.gguf")}
    code, _, error = here(*(names.get(argument, argument) for argument in arguments))
    assert code == 1 and "pipe: this is a pipe, not a file" in error


def test_a_mixture(model: Path, tmp_path: Path, here: Here) -> None:
    code, _, error = here("quantize", model, tmp_path / "out.gguf", "-t", "Q4_K_M")
    assert code == 0, error
    code, _, error = here("quantize", model, tmp_path / "out.gguf", "-t", "Q4_K_X")
    assert code == 1 and "Q4_K_M" in error


def test_a_folder_that_is_not_there(model: Path, tmp_path: Path, here: Here) -> None:
    code, _, error = here("quantize", model, tmp_path / "gone" / "out.gguf", "-t", "q8_0")
    assert code == 1 and "gone/out.gguf: there is no folder" in error


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("generate stories Once upon", "unexpected extra arguments (Once upon): the prompt follows -p."),
        ("generate -m stories", "No such option '-m'. The model follows the command: pyapp generate MODEL."),
        ("run --nproc 2 script.py", "No such option '--nproc'"),
        ("serve --model stories", "The model follows the command: pyapp serve MODEL."),
        ("generate -n many", "'many' is not a whole number."),
        ("generate --temperature hot", "'hot' is not a number."),
        ("transcribe a.wav -o a.srt", "a.srt must be a folder: for one file write -f srt > a.srt"),
    ],
)
def test_wrong_usage_says_what_is_right(here: Here, line: str, told: str) -> None:
    code, out, error = here(*line.split())
    assert (code, out) == (2, "") and told in " ".join(error.split())


def test_no_command_is_no_error(here: Here) -> None:
    for arguments, named in (((), "transcribe"), (("train",), "story")):
        _, out, error = here(*arguments)
        assert named in out + error and "Error" not in out + error


def test_what_libraries_print_about_damaged_sound_is_not_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def can_be_read(*_: object) -> bool:
        os.write(2, b"[libmpg123/layer3.c] error")
        click.echo("the recording is damaged", err=True)
        return False

    monkeypatch.setattr("pyapp.cli.transcribe.can_be_read", can_be_read)
    assert cli.run(["transcribe", "a.mp3"]) == 1
    shown = capfd.readouterr().err
    assert "the recording is damaged" in shown and "libmpg123" not in shown
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


def test_warnings_of_pyapp_are_notes_and_those_of_scripts_have_their_place() -> None:
    assert cli.plain_warning("slow", UserWarning, cli.__file__, 3, "f()") == "note: slow\n"
    assert cli.plain_warning("slow", UserWarning, "script.py", 3, "f()") == "script.py:3: UserWarning: slow\n  f()\n"


def test_tables_by_task_name_tasks_and_commands_that_exist() -> None:
    known = {task for tasks in TASKS.values() for task in tasks}
    assert {*COMMANDS_OF, *TRIES, *TASK_OF} <= known
    written = [part for text in COMMANDS_OF.values() for part in text.split(", ")]
    written += [text.removeprefix("pyapp ") for text in TRIES.values()]
    context, command = click.Context(cli.cli), None
    for part in written:
        words = part.split()
        command = cli.cli.get_command(context, words[0]) if not words[0].startswith("-") else command
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, part
