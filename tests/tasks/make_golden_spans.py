"""Writes golden_spans.json: what transformers finds with the models of tests/tasks/test_spans.py.

    PYTHONPATH=. OMP_NUM_THREADS=1 python tests/tasks/make_golden_spans.py

Labels are those of transformers' pipeline. It has none for questions any more: the answers follow here from the model's
logits, in NumPy, by the definition of Devlin et al. (2019), section 4.2.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, pipeline

from tests.goldens import write_json
from tests.tasks.test_spans import CONTEXT, LONGEST, QUESTIONS, TEXTS, answering_folder, labelling_folder

OUT = Path(__file__).with_name("golden_spans.json")


def labelled(folder: Path, aggregation: str) -> list[Any]:
    run = pipeline("token-classification", model=str(folder), aggregation_strategy=aggregation)
    key = "entity" if aggregation == "none" else "entity_group"
    return [
        [[part[key], round(float(part["score"]), 5), part["start"], part["end"]] for part in run(text)]
        for text in TEXTS
    ]


def answered(folder: Path, question: str, impossible: bool) -> list[Any]:
    """The three best answers in one window: [score, start, end]."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForQuestionAnswering.from_pretrained(folder)
    inputs = tokenizer(question, CONTEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets, owners = inputs.pop("offset_mapping")[0].tolist(), inputs.sequence_ids(0)
    with torch.no_grad():
        out = model(**inputs)
    allowed = np.array([owner == 1 or (impossible and at == 0) for at, owner in enumerate(owners)])
    start, end = (np.where(allowed, x[0].double().numpy(), -np.inf) for x in (out.start_logits, out.end_logits))
    start, end = np.exp(start - start.max()), np.exp(end - end.max())
    chances = np.outer(start / start.sum(), end / end.sum())
    chances = np.tril(np.triu(chances), LONGEST - 1)
    null = [[round(float(chances[0, 0]), 6), 0, 0]] if impossible else []
    chances[0] = 0
    order = np.dstack(np.unravel_index(np.argsort(-chances, axis=None)[:3], chances.shape))[0]
    found = [[round(float(chances[a, b]), 6), offsets[a][0], offsets[b][1]] for a, b in order]
    return sorted([*null, *found], reverse=True)[:3]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        labelling, answering = labelling_folder(Path(name) / "label"), answering_folder(Path(name) / "answer")
        golden = {
            "labels": {kind: labelled(labelling, kind) for kind in ("none", "simple", "first", "average", "max")},
            "answers": {
                str(impossible): [answered(answering, question, impossible) for question in QUESTIONS]
                for impossible in (False, True)
            },
        }
    write_json(OUT, golden)
    print(OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
