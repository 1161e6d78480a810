"""The commands over pictures of pages: rank-pages, embed-pages. Results on stdout, everything else on stderr."""

from __future__ import annotations

import click

from pyapp.cli.grouped import command
from pyapp.cli.pictures import files_argument
from pyapp.cli.running import WORDS, forward, forward_items, usual_options
from pyapp.cli.texts import model_option, top_option, vector
from pyapp.cli.views import JsonView, RankView, View


@command("rank-pages", short_help="Order pages by how well they answer a query.")
@click.argument("query", type=WORDS)
@files_argument
@model_option
@top_option
@usual_options
def rank_pages(
    query: str, files: tuple[str, ...], model: str, top: int | None, dtype: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Order each IMAGE of a page by how well it answers QUERY, with a model such as ColPali or ColQwen2: a line with
    the score and the name of each.
    """
    from pyapp import tasks

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
@usual_options
def embed_pages(files: tuple[str, ...], model: str, texts: tuple[str, ...], dtype: str | None, as_json: bool) -> int:
    """Compute the vectors of each IMAGE of a page, then of each query --text, with a model such as ColPali: a JSON
    array of arrays per line.
    """
    from pyapp import tasks

    if not files and not texts:
        raise click.UsageError("Give pictures, or queries with --text.")
    return forward_items(
        lambda cancel: tasks.embed_pages(list(files), texts, model=model, dtype=dtype, cancel=cancel), as_json, vector
    )


COMMANDS = (embed_pages, rank_pages)
