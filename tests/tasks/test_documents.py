"""Labelled parts, answers and labels of pages, against transformers (make_golden_documents.py): by words with boxes,
and by a picture that the embedded reader reads; their commands and the server.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pyapp
from pyapp import tasks
from pyapp.errors import ModelError, OptionError
from pyapp.events import Error, Item
from pyapp.formats.safetensors import write_safetensors
from pyapp.models._index import MODEL_TYPES
from pyapp.models.loading.by_task import load_task_model
from pyapp.tasks.documents import Page, answer_pages, classified_pages, label_pages
from pyapp.text.spans import labelled_spans
from pyapp.text.tokenization.encoding import Encoding
from pyapp.text.tokenization.tokenizers_library import NativeBackend
from pyapp.text.tokenization.word_offsets import by_words
from pyapp.vision.reading import is_page
from tests.models.encoder_configs import CONFIGS
from tests.models.seeded import draw
from tests.serve.in_process import serving
from tests.tasks.test_spans import PIECES, QUESTIONS, wordpiece
from tests.together import collect

pytestmark = pytest.mark.native_only  # needs the tokenizers library and files

WORDS = "Annabel lives in Berlin. The cat is in Oslo, and Annas cat lives in New York.".split()
SIZE = (640, 480)  # of the page
BOXES = [[40 + 110 * (i % 5), 30 + 90 * (i // 5), 130 + 110 * (i % 5), 60 + 90 * (i // 5)] for i in range(len(WORDS))]
LABELS = {str(i): f"B-{i}" for i in range(5)}  # each word is a part of its own
KINDS = ("layoutlm", "lilt", "layoutlmv3", "bert")
SIDE = 12  # pixels of LayoutLMv3's pictures
CLASSES = {"layoutlm": "LayoutLM", "lilt": "Lilt", "layoutlmv3": "LayoutLMv3", "bert": "Bert"}
ENDS = {"token-classification": "ForTokenClassification", "question-answering": "ForQuestionAnswering",
        "sequence-classification": "ForSequenceClassification"}  # fmt: skip
LONGEST = 3


def picture() -> np.ndarray:
    """(480, 640, 3) uint8."""
    rows, columns = np.indices((SIZE[1], SIZE[0]))
    return np.stack([rows // 2 % 256, columns // 3 % 256, (rows + columns) % 200], -1).astype(np.uint8)


def folder(path: Path, kind: str, task: str) -> Path:
    """A small model with seeded weights as Hugging Face has it; the last layer's are larger, so that scores differ."""
    labels = {"0": "start", "1": "end"} if task == "question-answering" else LABELS
    config = CONFIGS[kind] | {"vocab_size": len(PIECES), "max_position_embeddings": 64, "id2label": labels}
    config |= {"pad_token_id": 0}
    module = importlib.import_module(f"pyapp.models.{MODEL_TYPES[kind]}")
    path.mkdir(parents=True)
    tensors = {}
    for key, parameter in module.TASKS[task](module.Config.from_dict(config)).named_parameters():
        values = draw(key, tuple(parameter.shape))
        tensors[key] = pyapp.from_numpy(values * (6 if key.startswith(("classifier", "qa_outputs")) else 1)).float()
    write_safetensors(path / "model.safetensors", tensors)
    (path / "config.json").write_text(json.dumps(config | {"architectures": [CLASSES[kind] + ENDS[task]]}))
    (path / "tokenizer.json").write_text(wordpiece())
    settings = {"model_max_length": 64, "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    if kind == "layoutlmv3":
        sizes = {"image_processor_type": "LayoutLMv3ImageProcessor", "size": {"height": SIDE, "width": SIDE}}
        (path / "preprocessor_config.json").write_text(json.dumps(sizes))
    return path


@cache
def golden() -> Any:
    return json.loads(Path(__file__).with_name("golden_documents.json").read_text())


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("documents")
    for kind in KINDS:
        for task in ENDS:
            folder(path / kind / task, kind, task)
    return path


def page(**more: Any) -> dict[str, Any]:
    image = pyapp.from_numpy(picture())
    return {"words": WORDS, "boxes": BOXES, "width": SIZE[0], "height": SIZE[1], "image": image} | more


def items(work: Any) -> list[Any]:
    return [event.values for event in work if isinstance(event, Item)]


def test_the_pipeline_is_that_of_transformers(top: Path) -> None:
    """Its results; each form of its arguments; what it refuses."""
    run = pyapp.pipeline("document-question-answering", top / "layoutlm" / "question-answering")
    boxes = [[int(1000 * (side / SIZE[i % 2])) for i, side in enumerate(box)] for box in BOXES]
    pairs = list(zip(WORDS, boxes, strict=True))
    many: list[Any] = [{"question": question, "word_boxes": pairs} for question in QUESTIONS]
    for impossible, expected in zip((False, True), golden()["pipeline"], strict=True):
        found = run(many, top_k=2, max_answer_len=LONGEST, handle_impossible_answer=impossible)
        for own, answers in zip(found, expected, strict=True):
            assert [{**a, "score": 0} for a in own] == [{**a, "score": 0} for a in answers]
            np.testing.assert_allclose([a["score"] for a in own], [a["score"] for a in answers], rtol=1e-4)
    [one] = run(question=QUESTIONS[0], word_boxes=pairs, max_answer_len=LONGEST)
    assert [one] == run(many[0], max_answer_len=LONGEST) == run(page(), QUESTIONS[0], max_answer_len=LONGEST)
    for given, told in (
        ({"question": "Who?"}, "image: a picture or the words are missing"),
        ({"image": page()}, "question: None is not"),
        ({"question": "Who?", "word_boxes": ["a"]}, "word_boxes"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            run(**given)


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_read_as_by_transformers(kind: str, top: Path) -> None:
    expected = golden()[kind]
    labelling = load_task_model(top / kind / "token-classification", "token-classification")
    [found] = items(label_pages(labelling, [page()]))
    entities = found["entities"]
    assert [(entity["start"], entity["end"]) for entity in entities] == [(i, i + 1) for i in range(len(WORDS))]
    assert [entity["word"] for entity in entities] == WORDS and [list(e["box"]) for e in entities] == BOXES
    assert [f"B-{entity['label']}" for entity in entities] == [label for label, _ in expected["labels"]]
    np.testing.assert_allclose([e["score"] for e in entities], [e[1] for e in expected["labels"]], atol=2e-5)
    answering = load_task_model(top / kind / "question-answering", "question-answering")
    for found, best in zip(items(answer_pages(answering, QUESTIONS, [page()], top=2, longest=LONGEST)),
                           expected["answers"], strict=True):  # fmt: skip
        for answer, (score, first, last) in zip(found["answers"], best, strict=True):
            assert (answer["start"], answer["end"] - 1) == (first, last)
            assert answer["answer"] == " ".join(WORDS[first : last + 1])
            assert answer["score"] == pytest.approx(score, abs=2e-5)
    classifying = load_task_model(top / kind / "sequence-classification", "sequence-classification")
    [found] = items(classified_pages(classifying, [page()]))
    scores = {entry["label"]: entry["score"] for entry in found["labels"]}
    np.testing.assert_allclose([scores[name] for name in LABELS.values()], expected["classes"], atol=2e-5)


@pytest.mark.parametrize("kind", ["layoutlm", "layoutlmv3"])
def test_answers_without_the_places_of_tokens(kind: str, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the page, whose library of tokenizers tells none: words are found by encoding them alone."""
    loaded = load_task_model(top / kind / "question-answering", "question-answering")
    wanted = items(answer_pages(loaded, QUESTIONS, [page()], top=4))
    monkeypatch.delattr(NativeBackend, "encode_with_offsets")
    assert items(answer_pages(loaded, QUESTIONS, [page()], top=4)) == wanted


def test_places_of_words() -> None:
    assert by_words(lambda text: [len(word) for word in text.split()], " ab  c ") == ([2, 1], [(1, 3), (5, 6)])
    assert by_words(lambda text: list(text.encode()), " b") == ([32, 98], [(1, 2)] * 2)
    with pytest.raises(ModelError, match="joins 'a' with another word"):
        by_words(lambda text: [len(text)], "a b")


def test_long_pages_are_read_in_windows(top: Path) -> None:
    """Each word of a page of several windows is labelled once, and answers are found in all of them."""
    times = 12
    long = page(words=WORDS * times, boxes=BOXES * times, image=None)
    loaded = load_task_model(top / "layoutlm" / "token-classification", "token-classification")
    [found] = items(label_pages(loaded, [long], ignore=()))
    assert [entity["start"] for entity in found["entities"]] == list(range(times * len(WORDS)))
    answering = load_task_model(top / "layoutlm" / "question-answering", "question-answering")
    [found] = items(answer_pages(answering, QUESTIONS[:1], [long, page()], top=40))
    assert max(answer["start"] for answer in found["answers"]) > 40
    assert {answer["picture"] for answer in found["answers"]} == {0, 1}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"boxes": BOXES[1:]}, "as many `boxes`"),
        ({"words": None}, "has `words`"),
        ({"boxes": [[0, 0, 700, 10], *BOXES[1:]]}, "expected left, top, right and bottom on a page of 640 x 480"),
        ({"boxes": [[50, 0, 40, 10], *BOXES[1:]]}, "the box of 'Annabel'"),
        ({"boxes": [["a", 0, 40, 10], *BOXES[1:]]}, "the box of 'Annabel'"),
        ({"boxes": [[float("nan"), 0, 40, 10], *BOXES[1:]]}, "the box of 'Annabel'"),
        ({"width": 0}, "width and height"),
        ({"words": [3, *WORDS[1:]]}, "not a text"),
    ],
)
def test_pages_that_cannot_be_are_named(change: dict[str, Any], what: str, top: Path) -> None:
    error = collect(tasks.label_on_pages([page(**change)], model=top / "never loaded"))[-1]
    assert isinstance(error, Error) and what in error.what


def test_a_processor_of_other_pictures_is_refused(top: Path, tmp_path: Path) -> None:
    path = folder(tmp_path / "model", "layoutlmv3", "token-classification")
    (path / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 16, "width": 16}}))
    with pytest.raises(ModelError, match="makes pictures of 16 x 16 pixels, the model takes 12 x 12"):
        load_task_model(path, "token-classification")


@pytest.fixture(scope="module")
def drawn() -> bytes:
    """A picture of a page with the words of two lines, as PNG."""
    pytest.importorskip("PIL")
    from PIL import Image

    from pyapp.recipes.chooser import Chooser
    from tests.vision.page_drawings import draw_lines

    file = io.BytesIO()
    Image.fromarray(draw_lines(Chooser("page"), [[" ".join(WORDS[:4]), " ".join(WORDS[4:8])]], size=24)).save(
        file, "PNG"
    )
    return file.getvalue()


def test_commands(top: Path, drawn: bytes, tmp_path: Path) -> None:
    """Pictures are told from texts by what is in them."""
    from pyapp.cli import cli

    (tmp_path / "scan").write_bytes(drawn)
    (tmp_path / "text").write_text("Annabel lives in Berlin\n")
    runner, scan = CliRunner(), str(tmp_path / "scan")
    model = str(top / "layoutlmv3" / "token-classification")
    done = runner.invoke(cli, ["label", scan, "-m", model])
    assert done.exit_code == 0, done.output
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert " ".join(row[4] for row in rows) == " ".join(WORDS[:8]) and {row[0] for row in rows} == {"1"}
    left, top_edge, right, bottom = map(int, rows[1][1].split(","))
    assert 0 < left < right and 0 < top_edge < bottom and int(rows[4][1].split(",")[1]) > top_edge
    done = runner.invoke(cli, ["answer", QUESTIONS[0], scan, "-m", str(top / "layoutlm" / "question-answering")])
    number, box, _, answer = done.stdout.rstrip("\n").split("\t")
    assert number == "1" and len(box.split(",")) == 4 and answer in " ".join(WORDS[:8])
    done = runner.invoke(cli, ["classify", scan, "-m", str(top / "lilt" / "sequence-classification"), "--top", "1"])
    assert done.stdout.endswith("\tpage 1\n") and done.stdout.startswith("B-")
    done = runner.invoke(cli, ["label", str(tmp_path / "text"), "-m", model])  # without places
    assert done.exit_code == 0 and done.stdout.startswith("1\t"), done.output


def test_server(top: Path, drawn: bytes) -> None:

    coded = base64.b64encode(drawn).decode()
    models = (f"answers={top / 'layoutlm' / 'question-answering'}",
              f"labels={top / 'layoutlmv3' / 'token-classification'}")  # fmt: skip
    thousandths = [
        [int(1000 * side / SIZE[i % 2]) for i, side in enumerate(box)] for box in BOXES
    ]  # fmt: skip
    with serving(*models) as client:
        pairs = list(zip(WORDS, thousandths, strict=True))
        options = {"word_boxes": pairs, "max_answer_len": LONGEST, "top_k": 2}
        asked = {"inputs": {"question": QUESTIONS[0]}, "parameters": options}
        found = client.post("/models/answers", json=asked).json()
        best = golden()["layoutlm"]["answers"][0]
        assert [(answer["start"], answer["end"]) for answer in found] == [tuple(one[1:]) for one in best]
        found = client.post("/models/answers", json={"inputs": {"question": "who", "image": coded}}).json()
        assert len(found) == 1 and found[0]["answer"] and len(found[0]["box"]) == 4
        found = client.post("/models/labels", json={"inputs": {"image": coded}}).json()
        assert " ".join(span["word"] for span in found) == " ".join(WORDS[:8])
        for body, parameter in (
            ({"inputs": {"question": "who", "image": "?"}}, "inputs.image"),
            ({"inputs": {"question": "who"}, "parameters": {"word_boxes": [1]}}, "parameters.word_boxes"),
            ({"inputs": {"question": "who"}, "parameters": {"word_boxes": [["a", [0, 0, 2000, 1]]]}},
             "parameters.word_boxes"),
            ({"inputs": {"image": coded}}, "inputs.question"),
        ):  # fmt: skip
            answer = client.post("/models/answers", json=body)
            assert answer.status_code in (400, 422) and parameter in answer.text, answer.text


def test_a_token_of_a_space_belongs_to_the_word_behind_it() -> None:
    """As vocabularies of bytes have them where they know no piece for a word's beginning."""
    window = Encoding([5, 6, 7], [0] * 3, [1] * 3, [0] * 3, [(0, 2), (2, 3), (3, 5)])
    scores = [[3.0, 0.0], [0.0, 2.0], [9.0, 0.0]]
    page = Page(0, 0, ["ab", "cd"], [(0, 0, 1, 1), (2, 0, 3, 1)], (3, 1), None)
    vocabulary = SimpleNamespace(continues_word=lambda token: None)
    found = labelled_spans(vocabulary, page.text, [(window, scores)], ["X", "Y"], "first", page.owners())
    assert [(span["label"], span["start"], span["end"]) for span in found] == [("X", 0, 2), ("Y", 2, 5)]
    assert page.around(0, 1) == (0, 0, 3, 1)


def test_pages_are_told_from_texts() -> None:
    pages = (b"%PDF-1.7\n", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\0\x10", b"GIF89a", b"II*\0\x08\0\0\0",
             b"BM\x46\0\0\0", b"RIFF\x24\0\0\0WEBPVP8 ", b"\0\0\0\x20ftypavif")  # fmt: skip
    texts = (b"", b"BMW builds cars.", b"RIFF is a form.", b"A text of words.", b"MM. are Roman.")
    assert [is_page(head[:16]) for head in pages] == [True] * len(pages)
    assert [is_page(head[:16]) for head in texts] == [False] * len(texts)
