"""What commands over several texts, pictures or sounds share: their options, and the lines of their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from pyapp.cli.grouped import F, combined
from pyapp.cli.options import WORDS

top_option = click.option("--top", type=click.IntRange(min=1), help="How many, the best first. [default: all]")
top_labels = click.option(
    "--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many labels, the best first."
)
top_answers = click.option(
    "--top", type=click.IntRange(min=1), default=1, show_default=True, help="How many answers, the best first."
)
texts_option = click.option(
    "--text", "texts", type=WORDS, multiple=True, help="A text to compute the vector of; may be given again."
)
beams_option = click.option(
    "--num-beams",
    "--beams",
    type=click.IntRange(1, 64),
    help="Hypotheses of a text; 1 is greedy. [default: the model's]",
)
tokens_option = click.option(
    "-n", "--max-new-tokens", type=click.IntRange(min=1), help="The most tokens to write. [default: the model's]"
)


def model_option(example: str) -> Callable[[F], F]:
    """The option --model, which must be given. example: a model on the hub that the command can use."""
    return click.option(
        "-m", "--model", required=True, metavar="MODEL", help=f"A folder, or a name on the hub such as {example}."
    )


def optional_model(example: str) -> Callable[[F], F]:
    """The option --model of a command that a server can serve, too."""
    return click.option(
        "-m", "--model", metavar="MODEL",
        help=f"A folder, or a name on the hub such as {example}; of a server its name.",
    )  # fmt: skip


def files_argument(metavar: str, required: bool = True) -> Callable[[F], F]:
    """The names of files, which the help calls by `metavar`."""
    return click.argument("files", nargs=-1, required=required, type=click.Path(), metavar=metavar)


def label_options(help: str, template: str) -> Callable[[F], F]:
    """The options --labels, and --template, whose default the help gives."""
    given = click.option("--labels", type=WORDS, metavar="TEXT,…", help=help)
    form = click.option("--template", type=WORDS, metavar="TEXT", help=f"The text of a label. [default: {template}]")
    return combined(given, form)


def own_labels(labels: str | None, template: str | None) -> list[str] | None:
    """The labels of --labels; None: there are none. UsageError for --template without them."""
    if template is not None and labels is None:
        raise click.UsageError("--template needs --labels.")
    return None if labels is None else [label.strip() for label in labels.split(",") if label.strip()]


def label_lines(names: Sequence[str] | None) -> Callable[[int, Any], list[str]]:
    """What makes the line of an Item: its labels with their probabilities, then its name; None: the page."""

    def lines(index: int, values: Any) -> list[str]:
        found = ", ".join(f"{entry['label']} {entry['score']:.4f}" for entry in values["labels"])
        name = f"page {values['page'] + 1}" if names is None else names[index]
        return [f"{found}\t{name}"]

    return lines


def vector(index: int, values: Any) -> list[str]:
    """The line of an Item with a vector, or with several."""
    return [json.dumps(values.get("embedding", values.get("embeddings")))]
