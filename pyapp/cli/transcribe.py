"""`pyapp transcribe`: recordings to text, subtitles and data, with openai-whisper's option names."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pyapp import tasks
from pyapp.audio.options import AUTO, TASKS, TranscribeOptions
from pyapp.audio.subtitles import Layout
from pyapp.audio.transcript import Transcript
from pyapp.audio.transcript_writers import FORMATS, write_transcript
from pyapp.cli.grouped import SOUNDS, GroupedCommand
from pyapp.cli.options import device_option, json_option, threads_option
from pyapp.cli.running import STOPPED, forward
from pyapp.cli.streams import stdin_until
from pyapp.cli.transcript_views import LoadJson, TranscribeJson, TranscribeView
from pyapp.cli.views import JsonView, View
from pyapp.errors import OptionError, PyappError
from pyapp.events import Cancel
from pyapp.text.generation.options import SEEDS

DEFAULTS = TranscribeOptions()
STDIN = "-"
SPEAKERS = "--speakers"
ALL = "all"
BEAM = 5  # openai-whisper's command uses beam search, its function does not


class WhisperNames(GroupedCommand):
    """Accepts openai-whisper's spellings too: underscores in names, and switches as `--word_timestamps True`. The value
    of --speakers may be left out.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(self._respelt(args)))

    def _respelt(self, args: Sequence[str]) -> Iterator[str]:
        options = [parameter for parameter in self.params if isinstance(parameter, click.Option)]
        switches = {name for option in options if option.secondary_opts for name in option.opts}
        valued = {name for option in options if not option.is_flag for name in option.opts}
        waiting = iter(args)
        after: list[str] = []
        while (arg := after.pop() if after else next(waiting, None)) is not None:
            if arg == "--":
                yield from (arg, *waiting)
                return
            if not arg.startswith("--"):
                yield arg
                continue
            name, equals, value = arg.partition("=")
            name = name.replace("_", "-")
            if name in switches:
                if not equals and (follows := next(waiting, None)) is not None:
                    value, after = (follows, []) if follows.lower() in ("true", "false") else ("", [follows])
                yield f"--no-{name[2:]}" if value.lower() == "false" else name
                continue
            if name == SPEAKERS and not equals:
                follows = next(waiting, None)
                counts = follows is not None and (follows == AUTO or follows.isdecimal())
                yield f"{name}={follows if counts else AUTO}"
                after = [follows] if follows is not None and not counts else []
                continue
            yield name + equals + value
            if name in valued and not equals and (follows := next(waiting, None)) is not None:
                yield follows


class OrNone(click.ParamType):
    """A number, or the word None."""

    def __init__(self, numbers: click.ParamType) -> None:
        self._numbers = numbers
        self.name = numbers.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if str(value).lower() == "none" else self._numbers.convert(value, param, ctx)


WHOLE, NUMBER = OrNone(click.INT), OrNone(click.FLOAT)


def setting(name: str, text: str, kind: Any = NUMBER, **more: Any) -> Callable[[Any], Any]:
    """An option for one of TranscribeOptions, with its default."""
    default = getattr(DEFAULTS, name.removeprefix("--").replace("-", "_"))
    shown = {"default": default, "help": text} | more
    return click.option(name, type=kind, **{"show_default": shown["default"] is not None, **shown})


def switch(name: str, text: str) -> Callable[[Any], Any]:
    default = getattr(DEFAULTS, name.replace("-", "_"))
    return click.option(f"--{name}/--no-{name}", default=default, show_default=True, help=text)


