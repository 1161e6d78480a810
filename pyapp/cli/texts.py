"""The commands over texts: embed, classify, rerank, fill-mask, translate, label, answer. Results on
stdout in the order of the texts, everything else on stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from pyapp.cli.grouped import command
from pyapp.cli.running import (
    WORDS,
    device_option,
    forward,
    json_option,
    model_or_server,
    server_option,
    threads_option,
    use_threads,
)
from pyapp.cli.views import JsonView, View
from pyapp.events import Done, Event, Item
from pyapp.text.spans import AGGREGATIONS, LONGEST_ANSWER

INPUT_LIMIT = 1 << 30  # bytes of a file of texts

model_option = click.option(
    "-m", "--model", required=True, metavar="MODEL", help="A folder, or a name on the hub such as owner/repo."
)
optional_model = click.option(
    "-m", "--model", metavar="MODEL", help="A folder, or a name on the hub such as owner/repo; of a server its name."
)
type_option = click.option("-t", "--type", "dtype", metavar="TYPE", help="Convert the weights: q8_0, q4_0, float16 …")
top_option = click.option("--top", type=click.IntRange(min=1), help="How many, the best first. [default: all]")
password_option = click.option(
    "--password", envvar="PYAPP_PDF_PASSWORD", show_envvar=True, help="The password of a locked PDF."
)
file_argument = click.argument("file", type=click.Path(allow_dash=True))


def chosen_model(model: str | None, server: str | None) -> Any:
    """The model of a command, which must be given unless a server has it."""
    if model is None and server is None:
        raise click.UsageError("Missing option '-m' / '--model', or '--server'.")
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


def own_labels(labels: str | None, template: str | None) -> list[str] | None:
    """The labels of --labels; None: there are none. UsageError for --template without them."""
    if template is not None and labels is None:
        raise click.UsageError("--template needs --labels.")
    return None if labels is None else [label.strip() for label in labels.split(",") if label.strip()]


def labels_line(labels: Sequence[Mapping[str, Any]], of: str) -> str:
    """A line with labels and their probabilities, and what has them."""
    return ", ".join(f"{entry['label']} {entry['score']:.4f}" for entry in labels) + f"\t{of}"


class ItemsView(View):
    """Writes the lines of each text, in the order of the texts."""

    def __init__(self, lines: Callable[[int, Any], Sequence[str]]) -> None:
        super().__init__()
        self._lines = lines
        self._waiting: dict[int, Item] = {}
        self._next = 0

    def show(self, event: Event) -> None:
        if not isinstance(event, Item):
            super().show(event)
            return
        self._waiting[event.index] = event
        while self._next in self._waiting:
            self._write(self._lines(self._next, self._waiting.pop(self._next).values))
            self._next += 1

    def _write(self, lines: Sequence[str]) -> None:
        self.close()
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()


class RankView(ItemsView):
    """Writes the texts with their scores, best first, when all are ranked."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(lambda index, values: ())
        self._texts = texts
        self._scores: dict[int, float] = {}

    def show(self, event: Event) -> None:
        if isinstance(event, Item):
            self._scores[event.index] = event.values["score"]
        super().show(event)

    def done(self, event: Done) -> None:
        self._write([f"{self._scores[i]:.4f}\t{self._texts[i]}" for i in event.results.get("order", ())])


def weights_of_words(index: int, values: Any) -> list[str]:
    """A sparse vector as a JSON object."""
    rounded = {word: round(weight, 4) for word, weight in zip(values["words"], values["weights"], strict=True)}
    return [json.dumps(rounded, ensure_ascii=False)]


