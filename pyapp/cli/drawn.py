"""Where the pictures that a command makes go: with what was found drawn in them, or made anew."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click

from pyapp import tasks
from pyapp.events import Item
from pyapp.formats.sink import open_sink


def drawn_files(files: Sequence[str], folder: str | None) -> list[Path]:
    """Where the drawn pictures go: files of their names in a folder, which is made. UsageError if two have one name."""
    if folder is None:
        return []
    found = [Path(folder) / f"{Path(file).stem}.png" for file in files]
    if len(set(found)) < len(found):
        raise click.UsageError("two pictures have the same name: give them to two commands, with two folders.")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{folder}: {error.strerror or error}.", param_hint="--output-dir") from None
    return found


def made_files(files: Sequence[str], target: str | None) -> list[Path]:
    """Where what is made of pictures goes: a file, where `target` names a PNG and there is one picture, else a
    folder.
    """
    if target is None or Path(target).suffix.lower() != ".png" or Path(target).is_dir():
        return drawn_files(files, target)
    if len(files) > 1:
        raise click.UsageError(f"{target} is one file, and there are {len(files)} pictures: give a folder.")
    if not Path(target).parent.is_dir():
        raise click.BadParameter(f"there is no folder {Path(target).parent}.", param_hint="--output")
    return [Path(target)]


def png_writer(targets: Sequence[Path]) -> Callable[[int, Any], None]:
    """What writes the PNG file of each picture to its place, if there are any."""

    def write(index: int, values: Any) -> None:
        if targets:
            with open_sink(targets[index]) as sink:
                sink.write(base64.b64decode(values["png"]))

    return write


def drawer(files: Sequence[str], folder: str | None, drawn: Callable[[Any, Any], Any]) -> Callable[[int, Any], None]:
    """What writes a picture with what was found to its place in the folder, if there is one. drawn: a picture and the
    values of its Item → the picture to write, (H, W, 3).
    """
    targets = drawn_files(files, folder)

    def draw(index: int, values: Any) -> None:
        if targets:
            from pyapp.formats.png import encode_png
            from pyapp.vision import read_image

            with open_sink(targets[index]) as sink:
                sink.write(encode_png(drawn(read_image(files[index]), values).numpy()))

    return draw


def drawing(start: Callable[..., Any], draw: Callable[[int, Any], None]) -> Callable[..., Any]:
    """The task `start`; `draw` gets each Item's index and values first, and its errors become the last event."""

    @tasks.task
    async def stream(cancel: Any) -> Any:
        async with aclosing(start(cancel=cancel)) as events:
            async for event in events:
                if isinstance(event, Item):
                    draw(event.index, event.values)
                yield event

    return stream


folder_option = click.option(
    "-o", "--output-dir", "folder", type=click.Path(), help="Also write each picture with what was found, as PNG."
)
target_option = click.option(
    "-o", "--output", "--output-dir", "target", type=click.Path(),
    help="Where the pictures go, as PNG: a folder, or of one picture a file NAME.png.",
)  # fmt: skip