def decoding_settings(command: Any) -> Any:
    """openai-whisper's options for decoding."""
    for option in reversed([
        click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True,
                     help="0 takes the most likely token; the first of several temperatures, see the increment."),
        click.option("--temperature-increment-on-fallback", type=NUMBER, default=0.2, show_default=True,
                     help="Added to the temperature when a bad window is tried again; None: never."),
        setting("--best-of", "Attempts at temperatures above 0.", WHOLE),
        setting("--beam-size", "Hypotheses at temperature 0; None takes one, greedily.", WHOLE, default=BEAM),
        setting("--patience", "Beam search: hypotheses that must end, as a multiple of its size."),
        setting("--length-penalty", "Length penalty of hypotheses, 0 to 1. [default: by their mean]"),
        setting("--suppress-tokens", "Ids that are never written, with commas; -1: annotations of sounds.", str),
        setting("--initial-prompt", "Text before the first window: names, spellings, style.", str),
        switch("carry-initial-prompt", "Give the initial prompt to every window."),
        switch("condition-on-previous-text", "Use the text so far as the prompt of each window."),
        setting("--compression-ratio-threshold", "Above it a text repeats itself, and is tried again."),
        setting("--logprob-threshold", "Below this mean log-probability a text is tried again."),
        setting("--no-speech-threshold", "Above this probability, an unlikely text is silence."),
        switch("word-timestamps", "Find the time of each word (JSON has them)."),
        setting("--prepend-punctuations", "Punctuation joined to the next word.", str, show_default=False),
        setting("--append-punctuations", "Punctuation joined to the previous word.", str, show_default=False),
        setting("--clip-timestamps", "start,end,start,… in seconds: only these parts.", str),
        setting("--hallucination-silence-threshold", "With word times: skip longer silence around odd words."),
        click.option("--max-line-width", type=WHOLE, help="Subtitles of words: characters in a line."),
        click.option("--max-line-count", type=WHOLE, help="Subtitles of words: lines shown together."),
        click.option("--max-words-per-line", type=WHOLE, help="Subtitles of words: words shown together."),
        click.option("--highlight-words/--no-highlight-words", default=False, show_default=True,
                     help="Subtitles of words: underline each as it is spoken."),
        switch("skip-silence", "Begin windows at speech."),
        setting("--language-detection-segments", "Windows of 30 s that may be heard to detect the language.",
                click.IntRange(1)),
        switch("multilingual", "Detect the language in each window."),
        setting("--language-detection-threshold", "A language that is more probable in a window is taken at once.",
                click.FloatRange(0, 1)),
        setting("--speaker-threshold", "Voices with this cosine distance (0 to 2) are two speakers.", click.FLOAT),
        setting("--seed", "Seed of the attempts above temperature 0.", click.IntRange(0, SEEDS - 1)),
    ]):  # fmt: skip
        command = option(command)
    return command


@click.command(cls=WhisperNames)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-m", "--model", help="A name (see pyapp models), a folder or a file. [default: the embedded model]")
@click.option("--model-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Folder to find models in and download them to. [default: the hub's cache]")  # fmt: skip
@click.option("--language", help="Spoken language, as code or name. [default: detected]")
@click.option("--task", type=click.Choice(TASKS), default=DEFAULTS.task, show_default=True,
              help="translate writes English from any language.")  # fmt: skip
@click.option("-f", "--format", "--output-format", "formats", type=click.Choice([*FORMATS, ALL]), multiple=True,
              help="What to write; several times for several. [default: txt, into a folder all]")  # fmt: skip
@click.option("-o", "--output-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Write files named like the recordings here. [default: to stdout]")  # fmt: skip
@click.option("--verbose/--no-verbose", default=False,
              help="With an output folder: write the text to stdout, too, as it is decoded.")  # fmt: skip
@device_option
@click.option("--fp16/--no-fp16", default=True, hidden=True,
              help="An option of openai-whisper without effect here: weights keep their type.")  # fmt: skip
@click.option("--vad", help="What finds speech, so that windows begin there: energy, silero, or a network like "
              "Silero's: a name on the hub, an address or an ONNX file.")  # fmt: skip
@click.option(SPEAKERS, metavar="[auto|N]",
              help="Tell speakers apart, and name them in all formats; N: how many there are.")  # fmt: skip
@click.option("--speaker-model", help="The network for speakers: a name on the hub, an address or an ONNX file. "
              "[default: WeSpeaker's ResNet34]")  # fmt: skip
