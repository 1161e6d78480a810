"""Answers from web pages: texts, paths and tokens against transformers (make_golden_markup.py), and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pyapp
from pyapp.errors import OptionError
from pyapp.formats.safetensors import write_safetensors
from pyapp.models import markuplm
from pyapp.tasks.markup import answer_markup, check_markup
from pyapp.text.markup import marked_texts, path_units
from pyapp.text.tokenization.pieces import byte_of_character
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from tests.models.seeded import draw

pytestmark = pytest.mark.native_only  # needs the tokenizers library and files

VOCABULARY = {
    name: i for i, name in enumerate(["<s>", "<pad>", "</s>", "<unk>", *byte_of_character(), "th", "\u0120a"])
}
MERGES = "#version: 0.2\nt h\n\u0120 a\n"
TAGS = {"html": 0, "body": 1, "p": 2, "li": 3}
PAGE = """<!DOCTYPE html><html><head><title>The films &amp; more</title><style>p {}</style></head><body><p>Brad<br>Pitt
<ul><li>one<li>two</ul><div><p>a thing</p><p>  </p> 1963 <!-- none --></div><script>let a;</script>
</section><img src="a"/> &lt;end&gt;"""
QUESTION = "Who?"
DEPTH = 6
CONFIG: dict[str, Any] = {
    "model_type": "markuplm", "vocab_size": len(VOCABULARY), "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 128, "pad_token_id": 1,
    "max_xpath_tag_unit_embeddings": 8, "max_xpath_subs_unit_embeddings": 1024, "tag_pad_id": 5, "subs_pad_id": 1001,
    "xpath_unit_hidden_size": 4, "max_depth": DEPTH, "architectures": ["MarkupLMForQuestionAnswering"],
}  # fmt: skip


def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("golden_markup.json").read_text())
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("markuplm")
    special = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    settings = {f"{role}_token": name for role, name in special.items()} | {"tags_dict": TAGS}
    settings |= {"tokenizer_class": "MarkupLMTokenizer"}
    for name, text in (
        ("vocab.json", json.dumps(VOCABULARY)), ("merges.txt", MERGES), ("config.json", json.dumps(CONFIG)),
        ("tokenizer_config.json", json.dumps(settings)),
    ):  # fmt: skip
        (made / name).write_text(text)
    model = markuplm.TASKS["question-answering"](markuplm.Config.from_dict(CONFIG))
    drawn = {name: pyapp.from_numpy(draw(name, tuple(x.shape))) for name, x in model.named_parameters()}
    write_safetensors(made / "model.safetensors", drawn)
    return made


def test_texts_paths_and_tokens_are_those_of_transformers(folder: Path) -> None:
    texts, expected = marked_texts(PAGE), golden()
    assert [text.text for text in texts] == expected["texts"]
    paths = [
        "".join(f"/{tag}" + (f"[{number}]" if number else "") for tag, number in zip(x.tags, x.numbers, strict=True))
        for x in texts
    ]
    assert paths == expected["paths"]
    units = [path_units(text, TAGS, DEPTH, 1000, (5, 1001)) for text in (*texts, None)]
    assert [[list(part) for part in unit] for unit in units] == expected["units"]
    [window] = load_tokenizer(folder).windows([text.text for text in texts], 128, 8, QUESTION)
    assert [token for token, text in zip(window.ids, window.texts, strict=True) if text == 1] == expected["ids"]


def test_a_page_answers_at_the_command_line(folder: Path, tmp_path: Path) -> None:
    from pyapp.cli import cli

    file = tmp_path / "page.html"
    file.write_text(PAGE)
    result = CliRunner().invoke(cli, ["answer", QUESTION, str(file), "--model", str(folder)])
    assert result.exit_code == 0, result.output
    score, answer = result.output.rstrip("\n").split("\t")
    assert answer and answer in "\n".join(golden()["texts"]) and 0 < float(score) <= 1


def test_the_pipeline_has_the_form_of_transformers(folder: Path) -> None:
    """Its answers are those of the task, in the form of questions about documents."""
    run = pyapp.pipeline("markup-question-answering", folder)
    found = run(question=QUESTION, html=PAGE)
    assert list(found) == ["score", "start", "end", "answer"]
    assert found["answer"] == "\n".join(golden()["texts"])[found["start"] : found["end"]]
    assert run([{"question": QUESTION, "html": PAGE}]) == run([QUESTION], PAGE) == [found]
    both = run(QUESTION, PAGE, top_k=2)
    assert len(both) == 2 and both[0] == found
    with pytest.raises(OptionError, match="html|page"):
        run(QUESTION)


def test_what_is_no_page_is_refused() -> None:
    for questions, page, told in (
        (["Who?"], "no tags", "no text in a tag"),
        ([""], PAGE, "empty"),
        (["Who?"], 3, "int"),
    ):
        with pytest.raises(OptionError, match=told):
            check_markup(questions, page)
    assert [text.text for text in marked_texts("<p>a<![x[b]]>c</p>")] == ["a", "c"]  # as in browsers
    with pytest.raises(OptionError, match="top: 0"):
        next(answer_markup(None, ["Who?"], PAGE, top=0))
