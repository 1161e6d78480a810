"""Show events on the command line: text on stdout, everything else on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from pyapp.events import Done, Draft, Error, Event, Item, Metric, Notice, Progress, Token

# Of a terminal: all but tabs and ends of lines.
CONTROLS = dict.fromkeys([code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"], "\ufffd")


def plain(text: str) -> str:
    """The text without control characters, which could do anything to a terminal."""
    return text if text.isprintable() else text.translate(CONTROLS)


class View:
    """Base: progress bars, notes and errors. `outcome` is "error", or the reason of Done, once the task has ended."""

    # Shorter work shows no bar.
    patience = 0.3

    def __init__(self) -> None:
        self.outcome = "unfinished"
        self.metrics: dict[str, Metric] = {}
        self._bars: dict[str, Any] = {}

    def show(self, event: Event) -> None:
        if isinstance(event, Progress):
            self.progress(event)
        elif isinstance(event, Metric):
            self.metrics[event.name] = event
        elif isinstance(event, Notice):
            self.close()
            self.notice(event)
        elif isinstance(event, Error):
            self.outcome = "error"
            self.close()
            self.error(event)
        elif isinstance(event, Done):
            self.outcome = event.reason
            self.close()
            self.done(event)

    def progress(self, event: Progress) -> None:
        """A bar for each kind of countable work, if stderr is a terminal."""
        if not event.unit or not sys.stderr.isatty():
            return
        bar = self._bars.get(event.what)
        if bar is None:
            from tqdm import tqdm  # type: ignore[import-untyped]

            scaled = event.unit == "bytes"
            bar = self._bars[event.what] = tqdm(
                desc=event.what, total=event.total, unit="B" if scaled else f" {event.unit}", unit_scale=scaled,
                unit_divisor=1000, delay=self.patience, leave=False, dynamic_ncols=True, file=sys.stderr,
            )  # fmt: skip
        bar.total = event.total
        bar.update(event.done - bar.n)
        if event.done == event.total:
            self._bars.pop(event.what).close()

    def notice(self, event: Notice) -> None:
        self._told("note", "yellow", event)

    def error(self, event: Error) -> None:
        self._told("error", "red", event)

    @staticmethod
    def _told(kind: str, color: str, event: Notice | Error) -> None:
        text = f"{event.where}: {event.what}" if event.where else event.what
        click.secho(plain(f"{kind}: {text}"), fg=color, err=True)
        if event.hint:
            click.echo(plain(f"  {event.hint}"), err=True)

    def done(self, event: Done) -> None:
        """Shows the results."""

    def close(self) -> None:
        """Removes the bars."""
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()


class SilentView(View):
    """Shows nothing: of the processes that compute one task together the first tells."""

    def show(self, event: Event) -> None:
        if isinstance(event, (Error, Done)):
            self.outcome = "error" if isinstance(event, Error) else event.reason


class JsonView(View):
    """One event per line, with the fields of `extra` added; ASCII if the terminal or file is not UTF-8."""

    def __init__(self, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.extra = dict(extra or {})

    def show(self, event: Event) -> None:
        plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        print(json.dumps({**event.to_dict(), **self.extra}, ensure_ascii=plain), flush=True)
        if isinstance(event, (Error, Done)):
            self.outcome = "error" if isinstance(event, Error) else event.reason


def cells(text: str) -> int:
    """The columns of a terminal that a line takes."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


