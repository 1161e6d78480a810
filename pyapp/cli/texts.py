"""The commands over texts: embed, classify, rerank, fill-mask, translate, label, answer. Results on
stdout in the order of the texts, everything else on stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from pyapp import tasks
from pyapp.cli.grouped import TEXTS, command
from pyapp.cli.items import (
    beams_option,
    label_lines,
    model_option,
    optional_model,
    tokens_option,
    top_answers,
    top_option,
    vector,
)
from pyapp.cli.options import WORDS, server_option, usual_options
from pyapp.cli.running import forward, forward_items, model_or_server
from pyapp.cli.views import JsonView, RankView
from pyapp.text.spans import AGGREGATIONS, LONGEST_ANSWER

INPUT_LIMIT = 1 << 30  # bytes of a file of texts

password_option = click.option(
    "--password", envvar="PYAPP_PDF_PASSWORD", show_envvar=True, help="The password of a locked PDF."
)
file_argument = click.argument("file", type=click.Path(allow_dash=True))


def chosen_model(model: str | None, server: str | None) -> Any:
    """The model of a command, which must be given unless a server has it."""
    if model is None and server is None:
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "model"))
    return model_or_server(model, server)


def named(file: str) -> str:
    """What messages call FILE."""
    return "stdin" if file == "-" else file or '""'


def read_lines(file: str) -> list[str]:
    """The lines of a UTF-8 file or of stdin ("-") that are not empty."""
    return list(numbered_lines(file).values())


def numbered_lines(file: str) -> dict[int, str]:
    """As read_lines, by the lines' numbers in the file; the first line is 1."""
    lines = enumerate(read_text(file).split("\n"), 1)
    found = {number: line.rstrip("\r") for number, line in lines if line.strip()}
    if not found:
        raise click.BadParameter(f"{named(file)} has no texts: write one on each line.", param_hint="FILE")
    return found


def read_text(file: str, parameter: str = "FILE") -> str:
    """The text of a UTF-8 file or of stdin ("-"). `parameter` is what errors call it."""
    if file == "-" and sys.stdin is None:
        raise click.BadParameter("stdin is closed: pipe the texts in.", param_hint=parameter)
    try:
        with click.open_file(file, "rb") as source:
            data = source.read(INPUT_LIMIT + 1)
        if len(data) > INPUT_LIMIT:
            raise click.BadParameter(f"{named(file)} has more than {INPUT_LIMIT:,} bytes.", param_hint=parameter)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise click.BadParameter(
            f"{named(file)}: {(error.strerror or str(error)).lower()}. Give a file of texts, or - to read them from "
            "stdin; --model is the model.",
            param_hint=parameter,
        ) from None
    except UnicodeDecodeError as error:
        raise click.BadParameter(
            f"{named(file)} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8, or convert it: "
            "iconv -f WINDOWS-1252 -t UTF-8",
            param_hint=parameter,
        ) from None


TABLES = (".csv", ".tsv")  # the ends of names of tables
MARKUP = (".html", ".htm")  # and of web pages


def is_page_file(file: str) -> bool:
    """Whether FILE is a picture or a PDF, and not a text."""
    from pyapp.vision.reading import is_page

    try:
        with open(file, "rb") as source:
            return is_page(source.read(16))
    except OSError:  # reading it as a text says so
        return False


def place(values: Mapping[str, Any]) -> str:
    """The page of an answer, and its box in pixels."""
    return f"{values['page'] + 1}\t" + ",".join(str(round(side)) for side in values["box"] or ())


def weights_of_words(index: int, values: Any) -> list[str]:
    """A sparse vector as a JSON object."""
    rounded = {word: round(weight, 4) for word, weight in zip(values["words"], values["weights"], strict=True)}
    return [json.dumps(rounded, ensure_ascii=False)]


@command(short_help="Turn each line of a file into a vector.")
@file_argument
@optional_model("sentence-transformers/all-MiniLM-L6-v2")
@server_option
@click.option("--prompt", type=WORDS, help="Put this before each text.")
@click.option("--prompt-name", metavar="NAME", help="Put the model's prompt of this name before each text.")
@click.option("--normalize/--no-normalize", default=None, help="Vectors of length 1.  [default: as the model says]")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep only the first N numbers of each vector.")
@click.option("--sparse", is_flag=True, help="Weights of words, by a model that fills masks, such as SPLADE.")
@click.option("--tokens", is_flag=True, help="A vector for each token, as ColBERT compares them.")
@click.option("--role", type=click.Choice(["query", "document"]),
              help="With --tokens: whether the lines are queries or documents.")  # fmt: skip
