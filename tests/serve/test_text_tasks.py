"""POST /models/NAME for texts: the values of pyapp.tasks in the forms of Hugging Face's inference API, sent and read by
huggingface_hub.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyapp import tasks
from pyapp.cli import cli
from pyapp.events import Notice
from tests.serve.in_process import serving
from tests.tasks.test_spans import CONTEXT, QUESTIONS, answering_folder, labelling_folder
from tests.tasks.test_spans import TEXTS as NAMED
from tests.tasks.test_texts import folder
from tests.text.writer import write_writer
from tests.together import check_each, values_of

pytestmark = pytest.mark.native_only
hub = pytest.importorskip("huggingface_hub")
TEXT = "the cat sat on the [MASK]"
NLI = {"0": "CONTRADICTION", "1": "neutral", "2": "ENTAILMENT"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("tokenizers")
    top = tmp_path_factory.mktemp("reading")
    classifier = "sequence-classification", "BertForSequenceClassification"
    return {
        "mask": folder(top / "mask", "bert", "masked-lm", "BertForMaskedLM"),
        "names": labelling_folder(top / "names"), "answers": answering_folder(top / "answers"),
        "writes": write_writer(top / "writes"), "nli": folder(top / "nli", "bert", *classifier, id2label=NLI),
        "moods": folder(top / "moods", "bert", *classifier),
        "fits": folder(top / "fits", "bert", *classifier, id2label={"0": "fits"}),
    }  # fmt: skip


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Any]:
    """All models by the tasks that their folders say, but for the one that fills masks."""

    models = tuple(f"{name}={'fill-mask:' if name == 'mask' else ''}{path}" for name, path in folders.items())
    with serving(*models) as found:
        yield found


@pytest.fixture
def client(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """huggingface_hub's client, whose requests the application in this process answers."""

    def post(self: Any, parameters: Any, *, stream: bool = False) -> bytes:
        answer = server.post(parameters.url.removeprefix("http://here"), json=parameters.json)
        assert answer.status_code == 200, answer.text
        return bytes(answer.content)

    monkeypatch.setattr(hub.InferenceClient, "_inner_post", post)
    return hub.InferenceClient()


def test_tasks(client: Any, server: Any, folders: dict[str, Path]) -> None:
    def at(name: str) -> str:
        return f"http://here/models/{name}"

    [[words]] = values_of(tasks.fill_mask([TEXT], model=str(folders["mask"]), top=3))[0].values()
    found = client.fill_mask(TEXT, model=at("mask"), top_k=3)
    assert [(one.token, one.token_str, one.score, one.sequence) for one in found] == [
        (word["id"], word["word"], word["score"], word["text"]) for word in words
    ]
    several = server.post("/models/mask", json={"inputs": [f"{TEXT} [MASK]", TEXT]}).json()
    assert [len(several[0]), len(several[0][0]), len(several[1])] == [2, 5, 5]
    spans = values_of(tasks.label(NAMED[:1], model=str(folders["names"])))[0]["entities"]
    shown = client.token_classification(NAMED[0], model=at("names"), aggregation_strategy="simple")
    assert len(shown) == len(spans) > 0
    for one, span in zip(shown, spans, strict=True):
        assert [one.entity_group, one.word, one.start, one.end, one.score] == [
            span[name] for name in ("label", "word", "start", "end", "score")
        ]
    best = values_of(tasks.answer(QUESTIONS[:1], [CONTEXT], model=str(folders["answers"]), top=2))[0]["answers"]
    answer = client.question_answering(QUESTIONS[0], context=CONTEXT, model=at("answers"))
    assert (answer.answer, answer.score, answer.start) == tuple(best[0][name] for name in ("answer", "score", "start"))
    both = client.question_answering(QUESTIONS[0], context=CONTEXT, model=at("answers"), top_k=2, max_answer_len=15)
    assert [one.end for one in both] == [one["end"] for one in best]
    [text] = values_of(tasks.translate(["the cat sat"], model=str(folders["writes"])))
    assert client.translation("the cat sat", model=at("writes")).translation_text == text["text"] != ""
    command = ["translate", "-", "-m", str(folders["writes"])]
    said = CliRunner().invoke(cli, command, input="\nthe cat sat\n\n\nthe cat sat\n", standalone_mode=False)
    assert said.stdout.split("\n") == ["", text["text"], "", "", text["text"], ""]  # empty lines stay
    long = "the cat sat. A dog!\n\nthe cat sat. the mat"
    for division, parts in (("sentences", ["the cat sat.", "A dog!", "the cat sat. the mat"]), ("whole", [long]),
                            ("paragraphs", ["the cat sat. A dog!", "the cat sat. the mat"])):  # fmt: skip
        whole = values_of(tasks.translate_text(long, division=division, model=str(folders["writes"])))
        assert [long[one["start"] : one["end"]] for one in whole] == parts
        alone = values_of(tasks.translate(parts, model=str(folders["writes"])))
        assert [one["text"] for one in whole] == [one["text"] for one in alone]
    assert client.summarization("the cat sat", model=at("writes")).summary_text == text["text"]
    short = {"inputs": ["the cat sat"] * 2, "parameters": {"generate_parameters": {"max_new_tokens": 1}}}
    written = server.post("/models/writes", json=short).json()
    assert len(written) == 2 and len(written[0]["translation_text"]) < len(text["text"])


