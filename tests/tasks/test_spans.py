"""Labelled parts of texts and answers to questions, against transformers (make_golden_spans.py), and their commands."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pyapp
from pyapp.errors import ModelError, OptionError
from pyapp.formats.safetensors import write_safetensors
from pyapp.text.spans import labelled_spans, without_spaces
from pyapp.text.tokenization.encoding import Encoding
from tests.command_lines import lines
from tests.models.encoder_configs import CONFIGS
from tests.models.seeded import draw
from tests.models.test_encoders import module_of
from tests.text.tokenizer_documents import document, numbered, template

pytestmark = pytest.mark.native_only  # needs the tokenizers library and files

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES += "anna ##bel ##s lives in ber ##lin and oslo . , who where new york is the cat ##ty of".split()
TEXTS = [
    "Annabel lives in Berlin, and Anna in Oslo.", "the cat of New York", "Who lives, where is Berlins catty, Anna?",
    "Oslo Oslo xyz Annas",
]  # fmt: skip
QUESTIONS = ["who lives in Berlin", "where is the cat"]
CONTEXT = "Annabel lives in Berlin. The cat is in Oslo, and Annas cat lives in New York."
LONGEST = 4


def wordpiece() -> str:
    """BERT's tokenizer, lower-case, with these pieces."""
    around = template({"[CLS]": 2, "[SEP]": 3}, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": numbered(PIECES)}  # fmt: skip
    normal = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
              "lowercase": True}  # fmt: skip
    parts = {"normalizer": normal, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": around}
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    return json.dumps(document(model, numbered(PIECES[:5]), decoder=decoder, **parts))


def folder(path: Path, task: str, architecture: str, **changes: Any) -> Path:
    """A BERT with seeded weights as Hugging Face has it; the last layer's are larger, so that scores differ."""
    config = CONFIGS["bert"] | {"vocab_size": len(PIECES), "max_position_embeddings": 64} | changes
    model = module_of("bert").TASKS[task](module_of("bert").Config.from_dict(config))
    path.mkdir(parents=True)
    tensors = {}
    for key, parameter in model.named_parameters():
        values = draw(key, tuple(parameter.shape))
        tensors[key] = pyapp.from_numpy(values * (6 if key.startswith(("classifier", "qa_outputs")) else 1)).float()
    write_safetensors(path / "model.safetensors", tensors)
    (path / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
    (path / "tokenizer.json").write_text(wordpiece())
    settings = {"model_max_length": 64, "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]",
                "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]",
                "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}  # fmt: skip
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def labelling_folder(path: Path) -> Path:
    names = {str(i): name for i, name in enumerate(LABELS)}
    return folder(path, "token-classification", "BertForTokenClassification", id2label=names)


def answering_folder(path: Path) -> Path:
    return folder(path, "question-answering", "BertForQuestionAnswering", id2label={"0": "start", "1": "end"})


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(Path(__file__).with_name("golden_spans.json").read_text())


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("spans")
    labelling_folder(path / "label")
    answering_folder(path / "answer")
    return path


@pytest.fixture(scope="module")
def labelling(top: Path) -> Any:
    return pyapp.pipeline("token-classification", top / "label")


@pytest.fixture(scope="module")
def answering(top: Path) -> Any:
    return pyapp.pipeline("question-answering", top / "answer")


@pytest.mark.parametrize("aggregation", ["none", "simple", "first", "average", "max"])
def test_labels_are_those_of_transformers(aggregation: str, labelling: Any, golden: Any) -> None:
    found = labelling(TEXTS, aggregation=aggregation, batch_size=3)
    for text, parts, expected in zip(TEXTS, found, golden["labels"][aggregation], strict=True):
        assert [(part["label"], part["start"], part["end"]) for part in parts] == [(e[0], *e[2:]) for e in expected]
        assert [part["score"] for part in parts] == pytest.approx([e[1] for e in expected], abs=2e-5)
        assert all(part["word"] == text[part["start"] : part["end"]] for part in parts)
    alone = labelling(TEXTS[0], aggregation=aggregation)  # one text: its parts
    assert alone == [part | {"score": pytest.approx(part["score"], abs=1e-5)} for part in found[0]]


def test_labels_that_say_where_a_span_ends() -> None:
    names = ["O", *(f"{place}-{kind}" for kind in ("mail", "name") for place in "BIES"), "E-bike"]
    tags = ["B-mail", "I-mail", "E-mail", "I-mail", "S-name", "S-name", "B-name", "E-name", "O", "E-bike"]
    pieces = [(2 * i, 2 * i + 1) for i in range(len(tags))]
    nothing = [0] * len(tags)
    window = Encoding(nothing, nothing, nothing, [*nothing], pieces)
    scores = [[5.0 * (name == tag) for name in names] for tag in tags]
    found = labelled_spans(
        SimpleNamespace(continues_word=lambda token: False), "a " * len(tags), [(window, scores)], names, "simple"
    )
    assert [(part["label"], part["start"], part["end"]) for part in found] == [
        ("mail", 0, 5), ("mail", 6, 7), ("name", 8, 9), ("name", 10, 11), ("name", 12, 15), ("O", 16, 17),
        ("E-bike", 18, 19),
    ]  # fmt: skip


def test_ignored_labels(labelling: Any) -> None:
    every = labelling(TEXTS[0], ignore=())
    kinds = {part["label"] for part in every}
    assert len(kinds) > 1
    some = min(kinds)
    assert labelling(TEXTS[0], ignore=[some]) == [part for part in every if part["label"] != some]


@pytest.mark.parametrize("impossible", [False, True])
def test_answers_are_those_of_the_definition(impossible: bool, answering: Any, golden: Any) -> None:
    found = answering(QUESTIONS, [CONTEXT], top=3, longest=LONGEST, impossible=impossible)
    for answers, expected in zip(found, golden["answers"][str(impossible)], strict=True):
        assert [(one["start"], one["end"]) for one in answers] == [tuple(e[1:]) for e in expected]
        assert [one["score"] for one in answers] == pytest.approx([e[0] for e in expected], rel=1e-3)
        assert all(one["answer"] == CONTEXT[one["start"] : one["end"]] for one in answers)
    every = answering(QUESTIONS[0], CONTEXT, top=500, longest=LONGEST, impossible=impossible)
    assert sum(one["answer"] == "" for one in every) == impossible  # one of them is not an answer
    assert answering(QUESTIONS[0], CONTEXT, longest=LONGEST)[0]["start"] == golden["answers"]["False"][0][0][1]


def test_answers_have_no_spaces_at_their_ends() -> None:
    text = "In the\n north, yes "
    cases = (2, 6, "the"), (6, 14, "north,"), (3, 6, "the"), (14, 19, "yes"), (2, 19, "the\n north, yes")
    for start, end, expected in cases:
        first, last = without_spaces(text, start, end)
        assert text[first:last] == expected
    assert without_spaces(text, 0, 0) == (0, 0) and without_spaces(text, 6, 8) == (6, 8)


def test_texts_longer_than_the_model_reads(labelling: Any, answering: Any) -> None:
    """Windows overlap: every token gets a label, once, and an answer after the first window is found."""
    text = " ".join(f"Anna{'bel' * (i % 2)} in Oslo" for i in range(60))
    parts = labelling(text, aggregation="none", ignore=())
    assert [(part["start"], part["end"]) for part in parts] == sorted({(p["start"], p["end"]) for p in parts})
    assert "".join(part["word"] for part in parts) == text.replace(" ", "")
    question, context = QUESTIONS[0], CONTEXT + " the cat ." * 80
    [best] = answering(question, context, longest=LONGEST)
    assert best["answer"] == context[best["start"] : best["end"]]
    later = answering(question, " the cat ." * 80 + " " + CONTEXT, top=200, longest=LONGEST)
    assert min(one["start"] for one in later) < 100 and max(one["end"] for one in later) > 820
    with pytest.raises(OptionError, match="before the text leave room for"):
        answering("who " * 62, "cat")


def test_windows_are_the_text(labelling: Any) -> None:
    tokenizer = labelling.loaded.tokenizer
    text = CONTEXT * 6
    [whole] = tokenizer.windows(text, 1000, 4)
    parts = tokenizer.windows(text, 24, 4)
    assert all(len(part) <= 24 and part.ids[0] == 2 and part.ids[-1] == 3 for part in parts)
    joined = list(zip(parts[0].ids[1:-1], parts[0].offsets[1:-1], strict=True))
    for part in parts[1:]:
        inner = list(zip(part.ids[1:-1], part.offsets[1:-1], strict=True))
        assert joined[-4:] == inner[:4]  # the overlap
        joined += inner[4:]
    assert joined == list(zip(whole.ids[1:-1], whole.offsets[1:-1], strict=True))
    assert len(tokenizer.windows("", 24, 4)) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda label, answer: label("a", aggregation="best"), "aggregation: 'best' is none of simple"),
        (lambda label, answer: answer(["a", "b", "c"], ["d", "e"]), "3 questions and 2 contexts"),
        (lambda label, answer: answer("a", " "), "contexts: number 0 is empty"),
        (lambda label, answer: answer("", "a"), "questions: number 0 is empty"),
        (lambda label, answer: answer("a", "b", longest=0), "longest: 0 is not a whole number"),
        (lambda label, answer: label([3]), "number 0 is int, not a text"),
    ],
)
def test_wrong_input(make: Any, message: str, labelling: Any, answering: Any) -> None:
    with pytest.raises(OptionError, match=message):
        make(labelling, answering)


def test_models_of_other_tasks(top: Path) -> None:
    with pytest.raises(ModelError, match="made for token-classification, not for question-answering"):
        pyapp.pipeline("question-answering", top / "label")


def test_commands(top: Path, tmp_path: Path, labelling: Any) -> None:
    (tmp_path / "texts").write_text("\n" + "\n\n".join(TEXTS))  # the first one is the file's second line
    expected = [
        f"{2 * number + 2}\t{part['label']}\t{part['score']:.4f}\t{part['word']}"
        for number, parts in enumerate(labelling(TEXTS))
        for part in parts
    ]
    assert lines("label", str(tmp_path / "texts"), "-m", str(top / "label")) == expected
    answers = lines("answer", QUESTIONS[0], "-", "-m", str(top / "answer"), "--top", "2", stdin=CONTEXT)
    assert len(answers) == 2 and all(line.split("\t")[1] in CONTEXT for line in answers)
    assert lines("answer", "who", "-", "-m", str(top / "answer"), code=1, stdin=" \n") == []
