"""Writes golden_tables.json: the tokens of the questions and tables of tests/tasks/test_tables.py, the cells that a
small TAPAS with the tests' weights chooses, and what pipelines give, with transformers and pandas.

    PYTHONPATH=. python tests/tasks/make_golden_tables.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas
import torch
import transformers

from tests.goldens import write_json
from tests.tasks.test_tables import CONFIG, MOST, QUESTIONS, TABLES, VOCABULARY, weights

OUT = Path(__file__).with_name("golden_tables.json")


def golden() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "vocab.txt").write_text("\n".join(VOCABULARY))
        tokenizer = transformers.TapasTokenizer(str(Path(place) / "vocab.txt"), model_max_length=MOST)
    model = transformers.TapasForQuestionAnswering(transformers.TapasConfig(**CONFIG)).eval()
    drawn = weights({name: list(parameter.shape) for name, parameter in model.named_parameters()})
    model.load_state_dict({name: torch.from_numpy(value) for name, value in drawn.items()}, strict=False)
    found = {}
    for name, table in TABLES.items():
        tokens, cells, aggregations = [], [], []
        for question in QUESTIONS[name]:
            given = tokenizer(
                pandas.DataFrame(table), question, truncation="drop_rows_to_fit", max_length=MOST, return_tensors="pt"
            )
            tokens.append([given["input_ids"][0].tolist(), given["token_type_ids"][0].T.tolist()])
            with torch.no_grad():
                scores = model(**given)
            chosen, kinds = tokenizer.convert_logits_to_predictions(given, scores.logits, scores.logits_aggregation)
            cells += [[list(map(int, cell)) for cell in one] for one in chosen]
            aggregations += [CONFIG["aggregation_labels"][str(kind)] for kind in kinds]
        found[name] = {"tokens": tokens, "cells": cells, "aggregations": aggregations}
    run = transformers.pipeline("table-question-answering", model=model, tokenizer=tokenizer)
    found["pipeline"] = {
        name: [run(TABLES[name], QUESTIONS[name], sequential=sequential) for sequential in (False, True)]
        for name in ("actors", "mixed")
    }
    return found


if __name__ == "__main__":
    print(write_json(OUT, golden(), separators=(",", ":")))
