"""Cells of the Lab: values, errors that name the cell and its line, bounded output, what `lab` shows."""

from __future__ import annotations

import asyncio
import sys
import warnings
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import lab
from pyapp.audio.wav import read_wav
from pyapp.errors import OptionError
from pyapp.lab import completion
from pyapp.lab.cells import Session
from pyapp.lab.drawing import field_of
from pyapp.lab.packages import addresses
from pyapp.lab.stream import HEAD_LINES, LONGEST_LINE, TAIL_LINES


def run(*sources: str, session: Session | None = None) -> tuple[list[str], list[dict[str, Any]], Session]:
    """(how each cell ended, all outputs, the session)."""
    outputs: list[dict[str, Any]] = []
    session = session or Session(lambda output: outputs.append(dict(output)))

    async def work() -> list[str]:
        return [await session.run(source, str(number)) for number, source in enumerate(sources, 1)]

    return asyncio.run(work()), outputs, session


def test_values_and_prints() -> None:
    ends, outputs, session = run(
        "import asyncio\nawait asyncio.sleep(0)\nx = 3\nprint('hi')\nx + 1",
        "x;",
        "print('left', end='')\nimport sys\nprint('over', file=sys.stderr)\nNone",
        "_ * 2",
        "def f():\n    return __name__\nf()",
    )
    assert ends == ["complete"] * 5
    text = [(output.get("stream", output["kind"]), output["text"]) for output in outputs]
    assert text == [
        ("stdout", "hi\n"), ("value", "4"), ("stdout", "left"), ("stderr", "over\n"), ("value", "8"),
        ("value", "'__main__'"),
    ]  # fmt: skip
    assert session.namespace["x"] == 3


def test_errors_name_the_cell_and_hide_our_frames() -> None:
    ends, outputs, _ = run(
        "def f(n):\n    import pyapp\n    return pyapp.ones(n) @ pyapp.ones(4)\n",
        "f(3)",
        "a b",
        "raise SystemExit(2)",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('second')",
        "import json\njson.loads('{')",
    )
    assert ends == ["complete", "failed", "failed", "complete", "failed", "failed"]
    first, syntax, left, second, library = outputs
    assert "File " not in library["text"] and library["line"] == 2
    assert (first["cell"], first["line"], first["name"]) == ("1", 3, "ArgumentError")
    lines = first["text"].split("\n")
    assert lines[1:4] == ["  Cell 2, line 1", "    f(3)", "  Cell 1, line 3, in f"]
    assert lines[4] == "    return pyapp.ones(n) @ pyapp.ones(4)"
    assert "inner sizes differ" in lines[5] and len(lines) == 6
    assert (syntax["cell"], syntax["line"]) == ("3", 1) and "Cell 3, line 1" in syntax["text"]
    assert left["text"] == "The cell ended with exit code 2.\n"
    assert second["text"].endswith("ValueError: second\n  caused by ZeroDivisionError: division by zero")


def test_errors_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package that is not installed, a command of Jupyter's, and a text in another encoding than UTF-8."""
    monkeypatch.chdir(tmp_path)
    Path("windows.txt").write_bytes("Zo\u00eb".encode("windows-1252"))
    Path("utf16.txt").write_text("Zo\u00eb", encoding="utf-16")
    expected = {
        "import no_such_package.part": 'await lab.install("no_such_package")',
        "from tensorflow import nothing": "from pyapp import keras",
        "x = 1\n%pip install --quiet polars": 'await lab.install("polars")',
        "pip install polars": 'await lab.install("polars")',
        "!ls": "commands of Jupyter",
        "open('windows.txt', encoding='utf-8').read()": 'encoding="windows-1252"',
        "open('utf16.txt', encoding='utf-8').read()": 'encoding="utf-16"',
        "open('nothing.csv')": "Drop the file on this page",
        "open('folder/new.txt', 'w')": 'os.makedirs("folder", exist_ok=True)',
        "import errno, urllib.error\nraise urllib.error.URLError(OSError(errno.EHOSTUNREACH, 'no host'))": "pyfetch",
        'raise RuntimeError("can\'t start new thread")': "asyncio",
        "len?": "help(len)",
        "print(\u201chello\u201d)": "straight quotation marks",
        "\u200bx = 1": "cannot be seen",
        "print(no_such_name)": "run that cell first",
        "raise OSError(138, 'emscripten does not support processes.')": "os.listdir()",
        "[0] * 10**30": "the memory of a browser's tab",
        "import numpy\nnumpy.zeros((10**9, 10**9, 10**9))": "the memory of a browser's tab",
        "def f():\n    x += 1\nf()": None,
        "open('/')": None,
        "import json.nothing": None,
        "1 +": None,
        "raise ModuleNotFoundError('gone')": None,
    }
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # as where it is not installed
    _, outputs, _ = run(*expected)
    for source, output in zip(expected, outputs, strict=True):
        hint = expected[source]
        assert output["hint"] is None if hint is None else hint in output["hint"], (source, output)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="older libraries of Python suggest no names")
