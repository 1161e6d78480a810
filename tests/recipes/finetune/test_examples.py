"""Rows of tokens from files of examples: what is learnt of conversations, completions and texts."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from pyapp.errors import FileFormatError
from pyapp.recipes.finetune.examples import Row, read_examples
from pyapp.recipes.finetune.steps import divided
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from tests.text.chat_model import write_chat_model

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("model")
    write_chat_model(folder)
    return load_tokenizer(folder)


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shown(tokenizer: Tokenizer, row: Row) -> str:
    """A row as text, what is learnt between brackets."""
    text, inside = "", False
    for token, wanted in zip(row.ids, row.wanted, strict=True):
        text += "" if bool(wanted) == inside else "]" if inside else "["
        inside = bool(wanted)
        text += tokenizer.piece(token) or ""
    return (text + "]" * inside).replace("Ġ", " ").replace("Ċ", "/")


def turns(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]}


def test_answers_are_learnt(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        turns("hi", "a", "so", "b <|im_end|> c"),
        {"instruction": "add", "input": "x", "output": "y"},
        {"prompt": "one ", "completion": "two"},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]},
    )
    found = read_examples(path, tokenizer, 200)
    rows = [shown(tokenizer, row) for row in found.rows]
    assert rows[0] == (
        "<|im_start|>user/hi<|im_end|>/<|im_start|>assistant/[a<|im_end|>]/"
        "<|im_start|>user/so<|im_end|>/<|im_start|>assistant/[b <|im_end|> c<|im_end|>]/"
    )
    assert list(found.rows[0].ids).count(257) == 4  # the name of a special token in an answer is text
    assert rows[1] == "<|im_start|>user/add//x<|im_end|>/<|im_start|>assistant/[y<|im_end|>]/"
    assert rows[2].startswith("one [two")
    assert len(rows) == 3 and found.chats and found.cut == 0
    assert [prompt for prompt, _ in found.prompts] == ["hi", "add\n\nx", "one "]


def test_a_template_that_forgets_gives_a_row_for_each_answer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{% if not (m.role == 'assistant' and not loop.last) %}"
        "<|im_start|>{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>{% endif %}"
    )
    other = Tokenizer(tokenizer._document, {**tokenizer.settings, "chat_template": template})
    found = read_examples(write(tmp_path / "a.jsonl", turns("q", "a", "r", "b")), other, 100)
    assert [shown(other, row) for row in found.rows] == [
        "<|im_start|>q<|im_end|><|im_start|>[a<|im_end|>]",
        "<|im_start|>q<|im_end|><|im_start|>r<|im_end|><|im_start|>[b<|im_end|>]",
    ]


def test_texts_are_packed(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abcdef\n<|endoftext|>\nghi <|im_end|>\n")
    found = read_examples(path, tokenizer, 8)
    assert all(len(row.ids) == 9 for row in found.rows[:-1])
    joined = [*found.rows[0].ids, *(token for row in found.rows[1:] for token in row.ids[1:])]
    assert tokenizer.decode(joined).startswith("abcdef\n")
    assert joined.count(257) == sum(tokenizer.encode("x", eos=True).count(257) for _ in range(2))
    lines = write(tmp_path / "b.jsonl", {"text": "abcdef\n"}, {"text": "ghi <|im_end|>\n"})
    assert read_examples(lines, tokenizer, 8).rows[0] == found.rows[0]


def test_long_examples_are_cut(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", turns("hi", "abcdefghijklmnop"), turns("a" * 80, "b"))
    found = read_examples(path, tokenizer, 30)
    assert (len(found.rows), found.cut, found.without_answer) == (1, 2, 1)
    assert len(found.rows[0].ids) == 31


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a"}\n{"messages"', r"line 2: not valid JSON"),
        ('{"question": "a"}\n', r"line 1: the line is not an example.*Lines are"),
        ('{"instruction": "a", "input": 7, "output": "b"}\n', r"line 1: `instruction` and `input` are texts, not 7"),
        ('{"text": "a", "tools": "[]"}\n', r"line 1: `tools` is a list of objects, not '\[\]'.*Write the objects"),
        ('{"messages": [{"role": "user"}]}\n', r"line 1: the line is not an example"),
        ('{"messages": [{"role": "user", "content": "a"}]}\n', "nothing to learn.*: 1 example without an answer"),
        ("[" * 5000 + "\n", r"line 1: not valid JSON: it is nested"),
        ("\n", r"there is nothing to learn"),
        ('{"text": ""}\n', r"there is nothing to learn"),
        ('{"prompt": "a", "completion": "b", "label": 0}\n', r"line 1: the label is true or false, not 0"),
    ],
)
def test_bad_files(tokenizer: Tokenizer, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=message):
        read_examples(path, tokenizer, 30)


def test_a_list_of_examples(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A .json file may be a list, as Alpaca's is; it gives the rows of the same objects in lines."""
    lines = [{"instruction": "say", "output": "one"}, {"instruction": "say", "input": "it", "output": "two"}]
    (tmp_path / "a.json").write_text(" \n" + json.dumps(lines, indent=2))
    found = read_examples(tmp_path / "a.json", tokenizer, 100)
    assert found == read_examples(write(tmp_path / "b.jsonl", *lines), tokenizer, 100) and len(found.rows) == 2
    assert read_examples(write(tmp_path / "b.json", *lines), tokenizer, 100) == found
    for text, message in (("[{]", "a.json: not valid JSON"), ('[{"text": "a"}, 3]', "a.json, example 2: the line is")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(FileFormatError, match=message):
            read_examples(tmp_path / "a.json", tokenizer, 100)


def test_bytes_that_are_no_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc\n\xff\n")
    with pytest.raises(FileFormatError, match="line 2: not UTF-8"):
        read_examples(tmp_path / "a.txt", tokenizer, 30)


def test_parts_of_one_thing_are_held_out_together() -> None:
    rows = [(name, number) for name in "abcdefgh" for number in range(1 + ord(name) % 4)]
    for seed in range(5):
        trained, held_out = divided(rows, 0.25, seed, source_of=itemgetter(0))
        assert sorted(trained + held_out) == rows and 0 < len(held_out) <= round(len(rows) / 4)
        assert not {name for name, _ in trained} & {name for name, _ in held_out}
    trained, held_out = divided([("a", number) for number in range(20)], 0.25, 1, source_of=itemgetter(0))
    assert len(held_out) == 5 and len(trained) == 15
    assert divided(rows, 0.25, 3) == divided(rows, 0.25, 3, source_of=lambda row: row)
