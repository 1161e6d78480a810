"""Answers from tables against transformers (make_golden_tables.py): tokens, their types, chosen cells; the task and its
command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pyapp
from pyapp import tasks
from pyapp.errors import OptionError
from pyapp.formats.safetensors import write_safetensors
from pyapp.models import tapas
from pyapp.text.numbers_in_text import column_values, date_of
from pyapp.text.tables import TableReader, aggregated
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from tests.models.seeded import draw
from tests.together import values_of

pytestmark = pytest.mark.native_only  # needs the tokenizers library and files

WORDS = "the how many old is are of actor age number movies born in total year city name on film".split()
VOCABULARY = [
    "[PAD]", "[EMPTY]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz0123456789.,-%",
    *(f"##{x}" for x in "abcdefghijklmnopqrstuvwxyz0123456789"), "##ing", "19", "20", "##00",
]  # fmt: skip
TABLES: dict[str, dict[str, list[str]]] = {
    "actors": {
        "Actor": ["Brad Pitt", "Leonardo Di Caprio", "George Clooney"],
        "Age": ["56", "45", "59"],
        "Number of movies": ["87", "53", "69"],
        "Born": ["18 December 1963", "11 November 1974", "6 May 1961"],
    },
    "mixed": {
        "Year": ["2001", "1999", "2001", "n/a", "1985"],
        "City": ["Oslo", "", "?", "New-York, NY", "Rome (Italy)"],
        "On": ["Aug 2007", "2010-05-05", "September 9", "12.05.2011", "May 3, 1999"],
        "Share": ["1,200.5%", "-3", "3rd", "twelfth", "about seven"],
    },
    "long": {
        "Name": [f"number {i} is a very long name of film" for i in range(40)],
        "N": [str(i % 7) for i in range(40)],
    },
}
QUESTIONS = {
    "actors": ["How old is Brad Pitt?", "How many movies of actors older than 50 born on 6 May 1961 in total?"],
    "mixed": ["Which city in 2001?", "more than three, on August 2007?"],
    "long": ["How many names are of number 3?"],
}
MOST = 90
CONFIG: dict[str, Any] = {
    "model_type": "tapas", "vocab_size": len(VOCABULARY), "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 90, "num_aggregation_labels": 4,
    "type_vocab_sizes": [3, 64, 64, 2, 64, 64, 10], "no_aggregation_label_index": 0, "pad_token_id": 0,
    "aggregation_labels": {"0": "NONE", "1": "SUM", "2": "AVERAGE", "3": "COUNT"}, "max_num_rows": 64,
    "architectures": ["TapasForQuestionAnswering"], "model_max_length": MOST,
}  # fmt: skip


def weights(shapes: dict[str, list[int]]) -> dict[str, Any]:
    """The weights of the model, large enough that cells differ."""
    return {name: np.asarray(3 * draw(name, tuple(shape))) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tapas")
    (made / "vocab.txt").write_text("\n".join(VOCABULARY))
    (made / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "model_max_length": MOST} | {
        f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "unk", "mask")}))  # fmt: skip
    (made / "config.json").write_text(json.dumps(CONFIG))
    model = tapas.TASKS["table-question-answering"](tapas.Config.from_dict(CONFIG))
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    write_safetensors(made / "model.safetensors", {n: pyapp.from_numpy(x) for n, x in weights(shapes).items()})
    return made


def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("golden_tables.json").read_text())
    return found


@pytest.mark.parametrize("name", TABLES)
def test_tokens_and_cells_are_those_of_transformers(folder: Path, name: str) -> None:
    expected, tokenizer = golden()[name], load_tokenizer(folder)
    columns, rows = list(TABLES[name]), list(map(list, zip(*TABLES[name].values(), strict=True)))
    reader = TableReader(tokenizer, columns, rows, CONFIG["type_vocab_sizes"])
    for question, (ids, types) in zip(QUESTIONS[name], expected["tokens"], strict=True):
        found = reader.tokens(question, MOST)
        assert found.ids == ids
        assert [list(row) for row in zip(*found.types, strict=True)] == types
    answers = values_of(tasks.answer_from_table(QUESTIONS[name], TABLES[name], model=str(folder)))
    cells = [[[cell["row"], cell["column"]] for cell in answer["cells"]] for answer in answers]
    assert cells == expected["cells"]
    assert [answer["aggregation"] or "NONE" for answer in answers] == expected["aggregations"]


def test_the_pipeline_is_that_of_transformers(folder: Path) -> None:
    """Its results, also of a conversation; each form of its arguments; what it refuses."""
    run = pyapp.pipeline("table-question-answering", folder)
    for name, expected in golden()["pipeline"].items():
        for sequential, answers in zip((False, True), expected, strict=True):
            found = run(TABLES[name], QUESTIONS[name], sequential=sequential)
            assert json.loads(json.dumps(found)) == answers
    one, both = run(query=QUESTIONS["actors"][0], table=TABLES["actors"]), run(TABLES["actors"], QUESTIONS["actors"])
    asked = {"table": TABLES["actors"], "query": QUESTIONS["actors"][0]}
    assert one == both[0] == run(asked) == run(TABLES["actors"], QUESTIONS["actors"][:1])
    assert run([asked, asked]) == [one, one] and type(one["coordinates"][0]) is tuple
    for given, told in (
        ({"table": TABLES["actors"]}, "query: is missing"), ({"query": "Who?"}, "is not a table"),
        ({**asked, "truncation": "longest_first"}, "truncation: 'longest_first' is not supported"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            run(**given)


def test_a_file_answers_at_the_command_line(folder: Path, tmp_path: Path) -> None:
    from pyapp.cli import cli

    file = tmp_path / "actors.tsv"
    lines = ["\t".join(TABLES["actors"]), *("\t".join(row) for row in zip(*TABLES["actors"].values(), strict=True))]
    file.write_text("\n".join(lines))
    result = CliRunner().invoke(cli, ["answer", QUESTIONS["actors"][0], str(file), "--model", str(folder)])
    [answer] = values_of(tasks.answer_from_table(QUESTIONS["actors"][:1], TABLES["actors"], model=str(folder)))
    assert result.exit_code == 0, result.output
    refused = CliRunner().invoke(cli, ["answer", "Who?", str(file), "--model", str(folder), "--top", "2"])
    assert refused.exit_code == 2 and "--top does not go with a table" in refused.output
    assert result.output.rstrip("\n").split("\t") == [
        part for part in (f"{answer['score']:.4f}", answer["answer"], answer["aggregation"]) if part
    ]


def test_aggregations_and_what_is_no_table(folder: Path, tmp_path: Path) -> None:
    numbers = [column_values(column) for column in TABLES["actors"].values()]
    assert aggregated("SUM", [(0, 1), (2, 1)], numbers) == 115
    assert aggregated("AVERAGE", [(0, 1), (2, 1)], numbers) == 57.5
    assert aggregated("COUNT", [(0, 0), (2, 0)], numbers) == 2
    assert aggregated("SUM", [(0, 0)], numbers) is None
    assert date_of("august 31, 1890") == (1890, 8, 31) and date_of("august 32, 1890") is None
    for questions, table, told in (
        ([" "], TABLES["actors"], "number 0 is empty"), (["Who?"], {"a": ["1"], "b": []}, "columns of one length"),
        (["Who?"], 3, "is not a table"), (["Who?"], {"a": "12"}, "'12' is not a list"),
        (["Who?"], str(tmp_path / "none.csv"), "none.csv"),
        (["old " * MOST], TABLES["actors"], "the model reads 90"),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=told):
            values_of(tasks.answer_from_table(questions, table, model=str(folder)))