def test_errors_suggest_names() -> None:
    expected = {
        "pirnt('hello')": "Did you mean: 'print'?",
        "math.pi": "Did you forget to import 'math'?",
        "import pyapp\npyapp.zeroes(3)": "Did you mean: 'zeros'?",
    }
    _, outputs, _ = run(*expected)
    for (source, says), output in zip(expected.items(), outputs, strict=True):
        assert output["text"].endswith(says) and output["hint"] is None, (source, output)


def test_a_long_traceback_is_shortened() -> None:
    _, (deep,), _ = run("def f(n):\n    return f(n + 1)\nf(0)")
    lines = deep["text"].split("\n")
    assert lines[-1].startswith("RecursionError: maximum recursion depth") and "caused by" not in deep["text"]
    assert any(line.endswith("calls are left out …") for line in lines) and len(lines) < 70


def test_warnings_name_the_cell() -> None:
    before = warnings.formatwarning
    told = "print(warnings.formatwarning('careful', UserWarning, (lambda: 0).__code__.co_filename, 2), end='')"
    _, outputs, _ = run(f"import warnings\n{told}")
    assert [output["text"] for output in outputs] == ["Cell 1, line 2: UserWarning: careful\n"]
    assert warnings.formatwarning is before


def test_stopping() -> None:
    ends, outputs, session = run("kept = 1\nraise KeyboardInterrupt", "kept")
    assert ends == ["stopped", "complete"] and outputs == [{"kind": "value", "text": "1"}]

    async def stop_while_it_waits() -> str:
        waiting = asyncio.ensure_future(session.run("import asyncio\nawait asyncio.sleep(60)", "3"))
        await asyncio.sleep(0.01)
        session.stop()
        return await waiting

    assert asyncio.run(stop_while_it_waits()) == "stopped"


def test_output_is_bounded() -> None:
    count = HEAD_LINES + 5 * TAIL_LINES
    _, outputs, _ = run(f"for i in range({count}):\n    print(i)", f"print('x' * {LONGEST_LINE * 3})", "'y' * 100_000")
    lines = [output["text"] for output in outputs if output["kind"] == "text"]
    assert lines[:HEAD_LINES] == [f"{i}\n" for i in range(HEAD_LINES)]
    tails = [output for output in outputs if output["kind"] == "tail"]
    assert tails[-1]["text"].split() == [str(i) for i in range(count - TAIL_LINES, count)]
    assert tails[-1]["left_out"] == count - HEAD_LINES - TAIL_LINES and len(tails) < 50
    assert len(lines[-1]) == LONGEST_LINE + 2
    assert outputs[-1]["text"].endswith("… (100,002 characters)")


def test_lines_that_are_written_anew() -> None:
    """Bars of progress: the newest is shown, however many there were; lines may end with "\\r\\n"."""
    ends, outputs, _ = run(
        f"for i in range({2 * LONGEST_LINE}): print(f'\\r{{i}} of many', end='')\nprint('\\rend', end='')",
        "print('a\\r\\nb\\r')\nprint('c\\r', end='')\nprint('d')",
        f"for i in range({HEAD_LINES + 5}): print(i)\nfor i in range(9): print(f'\\r{{i}}', end='', flush=True)",
        "raise ExceptionGroup('both', [ValueError('one'), TypeError('two')])",
    )
    bar = [output["text"] for output in outputs if "of many" in output["text"]]
    assert 1 <= len(bar) < 100 and bar[0] == "\r0 of many"
    texts = [output["text"] for output in outputs if output["kind"] == "text" and "of many" not in output["text"]]
    assert "".join(texts[:5]) == "\renda\nb\n\rd\n"
    tail = outputs[-2]
    assert (tail["kind"], tail["text"], tail["left_out"]) == ("tail", "2000\n2001\n2002\n2003\n2004\n8", 0)
    assert ends[3] == "failed" and outputs[-1]["text"].endswith("with ValueError: one\n  with TypeError: two")


