"""Rows of tokens from the user's files: conversations, questions with answers, and plain text.

A .jsonl file has an object in each line, a .json file may be a list of them: {"messages": [{"role": …, "content": …},
…]} (and perhaps "tools"), {"prompt": …, "completion": …}, {"instruction": …, "input": …, "output": …} or {"text": …}.
Any other file is plain text; lines with <|endoftext|> alone separate its documents. A file of preferences has
{"prompt": …, "chosen": …, "rejected": …} in each line, or {"prompt": …, "completion": …, "label": true or false}, of
texts or lists of messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import FileFormatError, PyappError
from pyapp.formats.safe_json import parse_json
from pyapp.formats.source import open_regular
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.chat.plain_chat import PlainChat
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.train.token_rows import IGNORED

SEPARATOR = "<|endoftext|>"
FILE_LIMIT = 4 << 30  # bytes
TO_UTF8 = "Convert the file to UTF-8"
LINE_LIMIT = 16 << 20  # bytes of a line of JSON
LIST_LIMIT = 256 << 20  # bytes of a file that is one list: it is in memory as a whole
FORMS = (
    '{"messages": […]}, {"prompt": …, "completion": …}, {"instruction": …, "output": …}, {"text": …}, '
    '{"prompt": …, "chosen": …, "rejected": …} or {"prompt": …, "completion": …, "label": true or false}'
)


@dataclass(frozen=True)
class Row:
    """Token ids, and from each place whether its token is to be learnt (one byte each)."""

    ids: array[int]
    wanted: bytes

    @property
    def targets(self) -> int:
        """The number of tokens to be learnt; the first token has none before it."""
        return self.wanted[1:].count(1)

    def cut(self, length: int) -> Row:
        return self if len(self.ids) <= length else Row(self.ids[:length], self.wanted[:length])

    def answered_as(self, other: Row) -> Row:
        """What stands before the answer, with the answer of another row."""
        own, their = self.wanted.index(1), other.wanted.index(1)
        return Row(self.ids[:own] + other.ids[their:], self.wanted[:own] + other.wanted[their:])

    def padded_targets(self) -> list[int]:
        """The targets of all tokens but the last: the next id, or IGNORED."""
        return [token if wanted else IGNORED for token, wanted in zip(self.ids[1:], self.wanted[1:], strict=True)]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two answers to a prompt, each after the prompt, of which the first is preferred."""

    chosen: Row
    rejected: Row

    @property
    def ids(self) -> array[int]:
        """All that the model reads."""
        return self.chosen.ids + self.rejected.ids

    @property
    def targets(self) -> int:
        """What the pair weighs in a mean of losses."""
        return 1

    def apart(self) -> tuple[Judged, Judged]:
        """The answers alone: a good one and one that is not."""
        return Judged(self.chosen, True), Judged(self.rejected, False)


@dataclass(frozen=True, eq=False)
class Judged:
    """An answer after its prompt, and whether it is a good one."""

    row: Row
    good: bool

    @property
    def ids(self) -> array[int]:
        """All that the model reads."""
        return self.row.ids

    @property
    def targets(self) -> int:
        """What the answer weighs in a mean of losses."""
        return 1


Example = Row | Pair | Judged
ANSWERS: dict[type[Example], tuple[str, ...]] = {Row: (), Pair: ("chosen", "rejected"), Judged: ("completion",)}


