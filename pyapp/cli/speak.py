"""`pyapp speak`: texts to files of sound. The names of the files on stdout, everything else on stderr."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.grouped import SOUNDS, command
from pyapp.cli.items import optional_model
from pyapp.cli.options import WORDS, device_option, json_option, server_option, threads_option, type_option
from pyapp.cli.running import check_folder_of, forward
from pyapp.cli.texts import chosen_model, read_text
from pyapp.cli.views import JsonView, View
from pyapp.errors import OptionError
from pyapp.events import Done, Event, Sound
from pyapp.formats.sink import open_sink

STDIN = STDOUT = "-"
DEFAULT = "speech.wav"
FASTEST = 10  # as pyapp.audio.speaking has it, which the help need not import


class SpeakView(View):
    """Collects the samples of a text, or writes them to standard output as they come."""

    kind = "speech"

    def __init__(self, output: Path | None) -> None:
        super().__init__()
        self.output, self.pcm, self.rate = output, bytearray(), 0
        self._start = time.perf_counter()

    def show(self, event: Event) -> None:
        if not isinstance(event, Sound):
            super().show(event)
        elif self.output is not None:
            self.keep(event)
        else:
            self._pass_on(event)

    def keep(self, sound: Sound) -> None:
        """Adds the samples to those so far."""
        self.rate = sound.rate
        self.pcm += sound.pcm

    def _pass_on(self, sound: Sound) -> None:
        from pyapp.audio.wav import wav_head

        data = b"" if self.rate else wav_head(sound.rate)
        self.rate = sound.rate
        sys.stdout.buffer.write(data + sound.pcm)
        sys.stdout.buffer.flush()

    def done(self, event: Done) -> None:
        if event.reason == "complete":
            seconds = time.perf_counter() - self._start
            click.echo(f"[{event.results['duration']:.1f} s of {self.kind} in {seconds:.1f} s]", err=True)


class SpeakJson(SpeakView):
    """One event per line, without the samples: the file has them."""

    def __init__(self, output: Path | None, file: str | None) -> None:
        super().__init__(output)
        self._json = JsonView({} if file is None else {"file": file})

    def show(self, event: Event) -> None:
        if isinstance(event, Sound):
            self.keep(event)
            event = Sound(event.text, event.start, event.end, event.rate, b"")
        self._json.show(event)
        self.outcome = self._json.outcome


@command(short_help="Speak texts.")
@click.argument("text", required=False, type=WORDS)
@click.option("-f", "--file", "files", multiple=True, type=click.Path(allow_dash=True),
              help='A UTF-8 file to speak, "-" for stdin; may be given again.')  # fmt: skip
@click.option("-o", "--output", default=DEFAULT, show_default=True,
              help="The file to write (.wav; .mp3, .flac and .opus with pip install 'pyapp[audio]'), or a folder for "
              'WAVE files named like the texts; "-": a WAVE file on stdout, sentence by sentence.')  # fmt: skip
@optional_model("facebook/mms-tts-eng")
@click.option("--codec", metavar="MODEL",
              help="The codec of a model that writes codes (of Orpheus hubertsiuzdak/snac_24khz, of Llasa "
              "HKUSTAudio/xcodec2-hf), or the vocoder of "
              "SpeechT5. [default: of SpeechT5 microsoft/speecht5_hifigan, of MetaVoice "
              "facebook/encodec_24khz]")  # fmt: skip
@click.option("--voices", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="The vectors of voices (.npy or .safetensors): of SpeechT5 512 numbers each, of "
              "MetaVoice 256. Of Pocket TTS and VibeVoice, a recording of a voice (.wav).")  # fmt: skip
@click.option("--speaker", type=click.IntRange(min=0), default=0, show_default=True,
              help="The number of the voice, for models that have several.")  # fmt: skip
@click.option("--voice", metavar="NAME",
              help="Its name, of models whose voices have names; or of several: af_heart,af_bella.")  # fmt: skip
@click.option("--voice-description", "description", metavar="TEXT",
              help="What the voice and the recording sound like, for Parler-TTS: 'Jon speaks fast, in a small "
              "room.'")  # fmt: skip
@click.option("--rate", type=click.FloatRange(0.1, FASTEST), default=1.0, show_default=True,
              help="How fast: 2 is twice the model's own rate.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed gives the same sound."
)
@click.option("--noise", type=click.FloatRange(0, 10), help="How much the sound varies. [default: the model's]")
@click.option("--noise-duration", type=click.FloatRange(0, 10),
              help="How much the lengths of sounds vary. [default: the model's]")  # fmt: skip
@click.option("--pause", type=click.FloatRange(0, 60), default=0.2, show_default=True,
              help="Seconds between two sentences.")  # fmt: skip
@click.option("--phonemes", is_flag=True, help="The text has phonemes (IPA), which some models read.")
@type_option
@device_option
@server_option
@threads_option
@json_option
def speak(
    text: str | None, files: tuple[str, ...], output: str, model: str | None, codec: str | None,
    voices: str | None, dtype: str | None, server: str | None, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Speak TEXT ("-": from stdin) with a model such as facebook/mms-tts-eng, into a file.

    Each sentence is computed by itself, so a text may have any length. After Ctrl-C what was spoken so far is kept as
    NAME.partial.wav. Voices of MMS read letters: write numbers as words. Models with phonemize in their
    tokenizer_config.json, such as kakao-enterprise/vits-vctk, read phonemes: espeak-ng -q --ipa=1 writes them, and pip
    install 'pyapp[phonemes]' makes them of texts. With
    --codec the model is a language model, such as canopylabs/orpheus-3b-0.1-ft, whose voices are tara, leah, jess, leo,
    dan, mia, zac and zoe: 0 to 7 for --speaker. hexgrad/Kokoro-82M reads phonemes, or texts with pip install
    'pyapp[phonemes]', in the language of the --voice: af_heart, bm_george, ff_siwis and others. For English ones the
    dictionary in misaki is enough: pip install --no-deps misaki.
    microsoft/speecht5_tts speaks in the voices of --voices, and reads letters. parler-tts/parler-tts-mini-v1 speaks as
    --voice-description says; a name in it (Laura, Gary, Jon, Lea …) keeps the voice from sentence to sentence.
    lmz/candle-metavoice speaks in the voice of a vector, its own or that of --voices.
    """
    if text == STDIN:
        text, files = None, (*files, STDIN)
    if (text is None) == (not files):
        raise click.UsageError(
            "Give a text, or files by --file." if text is None else "Give a text or --file, not both."
        )
    if files.count(STDIN) > 1:
        raise click.BadParameter("stdin holds one text.", param_hint="--file")
    chosen = chosen_model(model, server)
    targets = targets_of(files, output, as_json)
    texts = [text] if text is not None else [read_text(file, "--file") for file in files]
    for number, (target, content) in enumerate(zip(targets, texts, strict=True)):
        file = files[number] if files else None
        code = _speak(content or "", target, chosen, codec, voices, dtype, options, as_json, file)
        if code:
            return code
    return 0