@decoding_settings
@threads_option
@json_option
def transcribe(
    files: tuple[str, ...],
    model: str | None,
    model_dir: Path | None,
    formats: tuple[str, ...],
    output_dir: Path | None,
    verbose: bool,
    fp16: bool,
    vad: str | None,
    speaker_model: str | None,
    as_json: bool,
    **settings: Any,
) -> int:
    """Transcribe recordings, "-" for one on stdin.

    WAVE files are always read; MP3, FLAC, Ogg and others with pip install 'pyapp[audio]', M4A, MP4, WebM and others
    with pip install 'pyapp[media]'. Without --output-dir the text goes to stdout, as it is decoded; with it, the names
    of the files. openai-whisper's spellings of the options are accepted too. With --word-timestamps a segment ends
    where the speaker changes. Exit code 1: some file could not be transcribed.
    """
    layout = as_layout(settings)
    options = as_options(settings)
    if speaker_model is not None and options.speakers is None:
        raise click.BadParameter("needs --speakers.", param_hint="--speaker-model")
    beside = networks_in(vad, speaker_model, model_dir) if vad is not None or options.speakers else {}
    folder = Path() if ALL in formats and output_dir is None else output_dir
    wanted = list(FORMATS) if ALL in formats or (folder and not formats) else list(dict.fromkeys(formats)) or ["txt"]
    check_files(files, wanted, folder, as_json)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    readable = [file for file in files if file == STDIN or can_be_read(file, as_json)]
    if not readable:
        return 1
    source = in_folder(model, model_dir)
    if code := load(source, as_json):
        return code
    failed = len(readable) < len(files)
    shown = wanted[0] if folder is None else "txt" if verbose else None
    for file in readable:
        view = make_view(file, shown, layout, as_json, several=len(files) > 1)
        code = forward(start(file, options, source, beside), view)
        heard = view.transcript()
        saved = code == 1 or folder is None or save(heard, folder, file, wanted, layout, code == STOPPED, as_json)
        failed |= code == 1 or not saved
        if code not in (0, 1):
            return code
    return int(failed)


def as_options(settings: dict[str, Any]) -> TranscribeOptions:
    """The settings as options; wrong ones are wrong usage."""
    temperature, step = settings.pop("temperature"), settings.pop("temperature_increment_on_fallback")
    heat = [temperature]
    while step and heat[-1] + step < 1.0 + 1e-6:
        heat.append(round(heat[-1] + step, 6))
    try:
        return TranscribeOptions.from_dict({**settings, "temperature": tuple(heat)})
    except OptionError as error:
        raise wrong_usage(error) from None


def as_layout(settings: dict[str, Any]) -> Layout | None:
    """Removes the settings of subtitles and returns them; None if there are none."""
    try:
        layout = Layout(**{entry.name: settings.pop(entry.name) for entry in fields(Layout)})
        if layout == Layout():
            return None
        if not settings["word_timestamps"]:
            name = next(entry.name for entry in fields(Layout) if getattr(layout, entry.name))
            raise OptionError("needs --word-timestamps", where=name)
        return layout
    except OptionError as error:
        raise wrong_usage(error) from None


def wrong_usage(error: OptionError) -> click.BadParameter:
    text = f"{error.what}. {error.hint}" if error.hint else error.what
    return click.BadParameter(text, param_hint=f"--{error.where.replace('_', '-')}" if error.where else None)


