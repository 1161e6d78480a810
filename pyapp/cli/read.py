"""The command read: the text in pictures as text, JSON, CSV, HTML or hOCR. Results on stdout in the order of the
pictures, everything else on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.grouped import PAGES, command
from pyapp.cli.options import usual_options
from pyapp.cli.running import forward
from pyapp.cli.texts import INPUT_LIMIT
from pyapp.cli.views import JsonView, View
from pyapp.errors import PyappError
from pyapp.events import Done, Event, Item, Region, TextLine
from pyapp.vision.page.writers import FORMATS, plain_text, tables_of, written


class ReadingView(View):
    """Writes what was read, as soon as a picture is done or, in formats with a head, at the end."""

    def __init__(self, form: str, names: Sequence[str], only_tables: bool) -> None:
        super().__init__()
        self._form, self._names, self._only_tables = form, names, only_tables
        self._pages: list[Any] = []

    def show(self, event: Event) -> None:
        if isinstance(event, Item):
            values = dict(event.values)
            if self._form == "text":
                self._write_text(values)
            else:
                self._pages.append(values)
        elif not isinstance(event, Region | TextLine):
            super().show(event)

    def _write_text(self, values: Any) -> None:
        text = plain_text(tables_of([values])) if self._only_tables else values["text"]
        page = values["layout"] == "page"
        if self._pages and page:  # an empty line between pages
            click.echo()
        self._pages.append(values)
        if text or not page:  # a line for each picture that is one
            click.echo(text)

    def done(self, event: Done) -> None:
        if self._form == "text":
            return
        if self._form == "csv" and self._pages and not tables_of(self._pages):
            click.secho("note: no table was found", fg="yellow", err=True)
        names = [self._names[page["picture"]] for page in self._pages]
        click.echo(written(self._form, self._pages, names, self._only_tables), nl=False)


def _sources(files: Sequence[str]) -> list[Any]:
    """The files; "-" is what stdin has, with that name."""
    if list(files).count("-") > 1:
        raise click.UsageError("stdin can be read once: give - one time.")
    return [_from_stdin() if file == "-" else file for file in files]


def _from_stdin() -> Any:
    from pyapp.formats import BytesSource

    if sys.stdin is None:
        raise click.BadParameter("stdin is closed: pipe the picture in.", param_hint="IMAGE")
    data = sys.stdin.buffer.read(INPUT_LIMIT + 1)
    if len(data) > INPUT_LIMIT:
        raise click.BadParameter(f"stdin has more than {INPUT_LIMIT:,} bytes.", param_hint="IMAGE")
    return BytesSource(data, "stdin")


def _in_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _password_of(sources: Sequence[Any], password: str | None) -> str | None:
    """The password of locked PDFs: in a terminal it is asked for. An empty one is none."""
    from pyapp.vision.reading import is_locked

    if password or not _in_terminal():
        return password or None
    for source in sources:
        try:
            locked = is_locked(source)
        except (PyappError, OSError):  # its reading says so
            continue
        if locked:
            while True:
                password = click.prompt(f"Password of {source}", hide_input=True, err=True)
                if not is_locked(source, password):
                    return password
                click.secho("That password is wrong.", fg="red", err=True)
    return None


@command(short_help="Read the text in pictures.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="IMAGE…")
@click.option(
    "-m", "--model", metavar="MODEL",
    help="A folder, or a name on the hub such as microsoft/trocr-small-handwritten. [default: the embedded reader]",
)  # fmt: skip
@click.option(
    "-f", "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
    help="csv: the tables; hocr and json: with the places of lines and words.",
)  # fmt: skip
@click.option("--tables", is_flag=True, help="Only the tables.")
@click.option(
    "--layout", type=click.Choice(("page", "line")),
    help="line: each picture is one line of text. [default: page; line with a model such as TrOCR]",
)  # fmt: skip
@click.option("--threshold", type=click.FloatRange(0, 1), help="Leave out lines of less confidence. [default: 0.6]")
@click.option("--straighten/--no-straighten", default=True, help="Turn pages that are not straight. [default: on]")
@click.option(
    "--password", envvar="PYAPP_PDF_PASSWORD", show_envvar=True,
    help="The password of locked PDFs. [default: asked for in a terminal]",
)  # fmt: skip
@click.option(
    "--num-beams", "--beams", type=click.IntRange(1, 64), help="For a model such as TrOCR: hypotheses of a text."
)
@click.option("-n", "--max-new-tokens", type=click.IntRange(min=1), help="For a model such as TrOCR: the most tokens.")
@usual_options
def read(
    files: tuple[str, ...], model: str | None, form: str, tables: bool, layout: str | None, threshold: float | None,
    straighten: bool, password: str | None, dtype: str | None, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Read the printed text in each IMAGE, or PDF, or - for stdin: lines and ruled tables in the order of reading.

    The embedded reader knows print in western European languages. For handwriting name a model such as TrOCR, which
    reads one line, or with --layout page the lines that are found.
    """
    sources = _sources(files)
    password = _password_of(sources, password)
    view: View = JsonView() if as_json else ReadingView(form, files, tables)
    given = {name: value for name, value in options.items() if value is not None}
    if threshold is not None:
        given["threshold"] = threshold
    return forward(
        lambda cancel: tasks.read(
            sources,
            model=model,
            dtype=dtype,
            layout=layout,
            straighten=straighten,
            password=password,
            cancel=cancel,
            **given,
        ),
        view,
    )


__commands__ = {PAGES: (read,)}