class StoryView(View):
    """Streams the text; ends with its figures. A Draft is shown behind it where someone watches: as much of its first
    line as there is room for.
    """

    REASONS = {
        "stop": "the text ended",
        "length": "reached the length",
        "context": "the context is full",
        "stop_string": "met a stop text",
        "cancelled": "stopped",
        "complete": "all texts ended",
    }

    def __init__(self, prompt: str) -> None:
        super().__init__()
        self._prompt = prompt
        self._last = ""
        self._column = 0
        self._drawn = False
        self._watched = sys.stdout.isatty() and sys.stderr.isatty()

    def show(self, event: Event) -> None:
        if isinstance(event, Draft):
            self._draw(event.text)
            return
        self._erase()
        if isinstance(event, Token):
            self.close()
            self._write(event.text)
            return
        if isinstance(event, Progress) and event.what == "prompt" and event.done == event.total:
            self.close()
            self._write(self._prompt)
        super().show(event)

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._last = text[-1]
            *lines, last = text.split("\n")
            self._column = cells(last) + (0 if lines else self._column)

    def _draw(self, draft: str) -> None:
        """Shows a draft on standard error, behind the text, and puts the cursor back."""
        if not self._watched:
            return
        width = shutil.get_terminal_size().columns
        room = width - 1 - self._column % width
        line = plain(draft).replace("\n", " ").replace("\t", " ")
        while line and cells(line) > room:
            line = line[:-1]
        back = f"\x1b[{cells(line)}D" if line else ""
        sys.stderr.write(f"\x1b[K{line}{back}")
        sys.stderr.flush()
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write("\x1b[K")
            sys.stderr.flush()
            self._drawn = False

    def error(self, event: Error) -> None:
        self._end_line()
        super().error(event)

    def _end_line(self) -> None:
        if self._last not in ("", "\n"):
            self._write("\n")

    def done(self, event: Done) -> None:
        self._end_line()
        count = event.results.get("new_tokens", 0)
        parts = [f"{count} tokens"]
        if "decode_speed" in self.metrics:
            parts.append(f"{self.metrics['decode_speed'].value:,.0f} tokens/s")
        if "time_to_first_token" in self.metrics:
            parts.append(f"first after {self.metrics['time_to_first_token'].value * 1000:,.0f} ms")
        if "prompt_speed" in self.metrics:
            speed = self.metrics["prompt_speed"].value
            parts.append(f"prompt of {event.results['prompt_tokens']} at {speed:,.0f} tokens/s")
        if "seed" in event.results:
            parts.append(f"seed {event.results['seed']}")
        parts.append(self.REASONS.get(event.reason, event.reason))
        click.echo(f"[{', '.join(parts)}]", err=True)


class SeveralView(StoryView):
    """Several texts, one after another, when all are complete."""

    def show(self, event: Event) -> None:
        if not isinstance(event, Token):
            View.show(self, event)

    def done(self, event: Done) -> None:
        for number, text in enumerate(event.results.get("texts", ()), 1):
            score = f", log-probability {text['score']:.2f} for its length" if "score" in text else ""
            seed = f", seed {text['seed']}" if "seed" in text else ""
            click.echo(f"[{number}: {self.REASONS.get(text['reason'], text['reason'])}{seed}{score}]", err=True)
            click.echo(self._prompt + text["text"])
        super().done(event)


class InspectView(View):
    """A model file's contents as tables."""

    def done(self, event: Done) -> None:
        results = event.results
        click.echo(f"{results['file']}: {results['format']}, {size(results['size'])}")
        if "quantization" in results:
            click.echo(f"quantised: {results['quantization']}")
        for title in ("config", "metadata"):
            if results[title]:
                click.echo(f"\n{title}")
                print_table([(name, readable(value)) for name, value in results[title].items()])
        if results["tensors"]:
            click.echo("\ntensors")
            print_table(
                [
                    (
                        entry["name"],
                        entry["dtype"],
                        " × ".join(map(str, entry["shape"])) or "scalar",
                        size(entry["bytes"]),
                    )
                    for entry in results["tensors"]
                ]
            )
        if results["classes"]:
            click.echo("\nclasses and functions that loading it in Python would use (nothing of them was run)")
            print_table([(name,) for name in results["classes"]])
        totals = results["totals"]
        click.echo(f"\n{totals['tensors']} tensors, {totals['parameters']:,} parameters, {size(totals['bytes'])}")


COMMANDS_OF = {
    "causal-lm": "chat, generate", "text-diffusion": "chat, generate",
    "features": "embed", "masked-lm": "fill-mask", "question-answering": "answer",
    "seq2seq-lm": "translate", "sequence-classification": "classify, rerank", "token-classification": "label",
    "image-classification": "classify-image", "image-to-text": "caption, read", "image-text-to-text": "chat --image",
    "mask-generation": "segment --point, --box", "object-detection": "detect", "semantic-segmentation": "segment",
    "zero-shot-object-detection": "detect --labels", "zero-shot-semantic-segmentation": "segment --labels",
    "zero-shot-image-classification": "classify-image --labels, embed-image", "speech-recognition": "transcribe",
    "depth-estimation": "depth", "pose-estimation": "pose", "visual-document-retrieval": "rank-pages, embed-pages",
    "text-to-speech": "speak", "audio-classification": "classify-sound", "audio-xvector": "embed-sound",
    "audio-frame-classification": "label-sound",
    "zero-shot-audio-classification": "classify-sound --labels, embed-sound", "audio-text-to-text": "chat --audio",
    "text-to-audio": "compose", "image-to-image": "upscale", "video-classification": "classify-video",
    "time-series-forecasting": "forecast", "visual-question-answering": "answer-image",
    "keypoint-detection": "key-points", "keypoint-matching": "match-points",
}  # fmt: skip