@usual_options
def embed(
    file: str, model: str | None, server: str | None, dtype: str | None, as_json: bool, sparse: bool, tokens: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Compute the embedding of each line of FILE ("-": stdin): a JSON array per line; with --sparse an object of words
    and their weights, with --tokens an array of arrays. Empty lines are left out.
    """
    numbered = numbered_lines(file)
    texts = list(numbered.values())
    if left_out := max(numbered) - len(texts):
        what = "an empty line is" if left_out == 1 else f"{left_out:,} empty lines are"
        click.echo(f"note: {named(file)}: {what} left out: there are {len(texts):,} texts", err=True)
    more: dict[str, Any] = {"model": chosen_model(model, server), "dtype": dtype}
    if sparse and tokens:
        raise click.UsageError("--tokens does not go with --sparse.")
    if tokens:
        if given := [f"--{name}" for name in ("normalize", "dimensions") if options.pop(name) is not None]:
            raise click.UsageError(f"{', '.join(given)} does not go with --tokens.")
        return forward_items(partial(tasks.embed_every_token, texts, **more, **options), as_json, vector)
    if options["role"] is not None and not sparse:
        raise click.UsageError("--role goes with --tokens.")
    if not sparse:
        del options["role"]
    if sparse:
        if given := [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]:
            raise click.UsageError(f"{', '.join(given)} does not go with --sparse.")
        return forward_items(partial(tasks.embed_sparse, texts, **more), as_json, weights_of_words)
    return forward_items(partial(tasks.embed, texts, **more, **options), as_json, vector)


@command(short_help="Label each line of a file.")
@file_argument
@optional_model("distilbert/distilbert-base-uncased-finetuned-sst-2-english")
@server_option
@top_option
@usual_options
def classify(file: str, model: str | None, server: str | None, as_json: bool, **settings: Any) -> int:
    """Label each line of FILE ("-": stdin): the line, then its labels with their probabilities.

    Of a picture or a PDF each page is labelled, by the words that the embedded reader finds in it and, with models such
    as LayoutLMv3, by their places and the picture.
    """
    settings["model"] = chosen_model(model, server)
    if is_page_file(file):
        return forward_items(partial(tasks.classify_pages, [file], **settings), as_json, label_lines(None))
    texts = read_lines(file)
    return forward_items(partial(tasks.classify, texts, **settings), as_json, label_lines(texts))


@command(short_help="Order lines by how well they answer a query.")
@click.argument("query", type=WORDS)
@file_argument
@optional_model("cross-encoder/ms-marco-MiniLM-L6-v2")
@server_option
@top_option
@click.option("--prompt", type=WORDS, help="Put this before the query; a language model gets it as its task.")
@usual_options
def rerank(
    query: str, file: str, model: str | None, server: str | None, prompt: str | None, as_json: bool, **settings: Any
) -> int:  # fmt: skip
    """Order the lines of FILE ("-": stdin) by how well they answer QUERY, by a cross-encoder, a model of late
    interaction such as ColBERT, a language model that was made to rank, or an embedder.
    """
    texts = read_lines(file)
    settings["model"] = chosen_model(model, server)
    if prompt is not None:
        settings["prompt"] = prompt
    return forward(partial(tasks.rerank, query, texts, **settings), JsonView() if as_json else RankView(texts))


@command("fill-mask", short_help="Find words for [MASK] in a text.")
@click.argument("text", type=WORDS)
@model_option("google-bert/bert-base-uncased")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Words for each masked one.")
@usual_options
def fill_mask(text: str, as_json: bool, **settings: Any) -> int:
    """Find the words that may stand for [MASK] (of some models <mask> or <special1>) in TEXT; "-" reads lines from
    stdin.
    """
    texts = read_lines(text) if text == "-" else [text]

    def lines(index: int, values: Any) -> list[str]:
        return [f"{word['score']:.4f}\t{word['word']}\t{word['text']}" for mask in values["masks"] for word in mask]

    return forward_items(partial(tasks.fill_mask, texts, **settings), as_json, lines)


@command(short_help="Translate or summarise each line of a file.")
@file_argument
@model_option("Helsinki-NLP/opus-mt-en-de")
@click.option(
    "--prefix", default="", type=WORDS, help='Put this before each text, such as "translate English to German: ".'
)
@click.option(
    "--from", "--source", "source", metavar="LANGUAGE",
    help="The language of FILE: fr (M2M100, mBART), fra_Latn (NLLB), by the model's own code.",
)  # fmt: skip
@click.option("--to", "--target", "target", metavar="LANGUAGE", help="The language to write, such as de or deu_Latn.")
@beams_option
@tokens_option
@click.option("--length-penalty", type=float, help="Above 0, longer texts are better. [default: the model's]")
@click.option(
    "--no-repeat-ngram-size",
    "--no-repeat-ngram",
    metavar="N",
    type=click.IntRange(min=0),
    help="No sequence of N tokens occurs twice.",
)
@usual_options
def translate(file: str, as_json: bool, **settings: Any) -> int:
    """Translate or summarise each line of FILE ("-": stdin) with a model such as OPUS-MT, NLLB, T5 or BART. Empty lines
    stay empty.
    """
    texts = numbered_lines(file)
    numbers = [0, *texts]

    def lines(index: int, values: Any) -> list[str]:
        return [""] * (numbers[index + 1] - numbers[index] - 1) + [values["text"]]

    return forward_items(partial(tasks.translate, list(texts.values()), **settings), as_json, lines)


@command(short_help="Find names and other parts in each line.")
@file_argument
@model_option("dslim/bert-base-NER")
@click.option(
    "--aggregation", type=click.Choice(AGGREGATIONS),
    help="How tokens become parts: neighbours of one label; the words' first, average or best token; none. "
    f"[default: {AGGREGATIONS[0]}; first on pages]",
)  # fmt: skip
@password_option
@usual_options
def label(
    file: str, aggregation: str | None, password: str | None, as_json: bool, **settings: Any
) -> int:  # fmt: skip
    """Find the names and other labelled parts in each line of FILE ("-": stdin).

    Writes a line for each part: the number of the line, the label, the probability, and the part. FILE may be a picture
    or a PDF: the embedded reader finds its words, models such as LayoutLM read their places too, and a line has the
    number of the page, the box of the part in pixels (left, top, right, bottom), the label, the probability and the
    part.
    """
    if aggregation is not None:
        settings["aggregation"] = aggregation
    if is_page_file(file):

        def on_page(index: int, values: Any) -> list[str]:
            return [
                f"{place({**values, **part})}\t{part['label']}\t{part['score']:.4f}\t{part['word']}"
                for part in values["entities"]
            ]

        return forward_items(partial(tasks.label_on_pages, [file], password=password, **settings), as_json, on_page)
    texts = numbered_lines(file)
    numbers = list(texts)

    def lines(index: int, values: Any) -> list[str]:
        return [
            f"{numbers[index]}\t{part['label']}\t{part['score']:.4f}\t{part['word']}" for part in values["entities"]
        ]

    return forward_items(partial(tasks.label, list(texts.values()), **settings), as_json, lines)


@command(short_help="Answer a question with a part of a text.")
@click.argument("question", type=WORDS)
@file_argument
@model_option("deepset/roberta-base-squad2")
@top_answers
@click.option("--longest", type=click.IntRange(min=1), default=LONGEST_ANSWER, show_default=True,
              help="The most tokens of an answer.")  # fmt: skip
@click.option("--impossible", is_flag=True, help="Print an empty line where the text has no answer.")
@password_option
@usual_options
def answer(
    question: str, file: str, password: str | None, as_json: bool, **settings: Any
) -> int:  # fmt: skip
    """Answer QUESTION with a part of the text of FILE ("-": stdin): the probability, then the part.

    FILE may be a picture or a PDF: the embedded reader finds its words, and models such as LayoutLM read their places
    too. A line then has the number of the page, the box of the answer in pixels (left, top, right, bottom), the
    probability and the answer.

    Of a web page (.html) the texts are read; models such as MarkupLM read their places in the page's tree too.

    A model such as TAPAS answers from a table: FILE ends with .csv or .tsv, and its first line has the names of the
    columns. The line has the mean probability of the cells, the answer, and behind it what was done with the cells.
    """
    if file.lower().endswith(TABLES):
        source = click.get_current_context().get_parameter_source
        for name in settings.keys() - {"model", "dtype"}:
            if source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name} does not go with a table.")

        def of_table(index: int, values: Any) -> list[str]:
            return [f"{values['score']:.4f}\t{values['answer']}\t{values['aggregation'] or ''}".rstrip()]

        common = {name: settings[name] for name in ("model", "dtype")}
        return forward_items(partial(tasks.answer_from_table, [question], file, **common), as_json, of_table)
    if is_page_file(file):

        def on_page(index: int, values: Any) -> list[str]:
            return [f"{place(found)}\t{found['score']:.4f}\t{found['answer']}" for found in values["answers"]]

        look = partial(tasks.answer_from_pages, [question], [file], password=password, **settings)
        return forward_items(look, as_json, on_page)
    context = read_text(file)
    if not context.strip():
        raise click.BadParameter(f"{named(file)} has no text.", param_hint="FILE")

    def lines(index: int, values: Any) -> list[str]:
        return [f"{found['score']:.4f}\t{found['answer']}" for found in values["answers"]]

    if file.lower().endswith(MARKUP):
        return forward_items(partial(tasks.answer_from_markup, [question], context, **settings), as_json, lines)
    return forward_items(partial(tasks.answer, [question], [context], **settings), as_json, lines)


__commands__ = {TEXTS: (embed, classify, rerank, fill_mask, translate, label, answer)}
