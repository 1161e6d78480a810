"""Answers to questions from the cells of a table, by models such as TAPAS."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyapp.datasets.tables import read_cells
from pyapp.engine import no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ModelError, OptionError, shown
from pyapp.events import Done, Item, Progress
from pyapp.text.tables import TableReader, TableTokens, aggregated, chosen_cells

from .spans import checked_questions
from .text_batches import BATCH_TOKENS, Work, checked_texts, sigmoid
from .texts import stream_of

LONGEST = 512  # tokens that TAPAS was trained with, where the tokenizer's settings do not say another number
MOST_CELLS = 1 << 20

Cells = tuple[list[str], list[list[str]]]  # the names of the columns, and the rows


def cells_of(table: Any) -> Cells:
    """The cells of a table as texts. OptionError for what is no table."""
    if isinstance(table, str | os.PathLike):
        return read_cells(table, delimiter="\t" if Path(table).suffix.lower() == ".tsv" else ",")
    if not isinstance(table, Mapping) and hasattr(table, "columns"):  # a data frame, or a Table of pyapp.datasets
        table = {str(name): table[name] for name in table.columns}
    if not isinstance(table, Mapping):
        raise OptionError(
            f"{shown(table, 60)} is not a table", where="table", hint="Give {column: its cells} or a file"
        )
    names = checked_texts(list(table))
    columns = [column.tolist() if hasattr(column, "tolist") else column for column in table.values()]
    for name, column in zip(names, columns, strict=True):
        if not isinstance(column, list | tuple):
            raise OptionError(f"{shown(column, 60)} is not a list of cells", where=f"table[{name!r:.60}]")
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or not min(lengths) or len(names) * max(lengths) > MOST_CELLS:
        raise OptionError(
            f"columns of {', '.join(map(str, sorted(lengths))) or 'no'} cells, expected columns of one length, and up "
            f"to {MOST_CELLS:,} cells",
            where="table",
        )
    texts = [["" if cell is None or cell != cell else str(cell) for cell in column] for column in columns]
    return names, [list(row) for row in zip(*texts, strict=True)]


def check_table(questions: Sequence[str], table: Any, **more: Any) -> None:
    """OSError, FileFormatError or OptionError for what is no table or no question."""
    checked_questions(questions)
    cells_of(table)


def answer_table(loaded: Any, questions: Sequence[str], table: Any, *, sequential: bool = False) -> Work:
    """Items with `answer`, `score`, `aggregation` and `cells` for each question. cells: mappings with text, row and
    column (from 0) of the chosen cells; score: their mean probability; aggregation: what the answer does with them,
    such as "SUM", or None. answer: the number that it makes of them, else their texts, with commas between them; empty
    where no cell was chosen.

    table: a mapping from the names of columns to their cells, a data frame, or the path of a .csv or .tsv file whose
    first line has the names. What is more than the model reads is left out: ends of long cells, then the last rows.
    sequential: the questions are a conversation, of which each is asked with the cells that the one before chose, as
    models need it that were trained with those (SQA).
    """
    questions = checked_texts(questions)
    columns, rows = cells_of(table)
    config, most = loaded.model.config, min(loaded.model.encoder.most, loaded.tokenizer.max_length or LONGEST)
    reader = TableReader(loaded.tokenizer, columns, rows, config.type_vocab_sizes)
    found: list[TableTokens] = []
    for index, question in enumerate(questions):
        found.append(reader.tokens(question, most))
        yield Progress("tokens", index + 1, len(questions), "texts")
    longest = max((len(tokens.ids) for tokens in found), default=1)
    each = 1 if sequential else max(BATCH_TOKENS // longest, 1)
    before: Collection[tuple[int, int]] = ()
    for start in range(0, len(found), each):
        group = (
            [tokens.after(before) for tokens in found[start : start + each]] if before else found[start : start + each]
        )
        for i, scores in enumerate(_scores(loaded, group)):
            yield Item(start + i, answer := _answer(config, group[i], scores, rows, reader))
            before = [(cell["row"], cell["column"]) for cell in answer["cells"]] if sequential else ()
        yield Progress("questions", start + len(group), len(found), "questions")
    yield Done("complete", {"count": len(questions)})


def _scores(loaded: Any, group: Sequence[TableTokens]) -> list[list[float]]:
    """The model's scores (T + A) of each question, without those of padding."""
    device, length = loaded.model.device, max(len(tokens.ids) for tokens in group)
    kinds = len(group[0].types[0])
    padding = loaded.model.config.pad_token_id or 0

    def padded(rows: Sequence[Sequence[int]], size: int, value: int = 0) -> Any:
        flat = [number for row in rows for number in (*row, *[value] * (size - len(row)))]
        return int32_tensor(flat, device).reshape(len(rows), -1)

    ids = padded([tokens.ids for tokens in group], length, padding)  # (B, T)
    mask = padded([[1] * len(tokens.ids) for tokens in group], length)
    types = padded([[one for kind in tokens.types for one in kind] for tokens in group], length * kinds)
    with no_grad():
        scores = loaded.model(ids, mask, types.reshape(len(group), length, kinds))
    if bool((scores != scores).any().item()):
        raise ModelError("the model computes NaN", where=loaded.name, hint="Its weights may be damaged")
    found: list[list[float]] = scores.tolist()
    return [row[: len(tokens.ids)] + row[length:] for row, tokens in zip(found, group, strict=True)]


def _answer(
    config: Any, tokens: TableTokens, scores: Sequence[float], rows: Sequence[Sequence[str]], reader: TableReader
) -> dict[str, Any]:  # fmt: skip
    count = len(tokens.ids)
    chosen = chosen_cells(tokens, [sigmoid(score) for score in scores[:count]])
    best = max(range(count, len(scores)), key=lambda i: scores[i], default=None)
    number = None if best is None else best - count
    none = number is None or number == config.no_aggregation_label_index
    name = None if none else config.aggregations[number]
    value = None if name is None else aggregated(name, list(chosen), reader.numbers)
    texts = [rows[row][column] for row, column in chosen]
    return {
        "answer": ", ".join(texts) if value is None else f"{value:.12g}",
        "score": sum(chosen.values()) / len(chosen) if chosen else 0.0,
        "aggregation": name,
        "cells": [
            {"text": text, "row": row, "column": column}
            for text, (row, column) in zip(texts, chosen, strict=True)
        ],
    }  # fmt: skip


answer_from_table = stream_of("answer-table", answer_table, remote=False, check=check_table)