class ModelsView(View):
    """Names, tasks, sizes and descriptions of models; known architectures. In a terminal the lines fit its width."""

    def done(self, event: Done) -> None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
        entries = event.results["models"]
        known = [{**entry, "size": size(entry["bytes"]) if entry["bytes"] else ""} for entry in entries]
        table = [[entry[name] for name in ("id", "task", "size", "kind")] for entry in known]
        told = [[entry["title"], entry["description"]] for entry in known]
        lines = table_lines([[*row, *text] for row, text in zip(table, told, strict=True)])
        if max(map(len, lines)) > width:
            short = zip(table_lines(table), told, strict=True)
            lines = [line for row, text in short for line in (row, *wrapped(": ".join(text), width, "      "))]
        click.echo("\n".join(lines))
        click.echo("\nArchitectures of Hugging Face's folders, by what a command needs:")
        for task, names in event.results["architectures"].items():
            commands = f" ({COMMANDS_OF[task]})" if task in COMMANDS_OF else ""
            click.echo("\n" + "\n".join(wrapped(f"{task}{commands}: {', '.join(names)}", width)))


class QuantizeView(View):
    """The written file, with its types."""

    def done(self, event: Done) -> None:
        if event.reason == "cancelled":
            click.echo("stopped; nothing was written", err=True)
            return
        results = event.results
        types = ", ".join(f"{count} {name}" for name, count in results["types"].items())
        click.echo(f"{results['file']}: {size(results['size'])}, from {size(results['source_size'])} ({types})")


class TrainView(View):
    """A bar with the latest losses on a terminal, else a line at intervals; then the results."""

    patience = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._training: Progress | None = None

    def progress(self, event: Progress) -> None:
        if not event.unit:
            click.echo(f"{event.what} …", err=True)
        elif event.what == "training":
            self._training = event
        super().progress(event)

    def show(self, event: Event) -> None:
        super().show(event)
        if not isinstance(event, Metric) or self._training is None:
            return
        bar = self._bars.get(self._training.what)
        if bar is not None and event.name in ("loss", "held_out_loss"):
            bar.set_postfix(self._losses(), refresh=False)
        elif bar is None and event.name == "time_left":
            losses = "".join(f"  {name} {value}" for name, value in self._losses().items())
            steps = f"step {self._training.done:.0f} of {self._training.total:.0f}"
            click.echo(f"{steps}{losses}  {event.value / 60:.1f} min left", err=True)

    def _losses(self) -> dict[str, str]:
        known = {"loss": "loss", "held_out_loss": "held out", "held_out_word_error_rate": "word errors"}
        return {title: f"{self.metrics[name].value:.3f}" for name, title in known.items() if name in self.metrics}

    def done(self, event: Done) -> None:
        if event.reason == "cancelled":
            place = f" at step {event.results['step']}" if "step" in event.results else ""
            click.echo(f"stopped{place}; the same command continues", err=True)
            return
        self.results(event.results)

    def results(self, results: Mapping[str, Any]) -> None:
        click.echo(f"{results['folder']}: {results['parameters']:,} parameters, {size(results['size'])} as int8")
        click.echo(f"{results['steps']:,} steps, {results['tokens']:,} tokens, {results['stories']:,} stories")
        click.echo("held-out loss, nats")
        print_table(
            [
                (name, f"{values['nats_per_token']:.4f} per token", f"{values['nats_per_byte']:.4f} per byte")
                for name, values in results["held_out_losses"].items()
            ]
        )


class SpeechTrainView(TrainView):
    """The same for the speech model."""

    def results(self, results: Mapping[str, Any]) -> None:
        click.echo(f"{results['folder']}: {results['parameters']:,} parameters, {size(results['size'])} as int8")
        click.echo(f"{results['steps']:,} steps, {results['windows']:,} windows, {results['hours']:.1f} hours of sound")
        click.echo(f"held-out loss {results['held_out_loss']:.4f} nats per token")


class ReaderTrainView(TrainView):
    """The same for the reader of printed lines."""

    def results(self, results: Mapping[str, Any]) -> None:
        click.echo(f"{results['folder']}: {results['parameters']:,} parameters, {size(results['size'])} as float16")
        click.echo(f"{results['steps']:,} steps, {results['lines']:,} lines")
        errors = ", ".join(f"{100 * error:.2f} % {name}" for name, error in results["character_errors"].items())
        click.echo(f"characters wrong in fonts that training has not seen: {errors}")


def size(count: float) -> str:
    """A number of bytes in readable units."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.5 or unit == "GB":
            break
    return f"{count:.3g} {unit}"


def readable(value: Any) -> str:
    """One line; long values cut short."""
    text = " ".join(str(value).split())
    return text if len(text) <= 100 else text[:99] + "…"


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines of at most `width` characters; words are not broken."""
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded to their widest entry."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip() for row in rows
    ]


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Prints table_lines."""
    for line in table_lines(rows):
        click.echo(line)


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