@command(short_help="Turn each line of a file into a vector.")
@file_argument
@optional_model
@server_option
@click.option("--prompt", type=WORDS, help="Put this before each text.")
@click.option("--prompt-name", metavar="NAME", help="Put the model's prompt of this name before each text.")
@click.option("--normalize/--no-normalize", default=None, help="Vectors of length 1.  [default: as the model says]")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep only the first N numbers of each vector.")
@click.option("--sparse", is_flag=True, help="Weights of words, by a model that fills masks, such as SPLADE.")
@click.option("--tokens", is_flag=True, help="A vector for each token, as ColBERT compares them.")
@click.option(
    "--role",
    type=click.Choice(["query", "document"]),
    help="With --tokens: whether the lines are queries or documents.",
)
@type_option
@device_option
@threads_option
@json_option
def embed(
    file: str,
    model: str | None,
    server: str | None,
    dtype: str | None,
    threads: int | None,
    as_json: bool,
    sparse: bool,
    tokens: bool,
    **options: Any,
) -> int:
    """Compute the embedding of each line of FILE ("-": stdin): a JSON array per line; with --sparse an object of words
    and their weights, with --tokens an array of arrays. Empty lines are left out.
    """
    from pyapp import tasks

    numbered = numbered_lines(file)
    texts = list(numbered.values())
    if left_out := max(numbered) - len(texts):
        what = "an empty line is" if left_out == 1 else f"{left_out:,} empty lines are"
        click.echo(f"note: {named(file)}: {what} left out: there are {len(texts):,} texts", err=True)
    use_threads(threads)
    if sparse and tokens:
        raise click.UsageError("--tokens does not go with --sparse.")
    if tokens:
        if given := [f"--{name}" for name in ("normalize", "dimensions") if options.pop(name) is not None]:
            raise click.UsageError(f"{', '.join(given)} does not go with --tokens.")
        lines: View = JsonView() if as_json else ItemsView(lambda index, values: [json.dumps(values["embeddings"])])
        found = chosen_model(model, server)
        return forward(
            lambda cancel: tasks.embed_every_token(texts, model=found, dtype=dtype, cancel=cancel, **options), lines
        )
    if options["role"] is not None and not sparse:
        raise click.UsageError("--role goes with --tokens.")
    if not sparse:
        del options["role"]
    if sparse:
        if given := [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]:
            raise click.UsageError(f"{', '.join(given)} does not go with --sparse.")
        own: View = JsonView() if as_json else ItemsView(weights_of_words)
        found = chosen_model(model, server)
        return forward(lambda cancel: tasks.embed_sparse(texts, model=found, dtype=dtype, cancel=cancel), own)
    view: View = JsonView() if as_json else ItemsView(lambda index, values: [json.dumps(values["embedding"])])
    return forward(
        lambda cancel: tasks.embed(texts, model=chosen_model(model, server), dtype=dtype, cancel=cancel, **options),
        view,
    )


@command(short_help="Label each line of a file.")
@file_argument
@optional_model
@server_option
@top_option
@type_option
@threads_option
@json_option
def classify(
    file: str,
    model: str | None,
    server: str | None,
    top: int | None,
    dtype: str | None,
    threads: int | None,
    as_json: bool,
) -> int:
    """Label each line of FILE ("-": stdin): the line, then its labels with their probabilities.

    Of a picture or a PDF each page is labelled, by the words that the embedded reader finds in it and, with models such
    as LayoutLMv3, by their places and the picture.
    """
    from pyapp import tasks

    use_threads(threads)
    if is_page_file(file):
        of_pages: View = JsonView() if as_json else ItemsView(
            lambda index, values: [labels_line(values["labels"], f"page {values['page'] + 1}")]
        )  # fmt: skip
        return forward(
            lambda cancel: tasks.classify_pages(
                [file], model=chosen_model(model, server), dtype=dtype, top=top, cancel=cancel
            ),
            of_pages,
        )
    texts = read_lines(file)

    def lines(index: int, values: Any) -> list[str]:
        return [labels_line(values["labels"], texts[index])]

    view: View = JsonView() if as_json else ItemsView(lines)
    return forward(
        lambda cancel: tasks.classify(texts, model=chosen_model(model, server), dtype=dtype, top=top, cancel=cancel),
        view,
    )


