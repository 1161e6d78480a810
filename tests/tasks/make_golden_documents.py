"""Writes golden_documents.json: what transformers finds on the page of tests/tasks/test_documents.py, with the boxes of
words that its pipeline of questions about documents gives to each model, and what this pipeline finds with LayoutLM.

    PYTHONPATH=. OMP_NUM_THREADS=1 python tests/tasks/make_golden_documents.py

Labels of words (of their first tokens) and answers follow here from the
logits of the model, in NumPy, as in make_golden_spans.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer
from transformers import LayoutLMv3ImageProcessor

from tests.goldens import write_json
from tests.tasks.test_documents import BOXES, CLASSES, ENDS, KINDS, LONGEST, SIDE, SIZE, WORDS, folder, picture
from tests.tasks.test_spans import QUESTIONS

OUT = Path(__file__).with_name("golden_documents.json")


def inputs(path: Path, kind: str, question: str | None) -> tuple[dict[str, torch.Tensor], list[int | None]]:
    """The input of a model, and the word of each token."""
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    if question is None:
        encoded, text = tokenizer.encode(WORDS, is_pretokenized=True), 0
    else:
        encoded, text = tokenizer.encode(question.split(), WORDS, is_pretokenized=True), 1
    owners = [
        word if sequence == text else None
        for word, sequence in zip(encoded.word_ids, encoded.sequence_ids, strict=True)
    ]  # fmt: skip
    given = {"input_ids": torch.tensor([encoded.ids]), "token_type_ids": torch.tensor([encoded.type_ids])}
    if kind == "bert":
        return given, owners
    end = [1000] * 4 if kind == "layoutlm" else [0] * 4
    boxes = [
        [int(1000 * (side / SIZE[i % 2])) for i, side in enumerate(BOXES[word])] if word is not None
        else end if token == "[SEP]" else [0] * 4
        for word, token in zip(owners, encoded.tokens, strict=True)
    ]  # fmt: skip
    given["bbox"] = torch.tensor([boxes])
    if kind == "layoutlmv3":
        processor = LayoutLMv3ImageProcessor(apply_ocr=False, size={"height": SIDE, "width": SIDE})
        given["pixel_values"] = processor(
            torch.from_numpy(picture()).permute(2, 0, 1), return_tensors="pt"
        ).pixel_values
    return given, owners


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def answers(model: Any, path: Path, kind: str, question: str) -> list[Any]:
    """The two best answers: [score, first word, last word]."""
    given, owners = inputs(path, kind, question)
    found = model(**given)
    places = [place for place, word in enumerate(owners) if word is not None]
    start, end = (softmax(x[0].detach().double().numpy()[places]) for x in (found.start_logits, found.end_logits))
    chances = np.tril(np.triu(np.outer(start, end)), LONGEST - 1)
    best: dict[tuple[Any, Any], float] = {}
    for a, b in zip(*np.unravel_index(np.argsort(-chances, axis=None)[:2], chances.shape), strict=True):
        words = owners[places[a]], owners[places[b]]
        best[words] = max(best.get(words, 0.0), float(chances[a, b]))
    return sorted(([round(score, 6), *words] for words, score in best.items()), reverse=True)[:2]


def found(top: Path, kind: str) -> dict[str, Any]:
    models = {}
    for task, end in ENDS.items():
        path = folder(top / kind / task, kind, task)
        models[task] = getattr(transformers, CLASSES[kind] + end).from_pretrained(path).eval(), path
    model, path = models["token-classification"]
    given, owners = inputs(path, kind, None)
    chances = softmax(model(**given).logits[0].detach().double().numpy())
    rows = [chances[owners.index(word)] for word in range(len(WORDS))]
    labels = [[model.config.id2label[int(row.argmax())], round(float(row.max()), 6)] for row in rows]
    classes = softmax(models["sequence-classification"][0](**given).logits[0].detach().double().numpy())
    return {
        "labels": labels,
        "classes": [round(float(chance), 6) for chance in classes],
        "answers": [answers(*models["question-answering"], kind, question) for question in QUESTIONS],
    }


def piped(path: Path) -> list[Any]:
    """What the pipeline finds for each question, without and with the empty answer."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(path / "tokenizer.json"), model_max_length=64, cls_token="[CLS]", sep_token="[SEP]",
        pad_token="[PAD]",
    )  # fmt: skip
    model = transformers.LayoutLMForQuestionAnswering.from_pretrained(path)
    run = transformers.pipeline("document-question-answering", model=model, tokenizer=tokenizer)
    boxes = [[int(1000 * (side / SIZE[i % 2])) for i, side in enumerate(box)] for box in BOXES]
    pairs = list(zip(WORDS, boxes, strict=True))
    return [
        run([{"question": question, "word_boxes": pairs} for question in QUESTIONS], top_k=2, max_answer_len=LONGEST,
            handle_impossible_answer=impossible)
        for impossible in (False, True)
    ]  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        golden = {kind: found(Path(name), kind) for kind in KINDS}
        golden["pipeline"] = piped(Path(name) / KINDS[0] / "question-answering")
        write_json(OUT, golden)
    print(OUT.stat().st_size, "bytes")
