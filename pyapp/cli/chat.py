"""`pyapp chat`: a conversation in the terminal, or line by line through pipes."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyapp import tasks
from pyapp.cli.generation_options import FILE_LIMIT, generation_options, settings_of
from pyapp.cli.grouped import TEXTS, command
from pyapp.cli.options import (
    WORDS,
    adapter_option,
    device_option,
    json_option,
    projector_option,
    server_option,
    threads_option,
)
from pyapp.cli.running import READER_LEFT, forward, model_or_server, refuse_a_text
from pyapp.cli.speak import SpeakJson, SpeakView, write_sound
from pyapp.cli.views import JsonView, StoryView, View, plain
from pyapp.errors import Cancelled, PyappError
from pyapp.events import Cancel, Done, Event, Thought, Token
from pyapp.formats.sink import open_sink
from pyapp.text.generation.options import SamplingOptions

if TYPE_CHECKING:
    from pyapp.text.chat.chat import Conversation

HELP = """\
/system TEXT   set the instructions; without TEXT, remove them
/image FILE    show a picture with the next message, to a model that sees
/audio FILE    play a recording with the next message, to a model that hears
/regenerate    answer the last message again
/undo          remove the last message and its answer
/new           begin a new conversation
/save FILE     write the conversation to a file
/load FILE     go on with a conversation from a file
/help          show this
/exit          leave, as Ctrl-D does
A line that ends in \\ goes on in the next one. Between lines of \"\"\" a message may have any lines.
Ctrl-C stops an answer."""
BLOCK = '"""'


@command()
@click.argument("model", required=False)
@click.option("--system", type=WORDS, metavar="TEXT", help="Instructions before the conversation.")
@click.option("--template", "template_file", type=click.Path(exists=True, dir_okay=False),
              help="A chat template in jinja's language, instead of the model's.")  # fmt: skip
@click.option("--image", "images", type=click.Path(exists=True, dir_okay=False), multiple=True,
              help="A picture to show with the first message, to a model that sees; may be given again.")  # fmt: skip
@click.option("--audio", "recordings", type=click.Path(exists=True, dir_okay=False), multiple=True,
              help="A recording for the first message, to a model that hears; may be given again.")  # fmt: skip
@click.option("--load", "load_file", type=click.Path(), help="Go on with a conversation that /save wrote.")
@click.option("--tokenizer", metavar="FILE", help="The model's tokenizer, if it is not beside the model.")
@click.option("--voice", metavar="MODEL",
              help="A model that speaks the answers, as of pyapp speak, into answer-1.wav, answer-2.wav …")  # fmt: skip
@click.option("--voice-name", metavar="NAME", help="Which of its voices, by its name or its number.")
@click.option("--speech", "folder", type=click.Path(exists=True, file_okay=False, writable=True),
              help="The folder for the spoken answers.  [default: the current folder]")  # fmt: skip
@adapter_option
@projector_option
@server_option
@click.option(
    "--thoughts/--no-thoughts", default=True, help="Show what the model thinks before it answers.  [default: thoughts]"
)
@generation_options(None, several=False)
@device_option
@threads_option
@json_option
def chat(
    model: str | None,
    system: str | None,
    template_file: str | None,
    images: tuple[str, ...],
    recordings: tuple[str, ...],
    load_file: str | None,
    voice: str | None,
    voice_name: str | None,
    folder: str | None,
    tokenizer: str | None,
    adapter: str | None,
    projector: str | None,
    server: str | None,
    thoughts: bool,
    draft: str | None,
    as_json: bool,
    **settings: Any,
) -> int:
    """Talk with a language model.

    MODEL is a file, a folder, or a name such as smollm2-135m-instruct-q8_0 (pyapp models lists some, the hub has more).
    Each line is a message; /help lists the commands. With standard input from a pipe, every line is answered in turn.
    --json prints the events, one per line.
    """
    from pyapp.text.chat.chat import Conversation

    options = settings_of(settings)
    SamplingOptions.from_dict(options)  # what is wrong is told before the model is loaded
    source = Path(template_file).read_text(encoding="utf-8") if template_file else None
    if model is None and server is None:
        raise click.UsageError("Missing argument 'MODEL', or option '--server'.")
    refuse_a_text(model, "Each line of standard input is a message.")
    if voice is None and (voice_name is not None or folder is not None):
        raise click.UsageError("--voice-name and --speech go together with --voice.")
    chosen = {"tokenizer": tokenizer, "adapter": adapter, "projector": projector}
    talk = Talk(model_or_server(model, server), chosen, draft, source, options, as_json, thoughts)
    talk.pictures, talk.recordings = list(images), list(recordings)
    if voice is not None:
        talk.speech = SpokenAnswers(voice, voice_name, Path(folder or "."), as_json)
    if load_file:
        talk.conversation = Conversation.from_json(read_file(load_file), load_file)
    if system is not None:
        talk.conversation.system = system
    return talk.run()