@dataclass(frozen=True)
class Examples:
    """The rows of a file, its pairs or its judged answers: `kind` says which. `prompts`: how some of them begin, for
    samples; `cut`: how many were longer than a row; `without_answer`: how many conversations had nothing to be learnt;
    `chats`: whether there are conversations.
    """

    rows: list[Any]
    prompts: list[tuple[str, list[int]]]
    cut: int
    without_answer: int
    chats: bool
    kind: type[Example] = Row


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    found = sha256()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def read_examples(path: Path, tokenizer: Tokenizer, length: int) -> Examples:
    """The rows, pairs or judged answers of a file, of up to `length` + 1 tokens. FileFormatError names the line that is
    not valid.
    """
    template = ChatTemplate(tokenizer) if tokenizer.settings.get("chat_template") else PlainChat(tokenizer)
    rows: list[Example] = []
    prompts: list[tuple[str, list[int]]] = []
    stream = array("i")  # plain text, packed
    cut = without_answer = 0
    chats = False
    kind: type[Example] | None = None  # until the first line says it
    for where, entry in _entries(path):
        if kind not in (None, _kind_of(entry)):
            raise FileFormatError(
                "the file has both preferences and other examples", where=where, hint="Put them into files of their own"
            )
        kind = _kind_of(entry)
        if kind is Row and "text" in entry:
            stream.extend(_document(tokenizer, entry["text"]))
            continue
        answers = [entry[name] for name in ANSWERS[kind]]
        chats = chats or "messages" in entry or any(isinstance(answer, list) for answer in answers)
        found: list[Row] = []
        prompt: tuple[str, list[int]] | None
        try:
            if answers:
                judged, prompt = _answered(template, tokenizer, entry, answers)
                short = [row.cut(length + 1) for row in judged]
                cut += any(row is not whole for row, whole in zip(short, judged, strict=True))
                if all(row.targets for row in short):
                    rows.append(Pair(*short) if kind is Pair else Judged(short[0], entry["label"]))
                else:
                    without_answer += 1
            else:
                found, prompt = _conversation(template, entry) if "messages" in entry else _completion(tokenizer, entry)
                without_answer += not found
        except FileFormatError:
            raise
        except PyappError as error:
            raise FileFormatError(error.what, where=where, hint=error.hint) from error
        prompts += [prompt] if prompt is not None and len(prompts) < 16 and len(prompt[1]) < length else []
        for row in found:
            kept = row.cut(length + 1)
            cut += kept is not row
            if kept.targets:
                rows.append(kept)
            else:
                without_answer += 1
    if not prompts and len(stream) > 8:
        begin = list(stream[: min(8, len(stream) // 2)])
        prompts.append((tokenizer.decode(begin), begin))
    for start in range(0, len(stream) - 1, length):
        ids = stream[start : start + length + 1]
        rows.append(Row(ids, b"\1" * len(ids)))
    if not rows:
        raise _nothing(path, without_answer, cut)
    return Examples(rows, prompts, cut, without_answer, chats, kind or Row)


def _nothing(path: Path, without_answer: int, cut: int) -> FileFormatError:
    """The error of a file without rows, of so many examples: some may have been cut."""
    what, hint = "there is nothing to learn in this file", f"Lines are {FORMS}"
    if without_answer:
        what += f": {without_answer:,} example{'s' * (without_answer != 1)} without an answer of the assistant"
        hint = 'The messages of an answer have the role "assistant"'
    if cut:
        what += f", {cut:,} of them longer than --length"
        hint = "Raise --length, so that it reaches into the answers"
    return FileFormatError(what, where=str(path), hint=hint)


def _kind_of(entry: Mapping[str, Any]) -> type[Example]:
    if "chosen" in entry:
        return Pair
    return Judged if "completion" in entry and isinstance(entry.get("label"), bool) else Row


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of each line of JSON, or {"text": …} of each document of plain text."""
    check_size(path)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        yield from ((where, _checked(value, where)) for where, value in json_lines(path))
        return
    document: list[str] = []
    with BufferedReader(open_regular(path)) as file:
        for number, line in enumerate(file, 1):
            text = _decoded(line, path, number)
            if text.strip() == SEPARATOR:
                yield f"{path}, line {number}", {"text": "".join(document)}
                document = []
            else:
                document.append(text)
    yield str(path), {"text": "".join(document)}


def check_size(path: Path) -> None:
    """FileFormatError for a file that is too large."""
    if path.stat().st_size > FILE_LIMIT:
        raise FileFormatError(f"the file has more than {FILE_LIMIT:,} bytes", where=str(path), hint="Split it")


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"not UTF-8 text ({error.reason})", where=f"{path}, line {number}", hint=TO_UTF8
        ) from None


def json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, value) of each line of a file of JSON lines, or of each value of a .json file that is one list.
    FileFormatError names the line that is not valid.
    """
    with BufferedReader(open_regular(path)) as file:
        if path.suffix.lower() == ".json" and file.peek(64)[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            yield from _json_list(file.read(LIST_LIMIT + 1), path)
            return
        number = 0
        while line := file.readline(LINE_LIMIT + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(line) > LINE_LIMIT:
                raise FileFormatError(f"the line has more than {LINE_LIMIT:,} bytes", where=where)
            text = _decoded(line, path, number)
            if not text.strip():
                continue
            try:
                value = parse_json(text)
            except ValueError as error:
                hint = "The file has one JSON object in each line"
                raise FileFormatError(f"not valid JSON: {error}", where=where, hint=hint) from None
            yield where, value


def _json_list(data: bytes, path: Path) -> Iterator[tuple[str, Any]]:
    """(place, value) of each value of a list in JSON."""
    if len(data) > LIST_LIMIT:
        hint = "Write one object in each line instead, into a .jsonl file"
        raise FileFormatError(f"the list has more than {LIST_LIMIT:,} bytes", where=str(path), hint=hint)
    try:
        values = parse_json(_decoded(data, path, 1))
    except ValueError as error:
        if isinstance(error, FileFormatError):
            raise
        hint = "The file is a list of JSON objects, or has one in each line"
        raise FileFormatError(f"not valid JSON: {error}", where=str(path), hint=hint) from None
    yield from ((f"{path}, example {number}", value) for number, value in enumerate(values, 1))


def _checked(entry: Any, where: str) -> dict[str, Any]:
    """The object in a line, in one of the forms."""
    if isinstance(entry, dict) and "instruction" in entry and "output" in entry:
        parts = [part for part in (entry["instruction"], entry.get("input")) if part]
        if other := next((part for part in parts if not isinstance(part, str)), None):
            what = f"`instruction` and `input` are texts, not {other!r:.50}"
            raise FileFormatError(what, where=where, hint="Write numbers in quotation marks")
        asked = "\n\n".join(parts)
        roles = (("system", entry.get("system")), ("user", asked), ("assistant", entry["output"]))
        entry = {"messages": [{"role": role, "content": part} for role, part in roles if part is not None]}
    if isinstance(entry, dict):
        tools = entry.get("tools")
        if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
            hint = "Write the objects themselves, not their JSON as a text"
            raise FileFormatError(f"`tools` is a list of objects, not {tools!r:.50}", where=where, hint=hint)
        label = entry.get("label")
        if "completion" in entry and not isinstance(label, bool | None):  # bad answers are not to be learnt
            hint = "Write true for a good answer and false for another; or leave the labels out, and all are learnt"
            raise FileFormatError(f"the label is true or false, not {label!r:.50}", where=where, hint=hint)
        if names := ANSWERS[_kind_of(entry)]:
            prompt, *answers = (entry.get(key) for key in ("prompt", *names))
            if all(isinstance(text, str) for text in (prompt, *answers)):
                return entry
            without = prompt is None and len(answers) > 1  # it is what both begin with
            if all(_are_messages(answer) for answer in answers) and (without or _are_messages(prompt)):
                return entry
        elif isinstance(entry.get("text"), str) or all(isinstance(entry.get(k), str) for k in ("prompt", "completion")):
            return entry
        elif _are_messages(entry.get("messages")):
            return entry
    raise FileFormatError("the line is not an example", where=where, hint=f"Lines are {FORMS}")


def _are_messages(given: Any) -> bool:
    """Whether a value is a list of messages with roles."""
    return isinstance(given, list) and all(
        isinstance(message, dict)
        and isinstance(message.get("role"), str)
        and (isinstance(message.get("content"), str) or message.get("tool_calls"))
        for message in given
    )


def _document(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a document, with the tokens that begin and end a text."""
    return tokenizer.encode(text, eos=True, parse_special=False) if text.strip() else []


def _completion(tokenizer: Tokenizer, entry: Mapping[str, Any]) -> tuple[list[Row], tuple[str, list[int]] | None]:
    """The row of a prompt and its completion, which alone is learnt."""
    before = tokenizer.encode(entry["prompt"], eos=False, parse_special=False)
    return [_completed(tokenizer, entry["prompt"], entry["completion"], before)], (entry["prompt"], before)


def _completed(tokenizer: Tokenizer, prompt: str, completion: str, before: Sequence[int]) -> Row:
    """A prompt, whose ids are `before`, and a completion, with the token that ends a text."""
    whole = tokenizer.encode(prompt + completion, eos=True, parse_special=False)
    known = _common(before, whole)
    return Row(array("i", whole), b"\0" * known + b"\1" * (len(whole) - known))


def _answered(
    template: ChatTemplate | PlainChat, tokenizer: Tokenizer, entry: Mapping[str, Any], answers: Sequence[Any]
) -> tuple[list[Row], tuple[str, list[int]]]:
    """The rows of answers. What two lists of messages begin with is the prompt, if the entry has none."""
    prompt = entry.get("prompt")
    if isinstance(prompt, str):
        before = tokenizer.encode(prompt, eos=False, parse_special=False)
        return [_completed(tokenizer, prompt, answer, before) for answer in answers], (prompt, before)
    if prompt is None:
        same = _common(*answers)
        prompt, answers = answers[0][:same], [answer[same:] for answer in answers]
    tools = entry.get("tools")
    asked = template.encode_guarded(template.render_guarded(prompt, tools))
    stops = template.stop_ids()
    rows = []
    for answer in answers:
        ids = template.encode_guarded(template.render_guarded([*prompt, *answer], tools, add_generation_prompt=False))
        known = _common(asked, ids)
        end = next((i + 1 for i in reversed(range(known, len(ids))) if ids[i] in stops), len(ids))
        rows.append(Row(array("i", ids), b"\0" * known + b"\1" * (end - known) + b"\0" * (len(ids) - end)))
    return rows, (_question(prompt), asked)


def _conversation(
    template: ChatTemplate | PlainChat, entry: Mapping[str, Any]
) -> tuple[list[Row], tuple[str, list[int]] | None]:
    """The rows of a conversation, of which the assistant's answers are learnt up to the token that ends a turn.

    One row has all turns, unless the template changes earlier turns when later ones follow: then each answer has a row.
    """
    messages, tools = entry["messages"], entry.get("tools")
    stops = template.stop_ids()
    rows: list[Row] = []
    first: tuple[str, list[int]] | None = None
    ids: list[int] = []
    wanted = bytearray()
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked = template.encode_guarded(template.render_guarded(messages[:place], tools))
        answered = template.encode_guarded(
            template.render_guarded(messages[: place + 1], tools, add_generation_prompt=False)
        )
        if first is None:
            first = _question(messages[:place]), asked
        if answered[: len(ids)] != ids:
            rows.append(Row(array("i", ids), bytes(wanted)))
            ids, wanted = [], bytearray()
        known = max(len(ids), _common(asked, answered))
        end = next((i + 1 for i in range(known, len(answered)) if answered[i] in stops), len(answered))
        wanted += b"\0" * (known - len(ids)) + b"\1" * (end - known) + b"\0" * (len(answered) - end)
        ids = answered
    if ids:
        rows.append(Row(array("i", ids), bytes(wanted)))
    return rows, first


def _question(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the user said last."""
    return str(next((turn["content"] for turn in reversed(messages) if turn["role"] == "user"), ""))


def _common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """The number of ids, or messages, that both begin with."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))