def test_tables_images_and_curves() -> None:
    _, outputs, session = run(
        "from pyapp import lab\nimport numpy as np\n[{'a': 1, 'b': 2.5}, {'b': 'x'}]",
        "lab.table({'n': range(500)})",
        "np.full((8, 8, 3), 7, np.uint8)",
        "lab.plot([3, 1, 2], {'up': [1, 2, 3], 'gap': [1, float('nan'), 3]})",
    )
    rows, long, picture, curves = outputs
    assert (rows["columns"], rows["rows"]) == (["a", "b"], [["1", "2.5"], ["", "x"]])
    assert (len(long["rows"]), long["count"]) == (200, 500)
    assert decoded(picture["png"]).tolist() == np.full((8, 8, 3), 7).tolist()
    assert curves["x"] == [1, 2, 3]
    assert curves["curves"] == [{"name": "up", "y": [2, 3, 1]}, {"name": "gap", "y": [None, 3, 1]}]
    assert "up from 2 to 1" in curves["text"]


def decoded(png: str) -> Any:
    """(H, W, C) of a PNG that lab.image made: 8 bits, no filters."""
    data = b64decode(png)
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4 : at], "big")
    assert zlib.crc32(data[at : at + 4 + size]) == int.from_bytes(data[at + 4 + size : at + 8 + size], "big")
    lines = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + size]), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, -1)