def read_file(name: str) -> str:
    path = Path(name)
    if path.stat().st_size > FILE_LIMIT:
        raise PyappError(f"more than {FILE_LIMIT:,} bytes", where=name)
    return path.read_text(encoding="utf-8-sig")


class ChatView(StoryView):
    """Streams an answer, thoughts dimmed; ends with its figures."""

    def __init__(self, thoughts: bool) -> None:
        super().__init__("")
        self._thoughts = thoughts
        self._thinking = False

    def show(self, event: Event) -> None:
        if isinstance(event, Thought):
            self.close()
            if self._thoughts:
                click.secho(plain(event.text), dim=True, nl=False, err=True)
                self._thinking = True
            return
        if isinstance(event, Token) and event.text and self._thinking:
            click.echo("\n", err=True)
            self._thinking = False
        super().show(event)

    def done(self, event: Done) -> None:
        self._end_line()
        results = event.results
        parts = [f"{results.get('new_tokens', 0)} tokens"]
        if "decode_speed" in self.metrics:
            parts.append(f"{self.metrics['decode_speed'].value:,.0f} tokens/s")
        if "context_size" in results:
            parts.append(f"context {results['context_tokens']:,} of {results['context_size']:,}")
        if event.reason != "stop":
            parts.append(self.REASONS.get(event.reason, event.reason))
        click.secho(f"[{', '.join(parts)}]", dim=True, err=True)


class Keeping(View):
    """Shows events in another view, and keeps the last one."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self.last: Event | None = None

    def show(self, event: Event) -> None:
        self.last = event
        self._view.show(event)
        self.outcome = self._view.outcome

    def close(self) -> None:
        self._view.close()


class SpokenAnswers:
    """Speaks answers by a voice of its own, into a folder. `name`: the name or the number of the model's voice."""

    def __init__(self, model: str, name: str | None, folder: Path, as_json: bool) -> None:
        self._model, self._name, self._folder, self._as_json = model, name, folder, as_json
        self._loaded: Any = None
        self._options: Any = None

    async def load(self, cancel: Cancel) -> AsyncIterator[Event]:
        """Progress. OptionError for a voice that the model has not."""
        from pyapp.audio.speaking import SpeakOptions, named
        from pyapp.tasks.core import Step
        from pyapp.tasks.keeper import Keeper, keeper

        own = Keeper()  # beside the model that writes
        own.device, own.devices = keeper.device, keeper.devices
        async with Step(own.get("speak", self._model, None, None, cancel)) as loading:
            async for event in loading:
                yield event
        self._loaded, name = loading.value, self._name
        number = name is not None and name.isascii() and name.isdecimal() and name not in self._loaded.voices
        self._options = named(
            self._loaded, SpeakOptions(speaker=int(name or 0)) if number else SpeakOptions(voice=name)
        )

    def speak(self, messages: Sequence[Mapping[str, Any]], text: str, writer: Any) -> int:
        """Speaks the answer of the model `writer` to a conversation; the exit code."""
        numbers = (number for number in count(1) if not (self._folder / f"answer-{number}.wav").exists())
        target = self._folder / f"answer-{next(numbers)}.wav"
        view = SpeakJson(target, str(target)) if self._as_json else SpeakView(target)
        return write_sound(
            view,
            lambda cancel: tasks.speak(
                text, self._options, model=self._loaded, reply_to=messages, writer=writer, cancel=cancel
            ),
            target, quietly=True,
        )  # fmt: skip


