"""The commands over pictures of pages: rank-pages, embed-pages. Results on stdout, everything else on stderr."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.grouped import PAGES, command
from pyapp.cli.items import files_argument, model_option, top_option, vector
from pyapp.cli.options import WORDS, usual_options
from pyapp.cli.running import forward, forward_items
from pyapp.cli.views import JsonView, RankView


@command("rank-pages", short_help="Order pages by how well they answer a query.")
@click.argument("query", type=WORDS)
@files_argument("IMAGE…")
@model_option("vidore/colSmol-256M")
@top_option
@usual_options
def rank_pages(query: str, files: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Order each IMAGE of a page by how well it answers QUERY, with a model such as ColPali or ColQwen2: a line with
    the score and the name of each.
    """
    rank = partial(tasks.rank_pages, query, list(files), **settings)
    return forward(rank, JsonView() if as_json else RankView(files))


@command("embed-pages", short_help="Turn pages and queries into vectors.")
@files_argument("IMAGE…", required=False)
@model_option("vidore/colSmol-256M")
@click.option(
    "--text", "texts", type=WORDS, multiple=True, help="A query to compute the vectors of; may be given again."
)
@usual_options
def embed_pages(files: tuple[str, ...], texts: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Compute the vectors of each IMAGE of a page, then of each query --text, with a model such as ColPali: a JSON
    array of arrays per line.
    """
    if not files and not texts:
        raise click.UsageError("Give pictures, or queries with --text.")
    return forward_items(partial(tasks.embed_pages, list(files), texts, **settings), as_json, vector)


__commands__ = {PAGES: (embed_pages, rank_pages)}