@command(short_help="Order lines by how well they answer a query.")
@click.argument("query", type=WORDS)
@file_argument
@optional_model
@server_option
@top_option
@click.option("--prompt", type=WORDS, help="Put this before the query; a language model gets it as its task.")
@type_option
@threads_option
@json_option
def rerank(
    query: str, file: str, model: str | None, server: str | None, top: int | None, prompt: str | None,
    dtype: str | None, threads: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Order the lines of FILE ("-": stdin) by how well they answer QUERY, by a cross-encoder, a model of late
    interaction such as ColBERT, a language model that was made to rank, or an embedder.
    """
    from pyapp import tasks

    texts = read_lines(file)
    use_threads(threads)
    view: View = JsonView() if as_json else RankView(texts)
    return forward(
        lambda cancel: tasks.rerank(
            query,
            texts,
            model=chosen_model(model, server),
            dtype=dtype,
            top=top,
            cancel=cancel,
            **({} if prompt is None else {"prompt": prompt}),
        ),
        view,
    )


@command("fill-mask", short_help="Find words for [MASK] in a text.")
@click.argument("text", type=WORDS)
@model_option
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Words for each masked one.")
@type_option
@threads_option
@json_option
def fill_mask(text: str, model: str, top: int, dtype: str | None, threads: int | None, as_json: bool) -> int:
    """Find the words that may stand for [MASK] (of some models <mask> or <special1>) in TEXT; "-" reads lines from
    stdin.
    """
    from pyapp import tasks

    texts = read_lines(text) if text == "-" else [text]
    use_threads(threads)

    def lines(index: int, values: Any) -> list[str]:
        return [f"{word['score']:.4f}\t{word['word']}\t{word['text']}" for mask in values["masks"] for word in mask]

    view: View = JsonView() if as_json else ItemsView(lines)
    return forward(lambda cancel: tasks.fill_mask(texts, model=model, dtype=dtype, top=top, cancel=cancel), view)


@command(short_help="Translate or summarise each line of a file.")
@file_argument
@model_option
@click.option(
    "--prefix", default="", type=WORDS, help='Put this before each text, such as "translate English to German: ".'
)
@click.option(
    "--from", "--source", "source", metavar="LANGUAGE",
    help="The language of FILE: fr (M2M100, mBART), fra_Latn (NLLB), by the model's own code.",
)  # fmt: skip
@click.option("--to", "--target", "target", metavar="LANGUAGE", help="The language to write, such as de or deu_Latn.")
@click.option(
    "--num-beams", type=click.IntRange(1, 64), help="Hypotheses of a text; 1 is greedy. [default: the model's]"
)
@click.option(
    "-n", "--max-new-tokens", type=click.IntRange(min=1), help="The most tokens to write. [default: the model's]"
)
@click.option("--length-penalty", type=float, help="Above 0, longer texts are better. [default: the model's]")
@click.option(
    "--no-repeat-ngram-size", metavar="N", type=click.IntRange(min=0), help="No sequence of N tokens occurs twice."
)
@type_option
@threads_option
@json_option
def translate(file: str, model: str, dtype: str | None, threads: int | None, as_json: bool, **options: Any) -> int:
    """Translate or summarise each line of FILE ("-": stdin) with a model such as OPUS-MT, NLLB, T5 or BART. Empty lines
    stay empty.
    """
    from pyapp import tasks

    texts = numbered_lines(file)
    use_threads(threads)
    numbers = [0, *texts]

    def lines(index: int, values: Any) -> list[str]:
        return [""] * (numbers[index + 1] - numbers[index] - 1) + [values["text"]]

    view: View = JsonView() if as_json else ItemsView(lines)
    return forward(
        lambda cancel: tasks.translate(list(texts.values()), model=model, dtype=dtype, cancel=cancel, **options), view
    )


@command(short_help="Find names and other parts in each line.")
@file_argument
@model_option
@click.option(
    "--aggregation", type=click.Choice(AGGREGATIONS),
    help="How tokens become parts: neighbours of one label; the words' first, average or best token; none. "
    f"[default: {AGGREGATIONS[0]}; first on pages]",
)  # fmt: skip
@password_option
@type_option
@threads_option
@json_option
def label(
    file: str, model: str, aggregation: str | None, password: str | None, dtype: str | None, threads: int | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Find the names and other labelled parts in each line of FILE ("-": stdin).

    Writes a line for each part: the number of the line, the label, the probability, and the part. FILE may be a picture
    or a PDF: the embedded reader finds its words, models such as LayoutLM read their places too, and a line has the
    number of the page, the box of the part in pixels (left, top, right, bottom), the label, the probability and the
    part.
    """
    from pyapp import tasks

    use_threads(threads)
    given = {} if aggregation is None else {"aggregation": aggregation}
    if is_page_file(file):

        def on_page(index: int, values: Any) -> list[str]:
            return [
                f"{place({**values, **part})}\t{part['label']}\t{part['score']:.4f}\t{part['word']}"
                for part in values["entities"]
            ]

        return forward(
            lambda cancel: tasks.label_on_pages(
                [file], model=model, dtype=dtype, password=password, cancel=cancel, **given
            ),
            JsonView() if as_json else ItemsView(on_page),
        )
    texts = numbered_lines(file)
    numbers = list(texts)

    def lines(index: int, values: Any) -> list[str]:
        return [
            f"{numbers[index]}\t{part['label']}\t{part['score']:.4f}\t{part['word']}" for part in values["entities"]
        ]

    view: View = JsonView() if as_json else ItemsView(lines)
    return forward(
        lambda cancel: tasks.label(list(texts.values()), model=model, dtype=dtype, cancel=cancel, **given),
        view,
    )


@command(short_help="Answer a question with a part of a text.")
@click.argument("question", type=WORDS)
@file_argument
@model_option
@click.option(
    "--top", type=click.IntRange(min=1), default=1, show_default=True, help="How many answers, the best first."
)
@click.option("--longest", type=click.IntRange(min=1), default=LONGEST_ANSWER, show_default=True,
              help="The most tokens of an answer.")  # fmt: skip
@click.option("--impossible", is_flag=True, help="Print an empty line where the text has no answer.")
@password_option
@type_option
@threads_option
@json_option
def answer(
    question: str, file: str, model: str, password: str | None, dtype: str | None, threads: int | None, as_json: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Answer QUESTION with a part of the text of FILE ("-": stdin): the probability, then the part.

    FILE may be a picture or a PDF: the embedded reader finds its words, and models such as LayoutLM read their places
    too. A line then has the number of the page, the box of the answer in pixels (left, top, right, bottom), the
    probability and the answer.
    """
    from pyapp import tasks

    use_threads(threads)
    if is_page_file(file):

        def on_page(index: int, values: Any) -> list[str]:
            return [f"{place(found)}\t{found['score']:.4f}\t{found['answer']}" for found in values["answers"]]

        return forward(
            lambda cancel: tasks.answer_from_pages(
                [question], [file], model=model, dtype=dtype, password=password, cancel=cancel, **options
            ),
            JsonView() if as_json else ItemsView(on_page),
        )
    context = read_text(file)
    if not context.strip():
        raise click.BadParameter(f"{named(file)} has no text.", param_hint="FILE")

    def lines(index: int, values: Any) -> list[str]:
        return [f"{found['score']:.4f}\t{found['answer']}" for found in values["answers"]]

    view: View = JsonView() if as_json else ItemsView(lines)
    return forward(
        lambda cancel: tasks.answer([question], [context], model=model, dtype=dtype, cancel=cancel, **options), view
    )


COMMANDS = (embed, classify, rerank, fill_mask, translate, label, answer)