class Talk:
    """The loop over messages and commands."""

    def __init__(
        self, model: Any, chosen: dict[str, Any], draft: Any, template: str | None, options: dict[str, Any],
        as_json: bool, thoughts: bool,
    ) -> None:  # fmt: skip
        from pyapp.text.chat.chat import Conversation

        self.conversation: Conversation = Conversation()
        self.pictures: list[str] = []  # to be shown with the next message
        self.recordings: list[str] = []  # to be played with it
        self.speech: SpokenAnswers | None = None
        self._model, self._chosen, self._draft, self._template = model, chosen, draft, template
        self._options, self._as_json, self._thoughts = options, as_json, thoughts
        self._typed = sys.stdin is not None and sys.stdin.isatty()
        self._code = 0

    async def _open(self, cancel: Cancel) -> AsyncIterator[Event]:
        """Loads the model. One that cannot chat is refused before somebody writes to it."""
        from pyapp.tasks.chat import NO_TEMPLATE
        from pyapp.text.chat.chat_template import no_template

        files = {name: value for name, value in self._chosen.items() if value is not None}
        needed = (
            self._template is None and not files.keys() - {"tokenizer"} and not isinstance(self._model, tasks.Remote)
        )
        if self.speech is not None:
            try:
                async for event in self.speech.load(cancel):
                    yield event
            except (PyappError, OSError, Cancelled) as error:
                yield tasks.error_event(error)
                return
        loading = tasks.load_chat if needed else tasks.load
        async for event in loading(self._model, cancel=cancel, **files):
            if isinstance(event, Done) and event.results.get("template") is False:
                yield tasks.error_event(no_template())
            elif event != NO_TEMPLATE:  # that is for those who write plain texts instead
                yield event

    def run(self) -> int:
        view: View = JsonView() if self._as_json else View()
        code = forward(self._open, view)
        if code:
            return code
        if self._typed and not self._as_json:
            click.echo("Type a message, or /help.", err=True)
        if self._typed:
            try:
                import readline  # noqa: F401 (gives input() a history)
            except ImportError:
                pass
        for message in self._messages():
            if message.startswith("/"):
                if not self._command(message):
                    break
            elif message.strip():
                self.conversation.ask(message, self.pictures, self.recordings)
                self.pictures, self.recordings = [], []
                if self._answer() == READER_LEFT:
                    return READER_LEFT
        return self._code

    # -- input

    def _messages(self) -> Iterator[str]:
        """Messages and commands until the end of the input."""
        while (line := self._line("> ")) is not None:
            if line.strip().startswith(BLOCK):
                yield self._block(line.strip()[len(BLOCK) :])
                continue
            lines = []
            while line is not None and line.endswith("\\"):
                lines.append(line[:-1])
                line = self._line("… ")
            yield "\n".join([*lines, line or ""])

    def _block(self, first: str) -> str:
        lines: list[str] = []
        line: str | None = first
        while line is not None and not line.rstrip().endswith(BLOCK):
            lines.append(line)
            line = self._line("… ")
        if line is not None:
            lines.append(line.rstrip()[: -len(BLOCK)])
        return "\n".join(lines).strip("\n")

    def _line(self, prompt: str) -> str | None:
        """The next line without its line break; None at the end of the input."""
        while sys.stdin is not None:
            try:
                if self._typed:
                    return input(prompt)
                line = sys.stdin.readline()
                return line.rstrip("\r\n") if line else None
            except EOFError:
                click.echo(err=True)
                return None
            except KeyboardInterrupt:
                if not self._typed:
                    raise
                click.echo("\nCtrl-D leaves.", err=True)
            except UnicodeDecodeError as error:
                self._note(f"standard input is not UTF-8 text ({error.reason})", failed=True)
                return None
        return None

    # -- commands

    def _command(self, line: str) -> bool:
        """Runs a command; False to leave."""
        name, _, rest = line[1:].partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "system": self._system, "regenerate": self._regenerate, "undo": self._undo, "new": self._new,
            "save": self._save, "load": self._load, "image": lambda name: self._attach(self.pictures, name),
            "audio": lambda name: self._attach(self.recordings, name), "help": lambda _: click.echo(HELP, err=True),
        }  # fmt: skip
        if name in ("exit", "quit"):
            return False
        if name not in commands:
            self._note(f"there is no command /{name}; /help lists them", failed=True)
            return True
        try:
            commands[name](rest.strip())
        except PyappError as error:
            self._note(error.message, failed=True)
        except OSError as error:
            self._note(f"{error.filename or rest.strip()}: {(error.strerror or str(error)).lower()}", failed=True)
        except UnicodeError:
            self._note(f"{rest.strip()}: this is not UTF-8 text", failed=True)
        return True

    def _system(self, text: str) -> None:
        self.conversation.system = text
        self._note("instructions set" if text else "instructions removed")

    def _attach(self, files: list[str], name: str) -> None:
        with open(self._named(name), "rb"):  # says what is wrong with the name
            files.append(name)
        self._note(f"{name} goes with the next message")

    def _regenerate(self, _: str) -> None:
        if self.conversation.reopen():
            self._answer()
        else:
            self._note("there is no message to answer", failed=True)

    def _undo(self, _: str) -> None:
        text = self.conversation.undo()
        self._note(
            "there is no message" if text is None else f"removed: {text.splitlines()[0]:.60}", failed=text is None
        )

    def _new(self, _: str) -> None:
        from pyapp.text.chat.chat import Conversation

        system, self.conversation = self.conversation.system, Conversation()
        self.conversation.system = system
        self._note("a new conversation")

    def _save(self, name: str) -> None:
        with open_sink(self._named(name)) as sink:
            sink.write((self.conversation.to_json() + "\n").encode())
        self._note(f"saved to {name}")

    def _load(self, name: str) -> None:
        from pyapp.text.chat.chat import Conversation

        self.conversation = Conversation.from_json(read_file(self._named(name)), name)
        self._note(f"{len(self.conversation.messages)} messages from {name}")

    @staticmethod
    def _named(name: str) -> str:
        if not name:
            raise PyappError("give the name of a file")
        return os.fsdecode(name.encode("utf-8", "surrogateescape"))  # also in a locale without UTF-8

    def _note(self, text: str, failed: bool = False) -> None:
        click.secho(plain(text), fg="red" if failed else None, dim=not failed, err=True)
        self._code = 1 if failed and not self._typed else self._code

    # -- answers

    def _answer(self) -> int:
        """Answers the last message; without success the message is removed."""
        kept = Keeping(JsonView() if self._as_json else ChatView(self._thoughts))
        try:
            code = forward(
                lambda cancel: tasks.chat(
                    self._model, self.conversation.messages, self._options, template=self._template,
                    draft=self._draft, cancel=cancel, **self._chosen,
                    plain=self._chosen["adapter"] is not None,  # it may have learnt to chat without a template
                ),
                kept,
            )  # fmt: skip
        except KeyboardInterrupt:  # a second Ctrl-C
            code = 0
        if isinstance(kept.last, Done) and "text" in kept.last.results:
            text = kept.last.results["text"]
            if self.speech is not None and text.strip() and code != READER_LEFT:
                from pyapp.tasks.keeper import keeper

                spoken = self.speech.speak(self.conversation.messages, text, keeper.loaded)
                self._code = 1 if spoken == 1 and not self._typed else self._code
            self.conversation.answer(kept.last.results["text"], kept.last.results["thoughts"])
        else:
            self.conversation.undo()
            self._code = self._code if self._typed else 1
        return code


__commands__ = {TEXTS: (chat,)}