def test_sound(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[Any] = []
    lab.sound(np.zeros(8000), 16000, caption="quiet")
    assert capsys.readouterr().out == "[sound, 0.5 s: quiet]\n"
    monkeypatch.setattr("pyapp.lab.output._send", shown.append)
    lab.sound(pyapp.tensor([0.0, 0.5, -1.0, 3.0]), 22050)
    samples, rate = read_wav(b64decode(shown[0]["wav"]))
    assert rate == 22050 and (samples[:, 0] * 32768).tolist() == [0, 16384, -32768, 32767]
    for wrong, rate in ((np.zeros((2, 2)), 16000), (np.zeros(4, int), 16000), (np.array([np.nan]), 16000),
                        (np.zeros(4), 3), (np.zeros(0), 16000), (np.zeros(100 * 601), 100)):  # fmt: skip
        with pytest.raises(ValueError, match="sound: "):
            lab.sound(wrong, rate)


def test_images_of_all_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("pyapp.lab.output._send", shown.append)
    lab.image(pyapp.tensor([[0.0, 0.5], [1.0, 0.25]]))
    lab.image(np.array([[-1.0, 0.0, 1.0]]))
    lab.image(np.zeros((5, 3, 6)), caption="five")
    assert decoded(shown[0]["png"])[..., 0].tolist() == [[0, 128], [255, 64]]
    assert decoded(shown[1]["png"])[..., 0].tolist() == [[0, 128, 255]]
    assert decoded(shown[2]["png"]).shape == (7, 20, 1)  # two rows of three, with gaps
    for wrong in ([1.0, 2.0], np.zeros((0, 3)), np.zeros((2, 5000)), np.zeros((2, 2), complex)):
        with pytest.raises((TypeError, ValueError), match="image: "):
            lab.image(wrong)
    for bad in ("text", 3, [1, 2]):
        with pytest.raises(TypeError, match="table: "):
            lab.table(bad)
    for values in ([[1, 2], [1, 2, 3]], [{}], [["a"]]):
        with pytest.raises((TypeError, ValueError), match="plot: "):
            lab.plot(*values)


def test_growing_curves_are_thinned() -> None:
    curves = lab.Curves()
    for step in range(20_000):
        curves.add(step, loss=1 / (step + 1))
    assert len(curves.x) <= 4000 and curves.x[0] == 0 and curves.x[-1] > 19_000
    assert curves.curves["loss"] == [1 / (step + 1) for step in curves.x]
    with pytest.raises(ValueError, match="steps grow"):
        curves.add(3, loss=0.0)


def test_growing_curves_are_whole_when_the_cell_ends() -> None:
    grow = "for step in range(30):\n    curves.add(step, loss=1 / (step + 1))\n"
    for rest, wanted in (("", "complete"), ("1 / 0", "failed"), ("raise KeyboardInterrupt", "stopped")):
        ends, outputs, _ = run(f"from pyapp import lab\ncurves = lab.Curves()\n{grow}{rest}")
        drawn = [output for output in outputs if output["kind"] == "plot"]
        assert ends == [wanted] and drawn[-1]["x"] == [float(step) for step in range(30)], rest
        assert {output["id"] for output in drawn} == {drawn[0]["id"]} and len(drawn) == 2
    ends, outputs, _ = run(f"from pyapp import lab\ncurves = lab.Curves()\n{grow}curves.draw()")
    assert sum(output["kind"] == "plot" for output in outputs) == 2  # nothing is left for the end


def test_drawings() -> None:
    _, outputs, session = run("from pyapp import lab\npad = lab.drawing(4, lambda pixels: float(pixels.sum()))")
    assert (outputs[0]["kind"], outputs[0]["size"]) == ("drawing", 4)
    field = field_of(outputs[0]["id"])
    assert field is not None and not field.pixels.any()
    assert asyncio.run(session.call(field.draw, [0.5] * 16)) == "complete"
    assert outputs[-1] == {"kind": "value", "text": "8.0"} and field.pixels.shape == (4, 4)
    assert asyncio.run(session.call(field.draw, [1.0])) == "failed"
    assert "16 pixels are expected, not 1" in outputs[-1]["text"]
    assert field_of("output-0") is None


def test_completion() -> None:
    class Raises:
        @property
        def bad(self) -> int:
            raise RuntimeError

    names = {"np": np, "word": "text", "raises": Raises()}
    found = completion.completions("x = np.zeros_l", names)
    assert found == {"from": 7, "names": [{"label": "zeros_like", "kind": "function"}]}
    assert completion.completions("wor", names)["names"] == [{"label": "word", "kind": "variable"}]
    assert {"label": "while", "kind": "keyword"} in completion.completions("whi", names)["names"]
    assert completion.completions("raises.b", names)["names"] == [{"label": "bad", "kind": "property"}]
    assert completion.completions("f().", names)["names"] == []
    signature = completion.signature("np.zeros_like(np.array([1, 2]), ", names)
    assert signature is not None and signature["text"].startswith("zeros_like(a, dtype=None")
    assert completion.signature("(1, ", names) is None and completion.signature("if (", names) is None


def test_hosts_of_packages() -> None:
    site, wheel = "https://example.org/page/", "mine-1.0-py3-none-any.whl"
    assert addresses([f"wheels/{wheel}"], site, [], "index.org") == [f"{site}wheels/{wheel}"]
    assert addresses([f"https://other.org/{wheel}", "rich"], site, ["other.org", "index.org"], "index.org")[1] == "rich"
    with pytest.raises(OptionError, match="looked up in an index") as raised:
        addresses(["rich"], site, ["another.org"], "index.org")
    assert "index.org" in str(raised.value) and "the host of its files" in str(raised.value)
    for package in (f"https://other.org/{wheel}", f"http://example.org/{wheel}", f"//evil.org/{wheel}"):
        with pytest.raises(OptionError, match="not allowed"):
            addresses([package], site, ["another.org"], "index.org")
    with pytest.raises(OptionError, match="begins with https"):
        addresses([f"file:///{wheel}"], site, [], "index.org")
    with pytest.raises(OptionError, match="in the page only"):
        asyncio.run(lab.install("rich"))


def test_input_reads_answers() -> None:
    outputs: list[dict[str, Any]] = []
    lines = iter(["Ada", "4\u00e9", None, "", "left"])
    session = Session(lambda output: outputs.append(dict(output)), lambda: next(lines))
    ends, _, _ = run(
        "name = input('Name? ')\nimport sys\nrest = sys.stdin.readline()\n(name, rest)",
        "kept = 1\ninput()\nkept = 2",
        "kept, input()",
        "sys.stdin.read()",
        "sys.stdin.read(2) + sys.stdin.readline()",
        session=session,
    )
    assert ends == ["complete", "stopped", "complete", "failed", "complete"]
    shown = [output["text"] for output in outputs]
    assert shown[:4] == ["Name? ", "Ada\n", "4\u00e9\n", "('Ada', '4\u00e9\\n')"]
    assert shown[5] == "(1, '')" and "has no end" in shown[6] and shown[8] == "'left\\n'"


def test_files_are_offered_to_a_view(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "mine" / "model.bin").write_bytes(b"1")
    (tmp_path / "mine" / "deep" / "a.json").write_bytes(b"{}")
    _, outputs, _ = run(
        "from pyapp import lab\nlab.open_in('story', 'mine')", "lab.open_in('search', 'mine/model.bin')"
    )
    whole, one = outputs
    assert (whole["files"], whole["folder"]) == (["mine/deep/a.json", "mine/model.bin"], "mine")
    assert (one["files"], one["folder"], one["view"]) == (["mine/model.bin"], None, "search")
    assert whole["label"] == "Open mine in the Story view"
    with pytest.raises(FileNotFoundError, match="'gone'"):
        lab.open_in("story", "gone")
    with pytest.raises(OptionError, match="folder of the notebook"):
        lab.open_in("story", "..")
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionError, match="not 0"):
        lab.open_in("story", "empty")