def check_files(files: Sequence[str], formats: Sequence[str], folder: Path | None, as_json: bool) -> None:
    """Usage errors that would lose a transcript."""
    if files.count(STDIN) > 1 or (STDIN in files and (sys.stdin is None or sys.stdin.isatty())):
        raise click.BadParameter('stdin ("-") holds one recording: pipe it in.', param_hint="FILE")
    if folder is None and not as_json:
        if len(formats) > 1:
            raise click.BadParameter("only one format fits stdout: give --output-dir.", param_hint="--format")
        if len(files) > 1 and formats[0] not in ("txt", "json"):
            text = f"{formats[0]} of several files does not fit stdout: give --output-dir."
            raise click.BadParameter(text, param_hint="--format")
    if folder is not None:
        if folder.suffix[1:] in FORMATS and not folder.exists():
            text = f"{folder} must be a folder: for one file write -f {folder.suffix[1:]} > {folder}"
            raise click.BadParameter(text, param_hint="--output-dir")
        for name, count in Counter(stem(file) for file in files).items():
            if count > 1:
                same = " and ".join(file for file in files if stem(file) == name)
                text = f"{same} would all be written to {folder / name}.{formats[0]}: transcribe them one by one."
                raise click.BadParameter(text, param_hint="FILE")


def stem(file: str) -> str:
    """The name of the output files of a recording, without suffix."""
    return "stdin" if file == STDIN else Path(file).stem


def can_be_read(file: str, as_json: bool) -> bool:
    """Whether a file is a recording. Shows the error if it is not, before a model is loaded."""
    from pyapp.audio import open_audio
    from pyapp.tasks import error_event

    try:
        open_audio(file).close()
        return True
    except (OSError, PyappError) as error:
        view: View = JsonView({"file": file}) if as_json else View()
        view.show(error_event(error))
        return False


def in_folder(model: str | None, folder: Path | None) -> Any:
    """The model to load: a name, a path, or None."""
    from pyapp.hub import NameIn

    if folder is None or model is None or Path(model).expanduser().exists():
        return model
    return NameIn(model, folder)


def networks_in(vad: str | None, speaker_model: str | None, folder: Path | None) -> dict[str, Any]:
    """The networks to load: names, paths, or None. Those without a path are found in the folder, if there is one."""
    from pyapp.hub import networks
    from pyapp.tasks.speech_networks import ENERGY, SILERO, SPEAKERS

    if folder is not None:
        vad = networks()[SILERO] if vad == SILERO else vad
        speaker_model = speaker_model or networks()[SPEAKERS]
    return {
        "vad": vad if vad == ENERGY else in_folder(vad, folder),
        "speaker_model": in_folder(speaker_model, folder),
    }


def load(model: Any, as_json: bool) -> int:
    """Loads the model; the exit code if that fails, or if Ctrl-C came, though it be at the very end."""
    stops: list[Cancel] = []

    def begin(cancel: Cancel) -> Any:
        stops.append(cancel)
        return tasks.load_speech(model, cancel=cancel)

    code = forward(begin, LoadJson() if as_json else View())
    return code or (STOPPED if stops[0].is_set() else 0)


def start(file: str, options: TranscribeOptions, model: Any, beside: dict[str, Any]) -> Callable[[Cancel], Any]:
    return lambda cancel: tasks.transcribe(
        stdin_until(cancel) if file == STDIN else file, options, model=model, cancel=cancel, **beside
    )


def make_view(
    file: str, shown: str | None, layout: Layout | None, as_json: bool, several: bool
) -> TranscribeJson | TranscribeView:
    name = "stdin" if file == STDIN else file
    if as_json:
        return TranscribeJson(name)
    return TranscribeView(name, shown, layout, several)


def save(
    transcript: Transcript,
    folder: Path,
    file: str,
    formats: Sequence[str],
    layout: Layout | None,
    stopped: bool,
    as_json: bool,
) -> bool:
    """Writes a transcript's files, each complete or not at all, and prints their names; False if that failed. A partial
    transcript is written under another name, so that it is not mistaken for a complete one.
    """
    if stopped and not transcript.segments:
        return True
    name = f"{stem(file)}.partial" if stopped else stem(file)
    for format in formats:
        path = folder / f"{name}.{format}"
        try:
            write_transcript(path, transcript, format, layout)
        except (OSError, PyappError) as error:
            from pyapp.tasks import error_event

            View().show(error_event(error))
            return False
        click.echo(path, err=stopped or as_json)
    return True


__commands__ = {SOUNDS: (transcribe,)}