def targets_of(files: tuple[str, ...], output: str, as_json: bool) -> list[Path | None]:
    """Where the texts are written; None: standard output. Wrong usage before a model speaks for minutes."""
    from pyapp.audio.sound_files import BY_SUFFIX, check_format

    def wrong(what: str) -> click.BadParameter:
        return click.BadParameter(what, param_hint="--output")

    if output == STDOUT:
        if len(files) > 1 or as_json:
            raise wrong("standard output takes one text, and no --json: name a file or a folder.")
        if sys.stdout.isatty():
            raise wrong("standard output is a terminal: name a file, or pipe the sound to a player.")
        return [None]
    path = Path(output)
    if path.is_dir():
        stems = ["stdin" if file == STDIN else Path(file).stem for file in files] or [Path(DEFAULT).stem]
        if len({*stems}) < len(stems):
            raise wrong("several texts would have the same file: speak them one by one.")
        return [path / f"{stem}.wav" for stem in stems]
    if len(files) > 1:
        raise wrong(f"{output}: several texts need a folder that is there.")
    if path.suffix.lower() not in BY_SUFFIX:
        raise wrong(f"{output}: sound is written as {', '.join(BY_SUFFIX)}: name it {path.stem}.wav.")
    try:
        check_format(BY_SUFFIX[path.suffix.lower()])
    except OptionError as error:
        raise wrong(f"{error.what}. {error.hint}.") from None
    check_folder_of(path, wrong)
    return [path]


def _speak(
    text: str, target: Path | None, model: Any, codec: str | None, voices: str | None, dtype: str | None,
    options: dict[str, Any], as_json: bool, file: str | None,
) -> int:  # fmt: skip
    """Speaks one text; the exit code."""
    view = SpeakJson(target, file) if as_json else SpeakView(target)
    return write_sound(
        view,
        lambda cancel: tasks.speak(text, options, model=model, codec=codec, voices=voices, dtype=dtype, cancel=cancel),
        target,
        as_json,
    )


def write_sound(view: SpeakView, events: Any, target: Path | None, quietly: bool) -> int:
    """Runs the task `events(cancel)` and writes the sound that `view` has kept of it; the exit code. `quietly`: the
    file's name goes to stderr.
    """
    code = forward(events, view)
    if target is None or code == 1 or not view.pcm:
        return code
    from pyapp.audio.sound_files import BY_SUFFIX, encoded

    path = target if code == 0 else target.with_stem(f"{target.stem}.partial")
    data = encoded(view.pcm, view.rate, BY_SUFFIX[target.suffix.lower()])
    with open_sink(path) as sink:
        sink.write(data)
    click.echo(path, err=quietly or code != 0)
    return code


__commands__ = {SOUNDS: (speak,)}