def test_parts_that_are_longer_than_the_model_reads(folders: dict[str, Path]) -> None:
    """A text of 40 tokens, with [CLS] and [SEP], is read whole; of longer ones a notice tells."""

    async def notices(text: str) -> list[str]:
        stream = tasks.translate_text(text, division="paragraphs", model=str(folders["writes"]), max_new_tokens=1)
        return [
            event.what.partition(" longer")[0] for event in [one async for one in stream] if isinstance(event, Notice)
        ]

    fits, longer = " ".join(["cat"] * 38), " ".join(["cat"] * 39)
    assert asyncio.run(notices(fits)) == []
    assert asyncio.run(notices(longer)) == ["the text is"]
    assert asyncio.run(notices(f"{fits}\n\n{longer}")) == ["1 of 2 parts is"]
    assert asyncio.run(notices(f"{longer}\n\n{longer}")) == ["2 of 2 parts are"]


def test_labels_of_the_request(client: Any, server: Any, folders: dict[str, Path]) -> None:
    """The probabilities are those of the definition, from the model's own numbers."""
    labels, at = ["cat", "blue house"], "http://here/models/nli"
    pairs = [f"the {label}" for label in labels]
    stream = tasks.classify(["the dog ran"] * 2, pairs, raw_scores=True, model=str(folders["nli"]))
    rows = [{one["label"]: one["score"] for one in values["labels"]} for values in values_of(stream)]
    weights = [math.exp(row["ENTAILMENT"]) for row in rows]
    ask: dict[str, Any] = {"candidate_labels": labels, "hypothesis_template": "the {}", "model": at}
    found = {one.label: one.score for one in client.zero_shot_classification("the dog ran", **ask)}
    wanted = {label: weight / sum(weights) for label, weight in zip(labels, weights, strict=True)}
    assert found == pytest.approx(wanted)
    found = {one.label: one.score for one in client.zero_shot_classification("the dog ran", **ask, multi_label=True)}
    single = [math.exp(row["ENTAILMENT"]) / (math.exp(row["ENTAILMENT"]) + math.exp(row["CONTRADICTION"]))
              for row in rows]  # fmt: skip
    assert found == pytest.approx(dict(zip(labels, single, strict=True)))
    moods = server.post("/models/moods", json={"inputs": "the dog", "parameters": {"top_k": 1}}).json()
    assert len(moods) == 1  # its own labels, as before


def test_vllms_routes(server: Any) -> None:
    """/classify and /v1/score give the numbers of /predict and /rerank."""
    texts = ["the dog", "a blue house on the mat"]
    found = server.post("/classify", json={"model": "moods", "input": texts}).json()["data"]
    known = server.post("/models/moods", json={"inputs": texts}).json()
    assert [entry["label"] for entry in found] == [labels[0]["label"] for labels in known]
    for entry, labels in zip(found, known, strict=True):
        assert sorted(entry["probs"]) == sorted(one["score"] for one in labels) and entry["num_classes"] == len(labels)
    ask = {"model": "fits", "query": "cat", "documents": texts}
    ranked = {one["index"]: one["relevance_score"] for one in server.post("/v1/rerank", json=ask).json()["results"]}
    for first in ("cat", ["cat", "cat"]):
        scores = server.post("/v1/score", json={"model": "fits", "text_1": first, "text_2": texts}).json()["data"]
        assert {one["index"]: one["score"] for one in scores} == pytest.approx(ranked, abs=1e-6)
    wrong = server.post("/v1/score", json={"model": "fits", "text_1": ["a", "b"], "text_2": "c"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "text_1")


def test_what_is_refused(server: Any) -> None:
    given = {"candidate_labels": ["a"]}
    rows: list[tuple[str, Any, str]] = [
        ("mask", {"inputs": "no mask"}, "inputs"), ("mask", {"inputs": TEXT, "parameters": {"top_k": 0}},
                                                    "parameters.top_k"),
        ("mask", {"inputs": TEXT, "parameters": {"top_k": 9999}}, "parameters.top_k"), ("mask", {}, "inputs"),
        ("mask", {"inputs": TEXT, "parameters": {"targets": ["a"]}}, "parameters.targets"),
        ("names", {"inputs": "a", "parameters": {"aggregation_strategy": "b"}}, "parameters.aggregation_strategy"),
        ("answers", {"inputs": "a"}, "inputs"), ("answers", {"inputs": {"question": "a"}}, "inputs.context"),
        ("writes", {"inputs": "a", "parameters": {"tgt_lang": "xx"}}, "parameters.tgt_lang"),
        ("writes", {"inputs": "a", "parameters": {"num_beams": 0}}, "parameters.num_beams"),
        ("nli", {"inputs": "a", "parameters": {"candidate_labels": []}}, "parameters.candidate_labels"),
        ("nli", {"inputs": "a", "parameters": given | {"hypothesis_template": "b"}}, "parameters.hypothesis_template"),
        ("moods", {"inputs": "a", "parameters": given}, "parameters.candidate_labels"),
    ]  # fmt: skip

    def check(name: str, body: Any, param: str) -> None:
        answer = server.post(f"/models/{name}", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text

    check_each(check, rows)
