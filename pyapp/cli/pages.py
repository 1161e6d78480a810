"""The commands over pictures of pages: rank-pages, embed-pages. Results on stdout, everything else on stderr."""

from __future__ import annotations

import json

import click

from pyapp.cli.grouped import command
from pyapp.cli.pictures import files_argument
from pyapp.cli.running import WORDS, forward, json_option, threads_option, use_threads
from pyapp.cli.texts import ItemsView, RankView, model_option, top_option, type_option
from pyapp.cli.views import JsonView, View


@command("rank-pages", short_help="Order pages by how well they answer a query.")
@click.argument("query", type=WORDS)
@files_argument
@model_option
@top_option
@type_option
@threads_option
@json_option
def rank_pages(
    query: str, files: tuple[str, ...], model: str, top: int | None, dtype: str | None, threads: int | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Order each IMAGE of a page by how well it answers QUERY, with a model such as ColPali or ColQwen2: a line with
    the score and the name of each.
    """
    from pyapp import tasks

    use_threads(threads)
    view: View = JsonView() if as_json else RankView(files)
    return forward(
        lambda cancel: tasks.rank_pages(query, list(files), model=model, dtype=dtype, top=top, cancel=cancel), view
    )


@command("embed-pages", short_help="Turn pages and queries into vectors.")
@click.argument("files", nargs=-1, type=click.Path(), metavar="IMAGE…")
@model_option
@click.option(
    "--text", "texts", type=WORDS, multiple=True, help="A query to compute the vectors of; may be given again."
)
@type_option
@threads_option
@json_option
def embed_pages(
    files: tuple[str, ...], model: str, texts: tuple[str, ...], dtype: str | None, threads: int | None, as_json: bool
) -> int:
    """Compute the vectors of each IMAGE of a page, then of each query --text, with a model such as ColPali: a JSON
    array of arrays per line.
    """
    from pyapp import tasks

    if not files and not texts:
        raise click.UsageError("Give pictures, or queries with --text.")
    use_threads(threads)
    view: View = JsonView() if as_json else ItemsView(lambda index, values: [json.dumps(values["embeddings"])])
    return forward(lambda cancel: tasks.embed_pages(list(files), texts, model=model, dtype=dtype, cancel=cancel), view)


COMMANDS = (embed_pages, rank_pages)
